"""Products of many rows with quantised weights that warpgroups dequantise in registers, against dense weights."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from blocks import BLOCKS, random_blocks

import cukern as ck
from cukern.array.layout import fresh_layout
from cukern.launch.family import STAND_IN
from cukern.quant.families import QUANTISED
from cukern.quant.kinds import KINDS
from cukern.quant.problem import Quantised
from cukern.quant.variants import Warpgroups
from cukern.testing import asynchrony

#: Kinds that have all ways in which blocks are decoded between them.
_USUAL = ("Q5_1", "Q4_K", "Q6_K")


def check(
    kind: str, sizes: tuple[int, int, int], tile: Warpgroups, dtype: str = "bfloat16", biased: bool = False
) -> None:
    rows, outputs, inputs = sizes
    w = ck.quant.from_blocks(random_blocks(kind, outputs, inputs), (outputs, inputs), kind)
    rng = np.random.default_rng(rows)
    x = ck.asarray(rng.normal(size=(rows, inputs)), dtype=dtype)
    bias = ck.asarray(rng.normal(size=outputs), dtype=dtype) if biased else None
    if x.device.kind == "cuda" and x.device.properties.compute_capability[0] != 9:
        pytest.skip("has no warpgroups")
    with QUANTISED.only("warpgroups", **dataclasses.asdict(tile)) as used:
        found = ck.quant.linear(x, w, bias).astype("float64").numpy()
    assert used == [tile]
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
    check(kind, (70, 136, inputs), Warpgroups(64, 2, 1), biased=kind == "Q5_1")


@pytest.mark.parametrize(
    ("kind", "sizes", "tile", "dtype"),
    [
        ("Q4_K", (70, 136, 1280), Warpgroups(64, 3, 4), "float16"),
        pytest.param("Q8_0", (300, 264, 512), Warpgroups(256, 3, 2), "bfloat16", marks=pytest.mark.thorough),
        pytest.param("Q4_0", (200, 520, 768), Warpgroups(128, 2), "bfloat16", marks=pytest.mark.thorough),
    ],
    ids=str,
)
def test_blocks_share_tiles_or_take_turns(
    device: ck.Device, kind: str, sizes: Any, tile: Warpgroups, dtype: str
) -> None:
    """Clusters whose blocks share the inputs, unevenly, and blocks that make several tiles; rings go round."""
    check(kind, sizes, tile, dtype)


def test_copies_that_come_at_any_time() -> None:
    with ck.device("host"):
        for seed, shares in enumerate((1, 2)):
            with asynchrony("random", seed):
                check("Q4_0", (70, 264, 768), Warpgroups(64, 2, shares))


def problem(kind: str, rows: int, outputs: int, inputs: int, dtype: str = "float16") -> Quantised:
    x = fresh_layout(ck.Device("host"), ck.dtypes.as_dtype(dtype), (rows, inputs))
    return Quantised(x, KINDS[kind], (outputs, inputs))


def test_what_is_taken() -> None:
    """Whole blocks of 256 weights, rows that begin at multiples of 16 bytes, outputs of which 16 bytes are stored."""

    def why(kind: str, outputs: int, inputs: int, dtype: str = "float16", rows: int = 9) -> str:
        return Warpgroups.fits(problem(kind, rows, outputs, inputs, dtype), STAND_IN)

    assert why("Q4_0", 8, 256) == why("Q6_K", 8, 2048) == why("Q4_0", 8, 256, rows=768) == ""
    for sizes in (("Q4_0", 9, 256), ("Q4_0", 8, 128)):
        assert why(*sizes) == "for multiples of 256 inputs and of 8 outputs"
    assert why("Q6_K", 8, 256) == "rows of blocks do not begin at multiples of 16 bytes"
    assert why("Q4_0", 8, 256, "float32") == "for 16-bit floats"
    assert why("Q4_0", 0, 256) == "for products with elements"
    assert why("BF16", 8, 256) == "for weights in blocks"
    assert why("Q4_0", 8, 256, rows=8) == "few rows are rounded to 8 bits"
    assert "for at most 768 rows" in why("Q4_0", 8, 256, rows=769)


def test_tiles_that_are_chosen() -> None:
    """Rows fill a tile; few tiles are shared by two blocks each, or four if so many clusters of four are found."""

    def chosen(rows: int, outputs: int, inputs: int) -> tuple[int, int]:
        given = problem("Q4_0", rows, outputs, inputs)
        every = Warpgroups.configs(given, STAND_IN)
        tile = min(every, key=lambda one: one.cost(given, STAND_IN))
        return tile.tile_n, tile.shares

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
    for tile, outputs in ((Warpgroups(256, 4), 14336), (Warpgroups(256, 4, 2), 4096)):
        blocks = tile.launch(problem("Q4_0", 512, outputs, 4096), STAND_IN).grid[0]
        assert blocks == (132 if tile.shares == 1 else 128)
