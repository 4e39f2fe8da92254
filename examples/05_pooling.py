"""Average pooling as a kernel, from the plain window to a gradient without atomics.

    python examples/05_pooling.py

The library's own versions, with padding, dilation and rounding up, are ``cukern.nn.avg_pool2d`` and
``max_pool2d``.
"""

import numpy as np

import cukern as ck
from cukern.testing import assert_close, gradcheck

# 1. One thread makes one output: the mean over a window of k x k, windows `stride` apart. The window's size
#    is known when the text is made, so the loops have constant bounds and the compiler unrolls them. Print
#    the text to see it.

forward_kernel = ck.Kernel(
    """
extern "C" __global__ void << name >>(View<const << elem >>, 3> x, View< << elem >>, 3> y)
{
    const long long n = (long long)blockIdx.x * << block >> + threadIdx.x;
    if (n >= y.shape[0] * y.shape[1] * y.shape[2]) return;
    const long long column = n % y.shape[2], row = n / y.shape[2] % y.shape[1];
    const long long plane = n / y.shape[2] / y.shape[1];

    << acc >> sum = 0;
    for (int a = 0; a < << k >>; ++a)
        for (int b = 0; b < << k >>; ++b)
            sum += cast< << acc >> >(x(plane, row * << stride >> + a, column * << stride >> + b));
    y(plane, row, column) = cast< << elem >> >(sum / << k * k >>);
}
""",
    name="avg_pool",
)


def planes(x):
    return ck.reshape(x, (x.size // (x.shape[-2] * x.shape[-1]), *x.shape[-2:]))


def pool(x, k, stride):
    rows, columns = ((size - k) // stride + 1 for size in x.shape[-2:])
    y = ck.empty((*x.shape[:-2], rows, columns), x.dtype)
    out = planes(y)
    forward_kernel(planes(x), out, grid=-(-y.size // 256), k=k, stride=stride)
    return ck.reshape(out, y.shape)


x = ck.asarray(np.arange(32, dtype=np.float32).reshape(1, 2, 4, 4))
print("windows of 2 x 2:", pool(x, 2, 2).tolist())
print(
    "the line of the compiled text:",
    next(s for s in forward_kernel.source(x, k=2, stride=2).split("\n") if "sum /" in s),
)

# 2. The gradient. Each output gives a k²-th of its gradient to each element of its window. Where windows
#    overlap, an element gets it from several: threads that go over outputs would have to add to one place
#    at once. So let the threads go over the inputs, each to gather from the windows that it lies in.
#    Nothing is added to twice, and the result is the same in every run.

backward_kernel = ck.Kernel(
    """
extern "C" __global__ void << name >>(View<const << elem >>, 3> dy, View< << elem >>, 3> dx)
{
    const long long n = (long long)blockIdx.x * << block >> + threadIdx.x;
    if (n >= dx.shape[0] * dx.shape[1] * dx.shape[2]) return;
    const long long column = n % dx.shape[2], row = n / dx.shape[2] % dx.shape[1];
    const long long plane = n / dx.shape[2] / dx.shape[1];

    // The windows that start at most k - 1 before this element.
    const long long top = row < << k >> ? 0 : (row - << k >>) / << stride >> + 1;
    const long long left = column < << k >> ? 0 : (column - << k >>) / << stride >> + 1;
    << acc >> sum = 0;
    for (long long i = top; i <= minimum(row / << stride >>, dy.shape[1] - 1); ++i)
        for (long long j = left; j <= minimum(column / << stride >>, dy.shape[2] - 1); ++j)
            sum += cast< << acc >> >(dy(plane, i, j));
    dx(plane, row, column) = cast< << elem >> >(sum / << k * k >>);
}
""",
    name="avg_pool_backward",
)


def spread(dy, shape, k, stride):
    dx = ck.empty(shape, dy.dtype)
    out = planes(dx)
    backward_kernel(planes(dy), out, grid=-(-dx.size // 256), k=k, stride=stride)
    return ck.reshape(out, shape)


# 3. Pooling is linear, so the derivative of its gradient is pooling again. Two Functions that are each
#    other's backward have derivatives of every order, each one kernel.


class Pool(ck.Function):
    @staticmethod
    def forward(ctx, x, k, stride):
        ctx.shape, ctx.k, ctx.stride = x.shape, k, stride
        return pool(x, k, stride)

    @staticmethod
    def backward(ctx, dy):
        return Spread.apply(dy, ctx.shape, ctx.k, ctx.stride), None, None


class Spread(ck.Function):
    @staticmethod
    def forward(ctx, dy, shape, k, stride):
        ctx.k, ctx.stride = k, stride
        return spread(dy, shape, k, stride)

    @staticmethod
    def backward(ctx, second):
        return Pool.apply(second, ctx.k, ctx.stride), None, None, None


rng = np.random.default_rng(0)
for k, stride in ((2, 2), (3, 1), (2, 3)):
    x = ck.asarray(rng.normal(size=(2, 7, 8)))
    assert_close(pool(x, k, stride), ck.nn.avg_pool2d(x, k, stride))
    gradcheck(lambda x, k=k, stride=stride: ck.square(Pool.apply(x, k, stride)), [x], order=2)
    print(f"k={k}, stride={stride}: right, derivatives agree to order 2")

# 4. Maxima know which element they took. The library's max_pool2d keeps that as one byte an output, and its
#    gradient gathers in the same way: from the windows that an element lies in and has won.

x = ck.asarray([[[1.0, 3.0, 3.0, 0.0]]])
with ck.Tape() as tape:
    tape.watch(x)
    y = ck.sum(ck.nn.max_pool2d(x, (1, 2), stride=1))
print("the first of equal maxima gets the gradient:", tape.gradient(y, x).tolist())
