"""Factorisations of matrices, with derivatives written in cukern's functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, overload

from .. import dtypes
from ..array import Array
from ..array.creation import arange, ones
from ..array.mapping import leading, mapped
from ..autodiff import tape
from ..elementwise.complex_rows import _times_i, conj, imag, real
from ..elementwise.function import astype
from ..elementwise.fuse import fuse
from ..elementwise.logic import logical_and, logical_or
from ..elementwise.table import abs, divide, equal, maximum, sqrt, where
from ..errors import GradientError
from ..index.sort import argsort, sort
from ..index.take import take, take_along_axis
from ..kernel.plan import allocate, on
from ..reduction.rows import all
from ..shape.joins import concat
from ..shape.views import expand_dims, flip, tril
from .batched import is_stand_in, raises
from .blas import multiply
from .diagonals import diagonal, from_diagonal
from .lapack import differentiable, factored, library, matrices, solve, total
from .products import adjoint, matmul
from .triangular import substituted

#: From how many rows and columns on a decomposition of the square takes less time than that of the matrix.
_LEAST_SQUARED = 64


class EighResult(NamedTuple):
    """Eigenvalues in ascending order, and the eigenvectors as columns."""

    eigenvalues: Array
    eigenvectors: Array


class EigResult(NamedTuple):
    """Eigenvalues in no order, and the eigenvectors as columns."""

    eigenvalues: Array
    eigenvectors: Array


class QRResult(NamedTuple):
    """An orthogonal or unitary and an upper triangular factor."""

    Q: Array
    R: Array


class SVDResult(NamedTuple):
    """Left singular vectors as columns, singular values in descending order, right ones as rows."""

    U: Array
    S: Array
    Vh: Array


@mapped(leading)
def cholesky(x: Array, /, *, upper: bool = False) -> Array:
    """The lower triangular factor ``L`` of Hermitian positive definite matrices, ``x = L @ conj(L.mT)``.

    Args:
        x: symmetric or Hermitian matrices, of which the lower triangle is read. The derivative is symmetric or
            Hermitian too: it holds for changes that keep ``x`` so.
        upper: whether to return ``conj(L.mT)``.

    Raises:
        LinAlgError: a matrix is not square, or, on the host, not positive definite.

    Source of the derivative: Murray, "Differentiation of the Cholesky decomposition", 2016.
    """
    a = matrices(x, "cholesky", square=True)
    with tape.stop_recording():
        y = _factored(a)

    def vjp(cotangents: Sequence[Array], saved: Sequence[Array]) -> Array:
        (factor,) = saved
        inner = _of_triangle(_halves, _lower_product(factor, cotangents[0]))
        half = substituted(factor, inner, True, True, spare=True)
        return adjoint(substituted(factor, adjoint(half), True, True, spare=True))

    differentiable("cholesky", a, (y,), (y,), vjp)
    return adjoint(y) if upper else y


def _factored(a: Array) -> Array:
    """The factors; on a GPU NaN for a matrix with a pivot that is not positive, which cuSOLVER leaves unfinished."""
    if a.device.addressable or is_stand_in(a.device) or a.ndim > 2 or not a.size or raises():
        (y,) = library(a, "cholesky")
        if a.device.addressable:
            return y
    else:
        y = factored(a)
    good = all(real(diagonal(y, 0, -2, -1)) > 0, -1, keepdims=True)
    return _of_triangle(_finished, y, expand_dims(good, -1))


def _of_triangle(function: Any, x: Array, *others: Array) -> Array:
    """An elementwise function of square matrices, others, and the numbers of rows and of columns."""
    numbers = arange(x.shape[-1], device=x.device)
    others = others or (adjoint(x),)
    result: Array = function(x, *others, expand_dims(numbers, 1), numbers)
    return result


@fuse
def _finished(factor: Any, good: Any, rows: Any, columns: Any) -> Any:
    return where(good, where(rows >= columns, factor, 0), math.nan)


@fuse
def _halves(x: Any, above: Any, rows: Any, columns: Any) -> Any:
    """Half of the Hermitian matrices with the lower triangles of ``x``, whose adjoints are ``above``."""
    return 0.5 * where(rows > columns, x, where(rows < columns, above, 0.5 * (x + above)))


#: The rows of the blocks of a product of which only a triangle is read.
_BLOCK = 512


def _lower_product(factor: Array, g: Array) -> Array:
    """``adjoint(factor) @ g`` for lower triangular ``factor``; above the diagonal, which is not read, is anything.

    What is below it depends on the lower triangle of ``g`` alone: little more than a sixth of the product.
    """
    n = factor.shape[-1]
    if factor.ndim > 2 or n < 4 * _BLOCK or tape.recording((factor, g)):
        return matmul(adjoint(factor), g)
    left, g = adjoint(factor), g.contiguous()
    with on(g.device):
        result = Array._wrap(allocate(g.device, (n, n), g.dtype), g.device)
        for i in range(0, n, _BLOCK):
            end = min(n, i + _BLOCK)
            multiply(g.device, left._data[i:end, i:], g._data[i:, :end], result._data[i:end, :end])
    return result


@fuse
def _over_gaps(m: Array, row: Array, column: Array, diagonal: Array) -> Array:
    """``m[i, j] / (v[j] - v[i])``; 0 on the diagonal and where numerator and denominator are 0."""
    gap = row - column
    free = logical_or(diagonal, logical_and(equal(m, 0), equal(gap, 0)))
    return where(free, 0, m / where(free, 1, gap))


def _rotated(m: Array, values: Array) -> Array:
    """The term that rotations of the vectors add to a cotangent, from their mutual components and ``values``."""
    n = values.shape[-1]
    on_diagonal = from_diagonal(ones(n, dtypes.bool_, m.device), n, n, 0)
    return _over_gaps(m, expand_dims(values, -2), expand_dims(values, -1), on_diagonal)


def _scaled(left: Array, scale: Array | None, right: Array) -> Array | None:
    """``left @ diag(scale) @ right``; None if ``scale`` is None."""
    return None if scale is None else matmul(left * expand_dims(scale, -2), right)


@mapped(leading)
def eigh(x: Array, /, UPLO: str = "L") -> EighResult:
    """The eigenvalues and eigenvectors of symmetric or Hermitian matrices.

    Args:
        x: such matrices, of which one triangle is read. The derivative is symmetric or Hermitian too, as that of
            PyTorch: it holds for changes that keep ``x`` so. The derivative of an eigenvector is
            infinite or NaN if its eigenvalue is repeated. That of complex ones is right for functions whose value does
            not depend on the eigenvectors' phases.
        UPLO: the triangle: ``"L"`` for the lower one, ``"U"`` for the upper one.

    Raises:
        LinAlgError: a matrix is not square, or the iteration does not converge.
        ValueError: there is no such triangle.

    Source of the derivative: Giles, "Collected matrix derivative results for forward and reverse mode algorithmic
    differentiation", 2008.
    """
    a = matrices(x, "eigh", square=True)
    values, vectors = library(a, "eigh", UPLO=_triangle(UPLO, "eigh"))

    def vjp(cotangents: Sequence[Any], saved: Sequence[Array]) -> Array:
        (g_values, g_vectors), (values, vectors) = cotangents, saved
        result = _scaled(vectors, g_values, adjoint(vectors))
        if g_vectors is not None:
            inner = _rotated(matmul(adjoint(vectors), g_vectors), values)
            result = total(result, matmul(matmul(vectors, inner), adjoint(vectors)))
        assert result is not None
        return 0.5 * (result + adjoint(result))

    differentiable("eigh", a, (values, vectors), (values, vectors), vjp)
    return EighResult(values, vectors)


@mapped(leading)
def eig(x: Array, /) -> EigResult:
    """The eigenvalues and eigenvectors of square matrices: complex numbers.

    Args:
        x: square matrices. The derivative is infinite or NaN if an eigenvalue is repeated; that of eigenvectors is
            right for functions whose value does not depend on their phases.

    Raises:
        LinAlgError: a matrix is not square, or the iteration does not converge.

    Source of the derivative: Boeddeker et al., "On the computation of complex-valued gradients with application to
    statistically optimum beamforming", 2017.

    >>> import cukern as ck
    >>> eig(ck.asarray([[1.0, 0.0], [0.0, 2.0]])).eigenvalues.tolist()
    [(1+0j), (2+0j)]
    """
    a = matrices(x, "eig", square=True)
    wide = dtypes.complex_of(a.dtype)
    values, vectors = (astype(part, wide, copy=False) for part in library(a, "eig"))
    if tape.recording((a,)):
        a = astype(a, wide, copy=False)

    def vjp(cotangents: Sequence[Any], saved: Sequence[Array]) -> Array:
        (g_values, g_vectors), (values, vectors) = cotangents, saved
        above = adjoint(vectors)
        result = None if g_values is None else from_diagonal(g_values, a.shape[-1], a.shape[-1], 0)
        if g_vectors is not None:
            inner = matmul(above, g_vectors)
            lengths = expand_dims(real(diagonal(inner, 0, -2, -1)), -2)
            result = total(result, _rotated(inner - matmul(above, vectors) * lengths, conj(values)))
        assert result is not None
        return solve(above, matmul(result, above))

    differentiable("eig", a, (values, vectors), (values, vectors), vjp)
    return EigResult(values, vectors)


@mapped(leading)
def eigvals(x: Array, /) -> Array:
    """The eigenvalues of square matrices, complex numbers in no order. See :func:`eig`."""
    a = matrices(x, "eigvals", square=True)
    if tape.recording((a,)):
        return eig(a).eigenvalues
    return astype(library(a, "eigvals")[0], dtypes.complex_of(a.dtype), copy=False)


def _triangle(letter: str, name: str) -> str:
    if letter.upper() not in ("L", "U"):
        raise ValueError(f"{name}: UPLO: expected 'L' or 'U', got {letter!r}")
    return letter.upper()


@mapped(leading)
def eigvalsh(x: Array, /, UPLO: str = "L") -> Array:
    """The eigenvalues of symmetric or Hermitian matrices, in ascending order. See :func:`eigh`."""
    a = matrices(x, "eigvalsh", square=True)
    if tape.recording((a,)):
        return eigh(a, UPLO).eigenvalues
    return library(a, "eigvalsh", UPLO=_triangle(UPLO, "eigvalsh"))[0]


@overload
def svd(
    x: Array, /, full_matrices: bool = True, compute_uv: Literal[True] = True, hermitian: bool = False
) -> SVDResult: ...
@overload
def svd(
    x: Array, /, *, full_matrices: bool = True, compute_uv: Literal[False], hermitian: bool = False
) -> Array: ...
@mapped(leading)
def svd(
    x: Array, /, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False
) -> SVDResult | Array:
    """The singular value decomposition, ``x = U * S @ Vh``.

    Args:
        x: shape (..., m, n).
        full_matrices: whether ``U`` and ``Vh`` are square. The derivative of the vectors needs False, unless ``x``
            is square; it is infinite or NaN if a singular value is repeated. That of complex vectors is right for
            functions whose value does not depend on the phase that a left and a right vector share.
        compute_uv: False returns only the singular values, as :func:`svdvals`.
        hermitian: whether ``x`` is taken to be symmetric, or Hermitian: found from its lower triangle by :func:`eigh`.

    Raises:
        GradientError: in the derivative of the vectors of full matrices.
        LinAlgError: the iteration does not converge.

    Source of the derivative: Townsend, "Differentiating the singular value decomposition", 2016.
    """
    if hermitian:
        return _hermitian_svd(x, compute_uv)
    if not compute_uv:
        return svdvals(x)
    a = matrices(x, "svd")
    if _narrow(a):
        with tape.stop_recording():
            u, s, vh = svd_by_squares(a, bool(full_matrices))
    else:
        u, s, vh = library(a, "svd", full_matrices=bool(full_matrices))
    differentiable("svd", a, (u, s, vh), (u, s, vh), _svd_cotangent)
    return SVDResult(u, s, vh)


def _hermitian_svd(x: Array, compute_uv: bool) -> SVDResult | Array:
    """:func:`svd` of Hermitian matrices: the eigenvalues' magnitudes, and their signs in the right vectors."""
    if not compute_uv:
        return flip(sort(abs(eigvalsh(x))), axis=-1)
    values, vectors = eigh(x)
    order = argsort(abs(values), axis=-1, descending=True)
    values = take_along_axis(values, order, axis=-1)
    vectors = take_along_axis(vectors, expand_dims(order, -2), axis=-1)
    signs = where(values < 0, -1, 1)
    return SVDResult(vectors, abs(values), adjoint(vectors * expand_dims(signs, -2)))


