"""Matrix products: values, dtypes and refusals, derivatives with broadcast axes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cukern as ck
from cukern.testing import assert_close, gradcheck

SHAPES = [
    ((3, 4), (4, 5)),
    ((4,), (4, 5)),
    ((3, 4), (4,)),
    ((4,), (4,)),
    ((2, 3, 4), (4, 5)),
    ((3, 4), (2, 4, 5)),
    ((2, 1, 3, 4), (6, 4, 5)),
    ((2, 3, 4), (4,)),
    ((4,), (2, 4, 5)),
    ((1, 3, 4), (2, 4, 5)),
]


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_values_and_gradients(device: ck.Device, shapes: Any) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape) for shape in shapes)
    x, y = ck.asarray(a), ck.asarray(b)
    assert_close(x @ y, a @ b)
    assert gradcheck(ck.matmul, [x, y], order=2)


@pytest.mark.parametrize("dtype", ck.dtypes.ALL, ids=lambda d: ck.dtypes.info(d).name)
def test_every_dtype(device: ck.Device, dtype: Any) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(0, 3, shape).astype(dtype) for shape in ((3, 4), (4, 5)))
    wide = np.float64 if ck.dtypes.info(np.dtype(dtype)).kind == "f" else dtype
    assert_close(ck.asarray(a) @ ck.asarray(b), (a.astype(wide) @ b.astype(wide)).astype(dtype), dtype=dtype)
    assert_close(
        ck.asarray(a).T.mT @ ck.asarray(b), (a.astype(wide) @ b.astype(wide)).astype(dtype), dtype=dtype
    )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_products_accumulate_in_float32(device: ck.Device, dtype: str) -> None:
    x = ck.full((1, 5000), 0.5, dtype=dtype)
    want = 2496.0 if dtype == "bfloat16" else 2500.0
    assert (x @ ck.ones((5000, 1), dtype=dtype)).tolist() == [[want]]


def test_dtypes_are_promoted(device: ck.Device) -> None:
    assert (ck.ones((2, 2), dtype="float32") @ ck.ones((2, 2), dtype="float64")).dtype == ck.float64
    x = ck.ones((2, 2), dtype="float16")
    with ck.Tape() as recorder:
        recorder.watch(x)
        y = x @ ck.ones((2, 2))
    assert recorder.gradient(y, x).dtype == ck.float16


def test_only_what_the_derivative_reads_is_saved(device: ck.Device) -> None:
    x, y = ck.ones((2, 3)), ck.ones((3, 2))
    with ck.Tape() as recorder:
        recorder.watch(x)
        x @ y
    (made,) = recorder._records
    assert [saved is y for saved in made.saved if saved is not None] == [True]


def test_vecdot(device: ck.Device) -> None:
    a, b = np.random.default_rng(0).standard_normal((2, 3, 4))
    assert_close(ck.vecdot(ck.asarray(a), ck.asarray(b)), (a * b).sum(-1))
    assert_close(ck.vecdot(ck.asarray(a), ck.asarray(b), axis=0), (a * b).sum(0))


def test_refusals(device: ck.Device) -> None:
    with pytest.raises(ValueError, match=r"matmul: shapes \(2, 3\) and \(2, 3\) do not fit: 3 is not 2"):
        ck.ones((2, 3)) @ ck.ones((2, 3))
    with pytest.raises(ValueError, match="do not broadcast"):
        ck.ones((2, 3, 3)) @ ck.ones((4, 3, 3))
    with pytest.raises(ValueError, match="at least one axis"):
        ck.ones((2, 2)) @ ck.asarray(1.0)
    with pytest.raises(TypeError, match=r"x2: expected a cukern\.Array, got int"):
        ck.matmul(ck.ones(2), 3)  # type: ignore[arg-type]


def test_gradient_of_a_product_over_no_element(device: ck.Device) -> None:
    left, right = ck.grad(lambda a, b: ck.matmul(a, b).sum(), (0, 1))(ck.zeros((2, 3, 0)), ck.zeros((0, 4)))
    assert left.shape == (2, 3, 0)
    assert right.shape == (0, 4)
