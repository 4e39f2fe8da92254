"""Convolutions as problems of a family: what one call asks for, and the implicit GEMMs that compute it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from ... import dtypes
from ...array.layout import Layout, fresh_layout, layout
from ...device import Device
from ...device.interface import Properties
from ...elementwise.graph import cast, input_node
from ...elementwise.program import Program, program
from ...kernel.sizes import LARGEST_INDEX, divide_up, divisor_of
from ...launch import cost
from ...launch.params import DIVISOR, Given, Params
from ...linear.epilogue import of_sum
from ...linear.problem import epilogue_steps, epilogue_variables
from ...pytree import declare_leaf

Three = tuple[int, int, int]


@declare_leaf
class Windows(NamedTuple):
    """The windows of a convolution over one to three axes.

    Attributes:
        stride: from one window to the next, along each axis.
        padding: zeros before the image.
        dilation: from one tap of a window to the next.
        groups: of channels and filters, which are connected each with its own.
    """

    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int = 1


@declare_leaf
class Form(NamedTuple):
    """What is asked of a convolution besides its arrays and what follows it.

    Attributes:
        windows: how the windows lie.
        size: of the result, along its axes of pixels.
        transposed: whether the image's gradient is computed, of that of the output.
        channels_last: whether the channels of the result lie innermost in memory.
    """

    windows: Windows
    size: tuple[int, ...]
    transposed: bool
    channels_last: bool


class View(NamedTuple):
    """How an array of a batch, channels and three axes lies in memory: sizes, and strides in elements."""

    batch: int
    channels: int
    size: Three
    strides: tuple[int, int, int, int, int]

    @property
    def elements(self) -> int:
        """The number of elements."""
        return self.batch * self.channels * math.prod(self.size)

    @property
    def span(self) -> int:
        """The largest distance of two elements."""
        sizes = (self.batch, self.channels, *self.size)
        return sum(abs(step) * (n - 1) for step, n in zip(self.strides, sizes, strict=True))

    @property
    def channels_last(self) -> bool:
        """Whether channels lie innermost in memory."""
        inner = [step for step, n in zip(self.strides[2:], self.size, strict=True) if n > 1]
        return self.channels > 1 and bool(inner) and self.strides[1] < min(inner)

    @property
    def unique(self) -> bool:
        """Whether no two elements share memory and no axis is reversed, as tensor maps demand."""
        sizes = (self.batch, self.channels, *self.size)
        return all(step > 0 or n == 1 for step, n in zip(self.strides, sizes, strict=True))

    def dense_planes(self, channels: int) -> bool:
        """Whether the planes of so many channels lie behind one another, without gaps."""
        depth, height, width = self.size
        sizes = (self.batch, channels, depth, height, width)
        wanted = [math.prod(sizes[i + 1 :]) for i in range(5)]
        return all(n == 1 or a == b for n, a, b in zip(sizes, self.strides, wanted, strict=True))


@lru_cache(maxsize=4096)
def view_of(layout: Layout) -> View:
    """How an array of shape (batch, channels, one to three axes) lies, with axes of size 1 before these."""
    item = layout.dtype.itemsize
    strides = [0 if n == 1 else s // item for n, s in zip(layout.shape, layout.strides, strict=True)]
    missing = 5 - layout.ndim
    (batch, channels, *size) = layout.shape
    z, y, x = [1] * missing + size
    a, b, c = [0] * missing + strides[2:]
    return View(batch, channels, (z, y, x), (strides[0], strides[1], a, b, c))


@lru_cache(maxsize=4096)
def is_channels_last(layout: Layout) -> bool:
    """Whether channels lie innermost in memory."""
    return view_of(layout).channels_last


def channels_last_layout(device: Device, dtype: dtypes.DType, shape: tuple[int, ...]) -> Layout:
    """The layout of a new array whose second axis is innermost in memory."""
    batch, channels, *size = shape
    by = fresh_layout(device, dtype, (batch, *size, channels)).strides
    return layout(device, dtype, shape, (by[0], by[-1], *by[1:-1]), True)


def three(values: Sequence[int], missing: int) -> Three:
    """The values along three axes, with ``missing`` ones before those given."""
    a, b, c = [missing] * (3 - len(values)) + list(values)
    return a, b, c


class Axis(NamedTuple):
    """How the pixels of a grid and the taps of a window lie along an axis of the image.

    A pixel's place in the image is ``base + pixel * step + tap * tap_step``.

    Attributes:
        pixels: of the grid.
        first, every: the output's place of a pixel is ``first + pixel * every``.
        tap, each: the weights' place of a tap is ``tap + number * each``.
    """

    pixels: int
    taps: int
    base: int
    step: int
    tap_step: int
    first: int = 0
    every: int = 1
    tap: int = 0
    each: int = 1

    @property
    def lowest(self) -> int:
        """The place in the image of the least tap of the first window."""
        return self.base - (self.taps - 1) * max(0, -self.tap_step)

    @property
    def pads_within(self) -> bool:
        """Whether the first window reaches no further before the image than its own taps."""
        return 0 <= -self.lowest < self.taps


def _along(windows: Windows, kernel: Three, sizes: Three) -> Iterator[tuple[int, ...]]:
    """Size, taps, stride, padding and dilation along each of three axes."""
    rest = (three(v, m) for v, m in zip(windows[:3], (1, 0, 1), strict=True))
    return zip(sizes, kernel, *rest, strict=True)


def forward_axes(windows: Windows, kernel: Three, output: Three) -> tuple[Axis, ...]:
    """The axes of a convolution."""
    return tuple(
        Axis(n, k, -pad, stride, dilation) for n, k, stride, pad, dilation in _along(windows, kernel, output)
    )


def transposed_axes(windows: Windows, kernel: Three, image: Three) -> list[tuple[Axis, ...]]:
    """The axes of the gradient of a convolution's image, which is a convolution of the output's gradient.

    With a stride, each pixel of the image is in the windows of some taps only: those whose offset has the same
    remainder. Pixels with the same taps are a phase, and there are as many phases as remainders (sub-pixel
    convolution: Shi et al., "Real-Time Single Image and Video Super-Resolution", 2016).
    """
    return list(itertools.product(*(_phases(*one) for one in _along(windows, kernel, image))))


def _phases(size: int, kernel: int, stride: int, padding: int, dilation: int) -> list[Axis]:
    found = []
    for first in range(min(stride, size)):
        taps = [r for r in range(kernel) if (first + padding - r * dilation) % stride == 0]
        tap = taps[0] if taps else 0
        each = taps[1] - tap if len(taps) > 1 else 1
        base = (first + padding - tap * dilation) // stride
        pixels = divide_up(size - first, stride)
        found.append(Axis(pixels, len(taps), base, 1, -(each * dilation // stride), first, stride, tap, each))
    return found


_STRIDES = Params("Strides", batch="index", channel="index", at=("index", 3), group="index")
#: Sizes and strides of an implicit GEMM: see nn/convolution/geometry.cuh.
GEOMETRY = Params(
    "Geometry",
    image=_STRIDES,
    weight_filter="index",
    weight_channel="index",
    weight_at=("index", 3),
    weight_group="index",
    weight_first="index",
    output=_STRIDES,
    output_first="index",
    size=("int", 3),
    base=("int", 3),
    step=("int", 3),
    tap_step=("int", 3),
    m="int",
    n="int",
    k="int",
    tiles_m="int",
    tiles_n="int",
    each="int",
    pixels=(DIVISOR, 3),
    taps=(DIVISOR, 2),
    inner=DIVISOR,
)


class Gemm(NamedTuple):
    """An implicit GEMM: of an image's taps and weights, or of an output's gradient and an image's taps.

    Attributes:
        image, output: how they lie.
        weights: strides of the weights along filters, channels and the three axes, in elements.
        filters, channels: of a group.
        groups: of both.
        axes: of pixels and taps.
        of_weights: whether the weights are computed.
        weight_group: from a group's weights to the next, in elements.
    """

    image: View
    output: View
    weights: tuple[int, int, int, int, int]
    filters: int
    channels: int
    groups: int
    axes: tuple[Axis, ...]
    of_weights: bool
    weight_group: int

    @property
    def pixels(self) -> int:
        """Pixels of the grids of the whole batch."""
        return self.image.batch * math.prod(axis.pixels for axis in self.axes)

    def check(self) -> None:
        """Raise unless kernels can count the pixels.

        Raises:
            ValueError: they are too many.
        """
        most = max(self.pixels, self.image.batch * math.prod(self.image.size))
        if most > LARGEST_INDEX:
            raise ValueError(
                f"convolution: expected at most {LARGEST_INDEX} pixels, got {most}: use parts of the batch"
            )

    @property
    def taps(self) -> int:
        """Taps of a window."""
        return math.prod(axis.taps for axis in self.axes)

    @property
    def sizes(self) -> Three:
        """Rows, columns and depth of a group's product."""
        if self.of_weights:
            return self.filters, self.taps * self.channels, self.pixels
        return self.pixels, self.filters, self.taps * self.channels

    @property
    def flops(self) -> float:
        """Operations: two for each product."""
        return 2.0 * self.groups * math.prod(self.sizes)

    @property
    def elements(self) -> int:
        """Elements of image, weights and output together: what has to be read or written once."""
        weights = self.filters * self.channels * self.groups * self.taps
        outputs = self.image.batch * self.output.channels * math.prod(axis.pixels for axis in self.axes)
        return self.image.elements + weights + outputs

    @property
    def wide(self) -> bool:
        """Whether an offset may exceed 32 bits, those outside of the image included."""
        outside = sum(
            abs(step) * (axis.taps * abs(axis.tap_step) + abs(axis.base) + axis.pixels * axis.step)
            for step, axis in zip(self.image.strides[2:], self.axes, strict=True)
        )
        weights = self.filters * self.channels * self.groups * self.taps
        return max(self.image.span + outside, self.output.span, weights) > LARGEST_INDEX

    @property
    def offsets(self) -> str:
        """The C++ type of offsets."""
        return "long long" if self.wide else "int"

    def geometry(
        self, tiles: tuple[int, int], each: int = 0, sizes: Three | None = None, taps_inside: bool = False
    ) -> Given:
        """The kernels' struct Geometry.

        Args:
            tiles: of a group's product, down and across.
            each: the depth for a block.
            sizes: in place of those of the product.
            taps_inside: whether taps count faster than channels, as the template variable of that name says.
        """
        image, output, axes = self.image.strides, self.output.strides, self.axes
        weights = tuple(step * axis.each for step, axis in zip(self.weights[2:], axes, strict=True))
        rows = tuple(step * axis.every for step, axis in zip(output[2:], axes, strict=True))
        m, n, k = sizes or self.sizes
        return GEOMETRY(
            image=_STRIDES(batch=image[0], channel=image[1], at=image[2:], group=self.channels * image[1]),
            weight_filter=self.weights[0],
            weight_channel=self.weights[1],
            weight_at=weights,
            weight_group=self.weight_group,
            weight_first=sum(step * axis.tap for step, axis in zip(self.weights[2:], axes, strict=True)),
            output=_STRIDES(batch=output[0], channel=output[1], at=rows, group=self.filters * output[1]),
            output_first=sum(step * axis.first for step, axis in zip(output[2:], axes, strict=True)),
            size=self.image.size,
            base=[axis.base for axis in axes],
            step=[axis.step for axis in axes],
            tap_step=[axis.tap_step for axis in axes],
            m=m,
            n=n,
            k=k,
            tiles_m=tiles[0],
            tiles_n=tiles[1],
            each=each,
            pixels=[divisor_of(axis.pixels) for axis in axes],
            taps=[divisor_of(axis.taps) for axis in axes[1:]],
            inner=divisor_of(self.taps if taps_inside else self.channels),
        )


