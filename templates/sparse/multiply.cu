// y[r * R + p, c] = the sum over the entries j of block row r, and over q < C, of a[j, p, q] * x[indices[j] * C + q, c],
// where j = offsets[r], ..., offsets[r + 1] - 1. CSR is R = C = 1.
// a (entries, R, C), x (-, columns), y (rows, columns), in C order.
// Launch: a group of across * along threads, neighbours in a warp, owns `piece` rows of y: `across` of them share the
// columns, of which each has `items` at a time, and `along` the entries. Blocks along y share the columns. No shared
// memory. The order of the sums depends on the launch alone, so that every run gives the same bits.
<% include "prelude/reduce.cuh" %>
using T = << elem >>;
using acc = << acc >>;
using Place = << place >>;
constexpr int block = << block >>, across = << across >>, along = << along >>, items = << items >>;
constexpr int R = << height >>, C = << width >>;

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const T* __restrict__ a, const Place* __restrict__ indices, const Place* __restrict__ offsets, const T* __restrict__ x,
    T* __restrict__ y, long long rows, long long columns, long long piece)
{
    const int lane = threadIdx.x % (across * along), part = lane / across;
    const long long group = (long long)blockIdx.x * (block / (across * along)) + threadIdx.x / (across * along);
    constexpr int span = across * items;
    for (long long i = group * piece; i < (group + 1) * piece; ++i) {
        // All threads take part in the shuffles.
        const bool inside = i < rows;
        const long long row = inside ? i : 0, r = row / R, p = row % R, first = offsets[r], last = inside ? offsets[r + 1] : first;
        for (long long base = (long long)blockIdx.y * span; base < columns; base += (long long)gridDim.y * span) {
            const long long column = base + lane % across;
            acc sums[items];
#pragma unroll
            for (int k = 0; k < items; ++k) sums[k] = acc(0);
            for (long long j = first + part; j < last; j += along) {
                const T* const weights = a + (j * R + p) * C;
                const T* const from = x + (long long)indices[j] * C * columns + column;
#pragma unroll
                for (int q = 0; q < C; ++q) {
                    const acc weight = cast<acc>(weights[q]);
#pragma unroll
                    for (int k = 0; k < items; ++k)
                        if (column + k * across < columns) sums[k] += weight * cast<acc>(from[q * columns + k * across]);
                }
            }
#pragma unroll
            for (int k = 0; k < items; ++k) {
#pragma unroll
                for (int distance = across; distance < across * along; distance *= 2)
                    sums[k] += shuffle_xor(sums[k], distance);
                if (inside && part == 0 && column + k * across < columns) y[row * columns + column + k * across] = cast<T>(sums[k]);
            }
        }
    }
}
