"""Memory of a GPU that another library owns, and its streams."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from typing import Any, NamedTuple

from ..array import Array, Storage
from ..array.layout import ALIGNMENT, Layout
from ..device import HERE, Device

_new = object.__new__


class Shared(Storage):
    """Memory that another library made, and may write unseen."""

    shared = True


def ordered(layout: Layout, data: Any, memory: Any, operand: Any, storage: Storage) -> Array:
    """The array in C order of a layout, with these parts."""
    array: Array = object.__new__(Array)
    array._ndarray, array._memory, array._layout, array._operand = data, memory, layout, operand
    array.device, array._storage, array._key, array._viewed = layout.device, storage, None, None
    return array


#: Where an array keeps its memory.
_MEMORY = vars(Array)["_memory"]
owner, _set_memory = _MEMORY.__get__, _MEMORY.__set__


class Lent(Array):
    """An array in C order of what keeps its memory on a GPU; an ordinary one from when CuPy's pointer is asked for."""

    __slots__ = ()

    def _pointed(self: Any) -> Any:
        memory = _pointer(self._operand, self._layout.nbytes, owner(self), self.device)
        self._memory = memory
        return memory

    def _become(self: Any, memory: Any) -> None:
        _set_memory(self, memory)
        self.__class__ = Array

    _memory = property(_pointed, _become)


def _pointer(address: int, nbytes: int, owner: Any, where: Device) -> Any:
    cuda = where.xp.cuda
    return cuda.MemoryPointer(cuda.UnownedMemory(address, nbytes, owner, where.index), 0)


def whole(layout: Layout, address: int, owner: Any, storage: Storage) -> Array:
    """:func:`lent` in C order from an aligned address on, with its storage."""
    array: Array = _new(Lent)
    _set_memory(array, owner)
    array._layout, array._operand, array.device = layout, address, layout.device
    array._storage, array._ndarray, array._key, array._viewed = storage, None, None, None
    return array


def lent(layout: Layout, pointer: int, strides: Sequence[int] | None, owner: Any) -> Array:
    """The array of memory on a GPU that ``owner`` keeps.

    Args:
        layout: a device, dtype and shape, in C order.
        pointer: the address of the first element.
        strides: bytes from one element to the next along each axis, if the order is another.
        owner: is kept as long as the array.
    """
    if strides is None and pointer % ALIGNMENT == 0:
        return whole(layout, pointer, owner, Shared())
    where, shape = layout.device, layout.shape
    span = layout.nbytes
    if strides is not None and span:
        steps = [(n - 1) * step for n, step in zip(shape, strides, strict=True)]
        span = sum(steps) + layout.dtype.itemsize
    memory = _pointer(pointer, span, owner, where)
    data = where.xp.ndarray(shape, layout.dtype, memory, strides=None if strides is None else tuple(strides))
    return Array._wrap(data, where, Shared())


def on_stream(where: Device, stream: int) -> AbstractContextManager[object]:
    """A with-block in which launches on a GPU are on the stream of an address."""
    if not where.is_current():
        return _on_stream(where, stream)
    if where.xp.cuda.get_current_stream().ptr == stream:
        return HERE
    same: AbstractContextManager[object] = _external(where.index, stream)
    return same


@contextmanager
def _on_stream(where: Device, stream: int) -> Iterator[None]:
    with where.activate(), _external(where.index, stream):
        yield


class _Stream(NamedTuple):
    """A stream of another library, by the protocol of CUDA's Python packages."""

    address: int

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.address


@lru_cache(maxsize=256)
def _external(index: int, stream: int) -> Any:
    import cupy

    if hasattr(cupy.cuda.Stream, "from_external"):  # since CuPy 14
        return cupy.cuda.Stream.from_external(_Stream(stream))
    return cupy.cuda.ExternalStream(stream, index)