def rounding(epilogue: Program | None, dtype: dtypes.DType) -> Program:
    """The epilogue of sums, of one that takes them rounded to ``dtype``; by default it rounds them."""
    same = program("convolution", (input_node(0, dtype),), (dtype,))
    found = of_sum(epilogue or same, 0)
    return program(found.name, (cast(found.outputs[0], dtype),), found.inputs, found.scalars)


def epilogue_constants(gemm: Gemm, epilogue: Program, elem: dtypes.DType) -> dict[str, Any]:
    """The template variables of the epilogue and of the element types.

    Args:
        gemm: the product.
        epilogue: makes an element of a sum, and of operands that have one number a filter.
        elem: of image, weights and output.
    """
    steps = [(gemm.filters, 0, 1)] * (len(epilogue.inputs) - 1)
    return {**epilogue_variables(epilogue, elem, steps), "index": gemm.offsets, "of_weights": gemm.of_weights}


def operand_steps(gemm: Gemm, epilogue: Program) -> Given:
    """The strides of the epilogue's operands: the kernels' struct Steps."""
    return epilogue_steps([(gemm.filters, 0, 1)] * (len(epilogue.inputs) - 1))


class _OfWindows:
    """What both kinds of problem say of themselves alike."""

    __slots__ = ()

    def layout(self: Any, channels_last: bool | None = None) -> Layout:
        """That of the result, by default as it is asked for."""
        last = self.channels_last if channels_last is None else channels_last
        return (channels_last_layout if last else fresh_layout)(self.device, self.dtype, self.shape)

    @property
    def results(self) -> tuple[Layout, ...]:
        """The layout of the result."""
        return (self.layout(),)

    @property
    def depthwise(self: Any) -> bool:
        """Whether each channel has one filter of its own, by windows without dilation."""
        apart = self.windows.groups > 1 and self.filters == self.channels == 1
        return bool(apart and max(self.windows.dilation) == 1)

    @property
    def by_tensor_cores(self: Any) -> bool:
        """Whether products may be computed on tensor cores."""
        return dtypes.info(self.elem).narrow or (self.elem == dtypes.float32 and self.precision == "tf32")

    def _features(self: Any, channels_last: bool, pixels: int, columns: int) -> dict[str, Any]:
        """What the time depends on."""
        return {
            "dtype": dtypes.info(self.elem).name,
            "precision": self.precision,
            "channels_last": channels_last,
            "grouped": self.windows.groups > 1,
            "pixels": pixels,
            "columns": columns,
            "filters": self.filters,
            "channels": self.channels,
            "groups": self.windows.groups,
            "taps": math.prod(self.kernel),
            "stride": math.prod(self.windows.stride),
        }

    def _summary(self: Any, what: str, x: Layout, weights: Sequence[int]) -> str:
        """The problem in a line."""
        taps, by = (" x ".join(map(str, sizes)) for sizes in (weights[2:], self.windows.stride))
        order = "channels last" if view_of(x).channels_last else "channels first"
        groups = f", {self.windows.groups} groups" if self.windows.groups > 1 else ""
        about = f"{weights[0]} filters of {weights[1]} channels, {taps} taps, stride {by}{groups}"
        return f"{what} of {dtypes.info(self.elem).name} {x.shape}, {order}; {about}"

    def _least_seconds(self: Any, moved: Sequence[Layout], flops: float, limits: Properties) -> float:
        """The time of the bytes of arrays, or of so many operations."""
        nbytes = sum(one.nbytes for one in moved)
        return cost.least_seconds(flops, nbytes, self.elem.itemsize, self.by_tensor_cores, limits)


