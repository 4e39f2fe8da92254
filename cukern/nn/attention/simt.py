"""Attention by plain arithmetic, without tensor cores: FlashAttention-2, and of few rows flash-decoding."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import ClassVar, Self

from ...device.interface import Properties
from ...kernel import Kernel
from ...kernel.sizes import ACCESS, divide_up, power_of_two
from ...launch import cost
from .problem import MOST, Attention
from .variants import FEW, REGISTERS, Splitting, Tiled


def too_wide(problem: Attention) -> str:
    """Why kernels do not hold the heads of a problem; "" if they do."""
    return "" if max(problem.head) <= MOST else f"for heads of at most {MOST} features"


@dataclass(frozen=True)
class Simt(Tiled):
    """Tiles with products by plain arithmetic: ``lanes_y`` threads share rows, ``lanes_x`` share keys."""

    lanes_y: int
    lanes_x: int

    name = "portable"
    efficiency = 0.02
    #: The same on the host, measured on an AMD EPYC.
    efficiency_of_host: ClassVar[float] = 0.085

    #: Rows, keys and lanes, from the tile that reads shared memory least; and of few rows, which leave little else to
    #: do than reading keys. Each thread of the host is a block of its own.
    table: ClassVar[tuple[tuple[int, ...], ...]] = ((64, 64, 16, 16), (32, 32, 16, 16), (16, 16, 16, 16))
    table_of_few: ClassVar[tuple[tuple[int, ...], ...]] = ((16, 64, 16, 16), (16, 16, 16, 16))
    tile_of_host: ClassVar[tuple[int, ...]] = (16, 32, 1, 1)
    #: The most features of a head that a thread of the largest tile has sums for.
    large: ClassVar[int] = 128

    @classmethod
    def fits(cls, problem: Attention, limits: Properties) -> str:
        """Where shared memory holds a tile: see :meth:`configs`."""
        return too_wide(problem)

    @classmethod
    def configs(cls, problem: Attention, limits: Properties) -> Iterator[Self]:
        """The first tile that fits the shared memory."""
        few = problem.d is None and problem.rows <= FEW
        if cost.is_host(limits):
            yield cls(*cls.tile_of_host)
            return
        tiles = cls.table_of_few if few else cls.table if max(problem.head) <= cls.large else cls.table[1:]
        most = limits.max_shared_memory_per_block
        yield from islice((one for one in (cls(*tile) for tile in tiles) if one.shared(problem) <= most), 1)

    def cost(self, problem: Attention, limits: Properties) -> float:
        if cost.is_host(limits):
            return problem.least_seconds(limits) / self.efficiency_of_host + cost.launch(limits)
        return super().cost(problem, limits)

    @property
    def block(self) -> int:
        """Threads of a block."""
        return self.lanes_y * self.lanes_x

    def shared(self, problem: Attention) -> int:
        (size, value), scores = problem.head, self.tile_m * (self.tile_n + 1)
        numbers = self.tile_m * (size + 1) + self.tile_n * (size + value + 2) + scores
        if problem.d is not None:
            numbers += self.tile_m * (value + 4) + scores
        return numbers * problem.acc.itemsize


@dataclass(frozen=True)
class Portable(Splitting, Simt):
    """FlashAttention-2 by plain arithmetic, for every dtype, layout and device."""

    kernel = Kernel("nn/attention/forward.cu", name="attention_forward")

    @classmethod
    def configs(cls, problem: Attention, limits: Properties) -> Iterator[Self]:
        """See :class:`Simt`; with as many parts as read the keys soonest."""
        for one in super().configs(problem, limits):
            yield one.in_parts(problem, limits)


@dataclass(frozen=True)
class FewRows(Splitting):
    """Flash-decoding: keys and values of few rows go from memory to registers.

    Attributes:
        lanes: threads that share a key.
        threads: those of a block.
    """

    lanes: int
    threads: int

    name = "few rows"
    kernel = Kernel("nn/attention/forward_few.cu", name="attention_forward")
    needs = (5, 0)
    efficiency = 0.1

    #: What a thread has: packs of a row, keys, and bytes of sums at most.
    own_packs: ClassVar[int] = 2
    own_keys: ClassVar[int] = 2
    own_sums: ClassVar[int] = 256
    #: Threads of a block at most, and keys of a tile, all of which are read where a mask leaves one.
    most_threads: ClassVar[int] = 256
    most_keys: ClassVar[int] = 64
    #: Registers of a thread besides those for sums and for what it multiplies, as compilers were seen to give.
    registers: ClassVar[int] = 56
    #: Threads of a multiprocessor at most.
    busy: ClassVar[int] = 512

    @classmethod
    def fits(cls, problem: Attention, limits: Properties) -> str:
        """For few rows of packs."""
        if problem.rows > FEW:
            return f"for at most {FEW} rows: queries times the heads that share one of keys"
        return too_wide(problem) or ("" if problem.packs else f"for rows of aligned packs of {ACCESS} bytes")

    @classmethod
    def configs(cls, problem: Attention, limits: Properties) -> Iterator[Self]:
        """As many lanes as leave each few packs of a row, and as many rows as their sums have registers."""
        row = max(problem.head) * problem.q.dtype.itemsize
        lanes = min(32, power_of_two(divide_up(row, ACCESS * cls.own_packs)))
        threads = min(cls.most_threads, cls.most_keys // cls.own_keys * lanes)
        rows = min(power_of_two(problem.rows), cls.own_sums // cls.sum_bytes(problem, lanes))
        one = cls(rows, threads // lanes * cls.own_keys, lanes, threads)
        while one.shared(problem) > limits.max_shared_memory_per_block:
            one = replace(one, tile_m=one.tile_m // 2)
        yield one.in_parts(problem, limits)

    @staticmethod
    def sum_bytes(problem: Attention, lanes: int) -> int:
        """Bytes of the sums of a row in each of its lanes."""
        itemsize = problem.q.dtype.itemsize
        packs = divide_up(divide_up(max(problem.head) * itemsize, ACCESS), lanes)
        return packs * ACCESS // itemsize * problem.acc.itemsize

    @property
    def block(self) -> int:
        """Threads of a block."""
        return self.threads

    def shared(self, problem: Attention) -> int:
        """Bytes of dynamic shared memory of a block: rows, then the sums of each warp in their place."""
        sums = self.threads // 32 * (problem.head.value + 2) * problem.acc.itemsize
        return self.tile_m * max(problem.head.size * problem.q.dtype.itemsize, sums)

    def resident(self, problem: Attention, limits: Properties) -> int:
        """Blocks that a multiprocessor holds, by their registers and shared memory."""
        registers = self.registers + 2 * self.tile_m * self.sum_bytes(problem, self.lanes) // 4
        by_registers = min(self.busy // self.threads, REGISTERS // (registers * self.threads))
        return max(1, min(by_registers, super().resident(problem, limits)))

    def in_flight(self, problem: Attention) -> int:
        """Bytes of a tile of keys and values."""
        return self.tile_n * sum(problem.head) * problem.q.dtype.itemsize

    def splits(self, problem: Attention) -> bool:
        """Whether keys may be split: of any number of tiles of rows."""
        return not problem.options.packed
