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
#: The threads in which a function is traced, see :mod:`..elementwise.pending`. Without one no thread need look for
#: its own trace, which is slower.
traced_threads: set[int] = set()
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


class Trace(Protocol):
    """Operations of a thread that wait, see :mod:`..elementwise.pending`."""

    def write(self, x: Array) -> None: ...

    def write_within(self, x: Array) -> None: ...

    def read(self, x: Array, what: str) -> None: ...


#: The modules through which a user reads the values of an array.
_READERS = ("cukern.array.", "cukern.device.capture_hooks", "cukern.elementwise.pending")


class _State(threading.local):
    recorder: Recorder | None = None
    trace: Any = None
    suspended: Any = None
    draws: tuple[Draws, ...] = ()


_state = _State()
#: The threads with a capture in progress. Without one no thread need look for its own, which is slower.
capturing: set[int] = set()


def trace() -> Any:
    """The :class:`Trace` of this thread, or None."""
    return _state.trace


def begin_trace(trace: Trace | None) -> Trace | None:
    """Make ``trace`` that of this thread, or none; return the one before."""
    before: Trace | None = _state.trace
    _state.trace = trace
    change = traced_threads.discard if trace is _state.suspended is None else traced_threads.add
    change(threading.get_ident())
    return before


@contextmanager
def suspended(trace: Trace) -> Iterator[None]:
    """A with-block that is not traced; ``trace`` still hears of what is written in it."""
    before, _state.suspended = _state.suspended, trace
    active = begin_trace(None)
    try:
        yield
    finally:
        _state.suspended = before
        begin_trace(active)


def writes(array: Array) -> None:
    """Tell the traces of this thread, if there are any, that the memory of an array is about to be written."""
    if (active := _state.trace) is not None:
        active.write(array)
    if (outer := _state.suspended) is not None:
        outer.write_within(array)


def reads(array: Array, what: str = "") -> None:
    """Tell the trace of this thread, if there is one, that the values of an array are about to be read on the host.

    Args:
        what: the user's call that reads them; "" where the library reads them for itself.
    """
    if traced_threads and (active := _state.trace) is not None:
        active.read(array, what if what and not _within_library() else "")


def _within_library() -> bool:
    """Whether it is the library that calls the method of an array which asks."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and str(frame.f_globals.get("__name__")).startswith("cukern.array."):
        frame = frame.f_back
    return frame is not None and str(frame.f_globals.get("__name__")).split(".")[0] == "cukern"


def read_by_library() -> bool:
    """Whether a function of this package asks for the values that are about to be read, not the user."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and str(frame.f_globals.get("__name__")).startswith(_READERS):
        frame = frame.f_back
    return frame is not None and str(frame.f_globals.get("__name__")).startswith("cukern.")


def called_by_user() -> str | None:
    """The function of this package that the user has called; None where that is a conversion of an array."""
    frame: FrameType | None = sys._getframe(1)
    name = None
    while frame is not None and (module := str(frame.f_globals.get("__name__"))).split(".")[0] == "cukern":
        if not module.startswith(_READERS):
            name = frame.f_code.co_name
        frame = frame.f_back
    return name


def user_line() -> str:
    """The file and line of the first caller outside of this package."""
    frame = sys._getframe(stacklevel() - 1)
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


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
