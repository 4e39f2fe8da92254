// The digit histograms of all passes of a radix sort of rows of `n` elements: counts (rows, passes, digits), 0 before.
// x (rows, n), the bits of the elements as integers.
// Launch: a block counts `piece` elements of a row, which has `pieces` of them. Shared: its counts.
<% include "index/radix.cuh" %>

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const K* __restrict__ x, Word* counts, I n, I pieces, I piece)
{
    __shared__ unsigned own[passes * digits];
    for (int i = threadIdx.x; i < passes * digits; i += block) own[i] = 0;
    __syncthreads();
    const long long row = blockIdx.x / pieces;
    const I first = I(blockIdx.x % pieces) * piece, last = minimum(n, first + piece);
    const K* const keys = x + row * n;
    for (I start = first; start < last; start += block * items) {
        K held[items];
#pragma unroll
        for (int i = 0; i < items; ++i) {
            const I at = start + i * block + I(threadIdx.x);
            held[i] = at < last ? canonical(keys[at]) : K(0);
        }
#pragma unroll
        for (int i = 0; i < items; ++i) {
            if (start + i * block + I(threadIdx.x) >= last) break;
#pragma unroll
            for (int pass = 0; pass < passes; ++pass) atomicAdd(&own[pass * digits + digit_of(held[i], 8 * pass)], 1u);
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < passes * digits; i += block)
        if (own[i]) atomicAdd(&counts[row * passes * digits + i], Word(own[i]));
}
