// One step of Adam for many arrays (Kingma and Ba, 2015, algorithm 1); decoupled weight decay is AdamW (Loshchilov and
// Hutter, 2019, algorithm 2). mean and square are the running averages of the gradient and its square.
// Launch: a block for each piece of an array. Shared memory: none.
// The rates are 1 - beta, unbias_* are 1 / (1 - beta^t): computed by the host, as float would lose digits to 1.
<% set slots = ["mean", "square"] %>
<% set changing, fixed = ["lr", "unbias_mean", "unbias_square"], ["mean_rate", "square_rate", "eps", "weight_decay"] %>
template <int N, typename Numbers>
__device__ __forceinline__ void advance(
    << acc >> (&param)[N], const << acc >> (&grad)[N], << acc >> (&mean)[N], << acc >> (&square)[N], const Numbers& with)
{
#pragma unroll
    for (int i = 0; i < N; ++i) {
        << acc >> x = param[i], g = grad[i];
<% if decoupled %>
        x -= with.lr * with.weight_decay * x;
<% else %>
        g += with.weight_decay * x;
<% endif %>
        const << acc >> m = mean[i] + with.mean_rate * (g - mean[i]);
        const << acc >> s = square[i] + with.square_rate * (g * g - square[i]);
        mean[i] = m;
        square[i] = s;
        param[i] = x - with.lr * (m * with.unbias_mean) / (sqrt(s * with.unbias_square) + with.eps);
    }
}

<% include "optim/step.cuh" %>
