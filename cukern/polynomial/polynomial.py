"""Functions of polynomials by their coefficients, the lowest first; differentiable."""

from __future__ import annotations

from typing import Any, SupportsIndex

from .. import dtypes
from .. import namespace as ops
from ..array import Array
from ..array.creation import eye, zeros, zeros_like
from ..elementwise.operands import require_array, require_arrays
from ..errors import require_int
from ..namespace.hints import missing
from .polyutils import as_series

__all__ = ["polycompanion", "polyfromroots", "polyroots", "polyval", "polyvander"]


@ops.fuse
def _step(total: Any, x: Any, c: Any) -> Any:
    return total * x + c


def polyval(x: Any, c: Any, tensor: bool = True) -> Array:
    """Evaluate polynomials at ``x`` by Horner's rule, a launch for each power.

    Args:
        x: the points, of any shape.
        c: coefficients along the first axis; further axes hold several polynomials.
        tensor: whether each polynomial is evaluated at each point, in shape ``c.shape[1:] + x.shape``; otherwise
            ``x`` is broadcast against ``c.shape[1:]``.

    Raises:
        ValueError: ``c`` is empty or has no axis, or the shapes do not broadcast.

    >>> import cukern as ck
    >>> polyval(ck.asarray([0.0, 3.0]), ck.asarray([1.0, 0.0, 2.0])).tolist()
    [1.0, 19.0]
    """
    points, weights = require_arrays((x, c), "polyval", ("x", "c"))
    if not weights.ndim or not weights.shape[0]:
        raise ValueError(f"polyval: c: expected coefficients along the first axis, got shape {weights.shape}")
    dtype = dtypes.result_type(points.dtype, weights.dtype)
    if dtypes.info(weights.dtype).kind not in "fc":
        dtype = dtypes.result_type(dtype, 0.0)
    points, weights = (ops.astype(one, dtype, copy=False) for one in (points, weights))
    if tensor:
        weights = weights.reshape(weights.shape + (1,) * points.ndim)
    total = weights[-1] + zeros_like(points)
    for i in range(2, weights.shape[0] + 1):
        total = _step(total, points, weights[-i])
    return total


def polyvander(x: Any, deg: SupportsIndex) -> Array:
    """The powers 0 to ``deg`` of each element, along a new last axis, whose stride is the largest one, as NumPy's.

    Args:
        x: an array of any shape; integers and bools are taken in the default floating dtype.
        deg: at least 0.

    Raises:
        TypeError: ``deg`` is no integer.
        ValueError: it is negative.

    >>> import cukern as ck
    >>> polyvander(ck.asarray([2.0, 3.0]), 2).tolist()
    [[1.0, 2.0, 4.0], [1.0, 3.0, 9.0]]
    """
    count = require_int("polyvander: deg", deg, 0)
    points: Array = require_array(x, "polyvander")
    points = ops.astype(points, dtypes.result_type(points.dtype, 0.0), copy=False)
    points = points if points.ndim else points.reshape((1,))
    factors = ops.broadcast_to(points, (count, *points.shape))
    powers = ops.cumulative_prod(factors, axis=0, include_initial=True, dtype=points.dtype)
    result: Array = ops.moveaxis(powers, 0, -1)
    return result


def polycompanion(c: Any) -> Array:
    """The companion matrix of a polynomial, whose eigenvalues are the roots; waits for the device, to trim ``c``.

    Args:
        c: the coefficients, shape (n + 1,), of which zeros at the end are ignored.

    Returns:
        Shape (n, n).

    Raises:
        ValueError: the degree is 0, or ``c`` is empty, has more than one axis, or is of bool.

    >>> import cukern as ck
    >>> polycompanion(ck.asarray([2.0, -3.0, 1.0])).tolist()
    [[0.0, -2.0], [1.0, 3.0]]
    """
    (series,) = as_series([c])
    degree = series.size - 1
    if degree < 1:
        raise ValueError("polycompanion: c: expected a degree of at least 1, got a constant")
    column = (series[:-1] / -series[-1]).reshape((degree, 1))
    first = zeros((1, degree - 1), series.dtype, series.device)
    shifted = ops.concat([first, eye(degree - 1, dtype=series.dtype, device=series.device)])
    return ops.concat([shifted, column], axis=1)


def polyroots(c: Any) -> Array:
    """The zeros of a polynomial, sorted: the eigenvalues of its companion matrix; waits for the device.

    Args:
        c: the coefficients, shape (n + 1,), of which zeros at the end are ignored.

    Returns:
        Shape (n,): real numbers if all zeros are real, else complex ones.

    Raises:
        ValueError: ``c`` is empty, has more than one axis, or is of bool.

    >>> import cukern as ck
    >>> polyroots(ck.asarray([2.0, -3.0, 1.0])).tolist()
    [1.0, 2.0]
    """
    (series,) = as_series([c])
    return ops.sort(ops.roots(ops.flip(series)))


def polyfromroots(roots: Any) -> Array:
    """The coefficients of the polynomial with these roots and a highest coefficient of 1.

    Args:
        roots: shape (n,); complex ones that come in conjugate pairs give real coefficients.

    Returns:
        Shape (n + 1,).

    Raises:
        ValueError: ``roots`` is no vector.

    >>> import cukern as ck
    >>> polyfromroots(ck.asarray([1.0, 2.0])).tolist()
    [2.0, -3.0, 1.0]
    """
    x = require_array(roots, "polyfromroots", "roots")
    if x.ndim != 1:
        raise ValueError(f"polyfromroots: roots: expected one axis, got shape {x.shape}")
    return ops.flip(ops.poly(x))


__getattr__, __dir__ = missing(__name__, __all__, {}, "numpy.polynomial.polynomial")
