// One result of attention from those of the parts of its keys: their mean, weighted by the sums of exponentials of which
// of_lse has the statistics. of_parts and of_lse have an axis of parts before the others.
// Launch: a block for each query, head and batch, in x; << lanes >> lanes share the features, << teams >> teams the parts.
<% include "prelude/exponential.cuh" %>
<% include "prelude/overlap.cuh" %>
using T = << elem >>;
using A = << acc >>;
<% include "nn/attention/statistics.cuh" %>
using index = << index >>;
constexpr int lanes = << lanes >>, teams = << teams >>, value_size = << value_size >>;
constexpr int own = (value_size + lanes - 1) / lanes;  // features of a lane
// The strides of o in elements; parts, heads and queries.
<< Results >>

// Weighted sums of rows, whose weights are exponentials; without a row `largest` is -inf.
struct Mean {
    A largest, total, sums[own];

    __device__ __forceinline__ Mean() : largest(-limits<A>::infinity()), total(0), sums{} {}
    __device__ __forceinline__ void add(A log_weight, A more, A weight, const A* row, int lane) {
        const A most = maximum(largest, log_weight), from = most == -limits<A>::infinity() ? A(0) : most;
        const A shrink = exp_of(largest - from), factor = exp_of(log_weight - from + more);
        largest = most;
        total = total * shrink + weight * factor;
#pragma unroll
        for (int i = 0; i < own; ++i) {
            const int e = lane + i * lanes;
            sums[i] = sums[i] * shrink + (e < value_size ? row[e] : A(0)) * factor;
        }
    }
};

extern "C" __global__ void __launch_bounds__(lanes * teams) << name >>(
    const A* of_parts, const RowStatistics* of_lse, T* o, RowStatistics* lse, Results results)
{
    wait_for_earlier_kernels();
    allow_next_kernel();  // not before: blocks of another call would take places as these ones' parts end, and share GPUs unevenly
    const int lane = threadIdx.x % lanes, team = threadIdx.x / lanes;
    const index row = blockIdx.x, rows = gridDim.x;
    Mean mean;
#pragma unroll 4
    for (int part = team; part < results.parts; part += teams) {
        const index at = part * rows + row;
        const RowStatistics of = of_lse[at];
        mean.add(of.lse, of.rest, A(1), of_parts + at * value_size, lane);
    }
<% if teams > 1 %>
    __shared__ A of_teams[teams][value_size + 2];
    A* const to = of_teams[team];
#pragma unroll
    for (int i = 0; i < own; ++i)
        if (lane + i * lanes < value_size) to[lane + i * lanes] = mean.sums[i];
    if (lane == 0) to[value_size] = mean.largest, to[value_size + 1] = mean.total;
    __syncthreads();
    if (team > 0) return;
    for (int other = 1; other < teams; ++other) {
        const A* const from = of_teams[other];
        mean.add(from[value_size], A(0), from[value_size + 1], from, lane);
    }
<% endif %>
    const index query = row % results.queries, head = row / results.queries % results.heads, batch = row / results.queries / results.heads;
    o += batch * results.batch + head * results.head + query * results.row;
#pragma unroll
    for (int i = 0; i < own; ++i)
        if (lane + i * lanes < value_size) o[lane + i * lanes] = cast<T>(mean.total == A(0) ? A(0) : mean.sums[i] / mean.total);
    if (lane == 0) lse[row] = statistics_of(mean.largest, mean.total);
}
