"""A recurrent cell of your own, the LLTM, with a fused kernel for its forward and one for its backward pass.

    python examples/04_lltm.py

The LLTM is an LSTM without a forget gate, with an ELU inside. No library has it ready, so it has to be
written: first of operations, then fused. The library's own version, over whole sequences, is
``cukern.nn.LLTM``.
"""

import time

import numpy as np

import cukern as ck
from cukern.testing import assert_close, gradcheck

# 1. Of operations. About ten of them follow the matrix product, each a launch that reads and writes memory.


def cell(x, weights, bias, old_h, old_cell):
    z = ck.concat([old_h, x], axis=1) @ weights.T + bias
    state = old_h.shape[1]
    input_gate = ck.sigmoid(z[:, :state])
    output_gate = ck.sigmoid(z[:, state : 2 * state])
    candidate = ck.elu(z[:, 2 * state :])
    new_cell = old_cell + candidate * input_gate
    return ck.tanh(new_cell) * output_gate, new_cell


# 2. Everything after the product in one kernel. It also leaves what the backward pass needs of the gates.

forward_kernel = ck.Kernel(
    """
extern "C" __global__ void << name >>(
    const << elem >>* z, const << elem >>* bias, const << elem >>* old_cell,
    << elem >>* new_h, << elem >>* new_cell, << elem >>* gates, int batch, int state)
{
    const int i = blockIdx.x * << block >> + threadIdx.x;
    if (i >= batch * state) return;
    const int row = i / state, unit = i % state;

    << acc >> own[3];
    for (int gate = 0; gate < 3; ++gate) {
        const int at = (row * 3 + gate) * state + unit;
        const << acc >> value = cast< << acc >> >(z[at]) + cast< << acc >> >(bias[gate * state + unit]);
        // exp(-|z|) cannot overflow, whatever z is.
        const << acc >> e = exp(-fabs(value));
        own[gate] = gate < 2 ? (value >= 0 ? << acc >>(1) : e) / (1 + e) : value > 0 ? value : expm1(value);
        gates[at] = cast< << elem >> >(own[gate]);
    }
    const << acc >> now = cast< << acc >> >(old_cell[i]) + own[2] * own[0];
    new_cell[i] = cast< << elem >> >(now);
    new_h[i] = cast< << elem >> >(tanh(now) * own[1]);
}
""",
    name="lltm_forward",
)

# 3. Its derivative, from the end to the beginning. With t = tanh(new_cell), dh and dc the gradients that
#    come in:
#        dc   += dh * o * (1 - t²)            through new_h
#        dz_o  = dh * t * o * (1 - o)         the sigmoid's derivative is o * (1 - o)
#        dz_i  = dc * c * i * (1 - i)
#        dz_c  = dc * i * (1 if c > 0 else 1 + c)      for elu(z) = exp(z) - 1 the derivative is elu(z) + 1

backward_kernel = ck.Kernel(
    """
extern "C" __global__ void << name >>(
    const << elem >>* gates, const << elem >>* new_cell, const << elem >>* dh, const << elem >>* dc,
    << elem >>* dz, << elem >>* d_old_cell, int batch, int state)
{
    const int n = blockIdx.x * << block >> + threadIdx.x;
    if (n >= batch * state) return;
    const int at = n / state * 3 * state + n % state;
    const << acc >> i = cast< << acc >> >(gates[at]);
    const << acc >> o = cast< << acc >> >(gates[at + state]);
    const << acc >> c = cast< << acc >> >(gates[at + 2 * state]);
    const << acc >> t = tanh(cast< << acc >> >(new_cell[n]));
    const << acc >> h = cast< << acc >> >(dh[n]);
    const << acc >> d = cast< << acc >> >(dc[n]) + h * o * (1 - t * t);
    dz[at] = cast< << elem >> >(d * c * i * (1 - i));
    dz[at + state] = cast< << elem >> >(h * t * o * (1 - o));
    dz[at + 2 * state] = cast< << elem >> >(d * i * (c > 0 ? << acc >>(1) : 1 + c));
    d_old_cell[n] = cast< << elem >> >(d);
}
""",
    name="lltm_backward",
)


# 4. The Function around them: several arguments, two results. The gradient of a result that nobody used
#    arrives as zeros.


class FusedCell(ck.Function):
    @staticmethod
    def forward(ctx, x, weights, bias, old_h, old_cell):
        both = ck.concat([old_h, x], axis=1)
        z = both @ weights.T
        batch, state = old_h.shape
        new_h, new_cell, gates = ck.empty_like(old_h), ck.empty_like(old_h), ck.empty_like(z)
        forward_kernel(z, bias, old_cell, new_h, new_cell, gates, batch, state, grid=-(-old_h.size // 256))
        ctx.save_for_backward(both, weights, new_cell, gates)
        return new_h, new_cell

    @staticmethod
    @ck.once_differentiable
    def backward(ctx, dh, dc):
        both, weights, new_cell, gates = ctx.saved_arrays
        batch, state = new_cell.shape
        dz, d_old_cell = ck.empty_like(gates), ck.empty_like(new_cell)
        backward_kernel(gates, new_cell, dh, dc, dz, d_old_cell, batch, state, grid=-(-new_cell.size // 256))
        d_both = dz @ weights
        return d_both[:, state:], dz.T @ both, ck.sum(dz, axis=0), d_both[:, :state], d_old_cell


# 5. The check.


def arrays(batch, features, state, dtype):
    rng = np.random.default_rng(0)
    shapes = [(batch, features), (3 * state, state + features), (3 * state,), (batch, state), (batch, state)]
    return [ck.asarray((rng.normal(size=shape) * 0.3).astype(dtype)) for shape in shapes]


gradcheck(FusedCell.apply, arrays(2, 3, 4, np.float64))
print("the fused gradient agrees with finite differences")

large = arrays(16, 32, 128, np.float32)
for one, other in zip(FusedCell.apply(*large), cell(*large), strict=True):
    assert_close(one, other, atol=1e-5)


def milliseconds(function):
    def once():
        with ck.Tape() as tape:
            tape.watch(large)
            h, c = function(*large)
            loss = ck.sum(h) + ck.sum(c)
        tape.gradient(loss, large)
        large[0].device.synchronize()

    times = []
    for _ in range(20):
        start = time.perf_counter()
        once()
        times.append(time.perf_counter() - start)
    return 1000 * min(times)


times = [
    f"{name} {milliseconds(one):.2f} ms" for name, one in (("composed", cell), ("fused", FusedCell.apply))
]
print("forward and backward:", ", ".join(times))

# 6. The library's sequence goes further: one product for the inputs of all steps, one for the gradient of
#    the weights.

model = ck.nn.LLTM(features=32, state=128, rng=0)
outputs, (h, c) = model(ck.ones((50, 16, 32)))
print("cukern.nn.LLTM:", outputs.shape, h.shape, c.shape)
