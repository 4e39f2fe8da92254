"""Which launches are checked, and how; known before the host's runtimes are loaded."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field

from ....errors import KernelReport


@dataclass
class Mode:
    """How launches are checked.

    Attributes:
        seeds: in how many orders a kernel runs whose result may depend on that.
        strict: whether what most kernels get away with is reported, too.
        reports: where findings are collected, instead of raised as errors; None to raise them.
    """

    seeds: int = 3
    strict: bool = False
    reports: list[KernelReport] | None = field(default=None, repr=False)


#: The modes of the with-blocks that are open, the innermost last.
_modes: list[Mode] = [Mode()] if os.environ.get("CUKERN_CHECK", "0") not in ("", "0") else []
_divert: Callable[[int], object] | None = None


def current() -> Mode:
    """The mode of a checked launch now."""
    return _modes[-1] if _modes else Mode()


def active() -> bool:
    """Whether all launches are checked."""
    return bool(_modes)


def enter(mode: Mode) -> None:
    """Check all launches from now on, as ``mode`` says."""
    _modes.append(mode)
    if _divert is not None:
        _divert(1)


def leave(mode: Mode) -> None:
    """End ``mode``."""
    for i in reversed(range(len(_modes))):
        if _modes[i] is mode:
            del _modes[i]
            break
    if _divert is not None:
        _divert(int(active()))


def diverting(divert: Callable[[int], object]) -> None:
    """Tell the runtime, which has been loaded, now and at every change."""
    global _divert
    _divert = divert
    if active():
        divert(1)
