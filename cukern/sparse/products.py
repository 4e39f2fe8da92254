"""Products of sparse matrices with dense ones, and the entries of dense products at given places.

Each is the derivative of the other, so that there are derivatives of any order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from .. import dtypes
from .. import namespace as ops
from ..array import Array
from ..array.layout import ALIGNMENT
from ..autodiff import tape
from ..device import Device
from ..device.interface import CompiledFunction, Style
from ..dtypes import DType
from ..elementwise.complex_rows import conjugated
from ..kernel import Kernel
from ..kernel.plan import allocate, launch
from ..kernel.sizes import divide_up, index_type, power_of_two
from .structure import Structure, chosen

_MULTIPLY = Kernel("sparse/multiply.cu", block=256)
_SAMPLE = Kernel("sparse/sample.cu", block=256)
#: Threads that share a row, or a number, at most: a warp.
_WARP = 32
#: The most blocks along y.
_GRID_Y = 65535
#: Numbers that one host thread computes, about, and columns that it computes at a time.
_HOST_PIECE, _HOST_ITEMS = 16384, 8
_BLOCK = 256
#: A row is long if it has so many times the mean number of entries, and so many for each thread.
_LONG, _LONG_EACH = 4, 64
#: Numbers of a sampled product for which a group of threads reads at a time.
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
        longest: entries of a row, above which all threads of a block share it.
    """

    block: int
    across: int
    along: int
    items: int
    piece: int
    longest: int = 1 << 40


