"""Products of a few rows with a large matrix, which is read once: limited by the memory's bandwidth."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from .. import dtypes
from ..device.interface import Properties
from ..elementwise.program import Program
from ..kernel import Kernel
from ..kernel.sizes import divide_up, power_of_two
from ..launch import cost
from ..launch.params import Params
from ..launch.variant import Launch
from .problem import Gemm, Product, epilogue_steps, variables
from .variants import OneLaunch

_SIZES = Params(
    "Sizes",
    batch_x="index",
    batch_w="index",
    row_x="index",
    row_w="index",
    batch_d="index",
    row_d="index",
    column_d="index",
    rows="int",
    columns="int",
    k="int",
)
#: Blocks that begin at one k-block.
_GROUP = 8


@dataclass(frozen=True)
class FewRows(OneLaunch):
    """A matrix that is read once for up to 16 rows of 16-bit floats, on tensor cores, or 4 of float32.

    Attributes:
        transposed: whether the result has few columns, so that its transpose is computed.
        rows: the few, rounded up.
        columns: of a block.
        warps: of a block, which split the depth.
        ahead: k-blocks that a warp asks for before it multiplies the first of them.
        resident: blocks that a multiprocessor must have room for.
        asked: bytes of the large factor that a block prefetches while the kernel before it ends.
        groups: k-blocks where blocks begin.
        cluster: blocks that load the few rows to the shared memory of all, if they are more than one.
        held: bytes of the few rows there.
    """

    name = "few rows"
    kernel = Kernel("linear/few_rows.cu")
    needs = (8, 0)

    transposed: bool
    rows: int
    columns: int
    warps: int
    ahead: int = 1
    resident: int = 1
    asked: int = 0
    groups: int = 1
    cluster: int = 1
    held: int = 0

    #: Rows at most, by the bytes of an element: twice those of the tensor cores' instruction, or as many as one lane's
    #: multiply-adds keep up with.
    most_rows: ClassVar[dict[int, int]] = {2: 16, 4: 4}
    #: Bytes of a k-block along the depth.
    k_block: ClassVar[int] = 64
    #: Columns of a block, and those where so many leave multiprocessors idle, of which each then has two blocks.
    most_columns: ClassVar[int] = 32
    fewer_columns: ClassVar[int] = 16
    #: Warps of a block at most, each of which has a k-block at least.
    most_warps: ClassVar[int] = 16
    #: K-blocks that a warp asks for at once: of up to eight rows, and of more, which take more registers.
    prefetched: ClassVar[tuple[int, int]] = (3, 2)
    #: Pieces of the few rows in a cluster's shared memory, of a k-block for each warp: each has its own lines of text.
    most_pieces: ClassVar[int] = 16
    #: Bytes of the large factor that a block prefetches, by itself and in a cluster.
    alone_asks: ClassVar[int] = 2**16
    cluster_asks: ClassVar[int] = 3 * 2**14
    #: Places where blocks begin, unless rows of the large factor are contiguous and the few are at most eight.
    most_groups: ClassVar[int] = 16
    #: Seconds before the first k-block of a block has come: measured on an H200.
    latency: ClassVar[float] = 0.67e-6
    #: How many times as long few columns take of a factor that is not contiguous along the depth: they are parts of
    #: lines. Measured on an H200.
    across: ClassVar[float] = 2.3

    @classmethod
    def fits(cls, problem: Product, limits: Properties) -> str:
        """For few rows or columns, without a reduction and with one result."""
        if problem.float_bytes not in cls.most_rows:
            return "for 16-bit floats and float32"
        gemm = problem.gemm
        if gemm is None:
            return "factors do not lie in rows that begin at multiples of 16 bytes"
        most = cls.most_rows[gemm.itemsize]
        if min(gemm.m, gemm.n) > most:
            return f"for at most {most} rows or columns"
        return "for one result, whose rows are not reduced" if gemm.saves or gemm.rows is not None else ""

    @classmethod
    def configs(cls, problem: Product, limits: Properties) -> Iterator[FewRows]:
        """How the work is divided."""
        gemm = problem.gemm
        assert gemm is not None
        return iter([cls.divided(gemm, limits)])

    @classmethod
    def divided(cls, gemm: Gemm, limits: Properties) -> FewRows:
        """As many columns a block as keep all multiprocessors busy."""
        transposed = gemm.n < gemm.m
        few = gemm.transposed if transposed else gemm
        rows = few.m if gemm.itemsize == 4 else 8 * divide_up(few.m, 8)
        columns, multiprocessors = cls.most_columns, limits.multiprocessors
        if 8 * gemm.batches * divide_up(few.n, columns) < 7 * multiprocessors:
            columns = cls.fewer_columns
        blocks = gemm.batches * divide_up(few.n, columns)
        warps = min(cls.most_warps, power_of_two(divide_up(gemm.k * gemm.itemsize, cls.k_block)))
        resident = 2 if columns == cls.fewer_columns and blocks > multiprocessors else 1
        ahead = cls.prefetched[resident > 1 or rows > 8]
        groups = cls.most_groups if gemm.itemsize == 2 and (rows > 8 or few.b.by_depth) else 1
        one = cls(transposed, rows, columns, warps, ahead, resident, cls.alone_asks, groups)
        at_once = columns == cls.most_columns and blocks <= multiprocessors
        return one.sharing(few, limits) if at_once else one

    def sharing(self, few: Gemm, limits: Properties) -> FewRows:
        """With clusters that share the few rows, if the device, the layout and the size allow it.

        Args:
            few: the product, or the transpose that is computed.
            limits: of the device.
        """
        k_block = self.k_block // few.itemsize
        pieces, left = divmod(few.k, k_block * self.warps)
        held = pieces * self.rows * (self.k_block * self.warps + self.k_block)
        sums = 4 * self.warps * self.rows * (self.columns + 4)
        fits = (
            pieces <= self.most_pieces
            and held + sums + 8 * self.most_pieces <= limits.max_shared_memory_per_block
        )
        if limits.compute_capability[0] != 9 or few.itemsize == 4 or not few.a.by_depth or left or not fits:
            return self
        return replace(
            self, ahead=self.prefetched[0], asked=self.cluster_asks, groups=1, cluster=2, held=held
        )

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return 32 * self.warps

    def cost(self, problem: Product, limits: Properties) -> float:
        """The bytes of the large factor that the busiest multiprocessor reads."""
        gemm = self.gemm_of(problem)
        assert gemm is not None
        blocks = gemm.batches * divide_up(max(gemm.m, gemm.n), self.columns)
        read = self.resident * self.columns * gemm.k * gemm.itemsize
        narrow = self.columns == self.fewer_columns and not (gemm.a.by_depth and gemm.b.by_depth)
        # As many bytes as all multiprocessors read then, of arrays that are in the L2 or not.
        moving = cost.moving(problem.nbytes, 0, limits) * read * limits.multiprocessors / problem.nbytes
        wave = self.latency + moving * (self.across if narrow else 1)
        return cost.waves(blocks, limits, self.resident) * wave + cost.launch(limits)

    def launch_of(self, gemm: Gemm, program: Program, elem: dtypes.DType, limits: Properties) -> Launch:
        """See :class:`.OneLaunch`."""
        few = gemm.transposed if self.transposed else gemm
        across = self.cluster * divide_up(few.n, self.columns * self.cluster)
        sizes = _SIZES(
            batch_x=few.a.batch,
            batch_w=few.b.batch,
            row_x=few.a.row,
            row_w=few.b.row,
            batch_d=gemm.m * gemm.n,
            row_d=1 if self.transposed else gemm.n,
            column_d=gemm.n if self.transposed else 1,
            rows=few.m,
            columns=few.n,
            k=few.k,
        )
        return Launch(
            grid=(across, gemm.batches, 1),
            block=self.threads,
            shared=self.held,
            constants={
                **variables(program, elem, gemm),
                "name": f"{program.name}_{dtypes.info(elem).name}_{self.rows}x{self.columns}",
                "group": _GROUP,
                "pieces": few.k * gemm.itemsize // (self.k_block * self.warps),
                "x_by_depth": few.a.by_depth,
                "w_by_depth": few.b.by_depth,
            },
            params=(sizes, epilogue_steps(gemm.operands)),
        )
