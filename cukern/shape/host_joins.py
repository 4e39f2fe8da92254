"""Joins and cuts of large arrays on the host, by NumPy in one copy."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from ..array import Array
from ..elementwise import by_numpy


def joined_by_numpy(join: Callable[..., Any], arrays: Any, *args: Any) -> Array | None:
    """What a function of NumPy makes of arrays of one dtype on the host; None if it does not serve them, or refuses."""
    if type(arrays) not in (list, tuple) or not _are_served(arrays):
        return None
    try:
        return Array._wrap(join([x._data for x in arrays], *args), arrays[0].device)
    except (TypeError, ValueError):  # joining them without NumPy raises the error
        return None


def _are_served(parts: Sequence[Any]) -> bool:
    """Whether NumPy is to join all of what may be arrays."""
    for x in parts:
        if type(x) is not Array:
            return False
    return bool(parts) and by_numpy.serves_alike(parts)


def _flat(arrays: Any) -> list[Any]:
    """The arrays of nested lists."""
    return [one for part in arrays for one in _flat(part)] if isinstance(arrays, list) else [arrays]


def blocks(arrays: list[Any]) -> Array | None:
    """:func:`block` on the host, in one copy; None if NumPy does not serve the call, or refuses it."""
    parts = _flat(arrays)
    if not _are_served(parts):
        return None

    def datas(part: Any) -> Any:
        return [datas(one) for one in part] if isinstance(part, list) else part._data

    with suppress(ValueError):  # joining them one by one raises the error
        return Array._wrap(np.block(datas(arrays)), parts[0].device)
    return None


def gridded(arrays: Sequence[Any], indexing: str) -> tuple[Array, ...] | None:
    """:func:`meshgrid` of vectors on the host; None if NumPy does not serve the call."""
    if not all(type(x) is Array and x.ndim == 1 for x in arrays) or len(arrays) < 2:
        return None
    first, *others = arrays
    if not by_numpy.serves(first, *others, times=math.prod(x.size for x in others)):
        return None
    grids: Any = np.meshgrid(*(x._data for x in arrays), indexing=indexing)  # type: ignore[call-overload]
    return tuple(Array._wrap(grid, first.device) for grid in grids)


def opened(x: Array, axis: int, at: int, value: Any) -> Array:
    """``x`` on the host with a slice of a number inserted along an axis."""
    data = x._data
    sizes = (*x.shape[:axis], x.shape[axis] + 1, *x.shape[axis + 1 :])
    result: Any = np.empty(sizes, x.dtype)
    whole = (slice(None),) * axis
    result[(*whole, slice(at))] = data[(*whole, slice(at))]
    result[(*whole, at)] = value
    result[(*whole, slice(at + 1, None))] = data[(*whole, slice(at, None))]
    return Array._wrap(result, x.device)


def closed(data: Any, axis: int, first: int, last: int) -> Any:
    """An ndarray of NumPy's without the slices from ``first`` to ``last`` along an axis."""
    whole = (slice(None),) * axis
    return np.concatenate((data[(*whole, slice(first))], data[(*whole, slice(last, None))]), axis)
