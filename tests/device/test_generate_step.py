"""The launches of a step of one token: what they join gives what it gives apart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import decoders
import numpy as np
import pytest
from test_generate import AFTER, PROMPT, codes

import cukern as ck
from cukern.generate import Decoder, kernels
from cukern.generate import decoder as decoder_module
from cukern.generate.kernels import HeadWeights, Scores
from cukern.launch.family import STAND_IN
from cukern.quant import planes
from cukern.quant.families import QUANTISED, SETTLED
from cukern.quant.kinds import KINDS
from cukern.quant.planes import Planes

pytest.importorskip("gguf")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, device: ck.Device) -> Iterator[pytest.MonkeyPatch]:
    """GPUs' kernels, on the host too, with few threads: there each takes its time, and the matrices are small."""
    for module in (kernels, decoder_module):
        monkeypatch.setattr(module, "serial", lambda device: False)
    if device.kind == "host":
        monkeypatch.setattr(kernels, "_PARTS", 2)
        monkeypatch.setattr(kernels, "_ATTEND_WARPS", (2, 1))
    limits = (STAND_IN if device.kind == "host" else device.properties)._replace(multiprocessors=2)
    few = QUANTISED.only("few rows", "dense", limits=limits, warps=1)
    with SETTLED.only("settled rows", limits=limits, warps=1), few:
        yield monkeypatch


def joined(matrices: list[Any]) -> list[Any]:
    """As on GPUs: one matrix of those of one kind."""
    kinds = {w.kind for w in matrices}
    if len(matrices) == 1 or len(kinds) > 1:
        return matrices
    blocks = ck.concat([w.blocks for w in matrices])
    shape = sum(w.shape[0] for w in matrices), matrices[0].shape[1]
    return [ck.quant.from_blocks(blocks, shape, *kinds)]


def written(path: Path, device: ck.Device) -> np.ndarray:
    """The logits after a prompt and each of the tokens behind it."""
    decoder = Decoder(path, device=device)
    layers = [
        layer._replace(projections=joined(layer.projections), networks=joined(layer.networks))
        for layer in decoder.weights.layers
    ]
    decoder.weights = decoder.weights._replace(layers=layers)
    made = [decoder(codes(tokens, device)) for tokens in (PROMPT, *([token] for token in AFTER))]
    return np.concatenate([one.numpy() for one in made])


def test_products_with_norms_gates_and_sums(
    device: ck.Device, tmp_path: Path, small: pytest.MonkeyPatch
) -> None:
    """Bit for bit, as activations are rounded in the same order."""
    path = tmp_path / "model.gguf"
    decoders.write(path, decoders.FORMS["llama"], "Q4_0")
    small.setattr(kernels, "has_clusters", lambda device: False)
    calls, own = [], planes.product

    def counted(x: Any, w: Any, added: Any = None, gate: str = "") -> ck.Array:
        calls.append((type(x), added is not None, gate))
        return own(x, w, added, gate)

    small.setattr(planes, "product", counted)
    found = written(path, device)
    assert {(planes.Normed, False, "silu"), (planes.Normed, False, ""), (ck.Array, True, "")} <= set(calls)
    small.setattr(planes, "fuses", lambda *given: False)
    np.testing.assert_array_equal(found, written(path, device))


def head_weights(rng: np.random.Generator, heads: int, key_heads: int, features: int) -> HeadWeights:
    sizes = (heads * features, key_heads * features, key_heads * features, features, features)
    return HeadWeights(*(ck.asarray(rng.normal(size=size), dtype="float32") for size in sizes))


@pytest.mark.parametrize(
    ("dtype", "features", "group", "kind", "scores"),
    [
        ("float32", 64, 3, None, Scores(0.25, 3.0, 7)),
        ("float16", 32, 3, KINDS["Q6_K"], Scores(0.5)),
        ("float16", 64, 4, KINDS["Q4_K"], Scores(0.5)),
    ],
)
def test_attention_of_one_position(
    device: ck.Device,
    small: pytest.MonkeyPatch,
    dtype: str,
    features: int,
    group: int,
    kind: Any,
    scores: Scores,
) -> None:
    """Of sequences of several lengths, one of which fills the cache: by one cluster for a head of keys, and two."""
    if device.kind == "cuda" and not kernels.has_clusters(device):
        pytest.skip("has no clusters")
    rng, heads, key_heads, room = np.random.default_rng(0), 2 * group, 2, 40
    lengths = ck.asarray([1, 2, 21, room], dtype="int32")
    projected = ck.asarray(rng.normal(size=(4, 1, (heads + 2 * key_heads) * features)), dtype="float32")
    q, k, v = ck.split(projected, [heads * features, (heads + key_heads) * features], axis=-1)
    table = ck.asarray(rng.normal(size=(room, features // 4, 2)), dtype="float32")
    caches = [ck.nn.KeyValueCache(4, key_heads, room, features, dtype=dtype) for _ in range(2)]
    past = ck.asarray(rng.normal(size=caches[0].keys.shape)).astype(dtype)
    for cache in caches:
        cache.keys[...], cache.values[...] = past, past[..., ::-1]
    weights = head_weights(rng, heads, key_heads, features) if kind is None else HeadWeights()
    given = (q, k, v), weights, table
    queries = kernels.append_heads(*given, caches[0], lengths, kind is None, 1e-5)
    cap = scores.cap
    exact = ck.nn.attention(
        *(one.astype("float32") for one in (queries, caches[0].keys, caches[0].values)),
        causal=True,
        offset="end",
        key_lengths=lengths,
        window=None if scores.window is None else scores.window - 1,
        scale=scores.scale,
        score=None if cap is None else lambda s, b, h, i, j: ck.tanh(s / cap) * cap,
    ).reshape(4, heads * features)
    made = kernels.attend(*given, caches[1], lengths, kind is None, 1e-5, scores, kind)
    for name in ("keys", "values"):
        np.testing.assert_array_equal(*(getattr(cache, name).astype("float32").numpy() for cache in caches))
    if isinstance(made, Planes):
        # The nearest of 8 bits, of which a rounding of attention may decide.
        numbers = planes.rounded(exact, kind).numbers
        found, wanted = (ck.asarray(one).numpy().astype(int) for one in (made.numbers, numbers))
        assert np.abs(found - wanted).max() <= 1 and (found != wanted).mean() < 1e-3
    else:
        np.testing.assert_allclose(made.numpy(), exact.numpy(), rtol=1e-5, atol=1e-6)
