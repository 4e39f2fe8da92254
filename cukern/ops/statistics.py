"""Order statistics: medians and quantiles along axes, with and without NaN."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from .. import dtypes
from ..array import Array
from ..array.creation import asarray, full
from ..array.host_data import holds_array
from ..autodiff import tape
from ..dtypes import DType
from ..elementwise.function import astype
from ..elementwise.fuse import fuse
from ..elementwise.logic import logical_not
from ..elementwise.operands import Axis, normalize_axes, of, public, require_array
from ..elementwise.table import ceil, clip, divide, floor, isfinite, isnan, remainder, round, where
from ..elementwise.ufunc import one_out, written
from ..errors import require_choice
from ..index.scan import cumulative_sum
from ..index.select import middle_of_sorted, selects
from ..index.sort import argsort, sort
from ..index.take import take_along_axis
from ..kernel.by_numpy import by_numpy
from ..reduction.rows import all as all_of
from ..reduction.rows import any as any_of
from ..reduction.rows import sum
from ..shape.views import broadcast_to, expand_dims, moveaxis, permute_dims, reshape

__all__ = ["median", "nanmedian", "nanpercentile", "nanquantile", "percentile", "quantile"]


class Method(NamedTuple):
    """How to find a quantile in a sorted sample.

    Attributes:
        position: the index of the quantile ``q`` among ``n`` sorted elements, counted from 0; a fraction lies between
            two elements.
        share: the weight of the next element for such a fraction; None if ``position`` is always an integer, so that
            the result is an element.
    """

    position: Callable[[Any, Any], Any]
    share: Callable[[Any], Any] | None = lambda t: t


def _hyndman_fan(a: float, b: float) -> Callable[[Any, Any], Any]:
    return lambda n, q: n * q + (a + q * (1 - a - b)) - 1


def _closest(n: Any, q: Any) -> Any:
    position = n * q - 1.5
    below = floor(position)
    return below + where((position == below) & (remainder(below, 2) == 1), 0, 1)


#: The sample quantiles of R. J. Hyndman and Y. Fan, The American Statistician 50 (1996) 361, and NumPy's others.
_METHODS = {
    "inverted_cdf": Method(lambda n, q: ceil(n * q - 1), None),
    "averaged_inverted_cdf": Method(lambda n, q: n * q - 1, lambda t: where(t == 0, 0.5, 1)),
    "closest_observation": Method(_closest, None),
    "interpolated_inverted_cdf": Method(_hyndman_fan(0, 1)),
    "hazen": Method(_hyndman_fan(0.5, 0.5)),
    "weibull": Method(_hyndman_fan(0, 0)),
    "linear": Method(lambda n, q: (n - 1) * q),
    "median_unbiased": Method(_hyndman_fan(1 / 3, 1 / 3)),
    "normal_unbiased": Method(_hyndman_fan(3 / 8, 3 / 8)),
    "lower": Method(lambda n, q: floor((n - 1) * q), None),
    "higher": Method(lambda n, q: ceil((n - 1) * q), None),
    "midpoint": Method(lambda n, q: (n - 1) * q, lambda t: where(t == 0, 0, 0.5)),
    "nearest": Method(lambda n, q: round((n - 1) * q), None),
}


@fuse(static=("method",))
def _places(q: Any, n: Any, last: Any, method: str) -> Any:
    """The indices of the elements below and above each quantile, and the weight of the upper one."""
    row = _METHODS[method]
    position = row.position(n, q)
    below = floor(position)
    ends = [astype(clip(clip(one, None, last), 0, None), dtypes.int64) for one in (below, below + 1)]
    return (*ends, position - below if row.share is None else row.share(position - below))


@fuse(static=("acc", "result"))
def _between(a: Any, b: Any, t: Any, acc: DType, result: DType) -> Any:
    """Linear interpolation from ``a`` to ``b`` at the fraction ``t``, exact at both ends."""
    low, high, share = astype(a, acc), astype(b, acc), astype(t, acc)
    distance = high - low
    near = where(share < 0.5, low + distance * share, high - distance * (1 - share))
    # At an element itself, the derivative with respect to the fraction is the distance to the next element.
    far = where(share == 0, low, low * (1 - share) + high * share)
    return astype(where(isfinite(distance), near, far), result)


@fuse(static=("acc", "result"))
def _middle(a: Any, b: Any, acc: DType, result: DType) -> Any:
    return astype(0.5 * astype(a, acc) + 0.5 * astype(b, acc), result)


@by_numpy("median", least=0, most=None, why="it selects, which is faster than sorting")
def _middle_elements(rows: Any, middle: int) -> Any:
    parts = np.split(np.partition(rows, middle, axis=-1), [middle], axis=-1)
    high = parts[1][..., :1]
    low = (parts[0] if rows.shape[-1] % 2 == 0 else high).max(-1, keepdims=True)
    last = parts[1].max(-1, keepdims=True)  # NaN comes last
    return low, np.where(last == last, high, last)


class _Sample:
    """The sorted elements over axes, as rows, NaN last.

    If a tape tracks them, only their indices are sorted, and the derivative goes through the picked elements.
    """

    def __init__(self, name: str, x: Array, axis: Axis) -> None:
        self.axes = normalize_axes(axis, x.ndim, name)
        kept = [i for i in range(x.ndim) if i not in self.axes]
        self.sizes = tuple(x.shape[i] for i in kept)
        self.with_ones = tuple(1 if i in self.axes else n for i, n in enumerate(x.shape))
        self.n = math.prod(x.shape[i] for i in self.axes)
        self.rows = reshape(permute_dims(x, (*kept, *self.axes)), (*self.sizes, self.n))
        self.tracked = tape.recording((x,))

    @cached_property
    def order(self) -> Array:
        """The sorted rows, or the indices that sort them if a tape tracks the elements."""
        return argsort(self.rows) if self.tracked else sort(self.rows)

    def pick(self, indices: Array) -> Array:
        """The elements of each row at sorted positions (..., count)."""
        values = take_along_axis(self.order, indices, axis=-1)
        return take_along_axis(self.rows, values, axis=-1) if self.tracked else values

    def at(self, index: int) -> Array:
        """The element of each row at a sorted position, (..., 1)."""
        values = self.order[..., index : index + 1]
        return take_along_axis(self.rows, values, axis=-1) if self.tracked else values

    def middle(self) -> tuple[Array, Array]:
        """The two middle elements of each row, (..., 1), of which one is NaN if the row contains NaN."""
        middle = self.n // 2
        if not self.tracked and (pair := _middle_elements(self.rows, middle)) is not None:
            return pair
        if not self.tracked and selects(self.rows):
            both = middle_of_sorted(self.rows)
            return both[..., :1], both[..., 1:]
        low = self.at((self.n - 1) // 2)
        return low, self.unless_nan(self.at(middle))

    def counts(self) -> Array:
        """The number of elements of each row that are not NaN, (..., 1)."""
        with tape.stop_recording():
            return sum(astype(logical_not(isnan(self.rows)), dtypes.int64), -1, keepdims=True)

    def unless_nan(self, result: Array) -> Array:
        """``result`` (..., count), replaced by NaN for rows that contain NaN."""
        if self.rows.dtype not in dtypes.INEXACT:
            return result
        with tape.stop_recording():
            has_nan = isnan(self.at(self.n - 1))
        return where(has_nan, float("nan"), result)

    def shaped(self, result: Array, front: tuple[int, ...], keepdims: bool) -> Array:
        """``result`` (..., count) with the axes ``front`` first."""
        rest = self.with_ones if keepdims else self.sizes
        return reshape(moveaxis(result, -1, 0), (*front, *rest)).contiguous()


def _dtypes(x: Array, q: Any = None) -> tuple[DType, DType]:
    """The dtype in which a mean of elements is computed, and that of the result."""
    if x.dtype in dtypes.COMPLEX:
        return dtypes.complex128, x.dtype
    more = [q.dtype] if hasattr(q, "dtype") and q.dtype in dtypes.FLOATS else []
    result = dtypes.float_of(x.dtype, *more)
    return dtypes.info(result).acc if x.dtype in dtypes.FLOATS else dtypes.float64, result


def _median(name: str, x: Array, axis: Axis, keepdims: bool, skip: bool) -> Array:
    x = require_array(x, name)
    sample = _Sample(name, x, axis)
    acc, result = _dtypes(x)
    if not sample.n:
        values = full((*sample.sizes, 1), float("nan"), result, x.device)
        return sample.shaped(values, (), keepdims)
    if skip and x.dtype in dtypes.INEXACT:
        low, high = _around_middle(sample.counts())
        values = _middle(sample.pick(low), sample.pick(high), acc, result)
    else:
        values = _middle(*sample.middle(), acc, result)
        if x.dtype in dtypes.COMPLEX:  # as NumPy, the last of those with NaN
            last = sample.at(sample.n - 1)
            values = where(isnan(last), last, values)
    return sample.shaped(values, (), keepdims)


@fuse
def _around_middle(counts: Any) -> Any:
    return clip(counts - 1, 0, None) // 2, counts // 2


def _of_middle(
    skip: bool,
    x: Array,
    /,
    axis: Axis = None,
    out: Array | None = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> Array:
    name = "nanmedian" if skip else "median"
    return written(name, _median(name, x, axis, bool(keepdims), skip), one_out(name, out))


@public
@of(_of_middle, False)
def median() -> None:
    """The median over axes: the middle of the sorted elements, or the mean of the two middle ones; differentiable.

    Args:
        x: any array; for integers the result has the default floating dtype. Complex numbers are in the order of
            :func:`sort`.
        axis: the axis or axes; all by default.
        out: the array to write the result to.
        overwrite_input: has no effect: ``x`` is never written.
        keepdims: whether the axes stay, with size 1.

    Returns:
        The median; NaN if an element is NaN or there are no elements, of complex numbers the last with NaN in the
        order of :func:`sort`.

    Raises:
        AxisError: an axis is out of range.

    >>> import cukern as ck
    >>> ck.median(ck.asarray([3, 1, 2, 10])).item()
    2.5
    """


@public
@of(_of_middle, True)
def nanmedian() -> None:
    """The :func:`median` of the elements that are not NaN; NaN if there are none."""


def _fractions(name: str, q: Any, x: Array, whole: float) -> Array:
    """``q`` divided by ``whole``, as float64 on the device of ``x``.

    Raises:
        ValueError: there are more than two axes, or a number in host memory is out of range.
    """
    if type(q) in (int, float) and 0 <= q <= whole:
        return asarray(q / whole, dtypes.float64, x.device)
    listed = isinstance(q, (list, tuple)) and holds_array(q)
    given = asarray(q) if listed else q if isinstance(q, Array) else np.asarray(q, np.float64)
    if given.ndim > 2:
        raise ValueError(f"{name}: q: expected at most two axes, got shape {given.shape}")
    if not isinstance(given, Array) or given.device.addressable:
        with np.errstate(invalid="ignore"):
            known = np.asarray(given._fetched() if isinstance(given, Array) else given, np.float64)
            if not np.all((known >= 0) & (known <= whole)):
                raise ValueError(f"{name}: q: expected numbers from 0 to {whole:g}, got {q}")
    result = astype(asarray(given, device=x.device), dtypes.float64, copy=False)
    return result if whole == 1 else divide(result, whole)


def _quantile(
    name: str,
    x: Array,
    q: Any,
    whole: float,
    axis: Axis,
    method: str,
    keepdims: bool,
    skip: bool,
    weights: Array | None = None,
) -> Array:
    x = require_array(x, name)
    if x.dtype in dtypes.COMPLEX:
        raise TypeError(f"{name}: x: expected real numbers, got {x.dtype}")
    require_choice(f"{name}: method", method, _METHODS)
    row = _METHODS[method]
    if x.dtype == dtypes.bool_ and row.share is not None:
        raise TypeError(f"{name}: method {method!r} computes between elements, which bool has no room for")
    shares = _fractions(name, q, x, whole)
    sample = _Sample(name, x, axis)
    acc, result = _dtypes(x, q)
    if not sample.n:
        if not skip:
            raise IndexError(f"{name}: there are no elements along axis {axis}")
        values = full((*sample.sizes, shares.size), float("nan"), result, x.device)
        return sample.shaped(values, shares.shape, keepdims)
    skip = skip and x.dtype in dtypes.FLOATS
    flat = reshape(shares, (1,) * len(sample.sizes) + (-1,))
    if weights is not None:
        values = sample.pick(_weighted_places(name, sample, x, weights, flat, method, skip))
        return sample.shaped(values if skip else sample.unless_nan(values), shares.shape, keepdims)
    n: Any = astype(sample.counts(), dtypes.float64) if skip else float(sample.n)
    low, high, t = _places(flat, n, n - 1, method)
    values = sample.pick(low)
    if row.share is not None:
        values = _between(values, sample.pick(high), t, acc, result)
    return sample.shaped(values if skip else sample.unless_nan(values), shares.shape, keepdims)


def _weighted_places(
    name: str, sample: _Sample, x: Array, weights: Array, q: Array, method: str, skip: bool
) -> Array:
    """The first sorted positions at which the cumulative weights reach the fraction ``q`` of the total."""
    if method != "inverted_cdf":
        raise ValueError(f"{name}: method: expected 'inverted_cdf' with weights, got {method!r}")
    weights = require_array(weights, name, "weights", x)
    axes = sample.axes
    if weights.shape not in (x.shape, tuple(x.shape[i] for i in axes)):
        raise ValueError(
            f"{name}: weights: expected shape {x.shape} or that of the axes, got {weights.shape}"
        )
    with tape.stop_recording():
        if weights.shape != x.shape:
            weights = reshape(weights, [n if i in axes else 1 for i, n in enumerate(x.shape)])
        whole = broadcast_to(astype(weights, dtypes.float64), x.shape)
        kept = [i for i in range(x.ndim) if i not in axes]
        if x.device.addressable and bool(any_of(whole < 0)):
            raise ValueError(f"{name}: weights: expected numbers of at least 0")
        rows = reshape(permute_dims(whole, (*kept, *axes)), sample.rows.shape)
        if skip:
            rows = where(isnan(sample.rows), 0.0, rows)
        order = argsort(sample.rows)
        total = cumulative_sum(take_along_axis(rows, order, axis=-1), axis=-1)
        sums = total[..., -1:]
        fine = (sums > 0) & isfinite(sums)
        if skip:  # of nothing but NaN the result is NaN
            fine = fine | all_of(isnan(sample.rows), axis=-1, keepdims=True)
        if x.device.addressable and not bool(all_of(fine)):
            raise ValueError(f"{name}: weights: expected finite numbers, not all of them 0")
        below = total / sums
        # Elements with weight 0 are never chosen.
        return sum(_before(expand_dims(below, -2), expand_dims(q, -1)), -1, dtype=dtypes.int64)


@fuse
def _before(below: Any, q: Any) -> Any:
    return (below < q) | (below == 0)


class _Share(NamedTuple):
    """What quantiles are of: 1 or 100 for the whole, and whether NaN are left out."""

    name: str
    whole: float = 1.0
    skip: bool = False


def _of_share(
    share: _Share,
    x: Array,
    /,
    q: Any,
    axis: Axis = None,
    out: Array | None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Array | None = None,
) -> Array:
    result = _quantile(share.name, x, q, share.whole, axis, method, bool(keepdims), share.skip, weights)
    return written(share.name, result, one_out(share.name, out))


@public
@of(_of_share, _Share("quantile"))
def quantile() -> None:
    """The quantiles over axes, as ``numpy.quantile``; differentiable with respect to ``x`` and ``q``.

    Args:
        x: any array; interpolated integers have the default floating dtype.
        q: numbers from 0 to 1, at most two axes. Arrays on a GPU are not checked.
        axis: the axis or axes; all by default.
        out: the array to write the result to.
        overwrite_input: has no effect: ``x`` is never written.
        method: ``"linear"``, ``"lower"``, ``"higher"``, ``"midpoint"``, ``"nearest"``, or another of NumPy's names.
        keepdims: whether the axes stay, with size 1.
        weights: the weight of each element, of the shape of ``x`` or of ``axis``, for the method
            ``"inverted_cdf"``; a constant to tapes. Weights on a GPU are not checked.

    Returns:
        An array with the axes of ``q``, followed by the remaining axes of ``x``; NaN if an element is NaN.

    Raises:
        AxisError: an axis is out of range.
        IndexError: there are no elements along the axes.
        TypeError: ``x`` is complex; or bool, and the method computes between elements.
        ValueError: ``q`` is out of range, there is no such method, or weights are negative, not finite or all 0.

    >>> import cukern as ck
    >>> ck.quantile(ck.asarray([0.0, 1.0, 4.0]), [0.25, 0.5]).tolist()
    [0.5, 1.0]
    """


@public
@of(_of_share, _Share("percentile", 100.0))
def percentile() -> None:
    """The percentiles over axes: :func:`quantile` of ``q / 100``."""


@public
@of(_of_share, _Share("nanquantile", skip=True))
def nanquantile() -> None:
    """The :func:`quantile` of the elements that are not NaN; NaN if there are none."""


@public
@of(_of_share, _Share("nanpercentile", 100.0, skip=True))
def nanpercentile() -> None:
    """The :func:`percentile` of the elements that are not NaN; NaN if there are none."""
