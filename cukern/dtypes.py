"""The dtype table: what each dtype is to NumPy and to C++, and how dtypes combine.

A cukern dtype is the NumPy dtype itself (``x.dtype``); a public name such as ``ck.float32`` can be called as well.
bfloat16 is the dtype that the ml_dtypes package adds to NumPy.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property, reduce
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
complex64: DType = np.dtype(np.complex64)
complex128: DType = np.dtype(np.complex128)

default_int = int64


@dataclass(frozen=True)
class Info:
    """One row of the dtype table.

    Attributes:
        dtype: the NumPy dtype.
        cxx: the C++ type that stores one element.
        acc: the dtype that kernels compute and accumulate in.
        kind: ``"b"`` bool, ``"i"`` signed, ``"u"`` unsigned, ``"f"`` floating, ``"c"`` complex.
        format: the :mod:`struct` code that packs a scalar, or the bits of a scalar of an ``extension``, or the bytes of
            a complex one.
        safetensors: the dtype's name in safetensors files; empty if they have none.
        aliases: further C++ names of ``cxx``.
        pairs: the C++ names of CUDA's two-element vector type.
        blas: CUDA's cudaDataType; -1 if cuBLAS does not multiply the dtype.
    """

    dtype: DType
    cxx: str
    kind: str
    acc: DType
    format: str
    safetensors: str
    aliases: tuple[str, ...] = ()
    pairs: tuple[str, ...] = ()
    blas: int = -1

    @cached_property
    def name(self) -> str:
        """The dtype's name, such as ``"float32"``."""
        return "bool" if self.kind == "b" else self.dtype.name

    @cached_property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    @cached_property
    def narrow(self) -> bool:
        """Whether kernels compute in a wider dtype than they store."""
        return self.acc != self.dtype

    @cached_property
    def extension(self) -> bool:
        """Whether ml_dtypes adds the dtype to NumPy."""
        return self.dtype.isbuiltin != 1

    @cached_property
    def bits(self) -> DType:
        """The unsigned integer dtype of the same size; complex128 itself, than which no integer is as large."""
        return self.dtype if self.itemsize > 8 else np.dtype(f"u{self.itemsize}")

    @cached_property
    def real(self) -> DType:
        """The dtype of a complex dtype's parts; other dtypes themselves."""
        return np.dtype(f"f{self.itemsize // 2}") if self.kind == "c" else self.dtype

    def as_bytes(self, value: complex) -> bytes:
        """The bytes of a scalar of a complex dtype, infinite where it is too large."""
        most = self._surely_finite
        if abs(value.real) < most and abs(value.imag) < most:
            return np.array(value, self.dtype).tobytes()
        with np.errstate(over="ignore"):
            return np.array(value).astype(self.dtype).tobytes()

    @cached_property
    def _surely_finite(self) -> float:
        """A number below which the parts of a scalar of a complex dtype do not overflow."""
        return float(np.finfo(self.real).max)

    @cached_property
    def infinity(self) -> int:
        """The bits of a float's infinity, above which all bits are NaN; 0 for other dtypes."""
        return int(np.array(np.inf, self.dtype).view(self.bits)) if self.kind == "f" else 0

    @cached_property
    def digits(self) -> int:
        """Binary digits of a float's significand, including the leading one; 0 for other dtypes."""
        return int(ml_dtypes.finfo(self.dtype).nmant) + 1 if self.kind == "f" else 0  # type: ignore[no-untyped-call]


_HALF = (("half",), ("__half2", "half2"))
_BFLOAT16 = (("nv_bfloat16",), ("__nv_bfloat162", "nv_bfloat162"))

TABLE: tuple[Info, ...] = (
    Info(bool_, "bool", "b", bool_, "?", "BOOL"),
    Info(int8, "signed char", "i", int8, "b", "I8"),
    Info(int16, "short", "i", int16, "h", "I16"),
    Info(int32, "int", "i", int32, "i", "I32"),
    Info(int64, "long long", "i", int64, "q", "I64"),
    Info(uint8, "unsigned char", "u", uint8, "B", "U8"),
    Info(uint16, "unsigned short", "u", uint16, "H", "U16"),
    Info(uint32, "unsigned int", "u", uint32, "I", "U32"),
    Info(uint64, "unsigned long long", "u", uint64, "Q", "U64"),
    Info(float16, "__half", "f", float32, "e", "F16", *_HALF, blas=2),
    Info(bfloat16, "__nv_bfloat16", "f", float32, "H", "BF16", *_BFLOAT16, blas=14),
    Info(float32, "float", "f", float32, "f", "F32", blas=0),
    Info(float64, "double", "f", float64, "d", "F64", blas=1),
    Info(complex64, "complex<float>", "c", complex64, "8s", "C64"),
    Info(complex128, "complex<double>", "c", complex128, "16s", ""),
)
_BY_DTYPE = {row.dtype: row for row in TABLE}
#: The types of dtypes, to which :mod:`.array.scalar_types` adds the public ones'.
TYPES: set[type] = {type(row.dtype) for row in TABLE}
_BY_CXX = {row.cxx: row for row in TABLE}

