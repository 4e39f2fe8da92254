"""Gathers, and the deterministic scatter-add that is a gather's derivative.

Indices out of range raise IndexError on the host. On a GPU a check would have to wait for the device, so indices
are clipped to the range, for reads and for writes, except within :func:`check_indices`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from .. import dtypes
from ..array import Array
from ..array.batched import Level, level_of, levels
from ..array.creation import arange, warn_of_constant
from ..array.deferred import deferred, trace, traced_threads
from ..array.layout import Layout
from ..array.mapping import looped, mapped, over_axis
from ..array.operators import FUNCTIONS
from ..autodiff import tape
from ..device import Device
from ..elementwise.function import astype
from ..elementwise.operands import (
    normalize_axis,
    on_device,
    one_step,
    public,
    recorded,
    recorded_many,
    require_array,
    view,
)
from ..elementwise.staged import LEAST_ELEMENTS
from ..elementwise.ufunc import one_out, written
from ..errors import DeviceError
from ..kernel.by_numpy import by_numpy
from ..kernel.plan import apart
from ..kernel.sizes import LARGEST_INDEX
from ..shape.views import broadcast_to, reshape
from .combine import added_along, combined, expect_added, expect_combined
from .gather_scatter import gathered, picked_along
from .kept import kept, kept_of
from .traced import TracedElements, TracedRows, bounded, picks

__all__ = ["index_add", "take", "take_along_axis"]

_TAKE = by_numpy("take")(np.ndarray.take)

_checked: ContextVar[bool] = ContextVar(
    "check_indices", default=os.environ.get("CUKERN_CHECK_INDICES") == "1"
)


@contextmanager
def check_indices(on: bool = True) -> Iterator[None]:
    """A with-block in which indices out of range raise IndexError on a GPU too; each check waits for the GPU.

    ``CUKERN_CHECK_INDICES=1`` turns the check on everywhere. On the host indices are always checked.

    Args:
        on: False turns off the check for the block.

    >>> import cukern as ck
    >>> with ck.check_indices():
    ...     ck.take(ck.asarray([1, 2, 3]), ck.asarray([2])).item()
    3
    """
    before = _checked.set(bool(on))
    try:
        yield
    finally:
        _checked.reset(before)


def wraps(x: Array | Layout) -> bool:
    """Whether indices of ``x`` that are out of range are clipped: on a GPU, unless they are checked."""
    return not x.device.addressable and not _checked.get()


def checked_indices(indices: Any, size: int, x: Array, name: str) -> Any:
    """Non-negative, checked or clipped indices, as an int64 ndarray on the device of ``x``."""
    return _kept(_checked_indices(indices, size, x, name), indices, x)


def _kept(data: Any, argument: Any, x: Array | Layout) -> Any:
    """Indices that a backward may read, which trusts them: not in memory that the caller may write until then."""
    return apart(x.device, data, argument) if tape.active() else data


def _checked_indices(indices: Any, size: int, x: Array | Layout, name: str, narrow: bool = False) -> Any:
    xp = x.device.xp
    if wraps(x):
        data = indices.astype(np.int64, copy=False)
        return xp.clip(xp.where(data < 0, data + size, data), 0, max(0, size - 1))
    low, high = (int(indices.min()), int(indices.max())) if indices.size else (0, -1)
    if low < -size or high >= size:
        bad = low if low < -size else high
        raise IndexError(f"{name}: index {bad} is out of bounds for an axis of size {size}")
    fits = narrow and low >= 0 and indices.dtype == dtypes.int32
    data = indices if fits else indices.astype(np.int64, copy=False)
    return xp.where(data < 0, data + size, data) if low < 0 else xp.asarray(data, order="C")


def expect_mode(mode: str, name: str) -> None:
    """Refuse what is no mode for indices out of range.

    Raises:
        ValueError: ``mode`` is none.
    """
    if mode not in ("raise", "wrap", "clip"):
        raise ValueError(f"{name}: mode: expected 'raise', 'wrap' or 'clip', got {mode!r}")


def in_mode(indices: Any, size: int, x: Array, mode: str) -> Any:
    """Indices of an axis of ``size`` as they are, or wrapped around or clipped to its range."""
    if mode == "raise" or not size:
        return indices
    wide = indices.astype(np.int64, copy=False)
    # NumPy makes a scalar of what it computes of an array without axes.
    return x.device.xp.asarray(wide % size if mode == "wrap" else wide.clip(0, size - 1))


def kernel_indices(
    indices: Any, size: int, x: Array | Layout, name: str, argument: Any = None, narrow: bool = False
) -> Any:
    """Indices for the kernels of :mod:`.gather_scatter`; on a GPU the kernels themselves wrap and clip them.

    Args:
        indices: an ndarray of integers.
        size: of the axis.
        x: what is indexed.
        name: of the caller, for errors.
        argument: what the caller was given; of a vector, or of an array in C order whose ``indices`` are a vector, what
            is found out about them is kept.
        narrow: whether checked ones may stay indices of 32 bits.
    """
    if not wraps(x):
        checked = _checked_indices(indices, size, x, name, narrow)
        return _kept(x.device.xp.asarray(checked, order="C"), indices, x)
    if indices.size and not size:
        raise IndexError(f"{name}: index out of bounds for an axis of size 0")
    fits, narrow = indices.dtype in (dtypes.int32, dtypes.int64), indices.dtype.itemsize < 4
    data = indices if fits else indices.astype(dtypes.int32 if narrow else dtypes.int64)
    if not data.flags.c_contiguous:
        data = x.device.xp.asarray(data, order="C")
    whole = isinstance(argument, Array) and (argument.ndim == 1 or argument.is_contiguous)
    if whole and data.ndim == 1 and argument.device is x.device:
        return kept(argument, data)
    return _kept(data, indices, x)


def on_device_of(x: Array | Layout, indices: Any) -> Any:
    """An ndarray on the device of ``x``, of numbers of the host or of such an ndarray."""
    if isinstance(indices, x.device.xp.ndarray):
        return indices
    data = np.asarray(indices)
    return data if x.device.addressable else x.device.backend.upload(data)


def integers(indices: Any, x: Array | Layout, name: str) -> Any:
    """An integer index argument as an ndarray on the device of ``x``.

    Raises:
        IndexError: ``indices`` are not integers.
    """
    if not x.device.addressable:
        warn_of_constant(indices)
    data = indices._data if isinstance(indices, Array) else on_device_of(x, indices)
    if isinstance(indices, Array) and indices.device is not x.device:
        data = indices.to_device(x.device)._data
    if data.size == 0 and not isinstance(indices, (Array, np.ndarray)):
        data = data.astype(np.int64)
    if data.dtype.kind not in "iu":
        raise IndexError(f"{name}: expected integer indices, got {data.dtype}")
    return data


def _rows_of_all(level: Level, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Array:
    """The rule of gathers and scatters of rows: those of all examples are outer ones."""
    *arrays, indices, outer, size, inner = args
    wholes = [level.front(one) for one in arrays]
    flat = [reshape(one, (-1, *one.shape[2:])) for one in wholes]
    made: Array = function(*flat, indices, level.size * outer, size, inner)
    return reshape(made, (level.size, outer, *made.shape[1:]))


@mapped(_rows_of_all)
def gather(x: Array, indices: Any, outer: int, size: int, inner: int) -> Array:
    """x (outer, size, inner) at ``indices`` (count): (outer, count, inner)."""
    if tape.recording((x,)):
        expect_added(x.device, x.dtype, indices.dtype, inner == 1, False)
        expect_combined(x.device, x.dtype, (outer, size, indices.size, inner))
    result = gathered(x, indices, outer, size, inner)
    held = kept_of(indices) if tape.opened else None

    def again(t: Array) -> Array:
        return gather(t, indices, outer, size, inner)

    return recorded("take", x, result, partial(_scattered, held, indices, outer, size, inner), again)


def _scattered(held: object, indices: Any, outer: int, size: int, inner: int, g: Array) -> Array:
    """:func:`scatter`, with what is kept of the indices, such as their order, held until then."""
    return scatter(g, indices, outer, size, inner)


@dataclass(frozen=True)
class Gathered:
    """Computes rows of ``y`` (1, number, inner) at ``ids``: of a :class:`~..array.deferred.Deferred`."""

    y: Array
    ids: Any
    number: int
    inner: int

    def __call__(self) -> Array:
        """Gather them: (1, count, inner)."""
        return gathered(self.y, self.ids, 1, self.number, self.inner)


@mapped(_rows_of_all)
def scatter(g: Array, indices: Any, outer: int, size: int, inner: int) -> Array:
    """The sums of g (outer, count, inner) at ``indices`` (count): (outer, size, inner)."""
    rows = deferred(g)
    if isinstance(rows, Gathered) and rows.inner == inner:
        result = combined(rows.y, indices, 1, size, inner, through=rows.ids)
    else:
        result = combined(g, indices, outer, size, inner)

    def vjp(gg: Array) -> Array:
        return gather(gg, indices, outer, size, inner)

    return recorded("scatter_add", g, result, vjp, lambda t: scatter(t, indices, outer, size, inner))


@mapped(_rows_of_all)
def scatter_into(x: Array, g: Array, indices: Any, outer: int, size: int, inner: int) -> Array:
    """x (outer, size, inner) with g (outer, count, inner) added at ``indices`` (count)."""
    result = combined(g, indices, outer, size, inner, x)

    def vjp(c: Array, needs: tuple[bool, ...]) -> tuple[Array, Array | None]:
        return c, gather(c, indices, outer, size, inner) if needs[1] else None

    def again(tx: Array, tg: Array) -> Array:
        return scatter_into(tx, tg, indices, outer, size, inner)

    return recorded_many("index_add", (x, g), result, vjp, again)


@public
@on_device
def take(
    x: Array,
    /,
    indices: Any,
    axis: int | None = None,
    out: Array | None = None,
    mode: Literal["raise", "wrap", "clip"] = "raise",
) -> Array:
    """The elements of ``x`` at indices along an axis.

    Args:
        x: any array.
        indices: integers; negative ones count from the end.
        axis: the axis; None takes from the flattened array.
        out: the array to write the result to.
        mode: for indices out of range: ``"raise"`` an error, ``"wrap"`` around, or ``"clip"`` to the range.

    Returns:
        An array in which the axes of ``indices`` replace ``axis``.

    Raises:
        IndexError: an index is out of range (on the host; on a GPU it is clipped).
    """
    if levels and level_of((x, indices)) is not None:
        return _of_example(x, indices, axis, mode)
    if out is None and mode == "raise" and traced_threads and (active := trace()) is not None:
        if (rows := _rows(active, x, indices, axis)) is not None:
            return rows
        return active.call(take, (x, indices, axis), {})
    data = integers(indices, x, "take")
    if mode == "raise" and out is None and (by_host := _TAKE(x, data, axis)) is not None:
        return by_host
    if axis is None or (not x.ndim and axis in (0, -1)):
        x, axis = reshape(x, (-1,)), 0
    axis = normalize_axis(axis, x.ndim, "take")
    expect_mode(mode, "take")
    data = in_mode(data, x.shape[axis], x, mode)
    return written("take", _take(x, data, axis, indices if mode == "raise" else None), one_out("take", out))


def _rows(active: Any, x: Array, indices: Any, axis: int | None) -> Array | None:
    """Rows of an array that wait in a trace; None if they are to be gathered at once."""
    if axis is None:
        x, axis = reshape(x, (-1,)), 0
    if not -x.ndim <= axis < x.ndim or not x.size or x.dtype in dtypes.COMPLEX:
        return None
    axis %= x.ndim
    if axis or x.ndim == 1 or not numbers_rows(indices, x):
        after = x.ndim - axis - 1
        return elements(active, x, [*(None,) * axis, indices, *(None,) * after], "take")
    size = x.shape[0]
    return TracedRows(in_range(active, indices, size, "take"), size, indices).gathered(x)


def elements(active: Any, x: Array, key: Sequence[Array | None], name: str) -> Array | None:
    """Elements at indices along some axes, which wait in a trace; None if they are to be gathered at once.

    Args:
        key: the indices along each axis, None for all of it. Axes with indices are neighbours.

    Raises:
        IndexError: an index is out of range (on the host; on a GPU it is clipped).
    """
    given = [axis for axis, one in enumerate(key) if one is not None]
    if len(key) != x.ndim or not given or given[-1] - given[0] >= len(given):
        return None
    inner = x.shape[given[-1] + 1 :]
    if math.prod(inner) >= LEAST_ELEMENTS:
        return None  # long rows are moved in packs
    arrays = [one for one in key if one is not None]
    if not all(_is_index(one, x) for one in arrays):
        return None
    after = (None,) * len(inner)
    at = [one if one is None or not inner else one[(..., *after)] for one in key]
    return _picked(active, x, at, given[0] + max([one.ndim for one in arrays]) + len(inner), name)


def _picked(
    active: Any, x: Array, at: Sequence[Array | None], ndim: int, name: str, along: int | None = None
) -> Array | None:
    """Elements at indices that broadcast to ``ndim`` axes.

    Args:
        at: the indices along each axis; None for one that numbers the same axis of the result, counted from the first
            or, behind an axis with indices, from the last.
        along: see :class:`.traced.TracedElements`.
    """
    if not picks(x, *[one for one in at if one is not None]):
        return None
    found: list[Array] = []
    axes = ndim
    for axis, (one, size) in enumerate(zip(at, x.shape, strict=True)):
        if one is None:
            numbers = active.once(numbers_of_axis, size, x.device)
            found.append(reshape(numbers, (size, *(1,) * (axes - axis - 1))))
        else:
            axes = x.ndim
            found.append(bounded(one if wraps(x) else in_range(active, one, size, name), size))
    return TracedElements(tuple(found), x.shape, along).picked(x)


def numbers_of_axis(size: int, device: Device) -> Array:
    """The indices of an axis."""
    dtype = dtypes.int32 if size <= LARGEST_INDEX else dtypes.int64
    return arange(size, dtype=dtype, device=device)


def _is_index(indices: Any, x: Array) -> bool:
    """Whether indices are integers on the device of ``x``."""
    return isinstance(indices, Array) and indices.device is x.device and indices.dtype.kind in "iu"


def numbers_rows(indices: Any, x: Array) -> bool:
    """Whether indices are a vector on the device of ``x`` by which a trace may gather and combine rows."""
    return _is_index(indices, x) and indices.ndim == 1 and indices.size > 0


def in_range(active: Any, indices: Array, size: int, name: str) -> Array:
    """Indices for a kernel that wraps and clips them, of 32 or 64 bits; checked as for :func:`kernel_indices`."""
    made: Array = active.once(indices_in_range, indices, size, name=name)
    return made


def indices_in_range(indices: Array, size: int, name: str) -> Array:
    """See :func:`in_range`; where they are the given ones, with the memory of these, so that writes to it are seen."""
    data = indices._data
    found = kernel_indices(data, size, indices, name, indices, narrow=True)
    return view(indices, found) if found is data else Array._wrap(found, indices.device)


def _of_example(x: Array, indices: Any, axis: int | None, mode: str) -> Array:
    """:func:`take` of one example of a batch."""
    if axis is None or (not x.ndim and axis in (0, -1)):
        x, axis = reshape(x, (-1,)), 0
    axis = normalize_axis(axis, x.ndim, "take")
    expect_mode(mode, "take")
    at, n = require_array(indices, "take", "indices", x), x.shape[axis]
    if mode != "raise":
        at = FUNCTIONS["remainder"](at, n) if mode == "wrap" else FUNCTIONS["clip"](at, 0, n - 1)
    result: Array = FUNCTIONS["getitem"](x, (*(slice(None),) * axis, at))
    return result


def _take(x: Array, data: Any, axis: int, argument: Any) -> Array:
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    size = x.shape[axis]
    indices = kernel_indices(data.reshape(-1), size, x, "take", argument)
    result = gather(
        reshape(x, (math.prod(before), size, math.prod(after))),
        indices,
        math.prod(before),
        size,
        math.prod(after),
    )
    return reshape(result, before + data.shape + after)


@public
@mapped(over_axis("axis"))
@on_device
def take_along_axis(x: Array, /, indices: Array, axis: int | None = -1) -> Array:
    """For each element of ``indices``, the element of ``x`` at that index along an axis.

    Args:
        x: any array.
        indices: integers, with as many axes as ``x``; along ``axis`` any size is allowed, along the others the
            two broadcast.
        axis: the axis; None takes from the flattened array.

    Raises:
        IndexError: an index is out of range (on the host; on a GPU it is clipped).
        ValueError: the shapes do not fit.
    """
    if axis is None:
        x, axis = reshape(x, (-1,)), 0
    axis = normalize_axis(axis, x.ndim, "take_along_axis")
    if traced_threads and (active := trace()) is not None:
        made = _elements_along(active, x, indices, axis)
        return active.call(take_along_axis, (x, indices, axis), {}) if made is None else made
    x, positions = along_axis(x, indices, axis, "take_along_axis")
    return _along(x, positions, axis, x.shape[axis], "gather")


def _elements_along(active: Any, x: Array, indices: Any, axis: int) -> Array | None:
    """:func:`take_along_axis` that waits in a trace; None if it is to be computed at once."""
    if not _is_index(indices, x) or indices.ndim != x.ndim:
        return None
    pairs = [both for i, both in enumerate(zip(x.shape, indices.shape, strict=True)) if i != axis]
    if any(n != m and 1 not in (n, m) for n, m in pairs):
        return None
    at = [indices if i == axis else None for i in range(x.ndim)]
    along = axis if all(n == m for n, m in pairs) else None
    return _picked(active, x, at, x.ndim, "take_along_axis", along)


def along_axis(x: Array, indices: Any, axis: int, name: str) -> tuple[Array, Any]:
    """``x`` and the checked index argument of :func:`take_along_axis`, broadcast along the other axes.

    Raises:
        IndexError: an index is out of range.
        ValueError: the shapes do not fit.
    """
    data = integers(indices, x, name)
    if data.ndim != x.ndim:
        raise ValueError(
            f"{name}: indices: expected {x.ndim} axes, as of shape {x.shape}, got shape {data.shape}"
        )
    others = x.shape[:axis] + x.shape[axis + 1 :]
    given = data.shape[:axis] + data.shape[axis + 1 :]
    try:
        shape = others if given == others else np.broadcast_shapes(others, given)
    except ValueError:
        raise ValueError(
            f"{name}: indices of shape {data.shape} do not fit shape {x.shape} along axis {axis}"
        ) from None
    if shape != given:
        data = x.device.xp.broadcast_to(data, (*shape[:axis], data.shape[axis], *shape[axis:]))
    if shape != others:
        x = broadcast_to(x, (*shape[:axis], x.shape[axis], *shape[axis:]))
    return x, kernel_indices(data, x.shape[axis], x, name)


def _along_of_all(level: Level, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Array:
    """The rule of gathers and additions along an axis, of which all examples have the same indices."""
    x, indices, axis, size, mode = args
    xp = x.device.xp
    each = xp.ascontiguousarray(xp.broadcast_to(indices, (level.size, *indices.shape)))
    return _along(level.front(x), each, axis + 1, size, mode)


@mapped(_along_of_all)
def _along(x: Array, indices: Any, axis: int, size: int, mode: Literal["gather", "add"]) -> Array:
    """Gather from, or add to, an axis of ``size``, with an index per element; each is the other's derivative."""
    along = partial(_along, indices=indices, axis=axis, size=size)
    before, after = indices.shape[:axis], indices.shape[axis + 1 :]
    sizes = (math.prod(before), size, math.prod(after))
    if mode == "gather":
        if tape.recording((x,)):
            expect_added(x.device, x.dtype, indices.dtype, sizes[2] == 1, True)
        result = picked_along(x, indices, x.device, *sizes)
        return recorded(
            "take_along_axis", x, result, partial(along, mode="add"), partial(along, mode="gather")
        )
    with tape.stop_recording():
        result = reshape(added_along(x, indices, *sizes), (*before, size, *after))
    return recorded("add_along_axis", x, result, partial(along, mode="gather"), partial(along, mode="add"))


