"""Launches of a deterministic scatter-reduce: the sum, product, largest or smallest of the rows with the same index.

Rows are sorted by index, and each group is reduced in this order, in a tree where it has very many rows. So the order
depends only on the indices, and every run gives the same bits; no atomics.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Literal, NamedTuple

import numpy as np

from .. import dtypes
from ..array import Array
from ..autodiff import tape
from ..device import Device
from ..device.interface import CompiledFunction
from ..dtypes import DType
from ..elementwise.function import astype
from ..kernel import Kernel
from ..kernel.plan import allocate, on, raw, serial, zeros
from ..kernel.sizes import divide_up, index_type, power_of_two
from .gather_scatter import (
    Order,
    aligned,
    bound,
    columns,
    cxx_name,
    launch_2d,
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
    with on(device):
        result = allocate(device, (outer, size, inner), g.dtype)
        if not result.size:
            return Array._wrap(result, device)
        datas = (*(() if base is None else (base.contiguous()._data,)), g.contiguous()._data)
        count = indices.size
        if starts is None:
            order = ordered(device, indices, size, rising)
            starts = order.starts(size)._data
            order = order if through is None else order.through(through, g.shape[1])
        else:
            order = Order(Array._wrap(indices, device), None)
        width = aligned(inner * g.itemsize, g.itemsize, 16, (*datas, result)) // g.itemsize
        s = shape or combining(inner // width, width)
        wide = index_type(outer * size * s.lanes, outer * count * s.lanes, inner)
        variables: dict[str, Any] = {
            "lanes": s.lanes, "items": s.items, "width": width, "fan": s.fan, "flight": s.flight,
            "index": wide, "full": inner % (width * s.lanes * s.items) == 0, "what": how,
        }  # fmt: skip
        parts, tiles = _parts(datas[-1], order, (outer, count, inner), s, variables)
        variables |= {"based": base is not None, "starts": cxx_name(starts), "mean": mean}
        arrays = (*datas, order.indices, starts, result)
        sizes = (size, count, inner, len(tiles))
        kernel = _stage(device, s.block, g.dtype, "all", **variables, single=outer == 1)
        groups = s.block // s.lanes
        blocks_y = divide_up(inner, width * s.lanes * s.items)
        blocks = divide_up(outer * size, groups)
        launch_2d(device, kernel, blocks, s.block, *arrays, outer * size, *sizes, blocks_y=blocks_y)
        if tiles:
            kernel = _stage(device, s.block, g.dtype, "long", **variables, key=cxx_name(order.keys._data))
            tail = (order.keys._data, parts, tiles[0], sum(tiles))
            blocks = divide_up(outer * tiles[0], groups)
            launch_2d(
                device, kernel, blocks, s.block, *arrays, outer * tiles[0], *sizes, *tail, blocks_y=blocks_y
            )
    return Array._wrap(result, device)


def _stage(
    device: Device, block: int, dtype: DType, stage: str, what: Combination, **variables: Any
) -> CompiledFunction:
    name = f"{what}_{stage}_rows_{dtypes.info(dtype).name}_{block}"
    return bound(
        _KERNELS[stage], device, block, name=name, elem=dtype, what=what, join=JOINS[what],
        identity=_IDENTITIES[what], **variables,
    )  # fmt: skip


def _parts(
    g: Any, order: Order, sizes: tuple[int, int, int], s: Combining, variables: dict[str, Any]
) -> tuple[Any, list[int]]:
    """The inner nodes of the tree for indices with many rows, and their number on each level."""
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
        key = cxx_name(order.keys._data)
        kernel = _stage(device, s.block, dtype, "parts", level=min(level, 2), key=key, **variables)
        arrays = (g, order.keys._data, order.indices, parts)
        blocks = divide_up(outer * n, s.block // s.lanes)
        numbers = (outer * n, count, inner, n, s.fan**level, sum(tiles), below, here)
        blocks_y = divide_up(inner, variables["width"] * s.lanes * s.items)
        launch_2d(device, kernel, blocks, s.block, *arrays, *numbers, blocks_y=blocks_y)
        below, here = here, here + n
    return parts, tiles


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
        if base is None:
            result = Array._wrap(zeros(device, (outer, size, inner), acc), device)
            if how != "sum":
                raw(result._data)[...] = identity(how, g.dtype).astype(acc)
        else:
            result = astype(base, acc).contiguous()
        if result.size and g.size:
            columns(how, g, indices, result._data, (outer, size, inner), each, JOINS[how])
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


def added_along(g: Array, indices: Any, outer: int, size: int, inner: int) -> Array:
    """y[o, indices[o, j, i], i] += g[o, j, i] from zeros, for ``g`` (outer, count, inner): (outer, size, inner)."""
    count, width = indices.size // max(1, outer * inner), outer * inner
    if serial(g.device) or count <= _SERIAL_COUNT or width >= _SERIAL_COLUMNS:
        return _in_order(g, indices, outer, size, inner, None, True)
    flat = picked_along(None, indices, g.device, outer, size, inner)
    result = combined(g, flat.reshape(-1), 1, outer * size * inner, 1)
    return Array._wrap(result._data.reshape(outer, size, inner), g.device)
