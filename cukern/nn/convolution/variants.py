"""Convolutions on CUDA cores and on the host: implicit GEMMs, and sums of few channels or few filters."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from ... import dtypes
from ...array.layout import Layout
from ...device.interface import Properties
from ...elementwise.program import Program
from ...kernel import Kernel
from ...kernel.sizes import LARGEST_INDEX, divide_up
from ...launch import cost
from ...launch.variant import Launch, Plan, Variant, prepared
from .arrangement import Arranged, Pipeline, filters_last
from .problem import (
    Convolution,
    Gemm,
    View,
    WeightsGradient,
    epilogue_constants,
    operand_steps,
    rounding,
    view_of,
)


class Following(Variant[Convolution]):
    """A convolution, and what follows it."""

    #: Which operands the epilogue takes besides one number a channel: see :class:`.Convolution`.
    takes: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    def refusal(cls, problem: Convolution, limits: Properties) -> str:
        """See :class:`.Variant`."""
        more = {*problem.reach} - {"channels"} - cls.takes
        if more or problem.reach.count("elements") > 1:
            return f"takes no such {' and '.join(more or {'elements'})} for what follows"
        return super().refusal(problem, limits)


class Implicit(Following):
    """A convolution as implicit GEMMs, one for each phase."""

    #: Whether the launches write channels innermost, whatever is asked for.
    writes_channels_last: ClassVar[bool] = False

    @classmethod
    def arranged(cls, problem: Convolution) -> tuple[Arranged, Arranged]:
        """How image and weights are read."""
        return Arranged(problem.x), Arranged(problem.weights)

    @classmethod
    def written(cls, problem: Convolution) -> Layout:
        """The layout that the launches write."""
        return problem.layout(problem.channels_last or cls.writes_channels_last)

    @classmethod
    def gemms(cls, problem: Convolution) -> list[Gemm]:
        """The GEMMs of the arrays as they are read and written."""
        x, weights = cls.arranged(problem)
        return problem.gemms(x.layout, weights.layout, cls.written(problem), weights.swapped)

    def launch_of(self, gemm: Gemm, problem: Convolution, epilogue: Program, limits: Properties) -> Launch:
        """The launch of one phase."""
        raise NotImplementedError

    def for_phase(self, gemm: Gemm, problem: Convolution, limits: Properties) -> Implicit:
        """The constants for one phase: by default the same for all."""
        return self

    def plan(self, problem: Convolution, limits: Properties) -> Plan:
        """The launches of all phases, with the copies that they need."""
        epilogue, runs = rounding(problem.epilogue, problem.elem), []
        for one in self.gemms(problem):
            one.check()
            own = self.for_phase(one, problem, limits)
            runs.append(prepared(own, own.launch_of(one, problem, epilogue, limits), problem.device))
        return Pipeline(
            problem.device, self.written(problem), self.arranged(problem), runs, wanted=problem.layout()
        )


def constants_of(
    gemm: Gemm, problem: Convolution | WeightsGradient, epilogue: Program, kind: str
) -> dict[str, Any]:
    """The template variables that all kernels of a convolution have."""
    name = f"{epilogue.name}_{kind}_{dtypes.info(problem.elem).name}"
    return {**epilogue_constants(gemm, epilogue, problem.elem), "name": name}


def copying(arranged: Sequence[Arranged], limits: Properties) -> float:
    """The seconds of the copies of arrays that are arranged."""
    copies = [one.layout.nbytes for one in arranged if one.order is not None]
    return sum(2 * n / cost.bandwidth(limits) + cost.launch(limits) for n in copies)


def reordering(problem: Convolution | WeightsGradient, channels_last: bool, limits: Properties) -> float:
    """The seconds of the copy of a result that is written with channels last and wanted in C order."""
    if not channels_last or problem.channels_last:
        return 0.0
    return 2 * problem.layout().nbytes / cost.bandwidth(limits) + cost.launch(limits)


#: The share of the rate of plain arithmetic that tiles of portable kernels reach, on a GPU and on the host.
_EFFICIENCY, _HOST_EFFICIENCY = 0.46, 0.6


@dataclass(frozen=True)
class Tile:
    """The tile of a GEMM.

    Attributes:
        tile_m, tile_n: rows and columns of a block.
    """

    tile_m: int
    tile_n: int

    def tiles(self, gemm: Gemm) -> tuple[int, int]:
        """The tiles of a group's product, down and across."""
        m, n, _ = gemm.sizes
        return divide_up(m, self.tile_m), divide_up(n, self.tile_n)

    def count(self, gemm: Gemm) -> int:
        """The tiles of all groups."""
        return math.prod(self.tiles(gemm)) * gemm.groups


