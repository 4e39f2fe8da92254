"""A user's reduction: C++ expressions that map, combine and finish values, and a derivative."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from types import NoneType
from typing import Any

from .. import dtypes
from ..array import Array
from ..array.creation import asarray
from ..elementwise.custom import (
    RESULTS,
    CustomElementwise,
    Kind,
    Refused,
    Result,
    check_count,
    check_name,
    check_vjp,
    cotangents,
    elementwise,
    one_of,
    variables,
)
from ..elementwise.function import ArrayLike, as_operands
from ..elementwise.graph import SYMBOLS, Expr, Reduced, symbolic
from ..elementwise.operands import Axis, normalize_axes
from ..elementwise.row import is_scalar
from ..kernel.strides import broadcast_shapes
from .choice import cached
from .function import Reduce, Rule
from .plan import Reduction


class CustomReduction(Reduce):
    """A reduction that :func:`reduction` made.

    Attributes:
        values: the elementwise function that computes the values.
        truth: whether the result is bool.
    """

    arguments = """
    Args:
        operands: arrays and Python numbers, broadcast and promoted to a common dtype.
        axis: the axis or axes of their broadcast shape; all by default.
        keepdims: whether the axes stay, with size 1.

    Raises:
        AxisError: an axis is out of range.
        TypeError: the number of operands is wrong, or a dtype is not supported.
        ValueError: an axis is named twice, or the shapes do not broadcast.
    """

    def __init__(
        self, row: Reduction, values: CustomElementwise, rule: Rule | None, truth: bool, doc: str
    ) -> None:
        super().__init__(row, "bool" if truth else "same", rule, doc=doc, public=False)
        self.values, self.truth = values, truth

    def __call__(self, *operands: ArrayLike | Expr, axis: Axis = None, keepdims: bool = False) -> Any:
        key: tuple[Any, ...] = ()
        if type(axis) in (NoneType, int, tuple) and all(type(operand) is Array for operand in operands):
            arrays: Any = operands
            layouts = [array._layout or array._planned() for array in arrays]
            key = (self, dtypes.get_default_dtype(), axis, keepdims, *layouts)
            if (plan := cached(*key)) is not None:
                return self.run(plan, arrays)
        check_count(self.name, self.values.names, operands)
        if any(isinstance(operand, SYMBOLS) for operand in operands):
            x = symbolic(self.values, operands)
            axes = normalize_axes(axis, x.ndim, self.name)
            return Reduced(self, x, axes, bool(keepdims), self._result(x.dtype), 0.0)
        inputs = as_operands(self.name, operands, self.values.names)
        arrays = [x for x in inputs if isinstance(x, Array)]
        if not arrays:
            return self(asarray(inputs[0]), *inputs[1:], axis=axis, keepdims=keepdims)
        mapped = self.values._program(tuple(x.dtype if isinstance(x, Array) else type(x) for x in inputs))
        scalars = [x for x in inputs if not isinstance(x, Array)]
        shape = broadcast_shapes(self.name, [array.shape for array in arrays])
        axes = normalize_axes(axis, len(shape), self.name)
        result = self._result(mapped.outputs[0].dtype)
        return self.evaluate(mapped, arrays, scalars, axes, bool(keepdims), result, key=key)

    def _result(self, value: dtypes.DType) -> dtypes.DType:
        return dtypes.bool_ if self.truth else value


def _identity(name: str, identity: str | float) -> str:
    """The identity as C++."""
    if isinstance(identity, str):
        variables(name, "identity", identity, ())
        return f"A({identity})"
    if not is_scalar(identity):
        raise TypeError(f"{name}: identity: expected a number or C++, got {type(identity).__name__}")
    if math.isinf(identity):
        return f"limits<A>::{'highest' if identity > 0 else 'lowest'}()"
    if math.isnan(identity):
        return "limits<A>::quiet_nan()"
    return f"A({str(identity).lower()})"


def reduction(
    name: str,
    map_expr: str,
    reduce_expr: str,
    post_map_expr: str = "a",
    *,
    identity: str | float,
    vjp: Callable[..., Any] | None = None,
    operands: str | Sequence[str] | None = None,
    kind: Kind = "real floating",
    result: Result = "same",
    wide: bool = False,
    doc: str = "",
) -> CustomReduction:
    """Make a reduction from C++ expressions, as ``cupy.ReductionKernel`` does, with a derivative.

    The function takes an array or a Python number for each operand of ``map_expr``, and ``axis`` and ``keepdims``.
    The operands are broadcast and promoted to a common dtype. A function under :func:`cukern.fuse` may end with it.
    Values are combined in the same order in every run.

    Args:
        name: the name of the function and its kernels.
        map_expr: the value of an element: a C++ expression of the operands, as in :func:`cukern.elementwise`.
        reduce_expr: the combination of two values ``a`` and ``b`` of type ``A``, which is ``float`` for arrays of 16
            bits too. It must be associative, since the grouping of values is unspecified.
        post_map_expr: the result, from the combination ``a`` of all values and their number ``n``.
        identity: the neutral element of ``reduce_expr``, and the value of ``a`` for no values: C++ or a number, where
            an infinity stands for the smallest or largest number of an integer dtype.
        vjp: takes the cotangent ``g``, the operands, the result and the number of values, in this order, and returns
            the cotangent of the operand, or of each in a tuple, as in :func:`cukern.elementwise`. ``g`` and the
            result are broadcast to the shape of the operands.
        operands: the operands' names in order; by default those of x, y and z in ``map_expr``.
        kind: the kind of dtype in which values are computed, as in :func:`cukern.elementwise`.
        result: ``"same"`` for the dtype of the values, or ``"bool"``.
        wide: whether to combine float32 values in double and integers modulo 2**64 in ``unsigned long long``.
        doc: the first line of the function's docstring.

    Raises:
        CompileError: an argument is not a C++ expression; when called: the compiler refuses it.
        TypeError: ``vjp`` does not take these arguments, or ``identity`` is neither a number nor C++; when
            differentiated: ``vjp`` does not return symbols.
        ValueError: ``name`` is not a name or is taken, an expression reads an unknown operand or assigns, an operand is
            not read, or there is no such ``kind`` or ``result``; when differentiated: ``vjp`` returns another number
            of cotangents.

    >>> import cukern as ck
    >>> length = ck.reduction(
    ...     "length", "x * x", "a + b", "sqrt(a)", identity=0, vjp=lambda g, x, y, n: g * x / y
    ... )
    >>> length(ck.asarray([[3.0, 4.0], [6.0, 8.0]]), axis=1).tolist()
    [5.0, 10.0]
    >>> ck.grad(length)(ck.asarray([3.0, 4.0])).tolist()
    [0.6000000238418579, 0.800000011920929]
    """
    check_name("reduction", name)
    values = elementwise(name, map_expr, operands=operands, kind=kind)
    truth = one_of("reduction", "result", result, RESULTS) == "b"
    variables(name, "reduce_expr", reduce_expr, "ab")
    variables(name, "post_map_expr", post_map_expr, "an")
    if vjp is not None:
        check_vjp(name, vjp, ("g", *values.names, "the result", "the number of values"))
        rule = Rule(partial(_cotangents, name, values.names, vjp), operands=True)
    else:
        rule = Rule(partial(_refused, Refused(name)), operands=True)
    row = Reduction(
        name,
        push="combine(a, A(x))",
        combine=f"({reduce_expr})",
        identity=_identity(name, identity),
        finish=f"({post_map_expr})",
        wide=wide,
        custom=True,
    )
    return CustomReduction(row, values, rule, truth, doc or f"``{map_expr}`` combined by ``{reduce_expr}``.")


def _cotangents(
    name: str, names: Sequence[str], vjp: Callable[..., Any], g: Any, x: Any, y: Any, e: Any, n: Any
) -> Any:
    """Call ``vjp`` and check its result."""
    return cotangents(name, names, vjp(g, *x, y, n))


def _refused(refused: Refused, g: Any, x: Any, y: Any, e: Any, n: Any) -> Any:
    return refused(g, *x, y)
