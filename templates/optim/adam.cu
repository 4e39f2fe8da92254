// One step of Adam for many arrays (Kingma and Ba, 2015, algorithm 1); decoupled weight decay is AdamW (Loshchilov and
// Hutter, 2019, algorithm 2). mean and square are the running averages of the gradient and its square.
// Launch: a block for each piece of an array. Shared memory: none.
// The rates are 1 - beta, unbias_* are 1 / (1 - beta^t): computed by the host, as float would lose digits to 1.
<% set slots = ["mean", "square"] %>
<% set changing, fixed = ["lr", "unbias_mean", "unbias_square"], ["mean_rate", "square_rate", "eps", "weight_decay"] %>
<% include "optim/arrays.cuh" %>
constexpr bool decoupled = << decoupled | lower >>;

template <int N>
__device__ __forceinline__ void advance(Elements<N>& at, int i, const Numbers& with) {
    acc x = at.param[i], g = at.grad[i];
    if (decoupled) x -= with.lr * with.weight_decay * x;
    else g += with.weight_decay * x;
    const acc m = at.mean[i] + with.mean_rate * (g - at.mean[i]);
    const acc s = at.square[i] + with.square_rate * (g * g - at.square[i]);
    at.mean[i] = m;
    at.square[i] = s;
    at.param[i] = x - with.lr * (m * with.unbias_mean) / (sqrt(s * with.unbias_square) + with.eps);
}

<% include "optim/step.cuh" %>
