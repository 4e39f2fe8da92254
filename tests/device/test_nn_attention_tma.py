"""Attention fed by tensor maps, on the host and on GPUs of compute capability 9.0, against NumPy in float64."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nn_support import close, sized
from test_nn_attention_kernels import (
    attended,
    check_gradients,
    check_large_scores,
    close_gradient,
    exact_gradients,
    given,
    only,
    problem_of,
)

import cukern as ck
from cukern import nn
from cukern.kernel.sizes import divide_up
from cukern.launch.family import STAND_IN
from cukern.nn.attention import variants, warpgroups
from cukern.nn.attention.gradients import KeysWarpgroups, QueriesWarpgroups, Together
from cukern.nn.attention.problem import Head
from cukern.nn.attention.tensor_cores import TensorCores
from cukern.nn.attention.warpgroups import Warpgroups
from cukern.testing import asynchrony
from cukern.text.render import TEMPLATES


@pytest.fixture(autouse=True)
def fed(device: ck.Device, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Launches of warpgroups, with three that multiply where a query attends to some of the keys alone."""
    monkeypatch.setitem(Warpgroups.table_of_short, True, {})
    with only("warpgroups"):
        yield


def check_both(dtype: str, shapes: Any, **options: Any) -> None:
    """Values and gradients against those in float64, which other kernels make."""
    arrays, _ = given(dtype, *shapes)
    cotangent = ck.arange(shapes[2][-1], dtype=dtype) / 8 - 3
    check_gradients(lambda *own, **more: nn.attention(*own, **options, **more), arrays, cotangent)


