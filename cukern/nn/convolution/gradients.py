"""Gradients of a convolution's weights: GEMMs of output and image, whose depth, the pixels, is split among blocks."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from ... import dtypes
from ...array.layout import Layout
from ...device.interface import Properties, Tiles
from ...elementwise.graph import input_node
from ...elementwise.program import program
from ...kernel import Kernel
from ...kernel.sizes import divide_up
from ...launch import cost
from ...launch.params import Params
from ...launch.variant import Launch, Plan, Variant, prepared
from ...linear.variants import K_BLOCK
from .arrangement import Arranged, Pipeline, channels_last
from .pointwise import moving
from .problem import Gemm, WeightsGradient, channels_last_layout, operand_steps, rounding
from .tensor_cores import TensorCores, TensorCoreTile, why_no_tensor_cores
from .tma import ALIGNMENT, BARRIERS, LINE, LONGEST, halo, image_tiles, moves_by_one_or_two
from .variants import (
    SIMT_TILES,
    Loads,
    Portable,
    PortableTile,
    Simt,
    SimtTile,
    constants_of,
    copying,
    packed_channels,
    packed_pixels,
    portable_tiles,
    reaches_far,
)

#: Blocks that share the depth of a GEMM at most.
_MOST_SPLITS = 256


@dataclass(frozen=True)
class Gradient(Variant[WeightsGradient]):
    """A gradient of weights as one implicit GEMM.

    Attributes:
        splits: how many partial sums there are, each of a part of the pixels, which are then added up in order.
    """

    splits: int = field(default=1, kw_only=True)

    #: Whether the launch writes channels innermost, whatever is asked for.
    writes_channels_last: ClassVar[bool] = False

    @classmethod
    def arranged(cls, problem: WeightsGradient) -> tuple[Arranged, Arranged]:
        """How output and image are read."""
        return Arranged(problem.output), Arranged(problem.image)

    @classmethod
    def written(cls, problem: WeightsGradient) -> Layout:
        """The layout that the launch writes, of as many filters and channels as the arranged arrays have."""
        output, image = (one.layout for one in cls.arranged(problem))
        if not (cls.writes_channels_last or problem.channels_last):
            return problem.layout()
        shape = (output.shape[1], image.shape[1] // problem.windows.groups, *problem.kernel)
        return channels_last_layout(problem.device, problem.dtype, shape)

    @classmethod
    def gemm(cls, problem: WeightsGradient) -> Gemm:
        """The GEMM of the arrays as they are read and written."""
        output, image = (one.layout for one in cls.arranged(problem))
        return problem.gemm(output, image, cls.written(problem))

    def given(self, gemm: Gemm, problem: WeightsGradient, kind: str) -> tuple[dict[str, Any], Any]:
        """Template variables and operands' strides of an epilogue that rounds sums, but not partial ones."""
        epilogue, acc = rounding(None, problem.elem), dtypes.info(problem.elem).acc
        if self.splits > 1 or problem.dtype != problem.elem:
            epilogue = program("convolution_partial", (input_node(0, acc),), (acc,))
        return constants_of(gemm, problem, epilogue, kind), operand_steps(gemm, epilogue)

    def launch_of(self, gemm: Gemm, problem: WeightsGradient) -> Launch:
        """The launch of the GEMM."""
        raise NotImplementedError

    def plan(self, problem: WeightsGradient, limits: Properties) -> Plan:
        """The launch, with the copies that it needs and the sum of partial sums."""
        out, gemm, runs = self.written(problem), self.gemm(problem), []
        if out.size:
            gemm.check()
            runs = [prepared(self, self.launch_of(gemm, problem), problem.device)]
        return Pipeline(problem.device, out, self.arranged(problem), runs, self.splits, problem.layout())

    def seconds(self, problem: WeightsGradient, tiles: int, tile: float, limits: Properties) -> float:
        """The time of the tiles of the busiest multiprocessor, of the arrays' bytes, and of copies of them.

        Args:
            problem: what it computes.
            tiles: of the GEMM, each of which so many blocks share as there are parts.
            tile: the seconds of one, on a multiprocessor of its own.
            limits: of the device.
        """
        copies = copying(self.arranged(problem), limits)
        products = tiles * tile / limits.multiprocessors
        return math.hypot(products, moving(problem, limits)) + cost.launch(limits) + copies


