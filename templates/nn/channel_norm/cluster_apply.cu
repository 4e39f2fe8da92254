// Batch or group norm in one launch: y = (x - mean) / sqrt(variance + eps) * weight + bias, and statistics[group] =
// (mean, 1 / sqrt(variance + eps)). If there are running statistics, they move as by statistics.cu.
// Launch: see cluster.cuh. Channels that lie innermost: a block has whole groups of them.
<% include "prelude/next_kernel.cuh" %>
<% include "prelude/math.cuh" %>
<% include "nn/channel_norm/cluster.cuh" %>
using R = << running >>;

extern "C" __global__ void<< " __cluster_dims__(1, %d, 1)" % cluster if cluster > 1 >> __launch_bounds__(block, << resident >>) << name >>(
    const T* x, const W* weight, const W* bias, acc* statistics, R* running_mean, R* running_variance, const acc* by, U* y, Sizes g,
    acc eps, acc momentum)
{
    allow_next_kernel();
    __shared__ State of_warps[warps][slots], of_block[slots], whole[slots];
    __shared__ Statistics of_groups[slots];
    const Group here = own_group(g);
    const int lane = first_of_thread();
    Sums sums;
    const auto walk_of = [&](int m) { return WalkOf<false>(g, here.instance, here.first + lane + m, blockIdx.y); };
<% if kept %>
    extern __shared__ __align__(16) unsigned char memory[];
    const Kept own_packs(memory);
    for (int m = 0; m < members; ++m) own_packs.bring(walk_of(m), x, (const U*)nullptr, m);
    << "commit_copies(), wait_copies<0>();" if members > 1 >>
<% endif %>
    for (int m = 0; m < members; ++m) {
        const WalkOf<false> walk = walk_of(m);
#pragma unroll
        for (int c = 0; c < own_channels && m == 0; ++c) sums.offset[c] = walk.there() ? cast<acc>(x[walk.at + c]) : acc(0);
        << "own_packs.add_to(sums, walk, m)" if kept else "sums.take(walk, x, (const U*)nullptr)" >>;
    }
#pragma unroll
    for (int c = 0; c < own_channels; ++c) note(of_warps, lane + c, sums.of(c));
    join_all(of_warps, of_block, whole);
    const int together = last ? int(g.together) : 1;
    for (int group = threadIdx.x; group < slots / together; group += block) {
        State total = whole[group * together];
        for (int c = 1; c < together; ++c) total = join(total, whole[group * together + c]);
        of_groups[group] = found(total, eps);
        if (blockIdx.y > 0 || here.first + group * together >= g.channels) continue;
        const index number = of_group(g, here.instance * g.channels + here.first) + group;
        ((Statistics*)statistics)[number] = of_groups[group];
        if (running_mean) move_running(total, running_mean + number, running_variance + number, by, momentum);
    }
    __syncthreads();
    for (int m = members - 1; m >= 0; --m) {
        const << "WalkOf<false>" if kept else "WalkOf<true>" >> walk(g, here.instance, here.first + lane + m, blockIdx.y);
        if (!walk.there()) continue;
        Channel own[own_channels];
#pragma unroll
        for (int c = 0; c < own_channels; ++c) {
            const Statistics of = of_groups[last ? (lane + c) / together : 0];
            const index at = walk.channel + c;
            own[c] = {of.mean, of.rstd * (weight ? cast<acc>(weight[at]) : acc(1)), acc(0), bias ? cast<acc>(bias[at]) : acc(0)};
        }
        << "own_packs.write(walk, y, own, m)" if kept else "write_results(walk, x, (const U*)nullptr, y, own)" >>;
    }
    wait_for_readers();
}
