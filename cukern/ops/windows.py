"""Windows by which samples are multiplied before a Fourier transform."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from ..array import Array
from ..array.creation import arange, asarray, empty, ones
from ..dtypes import get_default_dtype
from ..elementwise.fuse import fuse
from ..elementwise.operands import public
from ..elementwise.table import abs, cos, maximum, sqrt
from ..shape.views import reshape
from .bessel_functions import i0

__all__ = ["bartlett", "blackman", "hamming", "hanning", "kaiser"]

_PI = 3.141592653589793
#: Positions that lie in a row.
_ROW = 4096


def _window(name: str, m: int, shape: Callable[..., Any], *parameters: Any) -> Array:
    """``shape`` of ``m`` positions from -1 to 1, in the default floating dtype.

    A position is the sum of that of its row and that of its column, so that no array of all is read.
    """
    try:
        count = operator.index(int(m)) if m == int(m) else operator.index(m)
    except TypeError:
        raise TypeError(f"{name}: M: expected an integer, got {m!r}") from None
    if count < 2:
        return empty(0) if count < 1 else ones(1)
    width = min(count, _ROW)
    rows = arange(1 - count, count, 2 * width, dtype=get_default_dtype())
    columns = arange(0, 2 * width, 2, dtype=get_default_dtype())
    made: Array = shape(reshape(rows, (-1, 1)), columns, float(count - 1), *parameters)
    return reshape(made, (-1,))[:count]


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
def bartlett(M: int) -> Array:
    """Bartlett's window, a triangle that is 0 at both ends.

    Args:
        M: the number of points; none below 1.

    Returns:
        Shape (M,), symmetric, with a largest value of 1, in the default floating dtype.

    >>> bartlett(3).tolist()
    [0.0, 1.0, 0.0]
    """
    return _window("bartlett", M, _bartlett)


@public
def blackman(M: int) -> Array:
    """Blackman's window: ``0.42 + 0.5 * cos(t) + 0.08 * cos(2 * t)``, t from -pi to pi; see :func:`bartlett`.

    >>> import cukern as ck
    >>> ck.round(blackman(3), 3).tolist()[1]
    1.0
    """
    return _window("blackman", M, _blackman)


@public
def hamming(M: int) -> Array:
    """Hamming's window: ``0.54 + 0.46 * cos(t)``, t from -pi to pi; see :func:`bartlett`.

    >>> hamming(1).tolist()
    [1.0]
    """
    return _window("hamming", M, _cosine, 0.54)


@public
def hanning(M: int) -> Array:
    """Hann's window: ``0.5 + 0.5 * cos(t)``, t from -pi to pi; see :func:`bartlett`.

    >>> hanning(3).tolist()
    [0.0, 1.0, 0.0]
    """
    return _window("hanning", M, _cosine, 0.5)


@public
def kaiser(M: int, beta: Any) -> Array:
    """Kaiser's window: ``i0(beta * sqrt(1 - t**2)) / i0(beta)``, t from -1 to 1; see :func:`bartlett`.

    Args:
        M: the number of points.
        beta: the shape, a number or an array of one; 0 gives ones, 14 nearly 0 at the ends. Differentiable.

    >>> kaiser(4, 0).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    if not isinstance(beta, Array):
        beta = asarray(float(beta), get_default_dtype())
    return _window("kaiser", M, _kaiser, beta, i0(beta))
