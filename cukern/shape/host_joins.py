"""Joins and cuts of large arrays on the host, by NumPy in one copy."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from ..array import Array
from ..dtypes import DType
from ..elementwise import by_numpy

_size = operator.attrgetter("size")


def joined_by_numpy(arrays: Sequence[Any], axis: int | None) -> Array | None:
    """Arrays of one dtype on the host joined by NumPy; None if it does not serve the call, or refuses it."""
    largest: Any = None
    for x in arrays if type(arrays) in (list, tuple) else ():
        if type(x) is not Array:
            return None
        largest = x if largest is None or x.size > largest.size else largest
    if largest is None or not by_numpy.serves(largest, *arrays):
        return None
    if any(x.dtype is not largest.dtype or x.device is not largest.device for x in arrays):
        return None
    with suppress(TypeError, ValueError):  # joining them without NumPy raises the error
        return Array._wrap(np.concatenate([x._data for x in arrays], axis), largest.device)
    return None


def served_alike(arrays: Sequence[Array], dtype: DType) -> bool:
    """Whether NumPy is to join arrays, which have the dtype of the result."""
    largest = max(arrays, key=_size)
    return by_numpy.serves(largest, *arrays) and all(x.dtype == dtype for x in arrays)


def _flat(arrays: Any) -> list[Any]:
    """The arrays of nested lists."""
    return [one for part in arrays for one in _flat(part)] if isinstance(arrays, list) else [arrays]


def blocks(arrays: list[Any]) -> Array | None:
    """:func:`block` on the host, in one copy; None if NumPy does not serve the call, or refuses it."""
    parts = _flat(arrays)
    first = parts[0]
    if not all(isinstance(one, Array) and one.dtype == first.dtype for one in parts):
        return None
    if not by_numpy.serves(*sorted(parts, key=lambda one: -one.size)) or len({p.device for p in parts}) > 1:
        return None

    def datas(part: Any) -> Any:
        return [datas(one) for one in part] if isinstance(part, list) else part._data

    with suppress(ValueError):  # joining them one by one raises the error
        return Array._wrap(np.block(datas(arrays)), first.device)
    return None


def opened(x: Array, axis: int, at: int, value: Any) -> Array:
    """``x`` on the host with a slice of a number inserted along an axis."""
    data = x._data
    sizes = (*x.shape[:axis], x.shape[axis] + 1, *x.shape[axis + 1 :])
    made: Any = np.empty(sizes, x.dtype)
    whole = (slice(None),) * axis
    made[(*whole, slice(at))] = data[(*whole, slice(at))]
    made[(*whole, at)] = value
    made[(*whole, slice(at + 1, None))] = data[(*whole, slice(at, None))]
    return Array._wrap(made, x.device)


def closed(data: Any, axis: int, first: int, last: int) -> Any:
    """An ndarray of NumPy's without the slices from ``first`` to ``last`` along an axis."""
    whole = (slice(None),) * axis
    made = np.empty(
        (*data.shape[:axis], data.shape[axis] - last + first, *data.shape[axis + 1 :]), data.dtype
    )
    made[(*whole, slice(first))] = data[(*whole, slice(first))]
    made[(*whole, slice(first, None))] = data[(*whole, slice(last, None))]
    return made
