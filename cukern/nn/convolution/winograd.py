"""Convolutions of floats by windows of 3 x 3 that move by one pixel, as products of transformed tiles.

Tiles of 4 x 4 outputs take 36 multiplications a channel in place of 144. Source: Lavin and Gray, "Fast Algorithms for
Convolutional Neural Networks", 2016; the transforms are those of Toom and Cook, at the points 0, ±1/√2, ±√2 and
infinity, with which outputs have smaller rounding errors than with those at 0, ±1, ±2 and infinity.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

from ... import dtypes
from ... import namespace as ops
from ...array import Array
from ...array.layout import Layout, fresh_layout
from ...device import Device
from ...device.interface import Prepared
from ...device.precision import get_matmul_precision
from ...elementwise.graph import input_node
from ...elementwise.program import Program, program
from ...kernel import Kernel
from ...kernel.bound import BoundKernel
from ...kernel.sizes import LARGEST_INDEX, divide_up, divisor
from .depthwise import low
from .epilogue import steps, variables
from .geometry import Place, Task, Windows, forward_axes, place_of, three, turned_axes

_TILES, _RESULT = Kernel("nn/convolution/winograd_tiles.cu"), Kernel("nn/convolution/winograd_result.cu")
#: Points of a transform, and rows of outputs of a tile.
_POINTS, _OUTPUTS = 6, 4
#: Threads of a block, elements of a pack, bytes of the transforms of several images at most, and of one.
_BLOCK, _PACK, _WORKSPACE, _MOST_BYTES = 128, 4, 2**29, 2**31
#: Parts into which the tiles are cut for gradients of weights, by whether there are many channels, and tiles of a part
#: at least; measured.
_PARTS, _FEWEST_TILES = {False: 7, True: 3}, 256
_FEW, _MOST_PARTS = 128, max(_PARTS.values())
#: Tiles of an image at most of which the gradient's transforms have channels innermost, wherever the gradient has them.
_FEW_TILES = 4
#: On a GPU, channels and filters, tiles of a gradient of weights, and products of windows' elements at least; measured.
_CHANNELS, _PRODUCTS = 16, 2**21
#: On the host, channels and filters, and pixels of a batch, at least; measured.
_HOST_CHANNELS, _HOST_PIXELS = 8, 64


class _Transform(NamedTuple):
    """A transform of tiles.

    Attributes:
        size: rows of a tile.
        step: from one tile to the next.
        matrix: with a row for each number that is made of a column.
    """

    size: int
    step: int
    matrix: tuple[tuple[float, ...], ...]

    @property
    def rows(self) -> list[str]:
        """What makes each number, in C++."""
        return [
            " + ".join(
                f"x[{i}]" if factor == 1 else f"acc({factor!r}) * x[{i}]"
                for i, factor in enumerate(row)
                if factor
            )
            for row in self.matrix
        ]


def _powers(count: int) -> tuple[tuple[float, ...], ...]:
    """The values at each point of powers from the 0th on; at infinity the last one alone has a value."""
    a, b = math.sqrt(0.5), math.sqrt(2)
    rows = [[point**i for i in range(count)] for point in (0, a, -a, b, -b)]
    return (*map(tuple, rows), (0,) * (count - 1) + (1,))


def _scaled(count: int) -> tuple[tuple[float, ...], ...]:
    """The same, divided by the product of each point's distances to the others."""
    scales = 1, -2 / 3, -2 / 3, 1 / 6, 1 / 6, 1
    return tuple(tuple(s * x for x in row) for s, row in zip(scales, _powers(count), strict=True))


def _turned(matrix: tuple[tuple[float, ...], ...]) -> tuple[tuple[float, ...], ...]:
    return tuple(zip(*matrix, strict=True))


def _products() -> tuple[tuple[float, ...], ...]:
    """The coefficients of the products of (x - point) over all points but one, and over all."""
    a, b = math.sqrt(0.5), math.sqrt(2)
    return (
        (1, 0, -2.5, 0, 1, 0),
        (0, -b, -2, a, 1, 0),
        (0, b, -2, -a, 1, 0),
        (0, -a, -0.5, b, 1, 0),
        (0, a, -0.5, -b, 1, 0),
        (0, 1, 0, -2.5, 0, 1),
    )


_IMAGE = _Transform(_POINTS, _OUTPUTS, _products())
_FILTERS, _GRADIENT = (_Transform(n, n, _scaled(n)) for n in (3, _OUTPUTS))
_WEIGHTS, _OUTPUT = (_Transform(n, n, _turned(_powers(n))) for n in (3, _OUTPUTS))


