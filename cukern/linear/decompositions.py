"""Factorisations of matrices, with derivatives written in cukern's functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, overload

from .. import dtypes
from ..array import Array
from ..array.creation import ones
from ..autodiff import tape
from ..elementwise.fuse import fuse
from ..elementwise.logic import logical_and, logical_or
from ..elementwise.table import divide, equal, where
from ..errors import GradientError
from ..reduction.rows import all
from ..shape.views import concat, expand_dims, tril
from .lapack import differentiable, library, matrices, solve, total, transposed
from .products import diagonal, from_diagonal, matmul


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


def cholesky(x: Array, /, *, upper: bool = False) -> Array:
    """The lower triangular factor ``L`` of symmetric positive definite matrices, ``x = L @ L.mT``.

    Args:
        x: symmetric matrices, of which the lower triangle is read; the derivative is symmetric.
        upper: whether to return ``L.mT``.

    Raises:
        LinAlgError: a matrix is not square, or, on the host, not positive definite.

    Source of the derivative: Murray, "Differentiation of the Cholesky decomposition", 2016.
    """
    a = matrices(x, "cholesky", square=True)
    (y,) = library(a, "cholesky")
    if not a.device.addressable:
        y = _checked_factor(y)

    def vjp(given: Sequence[Array], saved: Sequence[Array]) -> Array:
        above = transposed(saved[0])
        inner = _lower_half(matmul(above, given[0]))
        half = solve(above, transposed(solve(above, transposed(inner))))
        return 0.5 * (half + transposed(half))

    differentiable("cholesky", a, (y,), (y,), vjp)
    return transposed(y) if upper else y


def _lower_half(x: Array) -> Array:
    """The lower triangle with half the diagonal."""
    return tril(x) - 0.5 * from_diagonal(diagonal(x, 0, -2, -1), x.shape[-1], x.shape[-1], 0)


def _checked_factor(factor: Array) -> Array:
    """``factor``, or NaN for a matrix with a pivot that is not positive, which cuSOLVER leaves unfinished."""
    with tape.stop_recording():
        good = all(diagonal(factor, 0, -2, -1) > 0, -1, keepdims=True)
        return where(expand_dims(good, -1), factor, math.nan)


@fuse
def _over_gaps(m: Array, row: Array, column: Array, diagonal: Array) -> Array:
    """``m[i, j] / (v[j] - v[i])``; 0 on the diagonal and where numerator and denominator are 0."""
    gap = row - column
    free = logical_or(diagonal, logical_and(equal(m, 0), equal(gap, 0)))
    return where(free, 0, m / where(free, 1, gap))


def _turned(m: Array, values: Array) -> Array:
    """The term that rotations of the vectors add to a cotangent, from their mutual components and ``values``."""
    n = values.shape[-1]
    on_diagonal = from_diagonal(ones(n, dtypes.bool_, m.device), n, n, 0)
    return _over_gaps(m, expand_dims(values, -2), expand_dims(values, -1), on_diagonal)


def _scaled(left: Array, scale: Array | None, right: Array) -> Array | None:
    """``left @ diag(scale) @ right``; None if ``scale`` is None."""
    return None if scale is None else matmul(left * expand_dims(scale, -2), right)


def eigh(x: Array, /, UPLO: str = "L") -> EighResult:
    """The eigenvalues and eigenvectors of symmetric matrices.

    Args:
        x: symmetric matrices, of which one triangle is read; the derivative is symmetric. The derivative of an
            eigenvector is infinite or NaN if its eigenvalue is repeated.
        UPLO: the triangle: ``"L"`` for the lower one, ``"U"`` for the upper one.

    Raises:
        LinAlgError: a matrix is not square, or the iteration does not converge.
        ValueError: there is no such triangle.

    Source of the derivative: Giles, "Collected matrix derivative results for forward and reverse mode algorithmic
    differentiation", 2008.
    """
    a = matrices(x, "eigh", square=True)
    values, vectors = library(a, "eigh", UPLO=_triangle(UPLO, "eigh"))

    def vjp(given: Sequence[Any], saved: Sequence[Array]) -> Array:
        (g_values, g_vectors), (values, vectors) = given, saved
        made = _scaled(vectors, g_values, transposed(vectors))
        if g_vectors is not None:
            inner = _turned(matmul(transposed(vectors), g_vectors), values)
            made = total(made, matmul(matmul(vectors, inner), transposed(vectors)))
        assert made is not None
        return 0.5 * (made + transposed(made))

    differentiable("eigh", a, (values, vectors), (values, vectors), vjp)
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
    return library(a, "eigvalsh", UPLO=_triangle(UPLO, "eigvalsh"))[0]


@overload
def svd(x: Array, /, full_matrices: bool = True, compute_uv: Literal[True] = True) -> SVDResult: ...
@overload
def svd(x: Array, /, *, full_matrices: bool = True, compute_uv: Literal[False]) -> Array: ...
def svd(x: Array, /, full_matrices: bool = True, compute_uv: bool = True) -> SVDResult | Array:
    """The singular value decomposition, ``x = U * S @ Vh``.

    Args:
        x: shape (..., m, n).
        full_matrices: whether ``U`` and ``Vh`` are square. The derivative of the vectors needs False, unless ``x``
            is square; it is infinite or NaN if a singular value is repeated.
        compute_uv: False returns only the singular values, as :func:`svdvals`.

    Raises:
        GradientError: in the derivative of the vectors of full matrices.
        LinAlgError: the iteration does not converge.

    Source of the derivative: Townsend, "Differentiating the singular value decomposition", 2016.
    """
    if not compute_uv:
        return svdvals(x)
    a = matrices(x, "svd")
    u, s, vh = library(a, "svd", full_matrices=bool(full_matrices))
    differentiable("svd", a, (u, s, vh), (u, s, vh), _svd_cotangent)
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
    squares = s * s
    if g_u is not None:
        inner = _turned(matmul(transposed(u), g_u), squares)
        made = total(made, matmul((matmul(u, inner + transposed(inner))) * scale, vh))
        if m > k:
            made = total(made, matmul((g_u - matmul(u, matmul(transposed(u), g_u))) * inverse, vh))
    if g_vh is not None:
        g_v = transposed(g_vh)
        inner = _turned(matmul(vh, g_v), squares)
        made = total(made, matmul(u * scale, matmul(inner + transposed(inner), vh)))
        if n > k:
            made = total(made, matmul(u * inverse, transposed(g_v - matmul(transposed(vh), matmul(vh, g_v)))))
    return made


def svdvals(x: Array, /) -> Array:
    """The singular values of matrices, in descending order."""
    a = matrices(x, "svdvals")
    if tape.recording((a,)):
        return svd(a, full_matrices=False).S
    return library(a, "svd", compute_uv=False)[0]


@overload
def qr(x: Array, /, mode: Literal["reduced", "complete"] = "reduced") -> QRResult: ...
@overload
def qr(x: Array, /, mode: Literal["r"]) -> Array: ...
def qr(x: Array, /, mode: str = "reduced") -> QRResult | Array:
    """The factors of ``x = Q @ R``, ``Q`` with orthonormal columns and ``R`` upper triangular.

    Args:
        x: shape (..., m, n).
        mode: ``"reduced"`` for a ``Q`` of shape (..., m, min(m, n)); ``"complete"`` for a square one, which has a
            derivative if ``m <= n``; ``"r"`` for only the ``R`` of the reduced mode. The derivative assumes that the
            first ``min(m, n)`` columns are linearly independent.

    Raises:
        GradientError: in the derivative of a complete ``Q`` with more columns than ``x``.
        ValueError: there is no such mode.

    Source of the derivative: Walter and Lehmann, "Algorithmic differentiation of linear algebra functions with
    application in optimum experimental design", 2010.
    """
    if mode == "r":
        return qr(x).R
    if mode not in ("reduced", "complete"):
        raise ValueError(f"qr: mode: expected 'reduced', 'complete' or 'r', got {mode!r}")
    a = matrices(x, "qr")
    m, n = a.shape[-2:]
    if m < n and tape.recording((a,)):  # the columns beyond the square part are computed from its factors
        q, square = qr(a[..., :m])
        return QRResult(q, concat([square, matmul(transposed(q), a[..., m:])], axis=-1))
    q, r = library(a, "qr", mode)
    differentiable("qr", a, (q, r), (q, r), _qr_cotangent)
    return QRResult(q, r)


def _qr_cotangent(given: Sequence[Any], saved: Sequence[Array]) -> Array:
    (g_q, g_r), (q, r) = given, saved
    if r.shape[-2] > r.shape[-1]:
        raise GradientError("qr: the factors of mode 'complete' have no derivative; use mode='reduced'")
    from_r = None if g_r is None else matmul(r, transposed(g_r))
    inner = total(from_r, None if g_q is None else -matmul(transposed(g_q), q))
    assert inner is not None
    made = total(g_q, matmul(q, tril(inner) + transposed(tril(inner, k=-1))))
    assert made is not None
    return transposed(solve(r, transposed(made)))
