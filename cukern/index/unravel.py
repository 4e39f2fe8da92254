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
from .take import brought_in, expect_mode, integers, places_in, wraps

__all__ = ["ravel_multi_index", "unravel_index"]


@fuse(static=("clipped", "narrow"))
def _unraveled(places: Any, size: int, sizes: tuple[int, ...], clipped: bool, narrow: bool) -> list[Any]:
    """Indices along axes of ``sizes``, in int32 if ``narrow``; of places clipped to ``size`` if ``clipped``."""
    places = _clipped(places, size) if clipped else places
    places = astype(places, dtypes.int32 if narrow else dtypes.int64)
    made: list[Any] = []
    for one in reversed(sizes[1:]):
        above = floor_divide(places, one)
        made.append(astype(places - above * one, dtypes.int64))
        places = above
    return [astype(places, dtypes.int64), *reversed(made)]


def _clipped(places: Any, size: int) -> Any:
    """Indices of an axis of ``size``, negative ones counted from its end, clipped to it."""
    places = astype(places, dtypes.int64)
    return clip(where(places < 0, places + size, places), 0, size - 1)


def unraveled(places: Array, shape: tuple[int, ...], clipped: bool = False) -> list[Array]:
    """Convert indices in a flattened array to indices along each axis of ``shape``; outside ones if ``clipped``."""
    if not shape or (len(shape) == 1 and not clipped):
        return [places][: len(shape)]
    size = math.prod(shape)
    made: list[Array] = _unraveled(places, max(size, 1), shape, clipped, size < 2**31)
    return made


@on_device
def _in_range(x: Array, size: int, name: str) -> Array:
    """New indices of an axis of ``size``, counted from 0; out-of-range ones are handled as by :func:`take`."""
    data = places_in(integers(x, x, name), size, x, name)
    return Array._wrap(apart(x.device, data, x._data), x.device)


def _turned(sizes: Any, order: str, name: str) -> Any:
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
    sizes = _turned(shape if isinstance(shape, tuple) else (shape,), order, "unravel_index")
    given = asarray(indices)
    if given.size and sizes and wraps(given):
        integers(given, given, "unravel_index")
        found = unraveled(given, sizes, clipped=True)
    else:
        found = unraveled(_in_range(given, math.prod(sizes), "unravel_index"), sizes)
    return tuple(_turned(found, order, "unravel_index"))


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
    given = [
        asarray(x, dtypes.int64 if isinstance(x, (list, tuple)) and not x else None) for x in multi_index
    ]
    if not given:
        return asarray(0)
    clipped = all(mode == "raise" for mode in modes) and all(x.size and wraps(x) for x in given)
    if not clipped:
        given = [_in_mode(*one, name) for one in zip(given, sizes, modes, strict=True)]
    for x in given:
        integers(x, x, name)
    made: Array = _raveled(_turned(given, order, name), _turned(sizes, order, name), clipped)
    return made


@fuse(static=("clipped",))
def _raveled(places: list[Any], sizes: list[int], clipped: bool) -> Any:
    """The index of a flattened array, the slowest axis first, of places along its axes; outside ones if ``clipped``."""
    made: Any = 0
    for one, size in zip(places, sizes, strict=True):
        made = made * size + (_clipped(one, size) if clipped else astype(one, dtypes.int64))
    return made


def _in_mode(x: Array, size: int, mode: str, name: str) -> Array:
    """Indices of an axis of ``size``; those out of range as ``mode`` says."""
    x = astype(x, dtypes.int64) if x.dtype == dtypes.bool_ else x
    expect_mode(mode, name)
    if mode == "raise" or not size:
        return _in_range(x, size, name)
    with x.device.activate():
        return Array._wrap(brought_in(integers(x, x, name), size, x, mode), x.device)
