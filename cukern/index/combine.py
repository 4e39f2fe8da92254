"""Launches of a deterministic scatter-reduce: the sum, product, largest or smallest of the rows with the same index.

Rows are sorted by index, and each group is reduced in this order, in a tree where it has very many rows. So the order
depends only on the indices, and every run gives the same bits; no atomics.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache, partial
from typing import Any, Literal, NamedTuple

import numpy as np

from .. import dtypes
from ..array import Array
from ..array.deferred import about_to_write
from ..array.layout import Layout, fresh_layout
from ..autodiff import tape
from ..device import Device
from ..device.interface import Prepared
from ..dtypes import DType
from ..elementwise.function import astype
from ..kernel import Kernel
from ..kernel.plan import on, operands, raw, serial, zeroed, zeros
from ..kernel.sizes import LARGEST_INDEX, divide_up, index_type, power_of_two
from .gather_scatter import (
    GRID_Y,
    Order,
    aligned,
    columns,
    ordered,
    picked_along,
)

Combination = Literal["sum", "prod", "max", "min"]

#: The C++ expressions that combine a and b, and of the value that changes none.
JOINS: dict[Combination, str] = {
    "sum": "a + b",
    "prod": "a * b",
    "max": "maximum(a, b)",
    "min": "minimum(a, b)",
}
_IDENTITIES: dict[Combination, str] = {
    "sum": "acc(0)",
    "prod": "acc(1)",
    "max": "limits<acc>::lowest()",
    "min": "limits<acc>::highest()",
}
_KERNELS = {
    "all": Kernel("index/combine.cu", block=256),
    "parts": Kernel("index/combine_parts.cu", block=256),
    "long": Kernel("index/combine_long.cu", block=256),
}
#: Elements per column up to which a GPU adds them in order, one thread per column; it sorts longer ones.
_SERIAL_COUNT = 64
#: Columns from which it does so however long they are, as they keep it busy.
_SERIAL_COLUMNS = 1 << 16


class Combining(NamedTuple):
    """How threads share the rows that are combined.

    Attributes:
        block: threads per block.
        lanes: threads that share a row.
        items: packs of a row that a thread combines.
        flight: rows that a thread reads before it combines them.
        fan: the fan-in of the tree for indices with many rows.
    """

    block: int
    lanes: int
    items: int
    flight: int
    fan: int = 64


def combining(packs: int, width: int) -> Combining:
    """The geometry for rows of ``packs`` packs of ``width`` elements: eight values per thread, without spilling."""
    items = 2 if packs > 1 and width <= 4 else 1
    return Combining(256, min(256, power_of_two(divide_up(packs, items))), items, 2 if packs > 1 else 4)


def identity(how: Combination, dtype: DType) -> Any:
    """The value of no rows: 0, 1, the lowest or the highest value of the dtype."""
    if how in ("sum", "prod"):
        return dtype.type(how == "prod")
    if dtype in dtypes.FLOATS:
        return dtype.type(-np.inf if how == "max" else np.inf)
    limits = np.iinfo(dtype)
    return dtype.type(limits.min if how == "max" else limits.max)


def combined(
    g: Array,
    indices: Any,
    outer: int,
    size: int,
    inner: int,
    base: Array | None = None,
    shape: Combining | None = None,
    how: Combination = "sum",
    rising: bool = False,
    mean: bool = False,
    starts: Any = None,
    through: Any = None,
) -> Array:
    """Combine the rows of ``g`` (outer, count, inner) by their indices, and ``base``: (outer, size, inner).

    Args:
        g: the rows.
        indices: an ndarray (count,).
        base: an array (outer, size, inner) to combine with the result.
        shape: the geometry.
        how: the operation. Results are rounded to the dtype once.
        rising: whether the indices are in ascending order, so that they need no sorting.
        mean: whether sums are divided by the number of their rows, not on the host.
        starts: an ndarray (size + 1,): the first row of each index, in ascending order, and the end; None to search.
        through: an ndarray (count,) of the rows of ``g`` (1, number, inner) that are meant; not on the host.
    """
    device = g.device
    if serial(device) and shape is None:
        return _in_order(g, indices, outer, size, inner, base, how=how)
    if not outer * size * inner:
        with on(device):
            return Array._made(fresh_layout(device, g.dtype, (outer, size, inner)))
    with on(device):
        g = g if (g._layout or g._planned()).contiguous else g.contiguous()
        arrays = [g] if base is None else [base.contiguous(), g]
        count, item = indices.size, g._planned().dtype.itemsize
        if starts is None:
            order = ordered(device, indices, size, rising)
            first = order.starts(size)
            order = order if through is None else order.through(through, g.shape[1])
        else:
            order, first = Order(Array._wrap(indices, device), None), Array._wrap(starts, device)
        keys, places = order.keys, order.order
        known = not serial(device) and all(one._planned().aligned for one in arrays)
        width = aligned(inner * item, item, 16, () if known else tuple([one._data for one in arrays]))
        plan = _launches(
            g._planned(), width // item, (outer, size, count, inner), base is not None, first._planned().dtype,
            keys._planned().dtype, how, mean, shape,
        )  # fmt: skip
        made = Array._made(plan.result)
        given = operands(device, (*arrays, places, first, made))
        plan.run(device, given, keys)
    return made


class Launches(NamedTuple):
    """The launches that combine rows of given forms.

    Attributes:
        result, parts: the layouts of the result, and of the inner nodes of the tree for indices with many rows, if any.
        all: makes the results of other indices, and the first level of the tree.
        levels: make each a further level.
        long: makes the results of indices with many rows.
        texts: make the kernels' texts.
    """

    result: Layout
    parts: Layout | None
    all: Prepared
    levels: Sequence[Prepared]
    long: Prepared | None
    texts: Sequence[Callable[[], str]]

    def run(self, device: Device, given: Sequence[Any], keys: Array) -> None:
        """Launch on the current device.

        Args:
            given: the operands of the base, if there is one, the rows, the order, the starts and the result.
            keys: the sorted indices.
        """
        parts = None if self.parts is None else Array._made(self.parts)
        tree = operands(device, (keys, parts))
        self.all(*given, *tree)
        for level in self.levels:
            level(*tree)
        if self.long is not None:
            self.long(*given, *tree)


@lru_cache(maxsize=4096)
def _launches(
    g: Layout,
    width: int,
    sizes: tuple[int, int, int, int],
    based: bool,
    starts: DType,
    key: DType,
    how: Combination,
    mean: bool,
    shape: Combining | None,
) -> Launches:
    """The launches for rows that are read in packs of ``width``; what follows describes a call of :func:`combined`."""
    s = shape or combining(sizes[3] // width, width)
    return launches(g.device, g.dtype, sizes, s, width, starts, key, how, mean, based)


def launches(
    device: Device,
    dtype: DType,
    sizes: tuple[int, int, int, int],
    s: Combining,
    width: int,
    starts: DType,
    key: DType,
    how: Combination,
    mean: bool = False,
    based: bool = False,
    source: Mapping[str, Any] | None = None,
    layout: tuple[bytes, ...] = (),
) -> Launches:
    """The launches that combine rows of a dtype.

    Args:
        device: where they run.
        dtype: that of the rows and of the result.
        sizes: outer, the number of results, count and inner.
        s: how threads share the rows.
        width: elements of a pack.
        starts, key: the dtypes of what they read of the order of indices.
        how, mean: as of :func:`combined`.
        based: whether a base is combined with the result.
        source: the variables of templates/index/sources.cuh for rows that are computed.
        layout: the bytes of the Layout of these.
    """
    outer, size, count, inner = sizes
    block, groups, blocks_y = s.block, s.block // s.lanes, divide_up(inner, width * s.lanes * s.items)
    tiles: list[int] = []
    n = count
    while n >= 2 * s.fan:
        n //= s.fan
        tiles.append(n)
    first, all_tiles = (tiles or [0])[0], sum(tiles)
    variables: dict[str, Any] = {
        "lanes": s.lanes, "items": s.items, "width": width, "fan": s.fan, "flight": s.flight,
        "index": index_type(outer * (size + first) * s.lanes, outer * count * s.lanes, inner),
        "full": inner % (width * s.lanes * s.items) == 0, "what": how, "key": dtypes.info(key).cxx,
    }  # fmt: skip
    texts: list[Callable[[], str]] = []

    def prepare(stage: str, rows: int, tail: Sequence[Any], **more: Any) -> Prepared:
        bound = {
            "block": block, "name": f"{how}_{stage}_rows_{dtypes.info(dtype).name}_{block}", "elem": dtype,
            "join": JOINS[how], "identity": _IDENTITIES[how], **variables, **more,
        }  # fmt: skip
        texts.append(partial(_KERNELS[stage].source, device=device, **bound))
        grid = (divide_up(rows, groups), min(blocks_y, GRID_Y), 1)
        function = _KERNELS[stage].bind(device, **bound).function
        return function.prepare(grid, (block, 1, 1), 0, tail)

    result = fresh_layout(device, dtype, (outer, size, inner))
    rows = {**(source or {}), "based": based, "starts": dtypes.info(starts).cxx, "mean": mean}
    both = outer * (size + first)
    tail = (*layout, outer * size, both, size, count, inner, first, all_tiles)
    whole = prepare("all", both, tail, single=outer == 1, **rows)
    levels, below, here = [], 0, first
    for level, n in enumerate(tiles[1:], 2):
        numbers = (outer * n, inner, n, s.fan**level, all_tiles, below, here)
        levels.append(prepare("parts", outer * n, numbers))
        below, here = here, here + n
    if not tiles:
        return Launches(result, None, whole, levels, None, texts)
    tail = (*layout, outer * first, size, count, inner, len(tiles), first, all_tiles)
    long = prepare("long", outer * first, tail, **rows)
    parts = fresh_layout(device, dtypes.info(dtype).acc, (outer, all_tiles, inner))
    return Launches(result, parts, whole, levels, long, texts)


def _in_order(
    g: Array,
    indices: Any,
    outer: int,
    size: int,
    inner: int,
    base: Array | None,
    each: bool = False,
    how: Combination = "sum",
) -> Array:
    """Combine rows, or elements with ``each`` an index, in their order, each column by one thread."""
    device, acc = g.device, dtypes.info(g.dtype).acc
    with on(device), tape.stop_recording():
        if base is None and how == "sum" and outer * size * inner and not device.addressable:
            result = zeroed(fresh_layout(device, acc, (outer, size, inner)))
        elif base is None:
            result = Array._wrap(zeros(device, (outer, size, inner), acc), device)
            if how != "sum":
                raw(result._data)[...] = identity(how, g.dtype).astype(acc)
        else:
            result = astype(base, acc).contiguous()
            about_to_write(result)  # in a trace it is known as the value of ``base``
        if result.size and g.size:
            columns(how, g, indices, result, (outer, size, inner), each, JOINS[how])
        return astype(result, g.dtype, copy=False)


@cache
def expect_added(device: Device, dtype: DType, index_dtype: DType, single: bool, each: bool) -> None:
    """Compile the host's kernel that adds rows ahead of need: it is the derivative of taking them.

    Args:
        device: where the rows are.
        dtype: that of their elements.
        index_dtype: that of the indices.
        single: whether a row has one element.
        each: whether each element has a separate index.
    """

    def rehearse() -> None:
        shape = (1, 1, 1 if single else 2)
        rows = Array._wrap(np.zeros(shape, dtype), device)
        _in_order(rows, np.zeros(shape if each else 1, index_dtype), *shape, None, each)

    if serial(device):
        device.backend.ahead(rehearse)


@lru_cache(maxsize=1024)
def expect_combined(device: Device, dtype: DType, sizes: tuple[int, int, int, int]) -> None:
    """Compile a GPU's kernels that sort indices and add rows ahead of need: they are the derivative of taking them.

    Args:
        device: where the rows are.
        dtype: that of their elements.
        sizes: outer, size, count and inner, as of :func:`combined`.
    """

    def compile() -> None:
        from .families import SORT
        from .sort_variants import Sorting

        outer, size, count, inner = sizes
        key, start = (np.dtype(np.int32) if n <= LARGEST_INDEX else dtypes.int64 for n in (size, count))
        SORT.expect(Sorting((fresh_layout(device, key, (count,)),), True, False))
        width = aligned(inner * dtype.itemsize, dtype.itemsize, 16, ()) // dtype.itemsize
        g = fresh_layout(device, dtype, (outer, count, inner))
        with on(device):
            _launches(g, width, sizes, False, start, key, "sum", False, None)

    if not device.addressable and all(sizes):
        device.backend.ahead(compile, plans_alone=True)


def added_along(g: Array, indices: Any, outer: int, size: int, inner: int) -> Array:
    """y[o, indices[o, j, i], i] += g[o, j, i] from zeros, for ``g`` (outer, count, inner): (outer, size, inner)."""
    count, width = indices.size // max(1, outer * inner), outer * inner
    if serial(g.device) or count <= _SERIAL_COUNT or width >= _SERIAL_COLUMNS:
        return _in_order(g, indices, outer, size, inner, None, True)
    flat = picked_along(None, indices, g.device, outer, size, inner)._data
    result = combined(g, flat.reshape(-1), 1, outer * size * inner, 1)
    return Array._wrap(result._data.reshape(outer, size, inner), g.device)
