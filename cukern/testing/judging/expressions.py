"""Integer expressions of sizes, such as ``(n + 255) / 256``, of which nothing else can be executed."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping

#: The longest expression, and the largest number in one.
_LENGTH, _LARGEST = 200, 2**62
_BINARY: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: _divided(a, b),
    ast.FloorDiv: lambda a, b: _divided(a, b),
    ast.Mod: lambda a, b: a - b * _divided(a, b),
}
_COMPARED: dict[type[ast.cmpop], Callable[[int, int], bool]] = {
    ast.Lt: lambda a, b: a < b,
    ast.LtE: lambda a, b: a <= b,
    ast.Gt: lambda a, b: a > b,
    ast.GtE: lambda a, b: a >= b,
    ast.Eq: lambda a, b: a == b,
    ast.NotEq: lambda a, b: a != b,
}
_FUNCTIONS: dict[str, Callable[..., int]] = {
    "min": min,
    "max": max,
    "divide_up": lambda a, b: _divided(a + b - 1, b),
}


def _divided(a: int, b: int) -> int:
    """The quotient of integers as C++ has it, towards zero."""
    if b == 0:
        raise ValueError("a division by zero")
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def evaluate(text: str, names: Mapping[str, int]) -> int:
    """The value of an expression.

    It has integers, ``names``, ``+ - * / %`` with the division of C++, comparisons, ``a if condition else b``, ``min``,
    ``max`` and ``divide_up``.

    Raises:
        ValueError: it has something else, or a number beyond 2^62.

    >>> evaluate("divide_up(n, 256) * (2 if n > 10 else 1)", {"n": 1000})
    8
    """
    if len(text) > _LENGTH:
        raise ValueError(f"expected at most {_LENGTH} characters, got {len(text)}")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, MemoryError, RecursionError, ValueError):
        raise ValueError(f"expected an expression of sizes, got {text.strip()!r}") from None
    return _value(tree, names)


def _value(node: ast.expr, names: Mapping[str, int]) -> int:
    value = _of(node, names)
    if abs(value) > _LARGEST:
        raise ValueError(f"{ast.unparse(node)} is beyond 2^62")
    return value


def _of(node: ast.expr, names: Mapping[str, int]) -> int:
    match node:
        case ast.Constant(value=int(number)) if not isinstance(number, bool):
            return number
        case ast.Name(id=name) if name in names:
            return int(names[name])
        case ast.Name(id=name):
            raise ValueError(f"{name} is no size: expected one of {', '.join(sorted(names)) or 'none'}")
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, names)
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _BINARY:
            return _BINARY[type(operator)](_value(left, names), _value(right, names))
        case ast.Compare(left=left, ops=[operator], comparators=[right]) if type(operator) in _COMPARED:
            return int(_COMPARED[type(operator)](_value(left, names), _value(right, names)))
        case ast.IfExp(test=test, body=body, orelse=other):
            return _value(body if _value(test, names) else other, names)
        case ast.Call(func=ast.Name(id=name), args=[first, second], keywords=[]) if name in _FUNCTIONS:
            return _FUNCTIONS[name](_value(first, names), _value(second, names))
    raise ValueError(f"{ast.unparse(node)} is none of what an expression of sizes may have")
