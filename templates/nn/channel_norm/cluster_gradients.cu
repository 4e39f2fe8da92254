// The gradients of batch or group norm in one launch, by formulas as in gradients.cu and apply.cu: dbias and dweight of the
// channels of each instance, and dx, where they are asked for.
// Launch: see cluster.cuh. A block has whole groups of channels.
<% include "prelude/next_kernel.cuh" %>
<% include "nn/channel_norm/cluster.cuh" %>
using G = << grad >>;
constexpr bool moving = << moving | lower >>;

extern "C" __global__ void<< " __cluster_dims__(1, %d, 1)" % cluster if cluster > 1 >> __launch_bounds__(block, << resident >>) << name >>(
    const T* x, const U* dy, const acc* statistics, const W* weight, G* dweight, G* dbias, T* dx, Sizes g, acc scale)
{
    allow_next_kernel();
    __shared__ State of_warps[warps][slots], of_block[slots], whole[slots];
    __shared__ Channel of_channels[slots];
    const Group here = own_group(g);
    const Statistics* const of_groups = (const Statistics*)statistics;
    const index number = here.instance * g.channels + here.first;
    const int lane = first_of_thread();
    const auto walk_of = [&](int m) { return WalkOf<false>(g, here.instance, here.first + lane + m, blockIdx.y); };
<% if kept %>
    extern __shared__ __align__(16) unsigned char memory[];
    const Kept own_packs(memory);
    for (int m = 0; m < members; ++m) own_packs.bring(walk_of(m), x, dy, m);
    << "commit_copies(), wait_copies<0>();" if members > 1 >>
<% endif %>
    for (int m = 0; m < members; ++m) {
        const WalkOf<false> walk = walk_of(m);
        Sums sums;
#pragma unroll
        for (int c = 0; c < own_channels; ++c) sums.offset[c] = walk.there() ? of_groups[of_group(g, number + lane + m + c)].mean : acc(0);
        << "own_packs.add_to(sums, walk, m)" if kept else "sums.take(walk, x, dy)" >>;
#pragma unroll
        for (int c = 0; c < own_channels; ++c) note(of_warps, lane + m + c, sums.of(c));
    }
    join_all(of_warps, of_block, whole);
    const int together = int(g.together);
    for (int slot = threadIdx.x; slot < slots && here.first + slot < g.channels; slot += block) {
        State joint{acc(0), acc(0)};
        for (int c = slot / together * together, end = c + together; c < end; ++c) {
            const acc factor = weight ? cast<acc>(weight[here.first + c]) : acc(1);
            joint.total += whole[c].total * factor, joint.product += whole[c].product * factor;
        }
        const Statistics of = of_groups[of_group(g, number + slot)];
        const acc slope = moving ? of.rstd * of.rstd * of.rstd * joint.product * scale : acc(0);
        const acc offset = moving ? -of.rstd * joint.total * scale : acc(0);
        of_channels[slot] = {of.mean, of.rstd * (weight ? cast<acc>(weight[here.first + slot]) : acc(1)), slope, offset};
        if (blockIdx.y > 0) continue;
        if (dbias) dbias[number + slot] = cast<G>(whole[slot].total);
        if (dweight) dweight[number + slot] = cast<G>(whole[slot].product * of.rstd);
    }
    __syncthreads();
    for (int m = members - 1; m >= 0 && dx; --m) {
        const << "WalkOf<false>" if kept else "WalkOf<true>" >> walk(g, here.instance, here.first + lane + m, blockIdx.y);
        if (!walk.there()) continue;
        Channel own[own_channels];
#pragma unroll
        for (int c = 0; c < own_channels; ++c) own[c] = of_channels[lane + m + c];
        << "own_packs.write(walk, dx, own, m)" if kept else "write_results(walk, x, dy, dx, own)" >>;
    }
    wait_for_readers();
}
