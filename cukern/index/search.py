"""Searches in sorted arrays, and indices of non-zero elements."""

from __future__ import annotations

import math
import operator
from functools import cache
from typing import Any, Literal

import numpy as np

from .. import dtypes
from ..array import Array
from ..array.creation import asarray
from ..autodiff import tape
from ..device import Device
from ..device.interface import CompiledFunction
from ..dtypes import DType
from ..elementwise.function import astype
from ..elementwise.operands import first_array, on_device, public, require_array, require_arrays
from ..elementwise.row import is_scalar
from ..elementwise.table import floor_divide, not_equal, remainder
from ..errors import DeviceError
from ..kernel import Kernel
from ..kernel.plan import allocate, launch, on
from ..kernel.sizes import divide_up
from ..shape.views import reshape, stack
from .scan import cumulative_sum
from .take import integers, places_in, take

__all__ = [
    "argwhere",
    "compress",
    "extract",
    "flatnonzero",
    "nonzero",
    "ravel_multi_index",
    "searchsorted",
    "unravel_index",
]

_SEARCH = Kernel("index/search.cu", block=256)
_COMPACT = {stage: Kernel(f"index/compact_{stage}.cu", block=256) for stage in ("count", "write")}
#: Queries per host thread, and flags per tile, which a host thread or a GPU's warp counts.
_HOST_PIECE = 1024
_TILE = {"serial": 1 << 15, "simt": 1 << 10}


@cache
def _searching(device: Device, dtype: DType, right: bool, indirect: bool) -> tuple[CompiledFunction, int]:
    info = dtypes.info(dtype)
    block = 1 if device.style == "serial" else 256
    made = _SEARCH.bind(
        device,
        name=f"searchsorted_{info.name}_{block}",
        elem=dtype,
        block=block,
        right=right,
        indirect=indirect,
    )
    return made.function, block


def _beyond(number: Any, dtype: DType) -> bool:
    """Whether a Python integer is out of the range of an integer dtype."""
    if not isinstance(number, int) or dtype not in dtypes.INTS:
        return False
    limits = np.iinfo(dtype)
    return not limits.min <= number <= limits.max


