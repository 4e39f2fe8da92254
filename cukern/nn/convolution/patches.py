"""Convolutions on the host as products of filters and the patches of images that windows cover, by NumPy's library.

Patches are copied to a matrix, so many at a time as a cache holds (im2col). Source: Chellapilla and others, "High
Performance Convolutional Neural Networks for Document Processing", 2006.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import dtypes
from ... import namespace as ops
from ...array import Array
from ...device.interface import Properties
from ...elementwise.function import evaluate
from ...kernel.sizes import divide_up
from ...launch import cost
from ...launch.variant import Plan, Variant
from .arrangement import Pipeline
from .problem import Axis, Convolution, Gemm, WeightsGradient, view_of

#: Bytes of the patches of a product: what an L2 cache holds beside the factors.
_BYTES = 2**19
#: Bytes of patches that one thread copies a second, measured on an AMD EPYC, and the seconds of a copy and a product.
_COPYING = 20e9
_CALL = 4e-6


def _five(x: Array, last: bool = False) -> Any:
    """The data of a batch, channels (``last`` in it) and one to three axes, as three."""
    data = np.moveaxis(x._data, -1, 1) if last else x._data
    return data[(slice(None), slice(None), *(None,) * (5 - data.ndim))]


def _arrays(arrays: Sequence[Array], moved: bool) -> tuple[Any, Any, Any]:
    """What a plan is given: two arrays, and the memory of the result, whose channels may have been ``moved`` last."""
    a, b, to = arrays
    return _five(a), _five(b), _five(to, moved)


def patches_of(image: Any, axes: Sequence[Axis], last: bool = False) -> Any:
    """A view, shape (batch, channels, three axes of taps, three of pixels), of an image with zeros around it."""
    ends = [(axis.pixels - 1) * axis.step + axis.base for axis in axes]
    turns = [(axis.taps - 1) * axis.tap_step for axis in axes]
    sizes = image.shape[2:]
    before = [max(0, -min(a.base, a.base + turn)) for a, turn in zip(axes, turns, strict=True)]
    after = [max(0, max(e, e + t) + 1 - n) for e, t, n in zip(ends, turns, sizes, strict=True)]
    if any(before) or any(after):
        batch, channels = image.shape[:2]
        whole = [a + n + b for a, n, b in zip(before, sizes, after, strict=True)]
        if last:
            around: Any = np.moveaxis(np.zeros((batch, *whole, channels), image.dtype), -1, 1)
        else:
            around = np.zeros((batch, channels, *whole), image.dtype)
        around[(..., *(slice(a, a + n) for a, n in zip(before, sizes, strict=True)))] = image
        image = around
    first = image[(..., *(slice(axis.base + a, None) for axis, a in zip(axes, before, strict=True)))]
    strides = image.strides[2:]
    return np.lib.stride_tricks.as_strided(
        first,
        (*image.shape[:2], *(axis.taps for axis in axes), *(axis.pixels for axis in axes)),
        (
            *image.strides[:2],
            *(axis.tap_step * s for axis, s in zip(axes, strides, strict=True)),
            *(axis.step * s for axis, s in zip(axes, strides, strict=True)),
        ),
        writeable=False,
    )


def _parts(gemm: Gemm, itemsize: int) -> list[tuple[slice, tuple[slice, ...]]]:
    """Images, and pixels along three axes, whose patches a cache holds: several images, or rows of one."""
    pixels = [axis.pixels for axis in gemm.axes]
    row = max(1, gemm.taps * gemm.channels * itemsize)
    images = _BYTES // (row * math.prod(pixels))
    if images:
        starts = range(0, gemm.image.batch, images)
        return [(slice(a, a + images), (slice(None),) * 3) for a in starts]
    along = next(i for i, n in enumerate(pixels) if n > 1)
    most = max(1, _BYTES // (row * math.prod(pixels[along + 1 :])))
    many = divide_up(pixels[along], divide_up(pixels[along], most))
    bands: list[tuple[slice, ...]] = []
    for at in np.ndindex(*pixels[:along]):
        for start in range(0, pixels[along], many):
            bands.append(
                (*(slice(i, i + 1) for i in at), slice(start, start + many), *(slice(None),) * (2 - along))
            )
    return [(slice(a, a + 1), band) for a in range(gemm.image.batch) for band in bands]


def _matrices(gemm: Gemm, image: Any, last: bool) -> Iterator[tuple[slice, slice, tuple[slice, ...], Any]]:
    """For each group and part: the group's filters, images, pixels, and the matrix of patches.

    Its shape is (images, channels and taps, pixels), or with channels ``last`` (images and pixels, taps and channels).
    """
    patches = patches_of(image, gemm.axes, last)
    if last:
        patches = patches.transpose(0, 5, 6, 7, 2, 3, 4, 1)
    memory = np.empty(0, image.dtype)  # the same for all parts, as the system gives new memory page by page
    for group in range(gemm.groups):
        channels = slice(group * gemm.channels, (group + 1) * gemm.channels)
        filters = slice(group * gemm.filters, (group + 1) * gemm.filters)
        for images, pixels in _parts(gemm, image.itemsize):
            index = (images, *pixels, ..., channels) if last else (images, channels, ..., *pixels)
            part = patches[index]
            if memory.size < part.size:
                memory = np.empty(part.size, image.dtype)
            made = memory[: part.size].reshape(part.shape)
            made[...] = part
            if last:
                yield filters, images, pixels, made.reshape(math.prod(part.shape[:4]), -1)
            else:
                yield filters, images, pixels, made.reshape(part.shape[0], -1, math.prod(part.shape[5:]))


def _rows(part: Any, last: bool) -> Any:
    """Pixels of an output as patches are: (images, filters, pixels), or with ``last`` (images and pixels, filters)."""
    images, filters, *size = part.shape  # one of which may be 0
    if last:
        return part.transpose(0, 2, 3, 4, 1).reshape(images * math.prod(size), filters)
    return part.reshape(images, filters, math.prod(size))


def _why_not(problem: Convolution | WeightsGradient, limits: Properties) -> str:
    if not cost.is_host(limits):
        return "for the host"
    return "" if problem.elem in (dtypes.float32, dtypes.float64) else "for float32 and float64"


def _seconds(problem: Convolution | WeightsGradient, gemms: Sequence[Gemm], limits: Properties) -> float:
    """Of the products by all threads, and of the copies by one."""
    copied = sum(
        one.image.batch * one.groups * one.channels * one.taps * math.prod(axis.pixels for axis in one.axes)
        for one in gemms
    )
    calls = sum(one.groups * len(_parts(one, problem.elem.itemsize)) for one in gemms)
    products = sum(one.flops for one in gemms) / (limits.multiprocessors * cost.HOST_BLAS)
    return products + copied * problem.elem.itemsize / _COPYING + calls * _CALL


@dataclass(frozen=True)
class Patches(Variant[Convolution]):
    """Filters times patches."""

    name = "patches by library"
    of_library = True

    @classmethod
    def fits(cls, problem: Convolution, limits: Properties) -> str:
        """For float32 and float64 on the host."""
        return _why_not(problem, limits)

    def cost(self, problem: Convolution, limits: Properties) -> float:
        """The products and the copies."""
        return _seconds(problem, problem.gemms(problem.x, problem.weights, problem.layout()), limits)

    def plan(self, problem: Convolution, limits: Properties) -> Plan:
        """The products of all phases, and the epilogue."""
        gemms = problem.gemms(problem.x, problem.weights, problem.layout())
        for one in gemms:
            one.check()
        last, out = view_of(problem.x).channels_last, problem.layout()

        def run(arrays: Sequence[Array]) -> None:
            image, weights, to = _arrays(arrays, not out.contiguous)
            for gemm in gemms:
                _convolve(gemm, image, weights, to, problem.transposed, last)

        convolve = Pipeline(problem.device, out, (), [run])
        epilogue = problem.epilogue
        if epilogue is None:
            return convolve
        channels = (-1, *(1,) * (out.ndim - 2))

        def ended(x: Array, w: Array, *operands: Array) -> Array:
            columns = [ops.reshape(one, channels) if one.ndim == 1 else one for one in operands]
            return evaluate(epilogue, (convolve(x, w), *columns))[0]

        return ended


def _convolve(gemm: Gemm, image: Any, weights: Any, to: Any, transposed: bool, last: bool) -> None:
    """Write the pixels of a phase."""
    taps = [slice(a.tap, a.tap + (a.taps - 1) * a.each + 1 if a.taps else a.tap, a.each) for a in gemm.axes]
    weights = weights[(slice(None), slice(None), *taps)]
    target = to[(..., *(slice(axis.first, None, axis.every) for axis in gemm.axes))]
    if not weights.size:
        target[...] = 0
        return
    if transposed:
        # Each group has its own filters of its own channels.
        apart = weights.reshape(gemm.groups, gemm.channels, *weights.shape[1:])
        weights = apart.swapaxes(1, 2).reshape(-1, gemm.channels, *weights.shape[2:])
    factor = weights.transpose(0, 2, 3, 4, 1) if last else weights
    factor = factor.reshape(len(factor), -1)
    in_place = gemm.output.channels_last == last and all(axis.every == 1 for axis in gemm.axes)
    for filters, images, pixels, patches in _matrices(gemm, image, last):
        part = target[(images, filters, *pixels)]
        factors = (patches, factor[filters].T) if last else (factor[filters], patches)
        if in_place:
            np.matmul(*factors, out=_rows(part, last))
            continue
        made = np.matmul(*factors)
        if last:
            batch, count, *size = part.shape
            part[...] = made.reshape(batch, *size, count).transpose(0, 4, 1, 2, 3)
        else:
            part[...] = made.reshape(part.shape)


@dataclass(frozen=True)
class PatchesWeights(Variant[WeightsGradient]):
    """The output's gradient times patches."""

    name = "patches by library"
    of_library = True

    @classmethod
    def fits(cls, problem: WeightsGradient, limits: Properties) -> str:
        """For float32 and float64 on the host."""
        return _why_not(problem, limits)

    @staticmethod
    def _gemm(problem: WeightsGradient) -> Gemm:
        return problem.gemm(problem.output, problem.image, problem.layout())

    def cost(self, problem: WeightsGradient, limits: Properties) -> float:
        """The products and the copies."""
        return _seconds(problem, [self._gemm(problem)], limits)

    def plan(self, problem: WeightsGradient, limits: Properties) -> Plan:
        """The sum of the products of all parts."""
        gemm, last = self._gemm(problem), view_of(problem.image).channels_last
        out = problem.layout()
        gemm.check()

        def run(arrays: Sequence[Array]) -> None:
            output, image, to = _arrays(arrays, not out.contiguous)
            taps = to.shape[2:]
            sums = np.zeros((len(to), gemm.channels * gemm.taps), to.dtype)
            if gemm.pixels:
                for filters, images, pixels, patches in _matrices(gemm, image, last):
                    part = _rows(output[(images, filters, *pixels)], last)
                    if last:
                        sums[filters] += np.matmul(part.T, patches)
                        continue
                    for of_output, of_image in zip(part, patches, strict=True):
                        sums[filters] += np.matmul(of_output, of_image.T)
            if last:
                to[...] = sums.reshape(len(to), *taps, -1).transpose(0, 4, 1, 2, 3)
            else:
                to[...] = sums.reshape(to.shape)

        return Pipeline(problem.device, out, (), [run])
