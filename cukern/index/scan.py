"""Scans: cumulative sums, products, extremes and log-sums along an axis, in either direction.

Products and log-sums have derivatives by a linear recurrence ``y[j] = a[j] * y[j - 1] + b[j]``, a scan of affine maps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import dtypes
from ..array import Array
from ..array.creation import arange, zeros_like
from ..array.mapping import mapped, over_axis
from ..autodiff import tape
from ..cache import Cache
from ..dtypes import DType
from ..elementwise.complex_rows import conjugated
from ..elementwise.function import astype
from ..elementwise.fuse import fuse
from ..elementwise.operands import normalize_axis, public, require_array
from ..elementwise.table import clip, equal, exp, isfinite, isnan, log, minimum, where
from ..elementwise.ufunc import one_out, written
from ..kernel.by_numpy import watchers
from ..kernel.plan import kept, made
from ..shape.joins import concat
from ..shape.views import reshape
from .take import take_along_axis

__all__ = [
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "cumulative_prod",
    "cumulative_sum",
    "logcumsumexp",
    "nancumprod",
    "nancumsum",
]

#: Plans by what :func:`scanned` is given.
_PLANS: Cache[Any, Any] = kept("scan")


def scanned(
    scan: str, xs: Sequence[Array], axis: int, value: DType, reverse: bool = False, lead: bool = False
) -> Array:
    """The scan of a name, of an array or of a pair of one shape, along an axis in the dtype ``value``.

    With ``lead`` the result starts with the identity. Elements are combined in the same order in every run.
    """
    result: Array = made(scan, _scanned, scan, xs, axis, value, reverse, lead)
    return result


def _scanned(scan: str, xs: Sequence[Array], axis: int, value: DType, reverse: bool, lead: bool) -> Array:
    sources = [x if x._planned().contiguous else x.contiguous() for x in xs]
    key = tuple([x._layout or x._planned() for x in sources]), scan, axis, value, reverse, lead
    plan = None if watchers else _PLANS.get(key)
    if plan is None:
        from .families import SCAN  # many programs have no scan
        from .scan_variants import Scanning

        plan = _PLANS.keep(key, SCAN(Scanning(*key)))
    return plan(*sources)


def _prepared(x: Array, axis: int | None, name: str, flat: bool) -> tuple[Array, int]:
    """The array and the axis to scan; with ``flat``, an array without an axis is flattened as in NumPy."""
    x = require_array(x, name)
    if axis is None and flat:
        return reshape(x, (-1,)), 0
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f"{name}: axis: needed for an array with {x.ndim} axes")
        axis = 0
    return x, normalize_axis(axis, x.ndim, name)


def _sum_dtype(x: Array, dtype: npt.DTypeLike | None) -> DType:
    if dtype is not None:
        wanted = dtypes.as_dtype(dtype)
        dtypes.refuse_real("dtype", x.dtype, wanted)
        return wanted
    kind = dtypes.info(x.dtype).kind
    return x.dtype if kind in "fc" else dtypes.uint64 if kind == "u" else dtypes.int64


@mapped(over_axis("axis"))
def _sum(x: Array, axis: int, dtype: DType, reverse: bool, lead: bool) -> Array:
    with tape.stop_recording():
        result = scanned("cumsum", (x,), axis, dtype, reverse, lead)
    if tape.recording((x,)):
        n = x.shape[axis]
        inside = (slice(None),) * axis + (slice(0, n) if reverse else slice(int(lead), None),)
        tape.record(
            "cumulative_sum",
            (x,),
            (result,),
            lambda cotangents, saved, needs: (_sum(cotangents[0][inside], axis, dtype, not reverse, False),),
            jvp=lambda tangents, saved: (_sum(tangents[0], axis, dtype, reverse, lead),),
        )
    return result


@mapped(over_axis("axis"))
def _product(x: Array, axis: int, dtype: DType, lead: bool) -> Array:
    with tape.stop_recording():
        result = scanned("cumprod", (x,), axis, dtype, lead=lead)
    if tape.recording((x,)):

        def vjp(cotangents: tape.Arrays, saved: tape.Arrays, needs: object) -> tuple[Array]:
            inside = (slice(None),) * axis + (slice(int(lead), None),)
            return (_product_cotangent(astype(cotangents[0][inside], x_dtype, copy=False), saved[0], axis),)

        x_dtype = x.dtype
        tape.record("cumulative_prod", (x,), (result,), vjp, (x,))
    return result


def _product_cotangent(g: Array, x: Array, axis: int) -> Array:
    """The product before each element times the recurrence after it, without a division, so zeros need no special case.

    The recurrence is ``s[i] = g[i] + x[i + 1] * s[i + 1]``.
    """
    x = conjugated(x)
    before = _part(_product(x, axis, x.dtype, True), axis, slice(0, x.shape[axis]))
    after = recurrence(shifted(x, axis, True), g, axis, True)
    result: Array = _before_after(before, after)
    return result


@fuse
def _before_after(before: Any, after: Any) -> Any:
    # What is infinite or NaN before must not give NaN where the factor after it is 0.
    return where(isfinite(before) | (after != 0), before, 0) * after


def _part(x: Array, axis: int, part: slice) -> Array:
    return x[(slice(None),) * axis + (part,)]


def shifted(x: Array, axis: int, back: bool) -> Array:
    """The next element along an axis if ``back``, else the previous one; zero at the end."""
    n = x.shape[axis]
    end = zeros_like(_part(x, axis, slice(0, min(n, 1))))
    rest = _part(x, axis, slice(1, None) if back else slice(0, max(n - 1, 0)))
    return concat([rest, end] if back else [end, rest], axis=axis)


@fuse
def _marked(a: Any, begins: Any) -> Any:
    """Factors of which -0 marks where a recurrence begins anew, which the kernels select."""
    kept = where(a == 0, 0, a)
    return kept if begins is None else where(begins, -0.0, kept)


@mapped(over_axis("axis", flat=False))
def recurrence(a: Array, b: Array, axis: int, reverse: bool, begins: Array | None = None) -> Array:
    """``y[j] = a[j] * y[j - 1] + b[j]`` along an axis; with ``reverse``, from ``y[j + 1]``.

    0 times an infinity is 0. The derivative is the recurrence in the other direction.

    Args:
        a: the factors, of a floating dtype.
        b: what is added.
        axis: the axis.
        reverse: whether it goes from the end backwards.
        begins: where it begins anew, ``y[j] = b[j]`` whatever came before; bool, with the axes of ``b``, to which it
            broadcasts.
    """
    with tape.stop_recording():
        y = scanned("recurrence", (_marked(a, begins), b), axis, b.dtype, reverse)
    if tape.recording((a, b)):

        def vjp(cotangents: tape.Arrays, saved: tape.Arrays, needs: Sequence[bool]) -> list[Array | None]:
            a, y = map(conjugated, saved)
            back = not reverse
            after = None if begins is None else shifted(begins, axis, back)
            h = recurrence(shifted(a, axis, back), cotangents[0], axis, back, after)
            of_a = h * shifted(y, axis, reverse) if needs[0] else None
            return [of_a if of_a is None or begins is None else where(begins, 0, of_a), h]

        def jvp(tangents: Sequence[Array | None], saved: tape.Arrays) -> list[Array]:
            (ta, tb), (a, y) = tangents, saved
            added = tb
            if ta is not None:
                of_a = ta * shifted(y, axis, reverse)
                of_a = of_a if begins is None else where(begins, 0, of_a)
                added = of_a if tb is None else of_a + tb
            assert added is not None
            return [recurrence(a, added, axis, reverse, begins)]

        tape.record("recurrence", (a, b), (y,), vjp, (a, y), jvp=jvp)
    return y


@public
def cumulative_sum(
    x: Array,
    /,
    *,
    axis: int | None = None,
    dtype: npt.DTypeLike | None = None,
    include_initial: bool = False,
    out: Array | None = None,
) -> Array:
    """The cumulative sums of the elements along an axis.

    Args:
        x: any array; bool and integers are summed in int64 or uint64, float32 in float64.
        axis: the axis; may be omitted for a vector.
        dtype: the dtype to which values are cast, and that of the result.
        include_initial: whether the result starts with an additional 0.
        out: an array that the result is written to, and that is returned.

    Raises:
        AxisError: there is no such axis.
        ValueError: ``axis`` is omitted, and ``x`` is not a vector.

    >>> import cukern as ck
    >>> ck.cumulative_sum(ck.asarray([1, 2, 3]), include_initial=True).tolist()
    [0, 1, 3, 6]
    """
    x, axis = _prepared(x, axis, "cumulative_sum", False)
    result = _sum(x, axis, _sum_dtype(x, dtype), False, bool(include_initial))
    return written("cumulative_sum", result, one_out("cumulative_sum", out))


@public
def cumulative_prod(
    x: Array,
    /,
    *,
    axis: int | None = None,
    dtype: npt.DTypeLike | None = None,
    include_initial: bool = False,
    out: Array | None = None,
) -> Array:
    """The cumulative products along an axis; arguments as in :func:`cumulative_sum`, with an initial 1."""
    x, axis = _prepared(x, axis, "cumulative_prod", False)
    wanted = _sum_dtype(x, dtype)
    result = _product(astype(x, wanted, copy=False), axis, wanted, bool(include_initial))
    return written("cumulative_prod", result, one_out("cumulative_prod", out))


@public
def cumsum(
    x: Array, /, axis: int | None = None, dtype: npt.DTypeLike | None = None, out: Array | None = None
) -> Array:
    """:func:`cumulative_sum` with NumPy's arguments; without ``axis``, of the flattened array."""
    x, axis = _prepared(x, axis, "cumsum", True)
    return written("cumsum", _sum(x, axis, _sum_dtype(x, dtype), False, False), one_out("cumsum", out))


