"""Python numbers that NumPy and CuPy write to an array as cukern does."""

from __future__ import annotations

from typing import Any

from ..array import Array
from ..autodiff import tape
from ..autodiff.state import opened


def takes_number(x: Array, value: Any) -> bool:
    """Whether ``x`` may be written to, and ``value`` is a number that NumPy and CuPy write correctly."""
    limits = (x._layout or x._planned()).numbers.get(type(value))
    if limits is None or x._storage.constant or (opened and tape.recording((x,))):
        return False
    least, most = limits
    return least <= value <= most
