"""The reduction table: a row says how values are combined, and the derivative.

Variances are combined from means and squared deviations of parts (Welford; Chan, Golub & LeVeque), and logsumexp from
the largest value and the sum of exponentials below it, so neither overflows nor cancels.
"""

from __future__ import annotations

import operator
from dataclasses import replace
from typing import Any

import numpy.typing as npt

from .. import dtypes
from ..array import Array
from ..array.creation import asarray, ones_like
from ..array.mapping import mapped, over_axis
from ..autodiff import tape
from ..elementwise.complex_rows import conjugated, imag, real
from ..elementwise.fuse import fuse
from ..elementwise.graph import Expr, Reduced
from ..elementwise.operands import Axis, require_array
from ..elementwise.table import _inverse, equal, exp, hypot, where
from ..elementwise.ufunc import one_out, written
from ..kernel.strides import broadcast_axes
from ..shape.joins import concat, stack
from ..shape.views import moveaxis, reshape
from .choice import planned
from .function import Reduce, Rule, Span, exponential_below
from .masked import masked_mean, masked_spread, one_correction
from .plan import Reduction, load

__all__ = [
    "all",
    "any",
    "argmax",
    "argmin",
    "logsumexp",
    "max",
    "mean",
    "min",
    "nanargmax",
    "nanargmin",
    "nanmax",
    "nanmin",
    "prod",
    "std",
    "sum",
    "var",
]

_OUT = """
        out: the array to write the result to, whose dtype must be of the same kind or a wider one."""
_WHERE = """
        where: a bool mask that broadcasts to ``x``; only elements where it is true are reduced."""
_INITIAL = """
        initial: a number that is reduced together with the elements, cast to the result's dtype."""
_RAISES = """
    Raises:
        AxisError: an axis is out of range.
        TypeError: ``where`` is not bool.
        ValueError: an axis is named twice"""
_AXES = """
        axis: the axis or axes; all by default."""
_KEEP = """
        keepdims: whether the axes stay, with size 1."""


class Accumulation(Reduce):
    """A sum or a product."""

    arguments = f"""
    Args:
        x: any array. Floats are reduced in their dtype (float32 in float64), others in int64 or uint64.{_AXES}
        dtype: the dtype to which values are cast first, and that of the result.{_OUT}{_KEEP}{_INITIAL}{_WHERE}
{_RAISES}, or ``where`` does not broadcast.
    """

    def __call__(
        self,
        x: Array,
        /,
        axis: Axis = None,
        dtype: npt.DTypeLike | None = None,
        out: Array | None = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
    ) -> Array:
        if out is not None:
            return written(
                self.name, self(x, axis, dtype, None, keepdims, initial, where), one_out(self.name, out)
            )
        return self._apply(x, axis, keepdims, dtype, where=where, initial=initial)


class Statistic(Reduce):
    """A reduction without further arguments."""

    def __call__(self, x: Array, /, axis: Axis = None, *, keepdims: bool = False) -> Array:
        return self._apply(x, axis, keepdims)


class Truth(Reduce):
    """A reduction to a bool."""

    arguments = f"""
    Args:
        x: any array; elements other than 0 are true, NaN too.{_AXES}{_OUT}{_KEEP}{_WHERE}
{_RAISES}, or ``where`` does not broadcast.
    """

    def __call__(
        self,
        x: Array,
        /,
        axis: Axis = None,
        out: Array | None = None,
        keepdims: bool = False,
        *,
        where: Any = None,
    ) -> Array:
        if out is not None:
            return written(self.name, self(x, axis, None, keepdims, where=where), one_out(self.name, out))
        return self._apply(x, axis, keepdims, where=where)


