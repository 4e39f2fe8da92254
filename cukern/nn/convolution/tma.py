"""Convolutions on tensor cores of sm_90a whose images come by tensor maps (TMA), each part once for all taps."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from ...array.layout import Layout
from ...device.interface import Properties, Tiles
from ...elementwise.program import Program
from ...kernel import Kernel
from ...kernel.sizes import ACCESS, divide_up
from ...launch import cost
from ...launch.params import Params
from ...launch.variant import MAP_BYTES, Launch, Plan, prepared
from ...linear.problem import epilogue_steps
from .arrangement import Pipeline
from .problem import Axis, Convolution, Gemm, View, operand_steps, rounding, view_of
from .tensor_cores import ChannelsLast, TensorCores
from .variants import Implicit, constants_of, copying, reordering

#: 16-bit floats in a line of 128 bytes.
LINE = 64
#: Bytes of shared memory before the stages, for alignment, and for barriers.
ALIGNMENT = 1024
BARRIERS = 1024
#: The most lines of a copy along an axis.
LONGEST = 256


def loads_by_maps(gemm: Gemm, itemsize: int) -> bool:
    """Whether maps lead to image and output of two axes, of 16-bit floats whose channels lie innermost."""
    flat = gemm.image.size[0] == 1 and gemm.axes[0][:3] == (1, 1, 0) and gemm.output.size[0] == 1
    return (
        itemsize == 2
        and gemm.groups == 1
        and not gemm.wide
        and flat
        and gemm.image.unique
        and gemm.output.unique
    )


def _weight_strides(view: View) -> tuple[int, int, int]:
    """Strides of weights along filters, rows and columns, in elements; of one row or column as if there were more."""
    _, _, columns = view.size
    column = view.strides[4] or view.strides[3] or view.channels
    row = view.strides[3] or columns * column
    return view.strides[0] or math.prod(view.size) * column, row, column


def maps_weights(weights: Layout, filters: int) -> bool:
    """Whether a map leads to weights, and filters of the output begin at multiples of 16 bytes."""
    view = view_of(weights)
    filter_, row, column = _weight_strides(view)
    return view.strides[1] == 1 and min(filter_, column) > 0 and row % column == 0 and filters % 8 == 0


def image_tiles(
    layout: Layout,
    box: tuple[int, ...],
    every: Sequence[tuple[int, int]] = ((0, 1), (0, 1)),
    writes: bool = False,
    channels: int = LINE,
) -> Tiles:
    """The map of a box of images, some channels of each pixel.

    Args:
        layout: that of the images.
        box: rows and columns, or images, rows and columns.
        every: which rows, and which columns: the first one, and the distance of two.
        writes: whether kernels store tiles.
        channels: of the box.
    """
    view = view_of(layout)
    batch, _, _, y, x = (2 * step for step in view.strides)
    # An axis of size 1 has stride 0, which maps do not have.
    x = x or 2 * view.channels
    y = y or x * view.size[2]
    strides = (batch or y * view.size[1], y * every[0][1], x * every[1][1])
    sizes = [divide_up(n - first, step) for n, (first, step) in zip(view.size[1:], every, strict=True)]
    shape = (view.batch, *sizes, view.channels)
    first = every[0][0] * y + every[1][0] * x
    whole = (*((1,) * (3 - len(box))), *box, channels)
    return Tiles(first, layout.dtype, shape, strides, whole, 2 * channels, writes)


def weight_tiles(layout: Layout, filters: int) -> Tiles:
    """The map of a tap's weights, 64 channels of so many filters."""
    view = view_of(layout)
    taps = math.prod(view.size)
    filter_, _, column = _weight_strides(view)
    strides = (2 * filter_, 2 * column)
    shape = (view.batch, taps, view.channels)
    return Tiles(0, layout.dtype, shape, strides, (filters, 1, LINE), 2 * LINE, False)


def halo(axis: Axis) -> int:
    """The lines that the windows of a phase of the image reach beyond their first one."""
    return (divide_up(axis.taps, axis.step) - 1) * (abs(axis.tap_step) if axis.step == 1 else 1)


