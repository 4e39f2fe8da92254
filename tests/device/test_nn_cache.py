"""Generation with a cache of keys and values computes what it computes without one."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from nn_support import Sized, close, random, sized

import cukern as ck
from cukern import nn


def test_positions_that_are_appended_attend_as_if_all_were_given(device: ck.Device) -> None:
    """Several at a time, one at a time; a captured step appends further on in each replay."""
    layer = nn.MultiHeadAttention(12, 3, dtype="float64", rng=0)
    x = random(0, (2, 9, 12))
    wanted = sized(lambda x: layer(ck.asarray(x), is_causal=True), x)
    cache = nn.KeyValueCache(2, 3, 9, 4, dtype="float64")
    close(layer(x[:, :3], is_causal=True, cache=cache), Sized(wanted.exact[:, :3], wanted.size[:, :3]))
    step = ck.capture(lambda x: layer(x, is_causal=True, cache=cache))
    for i in range(3, 9):
        close(step(x[:, i : i + 1]), Sized(wanted.exact[:, i : i + 1], wanted.size[:, i : i + 1]))
    assert cache.lengths.tolist() == [9, 9]
    cache.reset()
    close(layer(x, cache=cache), sized(lambda x: layer(ck.asarray(x)), x))


def test_prompts_of_unequal_lengths(device: ck.Device) -> None:
    """The padding of the shorter one is written over, and nothing attends to it."""
    q, k, v = (random(i, (2, 2, 6, 4), "float32") for i in range(3))
    cache = nn.KeyValueCache(2, 2, 8, 4)
    cache.append(k[:, :, :4], v[:, :, :4])
    cache.lengths[...] = ck.asarray([2, 4])
    cache.append(k[:, :, 4:], v[:, :, 4:])
    assert cache.lengths.tolist() == [4, 6]
    made = nn.attention(
        q[:, :, 4:], cache.keys, cache.values, causal=True, offset="end", key_lengths=cache.lengths
    )
    for batch, own in enumerate(([0, 1, 4, 5], [0, 1, 2, 3, 4, 5])):
        keys, values = (ck.take(one[batch], ck.asarray(own), axis=1) for one in (k, v))
        wanted = sized(
            lambda *own: nn.attention(*map(ck.asarray, own), causal=True, offset="end"),
            *(q[batch, :, 4:], keys, values),
        )
        close(made[batch], wanted)
    assert not cache.keys[:, :, 6:].numpy().any()


def test_other_sizes_and_types_of_values(device: ck.Device) -> None:
    cache = nn.KeyValueCache(1, 1, 3, 2, value_features=5, dtype="bfloat16")
    k, v = random(0, (1, 1, 3, 2), "bfloat16"), random(1, (1, 1, 3, 10), "bfloat16")[..., ::2]
    cache.append(k, v)
    assert cache.keys.tolist() == k.tolist()
    assert cache.values.tolist() == v.tolist()
    empty = nn.KeyValueCache(0, 1, 3, 2)
    empty.append(ck.zeros((0, 1, 1, 2)), ck.zeros((0, 1, 1, 2)))
    assert repr(cache) == (
        f"KeyValueCache(batch=1, heads=1, capacity=3, features=2, value_features=5, dtype=bfloat16, device={device})"
    )


def test_a_full_cache_is_left_as_it_is(device: ck.Device) -> None:
    cache = nn.KeyValueCache(2, 1, 4, 1)
    ones = ck.ones((2, 1, 3, 1))
    cache.append(ones, ones)
    if device.kind == "host":
        with pytest.raises(
            ValueError, match=r"room for 3 positions, but the capacity is 4, and \[3, 3\] are taken"
        ):
            cache.append(2 * ones, 2 * ones)
        assert cache.lengths.tolist() == [3, 3]
    else:
        cache.append(2 * ones, 2 * ones)
        assert cache.keys.reshape((-1,)).tolist() == [1, 1, 1, 2] * 2


def test_refused(device: ck.Device) -> None:
    cache, one = nn.KeyValueCache(2, 3, 4, 5), ck.ones((2, 3, 1, 5))
    layer, x = nn.MultiHeadAttention(15, 3, rng=0), ck.ones((2, 1, 15))
    cases: tuple[tuple[Callable[[], Any], type[Exception], str], ...] = (
        (lambda: nn.KeyValueCache(2, 3, 4.0, 5), TypeError, "capacity: expected an int, got 4.0"),  # type: ignore[arg-type]
        (
            lambda: nn.KeyValueCache(2, 3, 4, 5, dtype="int32"),
            TypeError,
            "dtype: expected a floating dtype, got int32",
        ),
        (lambda: cache.append(one.astype("float64"), one), TypeError, "k: expected an array of float32"),
        (lambda: cache.append(np.ones(3), one), TypeError, "k: expected an array of float32, got ndarray"),  # type: ignore[arg-type]
        (
            lambda: cache.append(one[:, :2], one),
            ValueError,
            "k: expected shape (2, 3, 1, 5), got (2, 2, 1, 5)",
        ),
        (lambda: cache.append(one, one[..., :4]), ValueError, "v: expected shape (2, 3, 1, 5)"),
        (lambda: cache.append(one[0], one), ValueError, "k: expected shape (2, 3, L, 5), got (3, 1, 5)"),
        (
            lambda: layer(x, x, cache=cache),
            ValueError,
            "key, value and attn_mask: none may be given with a cache",
        ),
    )
    for call, error, message in cases:
        with pytest.raises(error, match=re.escape(message)):
            call()
    assert cache.lengths.tolist() == [0, 0]
    with ck.Tape() as tape:
        y = layer(x, cache=cache).sum()
    with pytest.raises(ck.GradientError, match="attention_append"):
        tape.gradient(y, layer)
