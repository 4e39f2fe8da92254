"""Launches of attention whose tiles the hardware brings by tensor maps, for GPUs of compute capability 9.0."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...array import Array
from ...array.layout import Layout, address
from ...device import Device
from ...device.interface import Prepared, Tiles
from ...kernel.plan import remember
from ...kernel.sizes import divide_up
from .call import Call
from .geometry import Head

#: Bytes of a tensor map, and elements of 16 bits in the 128 bytes of a line.
_MAP, _LINE = 128, 64
_LONGEST_STRIDE = 2**40
#: At least the bytes of a block's barriers, in shared memory too.
BARRIERS = 256
#: Where a tile of keys has too little shared memory for what scores read, rows of a tile.
_FEWER_ROWS = (96, 80, 64)
#: Bytes of keys and values that stay in the L2 while the heads of a section are made.
_SECTION = 32 * 2**20
#: What it takes to begin a tile, in tiles that it walks along; and of how many tiles at most orders are tried.
_BEGUN, _TRIED = 1.0, 2**16
#: Of so many queries and fewer with heads of at most so many features, other tiles were measured to be faster.
_SHORT, _NARROW = 1024, 64
#: The kernels of which a block has a tile of keys: "backward" makes all gradients.
OF_KEYS = ("backward", "backward_keys")


class TmaTile(NamedTuple):
    """What the warpgroups of a block make at a time: each that multiplies has 64 of the rows, or of the keys.

    Attributes:
        rows, keys: the sizes of a tile of the scores.
        stages: tiles of what the block walks along in shared memory.
        by_turns: of the forward kernel and that of all gradients, whether one warpgroup multiplies while others make
            weights.
        held: of the forward kernel, tiles of rows in shared memory: of two one is brought while the other is at work.
        apart: whether the gradients of keys and of values are made by a launch each, as registers hold the sums of one.
        blocks: at most, which take tiles by turns.
        ahead, ahead_stages: bytes of what a score reads that are brought ahead of a tile, and for how many tiles.
    """

    rows: int
    keys: int
    stages: int
    by_turns: bool = False
    held: int = 2
    apart: bool = False
    blocks: int = 2**31 - 1
    ahead: int = 0
    ahead_stages: int = 0

    def workers(self, kind: str) -> int:
        """The warpgroups that multiply; another one brings tiles."""
        return (self.keys if kind in OF_KEYS else self.rows) // 64

    def shared(self, head: Head, kind: str) -> int:
        """Bytes of shared memory of a block."""
        size, value = (2 * whole_lines(n) for n in head)
        both, ahead = size + value, self.ahead * self.ahead_stages
        if kind in OF_KEYS:
            own = self.keys * both + self.stages * (self.rows * (both + 12) + 8) + 1024 + ahead
            return own + self.rows * (4 * self.keys + 2 * size) * (kind == "backward")
        first = self.held * size if kind == "forward" else both
        return self.rows * first + self.stages * self.keys * both + 1024 + ahead

    def bringing(self, windows: int, tiled: bool, head: Head, kind: str, device: Device) -> TmaTile | None:
        """The tile with room for what a score reads ahead; None if there is too little shared memory.

        Args:
            windows: numbers for each distance of a query and a key.
            tiled: whether there is a tile of an array of 16-bit elements.
            head: the features of a head.
            kind: the kernel.
            device: where it runs.
        """
        limit = device.properties.max_shared_memory_per_block - BARRIERS
        for rows in (self.rows, *(n for n in _FEWER_ROWS if n < self.rows and kind in OF_KEYS)):
            own = 2 * tiled * rows * whole_lines(self.keys) + 4 * windows * (rows + self.keys)
            ahead = 1024 * divide_up(own, 1024)
            for stages in (2, 1):
                tile = self._replace(rows=rows, ahead=ahead, ahead_stages=stages)
                if tile.shared(head, kind) <= limit:
                    return tile
        return None


#: For each kernel, by the most features of a head: measured on an H200.
TMA_TILES: dict[str, dict[int, TmaTile]] = {
    "forward": {
        64: TmaTile(192, 128, 2, by_turns=True),
        128: TmaTile(128, 128, 2, by_turns=True),
        256: TmaTile(128, 80, 2, held=1),
    },
    "backward": {
        64: TmaTile(128, 128, 2),
        128: TmaTile(64, 128, 2, by_turns=True),
    },
    "backward_keys": {
        64: TmaTile(128, 128, 2),
        128: TmaTile(80, 128, 2),
        256: TmaTile(48, 128, 2, apart=True),
    },
    "backward_queries": {
        64: TmaTile(128, 128, 2),
        128: TmaTile(128, 96, 2),
        256: TmaTile(128, 48, 2),
    },
}
#: Those, by whether a query attends to some of the keys alone.
SHORT_TILES = {False: TmaTile(256, 64, 3, by_turns=True), True: TmaTile(128, 128, 2, by_turns=True)}


def whole_lines(features: int) -> int:
    """The features of a tile in shared memory, of which those beyond a head's are zeros."""
    return _LINE * divide_up(features, _LINE)