@dataclass(frozen=True)
class ThreadTile(Tile):
    """One of which each thread has a part.

    Attributes:
        items_m, items_n: rows and columns of a thread.
    """

    items_m: int
    items_n: int

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.tile_m * self.tile_n // self.items_m // self.items_n


@dataclass(frozen=True)
class PortableTile(ThreadTile):
    """The tile of a GEMM that threads multiply by plain arithmetic: nn/convolution/tiles.cu.

    Attributes:
        depth: of a k-block in shared memory.
    """

    depth: int

    def product_seconds(self, gemm: Gemm, limits: Properties, blocks: int) -> float:
        """The time of the products of the busiest multiprocessor, by so many blocks of their whole depth."""
        # A thread that has few elements reads more of shared memory for each.
        reads = 1 + (self.items_m + self.items_n) / (self.items_m * self.items_n)
        share = _HOST_EFFICIENCY if cost.is_host(limits) else _EFFICIENCY
        rate = share * cost.flops(limits) / limits.multiprocessors
        products = 2.0 * self.tile_m * self.tile_n * gemm.sizes[2] * reads
        return cost.waves(blocks, limits) * products / rate + cost.launch(limits)

    def product(self, gemm: Gemm, constants: dict[str, Any], steps: Any, splits: int = 1) -> Launch:
        """The launch of a product, whose depth is split among so many blocks."""
        tiles, taps_inside = self.tiles(gemm), not gemm.image.channels_last
        each = max(1, divide_up(divide_up(gemm.sizes[2], splits), self.depth)) * self.depth
        return Launch(
            grid=(tiles[0] * tiles[1] * gemm.groups, splits, 1),
            block=self.threads,
            constants={**constants, "taps_inside": taps_inside, **_contiguous_axes(gemm)},
            params=(gemm.geometry(tiles, each, taps_inside=taps_inside), steps),
        )


@dataclass(frozen=True)
class Portable(PortableTile, Implicit):
    """Tiles of an implicit GEMM that threads multiply by plain arithmetic, of arrays with any strides."""

    name = "portable"
    kernel = Kernel("nn/convolution/tiles.cu")

    @classmethod
    def configs(cls, problem: Convolution, limits: Properties) -> Iterator[Portable]:
        """Tiles of a GPU's or of the host's threads."""
        return (cls(*one) for one in portable_tiles(problem.elem, limits))

    def cost(self, problem: Convolution, limits: Properties) -> float:
        """The products of the busiest multiprocessor."""
        return sum(self.product_seconds(one, limits, self.count(one)) for one in self.gemms(problem))

    def launch_of(self, gemm: Gemm, problem: Convolution, epilogue: Program, limits: Properties) -> Launch:
        constants = constants_of(gemm, problem, epilogue, f"{self.tile_m}x{self.tile_n}")
        return self.product(gemm, constants, operand_steps(gemm, epilogue))


#: A GPU's tiles, from the one that reads least to the one of which there are most; the host's, by one thread.
TILES = (
    (128, 128, 8, 8, 16),
    (128, 64, 8, 4, 16),
    (64, 160, 8, 4, 20),
    (64, 64, 4, 4, 16),
    (64, 32, 4, 4, 16),
    (128, 16, 4, 4, 16),
    (16, 128, 4, 4, 16),
)
#: Of float64, of which a thread holds fewer.
DOUBLE_TILES = ((64, 64, 4, 4, 16), (128, 16, 4, 4, 16), (16, 128, 4, 4, 16))
HOST_TILES = ((64, 64, 64, 64, 16), (64, 16, 64, 16, 16), (16, 64, 16, 64, 16))


def portable_tiles(elem: dtypes.DType, limits: Properties) -> tuple[tuple[int, int, int, int, int], ...]:
    """The fields of :class:`Portable` that a device has."""
    if cost.is_host(limits):
        return HOST_TILES
    return DOUBLE_TILES if dtypes.info(elem).acc == dtypes.float64 else TILES


