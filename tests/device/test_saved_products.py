"""Launches that save the product beside what they make of it, for a derivative, on both devices, against float64."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from product_support import make_plan
from test_tensor_cores import GROUPED, LARGE, SMALL, bias_and_relu, needs, random

import cukern as ck
from cukern.linear.tma import TF32_TMA_TILES, TMA_TILES, Tma
from cukern.linear.variants import OneLaunch, Simt, TensorCores
from cukern.testing import assert_close, asynchrony

TALL, SQUARE, FLOATS = (
    replace(tile, blocks=2, cluster=1) for tile in (TMA_TILES[1], TMA_TILES[2], TF32_TMA_TILES[1])
)


def check(a: ck.Array, b: ck.Array, bias: ck.Array, form: OneLaunch, digits: float) -> None:
    """Both results against NumPy's; ``digits`` is the relative error of the factors."""
    left, right, *others = (one._planned() for one in (a, b, bias))
    plan = make_plan(bias_and_relu(a.dtype), left, right, others, form, saves=True)
    assert plan is not None
    product, made = plan.run_all((a, b, bias), ())
    x, y, z = (one.numpy().astype(float) for one in (a, b, bias))
    unit, size = float(ck.finfo(a.dtype).eps), np.abs(x) @ np.abs(y)
    for got, exact in ((product, x @ y), (made, np.maximum(x @ y + z, 0))):
        assert got.shape == exact.shape
        assert_close(got, exact, rtol=unit, atol=digits * size)


@pytest.mark.parametrize(
    "tile", [SMALL, LARGE, GROUPED, TALL, SQUARE], ids=["mma", "large mma", "wgmma", "tall tma", "square tma"]
)
def test_forms(device: ck.Device, tile: TensorCores | Tma) -> None:
    """No tile divides the sizes, and each block of a tile that the hardware brings makes several."""
    if isinstance(tile, TensorCores):
        needs(device, tile)
    elif device.kind == "cuda" and device.properties.compute_capability[0] != 9:
        pytest.skip("no GPU of compute capability 9.0")
    a, b = random(device, "bfloat16", 264, 136), random(device, "bfloat16", 136, 264, swapped=True)
    check(a, b, random(device, "bfloat16", 264), tile, 2e-6)


@pytest.mark.parametrize("tile", [TALL, SQUARE], ids=["tall", "square"])
def test_copies_and_products_at_any_time(tile: Tma) -> None:
    host = ck.Device("host")
    a, b = random(host, "bfloat16", 264, 216), random(host, "bfloat16", 216, 392, swapped=True)
    for when, seed in (("at_once", 0), ("random", 1), ("late", 2)):
        with asynchrony(when, seed):
            check(a, b, random(host, "bfloat16", 264, 1), replace(tile, blocks=1), 2e-6)


@pytest.mark.parametrize("tile", [SMALL, SQUARE], ids=["mma", "tma"])
def test_batches(device: ck.Device, tile: TensorCores | Tma) -> None:
    if tile is SQUARE and device.kind == "cuda" and device.properties.compute_capability[0] != 9:
        pytest.skip("no GPU of compute capability 9.0")
    a, b = random(device, "float16", 3, 40, 24), random(device, "float16", 3, 24, 72)
    check(a, b, random(device, "float16", 3, 40, 1), tile, 2e-6)


@pytest.mark.parametrize("sizes", [(1, 8, 1), (70, 40, 73)], ids=str)
def test_rows_of_any_address(device: ck.Device, sizes: tuple[int, int, int]) -> None:
    m, k, n = sizes
    b = random(device, "bfloat16", k, n, swapped=True)
    check(random(device, "bfloat16", m, k), b, random(device, "bfloat16", n), SMALL, 2e-6)


@pytest.mark.parametrize(("tile", "digits"), [(Simt(64, 16), 2e-6), (FLOATS, 2**-9)], ids=["simt", "tma"])
def test_floats(device: ck.Device, tile: OneLaunch, digits: float) -> None:
    """The second with the digits of tf32."""
    if tile is FLOATS and device.kind == "cuda" and device.properties.compute_capability[0] != 9:
        pytest.skip("no GPU of compute capability 9.0")
    a, b = random(device, "float32", 140, 84), random(device, "float32", 84, 132, swapped=True)
    check(a, b, random(device, "float32", 132), tile, digits)
