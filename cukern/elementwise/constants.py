"""Constant arrays as stride-0 views of one cached element: the ones and zeros a gradient starts with need no launch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..array import Array, Storage
from ..autodiff import tape
from ..device import Device, capture_hooks
from ..dtypes import DType
from ..kernel.plan import remember


class Shared(Storage):
    """The memory of an element that many arrays share, and that nothing may write to.

    Attributes:
        value: the number.
        element: the 0-d ndarray of it.
        arrays: the arrays that there are, by their shapes.
    """

    constant = True

    def __init__(self, value: float, element: Any) -> None:
        self.value, self.element = value, element
        self.arrays: dict[tuple[int, ...], Array] = {}


Make = Callable[[tuple[int, ...], DType, Device], Array]

#: The 0-d arrays, and so the storages. They are kept for ever: graphs have their addresses.
_elements: dict[tuple[float, DType, Device], Array] = {}


def constant(value: float) -> Make:
    """What makes arrays of ``value``, only to be read: :func:`owned` gives one that is not shared."""

    def make(shape: tuple[int, ...], dtype: DType, device: Device) -> Array:
        element = _elements.get((value, dtype, device))
        if element is None:
            if (
                capture_hooks.recorder() is not None
            ):  # a graph would set the element when it runs, and not before
                return _fresh(value, shape, dtype, device)
            element = _elements.setdefault((value, dtype, device), _element(value, dtype, device))
        return element if shape == () else repeated(element, shape)

    return make


def repeated(x: Array, shape: tuple[int, ...]) -> Array:
    """An array of ``shape`` from an array of :func:`constant`; it is not recorded."""
    storage = x._storage
    assert isinstance(storage, Shared)
    made = storage.arrays.get(shape)
    if made is None:
        with x.device.activate():
            made = Array._wrap(x.device.xp.broadcast_to(storage.element, shape), x.device, storage)
        made._planned()
        remember(storage.arrays, shape, made)
    return made


def _element(value: float, dtype: DType, device: Device) -> Array:
    made = _fresh(value, (), dtype, device)
    made._storage = Shared(value, made._data)
    made._planned()
    if not device.addressable:  # other streams will read it
        with device.activate():
            device.xp.cuda.get_current_stream().synchronize()
    return made


def _fresh(value: float, shape: tuple[int, ...], dtype: DType, device: Device) -> Array:
    xp: Any = device.xp
    with device.activate():
        return Array._wrap(xp.broadcast_to(xp.asarray(value, dtype), shape), device)


def owned(x: Array) -> Array:
    """``x``, or an array of the same number and of its own memory where it is a shared constant."""
    storage = x._storage
    if type(storage) is not Shared:
        return x
    if tape.recording((x,)):
        return x.astype(x.dtype)
    return _fresh(storage.value, x.shape, x.dtype, x.device)
