"""Float32 convolutions by windows of 3 x 3 that move by one pixel: Winograd's minimal filtering, F(4 x 4, 3 x 3).

Tiles of 4 x 4 outputs take 36 multiplications a channel in place of 144. Source: Lavin and Gray, "Fast Algorithms for
Convolutional Neural Networks", 2016; the transforms are those of Toom and Cook, at the points 0, ±1/√2, ±√2 and
infinity, with which outputs have smaller rounding errors than with those at 0, ±1, ±2 and infinity.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ... import dtypes
from ... import namespace as ops
from ...array import Array
from ...array.layout import Layout, fresh_layout, layout
from ...device.interface import Properties
from ...elementwise.program import Program
from ...kernel import Kernel
from ...kernel.sizes import ACCESS, divide_up, divisor_of, index_type
from ...launch import cost
from ...launch.params import DIVISOR, Given, Params
from ...launch.variant import Launch, Plan, Run, Variant, prepared
from ...shape.known_views import relaid
from .arrangement import Pipeline
from .problem import Convolution, Gemm, View, WeightsGradient, epilogue_constants, operand_steps, rounding
from .variants import Following

#: Points of a transform, and rows of outputs of a tile.
_POINTS = 6
_OUTPUTS = 4
#: Floats of a pack.
_PACK = ACCESS // 4
#: Bytes of the transforms of several images at most, and of one.
_WORKSPACE = 2**29
_MOST_BYTES = 2**31
#: Parts into which a GPU cuts the tiles of a weights gradient, by whether channels are few, and tiles of each at least.
_PARTS = {False: 3, True: 7}
_FEW_CHANNELS = 128
_FEWEST_TILES = 256
#: Tiles of an image at most of which the output's gradient has transforms with channels innermost, however it lies.
_FEW_TILES = 4

_Matrix = tuple[tuple[float, ...], ...]
#: Seconds of a small product by NumPy.
_BLAS_CALL = 2.5e-6
#: Floats from one to the next in the same set of a host's cache, which holds fewer of them than there are points.
_SAME_SET = 1024
#: Seconds in which one thread of the host transforms a number of tiles, and of filters, measured on an AMD EPYC.
_TRANSFORM, _TRANSFORM_OF_FILTERS = 3e-9, 6e-9


class _Transform(NamedTuple):
    """A transform of tiles: their rows, the rows from one to the next, and what makes each number of a column."""

    size: int
    step: int
    matrix: _Matrix

    @property
    def rows(self) -> list[str]:
        """What makes each number, in C++."""

        def term(i: int, factor: float) -> str:
            return f"x[{i}]" if factor == 1 else f"acc({factor!r}) * x[{i}]"

        return [" + ".join(term(i, factor) for i, factor in enumerate(row) if factor) for row in self.matrix]


_A, _B = math.sqrt(0.5), math.sqrt(2)


def _powers(count: int, scales: Sequence[float] = (1,) * _POINTS) -> _Matrix:
    """The values at each point of powers from the 0th on, scaled; at infinity the last one alone has a value."""
    rows = [[point**i for i in range(count)] for point in (0, _A, -_A, _B, -_B)]
    rows.append([0.0] * (count - 1) + [1.0])
    return tuple(tuple(s * x for x in row) for s, row in zip(scales, rows, strict=True))


#: One by the product of each point's distances to the others.
_SCALES = (1, -2 / 3, -2 / 3, 1 / 6, 1 / 6, 1)
#: The coefficients of the products of (x - point) over all points but one, and over all.
_PRODUCTS = (
    (1, 0, -2.5, 0, 1, 0),
    (0, -_B, -2, _A, 1, 0),
    (0, _B, -2, -_A, 1, 0),
    (0, -_A, -0.5, _B, 1, 0),
    (0, _A, -0.5, -_B, 1, 0),
    (0, 1, 0, -2.5, 0, 1),
)
_IMAGE = _Transform(_POINTS, _OUTPUTS, _PRODUCTS)
_FILTERS, _GRADIENT = (_Transform(n, n, _powers(n, _SCALES)) for n in (3, _OUTPUTS))
_WEIGHTS, _OUTPUT = (_Transform(n, n, tuple(zip(*_powers(n), strict=True))) for n in (3, _OUTPUTS))
_PLANES = Params(
    "Planes",
    **dict.fromkeys(("batch", "channel", "row", "column", "first"), "index"),
    **dict.fromkeys(("height", "width", "top", "left", "tiles", "count"), "int"),
    **dict.fromkeys(("point", "part", "channel_to", "tile_to", "parts"), "int"),
    **dict.fromkeys(("inner", "each", "across", "down"), DIVISOR),
)


@dataclass(frozen=True)
class _ToTiles(Variant[Any]):
    kernel = Kernel("nn/convolution/winograd_tiles.cu")


@dataclass(frozen=True)
class _FromTiles(Variant[Any]):
    kernel = Kernel("nn/convolution/winograd_result.cu")


class _Tiles(NamedTuple):
    """The tiles of planes, and where their transforms lie.

    Attributes:
        view: of the planes; a tile has all channels.
        grid: tiles of a plane, down and across.
        corner: the row and the column where the first one begins.
        last: whether neighbouring threads have neighbouring channels, whose transforms lie side by side.
        each: tiles of a channel whose transforms lie together.
        parts: how often as many are there.
        reversed: whether planes are read backwards.
    """

    view: View
    grid: tuple[int, int]
    corner: tuple[int, int]
    last: bool
    each: int
    parts: int = 1
    reversed: bool = False

    @property
    def sizes(self) -> tuple[int, int]:
        """Rows and columns of the matrix of a point and a part."""
        return (self.each, self.view.channels) if self.last else (self.view.channels, self.each)

    def _packs(self, before: int) -> bool:
        """Whether four elements of a row lie together at multiples of 16 bytes, after ``before`` ones of each tile."""
        batch, channel, _, y, x = self.view.strides
        even = all(n % _PACK == 0 for n in (batch, channel, y, self.view.size[2]))
        return even and x == 1 and not (self.last or self.reversed) and self.corner[1] == -before

    def _planes(self, threads: int) -> Given:
        """The kernels' struct Planes, where so many tiles of a channel have a thread."""
        view, columns, first = self.view, self.sizes[1], 0
        batch, channel, _, row, column = view.strides
        if self.reversed:
            first = row * (view.size[1] - 1) + column * (view.size[2] - 1)
            row, column = -row, -column
        return _PLANES(
            batch=batch,
            channel=channel,
            row=row,
            column=column,
            first=first,
            height=view.size[1],
            width=view.size[2],
            top=self.corner[0],
            left=self.corner[1],
            tiles=view.batch * math.prod(self.grid),
            count=threads * view.channels,
            point=math.prod(self.sizes) * self.parts,
            part=math.prod(self.sizes),
            channel_to=1 if self.last else columns,
            tile_to=columns if self.last else 1,
            parts=self.parts,
            inner=divisor_of(view.channels if self.last else threads),
            each=divisor_of(self.each),
            across=divisor_of(self.grid[1]),
            down=divisor_of(self.grid[0]),
        )

    def _launch(self, of: _Transform, threads: int, limits: Properties, *more: Given, **own: Any) -> Launch:
        block = 1 if cost.is_host(limits) else 128
        return Launch(
            grid=(divide_up(threads * self.view.channels, block), 1, 1),
            block=block,
            constants={**own, "size": of.size, "step": of.step, "rows": of.rows, "last": self.last},
            params=(self._planes(threads), *more),
        )

    def transforms(self, of: _Transform, given: Layout, limits: Properties) -> Callable[[Array], Array]:
        """What makes the transforms of an array of a layout, shape (points and parts, channels, tiles)."""
        before, (*_, y, x) = max(0, -self.corner[1]), self.view.strides
        packs = before + _PACK <= of.size and given.aligned and self._packs(before)
        reach = self.view.span + 2 * _POINTS * (abs(y) + abs(x))  # with what lies outside of the planes
        launch = self._launch(
            *(of, self.each * self.parts, limits),
            elem=given.dtype,
            index=index_type(reach),
            name=f"convolution_{dtypes.info(given.dtype).name}_tiles_{of.size}",
            packs=packs,
            first=before if packs else 0,
        )
        run = prepared(_ToTiles(), launch, given.device)
        fresh = fresh_layout(given.device, given.dtype, (_POINTS**2 * self.parts, *self.sizes))
        (count, rows, columns), (a, b, c) = fresh.shape, fresh.strides
        transposed = layout(given.device, given.dtype, (count, columns, rows), (a, c, b), True)

        def transformed(x: Array) -> Array:
            result = Array._made(fresh)
            run((x, result))
            return relaid(result, transposed, (0, 2, 1)) if self.last else result

        return transformed

    def result(self, of: _Transform, gemm: Gemm, epilogue: Program, out: Layout, limits: Properties) -> Run:
        """The launch that makes planes of transforms, for these, operands of one number a channel, and new planes."""
        threads, name = (
            self.view.batch * math.prod(self.grid),
            f"{epilogue.name}_{dtypes.info(out.dtype).name}",
        )
        own = epilogue_constants(gemm, epilogue, out.dtype) | {"name": f"{name}_result_{of.size}", "first": 0}
        own["packs"] = of.size == _PACK and self._packs(0)
        launch = self._launch(of, threads, limits, operand_steps(gemm, epilogue), **own)
        return prepared(_FromTiles(), launch, out.device)


