"""Numbers that carry a bound of the error with which a type of less precision computes them.

A formula written in NumPy and evaluated with arrays of these gives its results in float64, and for each element a
bound: how far any reasonable order of the same operations in the narrow type may be from it. Each operation adds its
rounding, a sum of n terms n roundings of the sum of their absolute values, and errors of operands are carried on by
evaluating the operation at both ends of their intervals. So cancellation widens bounds where it happens, and nowhere
else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from ... import dtypes

Values = npt.NDArray[np.float64]
#: Roundings of one function that is not rounded correctly, such as exp or tanh, in units of the last place.
_FUNCTION = 4.0
_EXACT = (
    np.negative,
    np.absolute,
    np.fabs,
    np.maximum,
    np.minimum,
    np.fmax,
    np.fmin,
    np.positive,
    np.copysign,
)
_ROUNDED = (np.add, np.subtract, np.multiply, np.divide, np.sqrt, np.square, np.reciprocal)
#: Functions that move elements, which go to values and bounds alike.
_MOVES = (
    "reshape ravel transpose swapaxes moveaxis rollaxis broadcast_to expand_dims squeeze take take_along_axis roll "
    "flip fliplr flipud rot90 repeat tile tril triu diagonal atleast_1d atleast_2d atleast_3d pad delete copy"
).split()
_JOINS = "concatenate stack vstack hstack dstack column_stack block".split()
_WHOLE = "argmax argmin argsort shape ndim size isnan isinf isfinite sign array_equal".split()


class Bounded(np.lib.mixins.NDArrayOperatorsMixin):
    """An array in float64 with a bound of the error of each element.

    Attributes:
        value: the elements.
        error: how far the same formula in ``dtype`` may be from them; infinite where it may overflow.
        dtype_of: the narrow type.
    """

    def __init__(self, value: npt.ArrayLike, error: npt.ArrayLike, dtype_of: dtypes.DType) -> None:
        self.value: Values = np.asarray(value, np.float64)
        self.error: Values = np.broadcast_to(np.asarray(error, np.float64), self.value.shape)
        self.dtype_of = dtype_of

    @classmethod
    def exact(cls, value: npt.ArrayLike, dtype: dtypes.DType) -> Bounded:
        """Elements that are given: without error, but that a GPU may take denormal numbers for zero."""
        held = np.asarray(value).astype(np.float64)
        return cls(held, np.where(np.abs(held) < _tiny(dtype), np.abs(held), 0.0), dtype)

    shape = property(lambda self: self.value.shape)
    ndim = property(lambda self: self.value.ndim)
    size = property(lambda self: self.value.size)
    T = property(lambda self: self._moved(np.transpose))

    def __len__(self) -> int:
        return len(self.value)

    def __getitem__(self, index: Any) -> Bounded:
        return Bounded(self.value[index], self.error[index], self.dtype_of)

    def __array__(self, *args: Any, **kwargs: Any) -> npt.NDArray[Any]:
        raise TypeError("a reference whose bounds are followed cannot leave NumPy's functions of arrays")

    def _moved(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Bounded:
        value, error = (function(one, *args, **kwargs) for one in (self.value, self.error))
        return Bounded(value, error, self.dtype_of)

    def __getattr__(self, name: str) -> Any:
        function = getattr(np, name, None) if not name.startswith("_") else None
        if function is None:
            raise AttributeError(name)
        if name == "reshape":
            return lambda *shape: np.reshape(self, shape[0] if len(shape) == 1 else shape)
        return lambda *args, **kwargs: function(self, *args, **kwargs)

    def astype(self, dtype: Any) -> Bounded:
        """The same elements: the reference has one type."""
        return self

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if kwargs.pop("out", None) is not None:
            return NotImplemented
        if method == "reduce" and ufunc in _REDUCED:
            return _REDUCED[ufunc](*inputs, **_axis(kwargs))
        if ufunc is np.matmul and method == "__call__":
            return _matmul(*inputs)
        if method == "accumulate" and ufunc is np.add:
            return _cumsum(*inputs, **_axis(kwargs))
        if method != "__call__" or ufunc.nout != 1:
            raise TypeError(f"bounds do not know numpy.{ufunc.__name__}.{method}: give Task(bound=...)")
        inputs = tuple(_constant(one, self.dtype_of) for one in inputs)
        values = [one.value if isinstance(one, Bounded) else one for one in inputs]
        with np.errstate(all="ignore"):
            result = ufunc(*values, **kwargs)
            if result.dtype.kind not in "f":
                return result
            error = np.zeros(result.shape)
            for i, one in enumerate(inputs):
                if isinstance(one, Bounded) and one.error.any():
                    error = error + _carried(ufunc, values, i, one, result)
            roundings = 0.0 if ufunc in _EXACT else 1.0 if ufunc in _ROUNDED else _FUNCTION
            return _rounded(result, error, roundings * np.abs(result), self.dtype_of)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        name = function.__name__
        if name in _MOVES:
            return args[0]._moved(function, *args[1:], **kwargs)
        if name in _WHOLE:
            return function(*(one.value if isinstance(one, Bounded) else one for one in args), **kwargs)
        if name in _JOINS:
            parts = [_of(one, self.dtype_of) for one in args[0]]
            value, error = (
                function([getattr(one, part) for one in parts], *args[1:], **kwargs)
                for part in ("value", "error")
            )
            return Bounded(value, error, self.dtype_of)
        if name in _KNOWN:
            return _KNOWN[name](*args, **kwargs)
        raise TypeError(f"bounds do not know numpy.{name}: give Task(bound=...)")


def _tiny(dtype: dtypes.DType) -> float:
    return float(ml_dtypes.finfo(dtype).smallest_normal)  # type: ignore[no-untyped-call]


def unit(dtype: dtypes.DType) -> float:
    """Half a unit in the last place of 1: the largest relative error of one rounding."""
    return float(ml_dtypes.finfo(dtype).eps) / 2  # type: ignore[no-untyped-call]


def _sums_unit(dtype: dtypes.DType) -> float:
    """That of the type in which terms are added: float for half types."""
    return min(unit(dtype), unit(dtypes.float32))


def _of(one: Any, dtype: dtypes.DType) -> Bounded:
    return one if isinstance(one, Bounded) else Bounded(one, 0.0, dtype)


def _constant(one: Any, dtype: dtypes.DType) -> Any:
    """A number of a formula, which the narrow type rounds too."""
    if isinstance(one, Bounded) or not isinstance(one, (float, np.floating)):
        return one
    held = float(one)
    with np.errstate(over="ignore"):
        same = float(np.asarray(held).astype(_wide(dtype))) == held
    return one if same or not np.isfinite(held) else Bounded(held, abs(held) * _sums_unit(dtype), dtype)


def _axis(kwargs: dict[str, Any]) -> dict[str, Any]:
    unknown = set(kwargs) - {"axis", "keepdims", "dtype"}
    if unknown:
        raise TypeError(f"bounds do not know {', '.join(sorted(unknown))}=: give Task(bound=...)")
    return {name: value for name, value in kwargs.items() if name != "dtype"}


def _carried(ufunc: np.ufunc, values: Sequence[Any], i: int, one: Bounded, result: Values) -> Values:
    """How far an operand's error moves the result: the larger of both ends."""
    ends = []
    for sign in (-1.0, 1.0):
        moved = list(values)
        moved[i] = one.value + sign * one.error
        change = np.abs(ufunc(*moved) - result)
        ends.append(np.where(np.isnan(change) & ~np.isnan(result), np.inf, change))
    return np.asarray(np.where(one.error == 0, 0.0, np.fmax(*ends)), np.float64)


