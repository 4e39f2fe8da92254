"""Attention by warpgroups, whose tiles the hardware brings by tensor maps: FlashAttention-3."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from ...array.layout import Layout
from ...device.interface import Properties, Tiles
from ...kernel import Kernel
from ...kernel.sizes import ACCESS, divide_up
from ...launch.params import Params
from ...launch.variant import Launch
from .problem import Attention, Head
from .staging import Staging, describable, staging, unstaged
from .tensor_cores import TensorCores
from .variants import Forward, Tabled

#: From so many queries on there is enough to do for warpgroups.
MANY = 64
#: Elements of 16 bits in the 128 bytes of a line of shared memory.
_LINE = 64
#: Bytes of shared memory for the barriers of a block at least.
BARRIERS = 256

_ORDER = Params("Order", heads="int", section="int", turns="int", rotation="int")


def whole_lines(features: int) -> int:
    """The features of a tile in shared memory, of which those beyond a head's are zeros."""
    return _LINE * divide_up(features, _LINE)


@dataclass(frozen=True)
class Fed(Tabled):
    """Tiles of 16-bit elements that warpgroups of sm_90 multiply (wgmma), which a producer warp prefetches by TMA.

    Attributes:
        stages: pipeline stages in shared memory of what a block walks along.
        by_turns: ping-pong: whether one warpgroup multiplies while others make weights.
        blocks: at most, which take tiles by turns.
        ahead_size, ahead_stages: bytes of what a score reads that are prefetched for a tile, and for how many tiles.
    """

    stages: int
    by_turns: bool = False
    blocks: int = 2**31 - 1
    ahead_size: int = 0
    ahead_stages: int = 0

    name = "warpgroups"
    needs, major = (9, 0), 9
    efficiency = 0.6
    fed = True
    reserved = BARRIERS

    #: Where a tile of keys has too little shared memory for what scores read, rows of a tile.
    fewer_rows: ClassVar[tuple[int, ...]] = (96, 80, 64)

    @classmethod
    def fits(cls, problem: Attention, limits: Properties) -> str:
        """For packs of half types, of queries enough."""
        if problem.q.shape[2] < MANY * (problem.sequences if problem.options.packed else 1):
            return f"for at least {MANY} queries of a sequence"
        why = super().fits(problem, limits)
        return why or ("" if describable(problem.matrices) else "for matrices that tensor maps describe")

    @classmethod
    def configs(cls, problem: Attention, limits: Properties) -> Iterator[Self]:
        """The tile for the features of a head, as many blocks as multiprocessors, with room for what a score reads."""
        tile, found = cls.tile(problem), staging(problem)
        if tile is None:
            return
        one = replace(tile, blocks=limits.multiprocessors)
        if found.windows or found.tiled is not None:
            whole = one.narrower(problem) if found.reads else one
            ahead = whole.bringing(problem, found, limits)
            if ahead is not None:
                yield ahead
                return
        yield one.narrower(problem) if unstaged(problem).reads else one

    def narrower(self, problem: Attention) -> Self:
        """The tile of scores that read memory by place: addresses leave too few registers to three warpgroups."""
        return self

    def bringing(self, problem: Attention, found: Staging, limits: Properties) -> Self | None:
        """The tile with room for what a score reads ahead; None if there is too little shared memory."""
        tiled, limit = found.tiled is not None, limits.max_shared_memory_per_block - BARRIERS
        for rows in (self.tile_m, *(n for n in self.fewer_rows if n < self.tile_m and self.of_keys)):
            own = 2 * tiled * rows * whole_lines(self.tile_n) + 4 * len(found.windows) * (rows + self.tile_n)
            for stages in (2, 1):
                size = 1024 * divide_up(own, 1024)
                one = replace(self, tile_m=rows, ahead_size=size, ahead_stages=stages)
                if one.shared(problem) <= limit:
                    return one
        return None

    def staged(self, problem: Attention) -> Staging:
        """The score, and what is brought ahead of its tiles."""
        return staging(problem) if self.ahead_size else unstaged(problem)

    @property
    def workers(self) -> int:
        """The warpgroups that multiply (consumers); another one brings tiles."""
        return (self.tile_n if self.of_keys else self.tile_m) // 64

    @property
    def block(self) -> int:
        """Threads of a block."""
        return 128 * (self.workers + 1)

    def laid_out(self, problem: Attention, made: Mapping[str, Layout]) -> Launch:
        """Blocks that take tiles in an order that shares the work evenly."""
        one = super().laid_out(problem, made)
        blocks, of_keys = min(self.blocks_of(problem), self.blocks), self.of_keys
        (batch, heads, length, _), (_, key_heads, keys, _) = problem.q.shape, problem.k.shape
        batch = 1 if problem.options.packed else batch
        work = _work_of(problem, self.tile_m, self.tile_n, of_keys, self.tiles(problem))
        sharing, along = (1, length) if of_keys else (problem.sharing, keys)
        heads = batch * (key_heads if of_keys else heads)
        order = _ORDER(**_order(problem.head, heads, sharing, along, work, blocks))
        rows = {0: (problem.q, self.tile_m), 1: (problem.k, self.tile_n), 2: (problem.v, self.tile_n)}
        if problem.d is not None:
            listed = 2 * (problem.kinds is not None)
            place = 6 + len(problem.operands) + len(problem.tables) + listed
            rows[place] = (problem.d, self.tile_m)
        tiled = staging(problem).tiled if self.ahead_size else None
        if tiled is not None:
            rows[3 + tiled] = (problem.operands[tiled], self.tile_m)
        return replace(
            one,
            grid=(blocks, 1, 1),
            constants={**one.constants, "workers": self.workers},
            params=(*one.params, order),
            maps={place: (_map(layout, n),) for place, (layout, n) in rows.items()},
        )


