"""Arrays made from nothing: NumPy's values and dtypes, grids of places, refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cukern as ck

SMALL = st.integers(-5, 6)


@pytest.mark.parametrize("dtype", ck.dtypes.ALL, ids=lambda d: ck.dtypes.info(d).name)
def test_every_dtype(device: ck.Device, dtype: Any) -> None:
    """What a GPU makes it casts by cukern's kernels."""
    for made, want in (
        (ck.arange(2, dtype=dtype), np.arange(2)),
        (ck.eye(3, 2, k=-1, dtype=dtype), np.eye(3, 2, k=-1)),
        (ck.tri(2, 3, 1, dtype), np.tri(2, 3, 1)),
        (ck.identity(2, dtype), np.identity(2)),
        (ck.indices((2, 2), dtype), np.indices((2, 2))),
        (ck.linspace(0, 1, 2, dtype=dtype), [0, 1]),
        (ck.full((1, 2), 1, dtype), [[1, 1]]),
        (ck.ones_like(ck.zeros(2), dtype=dtype), [1, 1]),
    ):
        assert made.dtype == dtype and made.device is device
        np.testing.assert_array_equal(made.numpy(), np.asarray(want).astype(dtype))


@given(start=SMALL, stop=SMALL, step=SMALL.filter(bool), scale=st.sampled_from([1, 0.5]))
def test_arange_is_numpys(device: ck.Device, start: int, stop: int, step: int, scale: float) -> None:
    numbers = [number * scale for number in (start, stop, step)]
    made = ck.arange(*numbers)
    assert made.dtype == (ck.int64 if scale == 1 else ck.float32)
    np.testing.assert_array_equal(made.numpy(), np.arange(*numbers))


def test_arange_of_large_integers(device: ck.Device) -> None:
    np.testing.assert_array_equal(
        ck.arange(2**63, 2**63 + 3, dtype="uint64").numpy(), 2**63 + np.arange(3, dtype="u8")
    )
    np.testing.assert_array_equal(ck.arange(2**61, 2**61 + 3).numpy(), 2**61 + np.arange(3))


@given(n=st.integers(0, 4), m=st.none() | st.integers(0, 4), k=SMALL)
def test_places_of_triangles(device: ck.Device, n: int, m: int | None, k: int) -> None:
    for name in ("tril_indices", "triu_indices"):
        want = getattr(np, name)(n, k, m)
        made = getattr(ck, name)(n, k, m)
        x = ck.zeros((n, n if m is None else m))
        for got, same, places in zip(made, getattr(ck, name + "_from")(x, k), want, strict=True):
            assert got.dtype == ck.int64 and got.device is device
            np.testing.assert_array_equal(got.numpy(), places)
            np.testing.assert_array_equal(same.numpy(), places)


def test_grids(device: ck.Device) -> None:
    for got, want in zip(ck.indices((2, 3), sparse=True), np.indices((2, 3), sparse=True), strict=True):
        np.testing.assert_array_equal(got.numpy(), want)
    np.testing.assert_array_equal(ck.indices((2, 0, 3)).numpy(), np.indices((2, 0, 3)))
    assert ck.indices(()).shape == np.indices(()).shape
    made = ck.fromfunction(lambda i, j, scale: i * scale + j, (2, 3), scale=10)
    np.testing.assert_array_equal(made.numpy(), np.fromfunction(lambda i, j: 10 * i + j, (2, 3)))
    x = ck.asarray(np.arange(9).reshape(3, 3))
    np.testing.assert_array_equal(x[ck.diag_indices(3)].numpy(), [0, 4, 8])
    np.testing.assert_array_equal(x[ck.diag_indices_from(x)].numpy(), [0, 4, 8])
    key: tuple[Any, ...] = ([0, 2], [False, True, True])
    np.testing.assert_array_equal(x[ck.ix_(*key)].numpy(), x.numpy()[np.ix_(*key)])
    assert x[ck.ix_([], [0])].shape == (0, 1)
    masked = ck.ix_(ck.asarray([True, False, True]), ck.asarray([1]))
    np.testing.assert_array_equal(x[masked].numpy(), [[1], [7]])


def test_axes_of_copies(device: ck.Device) -> None:
    assert ck.array(3, ndmin=2).shape == (1, 1)
    assert ck.array([[1]], ndmin=1).shape == (1, 1)
    x = ck.asarray(np.arange(6.0).reshape(2, 3))
    assert ck.ascontiguousarray(x) is x and ck.ascontiguousarray(x.T).is_contiguous
    assert ck.ascontiguousarray(3.0).shape == (1,)
    assert ck.array(x, copy=None) is x


def test_spaces_are_numpys(device: ck.Device) -> None:
    for ours, numpys, args in (
        (ck.linspace, np.linspace, (0, 5)),
        (ck.logspace, np.logspace, (0, 3)),
        (ck.geomspace, np.geomspace, (1, 1000)),
    ):
        for options in ({}, {"num": 4}, {"num": 0}, {"num": 5, "endpoint": False}):
            made = ours(*args, **options)
            np.testing.assert_allclose(made.numpy(), numpys(*args, **options), rtol=2e-6)
            assert made.dtype == ck.float32


REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "complex data": (lambda: ck.asarray([1j]), TypeError, "no dtype complex128"),
    "complex array": (lambda: ck.asarray(np.zeros(2, "c8")), TypeError, "no dtype complex64"),
    "complex dtype": (lambda: ck.empty(2, dtype="complex64"), TypeError, "no dtype complex64"),
    "complex fill": (lambda: ck.full_like(ck.zeros(2), 1j), TypeError, "no complex numbers, got 1j"),
    "complex operand": (lambda: ck.result_type(ck.zeros(2), 1j), TypeError, "no complex numbers, got 1j"),
    "diagonal": (lambda: ck.diag_indices_from(ck.zeros((2, 3))), ValueError, "two equal axes at least"),
    "triangle": (lambda: ck.tril_indices_from(ck.zeros(2)), ValueError, "expected two axes"),
    "crossed": (lambda: ck.ix_([[1]]), ValueError, r"places\[0\]: expected one axis"),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_refusals(device: ck.Device, case: Any) -> None:
    function, error, message = case
    with pytest.raises(error, match=message):
        function()
