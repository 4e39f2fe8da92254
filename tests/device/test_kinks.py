"""Derivatives at zeros and kinks: those of points beside them, what the docstrings state, or NaN; never a silent 0."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from elementwise_support import DIFFERENTIABLE
from tape_support import f64

import cukern as ck
from cukern.elementwise.row import Row

MASK = np.array([True, True, False])
#: Functions with a cone's tip at 0: the first derivative is 0 there, and there is no second.
TIPS: dict[str, Callable[[ck.Array], Any]] = {
    "vector_norm": ck.linalg.vector_norm,
    "vector_norm of order 3": lambda x: ck.linalg.vector_norm(x, ord=3),
    "vector_norm of order 1.5": lambda x: ck.linalg.vector_norm(x, ord=1.5),
    "vector_norm of order 0.5": lambda x: ck.linalg.vector_norm(x, ord=0.5),
    "vector_norm of float32": lambda x: ck.linalg.vector_norm(x.astype(ck.float32)),
    "norm of a matrix": lambda x: ck.linalg.norm(ck.stack([x, x])),
    "norm of complex numbers": lambda x: ck.linalg.vector_norm(x * (1 + 1j)),
    "hypot": lambda x: ck.hypot(x[0], x[1]) + ck.hypot(x[1], x[2]),
    "abs of complex numbers": lambda x: ck.abs(x[0] + 1j * x[1]) + ck.abs(x[1] - 1j * x[2]),
    "std": ck.std,
    "std of some": lambda x: ck.std(x, where=MASK) + ck.std(x[1:]),
    "nanstd": ck.nanstd,
    "std of complex numbers": lambda x: ck.std(x * (1 + 2j)),
}


@pytest.mark.parametrize("outer", ["itself", "square"])
@pytest.mark.parametrize("name", TIPS)
def test_the_tip_of_a_cone_has_a_first_derivative_of_zero_and_no_second(
    device: ck.Device, name: str, outer: str
) -> None:
    """The square is smooth, but its second derivative is lost: NaN, as 0 would be wrong."""

    def function(x: ck.Array) -> Any:
        made = TIPS[name](x)
        return made if outer == "itself" else made**2

    gradient = ck.grad(function)
    assert gradient(f64([0.0, 0.0, 0.0])).tolist() == [0, 0, 0]
    for i in range(3):
        second = ck.grad(lambda x, i=i: gradient(x)[i])(f64([0.0, 0.0, 0.0])).numpy()
        assert not np.isfinite(second).all(), second
        assert np.isfinite(second[second == second]).sum() < 3 and not np.isfinite(second[i])


def test_a_tip_beside_other_vectors_is_its_own(device: ck.Device) -> None:
    x = f64([[0.0, 0.0], [3.0, 4.0]])
    gradient = ck.grad(lambda x: ck.linalg.vector_norm(x, axis=1).sum())
    np.testing.assert_allclose(gradient(x).numpy(), [[0, 0], [0.6, 0.8]])
    second = ck.grad(lambda x: gradient(x).sum())(x).numpy()
    np.testing.assert_allclose(second, [[np.nan, np.nan], [0.032, -0.024]], rtol=1e-12)


@pytest.mark.parametrize("function", [ck.atan2, lambda y, x: ck.angle(x + 1j * y)], ids=["atan2", "angle"])
def test_angles_at_the_origin(device: ck.Device, function: Any) -> None:
    """Their first derivative is 0 as their docstrings say, and there is no second."""
    gradient = ck.grad(lambda x: function(x[0], x[1]))
    assert gradient(f64([0.0, 0.0])).tolist() == [0, 0]
    for i in range(2):
        assert ck.isnan(ck.grad(lambda x, i=i: gradient(x)[i])(f64([0.0, 0.0]))).all()


def test_the_direction_of_a_complex_zero_has_no_derivative(device: ck.Device) -> None:
    x = f64([0.0, 3.0, 4.0])
    made = ck.grad(lambda x: ck.real(ck.sign(x + 4j * (x > 0))).sum())(x).numpy()
    np.testing.assert_allclose(made[1:], [16 / 125, 16 / 32**1.5], rtol=1e-12)
    assert not np.isfinite(made[0])


@pytest.mark.parametrize("p", [4, 6])
def test_sums_of_even_powers_have_all_derivatives_at_zero(device: ck.Device, p: int) -> None:
    """Beside an element of another size, which keeps the norm from 0."""

    def derivative(x: ck.Array) -> Any:
        return ck.linalg.vector_norm(ck.stack([x, ck.ones_like(x)]), ord=p)

    for order in range(1, 5):
        derivative = ck.grad(derivative)
        want = 6.0 if (p, order) == (4, 4) else 0.0  # (1 + x**4) ** (1 / 4) = 1 + x**4 / 4 - ...
        assert derivative(f64(0.0)).item() == pytest.approx(want, abs=1e-12)


def test_mixed_derivatives_of_powers(device: ck.Device) -> None:
    """Of x**y: x**(y-1) * (1 + y * log(x)) by both, and once more by x ((y-1) * (1 + y log(x)) + y) * x**(y-2)."""
    x, y = np.array([0.5, 1.0, 2.0, 3.0] * 4), np.repeat([0.0, 1.0, 2.0, 3.0], 4)
    by_x = ck.grad(lambda x, y: (x**y).sum())
    by_xy = ck.grad(lambda x, y: by_x(x, y).sum(), argnums=1)
    by_yx = ck.grad(lambda x, y: ck.grad(lambda y: (x**y).sum())(y).sum())
    by_xyx = ck.grad(lambda x, y: by_xy(x, y).sum())
    mixed = x ** (y - 1) * (1 + y * np.log(x))
    third = x ** (y - 2) * ((y - 1) * (1 + y * np.log(x)) + y)
    for function, want in ((by_xy, mixed), (by_yx, mixed), (by_xyx, third)):
        np.testing.assert_allclose(function(f64(x), f64(y)).numpy(), want, rtol=1e-12, atol=1e-12)


def test_powers_of_zero(device: ck.Device) -> None:
    """By a constant whole exponent all derivatives are right; by both 0**0 has none of second order."""
    x, y = f64([0.0] * 5), f64([0.0, 1.0, 2.0, 3.0, 4.0])
    function: Any = lambda x: (x**y).sum()  # noqa: E731
    for order in range(1, 5):
        function = ck.grad(lambda x, function=function: function(x).sum())
        want = [float(math.factorial(order)) if n == order else 0.0 for n in range(5)]
        assert function(x).tolist() == want
    by_both = ck.grad(lambda y: ck.grad(lambda x: (x**y).sum())(x).sum())(y).numpy()
    assert not np.isfinite(by_both[:2]).any() and by_both[2:].tolist() == [0, 0, 0]
    again = ck.grad(lambda x: ck.grad(lambda y: (x**y).sum())(y).sum())(x).numpy()
    assert not np.isfinite(again[:2]).any() and again[2:].tolist() == [0, 0, 0]


def test_what_is_constant_has_derivatives_of_zero(device: ck.Device) -> None:
    """The deviation of one value, and a power of 0 by its exponent."""
    for function, at in (
        (ck.std, 3.5),
        (lambda x: ck.std(x[None], axis=0).sum(), [1.0, 2.0]),
        (lambda x: ck.std((x * 1j)[None], axis=0).sum(), [1.0, 2.0]),
        (lambda y: ck.pow(0.0, y).sum(), [0.25, 1.0, 2.0]),
        (lambda y: ck.pow(f64(0.0), y).sum(), [0.25, 1.0, 2.0]),
    ):
        for _ in range(3):
            function = ck.grad(lambda x, function=function: function(x).sum())
            assert not function(f64(at)).any()


def test_derivatives_of_x_log_y_at_zeros(device: ck.Device) -> None:
    x, y = f64([0.0, 0.0, 0.0, 2.0]), f64([0.0, 0.5, 2.0, 4.0])
    by_x = ck.grad(lambda x, y: ck.xlogy(x, y).sum())
    by_y = ck.grad(lambda x, y: ck.xlogy(x, y).sum(), argnums=1)
    np.testing.assert_array_equal(by_x(x, y).numpy(), [0, *np.log([0.5, 2, 4])])
    np.testing.assert_array_equal(by_y(x, y).numpy(), [0, 0, 0, 0.5])
    np.testing.assert_array_equal(ck.grad(lambda y: by_y(x, y).sum())(y).numpy(), [0, 0, 0, -2 / 16])
    for mixed in (ck.grad(lambda x: by_y(x, y).sum())(x), ck.grad(lambda y: by_x(x, y).sum())(y)):
        np.testing.assert_array_equal(mixed.numpy()[1:], [2, 0.5, 0.25])
        assert not math.isfinite(mixed[0])


#: Rows with jumps, and those whose derivative at a point is a convention that their docstrings state.
STATED = {"heaviside", "mantissa", "binary_entropy", "atan2", "phase", "xlogy"}
POINTS, STEP = (0.0, 1.0, -1.0, 2.0), 1e-5


def _partials(row: Row, points: np.ndarray) -> dict[tuple[int, ...], np.ndarray]:
    """The partial derivatives of first and second order at points, of shape (n, operands)."""
    made = {}

    def differentiate(function: Any, by: tuple[int, ...]) -> None:
        for i in range(points.shape[1]):

            def partial(*given: ck.Array, i: int = i) -> Any:
                with ck.Tape() as tape:
                    tape.watch(*given)
                    y = function(*given).sum()
                return tape.gradient(y, given[i], unconnected="zero")

            made[*by, i] = partial(*(f64(column) for column in points.T)).numpy()
            if not by:
                differentiate(partial, (i,))

    differentiate(row, ())
    return made


@pytest.mark.parametrize(
    "row",
    [row for row in DIFFERENTIABLE if len(row.operands) < 3 and row.name not in STATED],
    ids=lambda row: row.name,
)
def test_derivatives_at_special_points_are_those_beside_them(device: ck.Device, row: Row) -> None:
    """Where derivatives approach one value from all sides, that is the value, or it is refused by NaN or infinity; and
    where they grow without bound, none is finite."""
    n = len(row.operands)
    points = np.array(list(itertools.product(POINTS, repeat=n)))
    turns = np.arange(4) * math.pi / 2 + 0.3
    ways = np.stack([np.cos(turns), np.sin(turns)], 1) if n == 2 else np.array([[1.0], [-1.0]])
    offsets = np.concatenate([ways, 2 * ways, np.zeros((1, n))]) * STEP
    whole = _partials(row, (offsets[:, None] + points).reshape(-1, n))
    for by, values in whole.items():
        near, far, here = np.split(values.reshape(len(offsets), -1), [len(ways), 2 * len(ways)])
        limits = 2 * near - far
        scale = np.maximum(1, abs(limits).max(0))
        inside = np.isfinite(limits).all(0) & np.isfinite(here[0])
        alike = inside & (np.ptp(limits, axis=0) < 1e-3 * scale)
        assert (abs(here[0] - limits.mean(0)) < 1e-3 * scale)[alike].all(), (by, points[alike])
        assert not (inside & (abs(near).max(0) > 0.1 / STEP)).any(), (by, points[inside])
