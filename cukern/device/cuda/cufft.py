"""Transforms by cuFFT along the last axes of arrays in C order.

CuPy's functions look a plan up in some 100 us. Here a thread keeps the plans of each stream, since transforms that run
at the same time must not share a plan's workspace, and so does each graph.
"""

from __future__ import annotations

import importlib
import math
import threading
import weakref
from collections.abc import Sequence
from typing import Any

from ...cache import Cache
from .. import capture_hooks

#: cuFFT's kinds of transforms, by the letters of the dtypes of the input and of the result.
_KINDS = {"FF": 0x29, "fF": 0x2A, "Ff": 0x2C, "DD": 0x69, "dD": 0x6A, "Dd": 0x6C}
_FORWARD, _INVERSE = -1, 1
#: The most axes of a plan.
_MOST_AXES = 3
#: The most elements of an array, whose sizes a plan takes as 32-bit integers.
_MOST_ELEMENTS = 2**31 - 1
#: The plans that a thread keeps: each may have a workspace of the size of its arrays.
_PLANS = 32


class _Thread(threading.local):
    """The plans of a thread, and those of the graphs that it records."""

    def __init__(self) -> None:
        self.plans: Cache[tuple[Any, ...], Any] = Cache(_PLANS)
        self.of_graphs: weakref.WeakKeyDictionary[Any, dict[tuple[Any, ...], Any]] = (
            weakref.WeakKeyDictionary()
        )


_thread = _Thread()


def plans(xp: Any) -> bool:
    """Whether this is CuPy, and not what stands in for it."""
    return getattr(xp, "__name__", "") == "cupy"


def has_plan(shape: Sequence[int], to: Sequence[int], axes: Sequence[int], halved: bool) -> bool:
    """Whether a plan transforms an array of ``shape`` to one of the shape ``to``.

    Args:
        shape, to: of the input and of the result.
        axes: those of the transform.
        halved: whether one of both has the frequencies of real numbers, along the last one of ``axes``.
    """
    last = [*range(len(shape) - len(axes), len(shape))]
    if not 0 < len(axes) <= _MOST_AXES or sorted(axes) != last or (halved and axes[-1] != last[-1]):
        return False
    return max(math.prod(shape), math.prod(to)) <= _MOST_ELEMENTS


def transform(cupy: Any, x: Any, out: Any, axes: int, inverse: bool) -> None:
    """Transform along the last axes, dividing by nothing.

    Args:
        cupy: the module.
        x: an ndarray in C order, at a multiple of a complex number's size; overwritten if ``out`` is real.
        out: an ndarray in C order.
        axes: their number.
        inverse: whether the exponent is positive.
    """
    stream = cupy.cuda.get_current_stream().ptr
    form = x.dtype.char + out.dtype.char, x.shape, out.shape, axes
    recorder = capture_hooks.recorder()
    if recorder is None:
        key = cupy.cuda.runtime.getDevice(), stream, *form
        plan = _thread.plans.get(key) or _thread.plans.keep(key, _plan(*form))
    else:
        plans = _thread.of_graphs.setdefault(recorder, {})
        plan = plans.get(form)
        if plan is None:
            plan = plans[form] = recorder.constant(lambda: _plan(*form))
    plan.fft(x, out, _INVERSE if inverse else _FORWARD)


def _plan(kind: str, shape: tuple[int, ...], to: tuple[int, ...], axes: int) -> Any:
    """CuPy's plan, with its workspace on the current device."""
    inner, outer = shape[-axes:], to[-axes:]
    sizes = outer if kind in ("Ff", "Dd") else inner
    batch, apart = math.prod(shape[:-axes]), (math.prod(inner), math.prod(outer))
    return importlib.import_module("cupy.cuda.cufft").PlanNd(
        sizes, inner, 1, apart[0], outer, 1, apart[1], _KINDS[kind], batch, "C", len(shape) - 1, to[-1]
    )
