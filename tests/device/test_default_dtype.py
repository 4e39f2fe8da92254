"""The default floating dtype: what has it, how it is set, and that nothing which was remembered outlives it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import cukern as ck
from cukern import dtypes
from cukern.elementwise import function as elementwise
from cukern.testing import assert_close

DEFAULTS = (ck.float32, ck.float64, ck.float16)

#: Functions of integers whose result NumPy has in float64.
OF_INTEGERS: dict[str, Callable[[ck.Array], Any]] = {
    "x / 3": lambda x: x / 3,
    "x / x": lambda x: x / x,
    "x * 0.5": lambda x: x * 0.5,
    "x ** 0.5": lambda x: x**0.5,
    "sqrt": ck.sqrt,
    "atan2": lambda x: ck.atan2(x, x),
    "sinc": ck.sinc,
    "round": lambda x: ck.round(x / 4, 1),
    "mean": ck.mean,
    "mean of bools": lambda x: (x > 1).mean(),
    "mean, where": lambda x: ck.mean(x, where=x > 1),
    "var": ck.var,
    "nanmean": ck.nanmean,
    "logsumexp": ck.logsumexp,
    "logcumsumexp": ck.logcumsumexp,
    "softmax": ck.softmax,
    "median": ck.median,
    "quantile": lambda x: ck.quantile(x, 0.3),
    "average": ck.average,
    "average, weights": lambda x: ck.average(x, weights=x),
    "cov": ck.cov,
    "bin edges": lambda x: ck.histogram_bin_edges(x, 4),
    "histogram, density": lambda x: ck.histogram(x, 4, density=True)[0],
    "bincount, weights": lambda x: ck.bincount(x, x),
    "histogram2d": lambda x: ck.histogram2d(x, x, 2)[0],
    "polyfit": lambda x: ck.polyfit(x, x * x, 1),
    "trapezoid": ck.trapezoid,
    "gradient": ck.gradient,
    "interp": lambda x: ck.interp(x, x, x),
    "append": lambda x: ck.append(x, 0.5),
    "where": lambda x: ck.where(x > 1, x, 0.5),
    "uint64 + int64": lambda x: x.astype("uint64") + x,
    "fused": ck.fuse(lambda x: x / 3 + 0.5),
    "fused mean": ck.fuse(lambda x: ck.mean(x * x)),
}
#: What is made of Python floats, or of nothing.
MADE: dict[str, Callable[[], ck.Array]] = {
    "0-d": lambda: ck.asarray(0.5),
    "list": lambda: ck.asarray([[1, 2.5]]),
    "empty list": lambda: ck.asarray([]),
    "integers of NumPy beside Python floats": lambda: ck.asarray([np.int64(1), 2.5]),
    "float": lambda: ck.zeros(2, float),
    "'float'": lambda: ck.zeros(2, "float"),
    "astype": lambda: ck.arange(2).astype(float),
    "zeros": lambda: ck.zeros(2),
    "ones": lambda: ck.ones(2),
    "empty": lambda: ck.empty(2),
    "full": lambda: ck.full(2, 0.5),
    "eye": lambda: ck.eye(2),
    "identity": lambda: ck.identity(2),
    "tri": lambda: ck.tri(2),
    "arange": lambda: ck.arange(0.0, 1.0, 0.25),
    "linspace": lambda: ck.linspace(0, 1, 3),
    "logspace": lambda: ck.logspace(0, 1, 3),
    "geomspace": lambda: ck.geomspace(1, 8, 4),
    "fftfreq": lambda: ck.fft.fftfreq(4),
    "random": lambda: ck.random.default_rng(0).random(2),
    "normal": lambda: ck.random.default_rng(0).normal(0, 1, 2),
}


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    before = ck.get_default_dtype()
    yield
    ck.set_default_dtype(before)


def test_functions_of_integers(device: ck.Device) -> None:
    x = ck.asarray([1, 2, 4, 3])
    for name, f in OF_INTEGERS.items():
        exact = None
        half = [ck.float16] if name in ("x / 3", "mean", "fused") else []
        for default in (ck.float64, ck.float32, *half, ck.float64):  # forth and back
            with ck.default_dtype(default):
                made = f(x)
            assert made.dtype == default, f"{name}: {made.dtype}, not {default}"
            if exact is None:
                exact = np.where(abs(made.numpy()) < 1e-15, 0, made.numpy())  # what rounding leaves of 0
            tolerance = {ck.float16: 4e-3, ck.float32: 2e-6, ck.float64: 1e-14}[default]
            assert_close(made.numpy().astype("f8"), exact, rtol=tolerance, atol=tolerance)


def test_matrices_of_integers(device: ck.Device) -> None:
    a = np.array([[2, 1], [1, 3]])
    x, b = ck.asarray(a), ck.asarray([1, 2])
    for default in (ck.float32, ck.float64):
        with ck.default_dtype(default):
            made = [ck.linalg.inv(x), ck.linalg.det(x), ck.linalg.solve(x, b), ck.linalg.svdvals(x)]
            made += [ck.linalg.norm(x), ck.linalg.lstsq(x, b)[0], ck.linalg.eigvalsh(x), ck.linalg.cond(x)]
        assert {one.dtype for one in made} == {default}
        assert_close(made[0], np.linalg.inv(a), rtol=1e-6)
    with ck.default_dtype(ck.float16):  # which LAPACK has not
        assert ck.linalg.inv(x).dtype == ck.float32
    wide = ck.asarray(a.astype(np.float64))
    assert ck.linalg.solve(x, wide).dtype == ck.linalg.lstsq(wide, b)[0].dtype == ck.float64


def test_arrays_made_of_nothing(device: ck.Device) -> None:
    for name, make in MADE.items():
        for default in DEFAULTS:
            with ck.default_dtype(default):
                assert make().dtype == default, name
        assert make().dtype == ck.float32, name
        assert ck.__array_namespace_info__().default_dtypes()["real floating"] == ck.float32


def test_parameters(device: ck.Device) -> None:
    """Of every layer alike: those drawn, and those that start as ones and zeros."""
    nn = ck.nn
    for default in (ck.float64, ck.float16, ck.float32):
        with ck.default_dtype(default):
            layers = [nn.Linear(2, 2), nn.Embedding(2, 2), nn.LayerNorm(2), nn.BatchNorm(2), nn.RMSNorm(2)]
            layers += [nn.MultiHeadAttention(2, 1), nn.GRU(2, 2), nn.LLTM(2, 2)]
            for layer in layers:
                assert {p.dtype for p in layer.parameters()} == {default}, layer
            assert nn.one_hot(ck.asarray([0, 1]), 2).dtype == default
            assert nn.init.normal((2,), dtype="float32").dtype == ck.float32


def test_a_floating_dtype_stays_as_it_is(device: ck.Device) -> None:
    """Beside integers, bools and Python floats; and NumPy's data has the dtype that it has."""
    whole = [ck.arange(3), ck.arange(3, dtype="uint64"), ck.arange(3) > 0, ck.asarray(2), ck.asarray(True)]
    for default in (ck.float32, ck.float64):
        with ck.default_dtype(default):
            for dtype in dtypes.FLOATS:
                for other in whole:
                    for row in (ck.multiply, ck.add, ck.atan2, ck.pow, ck.divide, ck.maximum):
                        assert row.resolve((dtype, other.dtype))[1] == dtype
                        assert row.resolve((other.dtype, dtype))[1] == dtype
                    assert ck.result_type(ck.ones(3, dtype), other, 2.5) == dtype
                    assert ck.promote_types(dtype, other.dtype) == dtype
                    assert ck.can_cast(other, dtype) and not ck.can_cast(dtype, other)
            for dtype in (ck.float16, ck.float32):
                x = ck.ones(3, dtype)
                for other in whole[:3:2] + whole[3:]:
                    assert (x * other).dtype == (other * x).dtype == dtype
                made = [x * 0.1, x / 3, ck.mean(x), ck.concat([x, whole[0]]), x @ whole[0]]
                made += [ck.where(whole[2], x, whole[0]), ck.stack([whole[0], x])]
                assert {one.dtype for one in made} == {dtype}
            assert ck.asarray(np.ones(2)).dtype == ck.asarray([np.float64(1), 2]).dtype == ck.float64
            assert (ck.ones(2, "float32") * np.float64(2)).dtype == ck.float64
            assert (ck.ones(2, "float32") * np.float32(2)).dtype == ck.float32
    x = ck.ones(3)
    x *= ck.arange(3)
    assert x.dtype == ck.float32 and x.tolist() == [0, 1, 2]
    assert (x / (x > 1).sum()).dtype == (x * (ck.arange(3) / 3)).dtype == ck.float32


