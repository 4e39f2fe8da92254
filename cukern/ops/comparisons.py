"""Comparisons of whole arrays: within tolerances, by shape and elements, and with lists, None and strings."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from .. import dtypes
from ..array import Array
from ..array.creation import asarray, device_of, full
from ..array.operators import FUNCTIONS
from ..elementwise.function import as_operands, astype
from ..elementwise.fuse import fuse
from ..elementwise.operands import public
from ..elementwise.table import abs, equal, isnan, less_equal, multiply, subtract
from ..kernel.by_numpy import by_numpy
from ..reduction.rows import all

__all__ = ["allclose", "array_equal", "array_equiv", "isclose"]

_EQUAL = by_numpy("array_equal", alike=True)(lambda a, b: bool((a == b).all()))


@fuse(static=("equal_nan",))
def _close(a: Any, b: Any, rtol: Any, atol: Any, equal_nan: bool) -> Any:
    near = less_equal(abs(subtract(a, b)), atol + multiply(rtol, abs(b)))
    # For an infinite b both the difference and the tolerance are infinite.
    result = equal(a, b) | (near & (abs(b) < math.inf))
    return result | (isnan(a) & isnan(b)) if equal_nan else result


@public
def isclose(a: Any, b: Any, /, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False) -> Array:
    """Whether ``|a - b| <= atol + rtol * |b|``, element by element; infinities are close to themselves.

    Args:
        a: an array or a number.
        b: the reference for ``a``.
        rtol: tolerance relative to ``b``, a number or an array, which broadcasts.
        atol: absolute tolerance, likewise.
        equal_nan: whether NaN is close to NaN.
    """
    operands = as_operands("isclose", (a, b))
    if not any(isinstance(o, Array) for o in operands):
        operands = tuple(o if isinstance(o, (int, float, complex)) else asarray(o) for o in (a, b))
    if not any(isinstance(o, Array) for o in operands):
        wide_dtype = dtypes.complex128 if isinstance(operands[0], complex) else dtypes.float64
        operands = (asarray(operands[0], wide_dtype), operands[1])
    # Differences of integers would wrap around.
    wide = [
        (o if isinstance(o, complex) else float(o))
        if not isinstance(o, Array)
        else astype(o, dtypes.float64)
        if o.dtype not in dtypes.INEXACT
        else o
        for o in operands
    ]
    first, second = wide
    device = device_of(wide)
    bounds = [
        float(one) if type(one) in (bool, int, float) else asarray(one, device=device) for one in (rtol, atol)
    ]
    return _close(first, second, bounds[0], bounds[1], bool(equal_nan))


@public
def allclose(a: Any, b: Any, /, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False) -> bool:
    """Whether all elements are close, as by :func:`isclose`; a Python bool, for which it waits for the device."""
    return bool(isclose(a, b, rtol, atol, equal_nan).all())


def _comparable(a: Any, b: Any) -> tuple[Array, Array]:
    if type(a) is Array and type(b) is Array and a.device is b.device:
        return a, b
    first = next((x for x in (a, b) if isinstance(x, Array)), None)
    device = None if first is None else first.device
    return asarray(a, device=device), asarray(b, device=device)


_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "equal": operator.eq,
    "not_equal": operator.ne,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
}


@public
def compare(x: Any, name: str, other: Any, /) -> Any:
    """The comparison ``name`` of an array with a list, or with None or a string, which equal no number, as in NumPy."""
    if not isinstance(x, Array):
        return NotImplemented
    if isinstance(other, (list, tuple, range)):
        try:
            values = asarray(other, device=x.device)
        except TypeError:  # a string or None among the items
            return asarray(_OPERATORS[name](x.numpy(), other), device=x.device)
        if values.dtype in dtypes.INEXACT:  # compare Python floats with all digits
            values = asarray(other, dtypes.comparable(x.dtype, values.dtype), x.device)
        return FUNCTIONS[name](x, values)
    if name in ("equal", "not_equal") and (other is None or isinstance(other, (str, bytes))):
        return full(x.shape, name == "not_equal", dtypes.bool_, x.device)
    return NotImplemented


@public
def array_equal(a: Any, b: Any, /, equal_nan: bool = False) -> bool:
    """Whether two arrays have the same shape and elements; a Python bool, for which it waits for the device."""
    a, b = _comparable(a, b)
    if a.shape != b.shape:
        return False
    if not equal_nan and (same := _EQUAL(a, b)) is not None:
        return same
    return bool(_all_equal(a, b, bool(equal_nan)))


@fuse(static=("equal_nan",))
def _all_equal(a: Any, b: Any, equal_nan: bool) -> Any:
    same = equal(a, b)
    return all(same | (isnan(a) & isnan(b)) if equal_nan else same)


@public
def array_equiv(a: Any, b: Any, /) -> bool:
    """Whether two arrays broadcast to the same elements; a Python bool, for which it waits for the device."""
    a, b = _comparable(a, b)
    if a.shape == b.shape:
        return array_equal(a, b)
    try:
        return bool(_all_equal(a, b, False))
    except ValueError:
        return False
