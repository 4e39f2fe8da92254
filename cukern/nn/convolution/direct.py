"""Convolutions of few channels and filters a group, of which threads sum up outputs by themselves."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from ... import dtypes
from ...array.layout import Layout
from ...device import Device
from ...device.interface import Prepared
from ...elementwise.program import Program
from ...kernel import Kernel
from ...kernel.sizes import ACCESS, divide_up, power_of_two
from .epilogue import steps, variables
from .geometry import Task, place_of

_KERNEL = Kernel("nn/convolution/direct.cu")
_WEIGHTS = Kernel("nn/convolution/direct_weights.cu")
#: Products of channels and filters of a group up to which each thread sums by itself.
_FEW = 4
#: Outputs of a thread along a row, threads of a block, and taps of a row up to which its columns stay in registers.
_ITEMS, _BLOCK, _TAPS, _COLUMNS = 4, 256, 16, 24
#: Rows that are made at a time where channels lie innermost.
_BAND = 8
#: Threads of a warp, pixels that each thread sums up at least for weights, and parts of them at most.
_WARP, _FEWEST_PIXELS, _MOST_PARTS = 32, 16, 256


def takes(groups: int, filters: int, channels: int, kernel: tuple[int, ...]) -> bool:
    """Whether threads sum up the outputs of so many filters and channels of a group by themselves."""
    return groups > 1 and filters * channels <= _FEW and kernel[-1] <= _TAPS


def width_for(x: Layout, filters: int, channels: int, last: bool) -> int:
    """The channels of a thread: those of an access if they lie innermost and each has one filter, else 1."""
    place, chunk = place_of(x), ACCESS // x.dtype.itemsize
    others = (place.steps[0], *place.steps[2:])
    even = place.channels % chunk == 0 and all(n % chunk == 0 for n in others) and x.aligned
    return chunk if last and even and place.steps[1] == filters == channels == 1 else 1


def launch_of(task: Task, made: Program, device: Device, elem: dtypes.DType, width: int) -> Prepared:
    """The launch of a convolution of ``width`` channels a thread, as :func:`.tiles.launch_of`.

    With more than one, channels of the weights lie innermost too.
    """
    z, y, x = task.axes
    items = _ITEMS
    while items > 1 and (items - 1) * x.step + 1 + (x.taps - 1) * abs(x.tap_step) > _COLUMNS:
        items //= 2
    runs, packs = divide_up(x.pixels, items), task.groups * task.filters // width
    rows = task.image.batch * z.pixels * y.pixels
    bound = _KERNEL.bind(device, **_variables(task, made, elem, width, items))
    sizes = rows, task.filters, task.channels if task.taps else 0
    tail = (task.packed((runs, packs), 0, False, sizes), steps(task, made))
    rows = divide_up(rows, _BAND) * _BAND if task.output.last else rows
    grid = (divide_up(math.prod((runs, packs, rows)), _BLOCK), 1, 1)
    return bound.function.prepare(grid, (_BLOCK, 1, 1), 0, tail)


def _variables(task: Task, made: Program, elem: dtypes.DType, width: int, items: int) -> dict[str, Any]:
    """The template variables."""
    z, y, x = task.axes
    return {
        **variables(task, made, elem),
        "name": f"{made.name}_{dtypes.info(elem).name}_{width}x{items}",
        "block": _BLOCK,
        "items": items,
        "band": _BAND,
        "width": width,
        "taps_z": max(1, z.taps),
        "taps_y": max(1, y.taps),
        "taps_x": max(1, x.taps),
        "step_x": x.step,
        "tap_step_x": x.tap_step,
        "channels_first": not task.output.last,
        "taps_inside": False,
    }


class Share(NamedTuple):
    """How the sums of a gradient of weights are shared.

    Attributes:
        width: channels of a thread.
        across: neighbouring threads that have the same pixels.
        block: threads of a block.
        parts: of the pixels.
    """

    width: int
    across: int
    block: int
    parts: int


def share_of(task: Task, device: Device, width: int) -> Share:
    """How threads share the gradient of ``width`` channels each."""
    pairs = task.groups * task.filters * task.channels
    if device.style == "serial":
        return Share(width, 1, 1, 1)
    by_channels = task.image.last and task.output.last
    across = min(_WARP, power_of_two(divide_up(pairs, width))) if by_channels else 1
    z, y, _ = task.axes
    blocks = divide_up(pairs, across * width) * z.taps * y.taps
    wanted = 8 * device.properties.multiprocessors // blocks
    parts = max(1, min(wanted, task.pixels * across // (_BLOCK * _FEWEST_PIXELS), _MOST_PARTS))
    return Share(width, across, _BLOCK, divide_up(task.pixels, max(1, divide_up(task.pixels, parts))) or 1)


def launch_of_weights(
    task: Task, out: dtypes.DType, device: Device, elem: dtypes.DType, share: Share
) -> Prepared:
    """The launch of a gradient of weights, for the operands of output, image and result.

    Args:
        task: whose result has elements.
        out: the dtype of the result, or of sums of parts.
        device: where it runs.
        elem: of output and image.
        share: how threads share it.
    """
    z, y, x = task.axes
    bound = _WEIGHTS.bind(
        device,
        name=f"convolution_weights_{dtypes.info(elem).name}_{share.width}x{x.taps}",
        block=share.block,
        elem=elem,
        out=dtypes.info(out).cxx,
        index="long long" if task.wide else "int",
        across=share.across,
        width=share.width,
        taps_x=x.taps,
        taps_inside=False,
    )
    pairs, each = task.groups * task.filters * task.channels, max(1, divide_up(task.pixels, share.parts))
    sizes = task.filters, task.channels, task.pixels
    tail = (task.packed((pairs, y.taps), each, False, sizes),)
    grid = (divide_up(pairs, share.across * share.width), share.parts, z.taps * y.taps)
    return bound.function.prepare(grid, (share.block, 1, 1), 0, tail)
