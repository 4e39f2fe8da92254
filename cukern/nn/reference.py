"""The fused operations as compositions of basic ones.

They define the fused operations, serve as the reference in tests, and give derivatives of second and higher order.
Arguments are those of the fused operation, already checked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .. import namespace as ops
from ..array import Array
from ..array.creation import asarray

if TYPE_CHECKING:
    from .pooling.function import Windows


def matmul_add_relu(lhs: Array, rhs: Array, bias: Array) -> Array:
    """The larger of ``lhs @ rhs + bias`` and 0."""
    return ops.relu(ops.add(ops.matmul(lhs, rhs), bias))


def layer_norm(
    x: Array, normalized_ndim: int, weight: Array | None = None, bias: Array | None = None, eps: float = 1e-5
) -> Array:
    """``(x - mean) / sqrt(variance + eps) * weight + bias`` over the last ``normalized_ndim`` axes."""
    axes = tuple(range(-normalized_ndim, 0))
    centered = ops.subtract(x, ops.mean(x, axis=axes, keepdims=True))
    variance = ops.mean(ops.square(centered), axis=axes, keepdims=True)
    y = ops.divide(centered, ops.sqrt(ops.add(variance, eps)))
    y = y if weight is None else ops.multiply(y, weight)
    return y if bias is None else ops.add(y, bias)


def linear(x: Array, weight: Array, bias: Array | None = None) -> Array:
    """``x @ weight.T + bias``."""
    y = ops.matmul(x, ops.permute_dims(weight, (1, 0)))
    return y if bias is None else ops.add(y, bias)


def lltm_cell(
    input: Array, weights: Array, bias: Array, old_h: Array, old_cell: Array
) -> tuple[Array, Array]:
    """One step: input gate, output gate and candidate from ``concat([old_h, input]) @ weights.T + bias``."""
    state = old_h.shape[1]
    gates = linear(ops.concat([old_h, input], axis=1), weights, bias)
    input_gate = ops.sigmoid(gates[:, :state])
    output_gate = ops.sigmoid(gates[:, state : 2 * state])
    candidate = ops.elu(gates[:, 2 * state :])
    new_cell = ops.add(old_cell, ops.multiply(candidate, input_gate))
    return ops.multiply(ops.tanh(new_cell), output_gate), new_cell


def lltm(
    inputs: Array, weights: Array, bias: Array, old_h: Array, old_cell: Array
) -> tuple[Array, Array, Array]:
    """:func:`lltm_cell` along the first axis of ``inputs``: all outputs, the last output and the last cell."""
    h, cell = old_h, old_cell
    outputs = []
    for step in range(inputs.shape[0]):
        h, cell = lltm_cell(inputs[step], weights, bias, h, cell)
        outputs.append(h)
    return ops.stack(outputs, axis=0), h, cell


def _windows(x: Array, windows: Windows, outside: float) -> Array:
    """The windows of ``x`` (..., height, width) as (..., outputs, elements of a window)."""
    height, width = x.shape[-2:]
    table = windows.positions(height, width)
    flat = ops.reshape(x, (*x.shape[:-2], height * width))
    padding = ops.broadcast_to(asarray(np.array(outside, x.dtype), device=x.device), (*x.shape[:-2], 1))
    positions = asarray(np.where(table < 0, height * width, table).reshape(-1), device=x.device)
    taken = ops.take(ops.concat([flat, padding], axis=-1), positions, axis=-1)
    return ops.reshape(taken, (*x.shape[:-2], *table.shape))


def avg_pool2d(x: Array, windows: Windows) -> Array:
    """The mean of each window of ``x`` (..., height, width)."""
    divisors = asarray(windows.divisors(*x.shape[-2:]).astype(x.dtype), device=x.device)
    means = ops.divide(ops.sum(_windows(x, windows, 0.0), axis=-1), divisors)
    return ops.reshape(means, (*x.shape[:-2], *windows.output_shape(*x.shape[-2:])))


def max_pool2d(x: Array, windows: Windows) -> Array:
    """The largest element of each window of ``x`` (..., height, width): the first of equal ones, or of NaNs."""
    values = _windows(x, windows, -np.inf)
    winners = ops.expand_dims(ops.argmax(values, axis=-1), axis=-1)
    largest = ops.take_along_axis(values, winners, axis=-1)
    return ops.reshape(largest, (*x.shape[:-2], *windows.output_shape(*x.shape[-2:])))