def shares(style: Style, structure: Structure, blocks: Blocks, columns: int) -> Shares:
    """The geometry of a product with ``columns`` columns."""
    mean = divide_up(structure.count, max(1, structure.shape[0]))
    if style == "serial":
        cost = max(1, columns * blocks[1] * mean)
        return Shares(1, 1, 1, min(_HOST_ITEMS, columns), divide_up(_HOST_PIECE, cost))
    across = min(_WARP, power_of_two(columns))
    along = min(_WARP // across, power_of_two(max(1, mean)))
    longest = max(_LONG * mean, _LONG_EACH * along)
    return Shares(_BLOCK, across, along, min(4, power_of_two(divide_up(columns, across))), 1, longest)


@cache
def _multiplying(device: Device, dtype: DType, place: DType, blocks: Blocks, s: Shares) -> CompiledFunction:
    return _MULTIPLY.bind(
        device, name=f"sparse_multiply_{dtypes.info(dtype).name}_{s.block}", elem=dtype, block=s.block,
        place=dtypes.info(place).cxx, height=blocks[0], width=blocks[1], across=s.across, along=s.along, items=s.items,
    ).function  # fmt: skip


def multiplied(
    structure: Structure, blocks: Blocks, data: Array, x: Array, shape: Shares | None = None
) -> Array:
    """:func:`multiply` without a derivative; by default with the geometry that the device asks for."""
    device, columns = x.device, x.shape[1]
    rows = structure.shape[0] * blocks[0]
    made = allocate(device, (rows, columns), x.dtype)
    if made.size:
        s = shape or shares(device.style, structure, blocks, columns)
        function = _multiplying(
            device, x.dtype, structure.indices.dtype, blocks, s._replace(piece=1, longest=0)
        )
        groups = s.block // (s.across * s.along) * s.piece
        beside = 1 if s.block == 1 else min(_GRID_Y, divide_up(columns, s.across * s.items))
        arrays = (
            data.contiguous()._data,
            structure.indices._data,
            structure.offsets._data,
            x.contiguous()._data,
        )
        values = (*arrays, made, rows, columns, s.piece, s.longest)
        launch(device, function, (divide_up(rows, groups), beside, 1), s.block, values)
    return Array._wrap(made, device)


@cache
def _sampling(
    device: Device,
    dtype: DType,
    place: DType,
    blocks: Blocks,
    block: int,
    lanes: int,
    items: int,
    wide: int,
    index: str,
) -> CompiledFunction:
    return _SAMPLE.bind(
        device, name=f"sparse_sample_{dtypes.info(dtype).name}_{block}", elem=dtype, block=block,
        place=dtypes.info(place).cxx, height=blocks[0], width=blocks[1], lanes=lanes, items=items, wide=wide,
        index=index,
    ).function  # fmt: skip


def sampled(structure: Structure, blocks: Blocks, g: Array, x: Array, lanes: int | None = None) -> Array:
    """:func:`sample` without a derivative; by default with as many threads for a number as the device asks for."""
    device, columns = g.device, g.shape[1]
    made = allocate(device, data_shape(structure, blocks), g.dtype)
    if made.size:
        serial = device.style == "serial" and lanes is None
        g, x = g.contiguous(), x.contiguous()
        aligned = not serial and all((one._layout or one._planned()).aligned for one in (g, x))
        wide = math.gcd(ALIGNMENT // g.dtype.itemsize, columns) if aligned and columns else 1
        lanes = lanes or (1 if serial else min(_WARP, power_of_two(max(1, columns // wide))))
        items = 1 if serial else _SAMPLES
        block, piece = (1, divide_up(_HOST_PIECE, max(1, columns))) if serial else (_BLOCK, items)
        function = _sampling(
            device,
            g.dtype,
            structure.indices.dtype,
            blocks,
            block,
            lanes,
            items,
            wide,
            index_type(columns + _WARP * ALIGNMENT),
        )
        arrays = (g._data, structure.rows._data, structure.indices._data, x._data)
        values = (*arrays, made, made.size, columns, piece)
        launch(device, function, divide_up(made.size, block // lanes * piece), block, values)
    return Array._wrap(made, device)


def data_shape(structure: Structure, blocks: Blocks) -> tuple[int, ...]:
    """The shape of the data of a sparse array."""
    return (structure.count,) if blocks == (1, 1) else (structure.count, *blocks)


def transposed(structure: Structure, blocks: Blocks, data: Array) -> Array:
    """The data of the transpose, in its order."""
    made = chosen(data, structure.transposed[1])
    return made if blocks == (1, 1) else ops.swapaxes(made, 1, 2)


def multiply(structure: Structure, blocks: Blocks, data: Array, x: Array) -> Array:
    """The product of a sparse matrix with a dense one (columns of the first, n); bilinear.

    Args:
        structure: the places of the entries.
        blocks: their size.
        data: their values.
        x: the dense matrix, of the dtype of ``data``.
    """
    with tape.stop_recording():
        made = multiplied(structure, blocks, data, x)
    if tape.recording((data, x)):

        def vjp(given: Sequence[Array], saved: Sequence[Array], needs: Sequence[bool]) -> list[Array | None]:
            data, x = map(conjugated, saved)
            back = structure.transposed[0] if needs[1] else structure
            return [
                sample(structure, blocks, given[0], x) if needs[0] else None,
                multiply(back, blocks[::-1], transposed(structure, blocks, data), given[0])
                if needs[1]
                else None,
            ]

        tape.record("sparse.multiply", (data, x), (made,), vjp, (data, x))
    return made


def sample(structure: Structure, blocks: Blocks, g: Array, x: Array) -> Array:
    """The entries of ``g @ x.T`` at the places of a structure: a sampled dense-dense product; bilinear.

    Args:
        structure: the places.
        blocks: the size of an entry.
        g: a dense matrix with the rows of the sparse one.
        x: a dense matrix with as many rows as the sparse one has columns.
    """
    with tape.stop_recording():
        made = sampled(structure, blocks, g, x)
    if tape.recording((g, x)):

        def vjp(given: Sequence[Array], saved: Sequence[Array], needs: Sequence[bool]) -> list[Array | None]:
            g, x = map(conjugated, saved)
            back = structure.transposed[0] if needs[1] else structure
            return [
                multiply(structure, blocks, given[0], x) if needs[0] else None,
                multiply(back, blocks[::-1], transposed(structure, blocks, given[0]), g)
                if needs[1]
                else None,
            ]

        tape.record("sparse.sample", (g, x), (made,), vjp, (g, x))
    return made
