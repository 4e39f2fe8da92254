// v[j, p, q] = the sum over c of g[rows[j] * R + p, c] * x[indices[j] * C + q, c]: the entries of the product of g and the
// transpose of x at given positions (a sampled dense-dense product). CSR is R = C = 1.
// v (entries, R, C), g (-, columns), x (-, columns), in C order; `total` numbers in v.
// Launch: a group of `lanes` threads, neighbours in a warp, owns `piece` numbers of v, and reads for `items` of them at a
// time, `wide` columns an access, which divide all and are aligned. No shared memory.
<% include "prelude/reduce.cuh" %>
<% include "lib/pack.cuh" %>
using T = << elem >>;
using acc = << acc >>;
using IndexT = << index_type >>;
constexpr int block = << block >>, lanes = << lanes >>, items = << items >>, wide = << wide >>;
constexpr int R = << height >>, C = << width >>;
// Numbers that a thread holds after the sums over a group, and threads that hold the same ones.
constexpr int kept = items > lanes ? items / lanes : 1, same = lanes > items ? lanes / items : 1;

// Adds up the sums of the threads of a group: each sends half of those that it has, and keeps the others, until one is left.
__device__ __forceinline__ void add_group(acc (&sums)[items], int lane) {
    int own = items;
#pragma unroll
    for (int distance = lanes / 2; distance > 0; distance /= 2) {
        own /= 2;
        if (own == 0) sums[0] += shuffle_xor(sums[0], distance);
#pragma unroll
        for (int k = 0; k < own; ++k) {
            const bool later = lane & distance;
            const acc sent = later ? sums[k] : sums[k + own];
            sums[k] = (later ? sums[k + own] : sums[k]) + shuffle_xor(sent, distance);
        }
    }
}

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const T* __restrict__ g, const IndexT* __restrict__ rows, const IndexT* __restrict__ indices, const T* __restrict__ x,
    T* __restrict__ v, long long total, << index >> columns, long long piece)
{
    const int lane = threadIdx.x % lanes;
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
        for (<< index >> c = lane * wide; c < columns; c += lanes * wide) {
            Pack<T, wide> mine, other[items];
#pragma unroll
            for (int k = 0; k < items; ++k) other[k] = load_pack<wide>(right[k] + c);
#pragma unroll
            for (int k = 0; k < items; ++k) {
                if (k == 0 || left[k] != left[k ? k - 1 : 0]) mine = load_pack<wide>(left[k] + c);
#pragma unroll
                for (int w = 0; w < wide; ++w) sums[k] += cast<acc>(mine.at[w]) * cast<acc>(other[k].at[w]);
            }
        }
        add_group(sums, lane);
        const long long first = i + lane / same * kept;
#pragma unroll
        for (int k = 0; k < kept; ++k)
            if (lane % same == 0 && first + k < total) v[first + k] = cast<T>(sums[k]);
    }
}
