"""Helpers for tests: comparisons, derivatives, precision, checked launches, mutants, traces and replays of kernels."""

from ..namespace.hints import MODULES as _MODULES
from ..namespace.hints import missing as _missing
from .assertions import assert_close
from .asynchrony import asynchrony
from .checked import checked
from .gradcheck import GradcheckError, NondifferentiableError, gradcheck
from .judge import judge
from .judging.task import Task
from .kernelcheck import Finding, KernelcheckError, KernelcheckResult, kernelcheck
from .large import check_large
from .mutants import MutationResult, mutants
from .mutations import Mutation
from .prove import prove
from .replay import Replay, recorded, replay
from .report import Line, Report
from .strict import strict_tape
from .trace import Access, Trace, traced
from .ulps import Ulps, UlpTable, ulps

__all__ = [
    "Access",
    "Finding",
    "GradcheckError",
    "KernelcheckError",
    "KernelcheckResult",
    "Line",
    "Mutation",
    "MutationResult",
    "NondifferentiableError",
    "Replay",
    "Report",
    "Task",
    "Trace",
    "UlpTable",
    "Ulps",
    "assert_close",
    "asynchrony",
    "check_large",
    "checked",
    "gradcheck",
    "judge",
    "kernelcheck",
    "mutants",
    "prove",
    "recorded",
    "replay",
    "strict_tape",
    "traced",
    "ulps",
]

__getattr__, __dir__ = _missing(__name__, __all__, _MODULES["testing"])
