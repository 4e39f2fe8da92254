"""Conversions of arrays that nobody wrote: other libraries ask for the elements, and a gradient would be lost."""

from __future__ import annotations

import dis
import functools
import inspect
import opcode
import sys
from types import CodeType, FrameType, FunctionType
from typing import TYPE_CHECKING, Any

from ..autodiff import tape
from ..autodiff.cotangents import describe
from ..device import capture_hooks, trace_hooks
from ..errors import GradientError

if TYPE_CHECKING:
    from .array import Array

#: Modules of tests, whose functions only compare what they convert, and how many calls lead there from the conversion.
_COMPARISONS, _DEEPEST = ("numpy.testing", "_pytest.approx", "_pytest.python_api"), 8
#: Libraries that know nothing of tapes, whose own ``float(x)`` is none that the program wrote.
_LIBRARIES = ("numpy.", "scipy.")
#: Functions of ``math`` that take a number and return what has no gradient.
_WITHOUT_GRADIENT = {"isnan", "isinf", "isfinite", "isclose", "floor", "ceil", "trunc"}
#: Python's instruction for ``array[i] = x``, for which NumPy takes the float of a 0-d array.
_ASSIGNS = opcode.opmap["STORE_SUBSCR"]
_CALLS = ("CALL", "PRECALL")
_NAMES = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FAST", "LOAD_DEREF")


def _module(frame: FrameType) -> str:
    name: str = frame.f_globals.get("__name__", "")
    return name


def _compares(frame: FrameType | None) -> bool:
    for _ in range(_DEEPEST):
        if frame is None:
            return False
        if _module(frame).startswith(_COMPARISONS):
            return True
        frame = frame.f_back
    return False


def _extent(step: dis.Instruction) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Where in the text an instruction begins and ends: lines and columns, None if Python keeps none."""
    line, last_line, column, last_column = step.positions or (None,) * 4
    return (line, column), (last_line, last_column)


@functools.lru_cache(4096)
def _called(code: CodeType, at: int) -> tuple[str, ...]:
    """The names by which the instruction at an offset calls, as in ``math.exp(x)``; none if it calls otherwise.

    What is called begins where the call does, and ends before its parenthesis.
    """
    if not opcode.opname[code.co_code[at]].startswith(_CALLS):
        return ()
    steps = [step for step in dis.get_instructions(code) if step.offset <= at]
    begin, end = _extent(steps[-1])
    parts = {}
    for step in steps:
        first, last = _extent(step)
        if step.opname != "PUSH_NULL" and None not in begin and first == begin and last < end:
            parts[last] = step
    values = [parts[key] for key in sorted(parts)]
    known = (
        values
        and all(isinstance(step.argval, str) for step in values)
        and values[0].opname.startswith(_NAMES)
    )
    if not known or any(step.opname not in ("LOAD_ATTR", "LOAD_METHOD") for step in values[1:]):
        return ()
    return tuple(step.argval for step in values)


def _taker(frame: FrameType) -> str:
    """What takes the number of an array without being asked to; "" where the program asks, as by ``float(x)``.

    Code in C has no frame, so the last frame is that of its caller, and the name in the call that of the C function.
    """
    if _module(frame).startswith(_LIBRARIES):
        return f"{_module(frame)}.{frame.f_code.co_name}"
    if frame.f_code.co_code[frame.f_lasti] == _ASSIGNS:
        return "an assignment"
    names = _called(frame.f_code, frame.f_lasti)
    if not names:
        return ""
    scopes = (frame.f_locals, frame.f_globals, frame.f_builtins)
    taker: Any = next((scope[names[0]] for scope in scopes if names[0] in scope), None)
    for name in names[1:]:
        taker = inspect.getattr_static(taker, name, None)
    while isinstance(taker, functools.partial):
        taker = taker.func
    module = getattr(getattr(taker, "__objclass__", taker), "__module__", None)
    if not callable(taker) or isinstance(taker, FunctionType) or module in (None, "builtins"):
        return ""
    if module in ("math", "cmath") and names[-1] in _WITHOUT_GRADIENT:
        return ""
    return f"{module}.{getattr(taker, '__qualname__', names[-1])}"


def converted(array: Array, way: str, number: bool = False) -> None:
    """Note that the elements are asked for.

    Args:
        array: the array.
        way: the protocol, for the error.
        number: whether a number is asked for, which callers do knowingly.

    Raises:
        GradientError: an active tape tracks the array, whose gradient would be lost.
    """
    if tape.recording((array,)):
        frame = sys._getframe(2)
        while _module(frame) == "cukern.array.array" and frame.f_back is not None:
            frame = frame.f_back
        taker = _taker(frame) if number else "it"
        if taker and not _compares(frame):
            taken = f", which {taker} takes," if number else ""
            raise GradientError(
                f"{way}{taken} of {describe(array)} that a tape tracks: the result would be a constant, and the "
                "gradient through it lost; if a constant is meant, give x.numpy() or cukern.stop_gradient(x)"
            )
    trace_hooks.reads(array, way)
    if capture_hooks.refuse is not None:
        capture_hooks.refuse(array, way)
