"""How functions take their operands: convert them to arrays, check axes, and record the operation."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Concatenate, ParamSpec, TypeVar

from numpy.exceptions import AxisError

from .. import dtypes
from ..array import Array
from ..array.batched import Batched
from ..array.creation import asarray
from ..array.creation import beside as joined
from ..array.deferred import trace, traced_threads
from ..array.operators import FUNCTIONS, is_foreign
from ..autodiff import tape
from ..autodiff.cotangents import Likeness, Parts, form_of, zeros_like
from ..errors import GradientError
from .graph import SYMBOLS, Expr, NotFused, Swapped
from .row import is_scalar

_new = object.__new__
Axis = int | tuple[int, ...] | None
F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")
R = TypeVar("R")


def public(function: F) -> F:
    """Register a function under its name, for methods and operators to find."""
    FUNCTIONS[function.__name__] = function
    return function


def bound(function: Callable[Concatenate[Any, P], R], own: Any, name: str, doc: str | None) -> Callable[P, R]:
    """A function with a name and a docstring: ``function`` with ``own`` as its first argument."""

    @functools.wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> R:
        return function(own, *args, **options)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = doc
    whole = inspect.signature(function)
    call.__signature__ = whole.replace(parameters=[*whole.parameters.values()][1:])  # type: ignore[attr-defined]
    return call


def of(
    function: Callable[Concatenate[Any, P], R], own: Any
) -> Callable[[Callable[[], None]], Callable[P, R]]:
    """Decorates what has a name and a docstring alone, for one of many functions of the same arguments.

    It becomes ``function`` with ``own`` as its first argument.
    """
    return lambda shown: bound(function, own, shown.__name__, shown.__doc__)


def on_device(function: F) -> F:
    """Make the device of the first argument current while the function runs, as CuPy's functions require."""
    return _on_device(function, False)


def one_step(function: F) -> F:
    """:func:`on_device` for a function of new arrays that is none of elementwise ones: a trace repeats calls of it."""
    return _on_device(function, True)


def _on_device(function: F, step: bool) -> F:
    @functools.wraps(function)
    def wrapper(x: Any, *args: Any, **options: Any) -> Any:
        if step and traced_threads and (active := trace()) is not None:
            return active.call(wrapper, (x, *args), options)
        if not isinstance(x, Array):
            x = require_array(x, function.__name__, beside=first_array(args))
        if x.device.addressable:
            return function(x, *args, **options)
        with x.device.activate():
            return function(x, *args, **options)

    return wrapper  # type: ignore[return-value]


def require_array(x: object, name: str, argument: str = "x", beside: Array | None = None) -> Array:
    """``x`` as an Array; NumPy arrays, numbers and nested lists are converted as by :func:`cukern.asarray`.

    Args:
        x: the argument of a function.
        name: the function, for the error.
        argument: the argument's name, for the error.
        beside: another operand of the function. A converted ``x`` goes to its device, and a Python number takes
            its dtype, as in arithmetic.

    Raises:
        TypeError: ``x`` has no dtype of cukern, or is a symbol of a fused function.
    """
    return x if isinstance(x, Array) else _made(x, name, argument, beside)


FUNCTIONS["require_array"] = require_array


def array_or_symbol(x: Any, name: str, argument: str = "x") -> Any:
    """``x`` as by :func:`require_array`, or the symbol of a fused function, of which the function takes views."""
    if isinstance(x, Array):
        return x
    x = x.plain if isinstance(x, Swapped) else x
    return x if isinstance(x, Expr) else require_array(x, name, argument)


def require_arrays(values: Iterable[Any], name: str, arguments: Sequence[str] = ()) -> list[Array]:
    """The operands of one function as Arrays; those to convert go to the device of the first Array among them.

    Args:
        values: the operands.
        name: the function, for the error.
        arguments: their names, for the error; ``arrays[0]`` and so on by default.
    """
    result = list(values)
    for x in result:
        if not isinstance(x, Array):
            break
    else:
        return result
    first = first_array(result)
    names = arguments or [f"arrays[{i}]" for i in range(len(result))]
    return [require_array(x, name, argument, first) for x, argument in zip(result, names, strict=True)]


def require_each(values: Iterable[Any], name: str) -> list[Array]:
    """Arrays as Arrays on one device, as by :func:`require_arrays`, but each with a dtype of its own; or symbols."""
    given = list(values)
    first = first_array(given)
    each: list[Array] = [array_or_symbol(x, name, f"arrays[{i}]") for i, x in enumerate(given)]
    if first is None:
        return each
    return [
        x if isinstance(one, (Array, *SYMBOLS)) else x.to_device(first.device)
        for one, x in zip(given, each, strict=True)
    ]


def first_array(values: Iterable[Any]) -> Array | None:
    """The first Array among ``values``, or None."""
    return next((value for value in values if isinstance(value, Array)), None)


