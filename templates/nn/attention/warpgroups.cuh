// Products of tiles of 16-bit elements by the warpgroups of sm_90a, from tiles that the hardware's copies bring. The heads of
// queries are apart: a row is a query. Warp w of a warpgroup has rows 16 * w to 16 * w + 15 of a result, and lane 4 * g + q of
// it, of rows g and g + 8, columns 2 * q and 2 * q + 1 of each eight.
<% include "nn/attention/attention.cuh" %>
<% include "lib/transpose.cuh" %>
<% include "prelude/packs.cuh" %>
<% include "prelude/tensor_map.cuh" %>
<% include "prelude/warp_roles.cuh" %>
<% include "prelude/wgmma.cuh" %>
static_assert(group == 1, "the heads of queries are apart");
constexpr int line = 64;  // elements of 128 bytes
constexpr int stages = << stages >>, workers = << workers >>;  // warpgroups that multiply
// Features that are multiplied; a tile has whole lines of them, with zeros beyond those of a head.
constexpr int head_width = (head_size + 15) / 16 * 16, value_width = (value_size + 15) / 16 * 16;
constexpr int head_lines = (head_size + line - 1) / line * line, value_lines = (value_size + line - 1) / line * line;

// The order in which tiles are begun, so that the keys of the heads at work stay in the L2: heads in sections, in each tile
// after tile.
struct Order {
    int heads, section;  // heads of all batches, and those of a section
};
// Tile `turn` of this block, whose blocks go to and fro, as tiles that are begun first take longest.
struct Turn {
    long long number;

    __device__ __forceinline__ explicit Turn(int turn)
        : number((long long)turn * gridDim.x + (turn % 2 ? gridDim.x - 1 - blockIdx.x : blockIdx.x)) {}
    __device__ __forceinline__ bool there(const Sizes& sizes, const Order& order) const {
        return number < (long long)order.heads * sizes.tiles;
    }
    // Of the first head among every so many.
    template <int HEADS>
    __device__ __forceinline__ Place place(const Sizes& sizes, const Order& order) const {
        const int section = int(number / ((long long)order.section * sizes.tiles)) * order.section;
        const int width = minimum(order.section, order.heads - section), heads = sizes.heads / HEADS;
        const int rest = int(number - (long long)section * sizes.tiles), head = section + rest % width;
        Place at(sizes, nullptr, head / heads, head % heads * HEADS);
        at.tile = rest / width;
        return at;
    }
};

// A tile in shared memory consists of blocks of 64 features, in each of which a row is a line whose chunks change places.
// Asks for COUNT rows of a head, from `first` on; beyond the end they are zeros.
template <int COUNT, int FEATURES>
__device__ __forceinline__ void bring(T* to, const TensorMap& map, int batch, int head, int first, MBarrier* full) {
#pragma unroll
    for (int e = 0; e < FEATURES; e += line) copy_tile(to + e * COUNT, map, {batch, head, first, e}, full);
}
// By each of the warps that have been waited for with the barrier.
__device__ __forceinline__ void arrive(MBarrier* barrier) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) mbarrier_arrive(barrier);
}
// Tiles in shared memory, and how many of them a warpgroup has had.
struct Stages {
    T* memory;
    MBarrier *full, *empty;
    int size, number;

    __device__ __forceinline__ int stage() const { return number % stages; }
    __device__ __forceinline__ T* tile() const { return memory + stage() * size; }
    __device__ __forceinline__ void wait_full() const { mbarrier_wait(&full[stage()], number / stages % 2); }
    __device__ __forceinline__ void wait_empty() const { mbarrier_wait(&empty[stage()], number / stages % 2 ^ 1); }
    __device__ __forceinline__ void release() {
        arrive(&empty[stage()]);
        ++number;
    }
};
// Starts d = a @ b.T, for 64 rows of a tile of ROWS from `a` on, and the rows of a tile of COLUMNS.
template <int DEPTH, int ROWS, int COLUMNS>
__device__ __forceinline__ void multiply_rows(float (&d)[COLUMNS / 2], const T* a, const T* b) {
    const SharedMatrix left(a, 16, 8 * line * sizeof(T)), right(b, 16, 8 * line * sizeof(T));
#pragma unroll
    for (int k = 0; k < DEPTH; k += 16) {
        SharedMatrix from_a = left, from_b = right;
        from_a += (k / line * line * ROWS + k % line) * int(sizeof(T));
        from_b += (k / line * line * COLUMNS + k % line) * int(sizeof(T));
        wgmma<T, COLUMNS, true, true>(d, from_a, from_b, k > 0);
    }
    wgmma_commit();
}
// Starts d += weights @ b, for a tile of DEPTH rows.
template <int DEPTH, int COLUMNS>
__device__ __forceinline__ void multiply_weights(float (&d)[COLUMNS / 2], const unsigned (&weights)[DEPTH / 16][4], const T* b) {
    SharedMatrix right(b, DEPTH * line * sizeof(T), 8 * line * sizeof(T));
#pragma unroll
    for (int k = 0; k < DEPTH / 16; ++k) {
        wgmma<T, COLUMNS, false>(d, weights[k], right, true);
        right += 16 * line * sizeof(T);
    }
    wgmma_commit();
}
// Two numbers in a word, rounded.
__device__ __forceinline__ unsigned pair(float low, float high) {
    const float both[2] = {low, high};
    const Pack<T, 2> made = packed<T, 2>(both);
    return *(const unsigned*)&made;
}
// The result of a product as the left operand of another: it stays in its lanes.
template <int COLUMNS>
__device__ __forceinline__ void round(unsigned (&words)[COLUMNS / 16][4], const float (&d)[COLUMNS / 2]) {
#pragma unroll
    for (int i = 0; i < COLUMNS / 4; ++i) words[i / 4][i % 4] = pair(d[2 * i], d[2 * i + 1]);
}
// Stores the 16 rows of a warp from `first` on, times a factor for each of a lane's two.
template <int SIZE, int COLUMNS, typename P>
__device__ __forceinline__ void store(const Rows<1, P>& rows, int first, const float (&d)[COLUMNS], const float (&factor)[2]) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        P* const to = rows(first + lane / 4 + 8 * half);
#pragma unroll
        for (int y = 0; y < SIZE; y += 32) {
            uint4 pack;
            unsigned(&words)[4] = (unsigned(&)[4])pack;
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int at = y / 2 + 4 * i + 2 * half;
                words[i] = at < COLUMNS ? pair(d[at] * factor[half], d[at + 1] * factor[half]) : 0u;
            }
            transpose(words);
            const int e = y + 8 * (lane % 4);
            if (to && e < SIZE) *(uint4*)(to + e) = pack;
        }
    }
}
