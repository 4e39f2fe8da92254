// Tiles of D = epilogue(A @ B): how they are stored, and k-blocks of the factors in shared memory. A kernel says by the type of its
// sizes how many rows (m) and columns (n) D has, and where a row begins.
<% include "linear/epilogue.cuh" %>
<% include "lib/transpose.cuh" %>
<% include "prelude/in_registers.cuh" %>
constexpr int tile_m = << tile_m >>, tile_n = << tile_n >>, depth = << depth >>, stages = << stages >>, band = << band >>;
constexpr int threads = << block >>;
constexpr int chunk = 16 / sizeof(T), line = 8 * chunk;  // elements of an access, and of eight, which have 128 bytes
constexpr bool wide = << "true" if wide else "false" >>;  // rows of D begin at multiples of 16 bytes
constexpr bool a_by_depth = << "true" if a_by_depth else "false" >>, b_by_depth = << "true" if b_by_depth else "false" >>;
// Epilogue of the 16 rows and COLUMNS columns of a warp from (row, column) on: put(half, x, values) gets elements of
// row 8 * half + g, the pairs from columns x + 2 * q, x + 2 * q + 8 and so on. Lane 4 * g + q has the sums of rows g and g + 8,
// for each eight columns those of columns 2 * q and 2 * q + 1: of the first row, then of the second.
template <int COLUMNS, class To, class Ends, class Sizes, class Put>
__device__ __forceinline__ void finish(
    const Ends& epilogue, const Sizes& sizes, int batch, int row, int column, const float (&sums)[COLUMNS / 2], Put put)
{
    const int q = threadIdx.x % 4;
#pragma unroll
    for (int x = 0; x < COLUMNS; x += 32) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int in_row = minimum(row + 8 * half + int(threadIdx.x) % 32 / 4, sizes.m - 1);
            Operands of[4][2];  // all loads are issued before any store
#pragma unroll
            for (int i = 0; i < 8; ++i)
                of[i / 2][i % 2] = epilogue.load(batch, in_row, minimum(column + x + i / 2 * 8 + 2 * q + i % 2, sizes.n - 1));
            alignas(8) To values[4][2];
#pragma unroll
            for (int i = 0; i < 8; ++i)
                values[i / 2][i % 2] = epilogue(sums[(x / 8 + i / 2) * 4 + 2 * half + i % 2], of[i / 2][i % 2]);
            put(half, x, values);
        }
    }
}
// The same, stored to D.
template <int COLUMNS, class Ends, class To, class Sizes>
__device__ __forceinline__ void store(
    const Ends& epilogue, To* d, const Sizes& sizes, int batch, int row, int column, const float (&sums)[COLUMNS / 2])
{
    const int q = threadIdx.x % 4, g = threadIdx.x % 32 / 4;
    if constexpr (!wide && sizeof(To) == 2) {
        // All are rounded before any is stored: ptxas has products of warpgroups wait for each other otherwise.
        unsigned pairs[2][COLUMNS / 8];
        finish<COLUMNS, To>(epilogue, sizes, batch, row, column, sums, [&](int half, int x, const To(&values)[4][2]) {
#pragma unroll
            for (int i = 0; i < 4; ++i) pairs[half][x / 8 + i] = in_register(*(const unsigned*)values[i]);
        });
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int own = row + 8 * half + g;
            if (own >= sizes.m) continue;
            To* const to = d + sizes.row(own);
#pragma unroll
            for (int i = 0; i < COLUMNS / 8; ++i) {
                const int first = column + i * 8 + 2 * q;
                const To* const two = (const To*)&pairs[half][i];
                if (first < sizes.n) to[first] = two[0];
                if (first + 1 < sizes.n) to[first + 1] = two[1];
            }
        }
        return;
    }
    finish<COLUMNS, To>(epilogue, sizes, batch, row, column, sums, [&](int half, int x, const To(&values)[4][2]) {
        const int own = row + 8 * half + g;
        To* const to = d + sizes.row(own);
        if constexpr (wide && sizeof(To) == 4) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int first = column + x + i * 8 + 2 * q;
                if (own < sizes.m && first < sizes.n) *(uint2*)(to + first) = *(const uint2*)values[i];
            }
        } else if constexpr (wide) {
            uint4 pack;
            unsigned(&words)[4] = (unsigned(&)[4])pack;
#pragma unroll
            for (int i = 0; i < 4; ++i) words[i] = *(const unsigned*)values[i];
            transpose(words);
            const int first = column + x + 8 * q;
            if (own < sizes.m && first < sizes.n) *(uint4*)(to + first) = pack;
        } else {
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                const int there = column + x + i / 2 * 8 + 2 * q + i % 2;
                if (own < sizes.m && there < sizes.n) to[there] = values[i / 2][i % 2];
            }
        }
    });
}

// A k-block of a factor in shared memory: SIZE rows or columns of the product, `depth` deep, contiguous along the depth if
// BY_DEPTH. It consists of blocks of 128-byte lines. Chunk c of line l lies at c ^ (l % 8), so that eight neighbouring lines
// are read at the same chunk without bank conflicts.
template <int SIZE, bool BY_DEPTH>
struct KBlock {
    static constexpr int lines = BY_DEPTH ? SIZE : depth, chunks = (BY_DEPTH ? depth : SIZE) / chunk;
    static constexpr int block = lines * line;
    T* memory;

    __device__ __forceinline__ T* at(int row, int place) const {
        return memory + place / 8 * block + row * line + (place % 8 ^ row % 8) * chunk;
    }
};

using KBlockA = KBlock<tile_m, a_by_depth>;
using KBlockB = KBlock<tile_n, b_by_depth>;
constexpr int stage_size = (tile_m + tile_n) * depth;
