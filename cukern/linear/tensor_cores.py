"""Products that end with an elementwise expression in one launch: the forms of the kernel, and which is taken."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeGuard

from .. import dtypes
from ..array import Array
from ..array.layout import Layout, address, fresh_layout
from ..device import Device
from ..device.interface import Prepared, Tiles
from ..device.precision import allows_tf32
from ..elementwise.graph import cast, input_node
from ..elementwise.plan import converter
from ..elementwise.program import Program, program
from ..kernel import Kernel
from ..kernel import plan as kernel_plan
from ..kernel.bound import BoundKernel
from ..kernel.plan import on, remember
from ..kernel.sizes import ACCESS, LARGEST_INDEX, divide_up
from ..kernel.strides import broadcast_shapes
from ..text import Dim3
from . import library, parts
from .by_rows import Lanes, lanes_for
from .few_rows import FewRows, few_rows_for
from .measured import ratio
from .task import Rows, Task, kind_of, parts_of, task_of, tiled_structs, tiled_variables
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
        parts: blocks that share the depth of a tile, whose sums another kernel adds up.
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
    parts: int = 1

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
            **tiled_variables(program, elem, task, self.m, self.n),
            "block": self.threads,
            "warps_m": self.warps_m,
            "warps_n": self.warps_n,
            "depth": self.depth * 2 // task.itemsize,
            "stages": self.stages,
            "band": self.band,
            "wide": task.n * task.itemsize % ACCESS == 0,
        }

    def grid(self, task: Task) -> Dim3:
        """Blocks along each axis."""
        tiles = divide_up(task.m, self.m) * divide_up(task.n, self.n)
        return tiles, task.batches, parts_of(task, self.parts, self.depth * 2 // task.itemsize)

    def tail(self, task: Task) -> tuple[bytes, bytes]:
        """The kernel's structs."""
        return tiled_structs(task, (divide_up(task.m, self.m), divide_up(task.n, self.n)))


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

#: Bytes of a slab along the depth, into how many parts the depth may be cut, and how many slabs each has at least.
_SLAB, _PARTS, _FEWEST_SLABS = 128, (1, 2, 4, 8, 16), 4
#: What adding up parts takes, in the time that the tensor cores of a multiprocessor need for an element of a tile and a
#: slab at rate 1: that of a launch, and of storing and loading a sum. Estimated for an H200.
_LAUNCH, _PART = 40_000.0, 0.04

#: Rows of a tile at most where they are reduced: what is little work beside loading is shared by more blocks.
_FEW_ROWS = 128

Own = Tile | TmaTile | FewRows | Lanes
Form = Own | library.Ending


def _tiles(task: Task, device: Device) -> list[Tile]:
    """The tiles that a device can make; the narrowest of few rows that have whole rows if these are reduced."""
    limits = device.properties
    found = [
        tile
        for tile in (TILES if task.itemsize == 2 else TF32_TILES)
        if tile.shared <= limits.max_shared_memory_per_block
        and (limits.compute_capability[0] == 9 or not tile.grouped)
    ]
    if task.rows is None:
        return found
    width = min((tile.n for tile in found if tile.n >= task.n), default=0)
    return [tile for tile in found if tile.n == width and tile.m <= _FEW_ROWS]


def tile_for(task: Task, device: Device, parts: Sequence[int] = _PARTS) -> Tile:
    """The tile of the least time: that of the busiest multiprocessor, and of adding up parts.

    Floats are rounded to tf32.

    Args:
        task: the product.
        device: where it runs.
        parts: into how many the depth may be cut.
    """
    limits = device.properties
    slabs = divide_up(task.k * task.itemsize, _SLAB)
    size = task.batches * task.m * task.n

    def cost(tile: Tile) -> float:
        blocks = tile.parts * task.batches * divide_up(task.m, tile.m) * divide_up(task.n, tile.n)
        waves = divide_up(blocks, limits.multiprocessors)
        made = waves * divide_up(slabs, tile.parts) * tile.m * tile.n / tile.rate
        return made + (_LAUNCH + _PART * tile.parts * size if tile.parts > 1 else 0)

    fits = [
        tile._replace(parts=number)
        for tile in _tiles(task, device)
        for number in parts
        if number == 1 or (slabs >= _FEWEST_SLABS * number and number * size <= LARGEST_INDEX)
    ]
    return min(fits, key=cost)


