"""Shadow memory of arrays of ``ck.empty`` in checked launches: their elements that nothing has written yet."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ....errors import KernelReport

if TYPE_CHECKING:
    from ....array import Array


class Unset(ctypes.Structure):
    """The struct ``Unset`` of checked/memory.h."""

    _fields_ = (
        ("low", ctypes.c_void_p),
        ("high", ctypes.c_void_p),
        ("itemsize", ctypes.c_ulonglong),
        ("elements", ctypes.c_void_p),
        ("saved", ctypes.c_void_p),
    )


@dataclass
class Empty:
    """The shadow of an uninitialized array.

    Attributes:
        low, itemsize: of its memory.
        elements: for each element, whether nothing has written it.
        expected: the largest version that its storage may have: a larger one counts a write that was not watched.
        kernel, place: that wrote to it last, and where.
        seen: whether a part of it was read that has been written.
        depth: the number of with-blocks of checked launches that were open at its creation.
    """

    low: int
    itemsize: int
    elements: np.ndarray[Any, np.dtype[np.uint8]]
    expected: int = 0
    kernel: str = ""
    place: str = ""
    seen: bool = False
    depth: int = 0

    @property
    def high(self) -> int:
        """The end of its memory."""
        return self.low + self.elements.size * self.itemsize

    def struct(self) -> Unset:
        return Unset(self.low, self.high, self.itemsize, self.elements.ctypes.data, None)


_empties: weakref.WeakKeyDictionary[Any, Empty] = weakref.WeakKeyDictionary()
#: How many with-blocks of checked launches are open.
_depth = 0


def register(array: Array, earlier: bool = False) -> None:
    """Note that nothing has written ``array``.

    Args:
        array: a new one; or, the first time that a kernel of a user takes it, any other.
        earlier: whether it was created before the with-block, if it is not known yet.
    """
    if array.device.kind != "host" or not array.size or array._storage in _empties:
        return
    data = array._data
    _empties[array._storage] = Empty(
        data.ctypes.data, data.itemsize, np.ones(data.size, np.uint8), depth=0 if earlier else _depth
    )


def _current(storage: Any) -> Empty | None:
    empty = _empties.get(storage)
    if empty is not None and storage.version > empty.expected:
        del _empties[storage]
        return None
    return empty


def among(
    arrays: list[np.ndarray[Any, Any] | None], stored: Sequence[tuple[int, int]] = ()
) -> list[tuple[int, Empty]]:
    """The arrays with unset elements among those of a launch, each with the number of its parameter.

    Args:
        arrays: that of each parameter, if it has one.
        stored: the numbers of further parameters, by which a kernel stores, and the addresses of their arrays.
    """
    if not _empties:
        return []
    matches: list[tuple[int, Empty]] = []
    live = [one for storage in list(_empties) if (one := _current(storage)) is not None]
    given = [(i, one.__array_interface__["data"][0]) for i, one in enumerate(arrays) if one is not None]
    for i, address in [*given, *stored]:
        found = next((one for one in live if one.low <= address < one.high), None)
        if found is not None and not any(found is other for _, other in matches):
            matches.append((i, found))
    return matches


def launched(empty: Empty, kernel: str, place: str) -> None:
    """Note that a checked launch has written to an array."""
    empty.kernel, empty.place = kernel, place
    is_left = empty.elements.any()
    for storage in [one for one in list(_empties) if _empties.get(one) is empty]:
        empty.expected = storage.version + 1
        if not is_left:
            del _empties[storage]


def nested(depth: int) -> None:
    """Note how many with-blocks are open, and forget the arrays that were created in one that has ended."""
    global _depth
    _depth = depth
    for storage in list(_empties):
        one = _empties.get(storage)
        if one is not None and one.depth > depth:
            del _empties[storage]


def forget() -> None:
    """Forget all arrays."""
    _empties.clear()


def read(array: Array) -> KernelReport | None:
    """What is wrong with reading ``array`` on the host, if anything."""
    empty = _current(array._storage)
    if empty is None:
        return None
    data = array._data
    part = empty.elements
    if data.itemsize == empty.itemsize:
        offset = (data.ctypes.data - empty.low) // empty.itemsize
        strides = [stride // empty.itemsize for stride in data.strides]
        part = np.ndarray(data.shape, np.uint8, part, offset, strides)
    if part.any():
        return _report(empty, part, "read")
    empty.seen = True
    return None


def left() -> list[KernelReport]:
    """The arrays of the innermost with-block that kernels have written in part, and of which no written part was read.

    One that was created before the block may be filled after it.
    """
    reports = []
    for storage in list(_empties):
        empty = _current(storage)
        if empty is None or empty.depth != _depth:
            continue
        if empty.kernel and not empty.seen and empty.elements.any():
            reports.append(_report(empty, empty.elements, "left"))
            empty.seen = True
    return reports


def _report(empty: Empty, part: np.ndarray[Any, Any], how: str) -> KernelReport:
    index = np.unravel_index(int(part.argmax()), part.shape) if part.ndim else ()
    element = int(index[0]) if len(index) == 1 else tuple(int(i) for i in index)
    count = int(np.count_nonzero(part))
    whose = (
        f"unwritten: {count} of {part.size} elements of an array of ck.empty were never written, the first is "
        f"element {element}"
    )
    if not empty.kernel:
        return KernelReport("unset", f"{whose}; it is {how}", element=element)
    at = f" at {empty.place}" if empty.place else ""
    message = f"{empty.kernel}: {whose}; this kernel wrote the others{at}"
    return KernelReport("unwritten", message, empty.kernel, empty.place, element=element)
