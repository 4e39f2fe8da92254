"""Memory of a GPU that another library owns, and its streams."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from typing import Any

from .. import dtypes
from ..array import Array
from ..device import HERE, Device


def lent(
    where: Device,
    pointer: int,
    shape: tuple[int, ...],
    dtype: dtypes.DType,
    strides: Sequence[int] | None,
    owner: Any,
) -> Array:
    """The array of memory on a GPU that ``owner`` keeps."""
    import cupy

    steps = [] if strides is None else list(strides)
    span = sum((n - 1) * step for n, step in zip(shape, steps, strict=False)) + dtype.itemsize
    own = cupy.cuda.UnownedMemory(pointer, span, owner, where.index)
    array = Array._wrap(
        cupy.ndarray(
            shape, dtype, cupy.cuda.MemoryPointer(own, 0), None if strides is None else tuple(strides)
        ),
        where,
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


@lru_cache(maxsize=256)
def _external(index: int, stream: int) -> Any:
    import cupy

    return cupy.cuda.ExternalStream(stream, index)
