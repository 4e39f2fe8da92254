"""Moments of some of the elements: those where a mask is true, or those that are not NaN."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from .. import dtypes
from ..array import Array
from ..array.operators import FUNCTIONS
from ..dtypes import DType
from ..elementwise.complex_rows import imag, real
from ..elementwise.function import astype
from ..elementwise.fuse import fuse
from ..elementwise.logic import logical_not
from ..elementwise.operands import normalize_axes, require_array, require_constant
from ..elementwise.table import hypot, isnan, root_of_squares, square, where
from ..shape.views import squeeze
from .function import masked

_STATIC = ("axes", "dtype")


def _valid(x: Any, mask: Any) -> Any:
    return logical_not(isnan(x)) if mask is None else mask


@fuse(static=_STATIC)
def _total(x: Any, mask: Any, axes: Any, dtype: Any) -> Any:
    return FUNCTIONS["sum"](where(_valid(x, mask), x, 0), axes, dtype=dtype, keepdims=True)


@fuse(static=_STATIC)
def _count(x: Any, mask: Any, axes: Any, dtype: Any) -> Any:
    return FUNCTIONS["sum"](_valid(x, mask), axes, dtype=dtype, keepdims=True)


@fuse(static=_STATIC)
def _squares(x: Any, mask: Any, middle: Any, axes: Any, dtype: Any) -> Any:
    # Choose before squaring, because the square's derivative at NaN is NaN.
    chosen = square(where(_valid(x, mask), x, middle) - middle)
    return FUNCTIONS["sum"](chosen, axes, dtype=dtype, keepdims=True)


def _prepared(
    name: str, x: Array, axis: Any, dtype: npt.DTypeLike | None, mask: Any
) -> tuple[Array, Array | None, tuple[int, ...], DType]:
    """The values as floats, the mask, the axes, and the dtype of the result."""
    x = require_array(x, name)
    axes = normalize_axes(axis, x.ndim, name)
    chosen = None if mask is None else masked(x, mask, name)
    value, result = FUNCTIONS["mean"].dtypes_of(x.dtype, dtype)
    return astype(x, value, copy=False), chosen, axes, result


def _mean(
    x: Array, mask: Array | None, axes: tuple[int, ...], mean: Array | None = None
) -> tuple[Array, Array]:
    """``mean`` or the mean, and the number of elements, in the accumulator's dtype; keeps the axes."""
    acc = dtypes.info(x.dtype).acc
    count = astype(_count(x, mask, axes, dtypes.int64), acc)
    return _total(x, mask, axes, acc) / count if mean is None else astype(mean, acc, copy=False), count


def _given_mean(name: str, mean: Any, x: Array, axes: tuple[int, ...]) -> Array | None:
    """The argument ``mean`` as an array.

    Raises:
        ValueError: its shape is not that of a mean that keeps its axes.
    """
    if mean is None:
        return None
    checked = require_array(mean, name, "mean", x)
    wanted = tuple(1 if i in axes else n for i, n in enumerate(x.shape))
    if checked.shape != wanted:
        raise ValueError(f"{name}: mean: expected shape {wanted}, as with keepdims=True, got {checked.shape}")
    return checked


def _finished(y: Array, dtype: DType, axes: tuple[int, ...], keepdims: bool) -> Array:
    rounded = astype(y, dtype, copy=False)
    return rounded if keepdims else squeeze(rounded, axes)


def masked_mean(
    name: str, x: Array, axis: Any, keepdims: bool, dtype: npt.DTypeLike | None, mask: Any
) -> Array:
    """The mean of the elements where ``mask`` is true, or of those that are not NaN if ``mask`` is None."""
    values, chosen, axes, result = _prepared(name, x, axis, dtype, mask)
    return _finished(_mean(values, chosen, axes)[0], result, axes, keepdims)


def masked_spread(
    name: str,
    x: Array,
    axis: Any,
    keepdims: bool,
    dtype: npt.DTypeLike | None,
    mask: Any,
    correction: float,
    root: bool,
    none: float = 0.0,
    mean: Any = None,
) -> Array:
    """The variance of such elements, or its square root; ``none`` is the divisor without degrees of freedom.

    ``mean``, if it is given, is taken for the mean of the elements; it broadcasts with ``x``.
    """
    x = require_array(x, name)
    if x.dtype in dtypes.COMPLEX:
        taken = logical_not(isnan(x)) if mask is None else mask
        wanted = None if dtype is None else dtypes.info(dtypes.as_dtype(dtype)).real
        means = (
            (None, None)
            if mean is None
            else [part(require_array(mean, name, "mean", x)) for part in (real, imag)]
        )
        parts = [
            masked_spread(name, part, axis, keepdims, wanted, taken, correction, root, none, middle)
            for part, middle in zip((real(x), imag(x)), means, strict=True)
        ]
        return hypot(*parts) if root else parts[0] + parts[1]
    values, chosen, axes, result = _prepared(name, x, axis, dtype, mask)
    middle, count = _mean(values, chosen, axes, _given_mean(name, mean, values, axes))
    total = _squares(values, chosen, middle, axes, middle.dtype)
    return _finished(_spread(total, count, correction, none, root), result, axes, keepdims)


@fuse(static=("root",))
def _spread(total: Any, count: Any, correction: float, none: float, root: bool) -> Any:
    squares = total / where(count > correction, count - correction, none)
    return root_of_squares(squares) if root else squares


def one_correction(name: str, correction: float | None, ddof: float | None) -> float:
    """The correction, from whichever of its two names is given; 0 if neither is.

    Raises:
        ValueError: both are given.
    """
    require_constant(name, correction=correction, ddof=ddof)
    if correction is not None and ddof is not None:
        raise ValueError(f"{name}: correction and ddof are two names of one argument: give one")
    return float((correction or 0) if ddof is None else ddof)
