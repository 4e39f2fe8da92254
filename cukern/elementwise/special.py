"""Further rows of the elementwise table: special functions, and NumPy's functions outside the Array API."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from .. import dtypes
from ..array import Array
from .complex_rows import _times_i, conj, from_parts, imag, real
from .function import astype
from .fuse import fuse
from .kinds import binary, parametric, ternary, unary
from .operands import public, require_array
from .row import ALL, INEXACT, REAL, REAL_NUMERIC, scipys
from .table import (
    _log_add_exp_vjp,
    _logistic_density,
    _weighted,
    abs,
    equal,
    erfc,
    exp,
    expm1,
    floor_divide,
    isinf,
    isnan,
    log,
    log1p,
    maximum,
    remainder,
    sigmoid,
    sign,
    softplus,
    tanh,
    trunc,
    where,
)
from .ufunc import one_out, written

_PI, _LN2, _ROOT_HALF = math.pi, math.log(2.0), math.sqrt(0.5)
_ERFC = np.vectorize(math.erfc, otypes="d")
_LGAMMA = np.vectorize(
    lambda x: math.inf if x <= 0 and (x == -math.inf or x == math.floor(x)) else math.lgamma(x), otypes="d"
)


def _digamma_oracle(x: Any) -> Any:
    """The derivative of lgamma by its recurrence: an asymptotic psi(x + 20) minus 20 reciprocals."""
    big = np.asarray(x, np.float64) + 20
    series = np.log(big) - 0.5 / big - 1 / (12 * big**2) + 1 / (120 * big**4) - 1 / (252 * big**6)
    return series - np.sum([1 / (big - k) for k in range(1, 21)], axis=0)


# ----- floating point -----

copysign: Any = binary(
    "copysign",
    "copysign(x, y)",
    vjp=lambda g, x, y, r: (g * copysign(1.0, x) * copysign(1.0, y), None),
    doc="The absolute value of x with the sign of y.",
)
fabs = unary(
    "fabs", "fabs(x)", vjp=lambda g, x, r: g * sign(x), doc="The absolute value, of integers as a float."
)
rint = unary("rint", "rint(x)", INEXACT, doc="x rounded to the nearest integer, halves to even, as a float.")
signbit = unary(
    "signbit",
    "x < T(0)",
    REAL,
    "x->b",
    codes={"f": "signbit(x)", "u": "false", "b": "false"},
    doc="Whether the sign bit of x is set, also that of -0.0 and NaN.",
)


nextafter = binary(
    "nextafter",
    "nextafter(x, y)",
    vjp=lambda g, x, y, r: (g, None),
    halves=False,
    doc="The next number after x towards y; float32 and float64 only.",
)
spacing = unary(
    "spacing",
    "nextafter(x, x < T(0) ? -limits<T>::infinity() : limits<T>::infinity()) - x",
    vjp=lambda g, x, r: 0 * g,
    halves=False,
    doc="The distance from x to the next number away from 0, negative for negative x; NaN for infinite x.",
)
fmod = binary(
    "fmod",
    "fmod(x, y)",
    REAL_NUMERIC,
    codes={"i": "y == T(0) || y == T(-1) ? T(0) : T(x % y)", "u": "y == T(0) ? T(0) : T(x % y)"},
    bools=dtypes.int8,
    vjp=lambda g, x, y, r: (g, -g * trunc(x / y)),
    doc="The remainder of the division rounded towards 0, with the sign of x; integers modulo 0 give 0.",
)
fmax = binary(
    "fmax",
    "x != x ? y : y != y ? x : maximum(x, y)",
    ALL,
    codes={"b": "x || y"},
    vjp=lambda g, x, y, r: (_chosen(g, x, y, x > y), _chosen(g, y, x, y > x)),
    doc="The larger of the two, or the one that is not NaN; equal operands share the derivative.",
)
fmin = binary(
    "fmin",
    "x != x ? y : y != y ? x : minimum(x, y)",
    ALL,
    codes={"b": "x && y"},
    vjp=lambda g, x, y, r: (_chosen(g, x, y, x < y), _chosen(g, y, x, y < x)),
    doc="The smaller of the two, or the one that is not NaN; equal operands share the derivative.",
)


def _chosen(g: Any, x: Any, y: Any, wins: Any) -> Any:
    """The cotangent of ``x`` where ``x`` wins or ``y`` is NaN."""
    return where(wins | isnan(y), g, where(equal(x, y), 0.5 * g, 0))


heaviside = binary(
    "heaviside",
    "x != x ? x : x == T(0) ? y : x < T(0) ? T(0) : T(1)",
    vjp=lambda g, x, y, r: (None, where(equal(x, 0), g, 0)),
    doc="0 where x < 0, y where x == 0, 1 where x > 0.",
)
isposinf = unary(
    "isposinf",
    "false",
    REAL,
    "x->b",
    codes={"f": "x == limits<T>::infinity()"},
    doc="Whether x is +infinity.",
)
isneginf = unary(
    "isneginf",
    "false",
    REAL,
    "x->b",
    codes={"f": "x == -limits<T>::infinity()"},
    doc="Whether x is -infinity.",
)
gcd = binary(
    "gcd",
    "greatest_divisor(x, y)",
    "iu",
    domain=(-2, 40),
    doc="The greatest common divisor, never negative.",
)
lcm = binary(
    "lcm", "least_multiple(x, y)", "iu", domain=(-2, 9), doc="The least common multiple, never negative."
)
deg2rad = unary(
    "deg2rad", f"x * T({_PI / 180!r})", vjp=lambda g, x, r: g * (_PI / 180), doc="Degrees in radians."
)
rad2deg = unary(
    "rad2deg", f"x * T({180 / _PI!r})", vjp=lambda g, x, r: g * (180 / _PI), doc="Radians in degrees."
)
lerp = ternary(
    "lerp",
    "x + z * (y - x)",
    INEXACT,
    vjp=lambda g, x, y, z, r: (g * (1 - z), g * z, g * (y - x)),
    oracle=lambda x, y, z: x + z * (y - x),
    doc="Linear interpolation: x + z * (y - x).",
)

# ----- complex numbers -----

_phase = unary(
    "phase",
    "atan2(T(0), x)",
    INEXACT,
    "x->r",
    codes={"c": "arg(x)"},
    vjp=lambda g, x, r: 0 * g,
    complex_vjp=lambda g, x, r: _times_i(g) * where(x == 0, 0, 1 / conj(x)),
    oracle=lambda x: np.arctan2(np.imag(x), np.real(x)),
    doc="The angle of a complex number, in [-pi, pi]; its first derivative at 0 is 0, the second NaN.",
)


@public
def angle(z: Any, deg: bool = False) -> Any:
    """The angle of complex numbers, in [-pi, pi]; 0 or pi of real ones. At 0 the first derivative is 0, the second NaN.

    Args:
        z: any array.
        deg: whether in degrees.

    >>> import cukern as ck
    >>> ck.angle(ck.asarray([1.0, -1.0, 1j]), deg=True).tolist()
    [0.0, 180.0, 90.0]
    """
    result = _phase(z)
    return rad2deg(result) if deg else result


# ----- special functions -----

cbrt = unary(
    "cbrt",
    "cbrt(x)",
    vjp=lambda g, x, r: g / (3 * r * r),
    domain=(0.2, 4.0),
    doc="The cube root, also of negative numbers.",
)
logaddexp2 = binary(
    "logaddexp2",
    f"x == y ? x + T(1) : maximum(x, y) + log1p(exp2(-fabs(x - y))) * T({1 / _LN2!r})",
    vjp=lambda g, x, y, r: _log_add_exp_vjp(g, x, y, r, _LN2),
    doc="log2(2**x + 2**y), without overflow.",
)


def _xlogy_vjp(g: Any, x: Any, y: Any, r: Any) -> Any:
    none = equal(x, 0) & equal(y, 0)
    slope = where(none, math.inf, 1 / where(none, 1, y))
    return g * where(equal(x, 0) & (y <= 0), 0, log(y)), g * _weighted(x, slope)


xlogy = binary(
    "xlogy",
    "x == T(0) && y == y ? T(0) : x * log(y)",
    domain=(0.2, 3.0),
    vjp=_xlogy_vjp,
    oracle=lambda x, y: x * np.log(y),
    doc="x * log(y), and 0 where x is 0; its first derivatives at (0, 0) are 0.",
)


def _binary_entropy_vjp(g: Any, p: Any, t: Any, r: Any) -> Any:
    hit, miss = maximum(log(p), -100.0), maximum(log1p(-p), -100.0)
    wide = p.astype(dtypes.info(p.dtype).acc)  # float16 has no 1e-12
    return g * (wide - t) / maximum(wide * (1 - wide), 1e-12), g * (miss - hit)


#: Logarithms are at least -100 and the divisor of the derivative at least 1e-12, as in PyTorch: none is infinite.
_binary_entropy: Any = binary(
    "binary_entropy",
    "-(y * maximum(log(x), T(-100)) + (T(1) - y) * maximum(log1p(-x), T(-100)))",
    domain=(0.1, 0.9),
    vjp=_binary_entropy_vjp,
    oracle=lambda x, y: -(y * np.log(x) + (1 - y) * np.log1p(-x)),
    doc="-(y * log(x) + (1 - y) * log(1 - x)), with logarithms of at least -100.",
)


@cache
def _spherical(n: int) -> Any:
    """The spherical Bessel function of order ``n`` of at least 1 of ``pi * x``; sinc is that of order 0."""
    return unary(
        f"spherical_j{n}",
        f"T(bessel::spherical({n}, double(x)))",
        INEXACT,
        codes={"c": f"T(bessel::spherical({n}, complex<double>(x)))"},
        vjp=lambda g, x, r: (
            g
            * (_PI / (2 * n + 1))
            * (n * (_spherical(n - 1) if n > 1 else sinc)(x) - (n + 1) * _spherical(n + 1)(x))
        ),
        public=False,
    )


sinc = unary(
    "sinc",
    types=INEXACT,
    integers=dtypes.float64,
    code=f"x == T(0) ? T(1) : sin(T({_PI!r}) * x) / (T({_PI!r}) * x)",
    codes={"f": "sinc_of(x)"},
    vjp=lambda g, x, r: -_PI * g * _spherical(1)(x),
    doc="sin(pi * x) / (pi * x), and 1 at 0.",
)
lgamma = unary(
    "lgamma",
    "lgamma(x)",
    vjp=lambda g, x, r: g * digamma(x),
    oracle=_LGAMMA,
    domain=(0.3, 6.0),
    doc="The logarithm of the absolute value of the gamma function.",
)
digamma: Any = unary(
    "digamma",
    "T(digamma_of(double(x), sizeof(T) < 8))",
    vjp=lambda g, x, r: g * _polygamma(1, x),
    oracle=_digamma_oracle,
    domain=(0.3, 6.0),
    doc="The derivative of lgamma.",
)
_polygamma: Any = binary(
    "polygamma",
    "T(polygamma_of(double(x), double(y), sizeof(T) < 8))",
    vjp=lambda g, n, x, r: (None, g * _polygamma(n + 1, x)),
    doc="The x-th derivative of digamma at y, for integers x.",
)


@public
def polygamma(n: int, x: Any, /) -> Any:
    """The ``n``-th derivative of digamma; digamma itself for 0.

    Args:
        n: the order, at least 0.
        x: an array or a number; the result is NaN below -2**20. Integers are computed in float64.

    Raises:
        ValueError: ``n`` is not an integer, or negative.
    """
    if not (isinstance(n, int) and n >= 0):
        raise ValueError(f"polygamma: n: expected an int of at least 0, got {n!r}")
    return _polygamma(n, x)


erfinv = unary(
    "erfinv",
    "erfinv(x)",
    vjp=lambda g, x, r: g * (math.sqrt(_PI) / 2) * exp(r * r),
    domain=(-0.9, 0.9),
    oracle=lambda x: _erfinv_oracle(x),
    doc="The inverse of the error function.",
)


def _erfinv_oracle(y: Any) -> Any:
    """Newton's method on math.erf."""
    y = np.asarray(y, np.float64)
    x = np.zeros_like(y)
    for _ in range(60):
        x = x - (np.vectorize(math.erf, otypes="d")(x) - y) * math.sqrt(_PI) / 2 * np.exp(x * x)
    return x


