"""Helpers for tests: comparisons, gradient checks by finite differences, checked launches, and traces of kernels."""

from ..namespace.hints import MODULES as _MODULES
from ..namespace.hints import missing as _missing
from .assertions import assert_close
from .asynchrony import asynchrony
from .checked import checked
from .gradcheck import GradcheckError, NondifferentiableError, gradcheck
from .strict import strict_tape
from .trace import Access, Trace, traced

__all__ = [
    "Access",
    "GradcheckError",
    "NondifferentiableError",
    "Trace",
    "assert_close",
    "asynchrony",
    "checked",
    "gradcheck",
    "strict_tape",
    "traced",
]

__getattr__, __dir__ = _missing(__name__, __all__, _MODULES["testing"])
