"""Information about dtypes, shapes, memory and the namespace."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import ml_dtypes
import numpy as np

from .. import dtypes
from ..array import Array
from ..array.creation import asarray, device_of
from ..array.operators import is_foreign
from ..device import Device, current, devices
from ..dtypes import DType
from ..elementwise.operands import normalize_axes
from ..elementwise.ufunc import Casting, checked_casting
from ..elementwise.ufunc import can_cast as castable
from ..kernel.strides import broadcast_shapes as _broadcast_shapes

__all__ = [
    "broadcast_shapes",
    "can_cast",
    "e",
    "finfo",
    "iinfo",
    "inf",
    "iscomplexobj",
    "isdtype",
    "isfortran",
    "isrealobj",
    "isscalar",
    "issubdtype",
    "may_share_memory",
    "nan",
    "ndim",
    "newaxis",
    "pi",
    "promote_types",
    "shape",
    "shares_memory",
    "size",
]

__array_api_version__ = "2025.12"

e, inf, nan, pi = math.e, math.inf, math.nan, math.pi
newaxis = None

#: The Array API's kinds of dtype, as kinds of the table.
_KINDS = {
    "bool": "b",
    "signed integer": "i",
    "unsigned integer": "u",
    "integral": "iu",
    "real floating": "f",
    "complex floating": "c",
    "numeric": "iufc",
}


@dataclass(frozen=True)
class FloatInfo:
    """The limits of a floating dtype.

    Attributes:
        bits: the number of bits.
        eps: the distance from 1 to the next number.
        max: the largest number.
        min: the smallest number, ``-max``.
        smallest_normal: the smallest positive number with full precision.
        dtype: the dtype.
        smallest_subnormal: the smallest positive number.
        epsneg: the distance from 1 to the number before it.
        resolution: ``10**-precision``.
        precision: the number of decimal digits that are kept.
        nmant: the bits of the mantissa.
        iexp: the bits of the exponent.
        nexp: the same with that of the sign.
        machep: the exponent of ``eps``.
        negep: the exponent of ``epsneg``.
        minexp: the exponent of ``smallest_normal``.
        maxexp: the smallest power of 2 that overflows.
    """

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType
    smallest_subnormal: float
    epsneg: float
    resolution: float
    precision: int
    nmant: int
    iexp: int
    nexp: int
    machep: int
    negep: int
    minexp: int
    maxexp: int

    @property
    def tiny(self) -> float:
        """Another name of ``smallest_normal``."""
        return self.smallest_normal


_FLOAT_FIELDS = [one.name for one in fields(FloatInfo) if one.name not in ("bits", "dtype")]


@dataclass(frozen=True)
class IntegerInfo:
    """The limits of an integer dtype: its bits, its largest and its smallest number."""

    bits: int
    max: int
    min: int
    dtype: DType


def _dtype_of(value: Any, argument: str) -> DType:
    held = isinstance(value, (Array, np.ndarray, np.generic))
    return (
        value.dtype if isinstance(value, Array) else dtypes.as_dtype(value.dtype if held else value, argument)
    )


def finfo(type: Any, /) -> FloatInfo:
    """The limits of a floating dtype, or of the dtype of an array.

    Raises:
        ValueError: the dtype is not floating.

    >>> finfo("float32").bits
    32
    """
    dtype = _dtype_of(type, "type")
    dtype = dtypes.info(dtype).real
    if dtypes.info(dtype).kind != "f":
        raise ValueError(f"finfo: type: expected a floating or complex dtype, got {dtype}")
    numbers: Any = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    kinds = {one.name: float if one.type == "float" else int for one in fields(FloatInfo)}
    limits: dict[str, Any] = {name: kinds[name](getattr(numbers, name)) for name in _FLOAT_FIELDS}
    return FloatInfo(bits=8 * dtype.itemsize, dtype=dtype, **limits)


def iinfo(type: Any, /) -> IntegerInfo:
    """The limits of an integer dtype, or of the dtype of an array.

    Raises:
        ValueError: the dtype is not an integer dtype.
    """
    dtype = _dtype_of(type, "type")
    if dtypes.info(dtype).kind not in "iu":
        raise ValueError(f"iinfo: type: expected an integer dtype, got {dtype}")
    limits = np.iinfo(dtype)
    return IntegerInfo(limits.bits, int(limits.max), int(limits.min), dtype)


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether a dtype is of a kind.

    Args:
        dtype: a dtype.
        kind: a dtype, a kind of the Array API such as ``"real floating"``, or a tuple of these.

    Raises:
        ValueError: there is no such kind.

    >>> isdtype("float32", "real floating"), isdtype("int8", ("bool", "unsigned integer"))
    (True, False)
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, one) for one in kind)
    mine = dtypes.as_dtype(dtype)
    if isinstance(kind, str) and kind in _KINDS:
        return dtypes.info(mine).kind in tuple(_KINDS[kind])
    if isinstance(kind, str):
        raise ValueError(f"isdtype: kind: expected a dtype or one of {', '.join(_KINDS)}, got {kind!r}")
    return mine == dtypes.as_dtype(kind, "kind")


def promote_types(type1: Any, type2: Any, /) -> DType:
    """The dtype of an operation on arrays of two dtypes.

    >>> promote_types("int16", "uint16").name
    'int32'
    """
    return dtypes.promote(dtypes.as_dtype(type1, "type1"), dtypes.as_dtype(type2, "type2"))


def can_cast(from_: Any, to: Any, casting: Casting = "safe") -> bool:
    """Whether a dtype, or that of an array, can be cast to another.

    Args:
        from_: a dtype or an array.
        to: a dtype.
        casting: ``"safe"``: promotion turns the one into the other, such as int64 into float32; or another of NumPy's
            names: ``"no"``, ``"equiv"``, ``"same_kind"``, ``"unsafe"``.

    Raises:
        TypeError: ``from_`` is a Python number, which has no dtype.
        ValueError: there is no such ``casting``.

    >>> can_cast("int8", "int16"), can_cast("float64", "float32"), can_cast("float64", "float32", "same_kind")
    (True, False, True)
    """
    if type(from_) in (bool, int, float, complex):
        raise TypeError(f"can_cast: from_: expected a dtype or an array, got {from_!r}")
    checked_casting("can_cast", casting)
    source, target = _dtype_of(from_, "from_"), dtypes.as_dtype(to, "to")
    safe = dtypes.promote(source, target) == target
    return safe if casting == "safe" else castable(source, target, casting)


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape to which shapes broadcast.

    Raises:
        ValueError: they do not broadcast.

    >>> broadcast_shapes((2, 1), (3,))
    (2, 3)
    """
    given = [
        shape if isinstance(shape, tuple) else tuple(shape) if isinstance(shape, Sequence) else (shape,)
        for shape in shapes
    ]
    return _broadcast_shapes("broadcast_shapes", given) if given else ()


