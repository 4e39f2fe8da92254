"""A linear layer in four levels, from a composition of operations to a fused kernel.

    python examples/03_linear_four_levels.py

Each level takes more into its own hands: (1) operations, their gradient found by the tape; (2) a Function,
its gradient written by hand; (3) a Function over a kernel for one part of it; (4) a Function over one fused
kernel. All four are the same layer, so all four are checked against the library's and by finite differences.
"""

import numpy as np

import cukern as ck
from cukern.nn import Module, Parameter
from cukern.testing import assert_close, gradcheck

# Level 1: a composition. The tape records the three operations and knows the derivative of each.


def linear_1(x, weight, bias):  # x (B, M), weight (N, M), bias (N)
    return x @ weight.T + bias


# Level 2: a Function. What comes into backward is the gradient of the loss by the output, G (B, N). By the
# chain rule
#     dL/dx[i, j]      = sum over q of G[i, q] * weight[q, j]      that is  G @ weight
#     dL/dweight[i, j] = sum over b of G[b, i] * x[b, j]           that is  G.T @ x
#     dL/dbias[i]      = sum over b of G[b, i]                     that is  G.sum(0)
# and backward returns one gradient for each argument of forward. What nobody asks for need not be computed.


class Linear2(ck.Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        return x @ weight.T + bias

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_arrays
        dx = grad @ weight if ctx.needs_input_grad[0] else None
        dweight = grad.T @ x if ctx.needs_input_grad[1] else None
        dbias = ck.sum(grad, axis=0) if ctx.needs_input_grad[2] else None
        return dx, dweight, dbias


# Level 3: a kernel for the addition, which writes to the product where it lies. The product itself stays the
# device's library's: nobody beats that in ten lines. `View<T, 2>` is indexed as y(i, j), whatever its
# strides.

add_bias = ck.Kernel(
    """
extern "C" __global__ void << name >>(View< << elem >>, 2> y, const << elem >>* bias)
{
    const long long row = blockIdx.y, column = (long long)blockIdx.x * << block >> + threadIdx.x;
    if (column >= y.shape[1]) return;
    const << acc >> sum = cast< << acc >> >(y(row, column)) + cast< << acc >> >(bias[column]);
    y(row, column) = cast< << elem >> >(sum);
}
""",
    name="add_bias",
    block=128,
)


class Linear3(Linear2):
    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        y = x @ weight.T
        add_bias(y, bias, grid=(-(-y.shape[1] // 128), y.shape[0]))
        return y


# Level 4: all of it in one kernel, the library's templates/nn/linear_fused.cu. It is written for any
# strides, so the gradients are the same text again: a transposed view costs nothing, and the sum over the
# batch is the product with a row of ones, which a stride of 0 makes of a single one.

fused = ck.Kernel("nn/linear_fused.cu", block=(32, 4))


def product(a, b, bias=None):
    y = ck.empty((a.shape[0], b.shape[1]), a.dtype)
    fused(a, b, bias, y, grid=(-(-y.shape[0] // 4), -(-y.shape[1] // 32)))
    return y


class Linear4(ck.Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        return product(x, weight.T, bias)

    @staticmethod
    @ck.once_differentiable
    def backward(ctx, grad):
        x, weight = ctx.saved_arrays
        ones = ck.broadcast_to(ck.ones((1, 1), x.dtype), (1, x.shape[0]))
        return product(grad, weight), product(grad.T, x), product(ones, grad)[0]


# The check: the value in float32, the gradient in float64, where finite differences are sharp. Level 4's
# backward is a kernel's result, so it has no second derivative; the others have.

rng = np.random.default_rng(0)
levels = {
    "1 composition": linear_1,
    "2 Function": Linear2.apply,
    "3 kernel": Linear3.apply,
    "4 fused": Linear4.apply,
}
arrays = [ck.asarray(rng.normal(size=shape).astype(np.float32)) for shape in ((16, 512), (256, 512), (256,))]
small = [ck.asarray(rng.normal(size=shape)) for shape in ((3, 4), (5, 4), (5,))]
for name, level in levels.items():
    assert_close(level(*arrays), ck.nn.linear(*arrays), atol=1e-4)
    order = 1 if level == Linear4.apply else 2
    gradcheck(level, small, order=order)
    print(f"level {name}: right, derivatives agree to order {order}")


# A layer with parameters is a Module around any of the four; the library's is cukern.nn.Linear.


class MyLinear(Module):
    def __init__(self, inputs, outputs, rng):
        bound = inputs**-0.5
        self.weight = Parameter(rng.uniform(-bound, bound, (outputs, inputs)).astype(np.float32))
        self.bias = Parameter(np.zeros(outputs, np.float32))

    def forward(self, x):
        return Linear4.apply(x, self.weight, self.bias)


layer = MyLinear(512, 256, rng)
with ck.Tape() as tape:
    loss = ck.mean(ck.square(layer(arrays[0])))
gradients = tape.gradient(loss, layer.parameters())
print(layer, "loss", round(loss.item(), 4), "gradients", [one.shape for one in gradients])
