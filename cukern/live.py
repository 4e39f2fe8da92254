"""Numbers that change from replay to replay of a captured step: counters, learning rates, a stream's place.

What launches a kernel with such a number asks :func:`numbers` for memory to read it from. Outside of a
capture there is none, and the number is an argument as any other.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from .dtypes import DType

if TYPE_CHECKING:
    from .array import Array
    from .device import Device

#: How often an array has become another, whose memory is elsewhere: what was recorded before works on what it was.
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
