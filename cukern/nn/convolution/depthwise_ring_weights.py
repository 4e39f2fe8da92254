"""Gradients of weights of convolutions of each channel with one filter, with rows brought to shared memory (sm_90)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from ... import dtypes
from ...array import Array
from ...array.layout import Layout
from ...device import Device
from ...device.interface import Prepared
from ...kernel import Kernel
from ...kernel.sizes import divide_up
from .geometry import Task
from .maps import LINE, MAP, Maps, apart, has_maps, image_tiles
from .tensor import arranged

_KERNEL = Kernel("nn/convolution/depthwise_ring_weights.cu")
#: Warps that read rows, threads of a block, columns of a warp at most, and blocks that a multiprocessor has at a time.
_WARPS, _THREADS, _ITEMS, _RESIDENT = 8, 288, 7, 2
#: Bytes of shared memory that blocks leave, of a sum of each warp's channels, and rows in it at most and at least.
_LEFT, _SUM, _STAGES, _FEWEST = 4096, _WARPS * LINE * 4, 8, 2


class Form(NamedTuple):
    """How blocks share a gradient.

    Attributes:
        items: columns of a warp.
        rows: of the output, of a block.
        stages: rows of image and output in shared memory.
        resident: blocks that a multiprocessor has at a time.
    """

    items: int
    rows: int
    stages: int = 0
    resident: int = _RESIDENT

    def columns(self, task: Task) -> tuple[int, int]:
        """Columns of a row of the image in shared memory, and of the output."""
        return _WARPS * self.items + task.axes[2].taps - 1, _WARPS * self.items

    def row_bytes(self, task: Task) -> int:
        """Bytes of a row of both in shared memory."""
        return sum(self.columns(task)) * LINE * 2

    def tiles(self, task: Task) -> tuple[int, int, int]:
        """Tiles of channels and of columns, and bands of rows."""
        _, y, x = task.axes
        across = divide_up(x.pixels, _WARPS * self.items)
        return divide_up(task.groups, LINE), across, divide_up(y.pixels, self.rows)

    def parts(self, task: Task) -> int:
        """Sums of as many tiles of columns, bands and images."""
        _, across, bands = self.tiles(task)
        return across * bands * task.image.batch


def form_for(task: Task, image: Layout, output: Layout, device: Device) -> Form | None:
    """The form of a gradient by windows as :func:`.depthwise.takes` says; None if the device has none for it."""
    if not has_maps(device):
        return None
    limits = device.properties
    return form_of(task, image, output, limits.max_shared_memory_per_block, limits.multiprocessors)


def form_of(task: Task, image: Layout, output: Layout, memory: int, multiprocessors: int) -> Form | None:
    """The same for a device with so much shared memory a block."""
    _, y, x = task.axes
    last = task.output.last and task.image.last and not (arranged(image).copied or arranged(output).copied)
    unique = apart(task.image) and apart(task.output)
    if not (last and unique and image.dtype.itemsize == 2 and task.pixels) or task.wide:
        return None
    items = divide_up(divide_up(x.pixels, divide_up(x.pixels, _WARPS * _ITEMS)), _WARPS)
    form = Form(items, y.pixels)
    most = (memory // _RESIDENT - _LEFT - _SUM * task.taps) // form.row_bytes(task)
    blocks = task.image.batch * form.tiles(task)[0] * form.tiles(task)[1]
    bands = max(1, min(_RESIDENT * multiprocessors // blocks, divide_up(y.pixels, _WARPS)))
    form = form._replace(rows=divide_up(y.pixels, bands), stages=min(most, _STAGES))
    return form if form.stages >= _FEWEST else None


class Launch:
    """A launch of output and image, to which maps lead."""

    def __init__(
        self, task: Task, form: Form, out: dtypes.DType, device: Device, output: Layout, image: Layout
    ) -> None:
        _, y, x = task.axes
        of_image, of_output = form.columns(task)
        boxes = (output, of_output), (image, of_image)
        self._maps = Maps(device, [image_tiles(one, (1, n))._replace(swizzle=0) for one, n in boxes])
        info = dtypes.info(image.dtype)
        bound = _KERNEL.bind(
            device,
            name=f"convolution_weights_{info.name}_ring_{form.items}",
            elem=image.dtype,
            out=dtypes.info(out).cxx,
            index="int",
            items=form.items,
            stages=form.stages,
            resident=form.resident,
            taps_y=y.taps,
            taps_x=x.taps,
            whole=x.pixels % form.items == 0,
        )
        tiles, across, bands = form.tiles(task)
        numbers = (
            *(task.weight_group, *task.weights[3:], y.pixels, x.pixels, task.groups, bands, form.rows),
            *(across, tiles, y.base, x.base),
        )
        shared = form.stages * form.row_bytes(task)
        grid, tail = (tiles * form.parts(task), 1, 1), (struct.pack("12i", *numbers),)
        self._launch: Prepared = bound.function.prepare(grid, (_THREADS, 1, 1), shared, tail, [MAP, MAP])

    def __call__(self, arrays: Sequence[Array], out: Array) -> None:
        """Launch for output and image."""
        self._launch(*self._maps(arrays[:2]), out._operand)
