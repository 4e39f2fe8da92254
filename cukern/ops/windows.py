"""Windows by which samples are multiplied before a Fourier transform."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy.typing as npt

from .. import dtypes
from ..array import Array
from ..array.creation import arange, asarray, empty, ones
from ..elementwise.function import astype
from ..elementwise.fuse import fuse
from ..elementwise.operands import public
from ..elementwise.table import abs, cos, maximum, sqrt
from ..shape.views import reshape
from .bessel_functions import i0

__all__ = ["bartlett", "blackman", "hamming", "hanning", "kaiser"]

_PI = 3.141592653589793
#: Positions that lie in a row.
_ROW = 4096


def _window(
    name: str, m: int, dtype: npt.DTypeLike | None, shape: Callable[..., Any], *parameters: Any
) -> Array:
    """``shape`` of ``m`` positions from -1 to 1, in a floating dtype, computed in float32 or float64.

    A position is the sum of that of its row and that of its column, so that no array of all is read.
    """
    try:
        count = operator.index(int(m)) if m == int(m) else operator.index(m)
    except TypeError:
        raise TypeError(f"{name}: M: expected an integer, got {m!r}") from None
    wanted = dtypes.floating(dtype, f"{name}: dtype")
    if count < 2:
        return empty(0, wanted) if count < 1 else ones(1, wanted)
    width, acc = min(count, _ROW), dtypes.info(wanted).acc
    rows = arange(1 - count, count, 2 * width, dtype=acc)
    columns = arange(0, 2 * width, 2, dtype=acc)
    result: Array = shape(reshape(rows, (-1, 1)), columns, float(count - 1), *parameters)
    return astype(reshape(result, (-1,))[:count], wanted, copy=False)


@fuse
def _bartlett(row: Any, column: Any, last: Any) -> Any:
    return 1 - abs((row + column) / last)


@fuse
def _blackman(row: Any, column: Any, last: Any) -> Any:
    n = row + column
    return 0.42 + 0.5 * cos(_PI * n / last) + 0.08 * cos(2 * _PI * n / last)


@fuse
def _cosine(row: Any, column: Any, last: Any, middle: Any) -> Any:
    return middle + (1 - middle) * cos(_PI * (row + column) / last)


@fuse
def _kaiser(row: Any, column: Any, last: Any, beta: Any, largest: Any) -> Any:
    t = (row + column) / last
    # Beyond the end of the window, in the last row, there is no root.
    return i0(beta * sqrt(maximum(1 - t * t, 0))) / largest


@public
def bartlett(M: int, *, dtype: npt.DTypeLike | None = None) -> Array:
    """Bartlett's window, a triangle that is 0 at both ends.

    Args:
        M: the number of points; none below 1.
        dtype: a floating dtype; the default one when None.

    Returns:
        Shape (M,), symmetric, with a largest value of 1.

    Raises:
        TypeError: ``dtype`` is not floating, or ``M`` is no integer.

    >>> bartlett(3).tolist()
    [0.0, 1.0, 0.0]
    """
    return _window("bartlett", M, dtype, _bartlett)


@public
def blackman(M: int, *, dtype: npt.DTypeLike | None = None) -> Array:
    """Blackman's window: ``0.42 + 0.5 * cos(t) + 0.08 * cos(2 * t)``, t from -pi to pi; see :func:`bartlett`.

    >>> import cukern as ck
    >>> ck.round(blackman(3), 3).tolist()[1]
    1.0
    """
    return _window("blackman", M, dtype, _blackman)


@public
def hamming(M: int, *, dtype: npt.DTypeLike | None = None) -> Array:
    """Hamming's window: ``0.54 + 0.46 * cos(t)``, t from -pi to pi; see :func:`bartlett`.

    >>> hamming(1).tolist()
    [1.0]
    """
    return _window("hamming", M, dtype, _cosine, 0.54)


@public
def hanning(M: int, *, dtype: npt.DTypeLike | None = None) -> Array:
    """Hann's window: ``0.5 + 0.5 * cos(t)``, t from -pi to pi; see :func:`bartlett`.

    >>> hanning(3).tolist()
    [0.0, 1.0, 0.0]
    """
    return _window("hanning", M, dtype, _cosine, 0.5)


@public
def kaiser(M: int, beta: Any, *, dtype: npt.DTypeLike | None = None) -> Array:
    """Kaiser's window: ``i0(beta * sqrt(1 - t**2)) / i0(beta)``, t from -1 to 1; see :func:`bartlett`.

    Args:
        M: the number of points.
        beta: the shape, a number or an array of one; 0 gives ones, 14 nearly 0 at the ends. Differentiable.
        dtype: a floating dtype; when None the default one, or that of ``beta`` if it is a wider array.

    >>> kaiser(4, 0).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    if not isinstance(beta, Array):
        beta = asarray(float(beta), dtypes.info(dtypes.floating(dtype, "kaiser: dtype")).acc)
    elif dtype is None and beta.dtype == dtypes.float64:
        dtype = beta.dtype
    return _window("kaiser", M, dtype, _kaiser, beta, i0(beta))
