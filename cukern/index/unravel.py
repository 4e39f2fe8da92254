"""Indices of flattened arrays as indices along each axis, and back."""

from __future__ import annotations

import math
import operator
from typing import Any, Literal

from .. import dtypes
from ..array import Array
from ..array.creation import asarray
from ..elementwise.function import astype
from ..elementwise.fuse import fuse
from ..elementwise.operands import on_device, public
from ..elementwise.table import clip, floor_divide, where
from ..kernel.plan import apart
from .take import checked_indices, expect_mode, in_mode, integers, wraps

__all__ = ["ravel_multi_index", "unravel_index"]


@fuse(static=("clipped", "narrow"))
def _unraveled(indices: Any, size: int, sizes: tuple[int, ...], clipped: bool, narrow: bool) -> list[Any]:
    """Indices along axes of ``sizes``, computed in int32 if ``narrow``, after clipping to ``size`` if ``clipped``."""
    indices = _clipped(indices, size) if clipped else indices
    indices = astype(indices, dtypes.int32 if narrow else dtypes.int64)
    result: list[Any] = []
    for n in reversed(sizes[1:]):
        above = floor_divide(indices, n)
        result.append(astype(indices - above * n, dtypes.int64))
        indices = above
    return [astype(indices, dtypes.int64), *reversed(result)]


def _clipped(indices: Any, size: int) -> Any:
    """Indices of an axis of ``size``, negative ones counted from its end, clipped to it."""
    indices = astype(indices, dtypes.int64)
    return clip(where(indices < 0, indices + size, indices), 0, size - 1)


def unraveled(indices: Array, shape: tuple[int, ...], clipped: bool = False) -> list[Array]:
    """Convert indices in a flattened array to indices along each axis of ``shape``; outside ones if ``clipped``."""
    if not shape or (len(shape) == 1 and not clipped):
        return [indices][: len(shape)]
    size = math.prod(shape)
    result: list[Array] = _unraveled(indices, max(size, 1), shape, clipped, size < 2**31)
    return result


@on_device
def _in_range(x: Array, size: int, name: str) -> Array:
    """New indices of an axis of ``size``, counted from 0; out-of-range ones are handled as by :func:`take`."""
    data = checked_indices(integers(x, x, name), size, x, name)
    return Array._wrap(apart(x.device, data, x._data), x.device)


def _slowest_first(sizes: Any, order: str, name: str) -> Any:
    """A sequence of an entry for each axis, the slowest first."""
    if order not in ("C", "c", "F", "f", None):
        raise ValueError(f"{name}: order: expected 'C' or 'F', got {order!r}")
    return sizes[::-1] if order in ("F", "f") else sizes


@public
def unravel_index(indices: Any, shape: int | tuple[int, ...], order: str = "C") -> tuple[Array, ...]:
    """Convert indices in a flattened array to indices along each axis of ``shape``.

    Args:
        indices: integers of any shape; negative ones count from the end.
        shape: the shape of the array.
        order: "F" counts the flattened array with the first axis fastest.

    Raises:
        IndexError: the indices are not integers, or one is out of range (on the host; on a GPU it is clipped).

    >>> import cukern as ck
    >>> [int(i) for i in ck.unravel_index(ck.asarray(5), (2, 3))]
    [1, 2]
    """
    sizes = _slowest_first(shape if isinstance(shape, tuple) else (shape,), order, "unravel_index")
    flat = asarray(indices)
    if flat.size and sizes and wraps(flat):
        integers(flat, flat, "unravel_index")
        by_axis = unraveled(flat, sizes, clipped=True)
    else:
        by_axis = unraveled(_in_range(flat, math.prod(sizes), "unravel_index"), sizes)
    return tuple(_slowest_first(by_axis, order, "unravel_index"))


@public
def ravel_multi_index(
    multi_index: Any,
    dims: tuple[int, ...],
    mode: Literal["raise", "wrap", "clip"] | tuple[str, ...] = "raise",
    order: str = "C",
) -> Array:
    """Convert indices along each axis of ``dims`` to indices in the flattened array.

    Args:
        multi_index: an array of integers for each axis; they broadcast. Negative ones count from the end, unless
            ``mode`` brings them into the range.
        dims: the shape of the array.
        mode: for indices out of range: ``"raise"`` an error, ``"wrap"`` around, or ``"clip"`` to the range; or one of
            these for each axis.
        order: "F" counts the flattened array with the first axis fastest.

    Raises:
        IndexError: the indices are not integers, or one is out of range (on the host; on a GPU it is clipped).
        ValueError: the number of arrays or of modes is not that of the axes, there is no such mode, or the array has
            more than 2**63 - 1 elements.

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
    modes = (mode,) * len(sizes) if isinstance(mode, str) else tuple(mode)
    if len(modes) != len(sizes):
        raise ValueError(f"{name}: mode: expected one for each of {len(sizes)} axes, got {len(modes)}")
    # Without a number in it, a list does not say of which dtype it is.
    arrays = [
        asarray(x, dtypes.int64 if isinstance(x, (list, tuple)) and not x else None) for x in multi_index
    ]
    if not arrays:
        return asarray(0)
    clipped = all(mode == "raise" for mode in modes) and all(x.size and wraps(x) for x in arrays)
    if not clipped:
        arrays = [_in_mode(*row, name) for row in zip(arrays, sizes, modes, strict=True)]
    for x in arrays:
        integers(x, x, name)
    result: Array = _raveled(_slowest_first(arrays, order, name), _slowest_first(sizes, order, name), clipped)
    return result


@fuse(static=("clipped",))
def _raveled(indices: list[Any], sizes: list[int], clipped: bool) -> Any:
    """The index in a flattened array from those along its axes, the slowest first; clipped to them if ``clipped``."""
    result: Any = 0
    for index, size in zip(indices, sizes, strict=True):
        result = result * size + (_clipped(index, size) if clipped else astype(index, dtypes.int64))
    return result


def _in_mode(x: Array, size: int, mode: str, name: str) -> Array:
    """Indices of an axis of ``size``; those out of range as ``mode`` says."""
    x = astype(x, dtypes.int64) if x.dtype == dtypes.bool_ else x
    expect_mode(mode, name)
    if mode == "raise" or not size:
        return _in_range(x, size, name)
    with x.device.activate():
        return Array._wrap(in_mode(integers(x, x, name), size, x, mode), x.device)
