"""Derivatives where they are tiny or huge, and at 0 and infinity, where textbook formulas lose digits or overflow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cukern as ck
from cukern.testing import assert_close, gradcheck

INF = np.inf


def derivatives(f: Callable[..., Any], *values: Any) -> list[np.ndarray]:
    """The gradients of the sum of ``f``."""
    positions = tuple(range(len(values)))
    arrays = [ck.asarray(np.asarray(value)) for value in values]
    return [one.numpy() for one in ck.grad(lambda *xs: f(*xs).sum(), positions)(*arrays)]


def density(x: Any) -> Any:
    """The derivative of sigmoid, and all that is left of those below where exp(-abs(x)) is small."""
    return np.exp(-np.abs(x)) / (1 + np.exp(-np.abs(x))) ** 2


#: name: first and second derivative at x < -8 or x > 8, from formulas that lose no digits there.
TAILS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "tanh": (lambda x: 4 * density(2 * x), lambda x: -8 * density(2 * x) * np.tanh(x)),
    "sigmoid": (density, lambda x: -density(x) * np.tanh(x / 2)),
    "softplus": (lambda x: 1 / (1 + np.exp(-x)), density),
    "log_sigmoid": (lambda x: 1 / (1 + np.exp(x)), lambda x: -density(x)),
    "expm1": (np.exp, np.exp),
    "elu": (lambda x: np.exp(np.minimum(x, 0)), lambda x: np.where(x > 0, 0, np.exp(np.minimum(x, 0)))),
    "silu": (
        lambda x: (1 + x / (1 + np.exp(x))) / (1 + np.exp(-x)),
        lambda x: density(x) * (2 - x * np.tanh(x / 2)),
    ),
}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_tails_keep_their_digits(device: ck.Device, dtype: str) -> None:
    x = np.array([-40.0, -20, -15, -9, 9, 15, 20, 40]).astype(dtype)
    # One kernel of all: they take more time to compile than to run.
    together = ck.fuse(lambda *xs: [getattr(ck, name)(one) for name, one in zip(TAILS, xs, strict=True)])
    first = ck.grad(lambda xs: sum(one.sum() for one in together(*xs)))
    second = ck.grad(lambda xs: sum(one.sum() for one in first(xs)))
    arrays = [ck.asarray(x)] * len(TAILS)
    exact, rtol = x.astype("float64"), 1e-13 if dtype == "float64" else 1e-5
    for order, gradient in enumerate((first, second)):
        for one, wanted in zip(gradient(arrays), TAILS.values(), strict=True):
            assert_close(one, wanted[order](exact).astype(dtype), rtol=rtol)


def test_tail_of_gelu_tanh(device: ck.Device) -> None:
    x, scale = -5.0, np.sqrt(2 / np.pi)
    s = 2 * scale * (x + 0.044715 * x**3)
    sigmoid = np.exp(s) / (1 + np.exp(s))
    want = sigmoid + x * sigmoid * (1 - sigmoid) * 2 * scale * (1 + 3 * 0.044715 * x * x)
    assert_close(derivatives(ck.gelu_tanh, x)[0], np.array(want), rtol=1e-13)
    assert_close(ck.gelu_tanh(ck.asarray(np.array(x))), np.array(x * sigmoid), rtol=1e-13)


def test_second_derivatives_near_zero(device: ck.Device) -> None:
    x = np.array([-1e-9, 1e-9])
    assert_close(derivatives(lambda v: ck.grad(lambda u: ck.tanh(u).sum())(v), x)[0], -2 * x, rtol=1e-13)


#: x, y, the derivatives of hypot(x, y), the derivatives of atan2(x, y)
CORNERS = [
    (0, 0, 0, 0, 0, 0),
    (3e-200, 4e-200, 0.6, 0.8, 1.6e199, -1.2e199),
    (0, -1e-200, 0, -1, -1e200, 0),
    (3e200, -4e200, 0.6, -0.8, -1.6e-201, -1.2e-201),
    (1.5e308, 1.5e308, 0.5**0.5, 0.5**0.5, 0, 0),
    (INF, 2, 1, 0, 0, 0),
    (2, -INF, 0, -1, 0, 0),
    (-INF, INF, -(0.5**0.5), 0.5**0.5, 0, 0),
    (np.nan, INF, np.nan, np.nan, np.nan, np.nan),
]


def test_atan2_and_hypot_at_corners(device: ck.Device) -> None:
    x, y, *wanted = np.array(CORNERS, dtype="float64").T
    got = [*derivatives(ck.hypot, x, y), *derivatives(ck.atan2, x, y)]
    for one, want in zip(got, wanted, strict=True):
        assert_close(one, want, rtol=1e-14)
    small = [np.array(1e-30, dtype="float32")] * 2  # whose square is 0
    assert_close(derivatives(ck.atan2, *small)[0], np.array(5e29, dtype="float32"), rtol=1e-6)


def test_atan2_and_hypot_to_third_order(device: ck.Device) -> None:
    points = [ck.asarray(np.array([0.3, -3.0, 5.0])), ck.asarray(np.array([-0.4, 2.0, 0.1]))]
    for f in (ck.atan2, ck.hypot):
        first = ck.grad(lambda x, y, f=f: (f(x, y) * ck.asarray(np.array([1.0, 2.0, 3.0]))).sum(), (0, 1))
        assert gradcheck(first, points, order=2)


def test_no_overflow_on_the_way(device: ck.Device) -> None:
    assert_close(derivatives(ck.asinh, [1e200, -1e200, INF])[0], np.array([1e-200, 1e-200, 0]), rtol=1e-14)
    assert_close(derivatives(ck.acosh, [1e200, INF])[0], np.array([1e-200, 0]), rtol=1e-14)
    twice = derivatives(lambda v: ck.grad(lambda u: ck.elu(u).sum())(v), [1000.0, -1000.0])
    assert_close(twice[0], np.zeros(2))
    twice = derivatives(lambda v: ck.grad(lambda u: ck.logaddexp2(u, 0.0).sum())(v), [2000.0, -2000.0])
    assert_close(twice[0], np.zeros(2))
    assert_close(derivatives(ck.logaddexp2, [INF], [INF])[0], np.array([0.5]))
