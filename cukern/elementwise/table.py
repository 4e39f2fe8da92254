"""The elementwise table: one row per operation. The row determines the function, its derivatives of any order, its
operator, documentation and tests, so adding an operation means adding a row.

``code`` is C++ over the operands ``x``, ``y``, ``z`` of type ``T``. ``vjp`` takes the cotangent ``g``, the
operands and the result, as symbols. Where a derivative jumps, ``doc`` states its value at the jump.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import dtypes
from ..array import Array
from .complex_rows import conj, real
from .kinds import Binary, Bounded, Choice, Power, Quotient, Rounding, Unary, binary, unary
from .row import ALL, FLOAT, INEXACT, NUMERIC, REAL, REAL_NUMERIC

_LN2, _LN10 = math.log(2.0), math.log(10.0)
_ROOT_HALF = math.sqrt(0.5)
_ERF, _ERFC = np.vectorize(math.erf, otypes="d"), np.vectorize(math.erfc, otypes="d")


def _wrapping(operator: str, **more: str) -> dict[str, str]:
    """Integer arithmetic that wraps around as in NumPy; signed overflow is undefined in C++."""
    return {"i": f"T(U(x) {operator} U(y))", "u": f"T(U(x) {operator} U(y))", **more}


def _product(x: str, y: str) -> dict[str, str]:
    """The quick expressions of a product of complex numbers."""
    return dict.fromkeys(("complex64", "complex128"), f"complex_parts::plain_product({x}, {y}, signs)")


def _ties(g: Any, x: Any, y: Any, chosen: Any) -> Any:
    """The cotangent of ``x`` where ``x`` is ``chosen`` over ``y``; equal operands share it equally."""
    return where(chosen, g, where(x == y, 0.5 * g, 0))


def _is_complex(x: Any) -> bool:
    return x.dtype in dtypes.COMPLEX


# ----- arithmetic -----

add = binary(
    "add",
    "x + y",
    ALL,
    codes=_wrapping("+", b="x || y"),
    vjp=lambda g, x, y, r: (g, g),
    operator="__add__",
    doc="The sum x + y; logical or for bools.",
)
subtract = binary(
    "subtract",
    "x - y",
    NUMERIC,
    codes=_wrapping("-"),
    vjp=lambda g, x, y, r: (g, -g),
    operator="__sub__",
    doc="The difference x - y.",
)
multiply = binary(
    "multiply",
    "x * y",
    ALL,
    codes=_wrapping("*", b="x && y"),
    quick=_product("x", "y"),
    vjp=lambda g, x, y, r: (g * y, g * x),
    operator="__mul__",
    doc="The product x * y; logical and for bools.",
)
divide = binary(
    "divide",
    "x / y",
    INEXACT,
    integers=dtypes.float64,
    vjp=lambda g, x, y, r: (g / y, -(g / y) * r),
    operator="__truediv__",
    doc="The quotient x / y; in the default floating dtype for integers.",
)
floor_divide: Binary = Quotient(
    "floor_divide",
    "floor_divide(x, y)",
    REAL_NUMERIC,
    "xx->x",
    bools=dtypes.int8,
    operator="__floordiv__",
    doc="The quotient rounded down; integers divided by 0 give 0. Infinities follow the Array API, not NumPy.",
)
remainder = binary(
    "remainder",
    "remainder_of(x, y)",
    REAL_NUMERIC,
    bools=dtypes.int8,
    vjp=lambda g, x, y, r: (g, -g * floor_divide(x, y)),
    operator="__mod__",
    doc="The remainder of floor division, with the sign of y; integers modulo 0 give 0.",
)


def _require_powers(x: Any, y: Any) -> None:
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


def _simple_power(operands: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]] | None:
    """A cheaper row with the same value but for rounding, for some exponents."""
    x, y = operands
    if type(y) in (int, float) and y == 2 and type(x) is Array and x.dtype.kind in "fc":
        return square, (x,)
    _require_powers(x, y)
    if type(y) not in (int, float):
        return None
    kind = dtypes.info(dtypes.as_dtype(x.dtype, "x")).kind if hasattr(x, "dtype") else ""
    if y == 2 and (kind in ("f", "c") or (kind in ("i", "u") and isinstance(y, int))):
        return square, (x,)
    if kind in ("f", "c") and y in _POWERS:
        return _POWERS[y], (x,)
    if kind == "f" and y == 3:
        return cube, (x,)
    return None


def _power_vjp(g: Any, x: Any, y: Any, r: Any) -> Any:
    flat = (x == 0) & (y >= 0)
    if dtypes.info(r.dtype).kind == "c":
        below = where(y == 0, 0, y - 1)  # no infinity in the branch that is not taken
        return where(y == 0, 0, g * y * pow(x, below)), where(flat, 0, g * r * log(where(flat, 1, x)))
    # Finite derivatives at x = 0 whose own are infinite: _weighted has the slope, and 0 / inf that of NaN by y.
    steep = _weighted(x, where(flat & (y <= 1), -math.inf, 0))
    by_y = g * where(flat, steep, r * log(where(flat, 1, x)))
    if isinstance(y, (int, float)) and y != 0:
        return g * y * pow(x, y - 1), by_y
    base = where((y == 0) & isinf(1 / x), math.inf, x)
    return g * (y * pow(base, y - 1) + _weighted(y - 1, where(flat & (y == 1), -math.inf, 0))), by_y


_weighted: Any = binary(
    "weighted",
    "x == T(0) && y == y ? T(0) : x * y",
    vjp=lambda g, x, y, r: (g * y, g * x),
    public=False,
    oracle=lambda x, y: x * y,
    doc="x * y, and 0 where x is 0, also of an infinite y.",
)
pow: Binary = Power(
    "pow",
    "power(x, y)",
    NUMERIC,
    "xx->x",
    codes={"c": "pow(x, y)"},
    bools=dtypes.int8,
    simplify=_simple_power,
    vjp=_power_vjp,
    oracle="power",
    domain=(0.1, 3.0),
    operator="__pow__",
    doc="x to the power y. Negative integer powers of integers raise ValueError; on a GPU and in fused functions those of arrays are truncated towards 0.",
)
negative = unary(
    "negative",
    "-x",
    NUMERIC,
    codes={"i": "T(U(0) - U(x))", "u": "T(U(0) - U(x))"},
    vjp=lambda g, x, r: -g,
    operator="__neg__",
    doc="-x.",
)
positive = unary("positive", "x", NUMERIC, vjp=lambda g, x, r: g, operator="__pos__", doc="A copy of x.")
abs = unary(
    "abs",
    "fabs(x)",
    ALL,
    "x->r",
    codes={"i": "x < T(0) ? T(U(0) - U(x)) : x", "u": "x", "b": "x", "c": "abs(x)"},
    vjp=lambda g, x, r: g * sign(x),
    complex_vjp=lambda g, x, r: g * sign(x),
    operator="__abs__",
    doc="The absolute value; its derivative at 0 is 0. Of a complex 0 the second is infinite or NaN.",
)
sign: Unary = unary(
    "sign",
    "sign_of(x)",
    NUMERIC,
    codes={"c": "direction_of(x)"},
    complex_vjp=lambda g, x, r: (g - r * real(conj(r) * g)) / abs(x),
    doc="The sign of x: -1, 0 or 1; NaN for NaN. Of complex numbers x / |x|, and 0 at 0, where there is no derivative: it is infinite or NaN.",
)
square = unary(
    "square",
    "x * x",
    NUMERIC,
    codes={"i": "T(U(x) * U(x))", "u": "T(U(x) * U(x))"},
    quick=_product("x", "x"),
    bools=dtypes.int8,
    vjp=lambda g, x, r: g * (2 * x),
    doc="x * x.",
)
cube: Any = unary(
    "cube",
    "x * x * x",
    FLOAT,
    vjp=lambda g, x, r: g * (3 * square(x)),
    oracle=lambda x: x**3,
    public=False,
    doc="x * x * x.",
)
reciprocal = unary(
    "reciprocal",
    "T(1) / x",
    INEXACT,
    vjp=lambda g, x, r: -g * (r * r),
    domain=(0.3, 3.0),
    oracle=lambda x: 1 / x,
    doc="1 / x.",
)
sqrt = unary("sqrt", "sqrt(x)", INEXACT, vjp=lambda g, x, r: g * 0.5 / r, domain=(0.1, 4.0), doc="The square root.")
rsqrt = unary(
    "rsqrt",
    "T(1) / sqrt(x)",
    INEXACT,
    vjp=lambda g, x, r: -0.5 * g * r / x,
    domain=(0.2, 4.0),
    oracle=lambda x: 1 / np.sqrt(x),
    doc="1 / sqrt(x).",
)
_POWERS: dict[float, Unary] = {-1: reciprocal, 0.5: sqrt, 1: positive}

# ----- exponentials and logarithms -----

exp = unary("exp", "exp(x)", INEXACT, codes={"h": "__expf(x)"}, vjp=lambda g, x, r: g * r, doc="e to the power x.")
exp2 = unary("exp2", "exp2(x)", INEXACT, vjp=lambda g, x, r: g * r * _LN2, doc="2 to the power x.")
expm1 = unary("expm1", "expm1(x)", INEXACT, vjp=lambda g, x, r: g * exp(x), doc="exp(x) - 1, exact near 0.")
log = unary("log", "log(x)", INEXACT, vjp=lambda g, x, r: g / x, domain=(0.2, 4.0), doc="The natural logarithm.")
log1p = unary(
    "log1p",
    "log1p(x)",
    INEXACT,
    vjp=lambda g, x, r: g / (x + 1),
    domain=(-0.8, 3.0),
    doc="log(1 + x), accurate near 0.",
)
log2 = unary(
    "log2",
    "log2(x)",
    INEXACT,
    vjp=lambda g, x, r: g / (x * _LN2),
    domain=(0.2, 4.0),
    doc="The logarithm to base 2.",
)
log10 = unary(
    "log10",
    "log10(x)",
    INEXACT,
    vjp=lambda g, x, r: g / (x * _LN10),
    domain=(0.2, 4.0),
    doc="The logarithm to base 10.",
)


def _log_add_exp_vjp(g: Any, x: Any, y: Any, r: Any, unit: float = 1.0) -> Any:
    distance = where((x == y) & isinf(x), 0, unit * (x - y))
    return g * sigmoid(distance), g * sigmoid(-distance)


logaddexp = binary(
    "logaddexp",
    "log_add_exp(x, y)",
    vjp=_log_add_exp_vjp,
    doc="log(exp(x) + exp(y)), without overflow.",
)

# ----- trigonometric and hyperbolic functions -----

sin = unary("sin", "sin(x)", INEXACT, vjp=lambda g, x, r: g * cos(x), doc="The sine.")
cos: Unary = unary("cos", "cos(x)", INEXACT, vjp=lambda g, x, r: -g * sin(x), doc="The cosine.")
tan = unary("tan", "tan(x)", INEXACT, vjp=lambda g, x, r: g * (r * r + 1), domain=(-1.2, 1.2), doc="The tangent.")
# The derivatives of asin and atanh; their own keep the digits of a small x, which that of (1 - x) * (1 + x) loses.
_asin_slope: Any = unary(
    "asin_slope",
    "T(1) / sqrt((T(1) - x) * (T(1) + x))",
    INEXACT,
    vjp=lambda g, x, r: g * x * (r * r * r),
    public=False,
)
_atanh_slope: Any = unary(
    "atanh_slope",
    "T(1) / ((T(1) - x) * (T(1) + x))",
    INEXACT,
    vjp=lambda g, x, r: g * x * (2 * r * r),
    public=False,
)
asin = unary(
    "asin",
    "asin(x)",
    INEXACT,
    vjp=lambda g, x, r: g * _asin_slope(x),
    domain=(-0.9, 0.9),
    oracle="arcsin",
    doc="The angle in [-pi/2, pi/2] whose sine is x.",
)
acos = unary(
    "acos",
    "acos(x)",
    INEXACT,
    vjp=lambda g, x, r: -g * _asin_slope(x),
    domain=(-0.9, 0.9),
    oracle="arccos",
    doc="The angle in [0, pi] whose cosine is x.",
)
atan = unary(
    "atan",
    "atan(x)",
    INEXACT,
    vjp=lambda g, x, r: g / (x * x + 1),
    oracle="arctan",
    doc="The angle in [-pi/2, pi/2] whose tangent is x.",
)


def _inverse(h: Any) -> Any:
    """1 / h, and 0 where h is 0, with a derivative of NaN there."""
    return where(h == 0, 0, 1 / h)


def _direction_vjp(g: Any, x: Any, y: Any, r: Any) -> Any:
    across = g * _direction(y, x) / hypot(x, y)
    return across * _direction(y, x), -across * r


_direction: Any = binary(
    "direction",
    f"""x != x || y != y ? x + y : x == T(0) ? x
    : fabs(x) == limits<T>::infinity() ? copysign(fabs(y) == fabs(x) ? T({_ROOT_HALF!r}) : T(1), x)
    : fabs(x) > T(1) ? T(0.5) * x / hypot(T(0.5) * x, T(0.5) * y) : x / hypot(x, y)""",
    vjp=_direction_vjp,
    domain=(0.2, 2.0),
    oracle=lambda x, y: np.where((x == 0) & (y == y), x, np.cos(np.arctan2(y, x))),
    doc="x / hypot(x, y), and 0 at (0, 0): the cosine of the angle between the point (x, y) and the first axis.",
)
atan2 = binary(
    "atan2",
    "atan2(x, y)",
    vjp=lambda g, x, y, r: (g * _direction(y, x) * _inverse(hypot(x, y)), -g * _direction(x, y) * _inverse(hypot(x, y))),
    oracle="arctan2",
    domain=(0.2, 2.0),
    doc="The angle of the point (y, x), in [-pi, pi]; its first derivatives at (0, 0) are 0, the second NaN.",
)
hypot: Any = binary(
    "hypot",
    "hypot(x, y)",
    vjp=lambda g, x, y, r: (g * _direction(x, y), g * _direction(y, x)),
    domain=(0.2, 2.0),
    doc="sqrt(x * x + y * y), without overflow; its first derivatives at (0, 0) are 0, the second NaN.",
)
root_of_squares: Any = unary(
    "root_of_squares",
    "sqrt(x)",
    INEXACT,
    vjp=lambda g, x, r: g * 0.5 * _inverse(r),
    domain=(0.1, 4.0),
    oracle="sqrt",
    public=False,
    doc="The square root with a derivative of 0 at 0, as norms have it, and none of higher order there: NaN.",
)
size_to_power: Any = binary(
    "size_to_power",
    "power(fabs(x), y)",
    vjp=lambda g, x, y, r: (g * where(x == 0, 0, y * pow(abs(x), y - 1) * sign(x)), None),
    domain=(0.2, 2.0),
    oracle=lambda x, y: np.abs(x) ** y,
    public=False,
    doc="abs(x) to the constant power y with a derivative of 0 at x = 0, and none of higher order there if y < 2: NaN.",
)
sinh = unary("sinh", "sinh(x)", INEXACT, vjp=lambda g, x, r: g * cosh(x), doc="The hyperbolic sine.")
cosh: Unary = unary("cosh", "cosh(x)", INEXACT, vjp=lambda g, x, r: g * sinh(x), doc="The hyperbolic cosine.")
# The derivative uses x, because 1 - r * r loses all digits of the result r where it is small.
tanh = unary(
    "tanh",
    "tanh(x)",
    INEXACT,
    vjp=lambda g, x, r: g * (1 - r * r if _is_complex(x) else 4 * _logistic_density(2 * x)),
    doc="The hyperbolic tangent.",
)
_logistic_density: Any = unary(
    "logistic_density",
    "T(1) / (T(2) + exp(x) + exp(-x))",
    codes={"h": "__fdividef(T(1), T(2) + __expf(x) + __expf(-x))"},
    vjp=lambda g, x, r: -g * r * tanh(0.5 * x),
    oracle=lambda x: 1 / (2 + 2 * np.cosh(x)),
    doc="The derivative of sigmoid, sigmoid(x) * sigmoid(-x), accurate where it is small.",
)
asinh = unary(
    "asinh",
    "asinh(x)",
    INEXACT,
    vjp=lambda g, x, r: g / (sqrt(x * x + 1) if _is_complex(x) else hypot(x, 1)),
    oracle="arcsinh",
    doc="The inverse hyperbolic sine.",
)
acosh = unary(
    "acosh",
    "acosh(x)",
    INEXACT,
    vjp=lambda g, x, r: g * rsqrt(x - 1) * rsqrt(x + 1),
    domain=(1.2, 4.0),
    oracle="arccosh",
    doc="The inverse hyperbolic cosine.",
)
atanh = unary(
    "atanh",
    "atanh(x)",
    INEXACT,
    vjp=lambda g, x, r: g * _atanh_slope(x),
    domain=(-0.9, 0.9),
    oracle="arctanh",
    doc="The inverse hyperbolic tangent.",
)

# ----- activations and special functions -----

relu = unary(
    "relu",
    "maximum(x, T(0))",
    REAL_NUMERIC,
    vjp=lambda g, x, r: where(r > 0, g, 0),
    bools=dtypes.int8,
    oracle=lambda x: x * (x > 0),
    doc="The larger of x and 0; its derivative at 0 is 0.",
)
sigmoid = unary(
    "sigmoid",
    "sigmoid(x)",
    codes={"h": "__fdividef(T(1), T(1) + __expf(-x))"},
    vjp=lambda g, x, r: g * _logistic_density(x),
    oracle=lambda x: 1 / (1 + np.exp(-x)),
    doc="1 / (1 + exp(-x)).",
)
softplus = unary(
    "softplus",
    "softplus(x)",
    vjp=lambda g, x, r: g * sigmoid(x),
    oracle=lambda x: np.logaddexp(x, 0),
    doc="log(1 + exp(x)), without overflow.",
)
silu = unary(
    "silu",
    "maximum(x, T(-1e30)) * sigmoid(x)",
    codes={"h": "maximum(x, T(-1e30)) * __fdividef(T(1), T(1) + __expf(-x))"},
    vjp=lambda g, x, r: g * (sigmoid(x) * (1 + where(isinf(x), 0, x) * sigmoid(-x))),
    oracle=lambda x: x / (1 + np.exp(-x)),
    doc="x * sigmoid(x), also known as swish.",
)
erf = unary(
    "erf",
    "erf(x)",
    vjp=lambda g, x, r: g * (2 / math.sqrt(math.pi)) * exp(-x * x),
    oracle=_ERF,
    doc="The error function.",
)
erfc: Unary = unary(
    "erfc",
    "erfc_of(x)",
    codes={"h": "erfc_of_half(x)"},
    vjp=lambda g, x, r: -g * (2 / math.sqrt(math.pi)) * exp(-x * x),
    oracle=_ERFC,
    doc="1 - erf(x), accurate where it is small.",
)

# ----- rounding -----

floor = unary("floor", "floor(x)", REAL, codes=dict.fromkeys("iub", "x"), doc="The largest integer at most x.")
ceil = unary("ceil", "ceil(x)", REAL, codes=dict.fromkeys("iub", "x"), doc="The smallest integer at least x.")
trunc = unary("trunc", "trunc(x)", REAL, codes=dict.fromkeys("iub", "x"), doc="x rounded towards 0.")
round = Rounding(
    "round",
    "rint(x)",
    NUMERIC,
    "x->x",
    codes=dict.fromkeys("iu", "x"),
    bools=dtypes.float16,
    doc="x rounded to ``decimals`` decimal places, halves to even.",
)

# ----- comparison and choice -----

maximum = binary(
    "maximum",
    "maximum(x, y)",
    ALL,
    codes={"b": "x || y"},
    vjp=lambda g, x, y, r: (_ties(g, x, y, x > y), _ties(g, x, y, y > x)),
    doc="The larger of the two, NaN if either is; equal operands share the derivative.",
)
minimum = binary(
    "minimum",
    "minimum(x, y)",
    ALL,
    codes={"b": "x && y"},
    vjp=lambda g, x, y, r: (_ties(g, x, y, x < y), _ties(g, x, y, y < x)),
    doc="The smaller of the two, NaN if either is; equal operands share the derivative.",
)
where: Choice = Choice(
    "where",
    "x ? y : z",
    ALL,
    "bxx->x",
    vjp=lambda g, c, x, y, r: (None, where(c, g, 0), where(c, 0, g)),
    doc="y where x is true, else z; with x alone, the indices of its true elements, as nonzero.",
)


def _one_bound(operands: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]] | None:
    """``clip`` with fewer bounds: Python integers beyond the dtype's range are no bounds, as in NumPy."""
    x, low, high = operands
    if (type(low) is int or type(high) is int) and getattr(x, "dtype", None) in dtypes.INTS:
        limits = np.iinfo(x.dtype)
        low = None if type(low) is int and low < limits.min else low
        high = None if type(high) is int and high > limits.max else high
    if low is not None and high is not None:
        return None
    if high is not None:
        return minimum, (x, high)
    return (positive, (x,)) if low is None else (maximum, (x, low))


