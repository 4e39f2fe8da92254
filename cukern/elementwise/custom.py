"""A user's elementwise function: a row like those of the table, from a C++ expression and a derivative."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Literal

from ..dtypes import DType
from ..errors import CompileError, GradientError
from .function import ArrayLike, Elementwise
from .graph import SIMPLIFIED, Expr
from .kinds import Binary, Unary
from .row import ALL, FLOAT, NUMERIC, is_scalar

__all__ = ["elementwise"]

Kind = Literal["real floating", "numeric", "integral", "any"]
Result = Literal["same", "bool"]
#: The Array API's kinds of dtype, as kinds of rows.
_KINDS: dict[str, str] = {"real floating": FLOAT, "numeric": NUMERIC, "integral": "iu", "any": ALL}
RESULTS = {"same": "x", "bool": "b"}
_TYPES = ("T", "U", "A")
#: The fastest call, by the number of operands.
_QUICK: dict[int, Callable[..., Any]] = {1: Unary.__call__, 2: Binary.__call__}
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_ASSIGNMENT = re.compile(r"\s*\w+\s*=(?!=)\s*")


class CustomElementwise(Elementwise):
    """An elementwise function of :func:`elementwise`."""

    def __call__(self, *operands: ArrayLike | Expr) -> Any:
        check_count(self.name, self.names, operands)
        quick = _QUICK.get(len(operands))
        return self.apply(operands) if quick is None else quick(self, *operands)

    @property
    def differentiable(self) -> bool:
        """Whether it has a derivative."""
        return not isinstance(self.vjp, Refused)


class Refused:
    """The vjp of a function without one: computing a gradient through it raises GradientError.

    Its cotangents are calls of a row whose kernel cannot be written.
    """

    def __init__(self, name: str) -> None:
        self.row = _Unwritten(name, "x", FLOAT, "x->x", names=("x",), public=False)

    def __call__(self, g: Expr, *values: Expr) -> tuple[Expr, ...]:
        return (self.row.apply((g,)),) * (len(values) - 1)


class _Unwritten(Elementwise):
    def print(self, operands: Sequence[str], dtype: DType) -> str:
        raise GradientError(
            f"{self.name} was made without a vjp: give vjp=..., one that returns None if the derivative is 0, or pass "
            "cukern.stop_gradient of constant operands"
        )


def check_count(name: str, names: Sequence[str], operands: Sequence[object]) -> None:
    """Raise TypeError unless there are as many operands as names."""
    if len(operands) != len(names):
        raise TypeError(f"{name}: expected {len(names)} operand(s), {', '.join(names)}; got {len(operands)}")


def check_name(function: str, name: object) -> None:
    """Raise ValueError unless ``name`` is allowed for a new function."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(f"{function}: name: expected letters, digits and _, got {name!r}")
    if name in SIMPLIFIED:
        raise ValueError(f"{function}: name: {name!r} is taken: expressions of cukern.{name} are simplified")


def one_of(function: str, argument: str, value: str, known: dict[str, str]) -> str:
    """The item of ``known`` for an argument's value.

    Raises:
        ValueError: there is none; the message lists the allowed values.
    """
    if value not in known:
        raise ValueError(
            f"{function}: {argument}: expected one of {', '.join(map(repr, known))}, got {value!r}"
        )
    return known[value]


def variables(name: str, argument: str, code: str, known: Iterable[str], hint: str = "") -> tuple[str, ...]:
    """The variables that an argument's C++ expression reads, without type names.

    Args:
        name: the new function's name, for errors.
        argument: the argument's name, for errors.
        code: the expression.
        known: the variables that it may read.
        hint: text that an error adds to them.

    Raises:
        CompileError: ``code`` is not an expression.
        ValueError: it reads another variable, or is an assignment.
    """
    if assignment := _ASSIGNMENT.match(code):
        value = code[assignment.end() :]
        raise ValueError(
            f"{name}: {argument}: expected the value alone, {value!r}, got the assignment {code!r}"
        )
    from ..text import syntax

    read = syntax.variables(code)
    if read is None:
        raise CompileError(f"{name}: {argument}: expected a C++ expression, got\n    {code}", text=code)
    known = tuple(known)  # "xy" in "xyz" is true, but not in ("x", "y", "z")
    read = tuple(one for one in read if one not in _TYPES)
    if unknown := [one for one in read if one not in known]:
        expected = ", ".join(known) or "none"
        raise ValueError(
            f"{name}: {argument}: unknown operand {unknown[0]} in {code!r}; expected {expected}{hint}"
        )
    return read


def operand_names(
    name: str, argument: str, code: str, operands: str | Sequence[str] | None
) -> tuple[str, ...]:
    """The operands of an expression: the given names, or by default those of x, y and z that it reads.

    Raises:
        CompileError: ``code`` is not an expression.
        ValueError: it reads no operand or another variable; an operand is not a name, comes twice or is not read.
    """
    if operands is None:
        read = variables(name, argument, code, "xyz", "; operands= names others")
        if not read:
            raise ValueError(f"{name}: {argument}: expected an operand x, y or z in {code!r}")
        return tuple(sorted(read))
    names = tuple(operands.replace(",", " ").split() if isinstance(operands, str) else operands)
    if not names or not all(isinstance(one, str) and _NAME.fullmatch(one) for one in names):
        raise ValueError(f"{name}: operands: expected names, got {operands!r}")
    if taken := [one for one in names if one in _TYPES or names.count(one) > 1]:
        raise ValueError(f"{name}: operands: {taken[0]} comes twice or is a type's name")
    read = variables(name, argument, code, names)
    if unread := [one for one in names if one not in read]:
        raise ValueError(f"{name}: operands: {unread[0]} is not in {argument}: {code}")
    return names