def _contiguous_axes(gemm: Gemm) -> dict[str, bool]:
    """Along which of its axes each matrix of the product is contiguous."""
    by_channels, output_by_channels = gemm.image.channels_last, gemm.output.channels_last
    if gemm.of_weights:
        return {"a_by_depth": not output_by_channels, "b_by_depth": not by_channels, "d_by_column": True}
    return {
        "a_by_depth": by_channels,
        "b_by_depth": gemm.weights[0] >= gemm.weights[1],
        "d_by_column": not output_by_channels,
    }


#: Elements of a pack of 16 bytes of floats.
_PACK = 4
#: Depth of a k-block of :class:`Simt`, and k-blocks in shared memory.
_DEPTH = 16
_STAGES = 3


class Loads(NamedTuple):
    """Along which axis the factors of a float32 GEMM lie in a k-block, and whether 16 bytes are copied at a time."""

    a_by_depth: bool
    b_by_depth: bool
    a_packs: bool
    b_packs: bool


def packed_channels(view: View, aligned: bool) -> bool:
    """Whether channels of floats lie innermost, in multiples of 16 bytes."""
    others = (view.strides[0], *view.strides[2:])
    even = view.channels % _PACK == 0 and all(n >= 0 and n % _PACK == 0 for n in others)
    return aligned and view.strides[1] == 1 and even


def packed_pixels(view: View, aligned: bool) -> bool:
    """Whether an image's pixels of floats lie behind one another, and are read in packs."""
    plane = math.prod(view.size)
    sizes = [n for n in view.size if n > 1]
    wanted = [math.prod(sizes[i + 1 :]) for i in range(len(sizes))]
    steps = [step for step, n in zip(view.strides[2:], view.size, strict=True) if n > 1]
    even = all(n >= 0 and n % _PACK == 0 for n in view.strides[:2])
    return aligned and steps == wanted and plane % _PACK == 0 and even


def reaches_far(gemm: Gemm) -> bool:
    """Whether an offset within a k-block beyond the last channel may exceed 32 bits."""
    reach = _DEPTH * max(abs(gemm.image.strides[1]), abs(gemm.output.strides[1]))
    return gemm.wide or max(gemm.image.span, gemm.output.span) + reach > LARGEST_INDEX


@dataclass(frozen=True)
class SimtTile(ThreadTile):
    """The tile of a float32 GEMM on CUDA cores, double-buffered: nn/convolution/exact.cu.

    Attributes:
        resident: blocks that a multiprocessor has at a time.
    """

    resident: int

    def shared(self, loads: Loads) -> int:
        """Bytes of dynamic shared memory of a block."""
        pitches = [_DEPTH + _PACK if by_depth else None for by_depth in loads[:2]]
        sizes = zip((self.tile_m, self.tile_n), pitches, strict=True)
        return 4 * _STAGES * sum(size * pitch if pitch else _DEPTH * size for size, pitch in sizes)

    def product(
        self,
        gemm: Gemm,
        sizes: tuple[int, int, int],
        loads: Loads,
        constants: dict[str, Any],
        steps: Any,
        packs: tuple[bool, bool],
        splits: int = 1,
    ) -> Launch:
        """The launch of a product.

        Args:
            gemm: the product.
            sizes: its rows, columns and depth, as they are counted.
            loads: how its factors are copied.
            constants: template variables.
            steps: the strides of the epilogue's operands.
            packs: whether four rows, or four columns, of the result are stored at a time.
            splits: blocks that share the depth.
        """
        tiles = divide_up(sizes[0], self.tile_m), divide_up(sizes[1], self.tile_n)
        wide_rows = packs[0] and self.items_n * 4 <= self.tile_n and self.items_m * 8 <= self.tile_m
        each = max(1, divide_up(divide_up(sizes[2], splits), _DEPTH)) * _DEPTH
        return Launch(
            grid=(tiles[0] * tiles[1] * gemm.groups, splits, 1),
            block=self.threads,
            shared=self.shared(loads),
            constants={
                **constants,
                **loads._asdict(),
                "depth": _DEPTH,
                "stages": _STAGES,
                "lanes_m": 8 if wide_rows else 4,
                "whole": gemm.channels % _DEPTH == 0,
                "rows_packs": packs[0],
                "columns_packs": packs[1],
            },
            params=(gemm.geometry(tiles, each, sizes), steps),
        )


