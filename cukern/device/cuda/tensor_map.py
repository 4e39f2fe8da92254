"""Tensor maps of GPUs, encoded by CUDA's driver (cuTensorMapEncodeTiled)."""

from __future__ import annotations

import ctypes

from ... import dtypes
from ...errors import DeviceError
from ..interface import Tiles
from .driver import library

#: CUtensorMapDataType, by the name of the dtype.
_TYPES = {
    name: number
    for number, name in enumerate(
        "uint8 uint16 uint32 int32 uint64 int64 float16 float32 float64 bfloat16".split()
    )
}
#: CUtensorMapSwizzle, by bytes.
_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
#: CUtensorMapL2promotion, by bytes.
_PROMOTIONS = {128: 2, 256: 3}
#: CUtensorMapInterleave.
_NO_INTERLEAVE = 0
#: CUtensorMapFloatOOBfill.
_ZEROS = 0


def tensor_map(tiles: Tiles) -> bytes:
    """The tensor map of an array; see :class:`..interface.Backend`.

    Raises:
        DeviceError: the driver or its GPU does not take it.
    """
    size, axes = 128, len(tiles.shape)
    room = (ctypes.c_char * (2 * size))()
    begin = -ctypes.addressof(room) % 64  # the driver wants 64 bytes of alignment
    counts, words = ctypes.c_uint64 * 5, ctypes.c_uint32 * 5
    try:
        encode = library().cuTensorMapEncodeTiled
    except (OSError, AttributeError):
        raise DeviceError("TensorMap: the driver has no tensor maps, which came with CUDA 12.0") from None
    status = encode(
        ctypes.c_void_p(ctypes.addressof(room) + begin),
        _TYPES[dtypes.info(tiles.dtype).name],
        ctypes.c_uint32(axes),
        ctypes.c_void_p(tiles.address),
        counts(*reversed(tiles.shape)),
        counts(*reversed(tiles.strides)),
        words(*reversed(tiles.box)),
        words(*[1] * axes),
        _NO_INTERLEAVE,
        _SWIZZLES[tiles.swizzle],
        _PROMOTIONS[tiles.fetched],
        _ZEROS,
    )
    if status:
        raise DeviceError(f"TensorMap: cuTensorMapEncodeTiled refuses {tiles}: CUDA error {status}")
    return room.raw[begin : begin + size]
