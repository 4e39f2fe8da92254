"""The reduction table, and the normalised exponentials. A row says how values combine, and the derivative."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Literal, NamedTuple

import numpy.typing as npt

from .. import dtypes, tape
from ..array import Array
from ..creation import ones_like
from ..dtypes import DType
from ..expr import cast, input_node
from ..fuse import fuse
from ..operators import FUNCTIONS
from ..program import Program, program
from ..table import divide, equal, exp, isfinite, multiply, subtract, where
from . import reduction as mechanism
from .axes import Axis, normalize_axes, public, require_array
from .elementwise import astype
from .manipulate import broadcast_to, concat, moveaxis, reshape, stack
from .reduction import Reduction

__all__ = [
    "all",
    "any",
    "argmax",
    "argmin",
    "log_softmax",
    "logsumexp",
    "max",
    "mean",
    "min",
    "prod",
    "softmax",
    "std",
    "sum",
    "var",
]


class Span(NamedTuple):
    """What a derivative knows of a reduction: its axes, the values that make one result, the parameter."""

    axes: tuple[int, ...]
    n: int
    parameter: float


#: The cotangent of ``x``, from ``g`` and ``y`` that keep the reduced axes with size 1.
Vjp = Callable[[Array, Any, Any, Span], Array]


@cache
def _load(source: DType, value: DType) -> Program:
    """The program of a reduction's input as it is."""
    return program("load", (cast(input_node(0, source), value),), (source,))


class Reduce:
    """A reduction as a function of arrays.

    Args:
        row: how values combine.
        result: the kind of its result's dtype: that of a ``"sum"``, the ``"same"``, a ``"float"``, ``"bool"``
            or ``"index"``.
        vjp: the derivative; None where there is none.
        saves: what the derivative reads: ``"x"``, ``"y"`` or ``"xy"``.
        oracle: the NumPy function of the same values, where its name is another.
        doc: the first line of the docstring; the rest follows from the class and the row.
    """

    arguments = """
    Args:
        x: any array.
        axis: the axis or axes; all by default.
        keepdims: whether the axes stay, with size 1.

    Raises:
        AxisError: an axis is out of range.
        ValueError: an axis is named twice, or there is no value and the reduction of none has no result.
    """

    def __init__(
        self,
        row: Reduction,
        result: Literal["sum", "same", "float", "bool", "index"],
        vjp: Vjp | None = None,
        saves: str = "",
        oracle: str = "",
        doc: str = "",
    ) -> None:
        self.row, self.result, self.vjp, self.saves = row, result, vjp, saves
        self.name = self.__name__ = row.name
        self.oracle = oracle or row.name
        self.__doc__ = f"{doc}\n{self.arguments}"
        FUNCTIONS[row.name] = self

    def __repr__(self) -> str:
        return f"<reduction {self.name}>"

    def _dtypes(self, dtype: DType) -> tuple[DType, DType]:
        """The dtypes that values are reduced in and that the result has."""
        kind = dtypes.info(dtype).kind
        if self.result == "bool":
            return dtypes.bool_, dtypes.bool_
        if self.result == "index":
            return dtype, dtypes.int64
        if self.result == "float" and kind != "f":
            return dtypes.float64, dtypes.float64
        if self.result == "sum" and kind != "f":
            wide = dtypes.uint64 if kind == "u" else dtypes.int64
            return wide, wide
        return dtype, dtype

    def _apply(
        self, x: Array, axis: Any, keepdims: bool, dtype: npt.DTypeLike | None = None, parameter: float = 0.0
    ) -> Array:
        require_array(x, self.name)
        axes = normalize_axes(axis, x.ndim, self.name)
        value, result = self._dtypes(x.dtype)
        if dtype is not None:
            value = result = dtypes.as_dtype(dtype)
        n = math.prod(x.shape[i] for i in axes)
        if n == 0 and not self.row.empty:
            raise ValueError(f"{self.name}: no value to reduce along axes {axes} of shape {x.shape}")
        data = mechanism.run(
            self.row, _load(x.dtype, value), x.device, (x._data,), (), frozenset(axes), result, parameter
        )
        kept = tuple(1 if i in axes else size for i, size in enumerate(x.shape))
        y = Array._wrap(data.reshape(kept) if keepdims else data, x.device)
        if self.vjp is not None and tape.recording((x,)):
            self._record(self.vjp, x, y, kept, Span(axes, n, parameter))
        return y

    def _record(self, rule: Vjp, x: Array, y: Array, kept: tuple[int, ...], span: Span) -> None:
        shape, reads = x.shape, self.saves

        def vjp(cotangents: Sequence[Array], saved: Sequence[Array], needs: object) -> tuple[Array]:
            given = dict(zip(reads, saved, strict=True))
            y_ = reshape(given["y"], kept) if "y" in given else None
            return (broadcast_to(rule(reshape(cotangents[0], kept), given.get("x"), y_, span), shape),)

        tape.record(self.name, (x,), (y,), vjp, [x if which == "x" else y for which in reads])


