// y = (x - mean) / sqrt(variance + eps) * weight + bias, with `statistics` of groups, or if they are `constant` with those of
// each channel; or, of the `derivative`, dx = dy * a - (x - mean) * b - c, with factors[channel] = (mean, a, b, c).
// Launch: see places.cuh. Shared: none.
<% include "nn/channel_norm/places.cuh" %>
using W = << param >>;

extern "C" __global__ void __launch_bounds__(block) << name >>(
<% if derivative %>
    const T* x, const U* dy, const acc* factors, T* dx, Sizes g)
<% else %>
    const T* x, const W* weight, const W* bias, << "const %s* means, const %s* variances" % (running, running) if constant else "const acc* statistics" >>, U* y, Sizes g, acc eps)
<% endif %>
{
    Walk walk(g);
    if (!walk.there()) return;
    acc mean[own_channels], factor[own_channels], offset[own_channels];
<% if derivative %>
    acc slope[own_channels];
<% endif %>
#pragma unroll
    for (int c = 0; c < own_channels; ++c) {
<% if derivative %>
        const acc* const of = factors + (walk.number(g) + c) * 4;
        mean[c] = of[0], factor[c] = of[1], slope[c] = of[2], offset[c] = of[3];
<% else %>
<% if constant %>
        const Statistics of = {cast<acc>(means[walk.channel + c]), acc(1) / sqrt(cast<acc>(variances[walk.channel + c]) + eps)};
<% else %>
        const Statistics of = ((const Statistics*)statistics)[(walk.number(g) + c) / g.together];
<% endif %>
        mean[c] = of.mean, factor[c] = of.rstd * (weight ? cast<acc>(weight[walk.channel + c]) : acc(1));
        offset[c] = bias ? cast<acc>(bias[walk.channel + c]) : acc(0);
<% endif %>
    }
    while (walk.there()) {
        Pack<T, width> xs[unroll];
<% if derivative %>
        Pack<U, width> dys[unroll];
<% endif %>
        index at[unroll];
#pragma unroll
        for (int u = 0; u < unroll; ++u) {
            at[u] = walk.there() ? walk.at : index(-1);
            if (walk.there()) {
                xs[u] = load_pack<width>(x + walk.at);
                << "dys[u] = load_pack<width>(dy + walk.at);" if derivative >>
                walk.go_on();
            }
        }
#pragma unroll
        for (int u = 0; u < unroll; ++u) {
            if (at[u] < 0) continue;
            acc own[width], made[width];
            unpack(xs[u], own);
<% if derivative %>
            acc given[width];
            unpack(dys[u], given);
<% endif %>
#pragma unroll
            for (int v = 0; v < width; ++v) {
                const int c = last ? v : 0;
<% if derivative %>
                made[v] = given[v] * factor[c] - (own[v] - mean[c]) * slope[c] - offset[c];
<% else %>
                made[v] = (own[v] - mean[c]) * factor[c] + offset[c];
<% endif %>
            }
            << "store_pack(dx + at[u], packed<T>(made));" if derivative else "store_pack(y + at[u], packed<U>(made));" >>
        }
    }
}