@public
def searchsorted(x1: Array, x2: Any, /, side: Literal["left", "right"] = "left", sorter: Any = None) -> Array:
    """The indices at which to insert the elements of ``x2`` into ``x1`` so that it stays sorted.

    Args:
        x1: a vector in ascending order, NaN last.
        x2: an array of any shape, or a number.
        side: ``"left"`` before equal elements, ``"right"`` after them.
        sorter: the indices that sort ``x1`` if it is not sorted, as from :func:`argsort`.

    Returns:
        int64, of the shape of ``x2``.

    Raises:
        DeviceError: the arrays are on different devices.
        TypeError: the dtypes have no common dtype.
        ValueError: ``x1`` is not a vector, ``sorter`` has another shape or indices out of range (on the host; on a GPU
            they are clipped), or there is no such side.

    >>> import cukern as ck
    >>> ck.searchsorted(ck.asarray([1, 3, 5]), ck.asarray([0, 3, 9]), side="right").tolist()
    [0, 2, 3]
    """
    x1 = require_array(x1, "searchsorted", "x1", first_array((x2, sorter)))
    if side not in ("left", "right"):
        raise ValueError(f"searchsorted: side: expected 'left' or 'right', got {side!r}")
    if x1.ndim != 1:
        raise ValueError(f"searchsorted: x1: expected one axis, got shape {x1.shape}")
    if not is_scalar(x2):
        x2 = require_array(x2, "searchsorted", "x2", x1)
    weak = is_scalar(x2) and not _beyond(x2, x1.dtype)
    dtype = dtypes.comparable(x1.dtype, x2 if weak else asarray(x2, device=x1.device).dtype)
    queries = asarray(x2, dtype=dtype, device=x1.device) if is_scalar(x2) else x2
    if sorter is not None:
        sorter = require_array(sorter, "searchsorted", "sorter", x1)
    for other in (queries, sorter):
        if other is not None and other.device is not x1.device:
            raise DeviceError(
                f"searchsorted: expected arrays on one device, got {x1.device} and {other.device}"
            )
    order = None
    if sorter is not None:
        if sorter.shape != x1.shape or dtypes.info(sorter.dtype).kind not in "iu":
            raise ValueError(
                f"searchsorted: sorter: expected integers of shape {x1.shape}, got {sorter.dtype}, {sorter.shape}"
            )
        try:
            with on(x1.device):
                order = places_in(sorter._data, x1.size, x1, "searchsorted: sorter")
        except IndexError as error:
            raise ValueError(str(error)) from None
    with tape.stop_recording():
        xs = astype(x1, dtype, copy=False).contiguous()
        wanted = astype(queries, dtype, copy=False).contiguous()
    made = allocate(x1.device, wanted.shape, dtypes.int64)
    if made.size:
        function, block = _searching(x1.device, dtype, side == "right", order is not None)
        piece = _HOST_PIECE if block == 1 else 1
        orders = () if order is None else (order,)
        values = (xs._data, *orders, wanted._data, made, x1.size, made.size, piece)
        launch(x1.device, function, -(-made.size // (block * piece)), block, values)
    return Array._wrap(made, x1.device)


@cache
def _compacting(device: Device, stage: Literal["count", "write"], block: int) -> CompiledFunction:
    lanes = 1 if block == 1 else 32
    kernel = _COMPACT[stage]
    return kernel.bind(device, name=f"nonzero_{stage}_{block}", block=block, lanes=lanes).function


def flat_places(flags: Array, tile: int | None = None, block: int | None = None) -> Array:
    """The indices of the true elements of a bool array, flattened in C order, as int64.

    Waits for the device, to read the number of true elements.

    Args:
        flags: a bool array of any shape.
        tile: flags that a host thread or a warp counts.
        block: threads per block, 1 or a multiple of 32.
    """
    n, device = flags.size, flags.device
    if not n:
        return Array._wrap(allocate(device, (0,), dtypes.int64), device)
    tile = tile or _TILE[device.style]
    block = block or (1 if device.style == "serial" else 256)
    tiles = divide_up(n, tile)
    blocks = divide_up(tiles, max(1, block // 32))
    counts = allocate(device, (tiles,), dtypes.int64)
    with on(device), tape.stop_recording():
        data = flags.contiguous()._data
        launch(device, _compacting(device, "count", block), blocks, block, (data, counts, n, tile))
        starts = cumulative_sum(Array._wrap(counts, device), include_initial=True)
        made = allocate(device, (int(starts[tiles].item()),), dtypes.int64)
        if made.size:
            write = _compacting(device, "write", block)
            launch(device, write, blocks, block, (data, starts._data, made, n, tile))
    return Array._wrap(made, device)


def places_of(mask: Array) -> list[Array]:
    """The indices of the true elements of a bool array, in C order: an int64 array for each axis.

    Waits for the device, to read the number of true elements.
    """
    return unraveled(flat_places(mask), mask.shape)


def _flags(x: Array) -> Array:
    with tape.stop_recording():
        return x if x.dtype == dtypes.bool_ else not_equal(x, 0)


def unraveled(places: Array, shape: tuple[int, ...]) -> list[Array]:
    """Convert indices in a flattened array to indices along each axis of ``shape``."""
    made: list[Array] = []
    for size in reversed(shape[1:]):
        made.append(remainder(places, size))
        places = floor_divide(places, size)
    return [places, *reversed(made)] if shape else []


@public
def nonzero(x: Array, /) -> tuple[Array, ...]:
    """The indices of the non-zero elements, in C order: an int64 array for each axis.

    Waits for the device, to read their number.

    Raises:
        ValueError: ``x`` has no axis.
    """
    x = require_array(x, "nonzero")
    if not x.ndim:
        raise ValueError("nonzero: x: expected at least one axis, got a 0-d array")
    return tuple(places_of(_flags(x)))


@public
def flatnonzero(x: Array, /) -> Array:
    """The indices of the non-zero elements in the flattened array."""
    x = require_array(x, "flatnonzero")
    return flat_places(_flags(x))


@public
def argwhere(x: Array, /) -> Array:
    """The indices of the non-zero elements, shape (count, axes)."""
    x = require_array(x, "argwhere")
    places = flat_places(_flags(x))
    if not x.ndim:
        return reshape(places, (places.size, 1))[:, :0]
    return stack(unraveled(places, x.shape), axis=1)


@public
def compress(condition: Any, x: Array, /, axis: int | None = None) -> Array:
    """The slices of ``x`` along an axis for which ``condition`` is true; differentiable.

    Args:
        condition: a vector, at most as long as the axis of ``x``.
        x: any array.
        axis: the axis; if None, ``x`` is flattened.

    Raises:
        ValueError: ``condition`` is not a vector.
        IndexError: ``condition`` is true beyond the end of the axis.
    """
    flags, x = require_arrays((condition, x), "compress", ("condition", "x"))
    if flags.ndim != 1:
        raise ValueError(f"compress: condition: expected one axis, got shape {flags.shape}")
    return take(x, flat_places(_flags(flags)), axis=axis)


@public
def extract(condition: Any, x: Array, /) -> Array:
    """The elements of ``x`` for which ``condition``, of the same size, is true; differentiable."""
    flags, x = require_arrays((condition, x), "extract", ("condition", "x"))
    return compress(reshape(flags, (-1,)), x)


@on_device
def _in_range(x: Array, size: int, name: str) -> Array:
    """Indices of an axis of ``size``, counted from 0; out-of-range ones are handled as by :func:`take`."""
    data = places_in(integers(x, x, name), size, x, name)
    return Array._wrap(data, x.device)


def _turned(sizes: Any, order: str, name: str) -> Any:
    """A sequence of an entry for each axis, the slowest first."""
    if order not in ("C", "c", "F", "f", None):
        raise ValueError(f"{name}: order: expected 'C' or 'F', got {order!r}")
    return sizes[::-1] if order in ("F", "f") else sizes


@public
def unravel_index(indices: Any, shape: int | tuple[int, ...], order: str = "C") -> tuple[Array, ...]:
    """Convert indices in a flattened array to indices along each axis of ``shape``.

    Args:
        indices: integers of any shape.
        shape: the shape of the array.
        order: "F" counts the flattened array with the first axis fastest.

    Raises:
        IndexError: an index is out of range (on the host; on a GPU it is clipped).
        TypeError: the indices are not integers.

    >>> import cukern as ck
    >>> [int(i) for i in ck.unravel_index(ck.asarray(5), (2, 3))]
    [1, 2]
    """
    sizes = _turned(shape if isinstance(shape, tuple) else (shape,), order, "unravel_index")
    flat = _in_range(asarray(indices), math.prod(sizes), "unravel_index")
    return tuple(_turned(unraveled(flat, sizes), order, "unravel_index"))


@public
def ravel_multi_index(
    multi_index: Any,
    dims: tuple[int, ...],
    mode: Literal["raise", "wrap", "clip"] | tuple[str, ...] = "raise",
    order: str = "C",
) -> Array:
    """Convert indices along each axis of ``dims`` to indices in the flattened array.

    Args:
        multi_index: an array of integers for each axis; they broadcast.
        dims: the shape of the array.
        mode: for indices out of range: ``"raise"`` an error, ``"wrap"`` around, or ``"clip"`` to the range; or one of
            these for each axis.
        order: "F" counts the flattened array with the first axis fastest.

    Raises:
        IndexError: an index is out of range (on the host; on a GPU it is clipped).
        TypeError: the indices are not integers.
        ValueError: the number of arrays is not that of the axes, or the array has more than 2**63 - 1 elements.

    >>> import cukern as ck
    >>> ck.ravel_multi_index((ck.asarray([0, 1]), ck.asarray([2, 0])), (2, 3)).tolist()
    [2, 3]
    """
    name = "ravel_multi_index"
    sizes = [operator.index(size) for size in dims]
    if len(multi_index) != len(sizes):
        raise ValueError(f"{name}: expected {len(sizes)} arrays, got {len(multi_index)}")
    if math.prod(sizes) >= 2**63:
        raise ValueError(f"{name}: dims: an array of shape {dims} has too many elements")
    modes = (mode,) * len(sizes) if isinstance(mode, str) else mode
    made: Any = 0
    for places, size, kind in _turned(list(zip(multi_index, sizes, modes, strict=True)), order, name):
        made = made * size + _in_mode(asarray(places), size, kind, name)
    return asarray(made)


def _in_mode(x: Array, size: int, mode: str, name: str) -> Array:
    """Indices of an axis of ``size``; those out of range as ``mode`` says."""
    x = astype(x, dtypes.int64) if x.dtype == dtypes.bool_ else x
    if mode == "raise":
        return _in_range(x, size, name)
    if mode not in ("wrap", "clip"):
        raise ValueError(f"{name}: mode: expected 'raise', 'wrap' or 'clip', got {mode!r}")
    data = integers(x, x, name).astype(np.int64)
    return Array._wrap(data % size if mode == "wrap" else data.clip(0, size - 1), x.device)
