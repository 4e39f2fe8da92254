"""Sets: the distinct elements of arrays, and what two arrays have in common. All by a stable sort."""

from __future__ import annotations

from typing import Any, NamedTuple

from .. import dtypes, tape
from ..array import Array
from ..creation import asarray, full, ones
from ..errors import DeviceError
from ..table import equal, isnan, logical_not, not_equal, subtract
from .axes import public, require_array
from .elementwise import as_operands, astype
from .index import take
from .manipulate import concat, reshape
from .scan import cumulative_sum
from .search import places_of, searchsorted
from .sort import argsort, sort

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
    """Distinct elements, where each is first, where each element is among them, and how often each is there."""

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class UniqueCounts(NamedTuple):
    """Distinct elements, and how often each is there."""

    values: Array
    counts: Array


class UniqueInverse(NamedTuple):
    """Distinct elements, and where each element is among them."""

    values: Array
    inverse_indices: Array


class _Runs(NamedTuple):
    """An array in order.

    Attributes:
        ordered: its elements.
        order: the places they come from; None where they are not wanted.
        starts: the places where a new element begins.
        fresh: whether one does, at each place.
    """

    ordered: Array
    order: Array | None
    starts: Array
    fresh: Array


def _runs(x: Array, indexed: bool, equal_nan: bool) -> _Runs:
    """The flattened ``x`` in order, and where its elements change."""
    with tape.stop_recording():
        flat = reshape(x, (-1,))
        order = argsort(flat) if indexed else None
        ordered = sort(flat) if order is None else take(flat, order)
        differs = not_equal(ordered[1:], ordered[:-1])
        if equal_nan and x.dtype in dtypes.FLOATS:
            differs = differs & logical_not(isnan(ordered[1:]) & isnan(ordered[:-1]))
        first = ones(min(flat.size, 1), "bool", x.device)
        fresh = concat([first, differs]) if flat.size else first
        return _Runs(ordered, order, places_of(fresh), fresh)


def _counts(runs: _Runs) -> Array:
    ends = concat([runs.starts[1:], asarray([runs.ordered.size], "int64", runs.starts.device)])
    return subtract(ends, runs.starts) if runs.starts.size else runs.starts


def _inverse(runs: _Runs, x: Array) -> Array:
    """Of each element of ``x`` the number of its run."""
    assert runs.order is not None
    numbers = subtract(cumulative_sum(astype(runs.fresh, dtypes.int64), axis=0), 1)
    return reshape(take(numbers, argsort(runs.order)), x.shape)


def _unique(x: Array, indexed: bool, equal_nan: bool, name: str) -> UniqueAll:
    require_array(x, name)
    runs = _runs(x, indexed, equal_nan)
    with tape.stop_recording():
        values = take(runs.ordered, runs.starts)
        # The sort is stable, so that the first of a run is the first in the array.
        indices = take(runs.order, runs.starts) if runs.order is not None else runs.starts
        inverse = _inverse(runs, x) if runs.order is not None else runs.starts
        return UniqueAll(values, indices, inverse, _counts(runs))


@public
def unique_all(x: Array, /) -> UniqueAll:
    """The distinct elements of the flattened ``x``, in order; each NaN is distinct.

    How many there are is read back from the device, which this waits for.

    Returns:
        A named tuple: ``values``; ``indices`` of the first of each; ``inverse_indices``, of the shape of ``x``,
        which make ``x`` of the values; and ``counts``. All but the values are int64.

    >>> import cukern as ck
    >>> ck.unique_all(ck.asarray([3, 1, 3])).inverse_indices.tolist()
    [1, 0, 1]
    """
    return _unique(x, True, False, "unique_all")


@public
def unique_counts(x: Array, /) -> UniqueCounts:
    """The distinct elements of the flattened ``x``, in order, and how often each is there. See :func:`unique_all`."""
    found = _unique(x, False, False, "unique_counts")
    return UniqueCounts(found.values, found.counts)


@public
def unique_inverse(x: Array, /) -> UniqueInverse:
    """The distinct elements of the flattened ``x``, in order, and the indices that make ``x`` of them."""
    found = _unique(x, True, False, "unique_inverse")
    return UniqueInverse(found.values, found.inverse_indices)


