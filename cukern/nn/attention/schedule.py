"""In which order persistent blocks take the tiles of attention, so that none has much more work than the others."""

from __future__ import annotations

import numpy as np

from ...kernel.sizes import divide_up
from .problem import Attention, Head

#: Bytes of keys and values that stay in the L2 while the heads of a section are made.
_SECTION = 32 * 2**20
#: What it takes to begin a tile, in tiles that it walks along.
_BEGUN = 1.0
#: Tiles at most of which several orders are tried.
_TRIED = 2**16


def order(head: Head, heads: int, sharing: int, length: int, work: np.ndarray, blocks: int) -> dict[str, int]:
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


def work_of(asked: Attention, rows: int, keys: int, of_keys: bool, tiles: int) -> np.ndarray:
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
