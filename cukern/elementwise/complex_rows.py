"""Rows of complex numbers: the parts, the conjugate, and which numbers are real."""

from __future__ import annotations

from functools import partial
from typing import Any, overload

import numpy as np

from .. import dtypes
from ..array import Array
from ..array.creation import zeros
from ..array.layout import Layout, known_layout
from ..array.making import Maker, cleared
from ..cache import Cache
from .function import ArrayLike, astype
from .graph import SYMBOLS, Expr
from .kinds import Binary, Unary, binary, unary
from .operands import recorded, require_array, view
from .row import ALL, FLOAT, INEXACT, NUMERIC


class Part(Unary):
    """The real or the imaginary part: of a complex array a view."""

    @overload  # type: ignore[override]
    def __call__(self, x: Expr, /) -> Expr: ...
    @overload
    def __call__(self, x: ArrayLike, /) -> Array: ...
    def __call__(self, x: Any, /) -> Any:
        if isinstance(x, SYMBOLS):
            return self.apply((x,))
        x = require_array(x, self.name)
        if x.dtype not in dtypes.COMPLEX:
            return x if self.name == "real" else self.apply((x,))
        dtype = x.dtype
        with x.device.activate():
            result = view(x, getattr(x._data, self.name))
        return recorded(self.name, x, result, partial(self._pulled, dtype), self)

    def _pulled(self, dtype: dtypes.DType, g: Array) -> Array:
        """The cotangent of a complex array, from that of its part."""
        return astype(g, dtype) if self.name == "real" else _times_i(g)


class IsComplex(Unary):
    """Whether imaginary parts are not 0; of real numbers they all are, for which memory is cleared alone."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.cleared: Cache[Layout | None, Maker] = Cache()

    def __call__(
        self, x: Any, /, out: Any = None, where: Any = None, dtype: Any = None, casting: Any = None
    ) -> Any:
        if type(x) is Array and (out is where is dtype is casting is None):
            make = self.cleared.get(x._layout)
            if make is not None:
                return make()
        return super().__call__(x, out, where, dtype, casting)

    def apply(self, operands: tuple[Any, ...]) -> Any:
        (x,) = operands
        if not isinstance(x, Array) or x.dtype in dtypes.COMPLEX:
            return super().apply(operands)
        layout = known_layout(x.device, dtypes.bool_, x.shape)
        if x.device.which is None and x._layout is not None and layout is not None:
            self.cleared.keep(x._layout, cleared(layout))
        return zeros(x.shape, dtypes.bool_, x.device)


def as_cotangent(g: Array, dtype: dtypes.DType) -> Array:
    """A cotangent as the dtype of its array; of a real array, the real part."""
    return astype(real(g) if dtype not in dtypes.COMPLEX else g, dtype, copy=False)


def conjugated(x: Any) -> Any:
    """The conjugate of complex numbers; real ones themselves, without a copy."""
    return conj(x) if x.dtype in dtypes.COMPLEX else x


def from_parts(x: Array, y: Array) -> Array:
    """The complex numbers of these real and imaginary parts."""
    return astype(x, dtypes.complex_of(x.dtype)) + _times_i(y)


conj: Unary = unary(
    "conj",
    "x",
    NUMERIC,
    codes={"c": "conj(x)"},
    quick=dict.fromkeys(("complex64", "complex128"), "complex_parts::plain_conj(x, signs)"),
    bools=dtypes.int8,
    vjp=lambda g, x, r: g,
    complex_vjp=lambda g, x, r: conj(g),
    doc="The complex conjugate; of real numbers a copy.",
)
real: Part = Part(
    "real",
    "x",
    ALL,
    "x->r",
    codes={"c": "real(x)"},
    vjp=lambda g, x, r: g,
    complex_vjp=lambda g, x, r: g,
    doc="The real part: a view of an array's memory, the array itself if it is real.",
)
imag: Part = Part(
    "imag",
    "T(0)",
    ALL,
    "x->r",
    codes={"c": "imag(x)"},
    vjp=lambda g, x, r: 0 * g,
    complex_vjp=lambda g, x, r: _times_i(g),
    doc="The imaginary part: a view of an array's memory, zeros for real numbers.",
)
_times_i: Unary = unary(
    "times_i",
    "complex<T>(T(0), x)",
    FLOAT,
    "x->c",
    complex_vjp=lambda g, x, r: imag(g),
    oracle=lambda x: np.stack([np.zeros_like(x), x], axis=-1).astype(np.float64).view(np.complex128)[..., 0],
    doc="The imaginary number whose part is x.",
)
# Without derivatives: for what is not recorded.
_times_real: Binary = binary(
    "times_real",
    "x * y",
    INEXACT,
    codes={"c": "x * real(y)"},
    oracle=lambda x, y: x * np.real(y),
    doc="x times the real part of y.",
)
_conj_times: Binary = binary(
    "conj_times",
    "x * y",
    INEXACT,
    codes={"c": "conj(x) * real(y)"},
    oracle=lambda x, y: np.conjugate(x) * np.real(y),
    doc="The conjugate of x times the real part of y.",
)
isreal = unary(
    "isreal", "true", ALL, "x->b", codes={"c": "imag(x) == 0"}, doc="Whether the imaginary part is 0."
)
iscomplex = IsComplex(
    "iscomplex", "false", ALL, "x->b", codes={"c": "imag(x) != 0"}, doc="Whether the imaginary part is not 0."
)
