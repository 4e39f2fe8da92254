"""Order statistics, histograms and covariances: methods, edges, refusals, launch shapes, derivatives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.exceptions import AxisError

import cukern as ck
from cukern.ops.histogram import Shape, counted, shape_for
from cukern.ops.statistics import _METHODS
from cukern.testing import assert_close, gradcheck

QUANTILES = [0.0, 1e-3, 0.1, 0.25, 0.5, 0.61, 0.75, 1.0]


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape)


def gradient(f: Callable[[ck.Array], ck.Array], x: ck.Array) -> ck.Array:
    with ck.Tape() as tape:
        tape.watch(x)
        y = ck.sum(f(x))
    return tape.gradient(y, x)


# ----- quantiles -----


@pytest.fixture
def in_float64() -> Iterator[None]:
    """Integers give float64, as NumPy's do."""
    with ck.default_dtype(ck.float64):
        yield


@pytest.mark.usefixtures("in_float64")
@pytest.mark.parametrize("method", _METHODS)
def test_methods(device: ck.Device, method: str) -> None:
    for n in (1, 2, 5, 8):
        for a in (drawn(3, n), np.random.default_rng(1).integers(0, 4, (3, n))):
            got = ck.quantile(ck.asarray(a), QUANTILES, axis=1, method=method)
            want = np.quantile(a, QUANTILES, axis=1, method=method)
            assert got.shape == want.shape and got.dtype == want.dtype
            assert_close(got, want, rtol=1e-12, atol=1e-12)


@given(shape=st.lists(st.integers(1, 4), min_size=1, max_size=4), data=st.data(), keepdims=st.booleans())
@settings(max_examples=40, deadline=None)
def test_any_axes(shape: list[int], data: Any, keepdims: bool) -> None:
    axes = st.lists(st.integers(0, len(shape) - 1), min_size=1, unique=True).map(tuple)
    axis = data.draw(st.none() | st.integers(-len(shape), len(shape) - 1) | axes)
    a = drawn(*shape)
    x = ck.asarray(a)
    for q in (0.3, [0.3, 0.9], [[0.3], [0.9]]):
        got = ck.quantile(x, q, axis=axis, keepdims=keepdims)
        want = np.quantile(a, q, axis=axis, keepdims=keepdims)
        assert got.shape == want.shape
        assert_close(got, want, rtol=1e-12)
    got, want = ck.median(x, axis=axis, keepdims=keepdims), np.median(a, axis=axis, keepdims=keepdims)
    assert got.shape == np.shape(want)
    assert_close(got, want, rtol=1e-12)


def test_quantiles_given_as_arrays(device: ck.Device) -> None:
    a, q = drawn(5, 4).astype(np.float32), np.asarray([0.2, 0.7])
    got = ck.quantile(ck.asarray(a), ck.asarray(q), axis=0)
    assert got.dtype == ck.float64
    assert_close(got, np.quantile(a.astype(np.float64), q, axis=0), rtol=1e-6)
    assert ck.quantile(ck.asarray(a), q.astype(np.float32)).dtype == ck.float32
    for one in (q, np.float64(0.7)):
        assert ck.quantile(ck.asarray(a), one).dtype == np.quantile(a, one).dtype == ck.float64
    assert ck.percentile(ck.asarray(a), 30).dtype == ck.float32


def test_nan_spreads(device: ck.Device) -> None:
    a = np.asarray([[1.0, np.nan, 3.0], [1.0, 2.0, 5.0]])
    x = ck.asarray(a)
    np.testing.assert_array_equal(ck.median(x, 1).numpy(), [np.nan, 2.0])
    np.testing.assert_array_equal(
        ck.quantile(x, [0.0, 0.5], axis=1).numpy(), np.quantile(a, [0.0, 0.5], axis=1)
    )
    np.testing.assert_array_equal(ck.nanmedian(x, 1).numpy(), [2.0, 2.0])
    for values in (
        [1, 2, complex(0, np.nan), 3],
        [np.nan + 0j, 1j, 2],
        [complex(np.nan, 1), complex(1, np.nan), 5],
    ):
        got = ck.median(ck.asarray(np.asarray(values))).item()
        want = np.median(values)
        np.testing.assert_array_equal([got.real, got.imag], [want.real, want.imag])  # type: ignore[union-attr]
    empty = ck.asarray(np.asarray([[np.nan, np.nan], [np.nan, 4.0]]))
    np.testing.assert_array_equal(ck.nanmedian(empty, 1).numpy(), [np.nan, 4.0])
    np.testing.assert_array_equal(ck.nanquantile(empty, [0.0, 1.0], axis=1).numpy(), [[np.nan, 4.0]] * 2)


