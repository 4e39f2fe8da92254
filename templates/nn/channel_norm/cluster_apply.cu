// Batch or group norm in one launch: y = (x - mean) / sqrt(variance + eps) * weight + bias, and statistics[group] =
// (mean, 1 / sqrt(variance + eps)). If there are running statistics, they move as by statistics.cu.
// Launch: see cluster.cuh. Channels that lie innermost: a block has whole groups of them.
<% include "prelude/next_kernel.cuh" %>
<% include "prelude/math.cuh" %>
<% include "nn/channel_norm/cluster.cuh" %>
using R = << running >>;

extern "C" __global__ void<< " __cluster_dims__(1, %d, 1)" % dims if dims > 1 >> __launch_bounds__(block, << resident >>) << name >>(
    const T* x, const W* weight, const W* bias, acc* statistics, R* running_mean, R* running_variance, const acc* by, U* y, Sizes g,
    int units, << "acc* partials, " if wide >>acc eps, acc momentum)
{
    allow_next_kernel();
    __shared__ Joint joint;
    __shared__ Statistics of_groups[slots];
    const int lane = first_of_thread(), together = last ? int(g.together) : 1;
<% if kept %>
    extern __shared__ __align__(16) unsigned char memory[];
    const Kept packs(memory, x, nullptr);
    for (int half = 0; half < halves; ++half) packs.bring(g, blockIdx.x + half * gridDim.x, half);
<% endif %>
    acc factors[members][own_channels], offsets[members][own_channels];
    const auto load = [&](int unit) {
        const Group here(g, unit);
#pragma unroll
        for (int m = 0; m < members; ++m) {
#pragma unroll
            for (int c = 0; c < own_channels; ++c) {
                const index at = minimum(here.first + lane + m + c, g.channels - 1);
                factors[m][c] = weight ? cast<acc>(weight[at]) : acc(1), offsets[m][c] = bias ? cast<acc>(bias[at]) : acc(0);
            }
        }
    };
    Sums sums;
<% if wide %>
    const auto sum_most = [&](int unit, int half) {
        sums = Sums();
        packs.add_to<0, parts - 1>(sums, Group(g, unit).walk(g, 0), half, unit == int(blockIdx.x));
    };
<% endif %>
    const auto sum_up = [&](int unit, [[maybe_unused]] int half) {
        const Group here(g, unit);
<% if wide %>
        packs.add_to<parts - 1>(sums, here.walk(g, 0), half, unit == int(blockIdx.x));
<% else %>
        sums = Sums();
        for (int m = 0; m < members; ++m) {
            const auto walk = here.walk(g, m);
<% if kept %>
            packs.add_to(sums, walk, m);
<% else %>
#pragma unroll
            for (int c = 0; c < own_channels && m == 0; ++c) sums.offset[c] = walk.there() ? cast<acc>(x[walk.at + c]) : acc(0);
            sums.take(walk, x, (const U*)nullptr);
<% endif %>
        }
<% endif %>
        note_all(joint, lane, sums);
    };
    const auto finish = [&](int unit, [[maybe_unused]] int half) {
        const Group here(g, unit);
        const int group = threadIdx.x;
        if (group < slots / together) {
            State total = joint.whole[group * together];
            for (int c = 1; c < together; ++c) total = join(total, joint.whole[group * together + c]);
            of_groups[group] = found(total, eps);
            if (blockIdx.y == 0 && here.first + group * together < g.channels) {
                const index number = of_group(g, here.instance * g.channels + here.first) + group;
                ((Statistics*)statistics)[number] = of_groups[group];
                if (running_mean) move_running(total, running_mean + number, running_variance + number, by, momentum);
            }
        }
        __syncthreads();
        << "const index ahead = %s;" % ("Kept::ahead_of(g, here, unit, units)" if whole or not last else "0") if kept >>
#pragma unroll
        for (int step_back = 0; step_back < members; ++step_back) {
            const int m = << "step_back" if kept else "members - 1 - step_back" >>;
            const auto walk = here.walk<< "<true>" if not kept >>(g, m);
            if (!walk.there()) continue;
            const auto channels = [&](Channel (&own)[own_channels]) {
#pragma unroll
                for (int c = 0; c < own_channels; ++c) {
                    const Statistics of = of_groups[last ? (lane + c) / together : 0];
                    own[c] = {of.mean, of.rstd * factors[m][c], acc(0), offsets[m][c]};
                }
            };
            << "packs.write(walk, y, channels, half + m, ahead)" if kept else "write_results(walk, x, (const U*)nullptr, y, channels)" >>;
        }
<% if kept and last and not whole %>
        if (unit + int(gridDim.x) < units) packs.bring(g, unit + gridDim.x);
<% endif %>
    };
    take_units(joint, g, units, << "(Pair*)partials, sum_most, " if wide >>load, sum_up, finish);
}
