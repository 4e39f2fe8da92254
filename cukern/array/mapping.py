"""How functions compute for all examples of a batch at once.

A function that computes by elementwise functions, reductions, views and products needs nothing for arrays of a batch.
Another one is given a rule by :func:`mapped`, which computes with the arrays of all examples; its derivative is that
of the rule.
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, TypeAlias, TypeVar

from .. import pytree
from ..autodiff import tape
from ..autodiff.state import opened
from ..autodiff.tape import Tape
from .array import Array
from .batched import Level, Unmapped, level_of, levels
from .creation import zeros
from .operators import FUNCTIONS

F = TypeVar("F", bound=Callable[..., Any])
#: Takes the call, a function, and its arguments and keyword arguments, of which arrays of the batch are
#: :class:`.batched.Batched`; returns what the function would, with arrays of all examples, the batch in front.
Rule: TypeAlias = Callable[[Level, Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]


def mapped(rule: Rule) -> Callable[[F], F]:
    """Let a function compute by ``rule`` if an array of a batch is among its arguments, or in a list of these."""

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if levels and (level := _level(args, kwargs)) is not None:
                return called(level, rule, function, args, kwargs)
            return function(*args, **kwargs)

        return wrapper  # type: ignore[return-value]

    return decorate


def _level(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Level | None:
    if (level := level_of(args)) is not None and not kwargs:
        return level
    return level_of(pytree.leaves((args, kwargs)))


def called(
    level: Level, rule: Rule, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """What ``rule`` computes with all examples, recorded by tapes within the call that track an argument."""
    leaves, rebuilt = pytree.taken_apart((args, kwargs))
    sources: list[int] = []
    if opened:
        with level.within():
            sources = [i for i, one in enumerate(leaves) if isinstance(one, Array) and tape.recording((one,))]
    if not sources:
        made = level.run(rule, level, function, *rebuilt(leaves))
        return examples(level, made)
    spy = Tape(persistent=True)
    with level.outside(), spy:
        # Each its own array to the tape, also where two arguments are one array.
        wholes = [_again(level.front(leaves[i])) for i in sources]
        spy.watch(wholes)
        inside = list(leaves)
        for i, one in zip(sources, wholes, strict=True):
            inside[i] = level.batched(one)
        made = rule(level, function, *rebuilt(inside))
    result = examples(level, made)
    name = getattr(function, "__name__", type(function).__name__)
    outputs = [
        (whole, one)
        for whole, one in zip(pytree.leaves(made), pytree.leaves(result), strict=True)
        if isinstance(one, Array) and one._planned().floating
    ]
    _record(level, name, spy, [leaves[i] for i in sources], wholes, outputs)
    return result


def _again(x: Array) -> Array:
    view: Array = FUNCTIONS["broadcast_to"](x, x.shape)
    return view


def examples(level: Level, made: Any) -> Any:
    """The arrays of one example in the place of those of all."""
    return pytree.map(lambda one: level.batched(one) if isinstance(one, Array) else one, made)


def _record(
    level: Level,
    name: str,
    spy: Tape,
    inputs: Sequence[Array],
    wholes: Sequence[Array],
    outputs: Sequence[tuple[Array, Array]],
) -> None:
    """Record what ``spy`` has, of the arrays of all examples, as one operation on those of one.

    Args:
        inputs: the arrays of one example, or of all.
        wholes: those that ``spy`` watches in their place.
        outputs: arrays of all examples, and in their place those of one.
    """

    def vjp(cotangents: Sequence[Array | None], saved: object, needs: Sequence[bool]) -> list[Array | None]:
        given = [(whole, g) for (whole, _), g in zip(outputs, cotangents, strict=True) if g is not None]
        targets = [whole for whole, _ in given]
        wanted = [whole for whole, need in zip(wholes, needs, strict=True) if need]

        def pull(own: Sequence[Array], extra: int) -> list[Array | None]:
            """The gradients of ``wanted``, for cotangents with ``extra`` leading axes: of batches of them."""
            deepest = level_of(own)
            if deepest is not None and deepest.depth > level.depth:

                def of_all(deepest: Level, function: Any, own: Any, kwargs: Any) -> list[Array | None]:
                    return pull([deepest.front(one) for one in own], extra + 1)

                result: list[Array | None] = called(deepest, of_all, pull, tuple(own), {})
                return result
            with level.within():
                again = tape.recording((*inputs, *own))
            after = spy.continued() if again else None
            with level.outside(), after or nullcontext():
                seeds = [_again(level.front(g)) for g in own]
                if after is not None:
                    after.watch(seeds)
                found = _gradients(spy, targets, wanted, seeds, extra)
            made = [None if one is None else level.batched(one) for one in found]
            if after is not None:
                pairs = [(whole, one) for whole, one in zip(found, made, strict=True) if one is not None]
                _record(level, name, after, (*inputs, *own), (*wholes, *seeds), pairs)  # type: ignore[arg-type]
            return made

        rest = iter(pull([g for _, g in given], 0))
        return [next(rest) if need else None for need in needs]

    with level.within():
        tape.record(name, inputs, [one for _, one in outputs], vjp, materialize=False)


def _gradients(
    spy: Tape, targets: Sequence[Array], wanted: Sequence[Array], seeds: Sequence[Array], extra: int
) -> list[Array | None]:
    """The gradients of arrays of all examples, for cotangents with ``extra`` axes behind that of the batch."""
    if not extra:
        found: list[Array | None] = spy.gradient(list(targets), list(wanted), list(seeds))
        return found
    move, several = FUNCTIONS["moveaxis"], Level("a pullback", seeds[0].shape[1])
    try:
        with several.entered():
            each = [several.batched(move(one, 1, 0)) for one in seeds]
            found = _gradients(spy, targets, wanted, each, extra - 1)
    except Unmapped as error:
        if error.level is not several:
            raise
        rows = [
            _gradients(spy, targets, wanted, [one[:, k] for one in seeds], extra - 1)
            for k in range(several.size)
        ]
        return [None if one[0] is None else FUNCTIONS["stack"](one, 1) for one in zip(*rows, strict=True)]
    return [None if one is None else move(several.front(one), 0, 1) for one in found]


def over_axis(*names: str, flat: bool = True) -> Rule:
    """The rule of a function along axes: they are counted after that of the batch.

    Args:
        names: the parameters that hold an axis, or a tuple of them.
        flat: whether None means the flattened array.
    """

    def rule(
        level: Level, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        bound = _bound(function, args, kwargs)
        given = bound.arguments
        arrays = {name: one for name, one in given.items() if isinstance(one, Array)}
        ndim = next(iter(arrays.values())).ndim
        wholes = {name: level.front(one) for name, one in arrays.items()}
        for name in names:
            axis = given[name]
            if axis is None and (flat or ndim == 1):
                wholes = {key: FUNCTIONS["reshape"](one, (level.size, -1)) for key, one in wholes.items()}
                given[name] = 1
                continue
            axes = axis if isinstance(axis, tuple) else (axis,)
            if axis is None or any(not hasattr(one, "__index__") or not -ndim <= one < ndim for one in axes):
                return looped(level, function, args, kwargs)  # which raises the error
            moved = tuple([operator.index(one) % ndim + 1 for one in axes])
            given[name] = moved if isinstance(axis, tuple) else moved[0]
        given.update(wholes)
        return function(*bound.args, **bound.kwargs)

    return rule


def leading(level: Level, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The rule of a function of matrices, or of the last axes: that of the batch is one more in front."""
    bound = _bound(function, args, kwargs)
    for name, one in bound.arguments.items():
        if isinstance(one, Array):
            bound.arguments[name] = level.front(one)
    return function(*bound.args, **bound.kwargs)


