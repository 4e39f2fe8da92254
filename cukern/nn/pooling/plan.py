"""The launches of the pooling kernels."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ... import dtypes
from ...array import Array
from ...array.creation import empty
from ...array.layout import address
from ...device import Device
from ...kernel import Kernel
from ...kernel.bound import BoundKernel
from ...kernel.sizes import ACCESS, divide_up, index_type
from . import last
from .geometry import Pair, Windows

Sizes = tuple[int, int, int, int, int]

#: By direction, the kernel that takes each window by itself, and that of tiles, which reads once what windows share.
_KERNELS = {
    "forward": (
        Kernel("nn/pooling/forward.cu", name="pool2d"),
        Kernel("nn/pooling/forward_tiles.cu", name="pool2d"),
    ),
    "backward": (
        Kernel("nn/pooling/backward.cu", name="pool2d_backward"),
        Kernel("nn/pooling/backward_tiles.cu", name="pool2d_backward"),
    ),
}


@dataclass(frozen=True)
class Shape:
    """The work of a thread.

    Attributes:
        run: contiguous bytes of a row of the plane that it reads, or writes in a gradient.
        rows: rows of the result that it computes.
        block: threads per block.
        stride: the largest stride across for which a thread reads several windows at once.
    """

    run: int
    rows: int
    block: int = 256
    stride: int = 16


#: The work of a thread in the forward and the backward kernel for each kind of device; None for a plain loop over each
#: window. On a GPU a thread takes the widest access of a row, and enough rows in flight to hide the memory's latency:
#: 128 bytes per thread for windows of 2 x 2 with 4 rows. A gradient reads little, and does not wait for its writes.
#: On the host a plain loop is as fast if windows are far apart.
SHAPES: dict[str, tuple[Shape | None, Shape | None]] = {
    "serial": (Shape(32, 2, stride=4), Shape(32, 2)),
    "simt": (Shape(16, 4), Shape(16, 4)),
    # 16 bytes are 8 elements of a half type, whose windows cost more to sum than the wider access saves.
    "simt, half": (Shape(8, 4), Shape(16, 8)),
}


def _kind(device: Device, dtype: dtypes.DType) -> str:
    """The key of :data:`SHAPES`."""
    return "simt, half" if device.style == "simt" and dtype.itemsize == 2 else device.style


#: Threads per multiprocessor below which a thread takes fewer rows.
_BUSY = 1024
#: The limits of an unrolled tile: elements of a window, registers per thread, and steps.
_PLACES, _HELD, _STEPS = 64, 160, 2048


@dataclass(frozen=True)
class Tile:
    """A thread's part of the result: ``items`` neighbours in each of ``rows`` rows, and the widths of accesses.

    Attributes:
        pack: elements per read; 0 for a plain loop over each window.
        store: elements per write.
    """

    rows: int
    items: int
    pack: int = 0
    store: int = 1

    def threads(self, planes: int, height: int, width: int) -> int:
        """The number of threads for planes of this size."""
        return planes * divide_up(height, self.rows) * divide_up(width, self.items)


@dataclass(frozen=True)
class _Call:
    """The key of a plan."""

    device: Device
    dtype: dtypes.DType
    shape: tuple[int, ...]
    windows: Windows
    maximum: bool
    keep: bool
    aligned: bool

    @property
    def sizes(self) -> Sizes:
        """Planes, height, width, output height, output width."""
        height, width = self.shape[-2:]
        return math.prod(self.shape[:-2]), height, width, *self.windows.output_shape(height, width)


def touched(windows: Windows, rows: int) -> tuple[int, ...]:
    """The rows that ``rows`` windows down read, counted from the first row of the first window."""
    (kernel, _), (stride, _), (dilation, _) = windows.kernel, windows.stride, windows.dilation
    return tuple(sorted({window * stride + a * dilation for window in range(rows) for a in range(kernel)}))


def reaching(windows: Windows, rows: int, items: int) -> Pair:
    """The number of windows down and across that overlap a tile of ``rows`` rows and ``items`` neighbours."""
    counts = []
    for axis, size in enumerate((rows, items)):
        stride, padding, reach = windows.stride[axis], windows.padding[axis], windows.span[axis] - 1
        counts.append((size - 1 + padding) // stride + (reach - padding) // stride + 1)
    return counts[0], counts[1]


def _halves(n: int, most: int) -> list[int]:
    """``n``, ``n // 2`` and so on down to 1, those below twice ``most``."""
    return [one for one in (n >> k for k in range(n.bit_length())) if one < 2 * most] or [1]


def _chosen(
    call: _Call,
    rows: list[int],
    items: list[int],
    sizes: tuple[int, int, int],
    fits: Callable[[int, int], bool],
) -> Pair | None:
    """The rows and items per row of a thread, from candidates in descending order: as many items as its registers
    hold, and as many rows as leave enough threads.
    """
    widest = next((n for n in items if fits(rows[-1], n)), None)
    if widest is None:
        return None
    fitting = [n for n in rows if fits(n, widest)]
    enough = _BUSY * call.device.properties.multiprocessors
    return next((n for n in fitting if Tile(n, widest).threads(*sizes) >= enough), fitting[-1]), widest


