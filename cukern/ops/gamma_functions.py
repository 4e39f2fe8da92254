"""Rows for the gamma function, beta, incomplete gamma and beta, and zeta; computed in double precision."""

from __future__ import annotations

import math
from typing import Any, TypeVar

from ..array.operators import FUNCTIONS
from ..elementwise.function import Elementwise
from ..elementwise.fuse import fuse
from ..elementwise.kinds import binary, ternary, unary
from ..elementwise.operands import public
from ..elementwise.row import scipys
from ..elementwise.special import digamma, lgamma
from ..elementwise.table import equal, log, log1p, where

__all__ = ["beta", "betainc", "betaln", "gamma", "gammainc", "gammaincc", "logit", "multigammaln", "zeta"]

R = TypeVar("R", bound=Elementwise)
_NAN = math.nan


def _hidden(row: R) -> R:
    """A row for derivatives, which is not a public function."""
    del FUNCTIONS[row.name]
    return row


gamma: Any = unary(
    "gamma",
    "tgamma(x)",
    vjp=lambda g, x, r: g * r * digamma(x),
    oracle=scipys("gamma"),
    domain=(0.3, 6.0),
    doc="The gamma function.",
)
beta: Any = binary(
    "beta",
    "T(special::beta_of(double(x), double(y)))",
    vjp=lambda g, x, y, r: (
        g * r * (digamma(x) - digamma(x + y)),
        g * r * (digamma(y) - digamma(x + y)),
    ),
    oracle=scipys("beta"),
    domain=(0.3, 6.0),
    doc="The beta function gamma(x) * gamma(y) / gamma(x + y).",
)
betaln: Any = binary(
    "betaln",
    "T(special::log_beta(double(x), double(y)))",
    vjp=lambda g, x, y, r: (g * (digamma(x) - digamma(x + y)), g * (digamma(y) - digamma(x + y))),
    oracle=scipys("betaln"),
    domain=(0.3, 6.0),
    doc="The logarithm of the absolute value of the beta function.",
)


def _gamma_log_slope(a: Any, x: Any) -> Any:
    """The derivative of the logarithm of :data:`_gamma_density` with respect to a; at 0 what is finite of it."""
    return log(where(equal(x, 0), 1, x)) - digamma(a)


def _gamma_density_slope(a: Any, x: Any, r: Any) -> Any:
    """The derivative with respect to x: near 0 without a division, elsewhere without a difference of what is alike."""
    near = x < 1
    away = r * ((a - 1) / where(near, 1, x) - 1)
    return where(near, _gamma_density(a - 1, x) - _gamma_density(a, x), away)


#: x**(a - 1) * exp(-x) / gamma(a): the derivative of gammainc with respect to x.
_gamma_density: Any = _hidden(
    binary(
        "gamma_density",
        "T(special::gamma_density(double(x), double(y)))",
        vjp=lambda g, a, x, r: (g * r * _gamma_log_slope(a, x), g * _gamma_density_slope(a, x, r)),
    )
)
#: The derivative of gammainc with respect to a. Its own derivative with respect to a is NaN.
_gammainc_slope: Any = _hidden(
    binary(
        "gammainc_slope",
        "T(special::incomplete_gamma_slope(double(x), double(y)))",
        vjp=lambda g, a, x, r: (g * _NAN, g * _gamma_density(a, x) * _gamma_log_slope(a, x)),
    )
)
gammainc: Any = binary(
    "gammainc",
    "T(special::incomplete_gamma(double(x), double(y), false, sizeof(T) == 4))",
    vjp=lambda g, a, x, r: (g * _gammainc_slope(a, x), g * _gamma_density(a, x)),
    oracle=scipys("gammainc"),
    domain=(0.3, 6.0),
    doc="The regularised lower incomplete gamma function P(x, y), 0 to 1; its second derivative in x is NaN.",
)
gammaincc: Any = binary(
    "gammaincc",
    "T(special::incomplete_gamma(double(x), double(y), true, sizeof(T) == 4))",
    vjp=lambda g, a, x, r: (-g * _gammainc_slope(a, x), -g * _gamma_density(a, x)),
    oracle=scipys("gammaincc"),
    domain=(0.3, 6.0),
    doc="The regularised upper incomplete gamma function 1 - P(x, y); its second derivative in x is NaN.",
)


