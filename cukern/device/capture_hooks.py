"""Numbers that change from replay to replay of a captured step: counters, learning rates, a stream's place.

What launches a kernel with such a number asks :func:`numbers` for memory to read it from. Outside of a
capture there is none, and the number is an argument as any other.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from ..dtypes import DType

if TYPE_CHECKING:
    from ..array import Array
    from . import Device

#: Counts the arrays whose memory has been replaced. A graph captured before still uses the old memory.
replaced = 0
#: Asked before an array becomes numbers that are constants to tapes; None outside of every strict_tape of the tests.
refuse: Callable[[Array, str], None] | None = None


class Recorder(Protocol):
    """A capture that is under way."""

    def numbers(self, dtype: DType, values: Callable[[], Sequence[Any]]) -> Array: ...

    def repeat(self, action: Callable[[], None]) -> None: ...

    def workspace(self, nbytes: int) -> Any: ...

    def written(self, array: Array, writer: str) -> None: ...

    def enter(self, device: Device) -> None: ...


class _State(threading.local):
    recorder: Recorder | None = None
    draws: tuple[Draws, ...] = ()


_state = _State()


def recorder() -> Recorder | None:
    """The capture that is under way in this thread."""
    return _state.recorder


def begin(recorder: Recorder | None) -> None:
    """Make ``recorder`` the capture of this thread, or end it."""
    _state.recorder = recorder


def numbers(dtype: DType, values: Callable[[], Sequence[Any]]) -> Array | None:
    """Memory that holds ``values()`` of each replay; None outside of a capture.

    Args:
        values: called once for the capture and once before each further replay, in the order of the step.
    """
    active = _state.recorder
    return None if active is None else active.numbers(dtype, values)


def repeated(action: Callable[[], None]) -> None:
    """Do ``action``, and again before each further replay where a capture is under way."""
    action()
    if _state.recorder is not None:
        _state.recorder.repeat(action)


class Stream(Protocol):
    """A generator of random numbers."""

    state: dict[str, Any]


class Draws:
    """The generators that a function draws from and where each was before, so that it can draw the same again."""

    def __init__(self) -> None:
        self._found: dict[int, tuple[Stream, dict[str, Any]]] = {}

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Note what is drawn from within the block."""
        outer, _state.draws = _state.draws, (*_state.draws, self)
        try:
            yield
        finally:
            _state.draws = outer

    def note(self, stream: Stream) -> None:
        """Note where ``stream`` is before it is drawn from for the first time."""
        if id(stream) not in self._found:
            before: dict[str, Any] = {}
            self._found[id(stream)] = stream, before
            repeated(lambda: before.update(stream.state))

    @contextmanager
    def again(self) -> Iterator[None]:
        """Put the generators to where they were for as long as the block takes."""
        later: list[tuple[Stream, dict[str, Any]]] = []
        for stream, before in self._found.values():
            after: dict[str, Any] = {}
            later.append((stream, after))
            repeated(partial(_exchange, stream, before, after))
        try:
            yield
        finally:
            for stream, after in later:
                repeated(partial(setattr, stream, "state", after))


def _exchange(stream: Stream, state: dict[str, Any], old: dict[str, Any]) -> None:
    old.update(stream.state)
    stream.state = state


def drawn(stream: Stream) -> None:
    """Say that ``stream`` is about to be drawn from, to the functions that will be called again."""
    for one in _state.draws:
        one.note(stream)
