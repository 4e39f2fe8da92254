"""Gradients of the weights of convolutions of each channel with one filter of its own, whose threads walk down rows."""

from __future__ import annotations

import struct
from typing import NamedTuple

from ... import dtypes
from ...array.layout import Layout
from ...device import Device
from ...device.interface import Prepared
from ...kernel import Kernel
from ...kernel.sizes import ACCESS, divide_up
from .depthwise import is_even, strips_of, widest
from .geometry import Task

_KERNEL = Kernel("nn/convolution/depthwise_weights.cu")
#: Threads of a block, those that have neighbouring packs of channels at most, and blocks of a multiprocessor.
_BLOCK, _ACROSS, _RESIDENT = 128, 32, 3
#: Columns of a thread, and rows at most.
_ITEMS, _ROWS = 4, 28


class Form(NamedTuple):
    """How threads share a gradient.

    Attributes:
        width: channels of a thread.
        across: neighbouring threads that have packs of channels.
        rows: of the output, of a thread.
        items: columns of a thread.
        block: threads of a block.
        resident: blocks that a multiprocessor has at a time.
    """

    width: int
    across: int
    rows: int
    items: int = _ITEMS
    block: int = _BLOCK
    resident: int = _RESIDENT

    def strips(self, task: Task) -> tuple[int, int, int]:
        """The columns of threads of all images, those of a row, and bands of rows."""
        return strips_of(task, self.items, self.rows)

    def parts(self, task: Task) -> int:
        """Sums of as many groups of columns."""
        return divide_up(self.strips(task)[0], self.block // self.across)


def form_for(task: Task, image: Layout, output: Layout, device: Device) -> Form | None:
    """The form of a gradient by windows as :func:`.depthwise.takes` says; None if channels do not lie innermost."""
    return None if device.style == "serial" else form_of(task, image, output)


def form_of(task: Task, image: Layout, output: Layout) -> Form | None:
    """The same for a device of many threads."""
    most = ACCESS // 2 // image.dtype.itemsize
    width = widest(max(1, most), lambda n: is_even(image, n, 1) and is_even(output, n, 1))
    if width == 1 or task.wide or not task.pixels:
        return None
    packs, rows = divide_up(task.groups, width), task.axes[1].pixels
    across = divide_up(packs, divide_up(packs, _ACROSS))
    return Form(width, across, divide_up(rows, divide_up(rows, _ROWS)))


def launch_of(task: Task, out: dtypes.DType, device: Device, elem: dtypes.DType, form: Form) -> Prepared:
    """The launch of a gradient of weights, as :func:`.direct.launch_of_weights`."""
    _, y, x = task.axes
    bound = _KERNEL.bind(
        device,
        name=f"convolution_weights_{dtypes.info(elem).name}_rows_{form.width}x{form.items}",
        elem=elem,
        out=dtypes.info(out).cxx,
        index="int",
        taps_y=y.taps,
        taps_x=x.taps,
        whole=x.pixels % form.items == 0,
        **form._asdict(),
    )
    tiles = divide_up(task.groups, form.across * form.width)
    places = ((one.steps[0], one.steps[3], one.steps[4], *one.size[1:]) for one in (task.image, task.output))
    sizes = (
        *(number for place in places for number in place),
        *(
            task.weight_group,
            *task.weights[3:],
            task.groups,
            tiles,
            *form.strips(task),
            form.rows,
            y.base,
            x.base,
        ),
    )
    grid = (tiles * form.parts(task), 1, 1)
    return bound.function.prepare(grid, (form.block, 1, 1), 0, (struct.pack(f"{len(sizes)}i", *sizes),))