ALL: tuple[DType, ...] = tuple(row.dtype for row in TABLE)
FLOATS: tuple[DType, ...] = tuple(row.dtype for row in TABLE if row.kind == "f")
INTS: tuple[DType, ...] = tuple(row.dtype for row in TABLE if row.kind in "iu")
COMPLEX: tuple[DType, ...] = tuple(row.dtype for row in TABLE if row.kind == "c")
#: The dtypes that have derivatives.
INEXACT: tuple[DType, ...] = FLOATS + COMPLEX
NUMERIC: tuple[DType, ...] = INTS + INEXACT
#: Floats that kernels compute in a wider dtype: float16 and bfloat16.
NARROW: tuple[DType, ...] = tuple(row.dtype for row in TABLE if row.narrow)


def info(dtype: DType) -> Info:
    """The table's row of ``dtype``, a dtype that :func:`as_dtype` accepts."""
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
        TypeError: ``obj`` does not name a dtype of cukern.

    >>> as_dtype("bfloat16").itemsize
    2
    """
    given: Any = obj
    if type(given) in TYPES or isinstance(given, np.dtype):
        # A public dtype holds NumPy's, which is looked up faster.
        row = _BY_DTYPE.get(getattr(given, "dtype", given))
        if row is not None:
            return row.dtype
    if obj is None or isinstance(obj, np.ndarray):
        raise TypeError(f"{argument}: expected a dtype, got {type(obj).__name__}")
    if isinstance(obj, str) and obj == "bfloat16":
        return bfloat16
    if obj is float or (isinstance(obj, str) and obj == "float"):
        return get_default_dtype()
    if obj is complex or (isinstance(obj, str) and obj == "complex"):
        return get_default_complex()
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


class _Local(threading.local):
    default: DType | None = None
    standing: Mapping[DType, DType] | None = None


_local = _Local()
_of_process = float32
#: How many blocks of :func:`standing` are open in all threads.
stand_ins = 0


def as_named(obj: npt.DTypeLike | str) -> DType:
    """:func:`as_dtype` of what the caller of a public function names, or the dtype that stands for it.

    Only a direct caller of that function counts that is not a part of cukern.
    """
    found = as_dtype(obj)
    if stand_ins and _local.standing is not None:
        caller = sys._getframe(2).f_globals.get("__name__", "")
        if caller.partition(".")[0] != "cukern":
            return _local.standing.get(found, found)
    return found


@contextmanager
def standing(wider: Mapping[DType, DType]) -> Iterator[None]:
    """Let dtypes stand for others where a user's function names these, in this thread, within the block."""
    global stand_ins
    before, _local.standing = _local.standing, wider
    stand_ins += 1
    try:
        yield
    finally:
        stand_ins -= 1
        _local.standing = before


def get_default_dtype() -> DType:
    """The default floating dtype: that of :func:`default_dtype`'s block in this thread, else the process's.

    >>> get_default_dtype().name
    'float32'
    """
    chosen = _local.default
    return _of_process if chosen is None else chosen


def complex_of(dtype: DType) -> DType:
    """The complex dtype whose parts hold the values of a floating ``dtype``; a complex dtype itself."""
    if info(dtype).kind == "c":
        return dtype
    return complex128 if dtype == float64 else complex64


def get_default_complex() -> DType:
    """The complex dtype of the default floating dtype's precision."""
    return complex_of(get_default_dtype())


def floating(dtype: npt.DTypeLike | str | None, argument: str = "dtype") -> DType:
    """The floating dtype that an argument of this name gives; the default one for None.

    Raises:
        TypeError: it is another dtype, or none.
    """
    chosen = get_default_dtype() if dtype is None else as_dtype(dtype)
    if info(chosen).kind != "f":
        raise TypeError(f"{argument}: expected a floating dtype, got {chosen}")
    return chosen


def set_default_dtype(dtype: npt.DTypeLike | str) -> None:
    """Make ``dtype`` the default floating dtype of the process, for all its threads; initially it is float32.

    The default applies to arrays of Python floats, to ``dtype=float`` and ``dtype="float"``, to quotients of
    integers, and to other functions of integers whose result is float64 in NumPy: ``exp``, ``mean``, ``median``,
    ``linalg.inv``. It does not change the dtype of existing arrays.

    Args:
        dtype: float16, bfloat16, float32 or float64.

    Raises:
        TypeError: ``dtype`` is none of these.
    """
    global _of_process
    _of_process = floating(as_dtype(dtype))


@contextmanager
def default_dtype(dtype: npt.DTypeLike | str) -> Iterator[DType]:
    """Make ``dtype`` the default floating dtype within the block, in this thread; see :func:`set_default_dtype`.

    >>> import cukern as ck
    >>> with ck.default_dtype(ck.float64):
    ...     (ck.arange(3) / 3).dtype.name
    'float64'
    """
    before, _local.default = _local.default, floating(as_dtype(dtype))
    try:
        yield _local.default
    finally:
        _local.default = before


def of_integers(dtype: DType) -> DType:
    """The floating dtype of a function of integers whose result NumPy gives ``dtype``: at most the default one."""
    default = get_default_dtype()
    return dtype if dtype.itemsize < default.itemsize else default


