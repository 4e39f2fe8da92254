"""The launches of pooling kernels for images whose channels lie innermost in memory."""

from __future__ import annotations

import math
from functools import lru_cache

from ... import dtypes
from ... import namespace as ops
from ...array import Array
from ...array.creation import empty
from ...array.layout import address, memory_order
from ...device import Device
from ...kernel import Kernel
from ...kernel.bound import BoundKernel
from ...kernel.sizes import ACCESS, divide_up, index_type
from .geometry import Windows

_FORWARD = Kernel("nn/pooling/forward_last.cu", name="pool2d_last")
_BACKWARD = Kernel("nn/pooling/backward_last.cu", name="pool2d_last_backward")
_BLOCK = 256
#: The order in memory of the axes of images (batch, channels, rows, columns).
_ORDER = (0, 2, 3, 1)


def takes(x: Array) -> bool:
    """Whether the channels of images lie innermost."""
    return x.ndim == 4 and x.shape[1] > 1 and memory_order(x.shape, x.strides, x.itemsize) == _ORDER


def _laid(x: Array) -> Array:
    return ops.permute_dims(x, _ORDER).contiguous()


def _seen(x: Array) -> Array:
    return ops.permute_dims(x, (0, 3, 1, 2))


@lru_cache(maxsize=1024)
def _bound(
    kernel: Kernel,
    device: Device,
    elem: dtypes.DType,
    windows: Windows,
    pack: int,
    index: str,
    maximum: bool,
    keep: bool,
) -> BoundKernel:
    winner = windows.winner_dtype
    return kernel.bind(
        device,
        block=_BLOCK,
        elem=elem,
        index=index,
        pack=pack,
        kernel=windows.kernel,
        stride=windows.stride,
        padding=windows.padding,
        dilation=windows.dilation,
        count_padding=windows.count_padding,
        kind="maximum" if maximum else "average",
        winner=dtypes.info(winner).cxx,
        no_winner=255 if winner == dtypes.uint8 else -1,
        keep=keep,
    )


def _launch(
    kernel: Kernel,
    arrays: tuple[Array, ...],
    sizes: tuple[int, ...],
    threads: int,
    windows: Windows,
    maximum: bool,
    keep: bool,
) -> None:
    """Launch with arrays of shape (batch, rows, columns, channels).

    Args:
        sizes: batch, rows and columns of images and of windows, channels.
        threads: the pixels or windows of the batch, for each of which there is a thread a pack of channels.
    """
    first, channels = arrays[0], sizes[-1]
    pack = math.gcd(channels, ACCESS // first.itemsize)
    if any(address(one._data) % ACCESS for one in arrays):
        pack = 1
    index = index_type(*(one.size for one in arrays))
    bound = _bound(kernel, first.device, first.dtype, windows, pack, index, maximum, keep)
    bound((*arrays, *sizes), divide_up(threads * (channels // pack), _BLOCK))


def forward(x: Array, windows: Windows, maximum: bool, keep: bool) -> tuple[Array, Array | None]:
    """The pooled ``x``; with ``keep`` also the index of each window's largest element."""
    given = _laid(x)
    batch, height, width, channels = given.shape
    size = windows.output_shape(height, width)
    y = empty((batch, *size, channels), x.dtype, x.device)
    winners = empty(y.shape, windows.winner_dtype, x.device) if keep else None
    arrays = (given, y) if winners is None else (given, y, winners)
    sizes = (batch, height, width, *size, channels)
    _launch(_FORWARD, arrays, sizes, batch * math.prod(size), windows, maximum, keep)
    return _seen(y), None if winners is None else _seen(winners)


def backward(dy: Array, x_shape: tuple[int, ...], windows: Windows, winners: Array | None) -> Array:
    """The gradient of images of ``x_shape``, of max pooling if ``winners`` are given, else of average pooling."""
    batch, channels, height, width = x_shape
    dx = empty((batch, height, width, channels), dy.dtype, dy.device)
    arrays = (_laid(dy), dx) if winners is None else (_laid(dy), _laid(winners), dx)
    sizes = (batch, height, width, *dy.shape[2:], channels)
    known = winners is not None
    _launch(_BACKWARD, arrays, sizes, batch * height * width, windows, known, known)
    return _seen(dx)