class Plan(kernel_plan.Plan):
    """The launch of a product for arrays of given layouts.

    Attributes:
        converters: functions that convert each Python number to the dtype in which it is computed.
        bound: the kernel that ends with the epilogue.
        backwards: what a tape records of a call, by which inputs are tracked.
        reads: the plan, without a launch, of what follows the saved product, as a tape records that.
    """

    __slots__ = (
        "_known",
        "_mapped",
        "_maps",
        "_multiply",
        "_sums",
        "backwards",
        "bound",
        "converters",
        "reads",
    )

    def __init__(
        self, made: Program, task: Task, form: Own, product: Layout, result: Layout | None = None
    ) -> None:
        out, elem = result or product, product.dtype
        self.converters = tuple(map(converter, made.scalars))
        self.reads: Any = None
        self._maps = form.maps(task, elem, out.strides[-2]) if isinstance(form, TmaTile) else ()
        #: Of which arguments, of the arrays and the result; as many as there are maps.
        self._mapped = (0, 1, *([1 + task.mapped] if len(self._maps) > 3 else []), -1)
        #: The maps of arrays at addresses that came before.
        self._known: dict[tuple[int, int], bytes] = {}
        self.backwards: dict[tuple[bool, ...], Any] = {}
        self._sums: Layout | None = None
        self._multiply: tuple[BoundKernel, Prepared] | None = None
        grid = form.grid(task)
        with on(out.device):
            if grid[2] > 1:
                self._sums = parts.sums(task, grid[2], out.device)
                first = parts.alone(made), task._replace(operands=())
                self._multiply = self._bind(form, *first, elem, grid, out.device)
                self.bound, launch = parts.adding(made, elem, task, grid[2], out.device)
            else:
                self.bound, launch = self._bind(form, made, task, elem, grid, out.device)
        super().__init__(out.device, (product, out) if task.saves else (out,), launch)

    def _bind(
        self, form: Own, made: Program, task: Task, elem: dtypes.DType, grid: Dim3, device: Device
    ) -> tuple[BoundKernel, Prepared]:
        bound = form.kernel.bind(device, **form.variables(made, elem, task))
        block, maps = (form.threads, 1, 1), [_MAP] * len(self._maps)
        return bound, bound.function.prepare(grid, block, form.shared, form.tail(task), maps)

    def run(self, arrays: Sequence[Array], scalars: Sequence[Any], into: Array | None = None) -> Array:
        """Launch and return the result: ``into``, or a new array if it is None."""
        return self.run_all(arrays, scalars, into)[-1]

    def run_all(
        self, arrays: Sequence[Array], scalars: Sequence[Any], into: Array | None = None
    ) -> list[Array]:
        """Launch and return the product, if it is saved, and the result."""
        assert self.launch is not None
        with on(self.device):
            outs = [Array._made(self.layouts[0]) if into is None else into]
            for layout in self.layouts[1:]:
                outs.append(Array._made(layout))
            values = [one._operand for one in arrays]
            if scalars:
                values += [convert(value) for convert, value in zip(self.converters, scalars, strict=True)]
            for one in outs:
                values.append(one._operand)
            if self._maps:
                for place, tiles in zip(self._mapped, self._maps, strict=True):
                    values[place] = self._map(place, tiles, outs[-1] if place < 0 else arrays[place])
            if self._multiply is not None and self._sums is not None:
                sums = Array._made(self._sums)
                self._multiply[1](*values[:2], sums._operand)
                values[:2] = [sums._operand]
            self.launch(*values)
        return outs

    @property
    def source(self) -> str:
        """The text of the kernels."""
        bounds = [*([self._multiply[0]] if self._multiply else []), self.bound]
        return "\n".join(one.rendered.text for one in bounds)

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


def forms(
    task: Task, device: Device, tf32: bool = False, ending: library.Ending | None = None
) -> dict[str, Form]:
    """The forms that compute a product on a device with tensor cores, by their names in the table of times.

    Args:
        task: of elements of 16 or 32 bits.
        device: where it runs.
        tf32: whether floats may be rounded.
        ending: what follows the product, if that is something that the library does too.
    """
    found: dict[str, Form] = {}
    if ending is not None:
        found["library" if task.itemsize == 2 else "tf32 library" if tf32 else "library of float32"] = ending
    plain = not task.saves and task.rows is None
    few = few_rows_for(task, device) if task.rows is None else None
    if few is not None and plain:
        return {**found, "few rows" if task.itemsize == 2 else "few rows of float32": few}
    if few is not None or (task.itemsize == 4 and not tf32) or not _tiles(task, device):
        return found
    tile, fed = tile_for(task, device, _PARTS if plain else (1,)), tma_tile_for(task, device)
    what = f"{' of rows' if task.rows else ''}{' and product' if task.saves else ''}"
    if fed is not None and tile.parts == 1 and task.rows is None:
        found[f"{'tma' if task.itemsize == 2 else 'tf32 tma'}{what}"] = fed
    return {
        **found,
        f"{'tf32' if task.itemsize == 4 else 'parts' if tile.parts > 1 else 'tiles'}{what}": tile,
    }


def quickest(
    task: Task, device: Device, then: str = "bias", ending: library.Ending | None = None
) -> Form | None:
    """The form to use; None if the device has no tensor cores, or its library is faster.

    Args:
        task: the product.
        device: where it runs.
        then: what follows, as the table of times has it; if nothing, floats are not rounded by a form of this module.
        ending: that expression, if the library does it too.
    """
    if device.style == "serial" or device.properties.compute_capability < (8, 0) or task.itemsize > 4:
        return None
    found = forms(task, device, bool(then) and allows_tf32(), ending)
    if not then:  # what small products gain by tiles is less than compiling them takes
        found.pop("tiles", None)
    return _best(task, found, then)