clip = Bounded(
    "clip",
    "minimum(maximum(x, y), z)",
    NUMERIC,
    "xxx->x",
    simplify=_one_bound,
    vjp=lambda g, x, low, high, r: (
        where((x >= low) & (x <= high), g, 0),
        where((x < low) & (low <= high), g, 0),
        where((x > high) | (low > high), g, 0),
    ),
    doc="x limited to the range from min to max; its derivative at a bound is 1.",
)
equal = binary("equal", "x == y", ALL, "xx->b", operator="__eq__", doc="Whether x == y.")
not_equal = binary("not_equal", "x != y", ALL, "xx->b", operator="__ne__", doc="Whether x != y.")
less = binary("less", "x < y", ALL, "xx->b", operator="__lt__", doc="Whether x < y.")
less_equal = binary("less_equal", "x <= y", ALL, "xx->b", operator="__le__", doc="Whether x <= y.")
greater = binary("greater", "x > y", ALL, "xx->b", operator="__gt__", doc="Whether x > y.")
greater_equal = binary("greater_equal", "x >= y", ALL, "xx->b", operator="__ge__", doc="Whether x >= y.")
isnan = unary("isnan", "false", ALL, "x->b", codes={"f": "x != x", "c": "x != x"}, doc="Whether x is NaN.")
isinf: Unary = unary(
    "isinf",
    "false",
    ALL,
    "x->b",
    codes={"f": "fabs(x) == limits<T>::infinity()", "c": "is_infinite(x)"},
    doc="Whether x is infinite.",
)
isfinite = unary(
    "isfinite",
    "true",
    ALL,
    "x->b",
    codes={"f": "fabs(x) < limits<T>::infinity()", "c": "is_finite(x)"},
    doc="Whether x is neither infinite nor NaN.",
)
