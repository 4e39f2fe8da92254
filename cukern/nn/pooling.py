"""Average and maximum over the windows of a plane."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import dtypes
from .. import namespace as ops
from ..array import Array
from ..creation import asarray, empty
from ..device import Device
from ..function import Function
from ..kernel import BoundKernel, Kernel
from ..ops.launch import divide_up
from .fused import common_dtype, index_type, is_int
from .module import Module

Pair = tuple[int, int]

_forward = Kernel("nn/pool2d.cu", name="pool2d")
_backward = Kernel("nn/pool2d_backward.cu", name="pool2d_backward")


@dataclass(frozen=True)
class Windows:
    """How windows lie on a plane; each pair is (rows, columns).

    Attributes:
        kernel: places of a window.
        stride: from one window to the next.
        padding: positions added on each side, at most half of what a window spans.
        dilation: from one place of a window to the next.
        ceil_mode: whether the number of windows is rounded up.
        count_padding: whether an average also counts the padding.
    """

    kernel: Pair
    stride: Pair
    padding: Pair
    dilation: Pair = (1, 1)
    ceil_mode: bool = False
    count_padding: bool = True

    def output_shape(self, height: int, width: int) -> Pair:
        """The number of windows down and across: with ``span = dilation * (kernel - 1) + 1``,
        ``(size + 2 * padding - span) / stride + 1`` rounded down, or up with ``ceil_mode``, where a window
        that would start beyond the plane and its leading padding is dropped again.
        """
        counts = []
        for axis, size in enumerate((height, width)):
            stride, padding = self.stride[axis], self.padding[axis]
            room = size + 2 * padding - self.dilation[axis] * (self.kernel[axis] - 1) - 1
            count = (divide_up(room, stride) if self.ceil_mode else room // stride) + 1
            if self.ceil_mode and (count - 1) * stride >= size + padding:
                count -= 1
            counts.append(count)
        return counts[0], counts[1]

    def positions(self, height: int, width: int) -> npt.NDArray[np.int64]:
        """For each window and each of its places, the flat position in the plane, or -1 outside of it."""
        rows, columns = (
            (np.arange(count) * self.stride[axis] - self.padding[axis])[:, None]
            + np.arange(self.kernel[axis]) * self.dilation[axis]
            for axis, count in enumerate(self.output_shape(height, width))
        )
        row, column = rows[:, None, :, None], columns[None, :, None, :]
        inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
        flat = np.where(inside, row * width + column, -1)
        return flat.reshape(len(rows) * len(columns), -1).astype(np.int64)

    def divisors(self, height: int, width: int) -> npt.NDArray[np.int64]:
        """For each window, what its sum is divided by in an average."""
        counts = []
        for axis, (size, number) in enumerate(
            zip((height, width), self.output_shape(height, width), strict=True)
        ):
            first = np.arange(number) * self.stride[axis] - self.padding[axis]
            last = first + self.kernel[axis]
            if self.count_padding:
                counts.append(np.minimum(last, size + self.padding[axis]) - first)
            else:
                counts.append(np.minimum(last, size) - np.maximum(first, 0))
        return (counts[0][:, None] * counts[1]).reshape(-1).astype(np.int64)

    @property
    def winner_dtype(self) -> dtypes.DType:
        """The dtype that the place of a window's largest element fits into."""
        return dtypes.uint8 if math.prod(self.kernel) < 256 else dtypes.int32


@cache
def _bound(
    kernel: Kernel, device: Device, elem: dtypes.DType, index: str, kind: str, windows: Windows, items: int
) -> BoundKernel:
    winner = windows.winner_dtype
    variables: dict[str, Any] = {
        "kernel": windows.kernel,
        "stride": windows.stride,
        "padding": windows.padding,
        "dilation": windows.dilation,
        "count_padding": windows.count_padding,
    }
    if kind == "maximum":
        variables |= {"winner": dtypes.info(winner).cxx, "no_winner": 255 if winner == dtypes.uint8 else -1}
    if kernel is _forward:
        variables["items"] = items
    return kernel.bind(device, elem=elem, index=index, kind=kind, **variables)


def _sizes(x_shape: tuple[int, ...], windows: Windows) -> tuple[int, int, int, int, int]:
    """Planes, height, width, output height, output width."""
    height, width = x_shape[-2:]
    return math.prod(x_shape[:-2]), height, width, *windows.output_shape(height, width)


def _launch_forward(x: Array, windows: Windows, kind: str, winners: Array | None) -> Array:
    planes, height, width, out_height, out_width = _sizes(x.shape, windows)
    y = empty((*x.shape[:-2], out_height, out_width), x.dtype, x.device)
    index = index_type(x.size, y.size)
    items = 1 if out_width < 4 else 4
    bound = _bound(_forward, x.device, x.dtype, index, kind, windows, items)
    extra = (winners,) if kind == "maximum" else ()
    threads = planes * out_height * divide_up(out_width, items)
    grid = divide_up(threads, bound.block[0])
    bound((x, y, *extra, planes, height, width, out_height, out_width), grid)
    return y


