// Batch or group norm, last stage: y = (x - mean) / sqrt(variance + eps) * weight + bias, with `statistics` of groups, or if they are `constant` with those of
// each channel, which are written as in channel_statistics.cuh where they are asked for; or, of the `derivative`,
// dx = dy * a - (x - mean) * b - c, with factors[channel] = (mean, a, b, c), and of an activation the shift.
// Launch: see walk.cuh. Shared: none.
<% include "prelude/next_kernel.cuh" %>
<% include "prelude/over_pack.cuh" %>
<% include "nn/channel_norm/walk.cuh" %>
constexpr bool derivative = << derivative | lower >>;
<% include "nn/channel_norm/results.cuh" %>
using W = << param >>;

<% if constant %>
// A number of each channel of a thread; the same for all, if there is no array.
template <typename N>
__device__ __forceinline__ void load_own(const N* of_channels, acc otherwise, acc (&to)[own_channels]) {
    if (of_channels) return unpack(load_pack<own_channels>(of_channels), to);
#pragma unroll
    for (int c = 0; c < own_channels; ++c) to[c] = otherwise;
}
<% endif %>

extern "C" __global__ void __launch_bounds__(block, << resident >>) << name >>(
<% if derivative %>
    const T* x, const U* dy, const acc* factors, T* y, Sizes g)
{
<% else %>
    const T* x, const W* weight, const W* bias, << "const %s* means, const %s* variances" % (running, running) if constant else "const acc* statistics" >>, U* y, << "acc* statistics, " if tracked >><< "acc eps, " if constant >>Sizes g)
{
    const U* const dy = nullptr;
<% endif %>
    allow_next_kernel();
    const Walk walk = own_walk(g);
    if (!walk.there()) return;
    write_results(walk, x, dy, y, [&](Channel (&own)[own_channels]) {
<% if constant %>
        acc factors[own_channels], offsets[own_channels], apart[own_channels], squares[own_channels];
        load_own(weight ? weight + walk.channel : nullptr, acc(1), factors);
        load_own(bias ? bias + walk.channel : nullptr, acc(0), offsets);
        load_own(means + walk.channel, acc(0), apart);
        load_own(variances + walk.channel, acc(0), squares);
<% endif %>
#pragma unroll
        for (int c = 0; c < own_channels; ++c) {
<% if constant %>
            own[c] = {apart[c], factors[c] / sqrt(squares[c] + eps), acc(0), offsets[c]};
<% if tracked %>
            if (int(threadIdx.x) < across && blockIdx.y == 0)
                ((Statistics*)statistics)[walk.channel + c] = {apart[c], acc(0), acc(1) / sqrt(squares[c] + eps)};
<% endif %>
<% elif derivative %>
            const acc* const of = factors + (walk.number(g) + c) * << 5 if activation else 4 >>;
            own[c] = {of[0], of[1], of[2], -of[3]<< ", of[4]" if activation >>};
<% else %>
            const index channel = walk.channel + c;
            const Statistics of = ((const Statistics*)statistics)[of_group(g, walk.number(g) + c)];
            const acc factor = of.rstd * (weight ? cast<acc>(weight[channel]) : acc(1));
            own[c] = {of.mean, factor, acc(0), (bias ? cast<acc>(bias[channel]) : acc(0)) - of.rest * factor};
<% endif %>
        }
    });
}
