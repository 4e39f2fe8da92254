"""Sparse arrays: formats, products and sums beside dense ones and SciPy's, derivatives, and what is refused."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import cukern as ck
from cukern.sparse import bsr_array, coo_array, csr_array, issparse, products
from cukern.testing import assert_close, gradcheck

RNG = np.random.default_rng(0)


def random(rows: int, columns: int) -> np.ndarray[Any, Any]:
    made = RNG.standard_normal((rows, columns)) * (RNG.random((rows, columns)) < 0.4)
    made[rows // 3] = 0
    return made


A, B, E = random(6, 8), random(6, 8), random(8, 7)
X, Y = RNG.standard_normal((8, 5)), RNG.standard_normal((5, 6))
FORMATS: dict[str, Callable[[Any], Any]] = {
    "csr": csr_array,
    "coo": coo_array,
    "bsr": lambda x: bsr_array(x, blocksize=(3, 2)),
}


def same(made: Any, want: Any) -> None:
    assert_close(made.toarray() if issparse(made) else made, want, rtol=1e-12, atol=1e-12)


@pytest.fixture(params=FORMATS)
def make(request: pytest.FixtureRequest) -> Callable[[Any], Any]:
    return FORMATS[request.param]


def test_products(device: ck.Device, make: Callable[[Any], Any]) -> None:
    a = make(ck.asarray(A))
    x, y = ck.asarray(X), ck.asarray(Y)
    same(a, A)
    same(a.T, A.T)
    same(a @ x, A @ X)
    same(a @ x[:, 0], A @ X[:, 0])
    same(y @ a, Y @ A)
    same(y[0] @ a, Y[0] @ A)
    same(a.dot(x[:, ::-2]), A @ X[:, ::-2])
    same(a @ csr_array(ck.asarray(E)), A @ E)
    same(a @ ck.broadcast_to(x[0, 0], (8, 2)), A @ np.full((8, 2), X[0, 0]))
    if device.kind == "host":
        same(Y @ a, Y @ A)
        same(a @ X, A @ X)


def test_elements(device: ck.Device, make: Callable[[Any], Any]) -> None:
    a, b, dense = make(ck.asarray(A)), make(ck.asarray(B)), ck.asarray(B)
    for made, want in (
        (a + b, A + B), (a - b, A - B), (a * b, A * B), (a + a, A + A), (a * a, A * A), (a * 2, A * 2),
        (0.5 * a, A / 2), (a / 4, A / 4), (-a, -A), (abs(a), abs(A)), (a * dense, A * B), (dense * a, A * B),
        (a * dense[0], A * B[0]),
        (a * dense[:, :1], A * B[:, :1]), (a / (dense * dense + 1), A / (B * B + 1)),
        (a.with_data(ck.exp(a.data)) * 0, 0 * A),
    ):  # fmt: skip
        assert issparse(made)
        same(made, want)
    same(a + dense, A + B)
    same(dense - a, B - A)
    same(a.sum(), A.sum())
    same(a.sum(0), A.sum(0))
    same(a.sum(-1), A.sum(1))
    same(a[1:5:2], A[1:5:2])
    same(a[[3, -1, 3], :], A[[3, -1, 3]])
    same(a[ck.asarray([2])], A[[2]])


def test_formats(device: ck.Device, make: Callable[[Any], Any]) -> None:
    a = make(ck.asarray(A))
    for other in (a.tocsr(), a.tocoo(), a.tobsr((2, 4)), a.tobsr(), a.astype("complex128").conj(), a.copy()):
        same(other, A.astype(other.data.numpy().dtype))
    theirs = a.to_scipy()
    assert theirs.format == a.format
    np.testing.assert_array_equal(theirs.toarray(), A)
    same(type(a)(theirs), A)
    same(csr_array(scipy.sparse.csc_array(A), dtype="float64"), A)
    same(
        csr_array(A) @ scipy.sparse.csr_array(E) if device.kind == "host" else csr_array(ck.asarray(A @ E)),
        A @ E,
    )
    assert repr(csr_array(ck.asarray(A))).startswith("csr_array(6x8, 1") and a.nnz == a.data.size
    assert a.T.shape == (8, 6) and a.T.format == a.format and a.ndim == 2
    for made in (2 * a, -a, abs(a), a.copy(), a.astype("float32"), a.conj()):
        assert made.format == a.format
    dense = ck.asarray(B)
    for made in (a * dense, dense * a, a / (dense * dense + 1)):
        assert made.format == ("coo" if a.format == "coo" else "csr")


def test_entries_in_any_order_are_sorted_and_added_up(device: ck.Device) -> None:
    a = coo_array(([1.0, 2.0, 3.0, 4.0], ([1, 0, 1, 0], [2, 1, 2, 0])))
    assert (a.data.tolist(), a.row.tolist(), a.col.tolist()) == ([4.0, 2.0, 4.0], [0, 0, 1], [0, 1, 2])
    b = csr_array(([1.0, 2.0, 3.0], [2, 0, 2], [0, 3, 3]))
    assert (b.data.tolist(), b.indices.tolist(), b.indptr.tolist()) == ([2.0, 4.0], [0, 2], [0, 2, 2])
    c = bsr_array((np.arange(8.0).reshape(2, 2, 2), [1, 0], [0, 2]))
    assert c.toarray().tolist() == [[4, 5, 0, 1], [6, 7, 2, 3]] and c.blocksize == (2, 2)
    values = ck.asarray([1.0, 2.0])
    assert csr_array((values, [0, 1], [0, 1, 2])).data is values
    assert csr_array(([1.0], ([0], [0])), shape=(3, 4)).shape == (3, 4)
    g = ck.grad(lambda v: (csr_array((v, [1, 0, 1], [0, 3])) @ ck.asarray([2.0, 3.0])).sum())
    assert g(ck.asarray([1.0, 1.0, 1.0])).tolist() == [3.0, 2.0, 3.0]


def test_derivatives(device: ck.Device, make: Callable[[Any], Any]) -> None:
    a = make(ck.asarray(A))
    gradcheck(lambda v, x: a.with_data(v) @ x, (a.data, ck.asarray(X)), order=2)
    gradcheck(lambda v, y: y @ a.with_data(v), (a.data, ck.asarray(Y)), order=2)
    gradient = ck.grad(lambda a: (a @ ck.asarray(X)).sum())(a)
    assert type(gradient) is type(a) and gradient.data.shape == a.data.shape


def test_derivatives_of_sparse_operands(device: ck.Device) -> None:
    a, b, e = (csr_array(ck.asarray(x)) for x in (A, B, E))
    x = ck.asarray(B)

    def f(v: ck.Array, w: ck.Array, u: ck.Array) -> Any:
        left, right = a.with_data(v), b.with_data(w)
        product = (left + right) @ e.with_data(u)
        return product.sum(0), (left * right * x)[2:].sum(1), left.tobsr((2, 2)).toarray()

    gradcheck(f, (a.data, b.data, e.data), order=2)


def test_complex_numbers(device: ck.Device) -> None:
    z = A + 1j * np.roll(A, 1)
    a, x = csr_array(ck.asarray(z)), ck.asarray(X + 2j * X[::-1])
    same(a @ x, z @ x.numpy())
    same(csr_array(ck.asarray(A)) @ x, A @ x.numpy())
    gradcheck(lambda v, x: a.with_data(v) @ x, (a.data, x))


@pytest.mark.parametrize(
    "dtype",
    ["bfloat16", *(pytest.param(x, marks=pytest.mark.thorough) for x in ("float16", "float32", "int32"))],
)
def test_dtypes(device: ck.Device, dtype: str) -> None:
    a, x = csr_array(ck.asarray(np.round(A * 4))).astype(dtype), ck.asarray(np.round(X)).astype(dtype)
    made = a @ x
    assert made.dtype == dtype
    assert_close(made.astype("float64"), np.round(A * 4) @ np.round(X))


@pytest.mark.parametrize(
    "columns, shape",
    [
        (1, (64, 1, 4, 1, 1)),
        (1, (64, 1, 32, 1, 2)),
        (5, (96, 4, 8, 2, 1)),
        (5, (96, 4, 8, 1, 1, 2, 2)),
        (1, (64, 1, 4, 1, 2, 0, 1)),
        (8, (64, 4, 2, 2, 2, 1, 3)),
    ],
)
def test_threads_that_share_rows(device: ck.Device, columns: int, shape: Any) -> None:
    """The launches of a GPU, on the host too."""
    for blocks in ((1, 1), (2, 4)):
        dense = RNG.standard_normal((6, 8)) * (RNG.random((6, 8)) < 0.5)
        a, x, g = bsr_array(dense, blocksize=blocks), RNG.standard_normal((8, columns)), np.ones((6, columns))
        data = ck.reshape(a.data, products.data_shape(a._structure, blocks))
        made = products.multiplied(a._structure, blocks, data, ck.asarray(x), products.Shares(*shape))
        same(made, dense @ x)
        sampled = products.sampled(a._structure, blocks, ck.asarray(g), ck.asarray(x), shape[2])
        want = bsr_array(np.where(a.toarray().numpy() != 0, g @ x.T, 0), blocksize=blocks)
        same(a.with_data(ck.where(a.data != 0, ck.reshape(sampled, a.data.shape), 0)), want.toarray())


def test_arrays_of_nothing(device: ck.Device) -> None:
    same(csr_array((0, 3)) @ ck.zeros((3, 2)), np.zeros((0, 2)))
    same(csr_array((3, 0)) @ ck.zeros((0, 2)), np.zeros((3, 2)))
    same(csr_array((0, 3)).T @ ck.zeros(0), np.zeros(3))
    none = csr_array((2, 3), dtype="float64")
    same(none + none.tocoo(), np.zeros((2, 3)))
    same(none @ csr_array((3, 4)), np.zeros((2, 4)))
    same(none * csr_array(np.ones((2, 3))), np.zeros((2, 3)))
    same(none.tobsr((1, 3)), np.zeros((2, 3)))
    same(none[[1, 0, 1]], np.zeros((3, 3)))
    assert none.sum().item() == 0 and csr_array(np.zeros((2, 2))).nnz == 0


def test_places_up_to_what_an_index_holds(device: ck.Device) -> None:
    one, place = ck.ones(1), (ck.asarray([999]), ck.asarray([2]))
    for sizes in ((1000, 1000), (1000, 2**53)):
        made = coo_array((one, place), shape=sizes)
        assert made.shape == sizes and made.nnz == 1
    with pytest.raises(ValueError, match="too many elements"):
        coo_array((one, place), shape=(1024, 2**53))


def test_what_is_refused(device: ck.Device) -> None:
    a = csr_array(ck.asarray(A))
    cases: list[tuple[Callable[[], Any], type[Exception], str]] = [
        (lambda: csr_array(([1.0], [3], [0, 1]), (1, 3)), ValueError, "indices: expected numbers from 0 to 2, got 3"),
        (lambda: csr_array(([1.0], [-1], [0, 1]), (1, 3)), ValueError, "indices: expected numbers from 0 to 2, got -1"),
        (lambda: csr_array(([1.0, 2.0], [0, 1], [0, 2, 1, 2])), ValueError, "indptr: expected rising offsets"),
        (lambda: csr_array(([1.0], [0], [0, 2])), ValueError, "indptr: expected offsets from 0 to 1, got 0 to 2"),
        (lambda: csr_array(([1.0], [0], [0, 1]), (2, 2)), ValueError, r"indptr: expected 3 offsets for shape \(2, 2\)"),
        (lambda: csr_array(([1.0], [0.5], [0, 1])), TypeError, "indices: expected integers, got float32"),
        (lambda: csr_array(([1.0], [0, 1], [0, 2])), ValueError, "indices: expected 1, one for each entry"),
        (lambda: csr_array(([1.0],)), ValueError, "arg: expected a tuple of two or three, got 1"),
        (lambda: csr_array(A, (2, 2)), ValueError, r"shape: expected that of arg, \(6, 8\)"),
        (lambda: csr_array((2, -1)), ValueError, "shape: expected two numbers of at least 0"),
        (lambda: csr_array([1.0]), ValueError, "data: expected 2 axes"),
        (lambda: csr_array([[True]]), TypeError, "data: expected numbers, got bool"),
        (lambda: coo_array(([1.0], ([0, 1], [0]))), ValueError, "of one length, got 1, 2 and 1"),
        (lambda: coo_array(([1.0], ([2], [0])), (2, 2)), ValueError, "row: expected numbers from 0 to 1, got 2"),
        (lambda: bsr_array(A, blocksize=(4, 4)), ValueError, "blocksize: expected sizes that divide the shape"),
        (lambda: a + 1, TypeError, "a number beside a sparse array gives a dense one"),
        (lambda: a @ ck.zeros(3), ValueError, r"shapes \(6, 8\) and \(3,\) do not fit"),
        (lambda: ck.zeros(3) @ a, ValueError, r"shapes \(3,\) and \(6, 8\) do not fit"),
        (lambda: a @ ck.zeros((8, 1, 1)), ValueError, "expected a vector or a matrix"),
        (lambda: a + csr_array((2, 2)), ValueError, "expected sparse arrays of one shape"),
        (lambda: a * ck.zeros((3, 3)), ValueError, "do not fit"),
        (lambda: a.with_data(ck.zeros(2)), ValueError, "with_data: data: expected shape"),
        (lambda: a.sum(2), ValueError, "axis: expected 0, 1 or None, got 2"),
        (lambda: a[0], IndexError, r"one row is A\[i:i \+ 1\]"),
        (lambda: a[[9]], IndexError, "out of range for 6 rows"),
        (lambda: bool(a), TypeError, "ambiguous"),
        (lambda: len(a), TypeError, "ambiguous"),
        (lambda: a + "a", TypeError, "unsupported operand"),
    ]  # fmt: skip
    for call, error, message in cases:
        with pytest.raises(error, match=message):
            call()


def test_nothing_writes_the_places_that_kernels_trust(device: ck.Device) -> None:
    data, indices, offsets = ck.asarray([1.0, 2.0, 3.0]), ck.asarray([0, 1, 2]), ck.asarray([0, 1, 2, 3])
    wide = csr_array((data, indices, offsets), shape=(3, 2**32))  # its places are int64, as those given
    indices[...] = 2**40
    offsets[1] = -(2**40)
    assert wide.indices.tolist() == [0, 1, 2] and wide.indptr.tolist() == [0, 1, 2, 3]
    a = csr_array(ck.asarray(A))
    for places in (a.indices, a.indptr, a.tocoo().row, a.T.indices):
        with pytest.raises(ValueError, match="or a constant: write to a copy"):
            places[0] = 2**30
        with pytest.raises(ValueError, match="or a constant: write to a copy"):
            places += 1
        places.copy()[...] = 0
    same(a, A)


def test_scipy_is_only_needed_for_its_own_arrays(device: ck.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.sparse", None)
    with pytest.raises(
        ImportError, match=r"needs SciPy, which is not installed: pip install cukern\[sparse\]"
    ):
        csr_array(ck.asarray(A)).to_scipy()


def test_arrays_of_cupy(device: ck.Device) -> None:
    a = csr_array(ck.asarray(A))
    if device.kind == "host":
        with pytest.raises(ck.DeviceError, match="to_cupyx: expected an array on a GPU"):
            a.to_cupyx()
        return
    theirs = a.to_cupyx()
    np.testing.assert_array_equal(theirs.toarray().get(), A)
    same(csr_array(theirs), A)
    same(a.tocoo() + csr_array(theirs.tocsc()), 2 * A)
