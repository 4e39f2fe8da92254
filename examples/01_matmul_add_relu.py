"""Fuse a matrix product, an addition and a ReLU into one kernel, and give it a gradient.

    python examples/01_matmul_add_relu.py

The steps: what the operation means, a kernel template, a launch, a backward pass in two strategies, and the
check of that backward by finite differences. The library's own version of the result is
``cukern.nn.matmul_add_relu``.
"""

import math

import numpy as np

import cukern as ck
from cukern.testing import assert_close, gradcheck

# 1. What the operation means, in basic operations. Each of the three is a kernel of its own and writes its
#    result to memory for the next one to read. This is the reference that everything below is compared with.


def reference(lhs, rhs, bias):
    return ck.relu(lhs @ rhs + bias)


# 2. The kernel. `<< elem >>` is the element type of the arrays, `<< acc >>` the type to add up in (float
#    for the half types). A `View` knows its array's shape and strides: v(b, i, j) is an element, transposed
#    and broadcast arrays need no copy, and one that is broadcast along the batch simply has a stride of 0
#    there.

kernel = ck.Kernel(
    """
extern "C" __global__ void << name >>(
    View<const << elem >>, 3> lhs, View<const << elem >>, 3> rhs, View<const << elem >>, 3> bias,
    View< << elem >>, 3> out)
{
    const long long i = (long long)blockIdx.y * << block_y >> + threadIdx.y;
    const long long j = (long long)blockIdx.x * << block_x >> + threadIdx.x;
    const long long b = blockIdx.z;
    if (i >= out.shape[1] || j >= out.shape[2]) return;

    << acc >> sum = cast< << acc >> >(bias(b, i, j));
    for (long long k = 0; k < lhs.shape[2]; ++k)
        sum += cast< << acc >> >(lhs(b, i, k)) * cast< << acc >> >(rhs(b, k, j));
    out(b, i, j) = cast< << elem >> >(maximum(sum, << acc >>(0)));
}
""",
    name="matmul_add_relu",
    block=(16, 16),
)

# 3. A launch: any number of batch axes, seen as one. The kernel's signature is read from its text, so an
#    array of the wrong dtype or a forgotten argument is refused here, by name, and not by a wrong result.


def fused(lhs, rhs, bias):
    rows, columns = lhs.shape[-2], rhs.shape[-1]
    batch = np.broadcast_shapes(lhs.shape[:-2], rhs.shape[:-2], bias.shape[:-2])

    def seen(x, *matrix):
        return ck.reshape(ck.broadcast_to(x, (*batch, *matrix)), (math.prod(batch), *matrix))

    out = ck.empty((math.prod(batch), rows, columns), lhs.dtype)
    kernel(
        seen(lhs, rows, lhs.shape[-1]),
        seen(rhs, rhs.shape[-2], columns),
        seen(bias, rows, columns),
        out,
        grid=(-(-columns // 16), -(-rows // 16), math.prod(batch)),
    )
    return ck.reshape(out, (*batch, rows, columns))


rng = np.random.default_rng(0)
lhs = ck.asarray(rng.normal(size=(2, 1, 33, 20)).astype(np.float32))
rhs = ck.asarray(rng.normal(size=(3, 20, 40)).astype(np.float32))
bias = ck.asarray(rng.normal(size=40).astype(np.float32))
assert_close(fused(lhs, rhs, bias), reference(lhs, rhs, bias), atol=1e-5)
print("forward equals the reference, output", fused(lhs, rhs, bias).shape)

# 4. The backward pass. Where the output is 0 nothing flows back; elsewhere it is that of a sum and of a
#    product. The gradients may keep the broadcast shape: the tape sums them to the shape of the argument.
#    A backward made of cukern's operations is differentiable again. What it needs from the forward pass it
#    has to ask for, and this is the choice between two strategies:
#      - keep the output (an operation that is expensive to compute: compute-bound), or
#      - keep only the arguments, which live anyway, and compute the output again (memory-bound).


def gradients(grad, output, lhs, rhs):
    grad = ck.where(output > 0, grad, 0)
    return grad @ rhs.mT, lhs.mT @ grad, grad


class Saving(ck.Function):
    @staticmethod
    def forward(ctx, lhs, rhs, bias):
        output = fused(lhs, rhs, bias)
        ctx.save_for_backward(lhs, rhs, output)
        return output

    @staticmethod
    def backward(ctx, grad):
        lhs, rhs, output = ctx.saved_arrays
        return gradients(grad, output, lhs, rhs)


class Recomputing(ck.Function):
    @staticmethod
    def forward(ctx, lhs, rhs, bias):
        ctx.save_for_backward(lhs, rhs, bias)
        return fused(lhs, rhs, bias)

    @staticmethod
    def backward(ctx, grad):
        lhs, rhs, bias = ctx.saved_arrays
        return gradients(grad, fused(lhs, rhs, bias), lhs, rhs)


# 5. Check it, always, in float64: gradcheck compares with finite differences. Order 2 differentiates the
#    backward pass.

small = [ck.asarray(rng.normal(size=shape)) for shape in ((2, 3, 4), (4, 5), (5,))]
for function in (Saving, Recomputing):
    gradcheck(function.apply, small, order=2)
    print(f"{function.__name__}: first and second derivatives agree with finite differences")

# 6. And use it.

with ck.Tape() as tape:
    tape.watch(bias)
    loss = ck.mean(Saving.apply(lhs, rhs, bias))
print("loss", round(loss.item(), 4), "| gradient of bias", tape.gradient(loss, bias).shape)
