"""Special functions against exact values, and the functions over rows that are no rows themselves."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import cukern as ck
from cukern.testing import assert_close, gradcheck

EULER = 0.5772156649015329


def test_digamma(device: ck.Device) -> None:
    x = ck.asarray(np.array([1.0, 2.0, 0.5, 10.0, -0.5, 1e10]))
    want = [
        -EULER,
        1 - EULER,
        -EULER - 2 * math.log(2),
        2.251752589066721,
        0.03648997397857652,
        math.log(1e10) - 5e-11,
    ]
    assert_close(ck.digamma(x), np.array(want), rtol=1e-13)
    special = ck.digamma(ck.asarray(np.array([0.0, -0.0, -1.0, np.inf, np.nan]))).numpy()
    np.testing.assert_array_equal(special, [-np.inf, np.inf, np.nan, np.inf, np.nan])
    narrow = ck.digamma(x.astype("float32"))
    assert narrow.dtype == ck.float32
    assert_close(narrow, np.array(want), rtol=1e-6, atol=1e-6)


def test_polygamma(device: ck.Device) -> None:
    zeta3 = 1.2020569031595942
    one = ck.asarray(np.array([1.0]))
    assert_close(ck.polygamma(0, one), np.array([-EULER]), rtol=1e-13)
    assert_close(ck.polygamma(1, one), np.array([math.pi**2 / 6]), rtol=1e-13)
    assert_close(ck.polygamma(2, one), np.array([-2 * zeta3]), rtol=1e-13)
    assert_close(ck.polygamma(3, one), np.array([math.pi**4 / 15]), rtol=1e-13)
    half = ck.asarray(np.array([-0.5]))
    assert_close(ck.polygamma(1, half), np.array([math.pi**2 / 2 + 4]), rtol=1e-12)
    assert gradcheck(lambda x: ck.polygamma(1, x), [ck.asarray(np.array([0.7, 3.0]))], order=2)
    for n in (-1, 1.5):
        with pytest.raises(ValueError, match="polygamma: n: expected an int of at least 0"):
            ck.polygamma(n, one)  # type: ignore[arg-type]


def test_erfc_and_gelu_keep_their_digits_where_they_are_small(device: ck.Device) -> None:
    x = np.concatenate([np.linspace(-11, 11, 20_001), np.linspace(-0.01, 0.01, 501)]).astype(np.float32)
    exact = np.array([math.erfc(value) for value in x.tolist()])
    smallest = float(np.finfo(np.float32).tiny)  # what is less, GPUs flush to 0
    assert_close(ck.erfc(ck.asarray(x)), exact, rtol=6e-7, atol=smallest)
    z = (x * np.float32(1.15)).astype(np.float64)
    exact = np.array([0.5 * value * math.erfc(-value / math.sqrt(2)) for value in z.tolist()])
    # The argument of erfc is rounded: its error grows with the derivative of the logarithm, z.
    gelu = ck.gelu(ck.asarray(z, dtype="float32")).numpy()
    assert np.all(np.abs(gelu - exact) <= (8e-7 + 1.2e-7 * z * z) * np.abs(exact) + 20 * smallest)
    ends = ck.erfc(ck.asarray(np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 3e38], np.float32)))
    np.testing.assert_array_equal(ends.numpy(), [0, 2, np.nan, 1, 1, 0])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_gelu_of_half_types_is_as_good_as_rounded(device: ck.Device, dtype: str) -> None:
    """At every number whose result is not subnormal; signs and infinities stay."""
    half = ck.dtypes.as_dtype(dtype)
    limits = ml_dtypes.finfo(half)
    infinity = int(np.array(np.inf, half).view(np.uint16))
    x = np.array([sign + size for sign in (0, 1 << 15) for size in range(infinity)], np.uint16).view(half)
    wide = x.astype(np.float64)
    exact = np.array([0.5 * value * math.erfc(-value / math.sqrt(2)) for value in wide.tolist()])
    normal = np.abs(exact) >= 4 * float(limits.smallest_normal)
    unit = np.exp2(np.floor(np.log2(np.abs(exact[normal])))) * float(limits.eps)
    made = ck.gelu(ck.asarray(x)).numpy().astype(np.float64)
    assert np.max(np.abs(made[normal] - exact[normal]) / unit) < 0.54
    ends = ck.gelu(ck.asarray(np.array([np.inf, np.nan, -np.inf, 0.0, -0.0], half))).numpy().astype(float)
    np.testing.assert_array_equal(ends, [np.inf, np.nan, 0, 0, 0])
    assert np.signbit(ends).tolist()[2:] == [True, False, True]


def test_sinc_is_smooth_at_0(device: ck.Device) -> None:
    second = ck.grad(ck.grad(ck.sinc))
    assert second(ck.asarray(np.float64(0.0))).item() == pytest.approx(-(math.pi**2) / 3, rel=1e-12)
    points = ck.asarray(np.array([0.0, 1e-3, 0.049, 0.051, 0.5, -1.3]))
    assert gradcheck(ck.sinc, [points], order=2)


def test_sinc_where_pi_times_x_overflows(device: ck.Device) -> None:
    largest = ck.sinc(ck.asarray(np.array([-2.7e38, 3.4e38, np.inf], np.float32)))
    np.testing.assert_array_equal(largest.numpy(), [0, 0, np.nan])
    slope = ck.grad(ck.sinc)(ck.asarray(np.float32(3e38)))
    assert abs(slope.item()) < 1e-38


@pytest.mark.parametrize("dtype", ck.dtypes.FLOATS, ids=lambda d: ck.dtypes.info(d).name)
def test_nan_to_num(device: ck.Device, dtype: Any) -> None:
    x = ck.asarray([1.0, math.nan, math.inf, -math.inf]).astype(dtype)
    limits = ck.finfo(dtype)
    assert ck.nan_to_num(x).tolist() == [1.0, 0.0, limits.max, limits.min]
    assert ck.nan_to_num(x, nan=2.0, posinf=3.0, neginf=-4.0).tolist() == [1.0, 2.0, 3.0, -4.0]
    assert math.isnan(x[1].item())
    assert ck.nan_to_num(ck.asarray([1, 2])).tolist() == [1, 2]


def test_isclose_and_allclose(device: ck.Device) -> None:
    a = ck.asarray([1.0, 1.0, math.inf, -math.inf, math.nan, 0.0])
    b = ck.asarray([1.0 + 1e-6, 1.1, math.inf, math.inf, math.nan, 1e-9])
    for equal_nan in (False, True):
        want = np.isclose(a.numpy(), b.numpy(), equal_nan=equal_nan)
        np.testing.assert_array_equal(ck.isclose(a, b, equal_nan=equal_nan).numpy(), want)
    assert ck.allclose(a[:1], b[:1]) is True
    assert ck.allclose(a, b) is False
    assert ck.allclose(ck.asarray([3, 4]), 3) is False
    assert ck.isclose(ck.asarray([0], dtype="uint8"), ck.asarray([255], dtype="uint8")).tolist() == [False]


def test_array_equal_and_equiv(device: ck.Device) -> None:
    x = ck.asarray([[1.0, math.nan]])
    assert ck.array_equal(x, x) is False
    assert ck.array_equal(x, x, equal_nan=True) is True
    assert ck.array_equal(x[:, :1], [[1.0]]) is True
    assert ck.array_equal(x, ck.zeros(3)) is False
    assert ck.array_equiv(ck.ones((2, 3)), ck.ones(3)) is True
    assert ck.array_equiv(ck.ones((2, 3)), ck.ones(2)) is False


def test_xlogy_at_0(device: ck.Device) -> None:
    x, y = ck.asarray([0.0, 0.0, 0.0, 2.0]), ck.asarray([0.0, -1.0, math.inf, 3.0])
    assert ck.xlogy(x, y).tolist()[:3] == [0.0, 0.0, 0.0]
    assert math.isnan(ck.xlogy(0.0, ck.asarray(math.nan)).item())
    assert gradcheck(ck.xlogy, [ck.asarray(np.array([0.5, 2.0])), ck.asarray(np.array([0.3, 3.0]))], order=2)


def test_bits_and_signs(device: ck.Device) -> None:
    x = ck.asarray([0.0, -0.0, -1.0, math.inf])
    assert ck.signbit(x).tolist() == [False, True, True, False]
    assert np.signbit(ck.copysign(x, -1.0).numpy()).all()
    assert ck.nextafter(ck.asarray(1.0), math.inf).item() == 1 + 2**-23
    with pytest.raises(TypeError, match="nextafter: expected float32 or float64, got float16"):
        ck.nextafter(ck.ones(1, "float16"), 2.0)
    assert ck.gcd(ck.asarray([12, -18, 0]), 8).tolist() == [4, 2, 8]
    assert ck.lcm(ck.asarray([4, -6, 0]), 10).tolist() == [20, 30, 0]


def test_floor_division_of_infinities_follows_the_standard(device: ck.Device) -> None:
    x = ck.asarray([math.inf, -math.inf, 5.0, -5.0, 0.0])
    assert ck.floor_divide(x, 2.0).tolist()[:2] == [math.inf, -math.inf]
    made = ck.floor_divide(x[2:], ck.asarray([-math.inf, math.inf, 1.0])).numpy()
    np.testing.assert_array_equal(made, [-0.0, -0.0, 0.0])
    assert np.signbit(made).tolist() == [True, True, False]


def test_round_to_decimals(device: ck.Device) -> None:
    a = np.array([1.2345, -2.5, 1234.5, 0.05])
    for decimals in (0, 1, 2, -2):
        assert_close(ck.round(ck.asarray(a), decimals), np.round(a, decimals))
    assert (
        ck.round(ck.asarray([15, 25, 1234]), -1).tolist() == np.round(np.array([15, 25, 1234]), -1).tolist()
    )


@pytest.mark.parametrize("decimals", [309, 10**400, -309, -400])
def test_rounding_to_powers_beyond_float64(device: ck.Device, decimals: int) -> None:
    """NumPy's values are NaN; integers, of which it makes the smallest one, are rounded to 0."""
    for dtype in ("float16", "float32", "float64", "complex64"):
        assert ck.isnan(ck.round(ck.asarray(np.array([1.5, -2.5, 0.0, np.inf], dtype)), decimals)).all()
    assert math.isnan(ck.round(1.5, decimals).item())
    for whole in ("int64", "uint8"):
        made = ck.round(ck.asarray(np.array([15, 25], whole)), decimals)
        assert made.dtype == whole and made.tolist() == ([15, 25] if decimals > 0 else [0, 0])


