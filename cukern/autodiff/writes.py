"""What a write to an array means to the tapes: a new value, a value that is lost, or one without a derivative."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .tape import LOST, Tape, _keys, _tapes, state

if TYPE_CHECKING:
    from ..array import Array


def _all_tapes() -> list[Tape]:
    """The tapes of all threads."""
    return [tape for found in tuple(_tapes) if (tape := found()) is not None]


def is_leaf(array: Array) -> bool:
    """Whether a tape watches ``array``, so that gradients with respect to it are of what it was then."""
    return any(tape._watches(array._key) for tape in _all_tapes())


def overwritten(array: Array, tapes: Sequence[Tape], differentiable: bool) -> None:
    """Note that ``array``, just written, is a new value to ``tapes``, and lost to others that tracked it."""
    before, array._key = array._key, next(_keys)
    for tape in _all_tapes():
        if tape not in tapes and before in tape._tracked:
            tape._tracked[array._key] = LOST
        elif tape in tapes and differentiable:
            tape._tracked[array._key] = array._storage.version


def launched(name: str, arguments: Sequence[tuple[str, Array]], into: Sequence[Array]) -> None:
    """Remember on every active tape that a kernel ran: a gradient through what it wrote is an error.

    ``arguments`` are all its arrays, each with the name of its parameter; ``into`` those that it may have written.
    """
    for tape in state.active:
        tape._launched(name, arguments, into)


def overwritable(array: Array) -> bool:
    """Whether a write to ``array`` needs no record: no active tape tracks it, but for what a kernel wrote there."""
    return not array._trainable and all(
        array._key not in tape._tracked or (array._storage in tape._opaque and not tape._watches(array._key))
        for tape in state.active
    )


def remembered(array: Array) -> bool:
    """Whether an active tape remembers that a kernel wrote to the memory of ``array`` (see :func:`launched`)."""
    return any(array._storage in tape._opaque for tape in state.active)
