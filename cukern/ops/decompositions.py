"""Factorisations and what follows from them, through the device's LAPACK; derivatives in cukern's own functions.

A GPU's library does not look whether a matrix is singular or not positive definite: where NumPy raises
LinAlgError, the result there has NaN or infinities.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, overload

import numpy as np
from numpy.linalg import LinAlgError

from .. import dtypes, tape
from ..algebra import meta
from ..array import Array
from ..creation import empty, ones
from ..errors import DeviceError, GradientError
from ..table import divide, equal, multiply, where
from .assemble import atleast_2d
from .axes import on_device, require_array
from .elementwise import astype
from .linalg import diagonal, from_diagonal, matmul
from .manipulate import (
    broadcast_to,
    concat,
    expand_dims,
    matrix_transpose,
    moveaxis,
    reshape,
    squeeze,
    tril,
)
from .reduce import all, any, max, prod, sum

Vjp = Callable[[Sequence[Any], Sequence[Array]], Array | None]


class EighResult(NamedTuple):
    """Eigenvalues in ascending order, and the eigenvectors as columns."""

    eigenvalues: Array
    eigenvectors: Array


class QRResult(NamedTuple):
    """An orthogonal and an upper triangular factor."""

    Q: Array
    R: Array


class SVDResult(NamedTuple):
    """Left singular vectors as columns, singular values in descending order, right ones as rows."""

    U: Array
    S: Array
    Vh: Array


class SlogdetResult(NamedTuple):
    """The sign of a determinant, and the logarithm of its size."""

    sign: Array
    logabsdet: Array


def matrices(x: Any, name: str, square: bool = False) -> Array:
    """``x`` as matrices of float32 or float64; integers become float64.

    Raises:
        TypeError: half types, which LAPACK has not.
        ValueError: there are not two axes.
        LinAlgError: the matrices are not square, and must be.
    """
    require_array(x, name)
    if x.ndim < 2:
        raise LinAlgError(f"{name}: x: expected at least two axes, got shape {x.shape}")
    if square and x.shape[-1] != x.shape[-2]:
        raise LinAlgError(f"{name}: x: expected square matrices, got shape {x.shape}")
    return floating(x, name)


def floating(x: Array, name: str) -> Array:
    """``x`` in a dtype of LAPACK."""
    if x.dtype in (dtypes.float16, dtypes.bfloat16):
        raise TypeError(
            f"{name}: expected float32 or float64, got {dtypes.info(x.dtype).name}; cast it first"
        )
    return x if x.dtype in dtypes.FLOATS else astype(x, dtypes.float64)


@on_device
def _library(x: Array, name: str, *args: Any, **options: Any) -> list[Array]:
    """The results of a function of numpy.linalg or cupy.linalg."""
    others = [one._data if isinstance(one, Array) else one for one in args]
    made = getattr(x.device.xp.linalg, name)(x._data, *others, **options)
    parts = made if isinstance(made, tuple) else (made,)
    xp = x.device.xp
    return [Array._wrap(xp.asarray(part, order="C"), x.device) for part in parts]


def _differentiable(name: str, x: Array, outputs: Sequence[Array], saved: Sequence[Array], vjp: Vjp) -> None:
    """Record outputs with a derivative of their cotangents, None where there is none, and of what is saved."""
    if tape.recording((x,)):

        def rule(given: Sequence[Any], kept: Sequence[Array], needs: object) -> tuple[Array | None]:
            return (vjp(given, kept),)

        tape.record(name, (x,), outputs, rule, saved, materialize=False)


def identity(n: int, like: Array) -> Array:
    """The identity matrix of the dtype and on the device of another array."""
    return from_diagonal(ones(n, like.dtype, like.device), n, n, 0)


def _total(*parts: Array | None) -> Array | None:
    """The sum of what there is."""
    made: Array | None = None
    for part in parts:
        if part is not None:
            made = part if made is None else made + part
    return made


def _t(x: Array) -> Array:
    return matrix_transpose(x)


def inv(x: Array, /) -> Array:
    """The inverses of square matrices.

    Raises:
        LinAlgError: a matrix is not square, or, on the host, singular.
        TypeError: ``x`` is of a half type.
    """
    a = matrices(x, "inv", square=True)
    (y,) = _library(a, "inv")
    _differentiable("inv", a, (y,), (y,), lambda g, s: -matmul(matmul(_t(s[0]), g[0]), _t(s[0])))
    return y


def solve(x1: Array, x2: Array, /) -> Array:
    """The ``y`` for which ``x1 @ y`` is ``x2``.

    Args:
        x1: shape (..., n, n).
        x2: shape (..., n, k), or (n,).

    Raises:
        DeviceError: the arrays are on different devices.
        LinAlgError: a matrix is not square, or, on the host, singular.
        ValueError: the shapes do not fit.
    """
    a, b = matrices(x1, "solve", square=True), floating(require_array(x2, "solve", "x2"), "solve")
    if a.device is not b.device:
        raise DeviceError(f"solve: expected arrays on one device, got {a.device} and {b.device}")
    if not b.ndim or b.shape[-2 if b.ndim > 1 else -1] != a.shape[-1]:
        raise ValueError(f"solve: x2 of shape {x2.shape} does not fit x1 of shape {x1.shape}")
    dtype = dtypes.result_type(a.dtype, b.dtype)
    a, b = astype(a, dtype, copy=False), astype(b, dtype, copy=False)
    if b.ndim == 1:
        return squeeze(solve(a, expand_dims(b, 1)), -1)
    if a.ndim == 2 and b.ndim > 2:  # one factorisation for all right sides
        columns = moveaxis(b, -2, 0)
        return moveaxis(reshape(solve(a, reshape(columns, (b.shape[-2], -1))), columns.shape), 0, -2)
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = broadcast_to(a, (*batch, *a.shape[-2:])), broadcast_to(b, (*batch, *b.shape[-2:]))
    (y,) = _library(a, "solve", b)
    if tape.recording((a, b)):

        def vjp(given: Sequence[Array], saved: Sequence[Array], needs: Sequence[bool]) -> list[Array | None]:
            a, y = saved
            above = solve(_t(a), given[0])
            return [-matmul(above, _t(y)) if needs[0] else None, above]

        tape.record("solve", (a, b), (y,), vjp, (a, y))
    return y


def det(x: Array, /) -> Array:
    """The determinants of square matrices.

    The derivative, the matrix of cofactors, is that of singular matrices as well; the second derivative is
    not, and raises there. To see whether a matrix is singular, the derivative waits for the device.

    Raises:
        LinAlgError: a matrix is not square.
        TypeError: ``x`` is of a half type.
    """
    a = matrices(x, "det", square=True)
    (y,) = _library(a, "det")
    _differentiable("det", a, (y,), (a, y), lambda g, s: expand_dims(g[0], (-2, -1)) * _cofactors(*s))
    return y


def _cofactors(a: Array, value: Array) -> Array:
    """The derivative of determinants whose values are ``value``."""
    singular = equal(value, 0)
    if not bool(any(singular)):
        return expand_dims(value, (-2, -1)) * _t(inv(a))
    n = a.shape[-1]
    with tape.stop_recording():
        u, s, vh = svd(a)
        kept = where(identity(n, s) == 1, 1, expand_dims(s, -2))
        others = prod(kept, -1) * expand_dims(det(u) * det(vh), -1)
        flat = matmul(u * expand_dims(others, -2), vh)
        wide = expand_dims(singular, (-2, -1))
        regular = expand_dims(value, (-2, -1)) * _t(inv(where(wide, identity(n, a), a)))
        made = where(wide, flat, regular)
    message = "det: the second derivative needs matrices that have an inverse, and one is singular"
    tape.poison("det", [meta(a)], [made], message)
    return made


def slogdet(x: Array, /) -> SlogdetResult:
    """The sign of the determinants of square matrices, and the logarithm of their size, without overflow.

    Raises:
        LinAlgError: a matrix is not square; in the derivative, on the host, it is singular.
    """
    a = matrices(x, "slogdet", square=True)
    sign, size = _library(a, "slogdet")
    _differentiable("slogdet", a, (size,), (a,), lambda g, s: expand_dims(g[0], (-2, -1)) * _t(inv(s[0])))
    return SlogdetResult(sign, size)


def _lower_half(x: Array) -> Array:
    """The lower triangle, the diagonal halved."""
    return tril(x) - 0.5 * from_diagonal(diagonal(x, 0, -2, -1), x.shape[-1], x.shape[-1], 0)


def cholesky(x: Array, /, *, upper: bool = False) -> Array:
    """The lower triangular factor ``L`` of symmetric positive definite matrices, ``x = L @ L.mT``.

    Args:
        x: of each matrix the lower triangle is read; the derivative is the symmetric one.
        upper: whether ``L.mT`` is returned.

    Raises:
        LinAlgError: a matrix is not square, or, on the host, not positive definite.

    Source of the derivative: Murray, "Differentiation of the Cholesky decomposition", 2016.
    """
    a = matrices(x, "cholesky", square=True)
    (y,) = _library(a, "cholesky")
    if a.device.kind == "cuda":
        y = _checked_factor(y)

    def vjp(given: Sequence[Array], saved: Sequence[Array]) -> Array:
        above = _t(saved[0])
        inner = _lower_half(matmul(above, given[0]))
        half = solve(above, _t(solve(above, _t(inner))))
        return 0.5 * (half + _t(half))

    _differentiable("cholesky", a, (y,), (y,), vjp)
    return _t(y) if upper else y


def _checked_factor(factor: Array) -> Array:
    """``factor``, of NaN where a pivot is not positive: cuSOLVER leaves the factorisation unfinished there."""
    with tape.stop_recording():
        good = all(diagonal(factor, 0, -2, -1) > 0, -1, keepdims=True)
        return where(expand_dims(good, -1), factor, math.nan)


def _gaps(values: Array) -> Array:
    """1 / (v[j] - v[i]) off the diagonal, 0 where that has no value."""
    apart = expand_dims(values, -2) - expand_dims(values, -1)
    same = equal(apart, 0)
    return where(same, 0, divide(1, where(same, 1, apart)))


def _scaled(left: Array, scale: Array | None, right: Array) -> Array | None:
    """``left @ diag(scale) @ right``, None for no scale."""
    return None if scale is None else matmul(left * expand_dims(scale, -2), right)


def eigh(x: Array, /, UPLO: str = "L") -> EighResult:
    """The eigenvalues and eigenvectors of symmetric matrices.

    Args:
        x: of each matrix one triangle is read; the derivative is the symmetric one. That of the eigenvectors
            is that of distinct eigenvalues: between equal ones it is taken as 0, which is right for what does not
            depend on the choice of their vectors.
        UPLO: the triangle: ``"L"`` for the lower one, ``"U"`` for the upper one.

    Raises:
        LinAlgError: a matrix is not square, or the iteration does not converge.
        ValueError: there is no such triangle.

    Source of the derivative: Giles, "Collected matrix derivative results for forward and reverse mode algorithmic
    differentiation", 2008.
    """
    a = matrices(x, "eigh", square=True)
    values, vectors = _library(a, "eigh", UPLO=_triangle(UPLO, "eigh"))

    def vjp(given: Sequence[Any], saved: Sequence[Array]) -> Array:
        (g_values, g_vectors), (values, vectors) = given, saved
        made = _scaled(vectors, g_values, _t(vectors))
        if g_vectors is not None:
            inner = _gaps(values) * matmul(_t(vectors), g_vectors)
            made = _total(made, matmul(matmul(vectors, inner), _t(vectors)))
        assert made is not None
        return 0.5 * (made + _t(made))

    _differentiable("eigh", a, (values, vectors), (values, vectors), vjp)
    return EighResult(values, vectors)


def _triangle(letter: str, name: str) -> str:
    if letter.upper() not in ("L", "U"):
        raise ValueError(f"{name}: UPLO: expected 'L' or 'U', got {letter!r}")
    return letter.upper()


def eigvalsh(x: Array, /, UPLO: str = "L") -> Array:
    """The eigenvalues of symmetric matrices, in ascending order. See :func:`eigh`."""
    a = matrices(x, "eigvalsh", square=True)
    if tape.recording((a,)):
        return eigh(a, UPLO).eigenvalues
    return _library(a, "eigvalsh", UPLO=_triangle(UPLO, "eigvalsh"))[0]


@overload
def svd(x: Array, /, *, full_matrices: bool = True, compute_uv: Literal[True] = True) -> SVDResult: ...
@overload
def svd(x: Array, /, *, full_matrices: bool = True, compute_uv: Literal[False]) -> Array: ...
def svd(x: Array, /, *, full_matrices: bool = True, compute_uv: bool = True) -> SVDResult | Array:
    """The singular value decomposition, ``x = U * S @ Vh``.

    Args:
        x: shape (..., m, n).
        full_matrices: whether ``U`` and ``Vh`` are square. The derivative of the vectors needs False, unless ``x``
            is square. It is that of distinct singular values: between equal ones it is taken as 0.
        compute_uv: False for the singular values alone, as :func:`svdvals`.

    Raises:
        GradientError: in the derivative of the vectors of full matrices.
        LinAlgError: the iteration does not converge.

    Source of the derivative: Townsend, "Differentiating the singular value decomposition", 2016.
    """
    if not compute_uv:
        return svdvals(x)
    a = matrices(x, "svd")
    u, s, vh = _library(a, "svd", full_matrices=bool(full_matrices))
    _differentiable("svd", a, (u, s, vh), (u, s, vh), _svd_cotangent)
    return SVDResult(u, s, vh)


def _svd_cotangent(given: Sequence[Any], saved: Sequence[Array]) -> Array | None:
    (g_u, g_s, g_vh), (u, s, vh) = given, saved
    m, n, k = u.shape[-2], vh.shape[-1], s.shape[-1]
    if u.shape[-1] > k or vh.shape[-2] > k:
        if g_u is not None or g_vh is not None:
            raise GradientError(
                "svd: the vectors of full matrices have no derivative; use full_matrices=False"
            )
        u, vh = u[..., :k], vh[..., :k, :]
    made = _scaled(u, g_s, vh)
    if g_u is None and g_vh is None:
        return made
    scale = expand_dims(s, -2)
    inverse = where(equal(scale, 0), 0, divide(1, where(equal(scale, 0), 1, scale)))
    gaps = _gaps(s * s)
    if g_u is not None:
        inner = gaps * matmul(_t(u), g_u)
        made = _total(made, matmul((matmul(u, inner + _t(inner))) * scale, vh))
        if m > k:
            made = _total(made, matmul((g_u - matmul(u, matmul(_t(u), g_u))) * inverse, vh))
    if g_vh is not None:
        g_v = _t(g_vh)
        inner = gaps * matmul(vh, g_v)
        made = _total(made, matmul(u * scale, matmul(inner + _t(inner), vh)))
        if n > k:
            made = _total(made, matmul(u * inverse, _t(g_v - matmul(_t(vh), matmul(vh, g_v)))))
    return made


def svdvals(x: Array, /) -> Array:
    """The singular values of matrices, in descending order."""
    a = matrices(x, "svdvals")
    if tape.recording((a,)):
        return svd(a, full_matrices=False).S
    return _library(a, "svd", compute_uv=False)[0]


def qr(x: Array, /, *, mode: str = "reduced") -> QRResult:
    """The factors of ``x = Q @ R``, ``Q`` with orthonormal columns and ``R`` upper triangular.

    Args:
        x: shape (..., m, n).
        mode: ``"reduced"`` for a ``Q`` of shape (..., m, min(m, n)), ``"complete"`` for a square one. That has a
            derivative where ``m <= n``. The derivative is that of linearly independent first columns.

    Raises:
        GradientError: in the derivative of a complete ``Q`` with more columns than ``x``.
        ValueError: there is no such mode.

    Source of the derivative: Walter and Lehmann, "Algorithmic differentiation of linear algebra functions with
    application in optimum experimental design", 2010.
    """
    if mode not in ("reduced", "complete"):
        raise ValueError(f"qr: mode: expected 'reduced' or 'complete', got {mode!r}")
    a = matrices(x, "qr")
    m, n = a.shape[-2:]
    if m < n and tape.recording((a,)):  # the columns beyond the square part follow from its factors
        q, square = qr(a[..., :m])
        return QRResult(q, concat([square, matmul(_t(q), a[..., m:])], axis=-1))
    q, r = _library(a, "qr", mode)
    _differentiable("qr", a, (q, r), (q, r), _qr_cotangent)
    return QRResult(q, r)


def _qr_cotangent(given: Sequence[Any], saved: Sequence[Array]) -> Array:
    (g_q, g_r), (q, r) = given, saved
    if r.shape[-2] > r.shape[-1]:
        raise GradientError("qr: the factors of mode 'complete' have no derivative; use mode='reduced'")
    inner = _total(None if g_r is None else matmul(r, _t(g_r)), None if g_q is None else -matmul(_t(g_q), q))
    assert inner is not None
    made = _total(g_q, matmul(q, tril(inner) + _t(tril(inner, k=-1))))
    assert made is not None
    return _t(solve(r, _t(made)))


def _tolerance(s: Array, rtol: Any, shape: tuple[int, ...]) -> Array:
    """What singular values must be above, for each matrix."""
    if rtol is None:
        rtol = np.finfo(s.dtype).eps * float(np.max(shape[-2:]))
    if isinstance(rtol, Array) and rtol.ndim:
        rtol = expand_dims(rtol, -1)
    return max(s, -1, keepdims=True) * rtol if s.shape[-1] else s


def pinv(x: Array, /, *, rtol: Any = None) -> Array:
    """The Moore-Penrose inverses of matrices.

    Args:
        x: shape (..., m, n).
        rtol: singular values below this share of the largest count as 0; ``max(m, n) * eps`` when None.

    Source of the derivative, which is that at constant rank: Golub and Pereyra, "The differentiation of
    pseudo-inverses and nonlinear least squares problems whose variables separate", 1973.
    """
    a = matrices(x, "pinv")
    with tape.stop_recording():
        u, s, vh = svd(a, full_matrices=False)
        y = matmul(_t(vh) * expand_dims(_reciprocals(s, rtol, a.shape), -2), _t(u))
    _differentiable("pinv", a, (y,), (a, y), lambda g, s: _pinv_cotangent(g[0], *s))
    return y


def _reciprocals(s: Array, rtol: Any, shape: tuple[int, ...]) -> Array:
    """1 / s, 0 where that counts as 0."""
    kept = s > _tolerance(s, rtol, shape)
    return where(kept, divide(1, where(kept, s, 1)), 0)


def _pinv_cotangent(g: Array, a: Array, p: Array) -> Array:
    """The cotangent of ``a``, whose inverse is ``p``."""
    back, above = _t(p), _t(g)
    made = -matmul(matmul(back, g), back)
    made = made + matmul(above - matmul(a, matmul(p, above)), matmul(p, back))
    return made + matmul(matmul(back, p), above - matmul(matmul(above, p), a))


def matrix_rank(x: Array, /, *, rtol: Any = None) -> Array:
    """How many singular values of matrices are above ``rtol`` times the largest; int64. See :func:`pinv`."""
    with tape.stop_recording():
        s = svdvals(matrices(atleast_2d(x), "matrix_rank"))
        return sum(s > _tolerance(s, rtol, atleast_2d(x).shape), -1, dtype=dtypes.int64)


def matrix_power(x: Array, n: int, /) -> Array:
    """The product of ``n`` times the same square matrix; of its inverse where ``n`` is negative."""
    a = require_array(x, "matrix_power")
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise LinAlgError(f"matrix_power: x: expected square matrices, got shape {a.shape}")
    if n < 0:
        a, n = inv(a), -n
    if n == 0:
        return astype(broadcast_to(identity(a.shape[-1], a), a.shape), a.dtype)
    made: Array | None = None
    while n:
        if n % 2:
            made = a if made is None else matmul(made, a)
        n //= 2
        a = matmul(a, a) if n else a
    assert made is not None
    return made


class LstsqResult(NamedTuple):
    """A solution, the sums of squared residuals, the rank, and the singular values of the matrix."""

    x: Array
    residuals: Array
    rank: Array
    singular_values: Array


def lstsq(a: Array, b: Array, /, rcond: float | None = None) -> LstsqResult:
    """The ``x`` of the least ``|a @ x - b|``, the smallest one where there are several.

    Args:
        a: shape (m, n).
        b: shape (m,) or (m, k).
        rcond: as ``rtol`` of :func:`pinv`.

    Returns:
        The solution, of shape (n,) or (n, k); the sums of squared residuals, of shape (1,) or (k,), or of
        shape (0,) where ``m <= n`` or the rank is not ``n``, for which the function waits for the device; the
        rank; the singular values.

    Raises:
        LinAlgError: the shapes do not fit.

    Source of the derivative, which is that at constant rank: as of :func:`pinv`.
    """
    matrix = matrices(a, "lstsq")
    target = floating(require_array(b, "lstsq", "b"), "lstsq")
    if matrix.device is not target.device:
        raise DeviceError(f"lstsq: expected arrays on one device, got {matrix.device} and {target.device}")
    if matrix.ndim != 2 or target.ndim not in (1, 2) or target.shape[0] != matrix.shape[0]:
        raise LinAlgError(f"lstsq: expected shapes (m, n) and (m,) or (m, k), got {a.shape} and {b.shape}")
    dtype = dtypes.result_type(matrix.dtype, target.dtype)
    matrix, target = astype(matrix, dtype, copy=False), astype(target, dtype, copy=False)
    if target.ndim == 1:
        made = lstsq(matrix, expand_dims(target, 1), rcond)
        return LstsqResult(squeeze(made.x, 1), made.residuals, made.rank, made.singular_values)
    u, s, vh = svd(matrix, full_matrices=False)
    with tape.stop_recording():
        inverse = _reciprocals(s, rcond, matrix.shape)
        x = matmul(_t(vh) * inverse, matmul(_t(u), target))
        rank = sum(inverse != 0, -1, dtype=dtypes.int64)
    if tape.recording((matrix, target)):

        def vjp(given: Sequence[Array], saved: Sequence[Array], needs: Sequence[bool]) -> list[Array | None]:
            (g,), (matrix, target) = given, saved
            p = pinv(matrix, rtol=rcond)
            above = matmul(g, _t(target))
            return [_pinv_cotangent(above, matrix, p) if needs[0] else None, matmul(_t(p), g)]

        tape.record("lstsq", (matrix, target), (x,), vjp, (matrix, target))
    m, n = matrix.shape
    if m > n and int(rank) == n:
        apart = matmul(matrix, x) - target
        return LstsqResult(x, sum(multiply(apart, apart), 0), rank, s)
    return LstsqResult(x, empty(0, x.dtype, x.device), rank, s)
