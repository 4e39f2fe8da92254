// Batch or group norm in one launch: y = (x - mean) / sqrt(variance + eps) * weight + bias, or an activation of it,
// and statistics[group] as in channel_statistics.cuh. If there are running statistics, they move as by statistics.cu.
// Launch: see cluster.cuh. Channels that lie innermost: a block has whole groups of them.
<% include "prelude/next_kernel.cuh" %>
<% if not activation %>
<% include "prelude/math.cuh" %>
<% endif %>
<% include "nn/channel_norm/cluster.cuh" %>
using R = << running >>;

extern "C" __global__ void<< " __cluster_dims__(1, %d, 1)" % dims if dims > 1 >> __launch_bounds__(block, << resident >>) << name >>(
    const T* x, const W* weight, const W* bias, acc* statistics, R* running_mean, R* running_variance, const acc* by, U* y,
    << "acc* partials, " if wide >>acc eps, acc momentum, Sizes g, int units)
{
    allow_next_kernel();
    __shared__ Joint joint;
    __shared__ Channel of_channels[channels_here];
    const int lane = first_of_thread(), number = threadIdx.x;
<% if kept %>
    extern __shared__ __align__(16) unsigned char memory[];
    const Kept packs(memory, x, nullptr);
    packs.stage(g, blockIdx.x);
<% endif %>
    for (int unit = blockIdx.x; unit < units; unit += gridDim.x) {
        const Group here(g, unit);
        const index channel = here.first + number;
        const bool is = number < channels_here && channel < g.channels;
        const acc factor = is && weight ? cast<acc>(weight[channel]) : acc(1), offset = is && bias ? cast<acc>(bias[channel]) : acc(0);
        Sums sums;
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
        note_all(joint, lane, sums);
        join_all(joint, g, [&] { << "if (unit + int(gridDim.x) < units) packs.ask(g, unit + gridDim.x);" if kept and asked >> }<< ", (Left*)partials + (index)unit * gridDim.y * slots" if wide >>);
        if (is) {
            const int together = last ? int(g.together) : members, first = last ? number / together * together : 0;
            State total = joint.whole[first];
            for (int c = 1; c < together && last; ++c) total = join(total, joint.whole[first + c]);
            const Statistics of = statistics_of(total, eps);
            of_channels[number] = {of.mean, of.rstd * factor, acc(0), offset - of.rest * (of.rstd * factor)};
            if (blockIdx.y == 0 && number % together == 0) {
                const index group = of_group(g, here.instance * g.channels + channel);
                ((Statistics*)statistics)[group] = of;
                if (running_mean) move_running(total, running_mean + group, running_variance + group, by, momentum);
            }
        }
        __syncthreads();
        << "const index ahead = %s;" % ("Kept::ahead_of(g, here, unit, units)" if whole or not last else "0") if kept >>
        for (int step_back = 0; step_back < members; ++step_back) {
            const int m = << "step_back" if kept else "members - 1 - step_back" >>;
            const auto walk = here.walk<< "<true>" if not kept >>(g, m);
            if (!walk.there()) continue;
            Channel own[own_channels];
#pragma unroll
            for (int c = 0; c < own_channels; ++c) own[c] = of_channels[lane + m + c];
            << "packs.write(walk, y, own, m, ahead)" if kept else "write_results(walk, x, (const U*)nullptr, y, own)" >>;
        }
<% if kept and last and not whole %>
        if (unit + int(gridDim.x) < units) packs.stage(g, unit + gridDim.x);
<% endif %>
        wait_for_readers();
    }
}
