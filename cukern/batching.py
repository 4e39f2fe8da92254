"""vmap: a function of one example becomes one of a batch, in which every operation runs once for all examples."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from numpy.exceptions import AxisError

from . import pytree
from .array import Array
from .array.batched import Level, Unmapped
from .array.creation import asarray, device_of
from .array.mapping import examples, looped
from .autodiff.cotangents import registered
from .shape.views import moveaxis

__all__ = ["vmap"]


def vmap(f: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0) -> Callable[..., Any]:
    """A function that calls ``f`` once for all examples of a batch, as ``jax.vmap``.

    ``f`` is written for one example: within it arrays have the shapes of one, and each operation computes all examples
    at once. What it reads besides its arguments is the same for all. It may be differentiated, within and without, and
    vmaps nest. :func:`cukern.random` draws for each example. What has no rule for a batch runs for one example after
    another: the attribute ``looped`` of the returned function says what did in its last call, and how often.

    Args:
        f: takes arrays and pytrees of them, and returns an array, a number, or a pytree of these.
        in_axes: the axis of the batch in each argument, None for an argument that is the same for all examples; one for
            all arguments, or a tuple with one for each. In the place of one, a pytree says it for parts of an argument.
            Arguments by keyword have it as their first axis.
        out_axes: where the batch is in the results, likewise; None for one that no example changes.

    Raises:
        TypeError: when called: ``f`` reads the value of an array on the host, as ``if`` and ``float(x)`` do, or writes
            to an array of the batch.
        ValueError: when called: no argument has a batch, their batches differ in size, there is no such axis,
            ``in_axes`` or ``out_axes`` does not fit the arguments or results, or examples change a result of which the
            axis is None.

    >>> import cukern as ck
    >>> vmap(ck.vecdot)(ck.asarray([[1.0, 2.0], [3.0, 4.0]]), ck.ones((2, 2))).tolist()
    [3.0, 7.0]
    >>> loss = lambda w, x, y: (ck.vecdot(w, x) - y) ** 2
    >>> each = vmap(ck.grad(loss), in_axes=(None, 0, 0))
    >>> each(ck.ones(2), ck.asarray([[1.0, 2.0], [3.0, 4.0]]), ck.zeros(2)).tolist()
    [[6.0, 12.0], [42.0, 56.0]]
    """
    name = getattr(f, "__name__", type(f).__name__)

    @functools.wraps(f)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        leaves, rebuilt = pytree.taken_apart((args, kwargs))
        if isinstance(in_axes, list):
            raise TypeError(f"vmap: in_axes: expected an integer, None or a tuple, got {in_axes!r}")
        axes = [
            *_spread(in_axes, args, "in_axes", "the arguments"),
            *[0] * len(pytree.leaves(kwargs)),
        ]
        paths = [_named(f, path) for path, _ in pytree.leaves_with_path((args, kwargs))]
        wholes = _wholes(name, leaves, axes, paths)
        level = Level(name, _size(name, wholes, axes, paths))
        inside = [
            leaf if axis is None else level.batched(whole)
            for leaf, whole, axis in zip(leaves, wholes, axes, strict=True)
        ]
        of_args, of_kwargs = rebuilt(inside)
        try:
            try:
                with level.entered():
                    result = f(*of_args, **of_kwargs)
            except Unmapped as error:
                if error.level is not level:
                    raise
                level.looped = {f"{name}, for {error.name}": level.size}
                result = examples(level, looped(level, f, of_args, of_kwargs, told=False))
            return _results(level, result, out_axes)
        finally:
            level.ended = True
            mapped.looped = level.looped  # type: ignore[attr-defined]

    mapped.looped = {}  # type: ignore[attr-defined]
    return mapped


def _named(f: Callable[..., Any], path: str) -> str:
    """The path of a leaf of ``(args, kwargs)``, by the name of the parameter."""
    which, _, rest = path[1:].partition("]")
    number, _, inner = rest[1:].partition("]")
    if which == "1":
        return number.strip("'") + inner
    try:
        names = [
            one.name
            for one in inspect.signature(f).parameters.values()
            if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
        ]
    except (TypeError, ValueError):  # of a function without a signature
        names = []
    return (names[int(number)] if int(number) < len(names) else f"args[{number}]") + inner


def _spread(axes: Any, tree: Any, argument: str, what: str) -> list[int | None]:
    """The axis of each leaf of ``tree``, of which ``axes`` has the outer containers.

    Raises:
        ValueError: it has others.
    """

    def each(axes: Any, tree: Any, path: str) -> Iterator[int | None]:
        if axes is None or hasattr(axes, "__index__"):
            yield from [None if axes is None else operator.index(axes)] * len(pytree.leaves(tree))
            return
        one, other = pytree.children(axes), pytree.children(tree)
        if one is None or other is None or list(one) != list(other):
            raise ValueError(
                f"vmap: {argument}{path}: expected an axis, None, or the containers of {what} there, got {axes!r}"
            )
        for end in one:
            yield from each(one[end], other[end], path + end)

    return list(each(axes, tree, ""))


def _wholes(name: str, leaves: Sequence[Any], axes: Sequence[int | None], paths: Sequence[str]) -> list[Any]:
    """The arrays with the axis of the batch in front, of those that have one.

    Raises:
        TypeError: a leaf is no array.
        ValueError: it has no such axis.
    """
    device, wholes = device_of(leaves), []
    for leaf, axis, path in zip(leaves, axes, paths, strict=True):
        if axis is None:
            wholes.append(leaf)
            continue
        try:
            whole = leaf if isinstance(leaf, Array) else asarray(leaf, device=device)
        except (TypeError, ValueError):
            raise TypeError(
                f"vmap: {name}: {path}: expected an array with a batch along axis {axis}, got "
                f"{type(leaf).__name__}; in_axes=None passes it on"
            ) from None
        if not -whole.ndim <= axis < whole.ndim:
            raise AxisError(f"vmap: {name}: {path}: shape {whole.shape} has no axis {axis} for the batch")
        wholes.append(moveaxis(whole, axis, 0))
    return wholes


def _size(name: str, wholes: Sequence[Any], axes: Sequence[int | None], paths: Sequence[str]) -> int:
    """The number of examples."""
    sizes = {
        path: (whole.shape[0], axis)
        for whole, axis, path in zip(wholes, axes, paths, strict=True)
        if axis is not None
    }
    if not sizes:
        raise ValueError(f"vmap: {name}: expected an argument with an axis for the batch, got none")
    if len({size for size, _ in sizes.values()}) > 1:
        told = ", ".join(f"{path} has {size} along axis {axis}" for path, (size, axis) in sizes.items())
        raise ValueError(f"vmap: {name}: expected batches of one size: {told}")
    ((size, _), *_) = sizes.values()
    return int(size)


def _results(level: Level, result: Any, out_axes: Any) -> Any:
    """What the function returned, with all examples."""
    leaves, rebuilt = pytree.taken_apart(result)
    paths = [path for path, _ in pytree.leaves_with_path(result, "result")]
    made: list[Any] = []
    axes = _spread(out_axes, result, "out_axes", "the results")
    for leaf, axis, path in zip(leaves, axes, paths, strict=True):
        if axis is None:
            if level.holds(leaf):
                raise ValueError(
                    f"vmap: {level.name}: {path}: examples of the batch differ in it, and its axis in out_axes is None"
                )
            made.append(leaf)
            continue
        if not isinstance(leaf, Array):
            try:
                leaf = asarray(leaf)
            except (TypeError, ValueError):
                raise TypeError(
                    f"vmap: {level.name}: {path}: expected an array or a number, got {type(leaf).__name__}"
                ) from None
        if not -leaf.ndim - 1 <= axis <= leaf.ndim:
            raise AxisError(
                f"vmap: {level.name}: {path}: out_axes: shape {leaf.shape} has no place {axis} for the batch"
            )
        # A repeated view would not take the caller's writes.
        whole = registered().own(level.front(leaf), ())
        made.append(moveaxis(whole, 0, axis))
    return rebuilt(made)
