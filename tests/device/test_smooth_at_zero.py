"""Derivatives of Bessel functions, sinc, asin and atanh have their digits at 0, near it and far from it.

The exact values are mean values over a period, whose sums of equally spaced points converge faster than any power:
(1/pi) times the integral from 0 to pi of cos(n t - x sin t) is J_n(x) (Abramowitz and Stegun, 9.1.21), that of
exp(x cos t) cos(n t) is I_n(x) (9.6.19); sinc(x) is the integral of cos(pi x u) over u from 0 to 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cukern as ck

POINTS = np.array([0.0, 1e-6, -1e-6, 1e-3, -1e-3, 0.04, 0.3, 1.0, -2.5, 3.5, 7.0, 35.0, 200.3])
_TURN = np.arange(1, 2048, 2) * (math.pi / 1024)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(400)
_SHARE = 0.5 * (_NODES + 1)


def _first_kind(n: int, x: Any, k: int) -> Any:
    phase = n * _TURN - x[:, None] * np.sin(_TURN) - k * math.pi / 2
    return np.mean(np.sin(_TURN) ** k * np.cos(phase), axis=1)


def _modified(n: int, x: Any, k: int) -> Any:
    return np.mean(np.cos(_TURN) ** k * np.cos(n * _TURN) * np.exp(x[:, None] * np.cos(_TURN)), axis=1)


def _scaled(n: int, x: Any, k: int) -> Any:
    """The limit from both sides; an odd function's even derivatives at 0, and an even one's odd ones, are 0."""
    less = 1 - np.cos(_TURN)
    made = np.mean((-less) ** k * np.cos(n * _TURN) * np.exp(-abs(x)[:, None] * less), axis=1)
    return made * np.sign(x) if (n + k) % 2 else made


def _sinc(x: Any, k: int) -> Any:
    waves = (math.pi * _SHARE) ** k * np.cos(math.pi * x[:, None] * _SHARE + k * math.pi / 2)
    return 0.5 * waves @ _WEIGHTS


EXACT: dict[str, Callable[[Any, int], Any]] = {
    "j0": lambda x, k: _first_kind(0, x, k),
    "j1": lambda x, k: _first_kind(1, x, k),
    "i0": lambda x, k: _modified(0, x, k),
    "i1": lambda x, k: _modified(1, x, k),
    "i0e": lambda x, k: _scaled(0, x, k),
    "i1e": lambda x, k: _scaled(1, x, k),
    "sinc": _sinc,
}
#: Of each function the derivatives of order 0 to 4 at 0, by its Maclaurin series.
AT_ZERO = {
    "j0": [1, 0, -1 / 2, 0, 3 / 8],
    "j1": [0, 1 / 2, 0, -3 / 8, 0],
    "i0": [1, 0, 1 / 2, 0, 3 / 8],
    "i1": [0, 1 / 2, 0, 3 / 8, 0],
    "sinc": [1, 0, -(math.pi**2) / 3, 0, math.pi**4 / 5],
    "asin": [0, 1, 0, 1, 0],
    "atanh": [0, 1, 0, 2, 0],
}


def _derivatives(function: Any, x: Any, orders: int) -> list[Any]:
    made = []
    for _ in range(orders + 1):
        made.append(function(x).numpy().astype(np.float64))
        function = ck.grad(lambda a, function=function: function(a).sum())
    return made


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "name",
    [name if name in ("i1", "i1e") else pytest.param(name, marks=pytest.mark.thorough) for name in EXACT],
)
def test_derivatives_to_order_4(device: ck.Device, name: str, dtype: str) -> None:
    x = POINTS[abs(POINTS) < 80] if name in ("i0", "i1") else POINTS
    x = x.astype(dtype).astype(np.float64)
    eps = np.finfo(dtype).eps
    for order, made in enumerate(_derivatives(getattr(ck, name), ck.asarray(x.astype(dtype)), 4)):
        exact = EXACT[name](x, order)
        noise = 2e-14 * 4.0**order  # of the sums above
        # A function that oscillates has zeros, beside which digits of x are lost; far from 0 alone.
        zeros = eps * (1 + abs(x)) if name in ("j0", "j1", "sinc") else np.finfo(dtype).tiny
        slack = noise + np.where(abs(x) < 0.1, 0, zeros)
        assert np.all(abs(made - exact) <= 64 * eps * abs(exact) + slack), (order, made - exact)


@pytest.mark.parametrize("name", AT_ZERO)
def test_derivatives_at_zero_are_those_of_the_series(device: ck.Device, name: str) -> None:
    """A tiny argument, where all but the next derivative's part is rounded away, has the same to its digits."""
    near = np.float32(1e-6)
    x = ck.asarray(np.array([0.0, near, -near], np.float32))
    want = AT_ZERO[name]
    for order, made in enumerate(_derivatives(getattr(ck, name), x, 3)):
        slope = float(near) * want[order + 1]
        np.testing.assert_allclose(made, [want[order], want[order] + slope, want[order] - slope], rtol=1e-6)


