// The places i < n where flags[i] is true, in order. Stage "count": counts[t] of the true flags of tile t.
// Stage "write": places[starts[t]], ... of tile t, where starts are the sums of the counts before it.
// Launch: << lanes >> thread(s) share a tile of `tile` flags; `<< block >>` threads a block. Shared: a number a warp where a
// block shares a tile. No atomics.
extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const bool* __restrict__ flags, << "long long* __restrict__ counts" if stage == "count" else "const long long* __restrict__ starts, long long* __restrict__ places" >>,
    long long n, long long tile)
{
    const long long t = ((long long)blockIdx.x * << block >> + threadIdx.x) / << lanes >>;
    const long long first = t * tile, last = minimum(n, first + tile);
<% if stage == "write" %>
    long long to = first < n ? starts[t] : 0;
<% endif %>
<% if lanes == 1 %>
<% if stage == "count" %>
    long long count = 0;
    for (long long i = first; i < last; ++i) count += flags[i];
    if (first < n) counts[t] = count;
<% else %>
    for (long long i = first; i < last; ++i) {
        if (flags[i]) places[to++] = i;
    }
<% endif %>
<% else %>
    __shared__ int of_warp[<< block // 32 >>];
    const int lane = threadIdx.x;
<% if stage == "count" %>
    long long count = 0;
<% endif %>
    for (long long start = first; start < last; start += << lanes >>) {
        const bool flag = start + lane < last && flags[start + lane];
        const unsigned votes = __ballot_sync(0xffffffffu, flag);
        __syncthreads();
        if (lane % 32 == 0) of_warp[lane / 32] = __popc(votes);
        __syncthreads();
        int before = 0, all = 0;
        for (int warp = 0; warp < << block // 32 >>; ++warp) {
            if (warp == lane / 32) before = all;
            all += of_warp[warp];
        }
<% if stage == "count" %>
        count += all;
<% else %>
        if (flag) places[to + before + __popc(votes & (shl(1u, lane % 32) - 1u))] = start + lane;
        to += all;
<% endif %>
    }
<% if stage == "count" %>
    if (lane == 0 && first < n) counts[t] = count;
<% endif %>
<% endif %>
}
