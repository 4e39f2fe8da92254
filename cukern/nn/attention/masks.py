"""Which tiles of the scores a mask empties: attention's kernels leave these out."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from ... import dtypes
from ...array import Array
from ...array.creation import empty
from ...array.layout import Layout
from ...device import Device
from ...device.interface import Prepared
from ...kernel import Kernel
from ...kernel.plan import on
from ...kernel.sizes import divide_up
from .call import Call
from .geometry import FewTile, MmaTile, Tile
from .tma import OF_KEYS, TmaTile

BLOCKS = Kernel("nn/attention/mask_blocks.cu", name="attention_mask_blocks")
_TILES = Kernel("nn/attention/mask_tiles.cu", name="attention_mask_tiles")
#: Queries and keys of a block, of which tiles consist.
_SIDE = 16
_WORD = 32
#: For so few scores two more launches would take longer than what they save.
FEWEST = 2**16


class Walk(NamedTuple):
    """Along which tiles the blocks of a launch go.

    Attributes:
        rows, keys: the sizes of a tile of scores.
        of_keys: whether a block has a tile of keys, and goes along the rows.
        heads: those of the launch.
        sharing: of how many of the mask's heads each is.
        group: of these, those whose rows a tile has beside one another.
        queries, key_count: how many there are.
    """

    rows: int
    keys: int
    of_keys: bool
    heads: int
    sharing: int
    group: int
    queries: int
    key_count: int


class Blocks(NamedTuple):
    """What a mask has, along the axes on which it depends; others have one element.

    Attributes:
        kinds: of each block of 16 by 16, see mask_blocks.cu.
        bits: the mask in bits, along keys and along queries, for kernels fed by tensor maps.
    """

    kinds: Array
    bits: Array | None


def axes_of(layout: Layout) -> list[tuple[int, int]]:
    """The lengths and strides of a mask's batches, heads, queries and keys; (1, 0) where it does not depend on them."""
    given = zip(layout.shape, layout.strides, strict=True)
    axes = [(n, step) if step and n > 1 else (1, 0) for n, step in given]
    return [(1, 0)] * (4 - len(axes)) + axes


def mask_blocks(mask: Array, bits: bool = False) -> Blocks:
    """What a mask has in blocks, and if they are asked for in bits.

    Args:
        mask: an array of bools with at most four axes.
        bits: whether they are.
    """
    shape, words, launch = _blocks_of(mask._planned(), bits)
    kinds = empty(shape, "uint8", mask.device)
    made = empty((words,), dtypes.uint32, mask.device) if bits else None
    with on(mask.device):
        null = mask.device.backend.operand(None)
        launch(mask._operand, kinds._operand, null if made is None else made._operand)
    return Blocks(kinds, made)


def sizes_of(axes: Sequence[int]) -> tuple[tuple[int, ...], int]:
    """The shape of the kinds of a mask's blocks, and how many words its bits are, by the lengths of its axes."""
    batches, heads, queries, keys = axes
    words = batches * heads * (queries * divide_up(keys, _WORD) + keys * divide_up(queries, _WORD))
    return (batches, heads, divide_up(queries, _SIDE), divide_up(keys, _SIDE)), words


@lru_cache(maxsize=1024)
def _blocks_of(layout: Layout, bits: bool) -> tuple[tuple[int, ...], int, Prepared]:
    _, (heads, _), (queries, _), (keys, of_key) = axes = axes_of(layout)
    steps = [step for _, step in axes]
    shape, words = sizes_of(tuple(n for n, _ in axes))
    packs = layout.aligned and of_key == 1 and not any(n % _SIDE for n in (keys, *steps[:3]))
    count = math.prod(shape)
    sizes = struct.pack("4q3i0q", *steps, heads, queries, keys)
    depends = {"by_query": queries > 1, "by_key": keys > 1}
    bound = BLOCKS.bind(layout.device, packs=packs, block=256, makes_bits=bits, computed=False, **depends)
    with on(layout.device):
        launch = bound.function.prepare((divide_up(count, 256), 1, 1), (256, 1, 1), 0, (sizes, count))
    return shape, words, launch


def tile_lists(kinds: Array, walk: Walk) -> Array:
    """The tiles of scores that a launch goes along: for each of its tiles a list, as mask_tiles.cu writes it.

    Args:
        kinds: of the mask's blocks.
        walk: of the launch.
    """
    shape, launch = _lists_of(kinds.device, kinds.shape, walk)
    made = empty(shape, dtypes.int32, kinds.device)
    with on(kinds.device):
        launch(kinds._operand, made._operand)
    return made


@lru_cache(maxsize=1024)
def _lists_of(device: Device, shape: tuple[int, ...], walk: Walk) -> tuple[tuple[int, ...], Prepared]:
    batches, mask_heads, *_ = shape
    heads = 1 if mask_heads == 1 else walk.heads
    tiles, along = divide_up(walk.queries * walk.group, walk.rows), divide_up(walk.key_count, walk.keys)
    if walk.of_keys:
        tiles, along = along, tiles
    steps = [math.prod(shape[axis + 1 :]) if n > 1 else 0 for axis, n in enumerate(shape)]
    count = batches * heads * tiles
    sizes = struct.pack(
        "5q10i0q",
        *(*steps, count, heads, walk.sharing, tiles, along, walk.group),
        *(walk.rows, walk.keys, walk.queries, walk.key_count, walk.of_keys),
    )
    lanes, block = (1, 1) if device.style == "serial" else (32, 128)
    bound = _TILES.bind(device, lanes=lanes, block=block)
    with on(device):
        grid = divide_up(count * lanes, block)
        launch = bound.function.prepare((grid, 1, 1), (block, 1, 1), 0, (sizes,))
    return (batches, heads, tiles, along + 1), launch


def lists_for(call: Call, kind: str, tile: Tile | FewTile | MmaTile | TmaTile) -> tuple[Array, ...]:
    """The tiles that the call's mask leaves to each block of a launch, and the mask's bits if tensor maps feed it."""
    assert call.blocks is not None
    kinds, bits = call.blocks
    (_, heads, queries, _), (_, key_heads, keys, _) = call.q.shape, call.k.shape
    # A block of the score's arrays has one tile, of each head of queries, and looks for it in the list of its keys.
    alone, fed = kind == "backward_arrays", isinstance(tile, TmaTile)
    of_keys, apart = alone or kind in OF_KEYS, alone or fed
    shared = 1 if alone or (apart and not of_keys) else heads // key_heads
    walk = Walk(tile.rows, tile.keys, of_keys, heads // shared, shared, 1 if apart else shared, queries, keys)
    lists = tile_lists(kinds, walk)
    if not fed:
        return (lists,)
    assert bits is not None
    return lists, bits


__all__ = [
    "BLOCKS",
    "FEWEST",
    "Blocks",
    "Walk",
    "axes_of",
    "lists_for",
    "mask_blocks",
    "sizes_of",
    "tile_lists",
]
