"""Elementwise expressions: typed, hash-consed graphs, which :mod:`cukern.cxx` prints as C++.

A graph's leaves are inputs (arrays), scalars (kernel arguments) and constants (text). Its nodes are
casts and rows of :mod:`cukern.table`. float16 and bfloat16 values are computed in float32; only a
cast, or a store to an array, rounds them.
"""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from . import dtypes
from .dtypes import DType
from .operators import FUNCTIONS, Operators

Scalar = bool | int | float
#: The dtype kinds that a row computes in; operands of other kinds are promoted or refused.
ALL, NUMERIC, INTEGER, FLOAT = "biuf", "iuf", "biu", "f"
_KINDS = {
    ALL: "any dtype",
    NUMERIC: "numbers",
    INTEGER: "integers or bool",
    FLOAT: "floats",
    "iu": "integers",
}


def is_scalar(value: object) -> bool:
    """Whether ``value`` is a Python number, which takes the dtype of the arrays beside it."""
    return isinstance(value, (bool, int, float)) and not isinstance(value, np.generic)


def convert_scalar(value: Scalar, dtype: DType) -> Scalar:
    """``value`` as a Python number that ``dtype`` holds exactly.

    Raises:
        OverflowError: an integer out of the range of ``dtype``.
    """
    kind = dtypes.info(dtype).kind
    if kind == "f":
        if dtype == dtypes.float64:
            return float(value)
        with np.errstate(over="ignore"):
            return float(dtype.type(value))
    if kind == "b":
        return bool(value)
    limits = np.iinfo(dtype)
    if not limits.min <= value <= limits.max:
        raise OverflowError(f"Python integer {value} out of bounds for {dtype.name}")
    return int(value)


class Row:
    """One elementwise operation: its name, its C++, its derivative, and what else follows from them.

    Args:
        name: the public name.
        code: a C++ expression over the operands ``x``, ``y``, ``z``, of type ``T``. ``U`` is the
            unsigned type whose arithmetic wraps for ``T``.
        types: the kinds of dtype it computes in, of ``"biuf"``.
        signature: the operands' types and the result's: ``x`` for the common one, ``b`` for bool.
        vjp: from the cotangent ``g``, the operands and the result, all symbols, the cotangent of each
            operand; None where the derivative is zero or not defined.
        codes: another ``code`` for some kinds of dtype, of ``"biuf"`` or ``"h"`` for floats of 16 bits.
        integers: the dtype that integers are divided in; None for the float of NumPy's math functions.
        halves: whether it has a meaning for float16 and bfloat16, whose values are computed in float32.
        simplify: may name another row and operands for special Python numbers.
        oracle: the NumPy function of the same values, where its name is another.
        domain: the open interval that tests and gradient checks draw operands from.
        operator: the Python operator's method.
        doc: the first line of the docstring; the rest follows from the row.
    """

    def __init__(
        self,
        name: str,
        code: str,
        types: str,
        signature: str,
        vjp: Callable[..., Any] | None = None,
        *,
        codes: dict[str, str] | None = None,
        integers: DType | None = None,
        bools: DType | None = None,
        halves: bool = True,
        simplify: Callable[..., tuple[Callable[..., Any], tuple[Any, ...]] | None] | None = None,
        oracle: str | Callable[..., Any] | None = None,
        domain: tuple[float, float] = (-2.0, 2.0),
        operator: str = "",
        doc: str = "",
    ) -> None:
        self.name = self.__name__ = name
        self.code, self.codes = code, codes or {}
        self.types = types
        operands, _, result = signature.partition("->")
        self.operands, self.result = operands, result
        self.vjp = vjp
        self.integers, self.bools, self.halves = integers, bools, halves
        self.simplify = simplify
        self.oracle = name if oracle is None else oracle
        self.domain = domain
        self.operator = operator
        self.__doc__ = f"{doc}\n\n{self._rules()}"

    def __repr__(self) -> str:
        return f"<elementwise function {self.name}>"

    def _rules(self) -> str:
        """What a docstring says of dtypes, shapes and derivatives."""
        kinds = _KINDS[self.types] if "x" in self.operands else "any dtype, taken as bool"
        rules = [f"Takes arrays of {kinds}, and Python numbers."]
        if len(self.operands) > 1:
            rules.append("Operands are broadcast, and promoted to a common dtype.")
        if self.types == FLOAT:
            where = "float64" if self.integers else "the float that NumPy computes them in"
            rules.append(f"Integers are computed in {where}.")
        rules.append("The result is bool." if self.result == "b" else "The result has the dtype computed in.")
        rules.append("Differentiable to any order." if self.differentiable else "Has no derivative.")
        refused = "" if self.types in (ALL, FLOAT) else " Raises TypeError for other dtypes."
        if len(self.operands) > 1:
            refused += " Raises ValueError if the shapes do not broadcast."
        return " ".join(rules) + refused

    @property
    def differentiable(self) -> bool:
        """Whether it has a derivative."""
        return self.vjp is not None

    def resolve(self, operands: Sequence[DType | Scalar]) -> tuple[tuple[DType, ...], DType]:
        """The dtypes that the operands are cast to, and the result's.

        Raises:
            TypeError: the operation has no meaning for these dtypes.
        """
        common = [o for o, mark in zip(operands, self.operands, strict=True) if mark == "x"]
        dtype = self._computed(common) if common else dtypes.bool_
        if not self.halves and dtype in (dtypes.float16, dtypes.bfloat16):
            raise TypeError(f"{self.name}: expected float32 or float64, got {dtypes.info(dtype).name}")
        cast = tuple(dtype if mark == "x" else dtypes.bool_ for mark in self.operands)
        return cast, dtype if self.result == "x" else dtypes.bool_

    def _computed(self, operands: Sequence[DType | Scalar]) -> DType:
        dtype = dtypes.result_type(*operands)
        kind = dtypes.info(dtype).kind
        if kind in self.types:
            return dtype
        if kind == "b" and self.bools is not None:
            return self.bools
        if self.types == FLOAT:
            strong = [operand for operand in operands if isinstance(operand, np.dtype)]
            each = strong if len(strong) == len(operands) else [dtype]
            return self.integers or dtypes.result_type(*map(_float_of, each))
        raise TypeError(f"{self.name}: expected {_KINDS[self.types]}, got {dtypes.info(dtype).name}")

    def print(self, operands: Sequence[str], dtype: DType) -> str:
        """The C++ expression over named operands of ``dtype``."""
        info = dtypes.info(dtype)
        names = dict(zip("xyz", operands, strict=False))
        names["T"] = dtypes.info(info.acc).cxx
        names["U"] = "unsigned long long" if info.itemsize == 8 else "unsigned int"
        code = self.codes.get(info.kind, self.code)
        return _substitute(
            self.codes.get("h", code) if info.kind == "f" and info.itemsize == 2 else code, names
        )


