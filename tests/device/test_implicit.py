"""custom_root, cg and gmres: solutions, and gradients by the implicit function theorem."""

from __future__ import annotations

import numpy as np
import pytest

import cukern as ck
from cukern.control import roots
from cukern.testing import assert_close, gradcheck

pytestmark = pytest.mark.usefixtures("device")


def f64(values):
    return ck.asarray(np.asarray(values, np.float64))


RNG = np.random.default_rng(5)
FACTOR, RIGHT = RNG.normal(size=(5, 5)), RNG.normal(size=5)


def matrix(factor, name):
    """A matrix that the solver takes: cg a symmetric, positive definite one."""
    unit = 5 * f64(np.eye(factor.shape[0]))
    return factor @ factor.mT + unit if name == "cg" else factor + unit


@pytest.mark.parametrize("name", ["cg", "gmres"])
def test_solvers_to_second_order(name):
    def solved(solve):
        return lambda factor, b: (ck.sin(solve(matrix(factor, name), b)) * f64(RIGHT)).sum()

    solver, args = getattr(ck.linalg, name), [f64(FACTOR), f64(RIGHT)]
    right = solved(ck.linalg.solve)
    for solve in (
        lambda a, b: solver(a, b, tol=1e-13),
        lambda a, b: solver(lambda v: a @ v, b, tol=1e-13),
    ):
        f = solved(solve)
        value, product = ck.hvp(f, args, args)
        found = value, *ck.grad(f, (0, 1))(*args), *product
        value, product = ck.hvp(right, args, args)
        for one, expected in zip(found, (value, *ck.grad(right, (0, 1))(*args), *product), strict=True):
            assert_close(one, expected.numpy(), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", ["cg", "gmres"])
def test_preconditioners_and_restarts_of_columns(name):
    """Of 60 rows with scales from 1 to 100 the diagonal is a preconditioner; the columns are one system."""
    scale = np.logspace(0, 2, 60)
    a = np.diag(scale) + 0.1 * np.eye(60, k=1) + (0.1 if name == "cg" else -0.1) * np.eye(60, k=-1)
    b, calls = RNG.normal(size=(60, 2)), []

    def product(v):
        calls.append(1)
        return f64(a) @ v

    solve = getattr(ck.linalg, name)
    given = {"tol": 1e-9, "x0": f64(np.ones((60, 2)))}
    found = solve(product, f64(b), M=lambda v: v / f64(scale[:, None]), **given)
    assert_close(found, np.linalg.solve(a, b), rtol=1e-6, atol=1e-9)
    few = len(calls)
    assert few < 30
    more = {"restart": 10, "maxiter": 500} if name == "gmres" else {"maxiter": 3000}
    assert_close(solve(product, f64(b), **given, **more), found.numpy(), rtol=1e-4, atol=1e-7)
    assert len(calls) > 2 * few
    pulled = ck.grad(lambda b: solve(product, b, tol=1e-12).sum())(f64(b / scale[:, None]))
    assert_close(pulled, np.linalg.solve(a.T, np.ones((60, 2))), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("dense", [64, 2])
def test_custom_root_of_a_pytree_to_second_order(dense, monkeypatch):
    monkeypatch.setattr(roots, "_DENSE", dense)

    def f(a, b):
        def equations(x):
            return {"u": x["u"] ** 3 + x["u"] - a, "v": 2 * x["v"] + ck.sin(x["u"]) * a - b}

        def newton(f, x):
            for _ in range(30):
                x["u"] = x["u"] - f(x)["u"] / (3 * x["u"] ** 2 + 1)
            return {"u": x["u"], "v": (b - ck.sin(x["u"]) * a) / 2}

        zero = ck.zeros(2, dtype="float64")
        root = ck.checkpoint(lambda: ck.custom_root(equations, {"u": zero, "v": zero}, newton))()
        return root["u"] * root["v"]

    gradcheck(f, [f64([1.0, 2.0]), f64([0.1, 0.2])], order=2 if dense > 2 else 1)


def test_tangent_solve_is_what_solves_the_transposed_system():
    a, calls = f64(matrix(f64(FACTOR), "gmres")), []

    def tangent_solve(g, y):
        calls.append(1)
        return ck.linalg.gmres(g, y, tol=1e-12)

    def f(b):
        return ck.custom_root(lambda x: a @ x - b, b, lambda f, x: ck.linalg.solve(a, b), tangent_solve)

    found = ck.grad(lambda b: f(b).sum())(f64(RIGHT))
    assert calls == [1]
    assert_close(found, np.linalg.solve(a.numpy().T, np.ones(5)), rtol=1e-9)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda a, b: ck.linalg.cg(a, b, tol=1e-12, maxiter=2),
            np.linalg.LinAlgError,
            "cg: tolerance not met: expected a residual of at most .* after 2 steps",
        ),
        (
            lambda a, b: ck.linalg.gmres(a, b, tol=1e-12, restart=2, maxiter=1),
            np.linalg.LinAlgError,
            "gmres: tolerance not met: .* after 2 steps",
        ),
        (lambda a, b: ck.linalg.cg(-a, b), np.linalg.LinAlgError, "cg: A: expected a positive definite"),
        (
            lambda a, b: ck.linalg.cg(a[:, :3], b),
            ValueError,
            r"cg: A: expected a function, or a matrix of shape \(5, 5\) as b has 5 rows, got shape \(5, 3\)",
        ),
        (
            lambda a, b: ck.linalg.cg(lambda v: v[:2], b),
            ValueError,
            r"cg: A: expected an array of shape \(5,\) of v, as b has, got shape \(2,\)",
        ),
        (
            lambda a, b: ck.linalg.gmres(a, b, b[:2]),
            ValueError,
            r"gmres: x0: .* got an array of float64, shape \(2",
        ),
        (
            lambda a, b: ck.linalg.cg(a, 1.0),
            TypeError,
            "cg: b: expected .* real floating numbers .* got float",
        ),
        (
            lambda a, b: ck.custom_root(lambda x: x[:2], b, lambda f, x: x),
            ValueError,
            r"custom_root: f: expected shapes \(5,\), as the root's, got \(2,\)",
        ),
        (
            lambda a, b: ck.custom_root(lambda x: (x,), b, lambda f, x: x),
            ValueError,
            "custom_root: f: expected a leaf",
        ),
        (
            lambda a, b: ck.custom_root(lambda x: x, b, lambda f, x: 1.0),
            TypeError,
            "custom_root: root: expected an array, got float",
        ),
    ],
)
def test_errors_name_what_was_expected(call, error, message):
    with pytest.raises(error, match=message):
        call(matrix(f64(FACTOR), "cg"), f64(RIGHT))