erfcinv = unary(
    "erfcinv",
    "erfcinv(x)",
    vjp=lambda g, x, r: -g * (math.sqrt(_PI) / 2) * exp(r * r),
    domain=(0.1, 1.9),
    oracle=scipys("erfcinv"),
    doc="The inverse of the complementary error function.",
)

# ----- activations -----


def _elu_vjp(g: Any, x: Any, y: Any, r: Any) -> Any:
    below = where(x > 0, 0, x)  # no infinity in the branch that is not taken
    return where(x > 0, g, g * y * exp(below)), where(x > 0, 0, g * expm1(below))


elu = parametric(
    "elu",
    "x > T(0) ? x : alpha * expm1(x)",
    names=("x", "alpha"),
    defaults=(1.0,),
    vjp=_elu_vjp,
    oracle=lambda x, y: np.where(x > 0, x, y * np.expm1(np.minimum(x, 0))),
    doc="x where it is positive, else alpha * (exp(x) - 1); alpha is 1 by default.",
)


def _bounded(x: Any) -> Any:
    """x where derivatives of gelu depend on it, so that no infinity meets zero."""
    return where(x < -40, -40, where(x > 40, 40, x))


def _gelu_vjp(g: Any, x: Any, r: Any) -> Any:
    x = _bounded(x)
    return g * (0.5 * erfc(-_ROOT_HALF * x) + math.sqrt(0.5 / math.pi) * x * exp(-0.5 * x * x))


