"""The dtype table: what each dtype is to NumPy and to C++, and how dtypes combine.

A cukern dtype is the NumPy dtype object itself (``ck.float32 == np.dtype("float32")``);
bfloat16 is the one that the ml_dtypes package adds to NumPy.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

DType = np.dtype[Any]

bool_: DType = np.dtype(np.bool_)
int8: DType = np.dtype(np.int8)
int16: DType = np.dtype(np.int16)
int32: DType = np.dtype(np.int32)
int64: DType = np.dtype(np.int64)
uint8: DType = np.dtype(np.uint8)
uint16: DType = np.dtype(np.uint16)
uint32: DType = np.dtype(np.uint32)
uint64: DType = np.dtype(np.uint64)
float16: DType = np.dtype(np.float16)
bfloat16: DType = np.dtype(ml_dtypes.bfloat16)
float32: DType = np.dtype(np.float32)
float64: DType = np.dtype(np.float64)

default_float = float32
default_int = int64


@dataclass(frozen=True)
class Info:
    """One row of the dtype table.

    Attributes:
        name: the dtype's name, such as ``"float32"``.
        dtype: the NumPy dtype.
        cxx: the C++ type that stores one element.
        acc: the dtype that kernels compute and accumulate in.
        kind: ``"b"`` bool, ``"i"`` signed, ``"u"`` unsigned, ``"f"`` floating.
        itemsize: bytes of one element.
    """

    name: str
    dtype: DType
    cxx: str
    acc: DType
    kind: str

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize


def _row(dtype: DType, cxx: str, kind: str, acc: DType | None = None) -> Info:
    return Info("bool" if dtype == bool_ else dtype.name, dtype, cxx, dtype if acc is None else acc, kind)


TABLE: tuple[Info, ...] = (
    _row(bool_, "bool", "b"),
    _row(int8, "signed char", "i"),
    _row(int16, "short", "i"),
    _row(int32, "int", "i"),
    _row(int64, "long long", "i"),
    _row(uint8, "unsigned char", "u"),
    _row(uint16, "unsigned short", "u"),
    _row(uint32, "unsigned int", "u"),
    _row(uint64, "unsigned long long", "u"),
    _row(float16, "__half", "f", float32),
    _row(bfloat16, "__nv_bfloat16", "f", float32),
    _row(float32, "float", "f"),
    _row(float64, "double", "f"),
)
_BY_DTYPE = {row.dtype: row for row in TABLE}
_BY_CXX = {row.cxx: row for row in TABLE}

ALL: tuple[DType, ...] = tuple(row.dtype for row in TABLE)
FLOATS: tuple[DType, ...] = tuple(row.dtype for row in TABLE if row.kind == "f")
INTS: tuple[DType, ...] = tuple(row.dtype for row in TABLE if row.kind in "iu")
NUMERIC: tuple[DType, ...] = INTS + FLOATS


def info(dtype: DType) -> Info:
    """The table's row of ``dtype``, which :func:`as_dtype` has already accepted."""
    return _BY_DTYPE[dtype]


def from_cxx(cxx: str) -> DType | None:
    """The dtype that a C++ type of the table stores, or None."""
    row = _BY_CXX.get(cxx)
    return None if row is None else row.dtype


def as_dtype(obj: npt.DTypeLike | str, argument: str = "dtype") -> DType:
    """The cukern dtype that ``obj`` names.

    Args:
        obj: a dtype, a NumPy scalar type, a Python type, or a name such as ``"bfloat16"``.
        argument: the name of the argument, for the error.

    Raises:
        TypeError: ``obj`` names no dtype that cukern has.

    >>> as_dtype("bfloat16").itemsize
    2
    """
    if isinstance(obj, np.dtype) and obj in _BY_DTYPE:
        return _BY_DTYPE[obj].dtype
    if obj is None or isinstance(obj, np.ndarray):
        raise TypeError(f"{argument}: expected a dtype, got {type(obj).__name__}")
    if obj == "bfloat16":
        return bfloat16
    if obj is float:
        return default_float
    try:
        dtype = np.dtype(obj)
    except TypeError as error:
        hint = "; sizes of a shape go together, as in (3, 4)" if isinstance(obj, int) else ""
        raise TypeError(f"{argument}: {obj!r} is not a dtype{hint}") from error
    dtype = dtype.newbyteorder("=")
    if dtype not in _BY_DTYPE:
        have = ", ".join(row.name for row in TABLE)
        raise TypeError(f"{argument}: cukern has no dtype {dtype}; it has {have}")
    return _BY_DTYPE[dtype].dtype


@cache
def promote(a: DType, b: DType) -> DType:
    """The dtype of an operation on arrays of dtypes ``a`` and ``b``: NumPy's rule, with bfloat16's beside it.

    bfloat16 with an integer or bool stays bfloat16; with float16 it becomes float32.

    Source: NumPy's ``promote_types``, of which the Array API's promotion table is a part.
    """
    if a == b:
        return a
    if bfloat16 in (a, b):
        other = b if a == bfloat16 else a
        if other == float16:
            return float32
        return other if info(other).kind == "f" else bfloat16
    return as_dtype(np.promote_types(a, b))


def _with_scalar(dtype: DType, scalar: bool | int | float) -> DType:
    kind = info(dtype).kind
    if isinstance(scalar, bool) or (isinstance(scalar, int) and kind in "iuf"):
        return dtype
    if isinstance(scalar, int):
        return default_int
    return dtype if kind == "f" else float64 if kind in "iu" else default_float


def result_type(*operands: object) -> DType:
    """The dtype of an operation on ``operands``.

    Args:
        operands: arrays (anything with a ``dtype``), dtypes, and Python scalars. A Python scalar
            takes the arrays' dtype when its kind fits, as in NumPy 2.

    Raises:
        TypeError: an operand has no dtype of cukern.

    >>> result_type(float32, 2.5).name
    'float32'
    >>> result_type(int32, float32).name
    'float64'
    """
    strong: DType | None = None
    weak: list[bool | int | float] = []
    for operand in operands:
        if isinstance(operand, (bool, int, float)) and not isinstance(operand, np.generic):
            weak.append(operand)
            continue
        if isinstance(operand, complex):
            raise TypeError(f"operand: cukern has no complex numbers, got {operand!r}")
        named: Any = operand
        # The types of NumPy's scalars have an attribute of that name, which is no dtype.
        dtype = as_dtype(named if isinstance(named, type) else getattr(named, "dtype", named), "operand")
        strong = dtype if strong is None else promote(strong, dtype)
    if strong is None:
        if not weak:
            raise TypeError("result_type: expected at least one operand, got none")
        kinds = {type(scalar) for scalar in weak}
        return default_float if float in kinds else default_int if int in kinds else bool_
    for scalar in weak:
        strong = _with_scalar(strong, scalar)
    return strong
