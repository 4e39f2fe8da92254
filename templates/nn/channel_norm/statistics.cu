// Combines the partial sums of sums.cu: statistics[group] of `together` channels, as in channel_statistics.cuh. If there
// are running statistics, they move by `momentum`, or by what `by` points to, towards mean and unbiased variance.
// Launch: a block for each group of all instances. Shared, static: a state a warp.
<% set threads, cluster = block, 1 %>
<% include "prelude/next_kernel.cuh" %>
<% include "prelude/reduce.cuh" %>
<% include "prelude/math.cuh" %>
using acc = << acc >>;
<% include "nn/channel_norm/channel_statistics.cuh" %>
<% include "nn/channel_norm/moments.cuh" %>
using RowState = ShiftedMoments;
__device__ __forceinline__ RowState row_join(const RowState& a, const RowState& b) { return joined(a, b); }
<% include "lib/row.cuh" %>
using R = << running >>;
using index = << index >>;
constexpr int block = << block >>, unroll = << unroll >>;

extern "C" __global__ void __launch_bounds__(block) << name >>(
    const acc* parts, acc* statistics, R* running_mean, R* running_variance, const acc* by, acc eps, acc momentum, int pieces, int together)
{
    allow_next_kernel();
    const int count = pieces * together;
    const acc* const own = parts + (index)blockIdx.x * count * 4;
    ShiftedMoments total{};
    for (int i = threadIdx.x; i < count; i += unroll * block) {
        ShiftedMoments some[unroll];
#pragma unroll
        for (int u = 0; u < unroll; ++u) {
            const int at = i + u * block;
            some[u] = at < count ? ((const ShiftedMoments*)own)[at] : ShiftedMoments{};
        }
#pragma unroll
        for (int u = 0; u < unroll; ++u) total = joined(total, some[u]);
    }
    int phase = 0;
    total = row_reduce(total, phase);
    row_end();
    if (threadIdx.x > 0) return;
    ((Statistics*)statistics)[blockIdx.x] = statistics_of(total, eps);
    if (running_mean) move_running(total, running_mean + blockIdx.x, running_variance + blockIdx.x, by, momentum);
}