class Extreme(Reduce):
    """A largest or smallest value."""

    arguments = f"""
    Args:
        x: any array.{_AXES}{_OUT}{_KEEP}{_INITIAL}{_WHERE} It needs ``initial``.
{_RAISES}; or there is no value, and no ``initial``.
    """

    def __call__(
        self,
        x: Array,
        /,
        axis: Axis = None,
        out: Array | None = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
    ) -> Array:
        if out is not None:
            return written(self.name, self(x, axis, None, keepdims, initial, where), one_out(self.name, out))
        where = None if where is True else where
        if where is not None and initial is None:
            raise ValueError(f"{self.name}: where: give initial as well, the result of no value")
        return self._apply(x, axis, keepdims, where=where, initial=initial)


class Search(Reduce):
    """The index of an element along an axis, or in the flattened array."""

    arguments = """
    Args:
        x: any array.
        axis: the axis; by default the index is that in the flattened array.
        out: the int64 array to write the result to.
        keepdims: whether the axis stays, with size 1.

    Raises:
        AxisError: the axis is out of range.
        TypeError: ``axis`` is not an integer, or ``out`` is not an array of integers that hold the result.
        ValueError: there is no value.
    """

    def __call__(
        self, x: Array, /, axis: int | None = None, out: Array | None = None, *, keepdims: bool = False
    ) -> Array:
        if out is not None:
            target = one_out(self.name, out)
            if target is not None and target.dtype.kind != "i":
                raise TypeError(f"{self.name}: out: expected an array of integers, got {target.dtype}")
            return written(self.name, self(x, axis, keepdims=keepdims), target)
        return self._apply(x, None if axis is None else operator.index(axis), keepdims)


class NumberSearch(Search):
    """The index of an element, ignoring NaN."""

    arguments = f"""{Search.arguments.rstrip()} The check that not all values are NaN waits for the device;
            in a fused function the index is -1 instead.
    """

    def __call__(
        self, x: Array, /, axis: int | None = None, out: Array | None = None, *, keepdims: bool = False
    ) -> Array:
        if not isinstance(x, (Expr, Reduced)):
            x = require_array(x, self.name)
        result = super().__call__(x, axis, out, keepdims=keepdims)
        if isinstance(result, Array) and result.size and x.dtype in dtypes.INEXACT and min(result).item() < 0:
            raise ValueError(f"{self.name}: x: all elements are NaN along axis {axis}")
        return result


class Mean(Reduce):
    """A mean."""

    arguments = f"""
    Args:
        x: any array; integers are computed in float64 for a result of the default floating dtype.{_AXES}
        dtype: what the values are cast to first, if that is a float, and the dtype of the result.{_OUT}{_KEEP}{_WHERE}
{_RAISES}, or ``where`` does not broadcast.
    """

    def __call__(
        self,
        x: Array,
        /,
        axis: Axis = None,
        dtype: npt.DTypeLike | None = None,
        out: Array | None = None,
        keepdims: bool = False,
        *,
        where: Any = None,
    ) -> Array:
        if out is not None:
            return written(
                self.name, self(x, axis, dtype, None, keepdims, where=where), one_out(self.name, out)
            )
        if where is not None and where is not True:
            return masked_mean(self.name, x, axis, keepdims, dtype, where)
        return self._apply(x, axis, keepdims, dtype)


