"""Convolutions of few channels and many filters: blocks sum up a tile of pixels with a channel in shared memory."""

from __future__ import annotations

from collections.abc import Sequence

from ... import dtypes
from ...device import Device
from ...device.interface import Prepared
from ...elementwise.program import Program
from ...kernel import Kernel
from ...kernel.sizes import divide_up
from .epilogue import steps, variables
from .geometry import Place, Task, Windows

_KERNEL = Kernel("nn/convolution/few_channels.cu")
#: Channels at most, filters at least, and columns of the image that a thread keeps at most.
_CHANNELS, _FILTERS, _REACH = 4, 32, 32
#: Filters of a block, and rows and columns of a tile; columns of a thread, which has eight filters.
_TILE_N, _DOWN, _ACROSS, _COLUMNS = 64, 16, 16, 8
#: Threads of a block, blocks of a multiprocessor, and bytes of their shared memory at most.
_BLOCK, _RESIDENT, _SHARED = _TILE_N // 8 * _DOWN * _ACROSS // _COLUMNS, 2, 48 * 1024
#: Banks of shared memory; elements of a pack.
_BANKS, _PACK = 32, 4


def takes(
    elem: dtypes.DType, device: Device, windows: Windows, filters: int, channels: int, kernel: Sequence[int]
) -> bool:
    """Whether a convolution has this form.

    Args:
        elem: of image, weights and output.
        device: where it runs.
        windows: how the windows lie.
        filters: of the convolution.
        channels: of the image.
        kernel: the sizes of a window.
    """
    if device.style == "serial" or dtypes.info(elem).acc != dtypes.float32 or len(kernel) != 2:
        return False
    fits = channels <= _CHANNELS and filters >= _FILTERS and windows.groups == max(windows.dilation) == 1
    (down, across), (taps_y, taps_x) = windows.stride, kernel
    if not fits or _reach(across, taps_x) > _REACH:
        return False
    image = ((_DOWN - 1) * down + taps_y) * _pitch(down, across, taps_x)
    return 4 * (image + taps_y * taps_x * (_TILE_N + _PACK)) <= _SHARED


def _reach(step: int, taps: int) -> int:
    """Columns of the image that a thread reads, in packs."""
    return divide_up((_COLUMNS - 1) * step + taps, _PACK) * _PACK


def _pitch(down: int, across: int, taps: int) -> int:
    """Elements from a row of a tile's image to the next: packs of a warp, of two by two threads, meet in no bank."""
    least = (_ACROSS - _COLUMNS) * across + _reach(across, taps)
    for pitch in range(least, least + _BANKS, _PACK):
        places = {(y * down * pitch + x * _COLUMNS * across) % _BANKS for y in range(2) for x in range(2)}
        if len(places) == 4:
            return pitch
    return least


def _packs(output: Place, columns: int, filters: int) -> str:
    """Along what elements are stored in packs."""
    batch, channel, _, row, column = output.steps
    if column == 1 and columns % _COLUMNS == 0 and not any(n % _COLUMNS for n in (batch, channel, row)):
        return "columns"
    if channel == 1 and filters % _PACK == 0 and not any(n % _PACK for n in (batch, row, column)):
        return "filters"
    return "none"


def launch_of(task: Task, made: Program, device: Device, elem: dtypes.DType) -> Prepared:
    """The launch of a convolution into a new array, as :func:`.tiles.launch_of`."""
    _, y, x = task.axes
    bound = _KERNEL.bind(
        device,
        **variables(task, made, elem),
        name=f"{made.name}_few_channels_{dtypes.info(elem).name}_{y.taps}x{x.taps}",
        block=_BLOCK,
        resident=_RESIDENT,
        taps_y=y.taps,
        taps_x=x.taps,
        step_y=y.step,
        step_x=x.step,
        filters=_TILE_N,
        down=_DOWN,
        across=_ACROSS,
        columns=_COLUMNS,
        pitch=_pitch(y.step, x.step, x.taps),
        packs=_packs(task.output, x.pixels, task.filters),
        taps_inside=False,
    )
    tiles = divide_up(y.pixels, _DOWN), divide_up(x.pixels, _ACROSS)
    tail = task.packed(tiles, 0, False, (task.pixels, task.filters, task.channels)), steps(task, made)
    grid = (tiles[0] * tiles[1] * task.image.batch, divide_up(task.filters, _TILE_N), 1)
    return bound.function.prepare(grid, (_BLOCK, 1, 1), 0, tail)
