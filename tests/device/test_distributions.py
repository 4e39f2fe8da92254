"""Distributions drawn by rejection: their distribution functions, derivatives, refusals, and the shared generator."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import cukern as ck
from cukern.testing import assert_close, gradcheck

N = 10_000


def distance(x: ck.Array, cdf: Any) -> float:
    """Kolmogorov and Smirnov's, times the root of the number: its 1e-6 quantile is 2.69."""
    values = np.sort(x.numpy().astype(np.float64))
    steps = np.arange(len(values) + 1) / len(values)
    want = cdf(values)
    return float(
        max(np.abs(want - steps[1:]).max(), np.abs(want - steps[:-1]).max()) * math.sqrt(len(values))
    )


def test_continuous_distributions(device: ck.Device) -> None:
    stats = pytest.importorskip("scipy.stats")
    rng = ck.random.default_rng(5)
    for shape in (0.01, 0.5, 2.5, 1e4):
        drawn = rng.gamma(shape, 2.0, N, dtype="float64")
        assert distance(drawn, lambda x, shape=shape: stats.gamma.cdf(x, shape, scale=2)) < 2.69
    for a, b in ((0.5, 0.5), (2, 3), (100, 1)):
        drawn = rng.beta(a, b, N, dtype="float64")
        assert distance(drawn, lambda x, a=a, b=b: stats.beta.cdf(x, a, b)) < 2.69
    drawn = rng.standard_t(3.5, N, dtype="float64")
    assert distance(drawn, lambda x: stats.t.cdf(x, 3.5)) < 2.69
    assert rng.gamma(ck.asarray([1.0, 2.0]), dtype="float16").dtype == ck.float16


def chi_square(x: ck.Array, law: Any) -> tuple[float, int]:
    """Pearson's statistic of counts in cells, and its degrees of freedom."""
    low, high = law.ppf(1e-3), law.ppf(1 - 1e-3)
    edges = np.unique(np.floor(np.linspace(low, high, min(40, int(high - low) + 2))))
    want = np.diff(np.concatenate([[0], law.cdf(edges), [1]])) * x.size
    have = np.bincount(np.searchsorted(edges, x.numpy()), minlength=len(want))
    kept = want > 5
    return float(((have - want)[kept] ** 2 / want[kept]).sum()), int(kept.sum()) - 1


def test_counts(device: ck.Device) -> None:
    stats = pytest.importorskip("scipy.stats")
    rng = ck.random.default_rng(6)
    drawn = [(rng.poisson(lam, N), stats.poisson(lam)) for lam in (0.1, 3, 9.99, 10.01, 1e6)]
    drawn += [
        (rng.binomial(n, p, N), stats.binom(n, p))
        for n, p in ((10, 0.3), (50, 0.5), (1000, 0.003), (40, 0.9), (10**6, 0.4))
    ]
    for x, law in drawn:
        assert x.dtype == ck.int64
        chi2, k = chi_square(x, law)
        # Wilson and Hilferty's approximation of the 1 - 1e-6 quantile.
        assert chi2 < k * (1 - 2 / (9 * k) + 4.75 * math.sqrt(2 / (9 * k))) ** 3


def test_ends_of_parameters(device: ck.Device) -> None:
    rng = ck.random.default_rng(0)
    assert rng.poisson(ck.asarray([0.0, -1.0, np.nan])).tolist() == [0, -1, -1]
    assert rng.binomial(ck.asarray([5, 5, -1, 0]), ck.asarray([0.0, 1.0, 0.5, 0.5])).tolist() == [0, 5, -1, 0]
    assert np.isnan(rng.gamma(ck.asarray([-1.0])).numpy()).all()
    assert rng.gamma(0.0, size=2).tolist() == [0.0, 0.0]
    assert rng.poisson(3.0, (2, 0)).shape == (2, 0) and rng.poisson(3.0).shape == ()


def test_multinomial(device: ck.Device) -> None:
    rng = ck.random.default_rng(1)
    p = np.array([0.1, 0.2, 0.0, 0.7])
    x = rng.multinomial(20, p, 4000).numpy()
    assert x.shape == (4000, 4) and (x.sum(1) == 20).all() and (x[:, 2] == 0).all()
    np.testing.assert_allclose(x.mean(0), 20 * p, atol=0.15)
    np.testing.assert_allclose(np.cov(x[:, 0], x[:, 1])[0, 1], -20 * 0.02, atol=0.15)
    assert rng.multinomial(ck.asarray([3, 0]), ck.asarray([1.0])).tolist() == [[3], [0]]


