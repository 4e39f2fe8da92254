"""Convolutions by windows that move by one pixel, with images brought once for all taps (sm_90a)."""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

from ... import dtypes
from ...array import Array
from ...array.layout import Layout
from ...device import Device
from ...device.interface import Prepared, Tiles
from ...elementwise.program import Program
from ...kernel import Kernel
from ...kernel.sizes import ACCESS, divide_up
from .epilogue import steps, variables
from .geometry import Axis, Task, place_of
from .maps import (
    ALIGNMENT,
    BARRIERS,
    CHANNELS,
    LINE,
    LONGEST,
    MAP,
    Maps,
    has_maps,
    image_tiles,
    is_dense,
    is_mapped,
    weight_tiles,
)

_KERNEL = Kernel("nn/convolution/shifted.cu")
#: Threads of a block, and stages of weights at least and at most.
_THREADS, _FEWEST, _MOST = 384, 3, 8
#: Filters of a tile, and the fewest filters of which a tile may have all.
_TILES, _NARROW = (16, 32, 64, 128, 256), 16
#: Elements between two planes of the output in shared memory.
_PLANE = 8
#: Microseconds of 64 pixels by 64 filters by 64 channels of a warpgroup, of a tap, and of a tile; estimated.
_PRODUCT, _TAP, _TILE = 0.07, 0.05, 2.0


class Form(NamedTuple):
    """What the warpgroups of a block make at a time.

    Attributes:
        tile_n: filters.
        halves: of 64 pixels of a warpgroup.
        band: rows of an image that they hold.
        pitch: pixels of such a row with its padding.
        brought: lines of a band's image.
        lines: those of shared memory for it, which products of what lies beyond the image read too.
        image_stages: bands in shared memory: two, or one of images that have no further channels.
        weight_stages: a tap's weights in shared memory.
        access: elements that are stored at a time in an output whose pixels lie innermost; 0 if channels do.
    """

    tile_n: int
    halves: int
    band: int
    pitch: int
    brought: int
    lines: int
    image_stages: int = 2
    weight_stages: int = 0
    access: int = 0

    @property
    def fixed(self) -> int:
        """Bytes of shared memory of a block besides the stages of weights."""
        images = 2 * self.image_stages * self.lines
        part = 64 * self.halves + (_PLANE if self.access else 0)
        return 2 * LINE * (images + 2 * part) + ALIGNMENT

    @property
    def stage(self) -> int:
        """Bytes of a stage of weights."""
        return 2 * LINE * self.tile_n

    @property
    def shared(self) -> int:
        """Bytes of dynamic shared memory of a block."""
        return self.fixed + self.weight_stages * self.stage

    def bands(self, task: Task) -> tuple[int, int]:
        """The bands of all images, and of one."""
        each = divide_up(task.axes[1].pixels, self.band)
        return task.image.batch * each, each

    def tiles(self, task: Task) -> tuple[int, int]:
        """Pairs of bands, and tiles across."""
        return divide_up(self.bands(task)[0], 2), divide_up(task.filters, self.tile_n)

    def cost(self, task: Task, multiprocessors: int) -> float:
        """About the microseconds that the busiest multiprocessor takes."""
        down, across = self.tiles(task)
        slabs = divide_up(task.channels, LINE) * task.taps
        tile = slabs * (self.halves * self.tile_n / 64 * _PRODUCT * 2 + _TAP) + _TILE * (
            3 - self.image_stages
        )
        return divide_up(down * across, multiprocessors) * tile