def _tiles(gemm: Gemm, of_image: bool, batch: int, limits: Properties, parts: int = 1) -> _Tiles:
    """Those of so many images or outputs, in whole packs."""
    view, grid, (_, y, x) = gemm.image if of_image else gemm.output, _grid(gemm), gemm.axes
    each = divide_up(divide_up(batch * math.prod(grid), parts), _PACK) * _PACK
    if cost.is_host(limits) and each * view.channels % _SAME_SET == 0:
        each += _PACK
    corner = (y.lowest, x.lowest) if of_image else (0, 0)
    return _Tiles(view._replace(batch=batch), grid, corner, view.channels_last, each, parts)


def _tiles_of_weights(gemm: Gemm, last: bool, parts: int = 1) -> _Tiles:
    """A tile for each filter and channel."""
    view = View(gemm.filters, gemm.channels, (1, 3, 3), gemm.weights)
    return _Tiles(view, (1, 1), (0, 0), last, gemm.filters, parts, gemm.axes[2].tap_step < 0)


def _grid(gemm: Gemm) -> tuple[int, int]:
    """Tiles of a plane of outputs, down and across."""
    return divide_up(gemm.axes[1].pixels, _OUTPUTS), divide_up(gemm.axes[2].pixels, _OUTPUTS)


def _bytes(gemm: Gemm, elem: dtypes.DType) -> int:
    """The bytes of the transforms of an image and its output."""
    return _POINTS**2 * math.prod(_grid(gemm)) * (gemm.filters + gemm.channels) * elem.itemsize


