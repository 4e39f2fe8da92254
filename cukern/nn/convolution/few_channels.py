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
#: Taps of a window up to which tiles have fewer rows, and 16-bit floats have this form: of more, products are faster.
_FEW_TAPS = 9
#: Columns of a tile and of a thread, which has eight filters; threads and bytes of shared memory at most.
_ACROSS, _COLUMNS, _THREADS, _SHARED = 16, 8, 512, 48 * 1024
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
    if not fits or _reach(across, taps_x) > _REACH or (elem.itemsize == 2 and taps_y * taps_x > _FEW_TAPS):
        return False
    rows, tile_n = _tile(filters, taps_y * taps_x)
    image = ((rows - 1) * down + taps_y) * _pitch(down, across, taps_x, tile_n)
    return 4 * (image + taps_y * taps_x * (tile_n + _PACK)) <= _SHARED


def _tile(filters: int, taps: int) -> tuple[int, int]:
    """Rows and filters of a block."""
    return 8 if taps <= _FEW_TAPS else 16, 32 if filters <= 32 else 64


def _reach(step: int, taps: int) -> int:
    """Columns of the image that a thread reads, in packs."""
    return divide_up((_COLUMNS - 1) * step + taps, _PACK) * _PACK


def _pitch(down: int, across: int, taps: int, tile_n: int) -> int:
    """Elements from a row of a tile's image to the next: packs of a warp meet in few banks."""
    least = (_ACROSS - _COLUMNS) * across + _reach(across, taps)
    columns, rows = _ACROSS // _COLUMNS, 32 // (tile_n // 8) // (_ACROSS // _COLUMNS)

    def apart(pitch: int) -> int:
        return len(
            {(y * down * pitch + x * _COLUMNS * across) % _BANKS for y in range(rows) for x in range(columns)}
        )

    return max(range(least, least + _BANKS, _PACK), key=apart)


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
    down, tile_n = _tile(task.filters, y.taps * x.taps)
    block = tile_n // 8 * down * (_ACROSS // _COLUMNS)
    bound = _KERNEL.bind(
        device,
        **variables(task, made, elem),
        name=f"{made.name}_few_channels_{dtypes.info(elem).name}_{y.taps}x{x.taps}",
        block=block,
        resident=_THREADS // block,
        taps_y=y.taps,
        taps_x=x.taps,
        step_y=y.step,
        step_x=x.step,
        filters=tile_n,
        down=down,
        across=_ACROSS,
        columns=_COLUMNS,
        pitch=_pitch(y.step, x.step, x.taps, tile_n),
        packs=_packs(task.output, x.pixels, task.filters),
        taps_inside=False,
    )
    tiles = divide_up(y.pixels, down), divide_up(x.pixels, _ACROSS)
    tail = task.packed(tiles, 0, False, (task.pixels, task.filters, task.channels)), steps(task, made)
    grid = (tiles[0] * tiles[1] * task.image.batch, divide_up(task.filters, tile_n), 1)
    return bound.function.prepare(grid, (block, 1, 1), 0, tail)
