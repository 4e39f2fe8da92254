"""Gamma, beta, Bessel and zeta functions: exact values from SciPy far and wide, special values, derivatives."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import cukern as ck
from cukern.testing import assert_close, gradcheck

RNG = np.random.default_rng(0)
WIDE = RNG.uniform(-20, 60, 500)
P, Q = np.exp(RNG.uniform(-5, 8, (2, 500)))
SHARE = RNG.uniform(0, 1, 500)
#: Arguments, and the relative error that is allowed where results are above 1e-280.
EXACT: dict[str, tuple[tuple[Any, ...], float]] = {
    "gamma": ((RNG.uniform(-20, 30, 500),), 1e-14),
    "beta": ((P, Q), 2e-11),
    "betaln": ((P, Q), 1e-10),
    "gammainc": ((P, P * RNG.uniform(0.3, 3, 500)), 2e-11),
    "gammaincc": ((P, P * RNG.uniform(0.3, 3, 500)), 2e-11),
    "betainc": ((P / 50, Q / 50, SHARE), 2e-11),
    "zeta": ((1 + P, Q), 1e-13),
    "logit": ((SHARE,), 1e-12),
    "erfcinv": ((2 * SHARE,), 1e-11),
    "i0": ((WIDE,), 1e-14),
    "i1": ((WIDE,), 1e-14),
    "i0e": ((WIDE,), 1e-14),
    "i1e": ((WIDE,), 1e-14),
}


@pytest.mark.parametrize("name", EXACT)
def test_values_far_and_wide(device: ck.Device, name: str) -> None:
    scipy = pytest.importorskip("scipy.special")
    arguments, rtol = EXACT[name]
    want = getattr(scipy, name)(*arguments)
    got = getattr(ck, name)(*map(ck.asarray, arguments)).numpy()
    np.testing.assert_allclose(got, want, rtol=rtol, atol=1e-280)


@pytest.mark.parametrize("name", ["j0", "j1", "y0", "y1"])
def test_oscillating_values(device: ck.Device, name: str) -> None:
    scipy = pytest.importorskip("scipy.special")
    x = np.abs(WIDE)
    # CUDA's guide to its functions: beyond 8 an absolute error of 5e-12.
    assert_close(getattr(ck, name)(ck.asarray(x)), getattr(scipy, name)(x), rtol=0, atol=5e-12)


@pytest.mark.parametrize("name", ["j0", "j1"])
def test_values_of_many_are_those_of_each(device: ck.Device, name: str) -> None:
    """The host computes many small arguments at once, and those beside a large one with care."""
    scipy = pytest.importorskip("scipy.special")
    x = RNG.uniform(-8, 8, 500).astype(np.float32)
    x[[130, 300, 301, 302, 499]] = 8.5, 9, np.inf, np.nan, 30
    function, given = getattr(ck, name), ck.asarray(x)
    made = function(given).numpy()
    np.testing.assert_array_equal(made, [function(given[k]).item() for k in range(x.size)])
    near = np.isfinite(x)
    assert_close(made[near], getattr(scipy, name)(x[near].astype(np.float64)), rtol=1e-6, atol=1e-11)


SPECIAL: dict[str, tuple[list[Any], list[float]]] = {
    "gamma": ([0.0, -0.0, -1.0, np.inf, np.nan, 172.0], [np.inf, -np.inf, np.nan, np.inf, np.nan, np.inf]),
    "beta": ([(0.0, 1.0), (1.0, 2.0), (1e10, 2.0), (np.nan, 1.0)], [np.inf, 0.5, 1e-20, np.nan]),
    "gammainc": (
        [
            (0.0, 1.0),
            (1.0, 0.0),
            (0.0, 0.0),
            (1.0, np.inf),
            (np.inf, 1.0),
            (-1.0, 1.0),
            (1.0, -1.0),
            (1.0, np.nan),
        ],
        [1.0, 0.0, 1.0, 1.0, 0.0, np.nan, np.nan, np.nan],
    ),
    "gammaincc": ([(0.0, 1.0), (1.0, 0.0), (1.0, np.inf), (np.inf, 1.0)], [0.0, 1.0, 0.0, 1.0]),
    "betainc": (
        [(1.0, 1.0, 0.0), (1.0, 1.0, 1.0), (2.0, 3.0, 2.0), (-1.0, 1.0, 0.5)],
        [0.0, 1.0, np.nan, np.nan],
    ),
    "zeta": (
        [
            (1.0, 1.0),
            (0.5, 1.0),
            (2.0, 0.0),
            (2.0, -1.0),
            (2.0, -0.5),
            (2.5, -0.5),
            (np.inf, 1.0),
            (2.0, np.inf),
        ],
        [np.inf, np.nan, np.inf, np.inf, math.pi**2 / 2 + 4, np.nan, 1.0, 0.0],
    ),
    "logit": ([0.0, 1.0, 0.5, 2.0], [-np.inf, np.inf, 0.0, np.nan]),
    "erfcinv": ([0.0, 2.0, 1.0, 3.0], [np.inf, -np.inf, 0.0, np.nan]),
    "i0": ([0.0, np.inf, -800.0, np.nan], [1.0, np.inf, np.inf, np.nan]),
    "i1e": ([0.0, np.inf, -np.inf, np.nan], [0.0, 0.0, 0.0, np.nan]),
    "y0": ([0.0, -1.0, np.nan], [-np.inf, np.nan, np.nan]),
    "j1": ([0.0, np.nan], [0.0, np.nan]),
    "digamma": ([-1e-20, -1e-9, 5e-324, np.inf], [1e20, 1e9 - 0.5772156649015329, -np.inf, np.inf]),
}

#: Zeros of Bessel functions below 11.
ZEROS = {
    "j0": [2.404825557695773, 5.520078110286311, 8.653727912911013],
    "j1": [3.831705970207512, 7.015586669815619, 10.173468135062722],
    "y0": [0.8935769662791675, 3.957678419314858, 7.086051060301773],
    "y1": [2.197141326031017, 5.429681040794135, 8.596005868331168],
}


@pytest.mark.parametrize("name", ["i0", "i1", "i0e", "i1e", *ZEROS])
def test_bessel_functions_of_float32_have_all_its_digits(device: ck.Device, name: str) -> None:
    x = np.concatenate([RNG.uniform(0, 11, 2000), np.exp(RNG.uniform(-9, 4, 500))]).astype("f4")
    beside = np.asarray(ZEROS.get(name, [8.0]), "f4")
    x = np.concatenate([x, beside, np.nextafter(beside, np.float32(99)), np.nextafter(beside, np.float32(0))])
    exact = getattr(ck, name)(ck.asarray(x.astype("f8"))).numpy()
    made = getattr(ck, name)(ck.asarray(x)).numpy()
    ulps = abs(made - exact) / np.spacing(abs(exact).astype("f4"))
    assert ulps.max() < 0.6


def test_gamma_and_zeta_functions_of_float32_have_all_its_digits(device: ck.Device) -> None:
    """Their series end where those of float64 go on, but not beside the root of digamma."""
    x = np.concatenate(
        [RNG.uniform(0, 9, 500), np.linspace(1.44, 1.48, 501), RNG.uniform(-9, 0, 200)]
    ).astype("f4")
    order = RNG.uniform(1.01, 30, x.size).astype("f4")
    q = 0.5 + abs(x)
    for function, given in (
        (ck.digamma, (x,)),
        (lambda x: ck.polygamma(1, x), (x,)),
        (ck.zeta, (order, q)),
    ):
        exact = function(*(ck.asarray(one.astype("f8")) for one in given)).numpy()
        made = function(*map(ck.asarray, given)).numpy()
        assert (abs(made - exact) / np.spacing(abs(exact).astype("f4"))).max() < 0.6


def test_logit_has_its_digits_where_it_is_small(device: ck.Device) -> None:
    x = np.concatenate(
        [RNG.uniform(0, 1, 2000), RNG.uniform(0.49, 0.51, 2000), np.exp(RNG.uniform(-80, 0, 500))]
    )
    x = x.astype("f4")
    x = x[x < 1]
    wide = x.astype("f8")
    near = np.where(abs(wide - 0.5) < 0.1, wide, 0.5)
    exact = np.where(near == wide, np.log1p((2 * near - 1) / (1 - near)), np.log(wide) - np.log1p(-wide))
    made = ck.logit(ck.asarray(x)).numpy()
    assert (abs(made - exact) / np.spacing(abs(exact).astype("f4"))).max() < 1.6


def test_erfcinv_has_its_digits_beside_1(device: ck.Device) -> None:
    scipy = pytest.importorskip("scipy.special")
    rng = np.random.default_rng(0)
    far = np.concatenate([rng.uniform(0, 0.6, 200), 10 ** rng.uniform(-15, -1, 200)])
    x = 1 + far * rng.choice([-1, 1], 400)
    made = ck.erfcinv(ck.asarray(x, device=device)).numpy()
    np.testing.assert_allclose(made, scipy.erfinv(1 - x), rtol=2e-15)


@pytest.mark.parametrize("name", SPECIAL)
def test_special_values(device: ck.Device, name: str) -> None:
    arguments, want = SPECIAL[name]
    columns = np.array([one if isinstance(one, tuple) else (one,) for one in arguments]).T
    got = getattr(ck, name)(*map(ck.asarray, columns)).numpy()
    np.testing.assert_allclose(got, want, rtol=1e-9)


def test_incomplete_functions_have_slopes_in_all_arguments(device: ck.Device) -> None:
    a, b = ck.asarray(np.array([0.4, 2.0, 7.5, 30.0])), ck.asarray(np.array([3.0, 0.5, 9.0, 12.0]))
    x = ck.asarray(np.array([0.3, 4.0, 6.0, 40.0]))
    share = ck.asarray(np.array([0.05, 0.9, 0.4, 0.8]))
    for function in (ck.gammainc, ck.gammaincc):
        assert gradcheck(function, [a, x])
        assert gradcheck(lambda x, function=function: function(a, x), [x], order=2)
    assert gradcheck(ck.betainc, [a, b, share])
    assert gradcheck(lambda share: ck.betainc(a, b, share), [share], order=2)
    assert gradcheck(lambda q: ck.zeta(a + 1, q), [x], order=2)
    by_a = ck.grad(lambda a: ck.grad(lambda a: ck.gammainc(a, 2.0).sum())(a).sum())(a)
    assert np.isnan(by_a.numpy()).all()


def test_bessel_functions_are_smooth_at_0(device: ck.Device) -> None:
    x = ck.asarray(np.array([0.0, 1e-3, -0.7, 5.0]))
    for function in (ck.j0, ck.j1, ck.i0, ck.i1):
        assert gradcheck(function, [x], order=2)


def test_multigammaln(device: ck.Device) -> None:
    scipy = pytest.importorskip("scipy.special")
    a = np.array([3.5, 10.0])
    for d in (1, 2, 4):
        assert_close(ck.multigammaln(ck.asarray(a), d), scipy.multigammaln(a, d), rtol=1e-13)
    assert gradcheck(lambda a: ck.multigammaln(a, 3), [ck.asarray(a)], order=2)
    assert np.isnan(ck.multigammaln(ck.asarray(1.0), 3).item())
    with pytest.raises(ValueError, match="multigammaln: d"):
        ck.multigammaln(ck.asarray(1.0), 0)


def test_zeta_is_riemanns_by_default(device: ck.Device) -> None:
    assert_close(
        ck.zeta(ck.asarray(np.array([2.0, 4.0]))), np.array([math.pi**2 / 6, math.pi**4 / 90]), rtol=1e-14
    )


def test_zeta_of_large_arguments(device: ck.Device) -> None:
    s, q = np.array([2.0, 2.0, 3.0, 1e200, 1e308]), np.array([1e160, 1e200, 1e100, 200.0, 1e308])
    np.testing.assert_allclose(ck.zeta(ck.asarray(s), ck.asarray(q)).numpy(), [1e-160, 1e-200, 5e-201, 0, 0])


def test_digamma_has_its_digits_beside_its_largest_roots(device: ck.Device) -> None:
    """The other roots lose digits in SciPy, too."""
    scipy = pytest.importorskip("scipy.special")
    far = np.concatenate([[0.0], 10.0 ** np.arange(-15, 0), -(10.0 ** np.arange(-15, 0))])
    for root in (-0.504083008264455409, 1.46163214496836234):
        x = root + far
        got = ck.digamma(ck.asarray(x, device=device)).numpy()
        np.testing.assert_allclose(got, scipy.digamma(x), rtol=5e-15)


def test_zeta_of_float32_where_its_largest_terms_cancel(device: ck.Device) -> None:
    scipy = pytest.importorskip("scipy.special")
    s, q = np.float32([67, 67, 5, 3]), np.float32([-0.5, -1.5, -2.5, -0.25])
    got = ck.zeta(ck.asarray(s, device=device), ck.asarray(q, device=device)).numpy()
    np.testing.assert_allclose(got, scipy.zeta(s.astype(float), q.astype(float)), rtol=1e-6)
