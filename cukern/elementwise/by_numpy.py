"""Which calls NumPy serves on the host: of many elements that it moves in fewer passes than kernels do."""

from __future__ import annotations

from ..array import Array
from ..autodiff import tape
from ..device.host.checked import mode

#: Elements from which NumPy serves a call, and from which kernels on several cores are faster than its one.
MANY, LARGE = 1 << 14, 1 << 21
#: The kinds of NumPy's own numbers: half types of others are of another kind.
_KINDS = frozenset("?biufc")


def may(x: Array, *others: Array) -> bool:
    """Whether NumPy can compute a function of arrays: all are on one device, the host, and no tape tracks one.

    It may not in checked launches: it would read what nothing has set without a word.
    """
    device = (x._layout or x._planned()).device
    if not device.addressable or mode.active():
        return False
    for one in others:  # a generator costs more than the loop
        if one.device is not device:
            return False
    return not tape.active() or not tape.recording((x, *others))


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
