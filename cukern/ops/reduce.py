"""The reduction table, and the normalised exponentials. A row says how values combine, and the derivative."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, NamedTuple

import numpy.typing as npt

from .. import dtypes, tape
from ..array import Array
from ..creation import ones_like
from ..dtypes import DType
from ..expr import Expr, Reduced, call, cast, input_node, scalar_node
from ..operators import FUNCTIONS
from ..program import Program, compact, program, roots_from
from ..table import equal, exp, isfinite, where
from . import reduction as mechanism
from .axes import Axis, normalize_axes, require_array
from .elementwise import evaluate, one_device
from .launch import broadcast_shapes
from .manipulate import broadcast_to, concat, moveaxis, reshape, stack
from .reduction import Reduction

__all__ = [
    "all",
    "any",
    "argmax",
    "argmin",
    "logsumexp",
    "max",
    "mean",
    "min",
    "prod",
    "std",
    "sum",
    "var",
]


class Span(NamedTuple):
    """What a derivative knows of a reduction: its axes, the values that make one result, the parameter."""

    axes: tuple[int, ...]
    n: int
    parameter: float


@dataclass(frozen=True, eq=False)
class Rule:
    """The derivative of a reduction, an expression that becomes part of one elementwise kernel.

    Attributes:
        cotangent: of a value, from symbols: ``g`` and ``y`` of the result, the value ``x``, another reduction ``e``
            of the values, and a number ``s``.
        number: ``s``.
        other: what ``e`` is: the ``"mean"`` of the values, or the ``"count"`` of those that equal ``y``.
    """

    cotangent: Callable[[Any, Any, Any, Any, Any], Any]
    number: Callable[[Span], float] = lambda span: float(span.n)
    other: Literal["", "mean", "count"] = ""


#: A derivative in functions of arrays: from ``g`` and ``y`` that keep the reduced axes with size 1.
Vjp = Callable[[Array, Array, Array, Span], Array]


@cache
def _load(source: DType, value: DType) -> Program:
    """The program of a reduction's input as it is."""
    return program("load", (cast(input_node(0, source), value),), (source,))


class Pulled(NamedTuple):
    """How the cotangents of a reduction's inputs follow: a program, what it reads, and the result for each input.

    ``inputs`` numbers the arrays; then follow the cotangent, the result and the other reduction.
    """

    program: Program | None
    inputs: tuple[int, ...]
    scalars: tuple[int, ...]
    results: tuple[Any, ...]


@cache
def _pulled(
    rule: Rule, forward: Program, result: DType, needs: tuple[bool, ...], wide: tuple[bool, ...]
) -> Pulled:
    k, value = len(forward.inputs), forward.outputs[0]
    acc = dtypes.info(value.dtype).acc
    g, y, e = input_node(k, result), input_node(k + 1, result), input_node(k + 2, acc)
    number = scalar_node(len(forward.scalars), dtypes.float64, weak=True)
    seed = rule.cotangent(*map(Expr, (g, value, y, e, number))).node
    roots, results = roots_from(forward, [seed], needs, wide)
    if not roots:
        return Pulled(None, (), (), results)
    return Pulled(*compact(f"{forward.name}_vjp", roots), results)