#: Tiles of :class:`Simt`.
SIMT_TILES = ((128, 64, 8, 8, 3), (64, 128, 8, 8, 3), (64, 64, 8, 4, 4), (128, 128, 8, 16, 2))
#: The share of the CUDA cores' peak that they reach.
SIMT_EFFICIENCY = {(128, 64): 0.78, (64, 128): 0.78, (64, 64): 0.7, (128, 128): 0.78}


@dataclass(frozen=True)
class Simt(SimtTile, Implicit):
    """A float32 implicit GEMM on CUDA cores, double-buffered, for many channels and filters.

    Weights are copied with filters innermost.
    """

    name = "simt"
    kernel = Kernel("nn/convolution/exact.cu")
    needs = (5, 0)

    @classmethod
    def arranged(cls, problem: Convolution) -> tuple[Arranged, Arranged]:
        return Arranged(problem.x), filters_last(problem.weights, problem.transposed)

    @classmethod
    def fits(cls, problem: Convolution, limits: Properties) -> str:
        """For float32, and rows that are read 16 bytes at a time."""
        if problem.elem != dtypes.float32:
            return "for float32"
        if problem.windows.groups > 1 and problem.filters % _PACK:
            return f"filters of a group are no multiple of {_PACK}"
        if any(reaches_far(one) or cls._loads(one, problem) is None for one in cls.gemms(problem)):
            return "the image is not read 16 bytes at a time"
        return ""

    @classmethod
    def configs(cls, problem: Convolution, limits: Properties) -> Iterator[Simt]:
        """Each tile."""
        return (cls(*one) for one in SIMT_TILES)

    @staticmethod
    def _loads(gemm: Gemm, problem: Convolution) -> Loads | None:
        if not gemm.image.channels_last:
            return Loads(False, False, False, True)
        packed = packed_channels(gemm.image, problem.x.aligned) and gemm.channels % _PACK == 0
        return Loads(True, False, True, True) if packed else None

    def cost(self, problem: Convolution, limits: Properties) -> float:
        """The products of the busiest multiprocessor."""
        seconds = copying(self.arranged(problem), limits)
        for one in self.gemms(problem):
            k = one.taps * divide_up(one.channels, _DEPTH) * _DEPTH
            rate = SIMT_EFFICIENCY[self.tile_m, self.tile_n] * cost.SIMT_FLOPS
            products = 2.0 * self.tile_m * self.tile_n * k
            seconds += cost.waves(self.count(one), limits) * products / rate + cost.launch(limits)
        return seconds

    def launch_of(self, gemm: Gemm, problem: Convolution, epilogue: Program, limits: Properties) -> Launch:
        loads = self._loads(gemm, problem)
        assert loads is not None
        fresh = all(axis.every == 1 for axis in gemm.axes)
        rows = not loads.a_by_depth and fresh and packed_pixels(gemm.output, True)
        columns = not rows and gemm.filters % _PACK == 0 and packed_channels(gemm.output, True)
        common = constants_of(gemm, problem, epilogue, f"simt_{self.tile_m}x{self.tile_n}")
        return self.product(gemm, gemm.sizes, loads, common, operand_steps(gemm, epilogue), (rows, columns))