def _forms(task: Task, memory: int) -> list[Form]:
    """The forms that compute a convolution with so much shared memory a block."""
    _, y, x = task.axes
    around = [around_of(one) for one in (y, x)]
    pitch, found = x.pixels + around[1], []
    stages_of_images = (1, 2) if task.channels <= LINE else (2,)
    for tile_n, halves, image_stages in itertools.product(_TILES, (1, 2), stages_of_images):
        band = min(64 * halves // pitch, y.pixels)
        narrow = tile_n < 64 and task.filters > tile_n
        if tile_n * halves > 256 or narrow or not band or max(pitch, band + around[0]) > LONGEST:
            continue
        brought, reach = (band + around[0]) * pitch, 64 * halves + around[0] * pitch + around[1]
        form = Form(tile_n, halves, band, pitch, brought, divide_up(max(brought, reach), 8) * 8, image_stages)
        if not task.output.last:
            step, line = math.prod(task.output.size), x.pixels * band
            form = form._replace(access=math.gcd(step, line if band < y.pixels else step, ACCESS // 2))
        stages = min(_MOST, (memory - BARRIERS - form.fixed) // form.stage)
        if stages >= _FEWEST:
            found.append(form._replace(weight_stages=stages))
    return found


def around_of(axis: Axis) -> int:
    """The lines that a phase's windows reach from their first one."""
    return (divide_up(axis.taps, axis.step) - 1) * (abs(axis.tap_step) if axis.step == 1 else 1)


def fits(task: Task, elem: dtypes.DType) -> bool:
    """Whether the windows of a convolution of two axes move by one pixel or two, in images of 16-bit floats."""
    _, y, x = task.axes
    steps = y.step == x.step == 1 or y.step == x.step == 2 <= min(task.image.size[1:])
    even = steps and (y.step == 1 or y.tap_step == x.tap_step == 1)
    return is_mapped(task, elem) and even and (task.taps > 1 or y.every * x.every > 1) and task.taps > 0


def form_for(task: Task, elem: dtypes.DType, device: Device, strides: Sequence[int]) -> Form | None:
    """The form of a convolution of arrays whose channels lie innermost; None if there is none.

    Args:
        task: the convolution.
        elem: of the arrays.
        device: where it runs.
        strides: of the weights along filters, channels and the three axes, in elements.
    """
    if not has_maps(device):
        return None
    limits = device.properties
    return _form(task, elem, strides, limits.max_shared_memory_per_block, limits.multiprocessors)


def _form(
    task: Task, elem: dtypes.DType, strides: Sequence[int], memory: int, multiprocessors: int
) -> Form | None:
    dense = task.axes[1].step == 1 and is_dense(task, strides)
    if not (dense and fits(task, elem)) or task.channels < CHANNELS or task.filters < _NARROW:
        return None
    return min(_forms(task, memory), key=lambda one: one.cost(task, multiprocessors), default=None)


class Launch:
    """A launch of arrays that maps lead to: image, weights, operands and the output."""

    def __init__(
        self,
        task: Task,
        form: Form,
        made: Program,
        device: Device,
        layouts: tuple[Layout, Layout, Layout],
        multiprocessors: int,
    ) -> None:
        image, weights, output = layouts
        tiles = (
            image_tiles(image, (form.brought // form.pitch, form.pitch)),
            weight_tiles(weights, form.tile_n),
            *(() if form.access else (_output_tiles(output, task, (form.band, form.pitch)),)),
        )
        self._planes, self._maps = form.access > 0, Maps(device, tiles)
        row = place_of(weights).size[2]
        bound = _KERNEL.bind(device, **_variables(task, form, made, image.dtype), row=row)
        bands, of_image = form.bands(task)
        down, across = form.tiles(task)
        lowest = [one.base + min(0, (one.taps - 1) * one.tap_step) for one in task.axes[1:]]
        slabs = divide_up(task.channels, LINE)
        sizes = struct.pack("8i", bands, of_image, across, task.filters, slabs, *lowest, task.axes[1].pixels)
        grid = (min(down * across, multiprocessors), 1, 1)
        tail = (sizes, steps(task, made))
        self._launch: Prepared = bound.function.prepare(
            grid, (_THREADS, 1, 1), form.shared, tail, [MAP] * len(tiles)
        )

    def __call__(self, arrays: Sequence[Array], out: Array) -> None:
        """Launch for image, weights and operands."""
        image, weights, *mapped = self._maps(arrays[:2] if self._planes else (*arrays[:2], out))
        self._launch(image, weights, *(one._operand for one in arrays[2:]), *(mapped or [out._operand]))


def _output_tiles(layout: Layout, task: Task, box: tuple[int, int]) -> Tiles:
    """How kernels find the pixels of a task."""
    return image_tiles(layout, box, [(axis.first, axis.every) for axis in task.axes[1:]], writes=True)


def _variables(task: Task, form: Form, made: Program, elem: dtypes.DType) -> dict[str, Any]:
    """The template variables."""
    _, y, x = task.axes
    return {
        **variables(task, made, elem),
        "name": f"{made.name}_shifted_{dtypes.info(elem).name}_{form.tile_n}x{form.halves}",
        "block": _THREADS,
        "tile_n": form.tile_n,
        "halves": form.halves,
        "pitch": form.pitch,
        "band": form.band,
        "brought": form.brought,
        "lines": form.lines,
        "taps_y": y.taps,
        "taps_x": x.taps,
        "step_y": y.tap_step,
        "step_x": x.tap_step,
        "tap_y": y.tap,
        "each_y": y.each,
        "tap_x": x.tap,
        "each_x": x.each,
        "planes": form.access > 0,
        "access": max(1, form.access),
        "width": x.pixels,
        "image_stages": form.image_stages,
        "weight_stages": form.weight_stages,
    }
