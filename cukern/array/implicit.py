"""Conversions of arrays that nobody wrote: other libraries ask for the elements, and a gradient would be lost."""

from __future__ import annotations

import opcode
import sys
from types import FrameType
from typing import TYPE_CHECKING

from ..autodiff import tape
from ..autodiff.cotangents import describe
from ..device import capture_hooks
from ..errors import GradientError

if TYPE_CHECKING:
    from .array import Array

#: Modules of tests, whose functions only compare what they convert, and how many calls lead there from the conversion.
_COMPARISONS, _DEEPEST = ("numpy.testing", "_pytest.approx", "_pytest.python_api"), 8
#: A package whose functions, written in C, take floats of what a user's function returns.
_OF_C, _CALLS = "scipy", {"float", "int", "complex"}
#: Python's instruction for ``array[i] = x``, for which NumPy takes the float of a 0-d array.
_ASSIGNS = opcode.opmap["STORE_SUBSCR"]


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


def _is_asked_for(frame: FrameType) -> bool:
    """Whether a call such as ``float(x)`` asks for a number: not C, nor an assignment to NumPy's array."""
    by_c = _module(frame).partition(".")[0] == _OF_C and _CALLS.isdisjoint(frame.f_code.co_names)
    return not by_c and frame.f_code.co_code[frame.f_lasti] != _ASSIGNS


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
        if not (_is_asked_for(frame) if number else _compares(frame)):
            raise GradientError(
                f"{way} of {describe(array)} that a tape tracks: the result would be a constant, and the gradient "
                "through it lost; if a constant is meant, give x.numpy() or cukern.stop_gradient(x)"
            )
    if capture_hooks.refuse is not None:
        capture_hooks.refuse(array, way)