def check(dtype: str, shapes: Any, allowed: Any, f: Any = None, **options: Any) -> None:
    arrays, exact = given(dtype, *shapes)
    made, lse = nn.attention(*arrays, return_lse=True, **options)
    scale = shapes[0][-1] ** -0.5

    def sums(q: np.ndarray, k: np.ndarray) -> np.ndarray:
        scores = q @ np.repeat(k, shapes[0][1] // shapes[1][1], axis=1).swapaxes(-1, -2) * scale
        i, j = np.arange(q.shape[-2])[:, None], np.arange(k.shape[-2])
        scores = np.where(allowed, scores if f is None else f(scores, i, j), -np.inf)
        with np.errstate(divide="ignore"):
            return np.log(np.exp(scores).sum(-1))

    close(made, sized(lambda *own: attended(*own, scale, allowed, f), *exact, rows=True))
    close(lse, sized(sums, *exact[:2]))


def test_a_window_and_heads_that_share_keys() -> None:
    """Three warpgroups; the first queries attend to nothing, and no tile divides a length."""
    i, j = np.arange(230)[:, None], np.arange(400)
    allowed = (j <= i - 40) & (j >= i - 190)
    shapes = (2, 2, 230, 64), (2, 1, 400, 64), (2, 1, 400, 64)
    check("bfloat16", shapes, allowed, causal=True, window=150, offset=-40)


def test_a_function_of_a_score_and_features_that_fill_no_line() -> None:
    i, j = np.arange(150)[:, None], np.arange(300)
    slope = ck.asarray([0.5, 0.25], dtype="float16").reshape(2, 1, 1)

    def bent(s: Any, i: Any, j: Any) -> Any:
        steps = abs(3 * (j - i) + 2) / 64 + 0.01 * np.maximum(i - 2 * j, 5)
        return 2 * np.tanh(s / 2) + slope.numpy().astype(float) * (i - j) - steps

    check(
        "float16",
        [(1, 2, 150, 96), (1, 2, 300, 96), (1, 2, 300, 72)],
        j <= i + 150,
        bent,
        causal=True,
        offset="end",
        score=lambda s, b, h, i, j, x: (
            2 * ck.tanh(s / 2) + x * (i - j) - abs(3 * (j - i) + 2) / 64 - 0.01 * ck.maximum(i - 2 * j, 5)
        ),
        arrays=[slope],
    )


def test_gradients() -> None:
    """Heads that share keys, a window that leaves out rows and keys; features that fill no line, and a function.

    By kernels for queries, for keys and, as there are many features, for values; and by one for all.

    The function is NaN beyond the last query.
    """
    shapes = [(1, 4, 130, 136), (1, 2, 300, 136), (1, 2, 300, 136)]
    check_both("bfloat16", shapes, causal=True, window=100, offset=60)
    check_both(
        "float16",
        [(1, 2, 150, 96), (1, 2, 200, 96), (1, 2, 200, 72)],
        score=lambda s, b, h, i, j: 2 * ck.tanh(s / 2) + h + ck.log(150 - i),
        offset="end",
        causal=True,
    )


def test_a_cap_of_small_and_of_large_scores() -> None:
    """A polynomial makes the small ones of a warp's tile; elsewhere it would be off by more than the scores."""
    arrays, (q, k, v) = given("bfloat16", *[(1, 1, 130, 64)] * 3)
    for x in (arrays[0], q):
        x[:, :, 80:] *= 64
    made, pull = ck.vjp(
        lambda *own: nn.attention(*own, score=lambda s, b, h, i, j: 8 * ck.tanh(s / 8)), *arrays
    )
    cotangent = np.arange(64) / 8 - np.ones_like(v)

    t = np.tanh(q @ k.swapaxes(-1, -2) / 64)  # of float32, as all factors are exact

    def formula(q: np.ndarray, k: np.ndarray, v: np.ndarray, g: np.ndarray) -> list[np.ndarray]:
        weights = np.exp(8 * t) / np.exp(8 * t).sum(-1, keepdims=True)
        of_scores = weights * (g @ v.swapaxes(-1, -2) - (g * (weights @ v)).sum(-1, keepdims=True))
        of_scores *= (1 - t * t) / 8
        return [weights @ v, of_scores @ k, of_scores.swapaxes(-1, -2) @ q, weights.swapaxes(-1, -2) @ g]

    found = made, *pull(ck.asarray(cotangent, dtype="bfloat16"))
    for one, wanted in zip(found, sized(formula, q, k, v, cotangent), strict=True):
        close_gradient(one, wanted)


@pytest.mark.parametrize(
    ("dtype", "size", "scale", "deterministic"),
    [
        ("float16", 99840.0, 0.55, False),
        ("bfloat16", 798720.0, 0.55, True),
        *(
            pytest.param(*other, marks=pytest.mark.thorough)
            for other in (
                ("float16", 99840.0, 0.55, True),
                ("float16", 9984.0, 1.0, False),
                ("float16", 9984.0, 1.0, True),
                ("bfloat16", 798720.0, 0.55, False),
            )
        ),
    ],
)
def test_gradients_of_large_scores(dtype: str, size: float, scale: float, deterministic: bool) -> None:
    """Rows of one tile have large sums and small ones, and some attend to nothing."""
    check_large_scores(dtype, size, 130, scale, deterministic=deterministic)
    allowed = np.arange(300) <= np.arange(130)[:, None] - 20
    added = np.where(allowed, 0, -np.inf)
    check_large_scores(dtype, size, 130, scale, added, causal=True, offset=-20, deterministic=deterministic)


@pytest.mark.parametrize("deterministic", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_gradients_of_large_scores_by_a_function(deterministic: bool) -> None:
    added = np.arange(130)[:, None] % 3 * (np.arange(300) % 5 - 2.0)
    check_large_scores(
        "float16",
        99840.0,
        130,
        added=added,
        score=lambda s, b, h, i, j: s + (i % 3) * (j % 5 - 2),
        deterministic=deterministic,
    )


def test_rows_without_keys_have_finite_gradients() -> None:
    """Though the cotangent of their logarithm, -inf, is NaN."""
    arrays, _ = given("bfloat16", (1, 2, 130, 64), (1, 1, 300, 64), (1, 1, 300, 64))

    def call(*own: ck.Array) -> Any:
        return nn.attention(*own, causal=True, window=100, offset=-60, return_lse=True)

    (made, lse), pull = ck.vjp(call, *arrays)
    assert not np.isfinite(lse.numpy()[:, :, :60]).any()
    assert not made.numpy()[:, :, :60].any()
    of_lse = ck.where(ck.arange(130) < 60, ck.nan, ck.ones_like(lse))
    for one in pull((ck.ones_like(made), of_lse)):
        assert np.isfinite(one.numpy().astype(float)).all()


def test_scores_of_minus_infinity() -> None:
    """Of all keys of several tiles: the row counts as one that attends to nothing."""
    (q, k, v), exact = given("bfloat16", (1, 2, 100, 64), (1, 2, 300, 64), (1, 2, 300, 64))
    q[:, :, 7, 0], k[:, :, :, 0] = -ck.inf, 1
    exact[0][:, :, 7], exact[1][..., 0] = 0, 1
    made, lse = nn.attention(q, k, v, return_lse=True)
    wanted = sized(lambda *own: attended(*own, 0.125), *exact, rows=True)
    wanted.exact[:, :, 7] = 0
    close(made, wanted)
    assert np.isneginf(lse.numpy()[:, :, 7]).all()


@pytest.mark.parametrize("deterministic", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_a_key_without_weights_has_gradients_of_zero(deterministic: bool) -> None:
    """Though its scores are -inf, with zeros that fill up the last tile of queries too."""
    (q, k, v), _ = given("bfloat16", *[(1, 1, 130, 64)] * 3)
    q, k = abs(q), ck.where(ck.arange(130)[:, None] == 5, -ck.inf, k)
    made, pull = ck.vjp(lambda *own: nn.attention(*own, deterministic=deterministic), q, k.astype(q.dtype), v)
    _, dk, dv = (one.numpy().astype(float) for one in pull(ck.ones_like(made)))
    assert not dk[:, :, 5].any()
    assert not dv[:, :, 5].any()
    assert np.isfinite(dk).all()
    assert np.isfinite(dv).all()


def test_few_blocks_do_not_share_the_keys() -> None:
    """As those do that tensor maps do not feed, to which such launches are left."""
    for batch, keys, shared in ((1, 16384, True), (64, 16384, False), (1, 64, False)):
        q, k = (ck.zeros((batch, 16, n, 64), "bfloat16", device="host") for n in (64, keys))
        problem = problem_of(q, k, k)
        (other,) = TensorCores.configs(problem, STAND_IN)
        assert (other.parts > 1) == shared
        assert ("need not share their keys" in Warpgroups.fits(problem, STAND_IN)) == shared
        assert not KeysWarpgroups.fits(problem_of(q, k, k, gradients=(False, True, True)), STAND_IN)


def test_the_tile_of_few_features_and_queries_depends_on_the_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    tiles = []
    for queries in (1024, 1025):
        x = ck.zeros((4, 32, queries, 64), "bfloat16", device="host")
        for right in (None, 0):
            tiles += [one.tile_m for one in Warpgroups.configs(problem_of(x, x, x, right=right), STAND_IN)]
    assert tiles == [256, 128, 192, 192]


@pytest.mark.parametrize(
    ("keys", "deterministic"),
    [
        (203, False),
        (200, True),
        pytest.param(200, False, marks=pytest.mark.thorough),
        pytest.param(203, True, marks=pytest.mark.thorough),
    ],
)
def test_dropout_and_a_scale_below_zero(keys: int, deterministic: bool) -> None:
    """Each pass drops the same weights, and so do the kernels of float64; of 203 keys, a draw is of two rows."""
    shapes = [(2, 2, 130, 64), (2, 1, keys, 64), (2, 1, keys, 64)]
    arrays, exact = given("bfloat16", *shapes)

    def call(*own: ck.Array, **more: Any) -> Any:
        rng = ck.random.default_rng(3)
        return nn.attention(*own, dropout=0.25, scale=-0.125, rng=rng, deterministic=deterministic, **more)

    made, pull = ck.vjp(call, *arrays)
    for found, wanted in zip((made, *pull(made)), exact_gradients(call, exact, made), strict=True):
        close_gradient(found, wanted)


def test_the_sums_of_a_gradient_may_be_longer_than_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of narrow heads they have whole lines: their places need the wider index then, though no array does."""
    q = ck.zeros((1, 2, 70, 8), "bfloat16", device="host")
    problem = problem_of(q, q, q, gradients=(True, True, True))
    (one,) = Together.configs(problem, STAND_IN)
    sums, asked = 2 * 128 * 64, []
    for largest in (sums - 1, sums):
        monkeypatch.setattr(variants, "LARGEST_INDEX", largest + 2**20)
        asked.append(one.launch(problem, STAND_IN).constants["index"])
    assert asked == ["long long", "int"]


def test_the_work_of_the_busiest_block() -> None:
    """As the kernels' Turns give tiles to blocks."""
    work = np.array([3.0, 1, 4, 1, 5])
    for heads, section, rotation, blocks in ((7, 3, 1, 4), (4, 4, 0, 5), (9, 2, 3, 7), (8, 2, 2, 2)):
        load, turns = np.zeros(blocks), -(-section * work.size // blocks)
        for turn in range(turns * -(-heads // section)):
            number, own = divmod(turn, turns)
            width = min(section, heads - number * section)
            for block in range(blocks):
                at = (block + number * (blocks - rotation)) % blocks
                tile = own * blocks + (blocks - 1 - at if (own + number) % 2 else at)
                load[block] += work[tile // width] if tile < width * work.size else 0
        assert warpgroups._longest(heads, section, rotation, work, blocks) == load.max()


def test_sections_of_heads_that_blocks_begin_with_other_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five heads in sections of two, by three blocks that begin each section with another tile."""

    def order(
        head: Head, heads: int, sharing: int, length: int, work: np.ndarray, blocks: int
    ) -> dict[str, int]:
        return {"heads": heads, "section": 2, "turns": divide_up(2 * work.size, blocks), "rotation": 1}

    monkeypatch.setattr(warpgroups, "_order", order)
    shapes = ((1, 5, 300, 64),) * 3
    with only("warpgroups", blocks=3) as used:
        check("bfloat16", shapes, np.tri(300, dtype=bool), causal=True)
        check_both("bfloat16", shapes, causal=True)
    assert {one.blocks for one in (*used.forward, *used.gradients) if one.name == "warpgroups"} == {3}


def test_what_lies_beyond_the_keys_has_no_part(device: ck.Device) -> None:
    """Values beyond the last key are NaN, in an array of which keys and values are a part; rows are views too."""
    (x,), (exact,) = given("bfloat16", (1, 250, 2, 3 * 64))
    x[:, 100:] = ck.nan
    q, k, v = (ck.permute_dims(one, (0, 2, 1, 3)) for one in ck.split(x, 3, axis=-1))
    wanted = [one.swapaxes(1, 2)[:, :, :100] for one in np.split(exact, 3, axis=-1)]
    made = nn.attention(q[:, :, :100], k[:, :, :100], v[:, :, :100])
    close(made, sized(lambda *own: attended(*own, 0.125), *wanted))


@pytest.mark.parametrize("deterministic", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_numbers_of_keys(deterministic: bool) -> None:
    """What lies beyond them is NaN, and gets gradients of zero."""
    arrays, exact = given("bfloat16", (3, 2, 100, 64), (3, 1, 300, 64), (3, 1, 300, 64))
    counts = [150, 0, 256]
    for batch, n in enumerate(counts):
        for one in arrays[1:]:
            one[batch, :, n:] = ck.nan

    def call(*own: ck.Array, **more: Any) -> Any:
        options = {"key_lengths": ck.asarray(counts, device=own[0].device), "window": 200, **more}
        return nn.attention(*own, causal=True, offset="end", deterministic=deterministic, **options)

    made, pull = ck.vjp(call, *arrays)
    for found, wanted in zip((made, *pull(made)), exact_gradients(call, exact, made), strict=True):
        close_gradient(found, wanted)


def test_packed_sequences() -> None:
    """One of them is NaN, and so are rows of none; another one has no keys. Heads share keys."""
    (q, k, v), (a, b, c) = given("bfloat16", (4, 400, 64), (2, 420, 64), (2, 420, 64))
    starts_q, starts_k = np.array([2, 150, 260, 290, 395]), np.array([0, 160, 310, 310, 400])
    for one, starts in ((q, starts_q), (k, starts_k), (v, starts_k)):
        one[:, starts[1] : starts[2]] = ck.nan
        one[:, : starts[0]] = one[:, starts[-1] :] = ck.nan
    slope = np.array([0.5, -0.25, 1.0, 2.0])

    def call(*own: ck.Array, **options: Any) -> Any:
        x = ck.asarray(slope, dtype="float32", device=own[0].device).reshape(4, 1, 1)
        return nn.attention(
            *own, causal=True, score=lambda s, b, h, i, j, x: s + x * (j - i), arrays=[x], **options
        )

    starts = tuple(ck.asarray(one) for one in (starts_q, starts_k))
    made, pull = ck.vjp(lambda *own: call(*own, starts=starts), q, k, v)
    found = [made, *pull(ck.ones_like(made) * ck.arange(64, dtype=made.dtype) / 8)]
    for i in (0, 2, 3):
        rows, keys = (slice(*one[i : i + 2]) for one in (starts_q, starts_k))
        one = [ck.asarray(x[:, part]) for x, part in ((a, rows), (b, keys), (c, keys))]
        if i == 2:
            assert not any(x[:, rows].numpy().any() for x in found[:2])
            continue
        exact = exact_gradients(call, one, ck.arange(64, dtype="float64") / 8)
        for x, y, part in zip(found, exact, (rows, rows, keys, keys), strict=True):
            close_gradient(x[:, part], y)


def test_copies_and_products_at_any_time() -> None:
    i, j = np.arange(260)[:, None], np.arange(260)
    shapes = [(1, 2, 260, 64)] * 3
    with ck.device("host"):
        for when, seed in (("at_once", 0), ("random", 1), ("random", 2), ("late", 0)):
            with asynchrony(when, seed):
                check("bfloat16", shapes, j <= i, causal=True)


_THERE = "barrier_sync(meeting(there, 1 - group, number), 256);"


@pytest.mark.parametrize(
    ("kind", "right"),
    [
        ("forward", "    wgmma_wait<1>(sums);\n"),
        pytest.param("backward", "        wgmma_wait<0>(s);\n", marks=pytest.mark.thorough),
        pytest.param("backward", f"        {_THERE}\n", marks=pytest.mark.thorough),
        pytest.param("backward_queries", "    wgmma_wait<0>(s);\n", marks=pytest.mark.thorough),
    ],
)
def test_the_waits_are_needed(monkeypatch: pytest.MonkeyPatch, kind: str, right: str) -> None:
    """Without one of them the host shows wrong numbers, or a fault."""
    file = "backward_keys" if kind == "backward" else kind
    text = (Path(TEMPLATES) / "nn" / "attention" / f"{file}_tma.cu").read_text()
    assert text.count(right) == 1
    kernel = ck.Kernel(text.replace(right, ""), name=f"attention_{kind}")
    variant = {"forward": Warpgroups, "backward": Together, "backward_queries": QueriesWarpgroups}[kind]
    monkeypatch.setattr(variant, "kernel", kernel)
    shapes = [(1, 1, 200, 64), (1, 1, 600, 64), (1, 1, 600, 64)]
    with ck.device("host"), asynchrony("late"), pytest.raises((AssertionError, ck.KernelFault)):
        check_both("bfloat16", shapes, deterministic=kind == "backward_queries")
