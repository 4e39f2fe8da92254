"""Distributions drawn by rejection: their distribution functions, derivatives, refusals, and the shared generator."""

from __future__ import annotations

import math
import zlib
from typing import Any

import numpy as np
import pytest

import cukern as ck
from cukern.autodiff import tape as tape_module
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


#: Arguments of methods, and the law in scipy.stats with its arguments.
LAWS: dict[str, tuple[tuple[Any, ...], str, tuple[Any, ...]]] = {
    "chisquare": ((3.0,), "chi2", (3.0,)),
    "f": ((4.0, 6.0), "f", (4.0, 6.0)),
    "laplace": ((1.0, 2.0), "laplace", (1.0, 2.0)),
    "logistic": ((1.0, 2.0), "logistic", (1.0, 2.0)),
    "lognormal": ((0.5, 0.7), "lognorm", (0.7, 0.0, math.exp(0.5))),
    "noncentral_chisquare": ((2.5, 3.0), "ncx2", (2.5, 3.0)),
    "noncentral_f": ((4.0, 6.0, 2.0), "ncf", (4.0, 6.0, 2.0)),
    "pareto": ((2.5,), "lomax", (2.5,)),
    "power": ((2.5,), "powerlaw", (2.5,)),
    "rayleigh": ((2.0,), "rayleigh", (0.0, 2.0)),
    "standard_cauchy": ((), "cauchy", ()),
    "standard_gamma": ((2.5,), "gamma", (2.5,)),
    "triangular": ((1.0, 2.0, 4.0), "triang", (1 / 3, 1.0, 3.0)),
    "vonmises": ((0.5, 2.0), "vonmises", (2.0, 0.5)),
    "wald": ((2.0, 3.0), "invgauss", (2 / 3, 0.0, 3.0)),
    "weibull": ((1.5,), "weibull_min", (1.5,)),
    "geometric": ((0.2,), "geom", (0.2,)),
    "hypergeometric": ((60, 40, 30), "hypergeom", (100, 60, 30)),
    "logseries": ((0.8,), "logser", (0.8,)),
    "negative_binomial": ((4.5, 0.3), "nbinom", (4.5, 0.3)),
    "zipf": ((2.5,), "zipf", (2.5,)),
}


@pytest.mark.parametrize("name", LAWS)
def test_laws(device: ck.Device, name: str) -> None:
    stats = pytest.importorskip("scipy.stats")
    args, law, parameters = LAWS[name]
    fixed = getattr(stats, law)(*parameters)
    rng = ck.random.default_rng(7)
    drawn = getattr(rng, name)(*args, size=N)
    if drawn.dtype == ck.int64:
        chi2, k = chi_square(drawn, fixed)
        assert chi2 < k * (1 - 2 / (9 * k) + 4.75 * math.sqrt(2 / (9 * k))) ** 3
    else:
        assert drawn.dtype == ck.float32
        low = 0.5 - math.pi if name == "vonmises" else -math.inf  # scipy's law is on a circle around mu
        cdf = lambda x: fixed.cdf(np.where(x < low, x + 2 * math.pi, x))  # noqa: E731
        wrapped = np.where(drawn.numpy() < low, drawn.numpy() + 2 * math.pi, drawn.numpy())
        assert distance(ck.asarray(wrapped), cdf) < 2.69


def test_hypergeometric_in_every_branch(device: ck.Device) -> None:
    stats = pytest.importorskip("scipy.stats")
    rng = ck.random.default_rng(8)
    for good, bad, sample in ((8, 30, 5), (30, 8, 35), (300, 500, 700), (500, 300, 100)):
        chi2, k = chi_square(
            rng.hypergeometric(good, bad, sample, N), stats.hypergeom(good + bad, good, sample)
        )
        assert chi2 < k * (1 - 2 / (9 * k) + 4.75 * math.sqrt(2 / (9 * k))) ** 3
    assert rng.hypergeometric(ck.asarray([5, 0, 5]), 5, ck.asarray([10, 5, 0])).tolist() == [5, 0, 0]


def test_zipf_of_large_exponents(device: ck.Device) -> None:
    """Twos are rare, and still as many as the law has: within 5 of their deviations."""
    stats = pytest.importorskip("scipy.stats")
    rng, n = ck.random.default_rng(5), 400_000
    for a in (9.0, 11.0, 12.5):
        drawn = rng.zipf(a, n).numpy()
        for k in (2, 3):
            share = stats.zipf(a).pmf(k)
            assert abs((drawn == k).sum() - n * share) <= 5 * math.sqrt(n * share) + 1
    assert rng.zipf(1000.0, 4).tolist() == [1] * 4


