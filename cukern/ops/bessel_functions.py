"""Rows for the Bessel functions of orders 0 and 1; computed to 0.6 units in the last place of float32.

Derivatives are made of functions that have no pole at 0, so those of every order keep their digits there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from ..elementwise.kinds import unary
from ..elementwise.row import scipys
from ..elementwise.table import equal, where

__all__ = ["i0", "i0e", "i1", "i1e", "j0", "j1", "y0", "y1"]


@cache
def _j(n: int) -> Any:
    """The Bessel function of the first kind, of order ``n`` of at least 0."""
    return (j0, j1)[n] if n < 2 else unary(f"j{n}", f"T(bessel::j({n}, x))", vjp=_j_vjp(n), public=False)


@cache
def _i(n: int) -> Any:
    """The modified Bessel function of the first kind, of order ``n`` of at least 0."""
    return (i0, i1)[n] if n < 2 else unary(f"i{n}", f"T(bessel::high_i({n}, x))", vjp=_i_vjp(n), public=False)


def _j_vjp(n: int) -> Callable[..., Any]:
    """The derivative of order ``n`` by its neighbours (Abramowitz and Stegun, 9.1.27)."""
    return lambda g, x, r: (0.5 * g) * (_j(n - 1)(x) - _j(n + 1)(x))


def _i_vjp(n: int) -> Callable[..., Any]:
    """The derivative of order ``n`` by its neighbours (Abramowitz and Stegun, 9.6.26)."""
    return lambda g, x, r: (0.5 * g) * (_i(n - 1)(x) + _i(n + 1)(x))


@cache
def _moment(n: int, odd: bool = False) -> Any:
    """The mean of ``(1 - cos t)**n * exp(|x| * (cos t - 1))`` over all angles t; times the sign of x where ``odd``.

    That for 0 is i0e, which less that for 1 is |i1e|. Their own differences would lose digits of large x.
    """
    return unary(
        f"bessel_moment_{n}{'_odd' if odd else ''}",
        f"{'sign_of(x) * ' if odd else ''}T(bessel::moment({n}, fabs(x)))",
        vjp=lambda g, x, r: -g * _moment(n + 1, not odd)(x),
        public=False,
    )


def _y1_slope(x: Any, y: Any) -> Any:
    """The derivative of y = y1(x); at 0, where y0 is infinite too, infinity."""
    pole = equal(x, 0)
    return where(pole, 0, y0(where(pole, 1, x))) - y / x


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
    vjp=_j_vjp(1),
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
    vjp=lambda g, x, r: g * _y1_slope(x, r),
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
    vjp=_i_vjp(1),
    oracle=scipys("i1"),
    doc="The modified Bessel function of the first kind, of order 1.",
)
i0e: Any = unary(
    "i0e",
    "T(bessel::scaled_i(0, x))",
    vjp=lambda g, x, r: -g * _moment(1, odd=True)(x),
    oracle=scipys("i0e"),
    doc="exp(-|x|) times the modified Bessel function of the first kind, of order 0; odd derivatives at 0 are 0.",
)
i1e: Any = unary(
    "i1e",
    "T(bessel::scaled_i(1, x))",
    vjp=lambda g, x, r: g * (_moment(2)(x) - _moment(1)(x)),
    oracle=scipys("i1e"),
    doc="exp(-|x|) times the modified Bessel function of the first kind, of order 1; even derivatives at 0 are 0.",
)
