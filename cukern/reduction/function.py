"""Reductions as functions of arrays and of symbols, with derivatives that fuse into one elementwise kernel."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from .. import dtypes
from ..array import Array
from ..array.batched import Level, level_of, levels
from ..array.creation import asarray
from ..array.deferred import trace, traced_threads
from ..array.layout import layout_of
from ..array.operators import FUNCTIONS
from ..autodiff import tape
from ..device import Device
from ..dtypes import DType
from ..elementwise import table
from ..elementwise.function import evaluate
from ..elementwise.graph import Expr, Node, Reduced, Swapped, call, cast, input_node, scalar_node
from ..elementwise.operands import normalize_axes, require_array
from ..elementwise.program import Program, Source, compact, program, roots_from, tangents_of
from ..elementwise.row import Scalar
from ..kernel.by_numpy import watchers
from ..shape.broadcast import repeated
from ..shape.views import broadcast_to, reshape
from .choice import PLANS, by_kernels, cached, planned
from .plan import Plan, Reducing, Reduction, load

_INT = frozenset((int,))


class Span(NamedTuple):
    """What a derivative needs of its reduction: the axes, the number of values per result, the parameter."""

    axes: tuple[int, ...]
    n: int
    parameter: float


def _count(span: Span) -> float:
    return float(span.n)


@dataclass(frozen=True, eq=False)
class Rule:
    """The derivative of a reduction, an expression that becomes part of one elementwise kernel.

    Attributes:
        cotangent: returns the cotangent of a value from symbols: the cotangent ``g`` of the result, the value ``x``,
            the result ``y``, another reduction ``e`` of the values, and a number ``s``.
        number: computes ``s``.
        other: the reduction ``e``: the ``"mean"`` of the values, the ``"count"`` of values equal to ``y``, or the
            sum of ``"exponentials"`` of the values below ``y``, which is then a constant near the largest value.
        operands: whether ``x`` and the cotangents are tuples, of the operands of the row that computes the values.
    """

    cotangent: Callable[[Any, Any, Any, Any, Any], Any]
    number: Callable[[Span], float] = _count
    other: Literal["", "mean", "count", "exponentials"] = ""
    operands: bool = False


#: A derivative in functions of arrays; ``g`` and ``y`` keep the reduced axes with size 1.
Vjp = Callable[[Array, Array, Array, Span], Array]


def _load_where(source: DType, value: DType, fill: Scalar) -> Program:
    """The program that reads a reduction's input where a mask, the second array, is true, else ``fill``."""
    operands = (input_node(1, dtypes.bool_), cast(input_node(0, source), value), fill)
    return program("where", (call(table.where, operands),), (source, dtypes.bool_))


def _number(value: float, dtype: DType) -> Scalar:
    """A number of ``dtype``: its smallest or largest one for an infinity."""
    kind = dtypes.info(dtype).kind
    if kind == "f":
        return value
    if kind == "c":
        return complex(value, value if math.isinf(value) else 0.0)
    if kind == "b":
        return value > 0
    if math.isinf(value):
        limits = np.iinfo(dtype)
        return int(limits.min if value < 0 else limits.max)
    return int(value)


def masked(x: Array, mask: Any, name: str) -> Array:
    """The argument ``where`` broadcast to the shape of ``x``.

    Raises:
        TypeError: the mask is not bool.
        ValueError: the mask does not broadcast to the shape of ``x``.
    """
    chosen = mask if isinstance(mask, Array) else asarray(mask, device=x.device)
    if chosen.dtype != dtypes.bool_:
        raise TypeError(f"{name}: where: expected an array of bool, got {chosen.dtype}")
    return chosen if chosen.shape == x.shape else broadcast_to(chosen, x.shape)


class Pulled(NamedTuple):
    """How to compute the cotangents of a reduction's inputs: a program, its inputs, and the result for each input.

    ``inputs`` numbers the arrays, followed by the cotangent, the result and the other reduction.
    """

    program: Program | None
    inputs: tuple[int, ...]
    scalars: tuple[int, ...]
    results: tuple[Any, ...]


def _dtype_of_other(rule: Rule, value: DType) -> DType:
    """The dtype of the reduction ``rule.other``: a mean in float32 would be rounded to the digits of a large one."""
    return dtypes.float64 if rule.other == "mean" and value == dtypes.float32 else dtypes.info(value).acc


