// y = (x - mean) / sqrt(variance + eps) * weight + bias, with `statistics` of groups, or if they are `constant` with those of
// each channel; or, of the `derivative`, dx = dy * a - (x - mean) * b - c, with factors[channel] = (mean, a, b, c).
// Launch: see places.cuh. Shared: none.
<% include "prelude/next_kernel.cuh" %>
<% include "nn/channel_norm/places.cuh" %>
constexpr bool derivative = << derivative | lower >>;
<% include "nn/channel_norm/results.cuh" %>
using W = << param >>;
<% if derivative %>
struct Given {
    const acc* factors;

    __device__ __forceinline__ Channel of(const Sizes&, index number, index) const {
        const acc* const own = factors + number * 4;
        return {own[0], own[1], own[2], -own[3]};
    }
};
<% else %>
struct Given {
    const W *weight, *bias;
    << "const %s *means, *variances; acc eps;" % running if constant else "const acc* statistics;" >>

    __device__ __forceinline__ Channel of(const Sizes& g, index number, index channel) const {
        const Statistics own = << "{cast<acc>(means[channel]), acc(1) / sqrt(cast<acc>(variances[channel]) + eps)}" if constant else "((const Statistics*)statistics)[of_group(g, number)]" >>;
        return {own.mean, own.rstd * (weight ? cast<acc>(weight[channel]) : acc(1)), acc(0), bias ? cast<acc>(bias[channel]) : acc(0)};
    }
};
<% endif %>

extern "C" __global__ void __launch_bounds__(block, << resident >>) << name >>(
<% if derivative %>
    const T* x, const U* dy, const acc* factors, T* y, Sizes g)
{
    const Given given{factors};
<% else %>
    const T* x, const W* weight, const W* bias, << "const %s* means, const %s* variances" % (running, running) if constant else "const acc* statistics" >>, U* y, Sizes g, acc eps)
{
    const U* const dy = nullptr;
    const Given given{weight, bias, << "means, variances, eps" if constant else "statistics" >>};
<% endif %>
    allow_next_kernel();
    const Walk walk = own_walk(g);
    if (!walk.there()) return;
    write_results(walk, x, dy, y, [&](Channel (&own)[own_channels]) {
#pragma unroll
        for (int c = 0; c < own_channels; ++c) own[c] = given.of(g, walk.number(g) + c, walk.channel + c);
    });
}