def test_the_gradient_by_the_share_where_an_element_is_hit(device: ck.Device) -> None:
    """It is the distance to the next element, and 0 at the last."""
    x, q = ck.asarray(np.asarray([3.0, 5.0, 8.0])), ck.asarray(np.asarray([0.0, 0.25, 0.5, 1.0]))
    made, slopes = ck.value_and_grad(lambda q: ck.quantile(x, q).sum())(q)
    assert made.item() == 3 + 4 + 5 + 8
    assert slopes.tolist() == [4, 4, 6, 0]


def test_infinities(device: ck.Device) -> None:
    x = ck.asarray(np.asarray([1.0, 2.0, np.inf]))
    assert ck.quantile(x, [0.0, 0.5, 0.75, 1.0]).tolist() == [1.0, 2.0, np.inf, np.inf]
    assert ck.median(x).item() == 2.0
    assert ck.median(ck.asarray(np.asarray([1.0, np.inf]))).item() == np.inf
    large = ck.full((2,), 3e38)
    assert ck.median(large).item() == large[0].item()


def test_nothing_to_sort(device: ck.Device) -> None:
    assert np.isnan(ck.median(ck.ones((0,))).item())
    assert np.isnan(ck.nanmedian(ck.ones((0, 2)), 0).numpy()).all()
    assert ck.median(ck.ones((0, 2)), 1).shape == (0,)
    assert ck.quantile(ck.ones((0, 3)), [0.5, 0.2], axis=1).shape == (2, 0)
    assert ck.nanquantile(ck.ones((0, 3)), [0.5, 0.2], axis=0).shape == (2, 3)
    with pytest.raises(IndexError, match="no elements"):
        ck.quantile(ck.ones((0,)), 0.5)


def test_quantile_refusals(device: ck.Device) -> None:
    x = ck.ones((2, 3))
    for q in (1.5, [-0.1, 0.5], float("nan")):
        with pytest.raises(ValueError, match="from 0 to 1"):
            ck.quantile(x, q)
    with pytest.raises(ValueError, match="from 0 to 100"):
        ck.percentile(x, 101)
    with pytest.raises(ValueError, match="two axes"):
        ck.quantile(x, [[[0.5]]])
    with pytest.raises(ValueError, match="'guess'"):
        ck.quantile(x, 0.5, method="guess")
    with pytest.raises(TypeError, match="bool"):
        ck.quantile(x > 0, 0.5)
    assert ck.quantile(x > 0, 0.5, method="lower").dtype == ck.bool_
    with pytest.raises(AxisError):
        ck.median(x, 2)
    with pytest.raises(ValueError, match="twice"):
        ck.median(x, (0, 0))
    with pytest.raises(
        TypeError, match="median: x: expected an array, a number or nested lists of them, got str"
    ):
        ck.median("1.0")  # type: ignore[arg-type]


def test_derivatives_go_to_the_elements_picked(device: ck.Device) -> None:
    x = ck.asarray(np.asarray([3.0, 1.0, 10.0, 2.0]))
    assert gradient(ck.median, x).tolist() == [0.5, 0.0, 0.0, 0.5]
    assert gradient(lambda x: ck.quantile(x, 0.25), x).tolist() == [0.0, 0.25, 0.0, 0.75]
    assert gradient(lambda x: ck.quantile(x, 0.9, method="lower"), x).tolist() == [1.0, 0.0, 0.0, 0.0]
    assert gradient(lambda x: ck.nanmedian(x), x[:3]).tolist() == [1.0, 0.0, 0.0]


def test_derivatives_skip_nan(device: ck.Device) -> None:
    x = ck.asarray(np.asarray([3.0, np.nan, 10.0, 2.0]))
    assert gradient(ck.nanmedian, x).tolist() == [1.0, 0.0, 0.0, 0.0]
    assert gradient(lambda x: ck.nanquantile(x, 0.75), x).tolist() == [0.5, 0.0, 0.5, 0.0]


