"""Train a small model with a kernel of your own in the middle of it.

    python examples/06_train_a_model.py

Two spirals are to be told apart. The model is a few layers of the library and one activation that the library
has not; that is written as a kernel with its gradient, checked, and used like any other layer.
"""

import numpy as np

import cukern as ck
from cukern import nn
from cukern.testing import gradcheck

# 1. The activation x * sigmoid(beta * x), with a beta for each feature that is trained as well.
#    One kernel for the value, one for both derivatives. Every element's share of the gradient of beta is
#    written out; the tape sums it to beta's shape, since that is what broadcasting did the other way.

TEXT = """
extern "C" __global__ void << name >>(
    const << elem >>* x, const << elem >>* beta, << "const " ~ elem ~ "* g, " if backward else "" >>
    << elem >>* << "dx" if backward else "y" >>, << elem ~ "* dbeta, " if backward else "" >>
    int n, int features)
{
    const int i = blockIdx.x * << block >> + threadIdx.x;
    if (i >= n) return;
    const << acc >> value = cast< << acc >> >(x[i]), slope = cast< << acc >> >(beta[i % features]);
    const << acc >> s = << acc >>(1) / (1 + exp(-slope * value));
<% if backward %>
    const << acc >> gradient = cast< << acc >> >(g[i]);
    dx[i] = cast< << elem >> >(gradient * (s + value * slope * s * (1 - s)));
    dbeta[i] = cast< << elem >> >(gradient * value * value * s * (1 - s));
<% else %>
    y[i] = cast< << elem >> >(value * s);
<% endif %>
}
"""
forward_kernel = ck.Kernel(TEXT, name="swish", backward=False)
backward_kernel = ck.Kernel(TEXT, name="swish_backward", backward=True)


class SwishFunction(ck.Function):
    @staticmethod
    def forward(ctx, x, beta):
        ctx.save_for_backward(x, beta)
        y = ck.empty_like(x)
        forward_kernel(x, beta, y, x.size, beta.size)
        return y

    @staticmethod
    @ck.once_differentiable
    def backward(ctx, grad):
        x, beta = ctx.saved_arrays
        dx, dbeta = ck.empty_like(x), ck.empty_like(x)
        backward_kernel(x, beta, grad, dx, dbeta, x.size, beta.size)
        return dx, dbeta


rng = np.random.default_rng(0)
gradcheck(SwishFunction.apply, [ck.asarray(rng.normal(size=(4, 3))), ck.asarray(rng.normal(size=3))])
print("the kernel's gradient agrees with finite differences")


class Swish(nn.Module):
    def __init__(self, features):
        self.beta = nn.Parameter(np.ones(features, np.float32))

    def forward(self, x):
        return SwishFunction.apply(x, self.beta)


# 2. The data, and a model of the library's layers and this one.

turns = rng.uniform(0.5, 3, size=1000)
label = rng.integers(0, 2, size=1000)
angle = turns * np.pi + label * np.pi
points = np.stack([turns * np.cos(angle), turns * np.sin(angle)], 1) + rng.normal(size=(1000, 2)) * 0.05
points, labels = ck.asarray(points.astype(np.float32)), ck.asarray(label)

model = nn.Sequential(
    nn.Linear(2, 32, rng=0),
    Swish(32),
    nn.LayerNorm(32),
    nn.Linear(32, 32, rng=1),
    Swish(32),
    nn.Linear(32, 2, rng=2),
)
print("parameters:", sum(p.size for p in model.parameters()))

# 3. The loop: record the loss on a tape, ask for the gradients, let the optimizer take a step.

optimizer = ck.optim.Adam(model.parameters(), lr=0.01)
for step in range(201):
    with ck.Tape() as tape:
        logits = model(points)
        loss = nn.cross_entropy(logits, labels)
    optimizer.step(tape.gradient(loss, model.parameters()))
    if step % 50 == 0:
        right = np.mean(np.argmax(logits.numpy(), 1) == label)
        print(f"step {step:3d}: loss {loss.item():.4f}, right {right:.1%}")

assert right > 0.95, "the model should have learnt to tell the spirals apart"
