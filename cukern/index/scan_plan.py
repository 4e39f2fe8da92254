"""Plans of scans: sequential columns on the host, rows and columns in tiles on a GPU.

A GPU reads each element once and writes it once. Few long rows, and long columns, are split into tiles that are
scanned in parallel, with decoupled look-back (Merrill and Garland, "Single-pass parallel prefix scan with decoupled
look-back", 2016). Sums are grouped by position, not by the order in which tiles finish, so every run gives the same
bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from .. import dtypes
from ..array import Array
from ..array.layout import Layout, fresh_layout
from ..cache import Cache
from ..device import Device
from ..device.interface import Prepared, Style
from ..dtypes import DType
from ..elementwise.print_cxx import compute_type
from ..kernel import Kernel
from ..kernel import plan as kernel_plan
from ..kernel.plan import on
from ..kernel.sizes import divide_up, index_type, power_of_two
from ..shape.views import permute_dims, reshape

_SERIAL = Kernel("index/scan.cu", block=1)
_ROWS = Kernel("index/scan_rows.cu", block=256)
_TILES = Kernel("index/scan_tiles.cu", block=256)
_COLUMNS = Kernel("index/scan_columns.cu", block=256)
#: The fewest elements that a host thread scans, in one column or in several.
_PIECE = 1 << 16
#: Neighbouring columns that a host thread scans together if columns are not contiguous.
_TILE = 64
#: Threads that keep a GPU busy: 1024 in each of 128 multiprocessors, with four packs of 16 bytes in flight per thread.
_BUSY = 1 << 17
#: Rows from which one block per row fills the GPU; fewer rows are split into tiles.
_ROWS_BUSY = 264
#: Packs per thread in a row that one block walks, by elements per pack. Two steps are held in registers; 64 registers
#: per thread leave room for 1024 threads per multiprocessor.
_WALK_PACKS = {1: 4, 2: 4, 4: 4, 8: 4, 16: 2}
#: A block walks rows with fewer packs; few longer rows are split into tiles.
_TILED = 1 << 13
#: Threads per tile.
_TILE_BLOCK = 256
#: Bytes of shared memory per thread of a tile.
_TILE_BYTES = 128
#: Resident tiles per multiprocessor: 192 KiB in flight hide the latency of memory and of the look-back.
_RESIDENT = 6
#: Tiles below which each is half as large.
_FEW_TILES = 264
#: Nanoseconds between two polls of the look-back.
_PAUSE = 20
#: Columns below which the look-back from tile to tile takes longer than moving the axis to the end, scanning and
#: moving it back.
_FEW_COLUMNS = 1024


@dataclass(frozen=True, eq=False)
class Scan:
    """How a scan combines numbers: C++ over the prefix ``a`` and the next number ``b``.

    Attributes:
        name: the public name.
        combine: the combination of ``a`` and ``b``.
        identity: the neutral element.
        wide: whether float32 accumulates in float64.
        pair: whether its elements are pairs, from two arrays.
    """

    name: str
    combine: str
    identity: str
    wide: bool = False
    pair: bool = False


class Serial(NamedTuple):
    """Sequential columns, for the host, and for rows shorter than a pack.

    Attributes:
        block: threads per block.
        tile: neighbouring columns that one thread scans together.
        columns_piece: columns per thread.
    """

    block: int
    tile: int
    columns_piece: int


class Rows(NamedTuple):
    """Rows of contiguous elements.

    Attributes:
        block: threads per block.
        lanes: threads that walk along a row together: a power of two up to 32, or the block.
        packs: packs of up to 16 bytes per thread and step.
    """

    block: int
    lanes: int
    packs: int


class Tiles(NamedTuple):
    """Few long rows of contiguous elements, split into tiles in shared memory.

    Attributes:
        block: threads per block, whole warps; a block scans one tile.
        packs: packs of up to 16 bytes per thread.
        resident: blocks resident per multiprocessor, which limits their registers.
    """

    block: int
    packs: int
    resident: int


class Columns(NamedTuple):
    """Columns, whose elements are strided.

    Attributes:
        block: threads per block.
        lanes: threads along a row of the tile, a power of two up to 32.
        items: rows per thread.
        width: neighbouring columns per thread.
    """

    block: int
    lanes: int
    items: int
    width: int


Shape: TypeAlias = Serial | Rows | Tiles | Columns


class Task(NamedTuple):
    """The work of a scan.

    Attributes:
        outer, n, inner: the array's shape, scanned along the middle axis.
        source, result: bytes of an element.
        pair: whether there are two arrays.
        aligned: whether the addresses are multiples of 16 bytes.
    """

    outer: int
    n: int
    inner: int
    source: int
    result: int
    pair: bool = False
    aligned: bool = True


def shape_for(style: Style, task: Task) -> Shape:
    """The geometry for a style of device."""
    if style == "serial":
        tile = _TILE if task.inner > 1 else 1
        return Serial(1, tile, max(tile, _PIECE // max(1, task.n)))
    if task.inner == 1 and task.n < pack_width(task.source, task.result):
        return Serial(256, 1, 1)
    return _rows_shape(task) if task.inner == 1 else _columns_shape(task)


def pack_width(source: int, result: int) -> int:
    """Elements per pack: 16 bytes of the wider type, but at least 4 bytes of the other."""
    return max(16 // max(source, result), 4 // source)


def _shared_bytes(task: Task) -> int:
    """Bytes of a pack in shared memory, in which results overwrite elements of the same size."""
    width = pack_width(task.source, task.result)
    return width * (
        task.source * (2 if task.pair else 1) + (task.result if task.result != task.source else 0)
    )


def _rows_shape(task: Task) -> Rows | Tiles:
    width = pack_width(task.source, task.result)
    packs = divide_up(task.n, width) + (task.n % width > 0)
    if task.outer < _ROWS_BUSY and packs > _TILED // (2 if task.pair else 1):
        each = _TILE_BYTES // _shared_bytes(task)
        if packs * task.outer < _FEW_TILES * _TILE_BLOCK * each:
            each //= 2
        return Tiles(_TILE_BLOCK, 1 << max(each, 1).bit_length() - 1, _RESIDENT)
    held = _WALK_PACKS[width] // (2 if task.pair else 1)
    if packs <= 32:
        return Rows(256, power_of_two(packs), 1)
    lanes = 32
    while lanes < 512 and task.outer * lanes < _BUSY and lanes * held < packs:
        lanes *= 2
    return Rows(256 if lanes == 32 else lanes, lanes, min(held, divide_up(packs, lanes)))


def _columns_shape(task: Task) -> Columns:
    width = max(1, 4 // max(task.source, task.result))
    while width > 1 and (task.inner % width or not task.aligned):
        width //= 2
    lanes = min(32, power_of_two(divide_up(task.inner, width)))
    items = min(16 if task.pair else 32, max(4, power_of_two(task.n)))
    groups = min(256 // lanes, power_of_two(divide_up(task.n, items)))
    return Columns(max(32, groups * lanes), lanes, items, width)


def _moves_axis(task: Task, shape: Shape) -> bool:
    """Whether to move the axis to the end, because there are too few columns for the look-back."""
    if not isinstance(shape, Columns) or task.inner * task.outer >= _FEW_COLUMNS:
        return False
    return task.n > 16 * shape.items * (shape.block // shape.lanes)


def accumulator_of(scan: Scan, value: DType) -> DType:
    """The dtype in which a scan of a dtype is accumulated; integers wrap around, in unsigned arithmetic."""
    if dtypes.info(value).kind in "iu" and scan.wide:
        return dtypes.uint64
    if value == dtypes.float32 and scan.wide:
        return dtypes.float64
    if value == dtypes.complex64 and scan.wide:
        return dtypes.complex128
    return dtypes.info(value).acc


class Plan(kernel_plan.Plan):
    """A launch for arrays of one layout.

    Attributes:
        status_words: the number of 64-bit zero words that the launch takes after the result.
    """

    __slots__ = ("status_words",)

    def __init__(self, layout: Layout, launch: Prepared | None = None, status_words: int = 0) -> None:
        super().__init__(layout.device, (layout,), launch)
        self.status_words = status_words

    def __call__(self, *arrays: Array) -> Array:
        """The scan of the arrays, whose device is the current one."""
        if self.launch is None or not self.status_words:
            return super().__call__(*arrays)
        result = Array._made(self.layouts[0])
        # Memory of this launch only: other launches may run on other streams.
        status = self.device.xp.zeros(self.status_words, dtypes.uint64)
        self.launch(*[x._operand for x in (*arrays, result)], self.device.backend.operand(status))
        return result


class _Launch(NamedTuple):
    """A kernel, its template variables, and its launch arguments."""

    kernel: Kernel
    variables: dict[str, Any]
    grid: int
    status_words: int
    tail: tuple[int, ...]


def _serial(task: Task, shape: Serial, lead: int) -> _Launch:
    columns = task.outer * task.inner
    tail = (columns, shape.columns_piece, task.n, task.inner, lead)
    variables = {"block": shape.block, "tile": shape.tile}
    return _Launch(_SERIAL, variables, divide_up(columns, shape.block * shape.columns_piece), 0, tail)


def _row_launch(task: Task, shape: Rows, lead: int) -> _Launch:
    width = pack_width(task.source, task.result)
    # A row may begin anywhere within a pack.
    total = task.n + width - 1
    variables = {
        "block": shape.block,
        "lanes": shape.lanes,
        "packs": shape.packs,
        "width": width,
        "single": total <= shape.lanes * width * shape.packs,
        "index": _index(task),
    }
    grid = divide_up(task.outer, shape.block // shape.lanes)
    return _Launch(_ROWS, variables, grid, 0, (task.outer, task.n, total, lead))


def _tile_launch(task: Task, shape: Tiles, lead: int, words: int) -> _Launch:
    width = pack_width(task.source, task.result)
    tiles = divide_up(task.n + width - 1, shape.block * shape.packs * width)
    variables = {
        "block": shape.block,
        "packs": shape.packs,
        "resident": shape.resident,
        "width": width,
        "in_place": task.source == task.result,
        "pause": _PAUSE,
        "index": _index(task),
    }
    status_words = 2 + task.outer * (tiles + divide_up(tiles, 32) + tiles // 1024 + 1) * words
    return _Launch(_TILES, variables, task.outer * tiles, status_words, (task.outer, task.n, lead, tiles))


def _index(task: Task) -> str:
    return index_type(task.n)


def _column_launch(task: Task, shape: Columns, lead: int, words: int) -> _Launch:
    groups, columns = shape.block // shape.lanes, shape.lanes * shape.width
    strips = task.outer * divide_up(task.inner, columns)
    pieces = max(1, divide_up(task.n, groups * shape.items))
    variables = {
        "block": shape.block,
        "lanes": shape.lanes,
        "items": shape.items,
        "width": shape.width,
        "chained": pieces > 1,
        "pause": _PAUSE,
    }
    status_words = 2 + pieces * strips * columns * words if pieces > 1 else 0
    return _Launch(_COLUMNS, variables, strips * pieces, status_words, (task.n, task.inner, strips, lead))


def _absent(scan: Scan, source: DType) -> str:
    """The C++ of a neutral element of type S."""
    if scan.pair:
        return "S(1)"
    if source in dtypes.FLOATS:
        return f"cast<S>({scan.identity})"
    return scan.identity.replace("T(", "S(").replace("<T>", "<S>")


def _make_plan(
    device: Device,
    scan: Scan,
    task: Task,
    shape: Shape,
    layout: Layout,
    source: DType,
    reverse: bool,
    lead: bool,
) -> Plan:
    if not layout.size:
        return Plan(layout)
    accumulator = dtypes.info(accumulator_of(scan, layout.dtype))
    words = divide_up(accumulator.itemsize * (2 if scan.pair else 1), 4)
    if isinstance(shape, Serial):
        chosen = _serial(task, shape, lead)
    elif isinstance(shape, Rows):
        chosen = _row_launch(task, shape, lead)
    elif isinstance(shape, Tiles):
        chosen = _tile_launch(task, shape, lead, words)
    else:
        chosen = _column_launch(task, shape, lead, words)
    block = chosen.variables["block"]
    bound = chosen.kernel.bind(
        device,
        name=f"{scan.name}_{dtypes.info(source).name}_{block}",
        scan=scan.name,
        pair=scan.pair,
        combine=scan.combine,
        identity=scan.identity,
        absent=_absent(scan, source),
        reverse=reverse,
        source=dtypes.info(source).cxx,
        compute=compute_type(layout.dtype),
        result=dtypes.info(layout.dtype).cxx,
        accumulator=accumulator.cxx,
        **chosen.variables,
    )
    launch = bound.function.prepare((chosen.grid, 1, 1), (block, 1, 1), 0, chosen.tail)
    return Plan(layout, launch, chosen.status_words)


_plans: Cache[tuple[Any, ...], Plan] = Cache()


def scanned(
    scan: Scan,
    xs: Sequence[Array],
    axis: int,
    value: DType,
    reverse: bool = False,
    lead: bool = False,
    shape: Shape | None = None,
) -> Array:
    """The scan of an array, or of a pair of one shape, along an axis in the dtype ``value``.

    With ``lead`` the result starts with the identity. Elements are combined in the same order in every run.
    """
    sources = [x if x._planned().contiguous else x.contiguous() for x in xs]
    layouts = tuple(x._planned() for x in sources)
    key = (scan, axis, value, reverse, lead, type(shape), shape, *layouts)
    plan, device = _plans.get(key), sources[0].device
    with on(device):
        if plan is not None:
            return plan(*sources)
        source, sizes = layouts[0].dtype, layouts[0].shape
        task = Task(
            math.prod(sizes[:axis]),
            sizes[axis],
            math.prod(sizes[axis + 1 :]),
            source.itemsize,
            value.itemsize,
            scan.pair,
            all(layout.aligned for layout in layouts),
        )
        chosen = shape or shape_for(device.style, task)
        if shape is None and _moves_axis(task, chosen):
            return _with_axis_moved(scan, sources, task, value, reverse, lead, axis)
        layout = fresh_layout(device, value, (*sizes[:axis], sizes[axis] + lead, *sizes[axis + 1 :]))
        plan = _make_plan(device, scan, task, chosen, layout, source, reverse, lead)
        return _plans.keep(key, plan)(*sources)


def _with_axis_moved(
    scan: Scan, xs: Sequence[Array], task: Task, value: DType, reverse: bool, lead: bool, axis: int
) -> Array:
    flat = [reshape(x, (task.outer, task.n, task.inner)) for x in xs]
    result = scanned(scan, [permute_dims(x, (0, 2, 1)) for x in flat], 2, value, reverse, lead)
    shape = xs[0].shape
    sizes = (*shape[:axis], shape[axis] + lead, *shape[axis + 1 :])
    return reshape(permute_dims(result, (0, 2, 1)).contiguous(), sizes)
