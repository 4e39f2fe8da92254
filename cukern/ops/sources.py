"""Arrays of what other objects hold: checked numbers, bytes, iterables and texts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import dtypes
from ..array import Array
from ..array.creation import array, asarray
from ..device import Device
from ..elementwise.table import isfinite

__all__ = ["asarray_chkfinite", "frombuffer", "fromfile", "fromiter", "fromstring", "require"]

#: What ``require`` can ask for, by NumPy's names.
_REQUIREMENTS = {
    **dict.fromkeys(("C", "C_CONTIGUOUS", "CONTIGUOUS"), "C"),
    **dict.fromkeys(("F", "F_CONTIGUOUS", "FORTRAN"), "F"),
    **dict.fromkeys(("W", "WRITEABLE"), "W"),
    **dict.fromkeys(("O", "OWNDATA"), "O"),
    **dict.fromkeys(("A", "ALIGNED", "E", "ENSUREARRAY"), ""),
}


def asarray_chkfinite(
    obj: Any, dtype: npt.DTypeLike | None = None, *, device: Device | str | None = None
) -> Array:
    """:func:`asarray` of finite numbers; waits for the device.

    Raises:
        ValueError: an element is infinite or NaN.

    >>> asarray_chkfinite([1.0, float("nan")])
    Traceback (most recent call last):
    ValueError: obj: expected finite numbers, got inf or nan
    """
    result = asarray(obj, dtype, device)
    if result.dtype in dtypes.INEXACT and not bool(isfinite(result).all()):
        raise ValueError("obj: expected finite numbers, got inf or nan")
    return result


def frombuffer(
    buffer: Any,
    dtype: npt.DTypeLike | None = None,
    count: int = -1,
    offset: int = 0,
    *,
    device: Device | str | None = None,
) -> Array:
    """The numbers whose bytes an object such as ``bytes`` holds, copied; arguments as of ``numpy.frombuffer``.

    >>> frombuffer(b"\\x01\\x02", dtype="uint8").tolist()
    [1, 2]
    """
    wanted = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    return array(np.frombuffer(buffer, wanted, count, offset), device=device)


def fromiter(
    iter: Iterable[Any], dtype: npt.DTypeLike, count: int = -1, *, device: Device | str | None = None
) -> Array:
    """The numbers of an iterable as a vector; arguments as of ``numpy.fromiter``.

    >>> fromiter((i * i for i in range(3)), "int32").tolist()
    [0, 1, 4]
    """
    return array(np.fromiter(iter, dtypes.as_dtype(dtype), count), device=device)


def fromstring(
    string: str,
    dtype: npt.DTypeLike | None = None,
    count: int = -1,
    *,
    sep: str,
    device: Device | str | None = None,
) -> Array:
    """The numbers that a text writes down, separated by ``sep``; arguments as of ``numpy.fromstring``.

    >>> fromstring("1 2", "int64", sep=" ").tolist()
    [1, 2]
    """
    wanted = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    return array(np.fromstring(string, wanted, count, sep=sep), device=device)


def fromfile(
    file: Any,
    dtype: npt.DTypeLike | None = None,
    count: int = -1,
    sep: str = "",
    offset: int = 0,
    *,
    device: Device | str | None = None,
) -> Array:
    """The numbers whose bytes a file holds, or which it writes down; arguments as of ``numpy.fromfile``.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "three.bin")
    >>> np.arange(3, dtype="int32").tofile(path)
    >>> fromfile(path, "int32").tolist()
    [0, 1, 2]
    """
    wanted = dtypes.get_default_dtype() if dtype is None else np.dtype(dtype)
    read = np.fromfile(file, wanted, count, sep, offset)
    return array(read.astype(dtypes.as_dtype(wanted), copy=False), device=device)


def require(
    a: Any, dtype: npt.DTypeLike | None = None, requirements: str | Iterable[str] | None = None
) -> Array:
    """``a`` as an array with the properties that are asked for, copied only if needed.

    Args:
        a: what :func:`cukern.asarray` takes.
        dtype: the dtype; by default that of ``a``.
        requirements: of "C" (C order), "F" (Fortran order, of arrays that have it without a copy), "W" (writeable), "O"
            (memory of its own), and "A" (aligned) and "E" (of this class), which every array is; or NumPy's long names.

    Raises:
        ValueError: another requirement, both orders, or Fortran order of an array that lacks it.

    >>> x = require([[1.0, 2.0], [3.0, 4.0]])
    >>> require(x, requirements="C") is x, require(x.T, requirements="CW").flags.c_contiguous
    (True, True)
    """
    asked = set()
    for one in requirements or ():
        if not isinstance(one, str) or one.upper() not in _REQUIREMENTS:
            raise ValueError(
                f"require: requirements: expected some of {', '.join(_REQUIREMENTS)}, got {one!r}"
            )
        asked.add(_REQUIREMENTS[one.upper()])
    if asked >= {"C", "F"}:
        raise ValueError("require: requirements: expected one order, got C and F")
    result = asarray(a, dtype)
    if "F" in asked and not result.flags.f_contiguous:
        raise ValueError(
            "require: requirements: new arrays are in C order, and this one has not Fortran order"
        )
    if "C" in asked:
        result = result.contiguous()
    owned = result.base is None and result.flags.writeable
    return (
        result
        if not asked & {"O", "W"} or owned or (asked.isdisjoint("O") and result.flags.writeable)
        else result.copy()
    )
