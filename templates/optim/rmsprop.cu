// One step of RMSprop for many arrays (Tieleman and Hinton, 2012; centered: Graves, 2013, equations 38 to 45).
// square and mean are the running averages of the gradient's square and, centered, of the gradient.
// Launch: a block for each piece of an array. Shared memory: none.
<% set slots = ["square"] + (["mean"] if centered else []) + (["velocity"] if has_momentum else []) %>
<% set changing, fixed = ["lr"], ["rate", "eps", "momentum", "weight_decay"] %>
template <int N, typename Numbers>
__device__ __forceinline__ void advance(
    << acc >> (&param)[N], const << acc >> (&grad)[N]
<% for one in slots %>
    , << acc >> (&<< one >>)[N]
<% endfor %>
    , const Numbers& with)
{
#pragma unroll
    for (int i = 0; i < N; ++i) {
        // fma by name: what a compiler may fuse as it likes, it fuses in one variant of the kernel and not in another.
        const << acc >> g = fma(with.weight_decay, param[i], grad[i]);
        << acc >> s = fma(with.rate, fma(g, g, -square[i]), square[i]);
        square[i] = s;
<% if centered %>
        const << acc >> m = fma(with.rate, g - mean[i], mean[i]);
        mean[i] = m;
        s = maximum(fma(-m, m, s), << acc >>(0));  // the variance, which rounding may take below 0
<% endif %>
        << acc >> step = g / (sqrt(s) + with.eps);
<% if has_momentum %>
        step = fma(with.momentum, velocity[i], step);
        velocity[i] = step;
<% endif %>
        param[i] = fma(-with.lr, step, param[i]);
    }
}

<% include "optim/step.cuh" %>
