"""Numbers that change between replays of a captured step: counters, learning rates, positions in random streams.

Code that launches a kernel with such a number asks :func:`numbers` for memory from which the kernel reads it.
Outside a capture there is none, and the number is passed as an argument.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol

from ..dtypes import DType

if TYPE_CHECKING:
    from ..array import Array
    from . import Device

#: Incremented when an array's memory is replaced. A graph captured before still uses the old memory.
replaced = 0
#: Called before an array becomes numbers, which are constants to tapes: see :func:`watch_reads`.
refuse: Callable[[Array, str], None] | None = None
#: Called with a new array that nothing has written; None outside of checked launches.
new_empty: Callable[..., None] | None = None
_readers: tuple[Callable[[Array, str], None], ...] = ()


def _tell_readers(array: Array, what: str) -> None:
    for reader in _readers:
        reader(array, what)


def watch_reads(reader: Callable[[Array, str], None], watches: bool) -> None:
    """Call ``reader`` from now on before an array becomes numbers, or no longer."""
    global refuse, _readers
    others = tuple(one for one in _readers if one is not reader)
    _readers = (*others, reader) if watches else others
    refuse = None if not _readers else _readers[0] if len(_readers) == 1 else _tell_readers


class Recorder(Protocol):
    """A capture in progress."""

    def numbers(self, dtype: DType, values: Callable[[], Sequence[Any]]) -> Array: ...

    def repeat(self, action: Callable[[], None]) -> None: ...

    def launched(self, key: object, action: Callable[[], None]) -> None: ...

    def join(self, action: Callable[[], object]) -> None: ...

    def end(self, why: str) -> None: ...

    def workspace(self, nbytes: int, stream: int) -> Any: ...

    def constant(self, make: Callable[[], Any]) -> Any: ...

    def written(self, array: Array, writer: str) -> None: ...

    def enter(self, device: Device) -> None: ...

    def between(self, call: Callable[[], Sequence[Any]]) -> Sequence[Any]: ...

    def leave(self, why: str) -> None: ...


class _State(threading.local):
    recorder: Recorder | None = None
    draws: tuple[Draws, ...] = ()


_state = _State()
#: The threads with a capture in progress. Without one no thread need look for its own, which is slower.
capturing: set[int] = set()


def recorder() -> Recorder | None:
    """The capture in progress in this thread, or None."""
    return _state.recorder if capturing else None


def begin(recorder: Recorder | None) -> None:
    """Make ``recorder`` the capture of this thread, or end it."""
    _state.recorder = recorder
    change = capturing.discard if recorder is None else capturing.add
    change(threading.get_ident())


def numbers(dtype: DType, values: Callable[[], Sequence[Any]]) -> Array | None:
    """Memory that holds the current ``values()`` at each replay; None outside a capture.

    Args:
        values: called once for the capture and before each further replay, in the order of the step.
    """
    active = _state.recorder
    return None if active is None else active.numbers(dtype, values)


def repeated(action: Callable[[], None]) -> None:
    """Run ``action``, and again before each further replay if a capture is in progress."""
    action()
    if _state.recorder is not None:
        _state.recorder.repeat(action)


def joined(action: Callable[[], object]) -> None:
    """Run ``action`` before a capture in progress ends: it lets the current stream wait for what runs beside it."""
    if _state.recorder is not None:
        _state.recorder.join(action)


def between(call: Callable[[], Sequence[Any]]) -> Sequence[Any]:
    """The ndarrays that ``call`` makes, which a graph cannot record: a capture has it between two graphs.

    It runs now and in each replay, which copies what it makes to the ndarrays of the first time.
    """
    active = _state.recorder
    return call() if active is None else active.between(call)


def leave(why: str) -> None:
    """End the capture in progress, if there is one: what it has recorded runs, and the step goes on without a graph.

    Args:
        why: what the step is about to do, for a warning that names the line of the caller.
    """
    if _state.recorder is not None:
        _state.recorder.leave(why)


def stacklevel() -> int:
    """That of the first caller outside of this package, for a warning of the function that asks."""
    frame: FrameType | None = sys._getframe(1)
    level = 1
    while frame is not None and str(frame.f_globals.get("__name__")).split(".")[0] == "cukern":
        frame, level = frame.f_back, level + 1
    return level


class Stream(Protocol):
    """A generator of random numbers."""

    state: dict[str, Any]


class Draws:
    """The generators from which a function draws, with their earlier positions, to draw the same numbers again."""

    def __init__(self) -> None:
        self._before: dict[int, tuple[Stream, dict[str, Any]]] = {}

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Note the generators from which the block draws."""
        outer, _state.draws = _state.draws, (*_state.draws, self)
        try:
            yield
        finally:
            _state.draws = outer

    def note(self, stream: Stream) -> None:
        """Note the position of ``stream`` before the first draw."""
        if id(stream) not in self._before:
            before: dict[str, Any] = {}
            self._before[id(stream)] = stream, before
            repeated(lambda: before.update(stream.state))

    def undo(self) -> None:
        """Reset the generators to the noted positions."""
        for stream, before in self._before.values():
            repeated(partial(setattr, stream, "state", before))

    @contextmanager
    def again(self) -> Iterator[None]:
        """Reset the generators to the noted positions for the block, and restore them afterwards."""
        later: list[tuple[Stream, dict[str, Any]]] = []
        for stream, before in self._before.values():
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
    """Tell the active :class:`Draws` that ``stream`` is about to be drawn from."""
    for one in _state.draws:
        one.note(stream)
