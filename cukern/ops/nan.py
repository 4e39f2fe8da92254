"""Reductions that leave NaN out, and others that are a map before a reduction: fused, in one launch each."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from .. import dtypes, tape
from ..array import Array
from ..creation import asarray
from ..fuse import fuse
from ..table import equal, isnan, logical_not, multiply, not_equal, square, subtract, where
from .axes import Axis, normalize_axes, public, require_array
from .elementwise import astype
from .manipulate import broadcast_to, reshape, squeeze
from .reduce import all, argmax, argmin, max, mean, min, prod, sum

__all__ = [
    "average",
    "count_nonzero",
    "nanargmax",
    "nanargmin",
    "nanmax",
    "nanmean",
    "nanmin",
    "nanprod",
    "nanstd",
    "nansum",
    "nanvar",
    "ptp",
]

_INF = float("inf")
_OPTIONS = ("axis", "dtype", "keepdims")


@fuse(static=_OPTIONS)
def _sum(x: Any, fill: float, axis: Any, dtype: Any, keepdims: bool) -> Any:
    return sum(where(isnan(x), fill, x), axis, dtype=dtype, keepdims=keepdims)


@fuse(static=_OPTIONS)
def _prod(x: Any, axis: Any, dtype: Any, keepdims: bool) -> Any:
    return prod(where(isnan(x), 1, x), axis, dtype=dtype, keepdims=keepdims)


@fuse(static=("axis", "dtype"))
def _count(x: Any, axis: Any, dtype: Any) -> Any:
    return sum(logical_not(isnan(x)), axis, dtype=dtype, keepdims=True)


@fuse(static=("axis", "keepdims", "largest"))
def _extreme(x: Any, axis: Any, keepdims: bool, largest: bool) -> Any:
    reduce, fill = (max, -_INF) if largest else (min, _INF)
    return reduce(where(isnan(x), fill, x), axis, keepdims=keepdims)


@fuse(static=("axis",))
def _no_number(x: Any, axis: Any) -> Any:
    return all(isnan(x), axis, keepdims=True)


@fuse(static=("axis", "keepdims", "largest"))
def _place(x: Any, axis: Any, keepdims: bool, largest: bool) -> Any:
    reduce, fill = (argmax, -_INF) if largest else (argmin, _INF)
    return reduce(where(isnan(x), fill, x), axis, keepdims=keepdims)


@fuse(static=("axis", "dtype"))
def _squares(x: Any, middle: Any, axis: Any, dtype: Any) -> Any:
    return sum(where(isnan(x), 0, square(x - middle)), axis, dtype=dtype, keepdims=True)


@fuse(static=_OPTIONS)
def _nonzero(x: Any, axis: Any, dtype: Any, keepdims: bool) -> Any:
    return sum(not_equal(x, 0), axis, dtype=dtype, keepdims=keepdims)


def _axes(x: Array, axis: Any, name: str) -> tuple[int, ...]:
    return normalize_axes(axis, require_array(x, name).ndim, name)


def _dropped(y: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    return y if keepdims else squeeze(y, axes)


def _dtype(dtype: npt.DTypeLike | None) -> Any:
    return None if dtype is None else dtypes.as_dtype(dtype)


@public
def count_nonzero(x: Array, /, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """How many elements are not zero, over axes; int64.

    Args:
        x: any array.
        axis: the axis or axes; all by default.
        keepdims: whether the axes stay, with size 1.

    Raises:
        AxisError: an axis is out of range.

    >>> import cukern as ck
    >>> ck.count_nonzero(ck.asarray([0, 3, 4])).item()
    2
    """
    made: Array = _nonzero(x, _axes(x, axis, "count_nonzero"), dtypes.int64, bool(keepdims))
    return made


@public
def nansum(
    x: Array, /, axis: Axis = None, *, dtype: npt.DTypeLike | None = None, keepdims: bool = False
) -> Array:
    """:func:`sum` with NaN taken as 0, in one launch."""
    made: Array = _sum(x, 0, _axes(x, axis, "nansum"), _dtype(dtype), bool(keepdims))
    return made


@public
def nanprod(
    x: Array, /, axis: Axis = None, *, dtype: npt.DTypeLike | None = None, keepdims: bool = False
) -> Array:
    """:func:`prod` with NaN taken as 1, in one launch."""
    made: Array = _prod(x, _axes(x, axis, "nanprod"), _dtype(dtype), bool(keepdims))
    return made


def _nan_mean(x: Array, axes: tuple[int, ...]) -> tuple[Array, Array]:
    """The mean of the numbers and how many there are, in the accumulator's dtype, the axes kept."""
    acc = dtypes.info(x.dtype).acc
    with tape.stop_recording():
        count = _count(x, axes, acc)
    return _sum(x, 0, axes, acc, True) / count, count


@public
def nanmean(x: Array, /, axis: Axis = None, *, keepdims: bool = False) -> Array:
    """:func:`mean` of what is not NaN; NaN where there is nothing else."""
    axes = _axes(x, axis, "nanmean")
    if x.dtype not in dtypes.FLOATS:
        return mean(x, axes, keepdims=keepdims)
    return _dropped(astype(_nan_mean(x, axes)[0], x.dtype, copy=False), axes, keepdims)


