// The indices of the true flags of x (n), in order. Those of tile t go to starts[t], ..., starts[t + 1] - 1, where
// starts are the exclusive scan of the counts.
// Launch: a thread, or a warp as `lanes` says, owns a tile of `tile` elements. No shared memory, no atomics.
<% include "index/compact.cuh" %>

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const bool* __restrict__ x, const long long* __restrict__ starts, long long* __restrict__ indices, long long n,
    long long tile)
{
    const long long t = ((long long)blockIdx.x * block + threadIdx.x) / lanes;
    const long long first = t * tile, last = minimum(n, first + tile);
    if (first >= n) return;
    long long to = starts[t];
    if constexpr (lanes == 1) {
        // An element that is not chosen is written over by the next; so no branch depends on it.
        const long long stop = starts[t + 1];
        for (long long i = first; to < stop; ++i) {
            indices[to] = i;
            to += x[i];
        }
    } else {
        const unsigned below = shl(1u, threadIdx.x % lanes) - 1u;
        for (long long start = first; start < last; start += ahead * lanes) {
            bool flags[ahead];
            choose(flags, x, start, last);
#pragma unroll
            for (int k = 0; k < ahead; ++k) {
                const unsigned vote = votes(flags[k]);
                if (flags[k]) indices[to + __popc(vote & below)] = start + k * lanes + threadIdx.x % lanes;
                to += __popc(vote);
            }
        }
    }
}
