"""scan, fori_loop, while_loop, cond and switch: values, gradients and the states that tapes keep."""

from __future__ import annotations

import weakref
from functools import cache

import numpy as np
import pytest

import cukern as ck
from cukern.control.loops import _parts
from cukern.testing import assert_close, gradcheck

pytestmark = pytest.mark.usefixtures("device")


def f64(values):
    return ck.asarray(np.asarray(values, np.float64))


def test_scan_of_pytrees_in_both_directions():
    xs = {"a": np.linspace(0.1, 1, 40), "b": np.linspace(-1, 1, 80).reshape(40, 2)}

    def f(carry, x):
        carry = {"s": carry["s"] * 0.9 + x["a"], "v": carry["v"] + x["b"]}
        return carry, (carry["s"] * 2, carry["v"][0])

    for reverse in (False, True):
        s, v, ys = 0.5, np.zeros(2), [None] * 40
        for i in range(40)[:: -1 if reverse else 1]:
            s, v = s * 0.9 + xs["a"][i], v + xs["b"][i]
            ys[i] = s * 2, v[0]
        given = {"a": f64(xs["a"]), "b": xs["b"]}
        last, found = ck.scan(f, {"s": f64(0.5), "v": f64([0, 0])}, given, reverse=reverse)
        assert_close(last["s"], s)
        assert_close(last["v"], v)
        for one, expected in zip(found, zip(*ys, strict=True), strict=True):
            assert_close(one, np.asarray(expected))


def test_gradients_by_all_that_a_step_reads():
    """Of the carry, of rows and of an array that the function closes over, through 3 blocks; and to second order."""

    def looped(scan):
        def f(init, rows, w):
            def step(carry, x):
                carry = ck.sin(carry * w) + x
                return carry, carry * x

            last, ys = scan(step, init, rows)
            return (last + ys[::3]).sum()

        return f

    def by_for(f, carry, rows):
        ys = [None] * rows.shape[0]
        for i in range(len(ys))[::-1]:
            carry, ys[i] = f(carry, rows[i])
        return carry, ck.stack(ys)

    args = [f64(0.3), f64(np.linspace(-1, 1, 40)), f64(0.9)]
    first = ck.grad(looped(by_for), (0, 1, 2))(*args)
    second = ck.hvp(looped(by_for), args, args)[1]
    for states in (0, 1, None):
        f = looped(lambda *given, states=states: ck.scan(*given, reverse=True, states=states))
        for found, expected in ((ck.grad(f, (0, 1, 2))(*args), first), (ck.hvp(f, args, args)[1], second)):
            for one, right in zip(found, expected, strict=True):
                assert_close(one, right.numpy(), rtol=1e-10, atol=1e-12)
    gradcheck(f, args)


def test_states_kept_and_steps_run_of_ten_thousand():
    alive, counts = {}, {"calls": 0, "most": 0}
    w = f64(0.9999)

    def f(carry, _):
        number = counts["calls"]
        alive[number] = weakref.ref(carry._storage, lambda _: alive.pop(number))
        counts.update(calls=number + 1, most=max(counts["most"], len(alive)))
        return carry * w, None

    x = f64(2.0)
    ck.scan(f, x, length=10000)
    assert counts["most"] <= 8
    counts.update(calls=0, most=0)
    with ck.Tape() as tape:
        tape.watch(x, w)
        y, _ = ck.scan(f, x, length=10000)
    assert len(alive) <= 36 and counts["calls"] == 10000
    dx, dw = tape.gradient(y, [x, w])
    assert counts["calls"] <= 3 * 10000
    assert counts["most"] <= 86 + 16  # and the steps of one block, recorded
    assert_close(dx, 0.9999**10000, rtol=1e-9)
    assert_close(dw, 2 * 10000 * 0.9999**9999, rtol=1e-9)


def test_no_schedule_runs_fewer_steps_again():
    """By dynamic programming, as in Griewank and Walther's paper."""

    @cache
    def least(n, states):
        if n == 1 or states == 1:
            return n * (n - 1) // 2
        return min(m + least(n - m, states - 1) + least(m, states) for m in range(1, n))

    @cache
    def ours(n, states):
        if n == 1:
            return 0
        *parts, last = _parts(n, states)
        assert last == 1 and sum(parts) == n - 1 and len(parts) <= states
        return n - 1 + sum(ours(part, states - i) for i, part in enumerate(parts))

    for n in range(1, 40):
        for states in range(1, 8):
            assert ours(n, states) == least(n, states)


def test_draws_are_the_same_again():
    rng, drawn = ck.random.default_rng(3), []

    def body(i, y):
        drawn.append(rng.uniform(1.0, 1.1, dtype="float64"))
        return y * drawn[-1]

    value, gradient = ck.value_and_grad(lambda x: ck.fori_loop(0, 40, body, x))(f64(1.0))
    assert len(drawn) > 40
    assert_close(value, np.prod([float(one) for one in drawn[:40]]), rtol=1e-12)
    assert_close(gradient, value.numpy(), rtol=1e-12)