class _Convolution(NamedTuple):
    x: Layout
    weights: Layout
    windows: Windows
    size: tuple[int, ...]
    transposed: bool
    channels_last: bool
    epilogue: Program | None
    precision: str
    reach: tuple[str, ...] = ()


class Convolution(_Convolution, _OfWindows):
    """A convolution of arrays of given layouts, or the gradient of its image, which is one too.

    Attributes:
        x: that of the image, or of the output's gradient if ``transposed``.
        weights: shape (filters, channels of a group, ...).
        windows: how the windows lie.
        size: of the result, along its one to three axes.
        transposed: whether the image's gradient is computed, of that of the output.
        channels_last: whether the channels of the result lie innermost in memory.
        epilogue: makes an element of one, rounded, of operands and of numbers.
        precision: how floats are multiplied: see :func:`cukern.matmul_precision`.
        reach: for each operand, if not all have one number a channel, ``"channels"`` for that, ``"images"`` for one
            number a channel of each image, or ``"elements"`` for an array that lies in memory as the result.
    """

    __slots__ = ()

    @property
    def device(self) -> Device:
        return self.x.device

    @property
    def elem(self) -> dtypes.DType:
        """The dtype of image, weights and result."""
        return self.x.dtype

    dtype = elem

    @property
    def filters(self) -> int:
        """Channels of the result, of a group."""
        return self.weights.shape[1] if self.transposed else self.weights.shape[0] // self.windows.groups

    @property
    def channels(self) -> int:
        """Channels of ``x``, of a group."""
        return self.weights.shape[0] // self.windows.groups if self.transposed else self.weights.shape[1]

    @property
    def kernel(self) -> tuple[int, ...]:
        """The sizes of a window."""
        return self.weights.shape[2:]

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the result."""
        return (self.x.shape[0], self.filters * self.windows.groups, *self.size)

    @property
    def features(self) -> dict[str, Any]:
        gemms = self.gemms(self.x, self.weights, self.layout())
        one = max(gemms, key=lambda gemm: gemm.flops, default=None)
        pixels = one.pixels if one else 0
        return {**self._features(self.channels_last, pixels, self.size[-1]), "transposed": self.transposed}

    @property
    def summary(self) -> str:
        what = "gradient of an image" if self.transposed else "convolution"
        return self._summary(what, self.x, self.weights.shape)

    def least_seconds(self, limits: Properties) -> float:
        """The time of its bytes, or of its products."""
        moved = self.x, self.weights, self.layout()
        return self._least_seconds(moved, sum(one.flops for one in self.gemms(*moved)), limits)

    def gemms(self, x: Layout, weights: Layout, out: Layout, weights_transposed: bool = False) -> list[Gemm]:
        """The implicit GEMMs, one for each phase that has pixels, of arrays that lie so.

        Args:
            x: that of ``x``, as it is read.
            weights: that of the weights, as they are read.
            out: that of the result, as it is written.
            weights_transposed: whether the first two axes of the weights have changed places.
        """
        groups, filters = self.windows.groups, self.filters
        strides = view_of(weights).strides
        if self.transposed and not weights_transposed:
            strides = (strides[1], strides[0], *strides[2:])
        channels = x.shape[1] // groups
        group = strides[1] * channels if self.transposed or weights_transposed else strides[0] * filters
        kernel, size = three(weights.shape[2:], 1), three(self.size, 1)
        axes_of = transposed_axes if self.transposed else lambda *given: [forward_axes(*given)]
        views = view_of(x), view_of(out)
        found = [
            Gemm(*views, strides, filters, channels, groups, axes, False, group)
            for axes in axes_of(self.windows, kernel, size)
        ]
        return [one for one in found if one.output.elements and one.pixels]


class _WeightsGradient(NamedTuple):
    output: Layout
    image: Layout
    windows: Windows
    kernel: tuple[int, ...]
    channels_last: bool
    dtype: dtypes.DType
    precision: str


class WeightsGradient(_WeightsGradient, _OfWindows):
    """The gradient of a convolution's weights, of that of the output.

    Attributes:
        output: shape (batch, filters, ...), the output's gradient.
        image: shape (batch, channels, ...).
        windows: how the windows lie.
        kernel: the sizes of a window.
        channels_last: whether the channels of the result lie innermost in memory.
        dtype: of the result: that of the arrays, or that in which they are summed.
        precision: how floats are multiplied: see :func:`cukern.matmul_precision`.
    """

    __slots__ = ()

    @property
    def device(self) -> Device:
        return self.image.device

    @property
    def elem(self) -> dtypes.DType:
        """The dtype of output and image."""
        return self.output.dtype

    @property
    def filters(self) -> int:
        """Filters of a group."""
        return self.output.shape[1] // self.windows.groups

    @property
    def channels(self) -> int:
        """Channels of a group."""
        return self.image.shape[1] // self.windows.groups

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the result."""
        return (self.output.shape[1], self.channels, *self.kernel)

    @property
    def features(self) -> dict[str, Any]:
        gemm = self.gemm(self.output, self.image, self.layout())
        return self._features(view_of(self.image).channels_last, gemm.pixels, self.output.shape[-1])

    @property
    def summary(self) -> str:
        return self._summary("gradient of weights", self.image, self.shape)

    def least_seconds(self, limits: Properties) -> float:
        """The time of its bytes, or of its products."""
        moved = self.output, self.image, self.layout()
        return self._least_seconds(moved, self.gemm(*moved).flops, limits)

    def gemm(self, output: Layout, image: Layout, out: Layout) -> Gemm:
        """The implicit GEMM, of arrays that lie so.

        Args:
            output: that of the output's gradient, as it is read; it may have more channels.
            image: that of the image, as it is read; it may have more channels.
            out: that of the result, as it is written.
        """
        filters, channels = output.shape[1] // self.windows.groups, image.shape[1] // self.windows.groups
        axes = forward_axes(self.windows, three(self.kernel, 1), view_of(output).size)
        to = view_of(out).strides
        views = view_of(image), view_of(output)
        return Gemm(*views, to, filters, channels, self.windows.groups, axes, True, filters * to[0])