def _map(layout: Layout, rows: int) -> Tiles:
    """How a kernel finds tiles of so many rows of a matrix of each batch and head."""
    shape, strides = ((1,) * (4 - len(one)) + one for one in (layout.shape, layout.strides))
    steps = tuple(step if n > 1 else ACCESS for n, step in zip(shape[:-1], strides[:-1], strict=True))
    return Tiles(0, layout.dtype, shape, steps, (1, 1, rows, _LINE), 2 * _LINE, False)


@dataclass(frozen=True)
class Warpgroups(Forward, Fed):
    """FlashAttention-3: producer and consumer warpgroups, tiles by TMA and products by wgmma.

    Attributes:
        held: tiles of rows in shared memory: of two one is prefetched while the other is at work.
    """

    held: int = 2

    kernel = Kernel("nn/attention/forward_tma.cu", name="attention_forward")

    #: By the most features of a head: measured on an H200.
    table: ClassVar[Mapping[int, Mapping[str, Any]]] = {
        64: {"tile_m": 192, "tile_n": 128, "stages": 2, "by_turns": True},
        128: {"tile_m": 128, "tile_n": 128, "stages": 2, "by_turns": True},
        256: {"tile_m": 128, "tile_n": 80, "stages": 2, "held": 1},
    }
    #: Queries at most for which others were measured to be faster: those by whether a query attends to some keys alone.
    most_of_short: ClassVar[int] = 1024
    table_of_short: ClassVar[dict[bool, dict[int, dict[str, Any]]]] = {
        False: {64: {"tile_m": 256, "tile_n": 64, "stages": 3, "by_turns": True}},
        True: {64: {"tile_m": 128, "tile_n": 128, "stages": 2, "by_turns": True}},
    }

    @classmethod
    def table_of(cls, problem: Attention) -> Mapping[int, Mapping[str, Any]]:
        """By how many queries there are."""
        if problem.q.shape[2] > cls.most_of_short:
            return cls.table
        return {**cls.table, **cls.table_of_short[problem.bounded]}

    @classmethod
    def fits(cls, problem: Attention, limits: Properties) -> str:
        """Where blocks do not share the keys: those that tensor maps feed do not."""
        why = super().fits(problem, limits)
        if not why and not TensorCores.fits(problem, limits):
            (other,) = TensorCores.configs(problem, limits)
            if other.parts > 1:
                return "for rows enough that blocks need not share their keys"
        return why

    def narrower(self, problem: Attention) -> Self:
        return self if self.workers <= 2 else replace(self.__class__(**self.table[128]), blocks=self.blocks)

    def shared(self, problem: Attention) -> int:
        size, value = (2 * whole_lines(n) for n in problem.head)
        tiles = self.tile_m * self.held * size + self.stages * self.tile_n * (size + value)
        return tiles + 1024 + self.ahead_size * self.ahead_stages