def test_derivative_by_the_quantile(device: ck.Device) -> None:
    x, q = ck.asarray(drawn(6)), ck.asarray(np.asarray([0.13, 0.47]))
    assert gradcheck(lambda x, q: ck.quantile(x, q), [x, q], order=2)
    assert gradcheck(lambda q: ck.percentile(x, 100 * q, method="hazen"), [q], order=1)


# ----- covariances -----


def test_weights_of_observations(device: ck.Device) -> None:
    a, f, w = drawn(3, 7), np.arange(7) % 3, np.linspace(0.5, 2, 7)
    x = ck.asarray(a)
    for options in (
        {"fweights": f},
        {"aweights": w},
        {"fweights": f, "aweights": w, "ddof": 2},
        {"fweights": f, "aweights": w, "ddof": 0},
    ):
        given = {k: ck.asarray(v) if isinstance(v, np.ndarray) else v for k, v in options.items()}
        assert_close(ck.cov(x, **given), np.cov(a, **options), rtol=1e-12)  # type: ignore[arg-type]
    assert gradcheck(lambda x, w: ck.cov(x, aweights=w), [x, ck.asarray(w)], order=2)


def test_covariance_forms(device: ck.Device) -> None:
    a, b = drawn(3, 7), drawn(2, 7)
    x, y = ck.asarray(a), ck.asarray(b)
    assert_close(ck.cov(x, y), np.cov(a, b), rtol=1e-12)
    assert_close(ck.cov(x.T, y.T, rowvar=False), np.cov(a.T, b.T, rowvar=False), rtol=1e-12)
    assert_close(ck.corrcoef(x, y), np.corrcoef(a, b), rtol=1e-12)
    assert ck.cov(x[0]).shape == () and ck.corrcoef(x[0]).item() == 1.0
    assert ck.cov(ck.ones((0, 3))).shape == (0, 0)
    assert np.isnan(ck.cov(ck.ones((1,))).item())
    assert ck.cov(x, dtype=ck.float32).dtype == ck.float32
    assert ck.cov(ck.asarray([1, 2, 4])).dtype == ck.float32
    assert ck.cov(ck.ones((2, 3))).dtype == ck.float32


def test_complex_variables(device: ck.Device) -> None:
    a = drawn(3, 7) + 1j * drawn(3, 7)[::-1]
    x = ck.asarray(a)
    assert_close(ck.cov(x), np.cov(a), rtol=1e-12)
    assert_close(ck.corrcoef(x), np.corrcoef(a), rtol=1e-12)
    a[0, 2] = complex(1, np.nan)
    np.testing.assert_allclose(ck.median(ck.asarray(a), 1).numpy(), np.median(a, 1), rtol=1e-12)
    assert_close(ck.nanmedian(ck.asarray(a), 1), np.nanmedian(a, 1), rtol=1e-12)
    with pytest.raises(TypeError, match="quantile: x: expected real numbers"):
        ck.quantile(x, 0.5)


def test_results_are_written_and_in_c_order(device: ck.Device) -> None:
    a = drawn(4, 3)
    x = ck.asarray(a)
    made = ck.quantile(x, [0.1, 0.5], axis=0)
    assert made.flags.c_contiguous and ck.correlate(x[:, 0], ck.ones(6, "float64")).flags.c_contiguous
    for f in (
        ck.nansum,
        ck.nanprod,
        ck.nanmean,
        ck.nanvar,
        ck.nanstd,
        lambda x, axis, out: ck.percentile(x, 20, axis, out=out),
    ):
        out = ck.zeros(3, "float64")
        assert f(x, axis=0, out=out) is out
        assert_close(out, f(x, axis=0, out=None).numpy(), rtol=0)