#: The derivative of the logarithm y of a gamma variate with respect to its shape x at constant quantile (Figurnov,
#: Mohamed and Mnih, "Implicit reparameterization gradients", 2018). Its own derivatives are NaN.
log_gamma_slope: Any = _hidden(
    binary(
        "log_gamma_slope",
        "T(special::log_gamma_slope(double(x), double(y)))",
        vjp=lambda g, a, y, r: (g * _NAN, g * _NAN),
    )
)


def _log_slopes(a: Any, b: Any, x: Any) -> tuple[Any, Any]:
    """The derivatives of the logarithm of :data:`_beta_density` with respect to a and b."""
    both = digamma(a + b)
    return log(x) - digamma(a) + both, log1p(-x) - digamma(b) + both


def _beta_density_vjp(g: Any, a: Any, b: Any, x: Any, r: Any) -> tuple[Any, Any, Any]:
    by_a, by_b = _log_slopes(a, b, x)
    return g * r * by_a, g * r * by_b, g * r * ((a - 1) / x - (b - 1) / (1 - x))


#: x**(a - 1) * (1 - x)**(b - 1) / beta(a, b): the derivative of betainc with respect to x.
_beta_density: Any = _hidden(
    ternary(
        "beta_density",
        "T(special::beta_density(double(x), double(y), double(z)))",
        vjp=_beta_density_vjp,
    )
)
#: The derivatives of betainc with respect to a and b. Their own derivatives with respect to these are NaN.
_betainc_slopes: Any = [
    _hidden(
        ternary(
            f"betainc_slope_{'ab'[i]}",
            f"T(special::incomplete_beta_slope(double(x), double(y), double(z), {'false' if i == 0 else 'true'}))",
            vjp=lambda g, a, b, x, r, i=i: (
                g * _NAN,
                g * _NAN,
                g * _beta_density(a, b, x) * _log_slopes(a, b, x)[i],
            ),
        )
    )
    for i in (0, 1)
]
betainc: Any = ternary(
    "betainc",
    "T(special::incomplete_beta(double(x), double(y), double(z)))",
    vjp=lambda g, a, b, x, r: (
        g * _betainc_slopes[0](a, b, x),
        g * _betainc_slopes[1](a, b, x),
        g * _beta_density(a, b, x),
    ),
    oracle=scipys("betainc"),
    domain=(0.1, 0.9),
    doc="The regularised incomplete beta function I_z(x, y), 0 to 1; its second derivatives in x and y are NaN.",
)
zeta_: Any = binary(
    "zeta",
    "T(special::zeta_of(double(x), double(y), sizeof(T) < 8))",
    vjp=lambda g, s, q, r: (g * _NAN, -g * s * zeta_(s + 1, q)),
    oracle=scipys("zeta"),
    domain=(1.3, 6.0),
)


@public
def zeta(x: Any, q: Any = 1.0, /) -> Any:
    """Hurwitz's zeta function, the sum of ``(k + q) ** -x`` over ``k >= 0``; Riemann's by default.

    Args:
        x: an array or a number; the result is infinite at 1 and NaN below. The derivative with respect to it is NaN.
        q: an array or a number; the result is infinite at 0 and negative integers. Differentiable to any order.

    >>> import cukern as ck
    >>> round(zeta(ck.asarray(2.0)).item(), 5)
    1.64493
    """
    return zeta_(x, q)


@public
def multigammaln(a: Any, d: int, /) -> Any:
    """The logarithm of the multivariate gamma function of dimension ``d``, for ``a`` above ``(d - 1) / 2``.

    Args:
        a: an array or a number; the result is NaN where ``a`` is not above that bound.
        d: the dimension, at least 1.

    Raises:
        ValueError: ``d`` is not an integer, or less than 1.

    >>> import cukern as ck
    >>> round(multigammaln(ck.asarray(3.0), 2).item(), 5)
    1.55019
    """
    if not (isinstance(d, int) and d >= 1):
        raise ValueError(f"multigammaln: d: expected an int of at least 1, got {d!r}")
    return _multigammaln(a, d)


@fuse(static=("d",))
def _multigammaln(a: Any, d: int) -> Any:
    result = d * (d - 1) / 4 * math.log(math.pi) + lgamma(a)
    for i in range(1, d):
        result = result + lgamma(a - 0.5 * i)
    return where(a > 0.5 * (d - 1), result, _NAN)


logit = unary(
    "logit",
    "logit_of(x)",
    vjp=lambda g, x, r: g / (x * (1 - x)),
    oracle=scipys("logit"),
    domain=(0.1, 0.9),
    doc="The inverse of sigmoid, log(x / (1 - x)).",
)
