"""Computations that need more than an expression; `torch_work` has their equivalents in PyTorch."""

from __future__ import annotations

from typing import Any

from .. import namespace as ops
from ..array import Array
from ..autodiff.tape import Tape
from ..capture import capture
from ..device.precision import matmul_precision
from ..elementwise.fuse import fuse
from ..function import Function
from ..nn.layer_norm.function import layer_norm
from ..nn.linear import matmul_add_relu
from ..nn.lltm import lltm_cell, lltm_gates


@fuse
def affine(x: Any) -> Any:
    """x * 2.5 + 1.25 as one kernel."""
    return x * 2.5 + 1.25


@fuse
def chain(m: Any, r: Any) -> Any:
    """gelu(m * r + r) / 2 as one kernel."""
    return ops.gelu(m * r + r) * 0.5


@fuse
def residual(x: Any, w: Any, b: Any, r: Any) -> Any:
    """x @ w.T + b + r as one expression."""
    return x @ w.T + b + r


def tf32_add_relu(x: Array, y: Array, b: Array) -> Array:
    """relu(x @ y + b), whose factors may be rounded to tf32."""
    with matmul_precision("tf32"):
        return matmul_add_relu(x, y, b)


def capped(s: Any, batch: Any, head: Any, i: Any, j: Any) -> Any:
    """A score of attention within a bound."""
    return 30 * ops.tanh(s / 30)


def grad_of_squares(x: Array) -> Any:
    """The gradient of the sum of squares, including the tape."""
    with Tape() as tape:
        tape.watch(x)
        y = ops.sum(x * x)
    return tape.gradient(y, x)


class Squared(Function):
    """x * x, as a user writes an operation with a derivative."""

    @staticmethod
    def forward(ctx: Any, x: Array) -> Array:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, grad: Array) -> Array:
        x: Array = ctx.saved_arrays[0]
        return 2 * x * grad


@fuse
def lstm_gates(input: Any, forget: Any, candidate: Any, output: Any, cell: Any) -> Any:
    """The new h and cell of an LSTM's step after its products."""
    new_cell = ops.sigmoid(forget) * cell + ops.sigmoid(input) * ops.tanh(candidate)
    return ops.sigmoid(output) * ops.tanh(new_cell), new_cell


def lltm_gradients(x: Array, weights: Array, bias: Array, h: Array, cell: Array) -> Any:
    """A forward step of the LLTM, and the backward step from the sum of its results."""
    with Tape() as tape:
        tape.watch(weights, bias)
        new_h, new_cell = lltm_cell(x, weights, bias, h, cell)
        loss = ops.sum(new_h) + ops.sum(new_cell)
    return tape.gradient(loss, [weights, bias])


def mlp_gradients(x: Array, first: Array, scale: Array, shift: Array, second: Array) -> Any:
    """The gradients of the weights of two layers with layer normalization between them."""
    with Tape() as tape:
        tape.watch(first, scale, shift, second)
        hidden = ops.gelu(layer_norm(x @ first, first.shape[1:], scale, shift))
        loss = ops.mean((hidden @ second) ** 2)
    return tape.gradient(loss, [first, scale, shift, second])


#: Names that cukern's expressions may use besides its namespace.
OURS = {
    "Squared": Squared,
    "affine": affine,
    "chain": chain,
    "grad_of_squares": grad_of_squares,
    "lstm_gates": lstm_gates,
    "lltm_gradients": lltm_gradients,
    "mlp_gradients": mlp_gradients,
    "lltm_captured": capture(lltm_gradients),
    "pointwise": lltm_gates,
    "residual": residual,
    "tf32_add_relu": tf32_add_relu,
    "capped": capped,
}
