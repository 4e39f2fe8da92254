"""Complex matrices: values as NumPy's, and derivatives by finite differences of parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cukern as ck
from cukern.testing import assert_close, gradcheck

RNG = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape) + 1j * RNG.normal(size=shape)


A, B, TALL, WIDE = normal(2, 3, 3), normal(2, 3, 2), normal(4, 3), normal(2, 3)
HERMITIAN = A @ A.conj().mT + 3 * np.eye(3)


def hermitian(x: Any) -> Any:
    return x + ck.conj(ck.matrix_transpose(x))


def adjoint(x: Any) -> Any:
    return ck.conj(ck.matrix_transpose(x))


@pytest.mark.parametrize("dtype", [pytest.param(np.complex64, marks=pytest.mark.thorough), np.complex128])
def test_values_are_numpys(device: ck.Device, dtype: Any) -> None:
    tolerance = 2e-4 if dtype == np.complex64 else 1e-10
    a, b, h = (one.astype(dtype) for one in (A, B, HERMITIAN))
    x, y, z = (ck.asarray(one) for one in (a, b, h))
    pairs: list[tuple[Any, Any]] = [
        (ck.linalg.inv(x), np.linalg.inv(a)),
        (ck.linalg.solve(x, y), np.linalg.solve(a, b)),
        (ck.linalg.det(x), np.linalg.det(a)),
        (ck.linalg.slogdet(x).sign, np.linalg.slogdet(a).sign),
        (ck.linalg.slogdet(x).logabsdet, np.linalg.slogdet(a).logabsdet),
        (ck.linalg.cholesky(z), np.linalg.cholesky(h)),
        (ck.linalg.eigvalsh(z), np.linalg.eigvalsh(h)),
        (ck.linalg.svdvals(x), np.linalg.svd(a, compute_uv=False)),
        (ck.linalg.pinv(ck.asarray(TALL.astype(dtype))), np.linalg.pinv(TALL.astype(dtype))),
        (ck.linalg.matrix_power(x, 3), np.linalg.matrix_power(a, 3)),
        (ck.linalg.vector_norm(x), np.linalg.norm(a.ravel())),
        (ck.linalg.vector_norm(x, ord=3, axis=1), np.linalg.norm(a, 3, axis=1)),
        (ck.linalg.matrix_norm(x, ord="nuc"), np.linalg.norm(a, "nuc", axis=(-2, -1))),
        (ck.linalg.matrix_norm(x, ord=1), np.linalg.norm(a, 1, axis=(-2, -1))),
        (ck.linalg.cond(x), np.linalg.cond(a)),
        (ck.linalg.matrix_rank(x), np.linalg.matrix_rank(a)),
        (ck.linalg.lstsq(ck.asarray(TALL), ck.asarray(TALL[:, 0] * 2j)).x, [2j, 0, 0]),
    ]
    for got, want in pairs:
        want = np.asarray(want)
        assert_close(got, want, rtol=tolerance, atol=tolerance)
        assert got.dtype == want.dtype


def test_factors_multiply_to_the_matrix(device: ck.Device) -> None:
    for matrix in (A, TALL, WIDE):
        x = ck.asarray(matrix)
        u, s, vh = ck.linalg.svd(x, full_matrices=False)
        assert s.dtype == ck.float64
        assert_close((u * s[..., None, :]) @ vh, matrix, atol=1e-12)
        q, r = ck.linalg.qr(x)
        assert_close(q @ r, matrix, atol=1e-12)
        assert_close(
            adjoint(q) @ q,
            np.broadcast_to(np.eye(q.shape[-1]), (*q.shape[:-2], *q.shape[-1:] * 2)),
            atol=1e-12,
        )
    values, vectors = ck.linalg.eigh(ck.asarray(HERMITIAN))
    assert_close((vectors * values[..., None, :]) @ adjoint(vectors), HERMITIAN, atol=1e-11)


def test_eigenvalues_of_any_matrix(device: ck.Device) -> None:
    turn = ck.asarray([[0.0, -1.0], [1.0, 0.0]])
    values, vectors = ck.linalg.eig(turn)
    assert values.dtype == vectors.dtype == ck.complex64
    assert_close(turn.astype(ck.complex64) @ vectors, (vectors * values).numpy())
    assert_close(
        ck.sort(ck.linalg.eigvals(ck.asarray(A)), axis=-1), np.sort(np.linalg.eigvals(A)), rtol=1e-10
    )
    assert ck.linalg.eigvals(ck.asarray(np.diag([1.0, 2.0]))).dtype == ck.complex128


def test_exponential(device: ck.Device) -> None:
    values, vectors = np.linalg.eig(A[0])
    want = vectors @ np.diag(np.exp(values)) @ np.linalg.inv(vectors)
    assert_close(ck.linalg.expm(ck.asarray(A[0])), want, rtol=1e-10)


#: Functions of which the phases of vectors do not change the value.
DIFFERENTIABLE: dict[str, Callable[[Any], Any]] = {
    "inv": ck.linalg.inv,
    "det": ck.linalg.det,
    "slogdet": lambda x: list(ck.linalg.slogdet(x)),
    "cholesky": lambda x: ck.linalg.cholesky(hermitian(x) + 9 * ck.eye(3, dtype="float64")),
    "eigvalsh": lambda x: ck.linalg.eigvalsh(hermitian(x)),
    "svdvals": ck.linalg.svdvals,
    "qr": lambda x: list(ck.linalg.qr(x)),
    "eigvals": ck.linalg.eigvals,
    "pinv": lambda x: ck.linalg.pinv(x[:, :2]),
    "expm": lambda x: ck.linalg.expm(0.3 * x),
    "norm": ck.linalg.vector_norm,
}


#: What takes long to compile, or is made of the others.
LONG = {"expm", "pinv", "norm", "svdvals", "eigvalsh"}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.thorough) if name in LONG else name for name in DIFFERENTIABLE],
)
def test_derivatives(device: ck.Device, name: str) -> None:
    assert gradcheck(DIFFERENTIABLE[name], [ck.asarray(A[0])])


def _projectors(vectors: Any, weights: Any) -> Any:
    return (vectors * weights) @ adjoint(vectors)


WEIGHTS = np.array([1.0, 2.0, -1.0])


def test_derivatives_of_vectors(device: ck.Device) -> None:
    """Of projectors, and of products of vectors that share a phase."""
    weights = ck.asarray(WEIGHTS)
    assert gradcheck(
        lambda x: _projectors(ck.linalg.eigh(hermitian(x)).eigenvectors, weights), [ck.asarray(A[0])]
    )
    assert gradcheck(lambda x: _projectors(ck.linalg.eig(x).eigenvectors, weights), [ck.asarray(A[0])])

    def shared(x: Any) -> Any:
        u, s, vh = ck.linalg.svd(x, full_matrices=False)
        return [(u * weights[: s.shape[-1]]) @ vh, _projectors(u, s)]

    for matrix in (A[0], TALL, WIDE):
        assert gradcheck(shared, [ck.asarray(matrix)])


def test_solve_with_a_real_right_side(device: ck.Device) -> None:
    right = ck.asarray(RNG.normal(size=(3, 2)))
    assert gradcheck(ck.linalg.solve, [ck.asarray(A[0]), right], order=2)
