"""Products that end with an elementwise expression in one launch: the forms of the kernel, and which is taken."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from .. import dtypes
from ..array import Array
from ..array.layout import Layout, fresh_layout
from ..device import Device
from ..elementwise.program import Program
from ..elementwise.row import convert_scalar
from ..kernel import Kernel
from ..kernel import plan as kernel_plan
from ..kernel.plan import on
from ..kernel.sizes import divide_up
from ..kernel.strides import broadcast_shapes
from .few_rows import FewRows, few_rows_for
from .measured import is_own_faster
from .task import Task, structs, task_of, variables

_KERNELS = {False: Kernel("linear/product_mma.cu"), True: Kernel("linear/product_wgmma.cu")}
#: Elements of 16 bits in an access of 16 bytes.
_CHUNK = 8


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
    def kernel(self) -> Kernel:
        """The kernel."""
        return _KERNELS[self.grouped]

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return 32 * self.warps_m * self.warps_n

    @property
    def shared(self) -> int:
        """Bytes of shared memory of a block."""
        return 2 * self.stages * self.depth * (self.m + self.n) + (1024 if self.grouped else 0)

    def variables(self, program: Program, elem: dtypes.DType, task: Task) -> dict[str, Any]:
        """The template variables."""
        return {
            **variables(program, elem, task),
            "name": f"{program.name}_{dtypes.info(elem).name}_{self.m}x{self.n}",
            "block": self.threads,
            "tile_m": self.m,
            "tile_n": self.n,
            "warps_m": self.warps_m,
            "warps_n": self.warps_n,
            "depth": self.depth,
            "stages": self.stages,
            "band": self.band,
            "wide": task.n % _CHUNK == 0,
            "a_by_depth": task.a.by_depth,
            "b_by_depth": task.b.by_depth,
        }

    def grid(self, task: Task) -> tuple[int, int, int]:
        """Blocks along each axis."""
        return divide_up(task.m, self.m) * divide_up(task.n, self.n), task.batches, 1

    def tail(self, task: Task) -> tuple[bytes, bytes]:
        """The kernel's structs."""
        tiles = divide_up(task.m, self.m), divide_up(task.n, self.n)
        steps = (task.a.batch, task.b.batch, task.a.row, task.b.row)
        return structs(task, steps, (task.m, task.n, task.k, *tiles))


#: A warp with 64 by 64 elements reads shared memory half as often as one with 32 by 32.
TILES = (
    Tile(256, 128, 16, 1, 4, 2.0, grouped=True),
    Tile(128, 128, 8, 1, 3, 1.6, grouped=True),
    Tile(128, 256, 2, 4, 3, 1.0),
    Tile(128, 128, 2, 2, 3, 0.9),
    Tile(64, 128, 2, 2, 4, 0.7),
    Tile(64, 64, 2, 2, 4, 0.5),
)


Form = Tile | FewRows


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


class Plan(kernel_plan.Plan):
    """The launch of a product for arrays of given layouts.

    Attributes:
        converters: functions that convert each Python number to the dtype in which it is computed.
        bound: the kernel.
    """

    __slots__ = ("bound", "converters")

    def __init__(self, program: Program, task: Task, form: Form, out: Layout) -> None:
        self.converters = tuple(partial(convert_scalar, dtype=dtype) for dtype in program.scalars)
        with on(out.device):
            self.bound = form.kernel.bind(out.device, **form.variables(program, out.dtype, task))
            block = (form.threads, 1, 1)
            launch = self.bound.function.prepare(form.grid(task), block, form.shared, form.tail(task))
        super().__init__(out.device, (out,), launch)

    def run(self, arrays: Sequence[Array], scalars: Sequence[Any]) -> Array:
        """Launch and return the result, a new array."""
        numbers = [convert(value) for convert, value in zip(self.converters, scalars, strict=True)]
        assert self.launch is not None
        with on(self.device):
            made = Array._made(self.layouts[0])
            self.launch(*[one._operand for one in arrays], *numbers, made._operand)
        return made


def quickest(task: Task, device: Device) -> Form | None:
    """The form to use; None if the device has no tensor cores, or its library is faster."""
    if device.style == "serial" or device.properties.compute_capability < (8, 0):
        return None
    sizes = (task.batches, task.m, task.k, task.n)
    few = few_rows_for(task, device)
    if few is not None:
        return few if is_own_faster(*sizes, task.b.by_depth, "few rows") else None
    if task.itemsize != 2:
        return None
    return tile_for(task, device) if is_own_faster(*sizes, task.b.by_depth) else None


def make_plan(
    program: Program, a: Layout, b: Layout, operands: Sequence[Layout], form: Form | None = None
) -> Plan | None:
    """A launch for arrays of these layouts; None if the library is faster, or no kernel takes them.

    Args:
        program: of the product, as its first input, and of ``operands``; its one output is of the factors' dtype, which
            is float16, bfloat16 or float32.
        a: shape (..., m, k).
        b: shape (..., k, n).
        operands: broadcast to the product.
        form: the one to use, on any device.
    """
    task = task_of(a, b, operands)
    if task is None or (form := form or quickest(task, a.device)) is None:
        return None
    batch = broadcast_shapes("matmul", [a.shape[:-2], b.shape[:-2]])
    return Plan(program, task, form, fresh_layout(a.device, a.dtype, (*batch, a.shape[-2], b.shape[-1])))
