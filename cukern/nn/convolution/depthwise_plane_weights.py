"""Gradients of weights of convolutions of each channel with one filter, with planes in shared memory (sm_90)."""

from __future__ import annotations

import struct
from typing import NamedTuple

from ... import dtypes
from ...array.layout import Layout
from ...device import Device
from ...device.interface import Prepared
from ...kernel import Kernel
from ...kernel.sizes import ACCESS, divide_up
from .geometry import Place, Task

_KERNEL = Kernel("nn/convolution/depthwise_plane_weights.cu")
#: Warps of a block and of a multiprocessor at most, its blocks at least, and bytes of shared memory that each leaves.
_WARPS, _ALL_WARPS, _BLOCKS, _LEFT = 8, 16, 2, 2048
#: Columns of an access, those of a row at most, and bytes of a line that planes in shared memory begin with.
_ITEMS, _COLUMNS, _LINE = (8, 4, 2), 64, 128
#: Planes of image and output of a warp in shared memory at most, rows of a product, and columns of a step of its depth.
_STAGES, _ROWS, _DEPTH = 2, 16, 16


class Form(NamedTuple):
    """How blocks share a gradient.

    Attributes:
        items: columns of an access.
        per: columns of a lane.
        each: rows of the output that are multiplied at a time.
        image_stage: elements of a plane of the image in shared memory.
        stage: the same of image and output.
        warps: of a block.
        stages: planes of image and output of a warp.
        resident: blocks that a multiprocessor has at a time.
        share: images of a block.
    """

    items: int
    per: int
    each: int
    image_stage: int
    stage: int
    warps: int
    stages: int
    resident: int
    share: int

    @property
    def shared(self) -> int:
        """Bytes of dynamic shared memory of a block."""
        return 2 * self.warps * self.stages * self.stage

    def parts(self, task: Task) -> int:
        """Sums of as many parts of the batch."""
        return divide_up(task.image.batch, self.share)


def form_for(task: Task, image: Layout, output: Layout, device: Device) -> Form | None:
    """The form of a gradient by windows as :func:`.depthwise.takes` says; None if the device has none for it."""
    limits = device.properties
    if device.style == "serial" or limits.compute_capability[0] < 9:
        return None
    return form_of(task, image, output, limits.max_shared_memory_per_block, limits.multiprocessors)


def form_of(task: Task, image: Layout, output: Layout, memory: int, multiprocessors: int) -> Form | None:
    """The same for a device with so much shared memory a block."""
    _, y, x = task.axes
    planes = [2 * place.size[1] * place.size[2] for place in (task.image, task.output)]
    columns = task.image.size[2]
    dense = all(_is_dense(place, groups=task.groups) for place in (task.image, task.output))
    even = image.aligned and output.aligned and all(n % ACCESS == 0 for n in planes)
    within = 0 <= -x.base < x.taps and x.pixels == columns <= _COLUMNS
    if image.dtype.itemsize != 2 or task.wide or not task.pixels or not (dense and even and within):
        return None
    per = divide_up(columns, _DEPTH) * (_DEPTH // 4)
    items = next((n for n in _ITEMS if columns % n == per % n == 0), 0)
    stage = [divide_up(n, _LINE) * _LINE for n in planes]
    warps = min(_WARPS, task.image.batch, (memory // _BLOCKS - _LEFT) // sum(stage))
    if not (items and warps > 0):
        return None
    resident = min(_ALL_WARPS // warps, memory // (warps * sum(stage) + _LEFT))
    stages = min(_STAGES, (memory // resident - _LEFT) // (warps * sum(stage)))
    each = divide_up(y.pixels, divide_up(y.pixels, _ROWS + 1 - y.taps))
    share = divide_up(task.image.batch, _parts(task, warps, resident * multiprocessors))
    return Form(items, per, each, stage[0] // 2, sum(stage) // 2, warps, stages, resident, share)


def _is_dense(place: Place, groups: int) -> bool:
    """Whether planes lie behind one another, without gaps."""
    _, height, columns = place.size
    plane = height * columns
    sizes, steps = (place.batch, groups, 1, height, columns), (groups * plane, plane, 0, columns, 1)
    return all(n == 1 or a == b for n, a, b in zip(sizes, place.steps, steps, strict=True))


def _parts(task: Task, warps: int, places: int) -> int:
    """Parts of the batch for which multiprocessors with places for so many blocks take the least time."""

    def time(parts: int) -> int:  # in halves of that of a plane a warp; a block's first takes twice as long
        planes = divide_up(divide_up(task.image.batch, parts), warps)
        return 2 * divide_up(task.groups * parts, places) * (planes + 1) + (parts > 1)

    # As many parts as places fill them with less than two planes a warp too many: twice as many parts waste more.
    return min(range(1, min(divide_up(task.image.batch, warps), 2 * places) + 1), key=time)


def launch_of(task: Task, out: dtypes.DType, device: Device, elem: dtypes.DType, form: Form) -> Prepared:
    """The launch of a gradient of weights, as :func:`.direct.launch_of_weights`."""
    _, y, x = task.axes
    variables = form._asdict()
    share = variables.pop("share")
    bound = _KERNEL.bind(
        device,
        name=f"convolution_weights_{dtypes.info(elem).name}_planes_{form.items}",
        elem=elem,
        out=dtypes.info(out).cxx,
        index="int",
        block=32 * form.warps,
        taps_y=y.taps,
        taps_x=x.taps,
        before=-x.base,
        height=task.image.size[1],
        out_height=y.pixels,
        columns=x.pixels,
        **variables,
    )
    sizes = (task.weight_group, *task.weights[3:], task.groups, task.image.batch, share, y.base)
    grid = (task.groups * form.parts(task), 1, 1)
    tail = (struct.pack("7i", *sizes),)
    return bound.function.prepare(grid, (32 * form.warps, 1, 1), form.shared, tail)
