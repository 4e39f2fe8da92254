// v[j, p, q] = the sum over c of g[rows[j] * R + p, c] * x[indices[j] * C + q, c]: the entries of the product of g and the
// transpose of x at given places. CSR is R = C = 1.
// v (entries, R, C), g (-, columns), x (-, columns), in C order; `total` numbers in v.
// Launch: a group of `lanes` threads, neighbours in a warp, owns `piece` numbers of v. No shared memory.
<% include "prelude/reduce.cuh" %>
using T = << elem >>;
using acc = << acc >>;
using Place = << place >>;
constexpr int block = << block >>, lanes = << lanes >>;
constexpr int R = << height >>, C = << width >>;

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const T* __restrict__ g, const Place* __restrict__ rows, const Place* __restrict__ indices, const T* __restrict__ x,
    T* __restrict__ v, long long total, long long columns, long long piece)
{
    const long long group = (long long)blockIdx.x * (block / lanes) + threadIdx.x / lanes;
    for (long long i = group * piece; i < (group + 1) * piece; ++i) {
        // All threads take part in the shuffles.
        const bool inside = i < total;
        const long long at = inside ? i : 0, j = at / (R * C), p = at / C % R, q = at % C;
        const T* const left = g + ((long long)rows[j] * R + p) * columns;
        const T* const right = x + ((long long)indices[j] * C + q) * columns;
        acc sum = acc(0);
#pragma unroll 4
        for (long long c = threadIdx.x % lanes; c < columns; c += lanes) sum += cast<acc>(left[c]) * cast<acc>(right[c]);
#pragma unroll
        for (int distance = 1; distance < lanes; distance *= 2) sum += shuffle_xor(sum, distance);
        if (inside && threadIdx.x % lanes == 0) v[i] = cast<T>(sum);
    }
}