def require_written(x: object, name: str, argument: str = "x") -> Array:
    """``x`` if it is an Array, which a function writes into. Other types would be copied, and the write lost.

    Raises:
        TypeError: ``x`` is not an Array.
    """
    if type(x) is Batched and name != "at":
        raise x._written(name)
    if isinstance(x, Array):
        return x
    raise TypeError(f"{name}: {argument}: expected a cukern.Array to write into, got {type(x).__name__}")


def _made(x: Any, name: str, argument: str, beside: Array | None) -> Array:
    """``x``, which is not an Array, converted to one."""
    if isinstance(x, SYMBOLS):
        raise NotFused(name)
    listed = isinstance(x, (list, tuple, range))
    device = None if beside is None else beside.device
    dtype = dtypes.result_type(beside.dtype, x) if beside is not None and is_scalar(x) else None
    if is_scalar(x) or listed or is_foreign(x):
        # A backward may read it, and a tape would not notice what its owner writes to it until then.
        copy = True if tape.active() and is_foreign(x) else None
        try:
            return asarray(x, dtype, device, copy) if beside is None or not listed else joined(x, beside)
        except (TypeError, ValueError) as error:
            reason = str(error).removeprefix("obj: ")
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"{name}: {argument}: {reason}") from error
    raise TypeError(
        f"{name}: {argument}: expected an array, a number or nested lists of them, got {type(x).__name__}"
    )


def require_constant(name: str, **arguments: Any) -> None:
    """Refuse tracked arrays for arguments with respect to which the function has no derivative.

    Raises:
        GradientError: a tape tracks an argument; the error names it.
    """
    for argument, value in arguments.items():
        if isinstance(value, Array) and tape.recording((value,)):
            raise GradientError(
                f"{name}: {argument}: there is no derivative by it, and it is an array that a tape tracks; pass "
                "cukern.stop_gradient of it"
            )


def normalize_axis(axis: Any, ndim: int, name: str) -> int:
    """``axis`` as a number from 0 to ``ndim - 1``.

    Raises:
        TypeError: not an integer.
        AxisError: out of range; a ValueError and an IndexError.
    """
    number = operator.index(axis)
    if not -ndim <= number < ndim:
        raise AxisError(f"{name}: axis {number} is out of bounds for an array with {ndim} axes")
    return number % ndim


def normalize_axes(axis: Any, ndim: int, name: str) -> tuple[int, ...]:
    """One or several axes as distinct numbers from 0 to ``ndim - 1``; None means all axes.

    Raises:
        ValueError: an axis is named twice.
    """
    if axis is None:
        return tuple(range(ndim))
    if type(axis) is int:
        return (normalize_axis(axis, ndim, name),)
    several = axis if isinstance(axis, (tuple, list, range)) else (axis,)
    axes = tuple([normalize_axis(one, ndim, name) for one in several])
    if len(set(axes)) != len(axes):
        raise ValueError(f"{name}: an axis is named twice in {axis}")
    return axes


def view(x: Array, data: Any) -> Array:
    """An Array over a view of the memory of ``x``."""
    # As Array._wrap does, whose call would be a third of the time.
    result = _new(Array)
    result._ndarray, result.device = data, x.device
    result._layout = result._memory = result._operand = result._key = None
    result._storage = storage = x._storage
    owner = x._viewed
    result._viewed = x if owner is None or owner._storage is not storage else owner
    return result


def recorded(
    name: str,
    x: Array,
    result: Array,
    vjp: Callable[[Array], Array | Parts | None],
    again: Callable[[Array], Array] | None = None,
) -> Array:
    """``result``, recorded as a linear function of ``x`` if a tape tracks ``x``.

    Args:
        again: the function itself; by default it is derived from ``vjp``.
    """
    if tape.active():
        jvp = None if again is None else lambda tangents, saved: (again(tangents[0]),)
        tape.record(name, (x,), (result,), lambda cotangents, saved, needs: (vjp(cotangents[0]),), jvp=jvp)
    return result


def recorded_many(
    name: str,
    xs: Sequence[Array],
    result: Array,
    vjp: Callable[[Array, tuple[bool, ...]], Sequence[Array | None]],
    again: Callable[..., Array] | None = None,
) -> Array:
    """:func:`recorded` as a linear function of several arrays."""
    if tape.active():
        jvp = None if again is None else partial(_along_all, again, tuple(map(form_of, xs)))
        tape.record(name, xs, (result,), lambda cotangents, saved, needs: vjp(cotangents[0], needs), jvp=jvp)
    return result


def _along_all(
    again: Callable[..., Array], forms: Sequence[Likeness], tangents: Sequence[Array | None], saved: object
) -> tuple[Array]:
    """The linear function ``again`` of the tangents of all its arguments."""
    return (again(*[zeros_like(form) if t is None else t for t, form in zip(tangents, forms, strict=True)]),)
