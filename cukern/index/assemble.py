"""Functions that stack, repeat, rotate and insert arrays. All functions here are linear."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import dtypes
from ..array import Array
from ..array.creation import arange, asarray, beside, zeros
from ..array.deferred import traced_threads
from ..elementwise.function import astype
from ..elementwise.operands import (
    array_or_symbol,
    normalize_axes,
    normalize_axis,
    public,
    recorded,
    require_array,
    require_arrays,
    require_each,
)
from ..elementwise.row import is_scalar
from ..elementwise.table import not_equal
from ..elementwise.ufunc import Casting
from ..reduction.rows import any as any_of
from ..reduction.rows import argmax
from ..shape.broadcast import with_repeats
from ..shape.copy import contiguous as in_c_order
from ..shape.joins import concat
from ..shape.views import broadcast_arrays, broadcast_to, expand_dims, flip, moveaxis, reshape, swapaxes
from .scan import cumulative_prod, cumulative_sum
from .search import searchsorted
from .take import take

__all__ = [
    "append",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "block",
    "column_stack",
    "copy",
    "delete",
    "dstack",
    "fliplr",
    "flipud",
    "hstack",
    "insert",
    "meshgrid",
    "repeat",
    "resize",
    "rollaxis",
    "rot90",
    "tile",
    "trim_zeros",
    "vander",
    "vstack",
]


@public
def copy(x: Array, /) -> Array:
    """A differentiable copy of ``x`` in C order."""
    x = require_array(x, "copy")
    if traced_threads and x.is_contiguous:
        return astype(x, x.dtype)
    return recorded("copy", x, in_c_order(x), lambda g: g, lambda t: t)


_copied = copy


def _atleast(xs: tuple[Array, ...], ndim: int, name: str) -> Any:
    """The arrays with axes added as in NumPy: the third as the last axis, the others in front."""
    result = []
    for x in require_each(xs, name):
        while x.ndim < ndim:
            x = expand_dims(x, -1 if ndim == 3 and x.ndim == 2 else 0)
        result.append(x)
    return result[0] if len(result) == 1 else result


@public
def atleast_1d(*xs: Array) -> Any:
    """The array, or a list of the arrays, with at least one axis."""
    return _atleast(xs, 1, "atleast_1d")


@public
def atleast_2d(*xs: Array) -> Any:
    """The array, or a list of the arrays, with at least two axes; new axes are in front."""
    return _atleast(xs, 2, "atleast_2d")


@public
def atleast_3d(*xs: Array) -> Any:
    """The array, or a list of the arrays, with at least three axes: (n,) becomes (1, n, 1)."""
    return _atleast(xs, 3, "atleast_3d")


def _listed(arrays: Sequence[Array], name: str) -> list[Array]:
    result = require_arrays(arrays, name)
    if not result:
        raise ValueError(f"{name}: expected at least one array")
    return result


@public
def hstack(arrays: Sequence[Array], /, *, dtype: Any = None, casting: Casting = "same_kind") -> Array:
    """Join arrays along the second axis, or vectors along the first; ``dtype`` and ``casting`` as in :func:`concat`.

    Raises:
        ValueError: there is no array, or the shapes do not fit.
    """
    result = [atleast_1d(x) for x in _listed(arrays, "hstack")]
    return concat(result, axis=0 if result[0].ndim == 1 else 1, dtype=dtype, casting=casting)


@public
def vstack(arrays: Sequence[Array], /, *, dtype: Any = None, casting: Casting = "same_kind") -> Array:
    """Join arrays along the first axis, vectors as rows. Arguments and errors as in :func:`hstack`."""
    return concat([atleast_2d(x) for x in _listed(arrays, "vstack")], axis=0, dtype=dtype, casting=casting)


@public
def dstack(arrays: Sequence[Array], /) -> Array:
    """Join arrays along the third axis. Errors as in :func:`hstack`."""
    return concat([atleast_3d(x) for x in _listed(arrays, "dstack")], axis=2)


@public
def column_stack(arrays: Sequence[Array], /) -> Array:
    """Join matrices along the second axis; vectors are columns."""
    result = _listed(arrays, "column_stack")
    return concat([expand_dims(atleast_1d(x), 1) if x.ndim < 2 else x for x in result], axis=1)


@public
def block(arrays: Any, /) -> Array:
    """Join nested lists of arrays: innermost lists along the last axis, and each outer level along the axis before.

    Raises:
        TypeError: a tuple stands for a list.
        ValueError: a list is empty, the lists are not nested evenly, or the shapes do not fit.

    >>> import cukern as ck
    >>> ck.block([[ck.ones((1, 2)), ck.zeros((1, 1))], [ck.zeros((1, 3))]]).tolist()
    [[1.0, 1.0, 0.0], [0.0, 0.0, 0.0]]
    """
    depth, ndim = _nested(arrays)
    result = _joined(arrays, depth, max(depth, ndim))
    return result if depth else copy(result)


def _nested(arrays: Any) -> tuple[int, int]:
    """The nesting depth of lists of arrays, and the largest number of axes in them."""
    if isinstance(arrays, tuple):
        raise TypeError(f"block: expected lists of arrays, got a tuple: {arrays}")
    if not isinstance(arrays, list):
        return 0, require_array(arrays, "block").ndim
    parts = [_nested(part) for part in arrays]
    if len({depth for depth, _ in parts}) != 1:
        raise ValueError("block: expected lists that are not empty and nested evenly")
    return parts[0][0] + 1, max(ndim for _, ndim in parts)


def _joined(arrays: Any, depth: int, ndim: int) -> Array:
    """Join lists of a nesting depth along that number of last axes."""
    if not depth:
        arrays = require_array(arrays, "block")
        return reshape(arrays, (1,) * (ndim - arrays.ndim) + arrays.shape)
    return concat([_joined(part, depth - 1, ndim) for part in arrays], ndim - depth)


@public
def vander(x: Array, /, N: int | None = None, increasing: bool = False) -> Array:
    """The matrix whose columns are the powers of ``x``, the highest first unless ``increasing``.

    Args:
        x: a vector. The powers of integers are int64.
        N: the number of columns, by default that of the rows.
        increasing: whether the power 0 comes first.

    Raises:
        ValueError: ``x`` is not a vector, or ``N`` is negative.
    """
    x = require_array(x, "vander")
    if x.ndim != 1:
        raise ValueError(f"vander: x: expected one axis, got shape {x.shape}")
    count = x.size if N is None else operator.index(N)
    if count < 0:
        raise ValueError(f"vander: N: expected at least 0, got {N}")
    floating = x.dtype in dtypes.INEXACT
    values = x if floating else astype(x, dtypes.promote(x.dtype, dtypes.default_int), copy=False)
    factors = broadcast_to(expand_dims(values, 1), (x.size, max(0, count - 1)))
    powers = cumulative_prod(factors, axis=1, include_initial=True, dtype=values.dtype)[:, :count]
    return powers if increasing else flip(powers, 1).contiguous()


@public
def trim_zeros(x: Array, /, trim: str = "fb", axis: int | Sequence[int] | None = None) -> Array:
    """A view without the zeros at the ends of axes; waits for the device, to read where the zeros end.

    Args:
        x: any array; slices are trimmed if all their elements are 0.
        trim: "f" for the front, "b" for the back, "fb" for both.
        axis: the axis or axes, all by default.

    Raises:
        ValueError: ``trim`` has another letter.
    """
    x = require_array(x, "trim_zeros")
    axes = normalize_axes(axis, x.ndim, "trim_zeros")
    letters = trim.lower()
    if letters not in ("f", "b", "fb", "bf"):
        raise ValueError(f"trim_zeros: trim: expected 'f', 'b' or 'fb', got {trim!r}")
    filled, key = not_equal(x, 0), [slice(None)] * x.ndim
    for dim in axes:
        used = any_of(filled, tuple(i for i in range(x.ndim) if i != dim))
        key[dim] = slice(0, 0)
        if used.size and bool(any_of(used)):
            first = int(argmax(used)) if "f" in letters else 0
            key[dim] = slice(first, used.size - int(argmax(flip(used))) if "b" in letters else None)
    part: Array = x[tuple(key)]
    return part


@public
def fliplr(x: Array, /) -> Array:
    """A view with the order of the second axis reversed."""
    return flip(x, 1)


@public
def flipud(x: Array, /) -> Array:
    """A view with the order of the first axis reversed."""
    return flip(x, 0)


@public
def rot90(x: Array, /, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Array:
    """A view rotated ``k`` times by 90 degrees, from the first of ``axes`` towards the second.

    Raises:
        ValueError: ``axes`` are not two different axes.
    """
    x = array_or_symbol(x, "rot90")
    first, second = (normalize_axis(axis, x.ndim, "rot90") for axis in axes)
    if first == second:
        raise ValueError(f"rot90: axes: expected two different axes, got {axes}")
    turns = operator.index(k) % 4
    if turns == 2:
        return flip(x, (first, second))
    if turns == 1:
        return swapaxes(flip(x, second), first, second)
    return x if turns == 0 else flip(swapaxes(x, first, second), second)


@public
def rollaxis(x: Array, /, axis: int, start: int = 0) -> Array:
    """A view with ``axis`` moved before the axis ``start``, or to the end; prefer :func:`moveaxis`.

    Raises:
        AxisError: there is no such axis, or ``start`` is not from ``-x.ndim`` to ``x.ndim``.
    """
    x = array_or_symbol(x, "rollaxis")
    axis = normalize_axis(axis, x.ndim, "rollaxis")
    target = x.ndim if start == x.ndim else normalize_axis(start, x.ndim, "rollaxis")
    return moveaxis(x, axis, target - (target > axis))


@public
def tile(x: Array, /, reps: int | Sequence[int]) -> Array:
    """Repeat the whole array along each axis.

    Args:
        x: any array.
        reps: the number of repeats along each of the last axes; additional ones make new axes.

    Raises:
        ValueError: a number is negative.

    >>> import cukern as ck
    >>> ck.tile(ck.asarray([1, 2]), (2, 2)).tolist()
    [[1, 2, 1, 2], [1, 2, 1, 2]]
    """
    x = require_array(x, "tile")
    entries: Any = reps if isinstance(reps, Sequence) or getattr(reps, "ndim", False) else (reps,)
    times = tuple(map(operator.index, entries)) if type(reps) is not int else (reps,)
    if min(times, default=0) < 0:
        raise ValueError(f"tile: reps: expected numbers of at least 0, got {times}")
    shape = x.shape
    ndim = max(len(shape), len(times))
    sizes, times = (1,) * (ndim - len(shape)) + shape, (1,) * (ndim - len(times)) + times
    apart = reshape(x, tuple(n for size in sizes for n in (1, size)))
    spread = broadcast_to(apart, tuple(n for pair in zip(times, sizes, strict=True) for n in pair))
    return reshape(spread, tuple(n * size for n, size in zip(times, sizes, strict=True)), copy=True)


@public
def repeat(x: Array, /, repeats: int | Sequence[int] | Array, axis: int | None = None) -> Array:
    """Repeat each element along an axis.

    Args:
        x: any array.
        repeats: the number of repeats, one for all or one for each index along the axis. With an array the function
            waits for the device, to read the sum.
        axis: the axis; if None, ``x`` is flattened.

    Raises:
        ValueError: a number is negative, or their count does not match the axis.

    >>> import cukern as ck
    >>> ck.repeat(ck.asarray([1, 2, 3]), ck.asarray([0, 2, 1])).tolist()
    [2, 2, 3]
    """
    x = require_array(x, "repeat")
    if axis is None:
        x, axis = reshape(x, (-1,)), 0
    axis = normalize_axis(axis, x.ndim, "repeat")
    size = x.shape[axis]
    if not isinstance(repeats, (Array, np.ndarray)) and hasattr(repeats, "__index__"):
        times = operator.index(repeats)
        if times < 0:
            raise ValueError(f"repeat: repeats: expected at least 0, got {times}")
        return with_repeats(x, times, axis)
    counts = asarray(repeats, device=x.device)
    if dtypes.info(counts.dtype).kind not in "iu":
        if counts.size and counts.dtype != dtypes.bool_:
            raise TypeError(f"repeat: repeats: expected integers, got {counts.dtype}")
        counts = astype(counts, dtypes.int64)
    if counts.ndim > 1 or counts.size not in (1, size):
        raise ValueError(f"repeat: repeats: expected {size} numbers, got shape {counts.shape}")
    if counts.size and int(counts.min()) < 0:
        raise ValueError("repeat: repeats: expected numbers of at least 0")
    ends = cumulative_sum(broadcast_to(reshape(counts, (-1,)), (size,)), axis=0, dtype=dtypes.int64)
    total = int(ends[-1]) if size else 0
    indices = searchsorted(ends, arange(total, device=x.device), side="right")
    return take(x, indices, axis=axis)


@public
def append(x: Array, /, values: Any, axis: int | None = None) -> Array:
    """Append ``values`` to ``x`` along an axis; if ``axis`` is None, flatten both."""
    x = require_array(x, "append")
    return concat([x, beside(values, x)], axis=axis)


def _flattened(x: Array, axis: int | None, name: str) -> tuple[Array, int]:
    x = require_array(x, name)
    return (reshape(x, (-1,)), 0) if axis is None else (x, normalize_axis(axis, x.ndim, name))


def _key(obj: Any) -> Any:
    return obj.numpy() if isinstance(obj, Array) else obj


def _inserted(key: Any, size: int) -> Any:
    """The index of :func:`insert`; a slice, and a mask, as the indices that they stand for."""
    if isinstance(key, slice):
        return np.arange(*key.indices(size))
    indices = np.asarray(key)
    if indices.dtype == bool:
        return np.flatnonzero(indices)
    return int(indices) if not indices.ndim and indices.dtype.kind in "iu" else key


@public
def delete(x: Array, /, obj: Any, axis: int | None = None) -> Array:
    """Remove the slices at indices ``obj`` along an axis; if ``axis`` is None, flatten ``x``.

    Raises:
        IndexError: an index is out of range.
    """
    x = require_array(x, "delete")
    dim = 0 if axis is None else normalize_axis(axis, x.ndim, "delete")
    size, key = x.size if axis is None else x.shape[dim], _key(obj)
    cut = _interval(key, size)
    if axis is None:
        x = reshape(x, (-1,))
    if cut is not None:
        return concat([_between(x, dim, 0, cut[0]), _between(x, dim, cut[1], size)], axis=dim)
    return take(x, np.delete(np.arange(size), key), axis=dim)


def _interval(key: Any, size: int) -> tuple[int, int] | None:
    """The range ``[first, last)`` that an index in range or a slice selects; None for any other key."""
    if isinstance(key, slice):
        first, last, step = key.indices(size)
        return (first, max(first, last)) if step == 1 else None
    in_range = isinstance(key, (int, np.integer)) and not isinstance(key, bool) and -size <= key < size
    return (int(key) % size, int(key) % size + 1) if in_range else None


def _between(x: Array, axis: int, first: int, last: int) -> Array:
    part: Array = x[(slice(None),) * axis + (slice(first, last),)]
    return part


@public
def insert(x: Array, /, obj: Any, values: Any, axis: int | None = None) -> Array:
    """Insert ``values`` before the indices ``obj`` along an axis; if ``axis`` is None, flatten ``x``.

    Raises:
        IndexError: an index is out of range.
        OverflowError: a Python integer is out of the range of the dtype of ``x``.
        ValueError: the shapes do not fit.
    """
    x, dim = _flattened(x, axis, "insert")
    size = x.shape[dim]
    key = _inserted(_key(obj), size)
    dtype = x.dtype if is_scalar(values) or isinstance(values, (list, tuple)) else None
    added = asarray(values, dtype, x.device).astype(x.dtype)
    if added.ndim > x.ndim and added.shape[: added.ndim - x.ndim] == (1,) * (added.ndim - x.ndim):
        added = reshape(added, added.shape[added.ndim - x.ndim :])
    count = np.size(key)
    if count == 1 and added.ndim <= x.ndim:  # one index takes as many slices as there are
        added = reshape(added, (1,) * (x.ndim - added.ndim) + added.shape)
        added = added if np.ndim(key) else moveaxis(added, 0, dim)
        count = added.shape[dim]
    rows = broadcast_to(added, (*x.shape[:dim], count, *x.shape[dim + 1 :]))
    if isinstance(key, (int, np.integer)) and -size <= key <= size:
        at = int(key) + (size if key < 0 else 0)
        return concat([_between(x, dim, 0, at), rows, _between(x, dim, at, size)], axis=dim)
    order = np.insert(np.arange(size), key, np.arange(size, size + count))
    return take(concat([x, rows], axis=dim), order, axis=dim)


@public
def resize(x: Array, /, new_shape: int | Sequence[int]) -> Array:
    """An array of any shape, filled with the elements of ``x`` in C order, repeated as needed; zeros if there are none.

    Raises:
        ValueError: a size is negative.
    """
    x = require_array(x, "resize")
    entries: Any = (
        new_shape if isinstance(new_shape, Sequence) or getattr(new_shape, "ndim", False) else (new_shape,)
    )
    sizes = tuple(map(operator.index, entries))
    count = math.prod(sizes)
    if min(sizes, default=0) < 0:
        raise ValueError(f"resize: new_shape: expected sizes of at least 0, got {sizes}")
    if count and not x.size:
        return zeros(sizes, x.dtype, x.device)
    times = -(-count // max(1, x.size))
    return reshape(tile(reshape(x, (-1,)), times)[:count], sizes)


@public
def meshgrid(
    *arrays: Array, indexing: str = "xy", sparse: bool = False, copy: bool = True
) -> tuple[Array, ...]:
    """The coordinates of a grid, from the coordinates along each axis.

    Args:
        arrays: vectors or 0-d arrays.
        indexing: ``"ij"``, or ``"xy"`` to swap the first two axes of the grid.
        sparse: whether to return arrays that broadcast to the grid.
        copy: whether the results are copies instead of views.

    Raises:
        ValueError: an array has several axes, or there is no such ``indexing``.
    """
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid: indexing: expected 'xy' or 'ij', got {indexing!r}")
    result: list[Array] = []
    for i, x in enumerate(require_each(arrays, "meshgrid")):
        if x.ndim > 1:
            raise ValueError(f"meshgrid: arrays[{i}]: expected one axis, got shape {x.shape}")
        dim = {0: 1, 1: 0}.get(i, i) if indexing == "xy" and len(arrays) > 1 else i
        result.append(reshape(x, tuple(-1 if axis == dim else 1 for axis in range(len(arrays)))))
    if not sparse:
        result = list(broadcast_arrays(*result))
    return tuple(_copied(x) if copy else x for x in result)
