// Combines the partial sums of sums.cu: statistics[group] of `together` channels, as in channel_statistics.cuh. If there
// are running statistics, they move by `momentum`, or by what `by` points to, towards mean and unbiased variance.
// Launch: a block for each group of all instances. Shared, static: a state a thread.
<% include "prelude/next_kernel.cuh" %>
<% include "prelude/reduce.cuh" %>
<% include "prelude/math.cuh" %>
using acc = << acc >>;
<% include "nn/channel_norm/channel_statistics.cuh" %>
<% include "nn/channel_norm/moments.cuh" %>
using R = << running >>;
using index = << index >>;
constexpr int block = << block >>, unroll = << unroll >>;

extern "C" __global__ void __launch_bounds__(block) << name >>(
    const acc* parts, acc* statistics, R* running_mean, R* running_variance, const acc* by, acc eps, acc momentum, int pieces, int together)
{
    allow_next_kernel();
    __shared__ ShiftedMoments shared[block];
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
    shared[threadIdx.x] = total;
    for (int half = block / 2; half > 0; half /= 2) {
        __syncthreads();
        if (int(threadIdx.x) < half) shared[threadIdx.x] = joined(shared[threadIdx.x], shared[threadIdx.x + half]);
    }
    if (threadIdx.x > 0) return;
    total = shared[0];
    ((Statistics*)statistics)[blockIdx.x] = statistics_of(total, eps);
    if (running_mean) move_running(total, running_mean + blockIdx.x, running_variance + blockIdx.x, by, momentum);
}
