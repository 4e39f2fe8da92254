// D = epilogue(A @ B) on tensor cores, for A (m, k) and B (k, n) of 16-bit floats in batches: sums in float, and the epilogue an
// elementwise expression of the sum and of operands that broadcast to (m, n). Along one of its two axes a factor is contiguous,
// in rows that begin at multiples of 16 bytes.
// Launch: warps_m * warps_n warps; blockIdx.x numbers the tiles of tile_m by tile_n, in bands of << band >> rows of tiles, so that
// blocks that run at a time share factors in the L2 cache; blockIdx.y the matrices of the batch.
// Shared, dynamic: `stages` slabs of depth << depth >> of both factors. While one is multiplied the next are on their way
// (cp.async, sm_80 and up); chunks of 16 bytes lie where ldmatrix reads eight rows of them without bank conflicts.
<% include "prelude/copy_async.cuh" %>
<% include "prelude/mma.cuh" %>
using T = << elem >>;
using index = << index >>;
constexpr int tile_m = << tile_m >>, tile_n = << tile_n >>, depth = << depth >>, stages = << stages >>, band = << band >>;
constexpr int warps_m = << warps_m >>, warps_n = << warps_n >>, threads = 32 * warps_m * warps_n;
constexpr int warp_m = tile_m / warps_m, warp_n = tile_n / warps_n;
constexpr int chunk = 16 / sizeof(T);  // elements of an access
constexpr bool pairs = << "true" if pairs else "false" >>;  // rows of D are aligned to two elements
// The shape of the product, and the steps through the batch and between the rows that are contiguous, in elements.
struct Sizes {
    index batch_a, batch_b, row_a, row_b;
    int m, n, k, tiles_m, tiles_n;
};
// The operands beside the sum, with their steps through the batch, the rows and the columns; and an element of D.
struct Steps {
    index of[<< [operands | length, 1] | max >>][3];
};
struct Epilogue {
<% for x in operands %>
    const << x.type >>* x<< x.k >>;
<% endfor %>
    Steps steps;

    __device__ __forceinline__ index place(int x, int batch, int row, int column) const {
        return batch * steps.of[x][0] + row * steps.of[x][1] + column * steps.of[x][2];
    }
    __device__ __forceinline__ T operator()(float a0, int batch, int row, int column) const {
<% for x in operands %>
        const << x.compute >> a<< x.k >> = cast< << x.compute >> >(x<< x.k >>[place(<< loop.index0 >>, batch, row, column)]);
<% endfor %>
<% for line in body %>
        const << line.type >> << line.name >> = << line.code >>;
<% endfor %>
        return cast<T>(<< value >>);
    }
};

// A slab of a factor in shared memory: `size` rows or columns of the product, `depth` deep; BY_DEPTH where it is contiguous
// along the depth.
template <int SIZE, bool BY_DEPTH>
struct Slab {
    static constexpr int rows = BY_DEPTH ? SIZE : depth, chunks = (BY_DEPTH ? depth : SIZE) / chunk;
    T* memory;

    __device__ __forceinline__ T* at(int row, int place) const {
        return memory + (row * chunks + (place ^ row % 8)) * chunk;
    }
    // What lies beyond the matrix is zeros.
    __device__ __forceinline__ void load(const T* from, index step, int first, int size, int k, int k_end) const {
        const int row_0 = BY_DEPTH ? first : k, rows_end = BY_DEPTH ? size : k_end;
        const int column_0 = BY_DEPTH ? k : first, columns_end = BY_DEPTH ? k_end : size;
#pragma unroll
        for (int i = threadIdx.x; i < rows * chunks; i += threads) {
            const int row = row_0 + i / chunks, column = column_0 + i % chunks * chunk;
            const int there = row < rows_end ? min(max(columns_end - column, 0), chunk) : 0;
            copy_async_or_zeros(at(i / chunks, i % chunks), there ? from + row * step + column : from, there * sizeof(T));
        }
    }
    // Four matrices of 8 by 8: of places first and first + 8, and of depths k and k + 8; the depths change first if DEPTHS_FIRST.
    template <bool DEPTHS_FIRST>
    __device__ __forceinline__ void fragments(unsigned (&to)[4], int first, int k) const {
        const int lane = threadIdx.x % 32, low = lane / 8 % 2, high = lane / 16;
        const int place = first + 8 * (DEPTHS_FIRST ? high : low), inner = k + 8 * (DEPTHS_FIRST ? low : high);
        if constexpr (BY_DEPTH) load_matrices(to, at(place + lane % 8, inner / chunk));
        else load_matrices_transposed(to, at(inner + lane % 8, place / chunk));
    }
};
using SlabA = Slab<tile_m, << "true" if a_by_depth else "false" >>>;
using SlabB = Slab<tile_n, << "true" if b_by_depth else "false" >>>;
constexpr int stage_size = (tile_m + tile_n) * depth;