class _Tiles(NamedTuple):
    """The tiles of planes, and where their transforms lie.

    Attributes:
        place: of the planes; a tile has all channels.
        down, across: tiles of a plane.
        top, left: where the first one begins.
        last: whether neighbouring threads have neighbouring channels.
        each: tiles of a channel whose transforms lie together.
        parts: how often as many are there.
        turned: whether planes are read backwards.
    """

    place: Place
    down: int
    across: int
    top: int
    left: int
    last: bool
    each: int
    parts: int = 1
    turned: bool = False

    @property
    def tiles(self) -> int:
        """Tiles of a channel."""
        return self.place.batch * self.down * self.across

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of the transforms: a matrix for each point and part."""
        sizes = (self.each, self.place.channels) if self.last else (self.place.channels, self.each)
        return _POINTS**2 * self.parts, *sizes

    @property
    def wide(self) -> bool:
        """Whether an offset may exceed 32 bits, those outside of the planes included."""
        outside = 2 * _POINTS * (abs(self.place.steps[3]) + abs(self.place.steps[4]))
        return self.place.span + outside > LARGEST_INDEX

    def packs(self, aligned: bool, before: int) -> bool:
        """Whether four elements of a row lie together and are aligned, from the ``before``-th of each tile on."""
        batch, channel, _, y, x = self.place.steps
        even = all(n % _PACK == 0 for n in (batch, channel, y, self.place.size[2]))
        return aligned and even and x == 1 and not (self.last or self.turned) and self.left == -before

    def packed(self, threads: int, wide: bool) -> bytes:
        """The kernels' struct Planes.

        Args:
            threads: tiles of a channel that have a thread.
            wide: whether strides have 64 bits.
        """
        place, (_, rows, columns) = self.place, self.shape
        batch, channel, _, *at = place.steps
        first = 0
        if self.turned:
            first = sum(step * (n - 1) for step, n in zip(at, place.size[1:], strict=True))
            at = [-step for step in at]
        of_part = rows * columns
        to_channel, to_tile = (1, columns) if self.last else (columns, 1)
        strides = struct.pack(f"5{'q' if wide else 'i'}", batch, channel, *at, first)
        numbers = struct.pack(
            "11i",
            *(*place.size[1:], self.top, self.left),
            *(self.tiles, threads * place.channels),
            *(of_part * self.parts, of_part, to_channel, to_tile, self.parts),
        )
        inner = place.channels if self.last else threads
        made = strides + numbers + b"".join(map(divisor, (inner, self.each, self.across, self.down)))
        return made + bytes(-len(made) % 8 if wide else 0)


def _variables(tiles: _Tiles, of: _Transform, packs: bool, wide: bool, device: Device) -> dict[str, Any]:
    """The template variables of both kernels."""
    return {
        "size": of.size,
        "step": of.step,
        "rows": of.rows,
        "last": tiles.last,
        "packs": packs,
        "index": "long long" if wide else "int",
        "block": 1 if device.style == "serial" else _BLOCK,
    }


def _prepared(bound: BoundKernel, threads: int, tail: tuple[bytes, ...]) -> Prepared:
    return bound.function.prepare((divide_up(threads, bound.block[0]), 1, 1), bound.block, 0, tail)


class _Transformed:
    """A launch that makes the transforms of an array's tiles."""

    def __init__(
        self, tiles: _Tiles, of: _Transform, device: Device, elem: dtypes.DType, aligned: bool
    ) -> None:
        before, wide = max(0, -tiles.left), tiles.wide
        packs = before + _PACK <= of.size and tiles.packs(aligned, before)
        bound = _TILES.bind(
            device,
            elem=elem,
            name=f"convolution_{dtypes.info(elem).name}_tiles_{of.size}",
            first=before if packs else 0,
            **_variables(tiles, of, packs, wide, device),
        )
        self._swapped = tiles.last
        self._fresh = fresh_layout(device, elem, tiles.shape)
        threads = tiles.each * tiles.parts
        self._launch = _prepared(bound, threads * tiles.place.channels, (tiles.packed(threads, wide),))

    def __call__(self, x: Array) -> Array:
        """The transforms, shape (points and parts, channels, tiles)."""
        made = Array._made(self._fresh)
        self._launch(x._operand, made._operand)
        return ops.swapaxes(made, 1, 2) if self._swapped else made


