"""Stream compaction: the indices of true elements.

Tiles are counted, an exclusive scan of the counts gives their offsets, and a second pass writes.
"""

from __future__ import annotations

from functools import cache
from typing import Literal

from .. import dtypes
from ..array import Array
from ..autodiff import tape
from ..device import Device
from ..device.interface import CompiledFunction
from ..kernel import Kernel
from ..kernel.by_numpy import by_numpy
from ..kernel.plan import allocate, launch, on, threads
from ..kernel.sizes import divide_up
from .scan import cumulative_sum

Stage = Literal["count", "write"]
_KERNELS = {stage: Kernel(f"index/compact_{stage}.cu", block=256) for stage in ("count", "write")}
#: Elements per tile, which a host thread or a GPU's warp counts.
_TILE = {"serial": 1 << 15, "simt": 1 << 10}
#: Threads per warp.
_WARP = 32
#: The indices of true elements, or of numbers other than 0.
FLAT = by_numpy("flatnonzero")(lambda data: data.reshape(-1).nonzero()[0])


@cache
def compacting(device: Device, stage: Stage, block: int) -> CompiledFunction:
    """The kernel of a stage, of so many threads per block: it counts the true elements of tiles, or writes theirs."""
    lanes = 1 if block == 1 else _WARP
    name = f"nonzero_{stage}_{block}"
    return _KERNELS[stage].bind(device, name=name, block=block, lanes=lanes).function


def flat_indices(flags: Array, tile: int | None = None, block: int | None = None) -> Array:
    """The indices of the true elements of a bool array, flattened in C order, as int64.

    Waits for the device, to read the number of true elements.

    Args:
        flags: a bool array of any shape.
        tile: flags that a host thread or a warp counts.
        block: threads per block, 1 or a multiple of 32.
    """
    if tile is None and (found := FLAT(flags)) is not None:
        return found  # type: ignore[no-any-return]
    n, device = flags.size, flags.device
    tile, block = tile or _TILE[device.style], block or threads(device, 256)
    tiles = divide_up(n, tile)
    blocks = divide_up(tiles, max(1, block // _WARP))
    with on(device), tape.stop_recording():
        if not n:
            return Array._wrap(allocate(device, (0,), dtypes.int64), device)
        data, counts = flags.contiguous()._data, allocate(device, (tiles,), dtypes.int64)
        launch(device, compacting(device, "count", block), blocks, block, (data, counts, n, tile))
        starts = cumulative_sum(Array._wrap(counts, device), include_initial=True)
        indices = allocate(device, (int(starts[tiles].item()),), dtypes.int64)
        if indices.size:
            write = compacting(device, "write", block)
            launch(device, write, blocks, block, (data, starts._data, indices, n, tile))
    return Array._wrap(indices, device)
