"""Launches that combine the elements of slices along an axis by any function of two operands, for ``ufunc.reduceat``.

What is combined with what depends on the starts of the slices alone, so every run gives the same bits.
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
from ..kernel.plan import allocate, on, zeros
from ..kernel.sizes import divide_up, index_type, power_of_two
from .places import HOST_PIECE, launch_beside, serial

_KERNELS = {stage: Kernel(f"index/fold_{stage}.cu", block=256) for stage in ("slices", "parts")}
_FACTS = Kernel("index/fold_facts.cu", block=256)
#: Columns that a thread of the host combines together, and numbers of a single column.
_HOST_ACROSS, _HOST_ALONG = 64, 32
#: Threads of a warp, and the fewest numbers of a slice for each.
_WARP, _LEAST = 32, 4
#: Rows of a part where a warp shares a column, and where fewer threads do.
_FAN, _FEW_FAN = 256, 64


class Folding(NamedTuple):
    """How threads share the slices.

    Attributes:
        block: threads per block.
        across: neighbouring columns of a group of threads.
        along: numbers of a column that a group combines at a time.
        fan: rows of a part; slices are not divided if it is 0.
        flight: rows that a thread reads before it combines them.
    """

    block: int
    across: int
    along: int
    fan: int
    flight: int = 4


def folding(host: bool, in_order: bool, n: int, inner: int, count: int) -> Folding:
    """The geometry for ``count`` slices of ``n`` rows of ``inner`` numbers."""
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
        made = allocate(device, (*x.shape[:axis], count, *x.shape[axis + 1 :]), dtype)
        if not made.size:
            return Array._wrap(made, device)
        host = serial(device) and shape is None
        s = shape or folding(host, in_order, n, inner, count)
        data, threads = x.contiguous()._data, 1 if host else s.across * s.along
        groups, beside = s.block // threads, divide_up(inner, s.across)
        wide = index_type(outer * count * threads, outer * n * threads // max(1, s.fan), n, inner)
        form = _Form(device, row, x.dtype, dtype, s, host, inner == 1, in_order, wide)
        parts, tiles = _parts(form, data, starts, (outer, n, inner))
        piece = max(1, HOST_PIECE * count // (n * inner)) if host else 1
        values = (data, parts, starts, made, outer * count, piece, count, n, inner, tiles[0] if tiles else 0)
        function = _stage(form, "slices", 0)
        blocks = divide_up(outer * count, groups * piece)
        launch_beside(device, function, blocks, s.block, *values, sum(tiles), beside=beside)
    return Array._wrap(made, device)


class _Form(NamedTuple):
    """What the kernels are compiled for."""

    device: Device
    row: Row
    elem: DType
    made: DType
    shape: Folding
    host: bool
    single: bool
    in_order: bool
    wide: str


@cache
def _stage(form: _Form, stage: str, level: int) -> CompiledFunction:
    s, acc = form.shape, compute_type(form.made)
    body = [Statement(acc, "made", form.row.print("ab", form.made))]
    return _KERNELS[stage].bind(
        form.device, name=f"{form.row.name}_{stage}_{dtypes.info(form.elem).name}_{s.block}", block=s.block,
        elem=form.elem, made=dtypes.info(form.made).cxx, acc=acc, what=form.row.name, body=body, serial=form.host,
        single=form.single, in_order=form.in_order, across=s.across, along=s.along, fan=max(1, s.fan),
        flight=s.flight, level=level, index=form.wide,
    ).function  # fmt: skip


def _parts(form: _Form, data: Any, starts: Any, sizes: tuple[int, int, int]) -> tuple[Any, list[int]]:
    """The results of whole parts of an axis, and of parts of these and so on, and their number on each level."""
    outer, n, inner = sizes
    s, device = form.shape, form.device
    tiles: list[int] = []
    left = n
    while s.fan and left >= 2 * s.fan:
        left //= s.fan
        tiles.append(left)
    if not tiles:
        return None, tiles
    facts = _facts(form, starts, n)
    made = allocate(device, (outer, sum(tiles), inner), dtypes.info(form.made).acc)
    groups = s.block // (1 if form.host else s.across * s.along)
    below = here = 0
    for level, count in enumerate(tiles, 1):
        function = _stage(form, "parts", min(level, 2))
        sizes_here = (outer * count, count, starts.size, n, inner, s.fan**level, sum(tiles), below, here)
        blocks = divide_up(outer * count, groups)
        beside = divide_up(inner, s.across)
        launch_beside(
            device, function, blocks, s.block, data, made, starts, facts, *sizes_here, beside=beside
        )
        below, here = here, here + count
    return made, tiles


#: Slices at which a thread of a GPU looks.
_LOOKS = 16


def _facts(form: _Form, starts: Any, n: int) -> Any:
    """Whether the starts fall somewhere, and whether a slice has a whole part, as bits of one number on the device."""
    device, count, block = form.device, starts.size, 1 if form.host else 256
    piece = HOST_PIECE if form.host else _LOOKS
    made = zeros(device, (1,), dtypes.uint32)
    function = _looking(device, block, form.shape.fan, index_type(count + block * piece, n))
    launch_beside(device, function, divide_up(count, block * piece), block, starts, made, count, n, piece)
    return made


@cache
def _looking(device: Device, block: int, fan: int, index: str) -> CompiledFunction:
    name = f"fold_facts_{fan}_{block}"
    return _FACTS.bind(device, name=name, block=block, fan=fan, index=index).function
