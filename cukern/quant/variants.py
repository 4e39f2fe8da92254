"""The variants of products of many rows with quantised weights: these are dequantised on the way, or before."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, ClassVar

from .. import dtypes
from .. import namespace as ops
from ..array import Array
from ..device.interface import Properties, Tiles
from ..elementwise.graph import Expr, cast, input_node
from ..elementwise.program import Program, program
from ..kernel import Kernel
from ..kernel.sizes import divide_up
from ..launch import cost
from ..launch.params import Params
from ..launch.variant import Launch, Plan, Replay, Variant, prepared
from ..linear.problem import Factor, Gemm
from ..linear.variants import TensorCores
from .array import QuantArray
from .blocks import dequantized
from .kinds import Kind
from .problem import Quantised
from .rows import as_read

#: The time of a product whose k-blocks threads load, in that of one without: calibrated so that what was measured to be
#: faster on an H200 is cheaper.
_LOADED = 1.3
#: Seconds of a wave besides, and the rows and columns of the tiles whose waves are counted.
_WAVE, _TILE = 1.75e-6, 128


def _many(problem: Quantised, limits: Properties, most: int) -> str:
    """Why a kernel does not dequantise blocks for so many rows at most of 16-bit floats."""
    if problem.rounds(limits):
        return "few rows are rounded to 8 bits"
    if problem.x.shape[0] > most:
        return f"for at most {most} rows: with more, dequantising all weights is little beside the product"
    if problem.dtype.itemsize != 2:
        return "for 16-bit floats"
    if problem.kind.dtype is not None:
        return "for weights in blocks"
    return "" if math.prod(problem.sizes) else "for products with elements"


def _dense_gemm(m: int, n: int, k: int, biased: bool) -> Gemm:
    return Gemm(1, m, n, k, Factor(0, k, True), Factor(0, k, True), ((0, 0, 1),) if biased else ())


def _tiled_seconds(problem: Quantised, tile: TensorCores, limits: Properties) -> float:
    """The time of a product by tiles of tensor cores, whose k-blocks threads load."""
    gemm = _dense_gemm(*problem.sizes, False)
    waves = cost.waves(divide_up(gemm.m, _TILE) * divide_up(gemm.n, _TILE), limits)
    return _LOADED * tile.seconds(gemm, limits) + _WAVE * waves


@cache
def _ended(dtype: dtypes.DType, biased: bool) -> Program:
    """The product, with a bias or without."""
    total = input_node(0, dtypes.float32)
    if not biased:
        return program("quantised_product", (cast(total, dtype),), (dtypes.float32,))
    result = Expr(total) + Expr(input_node(1, dtype))
    return program("quantised_product", (cast(result.node, dtype),), (dtypes.float32, dtype))


@dataclass(frozen=True)
class Dense(Variant[Quantised]):
    """The product after all weights have been dequantised: of any problem whose activations are not rounded."""

    name = "dense"

    @classmethod
    def fits(cls, problem: Quantised, limits: Properties) -> str:
        """For what is not rounded to 8 bits."""
        return "few rows are rounded to 8 bits" if problem.rounds(limits) else ""

    @staticmethod
    def seconds(problem: Quantised, limits: Properties) -> float:
        """The time of the product alone."""
        if problem.dtype.itemsize == 2:
            tiles = [
                one for one in (TensorCores(*given) for given in TensorCores.tiles) if one.runs_on(limits)
            ]
            if tiles and not cost.is_host(limits):
                return min(_tiled_seconds(problem, one, limits) for one in tiles)
        return problem.least_seconds(limits)

    @staticmethod
    def dequantising(problem: Quantised, limits: Properties) -> float:
        """The time in which blocks are read, and weights written and read again."""
        weights = 2 * math.prod(problem.weights) * problem.dtype.itemsize
        return (problem.nbytes + weights) / cost.bandwidth(limits)

    def cost(self, problem: Quantised, limits: Properties) -> float:
        """The time of the product, and that of dequantising."""
        once = self.seconds(problem, limits) + self.dequantising(problem, limits)
        return once + 2 * cost.launch(limits)

    def plan(self, problem: Quantised, limits: Properties) -> Plan:
        """A composition of operations."""

        kind, weights = problem.kind, problem.weights

        def compute(x: Array, blocks: Array, bias: Array | None = None) -> Array:
            if kind.dtype is None:
                w = dequantized(blocks, kind, weights, x.dtype)
            else:
                w = QuantArray._of(blocks, kind, weights)._dense(x.dtype)
            y: Array = ops.matmul(x, w if problem.transposed else ops.matrix_transpose(w))
            return y if bias is None else ops.add(y, bias)

        return compute


class OneLaunch(Variant[Quantised]):
    """What variants share whose launch reads the blocks."""

    def plan(self, problem: Quantised, limits: Properties) -> Plan:
        """The launch, prepared."""
        run = prepared(self, self.launch(problem, limits), problem.device)
        return as_read(problem, Replay(problem.device, run, problem.results))


@dataclass(frozen=True)
class DequantisedTiles(OneLaunch):
    """Tiles of :class:`~cukern.linear.variants.TensorCores`, whose weights are dequantised when they are loaded."""

    name = "tiles"
    needs = (8, 0)
    kernel = TensorCores.kernel

    tile_m: int
    tile_n: int
    warps_m: int
    warps_n: int
    stages: int
    grouped: bool = False
    band: int = 8

    #: Rows at most: for more, cuBLAS and a copy of the weights in 16 bits should be quicker. Estimated.
    most_rows: ClassVar[int] = 256

    @property
    def tile(self) -> TensorCores:
        """The tile of a product with dense weights."""
        return TensorCores(*dataclasses.astuple(self))

    @classmethod
    def fits(cls, problem: Quantised, limits: Properties) -> str:
        """For rows that begin at multiples of 16 bytes."""
        why = _many(problem, limits, cls.most_rows)
        return why or ("rows do not begin at multiples of 16 bytes" if problem.sizes[2] % 8 else "")

    @classmethod
    def configs(cls, problem: Quantised, limits: Properties) -> Iterator[DequantisedTiles]:
        """The tiles that a device has."""
        every = (cls(*values) for values in TensorCores.tiles)
        return (one for one in every if one.tile.runs_on(limits))

    def cost(self, problem: Quantised, limits: Properties) -> float:
        """The time of the busiest multiprocessor."""
        return _tiled_seconds(problem, self.tile, limits) + cost.launch(limits)

    def launch(self, problem: Quantised, limits: Properties) -> Launch:
        """That of the tile, of weights whose rows have bytes in place of elements."""
        m, n, k = problem.sizes
        row_bytes = problem.kind.row_bytes(problem.weights[1])
        right = Factor(0, row_bytes, not problem.transposed)
        gemm = _dense_gemm(m, n, k, problem.biased)._replace(b=right)
        launch = self.tile.launch_of(gemm, _ended(problem.dtype, problem.biased), problem.dtype, limits)
        return replace(launch, constants={**launch.constants, "kind": problem.kind.header})


#: Weights of an output per stage, and inputs of a k-block.
_WIDE, _DEPTH = 256, 64
SIZES = Params("Sizes", rows="int", outputs="int", inputs="int", tiles_m="int", tiles_n="int")


def line(kind: Kind) -> int:
    """The bytes in shared memory of an output's weights in a stage: whole words of 16, wherever they begin."""
    size = kind.row_bytes(_WIDE)
    return divide_up(size + (14 if size % 16 else 0), 16) * 16


