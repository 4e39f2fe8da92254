"""Segmented reductions: of rows that share a segment id, or that lie between two offsets; and ``scatter``.

Each result depends only on the rows and their ids: the order in which values are combined is that of the rows, in a
tree where a segment has very many. So every run gives the same bits.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from .. import dtypes
from ..array import Array
from ..array.batched import level_of, levels
from ..array.creation import asarray, ones
from ..array.deferred import Deferred, trace, traced_threads
from ..array.layout import Layout, fresh_layout
from ..array.operators import FUNCTIONS
from ..autodiff import tape
from ..elementwise.complex_rows import conjugated
from ..elementwise.function import astype
from ..elementwise.fuse import fuse
from ..elementwise.operands import normalize_axis, of, on_device, public, recorded
from ..elementwise.table import equal, maximum, not_equal, where
from ..kernel.plan import serial
from ..shape.joins import concat
from ..shape.views import broadcast_to, reshape
from .combine import Combination, combined
from .gather_scatter import between, gathered, ordered, picked_along
from .scan import recurrence, shifted
from .search import searchsorted
from .sort import permuted
from .take import Gathered, gather, in_range, integers, kernel_indices, numbers_rows
from .traced import TracedRows

__all__ = ["scatter", "segment_max", "segment_mean", "segment_min", "segment_prod", "segment_sum"]

Reduction = Literal["sum", "prod", "mean", "max", "min"]


class Segments(NamedTuple):
    """Which rows of an array (outer, count, inner) belong to which segment.

    Attributes:
        ids: the segment of each row, an ndarray of integers from 0 to ``number - 1``.
        number: how many segments there are.
        rising: whether the ids are in ascending order.
        starts: on a GPU, an ndarray of the first row of each segment and the end, if the segments lie between offsets.
    """

    ids: Any
    number: int
    rising: bool = False
    starts: Any = None

    def combined(self, x: Array, how: Combination = "sum", mean: bool = False) -> Array:
        """The rows of ``x`` (outer, count, inner), those of each segment combined: (outer, number, inner)."""
        outer, _, inner = x.shape
        return combined(
            x,
            self.ids,
            outer,
            self.number,
            inner,
            how=how,
            rising=self.rising,
            mean=mean,
            starts=self.starts,
        )

    def summed(self, x: Array) -> Array:
        """The sums of the segments of ``x`` (outer, count, inner): (outer, number, inner)."""
        return recorded("segment_sum", x, self.combined(x), self._gathered_later, self.summed)

    def gathered(self, y: Array) -> Array:
        """For each row the value of its segment: (outer, count, inner) for ``y`` (outer, number, inner)."""
        outer, number, inner = y.shape
        result = gathered(y, self.ids, outer, number, inner)
        return recorded("take", y, result, self.summed, self.gathered)

    def mean(self, x: Array) -> Array:
        """The means of the segments of ``x`` (outer, count, inner), 0 of no row, not on the host."""
        return self.combined(x, mean=True)

    def _gathered_later(self, g: Array) -> Array:
        """:meth:`gathered`; on a GPU not before it is read, as :func:`.take.scatter` reads ``g`` itself."""
        outer, number, inner = g.shape
        if outer > 1 or serial(g.device) or tape.active():
            return self.gathered(g)
        layout = fresh_layout(g.device, g.dtype, (1, self.ids.size, inner))
        return Deferred.of(layout, Gathered(g, self.ids, number, inner))

    def counts(self, like: Array) -> Array:
        """The number of rows of each segment, int64 (1, number, 1)."""
        with tape.stop_recording():
            return self.summed(ones((1, self.ids.size, 1), dtype=dtypes.int64, device=like.device))


AnySegments = Segments | TracedRows

# ----- products and extremes -----


def _recorded(
    how: Combination, x: Array, segments: AnySegments, vjp: Callable[[Array, Array, Array, Any], Array]
) -> Array:
    result = segments.combined(x, how)
    if tape.recording((x,)):

        def pull(cotangents: tape.Arrays, saved: tape.Arrays, needs: Sequence[bool]) -> list[Array]:
            return [vjp(cotangents[0], saved[0], saved[1], segments)]

        tape.record(f"segment_{how}", (x,), (result,), pull, (x, result))
    return result


def _extreme_vjp(g: Array, x: Array, y: Array, segments: AnySegments) -> Array:
    """Rows that equal the extreme share its cotangent."""
    with tape.stop_recording():
        chosen = equal(x, segments.gathered(y))
        count = segments.summed(astype(chosen, dtypes.int64))
    return where(chosen, segments.gathered(_divided(g, count)), 0)


@fuse
def _divided(x: Array, count: Array) -> Array:
    """``x / max(count, 1)``; half types are divided in float32, as they do not hold every count."""
    wide = dtypes.info(x.dtype).acc
    return astype(astype(x, wide) / astype(maximum(count, 1), wide), x.dtype)


def product(x: Array, segments: Segments) -> Array:
    """The products of the segments of ``x`` (outer, count, inner), 1 of no row: (outer, number, inner)."""
    return _recorded("prod", x, segments, _product_vjp)


def _product_vjp(g: Array, x: Array, y: Array, segments: Segments) -> Array:
    others: Array = conjugated(_product_of_others(x, segments))
    return segments.gathered(g) * others


def _product_of_others(x: Array, segments: Segments) -> Array:
    """For each row the product of the other rows of its segment, without a division, with all derivatives."""
    outer, count, inner = x.shape
    found = ordered(x.device, segments.ids, segments.number, segments.rising)
    keys, order = found.keys, found.order
    rows = x if order is None else gather(x, order._data, outer, count, inner)
    with tape.stop_recording():
        apart = reshape(not_equal(keys[1:], keys[:-1]), (1, -1, 1))
        end = ones((1, 1, 1), dtype=dtypes.bool_, device=x.device)
        first, last = concat((end, apart), axis=1), concat((apart, end), axis=1)
    # p[j] = rows[j - 1] * p[j - 1], and 1 where a segment begins, is the product of what comes before; of what comes
    # after, the same from the end.
    parts = [
        recurrence(shifted(rows, 1, back), broadcast_to(astype(edge, x.dtype), x.shape), 1, back, edge)
        for edge, back in ((first, False), (last, True))
    ]
    result = parts[0] * parts[1]
    if order is None:
        return result
    with tape.stop_recording():
        numbers = asarray(np.arange(count), device=x.device)
        former = permuted(numbers, order, "scatter")
    return gather(result, former._data, outer, count, inner)


# ----- the public functions -----


def _segments(
    name: str, x: Array | Layout, ids: Any, number: Any, axis: int, offsets: Any, rising: bool
) -> Segments:
    """The segments that the arguments of a public function describe.

    Raises:
        IndexError: a number is out of range, or not an integer.
        TypeError: neither numbers nor offsets are given, or both.
        ValueError: a shape or an order is wrong.
    """
    if (ids is None) == (offsets is None):
        raise TypeError(
            f"{name}: expected either segment_ids or offsets, got {'both' if ids is not None else 'neither'}"
        )
    if offsets is not None:
        return _between(name, x, offsets, number, axis)
    data = integers(ids, x, name)
    if data.shape != (x.shape[axis],):
        raise ValueError(
            f"{name}: segment_ids: expected shape ({x.shape[axis]},), one for each row along axis {axis} of "
            f"shape {x.shape}, got {data.shape}"
        )
    size = _size(name, "num_segments", number, data)
    indices = kernel_indices(data, size, x, name, ids)
    if rising and x.device.addressable and bool((indices[1:] < indices[:-1]).any()):
        raise ValueError(f"{name}: segment_ids: expected rising order with indices_are_sorted=True")
    return Segments(indices, size, rising)


def _size(name: str, argument: str, size_argument: Any, data: Any) -> int:
    """The size of the axis; by default one more than the largest index of ``data``, for which the host waits."""
    if size_argument is None:
        return int(data.max()) + 1 if data.size else 0
    size = operator.index(size_argument)
    if size < 0:
        raise ValueError(f"{name}: {argument}: expected at least 0, got {size_argument}")
    return size


def _between(name: str, x: Array | Layout, offsets: Any, number: Any, axis: int) -> Segments:
    """The segments between offsets; on a GPU offsets are not checked, but never lead out of bounds."""
    data, count = integers(offsets, x, name), x.shape[axis]
    if data.ndim != 1 or not data.size:
        raise ValueError(f"{name}: offsets: expected a vector of at least one number, got shape {data.shape}")
    size = data.size - 1
    if number is not None and operator.index(number) != size:
        raise ValueError(f"{name}: num_segments: expected {size}, one less than offsets, got {number}")
    if count and not size:
        raise ValueError(
            f"{name}: offsets: expected rising numbers from 0 to {count}, the number of rows, got one"
        )
    if x.device.addressable and (data[0] != 0 or data[-1] != count or bool((data[1:] < data[:-1]).any())):
        raise ValueError(
            f"{name}: offsets: expected rising numbers from 0 to {count}, the number of rows, got {data.tolist()[:8]}"
        )
    if not serial(x.device):
        indices, starts = between(x.device, x.device.xp.ascontiguousarray(data), count)
        return Segments(indices, size, True, starts)
    with tape.stop_recording():
        rows = Array._wrap(x.device.xp.arange(count), x.device)
        ends = Array._wrap(x.device.xp.ascontiguousarray(data[1:]), x.device)
        indices = searchsorted(ends, rows, side="right")._data
    return Segments(kernel_indices(indices, size, x, name), size, True)


def _traced(
    active: Any, name: str, x: Array, ids: Any, number: Any, offsets: Any, rising: bool
) -> TracedRows | None:
    """:func:`_segments` of the first axis in a trace; None where the rows are to be combined by a call."""
    given = ids if offsets is None else offsets
    if levels and level_of((x, ids, offsets)) is not None:
        return None
    if not x.size or x.dtype in dtypes.COMPLEX or not numbers_rows(given, x):
        return None
    if (ids is None) == (offsets is None) or (number is None and offsets is None):
        return None
    size = operator.index(number) if offsets is None else offsets.size - 1
    if size < 1 or (offsets is None and ids.shape != x.shape[:1]):
        return None
    if offsets is None and not rising:
        return TracedRows(in_range(active, ids, size, name), size, ids)
    own = x._layout or x._planned()
    found = active.once(rows_of_segments, own, ids, number, offsets, rising, name=name)
    return TracedRows(found[0], size, given, True, *found[1:])


def rows_of_segments(x: Layout, ids: Any, number: Any, offsets: Any, rising: bool, name: str) -> list[Array]:
    """The segment of each row of an array of this layout, and the first row of each segment where that is known."""
    found = _segments(name, x, ids, number, 0, offsets, rising)
    return [Array._wrap(one, x.device) for one in (found.ids, found.starts) if one is not None]


def _reduced(x: Array, segments: Segments, how: Reduction, axis: int) -> Array:
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    rows = reshape(x, (math.prod(before), x.shape[axis], math.prod(after)))
    return reshape(_of_rows(rows, segments, how), (*before, segments.number, *after))


def _of_rows(x: Array, segments: AnySegments, how: Reduction) -> Array:
    """The reduction of rows as the segments take them."""
    dtype = x.dtype
    integer = dtype not in dtypes.INEXACT
    if how == "mean":
        x = astype(x, dtypes.float64) if integer else x
    elif how in ("sum", "prod"):
        x = astype(x, dtypes.uint64 if dtypes.info(dtype).kind == "u" else dtypes.int64) if integer else x
    elif dtype == dtypes.bool_:
        x = astype(x, dtypes.uint8)
    if how == "sum":
        result = segments.summed(x)
    elif how == "mean":
        result = _mean(x, segments)
    elif how == "prod":
        assert isinstance(segments, Segments)
        result = product(x, segments)
    else:
        result = _recorded(how, x, segments, _extreme_vjp)
    if integer and how == "mean":
        result = astype(result, dtypes.get_default_dtype())
    elif dtype == dtypes.bool_ and how in ("max", "min"):
        result = astype(result, dtype)
    return result


def _mean(x: Array, segments: AnySegments) -> Array:
    """The means of the segments of ``x``, 0 of no row."""
    if serial(x.device) and isinstance(segments, Segments):
        sums = segments.summed(astype(x, dtypes.info(x.dtype).acc, copy=False))
        return astype(_divided(sums, segments.counts(x)), x.dtype, copy=False)
    result = segments.mean(x)
    return recorded("segment_mean", x, result, lambda g: segments.gathered(_divided(g, segments.counts(x))))


def _segmented(
    how: Reduction,
    x: Array,
    /,
    segment_ids: Any = None,
    num_segments: int | None = None,
    *,
    axis: int = 0,
    offsets: Any = None,
    indices_are_sorted: bool = False,
) -> Array:
    name = f"segment_{how}"
    if how in ("max", "min") and x.dtype in dtypes.COMPLEX:
        raise TypeError(f"{name}: x: expected real numbers, got {x.dtype}")
    axis = normalize_axis(axis, x.ndim, name)
    rising = bool(indices_are_sorted)
    if traced_threads and (active := trace()) is not None:
        one_kernel = axis == 0 and how != "prod"
        rows = _traced(active, name, x, segment_ids, num_segments, offsets, rising) if one_kernel else None
        if rows is not None:
            return _of_rows(x, rows, how)
        options = {"axis": axis, "offsets": offsets, "indices_are_sorted": rising}
        made: Array = active.call(FUNCTIONS[name], (x, segment_ids, num_segments), options)
        return made
    given = _segments(name, x, segment_ids, num_segments, axis, offsets, rising)
    return _reduced(x, given, how, axis)


@public
@on_device
@of(_segmented, "sum")
def segment_sum() -> None:
    """The sum of the rows of each segment, 0 for a segment without rows.

    The segments are given by a number for each row, or by offsets as in the CSR format: segment k has the rows
    ``offsets[k]`` to ``offsets[k + 1] - 1``. Rows are summed in their order; a segment with very many rows has a tree
    of partial sums. The same bits come in every run.

    Args:
        x: any array. Floats are summed in their dtype, half types in float32; integers and bool in int64 or uint64.
        segment_ids: integers, one for each row along ``axis``; negative ones count from the end.
        num_segments: the number of segments; by default one more than the largest of ``segment_ids``, for which the
            host waits for the device. Give it in a captured function.
        axis: the axis of the rows.
        offsets: in place of ``segment_ids``: rising integers from 0 to the number of rows, one more than there are
            segments.
        indices_are_sorted: whether ``segment_ids`` are in rising order, so that they are not sorted.

    Returns:
        An array in which the segments replace the rows of ``x``.

    Raises:
        AxisError: there is no such axis.
        IndexError: a number is out of range (on the host; on a GPU it is clipped), or not an integer.
        TypeError: neither ``segment_ids`` nor ``offsets`` are given, or both.
        ValueError: a shape is wrong; ``offsets``, or ``segment_ids`` that are said to be sorted, are not in rising
            order (on the host; on a GPU this is not checked, and the result is then unspecified).

    >>> import cukern as ck
    >>> ck.segment_sum(ck.asarray([1.0, 2.0, 3.0]), ck.asarray([0, 2, 0]), 4).tolist()
    [4.0, 0.0, 2.0, 0.0]
    >>> ck.segment_sum(ck.asarray([1.0, 2.0, 3.0]), offsets=ck.asarray([0, 1, 3])).tolist()
    [1.0, 5.0]
    """


@public
@on_device
@of(_segmented, "prod")
def segment_prod() -> None:
    """The product of the rows of each segment, 1 for a segment without rows; arguments as of :func:`segment_sum`.

    >>> import cukern as ck
    >>> ck.segment_prod(ck.asarray([1.0, 2.0, 3.0]), ck.asarray([0, 1, 1]), 3).tolist()
    [1.0, 6.0, 1.0]
    """


@public
@on_device
@of(_segmented, "mean")
def segment_mean() -> None:
    """The mean of the rows of each segment, 0 for a segment without rows; arguments as of :func:`segment_sum`.

    Integers are computed in float64 for a result of the default floating dtype.

    >>> import cukern as ck
    >>> ck.segment_mean(ck.asarray([1.0, 2.0, 3.0]), ck.asarray([0, 1, 1]), 3).tolist()
    [1.0, 2.5, 0.0]
    """


@public
@on_device
@of(_segmented, "max")
def segment_max() -> None:
    """The largest of the rows of each segment, NaN if one is; arguments as of :func:`segment_sum`.

    A segment without rows has -inf, or the lowest integer of the dtype. Equal values share the derivative.

    >>> import cukern as ck
    >>> ck.segment_max(ck.asarray([1, 2, 3]), ck.asarray([0, 1, 1]), 2).tolist()
    [1, 3]
    """


@public
@on_device
@of(_segmented, "min")
def segment_min() -> None:
    """The smallest of the rows of each segment, NaN if one is; arguments as of :func:`segment_sum`.

    A segment without rows has inf, or the highest integer of the dtype. Equal values share the derivative.

    >>> import cukern as ck
    >>> ck.segment_min(ck.asarray([1, 2, 3]), ck.asarray([0, 1, 1]), 2).tolist()
    [1, 2]
    """


@public
@on_device
def scatter(
    x: Array,
    /,
    indices: Any,
    axis: int = -1,
    size: int | None = None,
    *,
    reduce: Reduction = "sum",
) -> Array:
    """Combine the elements of ``x`` at their indices along an axis, as ``torch_scatter.scatter`` does.

    ``y[i, indices[i, j], k]`` combines ``x[i, j, k]`` over j, for ``axis=1``. :func:`take_along_axis` is the way back.
    An update of a given array is ``x.at[key].add(values)``.

    Args:
        x: any array; dtypes as for :func:`segment_sum`.
        indices: integers that broadcast to the shape of ``x``; or a vector, one for each row along ``axis``. Negative
            ones count from the end.
        axis: the axis.
        size: that of the axis in the result; by default one more than the largest index, for which the host waits for
            the device.
        reduce: ``"sum"``, ``"prod"``, ``"mean"``, ``"max"`` or ``"min"``.

    Returns:
        An array of the shape of ``x`` but for ``axis``. Where nothing goes it is 0, or 1 with ``"prod"``.

    Raises:
        AxisError: there is no such axis.
        IndexError: an index is out of range (on the host; on a GPU it is clipped), or not an integer.
        TypeError: the largest or smallest of complex numbers is asked for.
        ValueError: the indices do not broadcast, ``size`` is negative, or there is no such reduction.

    >>> import cukern as ck
    >>> x = ck.asarray([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    >>> ck.scatter(x, ck.asarray([[0, 1, 1], [2, 2, 0]]), 1, 3).tolist()
    [[1.0, 5.0, 0.0], [6.0, 0.0, 9.0]]
    """
    axis = normalize_axis(axis, x.ndim, "scatter")
    if reduce not in get_args(Reduction):
        raise ValueError(f"scatter: reduce: expected one of {', '.join(get_args(Reduction))}, got {reduce!r}")
    if reduce in ("max", "min") and x.dtype in dtypes.COMPLEX:
        raise TypeError(f"scatter: x: expected real numbers for the {reduce}, got {x.dtype}")
    if traced_threads and (active := trace()) is not None:
        one_kernel = axis == 0 and reduce != "prod"
        rows = _traced(active, "scatter", x, indices, size, None, False) if one_kernel else None
        if rows is not None:
            return _or_0(_of_rows(x, rows, reduce), rows, reduce, 0)
        made: Array = active.call(scatter, (x, indices, axis, size), {"reduce": reduce})
        return made
    data = integers(indices, x, "scatter")
    number = _size("scatter", "size", size, data)
    if data.shape == (x.shape[axis],):
        segments, given, at = Segments(kernel_indices(data, number, x, "scatter", indices), number), x, axis
    else:
        try:
            data = x.device.xp.broadcast_to(data, x.shape)
        except ValueError:
            raise ValueError(
                f"scatter: indices of shape {data.shape} do not broadcast to the shape {x.shape} of x"
            ) from None
        sizes = (math.prod(x.shape[:axis]), number, math.prod(x.shape[axis + 1 :]))
        positions = kernel_indices(data, number, x, "scatter")
        flat = picked_along(None, positions, x.device, *sizes)._data.reshape(-1)
        segments, given, at = Segments(flat, math.prod(sizes)), reshape(x, (-1,)), 0
    result = _or_0(_reduced(given, segments, reduce, at), segments, reduce, at)
    return reshape(result, (*x.shape[:axis], number, *x.shape[axis + 1 :]))


def _or_0(x: Array, segments: AnySegments, how: Reduction, axis: int) -> Array:
    """Extremes of segments along an axis, 0 where a segment has no rows; other reductions as they are."""
    if how not in ("max", "min"):
        return x
    empty = equal(reshape(segments.counts(x), (-1,) + (1,) * (x.ndim - 1 - axis)), 0)
    return where(empty, 0, x)
