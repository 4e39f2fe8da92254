"""The variants of reductions by kernels: loops for a host, and rows or columns that a GPU's threads share.

Rows are reduced along contiguous elements, columns where neighbouring results read neighbouring elements. A reduction
with too few results to fill the device splits each into pieces, whose partial states a second launch combines.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from .. import dtypes
from ..array.layout import fresh_layout
from ..device.interface import Properties
from ..elementwise.costs import operations
from ..elementwise.geometry import WIDEST
from ..elementwise.print_cxx import argument_types, compute_type, statements
from ..kernel import Kernel
from ..kernel.sizes import divide_up, power_of_two
from ..kernel.strides import step_kind
from ..launch import cost
from ..launch.params import layout_params
from ..launch.variant import Launch, Variant, prepared
from ..text import Dim3
from .plan import Plan, Reducing, Source, accumulator

#: Values that a host thread computes in sequence.
HOST_PIECE = 65536
#: Columns that a host thread reduces together if the elements of one are far apart.
_HOST_TILE = 64
#: The same if every core has such a tile: longer runs of memory are read faster.
_HOST_WIDE_TILE = 512
#: Values that a host thread combines at once, by the least number that it reduces: of sums and the like, of batches
#: whose result is worked out as one, and of searches for a place.
_HOST_VALUES = (128, 64), (64, 32), (8, 8)
_HOST_BATCH = (256, 64), (64, 32), (8, 8)
_HOST_SEARCH = (64, 64), (32, 32), (16, 16), (8, 8)
#: Values of a result at most, and results at least, where a host thread has neighbouring results in lanes of vectors.
_SHORT, _MANY = 32, 2048
#: Operations that a value counts as, besides its own, where its exponential is added: compilers inline few of these.
_EXPONENTIALS = 30
#: Threads of a GPU's block, where a result does not need more.
_BLOCK = 256
#: Bytes that a GPU's thread loads before it computes.
_FLIGHT = 64
#: Bytes of the values that a thread combines at once, in registers.
_VALUE_BYTES = 128
#: Bytes of the states that a thread keeps in registers.
_STATE_BYTES = 128
#: Bytes of shared memory for the states of a block.
_SHARED_BYTES = 32768
#: The most statements in an unrolled loop.
_STATEMENTS = 512
#: Bytes that a GPU reads from memory at a time.
_SECTOR = 32


class Kernels(Variant[Reducing]):
    """What all variants share: the template variables of a reduction, and the launch that joins pieces."""

    joining: ClassVar[Kernel] = Kernel("reduction/parts.cu")
    of_launch = frozenset(("threads", "piece", "outer_piece", "inner_piece"))

    def laid_out(
        self,
        problem: Reducing,
        grid: Dim3,
        block: int,
        kept: int,
        numbers: Sequence[int],
        columns: bool,
        **more: Any,
    ) -> Launch:
        """A launch that walks the first ``kept`` kept axes, with these numbers as its last parameters.

        Args:
            grid: blocks; along y the pieces of each result.
            columns: whether there are steps to the next column.
            more: further template variables.
        """
        program, reduction, sources = problem.program, problem.reduction, problem.sources
        body, (value,) = statements(program.outputs)
        name = (
            reduction.name if program.name in ("load", reduction.name) else f"{reduction.name}_{program.name}"
        )
        inputs = [
            {
                "k": k,
                "type": dtypes.info(dtype).cxx,
                "compute": compute_type(dtype),
                "step": step_kind(source.step),
                "column": step_kind(source.column),
            }
            for k, (dtype, source) in enumerate(zip(program.inputs, sources, strict=True))
        ]
        constants = {
            "name": f"{name}{'_onto' * problem.onto}_{dtypes.info(program.inputs[0]).name}_{block}",
            "stage": "single" if grid[1] == 1 else "partial",
            "index": "long long" if problem.wide else "int",
            "kept": kept,
            "columns": columns,
            "over": len(problem.over),
            "inputs": inputs,
            "scalars": argument_types(program),
            "body": body,
            "value": value,
            "value_type": compute_type(problem.value),
            "accumulator": accumulator(reduction, problem.value),
            "result": dtypes.info(problem.result).cxx,
            "reduction": reduction,
            "onto": problem.onto,
            "half": all(d in dtypes.NARROW for d in program.inputs),
            **more,
        }
        walked = layout_params(
            kept_shape=problem.kept[:kept],
            kept_step=[source.kept[:kept] for source in sources],
            outer_shape=problem.over,
            outer_step=[source.over for source in sources],
            step=[source.step for source in sources],
            column=[source.column for source in sources] if columns else (),
        )
        return Launch(grid, block, 0, constants, (walked, problem.count, *numbers))

    def joined(self, problem: Reducing, limits: Properties, of: Launch) -> Launch:
        """The launch that combines the states of pieces."""
        rows, pieces = problem.rows, of.grid[1]
        block, lanes = 1, 1
        if not cost.is_host(limits):
            block = 256 if pieces <= 2048 else 1024
            lanes = min(32, power_of_two(divide_up(pieces, 4))) if pieces <= 128 else block
        own = {"stage": "final", "lanes": lanes, "state_bytes": problem.state_bytes}
        return replace(
            of,
            grid=(divide_up(rows * lanes, block), 1, 1),
            block=block,
            constants={**of.constants, "name": f"{of.constants['name']}_final", **own},
            params=(of.params[1], rows, pieces),
            kernel=self.joining,
        )

    def plan(self, problem: Reducing, limits: Properties) -> Plan:
        """The one or two launches."""
        plan, device, launch = Plan(problem), problem.device, self.launch(problem, limits)
        run = prepared(self, launch, device)
        plan.ready, plan.launch = run.ready, run.launch
        if launch.grid[1] > 1:
            final = prepared(self, self.joined(problem, limits, launch), device)
            plan.final = final.launch, final.ready
            bytes_of_parts = problem.rows * launch.grid[1] * problem.state_bytes
            plan.parts = fresh_layout(device, dtypes.uint8, (bytes_of_parts,))
        return plan


@dataclass(frozen=True)
class Loops(Kernels):
    """Plain loops, which the host's compiler vectorizes: a thread reduces rows, or tiles of neighbouring columns.

    Attributes:
        tile: columns that it reduces together.
        unroll: values that it combines at once.
        outer_piece, inner_piece: the sizes of a piece along the outer reduced axes and along the inner one.
        length: values of a result if these are few, next to each other, and a tile is of such rows; else 0.
    """

    name = "loops"
    kernel = Kernel("reduction/reduce.cu")
    kernel_of_tiles: ClassVar[Kernel] = Kernel("reduction/reduce_columns.cu")
    kernel_of_short_rows: ClassVar[Kernel] = Kernel("reduction/reduce_short.cu")
    efficiency = 0.5

    tile: int
    unroll: int
    outer_piece: int
    inner_piece: int
    length: int = 0

    def template(self) -> Kernel:
        """That of rows, or of tiles."""
        if self.length:
            return self.kernel_of_short_rows
        return self.kernel_of_tiles if self.tile > 1 else self.kernel

    @classmethod
    def fits(cls, problem: Reducing, limits: Properties) -> str:
        """For a host."""
        return "" if cost.is_host(limits) else "for a host, whose threads have long loops"

    @classmethod
    def configs(cls, problem: Reducing, limits: Properties) -> Iterator[Loops]:
        """As many pieces as have a thread's share of values each, outer axes first, if there are few results."""
        if cls._are_short(problem):
            yield cls(_HOST_TILE, 1, 1, problem.inner, problem.inner)
            return
        columns, tile = problem.kept[-1] if problem.in_columns else 0, 1
        if columns >= 8:
            tile = _HOST_WIDE_TILE if columns >= _HOST_WIDE_TILE * limits.multiprocessors else _HOST_TILE
        outer, inner = problem.outer, problem.inner
        pieces = max(1, min(outer * inner // HOST_PIECE, 256)) if problem.rows < 64 * tile else 1
        reduction = problem.reduction
        unrolls = _HOST_SEARCH if reduction.ordered else _HOST_BATCH if reduction.batch else _HOST_VALUES
        unroll = next((own for least, own in unrolls if inner >= least), 1)
        outer_pieces = min(outer, pieces)
        inner_pieces = max(1, min(inner, divide_up(pieces, outer_pieces)))
        yield cls(tile, unroll, divide_up(outer, outer_pieces), max(1, divide_up(inner, inner_pieces)))

    @staticmethod
    def _are_short(problem: Reducing) -> bool:
        """Whether many results have few values each, which fill no vector, next to each other."""
        if problem.over or not problem.kept or not 1 < problem.inner <= _SHORT:
            return False
        if problem.kept[-1] < _HOST_TILE or problem.rows < _MANY or not _dense(problem):
            return False
        work = operations(problem.program.outputs)
        work += _EXPONENTIALS if problem.reduction.state == "LogSum<A>" else 0
        return problem.inner * work <= _STATEMENTS and all(
            source.step == 0 or source.column in (0, problem.inner) for source in problem.sources
        )

    def launch(self, problem: Reducing, limits: Properties) -> Launch:
        """As many threads as have a share of values each."""
        outer, inner, tile = problem.outer, problem.inner, self.tile
        kept = len(problem.kept) - (tile > 1)
        tiles = divide_up(problem.kept[-1], tile) if tile > 1 else 1
        pieces = max(1, divide_up(outer, self.outer_piece) * divide_up(inner, self.inner_piece))
        each = max(1, HOST_PIECE // max(1, problem.count * tile)) if pieces == 1 else 1
        tasks = math.prod(problem.kept[:kept]) * tiles
        of_pieces = () if self.length else (outer, inner, self.outer_piece, self.inner_piece)
        of_tiles = (problem.kept[-1], tiles) if tile > 1 else ()
        stride = self.length if self.length == 3 else power_of_two(self.length)
        more = {"dense": _dense(problem), "stride": stride} if self.length else {}
        tail = (*of_pieces, *of_tiles, tasks, each)
        return self.laid_out(problem, (divide_up(tasks, each), pieces, 1), 1, kept, tail, True, **more)


def _dense(problem: Reducing) -> list[int]:
    """The inputs whose values of neighbouring results are one after another."""
    return [k for k, one in enumerate(problem.sources) if one.step == 1 and one.column == problem.inner]


@dataclass(frozen=True)
class Rows(Kernels):
    """Threads along the inner reduced axis, in vectorized accesses: part of a warp, a warp or a block has a row.

    Attributes:
        threads: of a block.
        lanes: threads that share a row.
        unroll: packs that a thread loads before it computes.
        rows_at_once: rows that it has at once.
        width: elements of a pack.
        peel: whether rows may start inside a pack.
        piece: packs of a row's piece.
    """

    name = "rows"
    kernel = Kernel("reduction/rows.cu")
    needs = (5, 0)
    efficiency = 0.9

    threads: int
    lanes: int
    unroll: int
    rows_at_once: int
    width: int
    peel: bool
    piece: int

    #: The most packs of a row that one warp reduces; a block reduces longer rows.
    warp: ClassVar[int] = 512
    #: The same where the index of a value is kept (argmax), which costs more than exchanging states between threads.
    warp_of_ordered: ClassVar[int] = 4096
    #: The number of blocks that keeps the last wave short, about four times the resident ones. With fewer rows, each
    #: row is split into pieces, whose states a second launch combines.
    blocks: ClassVar[int] = 4096
    #: Loads per thread up to which a row is not split, even if multiprocessors stay idle, because a second launch would
    #: cost as much.
    unsplit: ClassVar[int] = 4
    #: Threads of the block that reduces such a row.
    long: ClassVar[int] = 1024

    @classmethod
    def configs(cls, problem: Reducing, limits: Properties) -> Iterator[Rows]:
        """As many threads a row as have some loads each."""
        width, peel = _row_width(problem)
        rows, most, block = problem.rows, _unroll(problem, width), _BLOCK
        packs = max(1, problem.outer * (problem.inner // width))
        warp = cls.warp_of_ordered if problem.reduction.ordered else cls.warp
        if packs <= warp and (rows * 32 >= 2**17 or packs <= 32 * most):
            lanes = min(32, power_of_two(packs))
            unroll = min(most, power_of_two(divide_up(packs, lanes)))
            single = packs <= lanes * unroll and not peel
            at_once = most // unroll if single and rows * lanes >= 2**17 else 1
            yield cls(block, lanes, unroll, at_once, width, peel, packs)
            return
        long = block * most < packs <= cls.long * most * cls.unsplit
        if long and rows < cls.blocks // 2 and rows * packs <= cls.blocks * block * most:
            yield cls(cls.long, cls.long, most, 1, width, peel, packs)
            return
        pieces = 1
        if rows < cls.blocks // 2:
            pieces = min(divide_up(packs, block * most), divide_up(cls.blocks, rows))
        rounds = divide_up(packs, block * most * pieces)
        unroll = min(most, power_of_two(divide_up(packs, block)))
        yield cls(block, block, unroll, 1, width, peel, rounds * block * most if pieces > 1 else packs)

    def cost(self, problem: Reducing, limits: Properties) -> float:
        """See :class:`Variant`; in columns each element is read with its sector."""
        seconds = super().cost(problem, limits)
        if not problem.in_columns:
            return seconds
        return seconds * _SECTOR / min(operand.dtype.itemsize for operand in problem.operands)

    def launch(self, problem: Reducing, limits: Properties) -> Launch:
        inner, width = problem.inner, self.width
        packs, step = problem.outer * (inner // width), self.lanes * self.unroll
        grid = (
            divide_up(problem.rows, self.threads // self.lanes * self.rows_at_once),
            max(1, divide_up(packs, self.piece)),
            1,
        )
        return self.laid_out(
            problem,
            grid,
            self.threads,
            len(problem.kept),
            (problem.rows, inner, packs, self.piece),
            False,
            tail=self.peel or (not problem.over and inner % width != 0),
            full=not self.peel and packs % step == 0 and self.piece % step == 0 and packs > 0,
            in_registers=self.unroll * width * max(4, problem.value.itemsize) <= _VALUE_BYTES,
        )


def _packed(problem: Reducing, steps: Sequence[int]) -> list[Source]:
    """The inputs that can be read in packs along an axis; none if the strides of one prevent it."""
    if any(step not in (0, 1) for step in steps):
        return []
    return [source for source, step in zip(problem.sources, steps, strict=True) if step == 1]


def _narrow(width: int, numbers: Sequence[int]) -> int:
    """The largest power of two up to ``width`` that divides all numbers."""
    while width > 1 and any(n % width for n in numbers):
        width //= 2
    return width


def _row_width(problem: Reducing) -> tuple[int, bool]:
    """Elements per pack along the inner axis, and whether rows may start inside a pack."""
    packed = _packed(problem, [source.step for source in problem.sources])
    if not packed:
        return 1, False
    full = WIDEST // max(source.size for source in packed)
    full = _narrow(full, [1 << max(0, (_STATEMENTS // max(1, problem.statements)).bit_length() - 1)])
    aligned = all(source.aligned for source in packed)
    steps = [step for source in packed for step in (*source.kept, *source.over)]
    if problem.over:
        return (_narrow(full, [problem.inner, *steps]) if aligned else 1), False
    width = _narrow(full, steps) if aligned else 1
    if width == full or problem.inner < 64 * full or width * min(source.size for source in packed) >= 8:
        return width, False
    first = packed[0]
    alike = len(packed) == 1 or (
        aligned
        and all(source.size == first.size for source in packed)
        and all((a - b) % full == 0 for s in packed for a, b in zip(s.kept, first.kept, strict=True))
    )
    return (full, True) if alike else (width, False)


def _unroll(problem: Reducing, width: int) -> int:
    """The number of packs that a thread loads before it computes."""
    count = max(1, problem.statements)
    each = width * sum(source.size for source in problem.sources if source.step or source.over or source.kept)
    unroll = 8
    while unroll > 1 and (unroll * each > _FLIGHT or unroll * width * count > 2 * _STATEMENTS):
        unroll //= 2
    return unroll


@dataclass(frozen=True)
class Columns(Kernels):
    """Threads along the last kept axis, each with a pack of columns, and some below each other that share a column.

    Attributes:
        width: columns of a pack.
        unroll: packs that a thread loads before it computes.
        across: threads side by side.
        down: threads one below the other.
        piece: reduced elements of a piece.
    """

    name = "columns"
    kernel = Kernel("reduction/columns.cu")
    needs = (5, 0)
    efficiency = 0.9

    width: int
    unroll: int
    across: int
    down: int
    piece: int

    #: Threads that share a column; adjacent threads read neighbouring columns, 32 of them 512 bytes.
    shared: ClassVar[int] = 8
    #: The number of blocks that keeps the GPU busy. Each writes a state for every column.
    blocks: ClassVar[int] = 512
    #: The most loads of a column for which it is not split into pieces: 4 by each of the most threads that share it.
    few: ClassVar[int] = 512
    most_shared: ClassVar[int] = 128

    @classmethod
    def fits(cls, problem: Reducing, limits: Properties) -> str:
        """Where neighbouring elements belong to different results."""
        return "" if problem.in_columns else "for results whose neighbours read neighbouring elements"

    @classmethod
    def configs(cls, problem: Reducing, limits: Properties) -> Iterator[Columns]:
        """More threads below each other, then pieces, where there are few columns."""
        rows, columns, reduced = problem.rows, problem.kept[-1], problem.count
        width = cls.pack(problem)
        unroll = min(_unroll(problem, width), power_of_two(max(1, reduced)))
        packs = columns // width
        down = min(cls.shared, power_of_two(divide_up(max(1, reduced), unroll)))
        tiles = divide_up(packs, _BLOCK // down)
        # Short columns get more threads each instead of a second launch, as long as a block reads whole sectors: one
        # of each row only if more than half of the multiprocessors had no block otherwise.
        size = width * min(source.size for source in problem.sources)
        few, most = reduced <= cls.few * unroll, min(cls.most_shared, _BLOCK // divide_up(_SECTOR, size))
        while few and down < most and down * unroll < reduced:
            across = _BLOCK // (2 * down)
            if rows // columns * tiles >= limits.multiprocessors // (1 if across * size > _SECTOR else 2):
                break
            down *= 2
            tiles = divide_up(packs, _BLOCK // down)
        across = divide_up(packs, tiles)
        down = min(_BLOCK // across, power_of_two(divide_up(max(1, reduced), unroll)))
        blocks = rows // columns * tiles
        pieces = 1
        if blocks < cls.blocks // 2 and not few:
            pieces = max(1, min(divide_up(cls.blocks, blocks), reduced // (2 * down * unroll)))
        rounds = max(1, divide_up(reduced, down * unroll * pieces))
        yield cls(width, unroll, across, down, rounds * down * unroll if pieces > 1 else max(1, reduced))

    @classmethod
    def pack(cls, problem: Reducing) -> int:
        """Columns of an access."""
        packed = _packed(problem, [source.column for source in problem.sources])
        if not packed or not all(source.aligned for source in packed):
            return 1
        numbers = [problem.kept[-1], *(n for s in packed for n in (*s.kept[:-1], *s.over, s.step))]
        state_bytes = min(_STATE_BYTES, _SHARED_BYTES // _BLOCK)
        width = _narrow(WIDEST // max(source.size for source in packed), numbers)
        while width > 1 and width * problem.state_bytes > state_bytes:
            width //= 2
        return width

    def launch(self, problem: Reducing, limits: Properties) -> Launch:
        """A block for each tile of columns of each row, and piece."""
        columns, reduced = problem.kept[-1], problem.count
        tiles = divide_up(columns // self.width, self.across)
        grid = (problem.rows // columns * tiles, max(1, divide_up(reduced, self.piece)), 1)
        tail = (columns, tiles, problem.inner, reduced, self.piece)
        return self.laid_out(problem, grid, _BLOCK, len(problem.kept) - 1, tail, True)