def _narrow(a: Array) -> bool:
    """Whether the singular values of ``a`` are found faster, and as well, from its square in double precision."""
    return (
        not a.device.addressable
        and a.ndim == 2
        and a.dtype in (dtypes.float32, dtypes.complex64)
        and min(a.shape) >= _LEAST_SQUARED
    )


def squared(a: Array) -> tuple[Array, Array]:
    """``a``, with at least as many rows as columns, and ``adjoint(a) @ a``, both in double precision."""
    wide = astype(a, dtypes.result_type(a.dtype, dtypes.float64))
    return wide, matmul(adjoint(wide), wide)


def svd_by_squares(a: Array, full: bool) -> SVDResult:
    """The decomposition of a matrix in single precision from its square in double precision.

    The right vectors are the square's eigenvectors. The matrix times them has columns that are orthogonal but for the
    rounding of double precision. Their QR decomposition makes them exactly so, and leaves a triangle that is a diagonal
    within that rounding: 1e-8 of the largest singular value, or less.
    """
    if a.shape[0] < a.shape[1]:
        u, s, vh = svd_by_squares(adjoint(a), full)
        return SVDResult(adjoint(vh), s, adjoint(u))
    n = a.shape[1]
    wide, square = squared(a)
    vectors = flip(eigh(square).eigenvectors, axis=-1)
    q, r = qr(matmul(wide, vectors), "complete" if full else "reduced")
    pivots = diagonal(r[:n])
    s = abs(pivots)
    phases = where(equal(s, 0), 1, divide(pivots, where(equal(s, 0), 1, s)))
    order = argsort(s, descending=True)
    u = take(q[:, :n] * phases, order, axis=1)
    whole = concat([u, q[:, n:]], axis=1) if full and a.shape[0] > n else u
    result = whole, take(s, order), adjoint(take(vectors, order, axis=1))
    narrow = (a.dtype, dtypes.info(a.dtype).real, a.dtype)
    return SVDResult(*(astype(part, dtype) for part, dtype in zip(result, narrow, strict=True)))