class Accumulation(Reduce):
    """A sum or a product."""

    arguments = """
    Args:
        x: any array. Of a float dtype it is reduced in that (float32 in float64), else in int64 or uint64.
        axis: the axis or axes; all by default.
        dtype: what the values are cast to first, and the dtype of the result.
        keepdims: whether the axes stay, with size 1.

    Raises:
        AxisError: an axis is out of range.
        ValueError: an axis is named twice.
    """

    def __call__(
        self, x: Array, /, axis: Axis = None, *, dtype: npt.DTypeLike | None = None, keepdims: bool = False
    ) -> Array:
        return self._apply(x, axis, keepdims, dtype)


class Statistic(Reduce):
    """A reduction with no further argument."""

    def __call__(self, x: Array, /, axis: Axis = None, *, keepdims: bool = False) -> Array:
        return self._apply(x, axis, keepdims)


class Search(Reduce):
    """The place of an element along an axis, or in the flattened array."""

    arguments = """
    Args:
        x: any array.
        axis: the axis; by default the place is that in the flattened array.
        keepdims: whether the axis stays, with size 1.

    Raises:
        AxisError: the axis is out of range.
        ValueError: there is no value.
    """

    def __call__(self, x: Array, /, axis: int | None = None, *, keepdims: bool = False) -> Array:
        return self._apply(x, axis, keepdims)


class Spread(Reduce):
    """A variance or its root."""

    arguments = """
    Args:
        x: any array; integers are computed in float64.
        axis: the axis or axes; all by default.
        correction: what is taken from the number of values that it divides by.
        keepdims: whether the axes stay, with size 1.

    Raises:
        AxisError: an axis is out of range.
        ValueError: an axis is named twice.
    """

    def __call__(
        self, x: Array, /, axis: Axis = None, *, correction: float = 0.0, keepdims: bool = False
    ) -> Array:
        return self._apply(x, axis, keepdims, parameter=float(correction))


def _share(g: Array, x: Array, y: Array, span: Span) -> Array:
    """The cotangent of an extreme, shared equally by the elements that equal it."""
    chosen = equal(x, y)
    count = sum(chosen, span.axes, dtype=dtypes.info(x.dtype).acc, keepdims=True)
    return where(chosen, g / where(count > 0, count, 1), 0)