@public
def unique_values(x: Array, /) -> Array:
    """The distinct elements of the flattened ``x``, in order; each NaN is distinct."""
    return _unique(x, False, False, "unique_values").values


@public
def unique(
    x: Array,
    /,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    *,
    equal_nan: bool = True,
) -> Any:
    """The distinct elements of the flattened ``x``, in order, as ``numpy.unique``.

    Args:
        x: any array.
        return_index: whether the place of the first of each is returned as well.
        return_inverse: whether the indices that make ``x`` are.
        return_counts: whether how often each is there is.
        equal_nan: whether all NaN are one.

    Returns:
        The elements, or a tuple of them and what is asked for.
    """
    found = _unique(x, return_index or return_inverse, equal_nan, "unique")
    wanted = (return_index, return_inverse, return_counts)
    more = [one for one, want in zip(found[1:], wanted, strict=True) if want]
    return (found.values, *more) if more else found.values


def _pair(x1: Any, x2: Any, name: str) -> tuple[Array, Array]:
    """Two operands as arrays of one dtype on one device."""
    first, second = as_operands(name, (x1, x2))
    device = next((x.device for x in (first, second) if isinstance(x, Array)), None)
    if device is None:
        raise TypeError(f"{name}: expected a cukern.Array, got {type(x1).__name__} and {type(x2).__name__}")
    dtype = dtypes.result_type(*(x.dtype if isinstance(x, Array) else x for x in (first, second)))
    made = []
    for x in (first, second):
        array = x if isinstance(x, Array) else asarray(x, dtype=dtype, device=device)
        if array.device is not device:
            raise DeviceError(f"{name}: expected arrays on one device, got {device} and {array.device}")
        made.append(astype(array, dtype, copy=False))
    return made[0], made[1]


@public
def isin(x1: Any, x2: Any, /, *, assume_unique: bool = False, invert: bool = False) -> Array:
    """Whether each element of ``x1`` is one of ``x2``; NaN is none.

    Args:
        x1: an array or a number.
        x2: an array or a number.
        assume_unique: of no effect.
        invert: whether it is none of them instead.

    Returns:
        bool, of the shape of ``x1``.

    >>> import cukern as ck
    >>> ck.isin(ck.asarray([1, 2, 3]), ck.asarray([3, 1])).tolist()
    [True, False, True]
    """
    with tape.stop_recording():
        elements, among = _pair(x1, x2, "isin")
        if not among.size:
            return full(elements.shape, bool(invert), "bool", elements.device)
        ordered = sort(among, axis=None)
        places = searchsorted(ordered, elements)
        found = equal(take(ordered, places % among.size), elements) & (places < among.size)
        return logical_not(found) if invert else found


def _flat(x: Array, assume_unique: bool) -> Array:
    return reshape(x, (-1,)) if assume_unique else unique(x)


@public
def union1d(x1: Array, x2: Array, /) -> Array:
    """The distinct elements of both arrays, in order."""
    first, second = _pair(x1, x2, "union1d")
    values: Array = unique(concat([first, second], axis=None))
    return values


@public
def intersect1d(x1: Array, x2: Array, /, *, assume_unique: bool = False) -> Array:
    """The distinct elements that are in both arrays, in order."""
    first, second = (_flat(x, assume_unique) for x in _pair(x1, x2, "intersect1d"))
    return sort(first[isin(first, second)])


@public
def setdiff1d(x1: Array, x2: Array, /, *, assume_unique: bool = False) -> Array:
    """The distinct elements of ``x1`` that are not in ``x2``, in order."""
    first, second = _pair(x1, x2, "setdiff1d")
    kept = _flat(first, assume_unique)
    return kept[isin(kept, second, invert=True)]


@public
def setxor1d(x1: Array, x2: Array, /, *, assume_unique: bool = False) -> Array:
    """The distinct elements that are in one array only, in order."""
    first, second = (_flat(x, assume_unique) for x in _pair(x1, x2, "setxor1d"))
    apart = [first[isin(first, second, invert=True)], second[isin(second, first, invert=True)]]
    return sort(concat(apart))
