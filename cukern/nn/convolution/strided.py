"""Convolutions by windows that move by several pixels, and the gradients of their images, in one launch (sm_90a)."""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Sequence
from typing import NamedTuple

from ... import dtypes
from ...array import Array
from ...array.layout import Layout
from ...device import Device
from ...device.interface import Prepared
from ...elementwise.program import Program
from ...kernel import Kernel
from ...kernel.sizes import divide_up
from .epilogue import steps, variables
from .geometry import Task, place_of
from .maps import (
    ALIGNMENT,
    BARRIERS,
    CHANNELS,
    LINE,
    MAP,
    Maps,
    has_maps,
    image_tiles,
    is_dense,
    is_mapped,
    weight_tiles,
)

_KERNEL = Kernel("nn/convolution/strided.cu")
#: Threads of a block, stages at least and at most, and the filters of a tile and halves of a warpgroup's band.
_THREADS, _FEWEST, _MOST, _TILES = 384, 3, 8, tuple(itertools.product((64, 128, 256), (1, 2)))
#: Bytes that maps and tables of grids and taps may take of a kernel's arguments.
_ARGUMENTS, _GRID, _TAP = 3584, 20, 16
#: Microseconds of 64 pixels by 64 filters by 64 channels, of a KiB of a slab, of any slab, and of a tile; estimated.
_PRODUCT, _KIB, _SLAB, _TILE = 0.075, 0.0135, 0.05, 2.0


class Form(NamedTuple):
    """What the warpgroups of a block make at a time.

    Attributes:
        tile_n: filters.
        halves: of 64 pixels of a warpgroup.
        images, band, width: the images, their rows and the pixels of a row that they are of.
        stages: slabs in shared memory.
    """

    tile_n: int
    halves: int
    images: int
    band: int
    width: int
    stages: int = 0

    @property
    def slab(self) -> int:
        """Bytes of a stage."""
        return 2 * LINE * (2 * 64 * self.halves + self.tile_n)

    @property
    def fixed(self) -> int:
        """Bytes of shared memory of a block besides the stages."""
        return 2 * 2 * 64 * self.halves * LINE + ALIGNMENT

    def bands(self, task: Task) -> tuple[int, int]:
        """The bands of a grid, and those of as many images as a band has."""
        each = divide_up(task.axes[1].pixels, self.band)
        return divide_up(task.image.batch, self.images) * each, each

    def across(self, task: Task) -> int:
        """Tiles that have other filters."""
        return divide_up(task.filters, self.tile_n)

    def tiles(self, task: Task) -> int:
        """The tiles of a grid."""
        return divide_up(self.bands(task)[0], 2) * self.across(task)

    def cost(self, tasks: Sequence[Task], multiprocessors: int) -> float:
        """About the microseconds that the busiest multiprocessor takes, whose tiles are every so many-th."""
        brought = (2 * self.images * self.band * self.width + self.tile_n) * 2 * LINE / 1024
        slab = max(2 * self.halves * self.tile_n / 64 * _PRODUCT, brought * _KIB) + _SLAB
        total, left = 0.0, 0
        for task in tasks:
            tiles = self.tiles(task)
            rounds = divide_up(tiles - left, multiprocessors)
            total += rounds * (task.taps * divide_up(task.channels, LINE) * slab + _TILE)
            left += rounds * multiprocessors - tiles
        return total


