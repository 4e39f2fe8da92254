"""The tiles of attention's kernels, and which one a launch takes."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from ... import dtypes
from ...device import Device
from ...kernel.sizes import divide_up, power_of_two


class Head(NamedTuple):
    """The features of a head: of queries and keys, and of values."""

    size: int
    value: int


class Tile(NamedTuple):
    """A block's tile of the scores, without tensor cores.

    Attributes:
        rows, keys: its sizes.
        lanes_y, lanes_x: threads that share its rows, and its keys.
    """

    rows: int
    keys: int
    lanes_y: int
    lanes_x: int

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.lanes_y * self.lanes_x

    def shared(self, head: Head, dtype: dtypes.DType, backward: bool) -> int:
        """Bytes of shared memory of a block."""
        rows, scores = head.size + 1, self.rows * (self.keys + 1)
        columns = head.value + 1
        elements = self.rows * rows + self.keys * (rows + columns) + scores
        if backward:
            elements += self.rows * (columns + 3) + scores
        return elements * dtypes.info(dtype).acc.itemsize


#: From the one that reads shared memory least.
TILES = (
    Tile(64, 64, 16, 16),
    Tile(32, 32, 16, 16),
    Tile(16, 16, 16, 16),
)
#: For few rows, which leave little else to do than reading keys.
FEW_TILES = (Tile(16, 64, 16, 16), Tile(16, 16, 16, 16))
#: The most rows that are few: queries times the heads that share a head of keys.
FEW = 16
#: Each thread of the host is a block of its own.
HOST_TILE = Tile(16, 32, 1, 1)
#: The most features of a head that a thread of the largest tile has sums for.
_LARGE = 128


def tile_for(
    head: Head, dtype: dtypes.DType, device: Device, backward: bool, few: bool = False
) -> Tile | None:
    """The tile of a launch, of ``few`` rows or any number; None if no tile fits the device's shared memory."""
    if device.style == "serial":
        return HOST_TILE
    most = device.properties.max_shared_memory_per_block
    tiles = FEW_TILES if few else TILES if max(head) <= _LARGE else TILES[1:]
    fits = [tile for tile in tiles if tile.shared(head, dtype, backward) <= most]
    return fits[0] if fits else None


class MmaTile(NamedTuple):
    """A block's tile of the scores on tensor cores.

    Attributes:
        rows, keys: its sizes; a warp has 16 of the rows, or of the keys for their gradients.
        fixed: whether a warp keeps its fragments of the queries in registers.
        apart: whether the gradients of keys and of values are made by a launch each, as registers hold the sums of one.
    """

    rows: int
    keys: int
    fixed: bool = False
    apart: bool = False

    def shared(self, head: Head, kind: str) -> int:
        """Bytes of shared memory of a block, for 16-bit elements."""
        size, value = (divide_up(n, 16) * 16 + 8 for n in head)
        both = 2 * (size + value)
        if kind in ("forward", "few"):
            return 2 * self.rows * size + self.keys * both
        return (self.rows + self.keys) * both + 12 * self.rows


#: For each kernel, and the forward one of few rows, by the most features of a head: tiles whose sums and fragments fit
#: the registers of a thread.
MMA_TILES: dict[str, dict[int, MmaTile]] = {
    "forward": {
        64: MmaTile(128, 64, fixed=True),
        128: MmaTile(128, 64),
        256: MmaTile(64, 32),
    },
    "few": {
        64: MmaTile(16, 64, fixed=True),
        128: MmaTile(16, 64, fixed=True),
        256: MmaTile(16, 32),
    },
    "backward_keys": {
        64: MmaTile(64, 128),
        128: MmaTile(32, 64),
        256: MmaTile(32, 64, apart=True),
    },
    "backward_queries": {
        64: MmaTile(128, 64),
        128: MmaTile(64, 32),
        256: MmaTile(64, 16),
    },
}


def mma_tile_for(head: Head, device: Device, kind: str) -> MmaTile | None:
    """The tile of a launch on tensor cores; None if the device has none, or too little shared memory."""
    tile = next((tile for most, tile in MMA_TILES[kind].items() if max(head) <= most), None)
    limits = device.properties
    if tile is None or limits.compute_capability < (8, 0):
        return None
    return tile if tile.shared(head, kind) <= limits.max_shared_memory_per_block else None


#: Blocks that an SM holds at the most, as their registers allow; and an SM's registers.
_RESIDENT, _REGISTERS = 8, 2**16


