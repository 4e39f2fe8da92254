"""The forms of elementwise functions: with one, two or three operands, with parameters, with bounds."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from .. import dtypes
from ..array import Array
from ..array.deferred import traced_threads
from ..array.operators import FUNCTIONS
from ..autodiff import tape
from ..kernel.by_numpy import by_numpy
from .function import ArrayLike, Elementwise, _record, astype
from .graph import Expr
from .row import FLOAT, Scalar
from .ufunc import Casting, one_out, written

#: The flags of an array and a number.
_NUMBER_LAST = (True, False)
_INVERSE = "it multiplies by an inverse"
_QUOTIENT = by_numpy("floor_divide", warns=True, why=_INVERSE)(partial(np.floor_divide, order="C"))


class Unary(Elementwise):
    """An elementwise function of one array."""

    @overload
    def __call__(
        self,
        x: Expr,
        /,
        out: Array | None = None,
        where: ArrayLike | None = None,
        dtype: npt.DTypeLike | None = None,
        casting: Casting | None = None,
    ) -> Expr: ...
    @overload
    def __call__(
        self,
        x: ArrayLike,
        /,
        out: Array | None = None,
        where: ArrayLike | None = None,
        dtype: npt.DTypeLike | None = None,
        casting: Casting | None = None,
    ) -> Array: ...
    def __call__(
        self,
        x: Any,
        /,
        out: Any = None,
        where: Any = None,
        dtype: Any = None,
        casting: Any = None,
    ) -> Any:
        if out is not None or where is not None or dtype is not None or casting is not None:
            return self.apply_with((x,), out, where, dtype, casting)
        if type(x) is Array and not traced_threads:
            cached = self.quick.get(x._layout)
            if cached is not None and cached[1] is None:
                plan = cached[0]
                make = plan.make
                result = plan.single(x) if make is None else make(x)
                if tape.opened and (tracking := tape.tracked((x,))) is not None:
                    _record(plan, (x,), (), (result,), tracking)
                return result
        return self.apply((x,))


class Rounding(Unary):
    """An elementwise function of one array that rounds to decimal places, by default to integers."""

    @overload  # type: ignore[override]
    def __call__(self, x: Expr, /, decimals: int = 0) -> Expr: ...
    @overload
    def __call__(self, x: ArrayLike, /, decimals: int = 0, out: Array | None = None) -> Array: ...
    def __call__(self, x: Any, /, decimals: int = 0, out: Any = None) -> Any:
        if out is not None:
            target = one_out(self.name, out)
            if target is not None and decimals == 0 and getattr(x, "shape", None) == target.shape:
                return self.apply_with((x,), target, None, None, None)
            return written(self.name, self(x, decimals), target)
        is_whole = isinstance(x, (Array, Expr)) and x.dtype not in dtypes.INEXACT
        if decimals == 0 or (is_whole and decimals > 0):
            return self.apply((x,))
        multiply, divide = FUNCTIONS["multiply"], FUNCTIONS["divide"]
        if is_whole:
            whole = astype(x, dtypes.float64)  # of which no power beyond 10**20 leaves more than 0
            power = 10.0 ** min(-decimals, 20)
            return astype(multiply(self.apply((divide(whole, power),)), power), x.dtype)
        # A power beyond float64 is infinite, and all numbers become NaN as in NumPy.
        power = 10.0 ** abs(decimals) if abs(decimals) < 309 else math.inf
        if decimals > 0:
            return divide(self.apply((multiply(x, power),)), power)
        return multiply(self.apply((divide(x, power),)), power)


class Binary(Elementwise):
    """An elementwise function of two arrays, broadcast against each other."""

    @overload
    def __call__(
        self,
        x: Expr,
        y: Expr | Scalar,
        /,
        out: Array | None = None,
        where: ArrayLike | None = None,
        dtype: npt.DTypeLike | None = None,
        casting: Casting | None = None,
    ) -> Expr: ...
    @overload
    def __call__(
        self,
        x: Scalar,
        y: Expr,
        /,
        out: Array | None = None,
        where: ArrayLike | None = None,
        dtype: npt.DTypeLike | None = None,
        casting: Casting | None = None,
    ) -> Expr: ...
    @overload
    def __call__(
        self,
        x: ArrayLike,
        y: ArrayLike,
        /,
        out: Array | None = None,
        where: ArrayLike | None = None,
        dtype: npt.DTypeLike | None = None,
        casting: Casting | None = None,
    ) -> Array: ...
    def __call__(
        self,
        x: Any,
        y: Any,
        /,
        out: Any = None,
        where: Any = None,
        dtype: Any = None,
        casting: Any = None,
    ) -> Any:
        if out is not None or where is not None or dtype is not None or casting is not None:
            return self.apply_with((x, y), out, where, dtype, casting)
        if type(x) is not Array or traced_threads:
            return self.apply((x, y))
        kind = type(y)
        layout, other = x._layout, y._layout if kind is Array else kind
        cached = self.quick.get(layout if other is layout else (layout, other))
        if cached is None:
            is_new = layout is not None and kind is not Array
            return self._apply((x, y)) if is_new else self.apply((x, y))
        plan, which = cached
        make = plan.make
        if which is None:
            result = plan.pair(x, y) if make is None else make(x, y)
            if tape.opened and (tracking := tape.tracked((x, y))) is not None:
                _record(plan, (x, y), (), (result,), tracking)
            return result
        if type(which) is not tuple or which != _NUMBER_LAST:
            return self.apply((x, y))
        try:
            result = plan.beside_number(x, y) if make is None else make(x, plan.converters[0](y))
        except OverflowError:
            return self._apply((x, y))
        if tape.opened and (tracking := tape.tracked((x,))) is not None:
            _record(plan, (x,), (y,), (result,), tracking)
        return result


class Quotient(Binary):
    """A quotient, of integers and one number by NumPy; kernels that have run for such arrays serve them again."""

    def _apply(self, operands: tuple[Any, ...]) -> Any:
        x, y = operands
        by_number = type(y) is int and y and type(x) is Array and x.dtype.kind in "iu"
        quotient = _QUOTIENT(x, y) if by_number else None
        return super()._apply(operands) if quotient is None else quotient


class Power(Binary):
    """``x ** y``; of integers no negative powers, which are no integers: the exponents of each call are looked at."""

    def _is_repeated(self, operands: tuple[Any, ...]) -> bool:
        return super()._is_repeated(operands) and operands[0].dtype.kind not in "iub"


class Ternary(Elementwise):
    """An elementwise function of three arrays, broadcast against each other."""

    @overload
    def __call__(self, x: Expr, y: Expr | Scalar, z: Expr | Scalar, /) -> Expr: ...
    @overload
    def __call__(self, x: ArrayLike, y: ArrayLike, z: ArrayLike, /) -> Array: ...
    def __call__(self, x: Any, y: Any, z: Any, /) -> Any:
        return self.apply((x, y, z))


class Choice(Ternary):
    """``where``: elements of one array or another; of a condition alone, the indices of its true elements."""

    @overload
    def __call__(self, x: Expr, y: Expr | Scalar, z: Expr | Scalar, /) -> Expr: ...
    @overload
    def __call__(self, x: ArrayLike, y: ArrayLike, z: ArrayLike, /) -> Array: ...
    @overload
    def __call__(self, x: ArrayLike, /) -> tuple[Array, ...]: ...
    def __call__(self, x: Any, y: Any = None, z: Any = None, /) -> Any:
        if y is None and z is None:
            return FUNCTIONS["nonzero"](x)
        return self.apply((x, y, z))


class Parametric(Elementwise):
    """An elementwise function of one array with parameters that have names and defaults."""

    @overload
    def __call__(self, x: Expr, /, *parameters: Expr | Scalar, **named: Expr | Scalar) -> Expr: ...
    @overload
    def __call__(self, x: ArrayLike, /, *parameters: ArrayLike, **named: ArrayLike) -> Array: ...
    def __call__(self, x: Any, /, *parameters: Any, **named: Any) -> Any:
        if named:
            known = self.names[1 + len(parameters) : len(self.operands)]
            if unknown := sorted(named.keys() - set(known)):
                raise TypeError(f"{self.name}: unexpected argument {unknown[0]!r}")
            values = zip(known, self.defaults[len(parameters) :], strict=True)
            parameters += tuple(named.get(name, default) for name, default in values)
        return self.apply((x, *parameters))


class Bounded(Elementwise):
    """An elementwise function of one array and two optional bounds."""

    @overload
    def __call__(
        self,
        x: Expr,
        /,
        min: Expr | Scalar | None = None,
        max: Expr | Scalar | None = None,
        out: None = None,
        *,
        a_min: Expr | Scalar | None = None,
        a_max: Expr | Scalar | None = None,
    ) -> Expr: ...
    @overload
    def __call__(
        self,
        x: ArrayLike,
        /,
        min: ArrayLike | None = None,
        max: ArrayLike | None = None,
        out: Array | None = None,
        *,
        a_min: ArrayLike | None = None,
        a_max: ArrayLike | None = None,
        where: Any = None,
        dtype: npt.DTypeLike | None = None,
        casting: Casting | None = None,
    ) -> Array: ...
    def __call__(
        self,
        x: Any,
        /,
        min: Any = None,
        max: Any = None,
        out: Any = None,
        *,
        a_min: Any = None,
        a_max: Any = None,
        where: Any = None,
        dtype: Any = None,
        casting: Any = None,
    ) -> Any:
        if a_min is not None or a_max is not None:
            if min is not None or max is not None:
                raise TypeError(
                    f"{self.name}: min and a_min, max and a_max are names of one argument: give one"
                )
            min, max = a_min, a_max
        if where is not None or dtype is not None or casting is not None:
            row, operands = self._simplified((x, min, max))
            return row.apply_with(operands, out, where, dtype, casting)
        if out is not None:
            target: Any = one_out(self.name, out)
            return self.apply_to((x, min, max), target)
        return self.apply((x, min, max))


def unary(name: str, code: str, types: str = FLOAT, signature: str = "x->x", **options: Any) -> Unary:
    """A row with one operand."""
    return Unary(name, code, types, signature, **options)


def binary(name: str, code: str, types: str = FLOAT, signature: str = "xx->x", **options: Any) -> Binary:
    """A row with two operands."""
    return Binary(name, code, types, signature, **options)


def ternary(name: str, code: str, types: str = FLOAT, signature: str = "xxx->x", **options: Any) -> Ternary:
    """A row with three operands."""
    return Ternary(name, code, types, signature, **options)


def parametric(
    name: str,
    code: str,
    types: str = FLOAT,
    signature: str = "xx->x",
    *,
    defaults: tuple[Scalar, ...],
    **options: Any,
) -> Parametric:
    """A row with one operand and parameters."""
    return Parametric(name, code, types, signature, defaults=defaults, **options)
