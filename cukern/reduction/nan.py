"""Reductions that ignore NaN, and others that fuse a map with a reduction in one launch."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .. import dtypes
from ..array import Array
from ..array.creation import asarray, ones
from ..elementwise.function import astype
from ..elementwise.fuse import fuse
from ..elementwise.logic import logical_and, logical_not
from ..elementwise.operands import Axis, array_or_symbol, normalize_axes, of, public
from ..elementwise.table import equal, isnan, multiply, not_equal, subtract, where
from ..elementwise.ufunc import one_out, written
from ..kernel.by_numpy import by_numpy
from ..shape.views import broadcast_to, permute_dims, reshape, squeeze
from .function import masked
from .masked import masked_mean, masked_spread, one_correction
from .rows import Accumulation, max, mean, min, prod, sum

__all__ = ["average", "count_nonzero", "nanmean", "nanprod", "nanstd", "nansum", "nanvar", "ptp"]

_OPTIONS = ("axis", "dtype", "keepdims")


@fuse(static=_OPTIONS)
def _sum(x: Any, axis: Any, dtype: Any, keepdims: bool) -> Any:
    return sum(where(isnan(x), 0, x), axis, dtype=dtype, keepdims=keepdims)


@fuse(static=_OPTIONS)
def _prod(x: Any, axis: Any, dtype: Any, keepdims: bool) -> Any:
    return prod(where(isnan(x), 1, x), axis, dtype=dtype, keepdims=keepdims)


@fuse(static=_OPTIONS)
def _nonzero(x: Any, axis: Any, dtype: Any, keepdims: bool) -> Any:
    return sum(not_equal(x, 0), axis, dtype=dtype, keepdims=keepdims)


def _replaced(x: Any, number: int) -> Any:
    return where(isnan(x), number, x)


def _numbers(x: Any, mask: Any, name: str) -> Any:
    """Whether ``mask`` is true and ``x`` is not NaN; None if there is no mask."""
    return None if mask is None else logical_and(masked(x, mask, name), logical_not(isnan(x)))


def _mean_dtype(name: str, x: Any, dtype: npt.DTypeLike | None) -> npt.DTypeLike | None:
    """The dtype of a mean or variance of numbers that may be NaN, which integers do not hold."""
    if dtype is not None and getattr(x, "dtype", None) in dtypes.INEXACT:
        wanted = dtypes.as_dtype(dtype)
        if wanted not in dtypes.INEXACT:
            raise TypeError(f"{name}: dtype: expected a floating one for {x.dtype}, got {wanted}")
    return dtype


def _dtype(dtype: npt.DTypeLike | None) -> Any:
    return None if dtype is None else dtypes.as_dtype(dtype)


@by_numpy("count_nonzero", least=0, most=None, why="vectors of bools")
def _counted(data: Any, ndim: int) -> Any:
    return np.array(np.count_nonzero(data), np.int64, ndmin=ndim) if data.dtype == np.bool_ else "no bools"


@public
def count_nonzero(x: Array, /, axis: Axis = None, *, keepdims: bool = False) -> Array:
    """The number of non-zero elements over axes, as int64.

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
    if type(x) is Array and axis is None and not keepdims and (count := _counted(x, 0)) is not None:
        return count
    x = array_or_symbol(x, "count_nonzero")
    axes = normalize_axes(axis, x.ndim, "count_nonzero")
    every = isinstance(x, Array) and len(axes) == x.ndim
    count = _counted(x, x.ndim if keepdims else 0) if every else None
    return _nonzero(x, axes, dtypes.int64, bool(keepdims)) if count is None else count


class _Ignoring(NamedTuple):
    """What a sum or a product without NaN is made of: the number in place of NaN, the reduction, and both in one."""

    name: str
    number: int
    reduce: Accumulation
    fused: Any