def residents(device: Device, shared: int) -> int:
    """Blocks of so many bytes of shared memory that an SM holds."""
    return max(1, min(_RESIDENT, device.properties.max_shared_memory_per_block // (shared + 1024)))


class FewTile(NamedTuple):
    """A block's tile of the scores of few rows, whose keys and values go from memory to registers.

    Attributes:
        rows, keys: its sizes.
        lanes: threads that share a key.
        threads: those of a block.
    """

    rows: int
    keys: int
    lanes: int
    threads: int

    def shared(self, head: Head, dtype: dtypes.DType) -> int:
        """Bytes of shared memory of a block."""
        sums = self.threads // 32 * (head.value + 2) * dtypes.info(dtype).acc.itemsize
        return self.rows * max(head.size * dtype.itemsize, sums)


#: Bytes of a pack; what a thread has: packs of a row, keys, and at most so many bytes of sums.
_PACK = 16
_OWN_PACKS = 2
_OWN_KEYS = 2
_OWN_SUMS = 256
#: Threads of a block at most, and keys of a tile, all of which are read where a mask leaves one.
_THREADS, _TILE_KEYS = 256, 64


def _sum_bytes(head: Head, dtype: dtypes.DType, lanes: int) -> int:
    """Bytes of the sums of a row in each of its lanes."""
    packs = divide_up(divide_up(max(head) * dtype.itemsize, _PACK), lanes)
    return packs * _PACK // dtype.itemsize * dtypes.info(dtype).acc.itemsize


@lru_cache(maxsize=1024)  # each launch asks
def residents_of_few(tile: FewTile, head: Head, dtype: dtypes.DType, device: Device) -> int:
    """Blocks of a tile of few rows that an SM holds."""
    # Registers of a thread, as compilers were seen to give: for its sums, and as many again for what it multiplies.
    registers = 56 + 2 * tile.rows * _sum_bytes(head, dtype, tile.lanes) // 4
    by_registers = min(512 // tile.threads, _REGISTERS // (registers * tile.threads))
    return max(1, min(by_registers, residents(device, tile.shared(head, dtype))))


def few_tile_for(head: Head, rows: int, dtype: dtypes.DType, device: Device) -> FewTile | None:
    """The tile of a launch of at most so many rows; None on the host, each of whose threads is a block of its own."""
    if device.style == "serial":
        return None
    lanes = min(32, power_of_two(divide_up(max(head) * dtype.itemsize, _PACK * _OWN_PACKS)))
    threads = min(_THREADS, _TILE_KEYS // _OWN_KEYS * lanes)
    most = _OWN_SUMS // _sum_bytes(head, dtype, lanes)
    tile = FewTile(min(power_of_two(rows), most), threads // lanes * _OWN_KEYS, lanes, threads)
    while tile.shared(head, dtype) > device.properties.max_shared_memory_per_block:
        tile = tile._replace(rows=tile.rows // 2)
    return tile


#: Bytes that an SM must have asked for to be given memory's full rate.
_IN_FLIGHT = 48 * 1024
#: What a wave of blocks, each part, and another launch take, in the time in which an SM reads a tile.
_WAVE, _PART, _LAUNCH = 1.0, 0.05, 2.0


@lru_cache(maxsize=1024)
def parts_for(device: Device, blocks: int, tiles: int, in_flight: int, resident: int) -> int:
    """Into how many parts to split the keys of each block, so that together they read at memory's full rate.

    Args:
        device: of the launch.
        blocks: those of the launch if keys are not split.
        tiles: those of a block's keys.
        in_flight: bytes of keys and values that a block has asked for.
        resident: blocks that an SM holds.
    """
    if device.style == "serial":
        return 1
    limits = device.properties

    def time(parts: int) -> float:
        busy = divide_up(blocks * parts, limits.multiprocessors)
        rate = min(1.0, min(busy, resident) * in_flight / _IN_FLIGHT)
        waves = divide_up(busy, resident)
        read = busy * divide_up(tiles, parts) / rate + waves * _WAVE
        return read + (parts * _PART + _LAUNCH if parts > 1 else 0)

    most = max(1, limits.multiprocessors * resident // blocks)
    return min(range(1, min(tiles, most) + 1), key=time)


def combining(value: int, device: Device) -> tuple[int, int]:
    """Threads that share the features, and the parts, of a row whose parts are combined."""
    if device.style == "serial":
        return 1, 1
    return min(128, max(32, power_of_two(value))), 4
