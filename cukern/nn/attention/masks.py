"""Which tiles of the scores a mask empties: attention's kernels leave these out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from ... import dtypes
from ...array import Array
from ...array.layout import Layout, fresh_layout
from ...device import Device
from ...kernel import Kernel
from ...kernel.plan import new, on
from ...kernel.sizes import divide_up
from ...launch import cost
from ...launch.params import Given, Params
from ...launch.variant import Launch, Replay, Variant, prepared

#: Threads of a block that makes blocks of a mask.
BLOCK = 256
#: Queries and keys of a block, of which tiles consist.
_SIDE = 16
_WORD = 32
#: For so few scores two more launches would take longer than what they save.
FEWEST = 2**16

_OF_BLOCKS = dict.fromkeys(("batch", "head", "query", "key"), "long long")
_MASK = Params("Mask", **_OF_BLOCKS, heads="int", queries="int", keys="int")
_LISTS = Params(
    "Lists",
    **_OF_BLOCKS,
    count="long long",
    **dict.fromkeys("heads sharing tiles along group tile_m tile_n queries keys of_keys".split(), "int"),
)


@dataclass(frozen=True)
class _MaskBlocks(Variant[Any]):
    name = "blocks of a mask"
    kernel = Kernel("nn/attention/mask_blocks.cu", name="attention_mask_blocks")


@dataclass(frozen=True)
class _MaskTiles(Variant[Any]):
    lanes: int

    name = "tiles of a mask"
    kernel = Kernel("nn/attention/mask_tiles.cu", name="attention_mask_tiles")


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
    return _blocks_of(mask._planned(), bits)(mask)


def sizes_of(axes: Sequence[int]) -> tuple[tuple[int, ...], int]:
    """The shape of the kinds of a mask's blocks, and how many words its bits are, by the lengths of its axes."""
    batches, heads, queries, keys = axes
    words = batches * heads * (queries * divide_up(keys, _WORD) + keys * divide_up(queries, _WORD))
    return (batches, heads, divide_up(queries, _SIDE), divide_up(keys, _SIDE)), words


class InBlocks:
    """A launch that makes the blocks of a mask, or of a condition, of which ``axes`` are the lengths.

    Args:
        device: where it runs.
        axes: batches, heads, queries and keys; 1 where it does not depend on them.
        bits: whether it makes bits too.
        constants: of the template.
        params: of the kernel, before the number of blocks.
    """

    def __init__(
        self, device: Device, axes: Sequence[int], bits: bool, constants: dict[str, Any], *params: Given
    ) -> None:
        shape, words = sizes_of(axes)
        self._device, self._bits = device, bits
        self._layouts = (
            fresh_layout(device, dtypes.uint8, shape),
            fresh_layout(device, dtypes.uint32, (words,)),
        )
        count = math.prod(shape)
        depends = {"makes_bits": bits, "by_query": axes[2] > 1, "by_key": axes[3] > 1}
        grid = (divide_up(count, BLOCK), 1, 1)
        made = Launch(grid, BLOCK, constants={**constants, **depends}, params=(*params, count))
        self._run = prepared(_MaskBlocks(), made, device)

    def __call__(self, *read: Array) -> Blocks:
        """The blocks, of what the kernel reads."""
        with on(self._device):
            kinds, *bits = new(self._layouts[: 1 + self._bits])
            made = Blocks(kinds, bits[0] if bits else None)
            self._run((*read, *made))
        return made


@lru_cache(maxsize=1024)
def _blocks_of(layout: Layout, bits: bool) -> InBlocks:
    lengths, steps = zip(*axes_of(layout), strict=True)
    packs = layout.aligned and steps[3] == 1 and not any(n % _SIDE for n in (lengths[3], *steps[:3]))
    given = _MASK(
        **dict(zip(("batch", "head", "query", "key"), steps, strict=True)),
        **dict(zip(("heads", "queries", "keys"), lengths[1:], strict=True)),
    )
    return InBlocks(layout.device, lengths, bits, {"packs": packs, "computed": False}, given)


def without_array(queries: int, keys: int) -> Given:
    """What the kernel takes for a mask that is computed."""
    return _MASK(batch=0, head=0, query=0, key=0, heads=1, queries=queries, keys=keys)


def tile_lists(kinds: Layout, walk: Walk) -> Replay:
    """What makes the tiles of scores that a launch goes along: for each of its tiles a list, see mask_tiles.cu.

    Args:
        kinds: of the mask's blocks.
        walk: of the launch.
    """
    (batches, mask_heads, *_), device = kinds.shape, kinds.device
    heads = 1 if mask_heads == 1 else walk.heads
    tiles, along = divide_up(walk.queries * walk.group, walk.rows), divide_up(walk.key_count, walk.keys)
    if walk.of_keys:
        tiles, along = along, tiles
    steps = [step if n > 1 else 0 for n, step in zip(kinds.shape, kinds.strides, strict=True)]
    count = batches * heads * tiles
    sizes = _LISTS(
        **dict(zip(("batch", "head", "query", "key"), steps, strict=True)),
        **{"count": count, "heads": heads, "sharing": walk.sharing, "tiles": tiles, "along": along},
        **{"group": walk.group, "tile_m": walk.rows, "tile_n": walk.keys},
        **{"queries": walk.queries, "keys": walk.key_count, "of_keys": walk.of_keys},
    )
    lanes, block = (1, 1) if cost.is_host(device.properties) else (32, 128)
    made = Launch((divide_up(count * lanes, block), 1, 1), block, params=(sizes,))
    layout = fresh_layout(device, dtypes.int32, (batches, heads, tiles, along + 1))
    return Replay(device, prepared(_MaskTiles(lanes), made, device), (layout,))