gelu = unary(
    "gelu",
    "T(0.5) * maximum(x, T(-1e30)) * erfc_of(x * T(-0.7071067811865476))",
    codes={"float16": "gelu_of_half(x)", "bfloat16": "gelu_of_bfloat16(x)"},
    vjp=_gelu_vjp,
    oracle=lambda x: x * 0.5 * _ERFC(-_ROOT_HALF * x),
    doc="x times the standard normal distribution function of x.",
)

_TANH_SCALE = math.sqrt(2 / _PI)
#: Of powers of two instead of tanh.
_TANH_POWER = -2 * _TANH_SCALE / math.log(2)


def _gelu_tanh_vjp(g: Any, x: Any, r: Any) -> Any:
    x = _bounded(x)
    s = 2 * _TANH_SCALE * (x + 0.044715 * x * x * x)
    p = sigmoid(s)
    # What 1 - p loses where p is near 1 is little beside p.
    return g * (p + x * (p * (1 - p)) * (2 * _TANH_SCALE * (1 + 3 * 0.044715 * x * x)))


gelu_tanh = unary(
    "gelu_tanh",
    f"maximum(x, T(-1e30)) * sigmoid(T({2 * _TANH_SCALE!r}) * (x + T(0.044715) * x * x * x))",
    codes={
        "h": "maximum(x, T(-1e30)) * "
        f"__fdividef(T(1), T(1) + exp2(x * (T({_TANH_POWER!r}) + T({0.044715 * _TANH_POWER!r}) * (x * x))))"
    },
    vjp=_gelu_tanh_vjp,
    oracle=lambda x: 0.5 * x * (1 + np.tanh(_TANH_SCALE * (x + 0.044715 * x**3))),
    doc="An approximation of gelu by tanh (Hendrycks and Gimpel, 2016).",
)
leaky_relu = parametric(
    "leaky_relu",
    "x > T(0) ? x : negative_slope * x",
    names=("x", "negative_slope"),
    defaults=(0.01,),
    vjp=lambda g, x, y, r: (where(x > 0, g, g * y), where(x > 0, 0, g * x)),
    oracle=lambda x, y: np.where(x > 0, x, y * x),
    doc="x where it is positive, else negative_slope * x; negative_slope is 0.01 by default.",
)
log_sigmoid = unary(
    "log_sigmoid",
    "-softplus(-x)",
    vjp=lambda g, x, r: g * sigmoid(-x),
    oracle=lambda x: -np.logaddexp(0, -x),
    doc="The logarithm of sigmoid(x), accurate where it is small.",
)


