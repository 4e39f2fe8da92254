"""Floating-point numbers as mantissas and powers of two, and integers as bits."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import numpy as np

from .. import dtypes
from ..array import Array
from ..kernel.by_numpy import by_numpy
from .function import astype
from .fuse import fuse
from .kinds import binary, unary
from .logic import _bits
from .operands import public, require_array, require_arrays
from .table import equal, where
from .ufunc import one_out, written

__all__ = ["bitwise_count", "frexp", "ldexp"]

_FREXP = by_numpy("frexp", warns=True)(partial(np.frexp, order="C"))

_PLAIN = "x == T(0) || x - x != T(0)"

_mantissa = unary(
    "mantissa",
    f"{_PLAIN} ? x : ldexp(x, -1 - ilogb(x))",
    vjp=lambda g, x, r: g * where(equal(x, 0), 1, r / x),
    oracle=lambda x: np.frexp(x)[0],
    doc="x over the power of two that brings it into [0.5, 1); 0, NaN and infinities as they are.",
)
_exponent = unary(
    "exponent",
    f"{_PLAIN} ? T(0) : T(1 + ilogb(x))",
    oracle=lambda x: np.frexp(x)[1].astype(x.dtype),
    doc="The power of two of the mantissa's unit.",
)


def _scaled_oracle(x: Any, y: Any) -> Any:
    powers = np.nan_to_num(y).clip(-5000, 5000).astype(np.int32)
    return np.where(np.isnan(y), y, np.ldexp(x, powers))


_scaled: Any = binary(
    "scaled",
    "y != y ? y : ldexp(x, int(minimum(maximum(y, T(-5000)), T(5000))))",
    vjp=lambda g, x, y, r: (_scaled(g, y), None),
    oracle=_scaled_oracle,
    doc="x times 2 to the power y, a whole number.",
)


@fuse
def _parts(x: Any) -> tuple[Any, Any]:
    return _mantissa(x), astype(_exponent(x), dtypes.int32)


@fuse
def _counted(x: Any) -> Any:
    return astype(_bits(x), dtypes.uint8)


@cache
def _scaling(wide: dtypes.DType, wanted: dtypes.DType) -> Any:
    """One kernel that computes in ``wide``: a power in a half type would not hold every exponent."""

    @fuse
    def scaled(x: Any, powers: Any) -> Any:
        return astype(_scaled(astype(x, wide), astype(powers, wide)), wanted)

    return scaled


@public
def frexp(x: Any, /) -> tuple[Array, Array]:
    """The mantissa, in [0.5, 1) or (-1, -0.5], and the int32 exponent of each element: ``x = mantissa * 2**exponent``.

    The mantissa of 0, NaN and infinities is the element itself, and their exponent 0. The mantissa is differentiable
    with a constant exponent.

    Args:
        x: real numbers; integers are taken in the default floating dtype.

    Raises:
        TypeError: ``x`` is complex.

    >>> import cukern as ck
    >>> mantissa, exponent = ck.frexp(ck.asarray([1.0, -6.0, 0.0]))
    >>> mantissa.tolist(), exponent.tolist()
    ([0.5, -0.75, 0.0], [1, 3, 0])
    """
    a = require_array(x, "frexp")
    if a.dtype in dtypes.COMPLEX:
        raise TypeError(f"frexp: x: expected real numbers, got {a.dtype}")
    if a.dtype.kind == "f" and (parts := _FREXP(a)) is not None:
        return parts
    mantissa, exponent = _parts(a)
    return mantissa, exponent


@public
def ldexp(x1: Any, x2: Any, /, out: Array | None = None) -> Array:
    """x1 times 2 to the power x2, rounded once; the inverse of :func:`frexp`. Differentiable in ``x1``.

    Args:
        x1: real numbers; integers are taken in the default floating dtype.
        x2: integers that broadcast against ``x1``.
        out: an array for the result.

    Raises:
        TypeError: ``x1`` is complex, or ``x2`` has another dtype than integers.
        ValueError: the shapes do not broadcast.

    >>> import cukern as ck
    >>> ck.ldexp(ck.asarray([0.5, -0.75]), ck.asarray([1, 3])).tolist()
    [1.0, -6.0]
    """
    # A Python number would take the dtype of x1.
    exponent = np.int64(x2) if isinstance(x2, int) else x2
    values, powers = require_arrays((x1, exponent), "ldexp", ("x1", "x2"))
    if values.dtype in dtypes.COMPLEX:
        raise TypeError(f"ldexp: x1: expected real numbers, got {values.dtype}")
    if dtypes.info(powers.dtype).kind not in "iub":
        raise TypeError(f"ldexp: x2: expected integers, got {powers.dtype}")
    wanted = dtypes.float_of(values.dtype)
    result = _scaling(dtypes.info(wanted).acc, wanted)(values, powers)
    return result if out is None else written("ldexp", result, one_out("ldexp", out), broadcast=True)


@public
def bitwise_count(x: Any, /, out: Array | None = None) -> Array:
    """How many bits are set in the magnitude of each element, as uint8.

    Args:
        x: integers or bools.
        out: an array for the result.

    Raises:
        TypeError: ``x`` has another dtype.

    >>> import cukern as ck
    >>> ck.bitwise_count(ck.asarray([255, -3, 0])).tolist()
    [8, 2, 0]
    """
    y: Array = _counted(require_array(x, "bitwise_count"))
    return y if out is None else written("bitwise_count", y, one_out("bitwise_count", out), broadcast=True)
