"""Searching: searchsorted of every dtype and NaN, the places of what is true in the launch shapes, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cukern as ck
from cukern.index.compact import flat_indices, flat_indices_of_few, runs_of
from cukern.index.search import indices_of_true, search_into
from cukern.index.unravel import _raveled, unraveled

DTYPES = ["bool", "int8", "uint8", "int32", "uint64", "float16", "float32", "float64"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_searchsorted_of_every_dtype(device: ck.Device, dtype: str) -> None:
    rng = np.random.default_rng(0)
    a = np.sort(rng.integers(0, 2 if dtype == "bool" else 60, 50).astype(dtype))
    q = rng.integers(0, 2 if dtype == "bool" else 70, (3, 700)).astype(dtype)
    for side in ("left", "right"):
        made = ck.searchsorted(ck.asarray(a), ck.asarray(q), side=side)
        assert made.dtype == ck.int64
        np.testing.assert_array_equal(made.numpy(), np.searchsorted(a, q, side))


@given(
    st.lists(st.sampled_from([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan]), max_size=20),
    st.lists(st.sampled_from([0.0, 1.0, 0.5, np.inf, -np.inf, np.nan]), max_size=10),
    st.sampled_from(["left", "right"]),
)
def test_searchsorted_with_sorter_and_nan(xs: list[float], qs: list[float], side: Any) -> None:
    a, q = np.asarray(xs, "float32"), np.asarray(qs, "float32")
    order = np.argsort(a, kind="stable")
    want = np.searchsorted(a, q, side, order)
    made = ck.searchsorted(ck.asarray(a), ck.asarray(q), side=side, sorter=ck.asarray(order))
    np.testing.assert_array_equal(made.numpy(), want)
    np.testing.assert_array_equal(
        ck.searchsorted(ck.asarray(a[order]), ck.asarray(q), side=side).numpy(), want
    )


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_searchsorted_of_complex_numbers_with_nan(device: ck.Device, dtype: str) -> None:
    parts = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0]
    q = np.array([complex(a, b) for a in parts for b in parts], dtype)
    a = np.sort(q[::2])
    for side in ("left", "right"):
        made = ck.searchsorted(ck.asarray(a), ck.asarray(q), side=side)
        np.testing.assert_array_equal(made.numpy(), np.searchsorted(a, q, side))


@pytest.mark.parametrize(("n", "count"), [(700, 2500), (5000, 9), (0, 3), (1, 3)])
def test_blocks_search_as_threads_do(n: int, count: int) -> None:
    rng = np.random.default_rng(1)
    a, q = np.sort(rng.integers(0, 900, n)).astype("f4"), rng.integers(-5, 910, count).astype("f4")
    for made, want in (
        (ck.zeros(count, "int64"), np.searchsorted(a, q)),
        (ck.zeros(count, "bool"), np.isin(q, a)),
    ):
        search_into(made, ck.asarray(a), None, ck.asarray(q), block=64)
        np.testing.assert_array_equal(made.numpy(), want)


def test_searchsorted_of_numbers_and_lists(device: ck.Device) -> None:
    x = ck.asarray([1, 3, 5])
    assert ck.searchsorted(x, 3).shape == () and ck.searchsorted(x, 3, side="right").item() == 2
    assert ck.searchsorted(x, 2.5).item() == 1
    assert x.searchsorted([[0, 9]], "right", [0, 1, 2]).tolist() == [[0, 3]]
    assert ck.searchsorted(x[:0], x).tolist() == [0, 0, 0]
    assert ck.searchsorted(x, x[:0]).shape == (0,)
    assert ck.searchsorted(x[::-1], x, sorter=ck.asarray([-1, 1, 0], dtype="int8")).tolist() == [0, 1, 2]


def test_searchsorted_refuses(device: ck.Device) -> None:
    x = ck.asarray([1, 3, 5])
    with pytest.raises(ValueError, match="side"):
        ck.searchsorted(x, 3, side="middle")
    with pytest.raises(ValueError, match="one axis"):
        ck.searchsorted(ck.zeros((2, 2)), 3)
    with pytest.raises(ValueError, match="sorter"):
        ck.searchsorted(x, 3, sorter=ck.asarray([0, 1]))
    with pytest.raises(ValueError, match="sorter"):
        ck.searchsorted(x, 3, sorter=ck.asarray([0.0, 1.0, 2.0]))
    with pytest.raises(TypeError, match="x1"):
        ck.searchsorted("12", 3)
    if device.kind == "host":
        with pytest.raises(ValueError, match="sorter: index 3 is out of bounds"):
            ck.searchsorted(x, 3, sorter=ck.asarray([0, 3, 1]))


@pytest.mark.parametrize("shape", [(None, None), (7, 1), (33, 32), (100, 64), (1 << 10, 256)], ids=str)
@pytest.mark.parametrize("share", [0.0, 0.1, 0.9, 1.0])
def test_places_in_launch_shapes(
    device: ck.Device, share: float, shape: tuple[int | None, int | None]
) -> None:
    rng = np.random.default_rng(0)
    for n in (0, 1, 31, 33, 1000, 40_001):
        flags = rng.random(n) < share
        np.testing.assert_array_equal(flat_indices(ck.asarray(flags), *shape).numpy(), np.flatnonzero(flags))


def test_places_of_few_flags_by_one_block(device: ck.Device) -> None:
    for n in (1, 33, 1000, 40_001):
        flags = np.random.default_rng(n).random(n) < 0.3
        np.testing.assert_array_equal(
            flat_indices_of_few(ck.asarray(flags), 64).numpy(), np.flatnonzero(flags)
        )


@pytest.mark.parametrize("shape", [(7, 1), (300, 64)], ids=str)
def test_runs_in_launch_shapes(device: ck.Device, shape: tuple[int, int]) -> None:
    x = np.sort(np.random.default_rng(0).integers(0, 300, 2000)).astype("float32")
    x[-3:] = np.nan
    for equal_nan in (True, False):
        values, places = runs_of(ck.asarray(x), equal_nan, True, *shape)
        want, first = np.unique(x, return_index=True, equal_nan=equal_nan)
        assert places is not None
        np.testing.assert_array_equal(values.numpy(), want)
        np.testing.assert_array_equal(places.numpy(), first)


@given(st.lists(st.integers(0, 5), max_size=4).map(tuple), st.integers(0, 99))
def test_places_of_every_axis(shape: tuple[int, ...], seed: int) -> None:
    a = np.random.default_rng(seed).integers(0, 2, shape)
    if shape:
        made = ck.nonzero(ck.asarray(a))
        assert isinstance(made, tuple) and len(made) == len(shape)
        for one, other, want in zip(made, indices_of_true(ck.asarray(a != 0)), np.nonzero(a), strict=True):
            assert one.dtype == other.dtype == ck.int64
            np.testing.assert_array_equal(one.numpy(), want)
            np.testing.assert_array_equal(other.numpy(), want)
    made_where = ck.argwhere(ck.asarray(a))
    assert made_where.shape == np.argwhere(a).shape
    np.testing.assert_array_equal(made_where.numpy(), np.argwhere(a))
    np.testing.assert_array_equal(ck.flatnonzero(ck.asarray(a)).numpy(), np.flatnonzero(a))


def test_what_is_not_zero(device: ck.Device) -> None:
    a = np.asarray([0.0, -0.0, np.nan, 1e-300, -np.inf])
    assert ck.nonzero(ck.asarray(a))[0].tolist() == [2, 3, 4]
    assert ck.asarray(a).nonzero()[0].tolist() == [2, 3, 4]
    assert ck.flatnonzero(ck.broadcast_to(ck.asarray([0, 1]), (2, 2))).tolist() == [1, 3]
    with pytest.raises(ValueError, match="0-d"):
        ck.nonzero(ck.asarray(1))


def test_compress(device: ck.Device) -> None:
    x = ck.asarray([[1, 2, 3], [4, 5, 6]])
    assert ck.compress([True, False], x, axis=0).tolist() == [[1, 2, 3]]
    assert x.compress([0, 1, 1], axis=1).tolist() == [[2, 3], [5, 6]]
    assert ck.compress([0, 1, 0, 0, 1], x).tolist() == [2, 5]
    assert ck.extract(x % 2 == 0, x).tolist() == [2, 4, 6]
    with pytest.raises(ValueError, match="one axis"):
        ck.compress([[True]], x)
    if device.kind == "host":
        with pytest.raises(IndexError, match="out of bounds"):
            ck.compress([0, 0, 1], x, axis=0)


def test_searchsorted_of_a_number_that_the_dtype_does_not_hold(device: ck.Device) -> None:
    x = ck.asarray(np.asarray([1, 2, 255], "uint8"))
    assert ck.searchsorted(x, 300).item() == 3
    assert ck.searchsorted(x, -1, side="right").item() == 0


def test_indices_out_of_range_are_clipped_where_nothing_reads_them() -> None:
    places = ck.asarray([-5, 1, 7, 100, -1])
    assert [one.tolist() for one in unraveled(places, (2, 3), clipped=True)] == [
        [0, 0, 1, 1, 1],
        [1, 1, 2, 2, 2],
    ]
    assert _raveled([places, places], [2, 3], True).tolist() == [0, 4, 5, 5, 5]
