"""odeint: solutions and gradients beside formulas."""

from __future__ import annotations

import numpy as np
import pytest

import cukern as ck
from cukern.testing import assert_close

pytestmark = pytest.mark.usefixtures("device")


def f64(values):
    return ck.asarray(np.asarray(values, np.float64))


def oscillator(y, t, w):
    return {"x": y["v"], "v": -w * w * y["x"]}


@pytest.mark.parametrize("sign", [1, -1])
def test_an_oscillator_in_both_directions(sign):
    times = sign * np.array([0.0, 0.3, 2.0, 5.0])
    y = ck.odeint(oscillator, {"x": f64([1.0]), "v": f64([0.0])}, f64(times), 2.0, rtol=1e-9, atol=1e-9)
    assert_close(y["x"][:, 0], np.cos(2 * times), rtol=0, atol=1e-7)
    assert_close(y["v"][:, 0], -2 * np.sin(2 * times), rtol=0, atol=1e-7)
    (coarse,) = ck.odeint(lambda y, t: y, ck.asarray([1.0]), [0.0, 1.0])[-1:]
    assert_close(coarse, [np.e], rtol=1e-5, dtype="float32")


@pytest.mark.parametrize("states", [0, None])
def test_gradients_to_second_order(states):
    """Of y' = -r y + sin(t) r / 2, whose solution is known: by r, y0 and both times; ``r`` is closed over."""

    def exact(y0, r, times):
        start, end = times[0], times[1]
        past = (r * ck.sin(start) - ck.cos(start)) / (1 + r * r) * r / 2
        now = (r * ck.sin(end) - ck.cos(end)) / (1 + r * r) * r / 2
        return (y0 - past) * ck.exp(-r * (end - start)) + now

    def solved(y0, r, times):
        taken = ck.odeint(
            lambda y, t: r * (ck.sin(t) / 2 - y), y0, times, rtol=1e-11, atol=1e-11, states=states
        )
        return taken[-1]

    args = [f64(1.5), f64(0.8), f64([0.2, 1.1])]
    for one, expected in zip(
        ck.grad(solved, (0, 1, 2))(*args), ck.grad(exact, (0, 1, 2))(*args), strict=True
    ):
        assert_close(one, expected.numpy(), rtol=1e-7)
    by_rate = [
        ck.hvp(lambda r, f=f: f(args[0], r, args[2]), [args[1]], [f64(1.0)])[1][0] for f in (solved, exact)
    ]
    assert_close(by_rate[0], by_rate[1].numpy(), rtol=1e-6)


def test_gradients_of_many_steps_keep_few_states():
    """They are those of the same steps recorded one by one; the tape has few records meanwhile."""
    w, found = f64(3.0), []
    for states in (0, None):
        with ck.Tape() as tape:
            tape.watch(w)
            y = ck.odeint(oscillator, {"x": f64([1.0]), "v": f64([0.0])}, f64([0.0, 10.0]), w, states=states)
        records = len(tape._records)
        found.append((records, tape.gradient(y["x"], w)))
    assert found[1][0] < 40 < found[0][0] / 20
    assert_close(found[1][1], found[0][1].numpy(), rtol=1e-12)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda f, y: ck.odeint(f, y, [0.0, 1.0], mxstep=2),
            RuntimeError,
            r"odeint: tolerance not met: expected t = 1 in 2 steps, got to .* with an error of",
        ),
        (
            lambda f, y: ck.odeint(lambda y, t: y * y, y, [0.0, 2.0]),
            RuntimeError,
            "odeint: tolerance not met: expected t = 2 in 10000 steps, got to 1 ",
        ),
        (
            lambda f, y: ck.odeint(f, y, 1.0),
            ValueError,
            r"odeint: t: expected a vector of times, got shape \(\)",
        ),
        (
            lambda f, y: ck.odeint(f, y, [0, 2, 1]),
            ValueError,
            "t: expected times in ascending or descending order",
        ),
        (
            lambda f, y: ck.odeint(f, y, [0, 1], rtol=0, atol=0),
            ValueError,
            "rtol, atol: expected .* got 0, 0",
        ),
        (
            lambda f, y: ck.odeint(lambda y, t: y[:1], y, [0, 1]),
            ValueError,
            r"odeint: f: expected float64 of shape \(2,\), as of y0, got float64 of shape \(1,\)",
        ),
        (lambda f, y: ck.odeint(f, 1, [0, 1]), TypeError, "odeint: y0: expected an array, got int"),
    ],
)
def test_errors_name_what_was_expected(call, error, message):
    with pytest.raises(error, match=message):
        call(lambda y, t: -y, f64([1.0, 1.0]))
