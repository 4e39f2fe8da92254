"""Average and max pooling over the windows of planes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import dtypes
from ... import namespace as ops
from ...array import Array
from ...array.creation import asarray
from ...elementwise.operands import require_array
from ...function import Function
from ..fused import common_dtype, is_int
from ..module import Module
from . import plan as pool_launch
from .plan import Pair
from .plan import Windows as Windows


class _AvgPool2d(Function):
    """The average is linear: it and its gradient are each other's derivatives, of any order."""

    _only_reads = True

    @staticmethod
    def forward(ctx: Any, x: Array, windows: Windows) -> Array:
        ctx.shape, ctx.windows = x.shape, windows
        return pool_launch.forward(x, windows, maximum=False)[0]

    @staticmethod
    def backward(ctx: Any, dy: Array) -> tuple[Array | None, ...]:
        return _AvgPool2dGradient.apply(dy, ctx.shape, ctx.windows), None


class _AvgPool2dGradient(Function):
    _only_reads = True

    @staticmethod
    def forward(ctx: Any, dy: Array, x_shape: tuple[int, ...], windows: Windows) -> Array:
        ctx.windows = windows
        return pool_launch.backward(dy, x_shape, windows)

    @staticmethod
    def backward(ctx: Any, second: Array) -> tuple[Array | None, ...]:
        return _AvgPool2d.apply(second, ctx.windows), None, None


class _MaxPool2d(Function):
    _only_reads = True

    @staticmethod
    def forward(ctx: Any, x: Array, windows: Windows) -> Array:
        ctx.shape, ctx.windows = x.shape, windows
        y, winners = pool_launch.forward(x, windows, maximum=True, keep=any(ctx.needs_input_grad))
        ctx.save_for_backward(winners)
        return y

    @staticmethod
    def backward(ctx: Any, dy: Array) -> tuple[Array | None, ...]:
        (winners,) = ctx.saved_arrays
        return _MaxPool2dGradient.apply(dy, winners, ctx.shape, ctx.windows), None


class _MaxPool2dGradient(Function):
    """Linear in ``dy``: each element is added to its window's winner, and gets its own cotangent from there."""

    _only_reads = True

    @staticmethod
    def forward(ctx: Any, dy: Array, winners: Array, x_shape: tuple[int, ...], windows: Windows) -> Array:
        ctx.save_for_backward(winners)
        ctx.windows = windows
        return pool_launch.backward(dy, x_shape, windows, winners)

    @staticmethod
    def backward(ctx: Any, second: Array) -> tuple[Array | None, ...]:
        (winners,) = ctx.saved_arrays
        return _at_winners(second, winners, ctx.windows), None, None, None


def _at_winners(x: Array, winners: Array, windows: Windows) -> Array:
    """The element of ``x`` at each window's winner, 0 for a window without one; composed of basic operations."""
    height, width = x.shape[-2:]
    table = windows.positions(height, width)
    outputs, places = table.shape
    flat_winners = ops.astype(ops.reshape(winners, (*x.shape[:-2], outputs)), dtypes.int64)
    # A window without a winner lies outside the plane, so any of its elements maps to the appended zero.
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


def _checked(name: str, x: Array, windows: Windows) -> Array:
    x = require_array(x, name)
    common_dtype(name, {"x": x})
    if x.ndim not in (3, 4):
        raise ValueError(f"{name}: x: expected shape (N, C, H, W) or (C, H, W), got {x.shape}")
    if 0 in x.shape[-3:]:
        raise ValueError(f"{name}: x: only N may be 0, got shape {x.shape}")
    for axis, span in enumerate(windows.span):
        if windows.padding[axis] > span // 2:
            raise ValueError(
                f"{name}: padding: expected at most half of the window's span {span}, got {windows.padding}"
            )
    if min(windows.output_shape(*x.shape[-2:])) < 1:
        raise ValueError(
            f"{name}: kernel_size: no window of span {windows.span} fits x of shape {x.shape} "
            f"with padding {windows.padding}"
        )
    return x


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


def _taken(x: Array, windows: Windows, outside: float) -> Array:
    """The windows of ``x`` (..., height, width) as (..., outputs, elements of a window)."""
    height, width = x.shape[-2:]
    table = windows.positions(height, width)
    flat = ops.reshape(x, (*x.shape[:-2], height * width))
    padding = ops.broadcast_to(asarray(np.array(outside, x.dtype), device=x.device), (*x.shape[:-2], 1))
    positions = asarray(np.where(table < 0, height * width, table).reshape(-1), device=x.device)
    taken = ops.take(ops.concat([flat, padding], axis=-1), positions, axis=-1)
    return ops.reshape(taken, (*x.shape[:-2], *table.shape))


def avg_pool2d_reference(x: Array, windows: Windows) -> Array:
    """The mean of each window of ``x`` (..., height, width) as a composition, for tests."""
    divisors = asarray(windows.divisors(*x.shape[-2:]).astype(x.dtype), device=x.device)
    means = ops.divide(ops.sum(_taken(x, windows, 0.0), axis=-1), divisors)
    return ops.reshape(means, (*x.shape[:-2], *windows.output_shape(*x.shape[-2:])))


def max_pool2d_reference(x: Array, windows: Windows) -> Array:
    """The largest element of each window of ``x`` (..., height, width): the first of equal ones, or of NaNs.

    A composition, for tests.
    """
    values = _taken(x, windows, -np.inf)
    winners = ops.expand_dims(ops.argmax(values, axis=-1), axis=-1)
    largest = ops.take_along_axis(values, winners, axis=-1)
    return ops.reshape(largest, (*x.shape[:-2], *windows.output_shape(*x.shape[-2:])))


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
        count_include_pad: whether the divisor of a mean includes the padding.

    Returns:
        Shape (N, C, rows, columns) or (C, rows, columns), in the dtype of ``x``.

    Raises:
        TypeError: ``x`` is not a floating array, or a size is not an int or a pair.
        ValueError: a size is out of range, or no window fits.

    >>> import cukern as ck
    >>> x = ck.asarray([[[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]])
    >>> ck.nn.avg_pool2d(x, 2).tolist()
    [[[3.5, 5.5]]]
    """
    windows = _windows("avg_pool2d", kernel_size, stride, padding, 1, ceil_mode, count_include_pad)
    x = _checked("avg_pool2d", x, windows)
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
    """The largest element of each window of every plane; NaN if the window contains NaN.

    The gradient goes to the first of equal elements. Padding never wins; a window entirely in the padding, which is
    possible only with dilation, gives -inf.

    Args:
        x: shape (N, C, H, W) or (C, H, W), a floating dtype.
        kernel_size: the window's rows and columns; an int for both.
        stride: from one window to the next; ``kernel_size`` when None.
        padding: positions around each plane, at most half of a window's span.
        dilation: from one element of a window to the next.
        ceil_mode: whether the number of windows is rounded up rather than down.

    Returns:
        Shape (N, C, rows, columns) or (C, rows, columns), in the dtype of ``x``.

    Raises:
        TypeError: ``x`` is not a floating array, or a size is not an int or a pair.
        ValueError: a size is out of range, or no window fits.

    >>> import cukern as ck
    >>> x = ck.asarray([[[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]])
    >>> ck.nn.max_pool2d(x, 2).tolist()
    [[[6.0, 8.0]]]
    """
    windows = _windows("max_pool2d", kernel_size, stride, padding, dilation, ceil_mode, True)
    x = _checked("max_pool2d", x, windows)
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