def _product_of_others(x: Array) -> Array:
    """Along the last axis, the product of all elements but each: right for zeros, and to any order.

    The product of pairs is taken down a tree, and what is outside of a pair comes back up.
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
    return g * moveaxis(reshape(others, moved.shape), last, span.axes)


def _freedom(span: Span) -> float:
    """What a variance divides by."""
    return span.n - span.parameter if span.n > span.parameter else 0.0


def _variance_vjp(g: Array, x: Array, y: Any, span: Span) -> Array:
    return (x - mean(x, span.axes, keepdims=True)) * (2 * g / _freedom(span))


def _deviation_vjp(g: Array, x: Array, y: Array, span: Span) -> Array:
    scale = where(y > 0, g / _freedom(span) / where(y > 0, y, 1), 0)
    return (x - mean(x, span.axes, keepdims=True)) * scale


def _exponential_share(g: Array, x: Array, y: Array, span: Span) -> Array:
    return g * exp(x - where(isfinite(y), y, 0))


sum = Accumulation(
    Reduction("sum", push="a + A(x)", combine="a + b", identity="A(0)", wide=True),
    "sum",
    vjp=lambda g, x, y, span: g,
    doc="The sum over axes, 0 of no value.",
)
prod = Accumulation(
    Reduction("prod", push="a * A(x)", combine="a * b", identity="A(1)", wide=True),
    "sum",
    vjp=_product_vjp,
    saves="x",
    doc="The product over axes, 1 of no value.",
)
mean = Statistic(
    Reduction("mean", push="a + A(x)", combine="a + b", identity="A(0)", finish="a / n", wide=True),
    "float",
    vjp=lambda g, x, y, span: g / span.n,
    doc="The mean over axes, NaN of no value; of integers, in float64.",
)
max = Statistic(
    Reduction(
        "max",
        push="maximum(a, x)",
        combine="maximum(a, b)",
        identity="limits<T>::lowest()",
        state="T",
        empty=False,
    ),
    "same",
    vjp=_share,
    saves="xy",
    doc="The largest value over axes, NaN if one is; equal values share the derivative.",
)
min = Statistic(
    Reduction(
        "min",
        push="minimum(a, x)",
        combine="minimum(a, b)",
        identity="limits<T>::highest()",
        state="T",
        empty=False,
    ),
    "same",
    vjp=_share,
    saves="xy",
    doc="The smallest value over axes, NaN if one is; equal values share the derivative.",
)
any = Statistic(
    Reduction("any", push="a | int(x)", combine="a | b", identity="0", finish="a != 0", state="int"),
    "bool",
    doc="Whether a value is true, False of no value.",
)
all = Statistic(
    Reduction("all", push="a & int(x)", combine="a & b", identity="1", finish="a != 0", state="int"),
    "bool",
    doc="Whether every value is true, True of no value.",
)
argmax = Search(
    Reduction(
        "argmax",
        push="largest(a, x, i)",
        combine="largest(a, b)",
        identity="State{limits<T>::lowest(), -1}",
        finish="a.at",
        state="Indexed<T>",
        ordered=True,
        empty=False,
        batch="largest(a, v, i, step)",
    ),
    "index",
    doc="The place of the largest value, the first of several; a NaN counts as the largest.",
)
argmin = Search(
    Reduction(
        "argmin",
        push="smallest(a, x, i)",
        combine="smallest(a, b)",
        identity="State{limits<T>::highest(), -1}",
        finish="a.at",
        state="Indexed<T>",
        ordered=True,
        empty=False,
        batch="smallest(a, v, i, step)",
    ),
    "index",
    doc="The place of the smallest value, the first of several; a NaN counts as the smallest.",
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
    vjp=_variance_vjp,
    saves="x",
    doc="The variance over axes: the mean squared difference from the mean, divided by n - correction.",
)
std = Spread(
    Reduction(
        "std",
        push="extended(a, A(x))",
        combine="joined(a, b)",
        identity="State{A(0), A(0), A(0)}",
        finish="sqrt(a.squares / maximum(n - A(p), A(0)))",
        state="Moments<A>",
        batch="extended(a, v)",
        wide=True,
        parameter=True,
    ),
    "float",
    vjp=_deviation_vjp,
    saves="xy",
    doc="The standard deviation over axes, the root of the variance; where it is 0 its derivative is 0.",
)
logsumexp = Statistic(
    Reduction(
        "logsumexp",
        push="extended(a, A(x))",
        combine="joined(a, b)",
        identity="State{limits<A>::lowest(), A(0)}",
        finish="a.peak + log(a.sum)",
        state="LogSum<A>",
    ),
    "float",
    vjp=_exponential_share,
    saves="xy",
    doc="log(sum(exp(x))) over axes, without overflow; -inf of no value, and where every value is -inf.",
)


def sum_to_shape(x: Array, shape: tuple[int, ...]) -> Array:
    """``x`` summed over the axes along which an array of ``shape`` is repeated to give its shape."""
    extra = x.ndim - len(shape)
    axes = tuple(i for i, n in enumerate(x.shape) if i < extra or n != shape[i - extra])
    return reshape(sum(x, axes), shape)


@fuse
def _exp_below(x: Array, peak: Array) -> Array:
    return exp(subtract(x, peak))


# Sums over an axis come in the accumulator's dtype: a half type would round them, or overflow.
@fuse
def _divided(x: Array, total: Array) -> Array:
    return divide(x, total).astype(x.dtype)


@fuse
def _below(x: Array, total: Array) -> Array:
    return subtract(x, total).astype(x.dtype)


@fuse
def _centred(g: Array, y: Array, mean: Array) -> Array:
    return multiply(y, subtract(g, mean)).astype(y.dtype)


@fuse
def _log_centred(g: Array, y: Array, total: Array) -> Array:
    return subtract(g, multiply(exp(y), total)).astype(y.dtype)


def _wide_sum(x: Array, axis: int) -> Array:
    return sum(x, axis, dtype=dtypes.info(x.dtype).acc, keepdims=True)


@public
def softmax(x: Array, /, axis: int = -1) -> Array:
    """exp(x) divided by its sum along an axis; NaN where all of the axis is -inf, or some of it inf.

    Args:
        x: an array; integers are computed in float64.
        axis: the axis.

    Raises:
        AxisError: there is no such axis.
    """

    def compute(x: Array) -> Array:
        e = _exp_below(x, max(x, axis, keepdims=True))
        return _divided(e, _wide_sum(e, axis))

    def vjp(g: Array, y: Array) -> Array:
        return _centred(g, y, _wide_sum(g * y, axis))

    return _normalized("softmax", x, axis, compute, vjp)


@public
def log_softmax(x: Array, /, axis: int = -1) -> Array:
    """The logarithm of :func:`softmax`, exact where that is small. Arguments as there."""

    def compute(x: Array) -> Array:
        return _below(x, logsumexp._apply(x, axis, True, dtypes.info(x.dtype).acc))

    def vjp(g: Array, y: Array) -> Array:
        return _log_centred(g, y, _wide_sum(g, axis))

    return _normalized("log_softmax", x, axis, compute, vjp)


def _normalized(
    name: str, x: Array, axis: int, compute: Callable[[Array], Array], rule: Callable[[Array, Array], Array]
) -> Array:
    """``compute(x)``, recorded with a derivative that reads the result."""
    normalize_axes(axis, require_array(x, name).ndim, name)
    with tape.stop_recording():
        wide = x if dtypes.info(x.dtype).kind == "f" else astype(x, dtypes.float64)
        y = compute(wide) if x.size else astype(wide, wide.dtype)
    if tape.recording((x,)):
        tape.record(name, (x,), (y,), lambda cotangents, saved, needs: (rule(cotangents[0], saved[0]),), (y,))
    return y