def inexact_of(*operands: object) -> DType:
    """The :func:`result_type` if that is floating or complex; the default floating dtype for integers and bool."""
    dtype = result_type(*operands)
    return dtype if dtype in INEXACT else get_default_dtype()


def float_of(*operands: object) -> DType:
    """The :func:`result_type` as a floating dtype: the default one for integers and bool.

    Raises:
        TypeError: it is complex.
    """
    dtype = inexact_of(*operands)
    if dtype in COMPLEX:
        raise TypeError(
            f"expected real numbers, got {dtype}: take cukern.real, cukern.imag or cukern.abs of them"
        )
    return dtype


def refuse_real(name: str, dtype: DType, wanted: DType) -> None:
    """Refuse a conversion that would drop imaginary parts.

    Raises:
        TypeError: ``dtype`` is complex, and ``wanted`` neither complex nor bool.
    """
    if dtype in COMPLEX and wanted not in (bool_, *COMPLEX):
        raise TypeError(
            f"{name}: {info(dtype).name} to {info(wanted).name} would drop the imaginary part: "
            "take cukern.real(x) or cukern.abs(x)"
        )


def promote(a: DType, b: DType) -> DType:
    """The dtype of an operation on arrays of dtypes ``a`` and ``b``.

    If only one is floating or complex, the result is that one. Otherwise it is NumPy's ``promote_types``, which extends
    the Array API's promotion table, except that uint64 with signed integers gives the default floating dtype and
    bfloat16 with float16 gives float32.
    """
    if a == b:
        return a
    floating = a in INEXACT, b in INEXACT
    if floating[0] != floating[1]:
        return a if floating[0] else b
    joined = _numpy_promote(a, b)
    return joined if floating[0] or joined not in INEXACT else get_default_dtype()


@cache
def _numpy_promote(a: DType, b: DType) -> DType:
    """NumPy's ``promote_types``; bfloat16 with integers stays bfloat16, and with float16 becomes float32."""
    if a == b:
        return a
    if bfloat16 in (a, b):
        other = b if a == bfloat16 else a
        if other == float16:
            return float32
        return other if other in INEXACT else bfloat16
    return as_dtype(np.promote_types(a, b))


def _sorted_out(operands: tuple[object, ...]) -> tuple[list[DType], list[bool | int | float | complex]]:
    """Split operands into dtypes and Python numbers."""
    strong: list[DType] = []
    weak: list[bool | int | float | complex] = []
    for operand in operands:
        if isinstance(operand, (bool, int, float, complex)) and not isinstance(operand, np.generic):
            weak.append(operand)
            continue
        named: Any = operand
        # NumPy's scalar types have a ``dtype`` attribute that is not a dtype.
        strong.append(
            as_dtype(named if isinstance(named, type) else getattr(named, "dtype", named), "operand")
        )
    return strong, weak


def _beside_scalars(dtype: DType, weak: list[bool | int | float | complex], of_floats: DType) -> DType:
    """The dtype of an array of ``dtype`` with Python numbers; ``of_floats`` for integers with a float."""
    for scalar in weak:
        if isinstance(scalar, complex):
            dtype = complex_of(dtype if dtype in INEXACT else of_floats)
        elif not (isinstance(scalar, bool) or dtype in INEXACT):
            integer = isinstance(scalar, int)
            dtype = dtype if integer and info(dtype).kind in "iu" else default_int if integer else of_floats
    return dtype


def result_type(*operands: object) -> DType:
    """The dtype of an operation on ``operands``.

    Args:
        operands: arrays (anything with a ``dtype``), dtypes, and Python scalars. A floating dtype wins over integers
            and bool, and complex ones over both. A Python scalar takes the arrays' dtype if its kind fits, as in
            NumPy 2; a Python float with integer arrays has the default floating dtype. A Python complex number with
            floating arrays has the complex dtype of their precision.

    Raises:
        TypeError: an operand has a dtype that cukern lacks, or there is no operand.

    >>> result_type(float32, 2.5).name
    'float32'
    >>> result_type(int32, float16).name
    'float16'
    >>> result_type(float32, 2j).name, result_type(complex64, float64).name
    ('complex64', 'complex128')
    """
    strong, weak = _sorted_out(operands)
    if strong:
        floats = [dtype for dtype in strong if dtype in INEXACT]
        return _beside_scalars(reduce(promote, floats or strong), weak, get_default_dtype())
    if not weak:
        raise TypeError("result_type: expected at least one operand, got none")
    kinds = {type(scalar) for scalar in weak}
    if complex in kinds:
        return get_default_complex()
    return get_default_dtype() if float in kinds else default_int if int in kinds else bool_


def comparable(*operands: object) -> DType:
    """The dtype in which operands are compared: NumPy's, whatever the default dtype is.

    An int32 and a float32 are compared in float64, which holds both exactly; :func:`result_type` is float32.
    """
    strong, weak = _sorted_out(operands)
    if not strong:
        return result_type(*weak)
    return _beside_scalars(reduce(_numpy_promote, strong), weak, float64)
