"""Indexing: views, gathers, and the deterministic scatter-add that is a gather's derivative.

Places out of range raise IndexError on the host. On a GPU a check would wait for the device, so a
place out of range is clipped to the nearest end, for reads and for writes alike, but within
:func:`check_indices`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any, Literal, NamedTuple

import numpy as np

from .. import dtypes, tape
from ..array import Array
from ..device import Device
from ..device.base import CompiledFunction
from ..dtypes import DType
from ..errors import DeviceError
from ..kernel import Kernel
from .axes import normalize_axis, on_device, public, recorded, require_array
from .elementwise import astype
from .launch import allocate, zeros
from .manipulate import broadcast_to, reshape

__all__ = ["index_add", "put_along_axis", "take", "take_along_axis"]

_GATHER = Kernel("gather.cu", block=256)
_SCATTER = Kernel("scatter_add.cu", block=256)
_ALONG = Kernel("along.cu", block=256)
#: Elements that one host thread does in a row.
_HOST_PIECE = 16384


_checked: ContextVar[bool] = ContextVar(
    "check_indices", default=os.environ.get("CUKERN_CHECK_INDICES") == "1"
)


@contextmanager
def check_indices(on: bool = True) -> Iterator[None]:
    """A with-block in which places out of range raise IndexError on a GPU too, which waits for it each time.

    ``CUKERN_CHECK_INDICES=1`` asks for it everywhere. On the host they always raise.

    Args:
        on: False stops the checking that is asked for around the block.

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


class Spread(NamedTuple):
    """A launch over rows: threads of a block, threads a row, rows of a group, blocks."""

    block: int
    lanes: int
    rows_piece: int
    grid: int


@cache
def _bound(kernel: Kernel, device: Device, dtype: DType, block: int, **variables: Any) -> CompiledFunction:
    """The compiled kernel of these variables."""
    return kernel.bind(device, elem=dtype, block=block, **variables).function