class Spread(Reduce):
    """A variance or its square root."""

    arguments = f"""
    Args:
        x: any array; integers are computed in float64 for a result of the default floating dtype. The variance of
            complex numbers is that of their real parts plus that of their imaginary parts.{_AXES}
        dtype: what the values are cast to first, if that is a float, and the dtype of the result.{_OUT}
        correction: is subtracted from the number of values in the divisor.{_KEEP}
        ddof: another name of ``correction``.{_WHERE}
        mean: the mean, if it is known, as with ``keepdims=True``; it is not computed then.
{_RAISES}, ``where`` does not broadcast, or both ``correction`` and ``ddof`` are given.
    """

    def __call__(
        self,
        x: Array,
        /,
        axis: Axis = None,
        dtype: npt.DTypeLike | None = None,
        out: Array | None = None,
        ddof: float | None = None,
        keepdims: bool = False,
        *,
        correction: float | None = None,
        where: Any = None,
        mean: Any = None,
    ) -> Array:
        if out is not None:
            result = self(x, axis, dtype, None, ddof, keepdims, correction=correction, where=where, mean=mean)
            return written(self.name, result, one_out(self.name, out))
        where = None if where is True else where
        taken = one_correction(self.name, correction, ddof)
        x = x if isinstance(x, (Array, Expr, Reduced)) else require_array(x, self.name)
        if mean is not None and where is None:
            where = asarray(True, device=x.device if isinstance(x, Array) else None)
        if isinstance(x, Array) and x.dtype in dtypes.COMPLEX and where is None:
            wanted = None if dtype is None else dtypes.info(dtypes.as_dtype(dtype)).real
            parts = [self._apply(part, axis, keepdims, wanted, taken) for part in (real(x), imag(x))]
            # Of one value each, deviations are 0 with all their derivatives.
            root = self.name == "std" and parts[0].size != x.size
            return hypot(*parts) if root else parts[0] + parts[1]
        if where is not None:
            root = self.name == "std"
            return masked_spread(self.name, x, axis, keepdims, dtype, where, taken, root, mean=mean)
        return self._apply(x, axis, keepdims, dtype, taken)


def _product_of_others(x: Array) -> Array:
    """For each element along the last axis, the product of all others; exact for zeros, with all derivatives.

    Products of pairs go up a binary tree, and the products of all elements outside each subtree come back down.
    """
    n = x.shape[-1]
    if n <= 1:
        return ones_like(x)
    if n % 2:
        rest, last = x[..., : n - 1], x[..., n - 1 :]
        return concat([_product_of_others(rest) * last, prod(rest, -1, keepdims=True)], axis=-1)
    even, odd = x[..., 0::2], x[..., 1::2]
    outside = _product_of_others(even * odd)
    return reshape(stack([outside * odd, outside * even], axis=-1), x.shape)


def _product_vjp(g: Array, x: Array, y: Any, span: Span) -> Array:
    last = tuple(range(x.ndim - len(span.axes), x.ndim))
    moved = moveaxis(x, span.axes, last)
    others = _product_of_others(reshape(moved, (*moved.shape[: x.ndim - len(span.axes)], span.n)))
    return g * moveaxis(reshape(conjugated(others), moved.shape), last, span.axes)


def _freedom(span: Span) -> float:
    """The divisor of a variance."""
    return span.n - span.parameter if span.n > span.parameter else 0.0


def _freedom_of_root(span: Span) -> float:
    """Infinity for the deviation of one value, which is 0 with all its derivatives."""
    return _INF if span.n == 1 and not span.parameter else _freedom(span)


_INF = float("inf")
_NAN = float("nan")
#: The cotangent of an extreme is shared equally by the values that equal it.
_SHARED = Rule(lambda g, x, y, e, s: where(equal(x, y), g / where(e > 0, e, 1), 0), other="count")
_VARIANCE = Rule(lambda g, x, y, e, s: (x - e).astype(x.dtype) * (2 * g / s), number=_freedom, other="mean")
_DEVIATION = Rule(
    lambda g, x, y, e, s: (x - e).astype(x.dtype) * (g / s * _inverse(where(equal(s, _INF), _INF, y))),
    number=_freedom_of_root,
    other="mean",
)
#: By the sum of exponentials, as their logarithm is rounded to the digits of large values.
_LOG_SUM = Rule(
    lambda g, x, y, e, s: exponential_below(x, y) * (g / where(equal(e, 0), 1, e)), other="exponentials"
)


def _extreme(name: str, push: str, combine: str, identity: str, **options: Any) -> Extreme:
    """A row of a value that is one of those reduced."""
    row = Reduction(name, push=push, combine=combine, identity=identity, state="T", empty=False)
    return Extreme(row, "same", _SHARED, **options)


