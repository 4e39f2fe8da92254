"""Gradients of biases in a jitted function: sums of what the product before them reads, which is in memory then."""

from __future__ import annotations

from typing import Any

import numpy as np
from test_function import Doubling

import cukern as ck
from cukern.testing import assert_close

ROWS, INPUTS, OUTPUTS = 24, 6, 40


def drawn(*shape: int, seed: int = 0) -> ck.Array:
    return ck.asarray(np.random.default_rng(seed).standard_normal(shape))


def slope(loss: Any, arrays: list[ck.Array], k: int) -> np.ndarray:
    """The derivatives of a loss along each element of an array, by central differences."""
    x, step = arrays[k].numpy(), 1e-6
    found = np.empty_like(x)
    for at in np.ndindex(x.shape):
        both = []
        for sign in (1, -1):
            moved = x.copy()
            moved[at] += sign * step
            both.append(float(loss(*arrays[:k], ck.asarray(moved), *arrays[k + 1 :])))
        found[at] = (both[0] - both[1]) / (2 * step)
    return found


def same_as_differences(loss: Any, arrays: list[ck.Array], *wanted: int) -> Any:
    """The jitted gradients, whose values are those of differences."""
    f = ck.jit(ck.grad(loss, argnums=wanted))
    for _ in range(3):
        made = f(*arrays)
    for k, one in zip(wanted, made, strict=True):
        np.testing.assert_allclose(one.numpy(), slope(loss, arrays, k), rtol=1e-5, atol=1e-6)
    return f


def test_a_bias_before_a_function(device: ck.Device) -> None:
    """The function's derivative is computed once."""
    arrays = [drawn(ROWS, INPUTS), drawn(INPUTS, OUTPUTS, seed=1), drawn(OUTPUTS, seed=2)]

    def loss(x: Any, w: Any, b: Any) -> Any:
        return ck.mean(ck.sinh(ck.erf(x @ w + b)))

    f = same_as_differences(loss, arrays, 1, 2)
    summed = [one for one in f.launches(*arrays) if one.outputs[0].shape == (OUTPUTS,)]
    assert [[each.shape for each in one.inputs] for one in summed] == [[(ROWS, OUTPUTS)]]
    derivatives = [one.name for one in f.launches(*arrays) if "exp" in one.name or "cosh" in one.name]
    assert len(derivatives) == 1


def test_biases_that_no_product_follows(device: ck.Device) -> None:
    def loss(x: Any, b: Any, c: Any) -> Any:
        y = x
        for _ in range(6):
            y = ck.tanh(y + 0.1)
        y = ck.cos(y + b)
        for _ in range(3):
            y = y * y + c
        return ck.mean(y * y)

    same_as_differences(loss, [drawn(5, 7), drawn(7, seed=1), drawn(5, 1, seed=2)], 0, 1, 2)


def test_a_bias_that_is_computed_and_used_twice(device: ck.Device) -> None:
    """Its own derivative takes the sum of both."""

    def loss(x: Any, w: Any, b: Any) -> Any:
        own = ck.exp(b)
        y = ck.tanh(x @ w + own)
        y = ck.tanh((y @ w.T) @ w + own)
        return ck.mean(y * own)

    same_as_differences(loss, [drawn(5, 6), drawn(6, 4, seed=1) / 3, drawn(4, seed=2)], 1, 2)


def test_a_sum_of_a_gradient_that_is_written_later(device: ck.Device) -> None:
    def gradients(x: Any, b: Any, w: Any) -> Any:
        with ck.Tape() as tape:
            tape.watch(x, b)
            target = ck.sum((Doubling.apply(x) + b) * ck.exp(w))
        return tape.gradient(target, [x, b])

    x, b, w = drawn(3, 4), drawn(4, seed=1), drawn(3, 4, seed=2)
    f = ck.jit(gradients)
    for _ in range(3):
        of_x, of_b = f(x, b, w)
        np.testing.assert_allclose(of_x.numpy(), 2 * np.exp(w.numpy()), rtol=1e-12)
        np.testing.assert_allclose(of_b.numpy(), np.exp(w.numpy()).sum(0), rtol=1e-12)


def test_a_bias_of_many_rows(device: ck.Device) -> None:
    """A GPU's kernel sums the derivatives that it computes for the products; again where the sum is differentiated."""
    x, w, b, out = (
        drawn(4096, 16),
        drawn(16, 512, seed=1) / 4,
        drawn(512, seed=2),
        drawn(512, 32, seed=3) / 20,
    )

    def loss(x: Any, w: Any, b: Any, out: Any) -> Any:
        return ck.sum(ck.sin(ck.erf(x @ w + b) @ out))

    def slopes(x: Any, w: Any, b: Any, out: Any) -> Any:
        return ck.sum(ck.grad(loss, argnums=2)(x, w, b, out) * ck.cos(b))

    f, second = ck.jit(ck.grad(loss, argnums=(1, 2))), ck.jit(ck.grad(slopes, argnums=2))
    h, c = (one.numpy() for one in (x @ w + b, out))
    outer = np.cos(ck.erf(ck.asarray(h)).numpy() @ c)
    inner = 2 / np.sqrt(np.pi) * np.exp(-(h**2))
    g = outer @ c.T * inner
    moved = inner * np.cos(b.numpy())
    turned = -np.sin(ck.erf(ck.asarray(h)).numpy() @ c) * (moved @ c)
    curved = turned @ c.T * inner - 2 * h * g * np.cos(b.numpy())
    exact = [x.numpy().T @ g, g.sum(0)], [curved.sum(0) - g.sum(0) * np.sin(b.numpy())]
    for _ in range(3):
        for found, wanted in zip((f(x, w, b, out), [second(x, w, b, out)]), exact, strict=True):
            for one, own in zip(found, wanted, strict=True):
                assert_close(one.numpy(), own, rtol=0, atol=1e-11 * np.abs(own).max())
    narrow = [one.astype("float32") for one in (x, w, b, out)]
    for one, own in zip(f(*narrow), exact[0], strict=True):
        assert_close(one.numpy(), own, rtol=0, atol=1e-5 * np.abs(own).max())
