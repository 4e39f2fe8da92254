// Gradients of batch or group norm, second stage: combines the partial sums of sums.cu. For the channels of all instances:
// dbias[channel] = the sum of dy and dweight[channel] that of dy * n, with n = (x - mean) * rstd, where they are asked for;
// factors[channel] = (mean, a, b, c), by which dx = dy * a - (x - mean) * b - c. Without `moving`, mean and variance are
// constants, and b and c are 0. Without parts (pieces is 0) sums are 0. With an activation, factors[channel] has a fifth number: the
// shift of walk.cuh.
// Launch: a block for each group of `together` channels. Shared, static: two numbers a warp.
<% set threads, cluster = block, 1 %>
<% include "prelude/next_kernel.cuh" %>
<% include "prelude/reduce.cuh" %>
using acc = << acc >>;
using W = << param >>;
using G = << grad >>;
using index = << index >>;
<% include "nn/channel_norm/channel_statistics.cuh" %>
constexpr int block = << block >>, unroll = << unroll >>;
constexpr bool moving = << moving | lower >>;
<% set each = 5 if activation else 4 %>

struct alignas(2 * sizeof(acc)) RowState {
    acc total, product;
};
__device__ __forceinline__ RowState row_join(RowState a, RowState b) { return {a.total + b.total, a.product + b.product}; }
<% include "lib/row.cuh" %>

extern "C" __global__ void __launch_bounds__(block) << name >>(
    const acc* parts, const acc* statistics, const W* weight, << "const W* bias, " if activation >>G* dweight, G* dbias, acc* factors, int pieces, int together, int channels,
    acc scale)
{
    allow_next_kernel();
    const index first = (index)blockIdx.x * together;
    const Statistics of = ((const Statistics*)statistics)[blockIdx.x];
    const acc rstd = of.rstd;
    RowState joint{acc(0), acc(0)};
    int phase = 0;
    for (int c = 0; c < together; ++c) {
        const RowState* const own = (const RowState*)parts + (first + c) * pieces;
        const acc of_weight = weight ? cast<acc>(weight[(first + c) % channels]) : acc(1);
        RowState total{acc(0), acc(0)};
        for (int i = threadIdx.x; i < pieces; i += unroll * block) {
            RowState some[unroll];
#pragma unroll
            for (int u = 0; u < unroll; ++u) some[u] = i + u * block < pieces ? own[i + u * block] : RowState{acc(0), acc(0)};
#pragma unroll
            for (int u = 0; u < unroll; ++u) total = row_join(total, some[u]);
        }
        total = row_reduce(total, phase);
        total.product -= of.rest * total.total;
        joint.total += total.total * of_weight, joint.product += total.product * of_weight;
        if (threadIdx.x == 0) {
            if (dbias) dbias[first + c] = cast<G>(total.total);
            if (dweight) dweight[first + c] = cast<G>(total.product * rstd);
            factors[(first + c) * << each >>] = of.mean, factors[(first + c) * << each >> + 1] = rstd * of_weight;
<% if activation %>
            factors[(first + c) * 5 + 4] = (bias ? cast<acc>(bias[(first + c) % channels]) : acc(0)) - of.rest * (rstd * of_weight);
<% endif %>
        }
    }
    for (int c = threadIdx.x; c < together; c += block) {
        acc* const to = factors + (first + c) * << each >>;
        to[2] = moving ? rstd * rstd * rstd * joint.product * scale : acc(0);
        to[3] = (moving ? rstd * joint.total * scale : acc(0)) - of.rest * to[2];
    }
    row_end();
}