def _place(name: str, which: str, identity: str, doc: str) -> Search:
    """A row of the place of such a value; equal ones have the first."""
    row = Reduction(
        name,
        push=f"{which}(a, x, i)",
        combine=f"{which}(a, b)",
        identity=f"State{{limits<T>::{identity}(), -1}}",
        finish="a.at",
        state="Indexed<T, Place>",
        ordered=True,
        empty=False,
        batch=f"{which}(a, v, i, step)",
    )
    return Search(row, "index", doc=doc)


sum = Accumulation(
    Reduction("sum", push="a + A(x)", combine="a + b", identity="A(0)", wide=True),
    "sum",
    Rule(lambda g, x, y, e, s: g),
    join="add",
    doc="The sum over axes, 0 for no values.",
)
prod = Accumulation(
    Reduction("prod", push="a * A(x)", combine="a * b", identity="A(1)", wide=True),
    "sum",
    _product_vjp,
    neutral=1.0,
    join="multiply",
    doc="The product over axes, 1 for no values.",
)
mean = Mean(
    Reduction("mean", push="a + A(x)", combine="a + b", identity="A(0)", finish="a / n", wide=True),
    "float",
    Rule(lambda g, x, y, e, s: g / s),
    doc="The mean over axes, NaN for no values; in the default floating dtype for integers.",
)
max = _extreme(
    "max",
    push="maximum(a, x)",
    combine="maximum(a, b)",
    identity="limits<T>::lowest()",
    neutral=-_INF,
    join="maximum",
    doc="The largest value over axes, NaN if one is; equal values share the derivative.",
)
min = _extreme(
    "min",
    push="minimum(a, x)",
    combine="minimum(a, b)",
    identity="limits<T>::highest()",
    neutral=_INF,
    join="minimum",
    doc="The smallest value over axes, NaN if one is; equal values share the derivative.",
)
any = Truth(
    Reduction("any", push="a | int(x)", combine="a | b", identity="0", finish="a != 0", state="int"),
    "bool",
    doc="Whether any value is true; False for no values.",
)
all = Truth(
    Reduction("all", push="a & int(x)", combine="a & b", identity="1", finish="a != 0", state="int"),
    "bool",
    neutral=1.0,
    doc="Whether all values are true; True for no values.",
)
argmax = _place(
    "argmax",
    which="largest",
    identity="lowest",
    doc="The index of the largest value, the first of equal ones; NaN counts as the largest.",
)
argmin = _place(
    "argmin",
    which="smallest",
    identity="highest",
    doc="The index of the smallest value, the first of equal ones; NaN counts as the smallest.",
)
nanmax = _extreme(
    "nanmax",
    push="x > a || a != a ? x : a",
    combine="b > a || a != a ? b : a",
    identity="limits<T>::quiet_nan()",
    neutral=_NAN,
    join="fmax",
    without=max,
    doc="The largest value over axes that is not NaN; NaN if there is none. Equal values share the derivative.",
)
nanmin = _extreme(
    "nanmin",
    push="x < a || a != a ? x : a",
    combine="b < a || a != a ? b : a",
    identity="limits<T>::quiet_nan()",
    neutral=_NAN,
    join="fmin",
    without=min,
    doc="The smallest value over axes that is not NaN; NaN if there is none. Equal values share the derivative.",
)
nanargmax = NumberSearch(
    replace(argmax.row, name="nanargmax", push="x != x ? a : largest(a, x, i)", batch=""),
    "index",
    without=argmax,
    doc="The index of the largest value that is not NaN, the first of equal ones.",
)
nanargmin = NumberSearch(
    replace(argmin.row, name="nanargmin", push="x != x ? a : smallest(a, x, i)", batch=""),
    "index",
    without=argmin,
    doc="The index of the smallest value that is not NaN, the first of equal ones.",
)
var = Spread(
    Reduction(
        "var",
        push="extended(a, A(x))",
        combine="joined(a, b)",
        identity="State{A(0), A(0), A(0)}",
        finish="a.squares / maximum(n - A(p), A(0))",
        state="Moments<A>",
        batch="extended(a, v)",
        wide=True,
        parameter=True,
    ),
    "float",
    _VARIANCE,
    real=True,
    doc="The variance over axes: the mean squared difference from the mean, divided by n - correction.",
)
std = Spread(
    replace(var.row, name="std", finish="sqrt(a.squares / maximum(n - A(p), A(0)))"),
    "float",
    _DEVIATION,
    real=True,
    doc="The standard deviation over axes, the square root of the variance; its first derivative where it is 0 is 0, "
    "the second NaN.",
)
logsumexp = Statistic(
    Reduction(
        "logsumexp",
        push="extended(a, A(x))",
        combine="joined(a, b)",
        identity="State{limits<A>::lowest(), A(0)}",
        finish="a.peak + log(a.sum)",
        state="LogSum<A>",
        batch="extended(a, v)",
    ),
    "float",
    _LOG_SUM,
    real=True,
    doc="log(sum(exp(x))) over axes, without overflow; -inf if there are no values or all are -inf. Its derivative, "
    "the softmax of x, is NaN at an infinity, and 0 where all are -inf.",
)
_PEAK_AND_REST = Reduce(
    replace(logsumexp.row, name="peak_and_log_sum", finish="complex<A>(a.peak, log(a.sum))"),
    "float",
    doc="The two terms of logsumexp, which their sum would round, as a complex number.",
    public=False,
)


