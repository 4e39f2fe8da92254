"""Helpers for tests of array code: comparison with tolerances by dtype, and gradient checks by finite differences."""

from ..namespace.hints import MODULES as _MODULES
from ..namespace.hints import missing as _missing
from .assertions import assert_close
from .asynchrony import asynchrony
from .checked import checked
from .gradcheck import GradcheckError, NondifferentiableError, gradcheck
from .strict import strict_tape

__all__ = [
    "GradcheckError",
    "NondifferentiableError",
    "assert_close",
    "asynchrony",
    "checked",
    "gradcheck",
    "strict_tape",
]

__getattr__, __dir__ = _missing(__name__, __all__, _MODULES["testing"])
