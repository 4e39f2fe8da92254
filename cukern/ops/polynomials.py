"""Arithmetic of polynomials of one variable, by their coefficients, the highest first."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .. import dtypes
from ..array import Array
from ..array.creation import arange, asarray, eye, ones, zeros, zeros_like
from ..elementwise.complex_rows import conj, imag, real
from ..elementwise.function import astype
from ..elementwise.fuse import fuse
from ..elementwise.operands import first_array, public, require_array, require_constant
from ..elementwise.row import is_scalar
from ..elementwise.table import abs, add, divide, subtract
from ..errors import require_int
from ..index.assemble import trim_zeros
from ..index.sort import sort
from ..reduction.rows import all, any, sum
from ..shape.joins import concat, stack
from ..shape.views import expand_dims, reshape
from .calculus import convolve
from .padding import pad

__all__ = [
    "poly",
    "poly1d",
    "polyadd",
    "polyder",
    "polydiv",
    "polyint",
    "polymul",
    "polysub",
    "polyval",
    "roots",
]


class poly1d:
    """A polynomial of one variable, with the operators of polynomials; differentiable in its coefficients.

    ``p + q``, ``p - q``, ``p * q`` and ``p ** n`` are polynomials, and ``p / q`` is :func:`polydiv`; other operands are
    coefficients. ``p[k]`` is the coefficient of the ``k``-th power, ``p(x)`` the value at ``x``.

    Args:
        c_or_r: the coefficients, the highest first, or the roots; a polynomial is copied. Leading zeros are removed,
            for which it waits for the device.
        r: whether roots are given.
        variable: its name in print, "x" by default.

    Attributes:
        coeffs: the coefficients, shape (order + 1,), also ``c``, ``coef`` and ``coefficients``.
        variable: the name of the variable.

    Raises:
        ValueError: there is more than one axis.

    >>> import cukern as ck
    >>> p = ck.poly1d([1.0, 0.0, -4.0])
    >>> p(3.0).item(), (p * p).coeffs.tolist(), ck.sort(p.roots).tolist()
    (5.0, [1.0, 0.0, -8.0, 0.0, 16.0], [-2.0, 2.0])
    >>> print(p.deriv())
    2 x
    """

    __hash__ = None  # type: ignore[assignment]
    #: NumPy's arrays leave operators to this class.
    __array_ufunc__ = None
    coeffs: Array
    variable: str

    def __init__(self, c_or_r: Any, r: bool = False, variable: str | None = None) -> None:
        if isinstance(c_or_r, (poly1d, np.poly1d)):
            self.coeffs = asarray(c_or_r.coeffs)
            self.variable = variable or c_or_r.variable
            return
        given = c_or_r if isinstance(c_or_r, Array) else asarray(c_or_r)
        if r:
            given = poly(given)
        given = reshape(given, (1,)) if not given.ndim else given
        if given.ndim > 1:
            raise ValueError(f"poly1d: c_or_r: expected at most one axis, got shape {given.shape}")
        kept = trim_zeros(given, "f")
        self.coeffs = kept if kept.size else zeros(1, given.dtype, given.device)
        self.variable = variable or "x"

    @property
    def c(self) -> Array:
        """The coefficients."""
        return self.coeffs

    coef = coefficients = c

    @property
    def order(self) -> int:
        """The highest power."""
        return self.coeffs.size - 1

    o = order

    @property
    def roots(self) -> Array:
        """The zeros; see :func:`roots`."""
        return roots(self.coeffs)

    r = roots

    def deriv(self, m: int = 1) -> poly1d:
        """The ``m``-th derivative."""
        return poly1d(polyder(self.coeffs, m))

    def integ(self, m: int = 1, k: Any = None) -> poly1d:
        """The ``m``-th antiderivative; see :func:`polyint`."""
        return poly1d(polyint(self.coeffs, m, k))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        require_constant("poly1d", coeffs=self.coeffs)
        return np.asarray(self.coeffs.numpy(), dtype)

    def numpy(self) -> np.poly1d:
        """The polynomial in NumPy; waits for the device."""
        return np.poly1d(self.coeffs.numpy(), variable=self.variable)

    def __call__(self, x: Any) -> Any:
        return polyval(self, x)

    def __repr__(self) -> str:
        return repr(self.numpy())

    def __str__(self) -> str:
        return str(self.numpy())

    def __len__(self) -> int:
        return self.order

    def __iter__(self) -> Iterator[Array]:
        return iter(self.coeffs)

    def __getitem__(self, power: int) -> Array:
        if 0 <= power <= self.order:
            return self.coeffs[self.order - power]
        return zeros((), self.coeffs.dtype, self.coeffs.device)

    def __setitem__(self, power: int, value: Any) -> None:
        if power < 0:
            raise ValueError(f"poly1d: expected a power of at least 0, got {power}")
        old = self.coeffs
        if (more := power - self.order) > 0:
            self.coeffs = concat([zeros(more, old.dtype, old.device), old])
        else:
            self.coeffs = old.copy()
        self.coeffs[self.order - power] = value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, poly1d):
            return NotImplemented
        a, b = self.coeffs, other.coeffs
        return a.shape == b.shape and bool(all(a == b))

    def __neg__(self) -> poly1d:
        return poly1d(-self.coeffs)

    def __pos__(self) -> poly1d:
        return self

    def __add__(self, other: Any) -> poly1d:
        return poly1d(polyadd(self.coeffs, other))

    __radd__ = __add__

    def __sub__(self, other: Any) -> poly1d:
        return poly1d(polysub(self.coeffs, other))

    def __rsub__(self, other: Any) -> poly1d:
        return poly1d(polysub(other, self.coeffs))

    def __mul__(self, other: Any) -> poly1d:
        return poly1d(self.coeffs * other if _is_number(other) else polymul(self.coeffs, other))

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        return poly1d(self.coeffs / other) if _is_number(other) else polydiv(self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return poly1d(other / self.coeffs) if _is_number(other) else polydiv(other, self)

    def __pow__(self, n: int) -> poly1d:
        if not isinstance(n, (int, float, np.number)) or n != int(n) or n < 0:
            raise ValueError(f"poly1d: expected an integer power of at least 0, got {n!r}")
        result = ones(1, dtypes.int64, self.coeffs.device)
        for _ in range(operator.index(n)):
            result = polymul(self.coeffs, result)
        return poly1d(result)


def _is_number(x: object) -> bool:
    return is_scalar(x) or isinstance(x, np.generic)


def _coefficients(name: str, *polynomials: Any) -> list[Array]:
    """Coefficients as vectors on the device of the first Array.

    Raises:
        ValueError: there is more than one axis.
    """
    given = [p.coeffs if isinstance(p, (poly1d, np.poly1d)) else p for p in polynomials]
    beside = first_array(given)
    result = [
        asarray(p, device=None if beside is None else beside.device)
        if _is_number(p)
        else require_array(p, name, f"a{i + 1}", beside)
        for i, p in enumerate(given)
    ]
    for p in result:
        if p.ndim > 1:
            raise ValueError(f"{name}: expected coefficients of at most one axis, got shape {p.shape}")
    return [p if p.ndim else reshape(p, (1,)) for p in result]


def _like(result: Array, *polynomials: Any) -> Any:
    """``result``, as a polynomial if one of the operands is one."""
    return poly1d(result) if any_polynomial(polynomials) else result


def any_polynomial(operands: Sequence[Any]) -> bool:
    """Whether one of the operands is a polynomial and not a vector."""
    return True in (isinstance(operand, (poly1d, np.poly1d)) for operand in operands)


def _combined(p: Array, q: Array, function: Any) -> Array:
    """``function`` of two vectors, the shorter one behind zeros."""
    size = max(p.size, q.size)
    wide = [x if x.size == size else concat([zeros(size - x.size, x.dtype, x.device), x]) for x in (p, q)]
    return function(*wide)


@public
def polyadd(a1: Any, a2: Any, /) -> Any:
    """The sum of two polynomials.

    Args:
        a1: a :class:`poly1d`, or coefficients, the highest first.
        a2: likewise.

    Returns:
        Coefficients, or a polynomial if an argument is one.

    Raises:
        ValueError: there is more than one axis.

    >>> import cukern as ck
    >>> ck.polyadd(ck.asarray([1, 2]), [9, 5, 4]).tolist()
    [9, 6, 6]
    """
    p, q = _coefficients("polyadd", a1, a2)
    return _like(_combined(p, q, add), a1, a2)


@public
def polysub(a1: Any, a2: Any, /) -> Any:
    """The difference of two polynomials; arguments as in :func:`polyadd`."""
    p, q = _coefficients("polysub", a1, a2)
    return _like(_combined(p, q, subtract), a1, a2)


@public
def polymul(a1: Any, a2: Any, /) -> Any:
    """The product of two polynomials, without leading zeros of the factors; arguments as in :func:`polyadd`."""
    p, q = (poly1d(one).coeffs for one in _coefficients("polymul", a1, a2))
    return _like(convolve(p, q), a1, a2)


@public
def polydiv(u: Any, v: Any) -> tuple[Any, Any]:
    """The quotient and the remainder of two polynomials, in a floating dtype; waits for the device.

    Leading coefficients of the remainder of less than 1e-8 are removed, as by NumPy.

    Args:
        u: the dividend, as in :func:`polyadd`.
        v: the divisor.

    >>> import cukern as ck
    >>> q, r = ck.polydiv(ck.asarray([3.0, 5.0, 2.0]), [2.0, 1.0])
    >>> q.tolist(), r.tolist()
    ([1.5, 1.75], [0.25])
    """
    left, right = (
        astype(p, dtypes.result_type(p.dtype, 0.0), copy=False) for p in _coefficients("polydiv", u, v)
    )
    steps, n = left.size - right.size + 1, right.size
    quotients = []
    rest = astype(left, dtypes.result_type(left.dtype, right.dtype), copy=False)
    for _ in range(steps):
        factor = divide(rest[0], right[0])
        quotients.append(factor)
        rest = concat([rest[1:n] - factor * right[1:], rest[n:]])
    result = stack(quotients) if quotients else zeros(1, rest.dtype, rest.device)
    if not rest.size:
        rest = zeros(1, rest.dtype, rest.device)
    large = (abs(rest) > 1e-8).numpy().nonzero()[0]
    rest = rest[int(large[0]) if large.size else rest.size - 1 :]
    return _like(result, u, v), _like(rest, u, v)


@public
def polyval(p: Any, x: Any, /) -> Any:
    """Evaluate a polynomial at ``x``, by Horner's rule.

    Args:
        p: a :class:`poly1d`, or coefficients, the highest first.
        x: an array or a number, or a polynomial, which is then composed with ``p``.

    Raises:
        TypeError: ``p`` has no axis.
        ValueError: ``p`` has more than one axis.

    >>> import cukern as ck
    >>> polyval(ck.asarray([1.0, 0.0, 2.0]), ck.asarray([3.0])).tolist()
    [11.0]
    """
    result: Any
    given = p.coeffs if isinstance(p, (poly1d, np.poly1d)) else p
    inner = poly1d(x) if isinstance(x, np.poly1d) else x
    p = require_array(given, "polyval", "p", x if isinstance(x, Array) else None)
    if not p.ndim:
        raise TypeError("polyval: p: expected a vector of coefficients, got an array without axes")
    if p.ndim != 1:
        raise ValueError(f"polyval: p: expected one axis, got shape {p.shape}")
    if isinstance(inner, poly1d):
        result = poly1d(zeros(1, dtypes.int64, p.device))
    elif isinstance(x, (float, complex)) and not isinstance(x, np.generic):
        result = inner * 0
    else:
        inner = asarray(x, device=p.device) if _is_number(x) else require_array(x, "polyval", "x", p)
        result = zeros_like(inner)
    for i in range(p.size):
        result = _step(result, inner, p[i]) if isinstance(result, Array) else result * inner + p[i]
    return result


@fuse
def _step(result: Any, x: Any, coefficient: Any) -> Any:
    return result * x + coefficient


@public
def polyder(p: Any, m: int = 1, /) -> Any:
    """The ``m``-th derivative of a polynomial.

    Args:
        p: a :class:`poly1d`, or coefficients, the highest first.
        m: at least 0.

    Raises:
        ValueError: ``m`` is negative.

    >>> import cukern as ck
    >>> ck.polyder(ck.asarray([1, 1, 1, 1])).tolist()
    [3, 2, 1]
    """
    times = require_int("polyder: m", m, 0)
    (result,) = _coefficients("polyder", p)
    for _ in range(times):
        result = result[:-1] * arange(result.size - 1, 0, -1, device=result.device)
    return _like(result, p)


@public
def polyint(p: Any, m: int = 1, k: Any = None) -> Any:
    """The ``m``-th antiderivative of a polynomial.

    Args:
        p: a :class:`poly1d`, or coefficients, the highest first.
        m: at least 0.
        k: the ``m`` constants of integration, the first one for the first integration; one number for ``m`` of 1;
            zeros when None.

    Raises:
        ValueError: ``m`` is negative, or there are fewer constants.

    >>> import cukern as ck
    >>> ck.polyint(ck.asarray([3.0, 2.0, 1.0]), k=5.0).tolist()
    [1.0, 1.0, 1.0, 5.0]
    """
    times = require_int("polyint: m", m, 0)
    (result,) = _coefficients("polyint", p)
    (constants,) = _coefficients("polyint", [0.0] * times if k is None else k)
    if constants.size == 1 < times:
        constants = constants[np.zeros(times, int)]
    if constants.size < times:
        raise ValueError(f"polyint: k: expected {times} constants, got {constants.size}")
    for i in range(times):
        # CPUs convert vectors of int32 to floats.
        counting = dtypes.int32 if result.size < 2**31 else dtypes.int64
        divided = divide(result, arange(result.size, 0, -1, dtype=counting, device=result.device))
        last = asarray(constants[i : i + 1], divided.dtype, result.device)
        result = concat([divided, last])
    return _like(result, p)


#: The most factors that are multiplied together, of which all products of two coefficients are in memory at once.
_FACTORS = 512


def _product(zeros_at: Array) -> Array:
    """The coefficients of the product of x - r for each r, by pairs of factors."""
    result: Array | None = None
    first, size = 0, zeros_at.size
    while first < size:
        count = min(_FACTORS, 1 << ((size - first).bit_length() - 1))
        some = zeros_at[first : first + count]
        factors = stack([ones(count, some.dtype, some.device), -some], axis=-1)
        while len(factors) > 1:
            factors = _pairwise(factors[0::2], factors[1::2])
        result = factors[0] if result is None else convolve(result, factors[0])
        first += count
    assert result is not None
    return result


def _pairwise(p: Array, q: Array) -> Array:
    """The products of polynomials, (n, k) each: rows of products of coefficients, each a place behind the one above."""
    n, k = p.shape
    apart = pad(expand_dims(p, 2) * expand_dims(q, 1), [(0, 0), (0, 0), (0, k)])
    shifted = reshape(reshape(apart, (n, -1))[:, : k * (2 * k - 1)], (n, k, 2 * k - 1))
    return sum(shifted, 1)


@public
def poly(seq_of_zeros: Any) -> Array:
    """The coefficients of the polynomial with these roots and a leading coefficient of 1.

    Args:
        seq_of_zeros: the roots, shape (n,), or a square matrix, whose eigenvalues are the roots.

    Returns:
        Shape (n + 1,), in a floating dtype, and complex for complex roots, unless these are conjugate pairs.

    Raises:
        ValueError: an array is neither a vector nor a square matrix.

    >>> import cukern as ck
    >>> ck.poly(ck.asarray([1.0, 2.0])).tolist()
    [1.0, -3.0, 2.0]
    """
    x = require_array(seq_of_zeros, "poly", "seq_of_zeros")
    from ..linear.decompositions import eigvals

    square = x.ndim == 2 and x.shape[0] == x.shape[1] and x.size > 0
    if x.ndim != 1 and not square:
        raise ValueError(f"poly: seq_of_zeros: expected a vector or a square matrix, got shape {x.shape}")
    x = astype(x, dtypes.result_type(x.dtype, 0.0), copy=False)
    zeros_at = eigvals(x) if square else x
    result = ones(1, zeros_at.dtype, x.device) if not zeros_at.size else _product(zeros_at)
    if result.dtype not in dtypes.COMPLEX:
        return result
    paired = x.dtype not in dtypes.COMPLEX or bool(all(sort(zeros_at) == sort(conj(zeros_at))))
    return real(result).copy() if paired else result


@public
def roots(p: Any, /) -> Array:
    """The zeros of a polynomial, in no order: the eigenvalues of its companion matrix.

    Waits for the device, to remove coefficients of 0 at both ends.

    Args:
        p: a :class:`poly1d`, or coefficients, the highest first.

    Returns:
        Shape (order,): real numbers if all zeros are real, else complex ones.

    Raises:
        TypeError: ``p`` is bool or has no axis.
        ValueError: ``p`` has more than one axis.

    >>> import cukern as ck
    >>> ck.sort(ck.roots(ck.asarray([1.0, -3.0, 2.0]))).tolist()
    [1.0, 2.0]
    """
    given = p.coeffs if isinstance(p, (poly1d, np.poly1d)) else p
    x = require_array(given, "roots", "p")
    if not x.ndim or x.dtype == dtypes.bool_:
        raise TypeError(f"roots: p: expected a vector of numbers, got shape {x.shape} of {x.dtype}")
    if x.ndim > 1:
        raise ValueError(f"roots: p: expected one axis, got shape {x.shape}")
    x = astype(x, dtypes.result_type(x.dtype, 0.0), copy=False)
    front = trim_zeros(x, "f")
    inner = trim_zeros(front, "b")
    n, trailing = inner.size - 1, front.size - inner.size
    if n < 1:
        return zeros(trailing, device=x.device)
    top = reshape(-inner[1:] / inner[0], (1, n))
    companion = concat([top, eye(n - 1, n, dtype=x.dtype, device=x.device)], axis=0) if n > 1 else top
    from ..linear.decompositions import eigvals

    result = eigvals(companion)
    if x.dtype not in dtypes.COMPLEX and not bool(any(imag(result) != 0)):
        result = real(result).copy()
    return concat([result, zeros(trailing, result.dtype, x.device)])
