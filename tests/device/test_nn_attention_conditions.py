"""What a score's function makes -inf is left out as what a mask empties, in each form of attention's kernels."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from nn_support import close
from test_nn_attention_kernels import check_gradients, given
from test_nn_attention_masks import form

import cukern as ck
from cukern import dtypes, nn
from cukern.nn.attention import masks
from cukern.nn.attention.conditions import condition_blocks, condition_of
from cukern.nn.attention.problem import Call, Options
from cukern.nn.attention.scores import traced
from cukern.nn.attention.warpgroups import Warpgroups

__all__ = ["form"]


@pytest.fixture(autouse=True)
def all_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masks, "FEWEST", 0)
    monkeypatch.setattr(Warpgroups, "most_of_short", 0)


def alike(s: Any, b: Any, h: Any, i: Any, j: Any, of: Any) -> Any:
    """Attention within documents."""
    return ck.where(of[i] == of[j], s, -math.inf)


def test_values_and_gradients(device: ck.Device, form: tuple[str, str]) -> None:
    """Of conditions of the batch, of arrays and of two places, beside other changes of the score, as with a mask."""
    _, dtype = form
    rng = np.random.default_rng(0)
    arrays, _ = given(dtype, (2, 4, 270, 32), (2, 2, 390, 32), (2, 2, 390, 32))
    of = np.sort(rng.integers(0, 3, (2, 390)), axis=-1)
    of[1, 70:200] = 7
    i, j = np.arange(270)[:, None], np.arange(390)
    same = of[:, None, :270, None] == of[:, None, None]
    by_batch = ck.asarray(of, dtype="int32")
    rows, columns = (ck.asarray(one, dtype="int16") for one in (of[:1, :270, None], of[:1]))

    def of_batch(s: Any, b: Any, h: Any, i: Any, j: Any, of: Any) -> Any:
        return ck.where(of[b, i] != of[b, j], -math.inf, s / 2 + 0.01 * of[1, i] * h)

    def of_arrays(s: Any, b: Any, h: Any, i: Any, j: Any, x: Any, y: Any) -> Any:
        return ck.where(x == y, ck.where(abs(i - j) < 90, 3 * ck.tanh(s), -math.inf), -math.inf)

    for score, options, mask, inner in (
        (of_batch, {"tables": [by_batch]}, same, lambda s, b, h, i, j, of: s / 2 + 0.01 * of[1, i] * h),
        (
            of_arrays,
            {"arrays": [rows, columns], "window": (200, 40)},
            same[0] & (abs(i - j) < 90),
            lambda s, *rest: 3 * ck.tanh(s),
        ),
    ):

        def call(*own: ck.Array, f: Any = score, o: Any = options, **more: Any) -> Any:
            return nn.attention(*own, score=f, **o, **more)

        def masked(*own: ck.Array, f: Any = inner, m: Any = mask, o: Any = options) -> ck.Array:
            return nn.attention(*own, score=f, mask=ck.asarray(m), **o)

        check_gradients(call, arrays, ck.arange(32, dtype=dtype) / 8 - 1, masked)


def test_emptied_tiles_are_not_read(device: ck.Device, form: tuple[str, str]) -> None:
    """What is NaN in one document reaches nothing of the other."""
    variant, dtype = form
    length = 384 if variant == "warpgroups" else 64  # of whole tiles
    arrays, _ = given(dtype, *[(1, 1, 2 * length, 32)] * 3)
    of = ck.arange(2 * length, dtype="int32") // length

    def both(*own: ck.Array) -> list[np.ndarray]:
        made, pull = ck.vjp(lambda *x: nn.attention(*x, score=alike, tables=[of]), *own)
        return [one[:, :, :length].numpy().astype(float) for one in (made, *pull(ck.ones_like(made)))]

    wanted = both(*arrays)
    for one in arrays:
        one[:, :, length:] = np.nan
    for found, one in zip(both(*arrays), wanted, strict=True):
        np.testing.assert_array_equal(found, one)


@pytest.mark.parametrize("lengths", [(40, 64), (33, 50), (1, 70)])
@pytest.mark.parametrize("bits", [False, True])
def test_blocks_and_bits_are_those_of_a_mask(device: ck.Device, lengths: tuple[int, int], bits: bool) -> None:
    dtype = "float16" if bits else "float32"
    q, k = (ck.zeros((1, 1, n, 8), dtype) for n in lengths)
    of = np.random.default_rng(0).integers(0, 3, 80) // 2
    table = ck.asarray(of, dtype="int32")
    program, lookups = traced(alike, [], (False, False), dtypes.float32, [table])
    assert program is not None
    condition = condition_of(program, lookups, (1, 1, *lengths), [])
    options = Options(1.0, program=program, lookups=lookups, condition=condition)
    found = condition_blocks(Call(q, k, k, options, (), (table,)), bits)
    wanted = masks.mask_blocks(ck.asarray(of[: lengths[0], None] == of[: lengths[1]]), bits)
    np.testing.assert_array_equal(found.kinds.numpy(), wanted.kinds.numpy())
    if bits:
        assert found.bits is not None
        assert wanted.bits is not None
        np.testing.assert_array_equal(found.bits.numpy(), wanted.bits.numpy())


@pytest.mark.parametrize(
    ("score", "parts"),
    [
        (lambda s, b, h, i, j, x, of: ck.where(of[i] == of[j], s, -math.inf), 1),
        (lambda s, b, h, i, j, x, of: ck.where(of[i] == of[j], s / 2, -math.inf), 2),
        (lambda s, b, h, i, j, x, of: ck.where(j > i, -math.inf, ck.where(x > 0, s, -math.inf)), 1),
        (lambda s, b, h, i, j, x, of: ck.where(j > i + h, s, -math.inf), 0),
        (lambda s, b, h, i, j, x, of: ck.where(s > 0, s, -math.inf), 0),
        (lambda s, b, h, i, j, x, of: ck.where(j > i, ck.where(s > 0, s, -math.inf), -math.inf), 2),
        (lambda s, b, h, i, j, x, of: ck.where(of[b] > 0, s, -math.inf), 0),
        (lambda s, b, h, i, j, x, of: ck.where(j > i, s, -1e9), 0),
        (lambda s, b, h, i, j, x, of: s + ck.where(j > i, 0, -math.inf), 0),
    ],
)
def test_which_scores_have_a_condition(score: Callable[..., Any], parts: int) -> None:
    """None, one that leaves the score as it is, or one beside another function of it."""
    x, of = ck.zeros((300,)), ck.zeros((300,), "int32")
    program, lookups = traced(score, [dtypes.float32], (False, False), dtypes.float32, [of])
    assert program is not None
    found = condition_of(program, lookups, (2, 4, 300, 300), [x])
    assert (0 if found is None else 1 if found.score is None else 2) == parts


def test_so_many_scores_that_bits_would_fill_the_memory_have_no_condition() -> None:
    program, lookups = traced(alike, [], (False, False), dtypes.float32, [ck.zeros((9,), "int32")])
    assert program is not None
    assert condition_of(program, lookups, (2, 4, 2**16, 2**16), []) is not None
    assert condition_of(program, lookups, (2, 4, 2**16, 2**16 + 1), []) is None


@pytest.mark.parametrize("table", [False, True])
def test_a_condition_of_the_head_of_one_head(device: ck.Device, table: bool) -> None:
    q = ck.asarray(np.random.default_rng(0).normal(size=(1, 1, 256, 8)), dtype="float32")
    ahead = ck.asarray([2], dtype="int32")

    def score(s: ck.Array, b: ck.Array, h: ck.Array, i: ck.Array, j: ck.Array, t: ck.Array) -> ck.Array:
        return ck.where(i + (t[h] if table else h + 2) >= j, s, -np.inf)

    found = nn.attention(q, q, q, score=score, tables=[ahead])
    places = np.arange(256)
    mask = ck.asarray(places[:, None] + 2 >= places)
    close(found, nn.attention(q, q, q, mask=mask).numpy())