@public
def cumprod(
    x: Array, /, axis: int | None = None, dtype: npt.DTypeLike | None = None, out: Array | None = None
) -> Array:
    """:func:`cumulative_prod` with NumPy's arguments; without ``axis``, of the flattened array."""
    x, axis = _prepared(x, axis, "cumprod", True)
    wanted = _sum_dtype(x, dtype)
    result = _product(astype(x, wanted, copy=False), axis, wanted, False)
    return written("cumprod", result, one_out("cumprod", out))


@public
def nancumsum(
    x: Array, /, axis: int | None = None, dtype: npt.DTypeLike | None = None, out: Array | None = None
) -> Array:
    """:func:`cumsum` with NaN treated as 0."""
    x = require_array(x, "nancumsum")
    return cumsum(where(isnan(x), 0, x), axis, dtype, out)


@public
def nancumprod(
    x: Array, /, axis: int | None = None, dtype: npt.DTypeLike | None = None, out: Array | None = None
) -> Array:
    """:func:`cumprod` with NaN treated as 1."""
    x = require_array(x, "nancumprod")
    return cumprod(where(isnan(x), 1, x), axis, dtype, out)


@mapped(over_axis("axis"))
def _extreme(scan: str, x: Array, axis: int | None) -> Array:
    x, axis = _prepared(x, axis, scan, True)
    with tape.stop_recording():
        result = scanned(scan, (x,), axis, x.dtype)
    if not tape.recording((x,)):
        return result
    # The last of equal elements gets the derivative.
    with tape.stop_recording():
        numbers = reshape(arange(x.shape[axis], device=x.device), (-1,) + (1,) * (x.ndim - axis - 1))
        last = scanned("cummax", (where(equal(x, result) | isnan(x), numbers, 0),), axis, dtypes.int64)
    return take_along_axis(x, last, axis=axis)