def _of_filters(task: Task, device: Device, elem: dtypes.DType) -> _Transformed:
    filters, channels, _, *at = task.weights
    turned = task.axes[2].tap_step < 0
    place = Place(task.filters, task.channels, (1, 3, 3), (filters, channels, 0, at[0], at[1]))
    tiles = _Tiles(place, 1, 1, 0, 0, channels <= filters, task.filters, turned=turned)
    return _Transformed(tiles, _FILTERS, device, elem, False)


def _result(
    tiles: _Tiles,
    of: _Transform,
    task: Task,
    made: Program,
    device: Device,
    elem: dtypes.DType,
    aligned: bool = False,
) -> Prepared:
    """The launch that makes planes of transforms, for these, operands of one number a channel, and the planes."""
    packs = of.size == _PACK and tiles.packs(aligned, 0)
    name = f"{made.name}_{dtypes.info(elem).name}_result_{of.size}"
    shared = _variables(tiles, of, packs, task.wide, device)
    bound = _RESULT.bind(device, **variables(task, made, elem) | shared | {"name": name, "first": 0})
    tail = tiles.packed(tiles.tiles, task.wide), steps(task, made)
    return _prepared(bound, tiles.tiles * tiles.place.channels, tail)


def _grid(task: Task) -> tuple[int, int]:
    """Tiles of a plane of outputs, down and across."""
    _, y, x = task.axes
    return divide_up(y.pixels, _OUTPUTS), divide_up(x.pixels, _OUTPUTS)


def _tiles(place: Place, grid: tuple[int, int], corner: tuple[int, int], parts: int = 1) -> _Tiles:
    """The tiles of an image's or an output's planes, in whole packs."""
    each = divide_up(divide_up(place.batch * math.prod(grid), parts), _PACK) * _PACK
    return _Tiles(place, *grid, *corner, place.last, each, parts)


