"""Convolutions of each channel with one filter of its own, with planes of images brought to shared memory (sm_90)."""

from __future__ import annotations

import struct
from typing import NamedTuple

from ... import dtypes
from ...array.layout import Layout
from ...device import Device
from ...device.interface import Prepared
from ...elementwise.program import Program
from ...kernel import Kernel
from ...kernel.sizes import ACCESS, divide_up
from .depthwise import low
from .epilogue import steps, variables
from .geometry import Task

_KERNEL = Kernel("nn/convolution/depthwise_planes.cu")
#: Warps of a block, blocks that a multiprocessor has at a time, and bytes of shared memory that they leave.
_WARPS, _RESIDENT, _LEFT = 8, 2, 2048
#: Columns of a lane, planes of a warp in shared memory at least and at most, and bytes of a line that they begin with.
_ITEMS, _FEWEST, _MOST, _LINE = (8, 4, 2), 2, 4, 128


class Form(NamedTuple):
    """How warps share a convolution.

    Attributes:
        items: columns of a lane.
        stages: planes of a warp in shared memory.
        stage: elements of one.
        warps: of a block.
        resident: blocks that a multiprocessor has at a time.
    """

    items: int
    stages: int
    stage: int
    warps: int = _WARPS
    resident: int = _RESIDENT

    @property
    def shared(self) -> int:
        """Bytes of dynamic shared memory of a block."""
        return 2 * self.warps * self.stages * self.stage


def form_for(task: Task, image: Layout, device: Device) -> Form | None:
    """The form of a convolution by windows that move by one pixel; None if the device has none for it."""
    limits = device.properties
    if device.style == "serial" or limits.compute_capability[0] < 9:
        return None
    return form_of(task, image, limits.max_shared_memory_per_block)


def form_of(task: Task, image: Layout, memory: int) -> Form | None:
    """The same for a device with so much shared memory a block."""
    _, y, x = task.axes
    _, height, columns = task.image.size
    plane = height * columns
    dense = (task.groups * plane, plane, 0, columns, 1)
    sizes = (task.image.batch, task.groups, 1, height, columns)
    in_order = all(n == 1 or a == b for n, a, b in zip(sizes, task.image.steps, dense, strict=True))
    of_taps = (task.weight_group, *task.weights[3:])
    windows = (y.taps * x.taps, x.taps, 1)
    counts = (task.groups, y.taps, x.taps)
    whole = all(n == 1 or a == b for n, a, b in zip(counts, of_taps, windows, strict=True))
    items = next((n for n in _ITEMS if columns % n == 0 and columns // n <= 32), 0)
    even = items and 2 * plane % ACCESS == 0 and image.aligned and x.pixels == columns
    within = 0 <= -low(x) < x.taps
    if image.dtype.itemsize != 2 or task.wide or not (in_order and whole and even and within):
        return None
    stage = divide_up(2 * plane, _LINE) * _LINE
    stages = min(_MOST, (memory // _RESIDENT - _LEFT) // (_WARPS * stage))
    return Form(items, stages, stage // 2) if stages >= _FEWEST else None


def launch_of(task: Task, made: Program, device: Device, elem: dtypes.DType, form: Form) -> Prepared:
    """The launch of a convolution, as :func:`.tiles.launch_of`."""
    _, y, x = task.axes
    _, height, columns = task.image.size
    bound = _KERNEL.bind(
        device,
        **variables(task, made, elem),
        name=f"{made.name}_{dtypes.info(elem).name}_planes_{form.items}",
        block=32 * form.warps,
        width=1,
        taps_y=y.taps,
        taps_x=x.taps,
        turned=x.tap_step < 0,
        before=-low(x),
        height=height,
        columns=columns,
        out_height=y.pixels,
        **form._asdict(),
    )
    planes = task.image.batch * task.groups
    blocks = min(divide_up(planes, form.warps), form.resident * device.properties.multiprocessors)
    tail = (struct.pack("3i", planes, task.groups, low(y)), steps(task, made))
    return bound.function.prepare((blocks, 1, 1), (32 * form.warps, 1, 1), form.shared, tail)