@dataclass(frozen=True)
class FewFilters(Implicit):
    """Convolutions of few filters, and gradients of images of few channels: each thread sums up pixels by itself.

    Attributes:
        rows: of the output, of a thread.
    """

    name = "few filters"
    kernel = Kernel("nn/convolution/few.cu")

    rows: int

    #: Filters at most, channels of each at least, and weights that a thread keeps at most.
    most_filters: ClassVar[int] = 4
    fewest_channels: ClassVar[int] = 8
    most_weights: ClassVar[int] = 64
    #: Threads of a block on a GPU.
    threads: ClassVar[int] = 128
    #: Threads of a multiprocessor below which they have fewer rows.
    busy: ClassVar[int] = 512
    #: Channels whose weights are in shared memory.
    depth: ClassVar[int] = 16

    @classmethod
    def fits(cls, problem: Convolution, limits: Properties) -> str:
        """For few filters, and columns that lie side by side."""
        if problem.filters > cls.most_filters or problem.channels < cls.fewest_channels:
            return f"for at most {cls.most_filters} filters of at least {cls.fewest_channels} channels"
        strides = problem.windows.stride if problem.transposed else (1,) * len(problem.kernel)
        taps = [divide_up(n, step) for n, step in zip(problem.kernel, strides, strict=True)][-2:]
        if problem.filters * math.prod(taps) > cls.most_weights:
            return f"for at most {cls.most_weights} weights of a channel"
        return "" if view_of(problem.x).strides[4] == 1 else "columns do not lie side by side"

    @classmethod
    def configs(cls, problem: Convolution, limits: Properties) -> Iterator[FewFilters]:
        """As many rows a thread as leave each multiprocessor enough of them."""
        gemm = max(cls.gemms(problem), key=lambda one: one.pixels, default=None)
        if gemm is None:
            return iter([cls(1)])
        z, y, x = gemm.axes
        columns, busy = gemm.image.batch * z.pixels * x.pixels, cls.busy * limits.multiprocessors
        fitting = (n for n in ((4, 2) if problem.elem.itemsize == 2 else (8, 4, 2)) if n < 2 * y.pixels)
        return iter([cls(next((n for n in fitting if columns * divide_up(y.pixels, n) >= busy), 1))])

    def cost(self, problem: Convolution, limits: Properties) -> float:
        """Its products, or its bytes."""
        seconds = 0.0
        for one in self.gemms(problem):
            share = 0.5 if cost.is_host(limits) else 0.31
            products = one.flops / (share * cost.flops(limits))
            loads = one.elements * problem.elem.itemsize / (0.7 * cost.bandwidth(limits))
            seconds += max(products, loads) + cost.launch(limits)
        return seconds

    def launch_of(self, gemm: Gemm, problem: Convolution, epilogue: Program, limits: Properties) -> Launch:
        z, y, x = gemm.axes
        block, bands = 1 if cost.is_host(limits) else self.threads, divide_up(y.pixels, self.rows)
        threads = gemm.image.batch * z.pixels * x.pixels * bands
        sizes = threads, gemm.filters, gemm.channels if gemm.taps else 0
        return Launch(
            grid=(divide_up(threads, block), gemm.groups, 1),
            block=block,
            constants={
                **constants_of(gemm, problem, epilogue, f"few_{gemm.filters}x{y.taps}x{x.taps}"),
                "filters": gemm.filters,
                "depth": self.depth,
                "taps_z": max(1, z.taps),
                "taps_y": max(1, y.taps),
                "taps_x": max(1, x.taps),
                "step_y": y.step,
                "tap_step_y": y.tap_step,
                "tap_step_x": x.tap_step,
            },
            params=(gemm.geometry((bands, 1), sizes=sizes), operand_steps(gemm, epilogue)),
        )