_WORD = re.compile(r"\b([xyzTU])\b(\(?)")


def _substitute(code: str, names: dict[str, str]) -> str:
    def replaced(found: re.Match[str]) -> str:
        name = names[found[1]]
        # C++ has no long long(x), but (long long)(x).
        return (f"({name})" if found[2] and " " in name else name) + found[2]

    return _WORD.sub(replaced, code)


@cache
def _float_of(dtype: DType) -> DType:
    """The float that NumPy's math functions compute an integer dtype in."""
    size = dtype.itemsize
    return dtypes.float16 if size == 1 else dtypes.float32 if size == 2 else dtypes.float64


class Node:
    """A node of a graph; two equal nodes are the same object.

    Attributes:
        kind: ``"input"``, ``"scalar"``, ``"constant"``, ``"cast"`` or ``"call"``.
        row: the row of a call.
        args: the operands.
        dtype: the dtype of the value.
        value: the number of an input or a scalar; the value of a constant.
        weak: whether it takes the dtype of what it meets, as a Python number does.
    """

    __slots__ = ("__weakref__", "args", "dtype", "kind", "row", "value", "weak")

    kind: str
    row: Row | None
    args: tuple[Node, ...]
    dtype: DType
    value: Any
    weak: bool


_nodes: WeakValueDictionary[Any, Node] = WeakValueDictionary()
_making = threading.Lock()


def _node(
    kind: str,
    dtype: DType,
    args: tuple[Node, ...] = (),
    row: Row | None = None,
    value: Any = None,
    weak: bool = False,
) -> Node:
    key = (kind, dtype, tuple(map(id, args)), row, repr(value), weak)
    found = _nodes.get(key)
    if found is not None:
        return found
    with _making:
        found = _nodes.get(key)
        if found is None:
            found = Node()
            found.kind, found.dtype, found.args = kind, dtype, args
            found.row, found.value, found.weak = row, value, weak
            _nodes[key] = found
        return found


def input_node(k: int, dtype: DType) -> Node:
    """The ``k``-th array."""
    return _node("input", dtype, value=k)


def scalar_node(k: int, dtype: DType, weak: bool = False) -> Node:
    """The ``k``-th scalar argument."""
    return _node("scalar", dtype, value=k, weak=weak)


