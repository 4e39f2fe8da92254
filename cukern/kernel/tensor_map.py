"""Tensor maps: descriptors by which the hardware (TMA) copies tiles of an array in global memory."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import dtypes
from ..array import Array, Storage
from ..array.layout import address
from ..device.interface import Tiles
from ..errors import LaunchError

#: By bytes of an inner row of a box: the swizzle of its chunks of 16 bytes.
_SWIZZLES = (0, 32, 64, 128)


class TensorMap(bytes):
    """The descriptor of an array for a kernel's bulk copies of tiles: for ``const __grid_constant__ TensorMap``.

    ``prelude/tensor_map.cuh`` has the copies: ``copy_tile`` to shared memory, which fills what is out of the array's
    bounds with zeros, ``store_tile`` and ``add_tile`` from it, which leave that out. A map holds its array, and
    serves many launches. GPUs have them from compute capability 9.0 on.

    Args:
        array: 1 to 5 axes, none of them empty; contiguous along the last, the other strides multiples of 16 bytes, as
            is its address. Its dtype is an integer of 8 to 64 bits, unsigned if of 8 or 16, or of floats.
        box: the shape of a tile: 1 to 256 along each axis, and a multiple of 16 bytes along the last.
        swizzle: 32, 64 or 128 if a tile's rows along the last axis have so many bytes: their chunks of 16 bytes are
            permuted by higher bits of the address, so that a column is read without bank conflicts; 0 for no change.
        writes: whether kernels may store through the map.

    Attributes:
        array: as given.
        writes: as given.

    Raises:
        LaunchError: the array, the box or the swizzle is not of this kind.
        DeviceError: the array's GPU or driver has no tensor maps.

    Source: CUDA driver API, cuTensorMapEncodeTiled.

    >>> import cukern as ck
    >>> TensorMap(ck.zeros((100, 64), "float16"), box=(8, 64), swizzle=128)
    TensorMap(float16, shape (100, 64), box (8, 64), swizzle 128)
    """

    array: Array
    writes: bool
    _text: str
    _storage: Storage

    def __new__(cls, array: Array, box: Sequence[int], swizzle: int = 0, writes: bool = False) -> TensorMap:
        sizes, swizzle, writes = *_require(array, box, swizzle), bool(writes)
        data, row = array._data, dtypes.info(array.dtype)
        if writes and array._storage.constant:
            raise LaunchError("TensorMap: array is a constant that others share; store to a copy")
        strides = _strides(data)[:-1]
        tiles = Tiles(address(data), array.dtype, array.shape, strides, sizes, swizzle, writes)
        with array.device.activate():
            result = super().__new__(cls, array.device.backend.tensor_map(tiles))
        result.array, result.writes, result._storage = array, writes, array._storage
        result._text = f"TensorMap({row.name}, shape {array.shape}, box {sizes}, swizzle {swizzle})"
        return result

    def __repr__(self) -> str:
        return self._text

    def __copy__(self) -> TensorMap:
        return self

    def __deepcopy__(self, memo: object) -> TensorMap:
        return self

    def __reduce__(self) -> Any:
        raise TypeError(
            "a TensorMap holds an address and cannot be pickled; make one of the array that is loaded"
        )


def _strides(data: Any) -> tuple[int, ...]:
    """The strides of an ndarray in bytes; of an axis with one element some that does."""
    return tuple(int(step) if n > 1 else 16 for n, step in zip(data.shape, data.strides, strict=True))


def _require(array: Any, box: Any, swizzle: Any) -> tuple[tuple[int, ...], int]:
    """The sizes of the box, and the swizzle; raises unless all three fit."""
    if not isinstance(array, Array):
        raise LaunchError(f"TensorMap: array: expected an Array, got {type(array).__name__}")
    row = dtypes.info(array.dtype)
    if row.kind not in "uif" or (row.kind == "i" and row.itemsize < 4):
        raise LaunchError(
            f"TensorMap: array: expected floats, or integers, unsigned if of 8 or 16 bits, got {row.name}"
        )
    if not 1 <= array.ndim <= 5 or not array.size:
        raise LaunchError(f"TensorMap: array: expected 1 to 5 axes, none empty, got shape {array.shape}")
    *outer, inner = _strides(array._data)
    if (inner != row.itemsize and array.shape[-1] > 1) or any(step % 16 or step <= 0 for step in outer):
        raise LaunchError(
            "TensorMap: array: expected the last axis contiguous and strides of the others that are multiples of "
            f"16 bytes, got strides of {tuple(array._data.strides)} bytes"
        )
    if address(array._data) % 16:
        raise LaunchError("TensorMap: array: expected an address that is a multiple of 16 bytes")
    try:
        sizes = tuple(map(operator.index, box))
    except TypeError:
        raise LaunchError(f"TensorMap: box: expected a tuple of integers, got {box!r}") from None
    if len(sizes) != array.ndim or any(not 1 <= size <= 256 for size in sizes):
        raise LaunchError(f"TensorMap: box: expected {array.ndim} sizes in 1 to 256, got {box!r}")
    width = sizes[-1] * row.itemsize
    if width % 16:
        raise LaunchError(
            f"TensorMap: box: expected a last axis of a multiple of 16 bytes, got {width} bytes"
        )
    if not isinstance(swizzle, (int, np.integer)) or swizzle not in _SWIZZLES or swizzle not in (0, width):
        raise LaunchError(
            f"TensorMap: swizzle: expected 0, or the {width} bytes of the box's last axis if 32, 64 or 128, got "
            f"{swizzle!r}"
        )
    return sizes, int(swizzle)