def _forms(tasks: Sequence[Task], memory: int) -> list[Form]:
    """The forms that compute a convolution with so much shared memory a block."""
    found = []
    width, rows = (max(task.axes[i].pixels for task in tasks) for i in (2, 1))
    for tile_n, halves in _TILES:
        band = min(64 * halves // width, rows)
        if tile_n * halves > 256 or not band:
            continue
        images = min(64 * halves // (width * rows), tasks[0].image.batch) if band == rows else 1
        form = Form(tile_n, halves, images, band, width)
        stages = min(_MOST, (memory - BARRIERS - form.fixed) // form.slab)
        if stages >= _FEWEST:
            found.append(form._replace(stages=stages))
    return found


def form_for(
    tasks: Sequence[Task], elem: dtypes.DType, device: Device, strides: Sequence[int]
) -> Form | None:
    """The form of a convolution, or of all grids of a gradient, of arrays whose channels lie innermost.

    None if there is none.

    Args:
        tasks: one of each grid, the same but for their axes.
        elem: of the arrays.
        device: where it runs.
        strides: of the weights along filters, channels and the three axes, in elements.
    """
    if not has_maps(device):
        return None
    limits = device.properties
    return form_of(tasks, elem, strides, limits.max_shared_memory_per_block, limits.multiprocessors)


def form_of(
    tasks: Sequence[Task], elem: dtypes.DType, strides: Sequence[int], memory: int, multiprocessors: int
) -> Form | None:
    """The same for a device with so much shared memory a block."""
    task = tasks[0]
    moves = max(*(axis.step for axis in task.axes[1:]), len(tasks))
    planes = [axis.step <= n for axis, n in zip(task.axes[1:], task.image.size[1:], strict=True)]
    taps = [one.taps for one in tasks]
    maps = math.prod(axis.step for axis in task.axes[1:]) + len(tasks) + 1
    arguments = MAP * maps + _GRID * len(tasks) + _TAP * sum(taps)
    if moves == 1 or not task.output.last or not all(planes) or min(taps) == 0 or arguments > _ARGUMENTS:
        return None
    if not (is_mapped(task, elem) and is_dense(task, strides)) or min(task.filters, task.channels) < CHANNELS:
        return None
    found = _forms(sorted(tasks, key=_by_taps), memory)
    return min(found, key=lambda one: one.cost(sorted(tasks, key=_by_taps), multiprocessors), default=None)


def _by_taps(task: Task) -> int:
    return -task.taps


class Launch:
    """A launch of arrays that maps lead to: image, weights, operands and the output."""

    def __init__(
        self,
        tasks: Sequence[Task],
        form: Form,
        made: Program,
        device: Device,
        layouts: tuple[Layout, Layout, Layout],
        multiprocessors: int,
    ) -> None:
        image, weights, output = layouts
        tasks = sorted(tasks, key=_by_taps)  # the longest first
        first, row = tasks[0], place_of(weights).size[2]
        moves = [axis.step for axis in first.axes[1:]]
        box = (form.images, form.band, form.width, LINE)
        planes = [
            image_tiles(image, box[1:3], list(zip(at, moves, strict=True)))
            for at in itertools.product(*map(range, moves))
        ]
        grids = [
            image_tiles(output, box[1:3], [(axis.first, axis.every) for axis in task.axes[1:]], writes=True)
            for task in tasks
        ]
        of_weights = weight_tiles(weights, form.tile_n)
        tiles = [
            *(one._replace(box=box) for one in planes),
            of_weights,
            *(one._replace(box=box) for one in grids),
        ]
        self._counts, self._maps = (len(planes), len(grids)), Maps(device, tiles)
        taps = [tap for task in tasks for tap in _taps(task, row)]
        bound = _KERNEL.bind(
            device,
            **variables(first, made, image.dtype),
            name=f"{made.name}_strided_{dtypes.info(image.dtype).name}_{form.tile_n}x{form.halves}",
            block=_THREADS,
            planes=len(planes),
            grids=len(grids),
            taps=len(taps),
            **form._asdict(),
        )
        numbers, tile, tap = [], 0, 0
        for task in tasks:
            numbers += [tile, *form.bands(task), tap, task.taps]
            tile, tap = tile + form.tiles(task), tap + task.taps
        head = (tile, form.across(first), first.filters, divide_up(first.channels, LINE))
        sizes = (*head, *numbers, *itertools.chain(*taps))
        tail = (struct.pack(f"{len(sizes)}i", *sizes), steps(first, made))
        blocks = min(tile, multiprocessors)
        shared = form.fixed + form.stages * form.slab
        structs = [MAP * len(planes), MAP, MAP * len(grids)]
        self._launch: Prepared = bound.function.prepare(
            (blocks, 1, 1), (_THREADS, 1, 1), shared, tail, structs
        )

    def __call__(self, arrays: Sequence[Array], out: Array) -> None:
        """Launch for image, weights and operands."""
        planes, grids = self._counts
        maps = self._maps((*[arrays[0]] * planes, arrays[1], *[out] * grids))
        image, output = b"".join(maps[:planes]), b"".join(maps[planes + 1 :])
        self._launch(image, maps[planes], *(one._operand for one in arrays[2:]), output)


def _taps(task: Task, row: int) -> list[tuple[int, int, int, int]]:
    """The kernel's struct Tap of each tap.

    Args:
        task: of a grid.
        row: taps of a row of the weights.
    """
    _, y, x = task.axes
    found = []
    for b, c in itertools.product(range(y.taps), range(x.taps)):
        (down, plane_y), (along, plane_x) = (
            divmod(axis.base + tap * axis.tap_step, axis.step) for axis, tap in ((y, b), (x, c))
        )
        weights = (y.tap + b * y.each) * row + x.tap + c * x.each
        found.append((plane_y * x.step + plane_x, down, along, weights))
    return found
