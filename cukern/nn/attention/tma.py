"""Launches of attention whose tiles the hardware brings by tensor maps, for GPUs of compute capability 9.0."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

from ...array import Array
from ...array.layout import Layout, address
from ...device import Device
from ...device.interface import Prepared, Tiles
from ...kernel.plan import remember
from ...kernel.sizes import divide_up
from .geometry import Head

#: Bytes of a tensor map, and elements of 16 bits in the 128 bytes of a line.
_MAP, _LINE = 128, 64
_LONGEST_STRIDE = 2**40
#: Bytes of keys and values that stay in the L2 while the heads of a section are made.
_SECTION = 24 * 2**20


class TmaTile(NamedTuple):
    """What the warpgroups of a block make at a time: each that multiplies has 64 of the rows.

    Attributes:
        rows, keys: the sizes of a tile of the scores.
        stages: tiles of keys, and of values, in shared memory.
        by_turns: whether one warpgroup multiplies while the others make weights.
        blocks: at most, which take tiles by turns.
    """

    rows: int
    keys: int
    stages: int
    by_turns: bool
    blocks: int = 2**31 - 1

    @property
    def workers(self) -> int:
        """The warpgroups that multiply."""
        return self.rows // 64

    @property
    def threads(self) -> int:
        """Threads of a block, of which the last warpgroup brings tiles."""
        return 128 * (self.workers + 1)

    def shared(self, head: Head) -> int:
        """Bytes of shared memory of a block."""
        size, value = (2 * _LINE * divide_up(n, _LINE) for n in head)
        return self.rows * size + self.stages * self.keys * (size + value) + 1024


#: By the most features of a head.
TMA_TILES = {
    64: TmaTile(192, 128, 2, True),
    128: TmaTile(128, 128, 2, True),
    256: TmaTile(128, 80, 2, False),
}


#: Where a function of the score takes registers.
SCORED_TILES = {
    64: TmaTile(128, 128, 2, True),
    128: TmaTile(128, 128, 2, True),
    256: TmaTile(128, 80, 2, False),
}


def tma_tile_for(head: Head, device: Device, plain: bool) -> TmaTile | None:
    """The tile of a launch; None if the device has no warpgroups' instructions or too little shared memory.

    Args:
        head: the features of a head.
        device: where it runs.
        plain: whether scores are weighed as they are, without a function of them or dropout.
    """
    limits = device.properties
    if limits.compute_capability[0] != 9:
        return None
    tile = next(tile for most, tile in (TMA_TILES if plain else SCORED_TILES).items() if max(head) <= most)
    if tile.shared(head) + 1024 > limits.max_shared_memory_per_block:
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


def order(head: Head, batch: int, heads: int, sharing: int, keys: int) -> bytes:
    """The kernel's struct of the order of its tiles."""
    bytes_of_head = max(1, 2 * keys * (head.size + head.value))
    section = max(1, _SECTION // bytes_of_head) * sharing
    return struct.pack("2i", batch * heads, min(section, batch * heads))


class Mapped:
    """A prepared launch whose first arguments are maps of arrays, which depend on their addresses alone."""

    __slots__ = ("_device", "_known", "_launch", "_maps")

    def __init__(self, launch: Prepared, device: Device, maps: Sequence[Tiles]) -> None:
        self._launch, self._device, self._maps = launch, device, maps
        self._known: dict[tuple[int, int], bytes] = {}

    def __call__(self, arrays: Sequence[Array], *values: Any) -> None:
        self._launch(*(self._map(i, one) for i, one in enumerate(arrays)), *values)

    def _map(self, place: int, array: Array) -> bytes:
        at = address(array._data) if self._device.addressable else array._operand
        found = self._known.get((place, at))
        if found is None:
            made = self._device.backend.tensor_map(self._maps[place]._replace(address=at))
            found = remember(self._known, (place, at), made)
        return found


def tiles_of(layout: Layout, rows: int) -> Tiles:
    """How a kernel finds tiles of so many rows of a matrix of each head, without the address."""
    strides = tuple(
        step if n > 1 else 16 for n, step in zip(layout.shape[:-1], layout.strides[:-1], strict=True)
    )
    return Tiles(0, layout.dtype, layout.shape, strides, (1, 1, rows, _LINE), 2 * _LINE, False)


#: Of the structs among the first arguments.
MAP_BYTES = _MAP
