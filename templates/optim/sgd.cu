// One step of stochastic gradient descent for many arrays; nesterov looks one step ahead along the velocity (Sutskever et
// al., 2013). Launch: a block for each piece of an array. Shared memory: none.
<% set slots = ["velocity"] if has_momentum else [] %>
<% set changing, fixed = ["lr"], ["momentum", "weight_decay"] %>
template <int N, typename Numbers>
__device__ __forceinline__ void advance(
    << acc >> (&param)[N], const << acc >> (&grad)[N]<< ", %s (&velocity)[N]" % acc if has_momentum >>, const Numbers& with)
{
#pragma unroll
    for (int i = 0; i < N; ++i) {
        << acc >> step = grad[i] + with.weight_decay * param[i];
<% if has_momentum %>
        const << acc >> v = with.momentum * velocity[i] + step;
        velocity[i] = v;
        step = << "step + with.momentum * v" if nesterov else "v" >>;
<% endif %>
        param[i] -= with.lr * step;
    }
}

<% include "optim/step.cuh" %>
