"""Quotients of integers by a number, which NumPy serves on the host, as it has a better way than compilers of loops.

Beside them powers of integers, whose exponents are looked at there.

Only calls without a plan come here, so that the others take no longer. A kernel that has run for arrays of some
layouts serves them from then on; results are the same bits.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np

from ..array import Array
from .by_numpy import quiet, serves
from .kinds import Binary


class Quotient(Binary):
    """Of integers and one number, by whose inverse NumPy multiplies."""

    def _apply(self, operands: tuple[Any, ...]) -> Any:
        x, y = operands
        if type(y) is int and y and type(x) is Array and x.dtype.kind in "iu" and serves(x):
            with suppress(OverflowError):  # of a number that the dtype does not hold
                return Array._wrap(quiet().run(np.floor_divide, x._data, y, order="C"), x.device)
        return super()._apply(operands)


def require_powers(x: Any, y: Any) -> None:
    """Raise ValueError for integers to negative integer powers, as far as the host knows the exponents."""
    kind = x.dtype.kind if hasattr(x, "dtype") else "i" if isinstance(x, int) else "f"
    if kind not in "iub":
        return
    if isinstance(y, Array):
        known = y.dtype.kind == "i" and y.device.addressable and y.size
        negative = bool(known) and y._fetched().min() < 0
    else:
        negative = isinstance(y, int) and y < 0
    if negative:
        raise ValueError("pow: integers to negative integer powers are not allowed; make one a float")


class Power(Binary):
    """``x ** y``; of integers no negative powers, which are no integers: the exponents of each call are looked at."""

    def _is_repeated(self, operands: tuple[Any, ...]) -> bool:
        return super()._is_repeated(operands) and operands[0].dtype.kind not in "iub"
