// counts[t] = how many of the flags of tile t are true.
// Launch: a thread, or a warp as `lanes` says, owns a tile of `tile` of the n flags. No shared memory, no atomics.
<% include "index/compact.cuh" %>

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const bool* __restrict__ flags, long long* __restrict__ counts, long long n, long long tile)
{
    const long long t = ((long long)blockIdx.x * block + threadIdx.x) / lanes;
    const long long first = t * tile, last = minimum(n, first + tile);
    if (first >= n) return;
    const int lane = threadIdx.x % lanes;
    long long count = 0;
    if constexpr (lanes == 1) {
        for (long long i = first; i < last; ++i) count += flags[i];
    } else {
        for (long long start = first; start < last; start += lanes)
            count += __popc(votes(start + lane < last && flags[start + lane]));
    }
    if (lane == 0) counts[t] = count;
}
