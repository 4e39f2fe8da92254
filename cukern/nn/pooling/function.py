"""Average and max pooling over windows of one to three axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ... import dtypes
from ... import namespace as ops
from ...array import Array
from ...array.creation import asarray
from ...elementwise.operands import require_array
from ...function import Function
from ..fused import common_dtype, several
from ..resampling import bands
from ..resampling.function import resampled
from . import plan as pool_launch
from .geometry import Windows as Windows


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


#: The trailing axes of an array by their number, as error messages show them.
_AXES = {1: "L", 2: "H, W", 3: "D, H, W"}
#: A size for all axes, or one for each.
Sizes = int | Sequence[int]


class _Axis(NamedTuple):
    """The windows along an axis; the attributes are those of :class:`Windows`."""

    kernel: int
    stride: int
    padding: int
    dilation: int
    ceil_mode: bool
    count_padding: bool


def _windows(rows: _Axis | None, columns: _Axis | None = None) -> Windows:
    """The windows of planes; an axis that is None has single elements."""
    given = rows or columns
    assert given is not None
    down, across = (
        one or given._replace(kernel=1, stride=1, padding=0, dilation=1) for one in (rows, columns)
    )
    return Windows(
        (down.kernel, across.kernel),
        (down.stride, across.stride),
        (down.padding, across.padding),
        (down.dilation, across.dilation),
        given.ceil_mode,
        given.count_padding,
    )


def _axes(
    name: str,
    count: int,
    kernel_size: Sizes,
    stride: Sizes | None,
    padding: Sizes,
    dilation: Sizes,
    ceil_mode: bool,
    count_include_pad: bool = True,
) -> list[_Axis]:
    """The checked arguments of a call, for each axis."""
    kernels = several(kernel_size, count, name, "kernel_size", 1)
    strides = kernels if stride is None else several(stride, count, name, "stride", 1)
    paddings = several(padding, count, name, "padding", 0)
    dilations = several(dilation, count, name, "dilation", 1)
    each = zip(kernels, strides, paddings, dilations, strict=True)
    return [_Axis(*one, bool(ceil_mode), bool(count_include_pad)) for one in each]


def _checked(name: str, x: Array, axes: Sequence[_Axis]) -> Array:
    x, count = require_array(x, name), len(axes)
    common_dtype(name, {"x": x})
    if x.ndim not in (count + 1, count + 2):
        beside = _AXES[count]
        raise ValueError(f"{name}: x: expected shape (N, C, {beside}) or (C, {beside}), got {x.shape}")
    if 0 in x.shape[-count - 1 :]:
        raise ValueError(f"{name}: x: only N may be 0, got shape {x.shape}")
    padding = tuple(one.padding for one in axes)
    spans = tuple(_windows(one).span[0] for one in axes)
    for span, one in zip(spans, padding, strict=True):
        if one > span // 2:
            raise ValueError(
                f"{name}: padding: expected at most half of the window's span {span}, got {padding}"
            )
    for axis, n in zip(axes, x.shape[-count:], strict=True):
        if _windows(axis).output_shape(n, 1)[0] < 1:
            raise ValueError(
                f"{name}: kernel_size: no window of span {spans} fits x of shape {x.shape} "
                f"with padding {padding}"
            )
    return x


def _average(name: str, x: Array, axes: Sequence[_Axis]) -> Array:
    """Of one or two axes by the kernels of planes; of three as sums with weights along each."""
    x = _checked(name, x, axes)
    if len(axes) == 2:
        y: Array = _AvgPool2d.apply(x, _windows(*axes))
        return y
    if len(axes) == 1:
        y = _AvgPool2d.apply(ops.expand_dims(x, axis=-2), _windows(None, axes[0]))
        return y[..., 0, :]
    matrices = []
    for axis, n in zip(axes, x.shape[-3:], strict=True):
        lines = _windows(axis)
        first = np.arange(lines.output_shape(n, 1)[0]) * axis.stride - axis.padding
        divisors = lines.divisors(n, 1)
        matrices.append(
            bands.windows(n, *(tuple(one.tolist()) for one in (first, first + axis.kernel, divisors)))
        )
    return resampled(x, matrices)


def _largest(name: str, x: Array, axes: Sequence[_Axis]) -> Array:
    """Of three axes by a second pass over the first of them; both give the gradient to the first of equal elements."""
    x = _checked(name, x, axes)
    if len(axes) == 2:
        y: Array = _MaxPool2d.apply(x, _windows(*axes))
        return y
    if len(axes) == 1:
        y = _MaxPool2d.apply(ops.expand_dims(x, axis=-2), _windows(None, axes[0]))
        return y[..., 0, :]
    planes: Array = _MaxPool2d.apply(x, _windows(*axes[1:]))
    lines = ops.reshape(planes, (*planes.shape[:-2], math.prod(planes.shape[-2:])))
    y = _MaxPool2d.apply(lines, _windows(axes[0]))
    return ops.reshape(y, (*y.shape[:-1], *planes.shape[-2:]))


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


def avg_pool1d(
    x: Array,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Array:
    """The mean of each window of every line.

    Args:
        x: shape (N, C, L) or (C, L), a floating dtype.
        kernel_size: the window's length.
        stride: from one window to the next; ``kernel_size`` when None.
        padding: zeros around each line, at most half of ``kernel_size``.
        ceil_mode: whether the number of windows is rounded up rather than down.
        count_include_pad: whether the divisor of a mean includes the padding.

    Returns:
        Shape (N, C, length) or (C, length), in the dtype of ``x``.

    Raises:
        TypeError: ``x`` is not a floating array, or a size is not an int or one for each axis.
        ValueError: a size is out of range, or no window fits.

    >>> import cukern as ck
    >>> ck.nn.avg_pool1d(ck.asarray([[1.0, 2.0, 3.0, 4.0]]), 2).tolist()
    [[1.5, 3.5]]
    """
    axes = _axes("avg_pool1d", 1, kernel_size, stride, padding, 1, ceil_mode, count_include_pad)
    return _average("avg_pool1d", x, axes)


def avg_pool2d(
    x: Array,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Array:
    """The mean of each window of every plane.

    Args:
        x: shape (N, C, H, W) or (C, H, W), a floating dtype.
        kernel_size: the window's sizes; an int for all.
        stride: from one window to the next; ``kernel_size`` when None.
        padding: zeros around each plane, at most half of ``kernel_size``.
        ceil_mode: whether the number of windows is rounded up rather than down.
        count_include_pad: whether the divisor of a mean includes the padding.

    Returns:
        Shape (N, C, rows, columns) or (C, rows, columns), in the dtype of ``x``.

    Raises:
        TypeError: ``x`` is not a floating array, or a size is not an int or one for each axis.
        ValueError: a size is out of range, or no window fits.

    >>> import cukern as ck
    >>> x = ck.asarray([[[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]])
    >>> ck.nn.avg_pool2d(x, 2).tolist()
    [[[3.5, 5.5]]]
    """
    axes = _axes("avg_pool2d", 2, kernel_size, stride, padding, 1, ceil_mode, count_include_pad)
    return _average("avg_pool2d", x, axes)


def avg_pool3d(
    x: Array,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Array:
    """The mean of each window of every volume.

    Args:
        x: shape (N, C, D, H, W) or (C, D, H, W), a floating dtype.
        kernel_size: the window's sizes; an int for all.
        stride: from one window to the next; ``kernel_size`` when None.
        padding: zeros around each volume, at most half of ``kernel_size``.
        ceil_mode: whether the number of windows is rounded up rather than down.
        count_include_pad: whether the divisor of a mean includes the padding.

    Returns:
        Shape (N, C, depth, rows, columns) or (C, depth, rows, columns), in the dtype of ``x``.

    Raises:
        TypeError: ``x`` is not a floating array, or a size is not an int or one for each axis.
        ValueError: a size is out of range, or no window fits.

    >>> import cukern as ck
    >>> ck.nn.avg_pool3d(ck.arange(8.0).reshape(1, 2, 2, 2), 2).tolist()
    [[[[3.5]]]]
    """
    axes = _axes("avg_pool3d", 3, kernel_size, stride, padding, 1, ceil_mode, count_include_pad)
    return _average("avg_pool3d", x, axes)


def max_pool1d(
    x: Array,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
) -> Array:
    """The largest element of each window of every line; NaN if the window contains NaN.

    The gradient goes to the first of equal elements. Padding never wins; a window entirely in the padding, which is
    possible only with dilation, gives -inf.

    Args:
        x: shape (N, C, L) or (C, L), a floating dtype.
        kernel_size: the window's length.
        stride: from one window to the next; ``kernel_size`` when None.
        padding: positions around each line, at most half of a window's span.
        dilation: from one element of a window to the next.
        ceil_mode: whether the number of windows is rounded up rather than down.

    Returns:
        Shape (N, C, length) or (C, length), in the dtype of ``x``.

    Raises:
        TypeError: ``x`` is not a floating array, or a size is not an int or one for each axis.
        ValueError: a size is out of range, or no window fits.

    >>> import cukern as ck
    >>> ck.nn.max_pool1d(ck.asarray([[1.0, 2.0, 3.0, 4.0]]), 2).tolist()
    [[2.0, 4.0]]
    """
    axes = _axes("max_pool1d", 1, kernel_size, stride, padding, dilation, ceil_mode)
    return _largest("max_pool1d", x, axes)


def max_pool2d(
    x: Array,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
) -> Array:
    """The largest element of each window of every plane; NaN if the window contains NaN.

    The gradient goes to the first of equal elements. Padding never wins; a window entirely in the padding, which is
    possible only with dilation, gives -inf.

    Args:
        x: shape (N, C, H, W) or (C, H, W), a floating dtype.
        kernel_size: the window's sizes; an int for all.
        stride: from one window to the next; ``kernel_size`` when None.
        padding: positions around each plane, at most half of a window's span.
        dilation: from one element of a window to the next.
        ceil_mode: whether the number of windows is rounded up rather than down.

    Returns:
        Shape (N, C, rows, columns) or (C, rows, columns), in the dtype of ``x``.

    Raises:
        TypeError: ``x`` is not a floating array, or a size is not an int or one for each axis.
        ValueError: a size is out of range, or no window fits.

    >>> import cukern as ck
    >>> x = ck.asarray([[[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]])
    >>> ck.nn.max_pool2d(x, 2).tolist()
    [[[6.0, 8.0]]]
    """
    axes = _axes("max_pool2d", 2, kernel_size, stride, padding, dilation, ceil_mode)
    return _largest("max_pool2d", x, axes)


def max_pool3d(
    x: Array,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
) -> Array:
    """The largest element of each window of every volume; NaN if the window contains NaN.

    The gradient goes to the first of equal elements. Padding never wins; a window entirely in the padding, which is
    possible only with dilation, gives -inf.

    Args:
        x: shape (N, C, D, H, W) or (C, D, H, W), a floating dtype.
        kernel_size: the window's sizes; an int for all.
        stride: from one window to the next; ``kernel_size`` when None.
        padding: positions around each volume, at most half of a window's span.
        dilation: from one element of a window to the next.
        ceil_mode: whether the number of windows is rounded up rather than down.

    Returns:
        Shape (N, C, depth, rows, columns) or (C, depth, rows, columns), in the dtype of ``x``.

    Raises:
        TypeError: ``x`` is not a floating array, or a size is not an int or one for each axis.
        ValueError: a size is out of range, or no window fits.

    >>> import cukern as ck
    >>> ck.nn.max_pool3d(ck.arange(8.0).reshape(1, 2, 2, 2), 2).tolist()
    [[[[7.0]]]]
    """
    axes = _axes("max_pool3d", 3, kernel_size, stride, padding, dilation, ceil_mode)
    return _largest("max_pool3d", x, axes)
