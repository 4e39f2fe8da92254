"""Lists of coefficients, the lowest first."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .. import dtypes
from .. import namespace as ops
from ..array import Array
from ..elementwise.operands import require_array, require_constant
from ..namespace.hints import missing

__all__ = ["as_series", "trimcoef", "trimseq"]


def trimseq(seq: Array) -> Array:
    """A view without the zeros at the end, of which one stays if there is nothing else; waits for the device.

    Raises:
        TypeError: ``seq`` has no axis.
        ValueError: it has more than one.

    >>> import cukern as ck
    >>> trimseq(ck.asarray([1, 0, 2, 0, 0])).tolist()
    [1, 0, 2]
    """
    x: Array = require_array(seq, "trimseq", "seq")
    if not x.ndim:
        raise TypeError("trimseq: seq: expected a vector, got an array without axes")
    if x.ndim > 1:
        raise ValueError(f"trimseq: seq: expected one axis, got shape {x.shape}")
    return _until(x, x != 0) if x.size > 1 else x


def _until(x: Array, kept: Array) -> Array:
    """The elements up to the last that is kept, at least one."""
    (nonzero,) = kept.numpy().nonzero()
    result: Array = x[: int(nonzero[-1]) + 1 if nonzero.size else 1]
    return result


def as_series(alist: Iterable[Any], trim: bool = True) -> list[Array]:
    """Vectors of coefficients as arrays of one floating dtype.

    Args:
        alist: vectors or numbers, or an array, whose rows are taken.
        trim: whether zeros at the end are removed; see :func:`trimseq`.

    Returns:
        Vectors; integers are in the default floating dtype.

    Raises:
        ValueError: a vector is empty, has more than one axis, or is of bool.

    >>> import cukern as ck
    >>> [c.tolist() for c in as_series([ck.asarray([1, 2, 0]), 3.0])]
    [[1.0, 2.0], [3.0]]
    """
    if isinstance(alist, Array) and alist.ndim == 1:
        alist = ops.unstack(alist.reshape((alist.size, 1)))
    result = [require_array(c, "as_series", f"alist[{i}]") for i, c in enumerate(alist)]
    for i, c in enumerate(result):
        if not c.size:
            raise ValueError(f"as_series: alist[{i}]: expected at least one coefficient, got shape {c.shape}")
        if c.ndim > 1:
            raise ValueError(f"as_series: alist[{i}]: expected one axis, got shape {c.shape}")
        if c.dtype == dtypes.bool_:
            raise ValueError(f"as_series: alist[{i}]: expected numbers, got {c.dtype}")
    if not result:
        return result
    common = dtypes.result_type(*(c.dtype for c in result), 0.0)
    vectors = [ops.astype(c if c.ndim else c.reshape((1,)), common, copy=False) for c in result]
    return [trimseq(c) for c in vectors] if trim else vectors


def trimcoef(c: Any, tol: float = 0) -> Array:
    """A copy without the coefficients at the end of at most ``tol`` in magnitude; waits for the device.

    Args:
        c: a vector.
        tol: at least 0.

    Returns:
        A vector in a floating dtype: one zero if all coefficients are small.

    Raises:
        ValueError: ``tol`` is negative, or ``c`` is empty, has more than one axis, or is of bool.

    >>> import cukern as ck
    >>> trimcoef(ck.asarray([1.0, 2.0, 1e-9]), 1e-6).tolist()
    [1.0, 2.0]
    """
    require_constant("trimcoef", tol=tol)
    if float(tol) < 0:
        raise ValueError(f"trimcoef: tol: expected at least 0, got {tol}")
    (x,) = as_series([c])
    large = ops.abs(x) > float(tol)
    result = _until(x, large)
    return ops.where(large[: result.size], result, 0) if result.size == 1 else result.copy()


__getattr__, __dir__ = missing(__name__, __all__, {}, "numpy.polynomial.polyutils")
