"""Tiles of a convolution's product, which threads multiply by plain arithmetic."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from ... import dtypes
from ...device import Device
from ...device.interface import Prepared
from ...elementwise.program import Program
from ...kernel import Kernel
from ...kernel.sizes import divide_up
from .epilogue import steps, variables
from .geometry import Task

_KERNEL = Kernel("nn/convolution/tiles.cu")
#: Blocks that share the depth of a product, at most, and the pixels that each has at least.
_MOST_PARTS, _FEWEST_PIXELS = 256, 256


class Tile(NamedTuple):
    """A block's part of a product.

    Attributes:
        m, n: rows and columns.
        items_m, items_n: those of a thread.
        depth: of a slab in shared memory.
    """

    m: int
    n: int
    items_m: int
    items_n: int
    depth: int

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.m * self.n // self.items_m // self.items_n

    def across(self, task: Task) -> tuple[int, int]:
        """The tiles of a group's product, down and across."""
        m, n, _ = task.product
        return divide_up(m, self.m), divide_up(n, self.n)


#: A GPU's tiles, from the one that reads least to the one of which there are most; the host's, by one thread.
TILES = (
    Tile(128, 128, 8, 8, 16),
    Tile(128, 64, 8, 4, 16),
    Tile(64, 160, 8, 4, 20),
    Tile(64, 64, 4, 4, 16),
    Tile(128, 16, 4, 4, 16),
    Tile(16, 128, 4, 4, 16),
)
#: Of float64, of which a thread holds fewer.
DOUBLE_TILES = (Tile(64, 64, 4, 4, 16), Tile(128, 16, 4, 4, 16), Tile(16, 128, 4, 4, 16))
HOST_TILES = (Tile(64, 64, 64, 64, 16), Tile(64, 16, 64, 16, 16), Tile(16, 64, 16, 64, 16))


def tile_for(task: Task, elem: dtypes.DType, device: Device) -> Tile:
    """The tile of the least work for the busiest multiprocessor."""
    if device.style == "serial":
        return min(HOST_TILES, key=lambda tile: math.prod(tile.across(task)) * tile.m * tile.n)
    limits = device.properties

    def cost(tile: Tile) -> float:
        down, across = tile.across(task)
        blocks = down * across * task.groups * (_MOST_PARTS if task.of_weights else 1)
        # A thread that has few elements reads more of shared memory for each.
        reads = 1 + (tile.items_m + tile.items_n) / (tile.items_m * tile.items_n)
        return divide_up(blocks, limits.multiprocessors) * tile.m * tile.n * reads

    return min(DOUBLE_TILES if dtypes.info(elem).acc == dtypes.float64 else TILES, key=cost)


def parts_for(task: Task, elem: dtypes.DType, device: Device) -> int:
    """Into how many parts the pixels are cut, each of which several blocks sum up, so that none is idle."""
    tile, limits = tile_for(task, elem, device), device.properties
    down, across = tile.across(task)
    wanted = 4 * limits.multiprocessors // max(1, down * across * task.groups)
    if device.style == "serial":
        return 1
    parts = max(1, min(wanted, task.pixels // _FEWEST_PIXELS, _MOST_PARTS))
    each = _each(task, tile, parts)
    return max(1, divide_up(task.pixels, each))


def _each(task: Task, tile: Tile, parts: int) -> int:
    """The depth for a block: whole slabs."""
    return max(1, divide_up(divide_up(task.product[2], parts), tile.depth)) * tile.depth


def launch_of(task: Task, made: Program, device: Device, elem: dtypes.DType, parts: int) -> Prepared:
    """The launch of a product, for the operands of image and weights, or output and image, and of the result.

    Args:
        task: whose result has elements.
        made: makes an element of a sum, and of operands that have one number a filter.
        device: where it runs.
        elem: of image, weights and output.
        parts: of the depth.
    """
    tile = tile_for(task, elem, device)
    tiles = tile.across(task)
    bound = _KERNEL.bind(device, **_variables(task, made, elem, tile))
    geometry = task.packed(tiles, _each(task, tile, parts), _taps_inside(task))
    grid = (tiles[0] * tiles[1] * task.groups, parts, 1)
    return bound.function.prepare(grid, (tile.threads, 1, 1), 0, (geometry, steps(task, made)))


def _taps_inside(task: Task) -> bool:
    """Whether taps count faster than channels along the depth: as one of the factors lies in memory."""
    return not task.image.last


def _variables(task: Task, made: Program, elem: dtypes.DType, tile: Tile) -> dict[str, Any]:
    """The template variables."""
    return {
        **variables(task, made, elem),
        "name": f"{made.name}_{dtypes.info(elem).name}_{tile.m}x{tile.n}",
        "block": tile.threads,
        "tile_m": tile.m,
        "tile_n": tile.n,
        "items_m": tile.items_m,
        "items_n": tile.items_n,
        "depth": tile.depth,
        "taps_inside": _taps_inside(task),
        **_directions(task),
    }


def _directions(task: Task) -> dict[str, bool]:
    """Along which of its axes each matrix of the product is contiguous."""
    by_channels, output_by_channels = task.image.last, task.output.last
    if task.of_weights:
        return {
            "a_by_depth": not output_by_channels,
            "b_by_depth": not by_channels,
            "d_by_column": True,
        }
    return {
        "a_by_depth": by_channels,
        "b_by_depth": task.weights[0] >= task.weights[1],
        "d_by_column": not output_by_channels,
    }
