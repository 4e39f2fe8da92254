"""Rows for the Bessel functions of orders 0 and 1; computed to 0.6 units in the last place of float32."""

from __future__ import annotations

from typing import Any

from ..elementwise.kinds import unary
from ..elementwise.row import scipys
from ..elementwise.table import equal, sign, where

__all__ = ["i0", "i0e", "i1", "i1e", "j0", "j1", "y0", "y1"]


def _over(x: Any, y: Any) -> Any:
    """y / x where y is x / 2 + O(x**3)."""
    zero = equal(x, 0)
    return where(zero, 0.5, y / where(zero, 1, x))


j0: Any = unary(
    "j0",
    "T(bessel::j0(x))",
    quick={"float32": "T(bessel::quick_j0(x))"},
    vjp=lambda g, x, r: -g * j1(x),
    oracle=scipys("j0"),
    doc="The Bessel function of the first kind, of order 0.",
)
j1: Any = unary(
    "j1",
    "T(bessel::j1(x))",
    quick={"float32": "T(bessel::quick_j1(x))"},
    vjp=lambda g, x, r: g * (j0(x) - _over(x, r)),
    oracle=scipys("j1"),
    doc="The Bessel function of the first kind, of order 1.",
)
y0: Any = unary(
    "y0",
    "T(bessel::y0(x))",
    vjp=lambda g, x, r: -g * y1(x),
    oracle=scipys("y0"),
    domain=(0.3, 6.0),
    doc="The Bessel function of the second kind, of order 0; NaN below 0.",
)
y1: Any = unary(
    "y1",
    "T(bessel::y1(x))",
    vjp=lambda g, x, r: g * (y0(x) - r / x),
    oracle=scipys("y1"),
    domain=(0.3, 6.0),
    doc="The Bessel function of the second kind, of order 1; NaN below 0.",
)
i0: Any = unary(
    "i0",
    "T(bessel::i(0, x))",
    vjp=lambda g, x, r: g * i1(x),
    oracle=scipys("i0"),
    doc="The modified Bessel function of the first kind, of order 0.",
)
i1: Any = unary(
    "i1",
    "T(bessel::i(1, x))",
    vjp=lambda g, x, r: g * (i0(x) - _over(x, r)),
    oracle=scipys("i1"),
    doc="The modified Bessel function of the first kind, of order 1.",
)
i0e: Any = unary(
    "i0e",
    "T(bessel::scaled_i(0, x))",
    vjp=lambda g, x, r: g * (i1e(x) - sign(x) * r),
    oracle=scipys("i0e"),
    doc="exp(-|x|) times the modified Bessel function of the first kind, of order 0.",
)
i1e: Any = unary(
    "i1e",
    "T(bessel::scaled_i(1, x))",
    vjp=lambda g, x, r: g * (i0e(x) - _over(x, r) - sign(x) * r),
    oracle=scipys("i1e"),
    doc="exp(-|x|) times the modified Bessel function of the first kind, of order 1.",
)
