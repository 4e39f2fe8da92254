// One step of stochastic gradient descent for many arrays; nesterov looks one step ahead along the velocity (Sutskever et
// al., 2013). Launch: a block for each piece of an array. Shared memory: none.
<% set slots = ["velocity"] if has_momentum else [] %>
<% set changing, fixed = ["lr"], ["momentum", "weight_decay"] %>
<% include "optim/arrays.cuh" %>
constexpr bool nesterov = << nesterov | lower >>;

template <int N>
__device__ __forceinline__ void advance(Elements<N>& at, int i, const Numbers& with) {
    acc step = at.grad[i] + with.weight_decay * at.param[i];
<% if has_momentum %>
    const acc v = with.momentum * at.velocity[i] + step;
    at.velocity[i] = v;
    step = nesterov ? step + with.momentum * v : v;
<% endif %>
    at.param[i] -= with.lr * step;
}

<% include "optim/step.cuh" %>