def moves_by_one_or_two(gemm: Gemm, itemsize: int) -> bool:
    """Whether windows of two axes move by one pixel or two, in images that maps lead to."""
    _, y, x = gemm.axes
    steps = y.step == x.step == 1 or y.step == x.step == 2 <= min(gemm.image.size[1:])
    even = steps and (y.step == 1 or y.tap_step == x.tap_step == 1)
    several = gemm.taps > 1 or y.every * x.every > 1
    return loads_by_maps(gemm, itemsize) and even and several and gemm.taps > 0


class _Mapped(ChannelsLast):
    """What the variants share whose image and weights are loaded by maps."""

    needs, major = (9, 0), 9
    #: Threads of a block: two warpgroups multiply, one loads.
    threads: ClassVar[int] = 384


_BAND_SIZES = Params(
    "Sizes",
    **dict.fromkeys("bands of_image tiles_n filters k_blocks base_y base_x rows segments".split(), "int"),
)


@dataclass(frozen=True)
class Bands(_Mapped):
    """Windows that move by one pixel: a band of the image is loaded once, and shifted in shared memory for each tap.

    Attributes:
        tile_n: filters of a tile.
        halves: of 64 pixels of a warpgroup.
        apart: whether each half is of a row of its own, of up to 64 of its pixels: of rows that with their halo are
            longer, which else leave up to half of the tile unused, and of segments of still longer ones.
        band: rows of an image that a warpgroup has.
        pitch: pixels of such a row with its halo.
        loaded_lines: lines of a band's image that are loaded.
        lines: those in shared memory, which products of what lies beyond the image read too.
        image_stages: bands in shared memory: two, or one of images that have no further channels.
        weight_stages: a tap's weights in shared memory.
        access: elements that are stored at a time in an output whose pixels lie innermost; 0 if channels do.
    """

    name = "tma bands"
    kernel = Kernel("nn/convolution/shifted.cu")
    takes = frozenset({"images", "elements"})

    tile_n: int
    halves: int
    apart: bool
    band: int
    pitch: int
    loaded_lines: int
    lines: int
    image_stages: int
    weight_stages: int
    access: int

    #: Stages of weights at least and at most.
    fewest_stages: ClassVar[int] = 3
    most_stages: ClassVar[int] = 8
    #: The fewest filters of which a tile may have all.
    narrowest: ClassVar[int] = 16
    #: Elements between two planes of the output in shared memory.
    plane_gap: ClassVar[int] = 8
    #: Microseconds of 64 pixels by 64 filters by 64 channels of a warpgroup, of a tap, and of a tile, on an H200.
    product_time: ClassVar[float] = 0.07
    tap_time: ClassVar[float] = 0.05
    tile_time: ClassVar[float] = 2.0

    @classmethod
    def written(cls, problem: Convolution) -> Layout:
        """The layout that the launches write: planes too where there is one phase."""
        phases = math.prod(problem.windows.stride) if problem.transposed else 1
        return problem.layout(problem.channels_last or phases > 1)

    @classmethod
    def fits(cls, problem: Convolution, limits: Properties) -> str:
        """For 16-bit floats, windows that move by one pixel, and enough channels."""
        if len(problem.kernel) != 2 or problem.elem.itemsize != 2 or problem.windows.groups > 1:
            return "for 16-bit floats, one group and two axes"
        weights = cls.arranged(problem)[1].layout
        gemms, loads = [one for one in cls.gemms(problem) if one.taps], "elements" in problem.reach
        if not gemms or not all(cls._fits(one, weights) for one in gemms):
            return "windows do not move by one pixel, or maps do not lead to the arrays"
        if problem.filters < cls.narrowest:
            return f"for at least {cls.narrowest} filters"
        if loads and not (len(gemms) == 1 and gemms[0].output.channels_last):
            return "an operand's elements are loaded to one phase, whose channels lie innermost"
        return "" if all(cls._configs(one, limits, loads) for one in gemms) else "no band fits shared memory"

    @classmethod
    def _fits(cls, gemm: Gemm, weights: Layout) -> bool:
        one = gemm.axes[1].step == 1
        return (
            one and maps_weights(weights, gemm.filters) and moves_by_one_or_two(gemm, weights.dtype.itemsize)
        )

    @classmethod
    def configs(cls, problem: Convolution, limits: Properties) -> Iterator[Bands]:
        """Those of the largest phase; others have their own."""
        largest = max(cls.gemms(problem), key=lambda one: one.flops)
        return iter(cls._configs(largest, limits, "elements" in problem.reach))

    @classmethod
    def _configs(cls, gemm: Gemm, limits: Properties, loads: bool = False) -> list[Bands]:
        _, y, x = gemm.axes
        reach_y, reach_x = halo(y), halo(x)
        configs = []
        image_stages = (1, 2) if gemm.channels <= LINE else (2,)
        for tile_n, halves, stages, apart in itertools.product(
            (16, 32, 64, 128, 256), (1, 2), image_stages, (False, True)
        ):
            span = min(x.pixels, 64) if apart else x.pixels
            pitch = span + reach_x
            band = min(halves if apart else 64 * halves // pitch, y.pixels)
            narrow = tile_n < 64 and gemm.filters > tile_n
            if tile_n * halves > 256 or narrow or not band or max(pitch, band + reach_y) > LONGEST:
                continue
            if apart and (pitch <= 64 or (x.pixels > span and not gemm.output.channels_last)):
                continue
            loaded = (band + reach_y) * pitch
            reach = ((halves - 1) * pitch + 64 if apart else 64 * halves) + reach_y * pitch + reach_x
            lines = divide_up(max(loaded, reach), 8) * 8
            access = 0
            if not gemm.output.channels_last:
                step, line = math.prod(gemm.output.size), x.pixels * band
                access = math.gcd(step, line if band < y.pixels else step, ACCESS // 2)
            one = cls(tile_n, halves, apart, band, pitch, loaded, lines, stages, 0, access)
            room = limits.max_shared_memory_per_block - BARRIERS - one._fixed(loads)
            fitting = min(cls.most_stages, room // one._weight_stage)
            if fitting >= cls.fewest_stages:
                configs.append(replace(one, weight_stages=fitting))
        return configs

    def _parts(self, loads: bool) -> int:
        """Parts of a warpgroup's output in shared memory, of 64 columns: all, if an operand is loaded there."""
        return divide_up(self.tile_n, LINE) if loads else 1

    def _fixed(self, loads: bool) -> int:
        """Bytes of shared memory of a block besides the stages of weights."""
        part = 64 * self.halves + (self.plane_gap if self.access else 0)
        return 2 * LINE * (2 * self.image_stages * self.lines + 2 * self._parts(loads) * part) + ALIGNMENT

    @property
    def _weight_stage(self) -> int:
        return 2 * LINE * self.tile_n

    def _segments(self, gemm: Gemm) -> int:
        """The bands along a row."""
        return divide_up(gemm.axes[2].pixels, 64) if self.apart else 1

    def _bands(self, gemm: Gemm) -> tuple[int, int]:
        """The bands of all images, and of one."""
        each = divide_up(gemm.axes[1].pixels, self.band) * self._segments(gemm)
        return gemm.image.batch * each, each

    def _tiles(self, gemm: Gemm) -> tuple[int, int]:
        """Pairs of bands, and tiles across."""
        return divide_up(self._bands(gemm)[0], 2), divide_up(gemm.filters, self.tile_n)

    def _seconds(self, gemm: Gemm, limits: Properties) -> float:
        k_blocks = divide_up(gemm.channels, LINE) * gemm.taps
        product = self.halves * self.tile_n / 64 * self.product_time * 2
        tile = k_blocks * (product + self.tap_time) + self.tile_time * (3 - self.image_stages)
        return 1e-6 * cost.waves(math.prod(self._tiles(gemm)), limits) * tile + cost.launch(limits)

    def for_phase(self, gemm: Gemm, problem: Convolution, limits: Properties) -> Implicit:
        """Bands of the phase, in the same tiles if that can be; one without taps is left to :class:`TensorCores`."""
        if not gemm.taps:
            return TensorCores(64, 64, 2, 2, 4)
        if len(self.gemms(problem)) == 1:
            return self
        configs = self._configs(gemm, limits)
        alike = [one for one in configs if (one.tile_n, one.halves) == (self.tile_n, self.halves)]
        return min(alike or configs, key=lambda one: one._seconds(gemm, limits))

    def cost(self, problem: Convolution, limits: Properties) -> float:
        """The tiles of the busiest multiprocessor."""
        last = self.written(problem).strides[1] == problem.elem.itemsize
        seconds = copying(self.arranged(problem), limits) + reordering(problem, last, limits)
        for gemm in self.gemms(problem):
            one = self.for_phase(gemm, problem, limits)
            seconds += one._seconds(gemm, limits) if isinstance(one, Bands) else cost.launch(limits)
        return seconds

    def launch_of(self, gemm: Gemm, problem: Convolution, epilogue: Program, limits: Properties) -> Launch:
        image, weights = (one.layout for one in self.arranged(problem))
        _, y, x = gemm.axes
        maps = {
            0: [image_tiles(image, (self.loaded_lines // self.pitch, self.pitch))],
            1: [weight_tiles(weights, self.tile_n)],
        }
        reach = problem.reach or ("channels",) * (len(epilogue.inputs) - 1)
        elements = reach.index("elements") + 1 if "elements" in reach else 0
        if not self.access:
            phase = [(axis.first, axis.every) for axis in (y, x)]
            slot = 64 if self.apart else self.pitch
            out = image_tiles(self.written(problem), (self.band, slot), phase, writes=True)
            maps[1 + len(epilogue.inputs) + len(epilogue.scalars)] = [out]
            if elements:
                maps[1 + elements] = [out._replace(writes=False)]
        bands, of_image = self._bands(gemm)
        down, across = self._tiles(gemm)
        sizes = _BAND_SIZES(
            bands=bands,
            of_image=of_image,
            tiles_n=across,
            filters=gemm.filters,
            k_blocks=divide_up(gemm.channels, LINE),
            base_y=y.base + min(0, (y.taps - 1) * y.tap_step),
            base_x=x.base + min(0, (x.taps - 1) * x.tap_step),
            rows=y.pixels,
            segments=self._segments(gemm),
        )
        return Launch(
            grid=(min(down * across, limits.multiprocessors), 1, 1),
            block=self.threads,
            shared=self._fixed(elements > 0) + self.weight_stages * self._weight_stage,
            constants={
                **constants_of(gemm, problem, epilogue, f"bands_{self.tile_n}x{self.halves}"),
                "taps_y": y.taps,
                "taps_x": x.taps,
                "step_y": y.tap_step,
                "step_x": x.tap_step,
                "tap_y": y.tap,
                "each_y": y.each,
                "tap_x": x.tap,
                "each_x": x.each,
                "row": view_of(weights).size[2],
                "planes": self.access > 0,
                "access": max(1, self.access),
                "width": x.pixels,
                "elements": elements,
                "parts": self._parts(elements > 0),
            },
            params=(sizes, epilogue_steps([(gemm.filters * (one == "images"), 0, 1) for one in reach])),
            maps=maps,
        )


_PHASE = Params("Grid", first="int", bands="int", of_images="int", tap="int", taps="int")
_TAP = Params("Tap", plane="int", row="int", column="int", weights="int")


@dataclass(frozen=True)
class Strided(_Mapped):
    """Windows that move by several pixels, and all phases of such an image's gradient, in one launch.

    Attributes:
        tile_n: filters of a tile.
        halves: of 64 pixels of a warpgroup.
        images, band, width: the images, their rows and the pixels of a row that they are of.
        stages: k-blocks in shared memory.
    """

    name = "tma strided"
    kernel = Kernel("nn/convolution/strided.cu")

    tile_n: int
    halves: int
    images: int
    band: int
    width: int
    stages: int

    fewest_stages: ClassVar[int] = 3
    most_stages: ClassVar[int] = 8
    #: Bytes of a kernel's arguments that maps and tables may take; of a phase and of a tap in the tables.
    arguments: ClassVar[int] = 3584
    phase_bytes: ClassVar[int] = 20
    tap_bytes: ClassVar[int] = 16
    #: Microseconds, on an H200: 64 pixels by 64 filters by 64 channels, a KiB of a k-block, any k-block, and a tile.
    product_time: ClassVar[float] = 0.075
    kib_time: ClassVar[float] = 0.0135
    k_block_time: ClassVar[float] = 0.05
    tile_time: ClassVar[float] = 2.0

    @classmethod
    def gemms(cls, problem: Convolution) -> list[Gemm]:
        """Those of all phases, that of the most taps first."""
        return sorted(super().gemms(problem), key=lambda one: -one.taps)

    @classmethod
    def fits(cls, problem: Convolution, limits: Properties) -> str:
        """For 16-bit floats, windows that move by several pixels, and enough channels."""
        if len(problem.kernel) != 2 or problem.elem.itemsize != 2 or problem.windows.groups > 1:
            return "for 16-bit floats, one group and two axes"
        gemms = cls.gemms(problem)
        if not gemms or max(*(axis.step for axis in gemms[0].axes[1:]), len(gemms)) == 1:
            return "windows move by one pixel"
        first, taps = gemms[0], [one.taps for one in gemms]
        planes = [axis.step <= n for axis, n in zip(first.axes[1:], first.image.size[1:], strict=True)]
        maps = math.prod(axis.step for axis in first.axes[1:]) + len(gemms) + 1
        arguments = MAP_BYTES * maps + cls.phase_bytes * len(gemms) + cls.tap_bytes * sum(taps)
        if not all(planes) or min(taps) == 0 or arguments > cls.arguments:
            return "a phase has no taps, or there are too many"
        weights = cls.arranged(problem)[1].layout
        if not (loads_by_maps(first, 2) and maps_weights(weights, first.filters)):
            return "maps do not lead to the arrays"
        return "" if next(cls.configs(problem, limits), None) else "no band fits shared memory"

    @classmethod
    def configs(cls, problem: Convolution, limits: Properties) -> Iterator[Strided]:
        """Bands of rows, or of whole images."""
        gemms = cls.gemms(problem)
        width, rows = (max(one.axes[i].pixels for one in gemms) for i in (2, 1))
        for tile_n, halves in itertools.product((64, 128, 256), (1, 2)):
            band = min(64 * halves // width, rows)
            if tile_n * halves > 256 or not band:
                continue
            images = min(64 * halves // (width * rows), gemms[0].image.batch) if band == rows else 1
            one = cls(tile_n, halves, images, band, width, 0)
            room = limits.max_shared_memory_per_block - BARRIERS - one._fixed
            stages = min(cls.most_stages, room // one._k_block)
            if stages >= cls.fewest_stages:
                yield replace(one, stages=stages)

    @property
    def _k_block(self) -> int:
        """Bytes of a stage."""
        return 2 * LINE * (2 * 64 * self.halves + self.tile_n)

    @property
    def _fixed(self) -> int:
        """Bytes of shared memory of a block besides the stages."""
        return 2 * 2 * 64 * self.halves * LINE + ALIGNMENT

    def _bands(self, gemm: Gemm) -> tuple[int, int]:
        """The bands of a phase, and those of as many images as a band has."""
        each = divide_up(gemm.axes[1].pixels, self.band)
        return divide_up(gemm.image.batch, self.images) * each, each

    def _tiles(self, gemm: Gemm) -> int:
        return divide_up(self._bands(gemm)[0], 2) * divide_up(gemm.filters, self.tile_n)

    def cost(self, problem: Convolution, limits: Properties) -> float:
        """The tiles of the busiest multiprocessor, which has every so many-th."""
        loaded = (2 * self.images * self.band * self.width + self.tile_n) * 2 * LINE / 1024
        product = 2 * self.halves * self.tile_n / 64 * self.product_time
        k_block = max(product, loaded * self.kib_time) + self.k_block_time
        total, left = 0.0, 0
        for gemm in self.gemms(problem):
            tiles = self._tiles(gemm)
            rounds = divide_up(tiles - left, limits.multiprocessors)
            total += rounds * (gemm.taps * divide_up(gemm.channels, LINE) * k_block + self.tile_time)
            left += rounds * limits.multiprocessors - tiles
        copies = copying(self.arranged(problem), limits) + reordering(problem, True, limits)
        return 1e-6 * total + copies + cost.launch(limits)

    def plan(self, problem: Convolution, limits: Properties) -> Plan:
        """The launch, with the copies that it needs."""
        for one in self.gemms(problem):
            one.check()
        run = prepared(self, self.launch(problem, limits), problem.device)
        return Pipeline(
            problem.device, self.written(problem), self.arranged(problem), [run], wanted=problem.layout()
        )

    def launch(self, problem: Convolution, limits: Properties) -> Launch:
        """The launch of all phases."""
        gemms, epilogue = self.gemms(problem), rounding(problem.epilogue, problem.elem)
        image, weights = (one.layout for one in self.arranged(problem))
        first, row = gemms[0], view_of(weights).size[2]
        moves = [axis.step for axis in first.axes[1:]]
        box = (self.images, self.band, self.width)
        planes = [
            image_tiles(image, box, list(zip(at, moves, strict=True)))
            for at in itertools.product(*map(range, moves))
        ]
        phases = [
            image_tiles(
                self.written(problem), box, [(one.first, one.every) for one in gemm.axes[1:]], writes=True
            )
            for gemm in gemms
        ]
        taps = [tap for gemm in gemms for tap in _taps(gemm, row)]
        tables, tile, tap = [], 0, 0
        for gemm in gemms:
            bands, of_images = self._bands(gemm)
            tables.append((tile, bands, of_images, tap, gemm.taps))
            tile, tap = tile + self._tiles(gemm), tap + gemm.taps
        sizes = Params(
            "Sizes",
            tiles="int",
            tiles_n="int",
            filters="int",
            k_blocks="int",
            of=(_PHASE, len(gemms)),
            taps=(_TAP, len(taps)),
        )
        params = sizes(
            tiles=tile,
            tiles_n=divide_up(first.filters, self.tile_n),
            filters=first.filters,
            k_blocks=divide_up(first.channels, LINE),
            of=tables,
            taps=taps,
        )
        return Launch(
            grid=(min(tile, limits.multiprocessors), 1, 1),
            block=self.threads,
            shared=self._fixed + self.stages * self._k_block,
            constants={
                **constants_of(first, problem, epilogue, f"strided_{self.tile_n}x{self.halves}"),
                "planes": len(planes),
                "grids": len(gemms),
            },
            params=(params, operand_steps(first, epilogue)),
            maps={
                0: planes,
                1: [weight_tiles(weights, self.tile_n)],
                1 + len(epilogue.inputs) + len(epilogue.scalars): phases,
            },
        )


def _taps(gemm: Gemm, row: int) -> list[tuple[int, int, int, int]]:
    """Each tap of a phase: the image's plane, the row and the column in it, and its number among the weights' taps.

    Args:
        gemm: of a phase.
        row: taps of a row of the weights.
    """
    _, y, x = gemm.axes
    taps = []
    for b, c in itertools.product(range(y.taps), range(x.taps)):
        (down, plane_y), (along, plane_x) = (
            divmod(axis.base + tap * axis.tap_step, axis.step) for axis, tap in ((y, b), (x, c))
        )
        weights = (y.tap + b * y.each) * row + x.tap + c * x.each
        taps.append((plane_y * x.step + plane_x, down, along, weights))
    return taps