def even(depth: int, k_block: int, splits: int) -> int:
    """Into how many parts whole k-blocks of a depth are cut, none of them empty, if there may be so many."""
    k_blocks = divide_up(depth, k_block)
    return divide_up(k_blocks, divide_up(k_blocks, max(1, splits))) if k_blocks else 1


@dataclass(frozen=True)
class PortableWeights(PortableTile, Gradient):
    """Tiles of an implicit GEMM that threads multiply by plain arithmetic, as :class:`.Portable`."""

    name = "portable"
    kernel = Portable.kernel

    #: Pixels of a part at least.
    fewest_pixels: ClassVar[int] = 256
    #: Of the rate of a convolution: both factors are gathered by pixels.
    efficiency: ClassVar[float] = 0.5

    @classmethod
    def configs(cls, problem: WeightsGradient, limits: Properties) -> Iterator[PortableWeights]:
        """Tiles of a GPU's or of the host's threads; on a GPU so many parts that no multiprocessor is idle."""
        gemm = cls.gemm(problem)
        for one in (cls(*given) for given in portable_tiles(problem.elem, limits)):
            wanted = 1 if cost.is_host(limits) else 4 * limits.multiprocessors // max(1, one.count(gemm))
            splits = min(wanted, gemm.pixels // cls.fewest_pixels, _MOST_SPLITS)
            yield replace(one, splits=even(gemm.pixels, one.depth, splits))

    def cost(self, problem: WeightsGradient, limits: Properties) -> float:
        """The products of the busiest multiprocessor."""
        gemm = self.gemm(problem)
        tile = (self.product_seconds(gemm, limits, 1) - cost.launch(limits)) / self.efficiency
        return self.seconds(problem, self.count(gemm), tile, limits)

    def launch_of(self, gemm: Gemm, problem: WeightsGradient) -> Launch:
        constants = self.given(gemm, problem, f"{self.tile_m}x{self.tile_n}")
        return self.product(gemm, *constants, self.splits)


@dataclass(frozen=True)
class SimtWeights(SimtTile, Gradient):
    """A float32 implicit GEMM on CUDA cores, double-buffered, for many channels and filters, as :class:`.Simt`."""

    name = "simt"
    kernel = Simt.kernel
    needs = (5, 0)
    writes_channels_last = True

    #: Pixels of a k-block, and k-blocks of a part at least.
    depth: ClassVar[int] = 16
    fewest_k_blocks: ClassVar[int] = 16
    #: Channels of a tap that columns are counted in, and the part of the last ones that has to be there.
    unit: ClassVar[int] = 64
    filled: ClassVar[float] = 0.7
    fewest_filters: ClassVar[int] = 32

    @classmethod
    def fits(cls, problem: WeightsGradient, limits: Properties) -> str:
        """For float32, enough channels and filters, and arrays that are read along the same axis."""
        if problem.elem != dtypes.float32:
            return "for float32"
        if problem.filters < cls.fewest_filters:
            return f"for at least {cls.fewest_filters} filters"
        if problem.channels < cls.filled * divide_up(problem.channels, cls.unit) * cls.unit:
            return f"channels do not fill columns of {cls.unit}"
        return cls._why_not(problem)

    @classmethod
    def _why_not(cls, problem: WeightsGradient) -> str:
        """Why the kernel cannot compute it."""
        gemm = cls.gemm(problem)
        # An offset of an output below 0 tells that there is none.
        if min(gemm.output.strides) < 0 or reaches_far(gemm):
            return "offsets are negative or exceed 32 bits"
        return (
            "" if cls._loads(gemm, problem) else "channels of one array lie innermost alone, or not in packs"
        )

    @staticmethod
    def _loads(gemm: Gemm, problem: WeightsGradient) -> Loads | None:
        """How k-blocks are copied; None where one float of each sector would be read."""
        image = packed_channels(gemm.image, problem.image.aligned)
        output = packed_channels(gemm.output, problem.output.aligned)
        if image and output and gemm.channels % 4 == gemm.filters % 4 == 0:
            return Loads(False, False, True, True)
        if gemm.image.channels_last or gemm.output.channels_last:
            return None
        return Loads(True, True, packed_pixels(gemm.output, problem.output.aligned), False)

    @classmethod
    def _sizes(cls, gemm: Gemm) -> tuple[int, int, int]:
        """Rows, columns of units, and depth."""
        return gemm.filters, gemm.taps * divide_up(gemm.channels, cls.unit) * cls.unit, gemm.pixels

    def _tiles(self, gemm: Gemm) -> int:
        m, n, _ = self._sizes(gemm)
        return divide_up(m, self.tile_m) * divide_up(n, self.tile_n) * gemm.groups

    @classmethod
    def configs(cls, problem: WeightsGradient, limits: Properties) -> Iterator[SimtWeights]:
        """Each tile, with so many parts that few multiprocessors are idle at the end."""
        gemm = cls.gemm(problem)
        for one in (cls(*given) for given in SIMT_TILES):
            tiles, k_blocks = one._tiles(gemm), divide_up(gemm.pixels, cls.depth)
            slots = limits.multiprocessors * one.resident
            most = min(k_blocks // cls.fewest_k_blocks, _MOST_SPLITS, max(1, 4 * slots // max(1, tiles)))
            waves = {n: divide_up(tiles * n, slots) / n for n in range(1, max(1, most) + 1)}
            splits = next(n for n in waves if waves[n] <= 1.05 * min(waves.values()))
            yield replace(one, splits=even(gemm.pixels, cls.depth, splits))

    def cost(self, problem: WeightsGradient, limits: Properties) -> float:
        """The products."""
        gemm = self.gemm(problem)
        rate = SIMT_WEIGHTS_EFFICIENCY[self.tile_m, self.tile_n] * cost.SIMT_FLOPS
        tile = 2.0 * self.tile_m * self.tile_n * gemm.pixels / rate
        return self.seconds(problem, self._tiles(gemm), tile, limits)

    def launch_of(self, gemm: Gemm, problem: WeightsGradient) -> Launch:
        loads = self._loads(gemm, problem)
        assert loads is not None
        packs = False, not loads.b_by_depth and gemm.weights[1] == 1 and gemm.channels % 4 == 0
        constants = self.given(gemm, problem, f"simt_{self.tile_m}x{self.tile_n}")
        return self.product(gemm, self._sizes(gemm), loads, *constants, packs, self.splits)


#: The share of the CUDA cores' peak that weights gradients reach.
SIMT_WEIGHTS_EFFICIENCY = {(128, 64): 0.62, (64, 128): 0.58, (64, 64): 0.47, (128, 128): 0.6}
#: Microseconds of a k-block of a tile of a multiprocessor on an H200: of 16-bit floats, and of floats rounded to tf32.
_TIMES = {
    (256, 128, True): 1.6,
    (128, 128, True): 0.91,
    (64, 128, True): 0.7,
    (128, 128, False): 1.4,
    (64, 64, False): 0.49,
}
_TF32_TIMES = {(128, 128, False): 1.4, (64, 64, False): 0.52}


class ChannelsLastWeights(Gradient):
    """What variants share whose arrays all have channels innermost."""

    writes_channels_last = True

    @classmethod
    def arranged(cls, problem: WeightsGradient) -> tuple[Arranged, Arranged]:
        return channels_last(problem.output), channels_last(problem.image)


@dataclass(frozen=True)
class TensorCoresWeights(TensorCoreTile, ChannelsLastWeights):
    """An implicit GEMM of arrays whose channels lie innermost, with float32 sums, as :class:`.TensorCores`."""

    name = "tensor cores"
    kernel = TensorCores.kernel
    needs = (8, 0)

    tiles_of_halves: ClassVar[tuple[tuple[Any, ...], ...]] = (
        (256, 128, 16, 1, 4, True),
        (128, 128, 8, 1, 3, True),
        (64, 128, 4, 1, 4, True),
        (128, 128, 2, 4, 3),
        (64, 64, 2, 2, 4),
    )
    #: K-blocks of a part at least.
    fewest_k_blocks: ClassVar[int] = 8

    @classmethod
    def fits(cls, problem: WeightsGradient, limits: Properties) -> str:
        """For 16-bit floats, or floats that may be rounded to tf32."""
        sizes = problem.filters, problem.channels
        return why_no_tensor_cores(problem.elem, problem.precision, problem.windows.groups, *sizes)

    @classmethod
    def configs(cls, problem: WeightsGradient, limits: Properties) -> Iterator[TensorCoresWeights]:
        """The tiles that the device has; wgmma does not sum up nothing."""
        gemm, depth = cls.gemm(problem), K_BLOCK // problem.elem.itemsize
        found = cls.tiles_of_halves if problem.elem.itemsize == 2 else TensorCores.tiles_of_floats
        for one in (cls(*given) for given in found):
            if one.runs_on(limits) and (gemm.pixels or not one.grouped):
                wanted = 2 * limits.multiprocessors // max(1, one.count(gemm))
                splits = min(wanted, divide_up(gemm.pixels, depth) // cls.fewest_k_blocks, _MOST_SPLITS)
                yield replace(one, splits=even(gemm.pixels, depth, splits))

    def cost(self, problem: WeightsGradient, limits: Properties) -> float:
        """The k-blocks of the busiest multiprocessor."""
        gemm = self.gemm(problem)
        times = _TIMES if problem.elem.itemsize == 2 else _TF32_TIMES
        k_blocks = divide_up(gemm.pixels * problem.elem.itemsize, K_BLOCK)
        tile = 1e-6 * k_blocks * times[self.tile_m, self.tile_n, self.grouped]
        return self.seconds(problem, self.count(gemm), tile, limits)

    def launch_of(self, gemm: Gemm, problem: WeightsGradient) -> Launch:
        constants = self.given(gemm, problem, f"{self.tile_m}x{self.tile_n}")
        return self.product(gemm, problem.elem, *constants, self.splits)


_SIZES = Params(
    "Sizes",
    **dict.fromkeys(
        ("bands", "of_image", "each", "tiles_n", "filters", "channels", "base_y", "base_x"), "int"
    ),
)


@dataclass(frozen=True)
class TmaWeights(ChannelsLastWeights):
    """Windows that move by one pixel or two: bands of output and image are loaded once for all taps, by tensor maps.

    Attributes:
        band: rows of an image.
        pitch: pixels of such a row with its halo.
        loaded_image: lines of a band's image that are loaded.
        lines, lines_image: those of the output, and of each phase of the image, in shared memory.
        stages: bands in shared memory.
        cluster: blocks, each with a part of the bands, that add up their sums in shared memory.
    """

    name = "tma"
    kernel = Kernel("nn/convolution/shifted_weights.cu")
    needs, major = (9, 0), 9

    band: int
    pitch: int
    loaded_image: int
    lines: int
    lines_image: int
    stages: int
    cluster: int

    #: Threads of a block: three warpgroups share the taps, one loads.
    threads: ClassVar[int] = 512
    #: Taps of these at most, and channels and filters at least.
    most_taps: ClassVar[int] = 9
    fewest_channels: ClassVar[int] = 64
    #: Pixels of a product.
    depth: ClassVar[int] = 16
    fewest_stages: ClassVar[int] = 2
    most_stages: ClassVar[int] = 4
    #: Not more, as each block has a multiprocessor, and more may not find enough of them side by side.
    largest_cluster: ClassVar[int] = 2
    #: Operations a second of a multiprocessor's tensor cores.
    rate: ClassVar[float] = 6e12

    @classmethod
    def fits(cls, problem: WeightsGradient, limits: Properties) -> str:
        """For 16-bit floats, few taps, and enough channels and filters."""
        gemm = cls.gemm(problem)
        if not gemm.pixels:
            return "there is nothing to sum up"
        if not moves_by_one_or_two(gemm, problem.elem.itemsize):
            return "for 16-bit floats, windows of two axes that move by one pixel or two, and arrays that maps lead to"
        if gemm.taps > cls.most_taps or min(gemm.filters, gemm.channels) < cls.fewest_channels:
            return f"for at most {cls.most_taps} taps and at least {cls.fewest_channels} channels and filters"
        return "" if next(cls.configs(problem, limits), None) else "no band fits shared memory"

    @classmethod
    def configs(cls, problem: WeightsGradient, limits: Properties) -> Iterator[TmaWeights]:
        """Bands of as many rows as shared memory holds."""
        gemm, memory = cls.gemm(problem), limits.max_shared_memory_per_block - ALIGNMENT - BARRIERS
        _, y, x = gemm.axes
        reach_y, reach_x = halo(y), halo(x)
        pitch = x.pixels + reach_x
        for band in range(1, min(y.pixels, LONGEST - reach_y) + 1 if pitch <= LONGEST else 1):
            lines = divide_up(band * pitch, cls.depth) * cls.depth
            loaded = (band + reach_y) * pitch
            lines_image = divide_up(max(loaded, lines + reach_y * pitch + reach_x), 8) * 8
            one = cls(band, pitch, loaded, lines, lines_image, 0, 1)
            stages = min(cls.most_stages, memory // one._stage(gemm))
            if stages >= cls.fewest_stages:
                yield replace(one, stages=stages)._shared_by_blocks(gemm, limits)

    def _shared_by_blocks(self, gemm: Gemm, limits: Properties) -> TmaWeights:
        """The same with the bands shared by so many blocks that no multiprocessor is idle."""
        bands = self._bands(gemm)[0]
        parts = even(bands, 1, min(limits.multiprocessors // self._tiles(gemm), bands // 2))
        cluster = min(self.largest_cluster, limits.max_blocks_per_cluster)
        memory = self._sums(gemm, cluster) + ALIGNMENT + BARRIERS
        if parts % cluster or memory > limits.max_shared_memory_per_block:
            cluster = 1
        return replace(self, cluster=cluster, splits=parts // cluster)

    @staticmethod
    def _phases(gemm: Gemm) -> list[tuple[int, int]]:
        """The first taps, along rows and columns, of the phases of an image: see the template."""
        _, y, x = gemm.axes
        return list(itertools.product(range(min(y.step, y.taps)), range(min(x.step, x.taps))))

    def _stage_lines(self, gemm: Gemm) -> int:
        return self.lines + len(self._phases(gemm)) * self.lines_image

    def _stage(self, gemm: Gemm) -> int:
        """Bytes of a stage."""
        return 2 * LINE * self._stage_lines(gemm)

    @staticmethod
    def _sums(gemm: Gemm, cluster: int) -> int:
        """Bytes of the sums that a block has from the others of its cluster."""
        return divide_up(gemm.taps, 3) * 32 // cluster * (cluster - 1) * 384 * 4

    def _bands(self, gemm: Gemm) -> tuple[int, int]:
        """The bands of all images, and of one."""
        each = divide_up(gemm.axes[1].pixels, self.band)
        return gemm.image.batch * each, each

    @staticmethod
    def _tiles(gemm: Gemm) -> int:
        return divide_up(gemm.filters, LINE) * divide_up(gemm.channels, LINE)

    def cost(self, problem: WeightsGradient, limits: Properties) -> float:
        """The lines that are multiplied, or loaded if these take longer."""
        gemm = self.gemm(problem)
        lines = self._bands(gemm)[0] * (self.lines + self._stage_lines(gemm) / 8)
        tile = 2.0 * lines * gemm.taps * LINE**2 / self.rate
        return self.seconds(problem, self._tiles(gemm), tile, limits)

    def launch_of(self, gemm: Gemm, problem: WeightsGradient) -> Launch:
        output, image = (one.layout for one in self.arranged(problem))
        _, y, x = gemm.axes
        bands, of_image = self._bands(gemm)
        across, parts = divide_up(gemm.channels, LINE), self.splits * self.cluster
        constants, steps = self.given(gemm, problem, "bands")
        sizes = _SIZES(
            bands=bands,
            of_image=of_image,
            each=divide_up(bands, parts),
            tiles_n=across,
            filters=gemm.filters,
            channels=gemm.channels,
            base_y=y.base,
            base_x=x.base,
        )
        return Launch(
            grid=(divide_up(gemm.filters, LINE) * across, parts, 1),
            block=self.threads,
            shared=max(self.stages * self._stage(gemm), self._sums(gemm, self.cluster)) + ALIGNMENT,
            constants={
                **constants,
                "by": y.step,
                "phases": len(self._phases(gemm)),
                "taps_y": y.taps,
                "taps_x": x.taps,
                "step_y": y.tap_step,
                "step_x": x.tap_step,
            },
            params=(sizes, steps),
            maps={0: [image_tiles(output, (self.band, self.pitch))], 1: self._maps(gemm, image)},
        )

    def _maps(self, gemm: Gemm, image: Layout) -> list[Tiles]:
        """Those of rows and columns of each phase of the image."""
        box, axes = (self.loaded_image // self.pitch, self.pitch), gemm.axes[1:]
        phases = [
            [((axis.base + tap) % axis.step, axis.step) for axis, tap in zip(axes, taps, strict=True)]
            for taps in self._phases(gemm)
        ]
        return [image_tiles(image, box, every) for every in phases]