class Reduce:
    """A reduction as a function of arrays, and of the symbols of a fused function that ends with it.

    Args:
        row: how values combine.
        result: the kind of its result's dtype: that of a ``"sum"``, the ``"same"``, a ``"float"``, ``"bool"``
            or ``"index"``.
        rule: the derivative, a rule, or a function of arrays; None where there is none.
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
        rule: Rule | Vjp | None = None,
        oracle: str = "",
        doc: str = "",
    ) -> None:
        self.row, self.result, self.rule = row, result, rule
        self.name = self.__name__ = row.name
        self.oracle = oracle or row.name
        self.__doc__ = f"{doc}\n{self.arguments}"
        FUNCTIONS[row.name] = self

    def __repr__(self) -> str:
        return f"<reduction {self.name}>"

    @property
    def differentiable(self) -> bool:
        """Whether it has a derivative."""
        return self.rule is not None

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
        self, x: Any, axis: Any, keepdims: bool, dtype: npt.DTypeLike | None = None, parameter: float = 0.0
    ) -> Array:
        if not isinstance(x, (Array, Expr)):
            require_array(x, self.name)
        axes = normalize_axes(axis, x.ndim, self.name)
        value, result = self._dtypes(x.dtype)
        if dtype is not None:
            value = result = dtypes.as_dtype(dtype)
        if isinstance(x, Expr):
            end: Any = Reduced(self, x.astype(value), axes, keepdims, result, parameter)
            return end  # type: ignore[no-any-return]
        return self.evaluate(_load(x.dtype, value), (x,), (), axes, keepdims, result, parameter)

    def evaluate(
        self,
        made: Program,
        arrays: Sequence[Array],
        scalars: Sequence[Any],
        axes: tuple[int, ...],
        keepdims: bool,
        result: DType,
        parameter: float = 0.0,
    ) -> Array:
        """The reduction of a program's one value, recorded where a tape tracks an input.

        Raises:
            DeviceError: the arrays are on different devices.
            ValueError: the shapes do not broadcast, or there is no value and the reduction of none has no result.
        """
        device = one_device(self.name, arrays)
        tracked = tape.recording(arrays)
        if tracked and self.rule is not None and not isinstance(self.rule, Rule) and made.name != "load":
            # The derivative is no expression of the values: they are kept in an array.
            arrays, scalars = evaluate(made, arrays, scalars), ()
            made = _load(arrays[0].dtype, arrays[0].dtype)
        shape = broadcast_shapes(self.name, [array.shape for array in arrays])
        n = math.prod(shape[i] for i in axes)
        if n == 0 and not self.row.empty:
            raise ValueError(f"{self.name}: no value to reduce along axes {axes} of shape {shape}")
        datas = [array._data for array in arrays]
        data = mechanism.run(self.row, made, device, datas, scalars, frozenset(axes), result, parameter)
        kept = tuple(1 if i in axes else size for i, size in enumerate(shape))
        y = Array._wrap(data.reshape(kept) if keepdims else data, device)
        if tracked and self.rule is not None:
            call = _Call(self, made, tuple(scalars), shape, kept, Span(axes, n, parameter))
            if isinstance(self.rule, Rule):
                call.record(self.rule, arrays, y)
            else:
                call.record_function(self.rule, arrays[0], y)
        return y


@dataclass(frozen=True, eq=False)
class _Call:
    """A reduction that was made, for its derivative.

    Attributes:
        reduce: the reduction.
        program: what makes the values.
        scalars: the program's numbers.
        shape: the shape of the values.
        kept: that shape with size 1 for the reduced axes.
        span: what was reduced.
    """

    reduce: Reduce
    program: Program
    scalars: tuple[Any, ...]
    shape: tuple[int, ...]
    kept: tuple[int, ...]
    span: Span

    def record(self, rule: Rule, arrays: Sequence[Array], y: Array) -> None:
        """Record the reduction: its derivative is one elementwise kernel, and what ``rule.other`` takes."""
        needs = tuple(tape.recording((array,)) for array in arrays)
        wide = tuple(array.shape != self.shape for array in arrays)
        pulled = _pulled(rule, self.program, y.dtype, needs, wide)
        k = len(arrays)
        reads = [i for i in range(k) if i in pulled.inputs or rule.other]
        keeps_y = k + 1 in pulled.inputs or rule.other == "count"

        def vjp(given: Sequence[Array], saved: Sequence[Array], wanted: object) -> list[Array | None]:
            known: dict[int, Array] = dict(zip(reads, saved, strict=False))
            known[k] = reshape(given[0], self.kept)
            if keeps_y:
                known[k + 1] = reshape(saved[-1], self.kept)
            if rule.other:
                known[k + 2] = self._other(rule.other, [known[i] for i in range(k)], known.get(k + 1))
            outs: tuple[Array, ...] = ()
            if pulled.program is not None:
                numbers = (*self.scalars, rule.number(self.span))
                inputs = [known[i] for i in pulled.inputs]
                outs = evaluate(pulled.program, inputs, [numbers[i] for i in pulled.scalars])
            found = [
                None if one is None else known[k] if one[0] == "cotangent" else outs[one[1]]
                for one in pulled.results
            ]
            return [None if one is None else broadcast_to(one, self.shape) for one in found]

        saved = [arrays[i] for i in reads] + ([y] if keeps_y else [])
        tape.record(self.reduce.name, arrays, (y,), vjp, saved)

    def _other(self, which: str, arrays: Sequence[Array], y: Array | None) -> Array:
        """The reduction of the same values that a rule reads, in the accumulator's dtype."""
        value = self.program.outputs[0]
        acc = dtypes.info(value.dtype).acc
        axes = self.span.axes
        if which == "mean":
            return mean.evaluate(self.program, arrays, self.scalars, axes, True, acc)
        assert y is not None
        chosen = call(FUNCTIONS["equal"], (value, input_node(len(arrays), y.dtype)))
        made = program(
            f"{self.program.name}_equal",
            (cast(chosen, acc),),
            (*self.program.inputs, y.dtype),
            self.program.scalars,
        )
        with tape.stop_recording():
            return sum.evaluate(made, (*arrays, y), self.scalars, axes, True, acc)

    def record_function(self, rule: Vjp, x: Array, y: Array) -> None:
        """Record the reduction with a derivative in functions of arrays."""

        def vjp(given: Sequence[Array], saved: Sequence[Array], wanted: object) -> tuple[Array]:
            g, y_ = reshape(given[0], self.kept), reshape(saved[1], self.kept)
            return (broadcast_to(rule(g, saved[0], y_, self.span), self.shape),)

        tape.record(self.reduce.name, (x,), (y,), vjp, (x, y))


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


