"""``cukern.polynomial``, mantissas and exponents, and the arrays that views keep, beside NumPy."""

from __future__ import annotations

import io
import pickle

import numpy as np
import numpy.polynomial.polynomial as numpys
import pytest

import cukern as ck
from cukern.polynomial import polynomial, polyutils
from cukern.testing import gradcheck

X = np.random.default_rng(0).standard_normal((3, 2))
C = np.random.default_rng(1).standard_normal((4, 5))


def test_values_and_derivatives() -> None:
    x, c = ck.asarray(X), ck.asarray(C)
    np.testing.assert_allclose(polynomial.polyval(x, c).numpy(), numpys.polyval(X, C), rtol=1e-12)
    np.testing.assert_allclose(
        polynomial.polyval(c[0], c, tensor=False).numpy(), numpys.polyval(C[0], C, tensor=False), rtol=1e-12
    )
    made = polynomial.polyvander(x, 3)
    np.testing.assert_allclose(made.numpy(), numpys.polyvander(X, 3), rtol=1e-12)
    assert made.strides == numpys.polyvander(X, 3).strides
    assert polynomial.polyvander(c[0], 0).tolist() == [[1.0]] * c.shape[1]
    line = c[:, 0].copy()
    np.testing.assert_allclose(
        polynomial.polycompanion(line).numpy(), numpys.polycompanion(C[:, 0]), rtol=1e-12
    )
    np.testing.assert_allclose(
        polynomial.polyfromroots(line).numpy(), numpys.polyfromroots(C[:, 0]), atol=1e-12
    )
    made, wanted = polynomial.polyroots(line).numpy(), numpys.polyroots(C[:, 0])
    # The order of a conjugate pair depends on the rounding of its real parts.
    np.testing.assert_allclose(np.abs(made[:, None] - wanted).min(1), 0, atol=1e-12)
    gradcheck(polynomial.polyval, (x, c))
    gradcheck(polynomial.polycompanion, (line,))


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: polynomial.polyvander(ck.ones(2), -1), "polyvander: deg: expected at least 0"),
        (lambda: polynomial.polycompanion([3.0, 0.0]), "polycompanion: c: expected a degree"),
        (lambda: polynomial.polyval(ck.ones(2), ck.zeros(0)), "polyval: c: expected coefficients"),
        (lambda: polyutils.as_series([ck.zeros(0)]), r"as_series: alist\[0\]: expected at least one"),
        (lambda: polyutils.trimcoef(ck.ones(2), -1), "trimcoef: tol: expected at least 0"),
    ],
)
def test_mistakes_name_the_argument(call: object, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        call()  # type: ignore[operator]


def test_coefficients_are_trimmed_as_numpys() -> None:
    c = [1.0, 2.0, 0.0, 1e-5]
    assert polyutils.trimcoef(c, 1e-3).tolist() == np.polynomial.polyutils.trimcoef(c, 1e-3).tolist()
    assert polyutils.trimcoef([1e-4, 1e-5], 1e-3).tolist() == [0.0]
    assert polyutils.trimseq(ck.zeros(3)).tolist() == [0.0]


@pytest.mark.parametrize("dtype", ["float64", "float16"])
def test_mantissas_and_exponents(dtype: str) -> None:
    smallest = np.finfo(dtype).smallest_subnormal
    x = np.asarray([1, -6, 0, -0.0, np.inf, np.nan, smallest, 1e4, 0.1], dtype)
    mantissa, exponent = ck.frexp(x)
    wanted = np.frexp(x)
    np.testing.assert_array_equal(mantissa.numpy(), wanted[0])
    np.testing.assert_array_equal(exponent.numpy(), wanted[1])
    np.testing.assert_array_equal(ck.ldexp(mantissa, exponent).numpy(), x)
    assert ck.ldexp(mantissa, exponent).dtype == mantissa.dtype == dtype
    np.testing.assert_array_equal(ck.ldexp(mantissa, 1).numpy(), mantissa.numpy() * 2)
    with pytest.raises(TypeError, match="ldexp: x2: expected integers, got float"):
        ck.ldexp(mantissa, 1.0)


def test_products_with_powers_of_two_are_rounded_once() -> None:
    rng = np.random.default_rng(0)
    x, powers = rng.standard_normal(3000).astype(np.float32), rng.integers(-170, 140, 3000)
    x[:6] = 1e-45, 3e38, np.inf, -0.0, np.nan, 1
    powers[:6] = 290, -290, -400, 2**31 - 1, 0, -(2**31)
    with np.errstate(all="ignore"):
        wanted = np.ldexp(x, powers)
    if not ck.zeros(1).device.addressable:  # GPUs flush subnormal numbers
        wanted[np.abs(x) < np.finfo("float32").tiny] = 0
        wanted[np.abs(wanted) < np.finfo("float32").tiny] *= 0
    np.testing.assert_array_equal(ck.ldexp(x, powers).numpy(), wanted)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_bits_of_integers(dtype: str) -> None:
    limits = np.iinfo(dtype)
    x = np.random.default_rng(0).integers(limits.min, limits.max, 200, dtype, endpoint=True)
    x[:4] = limits.min, limits.max, 0, 85
    made = ck.bitwise_count(x)
    assert made.dtype == ck.uint8
    np.testing.assert_array_equal(made.numpy(), np.bitwise_count(x))


def test_views_keep_their_base() -> None:
    x = ck.arange(6.0).reshape((2, 3)).copy()
    row = x[0]
    assert x.base is None
    assert row.base is x
    assert row[1:].T.base is x
    assert (row + 1).base is None


def test_arrays_meet_requirements() -> None:
    x = ck.ones((2, 3))
    assert ck.require(x, requirements="CWO") is x
    assert ck.require(x[0], requirements="O").base is None
    assert ck.require(ck.broadcast_to(x[:1], (2, 3)), requirements="W").flags.writeable
    assert ck.require(x.T, requirements="F").shape == (3, 2)
    with pytest.raises(ValueError, match="Fortran order"):
        ck.require(x, requirements="F")
    with pytest.raises(ValueError, match="expected some of"):
        ck.require(x, requirements=["Q"])


def test_pickles_of_arrays_alone_are_read() -> None:
    file, x = io.BytesIO(), ck.asarray([1.0, 2.0])
    x.dump(file)
    file.seek(0)
    with pytest.raises(ValueError, match="allow_pickle"):
        ck.load(file)
    made = ck.load(file, allow_pickle=True)
    assert isinstance(made, ck.Array)
    assert made.tolist() == [1.0, 2.0]
    for other in (pickle.dumps(print), pickle.dumps({"a": 1}), x.dumps()[:-9]):
        with pytest.raises(ValueError, match="expected a pickle of an array|damaged"):
            ck.load(io.BytesIO(other), allow_pickle=True)


def test_arrays_of_a_file_are_a_context() -> None:
    file = io.BytesIO()
    ck.savez(file, ck.ones(2))
    file.seek(0)
    with ck.load(file) as found:  # type: ignore[union-attr]
        assert found.files == ["arr_0"]
