"""Attention on tensor cores by mma: FlashAttention-2."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from ...device.interface import Properties
from ...kernel import Kernel
from ...kernel.sizes import divide_up
from .problem import Attention
from .variants import FEW, Splitting, Tabled


class Mma(Tabled):
    """Tiles of 16-bit elements on the tensor cores of sm_80, a warp for 16 of the rows or keys.

    Sums and fragments fit the registers of a thread.
    """

    name = "tensor cores"
    needs = (8, 0)
    efficiency = 0.4
    by_fragments = True

    @property
    def block(self) -> int:
        """Threads of a block."""
        return (self.tile_n if self.of_keys else self.tile_m) // 16 * 32

    @staticmethod
    def widths(problem: Attention) -> tuple[int, int]:
        """Elements of a row in shared memory, which begins four banks after the one before it."""
        size, value = (divide_up(n, 16) * 16 + 8 for n in problem.head)
        return size, value


@dataclass(frozen=True)
class TensorCores(Mma, Splitting):
    """FlashAttention-2 on tensor cores by mma.

    Attributes:
        fixed: whether a warp keeps its fragments of the queries in registers.
    """

    fixed: bool = False

    kernel = Kernel("nn/attention/forward_mma.cu", name="attention_forward")
    table: ClassVar[Mapping[int, Mapping[str, Any]]] = {
        64: {"tile_m": 128, "tile_n": 64, "fixed": True},
        128: {"tile_m": 128, "tile_n": 64},
        256: {"tile_m": 64, "tile_n": 32},
    }
    table_of_few: ClassVar[Mapping[int, Mapping[str, Any]]] = {
        128: {"tile_m": 16, "tile_n": 64, "fixed": True},
        256: {"tile_m": 16, "tile_n": 32},
    }

    @classmethod
    def table_of(cls, problem: Attention) -> Mapping[int, Mapping[str, Any]]:
        """By whether rows are few."""
        return cls.table_of_few if problem.rows <= FEW else cls.table

    @classmethod
    def configs(cls, problem: Attention, limits: Properties) -> Iterator[Self]:
        """The tile for the features of a head."""
        for one in super().configs(problem, limits):
            yield one.in_parts(problem, limits)

    def shared(self, problem: Attention) -> int:
        size, value = self.widths(problem)
        return 2 * (self.tile_m * size + self.tile_n * (size + value))