@lru_cache(maxsize=8192)
def _pulled(
    rule: Rule, forward: Program, result: DType, needs: tuple[bool, ...], wide: tuple[bool, ...]
) -> Pulled:
    roots, results = _roots(rule, forward, result, needs, wide)
    if not roots:
        return Pulled(None, (), (), results)
    return Pulled(*compact(f"{forward.name}_vjp", roots), results)


@lru_cache(maxsize=4096)
def _ahead(
    rule: Rule, forward: Program, result: DType, needs: tuple[bool, ...], given: tuple[bool, ...]
) -> tuple[Program, tuple[int, ...], tuple[int, ...]] | None:
    """The program whose sum is the tangent of a reduction's result, its inputs and scalars; None if that is 0.

    Args:
        given: of each input, whether it has a tangent. These are numbered after what :class:`Pulled` numbers.
    """
    k = len(forward.inputs)
    tangents = [input_node(k + 3 + i, dtype) if given[i] else None for i, dtype in enumerate(forward.inputs)]
    roots = _roots(rule, forward, result, needs, (False,) * k)
    (made,) = tangents_of(*roots, [input_node(k, result)], tangents)
    if made is None:
        return None
    if made.kind == "cast" and made.args[0].dtype == dtypes.info(result).acc:
        (made,) = made.args  # terms are rounded after they are added
    return compact(f"{forward.name}_jvp", (made,))


def _roots(
    rule: Rule, forward: Program, result: DType, needs: tuple[bool, ...], wide: tuple[bool, ...]
) -> tuple[list[Node], tuple[Source | None, ...]]:
    """The nodes of the inputs' cotangents, and the results as :func:`.program.roots_from` returns them."""
    k, value = len(forward.inputs), forward.outputs[0]
    acc = dtypes.info(value.dtype).acc
    cotangent, below = input_node(k, result), acc if rule.other == "exponentials" else result
    # A half type would round the number of values or overflow.
    g, y = (cast(node, acc) for node in (cotangent, input_node(k + 1, below)))
    number = scalar_node(len(forward.scalars), dtypes.float64, weak=True)
    values = value.args if rule.operands else (value,)
    x = tuple(Expr(cast(node, acc)) for node in values)
    rest = map(Expr, (y, input_node(k + 2, _dtype_of_other(rule, value.dtype)), number))
    pulled = rule.cotangent(Expr(g), x if rule.operands else x[0], *rest)
    pairs = [
        (node, cotangent if seed.node is g else cast(seed.node, node.dtype))
        for node, seed in zip(values, pulled if rule.operands else (pulled,), strict=True)
        if seed is not None
    ]
    to = program(forward.name, [node for node, _ in pairs], forward.inputs, forward.scalars)
    return roots_from(to, [seed for _, seed in pairs], needs, wide)


