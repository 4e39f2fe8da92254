"""Products of many rows with quantised weights that warpgroups dequantise in registers, against dense weights."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from blocks import BLOCKS, random_blocks

import cukern as ck
from cukern.quant import warpgroups
from cukern.quant.kinds import KINDS
from cukern.quant.warpgroups import Tile
from cukern.testing import asynchrony

#: Kinds that have all ways in which blocks are decoded between them.
_USUAL = ("Q5_1", "Q4_K", "Q6_K")


def check(
    kind: str, sizes: tuple[int, int, int], tile: Tile, dtype: str = "bfloat16", biased: bool = False
) -> None:
    rows, outputs, inputs = sizes
    w = ck.quant.from_blocks(random_blocks(kind, outputs, inputs), (outputs, inputs), kind)
    rng = np.random.default_rng(rows)
    x = ck.asarray(rng.normal(size=(rows, inputs)), dtype=dtype)
    bias = ck.asarray(rng.normal(size=outputs), dtype=dtype) if biased else None
    if x.device.kind == "cuda" and x.device.properties.compute_capability[0] != 9:
        pytest.skip("has no warpgroups")
    assert warpgroups.takes(x, w)
    found = warpgroups.product(x, w, bias, tile).astype("float64").numpy()
    want = x.astype("float64").numpy() @ w.dequantize(dtype).astype("float64").numpy().T
    if bias is not None:
        want += bias.astype("float64").numpy()
    unit = 2**-8 if dtype == "bfloat16" else 2**-11
    np.testing.assert_allclose(found, want, rtol=unit, atol=1e-5 * np.abs(want).max())


@pytest.mark.parametrize(
    "kind", [one if one in _USUAL else pytest.param(one, marks=pytest.mark.thorough) for one in BLOCKS]
)
def test_every_kind(device: ck.Device, kind: str) -> None:
    """Blocks that begin at any multiple of their alignment; the last rows and outputs are cut."""
    inputs = next(n for n in (512, 1024, 2048) if KINDS[kind].row_bytes(n) % 16 == 0)
    check(kind, (70, 136, inputs), Tile(64, 2, 1), biased=kind == "Q5_1")


@pytest.mark.parametrize(
    ("kind", "sizes", "tile", "dtype"),
    [
        ("Q4_K", (70, 136, 1280), Tile(64, 3, 4), "float16"),
        pytest.param("Q8_0", (300, 264, 512), Tile(256, 3, 2), "bfloat16", marks=pytest.mark.thorough),
        pytest.param("Q4_0", (200, 520, 768), Tile(128, 2), "bfloat16", marks=pytest.mark.thorough),
    ],
    ids=str,
)
def test_blocks_share_tiles_or_take_turns(
    device: ck.Device, kind: str, sizes: Any, tile: Tile, dtype: str
) -> None:
    """Clusters whose blocks share the inputs, unevenly, and blocks that make several tiles; rings go round."""
    check(kind, sizes, tile, dtype)


def test_copies_that_come_at_any_time() -> None:
    with ck.device("host"):
        for seed, shares in enumerate((1, 2)):
            with asynchrony("random", seed):
                check("Q4_0", (70, 264, 768), Tile(64, 2, shares))


def test_what_is_taken(device: ck.Device) -> None:
    """Whole blocks of 256 weights, rows that begin at multiples of 16 bytes, outputs of which 16 bytes are stored."""

    def takes(kind: str, outputs: int, inputs: int, dtype: str = "float16") -> bool:
        blocks = ck.zeros((outputs, KINDS[kind].row_bytes(inputs)), "uint8")
        return warpgroups.takes(
            ck.zeros((9, inputs), dtype), ck.quant.from_blocks(blocks, (outputs, inputs), kind)
        )

    assert takes("Q4_0", 8, 256) and takes("Q6_K", 8, 2048)
    assert not (takes("Q4_0", 9, 256) or takes("Q4_0", 8, 128) or takes("Q6_K", 8, 256))
    assert not (takes("Q4_0", 8, 256, "float32") or takes("Q4_0", 0, 256) or takes("BF16", 8, 256))


def test_tiles_that_are_chosen() -> None:
    """Rows fill a tile; few tiles are shared by two blocks each, or four if so many clusters of four are found."""
    gpu: Any = SimpleNamespace(properties=SimpleNamespace(multiprocessors=132))

    def chosen(rows: int, outputs: int, inputs: int) -> tuple[int, int]:
        tile = warpgroups.tile_for(rows, outputs, inputs, gpu)
        return tile.n, tile.shares

    assert [chosen(rows, 14336, 4096) for rows in (16, 128, 256, 512)] == [
        (64, 1),
        (128, 1),
        (256, 1),
        (256, 1),
    ]
    assert [chosen(rows, 4096, 14336) for rows in (16, 128, 256, 512)] == [
        (64, 2),
        (64, 2),
        (128, 2),
        (256, 2),
    ]
    assert chosen(16, 1024, 4096) == (64, 4) and chosen(16, 1024, 256) == (64, 1)
    assert warpgroups.Tile(256, 4).grid(512, 14336, 132) == 132
    assert warpgroups.Tile(256, 4, 2).grid(512, 4096, 132) == 128
