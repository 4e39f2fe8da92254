"""Tiles of a convolution's product on tensor cores, and how its arrays have to lie for them."""

from __future__ import annotations

from typing import Any, NamedTuple

from ... import dtypes
from ... import namespace as ops
from ...array import Array
from ...array.layout import Layout, fresh_layout, layout
from ...device import Device
from ...device.interface import Prepared
from ...device.precision import allows_tf32
from ...elementwise.program import Program
from ...kernel import Kernel
from ...kernel.sizes import ACCESS, divide_up
from .epilogue import steps, variables
from .geometry import Task, place_of

_KERNEL = Kernel("nn/convolution/product.cu")
#: Bytes of a slab along the depth; slabs that a part of the depth has at least; parts at most.
_SLAB, _FEWEST_SLABS, _MOST_PARTS = 128, 8, 256


class Tile(NamedTuple):
    """What a block makes of a product.

    Attributes:
        m, n: rows and columns, multiples of 64.
        warps_m, warps_n: warps that share its rows, and its columns.
        stages: slabs of the factors in shared memory, all but one of them on their way.
        slab: microseconds of a slab on an H200, measured.
        resident: blocks that a multiprocessor has at a time.
        grouped: whether four warps multiply 64 rows together by the instructions of sm_90a.
    """

    m: int
    n: int
    warps_m: int
    warps_n: int
    stages: int
    slab: float
    resident: int
    grouped: bool = False

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return 32 * self.warps_m * self.warps_n

    @property
    def shared(self) -> int:
        """Bytes of dynamic shared memory of a block."""
        return self.stages * _SLAB * (self.m + self.n) + (1024 if self.grouped else 0)

    def across(self, task: Task) -> tuple[int, int]:
        """The tiles of a group's product, down and across."""
        m, n, _ = task.product
        return divide_up(m, self.m), divide_up(n, self.n)


#: Of convolutions, and of gradients of weights, whose copies take more of the threads' time.
TILES = (
    Tile(128, 256, 8, 1, 4, 0.8, 1, grouped=True),
    Tile(128, 128, 8, 1, 6, 0.56, 1, grouped=True),
    Tile(128, 64, 8, 1, 4, 0.6, 2, grouped=True),
    Tile(64, 128, 4, 1, 4, 0.62, 2, grouped=True),
    Tile(128, 128, 2, 4, 3, 1.75, 2),
    Tile(128, 64, 4, 1, 3, 0.75, 2),
    Tile(64, 64, 2, 2, 4, 0.64, 3),
)
WEIGHT_TILES = (
    Tile(256, 128, 16, 1, 4, 2.3, 1, grouped=True),
    Tile(128, 128, 8, 1, 3, 1.3, 1, grouped=True),
    Tile(64, 128, 4, 1, 4, 1.0, 1, grouped=True),
    Tile(128, 128, 2, 4, 3, 2.0, 1),
    Tile(64, 64, 2, 2, 4, 0.7, 1),
)
#: Of floats rounded to tf32.
TF32_TILES = (Tile(128, 128, 2, 4, 3, 3.5, 2), Tile(64, 64, 2, 2, 4, 1.3, 3))
#: Microseconds of a block besides its slabs.
_BLOCK = 2.3


def takes(elem: dtypes.DType, device: Device, groups: int, *channels: int) -> bool:
    """Whether tensor cores compute a convolution of so many channels, and filters, of a group."""
    if device.style == "serial" or device.properties.compute_capability < (8, 0):
        return False
    narrow = dtypes.info(elem).narrow or (elem == dtypes.float32 and allows_tf32())
    return narrow and (groups == 1 or all(n % (ACCESS // elem.itemsize) == 0 for n in channels))


def padded(channels: int, elem: dtypes.DType) -> int:
    """The number of channels in multiples of 16 bytes."""
    chunk = ACCESS // elem.itemsize
    return divide_up(channels, chunk) * chunk


class Arranged(NamedTuple):
    """An array as tensor cores read it: its second axis innermost in memory, in multiples of 16 bytes.

    Attributes:
        layout: of the array, or of the copy.
        copied: whether a copy is made.
        turned: whether the first two axes change places.
    """

    layout: Layout
    copied: bool
    turned: bool = False

    def __call__(self, x: Array) -> Array:
        """The array or the copy."""
        if not self.copied:
            return x
        if self.turned:
            x = ops.swapaxes(x, 0, 1)
        x = ops.moveaxis(x, 1, -1)
        more = self.layout.shape[1] - x.shape[-1]
        if more:
            x = ops.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, more)])
        x = x.contiguous()
        x._planned()
        return x


