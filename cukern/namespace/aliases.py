"""NumPy's names of functions that have another name in the Array API."""

from __future__ import annotations

from . import (
    abs,
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    bitwise_invert,
    bitwise_left_shift,
    bitwise_right_shift,
    concat,
    conj,
    deg2rad,
    divide,
    max,
    min,
    pow,
    rad2deg,
    remainder,
    round,
    trunc,
    vstack,
)

absolute = abs
amax = max
amin = min
arccos = acos
arccosh = acosh
arcsin = asin
arcsinh = asinh
arctan = atan
arctan2 = atan2
arctanh = atanh
around = round
bitwise_not = bitwise_invert
concatenate = concat
conjugate = conj
fix = trunc
degrees = rad2deg
invert = bitwise_invert
left_shift = bitwise_left_shift
mod = remainder
power = pow
radians = deg2rad
right_shift = bitwise_right_shift
row_stack = vstack
true_divide = divide

__all__ = [
    "absolute",
    "amax",
    "amin",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "around",
    "bitwise_not",
    "concatenate",
    "conjugate",
    "degrees",
    "fix",
    "invert",
    "left_shift",
    "mod",
    "power",
    "radians",
    "right_shift",
    "row_stack",
    "true_divide",
]
