"""Covariances and correlation coefficients of variables."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .. import dtypes
from ..array import Array
from ..array.creation import asarray, full
from ..dtypes import DType
from ..elementwise.complex_rows import conj, imag, real
from ..elementwise.function import astype
from ..elementwise.fuse import fuse
from ..elementwise.operands import public, require_array, require_constant
from ..elementwise.table import clip, sqrt, where
from ..linear.diagonals import diagonal
from ..reduction.nan import average
from ..reduction.rows import sum
from ..shape.joins import concat
from ..shape.views import matrix_transpose, reshape

__all__ = ["corrcoef", "cov"]


def _weights(name: str, weights: Any, x: Array, kind: str) -> Array:
    """The weights of the observations, a vector as long as the rows of ``x``; values are checked on the host."""
    result = asarray(weights, device=x.device)
    if result.ndim > 1 or result.shape != x.shape[1:]:
        raise RuntimeError(f"{name}: {kind}: expected shape {x.shape[1:]}, got {result.shape}")
    if result.device.addressable:
        values = result._fetched()
        if kind == "fweights" and not np.all(values == np.around(values)):
            raise TypeError(f"{name}: fweights: expected integers, got {result.dtype}")
        if np.any(values < 0):
            raise ValueError(f"{name}: {kind}: expected no negative number")
    return astype(result, x.dtype, copy=False)


def _variables(x: Array, y: Any, rowvar: bool, dtype: DType) -> Array:
    """The variables of ``x`` and ``y`` as the rows of one array."""
    rows = []
    for one in (x,) if y is None else (x, y):
        matrix = one if one.ndim == 2 else reshape(one, (1, -1))
        if not rowvar and one.ndim == 2 and (one is x or one.shape[0] != 1):
            matrix = matrix_transpose(matrix)
        rows.append(astype(matrix, dtype, copy=False))
    return concat(rows, axis=0) if len(rows) > 1 else rows[0]


def _freedom(weights: Array | None, aweights: Array | None, n: int, ddof: int) -> Any:
    """The divisor of the sum of products."""
    if weights is None:
        return float(n - ddof if n > ddof else 0)
    total = sum(weights)
    loss: Any = ddof if aweights is None or not ddof else ddof * sum(weights * aweights) / total
    return where(total > loss, total - loss, 0)


def _inexact(*given: DType) -> DType:
    """The floating or complex dtype of computations with arrays of these dtypes."""
    real = dtypes.float_of(*(dtypes.info(one).real if one in dtypes.COMPLEX else one for one in given))
    return dtypes.complex_of(real) if any(one in dtypes.COMPLEX for one in given) else real


def _cov(
    name: str,
    x: Array,
    y: Any,
    rowvar: bool,
    ddof: int,
    dtype: npt.DTypeLike | None,
    fweights: Any = None,
    aweights: Any = None,
) -> Array:
    x = require_array(x, name)
    given = [x] + ([] if y is None else [asarray(y, device=x.device)])
    for one in given:
        if one.ndim > 2:
            raise ValueError(f"{name}: expected at most two axes, got shape {one.shape}")
    whole = not any(one.dtype in dtypes.INEXACT for one in given)
    result = _inexact(*(one.dtype for one in given))
    if dtype is not None:
        result = dtypes.as_dtype(dtype)
    if result not in dtypes.INEXACT:
        raise TypeError(f"{name}: dtype: expected a floating or complex one, got {result}")
    acc = dtypes.float64 if whole else dtypes.info(result).acc
    rows = _variables(x, given[1] if y is not None else None, rowvar, acc)
    if not rows.shape[0]:
        return full((0, 0), 0.0, result, x.device)
    counts = None if fweights is None else _weights(name, fweights, rows, "fweights")
    shares = None if aweights is None else _weights(name, aweights, rows, "aweights")
    weights = shares if counts is None else counts if shares is None else counts * shares
    centred = rows - average(rows, 1, weights, keepdims=True)
    right = centred if weights is None else centred * weights
    product = centred @ conj(matrix_transpose(right)) / _freedom(weights, shares, rows.shape[1], ddof)
    return astype(reshape(product, ()) if product.size == 1 else product, result, copy=False)


@public
def cov(
    x: Array,
    /,
    y: Any = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: Any = None,
    aweights: Any = None,
    *,
    dtype: npt.DTypeLike | None = None,
) -> Array:
    """The covariance matrix of variables, as ``numpy.cov``; differentiable.

    Of complex variables, the second factor of each product is conjugated.

    Args:
        x: a matrix with a variable in each row and an observation in each column, or a vector of one variable.
        y: more variables, in the same form.
        rowvar: False if columns are variables, and rows observations.
        bias: whether to divide by the number of observations ``n`` instead of ``n - 1``.
        ddof: divide by ``n - ddof``; overrides ``bias``.
        fweights: integers, how often each observation occurs.
        aweights: the weight of each observation.
        dtype: that of the result; by default that of floats, the default one for integers.

    Returns:
        Shape (variables, variables), or 0-d for one variable.

    Raises:
        RuntimeError: the number of weights is not that of the observations.
        TypeError: ``fweights`` are not integers.
        ValueError: ``x`` or ``y`` has more than two axes, ``ddof`` is not an integer, or a weight is negative
            (weights on a GPU are not checked).

    >>> import cukern as ck
    >>> ck.cov(ck.asarray([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]])).tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """
    require_constant("cov", ddof=ddof)
    if ddof is not None and ddof != int(ddof):
        raise ValueError(f"cov: ddof: expected an integer, got {ddof}")
    less = (0 if bias else 1) if ddof is None else int(ddof)
    return _cov("cov", x, y, bool(rowvar), less, dtype, fweights, aweights)


@fuse
def _correlations(c: Any, rows: Any, columns: Any) -> Any:
    return clip(c / sqrt(rows) / sqrt(columns), -1, 1)


@public
def corrcoef(x: Array, /, y: Any = None, rowvar: bool = True, *, dtype: npt.DTypeLike | None = None) -> Array:
    """The correlation coefficients of variables, from -1 to 1; differentiable; arguments as in :func:`cov`."""
    result = _cov("corrcoef", x, y, bool(rowvar), 1, dtype)
    if not result.ndim:
        return result / result
    spread = diagonal(result)
    if result.dtype in dtypes.COMPLEX:
        rows = real(spread)
        columns = reshape(rows, (-1, 1))
        parts = [_correlations(part(result), columns, rows) for part in (real, imag)]
        return astype(parts[0] + 1j * parts[1], result.dtype, copy=False)
    return _correlations(result, reshape(spread, (-1, 1)), spread)
