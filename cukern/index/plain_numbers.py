"""Python numbers that NumPy and CuPy write to an array as cukern does."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..array import Array
from ..autodiff import tape
from ..autodiff.state import opened

NUMBERS = frozenset((bool, int, float))
#: By an array's letter of dtype and a number's type: the range in which NumPy and CuPy write such numbers correctly.
_PLAIN_NUMBERS: dict[tuple[str, type], tuple[float, float]] = {
    **{(d, kind): (-float(np.finfo(d).max), float(np.finfo(d).max)) for d in "efd" for kind in NUMBERS},
    **{(d, kind): (np.iinfo(d).min, np.iinfo(d).max) for d in "bhilqBHILQ" for kind in (bool, int)},
    ("?", bool): (False, True),
}


def takes_number(x: Array, value: Any) -> bool:
    """Whether ``x`` may be written to, and ``value`` is a number that NumPy and CuPy write correctly."""
    layout = x._layout or x._planned()
    limits = _PLAIN_NUMBERS.get((layout.dtype.char, type(value)))
    if limits is None or layout.repeated or x._storage.constant or (opened and tape.recording((x,))):
        return False
    least, most = limits
    return least <= value <= most  # type: ignore[no-any-return]
