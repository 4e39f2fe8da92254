"""Polynomials, choices by numbers and cases, functions of numbers, windows and histograms of points, beside NumPy's."""

from __future__ import annotations

import contextlib
import warnings
from typing import Any

import numpy as np
import pytest

import cukern as ck
from cukern.testing import assert_close, gradcheck

X = np.random.default_rng(0).normal(size=(4, 5))
P, Q, Z = np.array([2.0, -3.0, 0.0, 4.0]), np.array([1.0, 5.0]), np.array([1 + 2j, 0.5, -1j])


def test_fits_and_values(device: ck.Device) -> None:
    x, y = X[0], X
    y = np.stack([y[1], y[2]], 1)
    w = np.array([1.0, 2.0, 0.5, 1.0, 3.0])
    for degree in (0, 2):
        for right in (y[:, 0], y):
            got = ck.polyfit(ck.asarray(x), ck.asarray(right), degree)
            assert_close(got, np.polyfit(x, right, degree), rtol=1e-10, atol=1e-12)
    got = ck.polyfit(ck.asarray(x), ck.asarray(y), 2, w=ck.asarray(w))
    assert_close(got, np.polyfit(x, y, 2, w=w), rtol=1e-10, atol=1e-12)
    assert gradcheck(lambda x, y, w: ck.polyfit(x, y, 1, w=w), list(map(ck.asarray, (x, y[:, 0], w))))
    assert_close(ck.polyval(ck.asarray(w), ck.asarray(y)), np.polyval(w, y), rtol=1e-12)
    assert gradcheck(ck.polyval, [ck.asarray(w[:3]), ck.asarray(y)], order=2)
    for arguments, error, said in (
        ((x[:2], y, 1), TypeError, "y: expected shape"),
        ((x, x, -1), ValueError, "deg"),
        ((y, y, 1), TypeError, "x: expected one axis"),
    ):
        with pytest.raises(error, match=said):
            ck.polyfit(*[ck.asarray(one) if isinstance(one, np.ndarray) else one for one in arguments])


#: Calls of a function of the same name in both libraries.
CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    *((name, pair, {}) for name in ("polyadd", "polysub", "polymul") for pair in ((P, Q), (Q, P), (Z, Q))),
    ("polyadd", (P, 3), {}),
    ("polydiv", (P, Q), {}),
    ("polydiv", (Q, P), {}),
    ("polydiv", (np.array([1, 5, 6]), np.array([1, 2])), {}),
    ("polyder", (P,), {}),
    ("polyder", (P, 2), {}),
    ("polyder", (np.array([4, 3, 2]),), {}),
    ("polyint", (P,), {}),
    ("polyint", (P, 2), {"k": [1.0, 2.0]}),
    ("polyint", (P, 2, 3.0), {}),
    ("polyval", (Z, P), {}),
    ("poly", (Q,), {}),
    ("poly", (Z,), {}),
    ("poly", (np.array([1j, -1j, 2]),), {}),
    ("poly", (X[:3, :3] + X[:3, :3].T,), {}),
    ("convolve", (Z, P), {}),
    ("correlate", (Z, P + 1j), {"mode": "full"}),
    ("choose", (np.array([[0, 1], [1, 0]]), [X[:2, :2], Q]), {}),
    ("choose", (np.array([5, -1, 1]), [P[:3], X[0, :3], 7.0]), {"mode": "wrap"}),
    ("choose", (np.array([5, -1, 1]), [P[:3], X[0, :3], 7.0]), {"mode": "clip"}),
    ("piecewise", (P, [P < 0, P > 1], [-1.0, lambda x: x * x, 5.0]), {}),
    ("piecewise", (P, P < 0, [lambda x: -x, lambda x: x + 1]), {}),
    ("piecewise", (np.array(3), [np.array(True)], [7]), {}),
    *((name, (n,), {}) for name in ("bartlett", "blackman", "hamming", "hanning") for n in (0, 1, 2, 7)),
    ("kaiser", (6, 8.6), {}),
    ("histogramdd", (X,), {"bins": 2}),
    ("histogramdd", (X[:, :2],), {"bins": [3, np.array([-1.0, 0.0, 0.5, 2.0])], "weights": P}),
    ("histogramdd", (X[:, :3],), {"bins": 2, "range": [(-1, 1), None, (0, 2)], "density": True}),
    ("pad", (P, (5, 7), "reflect"), {"reflect_type": "odd"}),
    ("pad", (X, ((2, 0), (3, 6)), "symmetric"), {"reflect_type": "odd"}),
    ("pad", (np.array([3.0]), 2, "reflect"), {"reflect_type": "odd"}),
    ("unwrap", (X * 9,), {}),
    ("unwrap", (X * 9, 5.0, 0), {"period": 3.0}),
    ("unwrap", (np.array([0, 1, 2, -1, 5, 3]),), {"period": 4}),
    ("unwrap", (np.array([0, 2, 4, 7]),), {"period": 5}),
    ("float_power", (np.array([2, -4]), np.array([-1, 2])), {}),
    ("float_power", (Z, 0.5), {}),
    ("float_power", (X, 2), {"dtype": "complex128"}),
    ("real_if_close", (P + 1e-15j,), {}),
    ("real_if_close", (Z, 0.5), {}),
    ("sort_complex", (Z,), {}),
    ("sort_complex", (P,), {}),
    ("median", (X, 0), {"overwrite_input": True}),
    ("nanquantile", (X, 0.3), {"overwrite_input": True}),
    ("linalg.matrix_rank", (X, 2.0), {}),
    ("linalg.matrix_rank", (X[:3, :3] + X[:3, :3].T,), {"hermitian": True}),
    ("linalg.matrix_rank", (P,), {}),
]