@functools.lru_cache(maxsize=1024)
def _signature(function: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(function)


def _bound(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> inspect.BoundArguments:
    bound = _signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    return bound


def looped(
    level: Level,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    told: bool = True,
) -> Any:
    """The rule of any function: it is called for one example after another, which the level is ``told``."""
    name = getattr(function, "__name__", type(function).__name__)
    if told:
        level.looped[name] = level.looped.get(name, 0) + level.size
    leaves, rebuilt = pytree.taken_apart((args, kwargs))
    wholes = [(i, one._value) for i, one in enumerate(leaves) if level.holds(one)]
    results = []
    for k in range(max(1, level.size)):
        each = list(leaves)
        for i, whole in wholes:
            each[i] = whole[k] if level.size else zeros(whole.shape[1:], whole.dtype, whole.device)
        of_args, of_kwargs = rebuilt(each)
        results.append(function(*of_args, **of_kwargs))
    return pytree.map(lambda *each: _stacked(level, name, each), *results)


def _stacked(level: Level, name: str, each: Sequence[Any]) -> Any:
    if isinstance(each[0], Array):
        shapes = {one.shape for one in each}
        if len(shapes) > 1:
            raise ValueError(
                f"vmap: {name} returns arrays of shapes {', '.join(map(str, sorted(shapes)))} for examples of one batch"
            )
        stacked: Array = FUNCTIONS["stack"](each)
        return stacked if level.size else stacked[:0]
    if any(one != each[0] for one in each):
        raise TypeError(
            f"vmap: {name} returns other numbers than arrays, which differ between examples of a batch"
        )
    return each[0]
