"""Convolutions of each channel with one filter of its own, with rows of images brought to shared memory (sm_90)."""

from __future__ import annotations

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
from .depthwise import low
from .epilogue import steps, variables
from .geometry import Task
from .maps import LINE, MAP, Maps, apart, has_maps, image_tiles
from .tensor import arranged

_KERNEL = Kernel("nn/convolution/depthwise_ring.cu")
#: Warps that read rows, threads of a block, columns of a warp at most, and blocks that a multiprocessor has at a time.
_WARPS, _THREADS, _ITEMS, _RESIDENT = 8, 288, 7, 2
#: Blocks, one after the other, that each place for one gets.
_WAVES = 2
#: Bytes of shared memory that blocks leave, and rows in it: the largest of these numbers that fits.
_LEFT, _STAGES = 4096, (8, 4, 2)


class Form(NamedTuple):
    """How blocks share a convolution.

    Attributes:
        items: columns of a warp.
        rows: of the output, of a block.
        stages: rows of the image in shared memory.
        resident: blocks that a multiprocessor has at a time.
    """

    items: int
    rows: int
    stages: int
    resident: int = _RESIDENT

    def brought(self, task: Task) -> int:
        """Columns of a row in shared memory."""
        return _WARPS * self.items + task.axes[2].taps - 1

    def tiles(self, task: Task) -> tuple[int, int, int]:
        """Tiles of channels and of columns, and bands of rows."""
        _, y, x = task.axes
        across = divide_up(x.pixels, _WARPS * self.items)
        return divide_up(task.groups, LINE), across, divide_up(y.pixels, self.rows)


def form_for(task: Task, image: Layout, device: Device) -> Form | None:
    """The form of a convolution by windows that move by one pixel; None if the device has none for it."""
    if not has_maps(device):
        return None
    limits = device.properties
    return form_of(task, image, limits.max_shared_memory_per_block, limits.multiprocessors)


def form_of(task: Task, image: Layout, memory: int, multiprocessors: int) -> Form | None:
    """The same for a device with so much shared memory a block."""
    _, y, x = task.axes
    last = task.output.last and task.image.last and not arranged(image).copied
    if not (last and image.dtype.itemsize == 2 and apart(task.image) and not task.wide):
        return None
    items = divide_up(divide_up(x.pixels, divide_up(x.pixels, _WARPS * _ITEMS)), _WARPS)
    form = Form(items, y.pixels, 0)
    most = (memory // _RESIDENT - _LEFT) // (form.brought(task) * LINE * 2)
    blocks = task.image.batch * form.tiles(task)[0] * form.tiles(task)[1]
    bands = max(1, min(_WAVES * _RESIDENT * multiprocessors // blocks, divide_up(y.pixels, _WARPS)))
    stages = max((n for n in _STAGES if n <= most), default=0)
    return form._replace(rows=divide_up(y.pixels, bands), stages=stages) if stages else None


class Launch:
    """A launch of an image, to which a map leads, weights, operands and the output."""

    def __init__(self, task: Task, form: Form, made: Program, device: Device, image: Layout) -> None:
        _, y, x = task.axes
        self._maps = Maps(device, [image_tiles(image, (1, form.brought(task)))._replace(swizzle=0)])
        bound = _KERNEL.bind(
            device,
            **variables(task, made, image.dtype),
            name=f"{made.name}_{dtypes.info(image.dtype).name}_ring_{form.items}",
            block=_THREADS,
            items=form.items,
            stages=form.stages,
            resident=form.resident,
            taps_y=y.taps,
            taps_x=x.taps,
            turned=x.tap_step < 0,
            whole=x.pixels % form.items == 0,
        )
        tiles, across, bands = form.tiles(task)
        output, weights = task.output.steps, task.weights
        numbers = (
            *(output[0], output[3], output[4], task.weight_group, weights[3], weights[4]),
            *(y.pixels, x.pixels, task.groups, bands, form.rows, across, tiles, low(y), low(x)),
        )
        tail = (struct.pack("15i", *numbers), steps(task, made))
        shared = form.stages * form.brought(task) * LINE * 2
        grid = (tiles * across * bands * task.image.batch, 1, 1)
        self._launch: Prepared = bound.function.prepare(grid, (_THREADS, 1, 1), shared, tail, [MAP])

    def __call__(self, arrays: Sequence[Array], out: Array) -> None:
        """Launch for image, weights and operands."""
        image, *others = arrays
        self._launch(*self._maps([image]), *(one._operand for one in others), out._operand)
