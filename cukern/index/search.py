"""Searches in sorted arrays, and indices of non-zero elements."""

from __future__ import annotations

from functools import cache
from typing import Any, Literal, NamedTuple

import numpy as np

from .. import dtypes
from ..array import Array
from ..array.creation import asarray
from ..array.mapping import looped, mapped
from ..autodiff import tape
from ..device import Device
from ..device.interface import CompiledFunction
from ..dtypes import DType
from ..elementwise.function import astype
from ..elementwise.operands import first_array, normalize_axis, public, require_array, require_arrays
from ..elementwise.row import is_scalar
from ..elementwise.table import not_equal
from ..errors import DeviceError
from ..kernel import Kernel
from ..kernel.plan import allocate, launch, on
from ..kernel.sizes import divide_up
from ..shape.joins import stack
from ..shape.views import reshape
from .compact import FLAT, flat_indices
from .take import checked_indices, take
from .unravel import unraveled

__all__ = [
    "argwhere",
    "compress",
    "extract",
    "flatnonzero",
    "nonzero",
    "searchsorted",
]

_SEARCH = Kernel("index/search.cu", block=256)
_INTERP = Kernel("index/interp.cu", block=256)
#: Queries that a thread searches at once, so that their loads overlap.
_SEARCHED = 4
#: Such groups of queries per host thread.
_HOST_PIECE = 256
#: Blocks that fill a GPU; with more queries each thread searches several groups.
_SEARCH_BLOCKS = 1056
#: The most bytes of a vector that a block copies to shared memory.
_SEARCH_SHARED = 16384


@cache
def _searching(
    device: Device, dtype: DType, right: bool, indirect: bool, among: bool, index: str, kept: int, block: int
) -> CompiledFunction:
    return _SEARCH.bind(
        device,
        name=f"{'isin' if among else 'searchsorted'}_{dtypes.info(dtype).name}_{block}",
        elem=dtype,
        block=block,
        items=_SEARCHED,
        index=index,
        kept=kept,
        right=right,
        indirect=indirect,
        among=among,
    ).function


class _Launch(NamedTuple):
    """A launch: the C++ type of indices, elements cached in shared memory, threads per block, groups per thread."""

    index_type: str
    kept: int
    block: int
    piece: int
    blocks: int


