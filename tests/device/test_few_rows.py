"""Products of a few rows or columns that end with an expression, on both devices, against NumPy in float64."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from product_support import limits_of, make_plan
from test_tensor_cores import bias_and_relu, check, random

import cukern as ck
from cukern.launch.family import STAND_IN
from cukern.linear.few_rows import FewRows
from cukern.linear.problem import Factor, Gemm, gemm_of
from cukern.testing import asynchrony


def form(a: ck.Array, b: ck.Array, columns: int = 32, warps: int = 2) -> FewRows:
    """As the library divides the work, but for the given numbers."""
    gemm = gemm_of(a._planned(), b._planned(), [])
    assert gemm is not None
    return replace(FewRows.divided(gemm, limits_of(a.device)), columns=columns, warps=warps)


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize(
    ("x_swapped", "w_swapped"), [(False, False), (False, True), (True, False), (True, True)]
)
def test_layouts_of_the_factors(device: ck.Device, dtype: str, x_swapped: bool, w_swapped: bool) -> None:
    """The last columns are cut, and some warps have a k-block more than others, and more than are on their way."""
    x = random(device, dtype, 16 if dtype == "bfloat16" else 4, 320, swapped=x_swapped)
    w = random(device, dtype, 320, 72, swapped=w_swapped)
    check(x, w, random(device, dtype, 72), replace(form(x, w, warps=3), ahead=3))


def sharing(x: ck.Array, w: ck.Array, warps: int = 3) -> FewRows:
    """The form with clusters, whatever the device."""
    gemm = gemm_of(x._planned(), w._planned(), [])
    assert gemm is not None
    few = gemm.transposed if gemm.n < gemm.m else gemm
    found = form(x, w, warps=warps).sharing(few, STAND_IN)
    assert found.cluster == 2
    return found


@pytest.mark.parametrize("asynchronously", ["late", "random"])
@pytest.mark.parametrize(
    ("dtype", "rows", "depth"), [("bfloat16", 16, 384), ("float16", 11, 192), ("float16", 1, 96)]
)
def test_rows_that_two_blocks_share(
    device: ck.Device, dtype: str, rows: int, depth: int, asynchronously: Any
) -> None:
    """The second block has few columns, or none."""
    if device.kind == "cuda" and device.properties.compute_capability[0] != 9:
        pytest.skip("no GPU of compute capability 9.0")
    x = random(device, dtype, rows, depth)
    for columns, swapped in ((72, True), (40, False), (24, True)):
        w, bias = random(device, dtype, depth, columns, swapped=swapped), random(device, dtype, columns)
        with asynchrony(asynchronously, seed=3):
            check(x, w, bias, sharing(x, w))
    a, batches = random(device, dtype, 3, rows, depth), random(device, dtype, 3, depth, 40)
    check(a, batches, random(device, dtype, 40), sharing(a, batches))
    few = random(device, dtype, depth, 8, swapped=True)
    check(
        random(device, dtype, 48, depth),
        few,
        random(device, dtype, 8),
        sharing(random(device, dtype, 48, depth), few),
    )


@pytest.mark.parametrize(("dtype", "rows"), [("float16", 1), ("float16", 8), ("float16", 11), ("float32", 1)])
def test_numbers_of_rows(device: ck.Device, dtype: str, rows: int) -> None:
    x, w = random(device, dtype, rows, 200), random(device, dtype, 200, 40, swapped=True)
    check(x, w, random(device, dtype, rows, 1), form(x, w, columns=16))


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_a_depth_that_no_access_divides(device: ck.Device, dtype: str) -> None:
    """What lies beyond the depth in memory is not taken, whatever it is."""
    x, w = random(device, dtype, 2, 208), random(device, dtype, 208, 40, swapped=True)
    x[:, 203:], w[203:] = ck.nan, ck.nan
    for right in (w, random(device, dtype, 208, 40)):
        check(x[:, :203], right[:203], random(device, dtype, 40), form(x, right))


@pytest.mark.parametrize(("dtype", "biases"), [("bfloat16", [(8,), (70, 8)]), ("float32", [(70, 1)])])
def test_few_columns(device: ck.Device, dtype: str, biases: list[tuple[int, ...]]) -> None:
    """The transpose is computed; operands follow the product's own rows and columns."""
    columns = 8 if dtype == "bfloat16" else 2
    a, b = random(device, dtype, 70, 136), random(device, dtype, 136, columns)
    b = b if dtype == "bfloat16" else b.T.contiguous().T
    for bias in biases:
        check(a, b, random(device, dtype, *bias), form(a, b))
    one = random(device, dtype, 136, 1)
    check(a, one, random(device, dtype, 1), form(a, one, columns=16))


