"""Products whose factors the hardware brings by tensor maps, for GPUs of compute capability 9.0."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from .. import dtypes
from ..device import Device
from ..device.interface import Tiles
from ..elementwise.graph import input_node, order, substitute
from ..elementwise.program import Program, program
from ..elementwise.table import add
from ..kernel import Kernel
from ..kernel.sizes import ACCESS, LARGEST_INDEX, divide_up
from ..text import Dim3
from .task import Factor, Task, tiled_structs, tiled_variables

_KERNEL, _DEFERRED = Kernel("linear/product_tma.cu"), Kernel("linear/product_tma_deferred.cu")
#: Bytes of a line, and those to which strides are aligned.
_LINE = 128
#: The threads of two warpgroups that multiply, and of one that brings.
_THREADS = 384
#: Rows of a part of D, through which a warpgroup stores, and the bytes before the stages for alignment.
_PART_ROWS, _ALIGNMENT = 64, 1024
_LONGEST_STRIDE = 2**40
#: Bytes that the L2 fetches where it lacks a line of a slab: the next one is part of the slab after it.
_FETCHED = 128
#: Groups of multiprocessors (GPCs) of a GPU, and about how many multiprocessors one has.
_GROUPS, _IN_GROUP = 8, 16
#: What making and storing an element of D takes, in slabs that are multiplied at rate 1: where nothing hides it, where
#: another warpgroup multiplies meanwhile, and where the same does. Then what the last tile takes besides, of the first
#: and of the last kind, and what a matrix takes that is not brought. Estimated.
_STORE, _HIDDEN_STORE, _DEFERRED_STORE = 0.7, 0.3, 0.235
_LAST_STORE, _LAST_DEFERRED_STORE, _MATRIX = 2.2, 1.86, 1.2
#: What is left of the rate of blocks without clusters in a batch, whose products share no factors. Estimated.
_BATCHED = 0.85


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
        brings: whether the hardware also brings a matrix that follows the product, to where D's parts will be, which
            are of half lines then.
        slots: for parts of D in shared memory, of each warpgroup: they divide the parts of a tile.
        with_next: whether the next kernel may begin on multiprocessors that have no tile.
        apart: from a cluster to that which makes the tiles after its own: the number of the GPU's groups of
            multiprocessors, so that both are in one group, or 1.
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
    brings: bool = False
    slots: int = 2
    with_next: bool = False
    apart: int = 1
    parts: int = 1

    @property
    def kernel(self) -> Kernel:
        """The kernel."""
        return _DEFERRED if self.deferred else _KERNEL

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return _THREADS

    @property
    def shared(self) -> int:
        """Bytes of shared memory of a block."""
        parts, row = self.slots * _PART_ROWS * self.part_line, 4 * self.n if self.deferred else 0
        return self.stages * self.depth * (self.m + self.n) + 2 * (parts + row) + _ALIGNMENT

    @property
    def part_line(self) -> int:
        """Bytes of a line of a part of D."""
        return _LINE // 2 if self.brings else _LINE

    def variables(self, made: Program, elem: dtypes.DType, task: Task) -> dict[str, Any]:
        """The template variables."""
        made, begins = _begun(made, task) if self.deferred else (made, 0)
        return {
            **tiled_variables(made, elem, task, self.m, self.n),
            "begins": begins,
            "brought": task.mapped if self.brings else 0,
            "block": self.threads,
            "apart": self.apart,
            "cluster": self.cluster,
            "depth": self.depth // task.itemsize,
            "stages": self.stages,
            "band": self.band,
            "by_turns": self.by_turns,
            "slots": self.slots,
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
        """How the kernel finds tiles of the factors, of a matrix that it brings, and of D, without addresses.

        Args:
            task: the product.
            elem: of the factors and of D.
            row: bytes from a row of D to the next.
        """
        shape, strides = (task.batches, task.m, task.n), (task.m * row, row)
        line = self.part_line
        part = (1, _PART_ROWS, line // task.itemsize)
        brought = []
        if self.brings:
            batch, step, _ = task.operands[task.mapped - 1]
            steps = tuple(task.itemsize * one or ACCESS for one in (batch, step))
            brought = [
                Tiles(
                    *(0, elem, (task.batches if batch else 1, task.m, task.n), steps, part, line, False),
                    fetched=_FETCHED,
                )
            ]
        return (
            self._map(task, elem, task.a, task.m, self.m, 1),
            self._map(task, elem, task.b, task.n, self.n, self.cluster),
            *brought,
            Tiles(0, elem, shape, strides, part, line, True),
        )

    def _map(
        self, task: Task, elem: dtypes.DType, factor: Factor, size: int, tile: int, blocks: int
    ) -> Tiles:
        lines, elements = (size, task.k) if factor.by_depth else (task.k, size)
        shape = (task.batches if factor.batch else 1, lines, elements)
        strides = tuple(task.itemsize * step or ACCESS for step in (factor.batch, factor.row))
        line = _LINE // task.itemsize
        box = (1, (tile if factor.by_depth else line) // blocks, line)
        return Tiles(0, elem, shape, strides, box, _LINE, False, _FETCHED)


#: Large tiles read each factor from the L2 less often, small ones waste less of the last wave.
TMA_TILES = (
    TmaTile(128, 256, 4, 2.15, 16, 2),
    TmaTile(256, 128, 4, 2.1, 8, 2),
    TmaTile(128, 128, 6, 1.9, 16, by_turns=True),
    # Deferred tiles: the registers hold the sums of two, so they are no larger.
    TmaTile(128, 192, 5, 2.09, 16, 2, deferred=True, slots=1),
    TmaTile(128, 192, 5, 2.09, 16, 2, deferred=True, brings=True, slots=3),
    TmaTile(128, 128, 6, 1.95, 16, 2, deferred=True),
    TmaTile(128, 128, 6, 1.95, 16, 2, deferred=True, brings=True),
)
#: Of floats that are cut to tf32.
TF32_TMA_TILES = (
    TmaTile(128, 256, 4, 2.0, 16, 2),
    TmaTile(128, 128, 6, 1.8, 16, by_turns=True),
)


def _begun(made: Program, task: Task) -> tuple[Program, int]:
    """What follows the sum of the product and of a row that is added first, and the number of that; 0 if there is none.

    Sums of deferred tiles begin with the row, so that nothing adds it.
    """
    product = input_node(0, made.inputs[0])
    users = [node for node in order(made.outputs) if product in node.args]
    if len(users) != 1 or users[0].row is not add:
        return made, 0
    first, second = users[0].args
    other = second if first is product else first
    uses = sum(node.args.count(other) for node in order(made.outputs))
    if other.kind != "input" or other is product or uses != 1:
        return made, 0
    (_, row, _), paired = task.operands[other.value - 1], task.paired[other.value - 1]
    if row or not paired:
        return made, 0
    then = substitute(made.outputs, {users[0]: product})
    return program(made.name, then, made.inputs, made.scalars), other.value


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
        rate = tile.rate * (_BATCHED if task.batches > 1 and tile.cluster == 1 else 1)
        last = 0.0
        if task.itemsize == 2 and not task.saves:
            last = 0 if tile.by_turns else _LAST_DEFERRED_STORE if tile.deferred else _LAST_STORE
            store += _MATRIX if task.mapped and not tile.brings else 0
        return tile.m * tile.n * (waves * (slabs / rate + store) + last)

    # Sums that are saved too are stored from the registers of one tile. Where nothing follows, ptxas lets the products
    # of a kernel whose warpgroups make tiles by turns wait for one another.
    fits = [
        tile
        for tile in (TMA_TILES if task.itemsize == 2 else TF32_TMA_TILES)
        if not (task.saves and tile.deferred)
        and not (tile.deferred and tile.brings != (task.mapped > 0))
        and not (task.alone and task.itemsize == 2 and tile.by_turns)
    ]
    best = min(fits, key=cost)
    if best.count(task) > LARGEST_INDEX:
        return None
    groups = task.batches > 1 and best.count(task) <= _IN_GROUP * task.batches  # each makes whole products
    return best._replace(blocks=limits.multiprocessors, apart=_GROUPS if groups else 1)
