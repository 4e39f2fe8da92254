"""Python's operators, each by the name of its row in :mod:`cukern.table`: arrays and symbols share them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

#: The public functions by name; :mod:`cukern.ops` fills it.
FUNCTIONS: dict[str, Callable[..., Any]] = {}


class Operators:
    """Arithmetic, comparison and bit operators, for arrays and for the symbols of fused functions."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    def __neg__(self) -> Self:
        return _apply("negative", self)

    def __pos__(self) -> Self:
        return _apply("positive", self)

    def __abs__(self) -> Self:
        return _apply("abs", self)

    def __invert__(self) -> Self:
        return _apply("bitwise_invert", self)

    def __add__(self, other: Any) -> Self:
        return _apply("add", self, other)

    def __radd__(self, other: Any) -> Self:
        return _apply("add", other, self)

    def __sub__(self, other: Any) -> Self:
        return _apply("subtract", self, other)

    def __rsub__(self, other: Any) -> Self:
        return _apply("subtract", other, self)

    def __mul__(self, other: Any) -> Self:
        return _apply("multiply", self, other)

    def __rmul__(self, other: Any) -> Self:
        return _apply("multiply", other, self)

    def __truediv__(self, other: Any) -> Self:
        return _apply("divide", self, other)

    def __rtruediv__(self, other: Any) -> Self:
        return _apply("divide", other, self)

    def __floordiv__(self, other: Any) -> Self:
        return _apply("floor_divide", self, other)

    def __rfloordiv__(self, other: Any) -> Self:
        return _apply("floor_divide", other, self)

    def __mod__(self, other: Any) -> Self:
        return _apply("remainder", self, other)

    def __rmod__(self, other: Any) -> Self:
        return _apply("remainder", other, self)

    def __pow__(self, other: Any) -> Self:
        return _apply("pow", self, other)

    def __rpow__(self, other: Any) -> Self:
        return _apply("pow", other, self)

    def __and__(self, other: Any) -> Self:
        return _apply("bitwise_and", self, other)

    def __rand__(self, other: Any) -> Self:
        return _apply("bitwise_and", other, self)

    def __or__(self, other: Any) -> Self:
        return _apply("bitwise_or", self, other)

    def __ror__(self, other: Any) -> Self:
        return _apply("bitwise_or", other, self)

    def __xor__(self, other: Any) -> Self:
        return _apply("bitwise_xor", self, other)

    def __rxor__(self, other: Any) -> Self:
        return _apply("bitwise_xor", other, self)

    def __lshift__(self, other: Any) -> Self:
        return _apply("bitwise_left_shift", self, other)

    def __rlshift__(self, other: Any) -> Self:
        return _apply("bitwise_left_shift", other, self)

    def __rshift__(self, other: Any) -> Self:
        return _apply("bitwise_right_shift", self, other)

    def __rrshift__(self, other: Any) -> Self:
        return _apply("bitwise_right_shift", other, self)

    def __lt__(self, other: Any) -> Self:
        return _apply("less", self, other)

    def __le__(self, other: Any) -> Self:
        return _apply("less_equal", self, other)

    def __gt__(self, other: Any) -> Self:
        return _apply("greater", self, other)

    def __ge__(self, other: Any) -> Self:
        return _apply("greater_equal", self, other)

    def __eq__(self, other: Any) -> Self:  # type: ignore[override]
        return _apply("equal", self, other)

    def __ne__(self, other: Any) -> Self:  # type: ignore[override]
        return _apply("not_equal", self, other)


def _apply(name: str, *operands: Any) -> Any:
    if len(operands) == 2 and not (_is_operand(operands[0]) and _is_operand(operands[1])):
        return NotImplemented
    return FUNCTIONS[name](*operands)


def _is_operand(value: object) -> bool:
    return isinstance(value, (Operators, bool, int, float)) or hasattr(value, "__array__")