@dataclass(frozen=True)
class FewChannels(Implicit):
    """Convolutions of few channels and many filters: blocks sum up a tile of pixels with a channel in shared memory.

    Attributes:
        filters: of a block.
        down: rows of a block's tile.
    """

    name = "few channels"
    kernel = Kernel("nn/convolution/few_channels.cu")
    needs = (5, 0)

    filters: int
    down: int

    #: Channels at most, filters at least, and columns of the image that a thread keeps at most.
    most_channels: ClassVar[int] = 4
    fewest_filters: ClassVar[int] = 32
    reach: ClassVar[int] = 32
    #: Taps of a window up to which tiles have fewer rows, and halves have this variant.
    few_taps: ClassVar[int] = 9
    #: Columns of a tile and of a thread, which has eight filters.
    across: ClassVar[int] = 16
    columns: ClassVar[int] = 8
    #: Threads of a multiprocessor, and bytes of static shared memory of a block.
    threads: ClassVar[int] = 512
    memory: ClassVar[int] = 48 * 1024
    #: Banks of shared memory.
    banks: ClassVar[int] = 32

    @classmethod
    def fits(cls, problem: Convolution, limits: Properties) -> str:
        """For few channels of an image of two axes."""
        if problem.transposed or len(problem.kernel) != 2 or dtypes.info(problem.elem).acc != dtypes.float32:
            return "for convolutions of two axes, summed in float32"
        windows, taps = problem.windows, math.prod(problem.kernel)
        if problem.channels > cls.most_channels or problem.filters < cls.fewest_filters:
            return f"for at most {cls.most_channels} channels and at least {cls.fewest_filters} filters"
        if windows.groups > 1 or max(windows.dilation) > 1:
            return "for one group, without dilation"
        if cls._reach(windows.stride[1], problem.kernel[1]) > cls.reach:
            return f"windows of a thread reach over more than {cls.reach} columns"
        if problem.elem.itemsize == 2 and taps > cls.few_taps:
            return f"for windows of at most {cls.few_taps} taps of 16-bit floats"
        (one,) = cls.configs(problem, limits)
        return "" if one._bytes(problem) <= cls.memory else "its tile exceeds shared memory"

    @classmethod
    def configs(cls, problem: Convolution, limits: Properties) -> Iterator[FewChannels]:
        """Tiles by the size of the windows and the number of filters."""
        few = math.prod(problem.kernel) <= cls.few_taps
        return iter([cls(32 if problem.filters <= 32 else 64, 8 if few else 16)])

    @classmethod
    def _reach(cls, step: int, taps: int) -> int:
        """Columns of the image that a thread reads, in packs."""
        return divide_up((cls.columns - 1) * step + taps, _PACK) * _PACK

    def _pitch(self, down: int, across: int, taps: int) -> int:
        """Elements from a row of a tile's image to the next: packs of a warp meet in few banks."""
        least = (self.across - self.columns) * across + self._reach(across, taps)
        columns = self.across // self.columns
        rows = 32 // (self.filters // 8) // columns

        def distinct(pitch: int) -> int:
            at = [(y * down * pitch + x * self.columns * across) for y in range(rows) for x in range(columns)]
            return len({one % self.banks for one in at})

        return max(range(least, least + self.banks, _PACK), key=distinct)

    def _bytes(self, problem: Convolution) -> int:
        (down, across), (taps_y, taps_x) = problem.windows.stride, problem.kernel
        image = ((self.down - 1) * down + taps_y) * self._pitch(down, across, taps_x)
        return 4 * (image + taps_y * taps_x * (self.filters + _PACK))

    def cost(self, problem: Convolution, limits: Properties) -> float:
        """Its products, or its bytes."""
        seconds = 0.0
        for one in self.gemms(problem):
            full = divide_up(one.filters, self.filters) * self.filters / one.filters
            products = full * one.flops / (0.48 * cost.flops(limits))
            loads = one.elements * problem.elem.itemsize / (0.8 * cost.bandwidth(limits))
            seconds += max(products, loads) + cost.launch(limits)
        return seconds

    def launch_of(self, gemm: Gemm, problem: Convolution, epilogue: Program, limits: Properties) -> Launch:
        _, y, x = gemm.axes
        block = self.filters // 8 * self.down * (self.across // self.columns)
        tiles = divide_up(y.pixels, self.down), divide_up(x.pixels, self.across)
        sizes = (gemm.pixels, gemm.filters, gemm.channels)
        return Launch(
            grid=(tiles[0] * tiles[1] * gemm.image.batch, divide_up(gemm.filters, self.filters), 1),
            block=block,
            constants={
                **constants_of(gemm, problem, epilogue, f"few_channels_{y.taps}x{x.taps}"),
                "resident": self.threads // block,
                "taps_y": y.taps,
                "taps_x": x.taps,
                "step_y": y.step,
                "step_x": x.step,
                "across": self.across,
                "columns": self.columns,
                "pitch": self._pitch(y.step, x.step, x.taps),
                "packs": self._packs(gemm.output, x.pixels, gemm.filters),
            },
            params=(gemm.geometry(tiles, sizes=sizes), operand_steps(gemm, epilogue)),
        )

    @classmethod
    def _packs(cls, output: View, columns: int, filters: int) -> str:
        """Along what elements are stored in packs."""
        batch, channel, _, row, column = output.strides
        if (
            column == 1
            and columns % cls.columns == 0
            and not any(n % cls.columns for n in (batch, channel, row))
        ):
            return "columns"
        if channel == 1 and filters % _PACK == 0 and not any(n % _PACK for n in (batch, row, column)):
            return "filters"
        return "none"
