"""Attention of one position of a decoder against NumPy in float64: sizes of heads, groups, windows, rotations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cukern as ck
from cukern.generate import kernels
from cukern.generate.kernels import HeadWeights, Scores
from cukern.quant.kinds import KINDS, Kind
from cukern.quant.planes import Planes

#: Features of a head, queries of a head of keys, heads of keys, dtype and positions of a cache.
SIZES = [
    (32, 1, 3, "float32", 40),
    (32, 8, 1, "float16", 17),
    (64, 3, 2, "bfloat16", 33),
    (64, 7, 1, "float32", 9),
    (64, 8, 1, "float16", 1),
    (128, 5, 1, "float16", 64),
    (128, 8, 2, "bfloat16", 100),
    (256, 4, 1, "float16", 50),
    (256, 1, 2, "float32", 70),
]
#: What part of a head is turned, whether by neighbours, whether there are biases and norms, and what reads the result.
FORMS = [
    (1, True, True, Scores(0.2), None),
    (2, False, False, Scores(0.3, 2.0, 3), None),
    (16, True, True, Scores(0.2, None, 1), "Q8_0"),
    (1, False, True, Scores(0.1, None, 10**6), "Q4_0"),
]
TOLERANCE = {"float32": 1e-5, "float16": 3e-3, "bfloat16": 3e-2}


def rounded(x: np.ndarray, dtype: str) -> np.ndarray:
    made: np.ndarray = ck.asarray(x).astype(dtype).astype("float64").numpy()
    return made


class Step:
    """A new position of four sequences, of which one is empty and one fills the cache; NaN lies beyond their ends."""

    def __init__(self, sizes: tuple[int, int, int, str, int], turned: int, weighted: bool) -> None:
        self.features, self.group, self.key_heads, self.dtype, room = sizes
        rng, heads = np.random.default_rng(1), self.group * self.key_heads
        self.lengths = np.asarray([0, 1, (room + 1) // 2, room])
        widths = [count * self.features for count in (heads, self.key_heads, self.key_heads)]
        self.projected = [rng.normal(size=(4, 1, width)).astype("float32") for width in widths]
        of_heads = (*widths, self.features, self.features)
        self.weights = [rng.normal(size=size).astype("float32") if weighted else None for size in of_heads]
        angles = rng.normal(size=(room, max(1, self.features // turned // 2)))
        self.table = np.stack([np.cos(angles), np.sin(angles)], axis=-1).astype("float32")
        shape = (4, self.key_heads, room, self.features)
        beyond = (np.arange(room) >= self.lengths[:, None])[:, None, :, None]
        self.past = [np.where(beyond, np.nan, rounded(rng.normal(size=shape), self.dtype)) for _ in "kv"]

    def head(self, which: int, batch: int, neighbours: bool) -> np.ndarray:
        """Heads of queries, keys or values, which are 0, 1 and 2, of the new position."""
        x = self.projected[which][batch, 0].astype("float64")
        bias, norm = self.weights[which], self.weights[3 + which] if which < 2 else None
        x = (x if bias is None else x + bias).reshape(-1, self.features)
        if norm is not None:
            x = x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + 1e-5) * norm
        if which < 2:
            i, made = np.arange(self.table.shape[1]), x.copy()
            a, b = (2 * i, 2 * i + 1) if neighbours else (i, i + len(i))
            cosine, sine = self.table[self.lengths[batch] - 1].astype("float64").T
            made[:, a], made[:, b] = x[:, a] * cosine - x[:, b] * sine, x[:, a] * sine + x[:, b] * cosine
            x = made
        return rounded(x, self.dtype)

    def expected(self, neighbours: bool, scores: Scores) -> tuple[np.ndarray, list[np.ndarray]]:
        """The result, and the keys and values with the new ones."""
        made, past = np.zeros((4, self.key_heads * self.group, self.features)), [x.copy() for x in self.past]
        for batch, length in enumerate(self.lengths):
            if not length:
                continue
            q, k, v = (self.head(which, batch, neighbours) for which in range(3))
            past[0][batch, :, length - 1], past[1][batch, :, length - 1] = k, v
            first = max(0, length - (scores.window or length))
            for head, query in enumerate(q):
                keys, values = (one[batch, head // self.group, first:length] for one in past)
                s = keys @ query * scores.scale
                s = s if scores.cap is None else np.tanh(s / scores.cap) * scores.cap
                weights = np.exp(s - s.max())
                made[batch, head] = weights / weights.sum() @ values
        return made.reshape(4, -1), past


def values_of(planes: Planes, kind: Kind) -> np.ndarray:
    """The numbers that activations in 8 bits stand for."""
    numbers = ck.asarray(planes.numbers).numpy().astype("float64")
    scales = ck.asarray(planes.factors).numpy().view(np.float32)[..., 0]
    made: np.ndarray = numbers * np.repeat(scales, kind.scaled).reshape(numbers.shape)
    return made


@pytest.mark.parametrize(
    ("sizes", "turned", "neighbours", "weighted", "scores", "name"),
    [
        pytest.param(sizes, *form, marks=[pytest.mark.thorough] * (sizes != SIZES[0] or form != FORMS[0]))
        for sizes in SIZES
        for form in FORMS
    ],
)
def test_attention_of_one_position_in_numpy(
    device: ck.Device,
    monkeypatch: pytest.MonkeyPatch,
    sizes: tuple[int, int, int, str, int],
    turned: int,
    neighbours: bool,
    weighted: bool,
    scores: Scores,
    name: str | None,
) -> None:
    if device.kind == "host":
        small: dict[str, Any] = {"_PARTS": 2, "_ATTEND_WARPS": (2, 1), "has_clusters": lambda device: True}
        for attribute, value in small.items():
            monkeypatch.setattr(kernels, attribute, value)
    elif not kernels.has_clusters(device):
        pytest.skip("has no clusters")
    step = Step(sizes, turned, weighted)
    cache = ck.nn.KeyValueCache(4, step.key_heads, sizes[-1], step.features, dtype=step.dtype)
    for one, past in zip((cache.keys, cache.values), step.past, strict=True):
        one[...] = ck.asarray(past).astype(step.dtype)
    assert kernels.attends(cache, step.group * step.key_heads)
    q, k, v = map(ck.asarray, step.projected)
    weights = HeadWeights(*(None if one is None else ck.asarray(one) for one in step.weights))
    lengths, kind = ck.asarray(step.lengths, dtype="int32"), KINDS[name] if name else None
    given = (q, k, v), weights, ck.asarray(step.table), cache, lengths, neighbours, 1e-5
    made = kernels.attend(*given, scores, kind)
    wanted, past = step.expected(neighbours, scores)
    tolerance = TOLERANCE[step.dtype]
    for one, exact in zip((cache.keys, cache.values), past, strict=True):
        np.testing.assert_allclose(one.astype("float64").numpy(), exact, rtol=tolerance, atol=tolerance)
    if isinstance(made, Planes):
        assert kind is not None
        blocks = np.abs(wanted).reshape(-1, 32).max(axis=-1)
        bound = np.repeat(blocks / 127 / 2, 32).reshape(wanted.shape) + tolerance
        assert (np.abs(values_of(made, kind) - wanted) <= bound).all()
    else:
        np.testing.assert_allclose(made.numpy(), wanted, rtol=tolerance, atol=tolerance)