def test_covariance_refusals(device: ck.Device) -> None:
    x = ck.ones((2, 3))
    with pytest.raises(ValueError, match="two axes"):
        ck.cov(ck.ones((2, 2, 2)))
    with pytest.raises(ValueError, match="ddof"):
        ck.cov(x, ddof=1.5)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="fweights"):
        ck.cov(x, fweights=[1, 2])
    with pytest.raises(RuntimeError, match="aweights"):
        ck.cov(x, aweights=[[1.0, 2.0, 3.0]])
    with pytest.raises(TypeError, match="dtype"):
        ck.cov(x, dtype=ck.int32)
    with pytest.raises(ValueError, match="shape|size|axis|negative"):
        ck.cov(x, ck.ones((2, 4)))
    if device.kind == "host":
        with pytest.raises(TypeError, match="integers"):
            ck.cov(x, fweights=[1.5, 1, 1])
        with pytest.raises(ValueError, match="negative"):
            ck.cov(x, aweights=[-1.0, 1, 1])


# ----- histograms -----

SHAPES = {
    "own": Shape(1, "own", 700),
    "shared": Shape(64, "shared", 512),
    "global": Shape(64, "global", 300),
}


@pytest.mark.parametrize("name", SHAPES)
def test_launch_shapes_of_counts(device: ck.Device, name: str) -> None:
    a = drawn(2000).astype(np.float32)
    edges = np.linspace(-2, 2, 31, dtype=np.float32)
    want = np.histogram(a, edges)[0]
    for rule in ("even", "search"):
        made = counted(ck.asarray(a), ck.asarray(edges), 30, rule, SHAPES[name])
        np.testing.assert_array_equal(made.numpy(), want)
    numbers = np.random.default_rng(0).integers(-2, 12, 2000)
    made = counted(ck.asarray(numbers), None, 10, "value", SHAPES[name])
    np.testing.assert_array_equal(made.numpy(), [(numbers == i).sum() for i in range(10)])


def test_gpu_shapes_by_size() -> None:
    assert shape_for("simt", 10**9, 100).mode == "shared"
    assert shape_for("simt", 10, 10**6).mode == "global"
    assert shape_for("serial", 10**8, 10).piece >= 10**8 // 16
    assert shape_for("serial", 10**8, 10**8).piece == 10**8


@given(
    # Subnormal numbers are 0 to a GPU.
    values=st.lists(st.floats(-5, 5, width=32, allow_subnormal=False), max_size=40),
    edges=st.lists(st.floats(-5, 5, width=32, allow_subnormal=False), min_size=1, max_size=9).map(sorted),
)
@settings(max_examples=60, deadline=None)
def test_any_edges(values: list[float], edges: list[float]) -> None:
    a, e = np.asarray(values, np.float32), np.asarray(edges, np.float32)
    got, same = ck.histogram(ck.asarray(a), ck.asarray(e))
    np.testing.assert_array_equal(got.numpy(), np.histogram(a, e)[0])
    np.testing.assert_array_equal(same.numpy(), e)
    places = ck.digitize(ck.asarray(a), ck.asarray(e))
    np.testing.assert_array_equal(places.numpy(), np.digitize(a, e))


@pytest.mark.parametrize("edges", [[1.0, 3.0, np.nan], [np.nan, 3.0, 1.0], [np.nan, np.nan]])
def test_edges_that_are_nan(device: ck.Device, edges: list[float]) -> None:
    values = [0.0, 1.0, 2.0, np.nan]
    np.testing.assert_array_equal(ck.digitize(values, edges).numpy(), np.digitize(values, edges))


@pytest.mark.usefixtures("in_float64")
@pytest.mark.parametrize("rule", ["auto", "fd", "doane", "scott", "rice", "sturges", "sqrt"])
def test_rules_for_the_number_of_bins(device: ck.Device, rule: str) -> None:
    for a in (drawn(300), np.random.default_rng(0).integers(0, 20, 50)):
        for range in (None, (-1.0, 3.0)):
            got = ck.histogram_bin_edges(ck.asarray(a), rule, range)
            want = np.histogram_bin_edges(a, rule, range)
            assert_close(got, want, rtol=1e-12, atol=1e-15 * np.abs(want).max())


def test_weights_and_densities(device: ck.Device) -> None:
    a, w = drawn(100), np.random.default_rng(1).uniform(size=100).astype(np.float32)
    x = ck.asarray(a)
    for options in ({}, {"weights": w}, {"density": True}, {"weights": w, "density": True}):
        given = {k: ck.asarray(v) if isinstance(v, np.ndarray) else v for k, v in options.items()}
        got, want = ck.histogram(x, 7, **given)[0], np.histogram(a, 7, **options)[0]  # type: ignore[arg-type]
        assert got.dtype == want.dtype
        assert_close(got, want, rtol=1e-5)
    shares = ck.asarray(w.astype(np.float64))
    assert gradcheck(lambda w: ck.histogram(x, 5, weights=w, density=True)[0], [shares], order=2)
    counts = ck.histogram(x, 5, weights=ck.ones((100,), ck.int32))[0]
    assert counts.dtype == ck.int32 and ck.sum(counts).item() == 100