def task_of(x: Layout, weights: Layout, out: Layout, windows: Windows, turned: bool) -> Task | None:
    """The task of a convolution, or if ``turned`` of the gradient of its image; None if it has not this form."""
    if x.ndim != 4 or max(windows.stride) > 1 or not out.size:
        return None
    kernel, size = three(weights.shape[2:], 1), three(out.shape[2:], 1)
    axes = next(turned_axes(windows, kernel, size)) if turned else forward_axes(windows, kernel, size)
    strides = place_of(weights).steps
    if turned:
        strides = (strides[1], strides[0], *strides[2:])
    places, groups = (place_of(x), place_of(out)), windows.groups
    return Task(*places, strides, out.shape[1] // groups, x.shape[1] // groups, groups, axes, False, 0)


def takes(task: Task, elem: dtypes.DType, device: Device) -> bool:
    """Whether a convolution, or the gradient of its weights, has this form: where it was measured to be faster."""
    z, y, x = task.axes
    plain = all(one.taps == 3 and abs(one.tap_step) == 1 and one.step == one.every == 1 for one in (y, x))
    flat = z.taps == task.image.size[0] == task.output.size[0] == task.groups == 1 and z.base == 0
    some = min(task.pixels, task.image.elements, task.filters) > 0
    if not (plain and flat and some and get_matmul_precision() == "highest"):
        return False
    of_windows = _POINTS**2 * _MOST_PARTS * task.filters * task.channels * elem.itemsize
    return max(_bytes(task, elem), of_windows) <= _MOST_BYTES and _pays(task, elem, device)


def _pays(task: Task, elem: dtypes.DType, device: Device) -> bool:
    if elem != dtypes.float32:
        return False
    fewest = min(task.filters, task.channels)
    if device.style == "serial":
        return fewest >= _HOST_CHANNELS and task.pixels >= _HOST_PIXELS
    few = task.of_weights and task.image.batch * math.prod(_grid(task)) < _CHANNELS
    return fewest >= _CHANNELS and not few and task.filters * task.channels * task.pixels >= _PRODUCTS


def _batch(task: Task, elem: dtypes.DType) -> int:
    """The images whose transforms lie in memory at a time."""
    return max(1, min(task.image.batch, _WORKSPACE // _bytes(task, elem)))


def _bytes(task: Task, elem: dtypes.DType) -> int:
    """The bytes of the transforms of an image and its output."""
    return _POINTS**2 * math.prod(_grid(task)) * (task.filters + task.channels) * elem.itemsize


class Convolution:
    """The launches of a convolution, for image, weights and operands."""

    def __init__(self, task: Task, made: Program, device: Device, image: Layout) -> None:
        self._task, self._made, self._device, self._image = task, made, device, image
        self._each = _batch(task, image.dtype)
        self._last = task.output.last
        self._of_filters = _of_filters(task, device, image.dtype)
        self._passes = {n: self._pass(n) for n in {self._each, task.image.batch % self._each or self._each}}

    def _pass(self, batch: int) -> tuple[_Transformed, Prepared]:
        """The launches of so many images."""
        task, elem, grid = self._task, self._image.dtype, _grid(self._task)
        _, y, x = task.axes
        image = _tiles(task.image._replace(batch=batch), grid, (low(y), low(x)))
        output = _tiles(task.output._replace(batch=batch), grid, (0, 0))
        return (
            _Transformed(image, _IMAGE, self._device, elem, self._image.aligned),
            _result(output, _OUTPUT, task, self._made, self._device, elem, True),
        )

    def __call__(self, arrays: Sequence[Array], out: Array) -> None:
        """Launch."""
        image, weights, *operands = arrays
        filters, batch = self._of_filters(weights), self._task.image.batch
        for start in range(0, batch, self._each):
            n = min(self._each, batch - start)
            tiles, result = self._passes[n]
            some, to = _images(start, n, batch, image, out)
            transformed = tiles(some)
            if self._last:
                product = ops.matmul(ops.swapaxes(transformed, 1, 2), filters)
            else:
                product = ops.matmul(ops.swapaxes(filters, 1, 2), transformed)
            product._planned()
            result(product._operand, *(one._operand for one in operands), to._operand)


class Weights:
    """The launches of the gradient of a convolution's weights, for the output's gradient and the image.

    Attributes:
        shares: how many results they write behind one another, each of a part of the batch.
    """

    def __init__(self, task: Task, device: Device, output: Layout, image: Layout) -> None:
        self._task, self._device, self._layouts = task, device, (output, image)
        self._each = _batch(task, image.dtype)
        self.shares = divide_up(task.image.batch, self._each)
        self._passes = {n: self._pass(n) for n in {self._each, task.image.batch % self._each or self._each}}

    def _pass(self, batch: int) -> tuple[_Transformed, _Transformed, Prepared]:
        task, (output, image), grid = self._task, self._layouts, _grid(self._task)
        _, y, x = task.axes
        parts = parts_for(task, batch * math.prod(grid), self._device)
        of_gradient = _tiles(task.output._replace(batch=batch), grid, (0, 0), parts)
        if math.prod(grid) <= _FEW_TILES:
            of_gradient = of_gradient._replace(last=True)
        planes = (
            (output, _GRADIENT, of_gradient),
            (image, _IMAGE, _tiles(task.image._replace(batch=batch), grid, (low(y), low(x)), parts)),
        )
        of_output, of_image = (
            _Transformed(tiles, of, self._device, given.dtype, given.aligned) for given, of, tiles in planes
        )
        filters, channels, _, *at = task.weights
        windows = Place(task.filters, task.channels, (1, 3, 3), (filters, channels, 0, at[0], at[1]))
        tiles = _Tiles(windows, 1, 1, 0, 0, True, task.filters, parts)
        own = program("convolution_weights", (input_node(0, image.dtype),), (image.dtype,))
        return of_output, of_image, _result(tiles, _WEIGHTS, task, own, self._device, image.dtype)

    def __call__(self, arrays: Sequence[Array], out: Array) -> None:
        """Launch."""
        batch = self._task.image.batch
        for number, start in enumerate(range(0, batch, self._each)):
            n = min(self._each, batch - start)
            of_output, of_image, result = self._passes[n]
            output, image = _images(start, n, batch, *arrays)
            product = ops.matmul(of_output(output), ops.swapaxes(of_image(image), 1, 2))
            to = out[number] if self.shares > 1 else out
            for one in (product, to):
                one._planned()
            result(product._operand, to._operand)


def parts_for(task: Task, tiles: int, device: Device) -> int:
    """Into how many parts the tiles are cut, which have products of their own, so that no multiprocessor is idle."""
    if device.style == "serial":
        return 1
    wanted = _PARTS[min(task.filters, task.channels) > _FEW]
    return max(1, min(wanted, tiles // _FEWEST_TILES))


def _images(start: int, count: int, batch: int, *arrays: Array) -> list[Array]:
    """Images of a batch."""
    if count == batch:
        return list(arrays)
    found = [one[start : start + count] for one in arrays]
    for one in found:
        one._planned()
    return found
