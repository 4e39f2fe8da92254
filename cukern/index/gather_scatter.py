"""Launches of gather, scatter and scatter-add: rows of an array selected by an index array.

Indices select along the middle axis of an array (outer, size, inner). All results have the same bits in every run: the
order of sums depends only on the indices, and no float is added by an atomic.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from .. import dtypes
from ..array import Array
from ..array.creation import asarray
from ..array.layout import Layout, fresh_layout
from ..autodiff import tape
from ..device import Device, capture_hooks
from ..device.interface import CompiledFunction, Prepared, Style
from ..dtypes import DType
from ..kernel import Kernel
from ..kernel.plan import allocate, compiled, launch, on, serial, shares, threads
from ..kernel.sizes import ACCESS, LARGEST_INDEX, divide_up, index_type, power_of_two
from ..text import Dim3
from .kept import kept, kept_of
from .sort import permuted, sorted_rows

#: Bytes of a result from which it is written past a GPU's cache, which keeps rows that are gathered again.
_STREAMED = 1 << 25
_GATHER = Kernel("index/gather.cu", block=256)
_GATHER_ALONG = Kernel("index/gather_along.cu", block=256)
_SCATTER_COLUMNS = Kernel("index/scatter_columns.cu", block=256)
_PUT = Kernel("index/put.cu", block=256)
_PUT_NUMBER = Kernel("index/put_number.cu", block=256)
_PICK = Kernel("index/pick.cu", block=256)
_PICK_SORTED = Kernel("index/pick_sorted.cu", block=256)
_RANGES = Kernel("index/ranges.cu", block=256)
_ROWS = Kernel("index/segment_rows.cu", block=256)
_SEGMENTS = {what: Kernel(f"index/segment_{what}.cu", block=256) for what in ("keys", "starts")}
#: Elements that one host thread moves in sequence.
HOST_PIECE = 16384
#: The fewest columns that one host thread updates.
_HOST_COLUMNS = 64
#: The most blocks along y.
GRID_Y = 65535
#: The types in which rows are moved, by size in bytes.
WORDS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned", 8: "unsigned long long", 16: "int4"}
#: Elements per thread that gathers single elements, all in flight at once.
_ALONG_ITEMS = 4
#: With at most this many rows per index, a counter per row is cheaper than sorting the indices.
_SPARSE = 8


#: Indices whose sort takes longer than to begin another graph.
_LONG = 1 << 18


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
    that, because each reads the index before the row.
    """
    if style == "serial":
        return Moving(1, 1, 1, 1)
    items = 4 if words >= 32 else 2 if words >= 8 else 1
    return Moving(256, min(256, power_of_two(divide_up(words, items))), 4 // items, items)


def _address(data: Any) -> int:
    return int(data.ctypes.data if isinstance(data, np.ndarray) else data.data.ptr)


def aligned(row_bytes: int, unit: int, widest: int, datas: tuple[Any, ...]) -> int:
    """The widest access, ``unit`` times a power of two bytes, to which rows and addresses of arrays are aligned."""
    bits = row_bytes
    for data in datas:
        bits |= _address(data)
    return max(unit, min(widest, bits & -bits))


def launch_2d(
    device: Device, function: CompiledFunction, blocks: int, block: int, *values: Any, blocks_y: int = 1
) -> None:
    """Launch ``blocks`` by ``blocks_y`` blocks, or as many along y as a grid has; the kernel loops over the rest."""
    launch(device, function, (blocks, min(blocks_y, GRID_Y), 1), block, values)


def cxx_name(data: Any) -> str:
    """The C++ name of an ndarray's element type."""
    return dtypes.info(data.dtype).cxx


def clips(device: Device) -> bool:
    """Whether kernels wrap and clip indices; on the host indices are already checked and non-negative."""
    return not serial(device)


class _Launch(NamedTuple):
    """A kernel, and its launch arguments besides arrays."""

    function: CompiledFunction
    grid: Dim3
    block: int
    tail: tuple[int, ...]


@lru_cache(maxsize=4096)
def _gathering(
    device: Device, unit: int, index_dtype: DType, outer: int, size: int, words: int, count: int, s: Moving
) -> _Launch:
    total = outer * count
    piece = max(1, HOST_PIECE // words) if s.block == 1 else s.rows
    kernel = compiled(
        _GATHER,
        device,
        block=s.block,
        lanes=s.lanes,
        rows=s.rows,
        items=s.items,
        name=f"gather_{8 * unit}_{s.block}",
        word=WORDS[unit],
        index_type=dtypes.info(index_dtype).cxx,
        single=outer == 1,
        scattered=words == 1 and s.block == 1,
        clip=clips(device),
        streaming=unit == ACCESS and total * words * ACCESS >= _STREAMED,
        full=words % (s.lanes * s.items) == 0,
        index=index_type(total * s.lanes, size, words),
    )
    blocks, step = divide_up(total, s.block // s.lanes * piece), s.lanes * s.items
    # One group moves rows of up to one step, or the host's piece; several groups share longer rows.
    span = divide_up(divide_up(max(words, HOST_PIECE if s.block == 1 else 0), GRID_Y), step) * step
    span = max(span, HOST_PIECE if s.block == 1 else step)
    grid = (blocks, divide_up(words, span), 1)
    return _Launch(kernel, grid, s.block, (total, piece, size, count, words, span))


def gathered(x: Array, indices: Any, outer: int, size: int, inner: int, shape: Moving | None = None) -> Array:
    """y[o, j] = x[o, indices[j]] for ``x`` (outer, size, inner): (outer, count, inner)."""
    device, count = x.device, indices.size
    x = x.contiguous()
    own = x._layout or x._planned()
    with on(device):
        result = Array._made(fresh_layout(device, own.dtype, (outer, count, inner)))
        if not result.size:
            return result
        if own.aligned and not own.on_host and shape is None:
            launches = gathering(own, indices.dtype, count, outer, size, inner)
            launches(x._operand, device.backend.operand(indices), result._operand)
            return result
        unit, words = own.dtype.itemsize, inner
        if not serial(device) or shape is not None:
            unit = aligned(inner * unit, unit, 16, (x._data, result._data))
            words = inner * own.dtype.itemsize // unit
        shape = shape or moving("serial" if serial(device) else "simt", words)
        plan = _gathering(device, unit, indices.dtype, outer, size, words, count, shape)
        launch(device, plan.function, plan.grid, plan.block, (x, indices, result, *plan.tail))
    return result


@lru_cache(maxsize=4096)
def gathering(x: Layout, indices: DType, count: int, outer: int, size: int, inner: int) -> Prepared:
    """The launch of :func:`gathered` for a dense array of a GPU, which takes it, the indices and the result."""
    unit, row = x.dtype.itemsize, inner * x.dtype.itemsize
    unit = max(unit, min(16, row & -row))
    words = row // unit
    how = _gathering(x.device, unit, indices, outer, size, words, count, moving("simt", words))
    with on(x.device):
        return how.function.prepare(how.grid, (how.block, 1, 1), 0, how.tail)


class Order:
    """Sorted indices.

    Attributes:
        keys: the sorted indices.
        order: the former position of each; None if they were said to be in ascending order.
    """

    def __init__(self, keys: Array, order: Array | None) -> None:
        self.keys, self.order = keys, order
        self._starts: dict[int, Array] = {}
        self._through: WeakKeyDictionary[Any, Order] = WeakKeyDictionary()

    @property
    def indices(self) -> Any:
        """:attr:`order` as an argument of a kernel."""
        return None if self.order is None else self.order._data

    def starts(self, size: int) -> Array:
        """For each index of an axis of ``size`` the position of its first key, followed by the end of the last."""
        if size not in self._starts:
            keys = self.keys
            fits = np.dtype(np.int32) if keys.size <= LARGEST_INDEX else dtypes.int64
            self._starts[size] = segments("starts", keys.device, keys._data, size + 1, keys.size, fits)
        return self._starts[size]

    def through(self, ids: Any, number: int) -> Order:
        """The same indices, with the row of an array of ``number`` rows that ``ids`` name in place of each position."""
        device, known = self.keys.device, kept_of(ids)
        result = None if known is None else self._through.get(known)
        if result is None:
            with tape.stop_recording():
                rows = segments("keys", device, ids, ids.size, number, dtypes.int64)
                rows = rows if self.order is None else permuted(rows, self.order, "gather")
            result = Order(self.keys, rows)
            if known is not None:
                self._through[known] = result
        return result


def ordered(device: Device, indices: Any, size: int, rising: bool = False) -> Order:
    """Sort ``indices`` of an axis of ``size``, unless they are ``rising``: in ascending order.

    What is kept of them is sorted once.
    """
    found = kept_of(indices)
    order: Order | None = None if found is None else found.orders.get((size, rising))
    if order is None:
        before = None if found is None or rising or indices.size < _LONG else found.before()
        if before is not None:
            order = _between_graphs(before, size)
        else:
            dtype = np.dtype(np.int32) if size <= LARGEST_INDEX else dtypes.int64
            with on(device), tape.stop_recording():
                keys = segments("keys", device, indices, indices.size, size, dtype)
                order = Order(keys, None) if rising else Order(*sorted_rows(keys, True, False))
        if found is not None:
            found.orders[size, rising] = order
    return order


def _between_graphs(array: Array, size: int) -> Order:
    """The order of indices that were sorted before a capture: replays sort them again only when they were written."""

    def sort() -> list[Any]:
        order = ordered(array.device, kept(array, array._data.reshape(-1)), size)
        assert order.order is not None
        return [one._data for one in (order.keys, order.order, order.starts(size))]

    keys, positions, starts = (Array._wrap(one, array.device) for one in capture_hooks.between(sort))
    result = Order(keys, positions)
    result._starts[size] = starts
    return result


def segments(
    what: Literal["keys", "starts"], device: Device, data: Any, n: int, size: int, dtype: DType
) -> Array:
    """Sort keys of indices ``data``, or the ``n`` boundaries of runs of equal ones in sorted keys."""
    with on(device):
        result = allocate(device, (n,), dtype)
        block, piece, blocks = shares(device, n, HOST_PIECE)
        function = compiled(
            _SEGMENTS[what], device, block=block, name=f"segment_{what}_{block}", source=cxx_name(data),
            result=cxx_name(result), clip=clips(device) and what == "keys",
        )  # fmt: skip
        if n:
            launch_2d(device, function, blocks, block, data, result, n, piece, size)
    return Array._wrap(result, device)


def between(device: Device, offsets: Any, count: int) -> tuple[Any, Any]:
    """The segment of each of ``count`` rows, and the first row of each segment and the end, of any offsets.

    A GPU, which cannot refuse wrong ones, reads and writes nothing out of bounds with these.
    """
    size = offsets.size - 1
    dtype = np.dtype(np.int32) if max(count, size) <= LARGEST_INDEX else dtypes.int64
    with on(device):
        keys, starts = allocate(device, (count,), dtype), allocate(device, (size + 1,), dtype)
        types = {"source": cxx_name(offsets), "result": cxx_name(keys)}
        function = compiled(_ROWS, device, block=256, name="segment_rows_256", **types)
        blocks = divide_up(max(count, size + 1), 256)
        launch_2d(device, function, blocks, 256, offsets, keys, starts, count, size)
    return keys, starts


def columns(
    name: str,
    x: Array,
    indices: Any,
    target: Any,
    sizes: tuple[int, int, int],
    each: bool,
    join: str = "",
) -> None:
    """Put or combine rows or elements in order, with one thread per column, or per several columns on the host.

    Args:
        name: what is done, for the name of the kernel.
        x: the rows (outer, count, inner).
        indices: where they go.
        target: the array or ndarray (outer, size, inner) that is updated.
        sizes: those of ``target``.
        each: whether each element has a separate index.
        join: the C++ expression of an old value a and a new one b; without it, b stays.
    """
    outer, size, inner = sizes
    device, count = x.device, x.size // (outer * inner)
    block = threads(device, 256)
    piece = max(_HOST_COLUMNS, divide_up(inner * outer, 16)) if block == 1 else 1
    total = outer * divide_up(inner, piece)
    kernel = compiled(
        _SCATTER_COLUMNS, device, block=block, name=f"{name}_columns_{dtypes.info(x.dtype).name}_{block}", elem=x.dtype,
        out=cxx_name(target), index_type=cxx_name(indices), index=index_type(x.size, target.size), join=join, each=each,
        single_inner=inner == 1, clip=clips(device),
    )  # fmt: skip
    launch_2d(
        device,
        kernel,
        divide_up(total, block),
        block,
        x.contiguous(),
        indices,
        target,
        total,
        piece,
        size,
        count,
        inner,
    )


def picked_along(x: Array | None, indices: Any, device: Device, outer: int, size: int, inner: int) -> Array:
    """y[o, j, i] = x[o, indices[o, j, i], i], or without ``x`` its index in the flattened array."""
    if x is not None:
        x = x.contiguous()
    element = dtypes.int64 if x is None else x.dtype
    with on(device):
        result = Array._made(fresh_layout(device, element, indices.shape))
        if not result.size:
            return result
        block = 1 if serial(device) else 256
        what = device, element, indices.dtype, indices.size, x is None, clips(device)
        kernel, blocks, numbers = _picking(block, *what, outer, size, inner)
        inputs = () if x is None else (x,)
        launch(device, kernel, blocks, block, (*inputs, indices, result, *numbers))
    return result


@lru_cache(maxsize=4096)
def _picking(
    block: int,
    device: Device,
    element: DType,
    index_dtype: DType,
    total: int,
    flat: bool,
    clip: bool,
    outer: int,
    size: int,
    inner: int,
) -> tuple[CompiledFunction, int, tuple[int, ...]]:
    """The kernel of :func:`picked_along` for ``total`` indices, the blocks, and the numbers that it takes."""
    mode, index = "flat" if flat else "gather", index_type(total + (1 << 20), outer * size * inner)
    kernel = compiled(
        _GATHER_ALONG, device, block=block, name=f"{mode}_along_{dtypes.info(element).name}", elem=element,
        index_type=dtypes.info(index_dtype).cxx, index=index, flat=flat, single=outer == 1, single_inner=inner == 1,
        clip=clip,
    )  # fmt: skip
    piece = HOST_PIECE if block == 1 else _ALONG_ITEMS
    return kernel, divide_up(total, block * piece), (total, piece, size, total // (outer * inner), inner)


def last_of_each(device: Device, indices: Any, size: int) -> Any:
    """For each index the position of its last value, -1 if there is none: an ndarray (size,)."""
    return _winners(device, "last", None, indices, size)


def best_of_each(values: Array, mode: Literal["min", "max"], indices: Any, size: int) -> Any:
    """For each index the position of the smallest or largest of its ``values``, -1 if there is none."""
    device = values.device
    if serial(device):
        return _winners(device, mode, values, indices, size)
    order = ordered(device, indices, size)
    starts = order.starts(size)._data
    with on(device):
        result = allocate(device, (size,), dtypes.int64)
        kernel = compiled(
            _PICK_SORTED, device, block=256, elem=values.dtype, name=f"pick_{mode}_{dtypes.info(values.dtype).name}",
            mode=mode, starts=cxx_name(starts), winner=cxx_name(result),
        )  # fmt: skip
        if size:
            arrays = (values.contiguous()._data, order.indices, starts, result)
            launch_2d(device, kernel, divide_up(size, 256), 256, *arrays, size)
    return result


def _winners(device: Device, mode: str, values: Array | None, indices: Any, size: int) -> Any:
    with on(device):
        count = indices.size
        result = allocate(device, (size,), np.dtype(np.int32) if count <= LARGEST_INDEX else dtypes.int64)
        result[...] = -1
        block = threads(device, 256)
        elem = dtypes.int64 if values is None else values.dtype
        kernel = compiled(
            _PICK, device, block=block, elem=elem, name=f"pick_{mode}_{dtypes.info(elem).name}", mode=mode,
            index_type=cxx_name(indices), winner=cxx_name(result), clip=clips(device),
        )  # fmt: skip
        if count:
            inputs = () if values is None else (values.contiguous()._data,)
            blocks = 1 if block == 1 else divide_up(count, block)
            launch_2d(device, kernel, blocks, block, *inputs, indices, result, size, count)
    return result


def put_rows(x: Array, indices: Any, target: Any, outer: int, size: int, inner: int) -> None:
    """target[o, indices[j]] = x[o, j], for ``x`` (outer, count, inner); the last row for an index wins."""
    device, count, itemsize = x.device, indices.size, x.itemsize
    if not x.size:
        return
    with on(device):
        if serial(device):
            columns("put", x, indices, target, (outer, size, inner), False)
            return
        data = x.contiguous()._data
        unit = aligned(inner * itemsize, itemsize, 16, (data, target))
        words = inner * itemsize // unit
        lanes = moving("simt", words).lanes
        dense = size <= _SPARSE * count
        order = last_of_each(device, indices, size) if dense else ordered(device, indices, size).indices
        kernel = compiled(
            _PUT, device, block=256, name=f"put_{8 * unit}", lanes=lanes, word=WORDS[unit],
            index_type=cxx_name(indices), order=cxx_name(order), by_winner=dense, clip=True,
        )  # fmt: skip
        blocks = divide_up(outer * count, 256 // lanes)
        arrays, numbers = (data, indices, order, target), (outer * count, size, count, words)
        launch_2d(device, kernel, blocks, 256, *arrays, *numbers, blocks_y=divide_up(words, 4 * lanes))


def put_number(x: Array, indices: Any, value: Any, outer: int, size: int, inner: int) -> None:
    """x[o, indices[j]] = value, a number, for a contiguous ``x`` (outer, size, inner) of at most 8 bytes each."""
    device, lanes = x.device, moving("simt", inner).lanes
    total = outer * indices.size
    if not total * inner:
        return
    kernel = compiled(
        _PUT_NUMBER, device, block=256, name=f"put_number_{8 * x.itemsize}", lanes=lanes, word=WORDS[x.itemsize],
        index_type=cxx_name(indices), clip=clips(device),
    )  # fmt: skip
    number = int(np.array(value, x.dtype).view(f"u{x.itemsize}").item())
    blocks, numbers = divide_up(total, 256 // lanes), (number, total, size, indices.size, inner)
    launch_2d(device, kernel, blocks, 256, indices, x._data, *numbers, blocks_y=divide_up(inner, 4 * lanes))


def ranges(device: Device, first: Any, counts: Any) -> tuple[Array, Array]:
    """The row and the column of each element of ragged rows of ``counts`` elements, which begin at columns ``first``.

    Args:
        device: that of the results, which are in int64.
        first: NumPy arrays of int64, one number a row; ``counts`` likewise.
    """
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    total, rows = int(starts[-1]), len(counts)
    result = allocate(device, (total,), dtypes.int64), allocate(device, (total,), dtypes.int64)
    if total:
        lanes = min(256, power_of_two(divide_up(total, 4 * rows)))
        kernel = compiled(_RANGES, device, block=256, name=f"ranges_{lanes}", lanes=lanes)
        inputs = [asarray(data, device=device)._data for data in (first, starts)]
        launch_2d(device, kernel, divide_up(rows * lanes, 256), 256, *inputs, *result, rows)
    return Array._wrap(result[0], device), Array._wrap(result[1], device)