def test_small_integers_keep_numpys_small_floats(device: ck.Device) -> None:
    x = ck.asarray(np.array([1, 2], np.int8))
    assert ck.exp(x).dtype == ck.float16
    assert (x / 2).dtype == x.mean().dtype == (x * 0.5).dtype == ck.float32
    for default in (ck.float32, ck.float64):
        with ck.default_dtype(default):
            assert [ck.exp.resolve([d])[1] for d in (ck.bool_, ck.int8, ck.uint8)] == [ck.float16] * 3
            assert [ck.exp.resolve([d])[1] for d in (ck.int16, ck.uint16)] == [ck.float32] * 2
    with ck.default_dtype(ck.bfloat16):
        assert [row.resolve([ck.int8] * n)[1] for n, row in ((1, ck.exp), (2, ck.divide))] == [
            ck.bfloat16
        ] * 2
        assert ck.exp.resolve([ck.int16])[1] == ck.bfloat16


def test_comparisons_see_all_digits(device: ck.Device) -> None:
    """What integers and floats are compared in is no matter of the result's dtype."""
    n = 2**24
    x = ck.asarray([n, n + 1])
    near = ck.asarray([float(n), float(n)])
    assert near.dtype == ck.float32
    assert (x == near).tolist() == [True, False] and (x > near).tolist() == [False, True]
    assert (x == n + 0.5).tolist() == [False, False]
    assert ck.isin(x, near).tolist() == [True, False]
    assert ck.searchsorted(x, ck.asarray([n + 1.0]).astype("float32")).tolist() == [0]
    assert ck.setdiff1d(x, near).tolist() == [n + 1]
    assert ck.isclose(x, x - 1, rtol=0, atol=0.5).tolist() == [False, False]
    f = ck.fuse(lambda x, y: x == y)
    assert f(x, near).tolist() == [True, False]
    counts, _ = ck.histogram(x + 2**40, [2**40 + n, 2**40 + n + 1, 2**40 + n + 2])
    assert counts.tolist() == [1, 1]
    assert ck.histogram(x + 2**40, 2)[0].tolist() == [1, 1]


