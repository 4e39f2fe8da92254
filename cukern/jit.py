"""``jit``: run a function of arrays in few kernels, each of which computes many of its operations."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import MethodType
from typing import Any, Generic, ParamSpec, TypeVar

from . import pytree
from .array import Array
from .array.deferred import trace
from .capture import Captured
from .elementwise.pending import Launched, Trace

P = ParamSpec("P")
R = TypeVar("R")


def jit(function: Callable[P, R]) -> Jitted[P, R]:
    return Jitted(function)


class Jitted(Generic[P, R]):
    """A function that runs in few kernels; made by :func:`jit`."""

    def __init__(self, function: Callable[P, R]) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._name = getattr(function, "__name__", "function").strip("<>")
        self._captured = Captured(self._traced)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """The function as a method of ``instance``."""
        return self if instance is None else MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<jitted {self._name}>"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the function; within another one that is traced, as a part of it."""
        if trace() is not None:
            return self._function(*args, **kwargs)
        return self._captured(*args, **kwargs)

    def kernels(self, *args: P.args, **kwargs: P.kwargs) -> list[Launched]:
        """The launches of elementwise kernels of a call with these arguments, which runs."""
        with Trace(self._name) as active:
            result = self._function(*args, **kwargs)
            active.settle(leaf for leaf in pytree.leaves(result) if isinstance(leaf, Array))
        return active.kernels

    def _traced(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """The function, whose elementwise operations wait."""
        if trace() is not None:
            return self._function(*args, **kwargs)
        with Trace(self._name) as active:
            result = self._function(*args, **kwargs)
            active.settle(leaf for leaf in pytree.leaves(result) if isinstance(leaf, Array))
        return result
