"""The windows of a convolution, and where its kernels find the elements of image, weights and output."""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ...array.layout import Layout
from ...kernel.sizes import LARGEST_INDEX, divide_up, divisor

Three = tuple[int, int, int]


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


class Place(NamedTuple):
    """How an array of a batch, channels and three axes lies in memory: sizes, and strides in elements."""

    batch: int
    channels: int
    size: Three
    steps: tuple[int, int, int, int, int]

    @property
    def elements(self) -> int:
        """The number of elements."""
        return self.batch * self.channels * math.prod(self.size)

    @property
    def span(self) -> int:
        """The largest distance of two elements."""
        sizes = (self.batch, self.channels, *self.size)
        return sum(abs(step) * (n - 1) for step, n in zip(self.steps, sizes, strict=True))

    @property
    def last(self) -> bool:
        """Whether channels lie innermost in memory."""
        inner = [step for step, n in zip(self.steps[2:], self.size, strict=True) if n > 1]
        return self.channels > 1 and bool(inner) and self.steps[1] < min(inner)


def place_of(layout: Layout) -> Place:
    """How an array of shape (batch, channels, one to three axes) lies, with axes of size 1 before these."""
    item = layout.dtype.itemsize
    steps = [0 if n == 1 else s // item for n, s in zip(layout.shape, layout.strides, strict=True)]
    missing = 5 - layout.ndim
    (batch, channels, *size) = layout.shape
    z, y, x = [1] * missing + size
    a, b, c = [0] * missing + steps[2:]
    return Place(batch, channels, (z, y, x), (steps[0], steps[1], a, b, c))


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


def forward_axes(windows: Windows, kernel: Three, output: Three) -> tuple[Axis, ...]:
    """The axes of a convolution."""
    given = zip(
        output, kernel, *(three(v, m) for v, m in zip(windows[:3], (1, 0, 1), strict=True)), strict=True
    )
    return tuple(Axis(o, k, -padding, stride, dilation) for o, k, stride, padding, dilation in given)


def turned_axes(windows: Windows, kernel: Three, image: Three) -> Iterator[tuple[Axis, ...]]:
    """The axes of the gradient of a convolution's image, which is a convolution of the output's gradient.

    With a stride, each pixel of the image is in the windows of some taps only: those whose offset has the same
    remainder. Pixels with the same taps are a grid, and there are as many grids as remainders.
    """
    given = zip(
        image, kernel, *(three(v, m) for v, m in zip(windows[:3], (1, 0, 1), strict=True)), strict=True
    )
    yield from itertools.product(*(_turned(*one) for one in given))


def _turned(size: int, kernel: int, stride: int, padding: int, dilation: int) -> list[Axis]:
    found = []
    for first in range(min(stride, size)):
        taps = [r for r in range(kernel) if (first + padding - r * dilation) % stride == 0]
        tap = taps[0] if taps else 0
        each = taps[1] - tap if len(taps) > 1 else 1
        base = (first + padding - tap * dilation) // stride
        step = -(each * dilation // stride)
        pixels = divide_up(size - first, stride)
        found.append(Axis(pixels, len(taps), base, 1, step, first, stride, tap, each))
    return found


class Task(NamedTuple):
    """A product that a kernel computes: of an image's taps and weights, or of an output and an image's taps.

    Attributes:
        image, output: how they lie.
        weights: strides of the weights along filters, channels and the three axes, in elements.
        filters, channels: of a group.
        groups: of both.
        axes: of pixels and taps.
        of_weights: whether the weights are computed.
    """

    image: Place
    output: Place
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
    def product(self) -> Three:
        """Rows, columns and depth of a group's product."""
        if self.of_weights:
            return self.filters, self.taps * self.channels, self.pixels
        return self.pixels, self.filters, self.taps * self.channels

    @property
    def wide(self) -> bool:
        """Whether an offset may exceed 32 bits, those outside of the image included."""
        item = self.image
        outside = sum(
            abs(step) * (axis.taps * abs(axis.tap_step) + abs(axis.base) + axis.pixels * axis.step)
            for step, axis in zip(item.steps[2:], self.axes, strict=True)
        )
        weights = self.filters * self.channels * self.groups * self.taps
        return max(item.span + outside, self.output.span, weights) > LARGEST_INDEX

    def packed(
        self, tiles: tuple[int, int], each: int, taps_inside: bool, product: Three | None = None
    ) -> bytes:
        """The kernels' struct Geometry.

        Args:
            tiles: of a group's product, down and across.
            each: the depth for a block.
            taps_inside: whether taps count faster than channels.
            product: sizes in place of those of the product.
        """
        image, output, axes = self.image.steps, self.output.steps, self.axes
        at = [step * axis.every for step, axis in zip(output[2:], axes, strict=True)]
        weight_at = [step * axis.each for step, axis in zip(self.weights[2:], axes, strict=True)]
        strides = (
            *(image[0], image[1], *image[2:], self.channels * image[1]),
            *(self.weights[0], self.weights[1], *weight_at, self.weight_group),
            sum(step * axis.tap for step, axis in zip(self.weights[2:], axes, strict=True)),
            *(output[0], output[1], *at, self.filters * output[1]),
            sum(step * axis.first for step, axis in zip(output[2:], axes, strict=True)),
        )
        numbers = (
            *self.image.size,
            *(axis.base for axis in axes),
            *(axis.step for axis in axes),
            *(axis.tap_step for axis in axes),
            *(product or self.product),
            *tiles,
            each,
        )
        inner = self.taps if taps_inside else self.channels
        by = [*(axis.pixels for axis in axes), axes[1].taps, axes[2].taps, inner]
        head = struct.pack(f"{len(strides)}{'q' if self.wide else 'i'}{len(numbers)}i", *strides, *numbers)
        made = head + b"".join(map(divisor, by))
        return made + bytes(-len(made) % 8 if self.wide else 0)