@public
@mapped(looped)
@one_step
def index_add(x: Array, /, indices: Any, values: Array, axis: int = 0) -> Array:
    """Add ``values`` to ``x`` at indices along an axis, in a new array; repeated indices add up deterministically.

    Values are added in the order of the indices; an index with very many values gets a tree of partial sums.

    Args:
        x: any array.
        indices: a vector of integers.
        values: an array with the shape of ``x``, except that its size along ``axis`` is the number of indices.
        axis: the axis.

    Raises:
        IndexError: an index is out of range (on the host; on a GPU it is clipped).
    """
    values = require_array(values, "index_add", "values", x)
    if values.device is not x.device:
        raise DeviceError(f"index_add: expected arrays on one device, got {x.device} and {values.device}")
    axis = normalize_axis(axis, x.ndim, "index_add")
    data = integers(indices, x, "index_add").reshape(-1)
    positions = kernel_indices(data, x.shape[axis], x, "index_add", indices)
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    sizes = (math.prod(before), x.shape[axis], math.prod(after))
    spread = broadcast_to(astype(values, x.dtype, copy=False), (*before, positions.size, *after))
    rows = reshape(spread, (sizes[0], positions.size, sizes[2]))
    return reshape(scatter_into(reshape(x, sizes), rows, positions, *sizes), x.shape)
