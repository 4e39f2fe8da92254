// The places i < n where flags[i] is true, in order. Stage "count": counts[t] of the true flags of tile t.
// Stage "write": places[starts[t]], ..., places[starts[t + 1] - 1] of tile t, where starts are the sums of the counts before.
// Launch: << lanes >> thread(s), 1 or a warp, own a tile of `tile` flags; << block >> thread(s) a block. No shared memory, no atomics.
extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const bool* __restrict__ flags, << "long long* __restrict__ counts" if stage == "count" else "const long long* __restrict__ starts, long long* __restrict__ places" >>,
    long long n, long long tile)
{
    const long long t = ((long long)blockIdx.x * << block >> + threadIdx.x) / << lanes >>;
    const long long first = t * tile, last = minimum(n, first + tile);
    if (first >= n) return;
<% if stage == "count" %>
    long long count = 0;
<% else %>
    long long to = starts[t];
<% endif %>
<% if lanes == 1 and stage == "count" %>
    for (long long i = first; i < last; ++i) count += flags[i];
    counts[t] = count;
<% elif lanes == 1 %>
    // A place that is not one is written over by the next; so no branch depends on a flag.
    const long long stop = starts[t + 1];
    for (long long i = first; to < stop; ++i) {
        places[to] = i;
        to += flags[i];
    }
<% else %>
    const int lane = threadIdx.x % << lanes >>;
    for (long long start = first; start < last; start += << lanes >>) {
        const bool flag = start + lane < last && flags[start + lane];
        const unsigned votes = __ballot_sync(0xffffffffu, flag);
<% if stage == "count" %>
        count += __popc(votes);
    }
    if (lane == 0) counts[t] = count;
<% else %>
        if (flag) places[to + __popc(votes & (shl(1u, lane) - 1u))] = start + lane;
        to += __popc(votes);
    }
<% endif %>
<% endif %>
}