def _gemms(problem: Convolution | WeightsGradient) -> list[Gemm]:
    if isinstance(problem, WeightsGradient):
        return [problem.gemm(problem.output, problem.image, problem.layout())]
    return problem.gemms(problem.x, problem.weights, problem.layout())


def _batches(whole: int, images: int) -> list[tuple[int, int]]:
    """The start and the size of each part of a batch."""
    return [(start, min(images, whole - start)) for start in range(0, whole, images)]


def _part(x: Array, start: int, count: int) -> Array:
    return x if count == x.shape[0] else x[start : start + count]


@dataclass(frozen=True)
class _Filtering(Variant[Any]):
    """What convolutions and weights gradients share.

    Attributes:
        images: whose transforms lie in memory at a time.
    """

    name = "winograd"

    images: int

    @classmethod
    def fits(cls, problem: Convolution | WeightsGradient, limits: Properties) -> str:
        """For windows of 3 x 3 elements that move by one pixel, of float32."""
        if problem.elem != dtypes.float32 or problem.precision != "highest":
            return "for float32 at the precision 'highest'"
        gemms = _gemms(problem)
        if not gemms or min(gemms[0].pixels, gemms[0].image.elements, gemms[0].filters) == 0:
            return "there is nothing to sum up"
        gemm, *others = gemms
        z, y, x = gemm.axes
        plain = all(one.taps == 3 and abs(one.tap_step) == 1 and one.step == one.every == 1 for one in (y, x))
        flat = z.taps == gemm.image.size[0] == gemm.output.size[0] == gemm.groups == 1 and z.base == 0
        if others or not (plain and flat):
            return "for windows of 3 x 3 elements that move by one pixel, and one group"
        fewest = 8 if cost.is_host(limits) else 16
        if min(gemm.filters, gemm.channels) < fewest:
            return f"for at least {fewest} channels and filters"
        of_weights = _POINTS**2 * max(_PARTS.values()) * gemm.filters * gemm.channels * problem.elem.itemsize
        most = max(_bytes(gemm, problem.elem), of_weights)
        return f"its transforms exceed {_MOST_BYTES} bytes" if most > _MOST_BYTES else ""

    @classmethod
    def configs(cls, problem: Any, limits: Properties) -> Iterator[_Filtering]:
        """As many images as the workspace holds."""
        (gemm,) = _gemms(problem)
        yield cls(max(1, min(gemm.image.batch, _WORKSPACE // _bytes(gemm, problem.elem))))

    def cost(self, problem: Convolution | WeightsGradient, limits: Properties) -> float:
        """A quarter of the products, by a library, and the transforms, half of which caches hold until read."""
        (gemm,) = _gemms(problem)
        tiles, weights = gemm.image.batch * math.prod(_grid(gemm)), gemm.filters * gemm.channels
        of_tiles, of_filters = (_POINTS**2 * n for n in (tiles * (gemm.filters + gemm.channels), weights))
        products = 2.0 * _POINTS**2 * tiles * weights
        if cost.is_host(limits):
            transforms = _TRANSFORM * of_tiles + _TRANSFORM_OF_FILTERS * of_filters
            # NumPy multiplies one matrix after the other.
            calls = _POINTS**2 * _BLAS_CALL + 3 * cost.launch(limits)
            return (products / cost.HOST_BLAS + transforms) / limits.multiprocessors + calls
        moved = (gemm.elements + 1.5 * (of_tiles + of_filters)) * problem.elem.itemsize
        seconds = products / (0.9 * cost.flops(limits)) + moved / cost.bandwidth(limits)
        return seconds + 3 * cost.launch(limits)


@dataclass(frozen=True)
class Winograd(Following, _Filtering):
    """A convolution, or the gradient of its image, by products of transformed tiles."""

    def plan(self, problem: Convolution, limits: Properties) -> Plan:
        """The transforms of the filters, and for parts of the batch those of the image, the product and the result."""
        (gemm,), out = _gemms(problem), problem.layout()
        batches, last = _batches(gemm.image.batch, self.images), gemm.output.channels_last
        epilogue = rounding(problem.epilogue, problem.elem)
        filters = _tiles_of_weights(gemm, gemm.channels <= gemm.filters)
        of_filters = filters.transforms(_FILTERS, problem.weights, limits)
        passes = {}
        for n in {n for _, n in batches}:
            of_image = _tiles(gemm, True, n, limits).transforms(_IMAGE, problem.x, limits)
            passes[n] = (
                of_image,
                _tiles(gemm, False, n, limits).result(_OUTPUT, gemm, epilogue, out, limits),
            )

        def run(arrays: Sequence[Any]) -> None:
            image, weights, *operands, to = arrays
            factor = of_filters(weights)
            for start, n in batches:
                of_image, result = passes[n]
                tiles = of_image(_part(image, start, n))
                factors = (tiles, factor) if last else (factor, tiles)
                product = ops.matmul(ops.swapaxes(factors[0], 1, 2), factors[1])
                result((product, *operands, _part(to, start, n)))

        return Pipeline(problem.device, out, (), [run])


@dataclass(frozen=True)
class WinogradWeights(_Filtering):
    """The gradient of a convolution's weights by products of transformed tiles.

    Attributes:
        parts: into which the tiles are cut, each with a product of its own, so that no multiprocessor is idle.
    """

    parts: int = 1

    @classmethod
    def configs(cls, problem: WeightsGradient, limits: Properties) -> Iterator[WinogradWeights]:
        """As many images as the workspace holds."""
        for one in super().configs(problem, limits):
            assert isinstance(one, cls)
            (gemm,) = _gemms(problem)
            wanted = 1 if cost.is_host(limits) else _PARTS[min(gemm.filters, gemm.channels) <= _FEW_CHANNELS]
            parts = min(wanted, one.images * math.prod(_grid(gemm)) // _FEWEST_TILES)
            yield replace(one, parts=max(1, parts))

    def plan(self, problem: WeightsGradient, limits: Properties) -> Plan:
        """For parts of the batch the transforms of output and image, their product, and weights, which are added up."""
        (gemm,), out = _gemms(problem), problem.layout()
        batches, epilogue, passes = _batches(gemm.image.batch, self.images), rounding(None, problem.elem), {}
        weights = _tiles_of_weights(gemm, True, self.parts).result(_WEIGHTS, gemm, epilogue, out, limits)
        for n in {n for _, n in batches}:
            of_output, of_image = (
                _tiles(gemm, of_image, n, limits, self.parts) for of_image in (False, True)
            )
            if math.prod(_grid(gemm)) <= _FEW_TILES:
                of_output = of_output._replace(last=True)
            passes[n] = (
                of_output.transforms(_GRADIENT, problem.output, limits),
                of_image.transforms(_IMAGE, problem.image, limits),
            )

        def run(arrays: Sequence[Any]) -> None:
            *given, to = arrays
            for number, (start, n) in enumerate(batches):
                tiles, factor = (of(_part(x, start, n)) for of, x in zip(passes[n], given, strict=True))
                product = ops.matmul(tiles, ops.swapaxes(factor, 1, 2))
                weights((product, to[number] if len(batches) > 1 else to))

        return Pipeline(problem.device, out, (), [run], len(batches))
