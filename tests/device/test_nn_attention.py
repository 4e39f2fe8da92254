"""Attention against NumPy: masks, rows without a key, several heads; derivatives."""

from __future__ import annotations

import math
import re
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
from nn_support import close, random

import cukern as ck
from cukern import nn
from cukern.array.layout import layout
from cukern.launch.family import STAND_IN
from cukern.nn.attention import module
from cukern.nn.attention.families import ATTENTION, GRADIENT, quickest
from cukern.testing import gradcheck

attention = nn.scaled_dot_product_attention
Q, K, V = (
    np.random.default_rng(seed).normal(size=(2, *shape))
    for seed, shape in enumerate([(4, 3), (5, 3), (5, 2)])
)
#: The second query may attend to nothing.
MASK = np.array([[1, 1, 0, 1, 1], [0, 0, 0, 0, 0], [0, 1, 0, 0, 0], [1, 1, 1, 1, 1]], bool)


def attended(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, added: np.ndarray | float, scale: float
) -> np.ndarray:
    scores = q @ k.swapaxes(-1, -2) * scale + added
    with np.errstate(invalid="ignore"):
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        result: np.ndarray = np.nan_to_num(weights / weights.sum(-1, keepdims=True)) @ v
    return result


def test_masks(device: ck.Device) -> None:
    offsets = np.where(MASK, np.random.default_rng(3).normal(size=MASK.shape), -np.inf)
    closed = np.where(MASK, 0, -np.inf)
    causal = np.where(np.arange(5) <= np.arange(4)[:, None], 0, -np.inf)
    scale = 1 / math.sqrt(3)
    for dtype in ("float32", "float64"):
        q, k, v = (ck.asarray(one, dtype) for one in (Q, K, V))
        close(attention(q, k, v), attended(Q, K, V, 0, scale), 8)
        close(attention(q, k, v, ck.asarray(MASK), scale=0.5), attended(Q, K, V, closed, 0.5), 8)
        close(attention(q, k, v, ck.asarray(offsets, dtype)), attended(Q, K, V, offsets, scale), 8)
        close(attention(q, k, v, is_causal=True), attended(Q, K, V, causal, scale), 8)
        # Scores of some 1e5.
        large = attended(300 * Q, 300 * K, V, causal, scale)
        close(attention(300 * q, 300 * k, v, is_causal=True), large, 2**10)


def test_derivatives(device: ck.Device) -> None:
    q, k, v = (ck.asarray(one) for one in (Q, K, V))
    offsets = ck.asarray(np.random.default_rng(3).normal(size=MASK.shape))
    assert gradcheck(lambda q, k, v: attention(q, k, v, is_causal=True), [q, k, v], order=2)
    assert gradcheck(lambda q, k, v: attention(q, k, v, ck.asarray(MASK)), [q, k, v])
    assert gradcheck(lambda *own: attention(*own), [q, k, v, offsets])
    closed = ck.asarray(np.where(MASK, 0.0, -np.inf))
    for mask in (ck.asarray(MASK), closed):
        gradients = ck.grad(lambda *own, m=mask: attention(*own, m).sum(), argnums=(0, 1, 2))(q, k, v)
        assert all(np.isfinite(one.numpy()).all() for one in gradients)
        assert not gradients[0][:, 1].numpy().any()


def test_weights_are_dropped(device: ck.Device) -> None:
    q, k, v = (ck.asarray(one) for one in (Q, K, V))
    one, two = (attention(q, k, v, dropout_p=0.5, rng=ck.random.default_rng(seed)) for seed in (0, 0))
    assert one.tolist() == two.tolist()
    assert one.tolist() != attention(q, k, v).tolist()
    assert not attention(q, k, v, dropout_p=1.0, rng=ck.random.default_rng(0)).numpy().any()


def heads_of(
    layer: nn.MultiHeadAttention, x: np.ndarray, y: np.ndarray, added: np.ndarray | float
) -> np.ndarray:
    """The module's formula, in double precision."""
    state = {name: value.numpy().astype(np.float64) for name, value in layer.state_dict().items()}
    weights = np.split(state["in_proj_weight"], 3)
    biases = np.split(state.get("in_proj_bias", np.zeros(3 * len(weights[0]))), 3)
    q, k, v = (
        (one @ w.T + b).reshape(*one.shape[:2], layer.heads, -1).swapaxes(1, 2)
        for one, w, b in zip((x, y, y), weights, biases, strict=True)
    )
    found = attended(q, k, v, added, 1 / math.sqrt(q.shape[-1])).swapaxes(1, 2).reshape(x.shape)
    result: np.ndarray = found @ state["out_proj.weight"].T + state.get("out_proj.bias", 0)
    return result


