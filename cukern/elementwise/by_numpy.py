"""Which calls NumPy serves on the host: of many elements that it moves in fewer passes than kernels do."""

from __future__ import annotations

from ..array import Array
from ..autodiff import tape
from ..device.host.checked import mode

#: Elements from which NumPy serves a call, and from which kernels on several cores are faster than its one.
MANY, LARGE = 1 << 14, 1 << 21
#: The kinds of NumPy's own numbers: half types of others are of another kind.
_KINDS = frozenset("?biufc")


def serves(x: Array, *others: Array) -> bool:
    """Whether NumPy is to compute a function of arrays on one device, of which ``x`` has the most elements.

    It does on the host if ``x`` is large, but not so large that other cores help, no tape tracks an array, and launches
    are not checked: NumPy reads what nothing has set without a word.
    """
    layout = x._layout or x._planned()
    if not layout.on_host or layout.size < MANY or layout.dtype.kind not in _KINDS:
        return False
    if layout.size >= LARGE and layout.device.properties.multiprocessors > 1:
        return False
    if mode.active() or any(one.device is not layout.device for one in others):
        return False
    return not tape.active() or not tape.recording((x, *others))
