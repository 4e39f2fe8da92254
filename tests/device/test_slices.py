"""Slices and windows, choices by conditions, diagonals written, joined ranges, counts on grids."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cukern as ck
from cukern.testing import assert_close, gradcheck

X = np.random.default_rng(0).normal(size=(3, 4, 5))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_functions_along_an_axis(device: ck.Device, axis: int) -> None:
    x = ck.asarray(X)
    for ours, theirs in (
        (lambda v: v[:2] * v[1], lambda v: v[:2] * v[1]),
        (lambda v: v.max(), lambda v: v.max()),
        (lambda v: ck.outer(v, v), lambda v: np.outer(v, v)),
        (lambda v: 2, lambda v: 2),
    ):
        assert_close(ck.apply_along_axis(ours, axis, x), np.apply_along_axis(theirs, axis, X))
    assert gradcheck(lambda x: ck.apply_along_axis(lambda v: v * v[0], axis, x), [x[:2, :2, :2]], order=2)
    with pytest.raises(ValueError, match="no vector"):
        ck.apply_along_axis(lambda v: v, 0, ck.zeros((3, 0)))


def test_select(device: ck.Device) -> None:
    x, y = ck.asarray(X[0]), ck.asarray(X[1])
    got = ck.select([x > 0.5, y > 0], [x, y * 2], -1)
    assert_close(got, np.select([X[0] > 0.5, X[1] > 0], [X[0], X[1] * 2], -1))
    assert ck.select([ck.asarray([True, False])], [ck.asarray([1, 2])], 9).tolist() == [1, 9]
    assert gradcheck(
        lambda x, y, d: ck.select([x > 0.5, y > 0], [x, y], d), [x, y, ck.asarray(np.float64(3))], order=2
    )
    with pytest.raises(TypeError, match=r"condlist\[0\]: expected bool"):
        ck.select([x], [x])
    with pytest.raises(ValueError, match="1 conditions and 2 choices"):
        ck.select([x > 0], [x, y])


@pytest.mark.parametrize("shape", [(3, 3), (5, 3), (3, 5), (8, 2), (3, 3, 3)], ids=str)
@pytest.mark.parametrize("wrap", [False, True])
@pytest.mark.parametrize("val", [7, [1, 2]])
def test_diagonals_are_filled(device: ck.Device, shape: tuple[int, ...], wrap: bool, val: Any) -> None:
    want, got = np.zeros(shape), ck.zeros(shape)
    np.fill_diagonal(want, val, wrap)
    ck.fill_diagonal(got, ck.asarray(val), wrap)
    assert got.tolist() == want.tolist()
    with pytest.raises(ValueError, match="two axes"):
        ck.fill_diagonal(ck.zeros(3), 1)
    with pytest.raises(ValueError, match="val: expected at least one element"):
        ck.fill_diagonal(got, [], wrap)


@pytest.mark.parametrize(
    ("window", "axis"), [((2, 2, 3), None), (3, 1), ((2, 2), (2, 2)), ((2, 1), (-1, 0)), ((), ())]
)
def test_windows(device: ck.Device, window: Any, axis: Any) -> None:
    x = ck.asarray(X)
    want = np.lib.stride_tricks.sliding_window_view(X, window, axis)
    got = ck.sliding_window_view(x, window, axis)
    assert got.shape == want.shape
    np.testing.assert_array_equal(got.numpy(), want)
    assert gradcheck(lambda x: ck.sliding_window_view(x, window, axis) ** 2, [x], order=2)


def test_windows_are_views_that_are_not_written(device: ck.Device) -> None:
    x = ck.zeros(4)
    windows = ck.sliding_window_view(x, 2)
    x[1] = 3.0
    assert windows.tolist() == [[0, 3], [3, 0], [0, 0]]
    with pytest.raises(ValueError, match="repeated view"):
        windows[0, 1] = 1.0
    with pytest.raises(ValueError, match="repeated view"):
        windows += 1.0
    for arguments in ((5,), (2, 1), ((2, 2),)):
        with pytest.raises(ValueError, match="out of bounds|does not fit|a size for each"):
            ck.sliding_window_view(x, *arguments)


def test_joined_ranges(device: ck.Device) -> None:
    x = ck.asarray([5, 6])
    assert ck.r_[1:4, 0, x].tolist() == [1, 2, 3, 0, 5, 6]
    assert ck.r_[0:1:5j].tolist() == np.r_[0:1:5j].tolist()
    assert ck.c_[x, x * 2].tolist() == [[5, 10], [6, 12]]
    matrix = ck.zeros((2, 2))
    assert ck.c_[matrix, x].shape == (2, 3) and ck.r_[matrix, matrix].shape == (4, 2)
    with pytest.raises(NotImplementedError, match="no class of matrices"):
        ck.r_["c", x]
    assert ck.grad(lambda x: (ck.r_[x, x] ** 2).sum())(ck.asarray([1.0, 2.0])).tolist() == [4.0, 8.0]


def test_counts_on_a_grid(device: ck.Device) -> None:
    x, y, w = np.random.default_rng(1).normal(size=(3, 60))
    for options in (
        {},
        {"bins": (3, [-1.0, 0.0, 0.5, 1.0])},
        {"bins": 4, "range": [[-1, 1], [0, 2]], "density": True},
        {"bins": 3, "weights": w},
    ):
        want = np.histogram2d(x, y, **options)
        ours = {name: ck.asarray(one) if name == "weights" else one for name, one in options.items()}
        for got, expected in zip(ck.histogram2d(ck.asarray(x), ck.asarray(y), **ours), want, strict=True):
            assert_close(got, expected, rtol=1e-12, atol=1e-12)
    edges = np.array([0.0, 1.0, 2.0])  # the last one is part of the last cell
    assert ck.histogram2d(ck.asarray(edges), ck.asarray(edges), 2)[0].tolist() == [[1.0, 0.0], [0.0, 2.0]]
    a, b = ck.asarray(x), ck.asarray(y)
    assert gradcheck(lambda w: ck.histogram2d(a, b, 3, weights=w)[0], [ck.asarray(w)], order=2)


def test_weighted_quantiles(device: ck.Device) -> None:
    weights = np.random.default_rng(2).integers(0, 4, 5) + np.array([0, 1, 0, 0, 0])
    for q in (0.3, [0.0, 0.5, 1.0]):
        want = np.quantile(X, q, axis=-1, method="inverted_cdf", weights=weights)
        got = ck.quantile(ck.asarray(X), q, axis=-1, method="inverted_cdf", weights=ck.asarray(weights))
        assert_close(got, want)
    full = np.abs(X) + 0.1
    got = ck.percentile(ck.asarray(X), 40, axis=(0, 2), method="inverted_cdf", weights=ck.asarray(full))
    assert_close(got, np.percentile(X, 40, axis=(0, 2), method="inverted_cdf", weights=full))
    with pytest.raises(ValueError, match="expected 'inverted_cdf' with weights"):
        ck.quantile(ck.asarray(X), 0.5, weights=ck.asarray(full))
    with pytest.raises(ValueError, match="weights: expected shape"):
        ck.quantile(ck.asarray(X), 0.5, axis=0, method="inverted_cdf", weights=ck.ones(2))