extern "C" __global__ void __launch_bounds__(threads) << name >>(
    const T* a, const T* b, <% for x in operands %>const << x.type >>* x<< x.k >>, <% endfor %>T* d, Sizes sizes, Steps steps)
{
    const Epilogue epilogue{<% for x in operands %>x<< x.k >>, <% endfor %>steps};
    extern __shared__ __align__(128) unsigned char shared[];
    const int batch = blockIdx.y, in_band = band * sizes.tiles_n;
    const int first_tile = int(blockIdx.x) / in_band * band, band_m = min(band, sizes.tiles_m - first_tile);
    const int m0 = (first_tile + int(blockIdx.x) % in_band % band_m) * tile_m, n0 = int(blockIdx.x) % in_band / band_m * tile_n;
    a += batch * sizes.batch_a;
    b += batch * sizes.batch_b;
    d += (index)batch * sizes.m * sizes.n;
    const int slabs = divide_up(sizes.k, depth);
    T* const first_stage = (T*)shared;
    const auto load = [&](int i, T* stage) {
        if (i < slabs) {
            SlabA{stage}.load(a, sizes.row_a, m0, sizes.m, i * depth, sizes.k);
            SlabB{stage + tile_m * depth}.load(b, sizes.row_b, n0, sizes.n, i * depth, sizes.k);
        }
        commit_copies();
    };
    for (int i = 0; i < stages - 1; ++i) load(i, first_stage + i * stage_size);

    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int warp_row = warp / warps_n * warp_m, warp_column = warp % warps_n * warp_n;
    float sums[warp_m / 16][warp_n / 8][4] = {};
    // Of two neighbouring steps along the depth: those of the next are loaded before this one is multiplied.
    unsigned of_a[2][warp_m / 16][4], of_b[2][warp_n / 16][4];
    const auto fragments = [&](const T* stage, int k) {
        const int turn = k / 16 % 2;
#pragma unroll
        for (int x = 0; x < warp_m / 16; ++x)
            SlabA{(T*)stage}.template fragments<false>(of_a[turn][x], warp_row + 16 * x, k);
#pragma unroll
        for (int y = 0; y < warp_n / 16; ++y)
            SlabB{(T*)stage + tile_m * depth}.template fragments<true>(of_b[turn][y], warp_column + 16 * y, k);
    };
    T *stage = first_stage, *free_stage = first_stage + (stages - 1) * stage_size;
    const auto next = [&](T* one) { return one == first_stage + (stages - 1) * stage_size ? first_stage : one + stage_size; };
    for (int i = 0; i < slabs; ++i) {
        wait_copies<stages - 2>();
        __syncthreads();
        fragments(stage, 0);
        load(i + stages - 1, free_stage);
#pragma unroll
        for (int k = 0; k < depth; k += 16) {
            if (k + 16 < depth) fragments(stage, k + 16);
#pragma unroll
            for (int x = 0; x < warp_m / 16; ++x)
#pragma unroll
                for (int y = 0; y < warp_n / 8; ++y) {
                    const unsigned(&pair)[4] = of_b[k / 16 % 2][y / 2];
                    const unsigned own_b[2] = {pair[y % 2 * 2], pair[y % 2 * 2 + 1]};
                    mma<T>(sums[x][y], of_a[k / 16 % 2][x], own_b);
                }
        }
        stage = next(stage);
        free_stage = next(free_stage);
    }
    wait_copies<0>();
#pragma unroll
    for (int x = 0; x < warp_m / 16; ++x)
#pragma unroll
        for (int y = 0; y < warp_n / 8; ++y)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int row = m0 + warp_row + 16 * x + 8 * half + lane / 4;
                const int column = n0 + warp_column + 8 * y + lane % 4 * 2;
                if (row >= sizes.m || column >= sizes.n) continue;
                T* to = d + (index)row * sizes.n + column;
                const float *own = sums[x][y] + 2 * half;
                const bool both = column + 1 < sizes.n;
                T made[2] = {epilogue(own[0], batch, row, column), T(0)};
                if (both) made[1] = epilogue(own[1], batch, row, column + 1);
                if constexpr (pairs) *(unsigned*)to = *(const unsigned*)made;
                else {
                    to[0] = made[0];
                    if (both) to[1] = made[1];
                }
            }
}
