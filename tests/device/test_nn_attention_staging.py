"""What comes ahead of tiles of scores, in kernels fed by tensor maps: tables by distance, and arrays by tiles."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nn_support import close, sized
from test_nn_attention_kernels import check_gradients, forms, given, only

import cukern as ck
from cukern import dtypes, nn
from cukern.launch.family import STAND_IN
from cukern.nn.attention.gradients import KeysWarpgroups, QueriesWarpgroups, Together
from cukern.nn.attention.problem import Call, Options
from cukern.nn.attention.scores import traced
from cukern.nn.attention.staging import staging
from cukern.nn.attention.warpgroups import BARRIERS, Warpgroups
from cukern.testing import asynchrony
from cukern.text.render import TEMPLATES


@pytest.fixture(autouse=True)
def fed(device: ck.Device, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Launches of warpgroups, of the tiles of many queries."""
    monkeypatch.setattr(Warpgroups, "most_of_short", 0)
    with only("warpgroups"):
        yield


def check(arrays: list[ck.Array], options: Any) -> None:
    """Values and gradients against those in float64, which other kernels make."""
    cotangent = ck.arange(arrays[2].shape[-1], dtype=arrays[0].dtype) / 8 - 3
    check_gradients(lambda *own, **more: nn.attention(*own, **options, **more), arrays, cotangent)


@pytest.mark.parametrize("deterministic", [False, True])
def test_tables_by_distance(deterministic: bool) -> None:
    """Clipped beyond their ends, of heads that share keys; beside a function whose derivative is no constant."""
    rng = np.random.default_rng(0)
    arrays, _ = given("bfloat16", (1, 4, 300, 64), (1, 2, 420, 64), (1, 2, 420, 64))
    table = ck.asarray(rng.normal(size=(4, 400)), dtype="float32")
    slopes = ck.asarray(rng.normal(size=(4, 1, 1)), dtype="float32")

    def score(s: Any, b: Any, h: Any, i: Any, j: Any, slope: Any, t: Any) -> Any:
        return 2 * ck.tanh(s) + slope * ck.log(1.0 + abs(2 * (i - j))) + t[h, j - i + 250]

    options = {"score": score, "arrays": [slopes], "tables": [table], "deterministic": deterministic}
    options |= {"causal": True, "window": (200, None), "offset": 60}
    check(arrays, options)


@pytest.mark.parametrize(
    ("shape", "deterministic"),
    [
        ((300, 424), False),
        ((2, 1, 300, 424), True),
        *(
            pytest.param(*other, marks=pytest.mark.thorough)
            for other in (
                ((300, 424), True),
                ((2, 1, 300, 424), False),
                ((4, 300, 424), False),
                ((4, 300, 424), True),
            )
        ),
    ],
)
def test_arrays_of_queries_and_keys(shape: tuple[int, ...], deterministic: bool) -> None:
    """No tile divides a length; arrays may depend on the batch and on the head."""
    batch = shape[0] if len(shape) == 4 else 1
    arrays, _ = given("bfloat16", (batch, 4, 300, 64), (batch, 2, 424, 64), (batch, 2, 424, 64))
    bias = ck.asarray(np.random.default_rng(0).normal(size=shape)).astype("float16")
    options = {"bias": bias, "deterministic": deterministic}
    check(arrays, options)


@pytest.mark.parametrize("scale", [pytest.param(0.0, marks=pytest.mark.thorough), -0.3])
def test_scales_that_are_not_positive(scale: float) -> None:
    arrays, exact = given("bfloat16", (1, 2, 300, 64), (1, 2, 300, 64), (1, 2, 300, 64))
    bias = ck.asarray(np.random.default_rng(0).normal(size=(300, 300))).astype("bfloat16")
    made = nn.attention(*arrays, bias=bias, scale=scale)
    wanted = sized(
        lambda *own: nn.attention(*map(ck.asarray, own), bias=bias, scale=scale), *exact, rows=True
    )
    close(made, wanted)


@pytest.mark.parametrize("features", [64, 128])
def test_an_array_of_minus_infinities_and_of_large_numbers(features: int) -> None:
    """Products are added to them: with 64 features to the array itself, with 128 to it over their factor."""
    arrays, _ = given("bfloat16", *[(1, 2, 264, features)] * 3)
    rng = np.random.default_rng(0)
    bias = rng.normal(size=(264, 264)) + np.where(rng.random((264, 1)) < 0.5, 1000.0, -1000.0)
    bias[rng.random((264, 264)) < 0.3] = -np.inf
    bias[100:180, :130] = -np.inf
    options = {"bias": ck.asarray(bias).astype("bfloat16"), "causal": True, "offset": 0}
    check(arrays, options)


