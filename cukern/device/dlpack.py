"""bfloat16 through DLPack on the host. NumPy's DLPack functions support only NumPy's own dtypes, so the elements pass
through them as integers of 16 bits, and the dtype is changed in the capsule, for both versions of the protocol."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import dtypes

#: DLDataType of bfloat16: code, bits and lanes of an element.
_BFLOAT16 = (4, 16, 1)
#: That of the integers in its place.
_BITS = (1, 16, 1)
#: The offset of the DLTensor in a DLManagedTensor, and in a DLManagedTensorVersioned, after its version, context,
#: deleter and flags. Source: dlpack.h, version 1.1.
_OFFSETS = {b"dltensor": 0, b"dltensor_versioned": 32}
#: In a DLTensor, which begins with the address: the dtype, and the bytes from the address to the first element.
_DTYPE, _SKIPPED = 20, 40

_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi)
)
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


class _DataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


def _tensor_in(capsule: Any) -> int:
    """The address of the DLTensor in a capsule that is not consumed."""
    for name, offset in _OFFSETS.items():
        if _is_valid(capsule, name):
            return int(_pointer(capsule, name)) + offset
    raise BufferError(f"__dlpack__: expected a DLPack capsule that is not consumed, got {capsule!r}")


def _dtype_of(capsule: Any) -> _DataType:
    """The dtype in a capsule that is not consumed."""
    return _DataType.from_address(_tensor_in(capsule) + _DTYPE)


def address(capsule: Any) -> int:
    """The address of the first element in a capsule that is not consumed."""
    tensor = _tensor_in(capsule)
    start, skipped = (ctypes.c_uint64.from_address(tensor + at).value for at in (0, _SKIPPED))
    return start + skipped


def exported(data: npt.NDArray[Any], **options: Any) -> Any:
    """``data.__dlpack__(**options)`` for an array of any dtype of cukern.

    Raises:
        BufferError: the memory cannot be shared this way.
    """
    if data.dtype != dtypes.bfloat16:
        return data.__dlpack__(**options)
    capsule = data.view(np.uint16).__dlpack__(**options)
    dtype = _dtype_of(capsule)
    dtype.code, dtype.bits, dtype.lanes = _BFLOAT16
    return capsule


class _Bits:
    """Wraps an exporter so that its bfloat16 data is exported as integers of 16 bits."""

    def __init__(self, source: Any) -> None:
        self.source, self.is_bfloat16 = source, False

    def __dlpack_device__(self) -> Any:
        return self.source.__dlpack_device__()

    def __dlpack__(self, **options: Any) -> Any:
        capsule = self.source.__dlpack__(**options)
        dtype = _dtype_of(capsule)
        self.is_bfloat16 = (dtype.code, dtype.bits, dtype.lanes) == _BFLOAT16
        if self.is_bfloat16:
            dtype.code, dtype.bits, dtype.lanes = _BITS
        return capsule


def imported(source: Any) -> npt.NDArray[Any]:
    """``numpy.from_dlpack(source)`` for an array of any dtype of cukern."""
    bits = _Bits(source)
    data: npt.NDArray[Any] = np.from_dlpack(bits)
    return data.view(dtypes.bfloat16) if bits.is_bfloat16 else data
