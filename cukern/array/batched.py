"""Arrays of a function that :func:`cukern.vmap` calls once for a whole batch: each stands for one example.

A :class:`Batched` array has the shape of one example and holds the array of all of them, with the batch in front. The
launches of cukern are prepared for layouts of arrays; that of a batched array is a :class:`Logical` one, for which
nothing is prepared. So only what prepares a launch looks for it, and computes with the arrays of all examples instead.
"""

from __future__ import annotations

import copy
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeGuard

from ..autodiff.state import opened, resume, state
from ..cache import Cache
from ..device import Device, trace_hooks
from ..device.trace_hooks import user_line
from ..dtypes import DType
from .array import Array
from .layout import Layout, fresh_layout
from .operators import FUNCTIONS

if TYPE_CHECKING:
    from ..autodiff.tape import Tape

_new = object.__new__
_depths = itertools.count(1)
#: The calls in progress, of all threads. Without one nothing need look for batched arrays, which is slower.
levels: set[Level] = set()


class _State(threading.local):
    """The calls in progress of a thread, the outermost first."""

    levels: tuple[Level, ...] = ()


_state = _State()


class Logical(Layout):
    """The layout of a batched array: that of one example, which has no memory of its own."""

    __slots__ = ()


_layouts: Cache[tuple[Device, DType, tuple[int, ...]], Logical] = Cache()


def _logical(device: Device, dtype: DType, shape: tuple[int, ...]) -> Logical:
    key = (device, dtype, shape)
    found = _layouts.get(key)
    if found is None:
        made = copy.copy(fresh_layout(device, dtype, shape))
        made.__class__ = Logical
        made.numbers, made.new = {}, None
        assert isinstance(made, Logical)
        found = _layouts.keep(key, made)
    return found


class Level:
    """A call of a function for a batch, with those within it.

    Attributes:
        name: the function's.
        size: how many examples there are.
        depth: larger than that of the calls around it.
        tapes: those that recorded when it began. They record what is computed of all examples, and those within, what
            the function computes of one.
        ended: whether the function has returned.
        looped: by the names of what was computed for one example after another, how often.
    """

    def __init__(self, name: str, size: int) -> None:
        self.name, self.size, self.depth = name, size, next(_depths)
        self.tapes: tuple[Tape, ...] = state.active
        self.ended = False
        self.looped: dict[str, int] = {}

    @contextmanager
    def entered(self) -> Iterator[None]:
        """A with-block in which the function runs."""
        before = _state.levels
        levels.add(self)
        _state.levels = (*before, self)
        try:
            yield
        finally:
            _state.levels = before
            levels.discard(self)

    @contextmanager
    def outside(self) -> Iterator[None]:
        """A with-block in which the tapes around the call record."""
        before = state.active
        state.active = tuple([tape for tape in self.tapes if tape in before])
        try:
            yield
        finally:
            resume(before)

    @contextmanager
    def within(self) -> Iterator[None]:
        """A with-block in which only tapes that the function has opened record."""
        before = state.active
        state.active = tuple([tape for tape in before if tape not in self.tapes])
        try:
            yield
        finally:
            resume(before)

    def run(self, compute: Callable[..., Any], *args: Any) -> Any:
        """What ``compute`` makes of arrays of all examples, recorded by the tapes around the call."""
        if not opened or not state.active:
            return compute(*args)
        with self.outside():
            return compute(*args)

    def holds(self, x: object) -> TypeGuard[Batched]:
        """Whether ``x`` is an array of this call's examples."""
        return type(x) is Batched and x._level is self

    def value(self, x: Array, ndim: int | None = None) -> Array:
        """The array of all examples of ``x``, if it has any: of ``ndim`` axes after that of the batch, else ``x``."""
        if not self.holds(x):
            return x
        whole = x._value
        missing = 0 if ndim is None else ndim - x.ndim
        return FUNCTIONS["expand_dims"](whole, tuple(range(1, 1 + missing))) if missing > 0 else whole

    def front(self, x: Array) -> Array:
        """The array of all examples of ``x``; of one that has none, its repetition."""
        if self.holds(x):
            return x._value
        return FUNCTIONS["broadcast_to"](x, (self.size, *x.shape))

    def batched(self, value: Array) -> Array:
        """The array of one example, of that of all."""
        own = value._layout or value._planned()
        result = _new(Batched)
        result._layout = _logical(own.device, own.dtype, own.shape[1:])
        result.device, result._storage = own.device, value._storage
        result._key = result._viewed = None
        result._level, result._value = self, value
        return result


