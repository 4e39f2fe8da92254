"""Which tapes record in a thread, and the with-blocks in which they do not."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .tape import Tape


class _State(threading.local):
    """What goes on in a thread.

    Attributes:
        active: the tapes that record, outermost first.
        fusing: the name of the fused function that is being traced, if any.
        refused: what has no place in its kernels, and was met so far.
        shapes: the shapes of its arrays.
    """

    def __init__(self) -> None:
        self.active: tuple[Tape, ...] = ()
        self.fusing: str | None = None
        self.refused: list[str] = []
        self.shapes: Sequence[tuple[int, ...]] = ()


state = _State()
#: The ids of the tapes that record in any thread. Without one no thread need look for its own, which is slower.
opened: set[int] = set()
# A collector of garbage may close a generator, and so the tape that it has open, while this thread holds the lock.
_changing = threading.RLock()


def begin(tape: Tape) -> bool:
    """Let ``tape`` record in this thread; False where it records already."""
    with _changing:
        if tape._thread is not None:
            return False
        tape._thread = state.__dict__
        opened.add(id(tape))
        state.active = (*state.active, tape)
    return True


def end(tape: Tape) -> None:
    """Let ``tape`` record no more, in whichever thread it does."""
    with _changing:
        thread, tape._thread = tape._thread, None
        if thread is not None:
            active = thread["active"]
            last = active and active[-1] is tape
            thread["active"] = active[:-1] if last else tuple([one for one in active if one is not tape])
            opened.discard(id(tape))


def active() -> tuple[Tape, ...]:
    """The tapes that record in this thread, outermost first."""
    return state.active if opened else ()


class Pause:
    """A with-block in which one tape, or every tape of the thread, does not record."""

    __slots__ = ("_before", "_tape")

    def __init__(self, tape: Tape | None = None) -> None:
        self._tape = tape

    def __enter__(self) -> None:
        refuse_in_fused()
        self._before = state.active
        tape = self._tape
        state.active = () if tape is None else tuple(one for one in self._before if one is not tape)

    def __exit__(self, *exc_info: object) -> None:
        resume(self._before)


def refuse_in_fused() -> None:
    """Raise TypeError in a fused function."""
    if state.fusing is not None:
        raise TypeError(
            f"{state.fusing}: expected no stop_recording in a fused function, which is differentiated as a "
            "whole: cukern.stop_gradient(x) makes a part of it constant"
        )


def resume(before: tuple[Tape, ...]) -> None:
    """Let tapes record again that have been paused in this thread, but for those that ended meanwhile."""
    _changing.acquire()
    try:
        mine = state.__dict__
        for tape in before:
            if tape._thread is not mine:
                before = tuple([tape for tape in before if tape._thread is mine])
                break
        mine["active"] = before
    finally:
        _changing.release()


def stop_recording() -> Pause:
    """A with-block in which no tape of this thread records; a tape opened inside it does.

    Raises:
        TypeError: it is entered in a fused function.
    """
    return Pause()
