"""Convolutions of each channel with one filter of its own, whose threads walk down the image's rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from ... import dtypes
from ...array.layout import Layout
from ...device import Device
from ...device.interface import Prepared
from ...elementwise.program import Program
from ...kernel import Kernel
from ...kernel.sizes import ACCESS, divide_up
from .epilogue import steps, variables
from .geometry import Axis, Task, Windows

_KERNEL = Kernel("nn/convolution/depthwise.cu")
#: Taps along rows and columns up to which sums and factors stay in registers.
_TAPS = 3
#: Threads of a block, and those that have neighbouring packs of channels at most.
_BLOCK, _ACROSS = 128, 32
#: Columns of a thread where they are not read in packs; rows of a thread at most, fewer of packs of 16-bit floats,
#: and at least if there are few.
_COLUMNS, _ROWS, _NARROW_ROWS, _FEWEST_ROWS = 4, 16, 8, 4
#: Threads in the time of one, where rows are few.
_WAVES = 2


class Form(NamedTuple):
    """How threads share a convolution: the template variables of depthwise.cu that do not follow from its windows.

    Attributes:
        last: whether channels lie innermost.
        whole: whether rows are read in packs of columns.
        width: channels of a thread.
        items: columns of a thread.
        ahead: rows of the image that are on their way, a divisor of a window's rows.
        rows: of the output, of a thread.
        block: threads of a block.
        resident: blocks that a multiprocessor has at a time.
        across: neighbouring threads that have packs of channels.
    """

    last: bool
    whole: bool
    width: int
    items: int
    ahead: int
    rows: int
    block: int
    resident: int
    across: int = 1


def takes(groups: int, filters: int, channels: int, windows: Windows, kernel: tuple[int, ...]) -> bool:
    """Whether threads walk down rows to make the outputs of so many filters and channels of a group."""
    dense = max(*windows.stride, *windows.dilation) == 1
    return groups > 1 and filters == channels == 1 and len(kernel) == 2 and dense and max(kernel) <= _TAPS


def is_even(layout: Layout, chunk: int, axis: int) -> bool:
    """Whether packs of ``chunk`` elements along an axis, on which array's elements lie side by side, are aligned."""
    steps = [
        step // layout.dtype.itemsize for n, step in zip(layout.shape, layout.strides, strict=True) if n > 1
    ]
    side_by_side = layout.strides[axis] == layout.dtype.itemsize
    return (
        layout.aligned
        and side_by_side
        and layout.shape[axis] % chunk == 0
        and all(step == 1 or step % chunk == 0 for step in steps)
    )


def form_for(task: Task, x: Layout, out: Layout, device: Device) -> Form | None:
    """How threads share a convolution, by where the channels of image and output lie; None if that differs."""
    item, serial = x.dtype.itemsize, device.style == "serial"
    _, y, along = task.axes
    last = task.output.last
    if last != (task.image.last and task.image.steps[1] == 1):
        return None
    if last:
        width = widest(max(1, ACCESS // 2 // item), lambda n: is_even(x, n, 1) and is_even(out, n, 1))
        narrow = item == 2
        form = Form(True, False, width, _COLUMNS, 1 if narrow else y.taps, 0, _BLOCK, 3 if narrow else 4)
    else:
        within = 0 <= -low(along) < along.taps
        items = widest(ACCESS // item, lambda n: within and is_even(x, n, 3) and is_even(out, n, 3))
        whole = items > 1
        form = Form(False, whole, 1, items if whole else _COLUMNS, 1, 0, _BLOCK, 6)
    form = form._replace(block=1, resident=1) if serial else _across(form, task)
    return form._replace(rows=y.pixels if serial else _rows(form, task, device))


def widest(most: int, fits: Callable[[int], bool]) -> int:
    """The largest half of a half ... of ``most`` that fits, or 1."""
    while most > 1 and not fits(most):
        most //= 2
    return most


def strips_of(task: Task, columns: int, rows: int) -> tuple[int, int, int]:
    """The strips of columns and bands of rows into which threads cut a channel of all images; those of each alone."""
    _, y, x = task.axes
    runs, bands = divide_up(x.pixels, columns), divide_up(y.pixels, rows)
    return task.image.batch * runs * bands, runs, bands


def low(axis: Axis) -> int:
    """The place in the image of a window's least tap, of the first pixel."""
    return axis.base - (axis.taps - 1 if axis.tap_step < 0 else 0)


def _across(form: Form, task: Task) -> Form:
    """The form with as many neighbouring packs of channels as fill a block best."""
    packs = divide_up(task.groups, form.width)
    return form._replace(across=divide_up(packs, divide_up(packs, _ACROSS))) if form.last else form


def _rows(form: Form, task: Task, device: Device) -> int:
    """Rows of a thread: as many as leave each multiprocessor enough threads."""
    _, y, x = task.axes
    strips = task.image.batch * divide_up(task.groups, form.width) * divide_up(x.pixels, form.items)
    wanted = _WAVES * device.properties.multiprocessors * form.resident * form.block
    most = _NARROW_ROWS if form.items > _COLUMNS else _ROWS
    bands = max(divide_up(y.pixels, most), min(divide_up(wanted, strips), divide_up(y.pixels, _FEWEST_ROWS)))
    return divide_up(y.pixels, bands)


def launch_of(task: Task, made: Program, device: Device, elem: dtypes.DType, form: Form) -> Prepared:
    """The launch of a convolution, as :func:`.tiles.launch_of`."""
    _, y, x = task.axes
    runs, bands = divide_up(x.pixels, form.items), divide_up(y.pixels, form.rows)
    down = form.block // form.across
    tiles = divide_up(task.groups, form.across * form.width) if form.last else 1
    bound = _KERNEL.bind(
        device,
        **variables(task, made, elem),
        name=f"{made.name}_{dtypes.info(elem).name}_rows_{form.width}x{form.items}",
        **form._asdict(),
        taps_y=y.taps,
        taps_x=x.taps,
        turned=x.tap_step < 0,
        before=-low(x) if form.whole else 0,
        taps_inside=False,
    )
    sizes = bands, task.groups, task.image.batch
    tail = (task.packed((runs, tiles), form.rows, False, sizes), steps(task, made))
    jobs = math.prod((runs, bands, task.image.batch, 1 if form.last else task.groups))
    return bound.function.prepare((divide_up(jobs, down) * tiles, 1, 1), (form.block, 1, 1), 0, tail)
