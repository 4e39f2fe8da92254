"""Layouts: the properties of an array on which a launch depends, as one object shared by equal arrays.

Also shapes, as functions take them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, SupportsIndex

import numpy as np

from ..cache import Cache
from ..device import Device
from ..dtypes import INEXACT, DType

#: The alignment in bytes that a kernel's widest loads need.
ALIGNMENT = 16

#: What functions take as a shape.
Shape = SupportsIndex | tuple[SupportsIndex, ...] | list[SupportsIndex]


class Layout:
    """Device, dtype, shape and strides of an array, and whether its address allows the widest loads.

    Equal layouts are one object (unless very many have been made), so that a launch can be looked up by the
    identity of its operands' layouts.

    Attributes:
        strides: bytes from one element to the next along each axis.
        allocate: allocates a new array of a dense layout: an ndarray on the host, a CuPy memory pointer on a GPU.
        cleared: what :func:`.making.cleared` has returned.
        new: what :func:`renewed` has returned.
        order: the axes as they lie in memory, see :func:`memory_order`.
        aligned: whether the address of the first element is a multiple of :data:`ALIGNMENT`; always true on the
            host, where the compiler handles alignment.
        repeated: whether elements may share memory, as in a broadcast view.
        numbers: by the type of a Python number, the range in which NumPy and CuPy write such numbers to an element as
            cukern does; none where elements may share memory.
    """

    __slots__ = (
        "aligned",
        "allocate",
        "cleared",
        "contiguous",
        "device",
        "dtype",
        "floating",
        "nbytes",
        "ndim",
        "new",
        "numbers",
        "on_host",
        "order",
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
    order: tuple[int, ...] | None
    repeated: bool
    numbers: dict[type, tuple[float, float]]
    allocate: Callable[[], Any]
    cleared: Callable[[], Any] | None
    new: Layout | None


#: By letter of a dtype: see :attr:`Layout.numbers`. Integers are compared with integers, which takes less time.
_NUMBERS: dict[str, dict[type, tuple[float, float]]] = {
    **{d: dict.fromkeys((bool, int), (np.iinfo(d).min, np.iinfo(d).max)) for d in "bhilqBHILQ"},
    **{
        d: {**dict.fromkeys((bool, int), (-int(most), int(most))), float: (-float(most), float(most))}
        for d, most in (("e", np.finfo("e").max), ("f", np.finfo("f").max), ("d", np.finfo("d").max))
    },
    "?": {bool: (False, True)},
}
#: By all properties; those of new arrays in C order also by device, dtype and shape.
_layouts: Cache[tuple[Any, ...] | None, Layout] = Cache(65536)


def shape_of(shape: Shape) -> tuple[int, ...]:
    """A shape as a tuple.

    Raises:
        TypeError: not integers.
        ValueError: a negative size.
    """
    if type(shape) is int and shape >= 0:
        return (shape,)
    if type(shape) is tuple:
        known: Any = shape
        for n in known:  # most tuples are a shape, which a loop sees fastest
            if type(n) is not int or n < 0:
                break
        else:
            plain: tuple[int, ...] = known
            return plain
    several = isinstance(shape, (tuple, list)) or getattr(shape, "ndim", False)
    sizes: tuple[Any, ...] = tuple(shape) if several else (shape,)  # type: ignore[arg-type]
    try:
        result = tuple([size.__index__() for size in sizes])
    except AttributeError:
        raise TypeError(f"shape: expected integers, got {shape!r}") from None
    if result and min(result) < 0:
        raise ValueError(f"shape: expected sizes of at least 0, got {result}")
    return result


def expect_c_order(name: str, order: str | None) -> None:
    """Refuse an order in memory that new arrays do not have."""
    if order not in ("K", "C", "A", None):
        raise ValueError(f"{name}: order: expected 'C', as new arrays have, got {order!r}")


def layout_of(device: Device, data: Any) -> Layout:
    """The layout of an ndarray of ``device``."""
    aligned = device.addressable or device.backend.operand(data) % ALIGNMENT == 0
    return layout(device, data.dtype, data.shape, data.strides, aligned)


def fresh_layout(
    device: Device, dtype: DType, shape: tuple[int, ...], order: Sequence[int] | None = None
) -> Layout:
    """The layout of a new array, in C order or with its axes in memory in ``order``, the innermost last."""
    key = (device, dtype, shape) if order is None else None
    cached = _layouts.get(key)
    if cached is not None:
        return cached
    strides, step = [dtype.itemsize] * len(shape), dtype.itemsize
    for axis in reversed(range(len(shape)) if order is None else order):
        strides[axis] = step
        step *= shape[axis]
    # Without elements the libraries' new arrays have strides of 0.
    result = layout(device, dtype, shape, tuple(strides) if step else (0,) * len(shape), True)
    return result if key is None else _layouts.keep(key, result)


def renewed(own: Layout) -> Layout:
    """The layout of a new array in C order with the device, dtype and shape of another's."""
    if own.new is None:
        own.new = fresh_layout(own.device, own.dtype, own.shape)
    return own.new


