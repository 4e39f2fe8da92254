"""Gradients of images of few channels, for windows that move by several pixels: one convolution makes all grids.

Pixels of the image that have the same taps are a grid. Each grid's channels are filters of a convolution by windows
that move by one pixel, with zeros where the grid has no tap: it reads the output's gradient once for all of them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ... import namespace as ops
from ...array import Array
from ...kernel.sizes import ACCESS, divide_up
from .geometry import Windows
from .maps import has_maps

#: Channels of all grids at most, and filters of the convolution at least.
_CHANNELS, _FILTERS = 32, 64


class Side(NamedTuple):
    """The taps of all grids along an axis.

    Attributes:
        taps: of a window that moves by one pixel.
        padding: of it.
        before: zeros before the weights' first tap, in whose place are those of a grid that begin earlier.
    """

    taps: int
    padding: int
    before: int


def side_of(kernel: int, stride: int, padding: int) -> Side:
    """The taps by the places of the output's gradient that they read, from a grid's own place on."""
    least, most = divide_up(padding - kernel + 1, stride), (stride - 1 + padding) // stride
    return Side(most - least + 1, -least, stride * most - padding)


def takes(gradient: Array, weights: Array, windows: Windows) -> bool:
    """Whether the image's gradient is computed so: on tensor cores that bring images by maps."""
    return has_maps(gradient.device) and fits(gradient, weights, windows)


def fits(gradient: Array, weights: Array, windows: Windows) -> bool:
    """The same for any device."""
    stride = math.prod(windows.stride)
    return (
        gradient.dtype.itemsize == 2
        and len(windows.stride) == 2
        and windows.groups == 1
        and max(windows.dilation) == 1
        and stride > 1
        and stride * padded(weights.shape[1], stride) <= _CHANNELS
        and weights.shape[0] >= _FILTERS
        and gradient.size > 0
    )


def padded(channels: int, stride: int) -> int:
    """As many channels as make those of all grids a multiple of 16 bytes."""
    chunk = ACCESS // 2
    return next(n for n in range(channels, channels + chunk) if n * stride % chunk == 0)


def arranged(weights: Array, windows: Windows) -> tuple[Array, tuple[Side, Side]]:
    """The filters of all grids, innermost in memory what they sum over; and the taps of them along both axes."""
    filters, channels, *kernel = weights.shape
    given = zip(kernel, windows.stride, windows.padding, strict=True)
    down, across = (side_of(*one) for one in given)
    (sy, sx), more = windows.stride, padded(channels, math.prod(windows.stride)) - channels
    ends = [
        (side.before, side.taps * step - side.before - n)
        for side, step, n in zip((down, across), (sy, sx), kernel, strict=True)
    ]
    whole = ops.pad(weights, [(0, 0), (0, more), *ends])
    taps = ops.reshape(whole, (filters, channels + more, down.taps, sy, across.taps, sx))[:, :, ::-1, :, ::-1]
    ordered = ops.permute_dims(taps, (3, 5, 1, 2, 4, 0)).contiguous()
    shape = (sy * sx * (channels + more), down.taps, across.taps, filters)
    return ops.moveaxis(ops.reshape(ordered, shape), -1, 1), (down, across)


def placed(grids: Array, stride: tuple[int, ...], channels: int, size: tuple[int, ...], last: bool) -> Array:
    """The image of all its grids.

    Args:
        grids: shape (batch, grids and channels, ...), channels innermost in memory.
        stride: grids along each axis.
        channels: of the image.
        size: of the image.
        last: whether its channels are to lie innermost.
    """
    batch, _, height, width = grids.shape
    sy, sx = stride
    pixels = ops.reshape(ops.moveaxis(grids, 1, -1), (batch, height, width, sy, sx, -1))
    if last:
        rows = ops.permute_dims(pixels, (0, 1, 3, 2, 4, 5)).contiguous()
        image = ops.moveaxis(ops.reshape(rows, (batch, height * sy, width * sx, -1)), -1, 1)
        return image[:, :channels, : size[0], : size[1]]
    planes = ops.permute_dims(pixels[..., :channels], (0, 5, 1, 3, 2, 4)).contiguous()
    image = ops.reshape(planes, (batch, channels, height * sy, width * sx))
    return image[:, :, : size[0], : size[1]].contiguous()