def test_infinite_arguments_have_the_limits(device: ck.Device) -> None:
    x = ck.asarray(np.array([np.inf, -np.inf]))
    for k, (j, i, scaled) in enumerate(
        zip(*(_derivatives(one, x, 3) for one in (ck.j1, ck.i1, ck.i1e)), strict=True)
    ):
        np.testing.assert_array_equal(j, [0, 0])
        np.testing.assert_array_equal(i, [np.inf, np.inf if k % 2 else -np.inf])
        np.testing.assert_array_equal(scaled, [0, 0])


def test_second_kind_at_and_near_its_pole(device: ck.Device) -> None:
    """Near 0 y1 is -2 / (pi x), and y0 has the opposite derivative."""
    near = 1e-6
    x = ck.asarray(np.array([0.0, near]))
    for order, made in enumerate(_derivatives(ck.y1, x, 3)):
        sign = (-1.0) ** (order + 1)
        want = sign * 2 / math.pi * math.factorial(order) / near ** (order + 1)
        np.testing.assert_allclose(made, [sign * np.inf, want], rtol=1e-9)
    np.testing.assert_array_equal(ck.grad(lambda a: ck.y0(a).sum())(x[:1]).numpy(), [np.inf])


def test_complex_sinc_near_zero(device: ck.Device) -> None:
    """By the series of sin(z) / z, differentiated term by term."""
    x = np.array([0.0, 1e-6, 0.03 + 0.04j, 0.2 - 0.3j, 1.1 + 0.7j])
    z = math.pi * x

    def exact(order: int) -> Any:
        terms = range((order + 1) // 2, 40)
        return math.pi**order * sum(
            (-1.0) ** k / math.factorial(2 * k - order) / (2 * k + 1) * z ** (2 * k - order) for k in terms
        )

    function: Any = ck.sinc
    for order in range(4):
        for dtype, digits in ("complex128", 1e-13), ("complex64", 2e-6):
            made = function(ck.asarray(x.astype(dtype))).numpy()
            np.testing.assert_allclose(
                np.conj(made) if order else made, exact(order), rtol=digits, atol=1e-6 * digits
            )
        # The real part of a holomorphic function has its derivative, conjugated, as the gradient.
        function = ck.grad(lambda a, function=function: ck.real(function(a)).sum())


def test_incomplete_gamma_functions_at_and_near_zero(device: ck.Device) -> None:
    """The derivative of P(n, x) is exp(-x) x^(n - 1) / (n - 1)!, of which Leibniz's rule gives the others."""
    x = np.array([0.0, 1e-6, 1e-3, 0.3, 2.5], np.float32).astype(np.float64)
    a = np.array([[1.0], [2.0], [3.0]])
    shapes = ck.asarray(a.astype(np.float32))
    found = _derivatives(
        lambda t: ck.gammainc(shapes, t), ck.broadcast_to(ck.asarray(x.astype(np.float32)), (3, 5)), 4
    )
    for order in range(1, 5):
        n = order - 1
        exact = np.array(
            [
                sum(
                    (-1.0) ** (n - j) * math.comb(n, j) * x ** (k - j) / math.factorial(k - j)
                    for j in range(min(n, k) + 1)
                )
                for k in range(3)
            ]
        )
        np.testing.assert_allclose(found[order], np.exp(-x) * exact, rtol=2e-5, atol=1e-12)
