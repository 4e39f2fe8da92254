"""unfold (im2col) and fold (col2im): the windows of images as columns, and images as sums of windows."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

from ...array import Array
from ...array.creation import empty
from ...device import Device
from ...elementwise.operands import require_array
from ...function import Function
from ...kernel import Kernel
from ...kernel.bound import BoundKernel
from ...kernel.sizes import divide_up, index_type
from ...launch.params import Params
from ...shape.views import expand_dims
from ..fused import common_dtype, several
from .function import Sizes

_KERNELS = {False: Kernel("nn/convolution/unfold.cu"), True: Kernel("nn/convolution/fold.cu")}
#: Threads per block.
_BLOCK = 256
_WINDOWS = Params(
    "Windows",
    **dict.fromkeys(("height", "width", "down", "across"), "int"),
    **dict.fromkeys(("kernel", "stride", "padding", "dilation"), ("int", 2)),
)
Pair = tuple[int, int]


class _Windows(NamedTuple):
    """Images of one size, and the windows in them."""

    size: Pair
    kernel: Pair
    stride: Pair
    padding: Pair
    dilation: Pair

    @property
    def counts(self) -> Pair:
        """How many windows there are, down and across."""
        axes = zip(self.size, self.kernel, self.stride, self.padding, self.dilation, strict=True)
        a, b = (max(0, (n + 2 * p - d * (k - 1) - 1) // s + 1) for n, k, s, p, d in axes)
        return a, b

    @property
    def taps(self) -> int:
        """Elements of a window."""
        return math.prod(self.kernel)


class _Moved(Function):
    """Images as columns, or if it ``folds`` columns as images: linear, and each other's derivatives, of any order."""

    _only_reads = True

    @staticmethod
    def forward(ctx: Any, x: Array, windows: _Windows, folds: bool) -> Array:
        ctx.options = windows, folds
        batch, channels, *_ = x.shape
        if folds:
            return _launched(x, (batch, channels // windows.taps, *windows.size), windows, folds)
        return _launched(x, (batch, channels * windows.taps, math.prod(windows.counts)), windows, folds)

    @staticmethod
    def backward(ctx: Any, dy: Array) -> tuple[Array | None, ...]:
        windows, folds = ctx.options
        return _Moved.apply(dy, windows, not folds), None, None


@lru_cache(maxsize=256)
def _bound(device: Device, dtype: Any, index: str, folds: bool) -> BoundKernel:
    return _KERNELS[folds].bind(device, elem=dtype, index=index, block=_BLOCK, Windows=_WINDOWS.source({}))


@lru_cache(maxsize=256)
def _packed(windows: _Windows) -> bytes:
    """The kernels' struct of windows."""
    (height, width), (down, across) = windows.size, windows.counts
    each = {name: getattr(windows, name) for name in ("kernel", "stride", "padding", "dilation")}
    return _WINDOWS(height=height, width=width, down=down, across=across, **each).packed({})


def _launched(x: Array, shape: tuple[int, ...], windows: _Windows, folds: bool) -> Array:
    x, y = x.contiguous(), empty(shape, x.dtype, x.device)
    if y.size:
        bound = _bound(x.device, x.dtype, index_type(x.size, y.size), folds)
        bound((x, y, y.size, _packed(windows)), divide_up(y.size, _BLOCK))
    return y


def _windows(
    name: str, size: Pair, kernel_size: Sizes, dilation: Sizes, padding: Sizes, stride: Sizes
) -> _Windows:
    arguments = ((kernel_size, "kernel_size", 1), (stride, "stride", 1), (padding, "padding", 0))
    kernel, steps, pads = (several(value, 2, name, argument, least) for value, argument, least in arguments)
    windows = _Windows(size, kernel, steps, pads, several(dilation, 2, name, "dilation", 1))  # type: ignore[arg-type]
    if not all(windows.counts):
        raise ValueError(
            f"{name}: kernel_size: no window of {kernel}, dilation {dilation!r}, fits an image of {size} "
            f"with padding {padding!r}"
        )
    return windows


def _batched(x: Any, name: str, axes: int, wanted: str) -> Array:
    x = require_array(x, name)
    common_dtype(name, {"x": x})
    if x.ndim not in (axes, axes + 1):
        raise ValueError(f"{name}: x: expected shape {wanted}, or without the batch, got {x.shape}")
    return x if x.ndim > axes else expand_dims(x, 0)


def unfold(x: Array, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1) -> Array:
    """The windows of images as columns: what :func:`conv2d` multiplies by its weights (im2col).

    Args:
        x: shape (N, C, H, W) or (C, H, W), a floating dtype.
        kernel_size: rows and columns of a window; an int for both.
        dilation: from one element of a window to the next.
        padding: zeros around each image.
        stride: from one window to the next.

    Returns:
        Shape (N, C * elements of a window, windows), without N if ``x`` has none: for each channel the elements of the
        windows in C order, for each of them the windows in C order.

    Raises:
        TypeError: ``x`` is not a floating array, or a size is not an int or a pair.
        ValueError: a size is out of range, or no window fits.

    >>> import cukern as ck
    >>> ck.nn.unfold(ck.asarray([[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]]), 2).tolist()
    [[1.0, 2.0], [2.0, 3.0], [4.0, 5.0], [5.0, 6.0]]
    """
    images = _batched(x, "unfold", 3, "(N, C, H, W)")
    height, width = images.shape[-2:]
    windows = _windows("unfold", (height, width), kernel_size, dilation, padding, stride)
    result: Array = _Moved.apply(images, windows, False)
    return result if images is x else result[0]


def fold(
    x: Array,
    output_size: Sizes,
    kernel_size: Sizes,
    dilation: Sizes = 1,
    padding: Sizes = 0,
    stride: Sizes = 1,
) -> Array:
    """Images as sums of windows: the transpose of :func:`unfold` (col2im), with the windows added where they overlap.

    The terms of an element are added in order, so that the result is the same in each run.

    Args:
        x: shape (N, C * elements of a window, windows), or without N, as :func:`unfold` returns it.
        output_size: rows and columns of an image; an int for both.
        kernel_size: as for :func:`unfold`, likewise the next three.
        dilation: from one element of a window to the next.
        padding: what is cut off around each image.
        stride: from one window to the next.

    Returns:
        Shape (N, C, rows, columns), without N if ``x`` has none.

    Raises:
        TypeError: ``x`` is not a floating array, or a size is not an int or a pair.
        ValueError: a size is out of range, or ``x`` does not have as many windows, or elements of one.

    >>> import cukern as ck
    >>> ck.nn.fold(ck.ones((4, 2)), (2, 3), 2).tolist()
    [[[1.0, 2.0, 1.0], [1.0, 2.0, 1.0]]]
    """
    columns = _batched(x, "fold", 2, "(N, C * elements of a window, windows)")
    height, width = several(output_size, 2, "fold", "output_size", 1)
    windows = _windows("fold", (height, width), kernel_size, dilation, padding, stride)
    if columns.shape[1] % windows.taps or columns.shape[2] != math.prod(windows.counts):
        raise ValueError(
            f"fold: x: expected {math.prod(windows.counts)} windows, of {windows.taps} elements for each channel, "
            f"got shape {x.shape}"
        )
    result: Array = _Moved.apply(columns, windows, True)
    return result if columns is x else result[0]