def _svd_cotangent(cotangents: Sequence[Any], saved: Sequence[Array]) -> Array | None:
    (g_u, g_s, g_vh), (u, s, vh) = cotangents, saved
    m, n, k = u.shape[-2], vh.shape[-1], s.shape[-1]
    if u.shape[-1] > k or vh.shape[-2] > k:
        if g_u is not None or g_vh is not None:
            raise GradientError(
                "svd: the vectors of full matrices have no derivative; use full_matrices=False"
            )
        u, vh = u[..., :k], vh[..., :k, :]
    result = _scaled(u, g_s, vh)
    if g_u is None and g_vh is None:
        return result
    scale = expand_dims(s, -2)
    inverse = where(equal(scale, 0), 0, divide(1, where(equal(scale, 0), 1, scale)))
    squares = s * s
    if g_u is not None:
        inner = _rotated(matmul(adjoint(u), g_u), squares)
        result = total(result, matmul((matmul(u, inner + adjoint(inner))) * scale, vh))
        if u.dtype in dtypes.COMPLEX:
            phases = expand_dims(imag(diagonal(matmul(adjoint(u), g_u), 0, -2, -1)), -2)
            result = total(result, matmul(u * _times_i(phases * inverse), vh))
        if m > k:
            result = total(result, matmul((g_u - matmul(u, matmul(adjoint(u), g_u))) * inverse, vh))
    if g_vh is not None:
        g_v = adjoint(g_vh)
        inner = _rotated(matmul(vh, g_v), squares)
        result = total(result, matmul(u * scale, matmul(inner + adjoint(inner), vh)))
        if n > k:
            result = total(result, matmul(u * inverse, adjoint(g_v - matmul(adjoint(vh), matmul(vh, g_v)))))
    return result


