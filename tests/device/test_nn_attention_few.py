"""Attention of few queries, whose keys blocks share, against NumPy in float64 and by other kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from nn_support import close, sized
from test_nn_attention_kernels import attended, exact_gradients, given, only, problem_of

import cukern as ck
from cukern import nn
from cukern.launch.family import STAND_IN
from cukern.nn.attention import masks
from cukern.nn.attention.families import ATTENTION
from cukern.nn.attention.simt import FewRows
from cukern.nn.attention.tensor_cores import TensorCores
from cukern.nn.attention.variants import Combine, parts_for, residents

#: Of fewer rows than the launches have; its lanes do not divide the packs of 24 and of 12 features.
DIRECT = {"tile_m": 2, "tile_n": 32, "lanes": 4, "threads": 64}


@pytest.mark.parametrize(
    ("dtype", "variant"),
    [
        ("float32", "portable"),
        ("bfloat16", "tensor cores"),
        ("float32", "few rows"),
        ("bfloat16", "few rows"),
    ],
)
def test_few_queries_split_the_keys(
    device: ck.Device, monkeypatch: pytest.MonkeyPatch, dtype: str, variant: str
) -> None:
    """Batches whose keys leave parts empty, or are none; a window that begins within a part; more queries than few."""
    monkeypatch.setattr(Combine, "of", lambda value, limits: Combine(4, 2))
    (q, k, v), exact = given(dtype, (3, 4, 2, 8), (3, 2, 200, 8), (3, 2, 200, 16))
    counts = np.array([200, 0, 37])
    i, j = np.arange(2)[:, None], np.arange(200)
    at = i + counts[:, None, None, None] - 2
    allowed = (j <= at) & (j >= at - 150)

    def call(*own: ck.Array, **more: Any) -> Any:
        lengths = ck.asarray(counts, device=q.device)
        return nn.attention(*own, causal=True, window=150, offset="end", key_lengths=lengths, **more)

    with only(variant, parts=5, **DIRECT if variant == "few rows" else {}) as used:
        made, pull = ck.vjp(call, q, k, v)
        assert [one.parts for one in used.forward] == [5]
        close(made, sized(lambda *own: attended(*own, 8**-0.5, allowed), *exact))
        assert made.tolist() == call(q, k, v).tolist()
        assert np.isnan(call(q, k, v + np.nan).numpy()[0].astype(float)).all()
    if dtype == "float32":  # the backward kernels read the combined statistics
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

        with only("portable"):
            wanted = sized(call, q, k, v)
        with only("few rows", **DIRECT):
            close(call(q, k, v), wanted)
    # Sequences behind one another, of which one has no keys.
    starts = ck.asarray([0, 1, 3, 3]), ck.asarray([0, 90, 90, 150])
    packed = q[0, :, 0][:, None] * ck.asarray([[1.0], [2.0], [3.0]], "float32"), k[0], v[0]
    with only("few rows", **DIRECT):
        found = nn.attention(*packed, starts=starts)
    with only("portable"):
        close(found, sized(lambda *own: nn.attention(*map(ck.asarray, own), starts=starts), *packed))


@pytest.mark.parametrize(("dtype", "features"), [("float32", 8), ("float64", 136), ("float16", 72)])
def test_tiles_of_a_gpu(device: ck.Device, dtype: str, features: int) -> None:
    """By one lane, by all of a warp, and of half types, checked; the last tile of keys is not full."""
    (q, k, v), exact = given(dtype, (1, 3, 1, features), (1, 1, 81, features), (1, 1, 81, 16))
    with only("few rows", parts=1), ck.testing.checked():
        made = nn.attention(q, k, v)
    close(made, sized(lambda *own: attended(*own, features**-0.5), *exact))


def few(rows: int, size: int, value: int, dtype: str, limits: Any = STAND_IN) -> tuple[FewRows, Any]:
    """The constants for heads of many keys, and the problem."""
    x, k, v = ((1, 32, n, m) for n, m in ((rows, size), (16384, size), (16384, value)))
    layouts = [ck.zeros(one, dtype, device="host") for one in (x, k, v)]
    problem = problem_of(*layouts)
    (one,) = FewRows.configs(problem, limits)
    return one, problem


def test_tiles_of_few_rows_by_dtype_and_head() -> None:
    small = STAND_IN._replace(max_shared_memory_per_block=65536)
    for name in ("float16", "bfloat16", "float32", "float64"):
        for size in (8, 24, 64, 128, 256):
            for rows in (1, 3, 16):
                tile, problem = few(rows, 8, size, name, small)
                assert 1 <= tile.tile_m < 2 * rows
                assert tile.tile_n % 16 == tile.threads % max(32, tile.lanes) == 0
                assert tile.tile_n <= 64
                assert tile.shared(problem) <= 65536
    resident = []
    for rows in (1, 4, 16):
        tile, problem = few(rows, 128, 128, "float32")
        assert (tile.tile_m, tile.tile_n, tile.lanes, tile.threads) == (min(rows, 8), 32, 16, 256)
        resident.append(tile.resident(problem, STAND_IN))
        # One wave of blocks, which leaves no multiprocessor without work.
        parts = parts_for(STAND_IN, 32, 16384 // tile.tile_n, tile.in_flight(problem), resident[-1])
        assert 132 * resident[-1] >= 32 * parts > 96 * resident[-1]
    assert resident == [2, 2, 1]
    tile, problem = few(4, 128, 128, "float32")
    assert tile.resident(problem, STAND_IN._replace(max_shared_memory_per_block=20_000)) == 1


def test_parts_of_keys_share_a_gpu_evenly() -> None:
    for size in (64, 128, 256):
        q, k = (ck.zeros((1, 1, n, size), "bfloat16", device="host") for n in (1, 16384))
        problem = problem_of(q, k, k)
        (tile,) = TensorCores.configs(problem, STAND_IN)
        shared = tile.shared(problem)
        resident = residents(STAND_IN, shared)
        for blocks in (8, 12, 32, 256):
            tiles = 16384 // tile.tile_n
            parts = parts_for(STAND_IN, blocks, tiles, shared // 2, resident)
            an_sm = -(-blocks * parts // 132) * -(-tiles // parts)
            assert blocks * tiles / 132 / an_sm > 0.9
            assert min(blocks * parts // 132 + 1, 8) * shared / 2 > 32 * 1024
        assert parts_for(STAND_IN, 10**5, 1, shared // 2, resident) == 1
    assert Combine.of(100, STAND_IN) == Combine(128, 4)
    assert ATTENTION.variants["few rows"] is FewRows