#: An extreme's cotangent goes to the values that equal it, in equal parts.
_SHARED = Rule(lambda g, x, y, e, s: where(equal(x, y), g / where(e > 0, e, 1), 0), other="count")
_VARIANCE = Rule(lambda g, x, y, e, s: (x - e) * (2 * g / s), number=_freedom, other="mean")
_DEVIATION = Rule(
    lambda g, x, y, e, s: (x - e) * where(y > 0, g / s / where(y > 0, y, 1), 0), number=_freedom, other="mean"
)
_LOG_SUM = Rule(lambda g, x, y, e, s: g * exp(x - where(isfinite(y), y, 0)))


sum = Accumulation(
    Reduction("sum", push="a + A(x)", combine="a + b", identity="A(0)", wide=True),
    "sum",
    Rule(lambda g, x, y, e, s: g),
    doc="The sum over axes, 0 of no value.",
)
prod = Accumulation(
    Reduction("prod", push="a * A(x)", combine="a * b", identity="A(1)", wide=True),
    "sum",
    _product_vjp,
    doc="The product over axes, 1 of no value.",
)
mean = Statistic(
    Reduction("mean", push="a + A(x)", combine="a + b", identity="A(0)", finish="a / n", wide=True),
    "float",
    Rule(lambda g, x, y, e, s: g / s),
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
    _SHARED,
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
    _SHARED,
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
    _VARIANCE,
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
    _DEVIATION,
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
    _LOG_SUM,
    doc="log(sum(exp(x))) over axes, without overflow; -inf of no value, and where every value is -inf.",
)


def sum_to_shape(x: Array, shape: tuple[int, ...]) -> Array:
    """``x`` summed over the axes along which an array of ``shape`` is repeated to give its shape."""
    extra = x.ndim - len(shape)
    axes = tuple(i for i, n in enumerate(x.shape) if i < extra or n != shape[i - extra])
    return reshape(sum(x, axes), shape)
