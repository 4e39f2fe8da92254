"""What tapes note when an array is written: a new value, a lost value, or a value without a derivative."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .tape import LOST, Tape, _keys, _tapes, state

if TYPE_CHECKING:
    from ..array import Array


def _all_tapes() -> list[Tape]:
    """The tapes of all threads."""
    return [tape for reference in tuple(_tapes) if (tape := reference()) is not None]


def is_leaf(array: Array) -> bool:
    """Whether a tape watches ``array``, so that gradients are with respect to its value at that time."""
    return any(tape._watches(array._key) for tape in _all_tapes())


def overwritten(array: Array, tapes: Sequence[Tape], differentiable: bool) -> None:
    """Note that ``array`` was written: it has a new value on ``tapes``, and is lost to other tapes that tracked it."""
    before, array._key = array._key, next(_keys)
    for tape in _all_tapes():
        if tape not in tapes and before in tape._tracked:
            tape._tracked[array._key] = LOST
        elif tape in tapes and differentiable:
            tape._tracked[array._key] = array._storage.version
            tape._hold(array)


def launched(name: str, arguments: Sequence[tuple[str, Array]], into: Sequence[Array]) -> None:
    """Note on every active tape that a kernel ran, so that a gradient through its results is an error.

    ``arguments`` are all arrays of the launch with their parameters' names; ``into`` those that it may have written.
    """
    for tape in state.active:
        tape._launched(name, arguments, into)


def overwritable(array: Array) -> bool:
    """Whether a write to ``array`` needs no record: no active tape tracks it, except as a kernel's result."""
    return not array._trainable and all(
        array._key not in tape._tracked or (array._storage in tape._opaque and not tape._watches(array._key))
        for tape in state.active
    )


def remembered(array: Array) -> bool:
    """Whether an active tape remembers that a kernel wrote to the memory of ``array`` (see :func:`launched`)."""
    return any(array._storage in tape._opaque for tape in state.active)