def _rounded(
    value: Values, error: Values, size: Values, dtype: dtypes.DType, unit_of: float = 0.0
) -> Bounded:
    """A result, with the roundings of numbers of ``size`` added to its error."""
    with np.errstate(all="ignore"):
        error = error + (unit_of or unit(dtype)) * np.where(np.isfinite(size), size, 0.0)
        error = error + np.where(size > 0, _tiny(dtype), 0.0)
        largest = float(ml_dtypes.finfo(dtype).max)  # type: ignore[no-untyped-call]
        wide = dtypes.float32 if dtype.itemsize < 4 else dtype
        largest = max(largest, float(ml_dtypes.finfo(wide).max))  # type: ignore[no-untyped-call]
        over = np.isfinite(value) & (np.abs(value) + error > largest)
        return Bounded(value, np.where(over, np.inf, error), dtype)


def _sum(a: Bounded, axis: Any = None, keepdims: bool = False, **_: Any) -> Bounded:
    with np.errstate(all="ignore"):
        value = np.sum(a.value, axis=axis, keepdims=keepdims)
        size = np.sum(np.abs(a.value), axis=axis, keepdims=keepdims)
        count = a.size / max(1, np.size(value))
        error = np.sum(a.error, axis=axis, keepdims=keepdims)
        result = _rounded(
            np.asarray(value), np.asarray(error), np.asarray(count * size), a.dtype_of, _sums_unit(a.dtype_of)
        )
        over = np.isfinite(value) & (size > float(ml_dtypes.finfo(_wide(a.dtype_of)).max))  # type: ignore[no-untyped-call]
        return Bounded(value, np.where(over, np.inf, result.error), a.dtype_of)