def arranged(given: Layout, turned: bool = False) -> Arranged:
    """How an array is arranged."""
    place, chunk = place_of(given), ACCESS // given.dtype.itemsize
    others = (place.steps[0], *place.steps[2:])
    fits = (
        place.steps[1] == 1 and place.channels % chunk == 0 and all(n >= 0 and n % chunk == 0 for n in others)
    )
    if fits and given.aligned and not turned:
        return Arranged(given, False)
    first, second, *size = given.shape
    if turned:
        first, second = second, first
    return Arranged(
        last_layout(given.device, given.dtype, (first, padded(second, given.dtype), *size)), True, turned
    )


def last_layout(device: Device, dtype: dtypes.DType, shape: tuple[int, ...]) -> Layout:
    """The layout of a new array whose second axis is innermost in memory."""
    batch, channels, *size = shape
    by = fresh_layout(device, dtype, (batch, *size, channels)).strides
    return layout(device, dtype, shape, (by[0], by[-1], *by[1:-1]), True)


def tile_for(task: Task, elem: dtypes.DType, device: Device) -> Tile:
    """The tile of the least time, that of the busiest multiprocessor."""
    limits = device.properties
    slabs = divide_up(task.product[2] * elem.itemsize, _SLAB)

    def cost(tile: Tile) -> float:
        down, across = tile.across(task)
        blocks = down * across * task.groups
        if task.of_weights:  # the depth is shared, so that none is idle
            return blocks * tile.slab
        return divide_up(blocks, limits.multiprocessors * tile.resident) * (slabs * tile.slab + _BLOCK)

    grouped = limits.compute_capability[0] == 9 and slabs > 0  # they do not sum up nothing
    of_halves = WEIGHT_TILES if task.of_weights else TILES
    found = of_halves if elem.itemsize == 2 else TF32_TILES
    return min(
        (one for one in found if grouped >= one.grouped and one.shared <= limits.max_shared_memory_per_block),
        key=cost,
    )


def parts_for(task: Task, elem: dtypes.DType, device: Device) -> int:
    """Into how many parts the pixels are cut."""
    tile = tile_for(task, elem, device)
    down, across = tile.across(task)
    slabs = divide_up(task.pixels * elem.itemsize, _SLAB)
    wanted = 2 * device.properties.multiprocessors // (down * across * task.groups)
    parts = max(1, min(wanted, slabs // _FEWEST_SLABS, _MOST_PARTS))
    return divide_up(slabs, divide_up(slabs, parts)) if slabs else 1


def launch_of(task: Task, made: Program, device: Device, elem: dtypes.DType, parts: int) -> Prepared:
    """The launch of a product, as :func:`.tiles.launch_of`, of arrays that are arranged."""
    tile, depth = tile_for(task, elem, device), _SLAB // elem.itemsize
    tiles = tile.across(task)
    bound = _KERNEL.bind(device, **_variables(task, made, elem, tile))
    each = max(1, divide_up(divide_up(task.product[2], depth), parts)) * depth
    tail = (task.packed(tiles, each, False), steps(task, made))
    grid = (tiles[0] * tiles[1] * task.groups, parts, 1)
    return bound.function.prepare(grid, (tile.threads, 1, 1), tile.shared, tail)


def _variables(task: Task, made: Program, elem: dtypes.DType, tile: Tile) -> dict[str, Any]:
    """The template variables."""
    columns = task.product[1] if task.of_weights else task.filters
    across = columns * dtypes.info(made.outputs[0].dtype).itemsize
    return {
        **variables(task, made, elem),
        "name": f"{made.name}_{dtypes.info(elem).name}_{tile.m}x{tile.n}",
        "block": tile.threads,
        "tile_m": tile.m,
        "tile_n": tile.n,
        "warps_m": tile.warps_m,
        "warps_n": tile.warps_n,
        "stages": tile.stages,
        "depth": _SLAB // elem.itemsize,
        "band": 1,
        "grouped": tile.grouped,
        "wide": across % ACCESS == 0,
        "a_by_depth": not task.of_weights,
        "b_by_depth": not task.of_weights,
        "taps_inside": False,
        "flat": task.axes[0][:2] == (1, 1) and task.axes[0].base == 0 and task.image.size[0] == 1,
    }