def test_multivariate_normal(device: ck.Device) -> None:
    mean, cov = np.array([1.0, -1.0]), np.array([[2.0, 0.5], [0.5, 1.0]])
    for method in ("cholesky", "eigh"):
        x = ck.random.default_rng(2).multivariate_normal(mean, cov, N, dtype="float64", method=method).numpy()
        np.testing.assert_allclose(x.mean(0), mean, atol=0.06)
        np.testing.assert_allclose(np.cov(x.T), cov, atol=0.1)
    flat = (
        ck.random.default_rng(2).multivariate_normal(mean, np.ones((2, 2)), 5, method="eigh").numpy() - mean
    )
    np.testing.assert_allclose(flat[:, 0], flat[:, 1], atol=1e-6)
    draw = lambda m, c: ck.random.default_rng(3).multivariate_normal(m, c + c.T, dtype="float64")  # noqa: E731
    assert gradcheck(draw, [ck.asarray(mean), ck.asarray(cov)], order=2)


def test_derivatives_keep_the_probability_to_be_below(device: ck.Device) -> None:
    special = pytest.importorskip("scipy.special")
    a = np.array([0.05, 0.5, 2.0, 40.0])
    shape = ck.asarray(a)
    with ck.Tape() as tape:
        tape.watch(shape)
        z = ck.random.default_rng(3).gamma(shape, dtype="float64")
    slope = tape.gradient(z, shape).numpy()
    below, h = special.gammainc(a, z.numpy()), 1e-5 * a
    want = (special.gammaincinv(a + h, below) - special.gammaincinv(a - h, below)) / (2 * h)
    np.testing.assert_allclose(slope, want, rtol=1e-5)
    mean = ck.grad(lambda a: ck.random.default_rng(4).beta(a, 3.0, size=N, dtype="float64").mean())
    assert_close(mean(ck.asarray(np.float64(2.0))), np.float64(3 / 25), rtol=0, atol=0.01)


def test_draws_are_the_same_in_pieces_and_one_by_one(device: ck.Device) -> None:
    whole = ck.random.default_rng(7)
    parts = ck.random.default_rng(7)
    want = whole.poisson(20.0, 300).tolist()
    assert parts.poisson(20.0, 100).tolist() + parts.poisson(ck.full(200, 20.0)).tolist() == want


def test_the_shared_generator(device: ck.Device) -> None:
    ck.random.seed(3)
    first = [ck.random.normal(size=2).tolist(), ck.random.poisson(4.0, 3).tolist()]
    ck.random.seed(3)
    assert [ck.random.normal(size=2).tolist(), ck.random.poisson(4.0, 3).tolist()] == first
    ck.random.seed()
    assert ck.random.random(4).tolist() != ck.random.random(4).tolist()
    assert ck.random.uniform(size=2).device is device


@pytest.mark.parametrize(
    "call, error, said",
    [
        (lambda rng: rng.gamma(-1.0), ValueError, "gamma: shape: expected a number from 0"),
        (lambda rng: rng.gamma(1.0, float("nan")), ValueError, "gamma: scale"),
        (lambda rng: rng.beta(1.0, -1.0), ValueError, "beta: b"),
        (lambda rng: rng.poisson(-1.0), ValueError, "poisson: lam"),
        (lambda rng: rng.binomial(3, 1.5), ValueError, "binomial: p"),
        (lambda rng: rng.multinomial(3, []), ValueError, "at least one outcome"),
        (lambda rng: rng.multivariate_normal([0.0], np.eye(2)), ValueError, r"a mean \(..., n\)"),
        (lambda rng: rng.multivariate_normal([0.0], np.eye(1), method="qr"), ValueError, "method"),
        (lambda rng: rng.gamma(1.0, dtype="int32"), TypeError, "floating dtype"),
        (lambda rng: rng.poisson(ck.ones((2, 3)), 3), ValueError, "do not broadcast to size"),
    ],
)
def test_refusals(device: ck.Device, call: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        call(ck.random.default_rng(0))
