"""What follows convolutions and norms of channels in a jitted function is computed by their launches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from convolution_support import Definition

import cukern as ck
from cukern.device import kernels_only
from cukern.elementwise import costs
from cukern.launch.family import STAND_IN
from cukern.nn.convolution.families import CONVOLUTION

HELD_BACK = pytest.mark.unchecked_only("checked launches compute convolutions at once")


def relu(y: Any) -> Any:
    return (y + abs(y)) * 0.5


def drawn(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


#: What follows a convolution: a number for each channel, each channel of each image, and each element.
Followed = Callable[[Any, Any, Any, Any], Any]
ALONG: Followed = lambda y, s, t, r: relu(y * s + 0.25)  # noqa: E731
#: Options, taps, what follows, and the launches on the host, where kernels of windows have no residual, and those of
#: depthwise ones nothing that follows.
CASES: dict[str, tuple[dict[str, Any], int, Followed, int]] = {
    "channels": ({"padding": 1}, 3, ALONG, 1),
    "channels, depthwise": ({"padding": 1, "groups": 4}, 3, ALONG, 2),
    "channels, by two pixels": ({"padding": 1, "stride": 2}, 3, ALONG, 1),
    "a residual of pixels": ({}, 1, lambda y, s, t, r: relu(y * s + r), 1),
    "a residual of windows": ({"padding": 1}, 3, lambda y, s, t, r: relu(y * s + r), 2),
    "each image": ({"padding": 1}, 3, lambda y, s, t, r: y * t, 2),
    "two that read it": ({"padding": 1}, 3, lambda y, s, t, r: (y + s) * (y * s).mean(), 3),
}


@pytest.mark.parametrize("name", CASES)
def test_values_and_launches(device: ck.Device, name: str) -> None:
    options, taps, follow, launches = CASES[name]
    filters = options.get("groups", 8)
    x, w = drawn(2, 4, 5, 6), drawn(filters, 4 // options.get("groups", 1), taps, taps, seed=1)
    y = Definition(2, **options).forward(x, w)
    operands = drawn(1, filters, 1, 1, seed=2), drawn(2, filters, 1, 1, seed=3), drawn(*y.shape, seed=4)
    given = [ck.asarray(one.astype(np.float32)) for one in (x, w, *operands)]
    f = ck.jit(lambda x, w, *operands: follow(ck.nn.conv2d(x, w, **options), *operands))
    for _ in range(4):
        np.testing.assert_allclose(f(*given).numpy(), follow(y, *operands), rtol=1e-5, atol=1e-5)
    if device.kind == "host" and not kernels_only.active():
        assert len(f.launches(*given)) == launches


@HELD_BACK
@pytest.mark.parametrize(("filters", "fields"), [(72, {"halves": 2}), (136, {"halves": 1, "tile_n": 128})])
def test_residuals_of_bands_are_loaded_by_maps(
    device: ck.Device, filters: int, fields: dict[str, int]
) -> None:
    """One block makes all tiles, of which the last ones end beyond the rows and the filters."""
    if device.kind == "cuda" and device.properties.compute_capability[0] != 9:
        pytest.skip("the instructions of sm_90a")
    x, w = drawn(3, 16, 5, 14), drawn(filters, 16, 3, 3, seed=1) / 8
    given = [
        x,
        w,
        drawn(filters, 1, 1, seed=2),
        drawn(3, filters, 1, 1, seed=3),
        drawn(3, filters, 5, 14, seed=4),
    ]
    last = [np.ascontiguousarray(np.moveaxis(one, -3, -1)) for one in given]
    arrays = [ck.moveaxis(ck.asarray(one, dtype="bfloat16"), -1, -3) for one in last]
    x, w, s, t, r = (one.astype("float64").numpy() for one in arrays)
    f = ck.jit(lambda x, w, s, t, r: relu((ck.nn.conv2d(x, w, padding=1) + t) * s + 0.25 * r))
    limits = STAND_IN._replace(multiprocessors=1) if device.kind == "host" else None
    with CONVOLUTION.only("tma bands", limits=limits, **fields):
        (launch,) = f.launches(*arrays)
        got = f(*arrays).astype("float64").numpy()
    assert launch.name.startswith("convolution_")
    want = relu((Definition(2, padding=1).forward(x, w) + t) * s + 0.25 * r)
    np.testing.assert_allclose(got, want, rtol=2**-8, atol=2**-6)


def normalised(y: Any) -> Any:
    """Each of two groups of channels, in NumPy."""
    groups = y.reshape(len(y), 2, -1)
    groups = (groups - groups.mean(2, keepdims=True)) / np.sqrt(groups.var(2, keepdims=True) + 1e-5)
    return groups.reshape(y.shape)


def test_norms_and_what_is_around_them(device: ck.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batch norm by constants follows the convolution; an activation is a part of the group norm before it."""
    monkeypatch.setattr(costs, "launch", lambda limits: 0)  # as for arrays of any size beside large ones
    x, w, mean, variance = (
        drawn(2, 4, 5, 6),
        drawn(8, 4, 3, 3, seed=1),
        drawn(8, seed=2),
        drawn(8, seed=3) ** 2,
    )
    y = Definition(2).forward(x, w)
    column = (1, 8, 1, 1)
    scaled = relu((y - mean.reshape(column)) / np.sqrt(variance.reshape(column) + 1e-5))
    given = [ck.asarray(one.astype(np.float32)) for one in (x, w, mean, variance)]
    batch = ck.jit(lambda x, w, m, v: ck.relu(ck.nn.batch_norm(ck.nn.conv2d(x, w), m, v)))
    group = ck.jit(lambda x, w, m, v: ck.silu(ck.nn.group_norm(ck.nn.conv2d(x, w), 2)) + 1)
    z = normalised(y)
    for _ in range(4):
        np.testing.assert_allclose(batch(*given).numpy(), scaled, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(group(*given).numpy(), z / (1 + np.exp(-z)) + 1, rtol=1e-5, atol=1e-5)
    if not kernels_only.active():
        first, _ = (one.outputs[0].size for one in batch.launches(*given))
        assert first == 8  # the factors of the channels
    assert [one.name for one in group.launches(*given)] == ["convolution", "channel_norm", "silu_add"]


def test_gradients_are_repeated_without_python(device: ck.Device) -> None:
    """What the backward reads is kept; another tape outside, a batch and a tangent see the same function."""
    calls = []

    def loss(x: Any, w: Any, b: Any) -> Any:
        calls.append(1)
        y = ck.tanh(ck.nn.conv2d(x, w, b, padding=1))
        return (ck.nn.group_norm(ck.nn.conv_transpose2d(y, w, stride=2), 2, activation=ck.silu) ** 2).sum()

    x, w, b = (ck.asarray(drawn(*shape)) for shape in ((2, 4, 3, 4), (6, 4, 3, 3), (6,)))
    gradients = ck.jit(ck.grad(loss, (0, 1, 2)))
    want = ck.grad(loss, (0, 1, 2))(x, w, b)
    calls.clear()
    for _ in range(6):
        for one, other in zip(gradients(x, w, b), want, strict=True):
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-9, atol=1e-9)
    assert len(calls) == (2 if device.addressable else 4)  # two more until a graph is recorded
    ck.testing.gradcheck(ck.jit(loss), [x, w, b])
    each = ck.jit(ck.vmap(lambda one: ck.relu(ck.nn.conv2d(one, w, b) * 2)))
    wide = ck.stack([x, -x])
    np.testing.assert_allclose(
        each(wide).numpy()[1], np.maximum(ck.nn.conv2d(-x, w, b).numpy() * 2, 0), rtol=1e-9
    )
    step = ck.jit(lambda x, t: ck.jvp(lambda x: ck.tanh(ck.nn.conv2d(x, w, b)), [x], [t])[1])
    y = np.tanh(ck.nn.conv2d(x, w, b).numpy())
    np.testing.assert_allclose(
        step(x, x).numpy(), (1 - y * y) * ck.nn.conv2d(x, w).numpy(), rtol=1e-9, atol=1e-12
    )


def test_weights_that_are_written_before_it_is_computed(device: ck.Device) -> None:
    x, w = ck.asarray(drawn(1, 2, 3, 3)), ck.asarray(drawn(2, 2, 3, 3, seed=1))

    def f(x: Any) -> Any:
        own = w * 1
        y = ck.nn.conv2d(x, own) + 1
        own[...] = 0
        return y

    np.testing.assert_allclose(
        ck.jit(f)(x).numpy(), Definition(2).forward(x.numpy(), w.numpy()) + 1, rtol=1e-9
    )