def on(x: Any) -> Any:
    """Arguments with cukern's arrays in place of NumPy's."""
    if isinstance(x, (list, tuple)):
        return type(x)(map(on, x))
    return ck.asarray(x) if isinstance(x, np.ndarray) else x


@pytest.mark.parametrize(("name", "args", "options"), CALLS)
def test_as_numpy(device: ck.Device, name: str, args: tuple[Any, ...], options: dict[str, Any]) -> None:
    ours, theirs = (eval(f"library.{name}", {"library": library}) for library in (ck, np))
    with ck.default_dtype(ck.float64), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # NumPy's, of vectors of two elements
        got, want = (
            ours(*on(args), **{key: on(value) for key, value in options.items()}),
            theirs(*args, **options),
        )
    flat = lambda x: [part for one in x for part in flat(one)] if isinstance(x, (tuple, list)) else [x]  # noqa: E731
    for one, other in zip(flat(got), flat(want), strict=True):
        right = np.asarray(other)
        # Numbers below the roundings of the others are what is left of 0.
        assert_close(one, np.where(abs(right) < 1e-15, 0, right), rtol=1e-9, atol=1e-12)


def test_polynomials(device: ck.Device) -> None:
    with ck.default_dtype(ck.float64):
        p, q = ck.poly1d(ck.asarray([0.0, 1.0, 0.0, -4.0])), ck.poly1d([1, 2], variable="t")
        n, m = np.poly1d([1.0, 0.0, -4.0]), np.poly1d([1, 2], variable="t")
        for f in (
            lambda p, q: p + q,
            lambda p, q: 3 - p,
            lambda p, q: 2 * p * q,
            lambda p, q: p**3,
            lambda p, q: -p / 2,
            lambda p, q: (p / q)[1],
            lambda p, q: p(q),
            lambda p, q: p.integ(2, k=1).deriv(),
            lambda p, q: type(p)([3, 1], True),
        ):
            assert_close(f(p, q).coeffs, f(n, m).coeffs, rtol=1e-12)
        assert (str(p), repr(q), str(q), p.order) == (str(n), repr(m), str(m), 2)
        assert_close(ck.sort(p.roots), np.sort(n.roots), rtol=1e-12)
        roots = ck.roots([1.0, 0.0, 1.0, 0.0]).numpy()
        np.testing.assert_allclose(sorted(roots.imag), [-1, 0, 1], atol=1e-12)
        assert ck.roots([0, 0]).shape == (0,) and ck.roots([3.0, 0.0]).tolist() == [0.0]
        q[3] = 7
        assert q.coeffs.tolist() == [7, 0, 1, 2] and q[3].item() == 7 and q[9].item() == 0
        assert p == ck.poly1d(p) and p != q and ck.poly1d(n) == p and len(p) == 2
        found = ck.polyfit(ck.asarray(X[0]), ck.asarray(X[1]), 1, full=True)
        for got, want in zip(found, np.polyfit(X[0], X[1], 1, full=True), strict=True):
            np.testing.assert_allclose(np.asarray(got), want, rtol=1e-9)
        for scaled in (True, "unscaled"):
            got, want = (
                f(x, X[1], 1, cov=scaled)[1] for f, x in ((ck.polyfit, ck.asarray(X[0])), (np.polyfit, X[0]))
            )
            assert_close(got, want, rtol=1e-9)
    arrays = [ck.asarray(P), ck.asarray(Q)]
    assert gradcheck(lambda p, q: ck.polydiv(p, q)[0] + ck.polymul(q, q).sum(), arrays)
    assert gradcheck(lambda p, q: ck.poly(ck.polyint(q, k=p[0])) * ck.polyder(p)[0], arrays)
    warned = pytest.warns(np.exceptions.RankWarning) if device.kind == "host" else contextlib.nullcontext()
    with warned:
        ck.polyfit(ck.asarray(Q), ck.asarray(Q), 4)
    for call in (lambda: p**-1, lambda: ck.poly1d(np.ones((2, 2))), lambda: q.__setitem__(-1, 2)):
        with pytest.raises(ValueError, match="poly1d"):
            call()