def test_sums_of_integers_keep_their_digits(device: ck.Device) -> None:
    """A mean is float32, and is not computed from float32s."""
    x = ck.asarray([2**40, 2**40 + 1, 2**40 + 2])
    assert ck.var(x).item() == np.float32(2 / 3) and ck.gradient(x).tolist() == [1, 1, 1]
    assert ck.mean(x).item() == 2**40 and ck.cov(x).item() == 1
    assert ck.interp(x[1:2] - 1, x, ck.asarray([0, 1, 2])).tolist() == [0]


def test_scalars_of_a_fused_function_are_computed_in_double(device: ck.Device) -> None:
    f = ck.fuse(lambda x, a, b: x + a / b)
    assert f(ck.zeros(1, "float64"), 1, 3).tolist() == [1 / 3]


def test_setting_it(device: ck.Device) -> None:
    assert ck.get_default_dtype() == ck.float32
    ck.set_default_dtype("float64")
    assert ck.get_default_dtype() == ck.zeros(1).dtype == ck.float64
    with ck.default_dtype(ck.bfloat16) as chosen:
        assert chosen == ck.get_default_dtype() == ck.bfloat16
        with pytest.raises(ZeroDivisionError), ck.default_dtype("float16"):
            1 / int(ck.get_default_dtype() != ck.float16)
        assert ck.get_default_dtype() == ck.bfloat16
        ck.set_default_dtype("float32")
        assert ck.get_default_dtype() == ck.bfloat16
    assert ck.get_default_dtype() == ck.float32
    for wrong in ("int32", bool, "text", None, 3):
        with pytest.raises(TypeError, match="dtype: "):
            ck.set_default_dtype(wrong)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="dtype: "), ck.default_dtype(wrong):  # type: ignore[arg-type]
            pass
    assert ck.get_default_dtype() == ck.float32


def test_a_block_is_of_one_thread_and_the_setting_of_all(device: ck.Device) -> None:
    found: list[Any] = []

    def look() -> None:
        with ck.device(device):
            found.append((ck.arange(3) / 3).dtype)

    with ck.default_dtype("float64"):
        look()
        for default in ("float32", "float16"):
            ck.set_default_dtype(default)
            thread = threading.Thread(target=look)
            thread.start()
            thread.join()
        look()
    assert found == [ck.float64, ck.float32, ck.float16, ck.float64]


def test_what_it_decides_is_remembered_for_it(device: ck.Device) -> None:
    """The quick way of small operations goes on, for each default its own."""
    x = ck.arange(3)
    for default in (ck.float32, ck.float64):
        with ck.default_dtype(default):
            ck.divide(x, x + 1)
            before = dict(elementwise._programs)
            for _ in range(2):
                assert ck.divide(x, x + 1).dtype == default
            assert dict(elementwise._programs) == before
    steps = ck.capture(lambda x: x / 3)
    for default in (ck.float32, ck.float64) * 2:
        with ck.default_dtype(default):
            for _ in range(3):
                assert steps(x).dtype == default


def test_a_checkpoint_computes_again_with_the_same(device: ck.Device) -> None:
    x = ck.asarray([0.1, 0.2], dtype=ck.float64)
    with ck.default_dtype(ck.float64), ck.Tape() as tape:
        tape.watch(x)
        total = ck.checkpoint(lambda x: (x * x * (ck.asarray([1, 2]) / 3)).sum())(x)
    assert_close(tape.gradient(total, x), 2 * x.numpy() * np.array([1, 2]) / 3)
