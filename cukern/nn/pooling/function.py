"""Average and max pooling over windows of one to three axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ... import dtypes
from ... import namespace as ops
from ...array import Array
from ...array.creation import asarray
from ...cache import Cache, options_key
from ...elementwise.operands import require_array
from ...function import Function
from ..fused import AXES, common_dtype, layouts_of, of_axes, several
from ..resampling import bands
from ..resampling.function import resampled
from . import families
from .problem import Windows


class _Pool2d(Function):
    """An average is linear: it and its gradient are each other's derivatives, of any order."""

    _only_reads = True

    @staticmethod
    def forward(ctx: Any, x: Array, windows: Windows, maximum: bool) -> Array:
        ctx.shape, ctx.windows = x.shape, windows
        y, winners = families.pool(x, windows, maximum, keep=maximum and any(ctx.needs_input_grad))
        ctx.save_for_backward(winners)
        return y

    @staticmethod
    def backward(ctx: Any, dy: Array) -> tuple[Array | None, ...]:
        (winners,) = ctx.saved_arrays
        return _Pool2dGradient.apply(dy, winners, ctx.shape, ctx.windows), None, None

    @staticmethod
    def jvp(ctx: Any, dx: Array, *static: None) -> Array:
        (winners,) = ctx.saved_arrays
        return _pooled(dx, winners, ctx.windows)

    @staticmethod
    def vmap(size: int, batched: tuple[bool, ...], x: Array, windows: Windows, maximum: bool) -> Array:
        """The images of all examples as those of one."""
        made: Array = _Pool2d.apply(ops.reshape(x, (-1, *x.shape[2:])), windows, maximum)
        return ops.reshape(made, (*x.shape[:2], *made.shape[1:]))


class _Pool2dGradient(Function):
    """Linear in ``dy``: of a maximum each element is added to its window's winner, and gets its own cotangent there."""

    _only_reads = True

    @staticmethod
    def forward(
        ctx: Any, dy: Array, winners: Array | None, x_shape: tuple[int, ...], windows: Windows
    ) -> Array:
        ctx.save_for_backward(winners)
        ctx.shape, ctx.windows = x_shape, windows
        return families.gradient(dy, x_shape, windows, winners)

    @staticmethod
    def backward(ctx: Any, second: Array) -> tuple[Array | None, ...]:
        (winners,) = ctx.saved_arrays
        return _pooled(second, winners, ctx.windows), None, None, None

    @staticmethod
    def jvp(ctx: Any, second: Array, *static: None) -> Array:
        (winners,) = ctx.saved_arrays
        return _Pool2dGradient.apply(second, winners, ctx.shape, ctx.windows)


def _pooled(x: Array, winners: Array | None, windows: Windows) -> Array:
    """The average of each window, or the element at its winner."""
    if winners is None:
        return _Pool2d.apply(x, windows, False)
    return _at_winners(x, winners, windows)


def _at_winners(x: Array, winners: Array, windows: Windows) -> Array:
    """The element of ``x`` at each window's winner, 0 for a window without one; composed of basic operations."""
    height, width = x.shape[-2:]
    table = windows.positions(height, width)
    outputs, columns = table.shape
    flat_winners = ops.astype(ops.reshape(winners, (*x.shape[:-2], outputs)), dtypes.int64)
    # A window without a winner lies outside the plane, so any of its elements maps to the appended zero.
    index = ops.clip(flat_winners, 0, columns - 1)
    starts = asarray(np.arange(outputs, dtype=np.int64) * columns, device=x.device)
    where = asarray(np.where(table < 0, height * width, table).reshape(-1), device=x.device)
    at = ops.take(where, ops.reshape(ops.add(index, starts), (-1,)), axis=0)
    zero = ops.broadcast_to(asarray(np.zeros(1, x.dtype), device=x.device), (*x.shape[:-2], 1))
    flat = ops.concat([ops.reshape(x, (*x.shape[:-2], height * width)), zero], axis=-1)
    taken = ops.take_along_axis(flat, ops.reshape(at, (*x.shape[:-2], outputs)), axis=-1)
    return ops.reshape(taken, winners.shape)


#: A size for all axes, or one for each.
Sizes = int | Sequence[int]


#: Windows of one element.
_SINGLE = Windows.along(1, 1, 0, 1)


def checked(name: str, x: Array, count: int) -> Array:
    """The array, of one of the two forms that are pooled along ``count`` axes."""
    x, axes = require_array(x, name), AXES[count]
    common_dtype(name, {"x": x})
    if x.ndim not in (count + 1, count + 2):
        raise ValueError(f"{name}: x: expected shape (N, C, {axes}) or (C, {axes}), got {x.shape}")
    if 0 in x.shape[-count - 1 :]:
        raise ValueError(f"{name}: x: only N may be 0, got shape {x.shape}")
    return x


def _checked(name: str, count: int, x: Array, *sizes: Any) -> tuple[Array, list[Windows]]:
    """The array, and the windows of its planes, of three axes those along each of them.

    Args:
        name: the function's.
        count: of axes.
        x: what is pooled.
        sizes: kernel size, stride, padding, dilation, and whether to round up and to count the padding.
    """
    layouts = layouts_of(x)
    key = None if layouts is None else options_key((name, *layouts, *sizes))
    axes = None if key is None else _known.get(key)
    if axes is None:
        x, axes = _first_checked(name, count, x, *sizes)
        if key is not None:
            _known.keep(key, axes)
    return x, axes


#: These windows, of layouts and options that passed all checks.
_known: Cache[Any, list[Windows]] = Cache()