class Batched(Array):
    """One example of a batch, within a function of :func:`cukern.vmap`."""

    __slots__ = ("_level", "_value")

    _is_of_batch = True

    _level: Level
    _value: Array

    def __getitem__(self, key: Any) -> Any:
        result: Array = FUNCTIONS["getitem"](self, key)
        return result

    def __setitem__(self, key: Any, value: Any) -> None:
        raise self._written("x[key] = value")

    def _written(self, how: str) -> TypeError:
        return TypeError(
            f"vmap: {how} on {user_line()}: an array of {self._level.name} is one example of a batch, which is neither "
            "written nor copied to other arrays: write x = x.at[key].set(value), or x = x + y"
        )

    def _alias(self) -> Array:
        return self._level.batched(self._value)

    def to_device(self, device: Device | str, /, *, stream: None = None) -> Array:
        """See :meth:`Array.to_device`."""
        if Device(device) is self.device and stream is None:
            return self
        return self._level.batched(self._level.run(self._value.to_device, device))

    @property
    def arriving(self) -> bool:
        """Whether it need not be computed now, see :class:`.deferred.Arriving`: it is computed with all examples."""
        return getattr(self._value, "arriving", False) or self._value._operand is not None

    def __copy__(self) -> Array:
        result: Array = FUNCTIONS["positive"](self)
        return result

    def __repr__(self) -> str:
        return (
            f"<one of {self._level.size} examples: {self.dtype.name}, shape {self.shape}, on {self.device}>"
        )

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return repr(self)


class Unmapped(Exception):
    """A function of the library computes with the memory of one example, so that the examples take turns.

    Attributes:
        level: the call whose examples they are.
        name: the function.
    """

    def __init__(self, level: Level, name: str) -> None:
        super().__init__(f"vmap: {name} does not compute with all examples of a batch at once")
        self.level, self.name = level, name


def _unreadable(self: Any) -> Any:
    level: Level = self._level
    if level.ended:
        raise TypeError(
            f"vmap: an array of {level.name} was used after it returned; return it, or take a pullback within"
        )
    if (name := trace_hooks.called_by_user()) is not None:
        raise Unmapped(level, name)
    raise TypeError(
        f"vmap: {level.name} reads values of an array on {user_line()}, but runs once for all {level.size} examples, "
        "which have different ones: choose by ck.where or ck.cond, and convert arrays outside of vmap"
    )


for _name in ("_memory", "_ndarray", "_operand"):
    setattr(Batched, _name, property(_unreadable))


def is_logical(layouts: Sequence[Layout]) -> bool:
    """Whether one of the layouts is that of a batched array."""
    for one in layouts:  # noqa: SIM110 - a loop is faster than a generator
        if type(one) is Logical:
            return True
    return False


def level_of(arrays: Sequence[Any]) -> Level | None:
    """The innermost call whose examples are among ``arrays``; None where there are none."""
    found: Level | None = None
    for one in arrays:
        if type(one) is Batched and (found is None or one._level.depth > found.depth):
            found = one._level
    return found


def innermost(arrays: Sequence[Any]) -> Level:
    """:func:`level_of` arrays of which one has a logical layout."""
    found = level_of(arrays)
    assert found is not None
    return found


@contextmanager
def left() -> Iterator[None]:
    """A with-block in which no call of this thread is in progress, for what is computed of all their examples."""
    before, _state.levels = _state.levels, ()
    try:
        yield
    finally:
        _state.levels = before


def in_progress() -> tuple[Level, ...]:
    """The calls in progress in this thread, the outermost first."""
    return _state.levels if levels else ()
