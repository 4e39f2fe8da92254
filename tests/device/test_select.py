"""Selection of the first and the middle elements of sorted rows, in the launch shapes of a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cukern as ck
from cukern import dtypes
from cukern.index import select
from cukern.testing import gradcheck

MORE = ["bool", "uint16", "float16", "uint32", "int64", "float64"]
DTYPES = ["int8", "float32", "uint64", *(pytest.param(one, marks=pytest.mark.thorough) for one in MORE)]


def _rows(dtype: str, rows: int, n: int) -> np.ndarray[Any, Any]:
    """Random bits, with many equal elements and special ones."""
    rng = np.random.default_rng(n)
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return rng.integers(0, 2, (rows, n)).astype(bool)
    x = rng.integers(0, 256, rows * n * kind.itemsize, dtype=np.uint8).view(kind).reshape(rows, n)
    x[:, ::3] = rng.integers(0, 5, x[:, ::3].shape).astype(kind)
    if kind.kind == "f":
        x[:, 1::7] = np.array([-0.0, 0.0, np.inf, -np.inf, 1.0])[rng.integers(0, 5, x[:, 1::7].shape)]
        x[: rows // 2, 4::9] = np.nan
        x[rows // 2 :][np.isnan(x[rows // 2 :])] = 0
    return x


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 70, 531])
def test_first_and_middle_of_sorted_rows(dtype: str, n: int) -> None:
    x = _rows(dtype, 4, n)
    a = ck.asarray(x)
    for descending in (False, True):
        order = ck.argsort(a, descending=descending).numpy()
        for k in {1, max(1, n // 5), n}:
            keys, places = select.first_of_sorted(a, k, descending, block=64)
            want = np.sort(order[:, :k], -1)
            np.testing.assert_array_equal(places.numpy(), want)
            np.testing.assert_array_equal(keys.numpy(), np.take_along_axis(x, want, -1))
    ordered = np.sort(x, -1)
    want = ordered[:, [(n - 1) // 2, n // 2]]
    if x.dtype.kind == "f":
        want[:, 1] = np.where(np.isnan(x).any(-1), np.nan, want[:, 1])
    np.testing.assert_array_equal(select.middle_of_sorted(a, block=64).numpy(), want)


def test_topk_and_median_select_in_long_rows(device: ck.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    x = _rows("float32", 3, 1200)
    x[np.isnan(x)] = -1
    x[0, 5] = np.nan
    a = ck.asarray(x)
    plain = ck.topk(a, 9), ck.topk(a, 3, largest=False), ck.median(a, 1)
    for module in ("cukern.index.select", "cukern.ops.statistics"):
        monkeypatch.setattr(f"{module}.selects", lambda x: x.dtype not in dtypes.COMPLEX and x.size > 0)
    found = ck.topk(a, 9), ck.topk(a, 3, largest=False), ck.median(a, 1)
    for one, two in zip((*plain[0], *plain[1], plain[2]), (*found[0], *found[1], found[2]), strict=True):
        np.testing.assert_array_equal(two.numpy(), one.numpy())
    values = ck.asarray(np.random.default_rng(0).standard_normal((2, 40)))
    assert gradcheck(lambda x: ck.topk(x, 3)[0], [values])


@pytest.mark.parametrize("n", [70, 300])
def test_threads_of_a_selection_wait_for_each_other(n: int) -> None:
    """Checked launches see what is read before another thread has written it; several digits, several steps a row."""
    a = ck.asarray(_rows("int16", 2, n))
    with ck.testing.checked():
        keys, _ = select.first_of_sorted(a, n // 3, False, block=64)
        middle = select.middle_of_sorted(a, block=64)
    ordered = np.sort(a.numpy(), -1)
    np.testing.assert_array_equal(np.sort(keys.numpy(), -1), ordered[:, : n // 3])
    np.testing.assert_array_equal(middle.numpy(), ordered[:, [(n - 1) // 2, n // 2]])
