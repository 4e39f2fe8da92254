"""Convolutions by windows of one element: products of matrices that lie in memory as they are."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ... import dtypes
from ... import namespace as ops
from ...array import Array
from ...array.layout import Layout
from ...elementwise.program import Program
from ...linear.epilogue import product_then
from ...linear.plan import sums
from .epilogue import added
from .geometry import Windows, place_of

#: How many times as large as the products of a batch's elements its arrays are at least.
_SMALL = 4


def takes(windows: Windows, kernel: tuple[int, ...], image: tuple[int, ...], output: tuple[int, ...]) -> bool:
    """Whether each pixel of the output is made of the same pixel of the image, of these sizes."""
    ones = max(*kernel, *windows.stride) == 1
    return ones and image == output and not any(windows.padding) and windows.groups == 1


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


def has_batches(output: Layout, image: Layout) -> bool:
    """Whether :func:`weights_gradient_of_batches` takes arrays of these layouts: they are larger than its products."""
    device, elem = output.device, output.dtype
    if device.addressable or elem == dtypes.float64 or place_of(output).last or place_of(image).last:
        return False
    channels, pixels = (output.shape[1], image.shape[1]), math.prod(image.shape[2:])
    of_each = math.prod(channels) * dtypes.info(elem).acc.itemsize
    return 0 < _SMALL * of_each * output.shape[0] <= sum(channels) * pixels * elem.itemsize * output.shape[0]


def weights_gradient_of_batches(output: Array, image: Array) -> Array:
    """The same for arrays with pixels innermost: the sum of a product of each element of the batch."""
    rows, columns = (ops.reshape(one, (*one.shape[:2], -1)) for one in (output, image))
    made = added(sums(rows, ops.swapaxes(columns, 1, 2)), output.dtype)
    return ops.reshape(made, (*made.shape, *(1,) * (image.ndim - 2)))


def _rows(x: Array) -> Array:
    """The channels of each pixel as a row."""
    return ops.reshape(ops.moveaxis(x, 1, -1), (x.shape[0] * math.prod(x.shape[2:]), x.shape[1]))
