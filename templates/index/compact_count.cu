// counts[t] = how many of the elements of tile t of x (n) are chosen.
// Launch: a thread, or a warp as `lanes` says, owns a tile of `tile` elements. No shared memory, no atomics.
<% include "index/compact.cuh" %>

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const T* __restrict__ x, long long* __restrict__ counts, long long n, long long tile)
{
    const long long t = ((long long)blockIdx.x * block + threadIdx.x) / lanes;
    const long long first = t * tile, last = minimum(n, first + tile);
    if (first >= n) return;
    long long count = 0;
    if constexpr (lanes == 1) {
        for (long long i = first; i < last; ++i) count += chosen(x, i);
    } else {
        for (long long start = first; start < last; start += ahead * lanes) {
            bool flags[ahead];
            choose(flags, x, start, last);
#pragma unroll
            for (int k = 0; k < ahead; ++k) count += __popc(votes(flags[k]));
        }
    }
    if (threadIdx.x % lanes == 0) counts[t] = count;
}
