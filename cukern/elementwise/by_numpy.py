"""Which calls NumPy serves on the host: of many elements that it moves in fewer passes than kernels do."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from typing import ParamSpec, TypeVar

import numpy as np

from ..array import Array
from ..autodiff import tape
from ..autodiff.state import state
from ..device.host.checked import mode

P = ParamSpec("P")
T = TypeVar("T")

#: Elements from which NumPy serves a call, and from which kernels on several cores are faster than its one.
MANY, LARGE = 1 << 14, 1 << 21
#: The kinds of NumPy's own numbers: half types of others are of another kind.
_KINDS = frozenset("?biufc")
#: A context in which NumPy warns of no number.
_quiet = Context()
_quiet.run(np.seterr, all="ignore")


def quietly(function: Callable[P, T], /, *args: P.args, **options: P.kwargs) -> T:
    """The result of a function that warns of no number, as in a with-block of ``np.errstate``, which takes longer."""
    # A copy, as a context runs one function at a time.
    return _quiet.copy().run(function, *args, **options)


def may(x: Array, *others: Array) -> bool:
    """Whether NumPy can compute a function of arrays: all are on one device, the host, and no tape tracks one.

    It may not in checked launches: it would read what nothing has set without a word.
    """
    device = x.device
    if not device.addressable or mode.active():
        return False
    for one in others:  # a generator costs more than the loop
        if one.device is not device:
            return False
    return not state.active or not tape.recording((x, *others))


def serves(x: Array, *others: Array, least: int = MANY, times: int = 1) -> bool:
    """Whether NumPy is to compute a function of arrays on one device, of which ``x`` has the most elements.

    It does if ``x`` is large, but not so large that other cores help, and it :func:`may`.

    Args:
        x: an array.
        others: the other arrays.
        least: the elements from which an array is large.
        times: how many elements of the result there are for each of ``x``.
    """
    layout = x._layout or x._planned()
    size = layout.size * times
    if not layout.on_host or size < least or layout.dtype.kind not in _KINDS:
        return False
    if size >= LARGE and layout.device.properties.multiprocessors > 1:
        return False
    return may(x, *others)