class Reduce:
    """A reduction as a function of arrays, and of the symbols of a fused function that ends with it.

    Args:
        row: how values are combined.
        result: the kind of the result's dtype: that of a ``"sum"``, the ``"same"``, a ``"float"``, ``"bool"``
            or ``"index"``.
        rule: the derivative, as a rule or a function of arrays; None if there is none.
        neutral: the neutral number, which replaces values that ``where`` leaves out.
        join: the function that combines the result with ``initial``.
        without: for a reduction that ignores NaN, the equal reduction for dtypes without NaN.
        real: whether it refuses complex numbers.
        doc: the first line of the docstring; the rest comes from the class and the row.
    """

    arguments = """
    Args:
        x: any array.
        axis: the axis or axes; all by default.
        keepdims: whether the axes stay, with size 1.

    Raises:
        AxisError: an axis is out of range.
        ValueError: an axis is named twice, or there are no values and the reduction of none has no result.
    """

    def __init__(
        self,
        row: Reduction,
        result: Literal["sum", "same", "float", "bool", "index"],
        rule: Rule | Vjp | None = None,
        neutral: float = 0.0,
        join: str = "",
        without: Reduce | None = None,
        real: bool = False,
        doc: str = "",
        public: bool = True,
    ) -> None:
        self.row, self.result, self.rule = row, result, rule
        self.neutral, self.join, self.without, self.real = neutral, join, without, real
        self.name = self.__name__ = row.name
        self.__doc__ = f"{doc}\n{self.arguments}"
        if public:
            FUNCTIONS[row.name] = self

    def __repr__(self) -> str:
        return f"<reduction {self.name}>"

    @property
    def differentiable(self) -> bool:
        """Whether it has a derivative."""
        return self.rule is not None

    def dtypes_of(self, dtype: DType, wanted: npt.DTypeLike | None = None) -> tuple[DType, DType]:
        """The dtype in which values of ``dtype`` are reduced, and that of the result, ``wanted`` if given."""
        kind = dtypes.info(dtype).kind
        if wanted is not None:
            result = dtypes.as_dtype(wanted)
            dtypes.refuse_real(self.name, dtype, result)
            # Floats are reduced as floats, whatever the dtype of the result.
            return (
                dtypes.float64 if self.result == "float" and result not in dtypes.INEXACT else result,
                result,
            )
        if self.result == "bool":
            return dtypes.bool_, dtypes.bool_
        if self.result == "index":
            return dtype, dtypes.int64
        if self.result == "float" and kind not in "fc":
            return dtypes.float64, dtypes.get_default_dtype()
        if self.result == "sum" and kind not in "fc":
            wide = dtypes.uint64 if kind == "u" else dtypes.int64
            return wide, wide
        return dtype, dtype

    def _apply(
        self,
        x: Any,
        axis: Any,
        keepdims: bool,
        dtype: npt.DTypeLike | None = None,
        parameter: float = 0.0,
        where: Any = None,
        initial: Any = None,
    ) -> Array:
        where = None if where is True else where
        plain = dtype is None and where is None and initial is None and type(keepdims) is bool
        simple = (
            axis is None or type(axis) is int or (type(axis) is tuple and _INT.issuperset(map(type, axis)))
        )
        if plain and simple and isinstance(x, Array):
            layout = x._layout or x._planned()
            plan = None if watchers or traced_threads else PLANS.get((self, layout, axis, keepdims))
            if plan is None and self.result == "float" and not traced_threads:
                plan = cached(dtypes.get_default_dtype(), self, layout, axis, keepdims)
            if plan is not None:
                return self.run(plan, (x,), parameter)
        if isinstance(x, Reduced):
            raise x._refused(self.name)
        if isinstance(x, Swapped):
            x = x.plain
        if not isinstance(x, Expr):
            x = require_array(x, self.name)
        if self.without is not None and x.dtype not in dtypes.INEXACT:
            return self.without._apply(x, axis, keepdims, dtype, parameter, where, initial)
        axes = normalize_axes(axis, x.ndim, self.name)
        if self.real and x.dtype in dtypes.COMPLEX:
            raise TypeError(
                f"{self.name}: expected real numbers, got {x.dtype}: take cukern.real and cukern.imag"
            )
        value, result = self.dtypes_of(x.dtype, dtype)
        if isinstance(x, Expr):
            if initial is not None:
                raise TypeError(f"{self.name}: initial: not taken in a fused function; take it in outside")
            if where is not None:
                x = table.where(where, x.astype(value), _number(self.neutral, value))
            end: Any = Reduced(self, x.astype(value), axes, bool(keepdims), result, parameter)
            return end
        arrays: tuple[Array, ...] = (x,)
        mapped = load(x.dtype, value)
        if where is not None:
            arrays = (x, masked(x, where, self.name))
            mapped = _load_where(x.dtype, value, _number(self.neutral, value))
        empty = initial is not None
        key: tuple[Any, ...] = ()
        if plain and simple:
            by_default = self.result == "float" and x.dtype not in dtypes.INEXACT
            default = (dtypes.get_default_dtype(),) if by_default else ()
            key = (*default, self, x._planned(), axis, keepdims)
        y = self.evaluate(mapped, arrays, (), axes, keepdims, result, parameter, empty, key)
        if initial is None:
            return y
        joined: Array = FUNCTIONS[self.join](y, initial)
        return joined.astype(result, copy=False)

    def reads_values(self) -> bool:
        """Whether the derivative needs the reduced values in an array.

        It does if it is a function of arrays, and if it compares values with the result: recomputed in another
        kernel, a value may differ by a rounding error.
        """
        if isinstance(self.rule, Rule):
            return self.rule.other == "count"
        return self.rule is not None

    def source(
        self, mapped: Program, device: Device, datas: Sequence[Any], axes: tuple[int, ...], result: DType
    ) -> str:
        """The text of the one or two kernels that reduce a program's value for such ndarrays."""
        operands = tuple([layout_of(device, data) for data in datas])
        return by_kernels(Reducing(self.row, mapped, operands, axes, False, result)).source

    def evaluate(
        self,
        mapped: Program,
        arrays: Sequence[Array],
        scalars: Sequence[Any],
        axes: tuple[int, ...],
        keepdims: bool,
        result: DType,
        parameter: float = 0.0,
        empty: bool = False,
        key: tuple[Any, ...] = (),
    ) -> Array:
        """The reduction of a program's value, recorded if a tape tracks an input.

        Args:
            empty: whether to allow no values although the reduction of none has no result.
            key: under which the plan is kept, too, if any.

        Raises:
            DeviceError: the arrays are on different devices.
            ValueError: the shapes do not broadcast, or there are no values and the reduction of none has no result.
        """
        tracking = None if self.rule is None or not tape.opened else tape.tracked(arrays)
        if tracking is not None and mapped.name != "load" and self.reads_values():
            arrays, scalars, key = evaluate(mapped, arrays, scalars), (), ()
            mapped = load(arrays[0].dtype, arrays[0].dtype)
            tracking = tape.tracked(arrays)

        def checked(arrays: Sequence[Array], mapped: Program) -> Plan:
            plan = planned(arrays, self.row, mapped, axes, keepdims, result)
            if plan.problem.count == 0 and not (self.row.empty or empty):
                raise ValueError(
                    f"{self.name}: no value to reduce along axes {axes} of shape {plan.problem.shape}"
                )
            return plan

        y: Array
        if levels and (level := level_of(arrays)) is not None:
            y = self._of_all(level, mapped, arrays, scalars, axes, keepdims, result, parameter, empty)
            self.note(mapped, arrays, scalars, axes, keepdims, parameter, y)
            return y
        if traced_threads and (active := trace()) is not None:
            if self.in_rows(mapped, result):
                y = active.reduction(self, mapped, arrays, scalars, axes, keepdims, result, parameter)
                if y is not None:
                    self.note(mapped, arrays, scalars, axes, keepdims, parameter, y)
                    return y
            y, plan, same = active.reduced(mapped, arrays, scalars, checked, parameter)
            if not same:
                self.note(mapped, arrays, scalars, axes, keepdims, parameter, y)
                return y
        else:
            plan = checked(arrays, mapped)
            y = plan.run(arrays, scalars, parameter)
            if key:
                PLANS.keep(key, plan)
        if tracking is not None:
            self._record(plan, arrays, scalars, parameter, y, tracking)
        return y

    def _of_all(
        self,
        level: Level,
        mapped: Program,
        arrays: Sequence[Array],
        scalars: Sequence[Any],
        axes: tuple[int, ...],
        *how: Any,
    ) -> Array:
        """The reduction of one example of a batch, computed with all of them."""
        ndim = max([one.ndim for one in arrays])

        def compute() -> Array:
            wholes = [level.value(one, ndim) for one in arrays]
            return self.evaluate(mapped, wholes, scalars, tuple([axis + 1 for axis in axes]), *how)

        return level.batched(level.run(compute))

    def in_rows(self, mapped: Program, result: DType) -> bool:
        """Whether the kernel of a row program may compute it."""
        known = {result, mapped.outputs[0].dtype, *mapped.inputs}.isdisjoint(dtypes.COMPLEX)
        return known and not (self.row.ordered or self.row.custom)

    def planned(
        self, arrays: Sequence[Array], mapped: Program, axes: tuple[int, ...], keepdims: bool, result: DType
    ) -> Plan:
        """The plan of the reduction of a program's value."""
        return planned(arrays, self.row, mapped, axes, keepdims, result)

    @staticmethod
    def row_plan(problem: Any) -> Any:
        from .row_program import row_plan  # many programs have none

        return row_plan(problem)

    def run(self, plan: Plan, arrays: Sequence[Array], parameter: float = 0.0) -> Array:
        """Run a plan without further numbers, recorded if a tape tracks an input."""
        y = plan.run(arrays, (), parameter)
        if tape.opened and self.rule is not None and (tracking := tape.tracked(arrays)) is not None:
            self._record(plan, arrays, (), parameter, y, tracking)
        return y

    def note(
        self,
        mapped: Program,
        arrays: Sequence[Array],
        scalars: Sequence[Any],
        axes: tuple[int, ...],
        keepdims: bool,
        parameter: float,
        y: Array,
        cached_plan: Plan | None = None,
    ) -> Plan | None:
        """Record ``y``, which waits or which another kernel has computed, as the reduction of a program's value.

        Args:
            cached_plan: what this method has returned for the same program, layouts and reduction.
        """
        tracking = None if self.rule is None or not tape.opened else tape.tracked(arrays)
        if tracking is None:
            return cached_plan
        layouts = tuple([array._layout or array._planned() for array in arrays])
        plan = cached_plan or Plan(Reducing(self.row, mapped, layouts, axes, keepdims, y.dtype))
        self._record(plan, arrays, scalars, parameter, y, tracking)
        return plan

    def _record(
        self,
        plan: Plan,
        arrays: Sequence[Array],
        scalars: Sequence[Any],
        parameter: float,
        y: Array,
        tracking: tape.Tracking,
    ) -> None:
        if not plan.layouts[0].floating:
            return
        needs, keys, tapes = tracking
        call: _Call | None = None if scalars or parameter else plan.pulls.get(needs)
        if call is None:
            call = _Call(self, plan, tuple(scalars), parameter, needs)
            if not scalars and not parameter:
                plan.pulls[needs] = call
        saved = [arrays[i] for i in call.reads]
        if call.keeps_y:
            saved.append(y)
        tape.record_tracked(call.operation, keys, (y,), saved, tapes)


