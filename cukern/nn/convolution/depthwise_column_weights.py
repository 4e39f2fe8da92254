"""Gradients of the weights of convolutions of each channel with one filter of its own, whose columns lie innermost."""

from __future__ import annotations

import struct
from typing import NamedTuple

from ... import dtypes
from ...array.layout import Layout
from ...device import Device
from ...device.interface import Prepared
from ...kernel import Kernel
from ...kernel.sizes import ACCESS, divide_up
from .depthwise import is_even, low, strips_of, widest
from .geometry import Task

_KERNEL = Kernel("nn/convolution/depthwise_column_weights.cu")
#: Threads of a block, blocks of a multiprocessor, and rows of the image that a thread has on their way.
_BLOCK, _RESIDENT, _AHEAD = 128, 6, 1
#: Columns of a thread that are not read in packs, and rows of a thread at most.
_ITEMS, _ROWS = 4, 14


class Form(NamedTuple):
    """How threads share a gradient.

    Attributes:
        whole: whether rows are read in packs of columns.
        items: columns of a thread.
        rows: of the output, of a thread at a time.
        wanted: parts of the strips of each channel, at most.
        ahead: rows that a thread has on their way, a divisor of a window's rows.
        block: threads of a block.
        resident: blocks that a multiprocessor has at a time.
    """

    whole: bool
    items: int
    rows: int
    wanted: int
    ahead: int = _AHEAD
    block: int = _BLOCK
    resident: int = _RESIDENT

    def strips(self, task: Task) -> tuple[int, int, int]:
        """The strips of a channel, those of a row, and bands of rows."""
        return strips_of(task, self.items, self.rows)

    def share(self, task: Task) -> int:
        """The strips of a part."""
        return divide_up(self.strips(task)[0], self.wanted)

    def parts(self, task: Task) -> int:
        """Sums of as many parts of strips."""
        return divide_up(self.strips(task)[0], self.share(task))


def form_for(task: Task, image: Layout, output: Layout, device: Device) -> Form | None:
    """The form of a gradient by windows as :func:`.depthwise.takes` says; None if columns do not lie innermost."""
    if device.style == "serial":
        return None
    return form_of(task, image, output, device.properties.multiprocessors)


def form_of(task: Task, image: Layout, output: Layout, multiprocessors: int) -> Form | None:
    """The same for a device of many threads."""
    _, y, x = task.axes
    if task.wide or not task.pixels or {task.image.steps[4], task.output.steps[4]} - {0, 1}:
        return None
    within = 0 <= -low(x) < x.taps
    most = ACCESS // image.dtype.itemsize
    items = widest(most, lambda n: within and is_even(image, n, 3) and is_even(output, n, 3))
    form = Form(items > 1, items if items > 1 else _ITEMS, divide_up(y.pixels, divide_up(y.pixels, _ROWS)), 1)
    wanted = round(_RESIDENT * multiprocessors / task.groups)
    return form._replace(wanted=max(1, min(wanted, form.strips(task)[0] // _BLOCK)))


def launch_of(task: Task, out: dtypes.DType, device: Device, elem: dtypes.DType, form: Form) -> Prepared:
    """The launch of a gradient of weights, as :func:`.direct.launch_of_weights`."""
    _, y, x = task.axes
    variables = form._asdict()
    del variables["wanted"]
    bound = _KERNEL.bind(
        device,
        name=f"convolution_weights_{dtypes.info(elem).name}_columns_{form.items}",
        elem=elem,
        out=dtypes.info(out).cxx,
        index="int",
        width=1,
        taps_y=y.taps,
        taps_x=x.taps,
        before=-x.base if form.whole else 0,
        **variables,
    )
    places = ((*one.steps[:2], *one.steps[3:], *one.size[1:]) for one in (task.image, task.output))
    strips, runs, bands = form.strips(task)
    sizes = (
        *(number for place in places for number in place),
        *(task.weight_group, *task.weights[3:], task.groups, strips, form.share(task)),
        *(runs, bands, form.rows, y.base, x.base),
    )
    grid = (task.groups * form.parts(task), 1, 1)
    return bound.function.prepare(grid, (form.block, 1, 1), 0, (struct.pack(f"{len(sizes)}i", *sizes),))
