"""Functions of functions: gradients, Jacobians and recomputation, over pytrees of arrays."""

from __future__ import annotations

import functools
import itertools
from collections import ChainMap
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np

from . import tape
from . import tree as pytree
from .algebra import Meta, is_array, is_float
from .array import Array
from .creation import asarray, device_of
from .device import Device
from .function import alias
from .tape import Tape

__all__ = ["checkpoint", "grad", "jacobian", "stop_gradient", "value_and_grad", "vjp"]

P = ParamSpec("P")
R = TypeVar("R")


def _device_beside(arguments: Iterable[Any]) -> Device | None:
    """Where numbers among the arguments belong: the device of the first floating array."""
    return device_of(one for one in arguments if is_array(one) and is_float(one.dtype))


def _fresh(value: Any, path: str, device: Device | None) -> Array:
    """An array of its own that equals ``value``, on ``device`` if that is a number.

    Tapes that track ``value`` record the step.

    A function is differentiated by such an argument, so that whatever else refers to the same array,
    an enclosing derivative for one, is a constant to it.
    """
    if isinstance(value, float):
        value = asarray(value, device=device)
    if not is_array(value):
        raise TypeError(f"{path}: expected an array to differentiate by, got {type(value).__name__}")
    if not is_float(value.dtype):
        raise TypeError(f"{path}: only floating dtypes have gradients, got {value.dtype}")
    if getattr(value, "_is_parameter", False):
        return value  # modules hold their parameters by identity
    made = alias(value)
    if tape.recording((value,)):
        tape.record("argument", (value,), (made,), lambda cotangents, saved, needs: cotangents)
    return made


def _differentiable(tree: Any, path: str, device: Device | None) -> Any:
    return pytree.replace(
        tree, [_fresh(value, where, device) for where, value in pytree.leaves_with_path(tree, path)]
    )


def _positions(argnums: int | Sequence[int], args: Sequence[Any]) -> list[int]:
    wanted = [argnums] if isinstance(argnums, int) else list(argnums)
    for position in wanted:
        if not -len(args) <= position < len(args):
            raise ValueError(f"argnums: no argument {position} among {len(args)} positional arguments")
    return wanted


def _scalar(value: Any) -> Array:
    if not is_array(value):
        raise TypeError(f"grad: the function must return an array, returned {type(value).__name__}")
    if value.shape != ():
        raise ValueError(f"grad: the function must return a 0-d array, returned shape {value.shape}; see vjp")
    return value


