"""When the host performs asynchronous copies and products; known before its runtime is loaded."""

from __future__ import annotations

from collections.abc import Callable

#: The number that the runtime has for the time, and the seed of the random one.
_chosen = (1, 0)
_apply: Callable[[int, int], object] | None = None


def choose(chosen: tuple[int, int]) -> tuple[int, int]:
    """Choose, see :func:`cukern.testing.asynchrony`; return what was chosen before."""
    global _chosen
    earlier, _chosen = _chosen, chosen
    if _apply is not None:
        _apply(*chosen)
    return earlier


def chosen() -> tuple[int, int]:
    """What is chosen now."""
    return _chosen


def started(apply: Callable[[int, int], object]) -> None:
    """Tell the runtime, which has been loaded, now and at every choice."""
    global _apply
    _apply = apply
    apply(*_chosen)
