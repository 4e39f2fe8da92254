"""How the threads of a launch share a program's elements: the template, its variables and the grid."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..device.interface import Style
from ..kernel import Kernel
from ..kernel.sizes import divide_up, power_of_two
from ..kernel.strides import Strides, contiguous_steps
from ..launch.params import Declared, Given, layout_params
from ..text import Dim3

LINES = Kernel("elementwise/lines.cu", block=256)
SHORT_LINES = Kernel("elementwise/short_lines.cu", block=1)
FLAT = Kernel("elementwise/flat.cu", block=256)
ROWS = Kernel("elementwise/rows.cu", block=256)
TILES = Kernel("elementwise/tiles.cu", block=256)
STENCIL = Kernel("elementwise/stencil.cu", block=256)
MANY = Kernel("elementwise/many.cu", block=256)

#: By which indices of 32 bits are divided.
DIVISOR = Declared("Divisor", n="uint32", factor="uint32", shift="uint32")

#: Bytes of a thread's widest access.
WIDEST = 16


#: The most blocks of a grid along its second axis.
_MOST_BLOCKS = 65535
#: Elements that one host thread computes in sequence, which amortise its start.
HOST_PIECE = 16384


class Geometry(NamedTuple):
    """How threads share the work of plain loops.

    Attributes:
        block: threads per block.
        lanes: threads that share a row.
        rows_piece: rows per group of ``lanes`` threads.
        piece: columns per group.
    """

    block: int
    lanes: int
    rows_piece: int
    piece: int


def geometry(style: Style, rows: int, columns: int) -> Geometry:
    """The geometry of plain loops: long pieces for the serial style, else coalesced threads."""
    if style == "serial":
        return Geometry(1, 1, max(1, HOST_PIECE // columns), HOST_PIECE)
    if rows == 1:
        return Geometry(256, 256, 1, 1024 if columns > 2**20 else 256)
    lanes = 1 if columns <= 4 else 8 if columns <= 16 else 32 if columns <= 128 else 256
    return Geometry(256, lanes, 1, max(4 * lanes, -(-columns // _MOST_BLOCKS)))


class Shape(NamedTuple):
    """The work of one GPU thread in kernels with wide accesses.

    An H200 needs about 32 KB in flight per multiprocessor to hide its memory latency: 1,024 threads, as many as the
    registers allow, with 32 bytes each. Small blocks keep the last wave short.

    Attributes:
        block: threads per block.
        flight: bytes that a thread loads before it computes (or then stores, if these are more); one pack of each
            input may exceed it.
        unroll: the most packs of an input that a thread loads before it computes.
        items: the most elements of an input that a thread loads before it computes.
        rounds: how many such steps a thread makes if an input is broadcast along the rows, which it loads once.
        streaming: whether stores carry the hint that the data will not be read soon.
        blocks: where columns are summed, the most blocks, each of which stores its own sums; a thread makes ``rounds``
            steps at least.
    """

    block: int = 128
    flight: int = 32
    unroll: int = 4
    items: int = 32
    rounds: int = 4
    streaming: bool = False
    blocks: int = 0


class Tile(NamedTuple):
    """The side of a tile that is transposed in shared memory, and the threads of its block."""

    side: int
    block: int


SHAPE = Shape()
#: For kernels over rows, whose formulas are longer: more bytes in flight hide the arithmetic; more than 16 elements per
#: thread cost occupancy.
ROW_SHAPE = Shape(flight=64, items=16)
#: For those that sum columns: four blocks for each multiprocessor of an H200, which their registers allow.
SUM_SHAPE = Shape(block=256, flight=64, items=16, rounds=2, blocks=528)
#: By the bytes of a staged element. A row of a tile has at least 128 bytes, whose groups of 16 are swizzled against
#: bank conflicts; 16 elements per thread leave registers for 1,024 threads per multiprocessor.
TILE = {1: Tile(128, 512), 2: Tile(64, 256), 4: Tile(64, 256), 8: Tile(32, 128)}
#: On the host: a staged tile fits into the first-level cache.
HOST_TILE = {1: Tile(64, 1), 2: Tile(64, 1), 4: Tile(64, 1), 8: Tile(32, 1)}
_SHARED_BYTES = 49152
#: The most bytes of sums that a thread keeps in registers.
_SUMS = 128
#: The fewest elements whose columns are summed by the kernel that makes them. On an H100 that takes a sixth less than
#: two kernels for 3 million, and a third more for 100 thousand; sizes between were not measured.
_FEWEST_SUMMED = 2**20
#: The most threads that sum a row.
_WARP = 32
#: The most statements in a kernel's unrolled body; longer programs compute fewer elements at a time.
_STATEMENTS = 384
#: Statements per element, and for each operand, from which a kernel is compute-bound, and computes one element at a
#: time in a shorter text.
_LONG, _LONG_PER_OPERAND = 96, 32
#: Elements from which the host transposes by tiles: with fewer, the lines of a strided walk stay in its caches.
HOST_TURNS = 1 << 21
#: The stride in bytes from which most of each fetched sector goes unused.
_APART = 32
#: The smallest size of two axes for which a transpose uses tiles.
_LEAST_SIDE = 16
#: The fewest views of one array for which a thread computes a patch of elements.
FEWEST_VIEWS = 3
#: The fewest elements that are computed in patches, and the fewest columns.
FEWEST_PATCHED = 2**18
LEAST_COLUMNS = 64
#: The most rows or columns by which these views are shifted.
_MOST_SHIFTED = 16
#: The threads of a block that computes patches.
_PATCHES = 256
#: The most rows of a patch.
_MOST_ROWS = 8
#: The threads, of half of an H200, that higher patches must leave.
_FEWEST_THREADS = 2**16
#: What a patch costs besides loads, in loads.
_PATCH_LOADS = 8
#: The part by which an element of a higher patch, which takes more registers, has to cost less.
_GAIN = 0.1
#: The most registers, of 4 bytes, that hold what a patch reads.
_WINDOW = 64
#: The most bytes of shared memory in which a block stages what it stores.
_STAGED_BYTES = 24576


class Place(NamedTuple):
    """Where an input is in an array.

    Attributes:
        array: a number that inputs have in common which are views of one array.
        offset: bytes from the array's first element to the input's.
        aligned: whether the array's address is aligned.
    """

    array: int
    offset: int
    aligned: bool


class Operand(NamedTuple):
    """An input or output.

    Attributes:
        size: bytes of an element.
        steps: strides in elements.
        aligned: whether its address is aligned.
        place: where an input is in an array, if that is known.
    """

    size: int
    steps: Strides
    aligned: bool = True
    place: Place | None = None


class Task(NamedTuple):
    """The work to share: sizes of the axes (at least one), slowest first, and the operands.

    Attributes:
        inputs: the number of operands that are read; the others are written.
        statements: the number of statements per element.
        wide: whether an index or offset needs 64 bits.
    """

    shape: tuple[int, ...]
    operands: tuple[Operand, ...]
    inputs: int
    statements: int
    wide: bool

    @property
    def size(self) -> int:
        return math.prod(self.shape)


class Work(NamedTuple):
    """A launch.

    Attributes:
        kernel: the template.
        variables: its template variables besides the program's and those in ``accesses``.
        accesses: for each operand, the variables that locate its elements.
        grid: blocks.
        block: threads per block.
        layout: the sizes and strides of operands of which the kernel has to know them.
        tail: the kernel's last arguments.
    """

    kernel: Kernel
    variables: dict[str, Any]
    accesses: list[dict[str, Any]]
    grid: Dim3
    block: int
    layout: Given | None
    tail: tuple[int, ...]


def spread(task: Task) -> Work | None:
    """The launch of a task on a GPU; None if plain loops are best."""
    if task.statements > max(_LONG, _LONG_PER_OPERAND * len(task.operands)):
        return None
    if (work := stencil(task)) is not None:
        return work
    flat = contiguous_steps(task.shape)
    lying = [one for one in task.operands if one.steps == flat]
    apart = [one for one in task.operands if one.steps != flat and any(one.steps)]
    width = WIDEST // max((one.size for one in lying), default=WIDEST)
    aligned = all(one.aligned for one in lying)
    if not apart:
        return _flat(task, width if aligned else 1)
    work = tiled(task, TILE)
    if work is not None:
        return work
    along = _row_width(task)
    if along > 1 and task.shape[-1] >= 32 * along:
        return _rows(task, along)
    if aligned and len(lying) > 0 and not any(_is_large(task, one) for one in apart):
        return _flat(task, width)
    return _rows(task, 1) if len(task.shape) > 1 and task.shape[-1] >= 64 else _flat(task, 1)


def _is_large(task: Task, one: Operand) -> bool:
    """Whether an operand has about as many elements as the task."""
    own = math.prod(n for n, step in zip(task.shape, one.steps, strict=True) if step)
    return 2 * own > task.size


def _row_width(task: Task) -> int:
    """Elements per access that all operands allow along the inner axis: a full pack, or 1."""
    units = [one for one in task.operands if one.steps[-1] == 1]
    if len(task.shape) == 1 or not units or any(one.steps[-1] not in (0, 1) for one in task.operands):
        return 1
    if any(one.steps[-1] != 1 for one in task.operands[task.inputs :]):
        return 1
    width = WIDEST // max(one.size for one in units)
    sizes = [task.shape[-1], *(step for one in units for step in one.steps[:-1])]
    return width if all(one.aligned for one in units) and not any(n % width for n in sizes) else 1


def narrowed(width: int, statements: int) -> int:
    """Elements per access, of at most ``width``, for so many statements of each."""
    while width > 1 and width * statements > _STATEMENTS:
        width //= 2
    return width


def _unroll(task: Task, width: int, loads: Sequence[Operand], shape: Shape) -> tuple[int, int]:
    """Elements per pack, and packs that a thread loads at a time."""
    most = max(1, _STATEMENTS // max(1, task.statements))
    width = narrowed(width, task.statements)
    stores = task.operands[task.inputs :]
    each = width * max(sum(one.size for one in side) for side in (loads, stores))
    unroll = shape.unroll * (4 if width == 1 else 1)
    most = min(most, max(width, shape.items))
    while unroll > 1 and (unroll * width > most or (unroll - 1) * each >= shape.flight):
        unroll //= 2
    return width, unroll


def _divisor(n: int) -> tuple[int, int, int]:
    """The fields of :data:`DIVISOR`."""
    shift = (n - 1).bit_length()
    return n, (2**32 * (2**shift - n)) // n + 1, shift


def _layout(task: Task, shape: Sequence[int], placed: Sequence[Operand]) -> Given | None:
    """The sizes and strides that flat and row kernels take."""
    if not placed:
        return None
    stride = [one.steps for one in placed]
    if task.wide:
        return layout_params(by=shape, stride=stride)
    return layout_params({"by": DIVISOR}, by=[_divisor(n) for n in shape], stride=stride)


def _common(task: Task, block: int, width: int, unroll: int, streaming: bool) -> dict[str, Any]:
    return {
        "block": block,
        "index": "long long" if task.wide else "int",
        "width": width,
        "unroll": unroll,
        "streaming": streaming,
        "Divisor": DIVISOR.source,
    }


def _flat(task: Task, width: int) -> Work:
    """The launch over all elements in one line."""
    flat = contiguous_steps(task.shape)
    kinds = ["flat" if one.steps == flat else "any" if any(one.steps) else "one" for one in task.operands]
    loads = [
        one for one, kind in zip(task.operands[: task.inputs], kinds, strict=False) if kind != "one"
    ] or list(task.operands[task.inputs :])
    width, unroll = _unroll(task, width, loads, SHAPE)
    placed = [one for one, kind in zip(task.operands, kinds, strict=True) if kind == "any"]
    chunk = SHAPE.block * width * unroll
    table = iter(range(len(placed)))
    patterns = [{"access": kind, "table": next(table) if kind == "any" else 0} for kind in kinds]
    variables = _common(task, SHAPE.block, width, unroll, SHAPE.streaming) | {
        "chunk": chunk,
        "axes": len(task.shape),
    }
    grid = -(-task.size // chunk), 1, 1
    return Work(FLAT, variables, patterns, grid, SHAPE.block, _layout(task, task.shape, placed), (task.size,))


def _lanes(columns: int, width: int, block: int) -> int:
    """Threads along a row, chosen to leave few idle at its end."""
    packs = -(-columns // width)
    idle = {lanes: -(-packs // lanes) * lanes / packs for lanes in (256, 128, 64, 32) if lanes <= block}
    return next((lanes for lanes, share in idle.items() if share <= 1.125), min(idle, key=lambda n: idle[n]))


def summed(task: Task, size: int) -> Work | None:
    """The launch over rows that also sums columns, with ``size`` bytes of sums for each; None if it is not faster."""
    width = _row_width(task)
    if width == 1 or width * size > _SUMS or task.statements > _LONG or task.shape[-1] < 32 * width:
        return None
    if math.prod(task.shape) < _FEWEST_SUMMED:
        return None
    return _rows(task, width, SUM_SHAPE)


def summed_along(task: Task, sums: int) -> Work | None:
    """The launch over rows, each of a part of a warp, that also sums along them; None if it is not faster.

    Args:
        task: its last operands are the sums.
        sums: their number.
    """
    width, columns = _row_width(task._replace(operands=task.operands[:-sums])), task.shape[-1]
    lanes = power_of_two(divide_up(columns, width))
    if width == 1 or lanes > _WARP or task.statements > _LONG or not any(task.operands[-1].steps):
        return None
    return _rows(task, width, lanes=lanes) if math.prod(task.shape) >= _FEWEST_SUMMED else None


def _rows(task: Task, width: int, shape: Shape = ROW_SHAPE, lanes: int = 0) -> Work:
    """The launch over rows along the inner axis, with ``lanes`` threads a row if they are given."""
    flat = contiguous_steps(task.shape)
    rows, columns = math.prod(task.shape[:-1]), task.shape[-1]
    patterns: list[dict[str, Any]] = []
    placed: list[Operand] = []
    for one in task.operands:
        kind = {0: "zero", 1: "unit"}.get(one.steps[-1], "any") if any(one.steps) else "one"
        fixed = not any(one.steps[:-1])
        patterns.append({"access": kind, "flat": one.steps == flat, "fixed": fixed, "table": len(placed)})
        if kind != "one" and one.steps != flat:
            placed.append(one)
    inputs = [*zip(task.operands[: task.inputs], patterns, strict=False)]
    loads = [one for one, pattern in inputs if pattern["access"] in ("unit", "any") and not pattern["fixed"]]
    width, unroll = _unroll(task, width, loads or list(task.operands[task.inputs :]), shape)
    lanes = lanes or _lanes(columns, width, shape.block)
    pieces, steps = -(-columns // (lanes * width)), -(-rows // (shape.block // lanes * unroll))
    held = any(pattern["fixed"] and pattern["access"] != "one" for _, pattern in inputs)
    rounds = max(1, min(shape.rounds, steps * pieces // 2048)) if held else 1
    if shape.blocks:
        rounds = max(shape.rounds, -(-steps * pieces // shape.blocks))
    variables = _common(task, shape.block, width, unroll, shape.streaming)
    variables |= {"lanes": lanes, "outer": len(task.shape) - 1}
    grid = pieces, min(_MOST_BLOCKS, -(-steps // rounds)), 1
    walked = _layout(task, task.shape[:-1], placed)
    return Work(ROWS, variables, patterns, grid, shape.block, walked, (rows, columns))


def _exchanged(task: Task) -> tuple[int, set[int]] | None:
    """The fastest axis of inputs that differs from the outputs' inner one, and these inputs."""
    inner = len(task.shape) - 1
    axis, staged = -1, set()
    if task.shape[inner] < _LEAST_SIDE or any(one.steps[inner] != 1 for one in task.operands[task.inputs :]):
        return None
    for k, one in enumerate(task.operands[: task.inputs]):
        if abs(one.steps[inner]) * one.size < _APART:
            continue
        fastest = next((i for i, step in enumerate(one.steps) if step == 1), None)
        if fastest is not None and task.shape[fastest] >= _LEAST_SIDE and axis in (-1, fastest):
            axis = fastest
            staged.add(k)
    return (axis, staged) if staged else None