def _mish_vjp(g: Any, x: Any, r: Any) -> Any:
    s = softplus(x)
    return g * (tanh(s) + where(isinf(x), 0, x) * sigmoid(x) * (4 * _logistic_density(2 * s)))


mish = unary(
    "mish",
    "maximum(x, T(-1e30)) * tanh(softplus(x))",
    vjp=_mish_vjp,
    oracle=lambda x: np.maximum(x, -1e30) * np.tanh(np.logaddexp(x, 0)),
    doc="x * tanh(softplus(x)) (Misra, 2019).",
)
softsign = unary(
    "softsign",
    "x / (T(1) + fabs(x))",
    vjp=lambda g, x, r: g / ((1 + abs(x)) * (1 + abs(x))),
    oracle=lambda x: x / (1 + np.abs(x)),
    doc="x / (1 + |x|).",
)

# ----- functions over rows -----


@public
def divmod(
    x: Any,
    y: Any,
    out1: Array | None = None,
    out2: Array | None = None,
    /,
    out: tuple[Array | None, Array | None] = (None, None),
    **options: Any,
) -> tuple[Array, Array]:
    """The quotient rounded down, and the remainder, which has the sign of y.

    Args:
        x: an array or a number.
        y: an array or a number.
        out1: the array to write the quotient to; ``out`` names both.
        out2: the array to write the remainder to.
        out: both in a tuple.
        options: ``where``, ``dtype`` and ``casting``, as of :func:`floor_divide`.
    """
    first, second = (one if one is not None else other for one, other in zip((out1, out2), out, strict=True))
    both = isinstance(x, Array) and isinstance(y, Array) and not options
    if both and first is None and second is None:
        result: tuple[Array, Array] = _divided(x, y)
        return result
    quotient = floor_divide(x, y, **options)
    rest = remainder(x, y, out=second, **options)
    return written("divmod", quotient, one_out("divmod", first), broadcast=True), rest


