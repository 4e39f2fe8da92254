"""Dropout: shares, scale, streams, training and evaluation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cukern as ck
from cukern import nn
from cukern.testing import gradcheck


def test_what_is_kept_is_scaled(device: ck.Device) -> None:
    x = ck.asarray(np.random.default_rng(0).normal(size=(100, 100)).astype(np.float32))
    y = nn.dropout(x, 0.3, ck.random.default_rng(0)).numpy()
    kept = y != 0
    assert abs(kept.mean() - 0.7) < 0.02
    np.testing.assert_allclose(y[kept], x.numpy()[kept] / 0.7, rtol=1e-6)
    assert nn.dropout(x, 0.0, ck.random.default_rng(0)) is x
    assert not nn.dropout(x, 1.0, ck.random.default_rng(0)).numpy().any()
    assert nn.dropout(ck.zeros((0, 3)), 0.5, ck.random.default_rng(0)).shape == (0, 3)


def test_a_seed_drops_the_same_on_every_device(device: ck.Device) -> None:
    masks = [
        nn.dropout(ck.ones(64, device=where), 0.5, ck.random.default_rng(3, where)).tolist()
        for where in (device, "host")
    ]
    assert masks[0] == masks[1]
    assert 10 < sum(value == 0 for value in masks[0]) < 54


def test_the_shared_generator(device: ck.Device) -> None:
    x = ck.ones(64)
    made = []
    for _ in range(2):
        ck.random.seed(4)
        made.append([nn.dropout(x).tolist(), nn.dropout(x).tolist()])
    assert made[0] == made[1]
    assert made[0][0] != made[0][1]
    assert nn.dropout(ck.ones(4, device="host")).device is ck.Device("host")


def test_the_gradient_has_the_mask(device: ck.Device) -> None:
    x = ck.asarray(np.random.default_rng(0).normal(size=12))
    y, gradient = ck.value_and_grad(lambda x: nn.dropout(x, 0.5, ck.random.default_rng(1)).sum())(x)
    again = nn.dropout(ck.ones(12, "float64"), 0.5, ck.random.default_rng(1))
    assert gradient.tolist() == again.tolist()
    assert y.item() == pytest.approx((x * again).sum().item())
    assert gradcheck(lambda x: nn.dropout(x * x, 0.5, ck.random.default_rng(1)), [x], order=2)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_words_are_those_of_the_stream(device: ck.Device, dtype: str) -> None:
    """Also where packs are misaligned or short of elements, and for the second call of a generator."""
    values = np.random.default_rng(0).normal(size=1001)
    x = ck.asarray(values).astype(dtype)
    for view in (x, x[1:], x[::2]):
        rng, again = ck.random.default_rng(5), ck.random.default_rng(5)
        for _ in range(2):
            dropped = again.bits(view.shape).numpy() < np.uint32(2**30)
            want = np.where(dropped, 0, view.numpy().astype(np.float64) / 0.75)
            made = nn.dropout(view, 0.25, rng)
            assert made.dtype == dtype
            np.testing.assert_allclose(
                made.numpy().astype(np.float64), want, rtol=2 ** (-8 if dtype == "bfloat16" else -22)
            )
        assert rng.state == again.state


def test_all_are_dropped(device: ck.Device) -> None:
    """The gradient is then 0, not missing, and nothing is drawn."""
    x, rng = ck.ones(5), ck.random.default_rng(0)
    with ck.Tape() as tape:
        tape.watch(x)
        y = nn.dropout(x, 1.0, rng).sum()
    assert tape.gradient(y, x).tolist() == [0] * 5
    assert rng.state == ck.random.default_rng(0).state


def test_no_mask_is_kept(device: ck.Device) -> None:
    """A NaN that is dropped is 0, and so is its gradient; a cotangent may be a repeated number."""
    x = ck.asarray(np.where(np.arange(64) % 2, np.nan, 1.0))
    y, pull = ck.vjp(lambda x: nn.dropout(x, 0.5, ck.random.default_rng(1)), x)
    (gradient,) = pull(ck.broadcast_to(ck.asarray(np.float64(1.0)), (64,)))
    kept = gradient.numpy() != 0
    assert 16 < kept.sum() < 48 and (gradient.numpy()[kept] == 2).all()
    np.testing.assert_array_equal(y.numpy(), np.where(kept, x.numpy() * 2, 0))


def test_the_module(device: ck.Device) -> None:
    """A mask of its own in each call, the same for a seed; none in evaluation; nothing to save."""
    layer, again = nn.Dropout(0.5, rng=0), nn.Dropout(0.5, rng=0)
    x = ck.ones(64)
    first, second = layer(x).tolist(), layer(x).tolist()
    assert first != second
    assert [again(x).tolist(), again(x).tolist()] == [first, second]
    assert layer.eval()(x) is x
    assert not layer.state_dict()
    shared = ck.random.default_rng(0)
    one, two = nn.Dropout(0.5, shared), nn.Dropout(0.5, shared)
    assert one.generator is two.generator is shared
    assert repr(layer) == "Dropout(p=0.5)"
    nn.init.seed(5)
    seeded = nn.Dropout(0.5)(x).tolist()
    nn.init.seed(5)
    assert nn.Dropout(0.5)(x).tolist() == seeded


def test_axes_are_dropped_together(device: ck.Device) -> None:
    x = ck.asarray(np.random.default_rng(0).uniform(1, 2, (64, 5, 3, 2)))
    for axes, kept_axes in (((2, 3), (0, 1)), ((-1, 1, 2), (0,)), ([1], (0, 2, 3))):
        y = nn.dropout(x, 0.25, ck.random.default_rng(1), broadcast_axes=axes).numpy()
        kept = y != 0
        alike = kept.all(axis=tuple(axes)), kept.any(axis=tuple(axes))
        np.testing.assert_array_equal(*alike)
        assert alike[0].shape == tuple(x.shape[i] for i in kept_axes)
        assert 0.6 < alike[0].mean() < 0.9
        np.testing.assert_allclose(y[kept], x.numpy()[kept] / 0.75)
    layer = nn.Dropout(0.25, rng=0, broadcast_axes=(2, 3))
    assert repr(layer) == "Dropout(p=0.25, broadcast_axes=(2, 3))"
    y, pull = ck.vjp(layer, x)
    gradient = pull(ck.ones_like(y))[0].numpy()
    np.testing.assert_allclose(gradient, y.numpy() / x.numpy())
    assert (nn.dropout(x, 1.0, broadcast_axes=(1,)).numpy() == 0).all()
    with pytest.raises(np.exceptions.AxisError, match="dropout: axis 4 is out of bounds"):
        nn.dropout(x, 0.0, broadcast_axes=(4,))


def test_a_replay_drops_others(device: ck.Device) -> None:
    """The masks of a captured step are those of the step as it is."""
    layer, again = nn.Dropout(0.5, rng=0), nn.Dropout(0.5, rng=0)
    captured = ck.capture(lambda x: layer(x))
    masks = [captured(ck.ones(64)).tolist() for _ in range(4)]
    assert masks == [again(ck.ones(64)).tolist() for _ in range(4)]
    assert len(set(map(tuple, masks))) == 4


def test_a_checkpoint_drops_the_same_again(device: ck.Device) -> None:
    """Nested, twice a generator, captured; and the generators go on as without it."""

    def network(inner: Any, outer: Any) -> tuple[Any, Any]:
        first, second = nn.Dropout(0.5, rng=0), nn.Dropout(0.5, rng=1)

        @ck.capture
        def step(x: ck.Array) -> tuple[ck.Array, ck.Array]:
            with ck.Tape() as tape:
                tape.watch(x)
                hidden = outer(lambda x: second(inner(lambda x: first(first(x) * x))(x)))(x)
                loss = (second(hidden) ** 2).sum()
            return loss, tape.gradient(loss, x)

        return step, first

    x = ck.asarray(np.random.default_rng(0).normal(size=32))
    plain, layer = network(lambda f: f, lambda f: f)
    nested, other = network(ck.checkpoint, ck.checkpoint)
    for _ in range(3):
        for one, another in zip(nested(x), plain(x), strict=True):
            np.testing.assert_array_equal(one.numpy(), another.numpy())
    assert other.generator.state == layer.generator.state


def test_second_derivatives_of_attention_in_a_captured_step(device: ck.Device) -> None:
    """Replays drop what calls of the step as it is drop."""

    def network(wrap: Any) -> Any:
        rng = ck.random.default_rng(0)

        @wrap
        def step(x: ck.Array) -> ck.Array:
            def slope(x: ck.Array) -> ck.Array:
                return ck.grad(lambda x: (nn.attention(x, x, x, dropout=0.4, rng=rng) ** 2).sum())(x)

            return ck.grad(lambda x: (slope(x) ** 2).sum())(x)

        return step

    x = ck.asarray(np.random.default_rng(0).normal(size=(2, 5, 4)))
    captured, plain = network(ck.capture), network(lambda f: f)
    made = [captured(x).numpy() for _ in range(3)]
    for one in made:
        np.testing.assert_allclose(one, plain(x).numpy(), rtol=1e-12)
    assert not np.allclose(made[0], made[1])


def test_a_module_follows_its_input(device: ck.Device) -> None:
    layer = nn.Dropout(0.5, rng=0)
    assert layer(ck.ones(4, device="host")).device is ck.Device("host")
    assert layer(ck.ones(4)).device is device


def test_refused(device: ck.Device) -> None:
    with pytest.raises(ValueError, match=r"Dropout: p: expected a probability in \[0, 1\], got 1.5"):
        nn.Dropout(1.5)
    with pytest.raises(TypeError, match=r"dropout: rng: expected a generator of cukern.random, got int"):
        nn.dropout(ck.ones(2), 0.5, 0)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="dropout: x: expected a floating dtype, got int64"):
        nn.dropout(ck.asarray([1]), 0.5, ck.random.default_rng(0))
