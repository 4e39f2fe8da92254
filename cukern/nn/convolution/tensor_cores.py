"""Convolutions as implicit GEMMs on tensor cores, whose k-blocks threads copy: mma (sm_80), wgmma (sm_90a)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from ... import dtypes
from ...device.interface import Properties
from ...elementwise.program import Program
from ...kernel import Kernel
from ...kernel.sizes import ACCESS, divide_up
from ...launch import cost
from ...launch.variant import Launch
from ...linear.variants import K_BLOCK, CopiedTile
from .arrangement import Arranged, channels_last
from .problem import Convolution, Gemm, operand_steps
from .variants import Implicit, Tile, constants_of, copying, reordering


@dataclass(frozen=True)
class TensorCoreTile(CopiedTile, Tile):
    """The tile of a GEMM on tensor cores: nn/convolution/product.cu."""

    def product(
        self, gemm: Gemm, elem: dtypes.DType, constants: dict[str, Any], steps: Any, splits: int = 1
    ) -> Launch:
        """The launch of a product, whose depth is split among so many blocks."""
        tiles, depth = self.tiles(gemm), K_BLOCK // elem.itemsize
        columns = gemm.sizes[1] if gemm.of_weights else gemm.filters
        each = max(1, divide_up(divide_up(gemm.sizes[2], depth), splits)) * depth
        z = gemm.axes[0]
        return Launch(
            grid=(tiles[0] * tiles[1] * gemm.groups, splits, 1),
            block=self.threads,
            shared=self.shared,
            constants={
                **constants,
                "depth": depth,
                "band": 1,
                "wide": columns * dtypes.from_cxx(constants["out"]).itemsize % ACCESS == 0,  # type: ignore[union-attr]
                "a_by_depth": not gemm.of_weights,
                "b_by_depth": not gemm.of_weights,
                "flat": z[:2] == (1, 1) and z.base == 0 and gemm.image.size[0] == 1,
            },
            params=(gemm.geometry(tiles, each), steps),
        )


def why_no_tensor_cores(elem: dtypes.DType, precision: str, groups: int, *channels: int) -> str:
    """Why tensor cores do not multiply groups of so many channels, and filters; "" if they do."""
    if not (dtypes.info(elem).narrow or (elem == dtypes.float32 and precision == "tf32")):
        return "for 16-bit floats, or floats that may be rounded to tf32"
    chunk = ACCESS // elem.itemsize
    if groups > 1 and any(n % chunk for n in channels):
        return f"channels of a group are no multiple of {chunk}"
    return ""


#: Microseconds of a k-block of a tile on an H200, and blocks of a multiprocessor at a time: of 16-bit floats.
_TIMES = {
    (128, 256, True): (0.8, 1),
    (128, 128, True): (0.56, 1),
    (128, 64, True): (0.6, 2),
    (64, 128, True): (0.62, 2),
    (128, 128, False): (1.75, 2),
    (128, 64, False): (0.75, 2),
    (64, 64, False): (0.64, 3),
}
#: The same of floats rounded to tf32.
_TF32_TIMES = {(128, 128, False): (2.45, 2), (64, 64, False): (0.91, 3)}
#: Microseconds of a block besides its k-blocks.
_BLOCK = 2.3


class ChannelsLast(Implicit):
    """What variants share whose arrays all have channels innermost."""

    writes_channels_last = True

    @classmethod
    def arranged(cls, problem: Convolution) -> tuple[Arranged, Arranged]:
        return channels_last(problem.x), channels_last(problem.weights, problem.transposed)


@dataclass(frozen=True)
class TensorCores(TensorCoreTile, ChannelsLast):
    """An implicit GEMM of arrays whose channels lie innermost, with float32 sums."""

    name = "tensor cores"
    kernel = Kernel("nn/convolution/product.cu")
    needs = (8, 0)

    tiles_of_halves: ClassVar[tuple[tuple[Any, ...], ...]] = (
        (128, 256, 8, 1, 4, True),
        (128, 128, 8, 1, 6, True),
        (128, 64, 8, 1, 4, True),
        (64, 128, 4, 1, 4, True),
        (128, 128, 2, 4, 3),
        (128, 64, 4, 1, 3),
        (64, 64, 2, 2, 4),
    )
    tiles_of_floats: ClassVar[tuple[tuple[Any, ...], ...]] = ((128, 128, 2, 4, 3), (64, 64, 2, 2, 4))

    @classmethod
    def fits(cls, problem: Convolution, limits: Properties) -> str:
        """For 16-bit floats, or floats that may be rounded to tf32."""
        return why_no_tensor_cores(
            problem.elem, problem.precision, problem.windows.groups, problem.filters, problem.channels
        )

    @classmethod
    def configs(cls, problem: Convolution, limits: Properties) -> Iterator[TensorCores]:
        """The tiles that the device has.

        Those of wgmma need rows of the result at multiples of 16 bytes: where elements are stored one by one, ptxas
        lets the products wait for each other.
        """
        tiles = cls.tiles_of_halves if problem.elem.itemsize == 2 else cls.tiles_of_floats
        packed = problem.filters * problem.elem.itemsize % ACCESS == 0
        return (
            one
            for one in (cls(*given) for given in tiles)
            if one.runs_on(limits) and (packed or not one.grouped)
        )

    def for_phase(self, gemm: Gemm, problem: Convolution, limits: Properties) -> TensorCores:
        """Of a phase without taps the tile of the least registers: wgmma does not sum up nothing."""
        if gemm.sizes[2] or not self.grouped:
            return self
        return replace(self, tile_m=64, tile_n=64, warps_m=2, warps_n=2, stages=4, grouped=False)

    def cost(self, problem: Convolution, limits: Properties) -> float:
        """The k-blocks of the busiest multiprocessor."""
        seconds = copying(self.arranged(problem), limits) + reordering(problem, True, limits)
        times = _TIMES if problem.elem.itemsize == 2 else _TF32_TIMES
        k_block, resident = times[self.tile_m, self.tile_n, self.grouped]
        for one in self.gemms(problem):
            k_blocks = divide_up(one.sizes[2] * problem.elem.itemsize, K_BLOCK)
            waves = cost.waves(self.count(one), limits, resident)
            seconds += 1e-6 * waves * (k_blocks * k_block + _BLOCK) + cost.launch(limits)
        return seconds

    def launch_of(self, gemm: Gemm, problem: Convolution, epilogue: Program, limits: Properties) -> Launch:
        constants = constants_of(gemm, problem, epilogue, f"{self.tile_m}x{self.tile_n}")
        return self.product(gemm, problem.elem, constants, operand_steps(gemm, epilogue))