def test_fori_loop():
    assert_close(ck.fori_loop(2, 5, lambda i, x: x + i, f64(1.0)), 10.0)
    assert_close(ck.fori_loop(5, 2, lambda i, x: x + i, f64(1.0)), 1.0)
    found = ck.grad(ck.grad(lambda x: ck.fori_loop(0, 20, lambda i, y: y * x, 1.0)))(f64(1.01))
    assert_close(found, 20 * 19 * 1.01**18, rtol=1e-6)


@pytest.mark.parametrize("states", [0, None])
def test_while_loop_decides_once(states):
    read = []

    def loop(x, w):
        def more(y):
            read.append(1)
            return y < 100

        return ck.while_loop(more, lambda y: y * w, x, states=states)

    x, w = f64(1.5), f64(1.05)
    steps = int(np.ceil(np.log(100 / 1.5) / np.log(1.05)))
    found = ck.grad(loop, (0, 1))(x, w)
    assert len(read) == steps + 1  # the last of which is false
    assert_close(found[0], 1.05**steps, rtol=1e-12)
    assert_close(found[1], 1.5 * steps * 1.05 ** (steps - 1), rtol=1e-12)
    second = ck.grad(ck.grad(loop, 1), 1)(x, w)
    assert_close(second, 1.5 * steps * (steps - 1) * 1.05 ** (steps - 2), rtol=1e-12)
    assert_close(ck.while_loop(lambda y: y < 0, lambda y: y * w, x), 1.5)
    assert_close(ck.grad(lambda x: ck.while_loop(lambda y: False, lambda y: y * w, x))(x), 1.0)


def test_branches():
    x = f64(2.0)
    assert_close(ck.grad(lambda x: ck.cond(x > 1, lambda a, b: a * b, lambda a, b: a, x, x))(x), 4.0)
    assert_close(ck.cond(False, None, lambda: x), 2.0)
    functions = [ck.negative, ck.square, ck.sin]
    for index, expected in ((-5, -2.0), (1, 4.0), (ck.asarray(9), np.sin(2.0))):
        assert_close(ck.switch(index, functions, x), expected)


def same(carry, x):
    return carry, x


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda x: ck.scan(lambda c, x: (c.astype("float32"), None), x, length=2),
            TypeError,
            r"scan: carry: expected float64 of shape \(2,\) on \S+ after each step, got float32 .* after step 0",
        ),
        (
            lambda x: ck.scan(lambda c, x: ((c[0], c[1][:1]), None), (x, x), length=2),
            ValueError,
            r"scan: carry\[1\]: expected float64 of shape \(2,\).* got float64 of shape \(1,\)",
        ),
        (
            lambda x: ck.scan(lambda c, x: ({"a": c}, None), x, length=2),
            ValueError,
            "scan: carry after step 0: expected a leaf",
        ),
        (
            lambda x: ck.scan(lambda c, i: (c + 1, x[: int(c)]), 0, length=2),
            ValueError,
            r"scan: y: expected float64 of shape \(0,\).* shape \(1,\) on \S+ after step 1",
        ),
        (lambda x: ck.scan(lambda c, x: c, x, length=2), TypeError, r"scan: f: expected a pair \(carry, y\)"),
        (
            lambda x: ck.scan(same, 0, {"a": x, "b": ck.ones(3)}),
            ValueError,
            r"xs\['b'\]: expected 2 rows, as xs\['a'\]",
        ),
        (lambda x: ck.scan(same, 0, x, length=3), ValueError, "xs: expected 3 rows, as length has, got 2"),
        (
            lambda x: ck.scan(same, 0, x[:0]),
            ValueError,
            "scan: xs: expected at least one step, got 0",
        ),
        (lambda x: ck.scan(same, 0), ValueError, "expected xs, or length"),
        (lambda x: ck.scan(same, 0, [1.0]), TypeError, r"scan: xs\[0\]: expected an array, got float"),
        (lambda x: ck.scan(same, 0, x, states=-1), ValueError, "states: expected 0 or more, got -1"),
        (
            lambda x: ck.while_loop(lambda c: c < 9, ck.sin, x),
            TypeError,
            r"while_loop: cond: expected a bool, or an array of one of shape \(\), got shape \(2,\)",
        ),
        (
            lambda x: ck.while_loop(lambda c: True, lambda c: c, x, max_steps=3),
            RuntimeError,
            "max_steps: expected the condition to be false after 3 steps",
        ),
        (lambda x: ck.cond(x, ck.sin, ck.cos, x), TypeError, r"cond: pred: .*, got shape \(2,\)"),
        (lambda x: ck.switch(0.5, [ck.sin], x), TypeError, "switch: index: expected an integer.*, got float"),
        (lambda x: ck.switch(0, [], x), ValueError, "switch: branches: expected at least one"),
    ],
)
def test_errors_name_what_was_expected(call, error, message):
    with pytest.raises(error, match=message):
        call(f64([1.0, 2.0]))
