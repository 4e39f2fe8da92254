"""Products of many rows with quantised weights, which the warpgroups that multiply dequantise in their registers."""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from .. import dtypes
from ..array import Array
from ..array.layout import Layout, fresh_layout
from ..device import Device
from ..kernel import Kernel
from ..kernel.plan import on, remember
from ..kernel.sizes import LARGEST_INDEX, divide_up
from ..device.interface import Tiles
from ..nn.attention.tma import MAP_BYTES, Mapped
from .array import QuantArray
from .kinds import Kind

_KERNEL = Kernel("quant/product.cu")
#: Threads of a block, and the outputs of a tile.
_THREADS, _OUTPUTS = 384, 128
#: Weights of an output that a stage has, and inputs of a slab.
_WIDE, _DEPTH = 256, 64
#: Bytes of 64 outputs of 64 rows, and those before the stages for alignment.
_PART, _ALIGNMENT = 64 * 64 * 2, 1024


class Tile(NamedTuple):
    """What a block makes of the product at a time.

    Attributes:
        n: rows.
        stages: slabs of the activations in shared memory.
        cluster: blocks that make the same rows of neighbouring outputs.
        blocks: stages of quantised blocks in shared memory.
        parts: of the result, through which each warpgroup stores.
    """

    n: int = 256
    stages: int = 4
    cluster: int = 2
    blocks: int = 2
    parts: int = 1

    def shared(self, kind: Kind) -> int:
        """Bytes of shared memory of a block."""
        x, w = self.stages * self.n * _DEPTH * 2, self.blocks * _OUTPUTS * line(kind)
        return x + w + 2 * self.parts * _PART + _ALIGNMENT


def line(kind: Kind) -> int:
    """The bytes in shared memory of an output's weights in a stage: whole words of 16, wherever they begin."""
    size = kind.row_bytes(_WIDE)
    return divide_up(size + (14 if size % 16 else 0), 16) * 16


def takes(x: Array, w: QuantArray) -> bool:
    """Whether tensor maps describe the product."""
    outputs, inputs = w.shape
    return (
        x.dtype.itemsize == 2
        and w._row.dtype is None
        and inputs % _WIDE == outputs % 8 == w._row.row_bytes(inputs) % 16 == 0
        and 0 < x.shape[0] <= LARGEST_INDEX // _WIDE
        and inputs * outputs > 0
    )


_plans: dict[Any, tuple[Layout, Mapped]] = {}


def _plan(x: Layout, kind: Kind, outputs: int, biased: bool, tile: Tile) -> tuple[Layout, Mapped]:
    device, dtype, (rows, inputs) = x.device, x.dtype, x.shape
    pitch, row = kind.row_bytes(inputs), inputs * dtype.itemsize
    out = fresh_layout(device, dtype, (rows, outputs))
    tiles = divide_up(outputs, _OUTPUTS * tile.cluster) * tile.cluster, divide_up(rows, tile.n)
    maps = {
        0: Tiles(0, dtype, (rows, inputs), (row,), (tile.n // tile.cluster, _DEPTH), 128, False),
        1: Tiles(0, dtypes.uint16, (outputs, pitch // 2), (pitch,), (_OUTPUTS, line(kind) // 2), 0, False),
        2 + biased: Tiles(0, dtype, (rows, outputs), (outputs * dtype.itemsize,), (64, 64), 128, True),
    }
    with on(device):
        bound = _KERNEL.bind(
            device,
            name=f"quantised_product_{kind.header}_{dtypes.info(dtype).name}_{tile.n}{'_biased' if biased else ''}",
            elem=dtype,
            kind=kind.header,
            tile_n=tile.n,
            stages=tile.stages,
            block_stages=tile.blocks,
            parts=tile.parts,
            cluster=tile.cluster,
            line=line(kind),
            biased=biased,
        )
        blocks = max(tile.cluster, device.properties.multiprocessors // tile.cluster * tile.cluster)
        grid = min(tiles[0] * tiles[1], blocks), 1, 1
        sizes = struct.pack("5i", rows, outputs, inputs, *tiles)
        launch = bound.function.prepare(
            grid, (_THREADS, 1, 1), tile.shared(kind), (sizes,), [MAP_BYTES] * len(maps)
        )
    return out, Mapped(launch, device, maps)


def product(x: Array, w: QuantArray, bias: Array | None = None, tile: Tile | None = None) -> Array:
    """``x @ W.T + bias``, of weights rounded to the dtype of ``x``.

    Args:
        x: shape (rows, inputs), contiguous and aligned; see :func:`takes`.
        w: its kind is one of blocks.
        bias: contiguous, of the dtype of ``x``.
        tile: the form.
    """
    tile = tile or Tile()
    key = x._planned(), w._row, w.shape[0], bias is not None, tile
    found = _plans.get(key)
    out, launch = remember(_plans, key, _plan(*key)) if found is None else found
    given = [x, w.blocks, *([] if bias is None else [bias])]
    for one in given:
        one._planned()
    with on(x.device):
        made = Array._made(out)
        arrays = [*given, made]
        launch(arrays, *[one._operand for one in arrays])
    return made
