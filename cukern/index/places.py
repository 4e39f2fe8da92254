"""Launches of gather, scatter and scatter-add: rows of an array selected by an index array.

Indices ("places") select along the middle axis of an array (outer, size, inner). All results have the same bits in
every run: the order of sums depends only on the places, and no float is added by an atomic.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np

from .. import dtypes
from ..array import Array
from ..autodiff import tape
from ..device import Device
from ..device.interface import CompiledFunction, Style
from ..dtypes import DType
from ..elementwise.function import astype
from ..kernel import Kernel
from ..kernel.plan import allocate, launch, on, zeros
from ..kernel.sizes import LARGEST_INDEX, divide_up, index_type, power_of_two
from ..text.signature import Dim3
from .sort import sorted_rows

_GATHER = Kernel("index/gather.cu", block=256)
_GATHER_ALONG = Kernel("index/gather_along.cu", block=256)
_SCATTER_COLUMNS = Kernel("index/scatter_columns.cu", block=256)
_PUT = Kernel("index/put.cu", block=256)
_PICK = Kernel("index/pick.cu", block=256)
_PICK_SORTED = Kernel("index/pick_sorted.cu", block=256)
_SEGMENTS = {what: Kernel(f"index/segment_{what}.cu", block=256) for what in ("keys", "starts")}
_SUMS = {
    "sum": Kernel("index/scatter_add.cu", block=256),
    "parts": Kernel("index/scatter_add_parts.cu", block=256),
    "long": Kernel("index/scatter_add_long.cu", block=256),
}
#: Elements that one host thread moves in sequence, and columns that it adds.
_HOST_PIECE, _HOST_COLUMNS = 16384, 64
#: The most blocks along y.
_GRID_Y = 65535
#: The types in which rows are moved, by size in bytes.
_WORDS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned", 8: "unsigned long long", 16: "int4"}
#: Elements per thread that gathers single elements, all in flight at once.
_ALONG_ITEMS = 4
#: A GPU adds the elements of each column in order, with parallel columns, if columns are short or there are enough to
#: keep it busy; otherwise it sorts.
_SERIAL_COUNT, _SERIAL_COLUMNS = 64, 1 << 16
#: With at most this many rows per index, a counter per row is cheaper than sorting the indices.
_SPARSE = 8


class Moving(NamedTuple):
    """How threads share the rows that are moved.

    Attributes:
        block: threads per block.
        lanes: threads that share a row.
        rows: rows that a group of ``lanes`` threads reads before it writes.
        items: words of a row that a thread reads before it writes.
    """

    block: int
    lanes: int
    rows: int
    items: int


class Adding(NamedTuple):
    """How threads share the rows that are added.

    Attributes:
        block: threads per block.
        lanes: threads that share a row.
        items: packs of a row that a thread sums.
        flight: rows that a thread reads before it adds.
        fan: the fan-in of the summation tree for places with many rows.
    """

    block: int
    lanes: int
    items: int
    flight: int
    fan: int = 64


def moving(style: Style, words: int) -> Moving:
    """The geometry for rows of ``words`` words.

    32 KB in flight per multiprocessor hide a GPU's latency; 2048 threads with four words of 16 bytes have four times
    that, because each reads the place before the row.
    """
    if style == "serial":
        return Moving(1, 1, 1, 1)
    items = 4 if words >= 32 else 2 if words >= 8 else 1
    return Moving(256, min(256, power_of_two(divide_up(words, items))), 4 // items, items)


def adding(packs: int, width: int) -> Adding:
    """The geometry for rows of ``packs`` packs of ``width`` elements: eight sums per thread, without spilling."""
    items = 2 if packs > 1 and width <= 4 else 1
    return Adding(256, min(256, power_of_two(divide_up(packs, items))), items, 2 if packs > 1 else 4)


def _address(data: Any) -> int:
    return int(data.ctypes.data if isinstance(data, np.ndarray) else data.data.ptr)


def _aligned(row_bytes: int, unit: int, widest: int, datas: tuple[Any, ...]) -> int:
    """The widest access, ``unit`` times a power of two bytes, to which rows and addresses of arrays are aligned."""
    together = row_bytes
    for data in datas:
        together |= _address(data)
    return max(unit, min(widest, together & -together))


@cache
def _bound(kernel: Kernel, device: Device, block: int, **variables: Any) -> CompiledFunction:
    return kernel.bind(device, block=block, **variables).function


def _launch(
    device: Device, function: CompiledFunction, blocks: int, block: int, *values: Any, beside: int = 1
) -> None:
    launch(device, function, (blocks, min(beside, _GRID_Y), 1), block, values)


def _name(data: Any) -> str:
    """The C++ name of an ndarray's element type."""
    return dtypes.info(data.dtype).cxx


