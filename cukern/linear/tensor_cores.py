"""Products on tensor cores that end with an elementwise expression: one launch."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from .. import dtypes
from ..array import Array
from ..array.layout import Layout, fresh_layout
from ..device import Device
from ..elementwise.print_cxx import compute_type, statements
from ..elementwise.program import Program
from ..elementwise.row import convert_scalar
from ..kernel import Kernel
from ..kernel import plan as kernel_plan
from ..kernel.plan import on
from ..kernel.sizes import LARGEST_INDEX, divide_up
from ..kernel.strides import broadcast_shapes, broadcast_steps, collapse, step_kind
from .measured import is_own_faster

_KERNELS = {False: Kernel("linear/product_mma.cu"), True: Kernel("linear/product_wgmma.cu")}
#: Elements of 16 bits in an access of 16 bytes.
_CHUNK = 8
#: Matrices of a batch at most: blocks along y.
_MOST_MATRICES = 65535


class Tile(NamedTuple):
    """What a block makes of the product.

    Attributes:
        m, n: rows and columns of a block's part of the product, multiples of 64.
        warps_m, warps_n: warps that share its rows, and its columns.
        stages: slabs of the factors in shared memory, all but one of them on their way.
        rate: about which share of the tensor cores' arithmetic it reaches.
        grouped: whether four warps multiply 64 rows together by the instructions of sm_90a.
        depth: of a slab.
        band: rows of tiles that are made column by column.
    """

    m: int
    n: int
    warps_m: int
    warps_n: int
    stages: int
    rate: float
    grouped: bool = False
    depth: int = 64
    band: int = 8

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return 32 * self.warps_m * self.warps_n

    @property
    def shared(self) -> int:
        """Bytes of shared memory of a block."""
        return 2 * self.stages * self.depth * (self.m + self.n) + (1024 if self.grouped else 0)


#: A warp with 64 by 64 elements reads shared memory half as often as one with 32 by 32.
TILES = (
    Tile(256, 128, 16, 1, 4, 2.0, grouped=True),
    Tile(128, 128, 8, 1, 3, 1.6, grouped=True),
    Tile(128, 256, 2, 4, 3, 1.0),
    Tile(128, 128, 2, 2, 3, 0.9),
    Tile(64, 128, 2, 2, 4, 0.7),
    Tile(64, 64, 2, 2, 4, 0.5),
)


class Factor(NamedTuple):
    """How a factor lies in memory: the steps through the batch and between its contiguous rows, in elements.

    Attributes:
        by_depth: whether it is contiguous along the axis that is summed over.
    """

    batch: int
    row: int
    by_depth: bool


class Task(NamedTuple):
    """A product in batches: sizes, factors, and the steps of each operand through batch, rows and columns."""

    batches: int
    m: int
    n: int
    k: int
    a: Factor
    b: Factor
    operands: tuple[tuple[int, ...], ...]


def task_of(a: Layout, b: Layout, operands: Sequence[Layout]) -> Task | None:
    """The product of two layouts whose shapes fit, and of operands that broadcast to it; None if the kernel cannot.

    It needs factors that are contiguous along one axis, in rows that begin at multiples of 16 bytes, and a batch whose
    matrices are at equal distances.
    """
    (m, k), n = a.shape[-2:], b.shape[-1]
    batch = broadcast_shapes("matmul", [a.shape[:-2], b.shape[:-2]])
    steps = [
        broadcast_steps(one, (*batch, *own))
        for one, own in ((a, (m, k)), (b, (k, n)), *((x, (m, n)) for x in operands))
    ]
    made = math.prod(batch) * m * n
    if not made * k or max(m, n, k, made // m, made // n) > LARGEST_INDEX or not (a.aligned and b.aligned):
        return None
    rows = [(*one[:-1],) for one in (steps[0], *steps[2:])]
    if not any(steps[1][:-2]) and steps[0][-1] in (0, 1):
        one_matrix = collapse((*batch, m), rows)  # all rows as those of one matrix
        if len(one_matrix.shape) <= 1:
            m, batch = math.prod((*batch, m)), ()
            own = [(one or (0,))[0] for one in one_matrix.steps]
            steps = [
                (own[0], steps[0][-1]),
                steps[1][-2:],
                *((s, x[-1]) for s, x in zip(own[1:], steps[2:], strict=True)),
            ]
    axes = collapse(batch, [one[:-2] for one in steps])
    if len(axes.shape) > 1 or math.prod(axes.shape) > _MOST_MATRICES:
        return None
    through = [(one or (0,))[0] for one in axes.steps]
    factors = (
        _factor(through[0], steps[0][-1], steps[0][-2], k, m),
        _factor(through[1], steps[1][-2], steps[1][-1], k, n),
    )
    if factors[0] is None or factors[1] is None:
        return None
    others = tuple((by, *one[-2:]) for by, one in zip(through[2:], steps[2:], strict=True))
    return Task(math.prod(axes.shape), m, n, k, factors[0], factors[1], others)


def _factor(batch: int, along_depth: int, along_own: int, k: int, size: int) -> Factor | None:
    for unit, row, by_depth, length in (
        (along_depth, along_own, True, k),
        (along_own, along_depth, False, size),
    ):
        if (unit == 1 or length == 1) and row % _CHUNK == 0 and batch % _CHUNK == 0 and row >= 0:
            return Factor(batch, row, by_depth)
    return None


def tile_for(task: Task, device: Device) -> Tile:
    """The tile of the least time: that of the busiest multiprocessor."""
    limits = device.properties

    def cost(tile: Tile) -> float:
        blocks = task.batches * divide_up(task.m, tile.m) * divide_up(task.n, tile.n)
        return divide_up(blocks, limits.multiprocessors) * tile.m * tile.n / tile.rate

    grouped = limits.compute_capability[0] == 9
    fits = [
        tile
        for tile in TILES
        if tile.shared <= limits.max_shared_memory_per_block and grouped >= tile.grouped
    ]
    return min(fits, key=cost)


def _is_wide(task: Task) -> bool:
    """Whether an offset may exceed 32 bits, those of rows beyond the last tile included."""
    across = max(task.m, task.n, task.k) + max(max(tile.m, tile.n) for tile in TILES)
    spans = [task.batches * abs(one.batch) + across * one.row for one in (task.a, task.b)]
    spans += [task.batches * abs(x) + task.m * abs(y) + task.n * abs(z) for x, y, z in task.operands]
    return max(task.batches * task.m * task.n, *spans) > LARGEST_INDEX


def _variables(program: Program, elem: dtypes.DType, task: Task, tile: Tile) -> dict[str, Any]:
    """The template variables of a kernel."""
    body, (value,) = statements(program.outputs)
    return {
        "name": f"{program.name}_{dtypes.info(elem).name}_{tile.m}x{tile.n}",
        "elem": elem,
        "block": tile.threads,
        "index": "long long" if _is_wide(task) else "int",
        "tile_m": tile.m,
        "tile_n": tile.n,
        "warps_m": tile.warps_m,
        "warps_n": tile.warps_n,
        "depth": tile.depth,
        "stages": tile.stages,
        "band": tile.band,
        "wide": task.n % _CHUNK == 0,
        "a_by_depth": task.a.by_depth,
        "b_by_depth": task.b.by_depth,
        "operands": [
            {
                "k": i,
                "type": dtypes.info(d).cxx,
                "compute": compute_type(d),
                "row": step_kind(row),
                "column": step_kind(column),
            }
            for i, (d, (_, row, column)) in enumerate(zip(program.inputs[1:], task.operands, strict=True), 1)
        ],
        "scalars": [compute_type(d) for d in program.scalars],
        "body": body,
        "value": value,
    }


def _tail(task: Task, tiles: tuple[int, int]) -> tuple[bytes, bytes]:
    """The kernel's structs: sizes, and the strides of the operands."""
    wide = _is_wide(task)
    code, padding = ("q", "4x") if wide else ("i", "")
    strides = (task.a.batch, task.b.batch, task.a.row, task.b.row)
    sizes = struct.pack(f"4{code}5i{padding}", *strides, task.m, task.n, task.k, *tiles)
    steps = [step for one in task.operands for step in one] or [0, 0, 0]
    return sizes, struct.pack(f"{len(steps)}{code}", *steps)


