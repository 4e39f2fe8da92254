"""Polynomials by their coefficients, the lowest first, as in :mod:`numpy.polynomial`.

The functions of ``cukern`` itself, such as :func:`cukern.polyval`, take the highest coefficient first.
"""

from __future__ import annotations

from ..namespace.hints import missing as _missing
from . import polynomial, polyutils

__all__ = ["polynomial", "polyutils"]


__getattr__, __dir__ = _missing(__name__, __all__, {}, "numpy.polynomial")
