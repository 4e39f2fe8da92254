"""Attention of few queries, whose keys blocks share, against NumPy in float64 and by other kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from nn_support import close, sized
from test_nn_attention_kernels import attended, exact_gradients, given, new_choices, on_tensor_cores

import cukern as ck
from cukern import nn
from cukern.device.interface import Properties
from cukern.nn.attention import combine, masks, plan
from cukern.nn.attention.geometry import (
    MMA_TILES,
    FewTile,
    Head,
    combining,
    few_tile_for,
    parts_for,
    residents,
    residents_of_few,
)

__all__ = ["new_choices", "on_tensor_cores"]

#: Of fewer rows than the launches have; its lanes do not divide the packs of 24 and of 12 features.
DIRECT = FewTile(2, 32, 4, threads=64)


def directly(monkeypatch: pytest.MonkeyPatch, tile: FewTile | None) -> None:
    """Few rows by this tile, whose keys go from memory to registers, or by none such."""
    monkeypatch.setattr(plan, "few_tile_for", lambda *given: tile)
    if tile is not None:
        monkeypatch.setattr(plan, "mma_tile_for", lambda *given: None)


@pytest.mark.usefixtures("on_tensor_cores")
@pytest.mark.parametrize(
    ("dtype", "tile"),
    [("float32", None), ("bfloat16", None), ("float32", DIRECT), ("bfloat16", DIRECT)],
)
def test_few_queries_split_the_keys(
    device: ck.Device, monkeypatch: pytest.MonkeyPatch, dtype: str, tile: FewTile | None
) -> None:
    """Batches whose keys leave parts empty, or are none; a window that begins within a part; more queries than few."""
    asked: list[int] = []
    monkeypatch.setattr(plan, "parts_for", lambda device, blocks, tiles, *of_block: asked.append(tiles) or 5)
    directly(monkeypatch, tile)
    monkeypatch.setattr(combine, "combining", lambda value, device: (4, 2))
    (q, k, v), exact = given(dtype, (3, 4, 2, 8), (3, 2, 200, 8), (3, 2, 200, 16))
    counts = np.array([200, 0, 37])
    i, j = np.arange(2)[:, None], np.arange(200)
    at = i + counts[:, None, None, None] - 2
    allowed = (j <= at) & (j >= at - 150)

    def call(*own: ck.Array, **more: Any) -> Any:
        lengths = ck.asarray(counts, device=q.device)
        return nn.attention(*own, causal=True, window=150, offset="end", key_lengths=lengths, **more)

    made, pull = ck.vjp(call, q, k, v)
    assert len(asked) == 1
    assert asked[0] > 1
    close(made, sized(lambda *own: attended(*own, 8**-0.5, allowed), *exact))
    assert made.tolist() == call(q, k, v).tolist()
    assert np.isnan(call(q, k, v + np.nan).numpy()[0].astype(float)).all()
    if dtype == "float32":  # the backward kernels read the combined statistics
        monkeypatch.setattr(plan, "parts_for", lambda *given: 1)
        monkeypatch.setattr(plan, "_chosen", {})
        directly(monkeypatch, None)
        for one, wanted in zip(pull(made), exact_gradients(call, (q, k, v), made)[1:], strict=True):
            close(one, wanted)


def test_few_queries_read_keys_to_registers(device: ck.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same as by tiles of keys in shared memory: every option, of packs that lanes do not divide."""
    monkeypatch.setattr(masks, "FEWEST", 0)
    (q, k, v, table), _ = given("float32", (2, 6, 2, 24), (2, 2, 150, 24), (2, 2, 150, 12), (200,))
    mask = ck.arange(150) % 100 < 30

    def score(s: Any, batch: Any, head: Any, i: Any, j: Any, table: Any) -> Any:
        return ck.tanh(s) * (head + 1) + table[j + batch] * (i + 1)

    cases: list[dict[str, Any]] = [
        {"mask": mask},
        {"dropout": 0.5},
        {"score": score, "tables": [table], "offset": "end", "causal": True, "window": 70},
    ]
    for options in cases:

        def call(*own: Any, o: dict[str, Any] = options) -> ck.Array:
            drawn = {"rng": ck.random.default_rng(3)} if "dropout" in o else {}
            return nn.attention(*map(ck.asarray, own), **o, **drawn)

        directly(monkeypatch, None)
        monkeypatch.setattr(plan, "_chosen", {})
        wanted = sized(call, q, k, v)
        assert DIRECT not in plan._chosen.values()
        directly(monkeypatch, DIRECT)
        monkeypatch.setattr(plan, "_chosen", {})
        made = call(q, k, v)
        assert DIRECT in plan._chosen.values()
        close(made, wanted)
    # Sequences behind one another, of which one has no keys.
    starts = ck.asarray([0, 1, 3, 3]), ck.asarray([0, 90, 90, 150])
    packed = q[0, :, 0][:, None] * ck.asarray([[1.0], [2.0], [3.0]], "float32"), k[0], v[0]
    found = nn.attention(*packed, starts=starts)
    assert DIRECT in plan._chosen.values()
    directly(monkeypatch, None)
    monkeypatch.setattr(plan, "_chosen", {})
    close(found, sized(lambda *own: nn.attention(*map(ck.asarray, own), starts=starts), *packed))


