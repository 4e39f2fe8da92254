// The places i < n where flags[i] is true, in order: places[starts[t]], ..., places[starts[t + 1] - 1] of tile t, where starts
// are the sums of the counts before.
// Launch: a thread, or a warp as `lanes` says, owns a tile of `tile` of the n flags. No shared memory, no atomics.
<% include "index/compact.cuh" %>

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const bool* __restrict__ flags, const long long* __restrict__ starts, long long* __restrict__ places,
    long long n, long long tile)
{
    const long long t = ((long long)blockIdx.x * block + threadIdx.x) / lanes;
    const long long first = t * tile, last = minimum(n, first + tile);
    if (first >= n) return;
    long long to = starts[t];
    if constexpr (lanes == 1) {
        // A place that is not one is written over by the next; so no branch depends on a flag.
        const long long stop = starts[t + 1];
        for (long long i = first; to < stop; ++i) {
            places[to] = i;
            to += flags[i];
        }
    } else {
        const int lane = threadIdx.x % lanes;
        for (long long start = first; start < last; start += lanes) {
            const bool flag = start + lane < last && flags[start + lane];
            const unsigned found = votes(flag);
            if (flag) places[to + __popc(found & (shl(1u, lane) - 1u))] = start + lane;
            to += __popc(found);
        }
    }
}
