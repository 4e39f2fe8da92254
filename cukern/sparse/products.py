"""Sparse-dense products (SpMM), and entries of dense products at given positions (SDDMM).

Each is the derivative of the other, so that there are derivatives of any order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

from .. import dtypes
from .. import namespace as ops
from ..array import Array
from ..array.layout import ALIGNMENT
from ..autodiff import tape
from ..device import Device, capture_hooks
from ..device.interface import CompiledFunction, Style
from ..dtypes import DType
from ..elementwise.complex_rows import conjugated
from ..kernel import Kernel
from ..kernel.plan import allocate, compiled, launch, serial
from ..kernel.sizes import divide_up, index_type, power_of_two
from .structure import LongRows, Structure, chosen

_MULTIPLY = {
    name: Kernel(f"sparse/{name}.cu", block=256) for name in ("multiply", "multiply_long", "add_parts")
}
_SAMPLE = Kernel("sparse/sample.cu", block=256)
#: The most threads that share a row, or a number: a warp.
_WARP = 32
#: The most blocks along y.
_GRID_Y = 65535
#: Numbers that one host thread computes, about.
_HOST_PIECE = 16384
#: Columns that it computes at a time.
_HOST_ITEMS = 8
_BLOCK = 256
#: More entries than a row has.
LARGEST = 1 << 62
#: A row is long if it has so many times the mean number of entries,
_LONG = 4
#: and at least so many entries.
_LONG_LEAST = 256
#: The fewest entries of a part of a long row.
_PART = 1024
#: Entries in flight per thread, of a product with a vector.
_AHEAD = 4
#: Iterations that a group may take for a row, of a product with a vector.
_TURNS = 64
#: The most rows of a block of entries that one thread sums.
_TALL = 4
#: Numbers of a sampled product that a group of threads computes at a time.
_SAMPLES = 8

#: Rows and columns of the blocks that entries are.
Blocks = tuple[int, int]


class Shares(NamedTuple):
    """How threads share the work.

    Attributes:
        block: threads per block.
        across: neighbours that share the columns.
        along: neighbours that share the entries of a row.
        items: columns that each has at a time.
        piece: rows that each group of threads has.
        longest: entries of a row, above which it is cut into parts; no row is if None.
        part: entries of a part.
    """

    block: int
    across: int
    along: int
    items: int
    piece: int
    longest: int | None = None
    part: int = _PART


def shares(style: Style, structure: Structure, columns: int, width: int, pack: int) -> Shares:
    """The geometry of a product with ``columns`` columns, ``pack`` of them per access, and blocks of ``width``."""
    mean = divide_up(structure.count, max(1, structure.shape[0]))
    if style == "serial":
        cost = max(1, columns * width * mean)
        return Shares(1, 1, 1, min(_HOST_ITEMS, power_of_two(columns)), divide_up(_HOST_PIECE, cost))
    across = min(_WARP, power_of_two(columns // pack))
    if across > 1:
        along = min(_WARP // across, power_of_two(max(1, mean)))
        longest = max(_LONG * mean, _LONG_LEAST)
        return Shares(_BLOCK, across, along, pack, 1, longest, max(_PART, longest))
    along = min(_WARP, power_of_two(max(1, mean // _AHEAD)))
    longest = max(_LONG * mean, _LONG_LEAST, _TURNS * along)
    return Shares(_BLOCK, across, along, pack, 1, longest, max(_PART, 2 * longest))


class Form(NamedTuple):
    """What the kernels of a product are compiled for."""

    dtype: DType
    index_dtype: DType
    blocks: Blocks
    block: int
    across: int
    along: int
    items: int
    whole: bool
    deep: int


@cache
def multiplying(device: Device, name: str, form: Form) -> CompiledFunction:
    dtype, index_dtype, (height, width), block, across, along, items, whole, deep = form
    return _MULTIPLY[name].bind(
        device, name=f"sparse_{name}_{dtypes.info(dtype).name}_{block}", elem=dtype, block=block,
        index_type=dtypes.info(index_dtype).cxx, height=height, width=width, across=across, along=along, items=items,
        whole=whole, deep=deep, tall=math.gcd(_TALL, height),
    ).function  # fmt: skip


def _pack(columns: int, *arrays: Array) -> int:
    """Elements per access in rows of ``columns``: those of 16 bytes, if rows are aligned."""
    aligned = columns and all((array._layout or array._planned()).aligned for array in arrays)
    return math.gcd(ALIGNMENT // arrays[0].dtype.itemsize, columns) if aligned else 1


def multiplied(
    structure: Structure, blocks: Blocks, data: Array, x: Array, shape: Shares | None = None
) -> Array:
    """:func:`multiply` without a derivative; by default with the geometry that the device asks for."""
    device, columns = x.device, x.shape[1]
    rows = structure.shape[0] * blocks[0]
    result = allocate(device, (rows, columns), x.dtype)
    if result.size:
        data, x = data.contiguous(), x.contiguous()
        alone = serial(device) and (shape is None or shape.block == 1)
        pack, deep = (1, 1) if alone else (_pack(columns, x), _pack(blocks[1], data))
        s = shape or shares(device.style, structure, columns, blocks[1], pack)
        whole = not alone and s.items == pack
        indices = structure.indices.dtype
        form = Form(x.dtype, indices, blocks, s.block, s.across, s.along, s.items, whole, deep)
        function = multiplying(device, "multiply", form)
        groups = s.block // (s.across * s.along) * s.piece * math.gcd(_TALL, blocks[0])
        beside = 1 if s.block == 1 else min(_GRID_Y, divide_up(columns, s.across * s.items))
        arrays = (data._data, structure.indices._data, structure.offsets._data, x._data)
        # A step that is being captured cannot wait for the device.
        known = s.longest is not None and (
            (s.longest, s.part) in structure._long or not capture_hooks.recorder()
        )
        cut = structure.long_rows(s.longest, s.part) if known and s.longest is not None else None
        longest = LARGEST if cut is None or s.longest is None else s.longest
        values = (*arrays, result, rows, columns, s.piece, longest)
        launch(device, function, (divide_up(rows, groups), beside, 1), s.block, values)
        if cut is not None:
            _add_long(device, form, cut, arrays, result, columns, s.part, beside)
    return Array._wrap(result, device)


def _add_long(
    device: Device,
    form: Form,
    cut: LongRows,
    arrays: tuple[Any, ...],
    result: Any,
    columns: int,
    part: int,
    beside: int,
) -> None:
    """Write the long rows of a product in two launches: the sums over their parts, then over the parts' sums."""
    height, count = form.blocks[0], cut.rows.size
    sums = allocate(device, (cut.parts * height, columns), dtypes.info(form.dtype).acc)
    where = (cut.rows._data, cut.firsts._data, count, columns)
    blocks = cut.parts * (height // math.gcd(_TALL, height))
    function = multiplying(device, "multiply_long", form)
    given = (*arrays, sums, cut.rows._data, cut.firsts._data, cut.owners._data, columns, part)
    launch(device, function, (blocks, beside, 1), form.block, given)
    function = multiplying(device, "add_parts", form)
    launch(
        device, function, divide_up(count * height * columns, form.block), form.block, (sums, result, *where)
    )


def sampled(structure: Structure, blocks: Blocks, g: Array, x: Array, lanes: int | None = None) -> Array:
    """:func:`sample` without a derivative; by default with as many threads for a number as the device asks for."""
    device, columns = g.device, g.shape[1]
    result = allocate(device, data_shape(structure, blocks), g.dtype)
    if result.size:
        alone = serial(device) and lanes is None
        g, x = g.contiguous(), x.contiguous()
        wide = 1 if alone else _pack(columns, g, x)
        lanes = lanes or (1 if alone else min(_WARP, power_of_two(max(1, columns // wide))))
        items = 1 if alone else _SAMPLES
        block, piece = (1, divide_up(_HOST_PIECE, max(1, columns))) if alone else (_BLOCK, items)
        function = compiled(
            _SAMPLE, device, name=f"sparse_sample_{dtypes.info(g.dtype).name}_{block}", elem=g.dtype, block=block,
            index_type=dtypes.info(structure.indices.dtype).cxx, height=blocks[0], width=blocks[1], lanes=lanes,
            items=items, wide=wide, index=index_type(columns + _WARP * ALIGNMENT),
        )  # fmt: skip
        arrays = (g._data, structure.rows._data, structure.indices._data, x._data)
        values = (*arrays, result, result.size, columns, piece)
        launch(device, function, divide_up(result.size, block // lanes * piece), block, values)
    return Array._wrap(result, device)


def data_shape(structure: Structure, blocks: Blocks) -> tuple[int, ...]:
    """The shape of the data of a sparse array."""
    return (structure.count,) if blocks == (1, 1) else (structure.count, *blocks)


def transposed(structure: Structure, blocks: Blocks, data: Array) -> Array:
    """The data of the transpose, in its order."""
    result = chosen(data, structure.transposed[1])
    return result if blocks == (1, 1) else ops.swapaxes(result, 1, 2)


def multiply(structure: Structure, blocks: Blocks, data: Array, x: Array) -> Array:
    """The product of a sparse matrix with a dense one (columns of the first, n); bilinear.

    Args:
        structure: the positions of the entries.
        blocks: their size.
        data: their values.
        x: the dense matrix, of the dtype of ``data``.
    """
    with tape.stop_recording():
        result = multiplied(structure, blocks, data, x)
    if tape.recording((data, x)):

        def vjp(cotangents: tape.Arrays, saved: tape.Arrays, needs: Sequence[bool]) -> list[Array | None]:
            data, x = map(conjugated, saved)
            back = structure.transposed[0] if needs[1] else structure
            return [
                sample(structure, blocks, cotangents[0], x) if needs[0] else None,
                multiply(back, blocks[::-1], transposed(structure, blocks, data), cotangents[0])
                if needs[1]
                else None,
            ]

        tape.record("sparse.multiply", (data, x), (result,), vjp, (data, x))
    return result


def sample(structure: Structure, blocks: Blocks, g: Array, x: Array) -> Array:
    """The entries of ``g @ x.T`` at the positions of a structure: a sampled dense-dense product; bilinear.

    Args:
        structure: the positions.
        blocks: the size of an entry.
        g: a dense matrix with the rows of the sparse one.
        x: a dense matrix with as many rows as the sparse one has columns.
    """
    with tape.stop_recording():
        result = sampled(structure, blocks, g, x)
    if tape.recording((g, x)):

        def vjp(cotangents: tape.Arrays, saved: tape.Arrays, needs: Sequence[bool]) -> list[Array | None]:
            g, x = map(conjugated, saved)
            back = structure.transposed[0] if needs[1] else structure
            return [
                multiply(structure, blocks, cotangents[0], x) if needs[0] else None,
                multiply(back, blocks[::-1], transposed(structure, blocks, cotangents[0]), g)
                if needs[1]
                else None,
            ]

        tape.record("sparse.sample", (g, x), (result,), vjp, (g, x))
    return result