def test_parameters_without_a_derivative_are_refused_under_a_tape(device: ck.Device) -> None:
    rng, x = ck.random.default_rng(0), ck.asarray([1.0])
    draws: dict[str, Any] = {
        "mean": lambda: rng.wald(x, 2.0),
        "scale": lambda: rng.wald(2.0, x),
        "mu": lambda: rng.vonmises(x, 1.0),
        "kappa": lambda: rng.vonmises(1.0, x),
        "nonc": lambda: rng.noncentral_chisquare(2.0, x),
        r"noncentral_f: .*nonc": lambda: rng.noncentral_f(2.0, 3.0, x),
    }
    for name, draw in draws.items():
        draw()
        with ck.Tape() as active:
            active.watch(x)
            with pytest.raises(ck.GradientError, match=name):
                draw()


def test_dirichlet(device: ck.Device) -> None:
    alpha = np.array([0.5, 2.0, 3.5])
    x = ck.random.default_rng(9).dirichlet(alpha, N).numpy().astype(np.float64)
    np.testing.assert_allclose(x.sum(1), 1, rtol=1e-6)
    np.testing.assert_allclose(x.mean(0), alpha / 6, atol=0.01)
    np.testing.assert_allclose(x.var(0), alpha / 6 * (1 - alpha / 6) / 7, atol=0.002)


def test_ends_of_more_parameters(device: ck.Device) -> None:
    rng = ck.random.default_rng(0)
    bad = ck.asarray([np.nan if device.addressable else -1.0, np.nan])
    for name in ("pareto", "power", "rayleigh", "weibull", "chisquare"):
        assert np.isnan(getattr(rng, name)(bad).numpy()).all(), name
        with pytest.raises(ValueError, match=name):
            getattr(rng, name)(-1.0)
    for name in ("normal", "laplace", "lognormal", "gamma"):
        assert np.isnan(getattr(rng, name)(1.0, bad).numpy()).all(), name
    assert np.isnan(rng.exponential(bad).numpy()).all()
    assert np.isnan(rng.noncentral_chisquare(bad, 50.0).numpy()).all()
    for name in ("geometric", "logseries", "zipf"):
        assert getattr(rng, name)(bad).tolist() == [-1, -1], name
    assert rng.geometric(ck.asarray(np.array([1.0, 1e-300]))).tolist() == [1, 2**63 - 1]
    assert rng.zipf(2000.0, 3).tolist() == [1, 1, 1] and (rng.zipf(1.0001, 100) >= 1).all()
    assert rng.logseries(0.0, 2).tolist() == [1, 1]
    assert rng.weibull(0.0, 2).tolist() == [0.0, 0.0]
    assert abs(rng.vonmises(3.0, 1e9, 50).numpy() - 3).max() < 1e-3
    assert abs(rng.vonmises(3.0, ck.asarray([0.0, 1e-7, 1e-3])).numpy()).max() <= np.pi
    with pytest.raises(ValueError, match="nsample"):
        rng.hypergeometric(3, 4, 8)
    with pytest.raises(ValueError, match="left <= mode"):
        rng.triangular(2, 1, 3)
    with pytest.raises(TypeError, match="integer dtype"):
        rng.geometric(0.5, 3, "float32")


def test_derivatives_of_laws(device: ck.Device) -> None:
    a, b = ck.asarray([1.5, 2.5]), ck.asarray([0.3, 0.7])
    for name in ("laplace", "logistic", "lognormal", "pareto", "power", "rayleigh", "weibull"):
        x = [a.astype("float64"), b.astype("float64")][
            : 1 if name in ("pareto", "power", "rayleigh", "weibull") else 2
        ]
        draw = lambda *x, name=name: getattr(ck.random.default_rng(3), name)(*x, dtype="float64")  # noqa: E731
        assert gradcheck(draw, x, order=2)
    ends = [ck.asarray(np.array([one])) for one in (1.0, 2.0, 4.0)]
    assert gradcheck(lambda *x: ck.random.default_rng(3).triangular(*x, size=5, dtype="float64"), ends)


