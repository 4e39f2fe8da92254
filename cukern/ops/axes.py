"""Axis arguments, and the helper that records an operation."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from numpy.exceptions import AxisError

from .. import tape
from ..array import Array
from ..errors import GradientError
from ..expr import Expr
from ..operators import FUNCTIONS

Axis = int | tuple[int, ...] | None
F = TypeVar("F", bound=Callable[..., Any])


def public(function: F) -> F:
    """Register a function under its name, for methods and operators to find."""
    FUNCTIONS[function.__name__] = function
    return function


def on_device(function: F) -> F:
    """Run a function with the device of its first argument current, as CuPy's functions need."""

    @functools.wraps(function)
    def wrapper(x: Any, *args: Any, **options: Any) -> Any:
        if not isinstance(x, Array) or x.device.kind == "host":
            return function(x, *args, **options)
        with x.device.activate():
            return function(x, *args, **options)

    return wrapper  # type: ignore[return-value]


def require_array(x: object, name: str, argument: str = "x") -> Array:
    """``x``, an Array.

    Raises:
        TypeError: it is none; a symbol of a fused function is none.
    """
    if isinstance(x, Array):
        return x
    if isinstance(x, Expr):
        raise TypeError(f"{name}: a fused function is elementwise; apply {name} before or after it")
    raise TypeError(f"{name}: {argument}: expected a cukern.Array, got {type(x).__name__}")


def require_constant(name: str, **arguments: Any) -> None:
    """Refuse arrays that a tape tracks as arguments by which there is no derivative.

    Raises:
        GradientError: an argument is one; the error names it.
    """
    for argument, value in arguments.items():
        if isinstance(value, Array) and tape.recording((value,)):
            raise GradientError(
                f"{name}: {argument}: there is no derivative by it, and it is an array that a tape tracks; pass "
                "cukern.stop_gradient of it"
            )


def normalize_axis(axis: Any, ndim: int, name: str) -> int:
    """``axis`` counted from 0.

    Raises:
        TypeError: not an integer.
        AxisError: out of range; a ValueError and an IndexError.
    """
    number = operator.index(axis)
    if not -ndim <= number < ndim:
        raise AxisError(f"{name}: axis {number} is out of bounds for an array with {ndim} axes")
    return number % ndim


def normalize_axes(axis: Any, ndim: int, name: str) -> tuple[int, ...]:
    """``axis``, one or several, as distinct axes counted from 0; None is all.

    Raises:
        ValueError: an axis is named twice.
    """
    if axis is None:
        return tuple(range(ndim))
    axes = tuple(
        normalize_axis(a, ndim, name) for a in (axis if isinstance(axis, (tuple, list)) else (axis,))
    )
    if len(set(axes)) != len(axes):
        raise ValueError(f"{name}: an axis is named twice in {axis}")
    return axes


def view(x: Array, data: Any) -> Array:
    """An Array over a view of the memory of ``x``."""
    return Array._wrap(data, x.device, x._storage)


def recorded(name: str, x: Array, made: Array, vjp: Callable[[Array], Array | None]) -> Array:
    """``made``, recorded as a linear function of ``x`` where a tape tracks that."""
    if tape.recording((x,)):
        tape.record(name, (x,), (made,), lambda cotangents, saved, needs: (vjp(cotangents[0]),))
    return made


def recorded_many(
    name: str,
    xs: Sequence[Array],
    made: Array,
    vjp: Callable[[Array, tuple[bool, ...]], Sequence[Array | None]],
) -> Array:
    """``made``, recorded as a linear function of several arrays where a tape tracks one of them."""
    if tape.recording(xs):
        tape.record(name, xs, (made,), lambda cotangents, saved, needs: vjp(cotangents[0], needs))
    return made
