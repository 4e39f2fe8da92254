"""Quotients of integers by a number, which NumPy serves on the host, as it has a better way than compilers of loops.

Only calls without a plan come here, so that the others take no longer. A kernel that has run for arrays of some layouts
serves them from then on; results are the same bits.
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