@fuse
def _divided(x: Any, y: Any) -> tuple[Any, Any]:
    return floor_divide(x, y), remainder(x, y)


@public
def modf(x: Array, /) -> tuple[Array, Array]:
    """The fractional and the whole part, both with the sign of x."""
    result: tuple[Array, Array] = _parts(require_array(x, "modf"))
    return result


@fuse
def _parts(x: Any) -> tuple[Any, Any]:
    whole = trunc(x)
    return copysign(where(equal(x, whole), 0, x - whole), x), whole


@fuse
def _replaced(x: Any, nan: Any, high: Any, low: Any) -> Any:
    return where(isnan(x), nan, where(isposinf(x), high, where(isneginf(x), low, x)))


@public
def nan_to_num(
    x: Array, /, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None
) -> Array:
    """Replace NaN and infinities in ``x``: by default with 0, and the dtype's largest and smallest number.

    Differentiable with respect to ``x`` and the replacements, which may be arrays that broadcast to its shape.

    Args:
        x: any array; integers are returned unchanged. Parts of complex numbers are replaced by themselves.
        copy: has no effect: ``x`` is never written.
        nan: replaces NaN.
        posinf: replaces +infinity.
        neginf: replaces -infinity.
    """
    x = require_array(x, "nan_to_num")
    if x.dtype in dtypes.COMPLEX:
        return from_parts(*(nan_to_num(part, copy, nan, posinf, neginf) for part in (real(x), imag(x))))
    if dtypes.info(x.dtype).kind != "f":
        return astype(x, x.dtype)
    limits: Any = ml_dtypes.finfo(x.dtype)  # type: ignore[no-untyped-call]
    values = (nan, limits.max if posinf is None else posinf, limits.min if neginf is None else neginf)
    result: Array = _replaced(x, *(astype(n, x.dtype) if isinstance(n, Array) else float(n) for n in values))
    if result.shape != x.shape:
        raise ValueError(f"nan_to_num: nan, posinf, neginf: they do not broadcast to shape {x.shape}")
    return result
