"""Sets: the distinct elements of arrays, and set operations on two arrays, all by a stable sort."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from .. import dtypes
from ..array import Array
from ..array.creation import arange, asarray, device_of, full, ones
from ..autodiff import tape
from ..elementwise.function import as_operands, astype
from ..elementwise.fuse import fuse
from ..elementwise.logic import logical_not
from ..elementwise.operands import normalize_axis, public, require_array
from ..elementwise.row import is_scalar
from ..elementwise.table import isnan, not_equal, subtract
from ..errors import DeviceError
from ..kernel.by_numpy import by_numpy
from ..kernel.plan import allocate
from ..reduction.rows import any
from ..shape.joins import concat
from ..shape.views import moveaxis, reshape
from .compact import flat_indices, runs_of
from .scan import cumulative_sum
from .search import search_into
from .sort import lexsort, permuted, sort, sorted_along
from .take import take

__all__ = [
    "intersect1d",
    "isin",
    "setdiff1d",
    "setxor1d",
    "union1d",
    "unique",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
]


class UniqueAll(NamedTuple):
    """Distinct elements, the first index of each, the inverse indices, and the count of each."""

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class UniqueCounts(NamedTuple):
    """Distinct elements, and the count of each."""

    values: Array
    counts: Array


class UniqueInverse(NamedTuple):
    """Distinct elements, and the inverse indices."""

    values: Array
    inverse_indices: Array


class _Runs(NamedTuple):
    """Sorted elements, or sorted slices along the first axis, in runs of equal ones.

    Attributes:
        ordered: the sorted elements.
        order: their indices in the array.
        starts: the indices at which a run starts.
        fresh: for each index, whether a run starts there.
    """

    ordered: Array
    order: Array
    starts: Array
    fresh: Array


def _runs(x: Array, equal_nan: bool) -> _Runs:
    """The runs of the elements of ``x`` (n), or of its rows (n, m)."""
    if x.ndim == 2:
        columns = [x[:, j] for j in reversed(range(x.shape[1]))]
        order = lexsort(columns) if columns else arange(x.shape[0], dtype=dtypes.int64, device=x.device)
        ordered = take(x, order, axis=0)
    else:
        ordered, order = sorted_along(x, 0, False)
    if x.ndim == 2:
        differs = any(not_equal(ordered[1:], ordered[:-1]), axis=1)
    else:
        differs = _differ(ordered[1:], ordered[:-1], equal_nan and x.dtype in dtypes.INEXACT)
    fresh = concat([ones(min(len(x), 1), dtypes.bool_, x.device), differs])
    return _Runs(ordered, order, flat_indices(fresh), fresh)


@fuse(static=["equal_nan"])
def _differ(x: Array, before: Array, equal_nan: bool) -> Array:
    """Whether elements are not equal to the ones before them."""
    differs = not_equal(x, before)
    return differs & logical_not(isnan(before)) if equal_nan else differs


def _counts(starts: Array, size: int) -> Array:
    """The lengths of runs in ``size`` elements."""
    ends = concat([starts[1:], full(1, size, dtypes.int64, starts.device)])
    return subtract(ends, starts) if starts.size else starts


def _unique(
    x: Array, axis: int | None, indexed: bool, equal_nan: bool, name: str, counted: bool = True
) -> UniqueAll:
    """The distinct slices; the indices mean nothing unless ``indexed``, nor the counts unless ``counted``."""
    x = require_array(x, name)
    if tape.recording((x,)) and x.dtype in dtypes.INEXACT:
        with tape.stop_recording():
            result = _unique(x, axis, True, equal_nan, name)
        # A tape records this gather; the sort is not recorded.
        again = take(reshape(x, (-1,)) if axis is None else x, result.indices, axis=axis or 0)
        return result._replace(values=again)
    with tape.stop_recording():
        dim = 0 if axis is None else normalize_axis(axis, x.ndim, name)
        axis = None if x.ndim == 1 else axis
        parts = moveaxis(x, dim, 0) if axis is not None else reshape(x, (-1,))
        if axis is None and not indexed:
            values, starts = runs_of(sort(parts), equal_nan and x.dtype in dtypes.INEXACT, counted)
            counts = values if starts is None else _counts(starts, x.size)
            return UniqueAll(values, values, values, counts)
        rows = parts if axis is None else reshape(parts, (len(parts), math.prod(parts.shape[1:])))
        runs = _runs(rows, equal_nan)
        distinct = reshape(take(runs.ordered, runs.starts, axis=0), (runs.starts.size, *parts.shape[1:]))
        values, counts = (
            moveaxis(distinct, 0, dim),
            _counts(runs.starts, len(runs.ordered)) if counted else runs.starts,
        )
        if not indexed:
            return UniqueAll(values, runs.starts, runs.starts, counts)
        numbers = subtract(cumulative_sum(astype(runs.fresh, dtypes.int64), axis=0), 1)
        inverse = permuted(numbers, runs.order, "scatter")
        # The sort is stable, so the first element of a run is the first in the array.
        first = take(runs.order, runs.starts)
        return UniqueAll(values, first, reshape(inverse, x.shape) if axis is None else inverse, counts)


@public
def unique_all(x: Array, /) -> UniqueAll:
    """The distinct elements of the flattened ``x``, sorted, with indices and counts; each NaN is distinct.

    Waits for the device, to read their number. The values are differentiable: the first of equal elements gets the
    derivative.

    Returns:
        A named tuple: ``values``; ``indices`` of the first of each; ``inverse_indices``, for which
        ``values[inverse_indices]`` is ``x``; and ``counts``. All except the values are int64.

    >>> import cukern as ck
    >>> ck.unique_all(ck.asarray([3, 1, 3])).inverse_indices.tolist()
    [1, 0, 1]
    """
    return _unique(x, None, True, False, "unique_all")


@public
def unique_counts(x: Array, /) -> UniqueCounts:
    """The distinct elements of the flattened ``x``, sorted, and their counts. See :func:`unique_all`."""
    distinct = _unique(x, None, False, False, "unique_counts")
    return UniqueCounts(distinct.values, distinct.counts)


@public
def unique_inverse(x: Array, /) -> UniqueInverse:
    """The distinct elements of the flattened ``x``, sorted, and the inverse indices. See :func:`unique_all`."""
    distinct = _unique(x, None, True, False, "unique_inverse", False)
    return UniqueInverse(distinct.values, distinct.inverse_indices)


@public
def unique_values(x: Array, /) -> Array:
    """The distinct elements of the flattened ``x``, sorted; each NaN is distinct."""
    return _unique(x, None, False, False, "unique_values", False).values


@public
def unique(
    x: Array,
    /,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    sorted: bool = True,
) -> Any:
    """The distinct elements of ``x``, or its distinct slices along an axis, sorted, as ``numpy.unique``.

    Args:
        x: any array.
        return_index: whether to return the index of the first of each.
        return_inverse: whether to return the indices that restore ``x`` from the result.
        return_counts: whether to return the count of each.
        axis: the axis along which slices are compared; None flattens the array.
        equal_nan: whether all NaN are equal, for vectors and flattened arrays.
        sorted: has no effect: the result is always sorted.

    Returns:
        The elements, or a tuple of them and the requested arrays.

    Raises:
        AxisError: there is no such axis.

    >>> import cukern as ck
    >>> ck.unique(ck.asarray([[1, 0], [0, 1], [1, 0]]), axis=0).tolist()
    [[0, 1], [1, 0]]
    """
    distinct = _unique(x, axis, return_index or return_inverse, equal_nan, "unique", return_counts)
    wanted = (return_index, return_inverse, return_counts)
    more = [array for array, want in zip(distinct[1:], wanted, strict=True) if want]
    return (distinct.values, *more) if more else distinct.values


def _pair(x1: Any, x2: Any, name: str, kept: bool = True) -> tuple[Array, Array]:
    """Two operands as arrays of one dtype on one device; the result's dtype if their elements are ``kept``."""
    first, second = as_operands(name, (x1, x2))
    if not isinstance(first, Array) and not isinstance(second, Array):
        first = asarray(first)
    device = device_of((first, second))
    common = dtypes.result_type if kept else dtypes.comparable
    dtype = common(*(x.dtype if isinstance(x, Array) else x for x in (first, second)))
    result = []
    for x in (first, second):
        array = x if isinstance(x, Array) else asarray(x, dtype=dtype, device=device)
        if array.device is not device:
            raise DeviceError(f"{name}: expected arrays on one device, got {device} and {array.device}")
        result.append(astype(array, dtype, copy=False))
    return result[0], result[1]


