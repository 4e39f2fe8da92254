// One step of stochastic gradient descent, in place.
// In: grad[n] and the scalars. In and out: param[n] and, with momentum, velocity[n]; without, velocity is null.
// Launch: one thread per element, blocks along x. Shared memory: none. A block owns << block >> elements.
// velocity is held in the accumulator type, so that bf16 and f16 parameters lose nothing between steps.
// `live`: lr is read from memory, where it changes between replays of one launch.
// nesterov looks one step ahead along it (Sutskever et al., 2013).
extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    << elem >>* param, const << elem >>* grad, << acc >>* velocity,
<% if live is defined and live %>
    const << acc >>* schedule,
<% else %>
    << acc >> lr,
<% endif %>
    << acc >> momentum, << acc >> weight_decay, << index >> n) {
    << index >> i = (<< index >>)blockIdx.x * << block_x >> + (<< index >>)threadIdx.x;
    if (i >= n) return;
<% if live is defined and live %>
    const << acc >> lr = schedule[0];
<% endif %>
    << acc >> x = cast< << acc >>>(param[i]);
    << acc >> step = cast< << acc >>>(grad[i]) + weight_decay * x;
<% if has_momentum %>
    << acc >> v = momentum * velocity[i] + step;
    velocity[i] = v;
    step = << "step + momentum * v" if nesterov else "v" >>;
<% endif %>
    param[i] = cast< << elem >>>(x - lr * step);
}