def exponential_below(x: Any, peak: Any) -> Any:
    """``exp(x - peak)``, where an infinite peak counts as the largest finite number."""
    most, where = float(np.finfo(peak.dtype).max), table.where
    # Not by clip, whose choices for NaN keep compilers from vectors.
    return table.exp(x - where(peak > most, most, where(peak < -most, -most, peak)))


class _Call:
    """A reduction's derivative, for the inputs that are tracked.

    Attributes:
        reads: the inputs that the derivative reads.
        keeps_y: whether it reads the result.
        operation: the operation that a tape records, with the vjp.
    """

    def __init__(
        self, reduce: Reduce, plan: Plan, scalars: tuple[Any, ...], parameter: float, needs: tuple[bool, ...]
    ) -> None:
        problem = plan.problem
        k = len(problem.operands)
        self.program, self.scalars, self.inputs = problem.program, scalars, k
        self.needs, self.keepdims, self.result = needs, problem.keepdims, plan.layouts[0].dtype
        self.shape, self.kept = problem.shape, problem.kept_shape
        self.span = Span(tuple(sorted(problem.axes)), problem.count, parameter)
        rule = reduce.rule
        assert rule is not None
        self.rule = rule
        pull = self._pull if isinstance(rule, Rule) else self._pull_function
        push = self._push if isinstance(rule, Rule) else None
        self.operation = tape.Operation(reduce.name, problem.operands, plan.layouts, pull, jvp=push)
        if not isinstance(rule, Rule):
            self.reads: tuple[int, ...] = (0,)
            self.keeps_y = True
            return
        wide = tuple(operand.shape != self.shape for operand in problem.operands)
        self.pulled = _pulled(rule, self.program, plan.layouts[0].dtype, needs, wide)
        self.reads = tuple(i for i in range(k) if i in self.pulled.inputs or rule.other)
        self.keeps_y = k + 1 in self.pulled.inputs or rule.other == "count"
        self._numbers = (*scalars, rule.number(self.span))

    def _pull(self, cotangents: tape.Arrays, saved: tape.Arrays, wanted: object) -> list[Array | None]:
        """Compute the cotangents by one elementwise kernel, after the reduction ``rule.other``."""
        pulled, k, g = self.pulled, self.inputs, cotangents[0]
        if pulled.program is None:
            return [None if result is None else self._spread(g) for result in pulled.results]
        read = self._read(saved)
        read[k] = self._kept(g)
        inputs = [read[i] for i in pulled.inputs]
        outs = evaluate(pulled.program, inputs, [self._numbers[i] for i in pulled.scalars])
        return [
            None
            if result is None
            else self._spread(g)
            if result[0] == "cotangent"
            else repeated(outs[result[1]], self.shape)
            for result in pulled.results
        ]

    def _read(self, saved: tape.Arrays) -> dict[int, Array]:
        """What the derivative reads besides cotangents and tangents, as :class:`Pulled` numbers it."""
        rule, k = self.rule, self.inputs
        assert isinstance(rule, Rule)
        read: dict[int, Array] = dict(zip(self.reads, saved, strict=False))
        if self.keeps_y:
            read[k + 1] = self._kept(saved[-1])
        if rule.other == "exponentials":
            read[k + 1] = self._peak([read[i] for i in range(k)], read[k + 1])
        if rule.other:
            read[k + 2] = self._other(rule.other, [read[i] for i in range(k)], read.get(k + 1))
        return read

    def _push(self, tangents: Sequence[Array | None], saved: tape.Arrays) -> list[Array | None]:
        """The result's tangent by one kernel: a sum, of the values' tangents times the derivatives by them."""
        given = tuple([t is not None for t in tangents])
        assert isinstance(self.rule, Rule)
        ahead = _ahead(self.rule, self.program, self.result, self.needs, given)
        if ahead is None:
            return [None]
        terms, inputs, scalars = ahead
        read = self._read(saved)
        for i, t in enumerate(tangents, self.inputs + 3):
            if t is not None:
                read[i] = repeated(t, self.shape)
        total: Reduce = FUNCTIONS["sum"]
        return [
            total.evaluate(
                terms,
                [read[i] for i in inputs],
                [self._numbers[i] for i in scalars],
                self.span.axes,
                self.keepdims,
                self.result,
            )
        ]

    def _kept(self, g: Array) -> Array:
        """``g`` reshaped to keep the reduced axes with size 1; 0-d arrays need no reshape."""
        return g if not g.ndim or g.shape == self.kept else reshape(g, self.kept)

    def _spread(self, g: Array) -> Array:
        """An array of the result's shape, broadcast along the reduced axes."""
        if not g.ndim or g.shape == self.kept:
            return repeated(g, self.shape)
        return repeated(reshape(g, self.kept), self.shape)

    def _peak(self, arrays: Sequence[Array], y: Array) -> Array:
        """A constant that no value exceeds by much: ``y``, or the largest value if ``y`` was rounded to a half type."""
        acc = dtypes.info(self.program.outputs[0].dtype).acc
        if y.dtype == acc and not tape.recording((y,)):
            return y
        with tape.stop_recording():
            if y.dtype == acc:
                return table.positive(y)
            largest: Reduce = FUNCTIONS["max"]
            return largest.evaluate(self.program, arrays, self.scalars, self.span.axes, True, acc)

    def _other(self, which: str, arrays: Sequence[Array], y: Array | None) -> Array:
        """The reduction ``rule.other`` of the values."""
        value = self.program.outputs[0]
        acc = dtypes.info(value.dtype).acc
        axes = self.span.axes
        if which == "mean":
            reduce: Reduce = FUNCTIONS["mean"]
            wide = _dtype_of_other(self.rule, value.dtype)  # type: ignore[arg-type]
            return reduce.evaluate(self.program, arrays, self.scalars, axes, True, wide)
        assert y is not None
        operand = input_node(len(arrays), y.dtype)
        if which == "count":
            term = call(table.equal, (value, operand))
        else:
            term = exponential_below(Expr(cast(value, acc)), Expr(operand)).node
        terms = program(
            f"{self.program.name}_{which}",
            (cast(term, acc),),
            (*self.program.inputs, y.dtype),
            self.program.scalars,
        )
        reduce = FUNCTIONS["sum"]
        if which != "count":
            return reduce.evaluate(terms, (*arrays, y), self.scalars, axes, True, acc)
        with tape.stop_recording():
            return reduce.evaluate(terms, (*arrays, y), self.scalars, axes, True, acc)

    def _pull_function(
        self, cotangents: Sequence[Array], saved: Sequence[Array], wanted: object
    ) -> list[Array | None]:
        """Compute the cotangents by a function of arrays."""
        assert not isinstance(self.rule, Rule)
        g, y = reshape(cotangents[0], self.kept), reshape(saved[1], self.kept)
        return [broadcast_to(self.rule(g, saved[0], y, self.span), self.shape)]