def _launched(xs: Array, count: int, table: bool, block: int | None) -> _Launch:
    """The launch of ``count`` searches in ``xs``, which may be kept in shared memory if it is a ``table``."""
    n, style = xs.size, xs.device.style
    block = block or (1 if style == "serial" else 256)
    room = _SEARCH_SHARED // dtypes.info(dtypes.info(xs.dtype).acc).itemsize
    group = block * _SEARCHED
    piece = _HOST_PIECE if block == 1 else min(16, max(1, count // (group * _SEARCH_BLOCKS)))
    kept = room if block > 1 and table and n <= room else 0
    return _Launch("int" if n < 2**30 else "long long", kept, block, piece, divide_up(count, group * piece))


def search_into(
    out: Array, xs: Array, order: Any, queries: Array, right: bool = False, block: int | None = None
) -> Array:
    """Write to ``out`` where each of ``queries`` goes in the vector ``xs``, or if it is bool whether it is in there.

    Args:
        out: a new array of int64 or bool, of the shape of ``queries``.
        xs: (n,), in ascending order, in C order.
        order: the indices that sort ``xs``, or None.
        queries: of the dtype of ``xs``, in C order.
        right: whether equal elements come before.
        block: threads per block; 1 for a single thread.
    """
    device, n, count = xs.device, xs.size, queries.size
    if count:
        how = _launched(xs, count, order is None, block)
        among = out.dtype == dtypes.bool_
        function = _searching(
            device, xs.dtype, right, order is not None, among, how.index_type, how.kept, how.block
        )
        orders = () if order is None else (order,)
        values = (xs._data, *orders, queries._data, out._data, n, count, how.piece)
        launch(device, function, how.blocks, how.block, values)
    return out


@cache
def _interpolating(
    device: Device, dtype: DType, acc: DType, index: str, kept: int, block: int
) -> CompiledFunction:
    name = f"interp_{dtypes.info(dtype).name}_{dtypes.info(acc).name}_{block}"
    variables = {"elem": dtype, "acc": acc, "items": _SEARCHED, "index": index, "kept": kept, "right": True}
    return _INTERP.bind(device, name=name, block=block, **variables).function


def interpolated(
    points: Array, knots: Array, values: Array, below: Any, above: Any, dtype: DType, block: int | None = None
) -> Array:
    """The lines through ``knots`` and ``values`` at ``points``; not recorded.

    Args:
        points: any shape, of float32 or float64.
        knots: (n,), in ascending order, of the same dtype.
        values: (n,), of the same dtype.
        below: a number, the value under the first knot; that there if None.
        above: a number, the value over the last knot; that there if None.
        dtype: of the result.
        block: threads per block; 1 for a single thread.
    """
    device, count = points.device, points.size
    result = allocate(device, points.shape, dtype)
    if count:
        how = _launched(knots, count, True, block)
        function = _interpolating(device, dtype, knots.dtype, how.index_type, how.kept, how.block)
        arrays = [x.contiguous()._data for x in (knots, values, points)]
        ends = [0.0 if end is None else float(end) for end in (below, above)]
        sizes = (knots.size, count, how.piece)
        arguments = (*arrays, result, *ends, below is not None, above is not None, *sizes)
        launch(device, function, how.blocks, how.block, arguments)
    return Array._wrap(result, device)


def _beyond(number: Any, dtype: DType) -> bool:
    """Whether a Python integer is out of the range of an integer dtype."""
    if not isinstance(number, int) or dtype not in dtypes.INTS:
        return False
    limits = np.iinfo(dtype)
    return not limits.min <= number <= limits.max


@public
@mapped(looped)
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
                order = checked_indices(sorter._data, x1.size, x1, "searchsorted: sorter")
        except IndexError as error:
            raise ValueError(str(error)) from None
    with tape.stop_recording():
        xs = astype(x1, dtype, copy=False).contiguous()
        wanted = astype(queries, dtype, copy=False).contiguous()
    result = Array._wrap(allocate(x1.device, wanted.shape, dtypes.int64), x1.device)
    return search_into(result, xs, order, wanted, side == "right")


def indices_of_true(mask: Array) -> list[Array]:
    """The indices of the true elements of a bool array, in C order: an int64 array for each axis.

    Waits for the device, to read the number of true elements.
    """
    return unraveled(flat_indices(mask), mask.shape)


def _flags(x: Array) -> Array:
    with tape.stop_recording():
        return x if x.dtype == dtypes.bool_ else not_equal(x, 0)


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
    return tuple(indices_of_true(_flags(x)))


@public
def flatnonzero(x: Array, /) -> Array:
    """The indices of the non-zero elements in the flattened array."""
    x = require_array(x, "flatnonzero")
    found: Array | None = FLAT(x)
    return flat_indices(_flags(x)) if found is None else found


@public
def argwhere(x: Array, /) -> Array:
    """The indices of the non-zero elements, shape (count, axes)."""
    x = require_array(x, "argwhere")
    indices = flat_indices(_flags(x))
    if x.ndim < 2:
        return reshape(indices, (indices.size, 1))[:, : x.ndim]
    return stack(unraveled(indices, x.shape), axis=1)


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
    if axis is not None:
        normalize_axis(axis, x.ndim, "compress")
    return take(x, flat_indices(_flags(flags)), axis=axis)


@public
def extract(condition: Any, x: Array, /) -> Array:
    """The elements of ``x`` for which ``condition``, of the same size, is true; differentiable."""
    flags, x = require_arrays((condition, x), "extract", ("condition", "x"))
    return compress(reshape(flags, (-1,)), x)