def _accumulated(
    own: _Ignoring,
    x: Array,
    /,
    axis: Axis = None,
    dtype: npt.DTypeLike | None = None,
    out: Array | None = None,
    *,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Array:
    x = array_or_symbol(x, own.name)
    if where is not None or initial is not None:
        given = _replaced(x, own.number)
        return own.reduce(given, axis, dtype, out, keepdims=keepdims, initial=initial, where=where)
    result = own.fused(x, normalize_axes(axis, x.ndim, own.name), _dtype(dtype), bool(keepdims))
    return written(own.name, result, one_out(own.name, out))


@public
@of(_accumulated, _Ignoring("nansum", 0, sum, _sum))
def nansum() -> None:
    """:func:`sum` with NaN treated as 0, in one launch."""


@public
@of(_accumulated, _Ignoring("nanprod", 1, prod, _prod))
def nanprod() -> None:
    """:func:`prod` with NaN treated as 1, in one launch."""


@public
def nanmean(
    x: Array,
    /,
    axis: Axis = None,
    dtype: npt.DTypeLike | None = None,
    out: Array | None = None,
    *,
    keepdims: bool = False,
    where: Any = None,
) -> Array:
    """:func:`mean` of the elements that are not NaN; NaN if there are none."""
    x = array_or_symbol(x, "nanmean")
    if isinstance(x, Array) and x.dtype not in dtypes.INEXACT:
        return mean(x, axis, dtype, out, keepdims=keepdims, where=where)
    result = masked_mean(
        "nanmean", x, axis, keepdims, _mean_dtype("nanmean", x, dtype), _numbers(x, where, "nanmean")
    )
    return written("nanmean", result, one_out("nanmean", out))


def _nanspread(
    root: bool,
    x: Array,
    /,
    axis: Axis = None,
    dtype: npt.DTypeLike | None = None,
    out: Array | None = None,
    *,
    correction: float | None = None,
    keepdims: bool = False,
    ddof: float | None = None,
    where: Any = None,
    mean: Any = None,
) -> Array:
    name = "nanstd" if root else "nanvar"
    taken = one_correction(name, correction, ddof)
    x = array_or_symbol(x, name)
    mask, dtype = _numbers(x, where, name), _mean_dtype(name, x, dtype)
    spread = masked_spread(name, x, axis, keepdims, dtype, mask, taken, root, none=float("nan"), mean=mean)
    return written(name, spread, one_out(name, out))


@public
@of(_nanspread, False)
def nanvar() -> None:
    """:func:`var` of the elements that are not NaN; NaN if there are at most ``correction`` of them."""


@public
@of(_nanspread, True)
def nanstd() -> None:
    """:func:`std` of the elements that are not NaN, the square root of :func:`nanvar`."""


@public
def ptp(x: Array, /, axis: Axis = None, *, keepdims: bool = False) -> Array:
    """The difference between the largest and the smallest element over axes."""
    return subtract(max(x, axis, keepdims=keepdims), min(x, axis, keepdims=keepdims))


@fuse(static=("axis", "dtype"))
def _weighted(x: Any, weights: Any, axis: Any, dtype: Any) -> Any:
    return sum(multiply(x, weights), axis, dtype=dtype, keepdims=True)


def _weights(x: Array, weights: Any, axis: Any, axes: tuple[int, ...]) -> Array:
    """The weights, reshaped to broadcast with ``x``."""
    shares = asarray(weights, device=x.device)
    if shares.shape == x.shape:
        return shares
    if axis is None:
        raise TypeError(f"average: weights: expected shape {x.shape}, got {shares.shape}, or an axis as well")
    if shares.shape != tuple(x.shape[i] for i in axes):
        raise ValueError(
            f"average: weights: expected shape {x.shape} or that of axis {axis}, got {shares.shape}"
        )
    if axes != tuple(sorted(axes)):
        shares = permute_dims(shares, tuple(axes.index(i) for i in sorted(axes)))
    return reshape(shares, tuple(n if i in axes else 1 for i, n in enumerate(x.shape)))


@public
def average(
    x: Array,
    /,
    axis: Axis = None,
    weights: Any = None,
    returned: bool = False,
    *,
    keepdims: bool = False,
) -> Any:
    """The weighted mean over axes; in the default floating dtype for integers.

    Args:
        x: any array.
        axis: the axis or axes; all by default.
        weights: an array with the shape of ``x``, or the sizes of ``axis`` in its order; equal weights when None.
        returned: whether to return the sum of the weights as well.
        keepdims: whether the axes stay, with size 1.

    Raises:
        AxisError: an axis is out of range.
        TypeError: the weights have another shape, and no axis is given.
        ValueError: the shape of the weights does not match the axes.
        ZeroDivisionError: weights add up to 0, on the host; a GPU divides by 0, because a check would wait for it.

    >>> import cukern as ck
    >>> ck.average(ck.asarray([1.0, 4.0]), weights=[2.0, 1.0]).item()
    2.0
    """
    x = array_or_symbol(x, "average")
    axes = normalize_axes(axis, x.ndim, "average")
    dtype = dtypes.inexact_of(x.dtype)
    shares = ones((1,) * x.ndim, dtype, device=x.device)
    if weights is not None:
        shares = _weights(x, weights, axis, axes)
        dtype = dtypes.inexact_of(x.dtype, shares.dtype)
    elif not returned:
        return mean(x, axes, keepdims=keepdims)
    acc = dtypes.info(dtype).acc if x.dtype in dtypes.INEXACT else dtypes.float64
    total = sum(broadcast_to(shares, x.shape), axes, dtype=acc, keepdims=True)
    if total.size and x.device.addressable and bool(equal(total, 0).any()):
        raise ZeroDivisionError("average: weights: they add up to 0")
    wide = dtype if x.dtype in dtypes.INEXACT else acc
    avg = _weighted(astype(x, wide, copy=False), astype(shares, wide, copy=False), axes, acc) / total
    results = [astype(y, dtype, copy=False) for y in (avg, total)]
    if not keepdims:
        results = [squeeze(x, axes) for x in results]
    return tuple(results) if returned else results[0]
