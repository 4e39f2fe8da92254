"""Operators and methods of arrays and symbols; each calls the public function of its name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self, TypeVar

import numpy as np

from .layout import expect_c_order

#: Functions by name, registered by each room: the public ones, and those that lower rooms need from higher ones.
FUNCTIONS: dict[str, Any] = {}


#: Bound ``__call__`` methods of the rows that operators call most, which saves a lookup per call.
CALLS: dict[str, Any] = {}
#: Types of operands that need no conversion: arrays, symbols, Python numbers.
_PLAIN: set[type] = {bool, int, float, complex}


T = TypeVar("T", bound="Operators")


def _function(name: str) -> Callable[[T], T]:
    """The operator that is the public function ``name``."""
    return lambda x: x._call(name)


def _binary(name: str) -> Callable[[T, Any], T]:
    """The same of two operands."""
    return lambda x, y: x._apply(name, x, y)


def _quick(name: str) -> Callable[[T, Any], T]:
    """The same of a row in :data:`CALLS`."""
    return lambda x, y: CALLS[name](x, y) if type(y) in _PLAIN else x._apply(name, x, y)


def _reflected(name: str) -> Callable[[T, Any], T]:
    """The same, of another operand and this one."""
    return lambda x, y: x._apply(name, y, x)


def _comparison(name: str) -> Callable[[T, Any], T]:
    """The same, of an operand that may also be a list, None or a string."""
    return lambda x, y: x._compare(name, y)


def _inplace(name: str) -> Callable[[T, Any], T]:
    """The same, whose result takes the place of the first operand."""
    return lambda x, y: x._call("inplace", name, y)


class Operators:
    """Operators and methods of arrays and of symbols; each calls the public function of its name."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    def __init_subclass__(cls) -> None:
        _PLAIN.add(cls)

    def _call(self, name: str, *args: Any, **options: Any) -> Self:
        """Call the public function ``name`` with this operand and other arguments."""
        result: Self = FUNCTIONS[name](self, *args, **options)
        return result

    def _apply(self, name: str, x: Any, y: Any) -> Self:
        """Call the public function ``name`` with two operands, one of which is this."""
        plain = type(x) in _PLAIN and type(y) in _PLAIN
        takes = plain or (_is_operand(x) and _is_operand(y) and not (x is self and answers(y)))
        result: Self = FUNCTIONS[name](x, y) if takes else NotImplemented
        return result

    def _compare(self, name: str, other: Any) -> Self:
        """Call the comparison ``name`` with another operand, which may also be a list, None or a string."""
        result: Self
        if type(other) not in _PLAIN and answers(other):
            result = NotImplemented
        elif _is_operand(other) and not isinstance(other, (list, tuple)):
            result = FUNCTIONS[name](self, other)
        else:
            result = FUNCTIONS["compare"](self, name, other)
        return result

    __neg__ = _function("negative")
    __pos__ = _function("positive")
    __abs__ = _function("abs")
    __invert__ = _function("bitwise_invert")

    __add__, __radd__ = _quick("add"), _reflected("add")
    __sub__, __rsub__ = _quick("subtract"), _reflected("subtract")
    __mul__, __rmul__ = _quick("multiply"), _reflected("multiply")
    __truediv__, __rtruediv__ = _quick("divide"), _reflected("divide")
    __floordiv__, __rfloordiv__ = _binary("floor_divide"), _reflected("floor_divide")
    __mod__, __rmod__ = _binary("remainder"), _reflected("remainder")
    __pow__, __rpow__ = _binary("pow"), _reflected("pow")
    __and__, __rand__ = _binary("bitwise_and"), _reflected("bitwise_and")
    __or__, __ror__ = _binary("bitwise_or"), _reflected("bitwise_or")
    __xor__, __rxor__ = _binary("bitwise_xor"), _reflected("bitwise_xor")
    __lshift__, __rlshift__ = _binary("bitwise_left_shift"), _reflected("bitwise_left_shift")
    __rshift__, __rrshift__ = _binary("bitwise_right_shift"), _reflected("bitwise_right_shift")
    __matmul__, __rmatmul__ = _binary("matmul"), _reflected("matmul")

    def __divmod__(self, other: Any) -> Any:
        return self._apply("divmod", self, other)

    def __rdivmod__(self, other: Any) -> Any:
        return self._apply("divmod", other, self)

    __lt__ = _comparison("less")
    __le__ = _comparison("less_equal")
    __gt__ = _comparison("greater")
    __ge__ = _comparison("greater_equal")
    __eq__ = _comparison("equal")  # type: ignore[assignment]
    __ne__ = _comparison("not_equal")  # type: ignore[assignment]

    # In place: an array is written, a symbol stands for a new value.
    __iadd__ = _inplace("add")
    __isub__ = _inplace("subtract")
    __imul__ = _inplace("multiply")
    __itruediv__ = _inplace("divide")
    __ifloordiv__ = _inplace("floor_divide")
    __imod__ = _inplace("remainder")
    __ipow__ = _inplace("pow")
    __iand__ = _inplace("bitwise_and")
    __ior__ = _inplace("bitwise_or")
    __ixor__ = _inplace("bitwise_xor")
    __ilshift__ = _inplace("bitwise_left_shift")
    __irshift__ = _inplace("bitwise_right_shift")

    # ----- matrices and indices -----

    def __imatmul__(self, other: Any) -> Self:
        return self._call("inplace_matmul", other)

    def __getitem__(self, key: Any) -> Self:
        result: Self = FUNCTIONS["getitem"](self, key)
        return result

    def __setitem__(self, key: Any, value: Any) -> None:
        FUNCTIONS["setitem"](self, key, value)

    @property
    def T(self) -> Self:
        """The view with the axes reversed."""
        result: Self = FUNCTIONS["transpose"](self)
        return result

    @property
    def mT(self) -> Self:
        """The view with the last two axes swapped."""
        return self._call("matrix_transpose")

    @property
    def real(self) -> Self:
        """The real part, a view; a real array itself."""
        return self._call("real")

    @property
    def imag(self) -> Self:
        """The imaginary part, a view; zeros of a real array."""
        return self._call("imag")

    # ----- methods -----

    def conj(self) -> Self:
        """The complex conjugate."""
        return self._call("conj")

    conjugate = conj

    def astype(self, dtype: Any, *, copy: bool = True) -> Self:
        """The elements as another dtype."""
        return self._call("astype", dtype, copy=copy)

    def copy(self, order: str | None = "C") -> Self:
        """A copy in C order, as all new arrays have: ``order`` "F" is a ValueError."""
        expect_c_order("copy", order)
        return self._call("copy")

    def reshape(self, *shape: Any, order: str = "C", copy: bool | None = None) -> Self:
        """The elements in another shape, given as integers or as one tuple."""
        return self._call("reshape", shape[0] if len(shape) == 1 else shape, order, copy=copy)

    def ravel(self, order: str = "C") -> Self:
        """The elements as a vector."""
        return self._call("ravel", order)

    def flatten(self, order: str = "C") -> Self:
        """A copy of the elements as a vector; ``order`` as of :func:`cukern.ravel`."""
        if order in ("K", "k"):
            return self._call("ravel", order).copy()
        return self._call("reshape", (-1,), order, copy=True)

    def repeat(self, repeats: Any, axis: int | None = None) -> Self:
        """Each element repeated along an axis, or in the flattened array if ``axis`` is None."""
        return self._call("repeat", repeats, axis)

    def transpose(self, *axes: Any) -> Self:
        """The view with the axes in another order, reversed by default."""
        given = axes[0] if len(axes) == 1 else axes or None
        return self._call("transpose", given)

    def swapaxes(self, axis1: int, axis2: int, /) -> Self:
        """The view with two axes swapped."""
        return self._call("swapaxes", axis1, axis2)

    def squeeze(self, axis: Any = None) -> Self:
        """The view without axes of size 1."""
        return self._call("squeeze", axis)

    def dot(self, b: Any, out: Any = None) -> Self:
        """The product with another matrix or vector."""
        return self._call("dot", b, out)

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Self:
        """A view of a diagonal of matrices, as the last axis."""
        return self._call("diagonal", offset, axis1, axis2)

    def trace(
        self, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None
    ) -> Self:
        """The sum of a diagonal of matrices."""
        return self._call("trace", offset, axis1, axis2, dtype, out)

    def take(self, indices: Any, axis: int | None = None, out: Any = None, mode: Any = "raise") -> Self:
        """The elements at ``indices`` along an axis."""
        return self._call("take", indices, axis, out, mode)

    def clip(self, min: Any = None, max: Any = None, out: Any = None, **options: Any) -> Self:
        """The elements limited to the range from ``min`` to ``max``; ``options`` as of :func:`cukern.clip`."""
        return self._call("clip", min, max, out, **options)

    def round(self, decimals: int = 0, out: Any = None) -> Self:
        """The elements rounded to ``decimals`` decimal places, halves to even."""
        return self._call("round", decimals, out)

    def sum(
        self,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
    ) -> Self:
        """The sum over axes."""
        return self._call("sum", axis, dtype, out, keepdims, initial, where)

    def prod(
        self,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
    ) -> Self:
        """The product over axes."""
        return self._call("prod", axis, dtype, out, keepdims, initial, where)

    def cumsum(self, axis: int | None = None, dtype: Any = None, out: Any = None) -> Self:
        """The cumulative sums along an axis."""
        return self._call("cumsum", axis, dtype, out)

    def cumprod(self, axis: int | None = None, dtype: Any = None, out: Any = None) -> Self:
        """The cumulative products along an axis."""
        return self._call("cumprod", axis, dtype, out)

    def mean(
        self,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        keepdims: bool = False,
        *,
        where: Any = None,
    ) -> Self:
        """The mean over axes."""
        return self._call("mean", axis, dtype, out, keepdims, where=where)

    def max(
        self,
        axis: Any = None,
        out: Any = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
    ) -> Self:
        """The largest element over axes."""
        return self._call("max", axis, out, keepdims, initial, where)

    def min(
        self,
        axis: Any = None,
        out: Any = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
    ) -> Self:
        """The smallest element over axes."""
        return self._call("min", axis, out, keepdims, initial, where)

    def any(self, axis: Any = None, out: Any = None, keepdims: bool = False, *, where: Any = None) -> Self:
        """Whether any element along axes is true."""
        return self._call("any", axis, out, keepdims, where=where)

    def all(self, axis: Any = None, out: Any = None, keepdims: bool = False, *, where: Any = None) -> Self:
        """Whether all elements along axes are true."""
        return self._call("all", axis, out, keepdims, where=where)

    def argmax(self, axis: int | None = None, out: Any = None, *, keepdims: bool = False) -> Self:
        """The index of the largest element along an axis."""
        return self._call("argmax", axis, out, keepdims=keepdims)

    def argmin(self, axis: int | None = None, out: Any = None, *, keepdims: bool = False) -> Self:
        """The index of the smallest element along an axis."""
        return self._call("argmin", axis, out, keepdims=keepdims)

    def sort(
        self, axis: int = -1, kind: Any = None, *, descending: bool = False, stable: bool | None = None
    ) -> None:
        """Sort the elements along an axis, in place; the sort is always stable."""
        self._call("setitem", ..., self._call("sort", axis, kind, descending=descending))

    def argsort(
        self, axis: int | None = -1, kind: Any = None, *, descending: bool = False, stable: bool | None = None
    ) -> Self:
        """The indices that sort the elements along an axis."""
        return self._call("argsort", axis, kind, descending=descending)

    def partition(self, kth: Any, axis: int = -1, kind: Any = None) -> None:
        """Partition the elements along an axis around index ``kth``, in place; the result is fully sorted."""
        self._call("setitem", ..., self._call("partition", kth, axis, kind))

    def argpartition(self, kth: Any, axis: int | None = -1, kind: Any = None) -> Self:
        """The indices that partition the elements along an axis."""
        return self._call("argpartition", kth, axis, kind)

    def searchsorted(self, v: Any, side: str = "left", sorter: Any = None) -> Self:
        """The indices at which to insert ``v`` so that this sorted array stays sorted."""
        return self._call("searchsorted", v, side=side, sorter=sorter)

    def nonzero(self) -> tuple[Self, ...]:
        """The indices of the non-zero elements, one array for each axis."""
        result: tuple[Self, ...] = FUNCTIONS["nonzero"](self)
        return result

    def compress(self, condition: Any, axis: int | None = None) -> Self:
        """The slices along an axis for which ``condition`` is true."""
        result: Self = FUNCTIONS["compress"](condition, self, axis=axis)
        return result

    def var(
        self,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        ddof: float | None = None,
        keepdims: bool = False,
        *,
        correction: float | None = None,
        where: Any = None,
        mean: Any = None,
    ) -> Self:
        """The variance over axes."""
        return self._call(
            "var", axis, dtype, out, ddof, keepdims, correction=correction, where=where, mean=mean
        )

    def std(
        self,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        ddof: float | None = None,
        keepdims: bool = False,
        *,
        correction: float | None = None,
        where: Any = None,
        mean: Any = None,
    ) -> Self:
        """The standard deviation over axes."""
        return self._call(
            "std", axis, dtype, out, ddof, keepdims, correction=correction, where=where, mean=mean
        )


def is_foreign(value: object) -> bool:
    """Whether ``value`` is an array of another library, or a NumPy scalar."""
    return hasattr(value, "__array__") or hasattr(value, "__cuda_array_interface__")


def answers(value: object) -> bool:
    """Whether an object of another library takes NumPy's functions itself, such as an array with labels or units.

    As in NumPy, its operators and its form of a function run instead: its elements alone would lose what it adds to
    them, or their gradient.
    """
    return answering(type(value), "__array_ufunc__")


def answering(kind: type, protocol: str) -> bool:
    """Whether objects of a type of another library take NumPy's functions themselves, by one of the two protocols."""
    numpys = getattr(np.ndarray, protocol)
    return (
        getattr(kind, protocol, numpys) is not numpys
        and not issubclass(kind, (Operators, np.generic))
        and not hasattr(kind, "__cuda_array_interface__")
    )


def _is_operand(value: object) -> bool:
    return isinstance(value, (Operators, bool, int, float, complex, list, tuple)) or is_foreign(value)