@pytest.mark.parametrize("swapped", [False, True])
def test_groups_of_blocks_begin_at_k_blocks_of_their_own(device: ck.Device, swapped: bool) -> None:
    """Three groups, the last of which is cut; the last k-block is cut too, and later groups wrap over it."""
    x, w = random(device, "bfloat16", 9, 1032), random(device, "bfloat16", 1032, 296, swapped=swapped)
    check(x, w, random(device, "bfloat16", 296), replace(form(x, w, columns=16), asked=4096))
    assert form(x, w).groups > 1
    assert form(x[:8], w).groups == (16 if swapped else 1)


def test_batches(device: ck.Device) -> None:
    a, b = random(device, "bfloat16", 2, 3, 5, 64), random(device, "bfloat16", 2, 3, 64, 24)
    check(a, b, random(device, "bfloat16", 2, 3, 5, 24), form(a, b))
    check(a[0, 0], b, random(device, "bfloat16", 24), form(a[0, 0], b))
    # All rows of a batch are rows of one product.
    few = random(device, "float16", 2, 3, 2, 64)
    check(few, random(device, "float16", 64, 40), random(device, "float16", 40), FewRows(False, 16, 32, 2))


def test_what_is_not_finite_stays_in_its_row_and_column(device: ck.Device) -> None:
    for dtype in ("float16", "float32"):
        x, w = np.ones((4, 72)), np.ones((72, 40))
        x[1, 70], w[3, 9] = np.nan, np.inf
        a, b = (ck.asarray(one, dtype=dtype, device=device) for one in (x, w))
        layouts = [one._planned() for one in (a, b)]
        bias = ck.zeros(40, dtype, device)
        plan = make_plan(bias_and_relu(a.dtype), *layouts, [bias._planned()], form(a, b, columns=16))
        assert plan is not None
        np.testing.assert_array_equal(plan(a, b, bias).numpy(), np.maximum(x @ w, 0))


def divided(m: int, n: int, itemsize: int = 2, k: int = 4096, by_depth: bool = True) -> FewRows:
    factor = Factor(0, 4096, by_depth)
    return FewRows.divided(Gemm(1, m, n, k, factor, factor, (), itemsize), STAND_IN)


def test_how_the_work_is_divided() -> None:
    """Enough blocks for all multiprocessors, if there are columns, and no warp without a k-block."""
    asked, shared, of_eight = (2**16, 16), (3 * 2**14, 1, 2), 8 * 8 * (1024 + 64)
    assert divided(1, 4096) == FewRows(False, 8, 32, 16, 3, 1, *shared, of_eight)
    assert divided(16, 4096) == FewRows(False, 16, 32, 16, 3, 1, *shared, 2 * of_eight)
    assert divided(4096, 3) == FewRows(True, 8, 32, 16, 3, 1, *shared, of_eight)
    assert divided(2, 4096, itemsize=4) == FewRows(False, 2, 32, 16, 3, 1, 2**16)
    assert divided(9, 8192, by_depth=False) == FewRows(False, 16, 32, 16, 2, 1, *asked)
    assert divided(9, 512, by_depth=False) == FewRows(False, 16, 16, 16, 2, 1, *asked)
    assert divided(4, 3000) == FewRows(False, 8, 16, 16, 2, 2, *asked)
    assert divided(4, 4096, k=200) == FewRows(False, 8, 32, 8, 3, 1, *asked)
    assert divided(4, 4096, k=256) == FewRows(False, 8, 32, 8, 3, 1, *shared, 8 * (512 + 64))
    assert divided(4, 4096, k=224) == FewRows(False, 8, 32, 8, 3, 1, *asked)


def test_which_rows_two_blocks_share() -> None:
    """Of 16 bits, that lie along whole k-blocks and have room in the shared memory of a GPU with clusters."""
    factor = Factor(0, 8192, True)
    gemm = Gemm(1, 16, 4096, 4096, factor, factor, ())

    def cluster(gemm: Gemm, **limits: Any) -> int:
        return FewRows.divided(gemm, STAND_IN._replace(**limits)).cluster

    assert cluster(gemm) == 2
    assert cluster(gemm, compute_capability=(8, 0)) == 1
    assert cluster(gemm, max_shared_memory_per_block=101376) == 1
    assert cluster(gemm._replace(a=Factor(0, 8192, False))) == 1
    assert cluster(gemm._replace(k=4104)) == 1
    assert cluster(gemm._replace(k=8192)) == 1
    assert cluster(gemm._replace(k=8192, m=8)) == 2
    assert cluster(gemm._replace(m=4, itemsize=4)) == 1