def _launch_backward(
    dy: Array, x_shape: tuple[int, ...], windows: Windows, kind: str, winners: Array | None
) -> Array:
    dx = empty(x_shape, dy.dtype, dy.device)
    bound = _bound(_backward, dy.device, dy.dtype, index_type(dx.size, dy.size), kind, windows, 1)
    extra = (winners,) if kind == "maximum" else ()
    bound((dy, *extra, dx, *_sizes(x_shape, windows)), divide_up(dx.size, bound.block[0]))
    return dx


class _AvgPool2d(Function):
    """The average is linear, so it and its gradient are each other's derivatives, of any order."""

    @staticmethod
    def forward(ctx: Any, x: Array, windows: Windows) -> Array:
        ctx.shape, ctx.windows = x.shape, windows
        return _launch_forward(x, windows, "average", None)

    @staticmethod
    def backward(ctx: Any, dy: Array) -> tuple[Array | None, ...]:
        return _AvgPool2dGradient.apply(dy, ctx.shape, ctx.windows), None


class _AvgPool2dGradient(Function):
    @staticmethod
    def forward(ctx: Any, dy: Array, x_shape: tuple[int, ...], windows: Windows) -> Array:
        ctx.windows = windows
        return _launch_backward(dy, x_shape, windows, "average", None)

    @staticmethod
    def backward(ctx: Any, second: Array) -> tuple[Array | None, ...]:
        return _AvgPool2d.apply(second, ctx.windows), None, None


class _MaxPool2d(Function):
    @staticmethod
    def forward(ctx: Any, x: Array, windows: Windows) -> Array:
        ctx.shape, ctx.windows = x.shape, windows
        winners = None
        if any(ctx.needs_input_grad):
            shape = (*x.shape[:-2], *windows.output_shape(*x.shape[-2:]))
            winners = empty(shape, windows.winner_dtype, x.device)
        ctx.save_for_backward(winners)
        return _launch_forward(x, windows, "maximum", winners)

    @staticmethod
    def backward(ctx: Any, dy: Array) -> tuple[Array | None, ...]:
        (winners,) = ctx.saved_arrays
        return _MaxPool2dGradient.apply(dy, winners, ctx.shape, ctx.windows), None


class _MaxPool2dGradient(Function):
    """Linear in ``dy``: each element goes to its window's winner, and its own gradient comes from there."""

    @staticmethod
    def forward(ctx: Any, dy: Array, winners: Array, x_shape: tuple[int, ...], windows: Windows) -> Array:
        ctx.save_for_backward(winners)
        ctx.windows = windows
        return _launch_backward(dy, x_shape, windows, "maximum", winners)

    @staticmethod
    def backward(ctx: Any, second: Array) -> tuple[Array | None, ...]:
        (winners,) = ctx.saved_arrays
        return _at_winners(second, winners, ctx.windows), None, None, None


def _at_winners(x: Array, winners: Array, windows: Windows) -> Array:
    """The element of ``x`` at each window's winner, 0 for a window without one; of basic operations."""
    height, width = x.shape[-2:]
    table = windows.positions(height, width)
    outputs, places = table.shape
    flat_winners = ops.astype(ops.reshape(winners, (*x.shape[:-2], outputs)), dtypes.int64)
    # A window without a winner has all its places outside, and any of them leads to the zero that is
    # appended.
    place = ops.clip(flat_winners, 0, places - 1)
    starts = asarray(np.arange(outputs, dtype=np.int64) * places, device=x.device)
    where = asarray(np.where(table < 0, height * width, table).reshape(-1), device=x.device)
    at = ops.take(where, ops.reshape(ops.add(place, starts), (-1,)), axis=0)
    zero = ops.broadcast_to(asarray(np.zeros(1, x.dtype), device=x.device), (*x.shape[:-2], 1))
    flat = ops.concat([ops.reshape(x, (*x.shape[:-2], height * width)), zero], axis=-1)
    taken = ops.take_along_axis(flat, ops.reshape(at, (*x.shape[:-2], outputs)), axis=-1)
    return ops.reshape(taken, winners.shape)


def _pair(value: int | tuple[int, int], name: str, argument: str, least: int) -> Pair:
    sizes = value if isinstance(value, (tuple, list)) else (value, value)
    if len(sizes) != 2 or not all(map(is_int, sizes)):
        raise TypeError(f"{name}: {argument}: expected an int or a pair of ints, got {value!r}")
    if min(sizes) < least:
        raise ValueError(f"{name}: {argument}: expected at least {least}, got {value!r}")
    return int(sizes[0]), int(sizes[1])