@mapped(over_axis("axis"))
def normalizers(x: Array, axis: int) -> tuple[Array, Array]:
    """The two terms of :func:`logsumexp` along an axis, in the accumulator's dtype, the axis with size 1.

    The largest value, a constant to tapes, and the logarithm of the sum of exponentials below it, which carries the
    derivative. Their sum is rounded to the digits of the largest value: subtract one after the other.
    """
    with tape.stop_recording():
        pairs = _PEAK_AND_REST.evaluate(
            load(x.dtype, x.dtype),
            (x,),
            (),
            (axis % x.ndim,),
            True,
            dtypes.complex_of(dtypes.info(x.dtype).acc),
        )
        peak, rest = real(pairs), imag(pairs)
    if tape.recording((x,)):
        tape.record(
            "normalizers",
            (x,),
            (rest,),
            lambda cotangents, saved, needs: (_share(cotangents[0], *saved),),
            (x, peak, rest),
        )
    return peak, rest


@fuse
def _share(g: Any, x: Any, peak: Any, rest: Any) -> Any:
    """The cotangent of ``x`` from that of ``rest``."""
    return (g * exp(x.astype(peak.dtype) - peak - rest)).astype(x.dtype)


def sum_to_shape(
    x: Array, shape: tuple[int, ...], dtype: dtypes.DType | None = None, onto: Array | None = None
) -> Array:
    """``x`` summed over the axes along which an array of ``shape`` was broadcast to the shape of ``x``.

    Args:
        dtype: to which sums of real numbers are rounded; that of ``x`` when None.
        onto: an array of that shape and dtype to which the sum is added, by the same launch where that can be.
    """
    axes = broadcast_axes(shape, x.shape)
    if onto is not None:
        dtype, kept = onto.dtype, tuple([n for i, n in enumerate(x.shape) if i not in axes])
        if (
            {dtype, x.dtype} <= set(dtypes.FLOATS)
            and onto.is_contiguous
            and x.size
            and not tape.recording((x, onto))
        ):
            plan = planned((x,), sum.row, load(x.dtype, x.dtype), axes, False, dtype, True)
            onto._planned()
            result = plan.run((x,), (), onto=onto)
            return result if kept == shape else reshape(result, shape)
        return sum_to_shape(x, shape, dtype) + onto
    if dtype is None or dtype == x.dtype or not {dtype, x.dtype} <= set(dtypes.FLOATS):
        result = sum(x, axes)
    else:
        result = sum.evaluate(load(x.dtype, x.dtype), (x,), (), axes, False, dtype)
    return result if result.shape == shape else reshape(result, shape)