def svdvals(x: Array, /) -> Array:
    """The singular values of matrices, in descending order."""
    a = matrices(x, "svdvals")
    if tape.recording((a,)):
        return svd(a, full_matrices=False).S
    if not _narrow(a):
        return library(a, "svd", compute_uv=False)[0]
    with tape.stop_recording():
        square = squared(a if a.shape[0] >= a.shape[1] else adjoint(a))[1]
        return narrow_values(eigvalsh(square), a.dtype)


def narrow_values(squares: Array, dtype: dtypes.DType) -> Array:
    """The singular values of a matrix of a dtype in single precision, from the eigenvalues of its square."""
    return astype(sqrt(maximum(flip(squares), 0)), dtypes.info(dtype).real)


@overload
def qr(x: Array, /, mode: Literal["reduced", "complete"] = "reduced") -> QRResult: ...
@overload
def qr(x: Array, /, mode: Literal["r"]) -> Array: ...
@mapped(leading)
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
        return QRResult(q, concat([square, matmul(adjoint(q), a[..., m:])], axis=-1))
    q, r = library(a, "qr", mode)
    differentiable("qr", a, (q, r), (q, r), _qr_cotangent)
    return QRResult(q, r)


def _qr_cotangent(cotangents: Sequence[Any], saved: Sequence[Array]) -> Array:
    (g_q, g_r), (q, r) = cotangents, saved
    if r.shape[-2] > r.shape[-1]:
        raise GradientError("qr: the factors of mode 'complete' have no derivative; use mode='reduced'")
    from_r = None if g_r is None else matmul(r, adjoint(g_r))
    inner = total(from_r, None if g_q is None else -matmul(adjoint(g_q), q))
    assert inner is not None
    below, n = tril(inner, k=-1), inner.shape[-1]
    middle = from_diagonal(real(diagonal(inner, 0, -2, -1)), n, n, 0)
    result = total(g_q, matmul(q, below + adjoint(below) + middle))
    assert result is not None
    return adjoint(substituted(r, adjoint(result), False))