def shape(x: Any, /) -> tuple[int, ...]:
    """The shape of an array, or of a value converted to one."""
    return tuple(x.shape) if hasattr(x, "shape") else np.shape(x)


def ndim(x: Any, /) -> int:
    """The number of axes of an array, or of a value converted to one."""
    return len(shape(x))


def size(x: Any, /, axis: int | Sequence[int] | None = None) -> int:
    """The number of elements of an array, or along one or several of its axes.

    Raises:
        AxisError: there is no such axis.
    """
    sizes = shape(x)
    return math.prod(sizes[i] for i in normalize_axes(axis, len(sizes), "size"))


def isscalar(element: Any) -> bool:
    """Whether ``element`` is a Python or NumPy number or string; 0-d arrays are not scalars.

    >>> import cukern as ck
    >>> isscalar(3.0), isscalar(ck.asarray(3.0))
    (True, False)
    """
    return bool(np.isscalar(element))


def may_share_memory(x: Any, y: Any, /) -> bool:
    """Whether the address ranges of two arrays overlap; fast, and true for some arrays that share no element.

    Args:
        x: an array of cukern or of another library.
        y: likewise.

    Raises:
        TypeError: an argument is not an array.
    """
    return _overlap("may_share_memory", x, y)


def shares_memory(x: Any, y: Any, /) -> bool:
    """Whether two arrays share an element, as a view and its base do. See :func:`may_share_memory`.

    >>> import cukern as ck
    >>> x = ck.zeros(4)
    >>> shares_memory(x, x[1:]), shares_memory(x[::2], x[1::2])
    (True, False)
    """
    return _overlap("shares_memory", x, y)


