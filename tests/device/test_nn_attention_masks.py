"""Attention leaves out what a mask empties, in each form of its kernels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from nn_support import Sized, close, sized
from test_nn_attention_kernels import (
    attended,
    check_gradients,
    close_gradient,
    exact_gradients,
    given,
    only,
)

import cukern as ck
from cukern import nn
from cukern.nn.attention import masks
from cukern.nn.attention.masks import Blocks, Walk, mask_blocks, tile_lists
from cukern.nn.attention.warpgroups import Warpgroups
from cukern.testing import gradcheck

FORMS = {"portable": "float32", "tensor cores": "bfloat16", "warpgroups": "bfloat16"}


@pytest.fixture(autouse=True)
def all_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masks, "FEWEST", 0)
    monkeypatch.setattr(Warpgroups, "most_of_short", 0)


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest, device: ck.Device) -> Iterator[tuple[str, str]]:
    """The variant whose kernels alone are used, and the dtype of what they compute."""
    with only(request.param):
        yield request.param, FORMS[request.param]


def documents(*lengths: int) -> np.ndarray:
    """Which position attends to which, where documents lie behind one another."""
    of = np.repeat(np.arange(len(lengths)), lengths)
    return of[:, None] == of


def test_values_and_gradients(device: ck.Device, form: tuple[str, str]) -> None:
    """Of masks for each head that shares keys with another; with rows of none, beside a window and numbers of keys."""
    _, dtype = form
    rng = np.random.default_rng(0)
    arrays, _ = given(dtype, (2, 4, 270, 32), (2, 2, 390, 32), (2, 2, 390, 32))
    apart = np.zeros((4, 270, 390), bool)
    for h in range(4):
        apart[h, :200, :390] = documents(20 * h + 10, 230, 150 - 20 * h)[:200]
    lengths = np.array([390, 201])
    i, j = np.arange(270)[:, None], np.arange(390)
    near = (j <= i + 40) & (j >= i - 200) & (j < lengths[:, None, None, None])
    few = rng.random((2, 1, 1, 390)) < 0.5
    few[:, :, :, 130:260] = False
    for mask, allowed, options in (
        (apart, near, {"window": (200, 40), "key_lengths": ck.asarray(lengths)}),
        (few, True, {}),
        (np.asfortranarray(apart[:1]), True, {"deterministic": True}),
    ):

        def call(*own: ck.Array, m: Any = mask, o: Any = options, **more: Any) -> Any:
            return nn.attention(*own, mask=ck.asarray(m), **o, **more)

        shown = mask & allowed

        def composed(*own: ck.Array, m: Any = shown) -> ck.Array:
            k, v = (ck.repeat(one, 2, axis=1) for one in own[1:])
            return nn.scaled_dot_product_attention(
                own[0], k, v, ck.asarray(np.broadcast_to(m, (2, 4, 270, 390)))
            )

        check_gradients(call, arrays, ck.arange(32, dtype=dtype) / 8 - 1, composed)


def test_a_mask_beside_other_changes(
    device: ck.Device, monkeypatch: pytest.MonkeyPatch, form: tuple[str, str]
) -> None:
    """A function of the score with a table, a bias and dropout, against kernels that make all tiles."""
    _, dtype = form
    rng = np.random.default_rng(0)
    arrays, _ = given(dtype, *[(2, 2, 300, 32)] * 3)
    bias, table = (ck.asarray(rng.normal(size=shape).astype("float32")) for shape in ((300,), (2, 599)))
    mask = ck.asarray(documents(90, 150, 60) & (np.arange(300) % 50 < 45)[:, None])

    def call(*own: ck.Array, **more: Any) -> Any:
        return nn.attention(
            *own,
            **more,
            causal=True,
            score=lambda s, b, h, i, j, table: 2 * ck.tanh(s) + table[h, j - i + 299],
            tables=[table],
            bias=bias,
            mask=mask,
            dropout=0.25,
            rng=ck.random.default_rng(3),
        )

    made, pull = ck.vjp(call, *arrays)
    cotangent = ck.ones_like(made) * ck.arange(32, dtype=dtype) / 8 - 1
    found = [made, *pull(cotangent)]
    monkeypatch.setattr(masks, "FEWEST", 2**62)
    for one, wanted in zip(found, exact_gradients(call, arrays, cotangent), strict=True):
        close_gradient(one, wanted)


@pytest.mark.parametrize("deterministic", [False, True])
def test_emptied_tiles_are_not_read(device: ck.Device, form: tuple[str, str], deterministic: bool) -> None:
    """What is NaN in one document reaches nothing of the other."""
    variant, dtype = form
    length = 384 if variant == "warpgroups" else 64  # of whole tiles
    arrays, _ = given(dtype, *[(1, 1, 2 * length, 32)] * 3)
    mask = ck.asarray(documents(length, length))

    def both(*own: ck.Array) -> list[np.ndarray]:
        made, pull = ck.vjp(lambda *x: nn.attention(*x, mask=mask, deterministic=deterministic), *own)
        return [one[:, :, :length].numpy().astype(float) for one in (made, *pull(ck.ones_like(made)))]

    wanted = both(*arrays)
    for one in arrays:
        one[:, :, length:] = np.nan
    for found, one in zip(both(*arrays), wanted, strict=True):
        np.testing.assert_array_equal(found, one)


@pytest.mark.parametrize("axes", [(), (0,), (0, 1, 2), (0, 1, 3)])
def test_gradients_of_arrays_skip_emptied_tiles(device: ck.Device, axes: tuple[int, ...]) -> None:
    """What is NaN in one document reaches no sum of the other, whichever axes it is over; heads share keys."""
    arrays, exact = given("float32", (2, 4, 200, 8), (2, 2, 200, 8), (2, 2, 200, 8))
    shape = tuple(1 if axis in axes else n for axis, n in enumerate((2, 4, 200, 200)))
    bias = np.random.default_rng(0).normal(size=shape)
    apart = np.stack([documents(128, 72)] * 3 + [documents(32, 96, 72)])
    apart[0, 5, :90] = False
    mask = ck.asarray(apart)

    def gradient(dtype: str, bias: np.ndarray, *own: ck.Array) -> np.ndarray:
        made, pull = ck.vjp(
            lambda one: nn.attention(*own, bias=one, mask=mask), ck.asarray(bias, dtype=dtype)
        )
        within = ck.where(ck.arange(200)[:, None] < 128, ck.arange(8, dtype=dtype) - 2, 0)
        return pull(ck.broadcast_to(within, made.shape))[0].numpy()

    terms = gradient("float64", np.broadcast_to(bias, (2, 4, 200, 200)).copy(), *map(ck.asarray, exact))
    # Terms of a row are differences of numbers that have about one size.
    squares = np.broadcast_to((terms**2).mean(-1, keepdims=True), terms.shape)
    wanted = Sized(terms.sum(axes, keepdims=True), np.sqrt(squares.sum(axes, keepdims=True)))
    for one in arrays:
        one[:, :, 128:] = np.nan
    near = tuple(slice(128 if axis > 1 else n) for axis, n in enumerate(shape))
    found = ck.asarray(gradient("float32", bias, *arrays)[near])
    close(found, Sized(wanted.exact[near], wanted.size[near]), 32)


@pytest.mark.parametrize(("variant", "dtype"), [("portable", "float32"), ("tensor cores", "bfloat16")])
def test_parts_of_keys_share_what_the_mask_leaves(device: ck.Device, variant: str, dtype: str) -> None:
    """Of few queries, where one batch has one tile of keys, and one has none."""
    arrays, exact = given(dtype, (3, 4, 2, 16), (3, 2, 400, 16), (3, 2, 400, 16))
    mask = np.random.default_rng(0).random((3, 1, 1, 400)) < 0.5
    mask[0, :, :, 100:180] = mask[1, :, :, 16:] = mask[2] = False
    with only(variant, parts=5):
        made = nn.attention(*arrays, mask=ck.asarray(mask))
        close(made, sized(lambda *own: attended(*own, 0.25, mask), *exact))
        arrays[2][1, :, 64:] = np.nan
        again = nn.attention(*arrays, mask=ck.asarray(mask))
    np.testing.assert_array_equal(again[1:].numpy(), made[1:].numpy())


def test_derivatives(device: ck.Device) -> None:
    """By finite differences, of an added array too and beside a function of the score."""
    rng = np.random.default_rng(0)
    q, k, v, bias = (
        ck.asarray(rng.normal(size=shape)) for shape in ((2, 40, 3), (1, 70, 3), (1, 70, 3), (40, 70))
    )
    mask = ck.asarray(documents(35, 35)[:40])
    assert gradcheck(
        lambda q, k, v, bias: nn.attention(
            q, k, v, bias=bias, mask=mask, score=lambda s, b, h, i, j: s - 0.1 * abs(i - j)
        ),
        [q, k, v, bias],
    )


def kinds(mask: np.ndarray, walk: Walk) -> np.ndarray:
    """Of each tile: 0 where the mask leaves nothing, 2 where it is true throughout."""
    *lead, queries, keys = mask.shape
    size = walk.rows // walk.group
    found = np.empty((lead[0], walk.heads, -(-queries // size), -(-keys // walk.keys)), int)
    for *which, m, n in np.ndindex(*found.shape):
        heads = slice(which[1] * walk.sharing, (which[1] + 1) * walk.sharing)
        tile = mask[which[0], heads, m * size : (m + 1) * size, n * walk.keys : (n + 1) * walk.keys]
        found[*which, m, n] = int(tile.any()) + int(tile.all())
    return found


def lists_of(blocks: Blocks, walk: Walk) -> np.ndarray:
    made: ck.Array = tile_lists(blocks.kinds._planned(), walk)(blocks.kinds)
    return made.numpy()


@pytest.mark.parametrize("transposed", [False, True])
def test_lists_of_tiles(device: ck.Device, transposed: bool) -> None:
    rng = np.random.default_rng(0)
    mask = np.kron(rng.integers(0, 2, (2, 4, 7, 6)), np.ones((1, 1, 32, 32))).astype(bool)
    mask[rng.random(mask.shape) < 2e-4] ^= True
    given = ck.asarray(mask.swapaxes(2, 3)).swapaxes(2, 3) if transposed else ck.asarray(mask)
    for walk in (
        Walk(32, 32, False, 4, 1, 1, 224, 192),
        Walk(64, 16, False, 2, 2, 2, 224, 192),
        Walk(96, 80, True, 2, 2, 1, 224, 192),
    ):
        wanted = kinds(mask, walk)
        wanted = wanted.swapaxes(-1, -2) if walk.of_keys else wanted
        lists = lists_of(mask_blocks(given), walk)
        assert lists.shape == (*wanted.shape[:3], wanted.shape[3] + 1)
        for which in np.ndindex(*wanted.shape[:3]):
            count, *entries = lists[which].tolist()
            assert entries[:count] == [2 * n + kind - 1 for n, kind in enumerate(wanted[which]) if kind]
            assert not any(entries[count:])


def test_lists_of_masks_that_are_broadcast(device: ck.Device) -> None:
    keys = np.zeros((3, 1, 1, 200), bool)
    keys[0, 0, 0, :32] = keys[2, 0, 0, 100] = True
    walk = Walk(64, 64, False, 2, 1, 1, 100, 200)
    lists = lists_of(mask_blocks(ck.asarray(keys)), walk)
    assert lists[:, :, :, 0].tolist() == [[[1, 1]], [[0, 0]], [[1, 1]]]
    assert lists[[0, 2], :, :, 1].tolist() == [[[0, 0]], [[2, 2]]]
    rows = ck.broadcast_to(ck.asarray(np.arange(100)[:, None] < 64), (3, 2, 100, 200))
    blocks = mask_blocks(rows)
    assert blocks.kinds.shape == (1, 1, 7, 1)
    lists = lists_of(blocks, walk)
    assert lists[0, 0, 0].tolist() == [4, 1, 3, 5, 7]
    assert lists[0, 0, 1, 0] == 0
