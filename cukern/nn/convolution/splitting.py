"""Convolutions of more pixels than a kernel counts: by halves of the batch, or of the result's longest axis."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from ... import namespace as ops
from ...array import Array
from ...kernel.sizes import LARGEST_INDEX
from .problem import Form, Windows

Shape = Sequence[int]


class Half(NamedTuple):
    """A half of the image or of the output, and the part of the other one that belongs to it.

    Attributes:
        axis: along which both are cut: 0 is the batch, 2 the first axis of pixels.
        image, output: the parts along it.
        windows: how they lie on this part of the image.
    """

    axis: int
    image: slice
    output: slice
    windows: Windows

    def part(self, x: Array, of_image: bool) -> Array:
        """Its part of the image, or of the output."""
        return x[(slice(None),) * self.axis + (self.image if of_image else self.output,)]


def is_needed(image: Shape, output: Shape, of_image: bool) -> bool:
    """Whether shapes (batch, channels, ...) have more pixels than a kernel counts, and what is cut can be halved."""
    most = max(shape[0] * math.prod(shape[2:]) for shape in (image, output))
    cut = image if of_image else output
    return most > LARGEST_INDEX and max(cut[0], *cut[2:]) > 1


def _halves(image: Shape, output: Shape, windows: Windows, kernel: Shape, of_image: bool) -> Iterator[Half]:
    """The halves of an image, each with the outputs whose windows read it; or of an output, with what these read."""
    cut = image if of_image else output
    axis = 0 if cut[0] > 1 else 2 + max(range(len(kernel)), key=lambda k: cut[2 + k])
    for first, end in ((0, cut[axis] // 2), (cut[axis] // 2, cut[axis])):
        own = slice(first, end)
        if not axis:
            yield Half(axis, own, own, windows)
            continue
        step, before, dilation = (given[axis - 2] for given in windows[:3])
        reach = dilation * (kernel[axis - 2] - 1)
        if of_image:
            low, high = -((reach - first - before) // step), (end - 1 + before) // step + 1
        else:
            low, high = first * step - before, (end - 1) * step - before + reach + 1
        size = (output if of_image else image)[axis]
        low_inside = min(max(low, 0), size - 1)  # one element at least, which no window may read
        other = slice(low_inside, max(min(high, size), low_inside + 1))
        padding = first + before - low_inside * step if of_image else low_inside - low
        moved = (*windows.padding[: axis - 2], padding, *windows.padding[axis - 1 :])
        images = (own, other) if of_image else (other, own)
        yield Half(axis, *images, windows._replace(padding=moved))


def convolution(x: Array, form: Form, kernel: Shape, of_half: Callable[[Array, Form], Array]) -> Array:
    """A convolution, or the gradient of one's image, by halves of the result.

    Args:
        x: the image, or the output if the form is ``transposed``.
        form: what is asked for.
        kernel: the sizes of a window.
        of_half: computes a half of the result, of a part of ``x``.
    """
    windows, size, transposed, channels_last = form
    plane = (x.shape[0], 1, *size)
    shapes = (plane, x.shape) if transposed else (x.shape, plane)
    parts, axis = [], 0
    for half in _halves(*shapes, windows, kernel, transposed):
        own, axis = half.image if transposed else half.output, half.axis
        sizes = [own.stop - own.start if k == axis - 2 else n for k, n in enumerate(size)]
        of_part = form._replace(windows=half.windows, size=tuple(sizes))
        parts.append(of_half(half.part(x, not transposed), of_part))
    if not channels_last:
        return ops.concat(parts, axis)
    joined = ops.concat([ops.moveaxis(one, 1, -1) for one in parts], axis and axis - 1)
    return ops.moveaxis(joined, -1, 1)


def weights(
    output: Array,
    image: Array,
    windows: Windows,
    kernel: Shape,
    of_half: Callable[[Array, Array, Windows], Array],
) -> Array:
    """The gradient of a convolution's weights: the sum of those of two halves of the output.

    Args:
        output: the output's gradient.
        image: the convolution's image.
        windows: how the windows lie.
        kernel: the sizes of a window.
        of_half: computes that of a part of both, and its windows.
    """
    halves = _halves(image.shape, output.shape, windows, kernel, False)
    first, second = (of_half(h.part(output, False), h.part(image, True), h.windows) for h in halves)
    return first + second
