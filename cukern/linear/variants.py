"""Products of matrices that end with an elementwise expression in the same launch, on CUDA cores and tensor cores."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from .. import dtypes
from ..array import Array
from ..array.layout import Layout
from ..array.making import maker
from ..device import kernels_only
from ..device.interface import Properties
from ..elementwise.plan import converter
from ..elementwise.program import Program
from ..kernel import Kernel
from ..kernel.plan import BoundLaunch, Plan, on
from ..kernel.sizes import divide_up, power_of_two
from ..launch import cost
from ..launch.params import Given, Params
from ..launch.variant import Launch, Run, Variant, prepared
from .problem import (
    Factor,
    Gemm,
    Product,
    ending_name,
    ending_variables,
    epilogue_steps,
    tiled_sizes,
    tiled_variables,
)

#: Seconds in which a multiprocessor's tensor cores make an element of a tile of 64 products of 16-bit floats, or 32 of
#: floats, at rate 1. Large tiles on an H200 reach rate 2.4.
UNIT = 4.5e-11
#: Bytes of a k-block along the depth.
K_BLOCK = 128
#: The share of that time which a tile of warpgroups takes where few multiprocessors multiply: all together draw so much
#: power that the clock falls. Measured on an H200.
ALONE = 0.78
#: The epilogue of a tile of warpgroups, in k-blocks multiplied at rate 1, where nothing overlaps it: on an H200.
STORE_COST = 0.7
#: What a function in it takes, in the same unit: measured on an H200.
FUNCTION_COST = 1.75
#: What a matrix takes whose elements threads read, in the same unit: measured on an H200.
MATRIX_COST = 3.6
#: Why a product alone is left to the library.
NOTHING_FOLLOWS = "nothing follows: compiling it takes longer than it saves"


def _is_left(problem: Product) -> bool:
    """Whether a product is left to the library."""
    return problem.epilogue is None and not kernels_only.active()


def busy(tiles: int, limits: Properties) -> float:
    """The waves of tiles of warpgroups, in times that a tile takes where all multiprocessors multiply."""
    return ALONE * cost.waves(tiles, limits) + (1 - ALONE) * tiles / limits.multiprocessors


class ProductPlan(Plan):
    """The launch of a product for arrays of its layouts.

    Attributes:
        converters: functions that convert each Python number to the dtype in which it is computed.
        backwards: what a tape records of a call, by which inputs are tracked.
        reads: the plan, without a launch, of what follows the saved product, as a tape records that.
    """

    __slots__ = ("_make", "_run", "backwards", "converters", "reads")
    separate = False

    def __init__(self, program: Program, results: Sequence[Layout], run: Run) -> None:
        super().__init__(results[0].device, results)
        self.converters = tuple(map(converter, program.scalars))
        self.backwards: dict[tuple[bool, ...], Any] = {}
        self.reads: Any = None
        self._launched_by(run)

    def _launched_by(self, run: Run) -> Self:
        self.ready, self._run = run.ready, run
        alone = len(self.layouts) == 1 and not self.converters
        self._make = maker(run.launch, self.layouts[0]) if alone and self.layouts[0].on_host else None
        return self

    def by(self, ready: BoundLaunch) -> Self:
        """See :class:`~cukern.kernel.plan.Plan`."""
        with on(self.device):
            return copy(self)._launched_by(self._run.by(ready))

    def run(self, arrays: Sequence[Array], scalars: Sequence[Any], into: Array | None = None) -> Array:
        """Launch and return the result: ``into``, or a new array if it is None."""
        return self.run_all(arrays, scalars, into)[-1]

    def run_all(
        self, arrays: Sequence[Array], scalars: Sequence[Any], into: Array | None = None
    ) -> list[Array]:
        """Launch and return the product, if it is saved, and the result."""
        with on(self.device):
            outs = [] if into is None else [into]
            for layout in self.layouts[len(outs) :]:
                outs.append(Array._made(layout))
            values: list[Any] = list(arrays)
            if scalars:
                values += [convert(value) for convert, value in zip(self.converters, scalars, strict=True)]
            self._run([*values, *outs])
        return outs

    def __call__(self, *arrays: Array) -> Array:
        """The result of a program that takes no numbers."""
        if self._make is None:
            return self.run(arrays, ())
        for one in arrays:
            if one._layout is None:
                one._planned()
        return self._make(*[one._operand for one in arrays])


class OneLaunch(Variant[Product]):
    """A product and its epilogue by one launch.

    Attributes:
        writing: the share of a GPU's bandwidth that its stores reach: measured on an H200.
        writing_apart: the same where the rows of the result do not begin at multiples of 16 bytes.
        filling: seconds before the first k-block is multiplied, beyond those of any launch: measured on an H200.
        beside: how many of the epilogue's operands, the largest first, are read while the product is computed.
        reading: the share of a GPU's bandwidth at which the others are read after it: measured on an H200.
    """

    reading: ClassVar[float] = 1
    beside: ClassVar[int] = sys.maxsize
    writing: ClassVar[float] = 1
    writing_apart: ClassVar[float] = 1
    filling: ClassVar[float] = 0

    @classmethod
    def gemm_of(cls, problem: Product) -> Gemm | None:
        """The sizes and strides; None if the kernel does not read factors that lie so."""
        return problem.gemm

    def seconds(self, gemm: Gemm, limits: Properties) -> float:
        """The time of the product."""
        raise NotImplementedError

    def launch_of(self, gemm: Gemm, program: Program, elem: dtypes.DType, limits: Properties) -> Launch:
        """The launch of the product.

        Args:
            gemm: its sizes and strides.
            program: makes an element of the result of a sum and of operands.
            elem: of the factors.
            limits: of the device.
        """
        raise NotImplementedError

    def cost(self, problem: Product, limits: Properties) -> float:
        """See :class:`~cukern.launch.variant.Variant`."""
        gemm = self.gemm_of(problem)
        assert gemm is not None
        written = sum(one.nbytes for one in problem.results)
        share = self.writing if gemm.whole_rows else min(self.writing, self.writing_apart)
        after = sum(sorted([one.nbytes for one in problem.operands], reverse=True)[self.beside :])
        moving = cost.moving(problem.nbytes - written - after, written, limits, share)
        begins = cost.launch(limits) + self.filling + after / (self.reading * cost.bandwidth(limits))
        # Loads, products and stores overlap, but not all.
        return begins + math.hypot(self.seconds(gemm, limits), moving)

    def launch(self, problem: Product, limits: Properties) -> Launch:
        """See :class:`~cukern.launch.variant.Variant`."""
        gemm = self.gemm_of(problem)
        assert gemm is not None
        return self.launch_of(gemm, problem.program, problem.elem, limits)

    def plan(self, problem: Product, limits: Properties) -> ProductPlan:
        """The launch, prepared."""
        run = prepared(self, self.launch(problem, limits), problem.device)
        return ProductPlan(problem.program, problem.results, run)


_STRIDED = Params(
    "Sizes",
    batch_a="index",
    batch_b="index",
    own_a="index",
    own_b="index",
    depth_a="index",
    depth_b="index",
    m="int",
    n="int",
    k="int",
)


@dataclass(frozen=True)
class Simt(OneLaunch):
    """Factors of any dtype and any strides, multiplied on CUDA cores.

    Attributes:
        tile_n: columns of a block's tile, a power of two; where rows are reduced, all that there are.
        depth: elements of a k-block.
    """

    name = "simt"
    kernel = Kernel("linear/product_simt.cu")

    tile_n: int
    depth: int

    #: Columns of a tile at most: a lane of a warp has eight; and at least, for k-blocks that threads share evenly.
    widest: ClassVar[int] = 256
    narrowest: ClassVar[int] = 32
    #: Columns of a tile where rows are not reduced.
    ordinary: ClassVar[int] = 64
    #: Threads of a block, and the rows and columns of each.
    threads: ClassVar[int] = 256
    rows: ClassVar[int] = 4
    columns: ClassVar[int] = 8
    #: Bytes of a k-block along the depth, as accumulators, and elements at least.
    k_block: ClassVar[int] = 64
    least_depth: ClassVar[int] = 8
    #: The share of the peak in float32 that it reaches on a GPU, and in float64; and on the host, where threads of a
    #: block take turns.
    efficiency: ClassVar[float] = 0.63
    efficiency_float64: ClassVar[float] = 0.18
    host_efficiency: ClassVar[float] = 0.25
    #: What begins and ends a tile on a GPU, in elements of the depth: measured on an H200.
    ends: ClassVar[int] = 29
    #: What a function or a matrix takes besides, in the same unit: measured on an H200.
    follows: ClassVar[int] = 9
    writing, beside = 0.29, 0

    @classmethod
    def gemm_of(cls, problem: Product) -> Gemm | None:
        """See :class:`OneLaunch`."""
        return problem.strided

    @classmethod
    def fits(cls, problem: Product, limits: Properties) -> str:
        """For any product that something follows; of a row that is reduced all columns have to fit a tile."""
        if _is_left(problem):
            return NOTHING_FOLLOWS
        gemm = problem.strided
        if gemm is None:
            return "matrices of the batch are not at equal distances"
        if gemm.rows is not None and gemm.n > cls.widest:
            return f"for rows of at most {cls.widest} columns"
        return ""

    @classmethod
    def configs(cls, problem: Product, limits: Properties) -> Iterator[Simt]:
        """The tile that the columns fill."""
        gemm = problem.strided
        assert gemm is not None
        most = cls.widest if gemm.rows is not None else cls.ordinary
        width = min(most, max(cls.narrowest, power_of_two(gemm.n)))
        depth = max(cls.least_depth, cls.k_block // dtypes.info(problem.elem).acc.itemsize)
        return iter([cls(width, depth)])

    @property
    def tile_m(self) -> int:
        """Rows of a tile."""
        return self.threads * self.columns // self.tile_n * self.rows

    def seconds(self, gemm: Gemm, limits: Properties) -> float:
        """The products of the busiest multiprocessor."""
        blocks = gemm.batches * divide_up(gemm.m, self.tile_m) * divide_up(gemm.n, self.tile_n)
        share = self.efficiency_float64 if gemm.itemsize == 8 else self.efficiency
        depth = gemm.k
        if cost.is_host(limits):
            share = self.host_efficiency
        else:
            depth += self.ends + (self.follows if gemm.function or gemm.matrix else 0)
        rate = share * cost.flops(limits) / limits.multiprocessors
        return cost.waves(blocks, limits) * 2.0 * self.tile_m * self.tile_n * depth / rate

    def launch_of(self, gemm: Gemm, program: Program, elem: dtypes.DType, limits: Properties) -> Launch:
        """See :class:`OneLaunch`."""
        tiles = divide_up(gemm.m, self.tile_m), divide_up(gemm.n, self.tile_n)
        return Launch(
            grid=(math.prod(tiles), gemm.batches, 1),
            block=self.threads,
            constants={
                **ending_variables(program, elem, gemm),
                "name": f"{ending_name(program, elem, gemm)}_{self.tile_m}x{self.tile_n}",
                "tile_m": self.tile_m,
                "a_by_depth": gemm.a.by_depth,
                "b_by_depth": gemm.b.by_depth,
                "unit_a": _contiguous(gemm.a),
                "unit_b": _contiguous(gemm.b),
            },
            params=(strided_sizes(gemm), epilogue_steps(gemm.operands)),
        )


def strided_sizes(gemm: Gemm) -> Given:
    """The sizes of a product of factors of any strides: see linear/product_simt.cu."""
    a, b = ((one.row, one.unit) if one.by_depth else (one.unit, one.row) for one in (gemm.a, gemm.b))
    return _STRIDED(
        batch_a=gemm.a.batch,
        batch_b=gemm.b.batch,
        own_a=a[0],
        own_b=b[0],
        depth_a=a[1],
        depth_b=b[1],
        m=gemm.m,
        n=gemm.n,
        k=gemm.k,
    )


def _contiguous(factor: Factor) -> str:
    """The axis along which a factor is known to be contiguous."""
    return "" if factor.unit != 1 else "depth" if factor.by_depth else "own"


@dataclass(frozen=True)
class CopiedTile:
    """A block's tile of a product on tensor cores, by mma or wgmma, whose k-blocks threads copy.

    Attributes:
        tile_m, tile_n: rows and columns of a block's tile, multiples of 64.
        warps_m, warps_n: warps along its rows, and along its columns.
        stages: k-blocks of the factors in shared memory, all but one of them on their way.
        grouped: whether a warpgroup multiplies 64 rows together, by wgmma.
    """

    tile_m: int
    tile_n: int
    warps_m: int
    warps_n: int
    stages: int
    grouped: bool = False

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return 32 * self.warps_m * self.warps_n

    @property
    def shared(self) -> int:
        """Bytes of dynamic shared memory of a block, of wgmma with those for its alignment."""
        return self.stages * K_BLOCK * (self.tile_m + self.tile_n) + (1024 if self.grouped else 0)

    def runs_on(self, limits: Properties) -> bool:
        """Whether a device has its instructions and enough shared memory."""
        has = limits.compute_capability[0] == 9 or not self.grouped
        return has and self.shared <= limits.max_shared_memory_per_block


@dataclass(frozen=True)
class TensorCores(CopiedTile, OneLaunch):
    """Tiles of 16-bit floats whose k-blocks threads copy: mma of sm_80, wgmma of sm_90a.

    Attributes:
        band: rows of tiles computed column by column, so that concurrent ones share factors in the L2.
    """

    name = "tensor cores"
    needs = (8, 0)
    kernel = Kernel("linear/product_tensor_cores.cu")

    band: int = 8

    #: Elements of a k-block.
    depth: ClassVar[int] = 64
    #: Rows of a tile at most where rows are reduced: what is little work beside loading is shared by more blocks.
    few_rows: ClassVar[int] = 128
    #: A warp with 64 by 64 elements reads shared memory half as often as one with 32 by 32.
    tiles: ClassVar[tuple[tuple[Any, ...], ...]] = (
        (256, 128, 16, 1, 4, True),
        (128, 128, 8, 1, 3, True),
        (128, 256, 2, 4, 3),
        (128, 128, 2, 2, 3),
        (64, 128, 2, 2, 4),
        (64, 64, 2, 2, 4),
    )
    #: The rate of each, in the unit of :data:`UNIT`.
    rates: ClassVar[dict[tuple[int, int, bool], float]] = {
        (256, 128, True): 1.5,
        (128, 128, True): 1.2,
        (128, 256, False): 1.1,
        (128, 128, False): 1.0,
        (64, 128, False): 0.76,
        (64, 64, False): 0.66,
    }
    writing, writing_apart = 0.65, 0.09
    reading, beside = 0.33, 1

    @classmethod
    def fits(cls, problem: Product, limits: Properties) -> str:
        """For 16-bit factors in rows that begin at multiples of 16 bytes, and what a library leaves or is slow at."""
        if problem.float_bytes != 2:
            return "for 16-bit floats"
        if problem.gemm is None:
            return "factors do not lie in rows that begin at multiples of 16 bytes"
        if _is_left(problem) and not problem.misaligned:
            return NOTHING_FOLLOWS
        return "" if next(cls.configs(problem, limits), None) else "no tile has whole rows"

    @classmethod
    def configs(cls, problem: Product, limits: Properties) -> Iterator[TensorCores]:
        """The tiles that a device has; if rows are reduced, the narrowest that has whole ones."""
        gemm = problem.gemm
        assert gemm is not None
        configs = [one for one in (cls(*values) for values in cls.tiles) if one.runs_on(limits)]
        if gemm.rows is None:
            return iter(configs)
        width = min((one.tile_n for one in configs if one.tile_n >= gemm.n), default=0)
        return (one for one in configs if one.tile_n == width and one.tile_m <= cls.few_rows)

    def seconds(self, gemm: Gemm, limits: Properties) -> float:
        """The tiles of the busiest multiprocessor."""
        tiles = gemm.batches * divide_up(gemm.m, self.tile_m) * divide_up(gemm.n, self.tile_n)
        k_blocks = divide_up(gemm.k * gemm.itemsize, K_BLOCK)
        waves = cost.waves(tiles, limits)
        turns = busy(tiles, limits) if self.grouped else waves
        follows = FUNCTION_COST * gemm.function + MATRIX_COST * gemm.matrix + STORE_COST * self.grouped
        rate = self.rates[self.tile_m, self.tile_n, self.grouped]
        return UNIT * self.tile_m * self.tile_n * (turns * k_blocks / rate + waves * follows)

    def launch_of(self, gemm: Gemm, program: Program, elem: dtypes.DType, limits: Properties) -> Launch:
        """See :class:`OneLaunch`."""
        tiles = divide_up(gemm.m, self.tile_m), divide_up(gemm.n, self.tile_n)
        return Launch(
            grid=(math.prod(tiles), gemm.batches, 1),
            block=self.threads,
            shared=self.shared,
            constants={
                **tiled_variables(program, elem, gemm, self.tile_m, self.tile_n),
                "depth": self.depth,
                "wide": gemm.whole_rows,
            },
            params=(tiled_sizes(gemm, tiles), epilogue_steps(gemm.operands)),
        )