# ----- the order in which persistent blocks take tiles, so that none has much more work than the others -----

#: Bytes of keys and values that stay in the L2 while the heads of a section are made.
_SECTION = 32 * 2**20
#: What it takes to begin a tile, in tiles that it walks along.
_BEGUN = 1.0
#: Tiles at most of which several orders are tried.
_TRIED = 2**16


def _order(
    head: Head, heads: int, sharing: int, length: int, work: np.ndarray, blocks: int
) -> dict[str, int]:
    """The fields of the kernel's Order: of those that were tried, that with the least work of any block.

    Args:
        head: the features of a head.
        heads: the heads of all batches whose tiles are made.
        sharing: how many of them read the same rows, of which they walk along ``length``.
        work: of each tile of a head.
        blocks: those of the launch.
    """
    bytes_of_head = max(1, 2 * length * (head.size + head.value))
    most = min(max(1, _SECTION // bytes_of_head) * sharing, heads)
    section, rotation = most, 0
    if heads * work.size <= _TRIED:
        sections = {most, *(n for n in (most // 2, most * 3 // 4) if n >= sharing and n % sharing == 0)}
        _, section, rotation = min(
            (_longest(heads, section, rotation, work + _BEGUN, blocks), -section, rotation)
            for section in sections
            for rotation in {0, blocks // 4, blocks // 3}
        )
        section = -section
    turns = divide_up(section * work.size, blocks)
    return {"heads": heads, "section": section, "turns": turns, "rotation": rotation}


def _work_of(asked: Attention, rows: int, keys: int, of_keys: bool, tiles: int) -> np.ndarray:
    """How many tiles each of a head's of ``rows`` and ``keys`` walks along, in the order of the kernel."""
    options, length, end = asked.options, asked.q.shape[2], asked.k.shape[2]
    if options.packed:  # which sequences there are is known when the kernel runs
        return np.ones(tiles)
    offset = end - length if options.offset is None else options.offset
    size, along, total, before, after = rows, keys, length, options.left, options.right
    if of_keys:
        size, along, total, end, offset = keys, rows, end, length, -offset
        before, after = after, before
    first = np.arange(divide_up(total, size)) * size + offset
    last = np.minimum(first + size, total + offset)
    begin = np.zeros_like(first) if before is None else np.clip(first - before, 0, end)
    stop = np.full_like(first, end) if after is None else np.clip(last + after, 0, end)
    found: np.ndarray = np.maximum(-(-stop // along) - begin // along, 0)
    return found if of_keys or options.right is None else found[::-1]


def _longest(heads: int, section: int, rotation: int, work: np.ndarray, blocks: int) -> float:
    """The work of the block that has most."""

    def loads(count: int) -> np.ndarray:
        """Of the blocks in a section of so many heads, that begins forth, and that begins back."""
        own = np.repeat(work, count)
        turns = np.pad(own, (0, -own.size % blocks)).reshape(-1, blocks)
        forth, back = turns[::2].sum(0), turns[1::2].sum(0)
        return np.stack([forth + back[::-1], forth[::-1] + back])

    whole, rest = divmod(heads, section)
    numbers = np.arange(whole)[:, None]
    total = loads(section)[numbers % 2, (np.arange(blocks) - numbers * rotation) % blocks].sum(0)
    if rest:
        total += np.roll(loads(rest)[whole % 2], whole * rotation)
    return float(total.max())