def _wide(dtype: dtypes.DType) -> dtypes.DType:
    return dtypes.float32 if dtype.itemsize < 4 else dtype


def _cumsum(a: Bounded, axis: int | None = 0, **_: Any) -> Bounded:
    with np.errstate(all="ignore"):
        if axis is None:
            flat: Bounded = a._moved(np.ravel)
            return _cumsum(flat, 0)
        value, error = np.cumsum(a.value, axis=axis), np.cumsum(a.error, axis=axis)
        size = a.shape[axis] * np.cumsum(np.abs(a.value), axis=axis)
        return _rounded(value, error, size, a.dtype_of, _sums_unit(a.dtype_of))


def _mean(a: Bounded, axis: Any = None, keepdims: bool = False, **_: Any) -> Bounded:
    total = _sum(a, axis, keepdims)
    result: Bounded = total / (a.size / max(1, total.size))
    return result


def _var(a: Bounded, axis: Any = None, ddof: int = 0, keepdims: bool = False, **_: Any) -> Bounded:
    centred = a - _mean(a, axis, True)
    total = _sum(centred * centred, axis, keepdims)
    result: Bounded = total / (a.size / max(1, total.size) - ddof)
    return result


def _std(a: Bounded, axis: Any = None, ddof: int = 0, keepdims: bool = False, **_: Any) -> Bounded:
    root: Any = np.sqrt
    result: Bounded = root(_var(a, axis, ddof, keepdims))
    return result


def _prod(a: Bounded, axis: Any = None, keepdims: bool = False, **_: Any) -> Bounded:
    with np.errstate(all="ignore"):
        value = np.prod(a.value, axis=axis, keepdims=keepdims)
        share = np.sum(a.error / np.abs(a.value), axis=axis, keepdims=keepdims)
        count = a.size / max(1, np.size(value))
        return _rounded(
            np.asarray(value), np.nan_to_num(np.abs(value) * share), count * np.abs(value), a.dtype_of
        )


def _extreme(function: Callable[..., Any]) -> Callable[..., Bounded]:
    def extreme(a: Bounded, axis: Any = None, keepdims: bool = False, **_: Any) -> Bounded:
        return Bounded(
            function(a.value, axis=axis, keepdims=keepdims),
            np.max(a.error, axis=axis, keepdims=keepdims),
            a.dtype_of,
        )

    return extreme


def _matmul(first: Any, second: Any) -> Bounded:
    dtype = first.dtype_of if isinstance(first, Bounded) else second.dtype_of
    a, b = _of(first, dtype), _of(second, dtype)
    with np.errstate(all="ignore"):
        value = a.value @ b.value
        error = np.abs(a.value) @ b.error + a.error @ np.abs(b.value)
        size = a.shape[-1] * (np.abs(a.value) @ np.abs(b.value))
        return _rounded(np.asarray(value), np.asarray(error), np.asarray(size), dtype, _sums_unit(dtype))


def _where(condition: Any, x: Any, y: Any) -> Any:
    pair = [one for one in (x, y) if isinstance(one, Bounded)]
    held = condition.value if isinstance(condition, Bounded) else condition
    if not pair:
        return np.where(held, x, y)
    a, b = (_of(one, pair[0].dtype_of) for one in (x, y))
    return Bounded(np.where(held, a.value, b.value), np.where(held, a.error, b.error), a.dtype_of)


def _clip(a: Bounded, low: Any = None, high: Any = None, **_: Any) -> Any:
    result: Any = a if low is None else np.maximum(a, low)
    return result if high is None else np.minimum(result, high)


def _sort(a: Bounded, axis: int = -1, **_: Any) -> Bounded:
    order = np.argsort(a.value, axis=axis)
    return a._moved(np.take_along_axis, order, axis)


def _of_zeros(value: float) -> Callable[..., Bounded]:
    return lambda a, *_, **__: Bounded(np.full(a.shape, value), 0.0, a.dtype_of)


_max, _min = _extreme(np.max), _extreme(np.min)
_REDUCED: dict[np.ufunc, Callable[..., Bounded]] = {
    np.add: _sum,
    np.multiply: _prod,
    np.maximum: _max,
    np.minimum: _min,
}
_KNOWN: dict[str, Callable[..., Any]] = {
    "sum": _sum,
    "mean": _mean,
    "var": _var,
    "std": _std,
    "prod": _prod,
    "max": _max,
    "amax": _max,
    "min": _min,
    "amin": _min,
    "cumsum": _cumsum,
    "dot": _matmul,
    "where": _where,
    "clip": _clip,
    "sort": _sort,
    "zeros_like": _of_zeros(0.0),
    "ones_like": _of_zeros(1.0),
}
