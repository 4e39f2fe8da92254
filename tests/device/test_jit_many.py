"""Launches of one program for many arrays: what a jitted function computes of arrays of different sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cukern as ck

SIZES = (0, 1, 3, 5000, *range(17, 25))
RATE = 0.125


def arrays(dtype: Any, seed: int) -> dict[str, ck.Array]:
    """Of several sizes; every third one begins where no wide access may."""
    made = {}
    for i, size in enumerate(SIZES):
        values = np.random.default_rng(seed + i).standard_normal(size + i % 3)
        made[str(i)] = ck.asarray(values, dtype=dtype)[i % 3 :]
    return made


def momentum(state: Any, gradients: Any, scale: ck.Array) -> Any:
    result = {}
    for name, (p, v) in state.items():
        v = v * 0.5 + gradients[name].astype("float32") * scale
        result[name] = p - RATE * v, v
    return result


def state_of(seed: int) -> Any:
    return {
        n: (p, v)
        for (n, p), v in zip(arrays("float32", seed).items(), arrays("float32", 7).values(), strict=True)
    }


def test_one_launch_computes_all_parameters(device: ck.Device) -> None:
    step = ck.jit(momentum)
    state, gradients, scale = state_of(0), arrays("bfloat16", 3), ck.asarray(2.0, dtype="float32")
    (one,) = step.launches(state, gradients, scale)
    assert len(one.inputs) == 3 * len(SIZES) + 1 and len(one.outputs) == 2 * len(SIZES)
    for _ in range(3):  # twice by Python, then by its launch alone
        made = step(state, gradients, scale)
        for name, (p, v) in state.items():
            slope = gradients[name].numpy().astype(np.float64)
            faster = v.numpy().astype(np.float64) * 0.5 + slope * 2
            np.testing.assert_allclose(made[name][1].numpy(), faster, rtol=1e-6, atol=1e-6)
            np.testing.assert_allclose(made[name][0].numpy(), p.numpy() - RATE * faster, rtol=1e-6, atol=1e-6)
        state = made
    assert step.explain(state, gradients, scale).splitlines()[1].count("bfloat16") == len(SIZES)
    with ck.testing.checked():
        same = step(state, gradients, scale)
    one, other = step(state, gradients, scale), same
    for a, b in zip(ck.tree.leaves(one), ck.tree.leaves(other), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_what_is_given_away_is_written(device: ck.Device) -> None:
    step, plain = ck.jit(momentum, donate="state"), ck.jit(momentum)
    gradients, scale = arrays("float32", 3), ck.asarray(2.0, dtype="float32")
    state = ck.tree.map(ck.array, state_of(0))
    expected = plain(state, gradients, scale)
    for _ in range(4):
        before = {x._operand for x in ck.tree.leaves(state)}
        state = step(state, gradients, scale)
        for a, b in zip(ck.tree.leaves(state), ck.tree.leaves(expected), strict=True):
            np.testing.assert_array_equal(a.numpy(), b.numpy())
        expected = plain(state, gradients, scale)
    assert before == {x._operand for x in ck.tree.leaves(state)}
    assert step.explain(state, gradients, scale).endswith("and 0 more at most")


def test_others_are_computed_apart(device: ck.Device) -> None:
    """Of other numbers, other single elements, gaps in memory, or by another formula."""

    def several(xs: Any, ys: Any) -> Any:
        made = [x * 2 for x in xs]
        made[1] = xs[1] * 3
        return [*made, *[x + y for x, y in zip(xs, ys, strict=True)]]

    xs = list(arrays("float32", 0).values())
    xs[-1] = ck.arange(60, dtype="float32")[::2]
    ys = [ck.ones(()), *[ck.zeros(())] * 11]
    f = ck.jit(several)
    counts = sorted(len(one.outputs) for one in f.launches(xs, ys))
    assert counts == [2, 2, 2, 18]
    for a, x in zip(f(xs, ys), [*xs, *xs], strict=True):
        assert a.shape == x.shape
    expected = [x.numpy() * (3 if i == 1 else 2) for i, x in enumerate(xs)]
    expected += [x.numpy() + y.numpy() for x, y in zip(xs, ys, strict=True)]
    for a, b in zip(f(xs, ys), expected, strict=True):
        np.testing.assert_array_equal(a.numpy(), b)


def test_its_kernel_may_be_replaced(device: ck.Device) -> None:
    f = ck.jit(lambda xs: [x + 1 for x in xs])
    xs = list(arrays("float32", 0).values())
    (one,) = f.launches(xs)
    text = one.text()
    f.replace(one.name, text.replace("a0 + ", "a0 + 1 + "), xs)
    for x, y in zip(xs, f(xs), strict=True):
        np.testing.assert_array_equal(y.numpy(), x.numpy() + np.float32(1) + np.float32(1))


def test_more_arrays_than_a_launch_takes(device: ck.Device) -> None:
    f = ck.jit(lambda xs: [ck.exp(x) for x in xs])
    xs = [ck.full(1 + i % 9, i / 300, dtype="float64") for i in range(300)]
    assert [len(one.outputs) for one in f.launches(xs)] == [146, 146, 8]
    for x, y in zip(xs, f(xs), strict=True):
        np.testing.assert_allclose(y.numpy(), np.exp(x.numpy()), rtol=1e-14)


def test_checked_launches_name_the_array(device: ck.Device) -> None:
    if device.kind != "host":
        return
    f = ck.jit(lambda xs: [x + 1 for x in xs])
    xs = list(arrays("float32", 0).values())
    text = f.launches(xs)[0].text()
    f.replace(0, text.replace("i < own.size", "i < own.size + (own.array == 2)"), xs)
    with (
        ck.testing.checked(),
        pytest.raises(ck.KernelFault, match=r"writes element 3 of y0\[2\], which has 3"),
    ):
        f(xs)
