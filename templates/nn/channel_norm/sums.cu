// Batch or group norm, first stage: partial sums of channels. Forward: the moments of moments.cuh, as parts[channel, part, 4].
// Of the `derivative`: the sums of dy and of dy * (x - mean), without the mean's rest, as parts[channel, part, 2]; and, with an `image`, whose statistics are
// constants, dx = dy * rstd * weight. After an activation dy is what that passes on of what is given. Channels are those of all instances.
// Launch: see walk.cuh. Shared, static: the sums of the block's threads. The order of sums is the same in every run.
<% include "prelude/next_kernel.cuh" %>
<% include "nn/channel_norm/sums.cuh" %>
<% if image or (derivative and activation) %>
using W = << param >>;
<% endif %>
constexpr int numbers = derivative ? 2 : 4;

extern "C" __global__ void __launch_bounds__(block, << resident >>) << name >>(
    const T* x, << "const U* dy, const acc* statistics, " if derivative >><< "const W* weight, " if image or (derivative and activation) >><< "const W* bias, " if derivative and activation >><< "T* dx, " if image >>acc* parts, Sizes g)
{
    allow_next_kernel();
    const Walk walk = own_walk(g);
    Sums sums;
#pragma unroll
    for (int c = 0; c < own_channels; ++c)
        sums.offset[c] = !walk.there() ? acc(0) : << "((const Statistics*)statistics)[of_group(g, walk.number(g) + c)].mean" if derivative else "cast<acc>(x[walk.at + c])" >>;
<% if derivative and activation %>
#pragma unroll
    for (int c = 0; c < own_channels && walk.there(); ++c)
        sums.normalize(c, ((const Statistics*)statistics)[of_group(g, walk.number(g) + c)], weight, bias, walk.channel + c);
<% endif %>
<% if image %>
    acc factors[own_channels];
#pragma unroll
    for (int c = 0; c < own_channels; ++c)
        factors[c] = walk.there() ? ((const Statistics*)statistics)[walk.number(g) + c].rstd * (weight ? cast<acc>(weight[walk.channel + c]) : acc(1)) : acc(0);
    sums.take(walk, x, dy, [&](index at, << "const Pack<T, width>& pack, " if activation >>const Pack<U, width>& above) {
        acc values[width];
        unpack(above, values);
<% if activation %>
        acc own[width];
        unpack(pack, own);
        sums.pass_on(own, values);
<% endif %>
#pragma unroll
        for (int v = 0; v < width; ++v) values[v] *= factors[last ? v : 0];
        store_pack(dx + at, packed<T>(values));
    });
<% else %>
    sums.take(walk, x, << "dy" if derivative else "nullptr" >>);
<% endif %>
    __shared__ State shared[own_channels][block];
#pragma unroll
    for (int c = 0; c < own_channels; ++c) shared[c][threadIdx.x] = sums.of(c);
    for (int half = down / 2; half > 0; half /= 2) {
        __syncthreads();
        if (int(threadIdx.x) < half * across) {
#pragma unroll
            for (int c = 0; c < own_channels; ++c)
                shared[c][threadIdx.x] = join(shared[c][threadIdx.x], shared[c][threadIdx.x + half * across]);
        }
    }
    if (int(threadIdx.x) >= across || walk.channel >= g.channels) return;
#pragma unroll
    for (int c = 0; c < own_channels; ++c) {
        const State values = shared[c][threadIdx.x];
        acc* const to = parts + ((walk.number(g) + c) * gridDim.y + blockIdx.y) * numbers;
<% if derivative %>
        to[0] = values.total, to[1] = values.product;
<% else %>
        to[0] = values.count, to[1] = values.mean, to[2] = values.rest, to[3] = values.squares;
<% endif %>
    }
}
