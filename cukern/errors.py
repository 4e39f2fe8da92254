"""Exceptions raised by cukern, and checks of arguments that raise Python's.

::

    CukernError
    ├── TemplateError       a template cannot be rendered
    ├── CompileError        a rendered text does not compile
    ├── DeviceError         no such device, or no compiler for it
    ├── LaunchError         a kernel refuses its arguments
    │   └── KernelFault     a kernel failed while it ran
    ├── GradientError       a gradient cannot be given
    ├── CaptureError        a step cannot be recorded as a CUDA graph
    └── DistributedError    processes that work together disagree, or one of them is gone

Array functions raise ``TypeError``, ``ValueError`` and ``IndexError`` where NumPy does.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any, NamedTuple

__all__ = [
    "CaptureError",
    "CompileError",
    "CukernError",
    "DeviceError",
    "DistributedError",
    "GradientError",
    "KernelFault",
    "KernelReport",
    "LaunchError",
    "TemplateError",
]


class CukernError(Exception):
    """Base class of cukern's own exceptions."""


class TemplateError(CukernError):
    """A template cannot be rendered: a syntax error, or a variable that is not bound."""


class CompileError(CukernError):
    """A compiler refused a rendered kernel.

    Attributes:
        log: the compiler's own output.
        text: the text that was compiled.
    """

    def __init__(self, message: str, log: str = "", text: str = "") -> None:
        super().__init__(message)
        self.log = log
        self.text = text


class DeviceError(CukernError):
    """A device does not exist, or there is no compiler for it."""


class LaunchError(CukernError):
    """A kernel refuses its arguments or its launch shape; nothing has run."""


class KernelReport(NamedTuple):
    """A mistake that a checked launch found in a kernel.

    Attributes:
        kind: ``"out of bounds"``, ``"race"``, ``"unset"``, ``"unwritten"``, ``"const"``, ``"misaligned"``,
            ``"overflow"``, ``"shift"``, ``"division"``, ``"use after free"``, ``"free"``, ``"leak"``, ``"lane"``,
            ``"divergence"``, ``"geometry"``, ``"timeout"`` or ``"fault"``.
        message: all of it, as text.
        kernel: the kernel's name.
        place: where it is, as ``template:line``; empty if that is not known.
        other_place: where the other side of a race is; empty if there is none.
        array: the name of the argument or of the variable in shared memory; empty if that is not known.
        element: the index in that array; None if that is not known.
        block, thread: of the kernel, where it happened.
        other_block, other_thread: of the other side, or None.
    """

    kind: str
    message: str
    kernel: str = ""
    place: str = ""
    other_place: str = ""
    array: str = ""
    element: int | tuple[int, ...] | None = None
    block: tuple[int, int, int] | None = None
    thread: tuple[int, int, int] | None = None
    other_block: tuple[int, int, int] | None = None
    other_thread: tuple[int, int, int] | None = None

    def __str__(self) -> str:
        return self.message


class KernelFault(LaunchError):
    """A kernel failed while it ran: a failed ``assert``, or a barrier that not all threads reach.

    Attributes:
        reports: what a checked launch found; empty after other launches.
    """

    def __init__(self, message: str, reports: tuple[KernelReport, ...] = ()) -> None:
        super().__init__(message)
        self.reports = reports


class GradientError(CukernError):
    """A gradient cannot be computed: a saved array was written, or a backward has no derivative."""


class CaptureError(CukernError):
    """A step cannot be recorded as a CUDA graph: it reads a value on the host, or makes an array of host data."""


class DistributedError(CukernError):
    """Ranks gave arrays that do not go together, or one of them died, ended or did not come in time.

    >>> import cukern as ck
    >>> world = ck.distributed.init()
    >>> try:
    ...     ck.distributed.barrier()
    ... except DistributedError as error:  # "rank 0: barrier #1: rank 2 died after all_reduce #7 of float32 (3,) sum"
    ...     print(error)
    """


def require_int(argument: str, value: Any, least: int | None = None, most: int | None = None) -> int:
    """An argument as an int.

    Raises:
        TypeError: it is no integer, or a bool; the error names the argument.
        ValueError: it is less than ``least``, or more than ``most``.
    """
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool):
        raise TypeError(f"{argument}: expected an int, got {value!r:.60}")
    if least is not None and number < least:
        raise ValueError(f"{argument}: expected at least {least}, got {value!r}")
    if most is not None and number > most:
        raise ValueError(f"{argument}: expected at most {most}, got {value!r}")
    return number


def require_choice(argument: str, value: object, known: Iterable[str]) -> None:
    """Raise unless an argument is one of the words that are known.

    Raises:
        ValueError: it is another; the error names the argument and the words.
    """
    words = list(known)
    if not isinstance(value, str) or value not in words:
        raise ValueError(f"{argument}: expected one of {', '.join(map(repr, words))}, got {value!r}")