def tma_tile_for(head: Head, device: Device, kind: str, queries: int, bounded: bool) -> TmaTile | None:
    """The tile of a launch; None if the device has no warpgroups' instructions or too little shared memory.

    Args:
        head: the features of a head.
        device: where it runs.
        kind: the kernel.
        queries: how many there are.
        bounded: whether a query attends to some of the keys alone.
    """
    limits = device.properties
    tile = next((tile for most, tile in TMA_TILES[kind].items() if max(head) <= most), None)
    if tile is None or limits.compute_capability[0] != 9:
        return None
    if kind == "forward" and queries <= _SHORT and max(head) <= _NARROW:
        tile = SHORT_TILES[bounded]
    if tile.shared(head, kind) + BARRIERS > limits.max_shared_memory_per_block:
        return None
    return tile._replace(blocks=limits.multiprocessors)


def describable(layouts: Sequence[Layout]) -> bool:
    """Whether tensor maps describe matrices whose rows are packs of 16 bytes: no two of their rows have one address."""
    return all(
        0 < step < _LONGEST_STRIDE
        for one in layouts
        for n, step in zip(one.shape[:-1], one.strides[:-1], strict=True)
        if n > 1
    )


def order(head: Head, heads: int, sharing: int, length: int, work: np.ndarray, blocks: int) -> bytes:
    """The kernel's struct of the order of its tiles: of those that were tried, that with the least work of any block.

    Args:
        head: the features of a head.
        heads: the heads of all batches whose tiles are made.
        sharing: how many of them read the same rows, of which they walk along ``length``.
        work: of each tile of a head.
        blocks: those of the launch.
    """
    bytes_of_head = max(1, 2 * length * (head.size + head.value))
    most = min(max(1, _SECTION // bytes_of_head) * sharing, heads)
    if heads * work.size > _TRIED:
        return struct.pack("4i", heads, most, divide_up(most * work.size, blocks), 0)
    sections = {most, *(n for n in (most // 2, most * 3 // 4) if n >= sharing and n % sharing == 0)}
    best = min(
        (_longest(heads, section, rotation, work + _BEGUN, blocks), -section, rotation)
        for section in sections
        for rotation in {0, blocks // 4, blocks // 3}
    )
    section = -best[1]
    return struct.pack("4i", heads, section, divide_up(section * work.size, blocks), best[2])


def work_of(call: Call, tile: TmaTile, of_keys: bool, tiles: int) -> np.ndarray:
    """How many tiles each tile of a head walks along, in the order in which the kernel begins them."""
    options, length, keys = call.options, call.q.shape[2], call.k.shape[2]
    if options.packed:  # which sequences there are is known when the kernel runs
        return np.ones(tiles)
    offset = keys - length if options.offset is None else options.offset
    size, along, total, end = tile.rows, tile.keys, length, keys
    before, after = options.left, options.right
    if of_keys:
        size, along, total, end, offset = tile.keys, tile.rows, keys, length, -offset
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


class Mapped:
    """A prepared launch of which some arguments are maps of arrays, which depend on their addresses alone."""

    __slots__ = ("_device", "_known", "_launch", "_maps")

    def __init__(self, launch: Prepared, device: Device, maps: Mapping[int, Tiles]) -> None:
        self._launch, self._device, self._maps = launch, device, maps
        self._known: dict[tuple[int, int], bytes] = {}

    def __call__(self, arrays: Sequence[Any], *values: Any) -> None:
        own = list(values)
        for place in self._maps:
            own[place] = self._map(place, arrays[place])
        self._launch(*own)

    def _map(self, place: int, array: Array) -> bytes:
        at = address(array._data) if self._device.addressable else array._operand
        found = self._known.get((place, at))
        if found is None:
            made = self._device.backend.tensor_map(self._maps[place]._replace(address=at))
            found = remember(self._known, (place, at), made)
        return found


def tiles_of(layout: Layout, rows: int) -> Tiles:
    """How a kernel finds tiles of so many rows of a matrix of each batch and head, without the address."""
    shape, strides = ((1,) * (4 - len(one)) + one for one in (layout.shape, layout.strides))
    steps = tuple(step if n > 1 else 16 for n, step in zip(shape[:-1], strides[:-1], strict=True))
    return Tiles(0, layout.dtype, shape, steps, (1, 1, rows, _LINE), 2 * _LINE, False)


#: Of the structs among the first arguments.
MAP_BYTES = _MAP
