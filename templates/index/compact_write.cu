// The chosen elements of x (n), in order: << "their values" if runs >><< " and " if runs and placed >><< "their indices" if placed >>. Those of tile t go to starts[t], ..., starts[t + 1] - 1, where
// starts are the exclusive scan of the counts.
// Launch: a thread, or a warp as `lanes` says, owns a tile of `tile` elements. No shared memory, no atomics.
<% include "index/compact.cuh" %>

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const T* __restrict__ x, const long long* __restrict__ starts, << "T* __restrict__ values, " if runs >>
    << "long long* __restrict__ indices, " if placed >>long long n, long long tile)
{
    const auto put = [&](long long to, long long i) {
        << "values[to] = x[i];" if runs >>
        << "indices[to] = i;" if placed >>
    };
    const long long t = ((long long)blockIdx.x * block + threadIdx.x) / lanes;
    const long long first = t * tile, last = minimum(n, first + tile);
    if (first >= n) return;
    long long to = starts[t];
    if constexpr (lanes == 1) {
        // An element that is not chosen is written over by the next; so no branch depends on it.
        const long long stop = starts[t + 1];
        for (long long i = first; to < stop; ++i) {
            put(to, i);
            to += chosen(x, i);
        }
    } else {
        const unsigned below = shl(1u, threadIdx.x % lanes) - 1u;
        for (long long start = first; start < last; start += ahead * lanes) {
            bool flags[ahead];
            choose(flags, x, start, last);
#pragma unroll
            for (int k = 0; k < ahead; ++k) {
                const unsigned vote = votes(flags[k]);
                if (flags[k]) put(to + __popc(vote & below), start + k * lanes + threadIdx.x % lanes);
                to += __popc(vote);
            }
        }
    }
}
