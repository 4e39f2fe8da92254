"""Stream compaction: the indices of true elements, and the first elements of runs of equal ones.

Tiles are counted, an exclusive scan of the counts gives their offsets, and a second pass writes.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Literal

import numpy as np

from .. import dtypes
from ..array import Array
from ..autodiff import tape
from ..device import Device
from ..device.interface import CompiledFunction
from ..dtypes import DType
from ..kernel import Kernel
from ..kernel.by_numpy import by_numpy
from ..kernel.plan import allocate, launch, on, threads
from ..kernel.sizes import divide_up
from .scan import cumulative_sum

Stage = Literal["count", "write", "few"]
_KERNELS = {stage: Kernel(f"index/compact_{stage}.cu", block=256) for stage in ("count", "write", "few")}
#: Elements per tile, which a host thread or a GPU's warp counts.
_TILE = {"serial": 1 << 15, "simt": 1 << 10}
#: The most flags that one block of a GPU compacts.
_FEW = 1 << 15
#: Threads of that block.
_FEW_BLOCK = 1024
#: Threads per warp.
_WARP = 32
#: The indices of true elements, or of numbers other than 0.
FLAT = by_numpy("flatnonzero")(lambda data: data.reshape(-1).nonzero()[0])


@cache
def compacting(
    device: Device,
    stage: Stage,
    block: int,
    dtype: DType = dtypes.bool_,
    runs: bool = False,
    equal_nan: bool = False,
    placed: bool = True,
) -> CompiledFunction:
    """The kernel of a stage.

    Args:
        device: where it runs.
        stage: ``"count"`` counts the chosen elements of tiles, ``"write"`` writes them; ``"few"`` is both in one block.
        block: threads per block, 1 or a multiple of 32.
        dtype: of the elements.
        runs: whether the first elements of runs are chosen, and their values wanted; else those that are true.
        equal_nan: whether all NaN are equal.
        placed: whether the indices are wanted.
    """
    lanes = 1 if block == 1 else _WARP
    name = f"{'runs' if runs else 'nonzero'}_{stage}_{dtypes.info(dtype).name}_{block}"
    return _KERNELS[stage].bind(
        device, name=name, block=block, lanes=lanes, elem=dtype, runs=runs, equal_nan=equal_nan, placed=placed,
        shuffled=lanes > 1 and dtype not in dtypes.COMPLEX,
    ).function  # fmt: skip


def flat_indices(flags: Array, tile: int | None = None, block: int | None = None) -> Array:
    """The indices of the true elements of a bool array, flattened in C order, as int64.

    Waits for the device, to read the number of true elements.

    Args:
        flags: a bool array of any shape.
        tile: flags that a host thread or a warp counts.
        block: threads per block, 1 or a multiple of 32.
    """
    if tile is None and (found := FLAT(flags)) is not None:
        return found
    if tile is None and block is None and flags.device.style != "serial" and 0 < flags.size <= _FEW:
        return flat_indices_of_few(flags)
    indices = _compacted(flags, tile, block, False, False, True)[1]
    assert indices is not None
    return indices


def flat_indices_of_few(flags: Array, block: int = _FEW_BLOCK) -> Array:
    """:func:`flat_indices` by one block."""
    n, device = flags.size, flags.device
    result, count = allocate(device, (n,), dtypes.int64), allocate(device, (1,), dtypes.int64)
    with on(device), tape.stop_recording():
        tile = divide_up(n, block)
        function = compacting(device, "few", block)
        launch(device, function, 1, block, (flags.contiguous()._data, result, count, n, tile * _WARP))
        return Array._wrap(result[: Array._wrap(count, device).item()], device)


def runs_of(
    ordered: Array, equal_nan: bool, placed: bool, tile: int | None = None, block: int | None = None
) -> tuple[Array, Array | None]:
    """The first elements of the runs of equal elements in a vector, and if ``placed`` their indices, as int64.

    Waits for the device, to read their number. The other arguments are those of :func:`flat_indices`.
    """
    if tile is None and (found := _runs(ordered, equal_nan)) is not None:
        return found[0], found[1] if placed else None
    values, indices = _compacted(ordered, tile, block, True, equal_nan, placed)
    assert values is not None
    return values, indices


@by_numpy("runs of equal elements")
def _runs(ordered: Any, equal_nan: bool) -> Any:
    """The first elements of runs of a sorted NumPy array, in which NaN are last, and their indices."""
    if ordered.dtype.kind == "c":
        return "of complex numbers"
    starts = np.ones(ordered.size, bool)
    np.not_equal(ordered[1:], ordered[:-1], out=starts[1:])
    if equal_nan and np.isnan(ordered[-1]):
        starts[np.searchsorted(ordered, ordered[-1]) + 1 :] = False
    indices = starts.nonzero()[0]
    return ordered[indices], indices


def _compacted(
    x: Array, tile: int | None, block: int | None, runs: bool, equal_nan: bool, placed: bool
) -> tuple[Array | None, Array | None]:
    """The chosen elements of the flattened ``x``, if they are of runs, and their indices, if ``placed``."""
    n, device = x.size, x.device
    tile = tile or _TILE[device.style]
    block = block or (threads(device, 256))
    tiles = divide_up(n, tile)
    blocks = divide_up(tiles, max(1, block // _WARP))
    variables = (block, x.dtype, runs, equal_nan, placed)
    with on(device), tape.stop_recording():
        count, data, starts = 0, x.contiguous()._data, None
        if n:
            counts = allocate(device, (tiles,), dtypes.int64)
            launch(device, compacting(device, "count", *variables), blocks, block, (data, counts, n, tile))
            starts = cumulative_sum(Array._wrap(counts, device), include_initial=True)
            count = int(starts[tiles].item())
        values = allocate(device, (count,), x.dtype) if runs else None
        indices = allocate(device, (count,), dtypes.int64) if placed else None
        if count and starts is not None:
            outs = [data for data in (values, indices) if data is not None]
            write = compacting(device, "write", *variables)
            launch(device, write, blocks, block, (data, starts._data, *outs, n, tile))
    arrays = [None if data is None else Array._wrap(data, device) for data in (values, indices)]
    return arrays[0], arrays[1]
