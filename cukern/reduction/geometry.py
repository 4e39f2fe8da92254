"""Launch geometry of reductions: the template, its constants, the grid, and whether a result takes two launches.

Rows are reduced along contiguous elements, columns where neighbouring results read neighbouring elements. A reduction
with too few results to fill the GPU splits each into pieces, whose partial states a second launch combines.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..elementwise.geometry import WIDEST
from ..kernel import Kernel
from ..kernel.sizes import divide_up, power_of_two
from ..kernel.strides import Strides
from ..text import Dim3

SERIAL = Kernel("reduction/reduce.cu", block=1)
SERIAL_COLUMNS = Kernel("reduction/reduce_columns.cu", block=1)
ROWS = Kernel("reduction/rows.cu", block=256)
COLUMNS = Kernel("reduction/columns.cu", block=256)
PARTS = Kernel("reduction/parts.cu", block=256)


class RowShape(NamedTuple):
    """The work of a GPU's threads if the inner reduced axis is contiguous.

    Attributes:
        block: threads per block.
        flight: bytes that a thread loads before it computes.
        warp: the most packs of a row that one warp reduces; a block reduces longer rows.
        blocks: the number of blocks that keeps the last wave short, about four times the resident ones. With fewer
            rows, each row is split into pieces, whose states a second launch combines.
        unsplit: loads per thread up to which a row is not split, even if multiprocessors stay idle, because a second
            launch would cost as much.
        long: threads of the block that reduces such a row.
    """

    block: int = 256
    flight: int = 64
    warp: int = 512
    blocks: int = 4096
    unsplit: int = 4
    long: int = 1024


class ColumnShape(NamedTuple):
    """The work of a GPU's threads if neighbouring results read neighbouring elements.

    Attributes:
        block: threads per block.
        flight: bytes that a thread loads before it computes.
        down: threads that share a column; adjacent threads read neighbouring columns, 32 of them 512 bytes.
        blocks: the number of blocks that keeps the GPU busy. Each writes a state for every column.
        few: the most loads by all threads of a column for which it is not split into pieces.
    """

    block: int = 256
    flight: int = 64
    down: int = 8
    blocks: int = 512
    few: int = 128


ROW_SHAPE = RowShape()
#: For reductions that keep the index of a value (argmax): keeping it costs more than exchanging states between threads,
#: so a warp reduces longer rows.
ORDERED_ROW_SHAPE = RowShape(warp=4096)
COLUMN_SHAPE = ColumnShape()
#: Values that a host thread reduces in sequence.
_HOST_PIECE = 65536
#: Columns that a host thread reduces together if the elements of one are far apart.
_HOST_TILE = 64
#: The same if every core has such a tile: longer runs of memory are read faster.
_HOST_WIDE_TILE = 512
#: Bytes of the values that a thread combines at once, in registers.
_VALUE_BYTES = 128
#: Bytes of the states that a thread keeps in registers.
_STATE_BYTES = 128
#: Bytes of shared memory for the states of a block.
_SHARED_BYTES = 32768
#: The most statements in an unrolled loop.
_STATEMENTS = 512


class Source(NamedTuple):
    """An input: bytes of an element; strides in elements along the kept, outer reduced and inner reduced axes."""

    size: int
    kept: Strides
    over: Strides
    step: int
    aligned: bool


class Task(NamedTuple):
    """A reduction: sizes of the kept axes, of the outer reduced ones and of the inner one.

    Attributes:
        statements: the number of statements per element.
        value: bytes of a value.
        state: bytes of a state.
        batch: whether several values are combined at once.
        ordered: whether the indices of values matter.
        wide: whether an index or offset needs 64 bits.
    """

    kept: tuple[int, ...]
    over: tuple[int, ...]
    inner: int
    sources: tuple[Source, ...]
    statements: int
    value: int
    state: int
    batch: bool
    ordered: bool
    wide: bool

    @property
    def rows(self) -> int:
        return math.prod(self.kept)

    @property
    def outer(self) -> int:
        return math.prod(self.over)

    @property
    def in_columns(self) -> bool:
        """Whether neighbouring elements of the largest input belong to different results."""
        sizes = (*self.kept, *self.over, self.inner)

        def elements(source: Source) -> int:
            steps = (*source.kept, *source.over, source.step)
            return math.prod(n for n, step in zip(sizes, steps, strict=True) if step)

        largest = max(self.sources, key=elements)
        if not self.kept or not largest.kept[-1]:
            return False
        return not largest.step or abs(largest.kept[-1]) < abs(largest.step)


class Work(NamedTuple):
    """A launch.

    Attributes:
        kernel: the template.
        variables: its template variables besides those of the reduction.
        grid: blocks; along y the pieces of each result.
        block: threads per block.
        tail: the kernel's last arguments; the number of values is inserted after the layout.
    """

    kernel: Kernel
    variables: dict[str, Any]
    grid: Dim3
    block: int
    layout: bytes
    tail: tuple[int, ...]

    @property
    def pieces(self) -> int:
        return self.grid[1]


def _kind(step: int) -> str:
    return {1: "unit", 0: "zero"}.get(step, "any")


def _layout(task: Task, kept: int, columns: bool) -> bytes:
    """The kernel's struct of the first ``kept`` kept axes and of the reduced axes."""
    numbers: list[int] = []
    if kept:
        numbers += [*task.kept[:kept], *(s for source in task.sources for s in source.kept[:kept])]
    if task.over:
        numbers += [*task.over, *(s for source in task.sources for s in source.over)]
    numbers += [source.step for source in task.sources]
    if columns:
        numbers += [source.kept[-1] if source.kept else 0 for source in task.sources]
    return struct.pack(f"{len(numbers)}{'q' if task.wide else 'i'}", *numbers)