@pytest.mark.parametrize(
    "left_out",
    [
        "        fence_to_async();\n",
        pytest.param("        barrier_sync(9 + task.group, 128);\n", marks=pytest.mark.thorough),
    ],
)
def test_products_wait_for_queries_times_the_scale(monkeypatch: pytest.MonkeyPatch, left_out: str) -> None:
    """Without the fence or the barrier the host shows wrong numbers, or a fault."""
    text = (Path(TEMPLATES) / "nn" / "attention" / "forward_tma.cu").read_text()
    assert text.count(left_out) == 1
    monkeypatch.setattr(Warpgroups, "kernel", ck.Kernel(text.replace(left_out, ""), name="attention_forward"))
    with ck.device("host"), asynchrony("late"):
        arrays, _ = given("bfloat16", *[(1, 1, 264, 64)] * 3)
        options = {"bias": ck.asarray(np.random.default_rng(0).normal(size=(264, 264))).astype("bfloat16")}
        with pytest.raises((AssertionError, ck.KernelFault)):
            check(arrays, options)


def test_an_array_and_a_table_beside_a_mask_with_wider_heads() -> None:
    """One stage of what is read ahead fits, beside a table that is read by the key."""
    arrays, _ = given("float16", *[(1, 2, 264, 128)] * 3)
    rng = np.random.default_rng(0)
    bias = ck.asarray(rng.normal(size=(2, 264, 264))).astype("float16")
    table, of_keys = (ck.asarray(rng.normal(size=n), dtype="float32") for n in (527, 264))
    options = {
        "bias": bias,
        "score": lambda s, b, h, i, j, t, x: s / 2 + t[i - j + 263] * x[j],
        "tables": [table, of_keys],
        "mask": ck.asarray(rng.random((264, 264)) < 0.9),
    }
    check(arrays, options)


def test_packed_sequences() -> None:
    """A table by the distance within each of them."""
    arrays, exact = given("bfloat16", (2, 400, 64), (2, 420, 64), (2, 420, 64))
    starts_q, starts_k = np.array([0, 150, 260, 400]), np.array([0, 160, 310, 420])
    table = ck.asarray(np.random.default_rng(0).normal(size=(2, 330)), dtype="float32")
    options = {"score": lambda s, b, h, i, j, t: s + t[h, i - j + 150], "tables": [table]}
    starts = tuple(ck.asarray(one) for one in (starts_q, starts_k))
    made = nn.attention(*arrays, starts=starts, **options)
    for rows, keys in zip(pairwise(starts_q), pairwise(starts_k), strict=True):
        own = [x[:, slice(*part)] for x, part in zip(exact, (rows, keys, keys), strict=True)]
        wanted = sized(lambda *own: nn.attention(*map(ck.asarray, own), **options), *own, rows=True)
        close(made[:, slice(*rows)], wanted)


def test_copies_at_any_time() -> None:
    rng = np.random.default_rng(0)
    with ck.device("host"):
        arrays, _ = given("bfloat16", *[(1, 1, 264, 64)] * 3)
        table, bias = (
            ck.asarray(rng.normal(size=527), dtype="float32"),
            ck.asarray(rng.normal(size=(264, 264))),
        )
        options = {
            "score": lambda s, b, h, i, j, t: s + t[j - i + 263],
            "tables": [table],
            "bias": bias.astype("bfloat16"),
        }
        for when, seed in (("at_once", 0), ("random", 1), ("late", 0)):
            with asynchrony(when, seed):
                check(arrays, options)


@pytest.mark.parametrize(
    ("score", "windows", "reads"),
    [
        (lambda s, b, h, i, j, x, t: s + t[h, j - i + 9], 1, False),
        (lambda s, b, h, i, j, x, t: s + x * t[h, 2 * (i - j)] + t[0, j - i], 2, False),
        (lambda s, b, h, i, j, x, t: s - ck.exp(-0.1 * abs(i - j)), 1, False),
        (lambda s, b, h, i, j, x, t: s - 0.1 * abs(i - j), 0, False),
        (lambda s, b, h, i, j, x, t: s + t[h, j], 0, True),
        (lambda s, b, h, i, j, x, t: s + t[h, j + i], 0, True),
        (lambda s, b, h, i, j, x, t: s * t[h, j - i] + t[0, i], 1, True),
        (lambda s, b, h, i, j, x, t: s + t[h, 3], 0, True),
    ],
)
def test_what_depends_on_the_distance(score: Any, windows: int, reads: bool) -> None:
    q = ck.zeros((1, 4, 300, 64), "bfloat16")
    x, table = ck.zeros((4, 1, 1)), ck.zeros((4, 600))
    program, lookups = traced(score, [x.dtype], (False, False), dtypes.float32, [table])
    options = Options(0.125, program=program, lookups=lookups)
    found = staging(Call(q, q, q, options, (x,), (table,)).problem)
    assert (len(found.windows), found.tiled, found.reads) == (windows, None, reads)