def _checked(name: str, x: Array, windows: Windows) -> None:
    common_dtype(name, {"x": x})
    if x.ndim not in (3, 4):
        raise ValueError(f"{name}: x: expected shape (N, C, H, W) or (C, H, W), got {x.shape}")
    if 0 in x.shape[-3:]:
        raise ValueError(f"{name}: x: only N may be 0, got shape {x.shape}")
    for axis in range(2):
        span = windows.dilation[axis] * (windows.kernel[axis] - 1) + 1
        if windows.padding[axis] > span // 2:
            raise ValueError(
                f"{name}: padding: expected at most half of the window's span {span}, got {windows.padding}"
            )
    if min(windows.output_shape(*x.shape[-2:])) < 1:
        raise ValueError(
            f"{name}: kernel_size: no window of span {_span(windows)} fits x of shape {x.shape} "
            f"with padding {windows.padding}"
        )


def _span(windows: Windows) -> Pair:
    (a, b), (c, d) = windows.kernel, windows.dilation
    return c * (a - 1) + 1, d * (b - 1) + 1


def _windows(
    name: str,
    kernel_size: int | Pair,
    stride: int | Pair | None,
    padding: int | Pair,
    dilation: int | Pair,
    ceil_mode: bool,
    count_include_pad: bool,
) -> Windows:
    kernel = _pair(kernel_size, name, "kernel_size", 1)
    return Windows(
        kernel,
        kernel if stride is None else _pair(stride, name, "stride", 1),
        _pair(padding, name, "padding", 0),
        _pair(dilation, name, "dilation", 1),
        bool(ceil_mode),
        bool(count_include_pad),
    )


def avg_pool2d(
    x: Array,
    kernel_size: int | Pair,
    stride: int | Pair | None = None,
    padding: int | Pair = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Array:
    """The mean of each window of every plane.

    Args:
        x: shape (N, C, H, W) or (C, H, W), a floating dtype.
        kernel_size: the window's rows and columns; an int for both.
        stride: from one window to the next; ``kernel_size`` when None.
        padding: zeros around each plane, at most half of ``kernel_size``.
        ceil_mode: whether the number of windows is rounded up rather than down.
        count_include_pad: whether the padding counts in a mean's divisor.

    Returns:
        shape (N, C, rows, columns) or (C, rows, columns), the dtype of ``x``.

    Raises:
        TypeError: ``x`` is not a floating array, or a size is not an int or a pair.
        ValueError: a size is out of range, or no window fits.

    >>> import cukern as ck
    >>> x = ck.asarray([[[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]])
    >>> ck.nn.avg_pool2d(x, 2).tolist()
    [[[3.5, 5.5]]]
    """
    windows = _windows("avg_pool2d", kernel_size, stride, padding, 1, ceil_mode, count_include_pad)
    _checked("avg_pool2d", x, windows)
    y: Array = _AvgPool2d.apply(x, windows)
    return y


def max_pool2d(
    x: Array,
    kernel_size: int | Pair,
    stride: int | Pair | None = None,
    padding: int | Pair = 0,
    dilation: int | Pair = 1,
    ceil_mode: bool = False,
) -> Array:
    """The largest element of each window of every plane; NaN where the window holds one.

    The gradient goes to the first of equal elements. Padding never wins; a window that lies in it
    altogether, which only a dilation can bring about, gives -inf.

    Args:
        x: shape (N, C, H, W) or (C, H, W), a floating dtype.
        kernel_size: the window's rows and columns; an int for both.
        stride: from one window to the next; ``kernel_size`` when None.
        padding: positions around each plane, at most half of what a window spans.
        dilation: from one place of a window to the next.
        ceil_mode: whether the number of windows is rounded up rather than down.

    Returns:
        shape (N, C, rows, columns) or (C, rows, columns), the dtype of ``x``.

    Raises:
        TypeError: ``x`` is not a floating array, or a size is not an int or a pair.
        ValueError: a size is out of range, or no window fits.

    >>> import cukern as ck
    >>> x = ck.asarray([[[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]])
    >>> ck.nn.max_pool2d(x, 2).tolist()
    [[[6.0, 8.0]]]
    """
    windows = _windows("max_pool2d", kernel_size, stride, padding, dilation, ceil_mode, True)
    _checked("max_pool2d", x, windows)
    y: Array = _MaxPool2d.apply(x, windows)
    return y


class AvgPool2d(Module):
    """:func:`avg_pool2d` as a module; its arguments are those of the function."""

    def __init__(
        self,
        kernel_size: int | Pair,
        stride: int | Pair | None = None,
        padding: int | Pair = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        self.options = (kernel_size, stride, padding, ceil_mode, count_include_pad)

    def forward(self, x: Array) -> Array:
        """The pooled ``x``."""
        return avg_pool2d(x, *self.options)


class MaxPool2d(Module):
    """:func:`max_pool2d` as a module; its arguments are those of the function."""

    def __init__(
        self,
        kernel_size: int | Pair,
        stride: int | Pair | None = None,
        padding: int | Pair = 0,
        dilation: int | Pair = 1,
        ceil_mode: bool = False,
    ) -> None:
        self.options = (kernel_size, stride, padding, dilation, ceil_mode)

    def forward(self, x: Array) -> Array:
        """The pooled ``x``."""
        return max_pool2d(x, *self.options)
