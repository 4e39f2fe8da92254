// v[j, p, q] = the sum over c of g[rows[j] * R + p, c] * x[indices[j] * C + q, c]: the entries of the product of g and the
// transpose of x at given places. CSR is R = C = 1.
// v (entries, R, C), g (-, columns), x (-, columns), in C order; `total` numbers in v.
// Launch: a group of `lanes` threads, neighbours in a warp, owns `piece` numbers of v, and reads for `items` of them at a
// time. No shared memory.
<% include "prelude/reduce.cuh" %>
using T = << elem >>;
using acc = << acc >>;
using Place = << place >>;
constexpr int block = << block >>, lanes = << lanes >>, items = << items >>;
constexpr int R = << height >>, C = << width >>;

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const T* __restrict__ g, const Place* __restrict__ rows, const Place* __restrict__ indices, const T* __restrict__ x,
    T* __restrict__ v, long long total, long long columns, long long piece)
{
    const long long group = (long long)blockIdx.x * (block / lanes) + threadIdx.x / lanes;
    for (long long i = group * piece; i < (group + 1) * piece; i += items) {
        const T *left[items], *right[items];
        acc sums[items];
#pragma unroll
        for (int k = 0; k < items; ++k) {
            // All threads take part in the shuffles: beyond the end they read for the first number.
            const long long at = i + k < total ? i + k : 0, j = at / (R * C), p = at / C % R, q = at % C;
            left[k] = g + ((long long)rows[j] * R + p) * columns;
            right[k] = x + ((long long)indices[j] * C + q) * columns;
            sums[k] = acc(0);
        }
<% if items == 1 %>
#pragma unroll 4
<% endif %>
        for (long long c = threadIdx.x % lanes; c < columns; c += lanes) {
#pragma unroll
            for (int k = 0; k < items; ++k) sums[k] += cast<acc>(left[k][c]) * cast<acc>(right[k][c]);
        }
#pragma unroll
        for (int k = 0; k < items; ++k) {
#pragma unroll
            for (int distance = 1; distance < lanes; distance *= 2) sums[k] += shuffle_xor(sums[k], distance);
            if (i + k < total && threadIdx.x % lanes == 0) v[i + k] = cast<T>(sums[k]);
        }
    }
}