def _overlap(name: str, x: Any, y: Any) -> bool:
    """The result of the function ``name`` of the arrays' library; False for arrays on two devices."""
    arrays = []
    for argument, value in (("x", x), ("y", y)):
        # NumPy reads other libraries' arrays in place; numbers and lists have no memory to share.
        if not isinstance(value, (Array, np.ndarray)) and not is_foreign(value):
            raise TypeError(f"{name}: {argument}: expected an array, got {type(value).__name__}")
        arrays.append(value if isinstance(value, (Array, np.ndarray)) else asarray(value))
    first, second = arrays
    device = device_of(arrays)
    if device is None:
        return bool(getattr(np, name)(first, second))
    homes = [array.device if isinstance(array, Array) else Device("host") for array in arrays]
    if homes[0] is not homes[1]:
        return False
    with device.activate():
        datas = [array._data if isinstance(array, Array) else array for array in arrays]
        return bool(getattr(device.xp, name)(*datas))


class NamespaceInfo:
    """The inspection API of the Array API standard, version 2025.12."""

    def capabilities(self) -> dict[str, bool | int | None]:
        """Boolean indices and data-dependent shapes are supported; arrays have at most 64 axes."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> Device:
        """The device on which arrays are made by default."""
        return current()

    def default_dtypes(self, *, device: Device | str | None = None) -> dict[str, DType]:
        """The dtypes of Python numbers, and of indices."""
        return {
            "real floating": dtypes.get_default_dtype(),
            "complex floating": dtypes.get_default_complex(),
            "integral": dtypes.default_int,
            "indexing": dtypes.default_int,
        }

    def dtypes(
        self, *, device: Device | str | None = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, DType]:
        """The standard's dtypes by name, all or those of a kind; half types are not part of the standard."""
        if device is not None:
            Device(device)
        standard = [d for d in dtypes.ALL if d not in dtypes.NARROW]
        return {dtypes.info(d).name: d for d in standard if kind is None or isdtype(d, kind)}

    def devices(self) -> tuple[Device, ...]:
        """All devices."""
        return tuple(devices())


def __array_namespace_info__() -> NamespaceInfo:
    """The inspection API of the namespace.

    >>> sorted(__array_namespace_info__().dtypes(kind="real floating"))
    ['float32', 'float64']
    """
    return NamespaceInfo()


def _held(x: Any) -> DType:
    return dtypes.as_dtype(x.dtype) if hasattr(x, "dtype") else asarray(x).dtype


def iscomplexobj(x: Any, /) -> bool:
    """Whether an array, number or nested list has a complex dtype, whatever its values.

    >>> iscomplexobj([1.0, 2j]), iscomplexobj(2.0)
    (True, False)
    """
    return _held(x) in dtypes.COMPLEX


def isrealobj(x: Any, /) -> bool:
    """Whether an array, number or nested list does not have a complex dtype.

    >>> isrealobj([1.0, 2j]), isrealobj(2.0)
    (False, True)
    """
    return not iscomplexobj(x)


def isfortran(x: Array, /) -> bool:
    """Whether the elements are contiguous with the first axis fastest, and not with the last, as of a transpose.

    >>> import cukern as ck
    >>> isfortran(ck.zeros((2, 3)).T)
    True
    """
    return bool(x.flags.fnc)


def issubdtype(arg1: Any, arg2: Any) -> bool:
    """Whether a dtype is another one or belongs to a kind of dtypes, as ``numpy.issubdtype``.

    Args:
        arg1: a dtype, or a kind such as ``numpy.floating``.
        arg2: the same. bfloat16 is a ``numpy.floating``.

    >>> import numpy as np
    >>> issubdtype("float32", np.floating), issubdtype("bfloat16", np.floating), issubdtype("int8", np.floating)
    (True, True, False)
    """
    first, second = (_of_bfloat16(one) for one in (arg1, arg2))
    if first is dtypes.bfloat16:
        return second is dtypes.bfloat16 or (isinstance(second, type) and issubclass(np.floating, second))
    return second is not dtypes.bfloat16 and bool(np.issubdtype(first, second))


def _of_bfloat16(kind: Any) -> Any:
    """``kind``, with all names of bfloat16 as the dtype; public names such as ``cukern.float32`` as their dtypes."""
    named = getattr(kind, "dtype", kind) if not isinstance(kind, type) else kind
    is_dtype = isinstance(named, (np.dtype, str)) or named is dtypes.bfloat16.type
    return dtypes.bfloat16 if is_dtype and (named == "bfloat16" or named == dtypes.bfloat16) else named
