"""Convolutions by windows of one element: products of matrices that lie in memory as they are."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ... import dtypes
from ... import namespace as ops
from ...array import Array
from ...array.layout import Layout
from ...device.interface import Properties
from ...launch import cost
from ...launch.variant import Plan, Variant
from ...linear.blas import sums
from ...linear.epilogue import product_then
from ...linear.library import LATENCY
from .arrangement import added
from .problem import Convolution, WeightsGradient, Windows, view_of
from .variants import Following


def is_pointwise(
    windows: Windows, kernel: Sequence[int], image: Sequence[int], output: Sequence[int]
) -> bool:
    """Whether each pixel of the output is made of the same pixel of the image, of these sizes."""
    ones = max(*kernel, *windows.stride) == 1
    return ones and tuple(image) == tuple(output) and not any(windows.padding) and windows.groups == 1


def pixels_as_rows(x: Array) -> Array:
    """The channels of each pixel as a row."""
    return ops.reshape(ops.moveaxis(x, 1, -1), (x.shape[0] * math.prod(x.shape[2:]), x.shape[1]))


def by_layouts(take: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """``take``, which makes views of arrays of one layout that tapes do not record, by the layout of the first view."""
    known: list[Layout] = []

    def view(x: Array) -> Array:
        if known:
            return x._seen(known[0])
        made = take(x)
        own = made._layout or made._planned()
        if not own.on_host and made._storage is x._storage and made._operand == x._operand:
            known.append(own)
        return made

    return view


@dataclass(frozen=True)
class Pointwise(Following):
    """The matrix product of pixels and filters, by whichever kernel or library multiplies matrices."""

    name = "matrix product"
    takes = frozenset({"elements"})

    @classmethod
    def fits(cls, problem: Convolution, limits: Properties) -> str:
        """For windows of one element."""
        own = problem.windows, problem.kernel, problem.x.shape[2:], problem.size
        return "" if is_pointwise(*own) else "for windows of one element"

    def cost(self, problem: Convolution, limits: Properties) -> float:
        """The product's operations, of half types on tensor cores, or its bytes."""
        return product_cost(problem, limits)

    def plan(self, problem: Convolution, limits: Properties) -> Plan:
        """The product, with the epilogue in the same launch where that is fastest."""

        size, last = problem.size, problem.channels_last

        @by_layouts
        def of_filters(weights: Array) -> Array:
            factor = ops.reshape(weights, weights.shape[:2])
            return factor.T if problem.transposed is not last else factor

        def matrix(x: Array) -> Array:
            return pixels_as_rows(x) if last else ops.reshape(x, (*x.shape[:2], math.prod(size)))

        of_pixels, of_elements = by_layouts(matrix), by_layouts(matrix)

        @by_layouts
        def of_result(y: Array) -> Array:
            if last:
                batch = problem.x.shape[0]
                return ops.moveaxis(ops.reshape(y, (batch, *size, y.shape[-1])), -1, 1)
            return ops.reshape(y, (problem.x.shape[0], y.shape[-2], *size))

        def convolve(x: Array, weights: Array, *rest: Any) -> Array:
            pixels, filters = of_pixels(x), of_filters(weights)
            factors = (pixels, filters) if last else (filters, pixels)
            if problem.epilogue is None:
                y = ops.matmul(*factors)
            else:
                count = len(problem.epilogue.inputs) - 1
                column = (-1,) if last else (-1, 1)
                operands = [ops.reshape(x, column) if x.ndim == 1 else of_elements(x) for x in rest[:count]]
                y = product_then(problem.epilogue, 0, *factors, operands, rest[count:])
            return of_result(y)

        return convolve


#: The rates of a library's products, as shares of that of float32 on CUDA cores: in general, of the sum of a batch's
#: products in float32, and on tensor cores by the bytes of an element, and whether float32 is multiplied as tf32.
_EFFICIENCY, _EFFICIENCY_OF_BATCHES = 0.9, 0.35
_TENSOR_CORES = {(2, False): 8.0, (2, True): 8.0, (4, True): 4.0}


