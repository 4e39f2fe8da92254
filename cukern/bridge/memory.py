"""Memory of a GPU that another library owns, and its streams."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from typing import Any, NamedTuple

from .. import dtypes
from ..array import Array, Storage
from ..array.layout import ALIGNMENT, fresh_layout
from ..device import HERE, Device


def lent(
    where: Device,
    pointer: int,
    shape: tuple[int, ...],
    dtype: dtypes.DType,
    strides: Sequence[int] | None,
    owner: Any,
) -> Array:
    """The array of memory on a GPU that ``owner`` keeps; without strides it is in C order."""
    import cupy

    layout = fresh_layout(where, dtype, shape)
    steps = layout.strides if strides is None else strides
    span = (
        0
        if 0 in shape
        else sum((n - 1) * step for n, step in zip(shape, steps, strict=True)) + dtype.itemsize
    )
    memory = cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(pointer, span, owner, where.index), 0)
    if strides is None and pointer % ALIGNMENT == 0:
        array: Array = object.__new__(Array)
        array._ndarray, array._memory, array._layout, array._operand = None, memory, layout, pointer
        array.device, array._storage, array._key, array._viewed = where, Storage(), None, None
    else:
        array = Array._wrap(
            cupy.ndarray(shape, dtype, memory, None if strides is None else tuple(strides)), where
        )
    array._storage.shared = True
    return array


def on_stream(where: Device, stream: int) -> AbstractContextManager[object]:
    """A with-block in which launches on a GPU are on the stream of an address."""
    if where.is_current() and where.xp.cuda.get_current_stream().ptr == stream:
        return HERE
    return _on_stream(where, stream)


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
