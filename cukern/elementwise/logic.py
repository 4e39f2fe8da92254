"""Rows of logic and of bits."""

from __future__ import annotations

from functools import partial

from .. import dtypes
from .kinds import binary, unary
from .row import ALL, INTEGER

logical_and = binary("logical_and", "x && y", ALL, "bb->b", doc="Whether both are true.")
logical_or = binary("logical_or", "x || y", ALL, "bb->b", doc="Whether one or both are true.")
logical_xor = binary("logical_xor", "x != y", ALL, "bb->b", doc="Whether exactly one is true.")
logical_not = unary("logical_not", "!x", ALL, "b->b", doc="Whether x is false.")
bitwise_and = binary("bitwise_and", "T(x & y)", INTEGER, operator="__and__", doc="The bits set in both.")
bitwise_or = binary("bitwise_or", "T(x | y)", INTEGER, operator="__or__", doc="The bits set in one or both.")
bitwise_xor = binary(
    "bitwise_xor", "T(x ^ y)", INTEGER, operator="__xor__", doc="The bits set in exactly one."
)
bitwise_invert = unary(
    "bitwise_invert",
    "T(~x)",
    INTEGER,
    codes={"b": "!x"},
    operator="__invert__",
    doc="The bits of x inverted.",
)
_bits = unary(
    "bits",
    "T(count_bits(x))",
    "iu",
    bools=dtypes.uint8,
    oracle="bitwise_count",
    doc="The bits set in the magnitude of x.",
)
_shift = partial(binary, types="iu", bools=dtypes.int8, domain=(0, 7))
bitwise_left_shift = _shift(
    "bitwise_left_shift",
    "left_shift(x, y)",
    oracle="left_shift",
    operator="__lshift__",
    doc="The bits of x shifted left by y.",
)
bitwise_right_shift = _shift(
    "bitwise_right_shift",
    "right_shift(x, y)",
    oracle="right_shift",
    operator="__rshift__",
    doc="The bits of x shifted right by y; the sign stays.",
)
