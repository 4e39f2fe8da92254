"""What a jitted function computes of narrow arrays: once in a launch of its own, or again in each element."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cukern as ck
from cukern.elementwise import costs

CHANNELS = 4


def drawn(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0.5, 1.5, shape).astype(np.float32)


def factors(v: Any, xp: Any = ck) -> Any:
    """What takes long."""
    return xp.exp(v) * xp.log(v + 1) * xp.tanh(v) * xp.sqrt(v + 0.5) / (xp.sin(v) + 2)


def sizes(f: Any, *args: Any) -> list[int]:
    """The elements that each launch of a jitted function computes."""
    return [one.outputs[0].size for one in f.launches(*args)]


@pytest.mark.parametrize("channels", [(CHANNELS,), (CHANNELS, 1)], ids=["last", "first"])
def test_a_norm_by_constants(device: ck.Device, channels: tuple[int, ...]) -> None:
    """The host computes the factors of channels first if there are many elements, a GPU as it waits for memory."""
    norm = ck.jit(lambda x, v, g, b: x * ck.rsqrt(v + 1e-5) * g + b)
    given = [drawn(*channels, seed=k) for k in range(3)]
    for rows in (2, 1 << 18):
        x = drawn(rows, *(channels if channels == (CHANNELS,) else (CHANNELS, 1)))
        arrays = [ck.asarray(one) for one in (x, *given)]
        large = rows > 2 and device.kind == "host"
        assert sizes(norm, *arrays) == [*[CHANNELS] * large, x.size]
        text = norm.source(*arrays)
        assert text.count("rsqrt") and (text.count("extern") == 1 + large)
        v, g, b = (one.astype(np.float64) for one in given)
        for _ in range(3):
            np.testing.assert_allclose(norm(*arrays).numpy(), x / np.sqrt(v + 1e-5) * g + b, rtol=1e-5)


def test_what_takes_long_is_computed_once(device: ck.Device) -> None:
    """What has one shape by one kernel, also what the caller keeps; a sum reads it, and an empty array has none."""

    def several(x: ck.Array, v: ck.Array, w: ck.Array) -> Any:
        own = factors(v)
        return own, x * own + factors(w), x[:0] * own

    x, v, w = drawn(1 << 20, CHANNELS).astype(np.float16), drawn(CHANNELS, seed=1), drawn(CHANNELS, seed=2)
    arrays = [ck.asarray(one) for one in (x, v, w)]
    f, total = ck.jit(several), ck.jit(lambda x, v: (x * factors(v)[None]).sum(1))
    first, *others = f.launches(*arrays)
    assert [one.size for one in first.outputs] == [CHANNELS] * 2
    assert [one.name for one in others] == ["multiply_add", "multiply"]
    assert sizes(total, *arrays[:2]) == [CHANNELS, len(x)]
    x, *narrow = (one.astype(np.float64) for one in (x, v, w))
    a, b = (factors(one, np) for one in narrow)
    wanted = a, x * a + b, np.zeros((0, CHANNELS)), (x * a).sum(1)
    for _ in range(3):
        for y, one in zip((*f(*arrays), total(*arrays[:2])), wanted, strict=True):
            np.testing.assert_allclose(y.numpy(), one, rtol=1e-5)


def test_several_kernels_share_it(device: ck.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where one kernel alone would compute it again in less time than a launch takes."""
    f = ck.jit(lambda xs, v: [x * factors(v) for x in xs])
    xs, v = [ck.asarray(drawn(64 + k, CHANNELS)) for k in range(5)], ck.asarray(drawn(CHANNELS))
    found = set()
    for k in range(-20, -5):
        monkeypatch.setattr(costs, "launch", lambda limits, k=k: 4.0**k)
        found.add((CHANNELS in sizes(f, xs[:1], v), sizes(f, xs, v).count(CHANNELS)))
    assert found == {(True, 1), (False, 1), (False, 0)}


def test_memory_that_is_written_is_read_anew(device: ck.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "launch", lambda limits: 0)

    def several(x: ck.Array, v: ck.Array) -> Any:
        v = v + 0
        before = x * factors(v)
        own = factors(v)
        v += 1
        own += 1
        return before, own, x * factors(v)

    x, v = drawn(4096, CHANNELS), drawn(CHANNELS, seed=1)
    f = ck.jit(several)
    wanted = x * factors(v, np), factors(v, np) + 1, x * factors(v + 1, np)
    for _ in range(3):
        for y, one in zip(f(ck.asarray(x), ck.asarray(v)), wanted, strict=True):
            np.testing.assert_allclose(y.numpy(), one, rtol=1e-5)


def test_rows_and_what_they_are_reduced_to_read_the_same_factors(device: ck.Device) -> None:
    """One kernel of rows has one array of them, that of its reduction and of what is computed behind it."""

    def shares(x: Any, v: Any, xp: Any = ck) -> Any:
        first, copy = factors(v, xp), x + 0
        before, own = copy * first, x * factors(first + 1, xp)
        copy[...] = 1  # so that ``first`` is there before the rows
        return before, own / own.sum(-1, keepdims=True)

    x, v = drawn(1 << 14, 64), drawn(64, seed=1)
    arrays = [ck.asarray(one) for one in (x, v)]
    f = ck.jit(shares)
    if device.kind == "host":
        assert sizes(f, *arrays).count(v.size) == 2
    expected = shares(x.astype(np.float64), v.astype(np.float64), np)
    for y, one in zip(f(*arrays), expected, strict=True):
        np.testing.assert_allclose(y.numpy(), one, rtol=1e-5)