@by_numpy("isin", least=0, most=None, why="it looks integers up in a table")
def _looked_up(elements: Any, among: Any, invert: bool) -> Any:
    return np.isin(elements, among, invert=invert) if elements.dtype.kind in "biu" else "no integers"


@public
def isin(
    x1: Any, x2: Any, /, assume_unique: bool = False, invert: bool = False, *, kind: Any = None
) -> Array:
    """Whether each element of ``x1`` is among the elements of ``x2``; NaN never is.

    Args:
        x1: an array or a number.
        x2: an array or a number.
        assume_unique: has no effect.
        invert: whether to negate the result.
        kind: None, ``"sort"`` or ``"table"``, NumPy's names of algorithms; has no effect.

    Returns:
        bool, of the shape of ``x1``.

    Raises:
        DeviceError: the arrays are on different devices.
        TypeError: an operand is not an array, number or list, or the dtypes have no common dtype.
        ValueError: there is no such ``kind``.

    >>> import cukern as ck
    >>> ck.isin(ck.asarray([1, 2, 3]), ck.asarray([3, 1])).tolist()
    [True, False, True]
    """
    if kind not in (None, "sort", "table"):
        raise ValueError(f"isin: kind: expected None, 'sort' or 'table', got {kind!r}")
    with tape.stop_recording():
        elements, among = _pair(x1, x2, "isin", kept=False)
        if not among.size:
            return full(elements.shape, bool(invert), dtypes.bool_, elements.device)
        if (inside := _looked_up(elements, among, bool(invert))) is not None:
            return inside
        ordered = sort(among, axis=None)
        out = Array._wrap(allocate(elements.device, elements.shape, dtypes.bool_), elements.device)
        out = search_into(out, ordered, None, elements.contiguous())
        return logical_not(out) if invert else out