def test_weights_add_up_alike_in_every_run(device: ck.Device) -> None:
    numbers = ck.asarray(np.random.default_rng(0).integers(0, 5, 50_000))
    w = ck.asarray(drawn(50_000).astype(np.float32))
    first = ck.bincount(numbers, w).numpy()
    assert all(ck.bincount(numbers, w).numpy().tobytes() == first.tobytes() for _ in range(3))
    assert_close(ck.asarray(first), np.bincount(numbers.numpy(), w.numpy()), rtol=1e-6, atol=1e-5)


def test_ranges(device: ck.Device) -> None:
    same = ck.asarray([2.0, 2.0])
    np.testing.assert_array_equal(ck.histogram(same, 4)[1].numpy(), np.histogram([2.0, 2.0], 4)[1])
    got, edges = ck.histogram(ck.ones((0,)), 3)
    assert got.tolist() == [0, 0, 0]
    assert_close(edges, np.histogram([], 3)[1], rtol=1e-6)
    numbers = ck.asarray(np.asarray([1.0, np.nan, np.inf, 3.0]))
    assert ck.histogram(numbers, 2, (0.0, 4.0))[0].tolist() == [1, 1]
    assert ck.histogram(numbers, [1])[0].shape == (0,)
    assert ck.histogram(ck.asarray([True, False, True]), 2)[0].tolist() == [1, 2]


def test_histogram_refusals(device: ck.Device) -> None:
    x = ck.asarray([1.0, 2.0])
    with pytest.raises(ValueError, match="at least 1"):
        ck.histogram(x, 0)
    with pytest.raises(TypeError, match="bins"):
        ck.histogram(x, 1.5)
    with pytest.raises(ValueError, match="'guess'"):
        ck.histogram(x, "guess")
    with pytest.raises(TypeError, match="weights"):
        ck.histogram(x, "auto", weights=x)
    with pytest.raises(ValueError, match="one axis"):
        ck.histogram(x, [[1.0]])
    with pytest.raises(ValueError, match="smaller end first"):
        ck.histogram(x, 3, (3, 2))
    with pytest.raises(ValueError, match="finite"):
        ck.histogram(x, 3, (0, float("inf")))
    with pytest.raises(ValueError, match="shape"):
        ck.histogram(x, 3, weights=[1.0])
    if device.kind == "host":
        with pytest.raises(ValueError, match="ascending"):
            ck.histogram(x, [3, 2])
        with pytest.raises(ValueError, match="finite"):
            ck.histogram(ck.asarray([1.0, float("nan")]))
        with pytest.raises(ValueError, match="too many"):
            ck.histogram(ck.asarray([1.0, 1.0000001]), 100)
        with pytest.raises(ValueError, match="order"):
            ck.digitize(x, [3, 1, 2])
    with pytest.raises(ValueError, match="one axis"):
        ck.digitize(x, [[1.0]])


def test_numbers_counted(device: ck.Device) -> None:
    assert ck.bincount(ck.asarray([True, False, True])).tolist() == [1, 2]
    assert ck.bincount(ck.asarray([1, 1]), minlength=4).tolist() == [0, 2, 0, 0]
    assert ck.bincount(ck.asarray([0, 2]), [1, 3]).tolist() == [1.0, 0.0, 3.0]
    assert ck.digitize(2.5, [1.0, 2.0]).item() == 2
    for wrong in ([0, -1], [[1]]):
        with pytest.raises(ValueError, match="shape|size|axis|negative"):
            ck.bincount(ck.asarray(wrong))
    with pytest.raises(TypeError, match="integers"):
        ck.bincount(ck.asarray([1.0]))
    with pytest.raises(ValueError, match="minlength"):
        ck.bincount(ck.asarray([1]), minlength=-1)
    with pytest.raises(ValueError, match="weights"):
        ck.bincount(ck.asarray([1, 2]), [1.0])