def product_cost(problem: Convolution, limits: Properties) -> float:
    """The seconds of a convolution as a product of matrices, estimated."""
    filters, channels = problem.filters, problem.channels
    pixels = problem.x.shape[0] * math.prod(problem.size)
    moved = (pixels * (filters + channels) + filters * channels) * problem.elem.itemsize
    products = 2.0 * pixels * filters * channels / cost.flops(limits)
    if cost.is_host(limits):
        return max(products / _EFFICIENCY, moved / cost.bandwidth(limits)) + cost.launch(limits)
    rate = _TENSOR_CORES.get((problem.elem.itemsize, problem.precision == "tf32"), _EFFICIENCY)
    return products / rate + moved / cost.bandwidth(limits) + cost.launch(limits)


def moving(problem: WeightsGradient, limits: Properties) -> float:
    """The seconds in which output and image are read and the weights written once."""
    moved = problem.output.nbytes + problem.image.nbytes + problem.layout().nbytes
    return moved / cost.bandwidth(limits)


@dataclass(frozen=True)
class PointwiseWeights(Variant[WeightsGradient]):
    """The matrix product of the pixels of output and image, by whichever kernel or library multiplies matrices."""

    name = "matrix product"

    #: How many times as large as the products of a batch's elements its arrays are at least.
    small: ClassVar[int] = 4

    @staticmethod
    def _rows(problem: WeightsGradient) -> bool:
        """Whether both arrays have channels innermost."""
        return view_of(problem.image).channels_last and view_of(problem.output).channels_last

    @classmethod
    def fits(cls, problem: WeightsGradient, limits: Properties) -> str:
        """For windows of one element, and channels that lie innermost in both arrays, or in none."""
        output, image = problem.output, problem.image
        if not is_pointwise(problem.windows, problem.kernel, image.shape[2:], output.shape[2:]):
            return "for windows of one element"
        if problem.dtype != problem.elem:
            return "sums are not to be rounded"
        if cls._rows(problem):
            return ""
        if problem.device.addressable or problem.elem == dtypes.float64:
            return "channels do not lie innermost"
        if view_of(output).channels_last or view_of(image).channels_last:
            return "channels of one array lie innermost alone"
        products = output.shape[0] * math.prod(problem.shape) * dtypes.info(problem.elem).acc.itemsize
        large = 0 < cls.small * products <= output.nbytes + image.nbytes
        return "" if large else "the products of the batch's elements are large beside the arrays"

    def cost(self, problem: WeightsGradient, limits: Properties) -> float:
        """The products, of half types and tf32 on tensor cores, and the bytes."""
        efficiency = _EFFICIENCY
        if not cost.is_host(limits):
            slow = _EFFICIENCY if self._rows(problem) else _EFFICIENCY_OF_BATCHES
            efficiency = _TENSOR_CORES.get((problem.elem.itemsize, problem.precision == "tf32"), slow)
        pixels = problem.image.shape[0] * math.prod(problem.image.shape[2:])
        products = 2.0 * pixels * problem.filters * problem.channels / (efficiency * cost.flops(limits))
        return products + moving(problem, limits) + LATENCY + cost.launch(limits)

    def plan(self, problem: WeightsGradient, limits: Properties) -> Plan:
        """One product, or the sum of those of the batch's elements."""
        ones, by_rows = (1,) * len(problem.kernel), self._rows(problem)
        of_output, of_image = by_layouts(lambda one: pixels_as_rows(one).T), by_layouts(pixels_as_rows)
        of_result = by_layouts(lambda one: ops.reshape(one, (*one.shape, *ones)))

        def gradient(output: Array, image: Array) -> Array:
            if by_rows:
                product = ops.matmul(of_output(output), of_image(image))
            else:
                rows, columns = (ops.reshape(one, (*one.shape[:2], -1)) for one in (output, image))
                product = added(sums(rows, ops.swapaxes(columns, 1, 2)), problem.elem)
            return of_result(product)

        return gradient