def _serial(device: Device) -> bool:
    """Whether each thread loops over many elements, as on the host."""
    return device.style == "serial"


def _clip(device: Device) -> bool:
    """Whether kernels wrap and clip places; on the host places are already checked and non-negative."""
    return device.style != "serial"


class _Launch(NamedTuple):
    """A kernel, and its launch arguments besides arrays."""

    function: CompiledFunction
    grid: Dim3
    block: int
    tail: tuple[int, ...]


@lru_cache(maxsize=4096)
def _gathering(
    device: Device, unit: int, place: DType, outer: int, size: int, words: int, count: int, s: Moving
) -> _Launch:
    total = outer * count
    piece = max(1, _HOST_PIECE // words) if s.block == 1 else s.rows
    kernel = _bound(
        _GATHER,
        device,
        s.block,
        lanes=s.lanes,
        rows=s.rows,
        items=s.items,
        name=f"gather_{8 * unit}_{s.block}",
        word=_WORDS[unit],
        place=dtypes.info(place).cxx,
        single=outer == 1,
        scattered=words == 1 and s.block == 1,
        clip=_clip(device),
        exact=words % (s.lanes * s.items) == 0,
        index=index_type(total * s.lanes, size, words),
    )
    blocks, step = divide_up(total, s.block // s.lanes * piece), s.lanes * s.items
    # One group moves rows of up to one step, or the host's piece; several groups share longer rows.
    span = divide_up(divide_up(max(words, _HOST_PIECE if s.block == 1 else 0), _GRID_Y), step) * step
    span = max(span, _HOST_PIECE if s.block == 1 else step)
    grid = (blocks, divide_up(words, span), 1)
    return _Launch(kernel, grid, s.block, (total, piece, size, count, words, span))


def gathered(x: Array, places: Any, outer: int, size: int, inner: int, shape: Moving | None = None) -> Any:
    """y[o, j] = x[o, places[j]] for ``x`` (outer, size, inner): an ndarray (outer, count, inner)."""
    device, count, unit = x.device, places.size, x.itemsize
    with on(device):
        made = allocate(device, (outer, count, inner), x.dtype)
        if not made.size:
            return made
        data = x.contiguous()._data
        words = inner
        if not _serial(device) or shape is not None:
            unit = _aligned(inner * x.itemsize, unit, 16, (data, made))
            words = inner * x.itemsize // unit
        shape = shape or moving("serial" if _serial(device) else "simt", words)
        found = _gathering(device, unit, places.dtype, outer, size, words, count, shape)
        launch(device, found.function, found.grid, found.block, (data, places, made, *found.tail))
    return made


class Order(NamedTuple):
    """Sorted places.

    Attributes:
        keys: the sorted places.
        order: the former index of each.
    """

    keys: Array
    order: Array

    def starts(self, size: int) -> Array:
        """For each place in an axis of ``size`` the index of its first key, followed by the end of the last."""
        keys = self.keys
        fits = np.dtype(np.int32) if keys.size <= LARGEST_INDEX else dtypes.int64
        return _segments("starts", keys.device, keys._data, size + 1, keys.size, fits)


def ordered(device: Device, places: Any, size: int) -> Order:
    """Sort ``places`` of an axis of ``size``."""
    dtype = np.dtype(np.int32) if size <= LARGEST_INDEX else dtypes.int64
    with on(device), tape.stop_recording():
        keys, order = sorted_rows(_segments("keys", device, places, places.size, size, dtype), True, False)
    assert order is not None
    return Order(keys, order)


def _segments(
    what: Literal["keys", "starts"], device: Device, given: Any, n: int, size: int, dtype: DType
) -> Array:
    with on(device):
        made = allocate(device, (n,), dtype)
        block, piece = (1, _HOST_PIECE) if _serial(device) else (256, 1)
        function = _bound(
            _SEGMENTS[what], device, block, name=f"segment_{what}_{block}", given=_name(given), made=_name(made),
            clip=_clip(device) and what == "keys",
        )  # fmt: skip
        if n:
            _launch(device, function, divide_up(n, block * piece), block, given, made, n, piece, size)
    return Array._wrap(made, device)


def summed(
    g: Array,
    places: Any,
    outer: int,
    size: int,
    inner: int,
    base: Array | None = None,
    shape: Adding | None = None,
) -> Array:
    """Sum the rows of ``g`` (outer, count, inner) at their places, and add ``base``: (outer, size, inner).

    Sums are rounded to the dtype once.
    """
    device = g.device
    if _serial(device) and shape is None:
        return _added_in_turn(g, places, outer, size, inner, base)
    with on(device):
        made = allocate(device, (outer, size, inner), g.dtype)
        if not made.size:
            return Array._wrap(made, device)
        datas = (*(() if base is None else (base.contiguous()._data,)), g.contiguous()._data)
        order, count = ordered(device, places, size), places.size
        starts = order.starts(size)._data
        width = _aligned(inner * g.itemsize, g.itemsize, 16, datas) // g.itemsize
        s = shape or adding(inner // width, width)
        wide = index_type(outer * size * s.lanes, outer * count * s.lanes, inner)
        variables = {
            "lanes": s.lanes, "items": s.items, "width": width, "fan": s.fan, "flight": s.flight,
            "index": wide, "exact": inner % (width * s.lanes * s.items) == 0,
        }  # fmt: skip
        parts, tiles = _partial_sums(datas[-1], order, (outer, count, inner), s, variables)
        variables |= {"based": base is not None, "starts": _name(starts)}
        arrays = (*datas, order.order._data, starts, made)
        sizes = (size, count, inner, len(tiles))
        kernel = _summing(device, s.block, g.dtype, "sum", **variables, single=outer == 1)
        groups = s.block // s.lanes
        beside = divide_up(inner, width * s.lanes * s.items)
        blocks = divide_up(outer * size, groups)
        _launch(device, kernel, blocks, s.block, *arrays, outer * size, *sizes, beside=beside)
        if tiles:
            kernel = _summing(device, s.block, g.dtype, "long", **variables, key=_name(order.keys._data))
            tail = (order.keys._data, parts, tiles[0], sum(tiles))
            blocks = divide_up(outer * tiles[0], groups)
            _launch(device, kernel, blocks, s.block, *arrays, outer * tiles[0], *sizes, *tail, beside=beside)
    return Array._wrap(made, device)


def _summing(device: Device, block: int, dtype: DType, stage: str, **variables: Any) -> CompiledFunction:
    name = f"{stage}_rows_{dtypes.info(dtype).name}_{block}"
    return _bound(_SUMS[stage], device, block, name=name, elem=dtype, **variables)


def _partial_sums(
    g: Any, order: Order, sizes: tuple[int, int, int], s: Adding, variables: dict[str, Any]
) -> tuple[Any, list[int]]:
    """The partial sums of the summation tree for places with many rows, and their number on each level."""
    outer, count, inner = sizes
    device, dtype = order.keys.device, g.dtype
    tiles: list[int] = []
    n = count
    while n >= 2 * s.fan:
        n //= s.fan
        tiles.append(n)
    if not tiles:
        return None, tiles
    parts = allocate(device, (outer, sum(tiles), inner), dtypes.info(dtype).acc)
    below = here = 0
    for level, n in enumerate(tiles, 1):
        key = _name(order.keys._data)
        kernel = _summing(device, s.block, dtype, "parts", level=min(level, 2), key=key, **variables)
        arrays = (g, order.keys._data, order.order._data, parts)
        blocks = divide_up(outer * n, s.block // s.lanes)
        numbers = (outer * n, count, inner, n, s.fan**level, sum(tiles), below, here)
        beside = divide_up(inner, variables["width"] * s.lanes * s.items)
        _launch(device, kernel, blocks, s.block, *arrays, *numbers, beside=beside)
        below, here = here, here + n
    return parts, tiles


def _columns(mode: str, x: Array, places: Any, made: Any, sizes: tuple[int, int, int], each: bool) -> None:
    """Add or put rows or elements in order, with one thread per column, or per several columns on the host."""
    outer, size, inner = sizes
    device, count = x.device, x.size // (outer * inner)
    block = 1 if _serial(device) else 256
    piece = max(_HOST_COLUMNS, divide_up(inner * outer, 16)) if block == 1 else 1
    total = outer * divide_up(inner, piece)
    kernel = _bound(
        _SCATTER_COLUMNS, device, block, name=f"{mode}_columns_{dtypes.info(x.dtype).name}_{block}", elem=x.dtype,
        out=_name(made), place=_name(places), index=index_type(x.size, made.size), adds=mode == "add", each=each,
        single_inner=inner == 1, clip=_clip(device),
    )  # fmt: skip
    _launch(
        device,
        kernel,
        divide_up(total, block),
        block,
        x.contiguous()._data,
        places,
        made,
        total,
        piece,
        size,
        count,
        inner,
    )


def _added_in_turn(
    g: Array, places: Any, outer: int, size: int, inner: int, base: Array | None, each: bool = False
) -> Array:
    device, acc = g.device, dtypes.info(g.dtype).acc
    with on(device), tape.stop_recording():
        made = (
            Array._wrap(zeros(device, (outer, size, inner), acc), device)
            if base is None
            else astype(base, acc).contiguous()
        )
        if made.size and g.size:
            _columns("add", g, places, made._data, (outer, size, inner), each)
        return astype(made, g.dtype, copy=False)


@cache
def expect_added(device: Device, dtype: DType, place: DType, single: bool, each: bool) -> None:
    """Compile the host's kernel that adds rows ahead of need: it is the derivative of taking them.

    Args:
        device: where the rows are.
        dtype: that of their elements.
        place: the dtype of the places.
        single: whether a row has one element.
        each: whether each element has a place of its own.
    """

    def rehearse() -> None:
        shape = (1, 1, 1 if single else 2)
        rows = Array._wrap(np.zeros(shape, dtype), device)
        _added_in_turn(rows, np.zeros(shape if each else 1, place), *shape, None, each)

    if _serial(device):
        device.backend.ahead(rehearse)


def added_along(g: Array, places: Any, outer: int, size: int, inner: int) -> Array:
    """y[o, places[o, j, i], i] += g[o, j, i] from zeros, for ``g`` (outer, count, inner): (outer, size, inner)."""
    count, columns = places.size // max(1, outer * inner), outer * inner
    if _serial(g.device) or count <= _SERIAL_COUNT or columns >= _SERIAL_COLUMNS:
        return _added_in_turn(g, places, outer, size, inner, None, True)
    flat = picked_along(None, places, g.device, outer, size, inner)
    made = summed(g, flat.reshape(-1), 1, outer * size * inner, 1)
    return Array._wrap(made._data.reshape(outer, size, inner), g.device)


def picked_along(x: Array | None, places: Any, device: Device, outer: int, size: int, inner: int) -> Any:
    """y[o, j, i] = x[o, places[o, j, i], i], or without ``x`` its index in the flattened array: an ndarray."""
    with on(device):
        made = allocate(device, places.shape, dtypes.int64 if x is None else x.dtype)
        if not made.size:
            return made
        host = _serial(device)
        count = places.size // (outer * inner)
        mode, element = ("flat", dtypes.int64) if x is None else ("gather", x.dtype)
        kernel = _bound(
            _GATHER_ALONG, device, 1 if host else 256, name=f"{mode}_along_{dtypes.info(element).name}", elem=element,
            place=_name(places), index=index_type(made.size + (1 << 20), outer * size * inner), flat=x is None,
            single=outer == 1, single_inner=inner == 1, clip=_clip(device),
        )  # fmt: skip
        block, piece = (1, _HOST_PIECE) if host else (256, _ALONG_ITEMS)
        given = () if x is None else (x.contiguous()._data,)
        blocks = divide_up(made.size, block * piece)
        _launch(device, kernel, blocks, block, *given, places, made, made.size, piece, size, count, inner)
    return made


def last_of_each(device: Device, places: Any, size: int) -> Any:
    """For each place the index of its last value, -1 if there is none: an ndarray (size,)."""
    return _winners(device, "last", None, places, size)


def best_of_each(values: Array, mode: Literal["min", "max"], places: Any, size: int) -> Any:
    """For each place the index of the smallest or largest of its ``values``, -1 if there is none."""
    device = values.device
    if _serial(device):
        return _winners(device, mode, values, places, size)
    order = ordered(device, places, size)
    starts = order.starts(size)._data
    with on(device):
        made = allocate(device, (size,), dtypes.int64)
        kernel = _bound(
            _PICK_SORTED, device, 256, elem=values.dtype, name=f"pick_{mode}_{dtypes.info(values.dtype).name}",
            mode=mode, starts=_name(starts), winner=_name(made),
        )  # fmt: skip
        if size:
            arrays = (values.contiguous()._data, order.order._data, starts, made)
            _launch(device, kernel, divide_up(size, 256), 256, *arrays, size)
    return made


def _winners(device: Device, mode: str, values: Array | None, places: Any, size: int) -> Any:
    with on(device):
        count = places.size
        made = allocate(device, (size,), np.dtype(np.int32) if count <= LARGEST_INDEX else dtypes.int64)
        made[...] = -1
        block = 1 if _serial(device) else 256
        elem = dtypes.int64 if values is None else values.dtype
        kernel = _bound(
            _PICK, device, block, elem=elem, name=f"pick_{mode}_{dtypes.info(elem).name}", mode=mode,
            place=_name(places), winner=_name(made), clip=_clip(device),
        )  # fmt: skip
        if count:
            given = () if values is None else (values.contiguous()._data,)
            blocks = 1 if block == 1 else divide_up(count, block)
            _launch(device, kernel, blocks, block, *given, places, made, size, count)
    return made


def put_rows(x: Array, places: Any, made: Any, outer: int, size: int, inner: int) -> None:
    """made[o, places[j]] = x[o, j], for ``x`` (outer, count, inner); the last row for a place wins."""
    device, count, itemsize = x.device, places.size, x.itemsize
    if not x.size:
        return
    with on(device):
        if _serial(device):
            _columns("put", x, places, made, (outer, size, inner), False)
            return
        data = x.contiguous()._data
        unit = _aligned(inner * itemsize, itemsize, 16, (data, made))
        words = inner * itemsize // unit
        lanes = moving("simt", words).lanes
        dense = size <= _SPARSE * count
        turns = last_of_each(device, places, size) if dense else ordered(device, places, size).order._data
        kernel = _bound(
            _PUT, device, 256, name=f"put_{8 * unit}", lanes=lanes, word=_WORDS[unit], place=_name(places),
            turn=_name(turns), by_winner=dense, clip=True,
        )  # fmt: skip
        blocks = divide_up(outer * count, 256 // lanes)
        arrays, numbers = (data, places, turns, made), (outer * count, size, count, words)
        _launch(device, kernel, blocks, 256, *arrays, *numbers, beside=divide_up(words, 4 * lanes))
