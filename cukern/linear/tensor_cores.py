"""Products that end with an elementwise expression in one launch: the forms of the kernel, and which is taken."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from .. import dtypes
from ..array import Array
from ..array.layout import Layout, address, fresh_layout
from ..device import Device
from ..device.interface import Tiles
from ..device.precision import allows_tf32
from ..elementwise.program import Program
from ..elementwise.row import convert_scalar
from ..kernel import Kernel
from ..kernel import plan as kernel_plan
from ..kernel.plan import on, remember
from ..kernel.sizes import ACCESS, divide_up
from ..kernel.strides import broadcast_shapes
from .few_rows import FewRows, few_rows_for
from .measured import ratio
from .task import Task, structs, task_of, variables
from .tma import TmaTile, tma_tile_for

_KERNELS = {False: Kernel("linear/product_mma.cu"), True: Kernel("linear/product_wgmma.cu")}
#: Bytes of a tensor map.
_MAP = 128


class Tile(NamedTuple):
    """What a block makes of the product.

    Attributes:
        m, n: rows and columns of a block's part of the product, multiples of 64.
        warps_m, warps_n: warps that share its rows, and its columns.
        stages: slabs of the factors in shared memory, all but one of them on their way.
        rate: about which share of the tensor cores' arithmetic it reaches.
        grouped: whether four warps multiply 64 rows together by the instructions of sm_90a.
        depth: of a slab of 16-bit elements; floats have half.
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
            "depth": self.depth * 2 // task.itemsize,
            "stages": self.stages,
            "band": self.band,
            "wide": task.n * task.itemsize % ACCESS == 0,
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
        return structs(task, steps, (task.batches, task.m, task.n, task.k, *tiles))


#: A warp with 64 by 64 elements reads shared memory half as often as one with 32 by 32.
TILES = (
    Tile(256, 128, 16, 1, 4, 2.0, grouped=True),
    Tile(128, 128, 8, 1, 3, 1.6, grouped=True),
    Tile(128, 256, 2, 4, 3, 1.0),
    Tile(128, 128, 2, 2, 3, 0.9),
    Tile(64, 128, 2, 2, 4, 0.7),
    Tile(64, 64, 2, 2, 4, 0.5),
)


#: Of floats rounded to tf32: a thread copies the same 16 bytes of every eighth line, or of fewer, and lines across the
#: depth have twice as many of them.
TF32_TILES = (
    Tile(128, 128, 2, 4, 4, 1.0),
    Tile(64, 128, 2, 4, 4, 0.7),
    Tile(64, 64, 2, 2, 4, 0.5),
)

Form = Tile | TmaTile | FewRows


def tile_for(task: Task, device: Device) -> Tile:
    """The tile of the least time: that of the busiest multiprocessor. Floats are rounded to tf32."""
    limits = device.properties

    def cost(tile: Tile) -> float:
        blocks = task.batches * divide_up(task.m, tile.m) * divide_up(task.n, tile.n)
        return divide_up(blocks, limits.multiprocessors) * tile.m * tile.n / tile.rate

    grouped = limits.compute_capability[0] == 9
    fits = [
        tile
        for tile in (TILES if task.itemsize == 2 else TF32_TILES)
        if tile.shared <= limits.max_shared_memory_per_block and grouped >= tile.grouped
    ]
    return min(fits, key=cost)


class Plan(kernel_plan.Plan):
    """The launch of a product for arrays of given layouts.

    Attributes:
        converters: functions that convert each Python number to the dtype in which it is computed.
        bound: the kernel.
    """

    __slots__ = ("_known", "_maps", "bound", "converters")

    def __init__(self, program: Program, task: Task, form: Form, out: Layout) -> None:
        self.converters = tuple(partial(convert_scalar, dtype=dtype) for dtype in program.scalars)
        self._maps = form.maps(task, out.dtype) if isinstance(form, TmaTile) else ()
        #: The maps of arrays at addresses that came before.
        self._known: dict[tuple[int, int], bytes] = {}
        with on(out.device):
            self.bound = form.kernel.bind(out.device, **form.variables(program, out.dtype, task))
            block, sizes = (form.threads, 1, 1), [_MAP] * len(self._maps)
            launch = self.bound.function.prepare(form.grid(task), block, form.shared, form.tail(task), sizes)
        super().__init__(out.device, (out,), launch)

    def run(self, arrays: Sequence[Array], scalars: Sequence[Any]) -> Array:
        """Launch and return the result, a new array."""
        numbers = [convert(value) for convert, value in zip(self.converters, scalars, strict=True)]
        assert self.launch is not None
        with on(self.device):
            made = Array._made(self.layouts[0])
            values = [*(one._operand for one in arrays), *numbers, made._operand]
            if self._maps:
                mapped = zip((0, 1, -1), self._maps, (*arrays[:2], made), strict=True)
                for place, tiles, one in mapped:
                    values[place] = self._map(place, tiles, one)
            self.launch(*values)
        return made

    def __call__(self, *arrays: Array) -> Array:
        """The result of a program that takes no numbers."""
        return self.run(arrays, ())

    def _map(self, place: int, tiles: Tiles, array: Array) -> bytes:
        """The map of an argument, which depends on the address alone."""
        at = address(array._data) if self.device.addressable else array._operand
        found = self._known.get((place, at))
        if found is None:
            made = self.device.backend.tensor_map(tiles._replace(address=at))
            found = remember(self._known, (place, at), made)
        return found


def quickest(task: Task, device: Device) -> Form | None:
    """The form to use; None if the device has no tensor cores, or its library is faster."""
    if device.style == "serial" or device.properties.compute_capability < (8, 0):
        return None
    few = few_rows_for(task, device)
    forms: dict[str, Form | None] = {"few rows": few}
    if few is None and task.itemsize == 2:
        forms = {"tma": tma_tile_for(task, device), "tiles": tile_for(task, device)}
    elif few is None:
        forms = {"tf32": tile_for(task, device) if allows_tf32() else None}
    sizes = (task.batches, task.m, task.k, task.n, task.b.by_depth)
    shares = {name: ratio(*sizes, name) for name, form in forms.items() if form is not None}
    best = min(shares, key=shares.__getitem__, default="")
    return forms[best] if best and shares[best] < 1 else None


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
