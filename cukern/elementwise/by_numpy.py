"""Which calls NumPy serves on the host: of many elements that it moves in fewer passes than kernels do."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import Context
from functools import lru_cache

import numpy as np

from ..array import Array
from ..array.layout import Layout
from ..autodiff import tape
from ..autodiff.state import opened
from ..device import kernels_only

#: Elements from which NumPy serves a call.
MANY = 1 << 14
#: Elements from which kernels on several cores are faster than NumPy's one.
LARGE = 1 << 21
#: The kinds of NumPy's own numbers: half types of others are of another kind.
_KINDS = frozenset("?biufc")
_quiet = Context()
_quiet.run(np.seterr, all="ignore")
#: ``quiet().run(f, x)`` is ``f(x)`` without NumPy's warnings, in less time than a with-block of ``np.errstate`` takes.
#: Each call makes a copy, as a context runs one function at a time.
quiet = _quiet.copy


def is_free(arrays: Sequence[Array]) -> bool:
    """Whether no tape tracks one of the arrays, and not kernels alone compute.

    In checked launches, too, NumPy would read what nothing has set without a word.
    """
    return not kernels_only.active() and (not opened or not tape.recording(arrays))


def serves(x: Array, *others: Array, least: int = MANY, times: int = 1) -> bool:
    """Whether NumPy is to compute a function of arrays on one device, of which ``x`` has the most elements.

    It does if ``x`` is large, but not so large that other cores help, and the arrays are free.

    Args:
        x: an array.
        others: the other arrays.
        least: the elements from which an array is large.
        times: how many elements of the result there are for each of ``x``.
    """
    form = x._layout or x._ndarray  # a view may have no layout yet, which would take longer to find
    size, device = form.size * times, x.device
    # In this one function, as another call would be a twentieth of what serving takes.
    if size < least or form.dtype.kind not in _KINDS or not device.addressable or kernels_only.active():
        return False
    if size >= LARGE and device.properties.multiprocessors > 1:
        return False
    for one in others:
        if one.device is not device:
            return False
    return not opened or not tape.recording((x, *others))


def serves_alike(arrays: Sequence[Array]) -> bool:
    """Whether NumPy is to join arrays: they have one dtype and device, and it serves the largest of them."""
    return _are_alike(*[x._layout or x._planned() for x in arrays]) and is_free(arrays)


@lru_cache(maxsize=4096)
def _are_alike(*layouts: Layout) -> bool:
    first, largest = layouts[0], max(layouts, key=lambda one: one.size)
    alike = all(one.dtype == first.dtype and one.device is first.device for one in layouts)
    if not alike or largest.size < MANY or first.dtype.kind not in _KINDS or not first.on_host:
        return False
    return largest.size < LARGE or first.device.properties.multiprocessors == 1
