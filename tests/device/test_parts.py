"""Products whose depth several blocks share (split-K), on both devices, against NumPy in float64."""

from __future__ import annotations

from dataclasses import replace

import pytest
from test_tensor_cores import check, random

import cukern as ck
from cukern.launch.family import STAND_IN
from cukern.linear.families import PRODUCT
from cukern.linear.few_rows import FewRows
from cukern.linear.problem import Factor, Gemm


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_few_rows(device: ck.Device, dtype: str) -> None:
    form, rows = (FewRows(False, 8, 16, 2, 3), 5) if dtype == "bfloat16" else (FewRows(False, 2, 16, 2, 3), 2)
    x, w = random(device, dtype, rows, 648), random(device, dtype, 648, 24)
    check(x, w, random(device, dtype, rows, 1), form)
    check(w.T, x.T, random(device, dtype, rows), replace(form, transposed=True))


def test_a_fused_function(device: ck.Device) -> None:
    """Two kernels, of which the second knows the expression; the same result each time."""
    ended = ck.fuse(lambda x, w, r, scale: ck.relu(x @ w * scale) + r)
    x, w, r = (random(device, "float16", *shape) for shape in ((16, 192), (192, 8), (16, 8)))
    exact = ck.relu(x.astype("float64") @ w.astype("float64") * 0.25) + r.astype("float64")
    with PRODUCT.only("few rows", splits=3, warps=2) as used:
        made = [ended(x, w, r, 0.25).tolist() for _ in range(3)]
        assert ended.source(x, w, r, 0.25).count("__global__") == 2
    assert made[0] == made[1] == made[2]
    assert [one.splits for one in used] == [3]
    ck.testing.assert_close(ck.asarray(made[0], dtype="float64"), exact, rtol=1e-3, atol=1e-3)


def test_when_the_depth_is_shared() -> None:
    """If the columns leave multiprocessors idle, and the depth is long enough to pay for another launch."""
    factor = Factor(0, 65536, False)
    gemm = Gemm(1, 4, 128, 65536, factor, factor, ())
    assert FewRows.divided(gemm, STAND_IN).splits == 16
    for other in (gemm._replace(n=4096), gemm._replace(k=4096)):
        assert FewRows.divided(other, STAND_IN).splits == 1
