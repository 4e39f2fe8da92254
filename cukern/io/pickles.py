"""A restricted unpickler for pickles of one NumPy array: it runs nothing that they name, and trusts no size in them.

Python's unpickler allocates whatever a pickle states: nine bytes can ask for 16 GiB. So only the instructions of
NumPy's pickles are allowed, with sizes that the file holds, and the functions that they call are of this module.
"""

from __future__ import annotations

import io
import math
import pickle
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import dtypes

#: NumPy's limit of an array's axes.
_MOST_AXES = 64
#: Characters of a dtype's name, such as ``"<f4"``.
_LONGEST_NAME = 16
_BFLOAT16 = dtypes.bfloat16.type
#: Instructions with an index of the unpickler's memo, which is allocated up to it.
_MEMO = {"BINPUT", "LONG_BINPUT"}
_ALLOWED = _MEMO | set(
    "PROTO FRAME STOP MEMOIZE BINGET LONG_BINGET GLOBAL STACK_GLOBAL REDUCE BUILD MARK POP POP_MARK NONE NEWTRUE"
    " NEWFALSE BININT BININT1 BININT2 LONG1 LONG4 SHORT_BINUNICODE BINUNICODE BINUNICODE8 SHORT_BINBYTES BINBYTES"
    " BINBYTES8 BYTEARRAY8 SHORT_BINSTRING BINSTRING EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3".split()
)


def unpickled(data: bytes) -> tuple[npt.NDArray[Any], int]:
    """The array that a pickle describes, and the number of bytes that the pickle takes.

    Raises:
        ValueError: it is no pickle of an array, or states another size than its elements have.
    """
    length = _checked(data)
    try:
        result = _Arrays(io.BytesIO(data[:length])).load()
    except Exception as error:  # whatever wrong operands make an instruction raise
        raise ValueError(f"expected a pickle of an array: {error}") from None
    if not isinstance(result, _Array) or result.values is None:
        what = "an array without elements" if isinstance(result, _Array) else type(result).__name__
        raise ValueError(f"expected a pickle of an array, got one of {what}")
    return result.values, length


def _checked(data: bytes) -> int:
    """The length of a pickle whose instructions are all known, and whose sizes are within the file."""
    import pickletools

    steps = pickletools.genops(data)  # which reads no more than there is
    for count, (instruction, argument, at) in enumerate(steps):
        if instruction.name not in _ALLOWED:
            raise ValueError(
                f"expected a pickle of an array: it has the instruction {instruction.name} at {at}"
            )
        if instruction.name in _MEMO and (argument is None or argument > count):
            raise ValueError(
                f"expected a pickle of an array: {instruction.name} at {at} has the index {argument}"
            )
        if instruction.name == "STOP":
            return at + 1 if at is not None else len(data)
    raise ValueError("expected a pickle of an array: it does not end")


@dataclass
class _Array:
    """An array in a pickle, whose elements come as its state."""

    values: npt.NDArray[Any] | None = None

    def __setstate__(self, state: Any) -> None:
        _, shape, kind, in_columns, data = state
        self.values = _shaped(data, kind, shape, in_columns is True)


@dataclass
class _Kind:
    """A dtype in a pickle, whose byte order comes as its state."""

    dtype: np.dtype[Any]

    def __setstate__(self, state: Any) -> None:
        order, parts = state[1], state[2:5]
        if any(part is not None for part in parts):
            raise ValueError("a dtype has fields or axes")
        if order not in ("<", ">", "=", "|"):
            raise ValueError(f"a dtype's byte order is {order!r:.20}")
        self.dtype = self.dtype.newbyteorder(order)


def _dtype(kind: Any, align: Any = False, copy: Any = False) -> _Kind:
    if kind is not _BFLOAT16 and not (isinstance(kind, str) and len(kind) <= _LONGEST_NAME):
        raise ValueError("a dtype is neither a name nor bfloat16")
    dtype = np.dtype(kind)
    if dtype.hasobject:
        raise ValueError("it holds Python objects")
    if dtype.names is not None or dtype.subdtype is not None:
        raise ValueError("a dtype has fields or axes")
    return _Kind(dtype)


def _reconstruct(kind: Any, shape: Any, code: Any) -> _Array:
    if kind is not _NDARRAY:
        raise ValueError("an array is of another class than numpy.ndarray")
    return _Array()


def _frombuffer(data: Any, kind: Any, shape: Any, order: Any, axes: Any = None) -> _Array:
    values = _shaped(data, kind, shape, order == "F")
    return _Array(values if axes is None else values.transpose(axes))


def _shaped(data: Any, kind: Any, shape: Any, in_columns: bool) -> npt.NDArray[Any]:
    if not isinstance(data, (bytes, bytearray)) or not isinstance(kind, _Kind):
        raise ValueError("an array has no bytes or no dtype")
    if (
        not isinstance(shape, tuple)
        or len(shape) > _MOST_AXES
        or any(type(n) is not int or n < 0 for n in shape)
    ):
        raise ValueError("an array's shape is no tuple of sizes")
    dtype = kind.dtype
    if (taken := math.prod(shape) * dtype.itemsize) != len(data):
        raise ValueError(f"shape {shape} of {dtype} takes {taken} bytes, and {len(data)} are there")
    if not dtype.itemsize:
        raise ValueError(f"an array is of {dtype}, whose elements have no bytes")
    return np.frombuffer(data, dtype).reshape(shape, order="F" if in_columns else "C")


def _encode(text: Any, encoding: Any) -> bytes:
    """The bytes that protocols before 3 write as a text."""
    if not isinstance(text, str) or encoding != "latin1":
        raise ValueError("bytes are written as something else than a text")
    return text.encode("latin1")


def _no_bytes() -> bytes:
    """The call that protocols before 3 write for empty bytes."""
    return b""


#: Stands for ``numpy.ndarray``, which nothing may call.
_NDARRAY = object()
_NUMPY = {"_reconstruct": _reconstruct, "_frombuffer": _frombuffer, "ndarray": _NDARRAY, "dtype": _dtype}
_OTHERS = {
    ("ml_dtypes", "bfloat16"): _BFLOAT16,
    ("_codecs", "encode"): _encode,
    ("__builtin__", "bytes"): _no_bytes,
}


class _Arrays(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        known = _NUMPY.get(name) if module.split(".")[0] == "numpy" else _OTHERS.get((module, name))
        if known is None:
            raise pickle.UnpicklingError(f"it names {module}.{name}, and only NumPy's arrays are read")
        return known