class Plan(kernel_plan.Plan):
    """The launch of a product for arrays of given layouts.

    Attributes:
        converters: functions that convert each Python number to the dtype in which it is computed.
        bound: the kernel.
    """

    __slots__ = ("bound", "converters")

    def __init__(self, program: Program, task: Task, tile: Tile, out: Layout) -> None:
        self.converters = tuple(partial(convert_scalar, dtype=dtype) for dtype in program.scalars)
        tiles = divide_up(task.m, tile.m), divide_up(task.n, tile.n)
        grid, block = (math.prod(tiles), task.batches, 1), (tile.threads, 1, 1)
        with on(out.device):
            self.bound = _KERNELS[tile.grouped].bind(out.device, **_variables(program, out.dtype, task, tile))
            launch = self.bound.function.prepare(grid, block, tile.shared, _tail(task, tiles))
        super().__init__(out.device, (out,), launch)

    def run(self, arrays: Sequence[Array], scalars: Sequence[Any]) -> Array:
        """Launch and return the result, a new array."""
        numbers = [convert(value) for convert, value in zip(self.converters, scalars, strict=True)]
        assert self.launch is not None
        with on(self.device):
            made = Array._made(self.layouts[0])
            self.launch(*[one._operand for one in arrays], *numbers, made._operand)
        return made


def quickest(task: Task, device: Device) -> Tile | None:
    """The tile to use; None if the device has no tensor cores, or its library is faster."""
    if device.style == "serial" or device.properties.compute_capability < (8, 0):
        return None
    sizes = (task.batches, task.m, task.k, task.n)
    return tile_for(task, device) if is_own_faster(*sizes, task.b.by_depth) else None


def make_plan(
    program: Program, a: Layout, b: Layout, operands: Sequence[Layout], tile: Tile | None = None
) -> Plan | None:
    """A launch for arrays of these layouts, of one half type; None if the library is faster, or the kernel cannot.

    Args:
        program: of the product, as its first input, and of ``operands``; its one output is of the factors' dtype.
        a: shape (..., m, k).
        b: shape (..., k, n).
        operands: broadcast to the product.
        tile: the one to use, on any device.
    """
    task = task_of(a, b, operands)
    if task is None or (tile := tile or quickest(task, a.device)) is None:
        return None
    batch = broadcast_shapes("matmul", [a.shape[:-2], b.shape[:-2]])
    return Plan(program, task, tile, fresh_layout(a.device, a.dtype, (*batch, a.shape[-2], b.shape[-1])))
