"""Products of many rows with quantised weights, which the warpgroups that multiply dequantise in their registers."""

from __future__ import annotations

import math
import struct
from typing import Any, NamedTuple

from .. import dtypes
from ..array import Array
from ..array.layout import Layout, fresh_layout
from ..device import Device
from ..device.interface import Tiles
from ..kernel import Kernel
from ..kernel.plan import on, remember
from ..kernel.sizes import LARGEST_INDEX, divide_up
from ..launch.variant import MAP_BYTES, Run
from .array import QuantArray
from .kinds import Kind

_KERNEL = Kernel("quant/product.cu")
#: Threads per block.
_THREADS = 384
#: Outputs of a tile.
_OUTPUTS = 128
#: Weights of an output per stage.
_WIDE = 256
#: Inputs of a k-block.
_DEPTH = 64
#: Stages of quantised blocks in shared memory.
_BLOCK_STAGES = 2
#: Bytes before all stages, for alignment.
_ALIGNMENT = 1024
#: Rows at most: with more, what dequantising all weights takes is little beside the product. Measured on an H200.
_MOST_ROWS = 768
#: Microseconds of a k-block on an H200, by the rows of a tile.
_K_BLOCK = {64: 0.46, 128: 0.54, 256: 0.73}
#: Microseconds of a tile besides.
_TILE = 2.0
#: Microseconds of adding up a row of partial sums.
_SHARED_ROW = 0.025
#: The share of the multiprocessors that clusters of four can use, as groups have 16 or a few more.
_FOURS = 0.92


class Tile(NamedTuple):
    """What a block makes of the product at a time.

    Attributes:
        n: rows.
        stages: k-blocks of the activations in shared memory.
        shares: blocks of a cluster that share the inputs of a tile.
    """

    n: int
    stages: int
    shares: int = 1

    @property
    def part(self) -> int:
        """The rows that a warpgroup stores at a time."""
        return min(64, self.n // self.shares)

    def shared(self, kind: Kind) -> int:
        """Bytes of dynamic shared memory of a block."""
        x, w = self.stages * self.n * _DEPTH * 2, _BLOCK_STAGES * _OUTPUTS * line(kind)
        return x + w + 2 * self.part * 64 * 2 + _ALIGNMENT

    def tiles(self, rows: int, outputs: int) -> tuple[int, int]:
        """Tiles along the outputs and along the rows."""
        return divide_up(outputs, _OUTPUTS), divide_up(rows, self.n)

    def grid(self, rows: int, outputs: int, multiprocessors: int) -> int:
        """The blocks; those that share tiles have one each."""
        count = math.prod(self.tiles(rows, outputs))
        return count * self.shares if self.shares > 1 else min(count, multiprocessors)

    def cost(self, rows: int, outputs: int, inputs: int, multiprocessors: int) -> float:
        """About the microseconds that the busiest multiprocessor takes."""
        blocks = int(_FOURS * multiprocessors) if self.shares == 4 else multiprocessors
        turns = divide_up(math.prod(self.tiles(rows, outputs)), blocks // self.shares)
        k_blocks = divide_up(inputs // _WIDE, self.shares) * (_WIDE // _DEPTH)
        return turns * (
            k_blocks * _K_BLOCK[self.n] + _TILE + (_SHARED_ROW * self.n if self.shares > 1 else 0)
        )


TILES = tuple(Tile(n, stages, shares) for n, stages in ((256, 4), (128, 6), (64, 8)) for shares in (1, 2, 4))


def tile_for(rows: int, outputs: int, inputs: int, device: Device) -> Tile:
    """The tile of the least time."""
    multiprocessors = device.properties.multiprocessors
    fits = (one for one in TILES if one.shares <= inputs // _WIDE)
    return min(fits, key=lambda one: one.cost(rows, outputs, inputs, multiprocessors))


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


def are_quicker(x: Array, w: QuantArray) -> bool:
    """Whether :func:`product` is sooner than a product after all weights have been dequantised."""
    device = x.device
    if device.style == "serial" or device.properties.compute_capability[0] != 9:
        return False
    return x.shape[0] <= _MOST_ROWS and w.ndim == 2 and takes(x, w)


_plans: dict[Any, tuple[Layout, Run]] = {}


def _plan(x: Layout, kind: Kind, outputs: int, biased: bool, tile: Tile) -> tuple[Layout, Run]:
    device, dtype, (rows, inputs) = x.device, x.dtype, x.shape
    assert tile.shares <= inputs // _WIDE
    pitch, row = kind.row_bytes(inputs), inputs * dtype.itemsize
    out = fresh_layout(device, dtype, (rows, outputs))
    maps = {
        0: [Tiles(0, dtype, (rows, inputs), (row,), (tile.n, _DEPTH), 128, False)],
        1: [Tiles(0, dtypes.uint16, (outputs, pitch // 2), (pitch,), (_OUTPUTS, line(kind) // 2), 0, False)],
        2 + biased: [
            Tiles(0, dtype, (rows, outputs), (outputs * dtype.itemsize,), (tile.part, 64), 128, True)
        ],
    }
    with on(device):
        bound = _KERNEL.bind(
            device,
            name=f"quantised_product_{kind.header}_{dtypes.info(dtype).name}_{tile.n}x{tile.shares}"
            f"{'_biased' if biased else ''}",
            elem=dtype,
            kind=kind.header,
            tile_n=tile.n,
            stages=tile.stages,
            shares=tile.shares,
            line=line(kind),
            biased=biased,
        )
        grid = tile.grid(rows, outputs, device.properties.multiprocessors), 1, 1
        sizes = struct.pack("5i", rows, outputs, inputs, *tile.tiles(rows, outputs))
        launch = bound.function.prepare(
            grid, (_THREADS, 1, 1), tile.shared(kind), (sizes,), [MAP_BYTES] * len(maps)
        )
    return out, Run(launch, device, bound.rendered.text, maps)


def product(x: Array, w: QuantArray, bias: Array | None = None, tile: Tile | None = None) -> Array:
    """``x @ W.T + bias``, of weights rounded to the dtype of ``x``.

    Args:
        x: shape (rows, inputs), contiguous and aligned; see :func:`takes`.
        w: its kind is one of blocks.
        bias: contiguous, of the dtype of ``x``.
        tile: the form; that of the least time when None.
    """
    outputs, inputs = w.shape
    tile = tile or tile_for(x.shape[0], outputs, inputs, x.device)
    key = x._planned(), w._row, outputs, bias is not None, tile
    plan = _plans.get(key)
    out, launch = remember(_plans, key, _plan(*key)) if plan is None else plan
    given = [x, w.blocks, *([] if bias is None else [bias])]
    with on(x.device):
        result = Array._made(out)
        launch([*given, result])
    return result