def tiled(task: Task, table: dict[int, Tile]) -> Work | None:
    """The launch over tiles of the operands' two fastest axes.

    None if all have the same fastest axis, or for elements of 16 bytes, which fill a line of memory in groups of 8.
    """
    exchanged = _exchanged(task)
    if exchanged is None:
        return None
    axis, staged = exchanged
    tile = table.get(min(task.operands[k].size for k in staged))
    if tile is None:
        return None
    on_host = tile.block == 1
    if sum(task.operands[k].size for k in staged) * tile.side**2 > _SHARED_BYTES * (16 if on_host else 1):
        return None
    order = [i for i in range(len(task.shape) - 1) if i != axis] + [axis, len(task.shape) - 1]
    task = task._replace(
        shape=tuple(task.shape[i] for i in order),
        operands=tuple(one._replace(steps=tuple(one.steps[i] for i in order)) for one in task.operands),
    )
    packs = [one for k, one in enumerate(task.operands) if k not in staged and one.steps[-1] == 1]
    widest = WIDEST // max(one.size for one in (*packs, *(task.operands[k] for k in staged)))
    width = _widest(widest, [(one, -1) for one in packs])
    pieces = {k: _widest(WIDEST // task.operands[k].size, [(task.operands[k], -2)]) for k in staged}
    whole = not on_host and task.statements * tile.side**2 // tile.block <= _STATEMENTS
    whole = whole and min(width, *pieces.values()) > 0
    patterns = _tile_accesses(task, pieces)
    *batch, rows, columns = task.shape
    down, across = -(-rows // tile.side), -(-columns // tile.side)
    paired = not on_host and not batch and down == across and _mirrored(task, staged)
    variables = _common(task, tile.block, width or widest, 1, SHAPE.streaming)
    variables |= {"tile": tile.side, "batches": len(batch), "whole": whole, "paired": paired}
    blocks = down * (down + 1) if paired else down * across * math.prod(batch)
    sizes = [across + 1 - across % 2 if paired else across, down, *batch]
    stride = [one.steps for one in task.operands if any(one.steps)]
    walked = layout_params({"by": DIVISOR}, by=[_divisor(n) for n in sizes], stride=stride)
    return Work(TILES, variables, patterns, (blocks, 1, 1), tile.block, walked, (rows, columns))


def _in_packs(one: Operand, unit: int, width: int) -> bool:
    """Whether packs of an operand along the axis ``unit``, where its stride is 1, are aligned."""
    others = [step for i, step in enumerate(one.steps) if i != len(one.steps) + unit]
    return one.aligned and not any(step % width for step in others)


def _widest(most: int, operands: Sequence[tuple[Operand, int]]) -> int:
    """The elements of packs along an axis of each operand that are aligned: ``most`` or half of it, or else 0."""
    return next((n for n in (most, most // 2) if n and all(_in_packs(*one, n) for one in operands)), 0)


def _mirrored(task: Task, staged: set[int]) -> bool:
    """Whether an input looks like the transpose of another in the same memory."""
    inputs = task.operands[: task.inputs]
    transposed = {(inputs[k].size, inputs[k].steps[::-1]) for k in staged}
    return any((one.size, one.steps) in transposed for one in inputs)


def _tile_accesses(task: Task, pieces: dict[int, int]) -> list[dict[str, Any]]:
    """The template variables of the operands, of which those that are staged are read in pieces of so many elements."""
    patterns: list[dict[str, Any]] = []
    table = 0
    for k, one in enumerate(task.operands):
        kind = "staged" if k in pieces else {0: "zero", 1: "unit"}.get(one.steps[-1], "any")
        pattern = kind if any(one.steps) else "one"
        patterns.append({"access": pattern, "table": table, "size": one.size, "pack": WIDEST // one.size})
        patterns[-1]["piece"] = pieces.get(k) or patterns[-1]["pack"]
        table += pattern != "one"
    return patterns


class _Group(NamedTuple):
    """Views of one array with equal strides.

    Attributes:
        first: the index of the operand from whose address the others are reached.
        shifts: by the index of a view, its elements from that address along each axis.
        unit: whether it steps by 1 along the rows.
    """

    first: int
    shifts: dict[int, tuple[int, ...]]
    unit: bool

    def phase(self, operands: Sequence[Operand], width: int) -> int | None:
        """The columns of the first view after one that is aligned for packs of ``width``; None if there are none."""
        one = operands[self.first]
        if not self.unit or any(step % width for step in one.steps[:-1]):
            return None
        if one.place is not None and one.place.aligned:
            return one.place.offset // one.size % width
        return next((-at[-1] % width for k, at in self.shifts.items() if operands[k].aligned), None)


class _Lines(NamedTuple):
    """What a patch reads of a group.

    Attributes:
        variables: of the template.
        places: by the index of a view, its first line, and its first column in the pieces.
        loads: the number of loads.
        registers: how many hold what is loaded.
        first: the columns before those of a patch that it reads.
        last: the columns after the first one of a patch.
    """

    variables: dict[str, Any]
    places: dict[int, tuple[int, int]]
    loads: int
    registers: int
    first: int
    last: int


def _shifts(distance: int, steps: Strides) -> tuple[int, ...] | None:
    """The elements along each axis that a distance in elements is, all of them few; None if there are none."""
    found = []
    for step in steps[:-1]:
        found.append((2 * distance + step) // (2 * step) if step else 0)
        distance -= found[-1] * step
    found.append(distance)
    return tuple(found) if max(map(abs, found)) <= _MOST_SHIFTED else None


def _groups(task: Task) -> list[_Group]:
    """The inputs that differ between elements, views of one array together."""
    groups: list[_Group] = []
    known: dict[Any, _Group] = {}
    for k, one in enumerate(task.operands[: task.inputs]):
        if not any(one.steps):
            continue
        unit, place = one.steps[-1] == 1, one.place
        key = k if place is None or not unit else (place.array, one.size, one.steps)
        own = known.get(key)
        if own is not None and place is not None:
            start = task.operands[own.first].place
            distance, rest = divmod(place.offset - (start.offset if start else 0), one.size)
            shifts = None if rest else _shifts(distance, one.steps)
            if shifts is not None:
                own.shifts[k] = shifts
                continue
        groups.append(_Group(k, {k: (0,) * len(one.steps)}, unit))
        known.setdefault(key, groups[-1])
    return groups


def _lines_of(group: _Group, task: Task, table: int, width: int, height: int) -> _Lines:
    """What a patch of so many columns and rows reads of a group."""
    size = task.operands[group.first].size
    phase = group.phase(task.operands, width) if width > 1 else None
    own, before = (1, 0) if phase is None else (width, phase)
    views = [(k, at[:-2], at[-2], at[-1] + before) for k, at in group.shifts.items()]
    planes = sorted({plane for _, plane, _, _ in views})
    least, most = (pick(row for _, _, row, _ in views) for pick in (min, max))
    chunk = min(column for *_, column in views) // own
    span = height + most - least
    lines: list[dict[str, Any]] = []
    for at, (plane, row) in enumerate((plane, row) for plane in planes for row in range(span)):
        read = [column for _, over, r, column in views if over == plane and 0 <= row - (r - least) < height]
        chunks = sorted({(column + c) // own for column in read for c in range(width)})
        shifts = [(axis, n) for axis, n in enumerate((*plane, row + least)) if n]
        first, last = (min(read), max(read) - 1) if read else (0, 0)
        lines.append({"at": at, "shifts": shifts, "chunks": chunks, "first": first, "last": last})
    used = [line for line in lines if line["chunks"]]
    pieces = 1 + max(line["chunks"][-1] for line in used) - chunk
    variables: dict[str, Any] = {"k": group.first, "table": table, "phase": before, "any": not group.unit}
    variables |= {"width": own, "lines": lines, "least": chunk, "pieces": pieces}
    places = {
        k: (planes.index(plane) * span + row - least, column - chunk * own) for k, plane, row, column in views
    }
    loads = sum(len(line["chunks"]) for line in used)
    # The last column of a pack is one that a view has, and so is the first.
    beyond = [line["chunks"][-1] * own + own - 1 - line["last"] for line in used] if own > 1 else []
    inside = [line["first"] - line["chunks"][0] * own for line in used] if own > 1 else []
    return _Lines(
        variables,
        places,
        loads,
        loads * divide_up(own * size, 4),
        max(inside, default=0),
        max([width, *beyond]),
    )


def stencil(task: Task) -> Work | None:
    """The launch by patches, of which a thread computes one; None if few inputs are views of one array."""
    if all(one.place is None for one in task.operands):
        return None
    if len(task.shape) == 1:
        operands = tuple(one._replace(steps=(0, *one.steps)) for one in task.operands)
        task = task._replace(shape=(1, *task.shape), operands=operands)
    rows, columns = task.shape[-2:]
    outputs = task.operands[task.inputs :]
    if columns < LEAST_COLUMNS or any(one.steps[-1] != 1 for one in outputs):
        return None
    groups = _groups(task)
    most = max(groups, key=lambda one: len(one.shifts), default=None)
    if most is None or len(most.shifts) < FEWEST_VIEWS:
        return None
    width = _patch_width(task, groups, most)
    staged = _PATCHES * width * sum(one.size for one in outputs)
    sizes: list[tuple[float, int, list[_Lines]]] = []
    for height in range(1, 1 + min(rows, _MOST_ROWS)):
        size = height * width
        if height > 1 and (size * task.statements > _STATEMENTS or height * staged > _STAGED_BYTES):
            break
        if height > 1 and task.size < size * _FEWEST_THREADS:
            break
        read = [_lines_of(one, task, i, width, height) for i, one in enumerate(groups)]
        if sum(one.registers for one in read) > _WINDOW:
            break
        loads = _PATCH_LOADS + sum(one.loads for one in read)
        sizes.append((loads / size, height, read))
    if not sizes:
        return None
    least = min(cost for cost, *_ in sizes)
    _, height, read = next(one for one in sizes if one[0] <= least * (1 + _GAIN))
    return _patches(task, groups, width, height, read)


def _patch_width(task: Task, groups: Sequence[_Group], most: _Group) -> int:
    """The columns of a patch: a pack in which the largest group is loaded, or 1."""
    outputs = task.operands[task.inputs :]
    width = WIDEST // max(one.size for one in (*[task.operands[own.first] for own in groups], *outputs))
    while width > 1:
        fits = most.phase(task.operands, width) is not None and task.shape[-1] >= 32 * width
        if fits and width * max(1, task.statements) <= _STATEMENTS:
            break
        width //= 2
    return max(1, width)


def _patches(
    task: Task, groups: Sequence[_Group], width: int, height: int, read: Sequence[_Lines]
) -> Work | None:
    """The launch by patches of this size; None if it had too many blocks."""
    *planes, rows, columns = task.shape
    outputs = task.operands[task.inputs :]
    by = (*planes, divide_up(rows, height))
    strips = math.prod(by)
    lanes = _PATCHES // min(_PATCHES // 32, power_of_two(strips))
    grid = divide_up(columns, lanes * width), divide_up(strips, _PATCHES // lanes), 1
    if grid[1] > _MOST_BLOCKS:
        return None
    patterns: list[dict[str, Any]] = [{"access": "one"} for _ in task.operands]
    for i, one in enumerate(read):
        for k, (line, column) in one.places.items():
            own = one.variables["width"]
            patterns[k] = {"access": "view", "group": i, "line": line, "column": column, "width": own}
    for i, out in enumerate(outputs):
        kind = "single" if width == 1 else "pack" if _in_packs(out, -1, width) else "staged"
        patterns[task.inputs + i] = {"access": kind, "table": len(groups) + i}
    variables = _common(task, _PATCHES, width, 1, SHAPE.streaming)
    variables |= {
        "lanes": lanes,
        "height": height,
        "outer": len(by),
        "groups": [one.variables for one in read],
    }
    variables |= {pick: max(getattr(one, pick) for one in read) for pick in ("first", "last")}
    placed = [*[task.operands[one.first] for one in groups], *outputs]
    return Work(
        STENCIL, variables, patterns, grid, _PATCHES, _layout(task, by, placed), (rows, columns, strips)
    )
