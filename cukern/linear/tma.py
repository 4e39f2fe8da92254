"""Products whose factors the hardware loads by tensor maps (TMA), on the tensor cores of sm_90a."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from .. import dtypes
from ..device.interface import Properties, Tiles
from ..elementwise.costs import operations
from ..elementwise.graph import input_node, order, substitute
from ..elementwise.program import Program, program
from ..elementwise.table import add
from ..kernel import Kernel
from ..kernel.sizes import ACCESS, LARGEST_INDEX, divide_up
from ..launch import cost
from ..launch.variant import Launch
from .problem import Factor, Gemm, Product, epilogue_steps, tiled_sizes, tiled_variables
from .variants import FUNCTION_COST, STORE_COST, UNIT, OneLaunch, busy

_KERNEL = Kernel("linear/product_tma.cu")
_DEFERRED = Kernel("linear/product_tma_deferred.cu")
#: Bytes of a line, and those to which strides are aligned.
_LINE = 128
#: Rows of a part of D, through which a warpgroup stores.
_PART_ROWS = 64
#: Bytes before the stages, for alignment.
_ALIGNMENT = 1024
_LONGEST_STRIDE = 2**40
#: Bytes that the L2 fetches where it lacks a line of a k-block: the next one is part of the k-block after it.
_FETCHED = 128
#: Groups of multiprocessors (GPCs) of a GPU.
_GROUPS = 8
#: About how many multiprocessors a group has.
_IN_GROUP = 16

#: The epilogue of a tile, in k-blocks multiplied at rate 1, where another warpgroup multiplies meanwhile.
HIDDEN_STORE_COST = 0.3
#: The same where it is deferred.
DEFERRED_STORE_COST = 0.235
#: Operations of what follows that a few warps compute beside the product, as GELU with a bias and a residual. With
#: GELU's derivative, 49 operations, an H200 took 168 us where the product alone and a kernel of all warps take 116, and
#: its compiler six seconds.
MOST_AFTER = 36
#: What a matrix takes that is not loaded by a map, in the same unit: measured on an H200.
MATRIX_COST = 2
#: The rate of blocks without clusters in a batch, whose products share no factors, relative to one product.
BATCHED_RATE = 0.95


@dataclass(frozen=True)
class Tma(OneLaunch):
    """Warp-specialized GEMM of sm_90: a producer loads k-blocks by tensor maps (TMA), two consumers multiply.

    Attributes:
        tile_m, tile_n: rows and columns of a tile.
        stages: k-blocks of the factors in shared memory.
        band: rows of tiles that are computed column by column.
        cluster: blocks with tiles below one another, each of which multicasts a part of the right factor.
        ping_pong: whether each consumer computes every second tile of its block alone.
        deferred: whether the epilogue of a tile runs while the next tile is multiplied, of 16-bit elements.
        loads_matrix: whether a matrix of the epilogue is loaded by a tensor map too, to where D's parts will be, which
            are of half lines then.
        slots: for parts of D in shared memory, of each warpgroup: they divide the parts of a tile.
        cluster_stride: from a cluster to that of the tiles after its own: the number of the GPU's groups of
            multiprocessors (GPCs), so that both are in one group, or 1.
        blocks: the most blocks, persistent over tiles; 0 for one a multiprocessor.
    """

    name = "tma"
    needs, major = (9, 0), 9

    tile_m: int
    tile_n: int
    stages: int
    band: int
    cluster: int = 1
    ping_pong: bool = False
    deferred: bool = False
    loads_matrix: bool = False
    slots: int = 2
    cluster_stride: int = 1
    blocks: int = 0

    #: The threads of two warpgroups that multiply, and of one that loads.
    threads: ClassVar[int] = 384
    filling, writing_apart = 1e-6, 0.2
    reading, beside = 0.33, 1

    def template(self) -> Kernel:
        """The kernel with the epilogue after each tile, or deferred."""
        return _DEFERRED if self.deferred else _KERNEL

    @property
    def shared(self) -> int:
        """Bytes of dynamic shared memory of a block."""
        parts, row = self.slots * _PART_ROWS * self.part_line, 4 * self.tile_n if self.deferred else 0
        return self.stages * _LINE * (self.tile_m + self.tile_n) + 2 * (parts + row) + _ALIGNMENT

    @property
    def part_line(self) -> int:
        """Bytes of a line of a part of D."""
        return _LINE // 2 if self.loads_matrix else _LINE

    def tiles(self, gemm: Gemm) -> tuple[int, int]:
        """The tiles of a matrix along its rows, up to whole clusters, and along its columns."""
        return divide_up(gemm.m, self.tile_m * self.cluster) * self.cluster, divide_up(gemm.n, self.tile_n)

    def count(self, gemm: Gemm) -> int:
        """The tiles of a product."""
        return gemm.batches * math.prod(self.tiles(gemm))

    @classmethod
    def fits(cls, problem: Product, limits: Properties) -> str:
        """For products that tensor maps describe, of 16-bit floats, or floats that may be rounded to tf32."""
        if not problem.by_tensor_cores:
            return "for 16-bit floats, or floats that may be rounded to tf32"
        gemm = problem.gemm
        if gemm is None:
            return "factors do not lie in rows that begin at multiples of 16 bytes"
        if gemm.rows is not None:
            return "rows are reduced"
        if not takes(gemm):
            return "tensor maps do not describe the factors or the result"
        if problem.epilogue is not None and operations(problem.epilogue.outputs) > MOST_AFTER:
            return f"what follows takes more than {MOST_AFTER} operations"
        return "" if next(cls.configs(problem, limits), None) else "there are more tiles than a launch counts"

    @classmethod
    def configs(cls, problem: Product, limits: Properties) -> Iterator[Tma]:
        """The tiles that can end as the product does."""
        gemm = problem.gemm
        assert gemm is not None
        return cls.tiles_for(gemm)

    @classmethod
    def tiles_for(cls, gemm: Gemm) -> Iterator[Tma]:
        """The same for sizes and strides."""
        # Sums that are saved too are stored from the registers of one tile. Where nothing follows, ptxas lets the
        # products of a ping-pong kernel wait for one another.
        for one in TMA_TILES if gemm.itemsize == 2 else TF32_TMA_TILES:
            whole = gemm.whole_rows and not gemm.saves and one.loads_matrix == (gemm.mapped > 0)
            if one.deferred and not whole:
                continue
            if gemm.alone and gemm.itemsize == 2 and one.ping_pong:
                continue
            if one.count(gemm) <= LARGEST_INDEX:
                few = gemm.batches > 1 and one.count(gemm) <= _IN_GROUP * gemm.batches
                yield replace(one, cluster_stride=_GROUPS) if few else one

    def seconds(self, gemm: Gemm, limits: Properties) -> float:
        """The tiles of the busiest multiprocessor."""
        tiles = self.count(gemm)
        store = HIDDEN_STORE_COST if self.ping_pong else DEFERRED_STORE_COST if self.deferred else STORE_COST
        k_blocks = max(divide_up(gemm.k * gemm.itemsize, _LINE), self.tile_n // 16 if self.deferred else 1)
        rate = RATES[gemm.itemsize][self.tile_m, self.tile_n, self.deferred]
        rate *= BATCHED_RATE if gemm.batches > 1 and self.cluster == 1 else 1
        store += MATRIX_COST if gemm.mapped and not self.loads_matrix else 0
        function = FUNCTION_COST * gemm.function
        store += 0 if self.deferred else function
        # Nothing hides what follows the last tile.
        last = function if self.deferred or self.ping_pong else 0 if gemm.itemsize == 4 else STORE_COST
        follows = cost.waves(tiles, limits) * store + last
        return UNIT * self.tile_m * self.tile_n * (busy(tiles, limits) * k_blocks / rate + follows)

    def launch_of(self, gemm: Gemm, program: Program, elem: dtypes.DType, limits: Properties) -> Launch:
        """See :class:`.OneLaunch`."""
        prog, begins = _begun(program, gemm) if self.deferred else (program, 0)
        if not gemm.whole_rows:  # the last pair of a row may be half of one
            gemm = gemm._replace(paired=())
        count, blocks = self.count(gemm), self.blocks or limits.multiprocessors
        most = max(1, blocks // self.cluster) * self.cluster
        fewest = divide_up(count, divide_up(count, most))  # of blocks that make as many tiles each
        return Launch(
            grid=(divide_up(fewest, self.cluster) * self.cluster, 1, 1),
            block=self.threads,
            shared=self.shared,
            constants={
                **tiled_variables(prog, elem, gemm, self.tile_m, self.tile_n),
                "begins": begins,
                "mapped": gemm.mapped if self.loads_matrix else 0,
                "depth": _LINE // gemm.itemsize,
                "wide": gemm.whole_rows,
            },
            params=(tiled_sizes(gemm, self.tiles(gemm)), epilogue_steps(gemm.operands)),
            maps=self.maps(gemm, program, elem),
        )

    def maps(self, gemm: Gemm, program: Program, elem: dtypes.DType) -> dict[int, list[Tiles]]:
        """How the kernel finds tiles of the factors, of a matrix that it loads, and of D in rows as tensor maps have.

        Args:
            gemm: the product.
            program: the epilogue.
            elem: of the factors and of D.
        """
        row = gemm.n * gemm.itemsize
        line = self.part_line
        part = (1, _PART_ROWS, line // gemm.itemsize)
        maps = {
            0: [self._map(gemm, elem, gemm.a, gemm.m, self.tile_m, 1)],
            1: [self._map(gemm, elem, gemm.b, gemm.n, self.tile_n, self.cluster)],
        }
        if self.loads_matrix:
            batch, step, _ = gemm.operands[gemm.mapped - 1]
            steps = tuple(gemm.itemsize * one or ACCESS for one in (batch, step))
            shape = (gemm.batches if batch else 1, gemm.m, gemm.n)
            maps[1 + gemm.mapped] = [Tiles(0, elem, shape, steps, part, line, False, _FETCHED)]
        if not gemm.whole_rows:
            return maps
        shape, strides = (gemm.batches, gemm.m, gemm.n), (gemm.m * row, row)
        last = 1 + len(program.inputs) + len(program.scalars) + gemm.saves
        maps[last] = [Tiles(0, elem, shape, strides, part, line, True)]
        return maps

    @staticmethod
    def _map(gemm: Gemm, elem: dtypes.DType, factor: Factor, size: int, tile: int, blocks: int) -> Tiles:
        lines, elements = (size, gemm.k) if factor.by_depth else (gemm.k, size)
        shape = (gemm.batches if factor.batch else 1, lines, elements)
        strides = tuple(gemm.itemsize * step or ACCESS for step in (factor.batch, factor.row))
        line = _LINE // gemm.itemsize
        box = (1, (tile if factor.by_depth else line) // blocks, line)
        return Tiles(0, elem, shape, strides, box, _LINE, False, _FETCHED)


#: Large tiles read each factor from the L2 less often, small ones waste less of the last wave. Deferred tiles are no
#: larger, because the registers hold the sums of two.
TMA_TILES = (
    Tma(128, 256, 4, 16, 2),
    Tma(256, 128, 4, 8, 2),
    Tma(128, 128, 6, 16, ping_pong=True),
    Tma(128, 192, 5, 16, 2, deferred=True, slots=1),
    Tma(128, 192, 5, 16, 2, deferred=True, loads_matrix=True, slots=3),
    Tma(128, 128, 6, 16, 2, deferred=True),
    Tma(128, 128, 6, 16, 2, deferred=True, loads_matrix=True),
)
#: Of floats that are cut to tf32.
TF32_TMA_TILES = (Tma(128, 256, 4, 16, 2), Tma(128, 128, 6, 16, ping_pong=True))
#: The rate of each in the unit of :data:`.UNIT`, by bytes of an element: by rows and columns, and whether deferred.
RATES = {
    2: {
        (128, 256, False): 2.4,
        (256, 128, False): 2.34,
        (128, 128, False): 2.13,
        (128, 192, True): 2.33,
        (128, 128, True): 2.16,
    },
    4: {(128, 256, False): 2.23, (128, 128, False): 2.0},
}


def _begun(prog: Program, gemm: Gemm) -> tuple[Program, int]:
    """What follows the sum of the product and of a row that is added first, and the number of that; 0 if there is none.

    Sums of deferred tiles begin with the row, so that nothing adds it.
    """
    product = input_node(0, prog.inputs[0])
    users = [node for node in order(prog.outputs) if product in node.args]
    if len(users) != 1 or users[0].row is not add:
        return prog, 0
    first, second = users[0].args
    other = second if first is product else first
    uses = sum(node.args.count(other) for node in order(prog.outputs))
    if other.kind != "input" or other is product or uses != 1:
        return prog, 0
    (_, row, _), paired = gemm.operands[other.value - 1], gemm.paired[other.value - 1]
    if row or not paired:
        return prog, 0
    then = substitute(prog.outputs, {users[0]: product})
    return program(prog.name, then, prog.inputs, prog.scalars), other.value


def takes(gemm: Gemm) -> bool:
    """Whether tensor maps describe the factors: all step forward by 16 bytes, and no two rows have one address.

    Floats have to be contiguous along the depth: the tensor cores do not read them otherwise.
    """
    size = gemm.itemsize
    return (
        (size == 2 or (size == 4 and gemm.a.by_depth and gemm.b.by_depth))
        and size * gemm.m * gemm.n < _LONGEST_STRIDE
        and all(
            one.batch >= 0
            and (one.row > 0 or (gemm.k if not one.by_depth else across) == 1)
            and size * max(one.batch, one.row) < _LONGEST_STRIDE
            for one, across in ((gemm.a, gemm.m), (gemm.b, gemm.n))
        )
    )