def test_several_heads(device: ck.Device) -> None:
    x, y = (np.random.default_rng(i).normal(size=(2, 4 + i, 6)) for i in (0, 1))
    causal = np.where(np.tri(4), 0, -np.inf)
    present = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 0]], bool)
    for dtype, bias in (("float32", True), ("float64", False)):
        layer = nn.MultiHeadAttention(6, 3, bias=bias, dtype=dtype, rng=0)
        names = ["in_proj_weight", "out_proj.weight"]
        assert sorted(layer.state_dict()) == sorted(names + ["in_proj_bias", "out_proj.bias"] * bias)
        if bias:
            layer.load_state_dict({**layer.state_dict(), "in_proj_bias": random(5, (18,), dtype)})
        a, b = ck.asarray(x, dtype), ck.asarray(y, dtype)
        close(layer(a, is_causal=True), heads_of(layer, x, x, causal), 32)
        hidden = np.where(present, 0, -np.inf)[:, None, None, :]
        found = layer(a, b, attn_mask=ck.asarray(present)[:, None, None, :])
        close(found, heads_of(layer, x, y, hidden), 32)
    with ck.Tape() as tape:
        loss = layer(a, is_causal=True).sum()
    assert all(one.numpy().any() for one in tape.gradient(loss, layer.parameters()))


def test_dropout_of_the_module(device: ck.Device) -> None:
    layer = nn.MultiHeadAttention(6, 3, dropout=0.5, rng=0)
    x = random(0, (2, 4, 6), "float32")
    assert layer(x).tolist() != layer(x).tolist()
    layer.eval()
    assert layer(x).tolist() == layer(x).tolist()


def test_refused(device: ck.Device) -> None:
    q, k, v = (ck.asarray(one) for one in (Q, K, V))
    mask = ck.asarray(MASK)
    for call, error, message in (
        (lambda: attention(q, k[..., :2], v), ValueError, "key: expected shape (..., S, 3), got (2, 5, 2)"),
        (lambda: attention(q, k, v[:, :3]), ValueError, "value: expected shape (..., 5, V), got (2, 3, 2)"),
        (lambda: attention(q, k, v, mask, is_causal=True), ValueError, "put both into the mask"),
        (
            lambda: attention(q, k, v, mask[:, :3]),
            ValueError,
            "broadcasts to the scores' (2, 4, 5), got (4, 3)",
        ),
        (lambda: attention(q, k, v, mask.astype("int8")), TypeError, "an array of bools or floats, got int8"),
        (
            lambda: attention(q, k, v, dropout_p=2.0),
            ValueError,
            "p: expected a probability in [0, 1], got 2.0",
        ),
        (lambda: nn.MultiHeadAttention(6, 4), ValueError, "heads: expected a divisor of the 6 features"),
        (lambda: nn.MultiHeadAttention(6, 2)(q), ValueError, "query: expected shape (N, length, 6)"),
    ):
        with pytest.raises(error, match=re.escape(message)):
            call()


