"""What a trace of a thread hears: see :mod:`..elementwise.trace`. Without one nothing here costs anything."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol

from .capture_hooks import stacklevel

if TYPE_CHECKING:
    from ..array import Array

#: The threads in which a function is traced, see :mod:`..elementwise.trace`. Without one no thread need look for
#: its own, which is slower.
traced_threads: set[int] = set()


class Trace(Protocol):
    """Operations of a thread that wait, see :mod:`..elementwise.trace`."""

    def write(self, *arrays: Array) -> None: ...

    def write_within(self, *arrays: Array) -> None: ...

    def read(self, x: Array, what: str) -> None: ...


#: The modules through which a user reads the values of an array.
_READERS = ("cukern.array.", "cukern.device.trace_hooks", "cukern.elementwise.trace")


class _State(threading.local):
    trace: Any = None
    suspended: Any = None


_state = _State()


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


def writes(*arrays: Array) -> None:
    """Tell the traces of this thread, if there are any, that the memory of arrays is about to be written."""
    if (active := _state.trace) is not None:
        active.write(*arrays)
    if (outer := _state.suspended) is not None:
        outer.write_within(*arrays)


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
