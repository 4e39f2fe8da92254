"""Products whose depth several blocks share, on both devices, against NumPy in float64."""

from __future__ import annotations

import pytest
from test_few_rows import gpu
from test_tensor_cores import GROUPED, SMALL, check, needs, random

import cukern as ck
from cukern.linear import epilogue, few_rows, measured, tensor_cores
from cukern.linear.few_rows import FewRows
from cukern.linear.task import Factor, Task


@pytest.mark.parametrize("tile", [SMALL, GROUPED], ids=["mma", "wgmma"])
@pytest.mark.parametrize("swapped", [False, True])
def test_tiles(device: ck.Device, tile: tensor_cores.Tile, swapped: bool) -> None:
    """The last part is shorter, and ends within a slab."""
    needs(device, tile)
    a = random(device, "bfloat16", 72, 312, swapped=swapped)
    b = random(device, "bfloat16", 312, 80, swapped=swapped)
    check(a, b, random(device, "bfloat16", 80), tile._replace(parts=2))
    # No part is without a slab: three of two slabs, the last one of one.
    check(a, b, random(device, "bfloat16", 72, 80), tile._replace(parts=4))


def test_batches_and_sizes_that_no_access_divides(device: ck.Device) -> None:
    a, b = random(device, "float16", 3, 40, 136), random(device, "float16", 3, 25, 136)
    b = ck.swapaxes(b, -1, -2)
    for bias in ((25,), (3, 40, 1)):
        check(a, b, random(device, "float16", *bias), SMALL._replace(parts=2))


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_few_rows(device: ck.Device, dtype: str) -> None:
    form, rows = (FewRows(False, 8, 16, 2, 3), 5) if dtype == "bfloat16" else (FewRows(False, 2, 16, 2, 3), 2)
    x, w = random(device, dtype, rows, 648), random(device, dtype, 648, 24)
    check(x, w, random(device, dtype, rows, 1), form)
    check(w.T, x.T, random(device, dtype, rows), form._replace(turned=True))


def test_a_fused_function(device: ck.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two kernels, of which the second knows the expression; the same result each time."""
    monkeypatch.setattr(epilogue, "_plans", {})
    monkeypatch.setattr(
        tensor_cores,
        "quickest",
        lambda task, where, then=True, ending=None: SMALL._replace(parts=3) if task.itemsize == 2 else None,
    )
    ended = ck.fuse(lambda x, w, r, scale: ck.relu(x @ w * scale) + r)
    x, w, r = (random(device, "float16", *shape) for shape in ((16, 192), (192, 8), (16, 8)))
    exact = ck.relu(x.astype("float64") @ w.astype("float64") * 0.25) + r.astype("float64")
    made = [ended(x, w, r, 0.25).tolist() for _ in range(3)]
    assert made[0] == made[1] == made[2]
    ck.testing.assert_close(ck.asarray(made[0], dtype="float64"), exact, rtol=1e-3, atol=1e-3)
    assert ended.source(x, w, r, 0.25).count("__global__") == 2


def test_when_the_depth_is_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the tiles leave multiprocessors idle, and the depth is long enough to pay for another launch."""
    factor = Factor(0, 8192, False)
    gradient = Task(1, 768, 768, 8192, factor, factor, ())
    shared = tensor_cores.tile_for(gradient, gpu())
    assert 4 <= shared.parts <= 8
    monkeypatch.setattr(measured, "TIMES", (measured.Times("parts", 1, 768, 8192, 768, False, 1, 2, 3),))
    assert tensor_cores.quickest(gradient, gpu()) == shared
    for other in (gradient._replace(k=256), gradient._replace(m=8192, n=8192)):
        assert tensor_cores.tile_for(other, gpu()).parts == 1
    few = few_rows.few_rows_for(gradient._replace(m=4, n=128, k=65536), gpu())
    assert few is not None
    assert few.parts == 16
    for other in (gradient._replace(m=4, n=4096, k=65536), gradient._replace(m=4, n=128, k=4096)):
        few = few_rows.few_rows_for(other, gpu())
        assert few is not None
        assert few.parts == 1