@pytest.mark.parametrize(
    ("shape", "part", "dtype", "tiled"),
    [
        ((300, 304), ..., "bfloat16", 0),
        ((1, 4, 300, 304), ..., "float16", 0),
        ((300, 304), ..., "float32", None),
        ((300, 300), ..., "bfloat16", None),
        ((1, 304), ..., "bfloat16", None),
        ((300, 1), ..., "bfloat16", None),
        ((300, 312), np.s_[:, :304], "bfloat16", 0),
        ((300, 308), np.s_[:, :304], "bfloat16", None),
        ((300, 608), np.s_[:, ::2], "bfloat16", None),
    ],
)
def test_which_arrays_are_brought_by_tiles(
    shape: tuple[int, ...], part: Any, dtype: str, tiled: int | None
) -> None:
    q = ck.zeros((1, 4, 300, 64), "bfloat16")
    bias = ck.zeros(shape, dtype)[part]
    k = ck.zeros((1, 4, bias.shape[-1] if bias.shape[-1] > 1 else 304, 64), "bfloat16")
    program, _ = traced(None, [bias.dtype], (True, False), dtypes.float32, [])
    found = staging(Call(q, k, k, Options(0.125, program=program), (bias,)).problem)
    assert found.tiled == tiled
    assert found.reads == (tiled is None)


def test_where_there_is_no_room_the_score_reads_memory() -> None:
    """Of heads of 256 features no tile of an array fits; in the backward of those of 64, one of fewer rows."""
    bias = ck.zeros((256, 256), "bfloat16")
    program, _ = traced(None, [bias.dtype], (True, False), dtypes.float32, [])
    found, kinds = {}, (Warpgroups, Together, QueriesWarpgroups, KeysWarpgroups)
    for features in (64, 128, 256):
        x = ck.zeros((1, 4, 256, features), "bfloat16")
        for (_, problem), variant in zip(forms(x, x, x, bias, program=program), kinds, strict=True):
            if variant.fits(problem, STAND_IN):  # no one kernel makes all gradients of so many features
                assert (features, variant) == (256, Together)
                continue
            (tile,) = variant.configs(problem, STAND_IN)
            assert tile.shared(problem) + BARRIERS <= STAND_IN.max_shared_memory_per_block
            made = tile.launch(problem, STAND_IN).constants
            assert made["reads_places"] == (tile.ahead_size == 0)
            assert made["tiled"] == ("x5" if tile.ahead_size else None)
            found[features, variant] = (tile.tile_m, tile.ahead_stages)
            assert made["prescaled"] == (variant is Warpgroups and tile.ahead_size > 0 and features != 128)
    assert found[64, Warpgroups] == (192, 2)
    assert found[64, Together] == (96, 2)
    assert found[128, Warpgroups] == (128, 1)
    assert found[128, Together] == (64, 2)
    assert found[256, Warpgroups] == (128, 0)


def test_three_warpgroups_make_scores_with_a_table_by_distance() -> None:
    x, table = ck.zeros((1, 4, 2048, 64), "bfloat16"), ck.zeros((5000,))
    for score, rows in (
        (lambda s, b, h, i, j, t: s + t[j - i + 2047], 192),
        (lambda s, b, h, i, j, t: s + t[j], 128),
    ):
        program, lookups = traced(score, [], (False, False), dtypes.float32, [table])
        options = Options(0.125, program=program, lookups=lookups)
        (tile,) = Warpgroups.configs(Call(x, x, x, options, (), (table,)).problem, STAND_IN)
        assert tile.tile_m == rows


def test_a_score_whose_parts_have_many_users_is_looked_through_once() -> None:
    def score(s: ck.Array, b: ck.Array, h: ck.Array, i: ck.Array, j: ck.Array) -> ck.Array:
        for _ in range(40):  # as a tree it has 3**40 parts
            s = s + s * s * 0.125
        return s - ck.exp(-0.1 * abs(i - j))

    program, _ = traced(score, [], (False, False), dtypes.float32, [])
    q = ck.zeros((1, 4, 300, 64), "bfloat16")
    assert len(staging(Call(q, q, q, Options(0.125, program=program)).problem).windows) == 1
