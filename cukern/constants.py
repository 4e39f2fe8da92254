"""Arrays of one number, all from one element that is kept: what derivatives begin with costs no launch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import live, tape
from .array import Array, Storage
from .device import Device
from .dtypes import DType
from .program import remember


class Shared(Storage):
    """The memory of an element that many arrays share, and that nothing may write to."""

    def __init__(self, value: float) -> None:
        self.value = value


Make = Callable[[tuple[int, ...], DType, Device], Array]

_elements: dict[tuple[float, DType, Device], Array] = {}
_arrays: dict[tuple[float, tuple[int, ...], DType, Device], Array] = {}


def constant(value: float) -> Make:
    """What makes arrays of ``value``, only to be read: :func:`owned` gives one that is not shared."""

    def make(shape: tuple[int, ...], dtype: DType, device: Device) -> Array:
        key = (value, shape, dtype, device)
        found = _arrays.get(key)
        return _made(*key) if found is None else found

    return make


def _made(value: float, shape: tuple[int, ...], dtype: DType, device: Device) -> Array:
    element = _elements.get((value, dtype, device))
    if element is None:
        if live.recorder() is not None:  # a graph would set the element when it runs, and not before
            return _fresh(value, shape, dtype, device)
        element = _fresh(value, (), dtype, device)
        element._storage = Shared(value)
        if device.kind != "host":  # other streams will read it
            with device.activate():
                device.xp.cuda.get_current_stream().synchronize()
        _elements[value, dtype, device] = element  # for ever: graphs have its address
    with device.activate():
        data = device.xp.broadcast_to(element._data, shape)
    made = Array._wrap(data, device, element._storage)
    made._planned()
    return remember(_arrays, (value, shape, dtype, device), made)


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