def known_layout(device: Device, dtype: DType, shape: tuple[int, ...]) -> Layout | None:
    """:func:`fresh_layout` in C order, if it has returned this one; nothing is kept for shapes that occur once."""
    return _layouts.get((device, dtype, shape))


def axes_in_memory(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, ...]:
    """The axes from the one of the longest steps in memory to the innermost.

    Axes of size 1 come first, so that arrays whose elements lie in one order have one result.
    """
    return tuple(
        sorted(range(len(shape)), key=lambda axis: (shape[axis] > 1, -abs(strides[axis]) * (shape[axis] > 1)))
    )


def memory_order(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> tuple[int, ...] | None:
    """The axes as they lie in memory, the innermost last; None if elements have gaps, or share or reverse memory."""
    axes, expected = axes_in_memory(shape, strides), itemsize
    for axis in reversed(axes):
        if shape[axis] > 1 and strides[axis] != expected:
            return None
        expected *= shape[axis]
    return axes


def layout(
    device: Device, dtype: DType, shape: tuple[int, ...], strides: tuple[int, ...], aligned: bool
) -> Layout:
    """The layout with these properties."""
    key = (device, dtype, shape, strides, aligned)
    cached = _layouts.get(key)
    if cached is None:
        dtype = np.dtype(
            dtype
        )  # what only equals one, as ck.bfloat16, has no address that NumPy can be given
        key = (device, dtype, shape, strides, aligned)
        result = Layout()
        result.device, result.dtype, result.shape, result.strides, result.aligned = key
        result.ndim, result.size = len(shape), math.prod(shape)
        result.nbytes = result.size * dtype.itemsize
        result.contiguous = _contiguous(shape, strides, dtype.itemsize)
        result.floating, result.order = dtype in INEXACT, memory_order(shape, strides, dtype.itemsize)
        result.on_host = device.addressable
        result.repeated = overlapping(shape, strides, dtype.itemsize)
        result.numbers = {} if result.repeated else _NUMBERS.get(dtype.char, {})
        result.allocate, result.cleared, result.new = _allocator(result), None, None
        cached = _layouts.keep(key, _layouts.get(key, result))  # another thread's, if one was as quick
    return cached


def _allocator(result: Layout) -> Callable[[], Any]:
    shape, order = result.shape, result.order
    if result.contiguous or not result.on_host or order is None:
        return result.device.backend.allocator(shape, result.dtype, result.nbytes)
    allocate = result.device.backend.allocator(
        tuple([shape[axis] for axis in order]), result.dtype, result.nbytes
    )
    axes = tuple([order.index(axis) for axis in range(result.ndim)])
    return lambda: allocate().transpose(axes)


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


@lru_cache(maxsize=8192)
def span(own: Layout) -> tuple[int, int]:
    """The first byte of an array's elements and the end of the last, from the first element on."""
    if not own.size:
        return 0, 0
    steps = [(n - 1) * stride for n, stride in zip(own.shape, own.strides, strict=True)]
    return sum(step for step in steps if step < 0), sum(
        step for step in steps if step > 0
    ) + own.dtype.itemsize


def overlap(x: Any, y: Any, work: int | None = None) -> bool:
    """Whether two arrays of one device share memory, from the first to the last byte of each.

    Args:
        work: on the host steps of a search for an element of both, which answers True if it does not end.
    """
    if x.device.addressable:
        return np.may_share_memory(x._data, y._data, work)  # type: ignore[arg-type]
    (low, high), (start, end) = (span(one._layout or one._planned()) for one in (x, y))
    return bool(max(x._operand + low, y._operand + start) < min(x._operand + high, y._operand + end))


def address(data: Any) -> int:
    """The address of an ndarray's first element."""
    if isinstance(data, np.ndarray):
        return int(data.__array_interface__["data"][0])
    return int(data.data.ptr)


def is_aligned(x: Any) -> bool:
    """Whether the address of an array is a multiple of :data:`ALIGNMENT`: of the host's arrays layouts do not say."""
    own = x._layout or x._planned()
    # What the allocator gave has its memory noted, and is aligned.
    return own.aligned if not own.on_host or x._memory is not None else address(x._data) % ALIGNMENT == 0
