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

__all__ = ["asarray_chkfinite", "frombuffer", "fromfile", "fromiter", "fromstring"]


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
    made = asarray(obj, dtype, device)
    if made.dtype in dtypes.INEXACT and not bool(isfinite(made).all()):
        raise ValueError("obj: expected finite numbers, got inf or nan")
    return made


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
