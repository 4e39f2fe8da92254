// y[i] = the << reduction.name >> of the partial states parts[i, 0], ..., parts[i, pieces - 1], i < rows: the second
// launch of a split reduction.
// Launch: `lanes` threads share a row (1, a power of two up to 32, or the block). Shared: a state a warp where the block
// shares a row. The order of the states is the same every time.
<% from "reduction/reduce.cuh" import results, output with context %>
<% include "prelude/reduce.cuh" %>
<% include "reduction/reduce.cuh" %>
<% include "reduction/shared_total.cuh" %>
constexpr int block = << block >>, lanes = << lanes >>, unroll = lanes > 1 ? 4 : 1;
static_assert(sizeof(State) == << state_bytes >>, "the memory for the parts is of that size");

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const State* parts,
<< results() >>
    long long n, index rows, int pieces)
{
    const Output out{<< output() >>};
    const index row = (index(blockIdx.x) * block + index(threadIdx.x)) / lanes;
    const State* const states = parts + (long long)minimum(row, index(rows - 1)) * pieces;
    const int lane = int(threadIdx.x) % lanes;
    State total = identity();
    for (int r = lane; r < pieces; r += unroll * lanes) {
        State batch[unroll];
#pragma unroll
        for (int u = 0; u < unroll; ++u) batch[u] = u == 0 || r + u * lanes < pieces ? states[r + u * lanes] : identity();
#pragma unroll
        for (int u = 0; u < unroll; ++u) total = combine(total, batch[u]);
    }
    total = shared_total(total);
    if (lane == 0 && row < rows) out.store(row, total);
}
