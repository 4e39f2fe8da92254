"""The linalg module: derivatives to second order, and where there are none."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from decomposition_support import positive, random, regular, tolerance

import cukern as ck
from cukern.errors import GradientError
from cukern.testing import assert_close, gradcheck

L = ck.linalg


def symmetric(x: ck.Array) -> ck.Array:
    return x + x.mT


SMOOTH: dict[str, tuple[Callable[..., Any], list[np.ndarray]]] = {
    "inv": (L.inv, [regular(2, 3, 3)]),
    "det": (L.det, [regular(2, 3, 3)]),
    "slogdet": (lambda x: L.slogdet(x).logabsdet, [regular(2, 3, 3)]),
    "cholesky": (lambda x: L.cholesky(symmetric(x)), [positive(2, 3, 3)]),
    "cholesky upper": (lambda x: L.cholesky(symmetric(x), upper=True), [positive(3, 3)]),
    "eigh": (lambda x: tuple(part * part for part in L.eigh(symmetric(x))), [random(2, 3, 3)]),
    "eigh upper": (lambda x: L.eigh(symmetric(x), "U").eigenvectors ** 2, [random(3, 3)]),
    "eigvalsh": (lambda x: L.eigvalsh(symmetric(x)), [random(2, 3, 3)]),
    "qr": (L.qr, [random(2, 4, 3)]),
    "qr square": (lambda x: L.qr(x, mode="complete"), [regular(3, 3)]),
    "qr wide": (L.qr, [random(2, 2, 4)]),
    "qr alone": (lambda x: L.qr(x, mode="r"), [random(4, 3)]),
    "svd": (lambda x: tuple(part * part for part in L.svd(x, full_matrices=False)), [random(2, 4, 3)]),
    "svd wide": (lambda x: tuple(part * part for part in L.svd(x, full_matrices=False)), [random(2, 4)]),
    "svd square": (lambda x: tuple(part * part for part in L.svd(x)), [regular(3, 3)]),
    "svd product": (lambda x: (lambda u, s, vh: u @ vh)(*L.svd(x, full_matrices=False)), [random(4, 2)]),
    "svdvals": (L.svdvals, [random(2, 3, 4)]),
    "pinv": (L.pinv, [random(2, 4, 3)]),
    "pinv wide": (L.pinv, [random(2, 4)]),
    "pinv hermitian": (lambda x: L.pinv(symmetric(x), hermitian=True), [regular(3, 3)]),
    "expm": (L.expm, [random(2, 3, 3)]),
    "expm squared often": (lambda x: L.expm(20 * (x - x.T)), [regular(3, 3)]),
    "triangle": (
        lambda a, b: [
            L.solve_triangular(a, b, lower=lower, trans=trans, unit_diagonal=unit)
            for lower, trans, unit in ((False, False, False), (True, False, True), (True, True, False))
        ],
        [regular(3, 3), random(3)],
    ),
    "pinv of low rank": (lambda a, b: L.pinv(a @ b, rtol=1e-8), [random(4, 2), random(2, 3)]),
    "power": (lambda x: L.matrix_power(x, 3), [random(2, 3, 3)]),
    "negative power": (lambda x: L.matrix_power(x, -2), [regular(3, 3)]),
    "cond": (L.cond, [regular(3, 3)]),
    "cond 1": (lambda x: L.cond(x, 1), [regular(3, 3)]),
    "multi_dot": (lambda *arrays: L.multi_dot(arrays), [random(3), random(3, 4), random(4, 2)]),
    "residuals": (lambda a, b: L.lstsq(a, b).residuals, [random(4, 2), random(4)]),
    "tensorinv": (lambda x: L.tensorinv(x, 1), [regular(4, 4).reshape(4, 2, 2)]),
    **{
        f"matrix_norm {order}": (lambda x, order=order: L.matrix_norm(x, ord=order), [random(2, 3, 4)])
        for order in ("fro", "nuc", 2, -2, 1, np.inf)
    },
}


#: Whose derivatives are another one's for a transpose, an option or another shape.
_ALIKE = {
    "cholesky upper",
    "eigh upper",
    "qr wide",
    "svd wide",
    "pinv wide",
    "expm squared often",
    "cond 1",
    "matrix_norm 2",
    "matrix_norm inf",
}


@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=pytest.mark.thorough if one in _ALIKE else ()) for one in SMOOTH]
)
def test_gradients(device: ck.Device, name: str) -> None:
    function, arguments = SMOOTH[name]
    assert gradcheck(function, list(map(ck.asarray, arguments)), order=2)


def test_third_derivatives(device: ck.Device) -> None:
    assert gradcheck(L.inv, [ck.asarray(regular(2, 2))], order=3)
    assert gradcheck(lambda x: L.eigvalsh(symmetric(x)), [ck.asarray(regular(2, 2))], order=3)


def cofactors(a: np.ndarray) -> np.ndarray:
    minor = [
        [np.linalg.det(np.delete(np.delete(a, i, 0), j, 1)) * (-1) ** (i + j) for j in range(3)]
        for i in range(3)
    ]
    return np.asarray(minor)


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_derivative_of_a_determinant_that_is_0(device: ck.Device, rank: int) -> None:
    a = np.zeros((3, 3))
    a[:, :rank] = random(3, rank)
    stack = np.stack([a, regular(3, 3), a.T])
    made = ck.grad(lambda x: L.det(x).sum())(ck.asarray(stack))
    assert_close(made, np.stack([cofactors(one) for one in stack]))
    with pytest.raises(GradientError, match="det: the second derivative"):
        ck.grad(lambda x: (ck.grad(lambda y: L.det(y))(x) ** 2).sum())(ck.asarray(a))


def test_derivatives_of_values_that_are_equal(device: ck.Device) -> None:
    assert_close(ck.grad(lambda x: (L.eigh(x).eigenvalues ** 2).sum())(ck.eye(3)), 2 * np.eye(3))
    assert_close(ck.grad(lambda x: L.matrix_norm(x, ord="nuc"))(ck.eye(3)), np.eye(3), **tolerance("float32"))
    assert_close(ck.grad(L.norm)(ck.zeros((2, 3))), np.zeros((2, 3)))
    # The third vector has a derivative, the two of the value 1 have none.
    twice = ck.asarray(np.diag([1.0, 1.0, 2.0]))
    assert gradcheck(lambda x: L.eigh(symmetric(x)).eigenvectors[:, 2] ** 2 + 0 * x[0], [twice])
    weight = ck.asarray(random(3, 3))
    made = ck.grad(lambda x: (L.eigh(x).eigenvectors * weight).sum())(twice)
    assert not ck.all(ck.isfinite(made)).item()


def test_vectors_of_full_matrices_have_no_derivative(device: ck.Device) -> None:
    x = ck.asarray(random(4, 2))
    assert_close(
        ck.grad(lambda x: L.svd(x).S.sum())(x), ck.grad(lambda x: L.svd(x, full_matrices=False).S.sum())(x)
    )
    with pytest.raises(GradientError, match="full_matrices=False"):
        ck.grad(lambda x: L.svd(x).U.sum())(x)
    with pytest.raises(GradientError, match="mode='reduced'"):
        ck.grad(lambda x: L.qr(x, mode="complete").Q.sum())(x)


def test_gradients_of_complex_triangular_equations(device: ck.Device) -> None:
    a, b = regular(3, 3) + 1j * random(3, 3), random(3, 2) + 1j * random(3, 2)
    for lower, trans, unit in ((False, True, False), (True, False, True), (True, True, False)):
        options = {"lower": lower, "trans": trans, "unit_diagonal": unit}
        solved = functools.partial(L.solve_triangular, **options)
        assert gradcheck(solved, [ck.asarray(a), ck.asarray(b)], order=2)
