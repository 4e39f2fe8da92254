"""Functions of slices and windows, selection by conditions, and writes to diagonals."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import dtypes
from ..array import Array
from ..array.creation import arange, asarray, device_of
from ..array.deferred import about_to_write
from ..array.layout import address
from ..autodiff import tape
from ..elementwise.function import as_operands, astype
from ..elementwise.operands import (
    normalize_axis,
    on_device,
    public,
    recorded,
    require_array,
    require_written,
    view,
)
from ..elementwise.table import where
from ..errors import GradientError
from ..index.plain_numbers import takes_number
from ..index.take import scatter, take
from ..linear.diagonals import diagonal
from ..shape.joins import stack, unstack
from ..shape.views import broadcast_arrays, expand_dims, moveaxis, reshape

__all__ = [
    "apply_along_axis",
    "apply_over_axes",
    "as_strided",
    "fill_diagonal",
    "select",
    "sliding_window_view",
]


@public
def apply_along_axis(func1d: Callable[..., Any], axis: int, x: Array, /, *args: Any, **options: Any) -> Array:
    """Call a function with each vector along an axis, and stack the results; differentiable if the function is.

    Args:
        func1d: takes a vector, and ``args`` and ``options``; returns an array or a number.
        axis: the axis of ``x``.
        x: any array.

    Returns:
        An array in which the axes of the results replace ``axis``.

    Raises:
        AxisError: there is no such axis.
        ValueError: there is no vector, or results differ in shape.

    >>> import cukern as ck
    >>> ck.apply_along_axis(lambda row: row[::-1], 1, ck.asarray([[1, 2], [3, 4]])).tolist()
    [[2, 1], [4, 3]]
    """
    x = require_array(x, "apply_along_axis")
    axis = normalize_axis(axis, x.ndim, "apply_along_axis")
    rows = moveaxis(x, axis, -1)
    if not math.prod(rows.shape[:-1]):
        raise ValueError(f"apply_along_axis: x: there is no vector along axis {axis} of shape {x.shape}")
    result = [
        asarray(func1d(row, *args, **options), device=x.device)
        for row in unstack(reshape(rows, (math.prod(rows.shape[:-1]), rows.shape[-1])))
    ]
    results = stack(result)
    shape = results.shape[1:]
    whole = reshape(results, (*rows.shape[:-1], *shape))
    back = rows.ndim - 1
    return moveaxis(whole, tuple(range(back, back + len(shape))), tuple(range(axis, axis + len(shape))))


@public
def apply_over_axes(func: Callable[..., Any], x: Array, axes: int | Sequence[int]) -> Array:
    """Call ``func(x, axis)`` for each of several axes in turn, with the result of the one before.

    Args:
        func: returns an array of as many axes as it is given, or of one less, without ``axis``, which is put back.
        x: any array.
        axes: the axis or axes.

    Raises:
        AxisError: there is no such axis.
        ValueError: a result has another number of axes.

    >>> import cukern as ck
    >>> ck.apply_over_axes(ck.sum, ck.ones((2, 3, 4)), [0, 2]).tolist()
    [[[8.0], [8.0], [8.0]]]
    """
    result = require_array(x, "apply_over_axes")
    ndim = result.ndim
    for one in axes if isinstance(axes, (list, tuple)) else (axes,):
        axis = normalize_axis(one, ndim, "apply_over_axes")
        result = func(result, axis)
        result = expand_dims(result, axis) if result.ndim == ndim - 1 else result
        if result.ndim != ndim:
            raise ValueError(
                f"apply_over_axes: func: expected {ndim} axes, or one less, got shape {result.shape}"
            )
    return result


@public
def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Array:
    """For each element, choose the first of several arrays whose condition is true there, else ``default``.

    Args:
        condlist: bool arrays.
        choicelist: an array or a number for each condition; all broadcast.
        default: an array or a number.

    Raises:
        TypeError: a condition is not bool.
        ValueError: there is no condition, or the number of choices differs.

    >>> import cukern as ck
    >>> x = ck.arange(4)
    >>> ck.select([x < 1, x > 2], [x - 10, x + 10]).tolist()
    [-10, 0, 0, 13]
    """
    if not condlist or len(condlist) != len(choicelist):
        raise ValueError(
            f"select: expected as many choices as conditions, at least one, got {len(condlist)} conditions "
            f"and {len(choicelist)} choices"
        )
    device = device_of((*condlist, *choicelist, default))
    conditions = [asarray(one, device=device) for one in condlist]
    for i, one in enumerate(conditions):
        if one.dtype != dtypes.bool_:
            raise TypeError(f"select: condlist[{i}]: expected bool, got {one.dtype}")
    choices = as_operands("select", (*choicelist, default))
    dtype = dtypes.result_type(*(choice.dtype if isinstance(choice, Array) else choice for choice in choices))
    wide = [
        asarray(choice, dtype, device) if not isinstance(choice, Array) else astype(choice, dtype, copy=False)
        for choice in choices
    ]
    result = wide[-1]
    for condition, choice in zip(reversed(conditions), reversed(wide[:-1]), strict=True):
        result = where(condition, choice, result)
    return (
        result
        if result.shape == np.broadcast_shapes(*(one.shape for one in wide))
        else broadcast_arrays(result, *wide)[0]
    )


@public
def fill_diagonal(x: Array, val: Any, wrap: bool = False) -> None:
    """Write ``val`` to the main diagonal of ``x``, in place.

    Args:
        x: an array with at least two axes; more than two must have the same size.
        val: a number, or an array whose elements are repeated cyclically.
        wrap: whether the diagonal of a tall matrix continues below, after an empty row.

    Raises:
        GradientError: a tape tracks ``x``.
        ValueError: ``x`` has too few axes, or more than two of different sizes; ``val`` has no element.

    >>> import cukern as ck
    >>> x = ck.zeros((2, 2))
    >>> ck.fill_diagonal(x, 3)
    >>> x.tolist()
    [[3.0, 0.0], [0.0, 3.0]]
    """
    if require_written(x, "fill_diagonal").ndim < 2 or (x.ndim > 2 and len(set(x.shape)) > 1):
        raise ValueError(f"fill_diagonal: x: expected two axes, or more of one size, got shape {x.shape}")
    about_to_write(x)
    rows, columns = x.shape[0], x.shape[1]
    if x.ndim == 2 and not (wrap and rows > columns):
        diagonal(x)[...] = val if takes_number(x, val) else _in_turn(x, val, min(rows, columns))
        return
    if x.ndim == 2:
        indices = np.arange(0, rows * columns, columns + 1)
    else:
        indices = np.arange(rows) * sum(rows**i for i in range(x.ndim))
    x[tuple(np.unravel_index(indices, x.shape))] = _in_turn(x, val, len(indices))


def _in_turn(x: Array, val: Any, count: int) -> Any:
    """A number, or ``count`` elements of an array on the device of ``x``, repeated cyclically."""
    value = asarray(val, device=x.device)
    if not value.size:
        raise ValueError(f"fill_diagonal: val: expected at least one element, got shape {value.shape}")
    return val if value.size == 1 else reshape(value, (-1,))[np.arange(count) % value.size]


@public
@on_device
def sliding_window_view(x: Array, window_shape: Any, axis: Any = None) -> Array:
    """A read-only view of all windows that slide along axes, with the windows' elements along new last axes.

    Args:
        x: any array.
        window_shape: the sizes of the windows.
        axis: the axes along which they slide; all when None.

    Raises:
        AxisError: there is no such axis.
        ValueError: a window is larger than its axis, or sizes and axes differ in number.

    >>> import cukern as ck
    >>> ck.sliding_window_view(ck.arange(4), 3).tolist()
    [[0, 1, 2], [1, 2, 3]]
    """
    ndim = x.ndim
    sizes = tuple(window_shape) if isinstance(window_shape, (tuple, list)) else (window_shape,)
    along = axis if axis is None or isinstance(axis, (tuple, list)) else (axis,)
    axes = (
        list(range(ndim))
        if along is None
        else [normalize_axis(one, ndim, "sliding_window_view") for one in along]
    )
    if len(axes) != len(sizes):
        raise ValueError(
            f"sliding_window_view: expected a size for each of {len(axes)} axes, got {window_shape}"
        )
    shape = list(x.shape)
    for one, size in zip(axes, sizes, strict=True):
        if not 0 <= size <= shape[one]:
            raise ValueError(
                f"sliding_window_view: a window of {size} does not fit into {shape[one]} along axis {one}"
            )
        shape[one] -= size - 1
    strides = (*x._data.strides, *(x._data.strides[axis] for axis in axes))
    result = view(x, x.device.xp.lib.stride_tricks.as_strided(x._data, (*shape, *sizes), strides))
    return recorded("sliding_window_view", x, result, lambda g: _unslid(g, x.shape, axes, sizes))


def _unslid(g: Array, shape: tuple[int, ...], axes: Sequence[int], sizes: tuple[int, ...]) -> Array:
    """For each element, the sum of its cotangents in all windows."""
    count = math.prod(shape)
    with tape.stop_recording():
        numbers = reshape(arange(count, dtype=dtypes.int64, device=g.device), shape)
        indices = reshape(sliding_window_view(numbers, sizes, axes), (-1,))
    return reshape(scatter(reshape(g, (1, -1, 1)), indices._data, 1, count, 1), shape)


def reach(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> tuple[int, int]:
    """The bytes from the first element to the lowest one, and to the end of the highest one."""
    if not math.prod(shape):
        return 0, 0
    steps = [(n - 1) * stride for n, stride in zip(shape, strides, strict=True)]
    return sum(step for step in steps if step < 0), sum(step for step in steps if step > 0) + itemsize


def _memory(x: Array) -> tuple[int, int]:
    """The addresses of the first byte of the memory that ``x`` lies in, and of the first one after it."""
    data = x._data
    if not x.device.addressable:
        return int(data.data.mem.ptr), int(data.data.mem.ptr + data.data.mem.size)
    while isinstance(data.base, np.ndarray):
        data = data.base
    low, high = reach(data.shape, data.strides, data.itemsize)
    return int(data.ctypes.data) + low, int(data.ctypes.data) + high


@public
def as_strided(
    x: Array, /, shape: Sequence[int] | None = None, strides: Sequence[int] | None = None
) -> Array:
    """A view of the memory of ``x`` by any shape and strides, from its first element on; differentiable.

    Args:
        x: any array.
        shape: the shape of the view; that of ``x`` when None.
        strides: the bytes from one element to the next along each axis; those of ``x`` when None.

    Raises:
        GradientError: a tape tracks ``x``, and the view has elements of its memory that are not elements of ``x``.
        ValueError: the view would leave the memory that ``x`` lies in, or a stride is no multiple of its itemsize.

    >>> import cukern as ck
    >>> x = ck.arange(4, dtype="float32")
    >>> as_strided(x, (3, 2), (4, 4)).tolist()
    [[0.0, 1.0], [1.0, 2.0], [2.0, 3.0]]
    """
    x = require_array(x, "as_strided")
    sizes = (
        x.shape if shape is None else tuple(operator.index(n) for n in np.atleast_1d(np.asarray(shape, int)))
    )
    steps = x.strides if strides is None else tuple(operator.index(n) for n in strides)
    if len(sizes) != len(steps) or any(n < 0 for n in sizes):
        raise ValueError(f"as_strided: expected a size and a stride for each axis, got {sizes} and {steps}")
    if any(step % x.itemsize for step in steps):
        raise ValueError(f"as_strided: strides: expected multiples of {x.itemsize} bytes, got {steps}")
    start, (first, end) = address(x._data), _memory(x)
    low, high = reach(sizes, steps, x.itemsize)
    if start + low < first or start + high > end:
        raise ValueError(
            f"as_strided: shape {sizes} with strides {steps} reads bytes {start + low - first} to "
            f"{start + high - first} of a memory of {end - first} bytes"
        )
    with x.device.activate():
        result = view(x, x.device.xp.lib.stride_tricks.as_strided(x._data, sizes, steps))
    if not tape.recording((x,)):
        return result
    indices = [_offsets(*one) // x.itemsize for one in ((x.shape, x.strides), (sizes, steps))]
    if not np.isin(indices[1], indices[0]).all():
        raise GradientError(
            "as_strided: x: a tape tracks it, and the view has elements of the memory that are not elements of x: "
            "take the view of the array that x is a part of"
        )
    return recorded("as_strided", x, result, lambda g: _unstrided(g, x.shape, indices))


def _unstrided(g: Array, shape: tuple[int, ...], indices: Sequence[Any]) -> Array:
    """For each element, the sum of its cotangents in a view; ``indices``: those of both in memory."""
    low = min((int(one.min()) for one in indices if one.size), default=0)
    count = max((int(one.max()) for one in indices if one.size), default=-1) + 1 - low
    mine, theirs = (asarray(one - low, device=g.device)._data for one in indices)
    total = scatter(reshape(g, (1, -1, 1)), theirs, 1, count, 1)
    result = reshape(take(reshape(total, (-1,)), Array._wrap(mine, g.device)), shape)
    # Elements of a broadcast array that are one element of memory share its cotangent.
    shared = np.bincount(indices[0] - low)[indices[0] - low]
    return result if (shared == 1).all() else result / asarray(shared.reshape(shape), result.dtype, g.device)


def _offsets(shape: Sequence[int], strides: Sequence[int]) -> Any:
    """The bytes from the first element to each, in C order: int64."""
    result = np.zeros(shape, np.int64)
    for axis, (n, stride) in enumerate(zip(shape, strides, strict=True)):
        result += (np.arange(n) * stride).reshape(-1, *(1,) * (len(shape) - axis - 1))
    return result.reshape(-1)