@public
def nanvar(x: Array, /, axis: Axis = None, *, correction: float = 0.0, keepdims: bool = False) -> Array:
    """:func:`var` of what is not NaN; NaN where there are not more numbers than ``correction``."""
    axes = _axes(x, axis, "nanvar")
    values = x if x.dtype in dtypes.FLOATS else astype(x, dtypes.float64)
    middle, count = _nan_mean(values, axes)
    total = _squares(values, middle, axes, middle.dtype)
    freedom = where(count > correction, count - correction, float("nan"))
    return _dropped(astype(total / freedom, values.dtype, copy=False), axes, keepdims)


@public
def nanstd(x: Array, /, axis: Axis = None, *, correction: float = 0.0, keepdims: bool = False) -> Array:
    """:func:`std` of what is not NaN, the root of :func:`nanvar`; where it is 0 its derivative is 0."""
    squares = nanvar(x, axis, correction=correction, keepdims=keepdims)
    zero = equal(squares, 0)
    return where(zero, 0, where(zero, 1, squares) ** 0.5)


def _nan_extreme(x: Array, axis: Axis, keepdims: bool, largest: bool, name: str) -> Array:
    axes = _axes(x, axis, name)
    if x.dtype not in dtypes.FLOATS:
        return (max if largest else min)(x, axes, keepdims=keepdims)
    made = _extreme(x, axes, True, largest)
    return _dropped(where(_no_number(x, axes), float("nan"), made), axes, keepdims)


@public
def nanmax(x: Array, /, axis: Axis = None, *, keepdims: bool = False) -> Array:
    """:func:`max` of what is not NaN; NaN where there is nothing else."""
    return _nan_extreme(x, axis, bool(keepdims), True, "nanmax")


@public
def nanmin(x: Array, /, axis: Axis = None, *, keepdims: bool = False) -> Array:
    """:func:`min` of what is not NaN; NaN where there is nothing else."""
    return _nan_extreme(x, axis, bool(keepdims), False, "nanmin")


def _nan_place(x: Array, axis: int | None, keepdims: bool, largest: bool, name: str) -> Array:
    axes = _axes(x, axis, name)
    if x.dtype not in dtypes.FLOATS:
        return (argmax if largest else argmin)(x, axis, keepdims=keepdims)
    if bool(_no_number(x, axes).any()):
        raise ValueError(f"{name}: x: all elements are NaN along axis {axis}")
    made: Array = _place(x, axis, keepdims, largest)
    return made


@public
def nanargmax(x: Array, /, axis: int | None = None, *, keepdims: bool = False) -> Array:
    """:func:`argmax` of what is not NaN.

    Raises:
        ValueError: there is nothing else; to see that, the device is waited for.
    """
    return _nan_place(x, axis, bool(keepdims), True, "nanargmax")


@public
def nanargmin(x: Array, /, axis: int | None = None, *, keepdims: bool = False) -> Array:
    """:func:`argmin` of what is not NaN. Raises as :func:`nanargmax`."""
    return _nan_place(x, axis, bool(keepdims), False, "nanargmin")


@public
def ptp(x: Array, /, axis: Axis = None, *, keepdims: bool = False) -> Array:
    """The distance from the smallest to the largest element, over axes."""
    return subtract(max(x, axis, keepdims=keepdims), min(x, axis, keepdims=keepdims))


@fuse(static=("axis", "keepdims"))
def _weighted(x: Any, weights: Any, axis: Any, keepdims: bool) -> Any:
    return sum(multiply(x, weights), axis, keepdims=keepdims)


@public
def average(
    x: Array,
    /,
    axis: Axis = None,
    weights: Any = None,
    *,
    returned: bool = False,
    keepdims: bool = False,
) -> Any:
    """The weighted mean over axes; integers in float64.

    Args:
        x: any array.
        axis: the axis or axes; all by default.
        weights: the shape of ``x``, or the sizes of ``axis``; the mean when None.
        returned: whether the sum of the weights is returned as well.
        keepdims: whether the axes stay, with size 1.

    Raises:
        ValueError: the weights have another shape.
    """
    axes = _axes(x, axis, "average")
    if weights is None:
        made = mean(x, axes, keepdims=keepdims)
        count = x.size // made.size if made.size else 0
        return (made, broadcast_to(asarray(float(count), made.dtype, x.device), made.shape)) if returned else made
    shares = asarray(weights, device=x.device)
    if shares.shape != x.shape:
        if shares.shape != tuple(x.shape[i] for i in axes):
            raise ValueError(f"average: weights: expected shape {x.shape} or that of axis {axis}, got {shares.shape}")
        shares = reshape(shares, tuple(n if i in axes else 1 for i, n in enumerate(x.shape)))
    dtype = dtypes.result_type(x.dtype, shares.dtype)
    if dtype not in dtypes.FLOATS:
        dtype = dtypes.float64
    shares, values = astype(shares, dtype, copy=False), astype(x, dtype, copy=False)
    total = sum(broadcast_to(shares, x.shape), axes, keepdims=keepdims)
    made = _weighted(values, shares, axes, bool(keepdims)) / total
    return (made, total) if returned else made
