"""Convolutions of few filters, and gradients of images of few channels: threads sum up pixels by themselves."""

from __future__ import annotations

from collections.abc import Sequence

from ... import dtypes
from ...array.layout import Layout
from ...device import Device
from ...device.interface import Prepared
from ...elementwise.program import Program
from ...kernel import Kernel
from ...kernel.sizes import divide_up
from .epilogue import steps, variables
from .geometry import Task, place_of

_KERNEL = Kernel("nn/convolution/few.cu")
#: Filters at most, channels of each at least, and weights of a slice that a thread keeps.
_FILTERS, _CHANNELS, _WEIGHTS = 4, 8, 64
#: Rows of a thread, by whether elements have 16 bits; threads of a block, and slices of weights in shared memory.
_ROWS, _BLOCK, _DEPTH = {False: (8, 4, 2, 1), True: (4, 2, 1)}, 128, 16
#: Threads for each multiprocessor below which they have fewer rows.
_BUSY = 512


def takes(x: Layout, filters: int, channels: int, kernel: Sequence[int], stride: Sequence[int]) -> bool:
    """Whether an image's convolution has this form.

    Args:
        x: the layout of the image.
        filters: of a group.
        channels: of a group.
        kernel: the sizes of a window.
        stride: of which one tap a window remains.
    """
    place = place_of(x)
    taps = [divide_up(one, step) for one, step in zip(kernel, stride, strict=True)][-2:]
    weights = filters * taps[-1] * (taps[0] if len(taps) > 1 else 1)
    return filters <= _FILTERS and channels >= _CHANNELS and weights <= _WEIGHTS and place.steps[4] == 1


def launch_of(task: Task, made: Program, device: Device, elem: dtypes.DType) -> Prepared:
    """The launch of a convolution, as :func:`.tiles.launch_of`."""
    z, y, x = task.axes
    columns, busy = task.image.batch * z.pixels * x.pixels, _BUSY * device.properties.multiprocessors
    fits = (n for n in _ROWS[elem.itemsize == 2] if n < 2 * y.pixels)
    rows = next((n for n in fits if columns * divide_up(y.pixels, n) >= busy), 1)
    block = 1 if device.style == "serial" else _BLOCK
    bands = divide_up(y.pixels, rows)
    bound = _KERNEL.bind(
        device,
        **variables(task, made, elem),
        name=f"{made.name}_few_{dtypes.info(elem).name}_{task.filters}x{y.taps}x{x.taps}",
        block=block,
        rows=rows,
        filters=task.filters,
        depth=_DEPTH,
        taps_z=max(1, z.taps),
        taps_y=max(1, y.taps),
        taps_x=max(1, x.taps),
        step_y=y.step,
        tap_step_y=y.tap_step,
        tap_step_x=x.tap_step,
        taps_inside=False,
    )
    threads = columns * bands
    sizes = threads, task.filters, task.channels if task.taps else 0
    tail = (task.packed((bands, 1), 0, False, sizes), steps(task, made))
    return bound.function.prepare((divide_up(threads, block), task.groups, 1), (block, 1, 1), 0, tail)
