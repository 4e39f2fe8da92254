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
from ..array.creation import asarray
from ..autodiff import tape
from ..device import Device
from ..device.interface import CompiledFunction, Style
from ..dtypes import DType
from ..kernel import Kernel
from ..kernel.plan import allocate, launch, on
from ..kernel.sizes import LARGEST_INDEX, divide_up, index_type, power_of_two
from ..text import Dim3
from .sort import sorted_rows

_GATHER = Kernel("index/gather.cu", block=256)
_GATHER_ALONG = Kernel("index/gather_along.cu", block=256)
_SCATTER_COLUMNS = Kernel("index/scatter_columns.cu", block=256)
_PUT, _PUT_NUMBER = Kernel("index/put.cu", block=256), Kernel("index/put_number.cu", block=256)
_PICK = Kernel("index/pick.cu", block=256)
_PICK_SORTED = Kernel("index/pick_sorted.cu", block=256)
_RANGES = Kernel("index/ranges.cu", block=256)
_ROWS = Kernel("index/segment_rows.cu", block=256)
_SEGMENTS = {what: Kernel(f"index/segment_{what}.cu", block=256) for what in ("keys", "starts")}
#: Elements that one host thread moves in sequence, and columns that it goes through.
HOST_PIECE, _HOST_COLUMNS = 16384, 64
#: The most blocks along y.
_GRID_Y = 65535
#: The types in which rows are moved, by size in bytes.
WORDS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned", 8: "unsigned long long", 16: "int4"}
#: Elements per thread that gathers single elements, all in flight at once.
_ALONG_ITEMS = 4
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


