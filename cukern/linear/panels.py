"""Products by a thread whose loops over columns a compiler makes into vectors: for the host."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from .. import dtypes
from ..device import kernels_only
from ..device.host.processors import features
from ..device.interface import Properties
from ..elementwise.program import Program
from ..kernel import Kernel
from ..kernel.sizes import divide_up
from ..launch import cost
from ..launch.variant import Launch
from .library import BLAS_RATE, EFFICIENCY
from .problem import Gemm, Product, ending_name, ending_variables, epilogue_steps
from .variants import NOTHING_FOLLOWS, OneLaunch, strided_sizes

#: Rows whose sums are in registers: of processors with vectors of 64 bytes, and of others.
_FEW, _FEW_OF_OTHERS = 8, 3
#: How many more rows take as long as one that is left over: estimated.
_ALONE = 3
#: The rate beside that of the host's library: of both, measured on an AMD EPYC. The share of a multiprocessor's peak
#: that a block of one thread has is estimated.
_RATE, _RATE_OF_OTHERS, _SHARE_OF_GPU = 1.6, 1.0, 0.001


def few_rows() -> int:
    """The rows whose sums a thread has in registers."""
    return _FEW if "avx512f" in features() else _FEW_OF_OTHERS


def weighed(rows: int) -> int:
    """The rows of a tile; one that is left over waits for its own sums, and takes as long as several."""
    return rows + _ALONE * (rows % few_rows())


def rate(limits: Properties, of_library: float) -> float:
    """Operations a second of a thread that multiplies panels, where the host's library has ``of_library``."""
    if cost.is_host(limits):
        return of_library * (_RATE if "avx512f" in features() else _RATE_OF_OTHERS)
    return _SHARE_OF_GPU * cost.flops(limits) / limits.multiprocessors


@dataclass(frozen=True)
class Panels(OneLaunch):
    """Products of floats of any strides in the processor's vectors, a tile by a thread.

    Attributes:
        tile_m: rows of a tile.
        tile_n: its columns, which are a panel of the right factor: two or four vectors.
        depth: of a panel that is copied at once, which the first cache holds beside the tile's sums.
        few: rows whose sums are in registers.
    """

    name = "panels"
    kernel = Kernel("linear/product_panels.cu")

    tile_m: int = 128
    tile_n: int = 32
    depth: int = 192
    few: int = _FEW

    #: Bytes of a panel's rows.
    line: ClassVar[int] = 128
    #: Operations of a product at least that is not left to the library, as a kernel is compiled.
    least: ClassVar[float] = 2**21

    @classmethod
    def gemm_of(cls, problem: Product) -> Gemm | None:
        """See :class:`.OneLaunch`."""
        return problem.strided

    @classmethod
    def fits(cls, problem: Product, limits: Properties) -> str:
        """For float32 and float64."""
        if problem.elem not in (dtypes.float32, dtypes.float64):
            return "for float32 and float64"
        if problem.strided is None:
            return "matrices of the batch are not at equal distances"
        left = problem.epilogue is None and not kernels_only.active()
        worth = cost.is_host(limits) and problem.operations >= cls.least
        return NOTHING_FOLLOWS if left and not worth else ""

    @classmethod
    def configs(cls, problem: Product, limits: Properties) -> Iterator[Panels]:
        """The tile."""
        return iter([cls(tile_n=cls.line // problem.elem.itemsize, few=few_rows())])

    def columns(self, gemm: Gemm) -> int:
        """The columns of a block: a tile's, or all tiles' of rows that are reduced."""
        return self.tile_n * (1 if gemm.rows is None else divide_up(gemm.n, self.tile_n))

    def blocks(self, gemm: Gemm) -> int:
        """The blocks of a matrix."""
        return divide_up(gemm.m, self.tile_m) * divide_up(gemm.n, self.columns(gemm))

    def seconds(self, gemm: Gemm, limits: Properties) -> float:
        """The products of the busiest thread."""
        rows = weighed(min(self.tile_m, gemm.m))
        return (
            cost.waves(gemm.batches * self.blocks(gemm), limits)
            * 2.0
            * rows
            * self.columns(gemm)
            * gemm.k
            / rate(limits, BLAS_RATE * EFFICIENCY * cost.HOST_FLOPS)
        )

    def launch_of(self, gemm: Gemm, program: Program, elem: dtypes.DType, limits: Properties) -> Launch:
        """See :class:`.OneLaunch`."""
        return Launch(
            grid=(self.blocks(gemm), gemm.batches, 1),
            block=1,
            shared=self.line * (self.depth + self.tile_m),
            constants={
                **ending_variables(program, elem, gemm),
                "name": f"{ending_name(program, elem, gemm)}_panels",
            },
            params=(strided_sizes(gemm), epilogue_steps(gemm.operands)),
        )