class Gpu:
    """What of a GPU its tiles depend on."""

    style = "simt"

    def __init__(self, shared: int = 232448) -> None:
        self.properties = Properties("", 1024, (1024,) * 3, (2**31 - 1,) * 3, shared, 32, 132, 8, (9, 0))


@pytest.mark.parametrize(("dtype", "features"), [("float32", 8), ("float64", 136), ("float16", 72)])
def test_tiles_of_a_gpu(
    device: ck.Device, monkeypatch: pytest.MonkeyPatch, dtype: str, features: int
) -> None:
    """By one lane, by all of a warp, and of half types, checked; the last tile of keys is not full."""
    (q, k, v), exact = given(dtype, (1, 3, 1, features), (1, 1, 81, features), (1, 1, 81, 16))
    tile = few_tile_for(Head(features, 16), 3, q.dtype, Gpu())  # type: ignore[arg-type]
    directly(monkeypatch, tile)
    with ck.testing.checked():
        made = nn.attention(q, k, v)
    assert tile in plan._chosen.values()
    close(made, sized(lambda *own: attended(*own, features**-0.5), *exact))


def test_tiles_of_few_rows_by_dtype_and_head() -> None:
    gpu: Any = Gpu(shared=65536)
    large: Any = Gpu()
    for name in ("float16", "bfloat16", "float32", "float64"):
        dtype = ck.empty(0, name).dtype
        for size in (8, 24, 64, 128, 256):
            for rows in (1, 3, 16):
                tile = few_tile_for(Head(8, size), rows, dtype, gpu)
                assert tile is not None
                assert 1 <= tile.rows < 2 * rows
                assert tile.keys % 16 == tile.threads % max(32, tile.lanes) == 0
                assert tile.keys <= 64
                assert tile.shared(Head(8, size), dtype) <= 65536
    single = ck.empty(0, "float32").dtype
    resident = []
    for rows in (1, 4, 16):
        tile = few_tile_for(Head(128, 128), rows, single, gpu)
        assert tile == FewTile(min(rows, 8), 32, 16, 256)
        assert tile is not None
        resident.append(residents_of_few(tile, Head(128, 128), single, large))
        # One wave of blocks, which leaves no SM without work.
        parts = parts_for(large, 32, 16384 // tile.keys, tile.keys * 256 * 4, resident[-1])
        assert 132 * resident[-1] >= 32 * parts > 96 * resident[-1]
    assert resident == [2, 2, 1]
    assert residents_of_few(FewTile(4, 32, 16, 256), Head(128, 128), single, Gpu(shared=20_000)) == 1  # type: ignore[arg-type]


def test_parts_of_keys_share_a_gpu_evenly() -> None:
    gpu: Any = Gpu()
    for size, tile in MMA_TILES["few"].items():
        shared = tile.shared(Head(size, size), "few")
        resident = residents(gpu, shared)
        for blocks in (8, 12, 32, 256):
            tiles = 16384 // tile.keys
            parts = parts_for(gpu, blocks, tiles, shared // 2, resident)
            an_sm = -(-blocks * parts // 132) * -(-tiles // parts)
            assert blocks * tiles / 132 / an_sm > 0.9
            assert min(blocks * parts // 132 + 1, 8) * shared / 2 > 32 * 1024
        assert parts_for(gpu, 10**5, 1, shared // 2, resident) == 1
    assert combining(100, gpu) == (128, 4)
