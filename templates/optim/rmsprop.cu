// One step of RMSprop for many arrays (Tieleman and Hinton, 2012; centered: Graves, 2013, equations 38 to 45).
// square and mean are the running averages of the gradient's square and, centered, of the gradient.
// Launch: a block for each piece of an array. Shared memory: none.
<% set slots = ["square"] + (["mean"] if centered else []) + (["velocity"] if has_momentum else []) %>
<% set changing, fixed = ["lr"], ["rate", "eps", "momentum", "weight_decay"] %>
<% include "optim/arrays.cuh" %>

template <int N>
__device__ __forceinline__ void advance(Elements<N>& at, int i, const Numbers& with) {
    // fma by name: what a compiler may fuse as it likes, it fuses in one variant of the kernel and not in another.
    const acc g = fma(with.weight_decay, at.param[i], at.grad[i]);
    acc s = fma(with.rate, fma(g, g, -at.square[i]), at.square[i]);
    at.square[i] = s;
<% if centered %>
    const acc m = fma(with.rate, g - at.mean[i], at.mean[i]);
    at.mean[i] = m;
    s = maximum(fma(-m, m, s), acc(0));  // the variance, which rounding may take below 0
<% endif %>
    acc step = g / (sqrt(s) + with.eps);
<% if has_momentum %>
    step = fma(with.momentum, at.velocity[i], step);
    at.velocity[i] = step;
<% endif %>
    at.param[i] = fma(-with.lr, step, at.param[i]);
}

<% include "optim/step.cuh" %>
