"""Convolutions of many floats' channels as products of which threads multiply one tile while the next is copied."""

from __future__ import annotations

import math
from typing import NamedTuple

from ... import dtypes
from ... import namespace as ops
from ...array import Array
from ...array.layout import Layout, fresh_layout, layout
from ...device import Device
from ...device.interface import Prepared
from ...elementwise.program import Program
from ...kernel import Kernel
from ...kernel.sizes import LARGEST_INDEX, divide_up
from .epilogue import steps, variables
from .geometry import Place, Task

_KERNEL = Kernel("nn/convolution/exact.cu")
#: Channels or pixels of a slab, channels of a unit of columns, elements of a copy, and slabs in shared memory.
_DEPTH, _UNIT, _PACK, _STAGES = 16, 64, 4, 3
#: Filters from which on the form is used, and the part of a slab or unit that must be there.
_FILTERS, _FULL = 32, 0.7
#: Blocks that share the depth of a product at most, and slabs that each has at least.
_MOST_PARTS, _FEWEST_SLABS = 256, 16


class Tile(NamedTuple):
    """A block's part of a product.

    Attributes:
        m, n: rows and columns.
        items_m, items_n: those of a thread.
        resident: blocks that a multiprocessor has at a time.
        cost: of an element of a convolution, and of a gradient of weights, besides those of the first tile; measured.
    """

    m: int
    n: int
    items_m: int
    items_n: int
    resident: int
    cost: tuple[float, float]

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.m * self.n // self.items_m // self.items_n


TILES = (
    Tile(128, 64, 8, 8, 3, (1.0, 1.0)),
    Tile(64, 128, 8, 8, 3, (1.0, 1.07)),
    Tile(64, 64, 8, 4, 4, (1.12, 1.15)),
    Tile(128, 128, 8, 16, 2, (1.0, 1.03)),
)


class Ordered(NamedTuple):
    """Weights with the axis of a result's channels innermost in memory, in multiples of 16 bytes.

    Attributes:
        layout: of the copy.
        turned: whether the second axis is that axis.
    """

    layout: Layout
    turned: bool

    def __call__(self, x: Array) -> Array:
        """The copy, with other axes."""
        x = ops.permute_dims(x, _order(x.ndim, self.turned))
        more = -x.shape[-1] % _PACK
        if more:
            x = ops.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, more)])
        x = x.contiguous()
        x._planned()
        return x


def _order(ndim: int, turned: bool) -> tuple[int, ...]:
    return (*range(2, ndim), *((0, 1) if turned else (1, 0)))


def ordered(given: Layout, turned: bool) -> Ordered:
    """How weights are arranged."""
    order = _order(given.ndim, turned)
    sizes = [given.shape[i] for i in order]
    sizes[-1] = divide_up(sizes[-1], _PACK) * _PACK
    by = fresh_layout(given.device, given.dtype, tuple(sizes)).strides
    strides = tuple(by[order.index(i)] for i in range(given.ndim))
    return Ordered(layout(given.device, given.dtype, given.shape, strides, True), turned)


def takes(elem: dtypes.DType, device: Device, groups: int, filters: int, channels: int) -> bool:
    """Whether a convolution of so many filters of a group, of so many channels, has this form."""
    return (
        device.style != "serial"
        and elem == dtypes.float32
        and filters >= _FILTERS
        and (groups == 1 or filters % _PACK == 0)
        and channels >= _FULL * divide_up(channels, _DEPTH) * _DEPTH
    )


def takes_weights(elem: dtypes.DType, device: Device, filters: int, channels: int) -> bool:
    """Whether the gradient of the weights of so many filters and channels of a group has this form."""
    full = channels >= _FULL * divide_up(channels, _UNIT) * _UNIT
    return device.style != "serial" and elem == dtypes.float32 and filters >= _FILTERS and full


class _Copies(NamedTuple):
    """Along which axis factors lie in slabs, and whether 16 bytes are copied at a time."""

    a_by_depth: bool
    b_by_depth: bool
    a_packs: bool
    b_packs: bool


def _even(place: Place, aligned: bool) -> bool:
    """Whether channels lie innermost, in multiples of 16 bytes."""
    others = (place.steps[0], *place.steps[2:])
    return (
        aligned
        and place.steps[1] == 1
        and place.channels % _PACK == 0
        and all(n >= 0 and n % _PACK == 0 for n in others)
    )


def _dense(place: Place, aligned: bool) -> bool:
    """Whether an image's pixels lie behind one another, and are read in packs."""
    plane = math.prod(place.size)
    sizes = [n for n in place.size if n > 1]
    wanted = [math.prod(sizes[i + 1 :]) for i in range(len(sizes))]
    found = [step for step, n in zip(place.steps[2:], place.size, strict=True) if n > 1]
    others = place.steps[:2]
    return (
        aligned and found == wanted and plane % _PACK == 0 and all(n >= 0 and n % _PACK == 0 for n in others)
    )


