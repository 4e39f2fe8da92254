"""``jit``: run a function of arrays in few kernels, each of which computes many of its operations."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import MethodType
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar

from . import pytree
from .array import Array
from .array.deferred import trace
from .autodiff import tape
from .autodiff.cotangents import is_array
from .cache import Cache
from .capture import Captured, form_of, is_input, owners_of
from .device import capture_hooks
from .dtypes import get_default_dtype
from .elementwise.pending import Launched, Trace
from .elementwise.script import Replay

P = ParamSpec("P")
R = TypeVar("R")

#: Launches from which a step on a GPU is recorded as a graph, if its arguments and results are small.
_MANY_LAUNCHES = 6
#: Bytes of arguments and results up to which a step on a GPU is recorded as a graph, which copies them.
_SMALL_BYTES = 1 << 22


def jit(function: Callable[P, R]) -> Jitted[P, R]:
    """Run ``function`` in few kernels: what is elementwise in it is computed by the kernels of what reads it.

    While the function runs, its elementwise operations and views make expressions. One kernel computes an expression
    when something needs the array: a product, a function that is no elementwise one, a write, the end of the function.
    Reductions compute the expression that they reduce. So a stencil of slices is one kernel, and so are the steps of a
    loop, what follows a product, and all results of one shape. Anything may stand in the function: tapes,
    optimizers, writes to arrays, modules, random numbers. What is not elementwise runs as it always does.

    After two calls with arguments of one form (dtypes, shapes, orders in memory, numbers), what was launched is known.
    If the function did nothing else, later calls repeat the launches, without the function's Python: numbers in it are
    constants, arrays to which it refers are read anew. Else it is captured on a GPU, as by :func:`capture`, whose rules
    hold; on the host its Python runs in each call. While a tape records, it runs, too.

    Args:
        function: takes pytrees of arrays, modules and hashable constants, and returns a pytree.

    >>> import cukern as ck
    >>> @ck.jit
    ... def smooth(x):
    ...     return (x[:-2] + 2 * x[1:-1] + x[2:]) / 4
    >>> smooth(ck.asarray([0.0, 4.0, 8.0, 4.0])).tolist()
    [4.0, 6.0]
    >>> len(smooth.launches(ck.asarray([0.0, 4.0, 8.0, 4.0])))
    1
    """
    return Jitted(function)


class _Known(NamedTuple):
    """What the calls of one form have shown.

    Attributes:
        steps: those of the call before; None once they are not to be repeated.
        replay: repeats them, from the third call on.
        leaves: the results that are no arrays, and None for each array.
        rebuilt: makes the results of their leaves.
    """

    steps: Any
    replay: Replay | None = None
    leaves: tuple[Any, ...] = ()
    rebuilt: Callable[[list[Any]], Any] = list


class Jitted(Generic[P, R]):
    """A function that runs in few kernels; made by :func:`jit`."""

    def __init__(self, function: Callable[P, R]) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._name = getattr(function, "__name__", "function").strip("<>")
        self._known: Cache[Any, _Known] = Cache()
        self._captured = Captured(self._traced)
        self._replaced = capture_hooks.replaced

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """The function as a method of ``instance``."""
        return self if instance is None else MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<jitted {self._name}>"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the function; within another one that is traced, as a part of it."""
        if trace() is not None:
            return self._function(*args, **kwargs)
        if tape.active() or capture_hooks.recorder() is not None:
            return self._traced(*args, **kwargs)
        if self._replaced != capture_hooks.replaced:
            self._replaced = capture_hooks.replaced
            self._known.clear()
        tree = (args, kwargs)
        leaves = pytree.leaves(tree)
        arrays: list[Array] = []
        numbers: dict[int, int] = {}
        forms: list[Any] = [get_default_dtype(), pytree.containers(tree), *owners_of(tree)]
        for leaf in leaves:
            if is_array(leaf) and is_input(leaf):
                forms += (leaf._layout or leaf._planned(), numbers.setdefault(id(leaf), len(arrays)))
                arrays.append(leaf)
            else:
                forms.append(form_of(leaf))
        try:
            key = tuple(forms)
            known = self._known.get(key)
        except TypeError as error:
            raise TypeError(f"jit: expected arrays, modules and hashable constants; {error}") from None
        if known is not None and known.replay is not None:
            made = iter(known.replay(arrays))
            result: R = known.rebuilt([next(made) if leaf is None else leaf for leaf in known.leaves])
            return result
        if known is not None and known.steps is None:
            return self._captured(*args, **kwargs)
        with Trace(self._name, arrays) as active:
            result = self._function(*args, **kwargs)
            active.settle(leaf for leaf in pytree.leaves(result) if isinstance(leaf, Array))
        self._known.keep(key, self._learnt(known, active, result))
        return result

    def _learnt(self, known: _Known | None, active: Trace, result: Any) -> _Known:
        """What is known after another call."""
        script = active.script
        leaves, rebuilt = pytree.taken_apart(result)
        slots = [script.slot(leaf) for leaf in leaves if isinstance(leaf, Array)]
        form = script.form(), tuple(slots)
        if (
            script.open
            or any(leaf is None for leaf in leaves)
            or (known is not None and not _equal(known.steps, form))
        ):
            return _Known(None)
        if known is None:
            return _Known(form)
        replay = Replay(script, slots)
        constants = tuple([None if isinstance(leaf, Array) else leaf for leaf in leaves])
        return _Known(form, replay, constants, rebuilt)

    def launches(self, *args: P.args, **kwargs: P.kwargs) -> list[Launched]:
        """The elementwise kernels of a call with these arguments, which runs."""
        with Trace(self._name) as active:
            result = self._function(*args, **kwargs)
            active.settle(leaf for leaf in pytree.leaves(result) if isinstance(leaf, Array))
        return active.kernels

    def _traced(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """The function, whose elementwise operations wait."""
        with Trace(self._name) as active:
            result = self._function(*args, **kwargs)
            active.settle(leaf for leaf in pytree.leaves(result) if isinstance(leaf, Array))
        return result


def _equal(before: Any, after: Any) -> bool:
    """Whether two traces did the same, as far as that can be said."""
    try:
        return bool(before == after)
    except ValueError:  # of arrays among constants
        return False
