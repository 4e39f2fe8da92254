"""Exceptions raised by cukern.

::

    CukernError
    ├── TemplateError       a template cannot be rendered
    ├── CompileError        a rendered text does not compile
    ├── DeviceError         no such device, or no compiler for it
    ├── LaunchError         a kernel refuses its arguments
    │   └── KernelFault     a kernel failed while it ran
    ├── GradientError       a gradient cannot be given
    └── CaptureError        a step cannot be recorded as a CUDA graph

Array functions raise ``TypeError``, ``ValueError`` and ``IndexError`` where NumPy does.
"""

from __future__ import annotations

__all__ = [
    "CaptureError",
    "CompileError",
    "CukernError",
    "DeviceError",
    "GradientError",
    "KernelFault",
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


class KernelFault(LaunchError):
    """A kernel failed while it ran: a failed ``assert``, or a barrier that not all threads reach."""


class GradientError(CukernError):
    """A gradient cannot be computed: a saved array was written, or a backward has no derivative."""


class CaptureError(CukernError):
    """A step cannot be recorded as a CUDA graph: it reads a value on the host, or makes an array of host data."""
