"""Operators and methods, each by the name of its public function: arrays and symbols share them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

#: The public functions by name; :mod:`cukern.ops` fills it.
FUNCTIONS: dict[str, Callable[..., Any]] = {}


class Operators:
    """Operators and methods of arrays and of the symbols of fused functions: each calls the public function."""

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


    # ----- in place: an array is written, a symbol stands for a new value -----

    def __iadd__(self, other: Any) -> Self:
        return _call("inplace", "add", self, other)

    def __isub__(self, other: Any) -> Self:
        return _call("inplace", "subtract", self, other)

    def __imul__(self, other: Any) -> Self:
        return _call("inplace", "multiply", self, other)

    def __itruediv__(self, other: Any) -> Self:
        return _call("inplace", "divide", self, other)

    def __ifloordiv__(self, other: Any) -> Self:
        return _call("inplace", "floor_divide", self, other)

    def __imod__(self, other: Any) -> Self:
        return _call("inplace", "remainder", self, other)

    def __ipow__(self, other: Any) -> Self:
        return _call("inplace", "pow", self, other)

    def __iand__(self, other: Any) -> Self:
        return _call("inplace", "bitwise_and", self, other)

    def __ior__(self, other: Any) -> Self:
        return _call("inplace", "bitwise_or", self, other)

    def __ixor__(self, other: Any) -> Self:
        return _call("inplace", "bitwise_xor", self, other)

    def __ilshift__(self, other: Any) -> Self:
        return _call("inplace", "bitwise_left_shift", self, other)

    def __irshift__(self, other: Any) -> Self:
        return _call("inplace", "bitwise_right_shift", self, other)

    # ----- matrices and indices -----

    def __matmul__(self, other: Any) -> Self:
        return _apply("matmul", self, other)

    def __rmatmul__(self, other: Any) -> Self:
        return _apply("matmul", other, self)

    def __getitem__(self, key: Any) -> Self:
        return _call("getitem", self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        _call("setitem", self, key, value)

    @property
    def T(self) -> Self:
        """The view with the axes reversed."""
        return _call("transpose", self)

    @property
    def mT(self) -> Self:
        """The view with the last two axes exchanged."""
        return _call("matrix_transpose", self)

    # ----- methods, each the function of its name -----

    def astype(self, dtype: Any, /, *, copy: bool = True) -> Self:
        """The elements as another dtype."""
        return _call("astype", self, dtype, copy=copy)

    def reshape(self, *shape: Any, copy: bool | None = None) -> Self:
        """The elements in another shape, given as integers or as one tuple."""
        return _call("reshape", self, shape[0] if len(shape) == 1 else shape, copy=copy)

    def ravel(self) -> Self:
        """The elements along one axis."""
        return _call("ravel", self)

    def transpose(self, *axes: Any) -> Self:
        """The view with the axes in another order, reversed by default."""
        return _call("transpose", self, (axes[0] if len(axes) == 1 else axes) or None)

    def swapaxes(self, axis1: int, axis2: int, /) -> Self:
        """The view with two axes exchanged."""
        return _call("swapaxes", self, axis1, axis2)

    def squeeze(self, axis: Any = None) -> Self:
        """The view without axes of size 1."""
        return _call("squeeze", self, axis)

    def take(self, indices: Any, /, axis: int | None = None) -> Self:
        """The elements at places along an axis."""
        return _call("take", self, indices, axis=axis)

    def clip(self, min: Any = None, max: Any = None) -> Self:
        """The elements, but at least ``min`` and at most ``max``."""
        return _call("clip", self, min, max)

    def round(self) -> Self:
        """The nearest integers, halves to the even one."""
        return _call("round", self)

    def sum(self, axis: Any = None, *, dtype: Any = None, keepdims: bool = False) -> Self:
        """The sum over axes."""
        return _call("sum", self, axis, dtype=dtype, keepdims=keepdims)

    def prod(self, axis: Any = None, *, dtype: Any = None, keepdims: bool = False) -> Self:
        """The product over axes."""
        return _call("prod", self, axis, dtype=dtype, keepdims=keepdims)

    def mean(self, axis: Any = None, *, keepdims: bool = False) -> Self:
        """The mean over axes."""
        return _call("mean", self, axis, keepdims=keepdims)

    def max(self, axis: Any = None, *, keepdims: bool = False) -> Self:
        """The largest element over axes."""
        return _call("max", self, axis, keepdims=keepdims)

    def min(self, axis: Any = None, *, keepdims: bool = False) -> Self:
        """The smallest element over axes."""
        return _call("min", self, axis, keepdims=keepdims)

    def any(self, axis: Any = None, *, keepdims: bool = False) -> Self:
        """Whether an element is true, over axes."""
        return _call("any", self, axis, keepdims=keepdims)

    def all(self, axis: Any = None, *, keepdims: bool = False) -> Self:
        """Whether every element is true, over axes."""
        return _call("all", self, axis, keepdims=keepdims)

    def argmax(self, axis: int | None = None, *, keepdims: bool = False) -> Self:
        """The place of the largest element along an axis."""
        return _call("argmax", self, axis, keepdims=keepdims)

    def argmin(self, axis: int | None = None, *, keepdims: bool = False) -> Self:
        """The place of the smallest element along an axis."""
        return _call("argmin", self, axis, keepdims=keepdims)

    def var(self, axis: Any = None, *, correction: float = 0.0, keepdims: bool = False) -> Self:
        """The variance over axes."""
        return _call("var", self, axis, correction=correction, keepdims=keepdims)

    def std(self, axis: Any = None, *, correction: float = 0.0, keepdims: bool = False) -> Self:
        """The standard deviation over axes."""
        return _call("std", self, axis, correction=correction, keepdims=keepdims)


def _call(name: str, *args: Any, **options: Any) -> Any:
    return FUNCTIONS[name](*args, **options)


def _apply(name: str, *operands: Any) -> Any:
    if len(operands) == 2 and not (_is_operand(operands[0]) and _is_operand(operands[1])):
        return NotImplemented
    return FUNCTIONS[name](*operands)


def _is_operand(value: object) -> bool:
    return isinstance(value, (Operators, bool, int, float)) or hasattr(value, "__array__")