def constant(value: Scalar, dtype: DType) -> Node:
    """A number that stands in the text."""
    return _node("constant", dtype, value=convert_scalar(value, dtype))


def cast(node: Node, dtype: DType) -> Node:
    """``node`` as another dtype."""
    if node.dtype == dtype and not node.weak:
        return node
    if node.kind == "constant":
        return constant(node.value, dtype)
    return _node("cast", dtype, (node,))


def _sample(node: Node) -> DType | Scalar:
    """What promotion sees of a node: its dtype, or a Python number of its kind."""
    if not node.weak:
        return node.dtype
    return {"b": False, "i": 0, "f": 0.0}[dtypes.info(node.dtype).kind]


def _weak_constant(value: Scalar) -> Node:
    kinds = ((bool, dtypes.bool_), (int, dtypes.int64), (float, dtypes.float64))
    dtype = next(dtype for kind, dtype in kinds if isinstance(value, kind))
    return _node("constant", dtype, value=value, weak=True)


def call(row: Row, operands: Sequence[Node | Scalar]) -> Node:
    """``row`` applied to nodes and Python numbers, the casts that promotion asks for put in.

    Raises:
        TypeError: ``row`` has no meaning for these dtypes.
        OverflowError: a Python integer is out of the range of the dtype computed in.
    """
    nodes = [o if isinstance(o, Node) else _weak_constant(o) for o in operands]
    if row.name in _OF_NEGATIVE and _differ_in_sign(nodes):
        return _compared(row, nodes)
    wanted, result = row.resolve([_sample(node) for node in nodes])
    weak = all(node.weak for node in nodes)
    if weak:
        strong = [node.dtype for node in nodes]
        wanted, result = row.resolve(strong)
    args = tuple(cast(node, dtype) for node, dtype in zip(nodes, wanted, strict=True))
    folded = _fold(row, args)
    return _node("call", result, args, row, weak=weak) if folded is None else folded


#: Whether each comparison holds of a negative number and one that is not, the negative one first or second.
_OF_NEGATIVE = {
    "less": (True, False),
    "less_equal": (True, False),
    "greater": (False, True),
    "greater_equal": (False, True),
    "equal": (False, False),
    "not_equal": (True, True),
}


def _differ_in_sign(nodes: Sequence[Node]) -> bool:
    """Whether one is a signed integer and the other a uint64."""
    kinds = sorted(dtypes.info(node.dtype).kind for node in nodes if not node.weak)
    return kinds == ["i", "u"] and any(node.dtype == dtypes.uint64 for node in nodes)


def _compared(row: Row, nodes: Sequence[Node]) -> Node:
    """The comparison of a signed integer and a uint64: as float64, to which they promote, they would be rounded."""
    first = 0 if dtypes.info(nodes[0].dtype).kind == "i" else 1
    negative = call(FUNCTIONS["less"], (nodes[first], 0))
    same_sign = call(row, [cast(node, dtypes.uint64) for node in nodes])
    if _OF_NEGATIVE[row.name][first]:
        return call(FUNCTIONS["logical_or"], (negative, same_sign))
    return call(FUNCTIONS["logical_and"], (call(FUNCTIONS["logical_not"], (negative,)), same_sign))


def _fold(row: Row, args: tuple[Node, ...]) -> Node | None:
    """x * 1, 1 * x and x / 1 are x, whatever x is."""
    if row.name in ("multiply", "divide") and dtypes.info(args[0].dtype).kind == "f":
        if args[1].kind == "constant" and args[1].value == 1:
            return args[0]
        if row.name == "multiply" and args[0].kind == "constant" and args[0].value == 1:
            return args[1]
    return None


class Expr(Operators):
    """A symbol: what a fused function and a row's derivative compute with.

    Attributes:
        node: the node of the graph.
        shape: the shape that the value will have.
    """

    __slots__ = ("node", "shape")

    def __init__(self, node: Node, shape: tuple[int, ...] = ()) -> None:
        self.node = node
        self.shape = shape

    @property
    def dtype(self) -> DType:
        """The dtype that the value will have."""
        return self.node.dtype

    @property
    def ndim(self) -> int:
        """The number of axes that the value will have."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements that the value will have."""
        return math.prod(self.shape)

    def astype(self, dtype: Any, /, *, copy: bool = True) -> Expr:
        """The symbol as another dtype."""
        return Expr(cast(self.node, dtypes.as_dtype(dtype)), self.shape)

    def __repr__(self) -> str:
        return f"Expr({dtypes.info(self.dtype).name}, shape={self.shape})"

    def _refuse(self, what: str) -> TypeError:
        return TypeError(
            f"{what} of a fused function's value is not known when it is traced; Python control flow may "
            "depend on shapes, dtypes and static arguments only: use cukern.where for values"
        )

    def __bool__(self) -> bool:
        raise self._refuse("the truth")

    def __int__(self) -> int:
        raise self._refuse("the integer")

    def __float__(self) -> float:
        raise self._refuse("the number")

    def __iter__(self) -> Any:
        raise self._refuse("an element")

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        from .protocols import array_ufunc

        return array_ufunc(ufunc, method, inputs, options)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array with 0 axes")
        return self.shape[0]

    def __getitem__(self, key: object) -> Any:
        raise TypeError("a fused function is elementwise: index the array before or after it")


