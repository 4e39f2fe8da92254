"""The mode of checked launches, known before the host's runtimes are loaded."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ....errors import KernelFault, KernelReport
from ... import capture_hooks

if TYPE_CHECKING:
    from ....array import Array
    from .tracing import Tracer


@dataclass(frozen=True)
class Mode:
    """How launches are checked.

    Attributes:
        seeds: in how many orders a kernel runs whose result may depend on that.
        strict: whether what most kernels get away with is reported, too.
        reports: where findings are collected, instead of raised as errors; None to raise them.
        tracer: where what launches do is collected; None if it is not.
        sampled: how many blocks run, the first and the last among them, with all arrays taken for zeros; 0 for all
            blocks.
        writers: takes for each array, by its address, a line that has written it; None if none is asked for.
    """

    seeds: int = 3
    strict: bool = False
    reports: list[KernelReport] | None = field(default=None, repr=False)
    tracer: Tracer | None = field(default=None, repr=False)
    sampled: int = 0
    writers: dict[int, str] | None = field(default=None, repr=False)


#: The modes of the with-blocks that are open, the innermost last.
modes: list[Mode] = [Mode()] if os.environ.get("CUKERN_CHECK", "0") not in ("", "0") else []
_divert: Callable[[int], object] | None = None
#: Whether the host's arrays are its own, of which a checked launch knows the sizes.
_possible = True


def current() -> Mode:
    """The mode of a checked launch now."""
    return modes[-1] if modes else Mode()


def active() -> bool:
    """Whether all launches are checked."""
    return _possible and bool(modes)


def forbid() -> None:
    """Check nothing in this process, whose arrays pass for those of a GPU."""
    global _possible
    _possible = False
    _apply()


def tell(findings: Sequence[KernelReport]) -> None:
    """Raise findings, or collect them.

    Raises:
        KernelFault: there is anything, and reports are not collected.
    """
    if not findings:
        return
    reports = current().reports
    if reports is None:
        raise KernelFault("\n".join(one.message for one in findings), tuple(findings))
    reports.extend(one for one in findings if one not in reports)


def read(array: Array, what: str) -> None:
    """Tell of elements that nothing has written, before ``array`` becomes numbers.

    Raises:
        KernelFault: as :func:`tell`.
    """
    from . import unset

    wrong = unset.read(array)
    if wrong is not None:
        tell([wrong])


def _apply() -> None:
    from . import unset

    on = active()
    # Sampled blocks leave most elements unset, of arrays of any size.
    capture_hooks.new_empty = unset.register if on and not current().sampled else None
    capture_hooks.watch_reads(read, on)
    unset.nested(len(modes))
    if not on:
        unset.forget()
    if _divert is not None:
        _divert(int(on))


@contextmanager
def checking(mode: Mode) -> Iterator[None]:
    """A with-block in which all launches are checked, as ``mode`` says."""
    modes.append(mode)
    _apply()
    try:
        yield
    finally:
        at = next(
            i for i in reversed(range(len(modes))) if modes[i] is mode
        )  # blocks of threads may end in any order
        del modes[at]
        _apply()


def finish(mode: Mode) -> None:
    """Tell of arrays that kernels have written in part, before the end of ``mode``.

    Raises:
        KernelFault: as :func:`tell`.
    """
    if current() is mode:
        from . import unset

        tell(unset.left())


def diverting(divert: Callable[[int], object]) -> None:
    """Tell the runtime, which has been loaded, now and at every change."""
    global _divert
    _divert = divert
    if active():
        divert(1)


if modes:
    _apply()
