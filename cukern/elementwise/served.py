"""Elementwise functions that NumPy serves on the host, as it has a better way than compilers of loops.

Calls for which a kernel has run once do not come here: they are as fast as those of the other functions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..array import Array
from .by_numpy import quiet, serves
from .kinds import Binary, Unary


class Quotient(Binary):
    """Of integers and one number, by whose inverse NumPy multiplies."""

    def _apply(self, operands: tuple[Any, ...]) -> Any:
        x, y = operands
        if type(y) is int and y and type(x) is Array and x.dtype.kind in "iu" and serves(x):
            limits = np.iinfo(x.dtype)
            if limits.min <= y <= limits.max:
                made = quiet().run(np.floor_divide, x._data, x.dtype.type(y), order="C")
                return Array._wrap(made, x.device)
        return super()._apply(operands)


class Product(Binary):
    """Of complex numbers. NumPy's have no infinities of C99's Annex G, which are made where a part is not finite."""

    def _apply(self, operands: tuple[Any, ...]) -> Any:
        made = _product(*operands)
        return super()._apply(operands) if made is None else made


class Square(Unary):
    """Of complex numbers, as :class:`Product`."""

    def _apply(self, operands: tuple[Any, ...]) -> Any:
        made = _product(operands[0], operands[0])
        return super()._apply(operands) if made is None else made


def _product(x: Any, y: Any) -> Array | None:
    """The product by NumPy, or None where it does not serve or a part may be infinite or not a number."""
    if type(x) is not Array or x.dtype.kind != "c":
        return None
    if type(y) is Array:
        if y.dtype != x.dtype or y.shape != x.shape or not serves(x, y):
            return None
        y = y._data
    elif type(y) not in (int, float, complex) or not serves(x):
        return None
    made = quiet().run(np.multiply, x._data, y, order="C")
    parts = made.reshape(-1).view(made.real.dtype)
    return Array._wrap(made, x.device) if np.isfinite(np.dot(parts, parts)) else None
