// The gradients of batch or group norm in one launch, by formulas as in gradients.cu and apply.cu: dbias and dweight of the
// channels of each instance, and dx, where they are asked for.
// Launch: see cluster.cuh. A block has whole groups of channels.
<% include "prelude/next_kernel.cuh" %>
<% include "nn/channel_norm/cluster.cuh" %>
using G = << grad >>;

extern "C" __global__ void<< " __cluster_dims__(1, %d, 1)" % dims if dims > 1 >> __launch_bounds__(block, << resident >>) << name >>(
    const T* x, const U* dy, const acc* statistics, const W* weight, << "const W* bias, " if activation >>G* dweight, G* dbias, T* dx,
    << "acc* partials, " if wide >>Sizes g, int units, acc scale)
{
    allow_next_kernel();
    __shared__ Joint joint;
    __shared__ Channel of_channels[slots];
    __shared__ acc factors[slots];
    const Statistics* const of_groups = (const Statistics*)statistics;
    const int lane = first_of_thread(), together = int(g.together), slot = threadIdx.x;
<% if kept %>
    extern __shared__ __align__(16) unsigned char memory[];
    const Kept packs(memory, x, dy);
    packs.stage(g, blockIdx.x);
<% endif %>
    for (int unit = blockIdx.x; unit < units; unit += gridDim.x) {
        const Group here(g, unit);
        const index number = here.instance * g.channels + here.first;
        const bool is = slot < slots && here.first + slot < g.channels;
        Statistics of{};
        if (is) of = of_groups[of_group(g, number + slot)], factors[slot] = weight ? cast<acc>(weight[here.first + slot]) : acc(1);
        for (int m = 0; m < members; ++m) {
            const auto walk = here.walk(g, m);
            Sums sums;
#pragma unroll
            for (int c = 0; c < own_channels; ++c) sums.offset[c] = walk.there() ? of_groups[of_group(g, number + lane + m + c)].mean : acc(0);
<% if activation %>
#pragma unroll
            for (int c = 0; c < own_channels && walk.there(); ++c)
                sums.normalize(c, of_groups[of_group(g, number + lane + m + c)], weight, bias, here.first + lane + m + c);
<% endif %>
            << "packs.add_to(sums, walk, m)" if kept else "sums.take(walk, x, dy)" >>;
#pragma unroll
            for (int c = 0; c < own_channels; ++c) note(joint, lane + m + c, {total(sums.first[c]), total(sums.second[c])});
        }
        join_all(joint, g, [&] { << "if (unit + int(gridDim.x) < units) packs.ask(g, unit + gridDim.x);" if kept and asked >> }<< ", (Left*)partials + (index)unit * gridDim.y * slots" if wide >>);
        if (is) {
            State of_all{acc(0), acc(0)};
            for (int c = slot / together * together, end = c + together; c < end; ++c)
                of_all.total += joint.whole[c].total * factors[c], of_all.product += joint.whole[c].product * factors[c];
            of_all.product -= of.rest * of_all.total;
            const acc slope = of.rstd * of.rstd * of.rstd * of_all.product * scale, offset = -of.rstd * of_all.total * scale;
            of_channels[slot] = {of.mean, of.rstd * factors[slot], slope, offset + of.rest * slope<< ", (bias ? cast<acc>(bias[here.first + slot]) : acc(0)) - of.rest * (of.rstd * factors[slot])" if activation >>};
            if (blockIdx.y == 0 && dbias) dbias[number + slot] = cast<G>(joint.whole[slot].total);
            if (blockIdx.y == 0 && dweight) dweight[number + slot] = cast<G>((joint.whole[slot].product - of.rest * joint.whole[slot].total) * of.rstd);
        }
        __syncthreads();
        << "const index ahead = %s;" % ("Kept::ahead_of(g, here, unit, units)" if whole or not last else "0") if kept >>
        for (int step_back = 0; step_back < members && dx; ++step_back) {
            const int m = << "step_back" if kept else "members - 1 - step_back" >>;
            const auto walk = here.walk<< "<true>" if not kept >>(g, m);
            if (!walk.there()) continue;
            Channel own[own_channels];
#pragma unroll
            for (int c = 0; c < own_channels; ++c) own[c] = of_channels[lane + m + c];
            << "packs.write(walk, dx, own, m, ahead)" if kept else "write_results(walk, x, dy, dx, own)" >>;
        }
<% if kept %>
        if ((<< (last and not whole) | lower >> || !dx) && unit + int(gridDim.x) < units) packs.stage(g, unit + gridDim.x);
<% endif %>
        wait_for_readers();
    }
}
