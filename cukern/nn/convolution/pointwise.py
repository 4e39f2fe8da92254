"""Convolutions by windows of one element: products of matrices that lie in memory as they are."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ... import namespace as ops
from ...array import Array
from ...elementwise.program import Program
from ...linear.epilogue import product_then
from .geometry import Windows


def takes(windows: Windows, kernel: tuple[int, ...]) -> bool:
    """Whether each pixel of the output is made of the same pixel of the image."""
    ones = max(*kernel, *windows.stride) == 1
    return ones and not any(windows.padding) and windows.groups == 1


def convolve(
    x: Array, weights: Array, operands: Sequence[Array], turned: bool, last: bool, made: Program | None
) -> Array:
    """As :func:`.plan.convolve`."""
    size, pixels = x.shape[2:], math.prod(x.shape[2:])
    factor = ops.reshape(weights, weights.shape[:2])
    if turned:
        factor = factor.T
    others = [ops.reshape(one, (-1,) if last else (-1, 1)) for one in operands]
    if last:
        rows = _rows(x)
        factors = rows, factor.T
    else:
        factors = factor, ops.reshape(x, (*x.shape[:2], pixels))
    y = ops.matmul(*factors) if made is None else product_then(made, 0, *factors, others, ())
    if last:
        return ops.moveaxis(ops.reshape(y, (x.shape[0], *size, y.shape[-1])), -1, 1)
    return ops.reshape(y, (x.shape[0], y.shape[-2], *size))


def weights_gradient(output: Array, image: Array) -> Array:
    """As :func:`.plan.weights_gradient`, for arrays with channels innermost in memory."""
    made = ops.matmul(_rows(output).T, _rows(image))
    return ops.reshape(made, (*made.shape, *(1,) * (image.ndim - 2)))


def _rows(x: Array) -> Array:
    """The channels of each pixel as a row."""
    return ops.reshape(ops.moveaxis(x, 1, -1), (x.shape[0] * math.prod(x.shape[2:]), x.shape[1]))
