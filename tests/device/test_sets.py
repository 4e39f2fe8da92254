"""Sets: NaN, NumPy's options, both inputs' dtypes, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.exceptions import AxisError

import cukern as ck

NAN = np.asarray([[np.nan, 1.0, -0.0], [np.nan, 0.0, 1.0]])
SETS = ["union1d", "intersect1d", "setdiff1d", "setxor1d"]
values = st.lists(st.sampled_from([0.0, 1.0, -1.0, 2.5, np.inf, np.nan]), max_size=15)


def test_each_nan_is_distinct(device: ck.Device) -> None:
    x = ck.asarray(NAN)
    made = ck.unique_all(x)
    np.testing.assert_array_equal(made.values.numpy(), [0, 1, np.nan, np.nan])
    assert made.indices.tolist() == [2, 1, 0, 3]
    assert made.inverse_indices.tolist() == [[2, 1, 0], [3, 0, 1]]
    assert made.counts.tolist() == [2, 2, 1, 1]
    assert ck.unique_values(x).shape == (4,)
    assert ck.unique_counts(x).counts.tolist() == [2, 2, 1, 1]
    assert ck.unique_inverse(x).inverse_indices.tolist() == [[2, 1, 0], [3, 0, 1]]
    assert type(made)._fields == ("values", "indices", "inverse_indices", "counts")


@given(values, st.booleans(), st.sampled_from(["float16", "float32", "float64"]))
def test_unique_as_numpy(xs: list[float], equal_nan: bool, dtype: str) -> None:
    a = np.asarray(xs, dtype)
    made = ck.unique(ck.asarray(a), True, True, True, equal_nan=equal_nan)
    for one, want in zip(made, np.unique(a, True, True, True, equal_nan=equal_nan), strict=True):
        assert one.shape == want.shape
        np.testing.assert_array_equal(one.numpy(), want)


def test_unique_of_many(device: ck.Device) -> None:
    a = np.random.default_rng(0).integers(0, 3000, (70, 1000))
    for one, want in zip(ck.unique(ck.asarray(a), 1, 1, 1), np.unique(a, 1, 1, 1), strict=True):
        np.testing.assert_array_equal(one.numpy(), want)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=3).map(tuple), st.data())
def test_unique_along_axes(shape: tuple[int, ...], data: st.DataObject) -> None:
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    a = np.random.default_rng(data.draw(st.integers(0, 99))).integers(0, 2, shape)
    assume(len(shape) == 1 or shape[axis])  # NumPy refuses some of these
    made = ck.unique(ck.asarray(a), True, True, True, axis)
    for one, want in zip(made, np.unique(a, True, True, True, axis), strict=True):
        assert one.shape == want.shape
        np.testing.assert_array_equal(one.numpy(), want)


@pytest.mark.parametrize("name", SETS)
@given(first=values, second=values)
def test_two_sets(name: str, first: list[float], second: list[float]) -> None:
    a, b = np.asarray(first), np.asarray(second, "float32")
    made = getattr(ck, name)(ck.asarray(a), ck.asarray(b))
    want = getattr(np, name)(a, b)
    assert made.dtype == want.dtype
    np.testing.assert_array_equal(made.numpy(), want)


@given(values, values, st.booleans())
def test_isin(first: list[float], second: list[float], invert: bool) -> None:
    a, b = np.asarray(first), np.asarray(second)
    made = ck.isin(ck.asarray(a), ck.asarray(b), invert=invert)
    assert made.dtype == ck.bool_
    np.testing.assert_array_equal(made.numpy(), np.isin(a, b, invert=invert))


def test_unique_inputs(device: ck.Device) -> None:
    a, b = np.asarray([[5, 1], [3, 9]]), np.asarray([9, 2, 5])
    x, y = ck.asarray(a), ck.asarray(b)
    for name in SETS[1:]:
        want = getattr(np, name)(a, b, assume_unique=True)
        assert getattr(ck, name)(x, y, assume_unique=True).tolist() == want.tolist(), name
    for unique in (False, True):
        want = np.intersect1d(a, b, assume_unique=unique, return_indices=True)
        made = ck.intersect1d(x, y, unique, True)
        assert [one.tolist() for one in made] == [one.tolist() for one in want]


def test_operands(device: ck.Device) -> None:
    x = ck.asarray([1, 2, 3])
    assert ck.isin(x, 2).tolist() == [False, True, False]
    assert ck.isin(x, [3, 7]).tolist() == [False, False, True]
    assert ck.isin(2, x).item() is True
    assert ck.isin(x, np.asarray([1.0, 2.5])).tolist() == [True, False, False]
    assert ck.union1d(x, range(5)).tolist() == [0, 1, 2, 3, 4]
    assert ck.isin(ck.asarray([True, False]), ck.asarray([True])).tolist() == [True, False]


def test_refusals(device: ck.Device) -> None:
    x: Any = [1, 2]
    assert not ck.isin(1, 2)
    with pytest.raises(TypeError, match="unique_all"):
        ck.unique_all("12")
    with pytest.raises(AxisError, match="unique: axis 1"):
        ck.unique(ck.asarray(x), axis=1)
    with pytest.raises(TypeError, match="union1d"):
        ck.union1d(ck.asarray(x), "abc")


def test_differences_keep_the_dtype_of_the_first(device: ck.Device) -> None:
    a, b = np.asarray([2**53 + 1, 5, 5], "int64"), np.asarray([5], "uint64")
    for unique in (False, True):
        made = ck.setdiff1d(ck.asarray(a), ck.asarray(b), assume_unique=unique)
        assert made.dtype == ck.int64 and made.tolist() == [2**53 + 1]
    assert ck.setdiff1d(ck.asarray([1, 2, 3]), ck.asarray([2.0])).dtype == ck.int64
    assert ck.setdiff1d(np.asarray([1, 2], "int8"), ck.asarray([2])).dtype == ck.int8


def test_nan_along_the_only_axis_are_one(device: ck.Device) -> None:
    a = np.asarray([np.nan, 1, np.nan])
    for equal_nan in (False, True):
        want = np.unique(a, True, True, True, axis=-1, equal_nan=equal_nan)
        made = ck.unique(ck.asarray(a), True, True, True, axis=-1, equal_nan=equal_nan)
        for one, other in zip(made, want, strict=True):
            np.testing.assert_array_equal(one.numpy(), other)