def moving(style: Style, words: int) -> Moving:
    """The geometry for rows of ``words`` words.

    32 KB in flight per multiprocessor hide a GPU's latency; 2048 threads with four words of 16 bytes have four times
    that, because each reads the place before the row.
    """
    if style == "serial":
        return Moving(1, 1, 1, 1)
    items = 4 if words >= 32 else 2 if words >= 8 else 1
    return Moving(256, min(256, power_of_two(divide_up(words, items))), 4 // items, items)


def _address(data: Any) -> int:
    return int(data.ctypes.data if isinstance(data, np.ndarray) else data.data.ptr)


def aligned(row_bytes: int, unit: int, widest: int, datas: tuple[Any, ...]) -> int:
    """The widest access, ``unit`` times a power of two bytes, to which rows and addresses of arrays are aligned."""
    together = row_bytes
    for data in datas:
        together |= _address(data)
    return max(unit, min(widest, together & -together))


@cache
def bound(kernel: Kernel, device: Device, block: int, **variables: Any) -> CompiledFunction:
    return kernel.bind(device, block=block, **variables).function


def launch_beside(
    device: Device, function: CompiledFunction, blocks: int, block: int, *values: Any, beside: int = 1
) -> None:
    launch(device, function, (blocks, min(beside, _GRID_Y), 1), block, values)


def cxx_name(data: Any) -> str:
    """The C++ name of an ndarray's element type."""
    return dtypes.info(data.dtype).cxx


def serial(device: Device) -> bool:
    """Whether each thread loops over many elements, as on the host."""
    return device.style == "serial"


def clips(device: Device) -> bool:
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
    piece = max(1, HOST_PIECE // words) if s.block == 1 else s.rows
    kernel = bound(
        _GATHER,
        device,
        s.block,
        lanes=s.lanes,
        rows=s.rows,
        items=s.items,
        name=f"gather_{8 * unit}_{s.block}",
        word=WORDS[unit],
        place=dtypes.info(place).cxx,
        single=outer == 1,
        scattered=words == 1 and s.block == 1,
        clip=clips(device),
        exact=words % (s.lanes * s.items) == 0,
        index=index_type(total * s.lanes, size, words),
    )
    blocks, step = divide_up(total, s.block // s.lanes * piece), s.lanes * s.items
    # One group moves rows of up to one step, or the host's piece; several groups share longer rows.
    span = divide_up(divide_up(max(words, HOST_PIECE if s.block == 1 else 0), _GRID_Y), step) * step
    span = max(span, HOST_PIECE if s.block == 1 else step)
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
        if not serial(device) or shape is not None:
            unit = aligned(inner * x.itemsize, unit, 16, (data, made))
            words = inner * x.itemsize // unit
        shape = shape or moving("serial" if serial(device) else "simt", words)
        found = _gathering(device, unit, places.dtype, outer, size, words, count, shape)
        launch(device, found.function, found.grid, found.block, (data, places, made, *found.tail))
    return made


class Order(NamedTuple):
    """Sorted places.

    Attributes:
        keys: the sorted places.
        order: the former index of each; None if they were in rising order.
    """

    keys: Array
    order: Array | None

    @property
    def indices(self) -> Any:
        """The former indices as an argument of a kernel."""
        return None if self.order is None else self.order._data

    def starts(self, size: int) -> Array:
        """For each place in an axis of ``size`` the index of its first key, followed by the end of the last."""
        keys = self.keys
        fits = np.dtype(np.int32) if keys.size <= LARGEST_INDEX else dtypes.int64
        return segments("starts", keys.device, keys._data, size + 1, keys.size, fits)


def ordered(device: Device, places: Any, size: int, rising: bool = False) -> Order:
    """Sort ``places`` of an axis of ``size``, unless they are in rising order."""
    dtype = np.dtype(np.int32) if size <= LARGEST_INDEX else dtypes.int64
    with on(device), tape.stop_recording():
        keys = segments("keys", device, places, places.size, size, dtype)
        return Order(keys, None) if rising else Order(*sorted_rows(keys, True, False))


def segments(
    what: Literal["keys", "starts"], device: Device, given: Any, n: int, size: int, dtype: DType
) -> Array:
    with on(device):
        made = allocate(device, (n,), dtype)
        block, piece = (1, HOST_PIECE) if serial(device) else (256, 1)
        function = bound(
            _SEGMENTS[what], device, block, name=f"segment_{what}_{block}", given=cxx_name(given), made=cxx_name(made),
            clip=clips(device) and what == "keys",
        )  # fmt: skip
        if n:
            launch_beside(device, function, divide_up(n, block * piece), block, given, made, n, piece, size)
    return Array._wrap(made, device)


def between(device: Device, offsets: Any, count: int) -> tuple[Any, Any]:
    """The segment of each of ``count`` rows, and the first row of each segment and the end, of any offsets.

    A GPU, which cannot refuse wrong ones, reads and writes nothing out of bounds with these.
    """
    size = offsets.size - 1
    dtype = np.dtype(np.int32) if max(count, size) <= LARGEST_INDEX else dtypes.int64
    with on(device):
        keys, starts = allocate(device, (count,), dtype), allocate(device, (size + 1,), dtype)
        given, made = cxx_name(offsets), cxx_name(keys)
        function = bound(_ROWS, device, 256, name="segment_rows_256", given=given, made=made)
        blocks = divide_up(max(count, size + 1), 256)
        launch_beside(device, function, blocks, 256, offsets, keys, starts, count, size)
    return keys, starts


def columns(
    name: str,
    x: Array,
    places: Any,
    made: Any,
    sizes: tuple[int, int, int],
    each: bool,
    join: str = "",
) -> None:
    """Put or combine rows or elements in order, with one thread per column, or per several columns on the host.

    Args:
        name: what is done, for the name of the kernel.
        x: the rows (outer, count, inner).
        places: where they go.
        made: the ndarray (outer, size, inner) that is updated.
        sizes: those of ``made``.
        each: whether each element has a place of its own.
        join: the C++ expression of an old value a and a new one b; without it, b stays.
    """
    outer, size, inner = sizes
    device, count = x.device, x.size // (outer * inner)
    block = 1 if serial(device) else 256
    piece = max(_HOST_COLUMNS, divide_up(inner * outer, 16)) if block == 1 else 1
    total = outer * divide_up(inner, piece)
    kernel = bound(
        _SCATTER_COLUMNS, device, block, name=f"{name}_columns_{dtypes.info(x.dtype).name}_{block}", elem=x.dtype,
        out=cxx_name(made), place=cxx_name(places), index=index_type(x.size, made.size), join=join, each=each,
        single_inner=inner == 1, clip=clips(device),
    )  # fmt: skip
    launch_beside(
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


def picked_along(x: Array | None, places: Any, device: Device, outer: int, size: int, inner: int) -> Any:
    """y[o, j, i] = x[o, places[o, j, i], i], or without ``x`` its index in the flattened array: an ndarray."""
    with on(device):
        made = allocate(device, places.shape, dtypes.int64 if x is None else x.dtype)
        if not made.size:
            return made
        host = serial(device)
        count = places.size // (outer * inner)
        mode, element = ("flat", dtypes.int64) if x is None else ("gather", x.dtype)
        kernel = bound(
            _GATHER_ALONG, device, 1 if host else 256, name=f"{mode}_along_{dtypes.info(element).name}", elem=element,
            place=cxx_name(places), index=index_type(made.size + (1 << 20), outer * size * inner), flat=x is None,
            single=outer == 1, single_inner=inner == 1, clip=clips(device),
        )  # fmt: skip
        block, piece = (1, HOST_PIECE) if host else (256, _ALONG_ITEMS)
        given = () if x is None else (x.contiguous()._data,)
        blocks = divide_up(made.size, block * piece)
        launch_beside(
            device, kernel, blocks, block, *given, places, made, made.size, piece, size, count, inner
        )
    return made


def last_of_each(device: Device, places: Any, size: int) -> Any:
    """For each place the index of its last value, -1 if there is none: an ndarray (size,)."""
    return _winners(device, "last", None, places, size)


def best_of_each(values: Array, mode: Literal["min", "max"], places: Any, size: int) -> Any:
    """For each place the index of the smallest or largest of its ``values``, -1 if there is none."""
    device = values.device
    if serial(device):
        return _winners(device, mode, values, places, size)
    order = ordered(device, places, size)
    starts = order.starts(size)._data
    with on(device):
        made = allocate(device, (size,), dtypes.int64)
        kernel = bound(
            _PICK_SORTED, device, 256, elem=values.dtype, name=f"pick_{mode}_{dtypes.info(values.dtype).name}",
            mode=mode, starts=cxx_name(starts), winner=cxx_name(made),
        )  # fmt: skip
        if size:
            arrays = (values.contiguous()._data, order.indices, starts, made)
            launch_beside(device, kernel, divide_up(size, 256), 256, *arrays, size)
    return made


def _winners(device: Device, mode: str, values: Array | None, places: Any, size: int) -> Any:
    with on(device):
        count = places.size
        made = allocate(device, (size,), np.dtype(np.int32) if count <= LARGEST_INDEX else dtypes.int64)
        made[...] = -1
        block = 1 if serial(device) else 256
        elem = dtypes.int64 if values is None else values.dtype
        kernel = bound(
            _PICK, device, block, elem=elem, name=f"pick_{mode}_{dtypes.info(elem).name}", mode=mode,
            place=cxx_name(places), winner=cxx_name(made), clip=clips(device),
        )  # fmt: skip
        if count:
            given = () if values is None else (values.contiguous()._data,)
            blocks = 1 if block == 1 else divide_up(count, block)
            launch_beside(device, kernel, blocks, block, *given, places, made, size, count)
    return made


def put_rows(x: Array, places: Any, made: Any, outer: int, size: int, inner: int) -> None:
    """made[o, places[j]] = x[o, j], for ``x`` (outer, count, inner); the last row for a place wins."""
    device, count, itemsize = x.device, places.size, x.itemsize
    if not x.size:
        return
    with on(device):
        if serial(device):
            columns("put", x, places, made, (outer, size, inner), False)
            return
        data = x.contiguous()._data
        unit = aligned(inner * itemsize, itemsize, 16, (data, made))
        words = inner * itemsize // unit
        lanes = moving("simt", words).lanes
        dense = size <= _SPARSE * count
        turns = last_of_each(device, places, size) if dense else ordered(device, places, size).indices
        kernel = bound(
            _PUT, device, 256, name=f"put_{8 * unit}", lanes=lanes, word=WORDS[unit], place=cxx_name(places),
            turn=cxx_name(turns), by_winner=dense, clip=True,
        )  # fmt: skip
        blocks = divide_up(outer * count, 256 // lanes)
        arrays, numbers = (data, places, turns, made), (outer * count, size, count, words)
        launch_beside(device, kernel, blocks, 256, *arrays, *numbers, beside=divide_up(words, 4 * lanes))


def put_number(x: Array, places: Any, value: Any, outer: int, size: int, inner: int) -> None:
    """x[o, places[j]] = value, a number, for a contiguous ``x`` (outer, size, inner) of at most 8 bytes each."""
    device, lanes = x.device, moving("simt", inner).lanes
    total = outer * places.size
    if not total * inner:
        return
    kernel = bound(
        _PUT_NUMBER, device, 256, name=f"put_number_{8 * x.itemsize}", lanes=lanes, word=WORDS[x.itemsize],
        place=cxx_name(places), clip=clips(device),
    )  # fmt: skip
    number = int(np.array(value, x.dtype).view(f"u{x.itemsize}").item())
    blocks, numbers = divide_up(total, 256 // lanes), (number, total, size, places.size, inner)
    launch_beside(device, kernel, blocks, 256, places, x._data, *numbers, beside=divide_up(inner, 4 * lanes))


def ranges(device: Device, first: Any, counts: Any) -> tuple[Array, Array]:
    """The row and the column of each place in rows of ``counts`` places, which begin at the columns ``first``.

    Args:
        device: that of the results, which are in int64.
        first: NumPy arrays of int64, one number a row; ``counts`` likewise.
    """
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    total, rows = int(starts[-1]), len(counts)
    made = allocate(device, (total,), dtypes.int64), allocate(device, (total,), dtypes.int64)
    if total:
        lanes = min(256, power_of_two(divide_up(total, 4 * rows)))
        kernel = bound(_RANGES, device, 256, name=f"ranges_{lanes}", lanes=lanes)
        given = [asarray(one, device=device)._data for one in (first, starts)]
        launch_beside(device, kernel, divide_up(rows * lanes, 256), 256, *given, *made, rows)
    return Array._wrap(made[0], device), Array._wrap(made[1], device)
