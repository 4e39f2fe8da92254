// y[i] = the << reduction.name >> that the states parts[i, 0], ..., parts[i, pieces - 1] make together, i < rows.
// Launch: << lanes >> thread(s) share a row (a power of two up to 32, or the block). Shared: a state a warp where the
// block shares a row. The order of the states is the same every time.
<% from "reduction/reduce.cuh" import states, results, store, shared_total with context %>
<% include "prelude/math.cuh" %>
<% include "prelude/reduce.cuh" %>
<< states(false) >>
static_assert(sizeof(State) == << state_bytes >>, "the memory for the parts is of that size");

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const State* parts,
<< results() >>
    long long n, << index >> rows, int pieces)
{
    using index = << index >>;
    const index row = (index(blockIdx.x) * << block >> + index(threadIdx.x)) / << lanes >>;
    const State* const own = parts + (long long)minimum(row, index(rows - 1)) * pieces;
    State total = identity();
<% if lanes == 1 %>
    for (int r = 0; r < pieces; ++r) total = combine(total, own[r]);
<% else %>
<% if lanes > 32 %>
    __shared__ State of_warp[<< lanes // 32 >>];
<% endif %>
    const int lane = int(threadIdx.x) % << lanes >>;
    for (int r = lane; r < pieces; r += << 4 * lanes >>) {
        State some[4];
#pragma unroll
        for (int u = 0; u < 4; ++u) some[u] = r + u * << lanes >> < pieces ? own[r + u * << lanes >>] : identity();
#pragma unroll
        for (int u = 0; u < 4; ++u) total = combine(total, some[u]);
    }
<< shared_total() >>
    if (lane == 0)
<% endif %>
    if (row < rows) << store("row", "total") >>
}