def _common(task: Task, block: int, kept: int, columns: bool) -> dict[str, Any]:
    return {
        "columns": columns,
        "block": block,
        "index": "long long" if task.wide else "int",
        "kept": kept,
        "over": len(task.over),
        "strides": [
            {"step": _kind(source.step), "column": _kind(source.kept[-1] if source.kept else 0)}
            for source in task.sources
        ],
    }


def _cut(outer: int, inner: int, pieces: int) -> tuple[int, int]:
    """The sizes of about ``pieces`` pieces; outer axes are split first."""
    outer_pieces = min(outer, pieces)
    inner_pieces = max(1, min(inner, -(-pieces // outer_pieces)))
    return -(-outer // outer_pieces), max(1, -(-inner // inner_pieces))


def serial(task: Task, cores: int) -> Work:
    """The launch on a host of so many cores: scalar loops that its compiler vectorizes."""
    rows, outer, inner = task.rows, task.outer, task.inner
    columns = task.kept[-1] if task.in_columns else 0
    tile = 1
    if columns >= 8:
        tile = _HOST_WIDE_TILE if columns >= _HOST_WIDE_TILE * cores else _HOST_TILE
    size = outer * inner
    pieces = max(1, min(size // _HOST_PIECE, 256)) if rows < 64 * tile else 1
    unroll = 64 if inner >= 256 else 32 if inner >= 64 else 8 if inner >= 8 else 1
    rows_piece = max(1, _HOST_PIECE // max(1, size * tile))
    outer_piece, inner_piece = _cut(outer, inner, pieces)
    pieces = -(-outer // outer_piece) * -(-inner // inner_piece) if size else 1
    kept = len(task.kept) - (tile > 1)
    tasks = math.prod(task.kept[:kept]) * (divide_up(task.kept[-1], tile) if tile > 1 else 1)
    rows_piece = rows_piece if pieces == 1 else 1
    tail: tuple[int, ...] = (outer, inner, outer_piece, inner_piece)
    if tile > 1:
        tail += (task.kept[-1], divide_up(task.kept[-1], tile))
    variables = _common(task, 1, kept, True) | {"tile": tile, "unroll": unroll}
    grid = (divide_up(tasks, rows_piece), pieces, 1)
    kernel = SERIAL_COLUMNS if tile > 1 else SERIAL
    return Work(kernel, variables, grid, 1, _layout(task, kept, True), (*tail, tasks, rows_piece))


def on_gpu(task: Task) -> Work:
    """The launch on a GPU."""
    return _columns(task) if task.in_columns else _rows(task)


def _packed(task: Task, steps: Sequence[int]) -> list[Source]:
    """The inputs that can be read in packs along an axis; none if the strides of one prevent it."""
    if any(step not in (0, 1) for step in steps):
        return []
    return [source for source, step in zip(task.sources, steps, strict=True) if step == 1]


def _narrow(width: int, numbers: Sequence[int]) -> int:
    """The largest power of two up to ``width`` that divides all numbers."""
    while width > 1 and any(n % width for n in numbers):
        width //= 2
    return width


def _row_width(task: Task) -> tuple[int, bool]:
    """Elements per pack along the inner axis, and whether rows may start inside a pack."""
    packed = _packed(task, [source.step for source in task.sources])
    if not packed:
        return 1, False
    full = WIDEST // max(source.size for source in packed)
    full = _narrow(full, [1 << max(0, (_STATEMENTS // max(1, task.statements)).bit_length() - 1)])
    aligned = all(source.aligned for source in packed)
    steps = [step for source in packed for step in (*source.kept, *source.over)]
    if task.over:
        return (_narrow(full, [task.inner, *steps]) if aligned else 1), False
    width = _narrow(full, steps) if aligned else 1
    if width == full or task.inner < 64 * full or width * min(source.size for source in packed) >= 8:
        return width, False
    first = packed[0]
    alike = len(packed) == 1 or (
        aligned
        and all(source.size == first.size for source in packed)
        and all((a - b) % full == 0 for s in packed for a, b in zip(s.kept, first.kept, strict=True))
    )
    return (full, True) if alike else (width, False)


def _unroll(task: Task, width: int, flight: int) -> int:
    """The number of packs that a thread loads before it computes."""
    each = width * sum(source.size for source in task.sources if source.step or source.over or source.kept)
    unroll = 8
    while unroll > 1 and (
        unroll * each > flight or unroll * width * max(1, task.statements) > 2 * _STATEMENTS
    ):
        unroll //= 2
    return unroll


class _Rows(NamedTuple):
    """How threads share rows: threads per block and per row, loads at once, rows at once, packs per piece."""

    block: int
    lanes: int
    unroll: int
    rows: int
    piece: int


def _share_rows(rows: int, packs: int, most: int, peel: bool, shape: RowShape) -> _Rows:
    block = shape.block
    if packs <= shape.warp and (rows * 32 >= 2**17 or packs <= 32 * most):
        lanes = min(32, power_of_two(packs))
        unroll = min(most, power_of_two(divide_up(packs, lanes)))
        single = packs <= lanes * unroll and not peel
        at_once = most // unroll if single and rows * lanes >= 2**17 else 1
        return _Rows(block, lanes, unroll, at_once, packs)
    long = block * most < packs <= shape.long * most * shape.unsplit
    if long and rows < shape.blocks // 2 and rows * packs <= shape.blocks * block * most:
        return _Rows(shape.long, shape.long, most, 1, packs)
    pieces = 1
    if rows < shape.blocks // 2:
        pieces = min(divide_up(packs, block * most), divide_up(shape.blocks, rows))
    rounds = divide_up(packs, block * most * pieces)
    unroll = min(most, power_of_two(divide_up(packs, block)))
    return _Rows(block, block, unroll, 1, rounds * block * most if pieces > 1 else packs)


def _rows(task: Task) -> Work:
    """The launch with threads along the inner reduced axis."""
    width, peel = _row_width(task)
    shape = ORDERED_ROW_SHAPE if task.ordered else ROW_SHAPE
    most = _unroll(task, width, shape.flight)
    packs = task.outer * (task.inner // width)
    shared = _share_rows(task.rows, max(1, packs), most, peel, shape)
    step = shared.lanes * shared.unroll
    pieces = max(1, divide_up(packs, max(1, shared.piece)))
    variables = _common(task, shared.block, len(task.kept), False) | {
        "width": width,
        "lanes": shared.lanes,
        "unroll": shared.unroll,
        "rows_at_once": shared.rows,
        "peel": peel,
        "tail": peel or (not task.over and task.inner % width != 0),
        "full": not peel and packs % step == 0 and shared.piece % step == 0 and packs > 0,
        "in_registers": shared.unroll * width * task.value <= _VALUE_BYTES,
    }
    grid = (divide_up(task.rows, shared.block // shared.lanes * shared.rows), pieces, 1)
    tail = (task.rows, task.inner, packs, max(1, shared.piece))
    return Work(ROWS, variables, grid, shared.block, _layout(task, len(task.kept), False), tail)


def _column_width(task: Task) -> int:
    """Elements per pack along the columns."""
    packed = _packed(task, [source.kept[-1] for source in task.sources])
    if not packed or not all(source.aligned for source in packed):
        return 1
    numbers = [task.kept[-1], *(n for s in packed for n in (*s.kept[:-1], *s.over, s.step))]
    state_bytes = min(_STATE_BYTES, _SHARED_BYTES // COLUMN_SHAPE.block)
    width = _narrow(WIDEST // max(source.size for source in packed), numbers)
    while width > 1 and width * task.state > state_bytes:
        width //= 2
    return width


def _columns(task: Task) -> Work:
    """The launch with threads along the last kept axis."""
    shape, reduced = COLUMN_SHAPE, task.outer * task.inner
    width = _column_width(task)
    unroll = min(_unroll(task, width, shape.flight), power_of_two(max(1, reduced)))
    columns = task.kept[-1]
    packs = columns // width
    down = min(shape.down, power_of_two(divide_up(max(1, reduced), unroll)))
    tiles = divide_up(packs, shape.block // down)
    # Columns of a few hundred elements get more threads each instead of a second launch.
    few = reduced <= shape.few * unroll
    while few and task.rows // columns * tiles < shape.blocks // 2 and down < 32 and down * unroll < reduced:
        down *= 2
        tiles = divide_up(packs, shape.block // down)
    across = divide_up(packs, tiles)
    down = min(shape.block // across, power_of_two(divide_up(max(1, reduced), unroll)))
    blocks = task.rows // columns * tiles
    pieces = 1
    if blocks < shape.blocks // 2 and not few:
        pieces = max(1, min(divide_up(shape.blocks, blocks), reduced // (2 * down * unroll)))
    rounds = max(1, divide_up(reduced, down * unroll * pieces))
    piece = rounds * down * unroll if pieces > 1 else max(1, reduced)
    kept = len(task.kept) - 1
    variables = _common(task, shape.block, kept, True)
    variables |= {"width": width, "unroll": unroll, "across": across, "down": down}
    grid = (blocks, max(1, divide_up(reduced, piece)), 1)
    tail = (columns, tiles, task.inner, reduced, piece)
    return Work(COLUMNS, variables, grid, shape.block, _layout(task, kept, True), tail)


def joined(rows: int, pieces: int, on_host: bool) -> tuple[int, int, int]:
    """The launch that combines states: threads per block, threads that share a row, blocks."""
    if on_host:
        return 1, 1, rows
    block = 256 if pieces <= 2048 else 1024
    lanes = min(32, power_of_two(divide_up(pieces, 4))) if pieces <= 128 else block
    return block, lanes, divide_up(rows * lanes, block)
