"""Arguments of jitted functions that are given away, and such that are static."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import cukern as ck


def made(*shape: int, seed: int = 0) -> ck.Array:
    return ck.asarray(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def momentum(state: Any, gradient: Any) -> Any:
    m = state["m"] * 0.5 + gradient
    return {"p": state["p"] - m, "m": m}


def memory(tree: Any) -> set[Any]:
    return {leaf._operand for leaf in ck.tree.leaves(tree)}


def test_results_are_written_to_what_was_given(device: ck.Device) -> None:
    step = ck.jit(momentum, donate="state")
    state, gradient = {"p": made(70, 90), "m": made(70, 90, seed=1)}, made(70, 90, seed=2)
    p, m, g = (x.numpy().astype(np.float64) for x in (*state.values(), gradient))
    in_place = []
    for turn in range(6):
        before, places = state, memory(state)
        with ck.testing.checked() if device.kind == "host" and turn % 2 else nullcontext():
            state = step(state, gradient)
        m = m * 0.5 + g
        p = p - m
        np.testing.assert_allclose(state["p"].numpy(), p, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(state["m"].numpy(), m, rtol=1e-5, atol=1e-5)
        in_place.append(memory(state) == places)
        for name in ("p", "m"):
            assert before[name].shape == (70, 90)
            with pytest.raises(
                RuntimeError, match=rf"state\['{name}'\]: .* \(70, 90\) was given away to momentum:"
            ):
                before[name].numpy()
        with pytest.raises(RuntimeError, match="was given away"):
            step(before, gradient)
    assert in_place[-2:] == [True, True]
    assert step.explain(state, gradient).endswith("memory: 75,600 bytes of arguments, and 0 more at most")
    assert ck.jit(momentum).explain(state, gradient).endswith("arguments, and 50,400 more at most")
    np.testing.assert_allclose(state["p"].numpy(), p, rtol=1e-5, atol=1e-5)  # it gives nothing away


def of_neighbours(x: Any, y: Any) -> Any:
    z = x[1:] + x[:-1]
    return z, x * y, (x * 2).sum(axis=0), ck.concat([y, x], axis=0)


def test_what_is_read_later_stays(device: ck.Device) -> None:
    f = ck.jit(of_neighbours, donate=(0, 1))
    for seed in range(5):
        x, y = made(6, 5, seed=seed), made(6, 5, seed=seed + 10)
        wanted = of_neighbours(x, y)
        for found, value in zip(f(x, y), wanted, strict=True):
            np.testing.assert_allclose(found.numpy(), value.numpy(), rtol=1e-6)


def test_what_others_have_keeps_its_values(device: ck.Device) -> None:
    f = ck.jit(lambda x, y: (x + 1, y), donate="x")
    for _ in range(4):
        x = ck.asarray(np.arange(12.0).reshape(4, 3)) + 0
        view, kept = x[1:], np.asarray(x) if device.kind == "host" else x.numpy()
        result, same = f(x, view)
        assert result.tolist() == (np.arange(12.0).reshape(4, 3) + 1).tolist()
        assert (
            same is view and view.tolist() == kept[1:].tolist() == np.arange(3.0, 12).reshape(3, 3).tolist()
        )
    g = ck.jit(lambda x: {"same": x, "part": x[1:], "more": x + 1}, donate="x")
    for _ in range(4):
        x = made(4, 3) + 0
        values, found = x.numpy(), g(x)
        assert found["same"].tolist() == values.tolist() and found["part"].tolist() == values[1:].tolist()
        with pytest.raises(RuntimeError, match="x: this array"):
            x.tolist()


def test_an_error_gives_it_back(device: ck.Device) -> None:
    f = ck.jit(lambda x, i: ck.take(x, i, axis=0) * 2 + x[0], donate="x")
    for at in (0, 1, 2):
        f(made(3, 2), ck.asarray([at]))
    x = made(3, 2)
    if device.kind == "host":
        with pytest.raises(IndexError, match="out of bounds"):
            f(x, ck.asarray([7]))
    with pytest.raises(ValueError, match="jit: <lambda>|lambda: x is given away, and is another argument"):
        f(x, x)
    assert x.tolist() == made(3, 2).tolist()
    g = ck.jit(lambda x: x[x > 0] * 2, donate="x")
    for seed in (0, 0, 0, 1, 2):  # results of other sizes
        x = made(4, 5, seed=seed)
        wanted = x.numpy()[x.numpy() > 0] * 2
        assert g(x).tolist() == wanted.tolist()


def test_nothing_is_given_away_within_others(device: ck.Device) -> None:
    f, x = ck.jit(lambda x: ck.sin(x) * 2, donate="x"), made(4)
    with ck.Tape() as tape:
        tape.watch(x)
        y = f(x)
    np.testing.assert_allclose(tape.gradient(y, x).numpy(), 2 * np.cos(x.numpy()), rtol=1e-5)
    outer = ck.jit(lambda x: f(x) + x)
    for _ in range(3):
        np.testing.assert_allclose(outer(x).numpy(), 2 * np.sin(x.numpy()) + x.numpy(), rtol=1e-5)


def test_arguments_that_cannot_be_given_away(device: ck.Device) -> None:
    with pytest.raises(
        ValueError, match="jit: donate: expected names or positions of 0 state, 1 gradient, got 'm'"
    ):
        ck.jit(momentum, donate=("state", "m"))
    with pytest.raises(ValueError, match="jit: static: expected names or positions of .*, got 2"):
        ck.jit(momentum, static=2)
    weight = ck.nn.Linear(3, 2).weight
    with pytest.raises(TypeError, match="w: expected an array to give away, got a parameter"):
        ck.jit(lambda w: w * 2, donate="w")(weight)


class Config:
    def __init__(self, scale: float) -> None:
        self.scale = scale

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config) and other.scale == self.scale

    def __hash__(self) -> int:
        return hash(self.scale)


def test_equal_static_arguments_have_one_form(device: ck.Device) -> None:
    calls = []

    @ck.jit(static="config")
    def f(x: Any, config: Any) -> Any:
        calls.append(config.scale)
        return x * config.scale

    for _ in range(4):
        assert f(ck.ones(2), Config(2.0)).tolist() == [2.0, 2.0]
        assert f(ck.ones(2), config=Config(3.0)).tolist() == [3.0, 3.0]
    assert len(calls) <= 6 and set(calls) == {2.0, 3.0}
    for wrong, kind in (([1], "list"), (ck.ones(2), "Array")):
        with pytest.raises(TypeError, match=f"jit: config: expected a hashable value, .*, got {kind}"):
            f(ck.ones(2), wrong)
