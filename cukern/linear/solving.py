"""Determinants, generalised inverses, least squares and powers of matrices."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.linalg import LinAlgError

from .. import dtypes
from ..array import Array
from ..array.creation import empty, zeros_like
from ..array.mapping import leading, looped, mapped
from ..autodiff import tape
from ..autodiff.cotangents import meta
from ..elementwise.complex_rows import _times_i, conj, conjugated, imag, real
from ..elementwise.function import astype
from ..elementwise.operands import normalize_axes, require_array, require_arrays
from ..elementwise.row import is_scalar
from ..elementwise.table import abs, divide, equal, exp, multiply, where
from ..errors import DeviceError
from ..reduction.rows import any, max, prod, sum
from ..shape.views import broadcast_to, expand_dims, flip, permute_dims, reshape, squeeze, tril
from .batched import log_determinants, together
from .decompositions import eigh, eigvalsh, narrow_values, squared, svd, svdvals
from .lapack import differentiable, floating, identity, inv, library, matrices, promoted, solve, total
from .products import adjoint, matmul


class SlogdetResult(NamedTuple):
    """The sign of a determinant, and the logarithm of its absolute value."""

    sign: Array
    logabsdet: Array


class LstsqResult(NamedTuple):
    """A solution, the sums of squared residuals, the rank, and the singular values of the matrix."""

    x: Array
    residuals: Array
    rank: Array
    singular_values: Array


@mapped(leading)
def det(x: Array, /) -> Array:
    """The determinants of square matrices.

    The derivative, the matrix of cofactors, also holds for singular matrices; the second derivative does not and
    raises GradientError for them. The derivative waits for the device, to test whether a matrix is singular.

    Raises:
        LinAlgError: a matrix is not square.
        TypeError: ``x`` is of a half type.
    """
    a = matrices(x, "det", square=True)
    (y,) = [_determinants(a)] if together(a) else library(a, "det")
    differentiable("det", a, (y,), (a, y), lambda g, s: expand_dims(g[0], (-2, -1)) * _cofactors(*s))
    return y


def _determinants(a: Array) -> Array:
    with tape.stop_recording():
        sign, size = log_determinants(a)
        return astype(sign * exp(size), a.dtype)


def _cofactors(a: Array, value: Array) -> Array:
    """The conjugated derivative of determinants whose values are ``value``."""
    singular = equal(value, 0)
    if not bool(any(singular)):
        return expand_dims(conjugated(value), (-2, -1)) * adjoint(inv(a))
    n = a.shape[-1]
    with tape.stop_recording():
        u, s, vh = svd(a)
        kept = where(identity(n, s) == 1, 1, expand_dims(s, -2))
        others = prod(kept, -1) * expand_dims(conjugated(det(u) * det(vh)), -1)
        flat = matmul(u * expand_dims(others, -2), vh)
        wide = expand_dims(singular, (-2, -1))
        regular = expand_dims(conjugated(value), (-2, -1)) * adjoint(inv(where(wide, identity(n, a), a)))
        result = where(wide, flat, regular)
    message = "det: the second derivative needs matrices that have an inverse, and one is singular"
    tape.poison("det", [meta(a)], [result], message)
    return result


@mapped(leading)
def slogdet(x: Array, /) -> SlogdetResult:
    """The sign and the logarithm of the absolute value of the determinants of square matrices, without overflow.

    The sign of a complex determinant is the number of absolute value 1 in its direction.

    Raises:
        LinAlgError: a matrix is not square; in the derivative, on the host, it is singular.
    """
    a = matrices(x, "slogdet", square=True)
    sign, size = _log_determinants(a) if together(a) else library(a, "slogdet")
    turns = a.dtype in dtypes.COMPLEX

    def vjp(cotangents: Sequence[Any], saved: Sequence[Array]) -> Array:
        (g_sign, g_size), (a, sign) = cotangents, saved
        rotated = None if g_sign is None or not turns else _times_i(imag(conj(sign) * g_sign))
        factor = total(g_size, rotated)
        if factor is None:  # of the sign alone, which is constant for real matrices
            return zeros_like(a)
        return expand_dims(factor, (-2, -1)) * adjoint(inv(a))

    differentiable("slogdet", a, (sign, size), (a, sign), vjp)
    return SlogdetResult(sign, size)


def _log_determinants(a: Array) -> list[Array]:
    with tape.stop_recording():
        sign, size = log_determinants(a)
        return [astype(sign, a.dtype), astype(size, dtypes.info(a.dtype).real)]


def _tolerance(s: Array, rtol: Any, shape: tuple[int, ...]) -> Array:
    """The threshold below which singular values count as 0, for each matrix."""
    if rtol is None:
        rtol = float(np.finfo(s.dtype).eps) * sorted(shape[-2:])[-1]
    if not is_scalar(rtol):
        rtol = expand_dims(require_array(rtol, "linalg", "rtol", s), -1)
    return max(s, -1, keepdims=True) * rtol if s.shape[-1] else s


def _reciprocals(s: Array, rtol: Any, shape: tuple[int, ...]) -> Array:
    """1 / s, and 0 where s counts as 0."""
    kept = s > _tolerance(s, rtol, shape)
    return where(kept, divide(1, where(kept, s, 1)), 0)


@mapped(leading)
def pinv(x: Array, /, rcond: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Array:
    """The Moore-Penrose inverses of matrices.

    Args:
        x: shape (..., m, n).
        rcond: NumPy's older name of ``rtol``.
        hermitian: whether the matrices are symmetric: only their lower triangles are read, and eigenvalues replace
            singular values.
        rtol: singular values below this fraction of the largest count as 0, a number or one for each matrix;
            ``max(m, n) * eps`` when None.

    Raises:
        LinAlgError: ``hermitian`` is true, and a matrix is not square.
        TypeError: ``x`` is of a half type.
        ValueError: ``rcond`` and ``rtol`` are both given.

    Source of the derivative, which assumes constant rank: Golub and Pereyra, "The differentiation of
    pseudo-inverses and nonlinear least squares problems whose variables separate", 1973.

    >>> import cukern as ck
    >>> pinv(ck.asarray([[2.0, 0.0], [0.0, 0.0]]), hermitian=True).tolist()
    [[0.5, 0.0], [0.0, 0.0]]
    """
    if rcond is not None and rtol is not None:
        raise ValueError("pinv: rcond and rtol are two names of one argument: give one of them")
    rtol = rcond if rtol is None else rtol
    a = matrices(x, "pinv", square=hermitian)
    with tape.stop_recording():
        if hermitian:
            values, left = eigh(a)
            inverse = _reciprocals(abs(values), rtol, a.shape) * where(values < 0, -1, 1)
            y = matmul(left * expand_dims(inverse, -2), adjoint(left))
        else:
            u, s, vh = svd(a, full_matrices=False)
            y = matmul(adjoint(vh) * expand_dims(_reciprocals(s, rtol, a.shape), -2), adjoint(u))
    pull = _symmetric_pinv_cotangent if hermitian else _pinv_cotangent
    differentiable("pinv", a, (y,), (a, y), lambda g, s: pull(g[0], *s))
    return y


def _symmetric_pinv_cotangent(g: Array, a: Array, p: Array) -> Array:
    """:func:`_pinv_cotangent` for symmetric matrices; it is symmetric."""
    result = _pinv_cotangent(g, tril(a) + adjoint(tril(a, k=-1)), p)
    return 0.5 * (result + adjoint(result))


def _pinv_cotangent(g: Array, a: Array, p: Array) -> Array:
    """The cotangent of ``a``, whose pseudo-inverse is ``p``."""
    back, above = adjoint(p), adjoint(g)
    result = -matmul(matmul(back, g), back)
    result = result + matmul(above - matmul(a, matmul(p, above)), matmul(p, back))
    return result + matmul(matmul(back, p), above - matmul(matmul(above, p), a))


@mapped(leading)
def matrix_rank(x: Array, /, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Array:
    """The number of singular values above ``rtol`` times the largest, as int64. See :func:`pinv`.

    Args:
        x: matrices, (..., m, n); a vector has rank 1 unless it is 0.
        tol: the threshold itself, a number or one for each matrix.
        hermitian: whether the matrices are symmetric or Hermitian; only the lower triangles are read then.
        rtol: a number or one for each matrix; the larger size times the dtype's epsilon when None.

    Raises:
        ValueError: ``tol`` and ``rtol`` are both given.
    """
    if tol is not None and rtol is not None:
        raise ValueError("matrix_rank: expected tol or rtol, got both")
    with tape.stop_recording():
        x = require_array(x, "matrix_rank")
        if x.ndim < 2:
            return astype(any(x != 0), dtypes.int64)
        a = matrices(x, "matrix_rank", square=hermitian)
        s = abs(eigvalsh(a)) if hermitian else svdvals(a)
        if tol is not None:
            limit = expand_dims(require_array(tol, "matrix_rank", "tol", s), -1)
            return sum(s > limit, -1, dtype=dtypes.int64)
        return sum(s > _tolerance(s, rtol, x.shape), -1, dtype=dtypes.int64)


def matrix_power(x: Array, /, n: int) -> Array:
    """The ``n``-th power of square matrices; powers of the inverse if ``n`` is negative.

    Raises:
        LinAlgError: a matrix is not square; for negative ``n``, on the host, it is singular.
        TypeError: ``n`` is not an integer; for negative ``n``, ``x`` is of a half type.
    """
    a = require_array(x, "matrix_power")
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise LinAlgError(f"matrix_power: x: expected square matrices, got shape {a.shape}")
    n = operator.index(n)
    if n < 0:
        a, n = inv(a), -n
    if n == 0:
        return astype(broadcast_to(identity(a.shape[-1], a), a.shape), a.dtype)
    result: Array | None = None
    while n:
        if n % 2:
            result = a if result is None else matmul(result, a)
        n //= 2
        a = matmul(a, a) if n else a
    assert result is not None
    return result


@mapped(looped)
def lstsq(a: Array, b: Array, /, rcond: float | None = None) -> LstsqResult:
    """The least-squares solution: the ``x`` of the smallest norm that minimises ``|a @ x - b|``.

    Args:
        a: shape (m, n).
        b: shape (m,) or (m, k).
        rcond: as ``rtol`` in :func:`pinv`.

    Returns:
        The solution, of shape (n,) or (n, k); the sums of squared residuals, of shape (1,) or (k,), or of
        shape (0,) if ``m <= n`` or the rank is not ``n`` (the function waits for the device to read the rank); the
        rank, in int32; the singular values.

    Raises:
        LinAlgError: the shapes do not fit.

    Source of the derivative, which assumes constant rank: see :func:`pinv`.
    """
    a, b = promoted(a, b, "lstsq", ("a", "b"))
    matrix, target = matrices(a, "lstsq"), floating(b, "lstsq")
    if matrix.device is not target.device:
        raise DeviceError(f"lstsq: expected arrays on one device, got {matrix.device} and {target.device}")
    if matrix.ndim != 2 or target.ndim not in (1, 2) or target.shape[0] != matrix.shape[0]:
        raise LinAlgError(f"lstsq: expected shapes (m, n) and (m,) or (m, k), got {a.shape} and {b.shape}")
    if target.ndim == 1:
        result = lstsq(matrix, expand_dims(target, 1), rcond)
        return LstsqResult(squeeze(result.x, 1), result.residuals, result.rank, result.singular_values)
    if matrix.device.addressable and not tape.recording((matrix, target)):
        x, residuals, rank, s = library(matrix, "lstsq", target, rcond=rcond)
        return LstsqResult(x, residuals, astype(rank, dtypes.int32), s)
    if matrix.size and matrix.dtype in (dtypes.float32, dtypes.complex64) and not tape.recording((matrix,)):
        with tape.stop_recording():
            x, rank, s = by_squares(matrix, target, rcond)
    else:
        u, s, vh = svd(matrix, full_matrices=False)
        with tape.stop_recording():
            inverse = _reciprocals(s, rcond, matrix.shape)
            x = matmul(adjoint(vh) * inverse, matmul(adjoint(u), target))
            rank = sum(inverse != 0, -1, dtype=dtypes.int32)
    if tape.recording((matrix, target)):

        def vjp(cotangents: tape.Arrays, saved: tape.Arrays, needs: Sequence[bool]) -> list[Array | None]:
            (g,), (matrix, target) = cotangents, saved
            p = pinv(matrix, rtol=rcond)
            above = matmul(g, adjoint(target))
            return [_pinv_cotangent(above, matrix, p) if needs[0] else None, matmul(adjoint(p), g)]

        tape.record("lstsq", (matrix, target), (x,), vjp, (matrix, target))
    m, n = matrix.shape
    if m > n and int(rank) == n:
        apart = matmul(matrix, x) - target
        return LstsqResult(x, sum(real(multiply(conjugated(apart), apart)), 0), rank, s)
    return LstsqResult(x, empty(0, s.dtype, x.device), rank, s)


def by_squares(matrix: Array, target: Array, rcond: float | None) -> tuple[Array, Array, Array]:
    """The least-squares solution, the rank and the singular values of a matrix in single precision.

    They are of the normal equations in double precision, whose rounding is below that of the matrix: the square of the
    smallest ratio of singular values that single precision tells from 0 is above double precision's epsilon.
    """
    tall = matrix.shape[0] >= matrix.shape[1]
    a, square = squared(matrix if tall else adjoint(matrix))
    right = astype(target, a.dtype)
    right = matmul(adjoint(a), right) if tall else right
    values, vectors = eigh(square)
    s = narrow_values(values, matrix.dtype)
    kept = s > _tolerance(s, rcond, matrix.shape)
    inverse = where(flip(kept), divide(1, values), 0)
    result = matmul(vectors * inverse, matmul(adjoint(vectors), right))
    return astype(result if tall else matmul(a, result), matrix.dtype), sum(kept, dtype=dtypes.int32), s


def tensorinv(a: Array, /, ind: int = 2) -> Array:
    """The inverse of a tensor as a linear map from its last axes to its first ``ind`` axes.

    Returns:
        Shape ``a.shape[ind:] + a.shape[:ind]``.

    Raises:
        LinAlgError: the products of the sizes on both sides differ.
        ValueError: ``ind`` is not positive.
    """
    a = require_array(a, "tensorinv", "a")
    if ind <= 0:
        raise ValueError(f"tensorinv: ind: expected a positive number, got {ind}")
    rows, columns = a.shape[:ind], a.shape[ind:]
    if len(rows) == len(columns) == 1:
        return inv(a)
    return reshape(inv(reshape(a, (math.prod(rows), math.prod(columns)))), columns + rows)


def tensorsolve(a: Array, b: Array, /, axes: Sequence[int] | None = None) -> Array:
    """The ``x`` for which ``tensordot(a, x, x.ndim)`` is ``b``.

    Args:
        a: an array whose first axes, after ``axes`` are moved to the end, have the shape of ``b``.
        b: any array.
        axes: axes of ``a`` to move to the end, none by default.

    Raises:
        LinAlgError: the products of the sizes of ``a`` on both sides differ.
    """
    a, b = require_arrays((a, b), "tensorsolve", ("a", "b"))
    if axes is not None:
        last = normalize_axes(tuple(axes), a.ndim, "tensorsolve")
        a = permute_dims(a, [i for i in range(a.ndim) if i not in last] + list(last))
    shape = a.shape[b.ndim :]
    if b.size != math.prod(shape) or a.size != b.size**2:
        raise LinAlgError(f"tensorsolve: a of shape {a.shape} is not a square map to b of shape {b.shape}")
    square = a if a.ndim == 2 else reshape(a, (b.size, b.size))
    result = solve(square, b if b.ndim == 1 else reshape(b, (b.size,)))
    return result if result.shape == shape else reshape(result, shape)