def test_random_state(device: ck.Device) -> None:
    state = ck.random.RandomState(5)
    first = state.rand(2, 3)
    assert first.shape == (2, 3) and state.randn(4, dtype="float64").dtype == ck.float64
    saved = state.get_state()
    drawn = state.random_sample(3).tolist()
    state.set_state(saved)
    assert state.random_sample(3).tolist() == drawn
    state.seed(5)
    assert state.rand(2, 3).tolist() == first.tolist()
    assert (
        state.randint(-1.9, 2.9, 100).numpy().min() == -1
        and state.random_integers(3, size=200).max().item() == 3
    )
    low, high = ck.asarray([[-5], [1]]), [3, 1000]
    x = state.randint(low, high, dtype="int32").numpy()
    assert x.dtype == np.int32 and ((x >= low.numpy()) & (x < np.array(high))).all()
    assert isinstance(state.bytes(5), bytes) and len(state.bytes(5)) == 5 and state.tomaxint(2).shape == (2,)
    ck.random.seed(3)
    one = [
        ck.random.rand(2).tolist(),
        ck.random.randint(5, size=3).tolist(),
        ck.random.laplace(size=2).tolist(),
    ]
    ck.random.seed(3)
    assert [
        ck.random.rand(2).tolist(),
        ck.random.randint(5, size=3).tolist(),
        ck.random.laplace(size=2).tolist(),
    ] == one
    with pytest.raises(TypeError, match="RandomState: seed"):
        ck.random.RandomState("a")


def test_ends_of_parameters(device: ck.Device) -> None:
    rng = ck.random.default_rng(0)
    assert rng.poisson(ck.asarray([0.0, np.nan])).tolist() == [0, -1]
    assert rng.binomial(ck.asarray([5, 5, 0]), ck.asarray([0.0, 1.0, 0.5])).tolist() == [0, 5, 0]
    assert rng.gamma(0.0, size=2).tolist() == [0.0, 0.0]
    assert rng.poisson(3.0, (2, 0)).shape == (2, 0) and rng.poisson(3.0).shape == ()


OUT_OF_RANGE = {
    "poisson: lam": (lambda rng, x: rng.poisson(x), -1),
    "binomial: n": (lambda rng, x: rng.binomial(x, 0.5), -1),
    "gamma: shape": (lambda rng, x: rng.gamma(x), math.nan),
    "normal: scale": (lambda rng, x: rng.normal(0.0, x), math.nan),
    "weibull: a": (lambda rng, x: rng.weibull(x), math.nan),
    "hypergeometric: nsample": (lambda rng, x: rng.hypergeometric(2, 2, x + 6), -1),
    "triangular": (lambda rng, x: rng.triangular(0.0, x, 4.0), math.nan),
    "multinomial: pvals": (lambda rng, x: rng.multinomial(3, x), None),
    "integers": (lambda rng, x: rng.integers(0, x), None),
}


@pytest.mark.parametrize("name", OUT_OF_RANGE)
def test_elements_out_of_range(device: ck.Device, name: str) -> None:
    drawn, told = OUT_OF_RANGE[name]
    rng, x = ck.random.default_rng(0), ck.asarray([1.0, -1.0])
    x = x.astype("int64") if name == "integers" else x
    if device.addressable:
        with pytest.raises(ValueError, match=name):
            drawn(rng, x)
    elif told is not None:
        np.testing.assert_equal(drawn(rng, x).numpy()[1], told)


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


@pytest.mark.parametrize(
    "name, args",
    [
        ("gamma", (2.5, 1.5)),
        ("gamma", (0.3, 2.0)),
        ("gamma", (math.inf,)),
        ("gamma", (0.0,)),
        ("beta", (0.5, 3.0)),
        ("beta", (1e35, 2e35)),
        ("f", (1.0, 5.0)),
        ("noncentral_f", (3.0, 5.0, 1.0)),
        ("dirichlet", ([1.0, 2.0, 0.2],)),
    ],
)
def test_draws_of_many_begin_with_those_of_few(device: ck.Device, name: str, args: Any) -> None:
    """The host makes the first attempts of many at once, and of few one after the other."""
    many, few = (getattr(ck.random.default_rng(9), name)(*args, size=n) for n in (1000, 20))
    np.testing.assert_array_equal(many.numpy()[:20], few.numpy())


def test_draws_of_many_parameters_begin_with_those_of_few(device: ck.Device) -> None:
    a = np.tile([0.3, 1.5, 0.0, math.inf, math.nan], 200)
    many, few = (ck.random.default_rng(9).gamma(ck.asarray(a[:n])) for n in (1000, 20))
    np.testing.assert_array_equal(many.numpy()[:20], few.numpy())


