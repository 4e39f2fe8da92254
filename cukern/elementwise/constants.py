"""Constant arrays as stride-0 views of one cached element, so that a gradient's initial ones need no launch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..array import Array, Storage
from ..array.creation import full
from ..array.layout import overlap
from ..autodiff import tape
from ..cache import Cache
from ..device import Device, capture_hooks
from ..dtypes import DType


class Shared(Storage):
    """The read-only memory of one element that many arrays share.

    Attributes:
        value: the number.
        element: its 0-d ndarray.
        arrays: the arrays made of it, by shape.
    """

    constant = True

    def __init__(self, value: float, element: Any) -> None:
        self.value, self.element = value, element
        self.arrays: Cache[tuple[int, ...], Array] = Cache()


Make = Callable[[tuple[int, ...], DType, Device], Array]

#: Steps of the search for an element that two views share: parts of one array along any axis need few.
_WORK = 1000
#: The 0-d arrays, with their storages. They are never freed, because captured graphs hold their addresses.
_elements: dict[tuple[float, DType, Device], Array] = {}


def constant(value: float) -> Make:
    """A function that makes read-only arrays of ``value``; :func:`owned` copies one to memory of its own."""

    def make(shape: tuple[int, ...], dtype: DType, device: Device) -> Array:
        element = _elements.get((value, dtype, device))
        if element is None:
            if (
                capture_hooks.recorder() is not None
            ):  # while a graph is recorded, the element would be set only when it runs
                return _fresh(shape, value, dtype, device)
            element = _elements.setdefault((value, dtype, device), _element(value, dtype, device))
        return element if shape == () else repeated(element, shape)

    return make


def repeated(x: Array, shape: tuple[int, ...]) -> Array:
    """An array of ``shape`` with the value of ``x``, an array of :func:`constant`; tapes do not record it."""
    storage = x._storage
    assert isinstance(storage, Shared)
    result = storage.arrays.get(shape)
    if result is None:
        with x.device.activate():
            result = Array._wrap(x.device.xp.broadcast_to(storage.element, shape), x.device, storage)
        result._planned()
        storage.arrays.keep(shape, result)
    return result


def _element(value: float, dtype: DType, device: Device) -> Array:
    result = _fresh((), value, dtype, device)
    result._storage = Shared(value, result._data)
    result._planned()
    if not device.addressable:  # other streams read the element too
        with device.activate():
            device.xp.cuda.get_current_stream().synchronize()
    return result


def _fresh(shape: tuple[int, ...], value: float, dtype: DType, device: Device) -> Array:
    xp: Any = device.xp
    with device.activate():
        return Array._wrap(xp.broadcast_to(xp.asarray(value, dtype), shape), device)


def owned(x: Array, beside: Sequence[Array] | None = None) -> Array:
    """``x``, or a copy with memory of its own if it is a shared constant.

    Args:
        x: a cotangent or a gradient.
        beside: arrays of the memory of ``x`` for a gradient to which its user may write: it is copied also if it may
            overlap one of them, or has elements that share memory, as a broadcast view has.
    """
    storage = x._storage
    spread = beside is not None and (x._layout or x._planned()).repeated
    if isinstance(storage, Shared):
        if tape.recording((x,)):
            return x.astype(x.dtype)
        make = full if spread else _fresh
        return make(x.shape, storage.value, x.dtype, x.device)
    overlaps = beside and any(x is one or overlap(x, one, _WORK) for one in beside)
    return x.astype(x.dtype) if spread or overlaps else x