def test_functions_of_numbers(device: ck.Device) -> None:
    x, y = ck.asarray([1, 5, 3]), ck.asarray([[4.0], [2.0]])
    smooth, branches = lambda a, b: a * b + 1, lambda a, b: a - b if a > b else a + b
    for f in (smooth, branches):
        assert_close(
            ck.vectorize(f)(x, y), np.vectorize(f)(x.numpy(), y.numpy()).astype(np.float32), rtol=1e-6
        )
    assert gradcheck(ck.vectorize(smooth), [ck.asarray(P), ck.asarray(P)], order=2)
    with pytest.raises(ck.GradientError, match=r"args\[0\]"):
        ck.grad(lambda a: ck.vectorize(branches)(a, 1.0).sum())(ck.asarray(P))
    assert ck.vectorize(smooth, otypes="i")(x, 2).dtype == ck.int32
    both = ck.vectorize(lambda a, b: (a + b, a > b))(x, 4)
    assert [one.tolist() for one in both] == [[5, 9, 7], [False, True, False]]
    for of_numbers in (lambda a, b: a, lambda a, b: ck.flip(ck.sort(a)) - b, lambda a, b: ck.sum(a)):
        made = ck.vectorize(of_numbers)(x, ck.asarray([[1], [2]]))
        np.testing.assert_array_equal(made.numpy(), np.vectorize(of_numbers)(x.numpy(), [[1], [2]]))
    for of_arrays in (lambda a: a[0], lambda a: a.T, len):
        with pytest.raises((AttributeError, IndexError, TypeError)):
            ck.vectorize(of_arrays)(y)
    assert ck.vectorize(lambda v: v.sum(), signature="(n)->()")(y).tolist() == [4.0, 2.0]
    assert ck.vectorize(lambda a, w: a + w[0], excluded=[1])(x, [10]).tolist() == [11, 15, 13]


def test_numbers_of_a_function(device: ck.Device) -> None:
    assert ck.vectorize(lambda a, b: a + b)(ck.asarray([1, 2], "int8"), 1).dtype == ck.int64
    with pytest.raises(TypeError, match="not supported between instances of 'complex'"):
        ck.vectorize(lambda a: a + 1 > 2)(ck.asarray([1j, 2]))


@pytest.mark.parametrize("ends", [None, [(-1.0, 0.7), (0.0, 1.0)]])
def test_edges_of_a_grid_are_rounded_as_numpys(device: ck.Device, ends: Any) -> None:
    points = (np.arange(400).reshape(200, 2) % 37 / 10 - 1).astype(np.float16)
    counts, edges = ck.histogramdd(ck.asarray(points), 7, ends)
    wanted, exact = np.histogramdd(points, 7, ends)
    assert counts.tolist() == wanted.tolist()
    for one, other in zip(edges, exact, strict=True):
        assert one.dtype == ck.float16 and one.tolist() == other.astype(np.float16).tolist()


def test_functions_over_axes(device: ck.Device) -> None:
    for axes in (0, (0, -1)):
        for f in ("sum", "cumsum"):
            got, want = (
                lib.apply_over_axes(getattr(lib, f), x, axes) for lib, x in ((ck, ck.asarray(X)), (np, X))
            )
            assert_close(got, want, rtol=1e-12)
    with pytest.raises(ValueError, match="apply_over_axes: func"):
        ck.apply_over_axes(lambda x, axis: ck.zeros(()), ck.asarray(X), 0)


def test_choices_differentiate(device: ck.Device) -> None:
    x = ck.asarray(P)
    assert gradcheck(
        lambda x: ck.piecewise(x, [x < 0, x > 1], [1.0, lambda v: v**3, lambda v: 2 * v]), [x], order=2
    )
    assert gradcheck(lambda x: ck.choose(ck.asarray([1, 0, 1, 0]), [x, x * x]), [x])
    assert gradcheck(lambda x: ck.pad(x, (3, 5), "reflect", reflect_type="odd"), [x])
    with pytest.raises(ValueError, match="piecewise: funclist"):
        ck.piecewise(x, [x > 0], [1, 2, 3])
    with pytest.raises(ValueError, match="choose: mode"):
        ck.choose(x.astype("int64"), [x], mode="other")
    with pytest.raises(TypeError, match="choose: a"):
        ck.choose(x, [x, x])


def test_padding_by_a_function(device: ck.Device) -> None:
    def fill(vector: Any, width: tuple[int, int], axis: int, options: dict[str, Any]) -> None:
        vector[: width[0]] = options["value"] + axis
        vector[len(vector) - width[1] :] = vector[width[0]]

    got, want = (
        library.pad(x, ((1, 2), (2, 0)), fill, value=5) for library, x in ((ck, ck.asarray(X)), (np, X))
    )
    assert_close(got, want, rtol=1e-12)
    with pytest.raises(ValueError, match="value: no argument of mode 'edge'"):
        ck.pad(ck.asarray(X), 1, "edge", value=5)
