"""Products whose factors the hardware brings by tensor maps, for GPUs of compute capability 9.0."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from .. import dtypes
from ..device import Device
from ..device.interface import Tiles
from ..elementwise.program import Program
from ..kernel import Kernel
from ..kernel.sizes import ACCESS, LARGEST_INDEX, divide_up
from ..text.signature import Dim3
from .task import Factor, Task, tiled_structs, tiled_variables

_KERNEL = Kernel("linear/product_tma.cu")
#: Bytes of a line, and those to which strides are aligned.
_LINE = 128
#: The threads of two warpgroups that multiply, and of one that brings.
_THREADS = 384
#: Bytes of the parts of D through which two warpgroups store, two each (one where a tile is deferred), and those before
#: the stages for alignment.
_PARTS, _ALIGNMENT = 4 * 64 * _LINE, 1024
_LONGEST_STRIDE = 2**40
#: What making and storing an element of D takes, in slabs that are multiplied at rate 1: where nothing hides it, where
#: another warpgroup multiplies meanwhile, and where the same does; then also of the last tile. Estimated.
_STORE, _HIDDEN_STORE, _DEFERRED_STORE, _LAST_STORE = 0.7, 0.3, 0.235, 1.86


class TmaTile(NamedTuple):
    """What the warpgroups of a block make of the product at a time.

    Attributes:
        m, n: rows and columns of a tile.
        stages: slabs of the factors in shared memory.
        rate: about which share of the tensor cores' arithmetic it reaches, in the unit of the other forms; estimated.
        band: rows of tiles that are made column by column.
        cluster: blocks that make tiles below one another, each of which brings a part of the right factor for all.
        depth: bytes of a slab along the depth.
        blocks: at most, which take tiles by turns.
        by_turns: whether each of a block's warpgroups makes every second of its tiles alone.
        deferred: whether a tile is finished while the next one is multiplied, of 16-bit elements.
        with_next: whether the next kernel may begin on multiprocessors that have no tile.
        parts: blocks that share the depth: one.
    """

    m: int
    n: int
    stages: int
    rate: float
    band: int
    cluster: int = 1
    depth: int = _LINE
    blocks: int = 1
    by_turns: bool = False
    deferred: bool = False
    with_next: bool = False
    parts: int = 1

    @property
    def kernel(self) -> Kernel:
        """The kernel."""
        return _KERNEL

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return _THREADS

    @property
    def shared(self) -> int:
        """Bytes of shared memory of a block."""
        parts = _PARTS // 2 if self.deferred else _PARTS
        return self.stages * self.depth * (self.m + self.n) + parts + _ALIGNMENT

    def variables(self, program: Program, elem: dtypes.DType, task: Task) -> dict[str, Any]:
        """The template variables."""
        return {
            **tiled_variables(program, elem, task, self.m, self.n),
            "block": self.threads,
            "cluster": self.cluster,
            "depth": self.depth // task.itemsize,
            "stages": self.stages,
            "band": self.band,
            "by_turns": self.by_turns,
            "deferred": self.deferred,
            "with_next": self.with_next,
            "wide": True,
        }

    def tiles(self, task: Task) -> tuple[int, int]:
        """The tiles of a matrix along its rows, up to whole clusters, and along its columns."""
        return divide_up(task.m, self.m * self.cluster) * self.cluster, divide_up(task.n, self.n)

    def count(self, task: Task) -> int:
        """The tiles of a product."""
        return task.batches * math.prod(self.tiles(task))

    def grid(self, task: Task) -> Dim3:
        """Blocks along each axis."""
        count, most = self.count(task), max(1, self.blocks // self.cluster) * self.cluster
        fewest = divide_up(count, divide_up(count, most))  # of blocks that make as many tiles each
        return divide_up(fewest, self.cluster) * self.cluster, 1, 1

    def tail(self, task: Task) -> tuple[bytes, bytes]:
        """The kernel's structs."""
        return tiled_structs(task, self.tiles(task))

    def maps(self, task: Task, elem: dtypes.DType, row: int) -> tuple[Tiles, ...]:
        """How the kernel finds tiles of the factors and of D, without addresses.

        Args:
            task: the product.
            elem: of the factors and of D.
            row: bytes from a row of D to the next.
        """
        shape, strides = (task.batches, task.m, task.n), (task.m * row, row)
        return (
            self._map(task, elem, task.a, task.m, self.m, 1),
            self._map(task, elem, task.b, task.n, self.n, self.cluster),
            Tiles(0, elem, shape, strides, (1, 64, _LINE // task.itemsize), _LINE, True),
        )

    def _map(
        self, task: Task, elem: dtypes.DType, factor: Factor, size: int, tile: int, blocks: int
    ) -> Tiles:
        lines, elements = (size, task.k) if factor.by_depth else (task.k, size)
        shape = (task.batches if factor.batch else 1, lines, elements)
        strides = tuple(task.itemsize * step or ACCESS for step in (factor.batch, factor.row))
        line = _LINE // task.itemsize
        box = (1, (tile if factor.by_depth else line) // blocks, line)
        return Tiles(0, elem, shape, strides, box, _LINE, False)


#: Large tiles read each factor from the L2 less often, small ones waste less of the last wave.
TMA_TILES = (
    TmaTile(128, 256, 4, 2.15, 16, 2),
    TmaTile(256, 128, 4, 2.1, 8, 2),
    TmaTile(128, 128, 6, 1.9, 16, by_turns=True),
    TmaTile(
        128, 192, 5, 2.1, 16, 2, deferred=True
    ),  # the registers have the sums of two tiles, no larger ones
)
#: Of floats that are cut to tf32.
TF32_TMA_TILES = (
    TmaTile(128, 256, 4, 2.0, 16, 2),
    TmaTile(128, 128, 6, 1.8, 16, by_turns=True),
)


def takes(task: Task) -> bool:
    """Whether tensor maps describe the product: all step forward by 16 bytes, and no two rows have one address.

    Floats have to be contiguous along the depth: the tensor cores do not read them otherwise.
    """
    size = task.itemsize
    steps = size * task.m * task.n < _LONGEST_STRIDE and size * task.n % ACCESS == 0
    return (
        (size == 2 or (size == 4 and task.a.by_depth and task.b.by_depth))
        and steps
        and all(
            one.batch >= 0
            and (one.row > 0 or (task.k if not one.by_depth else across) == 1)
            and size * max(one.batch, one.row) < _LONGEST_STRIDE
            for one, across in ((task.a, task.m), (task.b, task.n))
        )
    )


def tma_tile_for(task: Task, device: Device) -> TmaTile | None:
    """The tile of the least time, that of the busiest multiprocessor; None if the GPU or tensor maps do not take it."""
    limits = device.properties
    if limits.compute_capability[0] != 9 or not takes(task):
        return None

    def cost(tile: TmaTile) -> float:
        waves = divide_up(tile.count(task), limits.multiprocessors)
        store = _HIDDEN_STORE if tile.by_turns else _DEFERRED_STORE if tile.deferred else _STORE
        slabs = max(divide_up(task.k * task.itemsize, tile.depth), tile.n // 16 if tile.deferred else 1)
        last = _LAST_STORE if tile.deferred else 0
        return tile.m * tile.n * (waves * (slabs / tile.rate + store) + last)

    # Sums that are saved too are stored from the registers of one tile. Where nothing follows, ptxas lets the products
    # of a kernel whose warpgroups make tiles by turns wait for one another.
    fits = [
        tile
        for tile in (TMA_TILES if task.itemsize == 2 else TF32_TMA_TILES)
        if not (task.saves and tile.deferred) and not (task.alone and task.itemsize == 2 and tile.by_turns)
    ]
    best = min(fits, key=cost)
    return best._replace(blocks=limits.multiprocessors) if best.count(task) <= LARGEST_INDEX else None