def _first_checked(name: str, count: int, x: Array, *sizes: Any) -> tuple[Array, list[Windows]]:
    kernel, stride, *others = sizes
    kernels = several(kernel, count, name, "kernel_size", 1)
    strides = kernels if stride is None else several(stride, count, name, "stride", 1)
    paddings = several(others[0], count, name, "padding", 0)
    dilations = several(others[1], count, name, "dilation", 1)
    each = zip(kernels, strides, paddings, dilations, strict=True)
    axes = [Windows.along(*one, *map(bool, others[2:])) for one in each]
    x = checked(name, x, count)
    spans = tuple(one.span[0] for one in axes)
    for span, one in zip(spans, paddings, strict=True):
        if one > span // 2:
            raise ValueError(
                f"{name}: padding: expected at most half of the window's span {span}, got {paddings}"
            )
    if any(one.output_shape(n, 1)[0] < 1 for one, n in zip(axes, x.shape[-count:], strict=True)):
        raise ValueError(
            f"{name}: kernel_size: no window of span {spans} fits x of shape {x.shape} with padding {paddings}"
        )
    return x, axes if count == 3 else [_beside(*[_SINGLE, *axes][-2:])]


_beside = lru_cache(maxsize=4096)(Windows.beside)


def _planes(x: Array, count: int, windows: Windows, maximum: bool) -> Array:
    """Pooling of one or two axes, by the kernels of planes."""
    if count == 2:
        return _Pool2d.apply(x, windows, maximum)
    return _Pool2d.apply(ops.expand_dims(x, axis=-2), windows, maximum)[..., 0, :]


def _averages(
    count: int,
    x: Array,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Array:
    """The mean of each window of every {whole}.

    Args:
        x: shape (N, C, {axes}) or (C, {axes}), a floating dtype.
        kernel_size: {kernel}.
        stride: from one window to the next; ``kernel_size`` when None.
        padding: zeros around each {whole}, at most half of ``kernel_size``.
        ceil_mode: whether the number of windows is rounded up rather than down.
        count_include_pad: whether the divisor of a mean includes the padding.

    Returns:
        Shape (N, C, {result}) or (C, {result}), in the dtype of ``x``.

    Raises:
        TypeError: ``x`` is not a floating array, or a size is not an int or one for each axis.
        ValueError: a size is out of range, or no window fits.
    """
    # Of three axes as sums with weights along each.
    x, axes = _checked(
        f"avg_pool{count}d", count, x, kernel_size, stride, padding, 1, ceil_mode, count_include_pad
    )
    if count < 3:
        return _planes(x, count, axes[0], False)
    matrices = []
    for axis, n in zip(axes, x.shape[-3:], strict=True):
        first = np.arange(axis.output_shape(n, 1)[0]) * axis.stride[0] - axis.padding[0]
        ends = first, first + axis.kernel[0], axis.divisors(n, 1)
        matrices.append(bands.windows(n, *(tuple(one.tolist()) for one in ends)))
    return resampled(x, matrices)


def _maxima(
    count: int,
    x: Array,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
) -> Array:
    """The largest element of each window of every {whole}; NaN if the window contains NaN.

    The gradient goes to the first of equal elements. Padding never wins; a window entirely in the padding, which is
    possible only with dilation, gives -inf.

    Args:
        x: shape (N, C, {axes}) or (C, {axes}), a floating dtype.
        kernel_size: {kernel}.
        stride: from one window to the next; ``kernel_size`` when None.
        padding: positions around each {whole}, at most half of a window's span.
        dilation: from one element of a window to the next.
        ceil_mode: whether the number of windows is rounded up rather than down.

    Returns:
        Shape (N, C, {result}) or (C, {result}), in the dtype of ``x``.

    Raises:
        TypeError: ``x`` is not a floating array, or a size is not an int or one for each axis.
        ValueError: a size is out of range, or no window fits.
    """
    # Of three axes by a second pass over the first of them; both give the gradient to the first of equal elements.
    x, axes = _checked(f"max_pool{count}d", count, x, kernel_size, stride, padding, dilation, ceil_mode)
    if count < 3:
        return _planes(x, count, axes[0], True)
    planes = _Pool2d.apply(x, _beside(*axes[1:]), True)
    lines = ops.reshape(planes, (*planes.shape[:-2], math.prod(planes.shape[-2:])))
    y = _Pool2d.apply(lines, axes[0], True)
    return ops.reshape(y, (*y.shape[:-1], *planes.shape[-2:]))


avg_pool1d = of_axes(_averages, "avg_pool1d", "ck.asarray([[1.0, 2.0, 3.0, 4.0]]), 2", "[[1.5, 3.5]]")
avg_pool2d = of_axes(
    _averages, "avg_pool2d", "ck.asarray([[[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]]), 2", "[[[3.5, 5.5]]]"
)
avg_pool3d = of_axes(_averages, "avg_pool3d", "ck.arange(8.0).reshape(1, 2, 2, 2), 2", "[[[[3.5]]]]")
max_pool1d = of_axes(_maxima, "max_pool1d", "ck.asarray([[1.0, 2.0, 3.0, 4.0]]), 2", "[[2.0, 4.0]]")
max_pool2d = of_axes(
    _maxima, "max_pool2d", "ck.asarray([[[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]]), 2", "[[[6.0, 8.0]]]"
)
max_pool3d = of_axes(_maxima, "max_pool3d", "ck.arange(8.0).reshape(1, 2, 2, 2), 2", "[[[[7.0]]]]")
