"""Launches of ``ufunc.reduceat``: a segmented reduction along an axis by any function of two operands.

Which elements are combined depends only on the starts of the slices, so every run gives the same bits.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any, NamedTuple

from .. import dtypes
from ..array import Array
from ..device import Device
from ..device.interface import CompiledFunction
from ..dtypes import DType
from ..elementwise.print_cxx import Statement, compute_type
from ..elementwise.row import Row
from ..kernel import Kernel
from ..kernel.plan import allocate, on, serial, zeros
from ..kernel.sizes import divide_up, index_type, power_of_two
from .gather_scatter import HOST_PIECE, launch_2d

_KERNELS = {stage: Kernel(f"index/fold_{stage}.cu", block=256) for stage in ("slices", "parts")}
_FACTS = Kernel("index/fold_facts.cu", block=256)
#: Columns that a host thread combines together.
_HOST_ACROSS = 64
#: Elements of a single column that a host thread combines together.
_HOST_ALONG = 32
#: Threads per warp.
_WARP = 32
#: The fewest elements of a slice per thread.
_LEAST = 4
#: Rows of a part where a warp shares a column.
_FAN = 256
#: Rows of a part where fewer threads share a column.
_FEW_FAN = 64
#: Slices that a thread of a GPU tests.
_TESTED = 16


class Folding(NamedTuple):
    """How threads share the slices.

    Attributes:
        block: threads per block.
        across: neighbouring columns of a group of threads.
        along: elements of a column that a group combines at a time.
        fan: rows of a part; slices are not divided if it is 0.
        flight: rows that a thread reads before it combines them.
    """

    block: int
    across: int
    along: int
    fan: int
    flight: int = 4


def folding(host: bool, in_order: bool, n: int, inner: int, count: int) -> Folding:
    """The geometry for ``count`` slices of ``n`` rows of ``inner`` elements."""
    if host:
        across = 1 if inner == 1 else _HOST_ACROSS
        return Folding(
            1, across, 1 if in_order else _HOST_ALONG, 0 if in_order else max(64, HOST_PIECE // inner)
        )
    across = min(_WARP, power_of_two(inner))
    if in_order:
        return Folding(256, across, 1, 0)
    along = min(_WARP // across, power_of_two(max(1, n // (_LEAST * count))))
    return Folding(256, across, along, _FAN if along == _WARP else _FEW_FAN)


def folded(
    row: Row,
    x: Array,
    starts: Any,
    axis: int,
    dtype: DType,
    in_order: bool,
    shape: Folding | None = None,
) -> Array:
    """Combine the elements of slices along an axis.

    Args:
        row: the function, whose operands and result have ``dtype``.
        x: an array, whose elements are cast to ``dtype`` first.
        starts: an int64 ndarray on the device of ``x``: where the slices start.
        axis: the axis.
        dtype: that of the result.
        in_order: whether to combine from left to right; otherwise operands are reordered.
        shape: the geometry.
    """
    device, n, count = x.device, x.shape[axis], starts.size
    outer, inner = math.prod(x.shape[:axis]), math.prod(x.shape[axis + 1 :])
    with on(device):
        result = allocate(device, (*x.shape[:axis], count, *x.shape[axis + 1 :]), dtype)
        if not result.size:
            return Array._wrap(result, device)
        host = serial(device) and shape is None
        s = shape or folding(host, in_order, n, inner, count)
        data, threads = x.contiguous()._data, 1 if host else s.across * s.along
        groups, blocks_y = s.block // threads, divide_up(inner, s.across)
        wide = index_type(outer * count * threads, outer * n * threads // max(1, s.fan), n, inner)
        config = _Config(device, row, x.dtype, dtype, s, host, inner == 1, in_order, wide)
        parts, tiles = _parts(config, data, starts, (outer, n, inner))
        piece = max(1, HOST_PIECE * count // (n * inner)) if host else 1
        sizes = (outer * count, piece, count, n, inner, tiles[0] if tiles else 0, sum(tiles))
        function = _stage(config, "slices", 0)
        blocks = divide_up(outer * count, groups * piece)
        arrays = (data, parts, starts, result)
        launch_2d(device, function, blocks, s.block, *arrays, *sizes, blocks_y=blocks_y)
    return Array._wrap(result, device)


class _Config(NamedTuple):
    """The template variables of the kernels: what they are compiled for."""

    device: Device
    row: Row
    elem: DType
    result: DType
    shape: Folding
    host: bool
    single: bool
    in_order: bool
    wide: str


@cache
def _stage(c: _Config, stage: str, level: int) -> CompiledFunction:
    s, acc = c.shape, compute_type(c.result)
    body = [Statement(acc, "combined", c.row.print("ab", c.result))]
    return _KERNELS[stage].bind(
        c.device, name=f"{c.row.name}_{stage}_{dtypes.info(c.elem).name}_{s.block}", block=s.block, elem=c.elem,
        result_type=dtypes.info(c.result).cxx, acc=acc, what=c.row.name, body=body, serial=c.host, single=c.single,
        in_order=c.in_order, across=s.across, along=s.along, fan=max(1, s.fan), flight=s.flight, level=level,
        index=c.wide,
    ).function  # fmt: skip


def _parts(config: _Config, data: Any, starts: Any, sizes: tuple[int, int, int]) -> tuple[Any, list[int]]:
    """The results of all full parts of an axis, of parts of these and so on, and their number on each level."""
    outer, n, inner = sizes
    s, device = config.shape, config.device
    tiles: list[int] = []
    left = n
    while s.fan and left >= 2 * s.fan:
        left //= s.fan
        tiles.append(left)
    if not tiles:
        return None, tiles
    flags = _facts(config, starts, n)
    result = allocate(device, (outer, sum(tiles), inner), dtypes.info(config.result).acc)
    groups = s.block // (1 if config.host else s.across * s.along)
    below = here = 0
    for level, count in enumerate(tiles, 1):
        function = _stage(config, "parts", min(level, 2))
        sizes_here = (outer * count, count, starts.size, n, inner, s.fan**level, sum(tiles), below, here)
        blocks = divide_up(outer * count, groups)
        blocks_y = divide_up(inner, s.across)
        launch_2d(
            device, function, blocks, s.block, data, result, starts, flags, *sizes_here, blocks_y=blocks_y
        )
        below, here = here, here + count
    return result, tiles


def _facts(config: _Config, starts: Any, n: int) -> Any:
    """Whether the starts ever decrease, and whether a slice has a full part, as bits of one number on the device."""
    device, count, block = config.device, starts.size, 1 if config.host else 256
    piece = HOST_PIECE if config.host else _TESTED
    result = zeros(device, (1,), dtypes.uint32)
    function = _looking(device, block, config.shape.fan, index_type(count + block * piece, n))
    launch_2d(device, function, divide_up(count, block * piece), block, starts, result, count, n, piece)
    return result


@cache
def _looking(device: Device, block: int, fan: int, index: str) -> CompiledFunction:
    name = f"fold_facts_{fan}_{block}"
    return _FACTS.bind(device, name=name, block=block, fan=fan, index=index).function