@pytest.mark.parametrize(
    "name, args, checksum",
    [
        ("gamma", (2.5, 1.5), 3904178932),
        ("gamma", (1e4,), 2615732326),
        ("beta", (2.0, 3.0), 2984163608),
        ("f", (3.0, 5.0), 819891290),
    ],
)
def test_rejections_have_the_same_bits_on_every_device(
    device: ck.Device, name: str, args: Any, checksum: int
) -> None:
    """Whether a try is rejected does not hang on the last bit of a device's logarithm."""
    drawn = getattr(ck.random.default_rng(12), name)(*args, size=200_000).numpy()
    assert zlib.crc32(drawn.tobytes()) == checksum


def test_a_large_scale_counts_where_the_variate_of_scale_one_vanishes(device: ck.Device) -> None:
    """Of shape 0.01 a third is below all floats, but a fifth below 1e-38 / 1e30."""
    drawn = ck.random.default_rng(0).gamma(0.01, 1e30, N, dtype="float32").numpy()
    assert np.mean(drawn == 0) < 0.23


TRACKED = {
    "gamma": lambda rng, a, dtype: rng.gamma(a, 2.0 * a, dtype=dtype),
    "beta": lambda rng, a, dtype: rng.beta(a, 2.0, dtype=dtype),
    "chisquare": lambda rng, a, dtype: rng.chisquare(a, dtype=dtype),
    "f": lambda rng, a, dtype: rng.f(a, 2 * a, dtype=dtype),
    "noncentral_chisquare": lambda rng, a, dtype: rng.noncentral_chisquare(a, 3.0, dtype=dtype),
    "noncentral_f": lambda rng, a, dtype: rng.noncentral_f(a, 2 * a, 3.0, dtype=dtype),
    "standard_t": lambda rng, a, dtype: rng.standard_t(a, dtype=dtype),
}


def recording(patch: pytest.MonkeyPatch) -> list[Any]:
    """Inputs and outputs of what tapes record from now on."""
    made, record = [], tape_module.record

    def recorded(name: str, inputs: Any, outputs: Any, *args: Any, **options: Any) -> None:
        made.append((inputs, outputs))
        record(name, inputs, outputs, *args, **options)

    patch.setattr(tape_module, "record", recorded)
    return made


@pytest.mark.parametrize("name", TRACKED)
def test_a_tape_changes_no_variate_and_gets_those_of_the_same_words(device: ck.Device, name: str) -> None:
    """The derivative of what a tape records is that of the variates, which another kernel draws."""
    a = ck.asarray(np.repeat([0.2, 1.5, 20.0], 100))
    for dtype, digits in (("float32", 2e-5), ("float64", 1e-12)):
        want = TRACKED[name](ck.random.default_rng(4), a, dtype)
        with pytest.MonkeyPatch.context() as patch, ck.Tape() as tape:
            recorded = recording(patch)
            tape.watch(a)
            got = TRACKED[name](ck.random.default_rng(4), a, dtype)
        assert got.tolist() == want.tolist()
        (same,) = next(inputs for inputs, outputs in recorded if outputs[0] is got)
        assert_close(same, want, rtol=digits, atol=0)
        assert np.isfinite(tape.gradient(got, a).numpy()).all()


def test_replays_draw_the_next_variates_of_laws_and_their_derivatives(device: ck.Device) -> None:
    """What a tape records is drawn from the same words, whose place is in memory then."""
    results = []
    for wrap in (lambda step: step, ck.capture):
        rng = ck.random.default_rng(3)

        def step(a: ck.Array, rng: Any = rng) -> Any:
            with ck.Tape() as tape:
                tape.watch(a)
                made = (rng.gamma(a) * rng.beta(a, 2.0) + rng.noncentral_f(a, 3.0, 1.0)).sum()
            return made, tape.gradient(made, a)

        call = wrap(step)
        results.append([[one.tolist() for one in call(ck.asarray([0.5, 2.0, 9.0]))] for _ in range(3)])
    assert results[0] == results[1] and len({one[0] for one in results[0]}) == 3


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
        (lambda rng: rng.gamma([1.0, -1.0]), ValueError, "gamma: shape: expected numbers from 0"),
        (lambda rng: rng.poisson(np.array([2.0, np.nan])), ValueError, "poisson: lam: expected numbers"),
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