def _forward_tile(call: _Call, shape: Shape | None) -> Tile:
    planes, _, width, out_height, out_width = call.sizes
    windows, stride, most = call.windows, call.windows.stride[1], ACCESS // call.dtype.itemsize
    loop, words = Tile(1, 1 if out_width < 4 else 4), divide_up(call.dtype.itemsize, 4)
    if shape is None or math.prod(windows.kernel) > _PLACES or stride > shape.stride:
        return loop

    def fits(rows: int, items: int) -> bool:
        return len(touched(windows, rows)) * ((items - 1) * stride + windows.span[1]) * words <= _HELD

    items = _halves(max(1, shape.run // call.dtype.itemsize // stride), out_width)
    found = _chosen(call, _halves(shape.rows, out_height), items, (planes, out_height, out_width), fits)
    if found is None:
        return loop
    pack, store = math.gcd(most, found[1] * stride, width), math.gcd(most, found[1], out_width)
    return Tile(*found, pack, store) if call.aligned else Tile(*found, 1)


def _backward_tile(call: _Call, shape: Shape | None) -> Tile:
    planes, height, width, _, out_width = call.sizes
    windows, (down, across), most = call.windows, call.windows.stride, ACCESS // call.dtype.itemsize
    if shape is None or max(down, across) > ACCESS:
        return Tile(1, 1)
    words = divide_up(call.dtype.itemsize, 4)

    def fits(rows: int, items: int) -> bool:
        held = math.prod(reaching(windows, rows, items))
        return (rows * items + 2 * held) * words <= _HELD and held * math.prod(windows.kernel) <= _STEPS

    rows = [down * n for n in _halves(max(1, shape.rows // down), divide_up(height, down))]
    items = [math.lcm(n, across) for n in _halves(shape.run // call.dtype.itemsize, width)]
    found = _chosen(call, rows, items, (planes, height, width), fits)
    if found is None:
        return Tile(1, 1)
    pack, store = math.gcd(most, found[1] // across, out_width), math.gcd(most, found[1], width)
    return Tile(*found, pack, store) if call.aligned else Tile(*found, 1)


def variables(direction: str, call: _Call, tile: Tile) -> dict[str, Any]:
    """The template variables of a kernel besides its block."""
    planes, height, width, out_height, out_width = call.sizes
    windows, winner = call.windows, call.windows.winner_dtype
    bound: dict[str, Any] = {
        "elem": call.dtype,
        "index": index_type(planes * height * width, planes * out_height * out_width),
        "kernel": windows.kernel,
        "stride": windows.stride,
        "padding": windows.padding,
        "dilation": windows.dilation,
        "count_padding": windows.count_padding,
        "kind": "maximum" if call.maximum else "average",
        "winner": dtypes.info(winner).cxx,
        "no_winner": 255 if winner == dtypes.uint8 else -1,
        "items": tile.items,
    }
    if direction == "forward":
        bound["keep"] = call.keep
    if tile.pack:
        bound |= {"rows": tile.rows, "pack": tile.pack, "store": tile.store}
        bound["even"] = windows.are_inside(height, width, windows.count_padding)
        if direction == "forward":
            bound |= {"full": windows.are_inside(height, width), "touched": touched(windows, tile.rows)}
    return bound


@lru_cache(maxsize=1024)
def _plan(direction: str, call: _Call) -> tuple[BoundKernel, int, Sizes]:
    """The compiled kernel, its grid, and its arguments after the arrays."""
    backward = direction == "backward"
    shape = SHAPES[_kind(call.device, call.dtype)][backward]
    tile = (_backward_tile if backward else _forward_tile)(call, shape)
    block = 256 if shape is None else shape.block
    planes, *sizes = call.sizes
    result = sizes[:2] if backward else sizes[2:]
    kernel = _KERNELS[direction][bool(tile.pack)]
    bound = kernel.bind(call.device, block=block, **variables(direction, call, tile))
    return bound, divide_up(tile.threads(planes, *result), block), call.sizes


def _launch(
    direction: str,
    arrays: tuple[Array, ...],
    x_shape: tuple[int, ...],
    windows: Windows,
    maximum: bool,
    keep: bool,
) -> None:
    device = arrays[0].device
    tiled = SHAPES[_kind(device, arrays[0].dtype)] != (None, None)
    aligned = tiled and not any(address(one._data) % ACCESS for one in arrays)
    call = _Call(device, arrays[0].dtype, x_shape, windows, maximum, keep, aligned)
    bound, grid, sizes = _plan(direction, call)
    bound((*arrays, *sizes), grid)


def forward(x: Array, windows: Windows, maximum: bool, keep: bool = False) -> tuple[Array, Array | None]:
    """The pooled ``x``; with ``keep`` also the index of each window's largest element."""
    if last.takes(x):
        return last.forward(x, windows, maximum, keep)
    x = x.contiguous()
    shape = (*x.shape[:-2], *windows.output_shape(*x.shape[-2:]))
    y = empty(shape, x.dtype, x.device)
    winners = empty(shape, windows.winner_dtype, x.device) if keep else None
    _launch("forward", (x, y) if winners is None else (x, y, winners), x.shape, windows, maximum, keep)
    return y, winners


def backward(dy: Array, x_shape: tuple[int, ...], windows: Windows, winners: Array | None = None) -> Array:
    """The gradient of x, of max pooling if ``winners`` are given, else of average pooling."""
    if last.takes(dy if winners is None else winners):
        return last.backward(dy, x_shape, windows, winners)
    dy, winners = dy.contiguous(), None if winners is None else winners.contiguous()
    dx = empty(x_shape, dy.dtype, dy.device)
    arrays = (dy, dx) if winners is None else (dy, winners, dx)
    _launch("backward", arrays, x_shape, windows, winners is not None, winners is not None)
    return dx
