"""Tapes that compute results again instead of keeping them: the same gradients, less memory, the same errors."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import pytest

import cukern as ck
from cukern import nn
from cukern.errors import GradientError


def arrays(*shapes: tuple[int, ...]) -> list[ck.Array]:
    rng = np.random.default_rng(3)
    return [ck.asarray(rng.normal(size=shape).astype(np.float32)) for shape in shapes]


def gradients(
    recompute: bool, alive: list[Any] | None = None, persistent: bool = False
) -> list[list[ck.Array]]:
    """The gradients of a block, taken twice of a persistent tape; ``alive`` gets references to what it computes."""
    x, weight, bias, first, second = arrays((2, 3, 8), (8,), (8,), (16, 8), (8, 16))

    def seen(array: ck.Array) -> ck.Array:
        if alive is not None:
            alive.append(weakref.ref(array._data if array.device.addressable else array))
        return array

    with ck.Tape(persistent, recompute) as tape:
        tape.watch(x, weight, bias, first, second)
        normed = seen(nn.layer_norm(x, 8, weight, bias))
        wide = seen(ck.gelu(nn.linear(normed, first)))
        y = nn.linear(wide, second) + nn.rms_norm(x, 8, weight) @ first.T @ second.T
        del normed, wide
        if alive is not None:
            alive[:] = [one() is not None for one in alive]
        loss = ck.sum(y * y)
    found = [tape.gradient(loss, [x, weight, bias, first, second]) for _ in range(1 + persistent)]
    return found  # type: ignore[no-any-return]


def test_gradients_are_the_same_and_results_are_not_kept():
    kept: list[Any] = []
    plain = gradients(False, kept)[0]
    assert kept == [True, True]
    left: list[Any] = []
    for found in gradients(True, left, persistent=True):
        for one, other in zip(found, plain, strict=True):
            assert np.array_equal(one.numpy(), other.numpy())
    assert left == [False, False]


def test_nothing_that_was_computed_again_is_kept():
    x, weight = arrays((3, 8), (8, 8))
    with ck.Tape(persistent=True, recompute=True) as tape:
        tape.watch(weight)
        normed = nn.layer_norm(x, 8, weight[0])
        y = ck.sum(normed @ weight)
        again = ck.sum(ck.gelu(x @ weight) @ weight)
    for target, source in ((y, weight), (y, normed), (again, weight)):
        tape.gradient(target, source)
        assert all(recipe.cached is None for recipe in tape._recipes.values())
    assert len(tape._recipes) == 2


def test_derivatives_of_second_order_go_through_what_is_computed_again():
    x, w = arrays((3, 4), (4, 4))

    def first_order(recompute: bool) -> ck.Array:
        with ck.Tape(recompute=recompute) as outer:
            outer.watch(x, w)
            with ck.Tape(recompute=recompute) as inner:
                inner.watch(x, w)
                y = ck.sum(ck.gelu(x * w[0]) @ w)
            g = inner.gradient(y, [x, w])
            total = ck.sum(g[0] ** 2) + ck.sum(g[1] ** 2)
        return outer.gradient(total, [x, w])

    for one, other in zip(first_order(True), first_order(False), strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-6)
        assert np.abs(other.numpy()).max() > 0.1


@pytest.mark.parametrize("which", ["argument", "result"])
def test_what_was_written_since_is_refused(which: str):
    x, w = arrays((3, 4), (4, 4))
    with ck.Tape(recompute=True) as tape:
        tape.watch(w)
        z = x @ w
        y = ck.gelu(z)
        loss = ck.sum(y @ w)
    (z if which == "argument" else y)[0] = 0.0
    with pytest.raises(GradientError, match="written since"):
        tape.gradient(loss, w)


def test_a_part_of_a_result_and_one_written_before_it_was_read_are_kept():
    x, w = arrays((4, 4), (4, 4))

    def gradient(recompute: bool) -> ck.Array:
        with ck.Tape(recompute=recompute) as tape:
            tape.watch(w)
            y, z = ck.gelu(x @ w), ck.gelu(w @ x)
            z += 1.0
            loss = ck.sum(y[1:].T @ w[1:]) + ck.sum(z @ w)
        return tape.gradient(loss, w)

    assert np.array_equal(gradient(True).numpy(), gradient(False).numpy())


def test_views_of_results_are_computed_again(device: ck.Device) -> None:
    x = ck.asarray(np.linspace(0.1, 1, 6), device=device)
    made = []
    for again in (False, True):
        with ck.Tape(recompute=again) as tape:
            tape.watch(x)
            y = ck.sin(ck.sin(ck.reshape(ck.sin(x), (2, 3))))
        made.append(tape.gradient(y, x).numpy())
    np.testing.assert_array_equal(*made)


def test_a_backward_that_writes_what_it_saved_changes_no_other(device: ck.Device) -> None:
    class Square(ck.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_arrays
            x *= 2
            return g * x

    given = np.array([0.5, 1.0])
    x = ck.asarray(given, device=device)
    with ck.Tape(recompute=True) as tape:
        tape.watch(x)
        h = ck.sin(x)
        z, y = ck.sin(h), Square.apply(h)
    wanted = np.cos(given) * (np.cos(np.sin(given)) + 2 * np.sin(given))
    np.testing.assert_allclose(tape.gradient([y, z], x).numpy(), wanted, rtol=1e-12)


def test_results_of_a_used_tape_are_kept(device: ck.Device) -> None:
    x, w = ck.asarray([[1.0, 2.0, 4.0]], device=device), ck.ones(3, device=device)
    with ck.Tape(recompute=True) as first:
        first.watch(w)
        h = ck.nn.layer_norm(x, 3, w)
    first.gradient(h, w)
    w += 1.0
    with ck.Tape(recompute=True) as second:
        second.watch(h)
        z = ck.sin(h)
    np.testing.assert_allclose(second.gradient(z, h).numpy(), np.cos(h.numpy()), rtol=1e-6)


def test_long_chains(device: ck.Device) -> None:
    x = y = ck.asarray(0.5, dtype="float64", device=device)
    with ck.Tape(recompute=True) as tape:
        tape.watch(x)
        for _ in range(600):
            y = ck.sin(y)
    wanted, value = 1.0, 0.5
    for _ in range(600):
        wanted, value = wanted * np.cos(value), np.sin(value)
    np.testing.assert_allclose(tape.gradient(y, x).item(), wanted, rtol=1e-10)
