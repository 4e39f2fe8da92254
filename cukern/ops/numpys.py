"""NumPy's functions and objects that take no array and make none, for programs that write ``ck`` for ``np``."""

from __future__ import annotations

from numpy import (
    base_repr,
    binary_repr,
    format_float_positional,
    format_float_scientific,
    get_printoptions,
    index_exp,
    iterable,
    mintypecode,
    ndindex,
    printoptions,
    s_,
    set_printoptions,
    typename,
)

__all__ = [
    "base_repr",
    "binary_repr",
    "format_float_positional",
    "format_float_scientific",
    "get_printoptions",
    "index_exp",
    "iterable",
    "mintypecode",
    "ndindex",
    "printoptions",
    "s_",
    "set_printoptions",
    "typename",
]