@public
def cummax(x: Array, /, axis: int | None = None) -> Array:
    """The cumulative maximum along an axis; NaN from the first NaN on.

    Args:
        x: any array.
        axis: the axis; if None, the array is flattened.

    Raises:
        AxisError: there is no such axis.
    """
    return _extreme("cummax", x, axis)


@public
def cummin(x: Array, /, axis: int | None = None) -> Array:
    """The cumulative minimum along an axis; arguments as in :func:`cummax`."""
    return _extreme("cummin", x, axis)


@public
@mapped(over_axis("axis", flat=False))
def logcumsumexp(x: Array, /, axis: int | None = None) -> Array:
    """``log(cumsum(exp(x)))`` along an axis, without overflow; in the default floating dtype for integers.

    Arguments as in :func:`cummax`.
    """
    x, dim = _prepared(x, axis, "logcumsumexp", True)
    if dtypes.info(x.dtype).kind != "f":
        x = astype(x, dtypes.get_default_dtype())
    with tape.stop_recording():
        peak, terms, shrunk = _terms_below(x, dim)
        result: Array = _log_sums(peak, recurrence(shrunk, terms, dim, False), x)
    if tape.recording((x,)):

        def vjp(cotangents: tape.Arrays, saved: tape.Arrays, needs: object) -> tuple[Array]:
            (g,), (x,) = cotangents, saved
            peak, terms, shrunk = _terms_below(x, dim)
            sums = recurrence(shrunk, terms, dim, False)
            kept = shifted(shrunk, dim, True) * _share(sums, shifted(sums, dim, True))
            return (_cotangent(x, terms, sums, recurrence(kept, astype(g, peak.dtype), dim, True)),)

        tape.record("logcumsumexp", (x,), (result,), vjp, (x,))
    return result


def _terms_below(x: Array, axis: int) -> tuple[Array, Array, Array]:
    """The largest value so far, a constant, the exponentials below it, and by what it shrinks those before."""
    acc = dtypes.info(x.dtype).acc
    with tape.stop_recording():
        peak = scanned("cummax", (x,), axis, acc)
        shrunk = _shrunk(shifted(peak, axis, False), peak)
    return peak, _exp_below(astype(x, acc, copy=False), peak), shrunk


# The cotangent of an element is its share of each later sum of exponentials, added up by t[i] = g[i] + (the share of
# sum i in sum i + 1) * t[i + 1]. The sums are those below the largest value so far, not logarithms, which are rounded.


def _finite(x: Any) -> Any:
    most = float(np.finfo(x.dtype).max)
    return clip(x, -most, most)


@fuse
def _exp_below(x: Any, peak: Any) -> Any:
    return exp(minimum(x, float(np.finfo(peak.dtype).max)) - _finite(peak))


@fuse
def _shrunk(before: Any, peak: Any) -> Any:
    # Of the number beyond an end at most 1: it multiplies a 0.
    return exp(minimum(_finite(before) - _finite(peak), 0))


@fuse
def _log_sums(peak: Any, sums: Any, like: Any) -> Any:
    return (peak + log(sums)).astype(like.dtype)


@fuse
def _share(part: Any, total: Any) -> Any:
    return part / where(equal(total, 0), 1, total)


@fuse
def _cotangent(x: Any, terms: Any, sums: Any, total: Any) -> Any:
    share = terms / where(equal(sums, 0), 1, sums)
    return where(equal(x, math.inf), math.nan, share * total).astype(x.dtype)