def _copies(task: Task, aligned: tuple[bool, bool]) -> _Copies | None:
    """How slabs are copied; None if this form would read one float of each sector."""
    image, output = (
        _even(one, is_aligned) for one, is_aligned in zip((task.image, task.output), aligned, strict=True)
    )
    per_group = task.channels % _PACK == 0 and (not task.of_weights or task.filters % _PACK == 0)
    if task.of_weights:
        if image and output and per_group:
            return _Copies(False, False, True, True)
        first = not task.image.last and not task.output.last
        return _Copies(True, True, _dense(task.output, aligned[1]), False) if first else None
    if task.image.last:
        return _Copies(True, False, True, True) if image and per_group else None
    return _Copies(False, False, False, True)


def form_for(task: Task, aligned: tuple[bool, bool]) -> _Copies | None:
    """How a task's slabs are copied, whose image and output are aligned or not; None if it has not this form."""
    reach = _DEPTH * max(abs(task.image.steps[1]), abs(task.output.steps[1]))
    if task.of_weights and min(task.output.steps) < 0:  # of an output below 0 tells that there is none
        return None
    if task.wide or max(task.image.span, task.output.span) + reach > LARGEST_INDEX:
        return None
    return _copies(task, aligned)


def _product(task: Task) -> tuple[int, int, int]:
    """Rows, columns and depth; columns of units of a gradient of weights."""
    m, n, k = task.product
    return (m, task.taps * divide_up(task.channels, _UNIT) * _UNIT, k) if task.of_weights else (m, n, k)


def tile_for(task: Task, device: Device) -> Tile:
    """The tile of the least work for the busiest multiprocessor."""
    m, n, _ = _product(task)

    def cost(tile: Tile) -> float:
        blocks = divide_up(m, tile.m) * divide_up(n, tile.n) * task.groups
        if not task.of_weights:
            blocks = divide_up(blocks, device.properties.multiprocessors)
        return blocks * tile.m * tile.n * tile.cost[task.of_weights]

    return min(TILES, key=cost)


def parts_for(task: Task, device: Device) -> int:
    """Into how many parts the pixels are cut, so that no multiprocessor is idle."""
    tile, (m, n, k) = tile_for(task, device), _product(task)
    blocks = divide_up(m, tile.m) * divide_up(n, tile.n) * task.groups
    slabs, places = divide_up(k, _DEPTH), device.properties.multiprocessors * tile.resident
    most = max(1, min(slabs // _FEWEST_SLABS, _MOST_PARTS, max(1, 4 * places // blocks)))
    idle = {
        parts: divide_up(blocks * parts, places) * places / (blocks * parts) for parts in range(1, most + 1)
    }
    parts = next((n for n in idle if idle[n] <= 1.05 * min(idle.values())), 1)
    return divide_up(slabs, divide_up(slabs, parts)) if slabs else 1


def launch_of(task: Task, copies: _Copies, made: Program, device: Device, parts: int) -> Prepared:
    """The launch of a product, as :func:`.tiles.launch_of`."""
    tile, product = tile_for(task, device), _product(task)
    tiles = divide_up(product[0], tile.m), divide_up(product[1], tile.n)
    output = task.output
    fresh = all(axis.every == 1 for axis in task.axes)
    rows = not task.of_weights and not copies.a_by_depth and fresh and _dense(output, True)
    bound = _KERNEL.bind(
        device,
        **variables(task, made, dtypes.float32),
        **copies._asdict(),
        name=f"{made.name}_exact_{tile.m}x{tile.n}",
        block=tile.threads,
        tile_m=tile.m,
        tile_n=tile.n,
        items_m=tile.items_m,
        items_n=tile.items_n,
        resident=tile.resident,
        depth=_DEPTH,
        stages=_STAGES,
        lanes_m=8 if rows and tile.items_n * 4 <= tile.n and tile.items_m * 8 <= tile.m else 4,
        whole=task.channels % _DEPTH == 0,
        rows_packs=rows,
        columns_packs=not rows and not copies.b_by_depth and _columns_packs(task),
        taps_inside=False,
    )
    each = max(1, divide_up(divide_up(product[2], parts), _DEPTH)) * _DEPTH
    pitch = [_DEPTH + 4 if by_depth else None for by_depth in copies[:2]]
    floats = sum((size * p if p else _DEPTH * size) for size, p in zip((tile.m, tile.n), pitch, strict=True))
    tail = (task.packed(tiles, each, False, product), steps(task, made))
    grid = (tiles[0] * tiles[1] * task.groups, parts, 1)
    return bound.function.prepare(grid, (tile.threads, 1, 1), 4 * _STAGES * floats, tail)


def _columns_packs(task: Task) -> bool:
    """Whether four columns of the result are stored at a time."""
    if task.of_weights:
        return task.weights[1] == 1 and task.channels % _PACK == 0
    return task.filters % _PACK == 0 and _even(task.output, True)
