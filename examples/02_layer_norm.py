"""Write layer normalization as a kernel, forward and backward, and see why the obvious formula is not enough.

    python examples/02_layer_norm.py

The library's own version, which keeps a row in registers and divides it among threads, is
``cukern.nn.layer_norm``.
"""

import numpy as np

import cukern as ck
from cukern.testing import assert_close, gradcheck

# 1. y = (x - mean) / sqrt(variance + eps) for each row. One thread takes one row. The variance can be had
#    in one pass, as mean(x * x) - mean(x) * mean(x), or in two, as mean((x - mean)²); `<% if ... %>` is
#    decided when the text is made.

forward_kernel = ck.Kernel(
    """
extern "C" __global__ void << name >>(
    const << elem >>* x, << elem >>* y, << acc >>* mean, << acc >>* rstd,
    int rows, int columns, << acc >> eps)
{
    const int row = blockIdx.x * << block >> + threadIdx.x;
    if (row >= rows) return;
    const << elem >>* from = x + (long long)row * columns;
    << elem >>* to = y + (long long)row * columns;

    << acc >> sum = 0, squares = 0;
    for (int c = 0; c < columns; ++c) {
        const << acc >> value = cast< << acc >> >(from[c]);
        sum += value;
        squares += value * value;
    }
    const << acc >> m = sum / columns;
<% if one_pass %>
    const << acc >> variance = squares / columns - m * m;
<% else %>
    squares = 0;
    for (int c = 0; c < columns; ++c) {
        const << acc >> centered = cast< << acc >> >(from[c]) - m;
        squares += centered * centered;
    }
    const << acc >> variance = squares / columns;
<% endif %>
    const << acc >> r = << acc >>(1) / sqrt(variance + eps);
    for (int c = 0; c < columns; ++c)
        to[c] = cast< << elem >> >((cast< << acc >> >(from[c]) - m) * r);
    mean[row] = m;
    rstd[row] = r;
}
""",
    name="layer_norm",
    block=64,
)


def normalize(x, eps=1e-5, one_pass=False):
    rows, columns = x.size // x.shape[-1], x.shape[-1]
    y = ck.empty(x.shape, x.dtype)
    acc = ck.float64 if x.dtype == ck.float64 else ck.float32
    mean, rstd = ck.empty(rows, acc), ck.empty(rows, acc)
    forward_kernel(x, y, mean, rstd, rows, columns, eps, grid=-(-rows // 64), one_pass=one_pass)
    return y, mean, rstd


# 2. For numbers near 0 both are right. For numbers near 10 000 the squares are near 10⁸, float32 keeps
#    about 7 digits of them, and the variance of 1 is gone, as the difference of two large numbers.

rng = np.random.default_rng(0)


def exact(x):
    x = x.numpy().astype(np.float64)
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


for offset in (0, 10_000):
    x = ck.asarray((rng.normal(size=(8, 256)) + offset).astype(np.float32))
    errors = [
        float(np.nanmax(abs(normalize(x, one_pass=one)[0].numpy() - exact(x)))) for one in (True, False)
    ]
    print(f"mean {offset:6d}: largest error with one pass {errors[0]:.1e}, with two {errors[1]:.1e}")

# 3. The gradient. With n the normalized row and g the gradient that comes in:
#        dx = (g - mean(g) - n * mean(g * n)) * rstd
#    where the two means come from x moving the row's mean and its variance.

backward_kernel = ck.Kernel(
    """
extern "C" __global__ void << name >>(
    const << elem >>* x, const << elem >>* g, const << acc >>* mean, const << acc >>* rstd, << elem >>* dx,
    int rows, int columns)
{
    const int row = blockIdx.x * << block >> + threadIdx.x;
    if (row >= rows) return;
    const long long start = (long long)row * columns;
    const << acc >> m = mean[row], r = rstd[row];

    << acc >> g_mean = 0, product_mean = 0;
    for (int c = 0; c < columns; ++c) {
        const << acc >> gradient = cast< << acc >> >(g[start + c]);
        g_mean += gradient;
        product_mean += gradient * (cast< << acc >> >(x[start + c]) - m) * r;
    }
    g_mean /= columns;
    product_mean /= columns;
    for (int c = 0; c < columns; ++c) {
        const << acc >> n = (cast< << acc >> >(x[start + c]) - m) * r;
        dx[start + c] = cast< << elem >> >((cast< << acc >> >(g[start + c]) - g_mean - n * product_mean) * r);
    }
}
""",
    name="layer_norm_backward",
    block=64,
)

# 4. `forward` leaves mean and rstd for `backward`. A kernel's result is no record of how it came about, so
#    this backward cannot be differentiated again, and says so: `once_differentiable` makes a second
#    derivative an error, not a wrong number.


class LayerNorm(ck.Function):
    @staticmethod
    def forward(ctx, x, eps):
        y, mean, rstd = normalize(x, eps)
        ctx.save_for_backward(x, mean, rstd)
        return y

    @staticmethod
    @ck.once_differentiable
    def backward(ctx, grad):
        x, mean, rstd = ctx.saved_arrays
        dx = ck.empty(x.shape, x.dtype)
        rows, columns = x.size // x.shape[-1], x.shape[-1]
        backward_kernel(x, grad, mean, rstd, dx, rows, columns, grid=-(-rows // 64))
        return dx, None


gradcheck(lambda x: LayerNorm.apply(x, 1e-5), [ck.asarray(rng.normal(size=(3, 5)))])
print("the gradient agrees with finite differences")

# 5. The library's layer_norm does the same, and has derivatives of any order: the first is a kernel like
#    the one above, the next ones come from its definition in basic operations.

x = ck.asarray(rng.normal(size=(4, 32)).astype(np.float32))
assert_close(LayerNorm.apply(x, 1e-5), ck.nn.layer_norm(x, 32), atol=1e-5)
gradcheck(lambda x: ck.nn.layer_norm(x, 5), [ck.asarray(rng.normal(size=(3, 5)))], order=2)
print("and cukern.nn.layer_norm agrees with it, to second order")