def _best(task: Task, found: dict[str, Form], then: str = "bias") -> Form | None:
    """The form of the shortest time by the table; None if the library's is shorter."""
    sizes = (task.batches, task.m, task.k, task.n, task.b.by_depth)
    shares = {name: ratio(*sizes, name, then) for name in found}
    best = min(shares, key=shares.__getitem__, default="")
    return found[best] if best and shares[best] < 1 else None


def make_plan(
    made: Program, a: Layout, b: Layout, operands: Sequence[Layout], form: Form | None = None
) -> Plan | library.LibraryPlan | None:
    """A launch for arrays of these layouts; None if the library and a kernel are faster, or nothing takes them.

    Args:
        made: a program of the product, as its first input, and of ``operands``; its one output is of the factors'
            dtype, which is float16, bfloat16 or float32.
        a: shape (..., m, k).
        b: shape (..., k, n).
        operands: broadcast to the product.
        form: the one to use, on any device.
    """
    task = task_of(a, b, operands)
    if task is None:
        return None
    task = task._replace(alone=made.outputs[0].kind == "input")
    then = kind_of(made, task)
    form = form or quickest(task, a.device, then, library.ending_of(made, task, operands))
    if isinstance(form, library.Ending):
        plan = library.make_plan(form, task, _result(a, b))
        if plan is not None:
            return plan
        form = quickest(task, a.device, then)
    return Plan(made, task, form, _result(a, b)) if _is_own(form) else None


def make_saving(
    made: Program, a: Layout, b: Layout, operands: Sequence[Layout], form: Own | None = None
) -> Plan | None:
    """:func:`make_plan` of a launch that saves the product too; None if the library and a kernel are faster."""
    task = task_of(a, b, operands)
    if task is None:
        return None
    task = task._replace(saves=True)
    chosen = form or quickest(task, a.device)
    return Plan(made, task, chosen, _result(a, b)) if _is_own(chosen) else None


def make_rows(
    made: Program,
    a: Layout,
    b: Layout,
    operands: Sequence[Layout],
    rows: Rows,
    saves: bool = False,
    form: Own | None = None,
) -> Plan | None:
    """A launch that reduces the rows of a program's value; None if the library and a kernel are faster.

    Args:
        made: a program of the product, as its first input, and of ``operands``.
        a: shape (..., m, k), of a floating dtype.
        b: shape (..., k, n).
        operands: broadcast to the product.
        rows: the reduction.
        saves: whether the product is stored too.
        form: the one to use, on any device.
    """
    task = _of_rows(task_of(a, b, operands, isinstance(form, Lanes)), rows, saves)
    chosen: Form | None = form
    if chosen is None and task is not None:
        chosen = quickest(task, a.device)
    if chosen is None:
        task = _of_rows(task_of(a, b, operands, strided=True), rows, saves)
        chosen = None if task is None else _by_lanes(task, a)
    if task is None or not _is_own(chosen):
        return None
    return Plan(made, task, chosen, _result(a, b), _result_of_rows(a, b, rows))


def _of_rows(task: Task | None, rows: Rows, saves: bool) -> Task | None:
    return None if task is None else task._replace(rows=rows, saves=saves)


def _by_lanes(task: Task, a: Layout) -> Form | None:
    """The kernel without tensor cores, if the table says that it is faster."""
    lanes = None if a.device.style == "serial" else lanes_for(task, dtypes.info(a.dtype).acc)
    what = f"lanes of rows{' and product' if task.saves else ''} of {a.dtype}"
    return None if lanes is None else _best(task, {what: lanes})


def make_alone(a: Layout, b: Layout) -> Plan | None:
    """The launch of ``a @ b`` for arrays of these layouts; None if the library is faster, or no kernel takes them."""
    task = task_of(a, b, ())
    task = None if task is None else task._replace(alone=True)
    if task is None or not _is_own(form := quickest(task, a.device, then="")):
        return None
    total = cast(input_node(0, dtypes.float32), a.dtype)
    return Plan(program("matmul", (total,), (dtypes.float32,)), task, form, _result(a, b))


def _is_own(form: Form | None) -> TypeGuard[Own]:
    return form is not None and not isinstance(form, library.Ending)


def _result(a: Layout, b: Layout) -> Layout:
    """The layout of the product."""
    batch = broadcast_shapes("matmul", [a.shape[:-2], b.shape[:-2]])
    return fresh_layout(a.device, a.dtype, (*batch, a.shape[-2], b.shape[-1]))


def _result_of_rows(a: Layout, b: Layout, rows: Rows) -> Layout:
    """The layout of a number for each row of the product."""
    batch = broadcast_shapes("matmul", [a.shape[:-2], b.shape[:-2]])
    kept = (1,) if rows.keepdims else ()
    return fresh_layout(a.device, rows.result, (*batch, a.shape[-2], *kept))
