// One step of Adam, in place (Kingma and Ba, 2015, algorithm 1); decoupled weight decay is AdamW (Loshchilov and
// Hutter, 2019, algorithm 2). In: grad[n] and the scalars. In and out: param[n], mean[n] and square[n].
// Launch: one thread per element, blocks along x. Shared memory: none. A block owns << block >> elements.
// mean and square, the running averages of the gradient and its square, are held in the accumulator type.
// `live`: lr and the two unbias_* are read from memory, where they change between replays of one launch.
// The rates are 1 - beta, unbias_* are 1 / (1 - beta^t): computed by the host, as float would lose digits to 1.
extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    << elem >>* param, const << elem >>* grad, << acc >>* mean, << acc >>* square,
<% if live is defined and live %>
    const << acc >>* schedule,
<% else %>
    << acc >> lr, << acc >> unbias_mean, << acc >> unbias_square,
<% endif %>
    << acc >> mean_rate, << acc >> square_rate, << acc >> eps, << acc >> weight_decay, << index >> n) {
    << index >> i = (<< index >>)blockIdx.x * << block_x >> + (<< index >>)threadIdx.x;
    if (i >= n) return;
<% if live is defined and live %>
    const << acc >> lr = schedule[0], unbias_mean = schedule[1], unbias_square = schedule[2];
<% endif %>
    << acc >> x = cast< << acc >>>(param[i]);
    << acc >> g = cast< << acc >>>(grad[i]);
<% if decoupled %>
    x -= lr * weight_decay * x;
<% else %>
    g += weight_decay * x;
<% endif %>
    << acc >> m = mean[i] + mean_rate * (g - mean[i]);
    << acc >> s = square[i] + square_rate * (g * g - square[i]);
    mean[i] = m;
    square[i] = s;
    param[i] = cast< << elem >>>(x - lr * (m * unbias_mean) / (sqrt(s * unbias_square) + eps));
}
