"""Layouts: the properties of an array on which a launch depends, as one object shared by equal arrays."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..device import Device
from ..dtypes import INEXACT, DType

#: The alignment in bytes that a kernel's widest loads need.
ALIGNMENT = 16
_CAPACITY = 65536


class Layout:
    """Device, dtype, shape and strides of an array, and whether its address allows the widest loads.

    Equal layouts are one object (unless very many have been made), so that a launch can be looked up by the
    identity of its operands' layouts.

    Attributes:
        strides: bytes from one element to the next along each axis.
        allocate: allocates a new array of a C-ordered layout: an ndarray on the host, a CuPy memory pointer on a GPU.
        aligned: whether the address of the first element is a multiple of :data:`ALIGNMENT`; always true on the
            host, where the compiler handles alignment.
        repeated: whether elements may share memory, as in a broadcast view.
    """

    __slots__ = (
        "aligned",
        "allocate",
        "contiguous",
        "device",
        "dtype",
        "floating",
        "nbytes",
        "ndim",
        "on_host",
        "repeated",
        "shape",
        "size",
        "strides",
    )

    device: Device
    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    aligned: bool
    contiguous: bool
    ndim: int
    size: int
    nbytes: int
    floating: bool
    on_host: bool
    repeated: bool
    allocate: Callable[[], Any]


_layouts: dict[tuple[Any, ...], Layout] = {}


def layout_of(device: Device, data: Any) -> Layout:
    """The layout of an ndarray of ``device``."""
    aligned = device.addressable or device.backend.operand(data) % ALIGNMENT == 0
    return layout(device, data.dtype, data.shape, data.strides, aligned)


def fresh_layout(device: Device, dtype: DType, shape: tuple[int, ...]) -> Layout:
    """The layout of a new array in C order."""
    strides = [dtype.itemsize] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    return layout(device, dtype, shape, tuple(strides), True)


def layout(
    device: Device, dtype: DType, shape: tuple[int, ...], strides: tuple[int, ...], aligned: bool
) -> Layout:
    """The layout with these properties."""
    key = (device, dtype, shape, strides, aligned)
    found = _layouts.get(key)
    if found is None:
        if len(_layouts) >= _CAPACITY:
            _layouts.clear()
        made = Layout()
        made.device, made.dtype, made.shape, made.strides, made.aligned = key
        made.ndim, made.size = len(shape), math.prod(shape)
        made.nbytes = made.size * dtype.itemsize
        made.contiguous = _contiguous(shape, strides, dtype.itemsize)
        made.floating = dtype in INEXACT
        made.on_host = device.addressable
        made.repeated = overlapping(shape, strides, dtype.itemsize)
        made.allocate = device.backend.allocator(made.shape, dtype, made.nbytes)
        found = _layouts.setdefault(key, made)
    return found


def _contiguous(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> bool:
    """Whether the elements are contiguous in C order."""
    expected = itemsize
    for n, stride in zip(reversed(shape), reversed(strides), strict=True):
        if n != 1 and stride != expected:
            return 0 in shape
        expected *= n
    return True


def overlapping(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> bool:
    """Whether elements may share memory: a stride is shorter than the span of the axes with smaller strides."""
    span = itemsize
    for stride, n in sorted((abs(stride), n) for n, stride in zip(shape, strides, strict=True) if n > 1):
        if stride < span:
            return 0 not in shape
        span += stride * (n - 1)
    return False


def address(data: Any) -> int:
    """The address of an ndarray's first element."""
    if isinstance(data, np.ndarray):
        return int(data.__array_interface__["data"][0])
    return int(data.data.ptr)