class Reduced(Operators):
    """The symbol of a reduction that a fused function ends with: it is returned, and not computed with.

    Attributes:
        reduction: the public reduction.
        value: what is reduced, in the dtype it is reduced in.
        axes: the reduced axes.
        keepdims: whether they stay, with size 1.
        dtype: the dtype that the result will have.
        parameter: the reduction's parameter.
        shape: the shape that the result will have.
    """

    __slots__ = ("axes", "dtype", "keepdims", "parameter", "reduction", "shape", "value")

    def __init__(
        self,
        reduction: Any,
        value: Expr,
        axes: tuple[int, ...],
        keepdims: bool,
        dtype: DType,
        parameter: float,
    ) -> None:
        self.reduction, self.value, self.axes, self.keepdims = reduction, value, axes, keepdims
        self.dtype, self.parameter = dtype, parameter
        kept = (1 if i in axes else n for i, n in enumerate(value.shape) if keepdims or i not in axes)
        self.shape = tuple(kept)

    @property
    def ndim(self) -> int:
        """The number of axes that the result will have."""
        return len(self.shape)

    def _refused(self, name: str) -> TypeError:
        return TypeError(
            f"{name} of {self.reduction.name}: a fused function may end with a reduction, and returns it; "
            "compute with it outside of the function"
        )

    def _call(self, name: str, *args: Any, **options: Any) -> Any:
        raise self._refused(name)

    def _apply(self, name: str, x: Any, y: Any) -> Any:
        raise self._refused(name)

    def __repr__(self) -> str:
        return f"Reduced({self.reduction.name}, {dtypes.info(self.dtype).name}, shape={self.shape})"

    def __bool__(self) -> bool:
        raise self._refused("the truth")

    def __int__(self) -> int:
        raise self._refused("the integer")

    def __float__(self) -> float:
        raise self._refused("the number")


def symbolic(row: Row, operands: Sequence[Any]) -> Expr:
    """``row`` on symbols and Python numbers.

    Raises:
        TypeError: an operand is an array, which a fused function must take as an argument.
        ValueError: the shapes do not broadcast.
    """
    nodes: list[Node | Scalar] = []
    shapes: list[tuple[int, ...]] = []
    for operand in operands:
        if isinstance(operand, Expr):
            nodes.append(operand.node)
            shapes.append(operand.shape)
        elif is_scalar(operand):
            nodes.append(operand)
        elif isinstance(operand, Reduced):
            raise operand._refused(row.name)
        else:
            raise TypeError(
                f"{row.name}: a fused function computes with its arguments and Python numbers; got "
                f"{type(operand).__name__} from elsewhere: pass it as an argument"
            )
    try:
        shape = shapes[0] if len(shapes) == 1 else np.broadcast_shapes(*shapes)
    except ValueError:
        raise ValueError(f"{row.name}: shapes {', '.join(map(str, shapes))} do not broadcast") from None
    return Expr(call(row, nodes), shape)


def order(roots: Iterable[Node]) -> list[Node]:
    """Every node that the roots reach, operands before users."""
    done: dict[Node, None] = {}
    stack = [(root, False) for root in reversed(list(roots))]
    while stack:
        node, seen = stack.pop()
        if node in done:
            continue
        if seen:
            done[node] = None
        else:
            stack.append((node, True))
            stack.extend((arg, False) for arg in reversed(node.args))
    return list(done)


def substitute(roots: Sequence[Node], replaced: dict[Node, Node]) -> tuple[Node, ...]:
    """The roots with some nodes replaced by others."""
    made = dict(replaced)
    pending = [(root, False) for root in roots]
    while pending:
        node, seen = pending.pop()
        if node in made:
            continue
        if seen or not node.args:
            args = tuple(made[arg] for arg in node.args)
            same = args == node.args
            made[node] = node if same else _node(node.kind, node.dtype, args, node.row, node.value, node.weak)
        else:
            pending.append((node, True))
            pending.extend((arg, False) for arg in node.args)
    return tuple(made[root] for root in roots)
