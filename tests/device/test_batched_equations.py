"""Batches of matrices decomposed at once, by the kernels of a GPU run on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cukern as ck
from cukern.linear import batched, lapack, solving
from cukern.testing import assert_close, gradcheck


def matrices(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape)


@pytest.mark.parametrize("dtype, n", [("float32", 40), ("complex128", 36), ("complex128", 7), ("float64", 1)])
def test_solutions_and_determinants(device: ck.Device, dtype: str, n: int) -> None:
    """Of several panels, the last one narrower, of a part of a warp, and of a single number."""
    phase = np.exp(1j * matrices(3, n, n)) if "complex" in dtype else 1
    a, b = (matrices(3, n, n) * phase).astype(dtype), matrices(3, n, 5).astype(dtype)
    x = batched.solutions(ck.asarray(a), ck.asarray(b))
    wide = np.result_type(dtype, np.float64)
    tolerance = 1e-3 if dtype == "float32" else 1e-10
    assert_close(x, np.linalg.solve(a.astype(wide), b.astype(wide)), rtol=tolerance, atol=tolerance)
    sign, size = batched.log_determinants(ck.asarray(a))
    of_sign, of_size = np.linalg.slogdet(a.astype(wide))
    assert_close(sign, of_sign, rtol=tolerance, atol=tolerance)
    assert_close(size, of_size, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("n", [20, 40])
def test_singular_matrices_and_nan_stay_alone(device: ck.Device, n: int) -> None:
    a = matrices(3, n, n)
    a[0, :, 7] = 0
    a[1, 3, 4] = np.nan
    sign, size = batched.log_determinants(ck.asarray(a))
    assert sign[0].item() == 0
    assert size[0].item() == -np.inf
    assert np.isnan(size[1].item())
    x = batched.solutions(ck.asarray(a), ck.asarray(matrices(3, n, 2)))
    assert not ck.isfinite(x[0]).all()
    assert ck.isnan(x[1]).any()
    assert_close(x[2], np.linalg.solve(a[2], matrices(3, n, 2)[2]))


def test_derivatives_and_shapes(device: ck.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (lapack, solving):
        monkeypatch.setattr(module, "together", lambda a: a.ndim > 2)
    a, b = matrices(2, 1, 9, 9), matrices(2, 9, 3)
    x, y = ck.asarray(a), ck.asarray(b)
    assert_close(ck.linalg.inv(x), np.linalg.inv(a))
    assert_close(ck.linalg.solve(x, y), np.linalg.solve(a, b))
    assert_close(ck.linalg.det(x), np.linalg.det(a))
    assert ck.linalg.slogdet(x.astype("float32")).sign.dtype == ck.float32
    assert gradcheck(ck.linalg.inv, [x])
    assert gradcheck(ck.linalg.solve, [x, y])
    assert gradcheck(ck.linalg.det, [x])
