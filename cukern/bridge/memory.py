"""Memory of a GPU that another library owns, and its streams."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from typing import Any, NamedTuple

from ..array import Array, Storage
from ..array.layout import ALIGNMENT, Layout
from ..device import HERE, Device


class _Shared(Storage):
    """Memory that another library made, and may write unseen."""

    shared = True


def ordered(layout: Layout, data: Any, memory: Any, operand: Any, storage: Storage) -> Array:
    """The array in C order of a layout, with these parts."""
    array: Array = object.__new__(Array)
    array._ndarray, array._memory, array._layout, array._operand = data, memory, layout, operand
    array.device, array._storage, array._key, array._viewed = layout.device, storage, None, None
    return array


def lent(layout: Layout, pointer: int, strides: Sequence[int] | None, owner: Any) -> Array:
    """The array of memory on a GPU that ``owner`` keeps.

    Args:
        layout: a device, dtype and shape, in C order.
        pointer: the address of the first element.
        strides: bytes from one element to the next along each axis, if the order is another.
        owner: is kept as long as the array.
    """
    import cupy

    where, shape = layout.device, layout.shape
    span = layout.nbytes
    if strides is not None and span:
        steps = [(n - 1) * step for n, step in zip(shape, strides, strict=True)]
        span = sum(steps) + layout.dtype.itemsize
    memory = cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(pointer, span, owner, where.index), 0)
    if strides is None and pointer % ALIGNMENT == 0:
        return ordered(layout, None, memory, pointer, _Shared())
    data = cupy.ndarray(shape, layout.dtype, memory, None if strides is None else tuple(strides))
    return Array._wrap(data, where, _Shared())


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
