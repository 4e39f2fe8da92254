"""Convolutions by threads whose loops over pixels a compiler makes into vectors: for the host."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from ... import dtypes
from ...device.interface import Properties
from ...elementwise.program import Program
from ...kernel import Kernel
from ...kernel.sizes import divide_up
from ...launch import cost
from ...launch.variant import Launch
from ...linear.panels import Panels as Products
from ...linear.panels import few_rows, rate, weighed
from .arrangement import Arranged, channels_first
from .gradients import Gradient, even
from .problem import Convolution, Gemm, WeightsGradient, operand_steps
from .variants import Implicit, Portable, constants_of, copying, portable_tiles

_KERNEL = Kernel("nn/convolution/panels.cu")


class _Tile:
    """What both variants share: tiles of an implicit GEMM of an image whose pixels lie innermost, and their time.

    Attributes:
        tile_n: pixels of a panel of the image, and filters of one of an output's gradient.
    """

    tile_n: int

    #: Filters of a tile at most, and taps and channels of a panel, which the first cache holds beside the sums; a panel
    #: has all taps.
    tile_m: ClassVar[int] = 128
    depth: ClassVar[int] = 160

    @classmethod
    def fits(cls, problem: Convolution | WeightsGradient, limits: Properties) -> str:
        """For float32 and float64."""
        return "" if problem.elem in (dtypes.float32, dtypes.float64) else "for float32 and float64"

    def _depth(self, gemm: Gemm) -> int:
        """Taps and channels of a panel."""
        return max(self.depth, gemm.taps)

    def _tiles(self, gemm: Gemm) -> tuple[int, int]:
        """The tiles of a group's product."""
        if gemm.of_weights:
            each = self._depth(gemm) // gemm.taps
            return divide_up(gemm.channels, each), divide_up(gemm.filters, self.tile_n)
        return divide_up(gemm.filters, self.tile_m), divide_up(gemm.pixels, self.tile_n)

    def _product(self, gemm: Gemm, constants: dict[str, Any], steps: Any, splits: int = 1) -> Launch:
        tiles, along = self._tiles(gemm), gemm.axes[2]
        each = max(1, divide_up(divide_up(gemm.pixels, splits), self.tile_n)) * self.tile_n
        depth = self._depth(gemm)
        sums = depth + self.tile_n if gemm.of_weights else self.tile_m
        unit = along.step == gemm.image.strides[4] == 1
        return Launch(
            grid=(tiles[0] * tiles[1] * gemm.groups, splits, 1),
            block=1,
            shared=Products.line * (depth + sums) + 8 * depth,
            constants={
                **constants,
                "tile_m": self.tile_m,
                "depth": depth,
                "few": few_rows(),
                "taps_inside": True,
                "unit": unit,
            },
            params=(gemm.geometry(tiles, each, taps_inside=True), steps),
        )

    def _seconds(self, gemm: Gemm, splits: int, limits: Properties) -> float:
        """The products of the busiest thread."""
        tiles = math.prod(self._tiles(gemm)) * gemm.groups
        _, columns, deep = gemm.sizes
        rows = min(columns, self.tile_m)
        if gemm.of_weights:
            rows = min(gemm.channels, self._depth(gemm) // gemm.taps) * gemm.taps
        tile = 2.0 * weighed(rows) * self.tile_n * deep / splits / rate(limits, cost.HOST_BLAS)
        return cost.waves(tiles * splits, limits) * tile + cost.launch(limits)


@dataclass(frozen=True)
class Panels(_Tile, Implicit):
    """Filters times panels of pixels."""

    name = "panels"
    kernel = _KERNEL
    tile_n: int

    @classmethod
    def configs(cls, problem: Convolution, limits: Properties) -> Iterator[Panels]:
        """The panels."""
        return iter([cls(Products.line // problem.elem.itemsize)])

    @classmethod
    def arranged(cls, problem: Convolution) -> tuple[Arranged, Arranged]:
        return channels_first(problem.x), Arranged(problem.weights)

    def for_phase(self, gemm: Gemm, problem: Convolution, limits: Properties) -> Implicit:
        """A phase without taps is left to :class:`.Portable`."""
        return self if gemm.taps else Portable(*portable_tiles(problem.elem, limits)[0])

    def cost(self, problem: Convolution, limits: Properties) -> float:
        """The products of the phases."""
        copies = copying(self.arranged(problem), limits)
        return copies + sum(self._seconds(one, 1, limits) for one in self.gemms(problem))

    def launch_of(self, gemm: Gemm, problem: Convolution, epilogue: Program, limits: Properties) -> Launch:
        return self._product(
            gemm, constants_of(gemm, problem, epilogue, "panels"), operand_steps(gemm, epilogue)
        )


@dataclass(frozen=True)
class PanelsWeights(_Tile, Gradient):
    """Panels of the image times the output's gradient."""

    name = "panels"
    kernel = _KERNEL
    tile_n: int

    @classmethod
    def arranged(cls, problem: WeightsGradient) -> tuple[Arranged, Arranged]:
        return Arranged(problem.output), channels_first(problem.image)

    @classmethod
    def configs(cls, problem: WeightsGradient, limits: Properties) -> Iterator[PanelsWeights]:
        """As many parts as keep all threads busy."""
        gemm, one = cls.gemm(problem), cls(Products.line // problem.elem.itemsize)
        tiles = math.prod(one._tiles(gemm)) * gemm.groups
        wanted = divide_up(limits.multiprocessors, max(1, tiles))
        return iter([replace(one, splits=even(gemm.pixels, one.tile_n, wanted))])

    def cost(self, problem: WeightsGradient, limits: Properties) -> float:
        """The products."""
        copies = copying(self.arranged(problem), limits)
        return copies + self._seconds(self.gemm(problem), self.splits, limits)

    def launch_of(self, gemm: Gemm, problem: WeightsGradient) -> Launch:
        return self._product(gemm, *self.given(gemm, problem, "panels"), self.splits)