def _flat(x: Array, assume_unique: bool) -> Array:
    return reshape(x, (-1,)) if assume_unique else unique(x)


@public
def union1d(x1: Any, x2: Any, /) -> Array:
    """The sorted distinct elements of both arrays. Raises as :func:`isin`.

    >>> import cukern as ck
    >>> ck.union1d(ck.asarray([3, 1]), ck.asarray([2, 3])).tolist()
    [1, 2, 3]
    """
    values: Array = unique(concat(_pair(x1, x2, "union1d"), axis=None))
    return values


@public
def intersect1d(x1: Any, x2: Any, /, assume_unique: bool = False, return_indices: bool = False) -> Any:
    """The sorted distinct elements that are in both arrays; NaN never is.

    Args:
        x1: an array; it is flattened.
        x2: an array; it is flattened.
        assume_unique: promises that neither array repeats an element.
        return_indices: whether to return the index of the first of each in ``x1`` and in ``x2``.

    Returns:
        The elements, or a tuple of them and two int64 arrays. Raises as :func:`isin`.

    >>> import cukern as ck
    >>> ck.intersect1d(ck.asarray([3, 1, 2]), ck.asarray([2, 3, 3])).tolist()
    [2, 3]
    """
    arrays = [reshape(x, (-1,)) for x in _pair(x1, x2, "intersect1d")]
    if not return_indices:
        first, second = (_flat(x, assume_unique) for x in arrays)
        return sort(first[isin(first, second)])
    result: list[Array] = []
    for x, other in (arrays, arrays[::-1]):
        with tape.stop_recording():
            values, indices = sorted_along(x, 0, False) if assume_unique else unique(x, True)
            result.append(indices[isin(values, other)])
    return take(arrays[0], result[0]), *result


@public
def setdiff1d(x1: Any, x2: Any, /, assume_unique: bool = False) -> Array:
    """The sorted distinct elements of ``x1`` that are not in ``x2``.

    With ``assume_unique``, all such elements in the order of ``x1``. Raises as :func:`isin`.
    """
    first, second = _pair(x1, x2, "setdiff1d", kept=False)
    # The elements keep their dtype and all digits: only the comparison uses the common dtype.
    elements = first if is_scalar(x1) else require_array(x1, "setdiff1d", "x1", second)
    kept = _flat(elements, assume_unique)
    return kept[isin(kept, second, invert=True)]


@public
def setxor1d(x1: Any, x2: Any, /, assume_unique: bool = False) -> Array:
    """The sorted elements that are in exactly one array; ``assume_unique`` promises that neither repeats one.

    Raises as :func:`isin`.
    """
    first, second = (_flat(x, assume_unique) for x in _pair(x1, x2, "setxor1d"))
    apart = [first[isin(first, second, invert=True)], second[isin(second, first, invert=True)]]
    return sort(concat(apart))