def test_integers_are_rounded_in_float64(device: ck.Device) -> None:
    x = np.array([123456789, -(10**9) - 5])
    np.testing.assert_array_equal(ck.round(ck.asarray(x), -1).numpy(), np.round(x, -1))
    np.testing.assert_array_equal(ck.fuse(lambda a: ck.round(a, -1))(ck.asarray(x)).numpy(), np.round(x, -1))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_signs_of_every_float(device: ck.Device, dtype: Any) -> None:
    x = ck.asarray([1.0, -1.0, 0.0, -0.0, math.inf, -math.inf, math.nan] * 9).astype(dtype)
    assert ck.signbit(x).tolist() == [False, True, False, True, False, True, False] * 9
    if device.kind == "host" or x.itemsize > 2:  # a GPU has one NaN of each half type
        assert ck.signbit(ck.copysign(ck.full_like(x, math.nan), -1.0)).all()


def test_isclose_of_numbers(device: ck.Device) -> None:
    assert ck.isclose(ck.asarray([1, 2]), True).tolist() == [True, False]
    assert ck.isclose(1.0, 1.0 + 1e-9).item() is True
    assert ck.allclose(1, 2) is False


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("function", [ck.gelu, ck.gelu_tanh, ck.silu])
def test_gelu_or_silu_of_infinity_is_its_limit(device: ck.Device, function: Any, dtype: str) -> None:
    x = ck.asarray(np.array([-np.inf, np.inf, np.nan])).astype(dtype)
    y, pull = ck.vjp(function, x)
    made, slope = (one.astype("float64").numpy() for one in (y, pull(ck.ones_like(y))[0]))
    np.testing.assert_array_equal(made, [0, np.inf, np.nan])
    assert np.signbit(made[0])
    np.testing.assert_array_equal(slope, [0, 1, np.nan])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_spacing(device: ck.Device, dtype: Any) -> None:
    limits = np.finfo(dtype)
    ends = [limits.max / 4, np.inf, -np.inf, np.nan]
    if device.kind == "host" or dtype == np.float64:  # a GPU's float32 has no numbers below the normal ones
        ends += [0.0, -0.0, limits.smallest_subnormal, limits.tiny]
    x = np.array([1.0, -1.0, -3.0, 0.1, *ends], dtype)
    with np.errstate(invalid="ignore"):
        want = np.spacing(x)
    np.testing.assert_array_equal(ck.spacing(ck.asarray(x)).numpy(), want)