def value_and_grad(
    f: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that returns what ``f`` returns, and the gradient of it.

    Args:
        f: returns a 0-d floating array, or a pair of it and anything else where ``has_aux``.
        argnums: the position of the argument to differentiate by, or several. Each is an array, a
            Python float, a module, or a pytree of these.
        has_aux: whether ``f`` returns a pair.

    Returns:
        A function with the arguments of ``f`` that returns ``(what f returned, gradient)``. The gradient is
        a pytree like the argument, or a tuple of such when ``argnums`` is a sequence; where ``f`` does
        not depend on an array it is zeros.

    Raises:
        TypeError: an argument to differentiate by, or the result, is not a floating array.
        ValueError: the result is not 0-d, or there is no such argument.

    >>> import cukern as ck
    >>> value, gradient = value_and_grad(lambda p: (p["w"] * p["w"]).sum())({"w": ck.asarray([1.0, 2.0])})
    >>> value.item(), gradient["w"].tolist()
    (5.0, [2.0, 4.0])
    """

    @functools.wraps(f)
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        own = list(args)
        positions, device = _positions(argnums, args), _device_beside((*args, *kwargs.values()))
        for position in positions:
            own[position] = _differentiable(args[position], f"args[{position}]", device)
        wanted = [own[position] for position in positions]
        with Tape() as inner:
            inner.watch(wanted)
            result = f(*own, **kwargs)
        target = _scalar(result[0] if has_aux else result)
        gradients = inner.gradient(target, wanted, unconnected="zero")
        return result, gradients[0] if isinstance(argnums, int) else tuple(gradients)

    return differentiated


def grad(
    f: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that returns the gradient of ``f``; arguments and errors as :func:`value_and_grad`.

    With ``has_aux`` it returns ``(gradient, aux)``. Derivatives of higher order: ``grad(grad(f))``.

    >>> import cukern as ck
    >>> third = grad(grad(grad(lambda x: x * x * x * x)))
    >>> third(ck.asarray(2.0)).item()
    48.0
    """
    both = value_and_grad(f, argnums, has_aux)

    @functools.wraps(f)
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        result, gradient = both(*args, **kwargs)
        return (gradient, result[1]) if has_aux else gradient

    return differentiated


def vjp(f: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
    """The value of ``f`` at ``primals``, and the function that pulls a cotangent back to them.

    Args:
        f: returns an array or a pytree of arrays.
        primals: arrays or pytrees of them.

    Returns:
        ``(f(*primals), pullback)``. ``pullback(cotangent)`` takes a pytree like the value and returns a tuple
        with a gradient like each of ``primals``, zeros where there is no dependence. It may be called
        again, and inside a tape.

    >>> import cukern as ck
    >>> y, pullback = vjp(lambda a, b: a * b, ck.asarray([1.0, 2.0]), ck.asarray([3.0, 4.0]))
    >>> [gradient.tolist() for gradient in pullback(ck.asarray([1.0, 10.0]))]
    [[3.0, 40.0], [1.0, 20.0]]
    """
    device = _device_beside(primals)
    return _pulled(f, [_differentiable(primal, f"primals[{i}]", device) for i, primal in enumerate(primals)])


def _pulled(f: Callable[..., Any], own: Sequence[Any]) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
    """:func:`vjp` of arguments that are arrays of their own."""
    with Tape(persistent=True) as inner:
        inner.watch(own)
        value = f(*own)

    def pullback(cotangent: Any) -> tuple[Any, ...]:
        return tuple(inner.gradient(value, own, cotangent, unconnected="zero"))

    return value, pullback


def jacobian(f: Callable[..., Any], argnums: int | Sequence[int] = 0) -> Callable[..., Any]:
    """A function that returns the Jacobian of ``f``, one backward pass per element of the result.

    Args:
        f: returns a floating array.
        argnums: as in :func:`value_and_grad`.

    Returns:
        A function with the arguments of ``f``. For an argument of shape ``s`` and a result of shape ``r`` it
        returns an array of shape ``r + s``; pytrees and several arguments as in :func:`value_and_grad`.

    >>> import cukern as ck
    >>> jacobian(lambda x: x * x)(ck.asarray([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """

    @functools.wraps(f)
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        positions, device = _positions(argnums, args), _device_beside((*args, *kwargs.values()))

        def of_wanted(*wanted: Any) -> Any:
            own = list(args)
            for position, value in zip(positions, wanted, strict=True):
                own[position] = value
            return f(*own, **kwargs)

        own = [_differentiable(args[position], f"args[{position}]", device) for position in positions]
        value, pullback = _pulled(of_wanted, own)
        if not is_array(value):
            raise TypeError(f"jacobian: the function must return an array, returned {type(value).__name__}")
        made = _rows(value, pullback)
        return made[0] if isinstance(argnums, int) else made

    return differentiated


def _rows(value: Array, pullback: Callable[[Any], tuple[Any, ...]]) -> tuple[Any, ...]:
    from .ops.manipulate import reshape, stack

    # Where the result has no element, one row of zeros keeps the shapes.
    size, shape = value.size, value.shape
    basis = np.eye(size).reshape(size, *shape) if size else np.zeros((1, *shape))
    rows = [pullback(asarray(row, dtype=value.dtype, device=value.device)) for row in basis]
    columns = zip(*([leaf.value for leaf in pytree.leaves_with_path(row)] for row in rows), strict=True)
    joined = [reshape(stack(list(column))[:size], shape + column[0].shape) for column in columns]
    made: tuple[Any, ...] = pytree.replace(rows[0], joined)
    return made


def stop_gradient(tree: Any) -> Any:
    """``tree`` with every array in it a constant to every tape; it shares the memory.

    >>> import cukern as ck
    >>> ck.grad(lambda x: x * stop_gradient(x))(ck.asarray(3.0)).item()
    3.0
    """
    return pytree.map(lambda leaf: alias(leaf) if is_array(leaf) else leaf, tree)


class _Capture(Tape):
    """Stands in for the active tapes while a checkpointed function runs: it keeps what they track and
    the function reads, and none of what the function does."""

    def __init__(self) -> None:
        super().__init__()
        self.read: dict[int, Array] = {}
        self._tracked = ChainMap({}, *(outer._tracked for outer in tape.active()))

    def _needs(self, inputs: Sequence[Array]) -> tuple[tuple[bool, ...], tape.Keys]:
        needs, keys = super()._needs(inputs)
        for array in itertools.compress(inputs, needs):
            self.read.setdefault(id(array), array)
        return (), keys

    def _knows(self, inputs: Sequence[Meta]) -> bool:
        return False


def _arrays(tree: Any) -> list[Array]:
    """The arrays of a pytree, each once."""
    found = {id(value): value for _, value in pytree.leaves_with_path(tree) if is_array(value)}
    return list(found.values())


def checkpoint(f: Callable[P, R]) -> Callable[P, R]:
    """``f``, with its intermediate results computed again for the backward pass instead of kept.

    Whatever ``f`` reads gets its gradient, passed as an argument or not. Derivatives of any order work.

    Args:
        f: returns an array or a pytree of arrays; it must give the same when it is called again.

    Raises:
        GradientError: in the backward, when an argument or another array that ``f`` read was written since.

    >>> import cukern as ck
    >>> ck.grad(lambda x: checkpoint(lambda y: ck.exp(y * y))(x))(ck.asarray(0.0)).item()
    0.0
    """

    @functools.wraps(f)
    def checkpointed(*args: P.args, **kwargs: P.kwargs) -> R:
        if not tape.active():
            return f(*args, **kwargs)
        capture = _Capture()
        with tape.stop_recording(), capture:
            result = f(*args, **kwargs)
        results = _arrays(result)
        capture._needs(results)
        read = list(capture.read.values())
        own = {id(array): alias(array) for array in results}

        def backward(
            cotangents: tuple[Any, ...], saved: tuple[Any, ...], needs: tuple[bool, ...]
        ) -> list[Array | None]:
            wanted = list(itertools.compress(read, needs))
            with Tape() as inner:
                inner.watch(wanted)
                again = _arrays(f(*args, **kwargs))
            used = [i for i, cotangent in enumerate(cotangents) if cotangent is not None]
            found = inner.gradient([again[i] for i in used], wanted, [cotangents[i] for i in used])
            gradients = iter(found)
            return [next(gradients) if needed else None for needed in needs]

        others = [array for array in _arrays((args, kwargs)) if id(array) not in capture.read]
        outputs = [own[id(array)] for array in results]
        tape.record("checkpoint", read, outputs, backward, [*read, *others], materialize=False)
        made: R = pytree.map(lambda leaf: own.get(id(leaf), leaf), result)
        return made

    return checkpointed
