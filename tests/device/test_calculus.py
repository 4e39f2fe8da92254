"""Differences, gradients, sums of neighbours and interpolation: edges, refusals, launch shapes, derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.exceptions import AxisError

import cukern as ck
from cukern.index.search import interpolated
from cukern.ops.calculus import Shape, shape_for, sliding
from cukern.testing import assert_close, gradcheck


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape)


# ----- differences -----


def test_differences(device: ck.Device) -> None:
    a = drawn(3, 5)
    x = ck.asarray(a)
    for n in range(7):
        for axis in (0, 1, -1):
            got, want = ck.diff(x, n=n, axis=axis), np.diff(a, n=n, axis=axis)
            assert got.shape == want.shape
            assert_close(got, want, rtol=1e-12)
    ends = drawn(3, 2)
    assert_close(ck.diff(x, prepend=ck.asarray(ends), append=0), np.diff(a, prepend=ends, append=0))
    assert_close(ck.diff(x, 2, 0), np.diff(a, 2, 0))
    whole = ck.diff(ck.asarray([1, 3]), prepend=0.5)
    assert whole.tolist() == [0.5, 2.0]
    flags = np.asarray([True, False, False])
    np.testing.assert_array_equal(ck.diff(ck.asarray(flags)).numpy(), np.diff(flags))
    small = np.asarray([1, 0, 3], np.uint8)
    np.testing.assert_array_equal(ck.diff(ck.asarray(small)).numpy(), np.diff(small))


@pytest.mark.parametrize("n", [True, 1.5, "1", None])
def test_differences_are_taken_a_whole_number_of_times(n: Any) -> None:
    with pytest.raises(TypeError, match=f"^diff: n: expected an int, got {n!r}$"):
        ck.diff(ck.asarray([1.0, 2.0]), n=n)
    with pytest.raises(ValueError, match="^diff: n: expected at least 0, got -1$"):
        ck.diff(ck.asarray([1.0, 2.0]), n=-1)


def test_differences_of_equal_ends(device: ck.Device) -> None:
    """An array before or behind itself is still an operand of its own."""
    a = drawn(4)
    x = ck.asarray(a)
    assert_close(ck.diff(x, prepend=x, append=x), np.diff(a, prepend=a, append=a))
    assert gradcheck(lambda x, e: ck.diff(x, n=2, prepend=e, append=x), [x, ck.asarray(drawn(2))], order=2)


def test_difference_refusals(device: ck.Device) -> None:
    x = ck.ones((2, 3))
    with pytest.raises(ValueError, match="n: expected at least 0"):
        ck.diff(x, n=-1)
    with pytest.raises(AxisError):
        ck.diff(x, axis=2)
    with pytest.raises(AxisError):
        ck.diff(ck.asarray(1.0))
    with pytest.raises(ValueError, match="shape|size|axis"):
        ck.diff(x, prepend=ck.ones((3, 1)))
    with pytest.raises(TypeError, match="to_end"):
        ck.ediff1d(ck.asarray([1, 2]), to_end=0.5)


def test_ends_of_flat_differences(device: ck.Device) -> None:
    a = np.asarray([[1, 2], [4, 7]])
    got = ck.ediff1d(ck.asarray(a), to_begin=-99, to_end=[88, 99])
    np.testing.assert_array_equal(got.numpy(), np.ediff1d(a, to_begin=-99, to_end=[88, 99]))
    assert ck.ediff1d(ck.ones((1,))).shape == (0,)


# ----- gradients -----


@pytest.mark.parametrize("order", [1, 2])
def test_gradients(device: ck.Device, order: int) -> None:
    a, points = drawn(4, 5), np.asarray([0.0, 0.5, 2.0, 2.25, 3.0])
    x, at = ck.asarray(a), ck.asarray(points)
    for got, want in zip(ck.gradient(x, edge_order=order), np.gradient(a, edge_order=order), strict=True):
        assert_close(got, want, rtol=1e-12)
    for spacing, own in ((2.0, 2.0), (at, points)):
        got = ck.gradient(x, spacing, axis=1, edge_order=order)
        assert_close(got, np.gradient(a, own, axis=1, edge_order=order), rtol=1e-11)
    assert gradcheck(lambda x, at: ck.gradient(x, at, axis=1, edge_order=order), [x, at], order=2)


def test_gradient_forms(device: ck.Device) -> None:
    a = drawn(2, 3)
    x = ck.asarray(a)
    got = ck.gradient(x, 0.5, ck.asarray([0.0, 1.0, 3.0]), axis=(0, 1))
    for one, want in zip(got, np.gradient(a, 0.5, [0.0, 1.0, 3.0], axis=(0, 1)), strict=True):
        assert_close(one, want, rtol=1e-6)
    assert ck.gradient(ck.asarray([1, 2, 4])).tolist() == [1.0, 1.5, 2.0]
    assert ck.gradient(ck.ones((4,), ck.float32)).dtype == ck.float32
    with pytest.raises(ValueError, match="too short"):
        ck.gradient(x, edge_order=2)
    with pytest.raises(ValueError, match="edge_order"):
        ck.gradient(x, edge_order=3)
    with pytest.raises(ValueError, match="coordinates"):
        ck.gradient(x, ck.ones((4,)), axis=1)
    with pytest.raises(TypeError, match="spacing"):
        ck.gradient(x, 1.0, 2.0, 3.0)


# ----- sums of neighbours -----

SHAPES = {
    "serial": Shape(1, 1, 7, 1 << 30),
    "together": Shape(1, 8, 50, 1 << 30),
    "parts": Shape(1, 4, 9, 13),
    "threads": Shape(64, 1, 1, 1 << 30),
    "thread parts": Shape(64, 1, 1, 13),
}


@pytest.mark.parametrize("name", SHAPES)
def test_launch_shapes(device: ck.Device, name: str) -> None:
    for n, m in ((200, 30), (40, 40), (60, 1)):
        a, k = drawn(n), np.random.default_rng(1).standard_normal(m)
        made = sliding(ck.asarray(a), ck.asarray(k), SHAPES[name])
        assert_close(made, np.correlate(a, k), rtol=1e-11, atol=1e-12)


def test_shapes_by_size() -> None:
    assert shape_for("simt", 5, 10**6).part == 1024
    assert shape_for("simt", 10**9, 10**6).part == 10**6
    assert shape_for("serial", 100, 50) == Shape(1, 32, 4096, 50)


@given(n=st.integers(1, 12), m=st.integers(1, 12), mode=st.sampled_from(["full", "same", "valid"]))
@settings(max_examples=60, deadline=None)
def test_any_sizes(n: int, m: int, mode: Any) -> None:
    a, v = np.arange(1, n + 1), np.arange(m) ** 2 - 5
    for name in ("convolve", "correlate"):
        got = getattr(ck, name)(ck.asarray(a), ck.asarray(v), mode)
        np.testing.assert_array_equal(got.numpy(), getattr(np, name)(a, v, mode))


@pytest.mark.parametrize("dtype", [ck.bool_, ck.int8, ck.uint16, ck.int32, ck.uint64, ck.float16])
def test_dtypes_of_sums(device: ck.Device, dtype: Any) -> None:
    a = np.random.default_rng(0).integers(0, 100, 50).astype(dtype)
    v = np.random.default_rng(1).integers(0, 100, 7).astype(dtype)
    got, want = ck.convolve(ck.asarray(a), ck.asarray(v)), np.convolve(a.astype(np.float64), v)
    assert got.dtype == dtype
    if dtype == ck.float16:
        assert_close(got, want, rtol=1e-3)
    else:
        np.testing.assert_array_equal(got.numpy(), np.convolve(a, v))


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_derivatives_of_sums(device: ck.Device, mode: Any) -> None:
    for n, m in ((7, 3), (3, 6), (5, 5)):
        operands = [ck.asarray(drawn(n)), ck.asarray(np.random.default_rng(1).standard_normal(m))]
        for f in (ck.convolve, ck.correlate):
            assert gradcheck(lambda a, v, f=f: f(a, v, mode), operands, order=2)


def test_long_sums_keep_their_digits(device: ck.Device) -> None:
    a = np.full(300_000, 0.1, np.float32)
    got = ck.correlate(ck.asarray(a), ck.ones((299_998,)))
    assert_close(got, np.full(3, 299_998 * np.float64(np.float32(0.1))), rtol=1e-6)


def test_sum_refusals(device: ck.Device) -> None:
    x = ck.ones((3,))
    for f, wrong in (
        (ck.convolve, ck.ones((2, 2))),
        (ck.convolve, ck.ones((0,))),
        (ck.correlate, ck.asarray(1.0)),
    ):
        with pytest.raises(ValueError, match="one axis, not empty"):
            f(x, wrong)
    assert ck.convolve(x, 2.0).tolist() == [2.0, 2.0, 2.0]  # as in NumPy
    with pytest.raises(ValueError, match="mode"):
        ck.correlate(x, x, "most")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="v: expected an array, a number or nested lists of them"):
        ck.convolve(x, "full")  # type: ignore[arg-type]


# ----- interpolation -----


@given(
    knots=st.lists(st.integers(-9, 9), min_size=1, max_size=8, unique=True).map(sorted),
    points=st.lists(st.floats(-12, 12), max_size=10),
)
@settings(max_examples=60, deadline=None)
def test_any_knots(knots: list[int], points: list[float]) -> None:
    xp, x = np.asarray(knots, np.float64), np.asarray(points, np.float64)
    fp = np.cos(xp)
    got = ck.interp(ck.asarray(x), ck.asarray(xp), ck.asarray(fp))
    assert_close(got, np.interp(x, xp, fp), rtol=1e-9, atol=1e-12)


def test_interpolation_forms(device: ck.Device) -> None:
    xp, fp = np.asarray([1.0, 2.0, 4.0]), np.asarray([3.0, np.inf, 0.0])
    x = np.asarray([0.0, 1.0, 2.0, 4.0, 5.0, np.nan, np.inf])
    points = ck.asarray(x), ck.asarray(xp), ck.asarray(fp)
    np.testing.assert_array_equal(ck.interp(*points).numpy(), np.interp(x, xp, fp))
    got = ck.interp(*points, left=-1.0, right=9.0)
    np.testing.assert_array_equal(got.numpy(), np.interp(x, xp, fp, -1.0, 9.0))
    assert ck.interp(1.5, ck.asarray(xp), ck.asarray([1, 2, 3])).item() == 1.5
    turn = np.asarray([-180.0, -170.0, 185.0, 170.0, 365.0])
    degrees, values = np.asarray([190.0, -190.0, 350.0, -350.0]), np.asarray([5.0, 10.0, 3.0, 4.0])
    got = ck.interp(ck.asarray(turn), ck.asarray(degrees), ck.asarray(values), period=360)
    assert_close(got, np.interp(turn, degrees, values, period=360), rtol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 60, 5000])
def test_interpolation_in_launch_shapes(device: ck.Device, n: int) -> None:
    knots, values = np.sort(drawn(n)), drawn(n)
    x = np.concatenate([drawn(600), knots[:9], [np.nan if n > 1 else 0, -np.inf, np.inf]])
    points = ck.asarray(x), ck.asarray(knots), ck.asarray(values)
    for block in (1, 64):
        got = interpolated(*points, None, 2.5, ck.float64, block)
        assert_close(got, np.interp(x, knots, values, None, 2.5), rtol=1e-9, atol=1e-12)


def test_interpolation_derivatives(device: ck.Device) -> None:
    xp = ck.asarray(np.asarray([0.0, 1.0, 3.0]))
    operands = [ck.asarray(np.asarray([-0.5, 0.3, 2.2, 3.5])), ck.asarray(drawn(3))]
    assert gradcheck(lambda x, fp: ck.interp(x, xp, fp), operands, order=2)
    assert gradcheck(lambda x, fp: ck.interp(x, xp, fp, period=3.7), operands, order=2)


def test_interpolation_refusals(device: ck.Device) -> None:
    x = ck.ones((3,))
    for xp, fp in ((x, ck.ones((2,))), (ck.ones((0,)), ck.ones((0,))), (ck.ones((1, 3)), x)):
        with pytest.raises(ValueError, match="xp, fp"):
            ck.interp(x, xp, fp)
    with pytest.raises(ValueError, match="period"):
        ck.interp(x, x, x, period=0)


def test_integrals(device: ck.Device) -> None:
    a = drawn(3, 5)
    y, points = ck.asarray(a), np.asarray([0.0, 0.5, 2.0, 2.25, 3.0])
    at = ck.asarray(points)
    assert_close(ck.trapezoid(y), np.trapezoid(a), rtol=1e-12)
    assert_close(ck.trapezoid(y, dx=0.1, axis=0), np.trapezoid(a, dx=0.1, axis=0), rtol=1e-12)
    assert_close(ck.trapezoid(y, at), np.trapezoid(a, points), rtol=1e-12)
    assert_close(ck.trapezoid(y, ck.asarray(np.sort(a, 0)), axis=0), np.trapezoid(a, np.sort(a, 0), axis=0))
    assert ck.trapezoid(ck.asarray([1, 2])).item() == 1.5
    assert gradcheck(lambda y, at: ck.trapezoid(y, at), [y, at], order=2)


def test_interpolation_beside_infinities(device: ck.Device) -> None:
    inf, nan = np.inf, np.nan
    x, knots = np.asarray([0.0, 0.5, 1.0, 1.5, 2.0]), np.asarray([0.0, 1.0, 2.0])
    for values in ([3.0, inf, 4.0], [inf, inf, 1.0], [-inf, 2.0, inf], [1.0, nan, 2.0], [inf, -inf, 0.0]):
        made = ck.interp(ck.asarray(x), ck.asarray(knots), ck.asarray(np.asarray(values)))
        np.testing.assert_array_equal(made.numpy(), np.interp(x, knots, values))


def test_gradients_have_the_dtype_of_the_samples(device: ck.Device) -> None:
    x = ck.asarray([1.0, 2.0, 4.0], dtype="float32")
    for points in ([0, 1, 3], np.asarray([0.0, 1.0, 3.0])):
        assert ck.gradient(x, points).dtype == ck.float32


def test_ends_must_fit_unsigned_integers(device: ck.Device) -> None:
    x = ck.asarray(np.asarray([1, 2, 4], "uint8"))
    assert ck.ediff1d(x, to_end=7).tolist() == [1, 2, 7]
    with pytest.raises(TypeError, match="to_end: expected what uint8 holds, got int64"):
        ck.ediff1d(x, to_end=np.asarray([300]))
    with pytest.raises(OverflowError):
        ck.ediff1d(x, to_end=300)