def _spread(kind: str, rows: int, inner: int) -> Spread:
    if kind == "host":
        piece = max(1, _HOST_PIECE // max(1, inner))
        return Spread(1, 1, piece, -(-rows // piece))
    lanes = 1 if inner <= 2 else 8 if inner <= 16 else 32 if inner <= 512 else 256
    return Spread(256, lanes, 1, -(-rows // (256 // lanes)))


def places_in(places: Any, size: int, x: Array, name: str) -> Any:
    """Integer places counted from 0, as an int64 ndarray of the device of ``x``, in range."""
    xp = x.device.xp
    data = places.astype(np.int64, copy=False)
    if x.device.kind == "cuda" and not _checked.get():
        return xp.clip(xp.where(data < 0, data + size, data), 0, max(0, size - 1))
    low, high = (int(data.min()), int(data.max())) if data.size else (0, -1)
    if low < -size or high >= size:
        bad = low if low < -size else high
        raise IndexError(f"{name}: index {bad} is out of bounds for an axis of size {size}")
    return xp.where(data < 0, data + size, data) if low < 0 else xp.ascontiguousarray(data)


def integers(indices: Any, x: Array, name: str) -> Any:
    """An integer index argument as an ndarray of the device of ``x``.

    Raises:
        IndexError: not integers.
    """
    data = indices._data if isinstance(indices, Array) else x.device.xp.asarray(indices)
    if isinstance(indices, Array) and indices.device is not x.device:
        data = indices.to_device(x.device)._data
    if data.size == 0 and not isinstance(indices, (Array, np.ndarray)):
        data = data.astype(np.int64)
    if data.dtype.kind not in "iu":
        raise IndexError(f"{name}: expected integer indices, got {data.dtype}")
    return data


@on_device
def gather(x: Array, places: Any, outer: int, size: int, inner: int) -> Array:
    """x (outer, size, inner) at ``places`` (count): (outer, count, inner)."""
    places = x.device.xp.ascontiguousarray(places)
    count = places.size
    made = allocate(x.device, (outer, count, inner), x.dtype)
    if made.size:
        s = _spread(x.device.kind, outer * count, inner)
        kernel = _bound(_GATHER, x.device, x.dtype, s.block, lanes=s.lanes)
        source = x.contiguous()._data
        kernel(
            (s.grid, 1, 1),
            (s.block, 1, 1),
            0,
            (source, places, made, outer * count, s.rows_piece, size, count, inner),
        )
    return recorded("take", x, Array._wrap(made, x.device), lambda g: scatter(g, places, outer, size, inner))


@on_device
def scatter(g: Array, places: Any, outer: int, size: int, inner: int) -> Array:
    """g (outer, count, inner) added up at ``places`` (count): (outer, size, inner)."""
    xp = g.device.xp
    count = places.size
    made = allocate(g.device, (outer, size, inner), g.dtype)
    if made.size:
        order = xp.argsort(places, kind="stable")
        starts = xp.searchsorted(places[order], xp.arange(size + 1))
        s = _spread(g.device.kind, outer * size, inner)
        kernel = _bound(_SCATTER, g.device, g.dtype, s.block, lanes=s.lanes)
        kernel(
            (s.grid, 1, 1),
            (s.block, 1, 1),
            0,
            (g.contiguous()._data, order, starts, made, outer * size, s.rows_piece, size, count, inner),
        )
    return recorded(
        "scatter_add", g, Array._wrap(made, g.device), lambda gg: gather(gg, places, outer, size, inner)
    )


@public
@on_device
def take(
    x: Array, indices: Any, /, *, axis: int | None = None, mode: Literal["raise", "wrap", "clip"] = "raise"
) -> Array:
    """The elements of ``x`` at places along an axis.

    Args:
        x: any array.
        indices: integers; negative ones count from the end.
        axis: the axis; None (for one axis only the same) takes from the flattened array.
        mode: what becomes of places out of range: an error, the place counted on in a circle, or the nearest end.

    Returns:
        An array with the axes of ``indices`` in the place of ``axis``.

    Raises:
        IndexError: an index is out of range (on the host; on a GPU it is clipped).
    """
    require_array(x, "take")
    if axis is None:
        x, axis = reshape(x, (-1,)), 0
    place = normalize_axis(axis, x.ndim, "take")
    data = integers(indices, x, "take")
    if mode not in ("raise", "wrap", "clip"):
        raise ValueError(f"take: mode: expected 'raise', 'wrap' or 'clip', got {mode!r}")
    if mode != "raise" and x.shape[place]:
        data = data % x.shape[place] if mode == "wrap" else data.clip(0, x.shape[place] - 1)
    return _take(x, data, place)


def _take(x: Array, data: Any, axis: int) -> Array:
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    size = x.shape[axis]
    places = places_in(data.reshape(-1), size, x, "take")
    if places.size and not size and x.size == 0 and math.prod(before + after):
        raise IndexError("take: cannot take from an axis of size 0")
    made = gather(
        reshape(x, (math.prod(before), size, math.prod(after))),
        places,
        math.prod(before),
        size,
        math.prod(after),
    )
    return reshape(made, before + data.shape + after)


@public
@on_device
def take_along_axis(x: Array, indices: Array, /, *, axis: int = -1) -> Array:
    """For each element of ``indices``, the element of ``x`` at that place along an axis.

    Args:
        x: any array.
        indices: integers, of the shape of ``x`` but for ``axis``, along which any size goes; axes
            of size 1 are repeated.
        axis: the axis.

    Raises:
        IndexError: an index is out of range (on the host; on a GPU it is clipped).
        ValueError: the shapes do not fit.
    """
    require_array(x, "take_along_axis")
    place = normalize_axis(axis, x.ndim, "take_along_axis")
    data = integers(indices, x, "take_along_axis")
    wanted = (*x.shape[:place], data.shape[place] if data.ndim == x.ndim else -1, *x.shape[place + 1 :])
    try:
        data = x.device.xp.broadcast_to(data, wanted)
    except ValueError:
        raise ValueError(
            f"take_along_axis: indices of shape {data.shape} do not fit shape {x.shape} along axis {place}"
        ) from None
    places = x.device.xp.ascontiguousarray(places_in(data, x.shape[place], x, "take_along_axis"))
    return _along(x, places, place, x.shape[place], "gather")


@on_device
def _along(x: Array, places: Any, axis: int, size: int, mode: str) -> Array:
    """Gather from, or add to, an axis of ``size``, a place per element; each is the other's derivative."""
    outer, inner = math.prod(places.shape[:axis]), math.prod(places.shape[axis + 1 :])
    count = places.shape[axis]
    gather = mode == "gather"
    out = x.dtype if gather else dtypes.info(x.dtype).acc
    shape = places.shape if gather else (*places.shape[:axis], size, *places.shape[axis + 1 :])
    made = allocate(x.device, shape, out) if gather else zeros(x.device, shape, out)
    if outer * inner * count:
        block = 1 if x.device.kind == "host" else 256
        kernel = _bound(_ALONG, x.device, x.dtype, block, out=dtypes.info(out).cxx, mode=mode)
        columns = outer * inner
        kernel(
            (-(-columns // block), 1, 1),
            (block, 1, 1),
            0,
            (x.contiguous()._data, places, made, columns, size, count, inner),
        )
    back = "scatter" if gather else "gather"
    result = astype(Array._wrap(made, x.device), x.dtype, copy=False)
    return recorded(
        "take_along_axis" if gather else "add_along_axis",
        x,
        result,
        lambda g: _along(g, places, axis, size, back),
    )


@public
@on_device
def index_add(x: Array, indices: Any, values: Array, /, *, axis: int = 0) -> Array:
    """``x`` with ``values`` added at places along an axis; what shares a place adds up, in the order given.

    Args:
        x: any array.
        indices: integers along one axis.
        values: of the shape of ``x``, with as many elements along ``axis`` as there are ``indices``.
        axis: the axis.

    Raises:
        IndexError: an index is out of range (on the host; on a GPU it is clipped).
    """
    require_array(x, "index_add")
    if require_array(values, "index_add", "values").device is not x.device:
        raise DeviceError(f"index_add: expected arrays on one device, got {x.device} and {values.device}")
    place = normalize_axis(axis, x.ndim, "index_add")
    places = places_in(integers(indices, x, "index_add").reshape(-1), x.shape[place], x, "index_add")
    before, after = x.shape[:place], x.shape[place + 1 :]
    outer, inner = math.prod(before), math.prod(after)
    spread = broadcast_to(astype(values, x.dtype, copy=False), (*before, places.size, *after))
    added = scatter(reshape(spread, (outer, places.size, inner)), places, outer, x.shape[place], inner)
    return x + reshape(added, x.shape)


@public
@on_device
def put_along_axis(x: Array, indices: Array, values: Any, /, axis: int = -1) -> None:
    """Write ``values`` to places along an axis, in place; the last of several for one place stays.

    Args:
        x: any array that no tape tracks; ``x.at`` makes a new one.
        indices: integers, as of :func:`take_along_axis`.
        values: broadcast to ``indices``.
        axis: the axis.

    Raises:
        GradientError: a tape tracks ``x``.
        IndexError: an index is out of range (on the host; on a GPU it is clipped).
        ValueError: the shapes do not fit.
    """
    from .getitem import put

    require_array(x, "put_along_axis")
    place = normalize_axis(axis, x.ndim, "put_along_axis")
    with tape.stop_recording():
        numbers = Array._wrap(x.device.xp.arange(x.size, dtype=np.int64).reshape(x.shape), x.device)
        flat = take_along_axis(numbers, indices, axis=place)
    put(x, flat, values, "put_along_axis")