@dataclass(frozen=True)
class Warpgroups(OneLaunch):
    """Tiles by the warpgroups of sm_90, which dequantise weights in their registers.

    Attributes:
        tile_n: rows of a tile.
        stages: k-blocks of the activations in shared memory.
        shares: blocks of a cluster that share the inputs of a tile.
    """

    name = "warpgroups"
    kernel = Kernel("quant/product.cu", name="quantised_product")
    needs, major = (9, 0), 9

    tile_n: int
    stages: int
    shares: int = 1

    #: Rows at most: with more, what dequantising all weights takes is little beside the product. Measured on an H200.
    most_rows: ClassVar[int] = 768
    threads: ClassVar[int] = 384
    #: Outputs of a tile.
    outputs: ClassVar[int] = 128
    #: Stages of quantised blocks in shared memory.
    block_stages: ClassVar[int] = 2
    #: Bytes before all stages, for alignment.
    alignment: ClassVar[int] = 1024
    #: Rows of a tile, and stages.
    sizes: ClassVar[tuple[tuple[int, int], ...]] = ((256, 4), (128, 6), (64, 8))
    #: Seconds on an H200: of a k-block, by the rows of a tile; of a tile besides; of adding up a row of partial sums.
    k_block: ClassVar[dict[int, float]] = {64: 0.46e-6, 128: 0.54e-6, 256: 0.73e-6}
    tile_seconds: ClassVar[float] = 2e-6
    shared_row: ClassVar[float] = 0.025e-6
    #: The share of the multiprocessors that clusters of four can use, as groups have 16 or a few more.
    fours: ClassVar[float] = 0.92

    @property
    def part(self) -> int:
        """The rows that a warpgroup stores at a time."""
        return min(64, self.tile_n // self.shares)

    def shared(self, kind: Kind) -> int:
        """Bytes of dynamic shared memory of a block."""
        x, w = self.stages * self.tile_n * _DEPTH * 2, self.block_stages * self.outputs * line(kind)
        return x + w + 2 * self.part * 64 * 2 + self.alignment

    def tiles(self, problem: Quantised) -> tuple[int, int]:
        """Tiles along the outputs and along the rows."""
        rows, outputs, _ = problem.sizes
        return divide_up(outputs, self.outputs), divide_up(rows, self.tile_n)

    @classmethod
    def fits(cls, problem: Quantised, limits: Properties) -> str:
        """For whole blocks of 256 weights, in rows that tensor maps describe."""
        if problem.transposed:
            return "the rows of the weights are summed over"
        if why := _many(problem, limits, cls.most_rows):
            return why
        _, outputs, inputs = problem.sizes
        if inputs % _WIDE or outputs % 8:
            return f"for multiples of {_WIDE} inputs and of 8 outputs"
        return "" if problem.row_aligned else "rows of blocks do not begin at multiples of 16 bytes"

    @classmethod
    def configs(cls, problem: Quantised, limits: Properties) -> Iterator[Warpgroups]:
        """Tiles of which each block has some inputs."""
        every = (cls(*size, shares) for size in cls.sizes for shares in (1, 2, 4))
        return (one for one in every if one.shares <= problem.sizes[2] // _WIDE)

    def cost(self, problem: Quantised, limits: Properties) -> float:
        """The time of the busiest multiprocessor."""
        multiprocessors = limits.multiprocessors
        blocks = int(self.fours * multiprocessors) if self.shares == 4 else multiprocessors
        turns = divide_up(math.prod(self.tiles(problem)), max(1, blocks // self.shares))
        k_blocks = divide_up(problem.sizes[2] // _WIDE, self.shares) * (_WIDE // _DEPTH)
        added = self.shared_row * self.tile_n if self.shares > 1 else 0
        return turns * (k_blocks * self.k_block[self.tile_n] + self.tile_seconds + added) + cost.launch(
            limits
        )

    def launch(self, problem: Quantised, limits: Properties) -> Launch:
        """Blocks that take tiles in turn; those that share tiles have one each."""
        (rows, outputs, inputs), dtype, kind = problem.sizes, problem.dtype, problem.kind
        tiles_m, tiles_n = self.tiles(problem)
        count = tiles_m * tiles_n
        grid = count * self.shares if self.shares > 1 else min(count, limits.multiprocessors)
        pitch, words, biased = kind.row_bytes(inputs), line(kind) // 2, problem.biased
        maps: dict[int, Any] = {
            0: Tiles(0, dtype, (rows, inputs), (inputs * dtype.itemsize,), (self.tile_n, _DEPTH), 128, False),
            1: Tiles(0, dtypes.uint16, (outputs, pitch // 2), (pitch,), (self.outputs, words), 0, False),
            2 + biased: Tiles(
                0, dtype, (rows, outputs), (outputs * dtype.itemsize,), (self.part, 64), 128, True
            ),
        }
        sizes = SIZES(rows=rows, outputs=outputs, inputs=inputs, tiles_m=tiles_m, tiles_n=tiles_n)
        return Launch(
            grid=(grid, 1, 1),
            block=self.threads,
            shared=self.shared(kind),
            constants={"elem": dtype, "kind": kind.header, "line": line(kind), "biased": biased},
            params=(sizes,),
            maps={number: [one] for number, one in maps.items()},
        )
