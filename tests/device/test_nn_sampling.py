"""Drawing tokens: what may be drawn, how often, and the same again from a seed."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import cukern as ck
from cukern import nn
from cukern.testing import assert_close

PROBABILITIES = np.array([0.05, 0.4, 0.1, 0.25, 0.2])
LOGITS = np.log(PROBABILITIES).astype(np.float32)
DRAWS = 4000


def shares(device: ck.Device, logits: Any = LOGITS, **options: Any) -> np.ndarray:
    """How often each token is drawn."""
    rows = ck.broadcast_to(ck.asarray(logits, device=device), (DRAWS, len(logits)))
    drawn = nn.sample_tokens(rows, rng=ck.random.default_rng(0), **options)
    assert drawn.shape == (DRAWS,) and drawn.dtype == ck.int64
    return np.bincount(drawn.numpy(), minlength=len(logits)) / DRAWS


@pytest.mark.parametrize(
    "options, kept",
    [
        ({}, [0, 1, 2, 3, 4]),
        ({"top_k": 2}, [1, 3]),
        ({"top_k": 9}, [0, 1, 2, 3, 4]),
        ({"top_p": 0.6}, [1, 3]),
        ({"top_p": 0.7}, [1, 3, 4]),
        ({"top_p": 0.0}, [1]),
        ({"top_p": 1.0}, [0, 1, 2, 3, 4]),
        ({"min_p": 0.5}, [1, 3, 4]),
        ({"min_p": 1.0}, [1]),
        ({"top_k": 3, "top_p": 0.5, "min_p": 0.1}, [1, 3]),
    ],
    ids=str,
)
def test_what_is_left_is_drawn_in_proportion(device: ck.Device, options: Any, kept: list[int]) -> None:
    expected = np.zeros(5)
    expected[kept] = PROBABILITIES[kept] / PROBABILITIES[kept].sum()
    found = shares(device, **options)
    assert not found[expected == 0].any()
    np.testing.assert_allclose(found, expected, atol=4 * 0.5 / DRAWS**0.5)


def test_logits_beyond_float32(device: ck.Device) -> None:
    logits = ck.asarray(np.array([[1e300, 2e300, -1e300], [-1e300, -np.inf, -2e300]]))
    assert nn.sample_tokens(logits, rng=ck.random.default_rng(0)).tolist() == [1, 0]


def test_temperature(device: ck.Device) -> None:
    expected = PROBABILITIES**2 / (PROBABILITIES**2).sum()
    spread = np.sqrt(expected * (1 - expected) / DRAWS)
    assert_close(shares(device, temperature=0.5), expected, rtol=0, atol=4 * spread)
    # So small that differences of logits over it are infinite.
    assert shares(device, temperature=1e-38)[1] == 1
    rows = ck.asarray(np.stack([LOGITS, -LOGITS, LOGITS]))
    heat = ck.asarray([0.0, 0.0, 1.0])
    made = nn.sample_tokens(rows, heat, top_p=ck.asarray([0.5]), rng=ck.random.default_rng(0)).tolist()
    assert made[:2] == [1, 0]
    state = (rng := ck.random.default_rng(0)).state
    assert nn.sample_tokens(rows, 0, rng=rng).tolist() == [1, 0, 1] and rng.state == state


def test_ties_and_infinities(device: ck.Device) -> None:
    """Of equal logits the first are left; what is -inf is never drawn, and +inf always."""
    level, inf = np.zeros(4, np.float32), np.inf
    np.testing.assert_allclose(shares(device, level, top_k=2), [0.5, 0.5, 0, 0], atol=0.03)
    np.testing.assert_allclose(shares(device, level, top_p=0.7), [1 / 3] * 3 + [0], atol=0.03)
    for options in ({}, {"top_k": 3}, {"top_p": 0.99}, {"min_p": 0.0}):
        found = shares(device, np.array([-inf, 0, -inf, 0], np.float32), **options)
        np.testing.assert_allclose(found, [0, 0.5, 0, 0.5], atol=0.03)
        assert shares(device, np.array([0, inf, -inf, 5], np.float32), **options)[1] == 1
    assert nn.sample_tokens(ck.asarray([2.0, 5.0, 5.0]), 0).item() == 1


def test_batches_seeds_and_captured_steps(device: ck.Device) -> None:
    logits = ck.asarray(np.random.default_rng(0).normal(size=(2, 3, 50))).astype("bfloat16")
    layers = [ck.random.default_rng(3) for _ in range(2)]
    captured = ck.capture(lambda x: nn.sample_tokens(x, top_k=20, rng=layers[0]))
    drawn = [captured(logits).tolist() for _ in range(3)]
    assert drawn == [nn.sample_tokens(logits, top_k=20, rng=layers[1]).tolist() for _ in range(3)]
    assert np.shape(drawn[0]) == (2, 3) and drawn[0] != drawn[1]
    assert nn.sample_tokens(ck.zeros((0, 4))).shape == (0,)


def test_refused(device: ck.Device) -> None:
    x = ck.zeros((2, 3))
    for call, error, message in (
        (lambda: nn.sample_tokens(x, -1.0), ValueError, "temperature: expected a number from 0 to 3.4e+38"),
        (lambda: nn.sample_tokens(x, top_k=0), ValueError, "top_k: expected an int of at least 1, got 0"),
        (lambda: nn.sample_tokens(x, top_p=1.5), ValueError, "top_p: expected a number from 0 to 1, got 1.5"),
        (lambda: nn.sample_tokens(x, min_p="a"), TypeError, "min_p: expected a number or an array, got str"),
        (
            lambda: nn.sample_tokens(x, ck.ones(3)),
            ValueError,
            "temperature: expected a shape that broadcasts to the rows' (2,), got (3,)",
        ),
        (lambda: nn.sample_tokens(ck.zeros((2, 0))), ValueError, "expected shape (..., tokens) with a token"),
        (
            lambda: nn.sample_tokens(x, rng=0),
            TypeError,
            "rng: expected a generator of cukern.random, got int",
        ),
        (
            lambda: nn.sample_tokens(ck.zeros(2, "int64")),
            TypeError,
            "logits: expected a floating dtype, got int64",
        ),
    ):
        with pytest.raises(error, match=re.escape(message)):
            call()