def check_vjp(name: str, vjp: object, arguments: Sequence[str]) -> None:
    """Raise TypeError unless ``vjp`` is a function that takes these arguments by position."""
    try:
        inspect.signature(vjp).bind(*arguments)  # type: ignore[arg-type]
    except ValueError:  # a builtin without a signature
        return
    except TypeError:
        raise TypeError(f"{name}: vjp: expected a function of {', '.join(arguments)}, got {vjp!r}") from None


def cotangents(name: str, names: Sequence[str], gradients: Any) -> tuple[Expr | None, ...]:
    """The result of a ``vjp`` as a symbol for each operand, or None for an operand without a derivative.

    Raises:
        TypeError: a cotangent is not a symbol, 0 or None.
        ValueError: the number of cotangents is not that of the operands.
    """
    each = tuple(gradients) if isinstance(gradients, (tuple, list)) else (gradients,)
    if len(each) != len(names):
        raise ValueError(
            f"{name}: vjp: expected {len(names)} cotangents, of {', '.join(names)}, got {len(each)}"
        )
    for operand, one in zip(names, each, strict=True):
        if not (one is None or isinstance(one, Expr) or (is_scalar(one) and one == 0)):
            raise TypeError(
                f"{name}: vjp: expected the cotangent of {operand} in functions of the arguments, got "
                f"{type(one).__name__}"
            )
    return tuple(one if isinstance(one, Expr) else None for one in each)


def elementwise(
    name: str,
    code: str,
    *,
    vjp: Callable[..., Any] | None = None,
    operands: str | Sequence[str] | None = None,
    kind: Kind = "real floating",
    result: Result = "same",
    doc: str = "",
) -> CustomElementwise:
    """Make an elementwise function from a C++ expression; it broadcasts and fuses, and ``vjp`` is its derivative.

    The function takes an array or a Python number for each operand of the expression; within :func:`cukern.fuse` it
    takes symbols. On every device it runs as one kernel, and so does each derivative, of any order.

    Args:
        name: the name of the function and its kernels.
        code: a C++ expression of the operands, which have type ``T``: ``float`` for arrays of 16 bits too. ``U`` is an
            unsigned integer type at least as wide as ``T``, whose arithmetic wraps. CUDA's mathematical functions, such
            as ``fabs``, are overloaded. Numbers are C++'s: ``0.5`` is a double, ``T(0.5)`` is not.
        vjp: takes the cotangent ``g``, the operands and the result, in this order, and returns the cotangent of the
            operand, or of each operand in a tuple; None or 0 for an operand without a derivative. It may use operators
            and cukern's elementwise functions. Without it a gradient through the function is a GradientError.
        operands: the operands' names in order, such as ``"x beta"``; by default those of x, y and z in ``code``.
        kind: the kind of dtype in which it computes, as named by :func:`cukern.isdtype`, or ``"any"`` for numbers and
            bool. ``"real floating"`` converts integers as ``cukern.exp`` does; other kinds refuse other dtypes.
        result: ``"same"`` for the dtype in which it computes, or ``"bool"``.
        doc: the first line of the function's docstring.

    Raises:
        CompileError: ``code`` is not a C++ expression; when called: the compiler refuses it.
        TypeError: ``vjp`` does not take these arguments; when differentiated: it does not return symbols.
        ValueError: ``name`` is not a name or is taken, ``code`` reads an unknown operand or assigns, an operand is not
            read, or there is no such ``kind`` or ``result``; when differentiated: ``vjp`` returns another number of
            cotangents.

    >>> import cukern as ck
    >>> softsign = ck.elementwise(
    ...     "softsign", "x / (1 + fabs(x))", vjp=lambda g, x, y: g / (1 + ck.abs(x)) ** 2
    ... )
    >>> softsign(ck.asarray([-1.0, 0.0, 3.0])).tolist()
    [-0.5, 0.0, 0.75]
    >>> ck.grad(ck.grad(softsign))(ck.asarray(1.0)).item()
    -0.25
    """
    check_name("elementwise", name)
    names = operand_names(name, "code", code, operands)
    types = one_of(name, "kind", kind, _KINDS)
    marks = f"{'x' * len(names)}->{one_of(name, 'result', result, RESULTS)}"
    if vjp is not None:
        check_vjp(name, vjp, ("g", *names, "the result"))
    return CustomElementwise(
        name,
        f"({code})",
        types,
        marks,
        Refused(name) if vjp is None else partial(_cotangents, name, names, vjp),
        names=names,
        public=False,
        doc=doc or f"``{code}``.",
    )


def _cotangents(
    name: str, names: Sequence[str], vjp: Callable[..., Any], g: Expr, *values: Expr
) -> tuple[Expr | None, ...]:
    """Call ``vjp`` and check its result."""
    return cotangents(name, names, vjp(g, *values))