def test_half_types_without_a_mask_are_left_to_the_kernels(
    device: ck.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where these are quicker: with the same values, gradients and factor."""
    rng = np.random.default_rng(0)
    q, k, v = (ck.asarray(rng.normal(size=(2, 3, 9, 8))).astype("float16") for _ in range(3))

    def both() -> list[np.ndarray]:
        made, pull = ck.vjp(lambda *own: attention(*own, is_causal=True, scale=0.5), q, k, v)
        return [one.numpy().astype(float) for one in (made, *pull(made))]

    monkeypatch.setattr(module, "quickest", lambda *given: False)
    composed = both()
    monkeypatch.setattr(module, "quickest", lambda matrices, causal, *more: causal)
    kernels = both()
    assert any((one != other).any() for one, other in zip(kernels, composed, strict=True))
    for one, other in zip(kernels, composed, strict=True):
        np.testing.assert_allclose(one, other, rtol=4e-3, atol=4e-3)


@pytest.mark.parametrize("p", [0.0, 0.25])
def test_masks_and_dropout_of_the_module_are_left_to_the_kernels(
    device: ck.Device, monkeypatch: pytest.MonkeyPatch, p: float
) -> None:
    """With the values and gradients of the composed form, and the same weights dropped; masks of floats are not."""
    calls = []

    def given(*arrays: ck.Array, **options: Any) -> ck.Array:
        calls.append(options)
        return nn.attention(*arrays, **options)

    monkeypatch.setattr(module, "attention", given)
    layer = nn.MultiHeadAttention(6, 3, dropout=p, dtype="float64", rng=0)
    x, y = random(0, (2, 4, 6)), random(1, (2, 5, 6))
    masks = [ck.asarray(MASK), ck.asarray(MASK[:2, None, None]), None]

    def all_of(mask: ck.Array | None, quick: bool) -> list[np.ndarray]:
        monkeypatch.setattr(module, "quickest", lambda *given: quick)
        if layer._stream is not None:
            layer._stream = ck.random.default_rng(3)
        with ck.Tape() as tape:
            tape.watch(x, y)
            made = layer(x, y, attn_mask=mask)
        return [
            one.numpy() for one in (made, *tape.gradient(made, [x, y, *layer.parameters()], ck.cos(made)))
        ]

    for mask in masks:
        composed = all_of(mask, False)
        assert not calls
        for one, other in zip(all_of(mask, True), composed, strict=True):
            right = np.where(abs(other) < 1e-13, 0, other)  # of a bias that shifts all scores of a row
            np.testing.assert_allclose(one, right, rtol=1e-11, atol=1e-12)
        assert calls.pop()["dropout"] == p
    all_of(ck.asarray(np.where(MASK, 0.0, -np.inf)), True)
    assert not calls


def test_deterministic_gradients_are_asked_for(device: ck.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the function and by the module, with a cache too."""
    asked = []

    def given(*arrays: ck.Array, deterministic: bool, **options: Any) -> ck.Array:
        asked.append(deterministic)
        return nn.attention(*arrays, **options)

    monkeypatch.setattr(module, "attention", given)
    monkeypatch.setattr(module, "quickest", lambda *given: True)
    x = ck.ones((1, 3, 8))
    for wanted in (False, True):
        nn.scaled_dot_product_attention(x[:, None], x[:, None], x[:, None], deterministic=wanted)
        own = nn.MultiHeadAttention(8, 2, rng=0, deterministic=wanted)
        own(x)
        own(x, cache=nn.KeyValueCache(1, 2, 4, 4))
    assert asked == [False] * 3 + [True] * 3


def test_which_calls_are_left_to_the_kernels() -> None:
    def quick(
        shape: tuple[int, ...],
        causal: bool = False,
        dtype: str = "bfloat16",
        aligned: bool = True,
        gap: int = 0,
        more: bool = False,
        capability: tuple[int, int] = (9, 0),
    ) -> bool:
        steps = [(shape[-1] + gap) * 2 * math.prod(shape[i:-1]) for i in range(1, len(shape))]
        x = ck.zeros(0, dtype, device="host")
        like = layout(x.device, x.dtype, shape, (*steps, x.itemsize), aligned)
        limits = STAND_IN._replace(compute_capability=capability)
        return quickest((like, like, like), causal, more, limits)

    assert quick((2, 3, 64, 64))
    assert not quick((2, 3, 63, 64))
    assert quick((2, 3, 63, 64), causal=True)
    # With a mask or dropout.
    assert quick((4, 16, 256, 64), more=True) and not quick((4, 16, 255, 64), more=True)
    assert quick((2, 3, 64, 64), causal=True, more=True) and not quick((2, 3, 63, 64), causal=True, more=True)
    assert not quick((2, 3, 64, 60), causal=True)
    # What tensor cores cannot read is no quicker by the kernels that do without them.
    assert not quick((2, 3, 64, 64), aligned=False)
    assert not quick((2, 3, 64, 64), gap=4)
    assert quick((2, 3, 64, 64), gap=8)
    assert quick((2, 3, 64, 256)) and not quick((2, 3, 64, 264))  # whose gradients warpgroups do not make
    assert not quick((64, 64), causal=True)
    assert not quick((2, 0, 64, 64), causal=True)
    assert not quick((2, 3, 64, 64), dtype="float32")
    older = (8, 0)
    assert quick((2, 3, 64, 64), causal=True, capability=older)
    assert not quick((2, 3, 64, 64), capability=older)
    assert not quick((4, 16, 256, 64), causal=True, more=True, capability=older)
    assert not quick((2, 3, 64, 64), causal=True, capability=(7, 5))


def test_half_types_are_scaled_before_they_are_multiplied(device: ck.Device) -> None:
    x = ck.full((2, 64), 40.0, dtype=ck.float16)  # whose product, 102400, is infinite in float16
    value = ck.asarray([[1.0], [3.0]], dtype=ck.float16)
    for mask in ({"is_causal": True}, {"attn_mask": ck.asarray([[True, False], [True, True]])}):
        found = ck.nn.scaled_dot_product_attention(x, x, value, **mask)
        assert found.tolist() == [[1.0], [2.0]]


@pytest.mark.parametrize(
    "composed",
    [False, pytest.param(True, marks=pytest.mark.unchecked_only("checked ones leave the library out"))],
)
def test_gradients_of_large_scores_have_all_digits(device: ck.Device, composed: bool) -> None:
    """Scores that differ by little and are exact, around 11,250, by what is chosen, and composed on the host."""
    if composed and not device.addressable:
        pytest.skip("a GPU composes those of wide heads alone")
    rng = np.random.default_rng(0)
    q, k = (rng.integers(-2, 3, (1, 2, 64, 8)).astype(np.float32) for _ in range(2))
    q[..., 0] = k[..., 0] = 150
    v, g = (rng.standard_normal(q.shape).astype(np.float32) for _ in range(2))
    weights = np.exp(0.5 * (q.astype(float) @ k.swapaxes(-1, -2) - 150**2) - 8)
    weights /= weights.sum(-1, keepdims=True)
    exact = weights.swapaxes(-1, -2) @ g
    with ExitStack() as stack:
        for family in (ATTENTION, GRADIENT) if composed else ():
            stack.enter_context(family.only("composed"))
        arrays = [ck.asarray(one) for one in (q, k, v)]
        with ck.Tape() as tape:
            tape.watch(*arrays)
            y = nn.attention(*arrays, scale=0.5)
        of_v = tape.gradient(y, arrays, output_gradients=ck.asarray(g))[2].numpy()
    assert np.abs(of_v - exact).max() <= 3e-6 * np.abs(exact).max()
