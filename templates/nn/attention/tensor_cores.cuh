// Products of tiles of 16-bit elements in shared memory on tensor cores (sm_80 and up): a warp has 16 rows of a result. Lane
// 4 * g + q has, of rows g and g + 8, columns 2 * q and 2 * q + 1 of each eight.
<% include "prelude/copy_async.cuh" %>
<% include "prelude/mma.cuh" %>
<% include "nn/attention/attention.cuh" %>
// Features of a tile, zeros beyond those of a head. A row begins four banks after the one before it.
constexpr int head_width = (head_size + 15) / 16 * 16, value_width = (value_size + 15) / 16 * 16;
constexpr int head_step = head_width + 8, value_step = value_width + 8;

// Sends rows on their way to shared memory, and zeros for those beyond the end.
template <int COUNT, int SIZE, typename R>
__device__ __forceinline__ void load(T* to, const R& rows, int first) {
    constexpr int width = (SIZE + 15) / 16 * 16, chunks = width / 8;
    constexpr int apart = threads / chunks;  // rows that threads bring together
    if constexpr (R::evenly_spaced && SIZE == width && threads % chunks == 0 && COUNT % apart == 0) {
        if (first + COUNT <= rows.end) {
            const int r = threadIdx.x / chunks, e = threadIdx.x % chunks * 8;
            const T* from = rows(first + r) + e;
#pragma unroll
            for (int i = 0; i < COUNT; i += apart, from += apart * rows.step)
                copy_async((uint4*)(to + (r + i) * (width + 8) + e), (const uint4*)from);
            return;
        }
    }
#pragma unroll
    for (int x = threadIdx.x; x < COUNT * chunks; x += threads) {
        const int r = x / chunks, e = x % chunks * 8;
        const T* const from = rows(first + r);
        const bool inside = from && e < SIZE;
        copy_async_or_zeros(to + r * (width + 8) + e, inside ? from + e : rows.base, inside ? 16 : 0);
    }
}
// Loads four matrices of 8 by 8, from (row, column) on: the second is 8 columns on if COLUMNS_FIRST, or 8 rows.
template <bool TRANSPOSED, bool COLUMNS_FIRST>
__device__ __forceinline__ void fragments(unsigned (&to)[4], const T* tile, int step, int row, int column) {
    const int lane = threadIdx.x % 32, low = lane / 8 % 2 * 8, high = lane / 16 * 8;
    const T* const from = tile + (row + lane % 8 + (COLUMNS_FIRST ? high : low)) * step + column + (COLUMNS_FIRST ? low : high);
    if constexpr (TRANSPOSED) load_matrices_transposed(to, from);
    else load_matrices(to, from);
}
// Two blocks of eight columns of a result, by 16 of the depth.
__device__ __forceinline__ void add_products(float (&left)[4], float (&right)[4], const unsigned (&a)[4], const unsigned (&b)[4]) {
    const unsigned low[2] = {b[0], b[1]}, high[2] = {b[2], b[3]};
    mma<T>(left, a, low);
    mma<T>(right, a, high);
}
// sums += a @ b.T, for the 16 rows of a from `row` on, and rows of b, both contiguous along the depth.
template <int DEPTH, int COLUMNS>
__device__ __forceinline__ void multiply_rows(float (&sums)[COLUMNS / 8][4], const T* a, int row, const T* b) {
    constexpr int step = DEPTH + 8;
#pragma unroll
    for (int k = 0; k < DEPTH; k += 16) {
        unsigned left[4];
        fragments<false, false>(left, a, step, row, k);
#pragma unroll
        for (int y = 0; y < COLUMNS; y += 16) {
            unsigned right[4];
            fragments<false, true>(right, b, step, y, k);
            add_products(sums[y / 8], sums[y / 8 + 1], left, right);
        }
    }
}
template <typename P>
struct alignas(2 * sizeof(P)) Pair {
    P low, high;

    __device__ __forceinline__ Pair(float low, float high) : low(cast<P>(low)), high(cast<P>(high)) {}
};
__device__ __forceinline__ unsigned pair(float low, float high) {
    const Pair<T> both(low, high);
    return *(const unsigned*)&both;
}
// sums += weights @ b, where the weights are sums of an earlier product, rounded: they stay in their lanes.
template <int DEPTH, int COLUMNS>
__device__ __forceinline__ void multiply_weights(float (&sums)[COLUMNS / 8][4], const float (&weights)[DEPTH / 8][4], const T* b) {
#pragma unroll
    for (int k = 0; k < DEPTH; k += 16) {
        const float(&low)[4] = weights[k / 8], (&high)[4] = weights[k / 8 + 1];
        const unsigned left[4] = {pair(low[0], low[1]), pair(low[2], low[3]), pair(high[0], high[1]), pair(high[2], high[3])};
#pragma unroll
        for (int y = 0; y < COLUMNS; y += 16) {
            unsigned right[4];
            fragments<true, false>(right, b, COLUMNS + 8, k, y);
            add_products(sums[y / 8], sums[y / 8 + 1], left, right);
        }
    }
}
// Stores the 16 rows of a warp from `first` on, times a factor for each of a lane's two.
template <int SIZE, int COLUMNS, int GROUP, typename P>
__device__ __forceinline__ void store(
    const Rows<GROUP, P>& rows, int first, const float (&sums)[COLUMNS][4], float of_low, float of_high)
{
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        P* const to = rows(first + lane / 4 + 8 * half);
        const float factor = half ? of_high : of_low;
        if (!to) continue;
#pragma unroll
        for (int y = 0; y < SIZE / 8; ++y)
            *(Pair<P>*)(to + 8 * y + lane % 4 * 2) = Pair<P>(sums[y][2 * half] * factor, sums[y][2 * half + 1] * factor);
    }
}
