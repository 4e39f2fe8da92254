"""Products and diagonals: values, dtypes and refusals, derivatives with broadcast axes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cukern as ck
from cukern.linear.blas import in_pieces
from cukern.testing import assert_close, gradcheck

SHAPES = [
    ((3, 4), (4, 5)),
    ((4,), (4, 5)),
    ((3, 4), (4,)),
    ((4,), (4,)),
    ((2, 3, 4), (4, 5)),
    ((3, 4), (2, 4, 5)),
    ((2, 1, 3, 4), (6, 4, 5)),
    ((2, 3, 4), (4,)),
    ((4,), (2, 4, 5)),
    ((1, 3, 4), (2, 4, 5)),
]


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_values_and_gradients(device: ck.Device, shapes: Any) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape) for shape in shapes)
    x, y = ck.asarray(a), ck.asarray(b)
    assert_close(x @ y, a @ b)
    assert gradcheck(ck.matmul, [x, y], order=2)


@pytest.mark.parametrize("dtype", ck.dtypes.ALL, ids=lambda d: ck.dtypes.info(d).name)
def test_every_dtype(device: ck.Device, dtype: Any) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(0, 3, shape).astype(dtype) for shape in ((3, 4), (4, 5)))
    wide = np.float64 if ck.dtypes.info(np.dtype(dtype)).kind == "f" else dtype
    assert_close(ck.asarray(a) @ ck.asarray(b), (a.astype(wide) @ b.astype(wide)).astype(dtype), dtype=dtype)
    assert_close(
        ck.asarray(a).T.mT @ ck.asarray(b), (a.astype(wide) @ b.astype(wide)).astype(dtype), dtype=dtype
    )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_products_accumulate_in_float32(device: ck.Device, dtype: str) -> None:
    x = ck.full((1, 5000), 0.5, dtype=dtype)
    want = 2496.0 if dtype == "bfloat16" else 2500.0
    assert (x @ ck.ones((5000, 1), dtype=dtype)).tolist() == [[want]]


def test_dtypes_are_promoted(device: ck.Device) -> None:
    assert (ck.ones((2, 2), dtype="float32") @ ck.ones((2, 2), dtype="float64")).dtype == ck.float64
    x = ck.ones((2, 2), dtype="float16")
    with ck.Tape() as recorder:
        recorder.watch(x)
        y = x @ ck.ones((2, 2))
    assert recorder.gradient(y, x).dtype == ck.float16


def test_only_what_the_derivative_reads_is_saved(device: ck.Device) -> None:
    x, y = ck.ones((2, 3)), ck.ones((3, 2))
    with ck.Tape() as recorder:
        recorder.watch(x)
        x @ y
    ((_, _, _, saved, *_),) = recorder._records
    assert [one is y for one in saved if one is not None] == [True]


def test_vecdot(device: ck.Device) -> None:
    a, b = np.random.default_rng(0).standard_normal((2, 3, 4))
    assert_close(ck.vecdot(ck.asarray(a), ck.asarray(b)), (a * b).sum(-1))
    assert_close(ck.vecdot(ck.asarray(a), ck.asarray(b), axis=0), (a * b).sum(0))


def test_vecdot_broadcasts_all_but_its_axis(device: ck.Device) -> None:
    a, b = (
        np.random.default_rng(0).standard_normal((2, 1, 4)),
        np.random.default_rng(1).standard_normal((3, 4)),
    )
    assert_close(ck.vecdot(ck.asarray(a), ck.asarray(b)), np.vecdot(a, b))
    assert ck.vecdot(ck.ones((2, 0)), ck.ones(0)).tolist() == [0.0, 0.0]
    assert ck.vecdot(ck.full(2, 100, dtype="int8"), ck.ones(2, dtype="int8")).dtype == ck.int8
    with pytest.raises(ValueError, match="vecdot"):
        ck.vecdot(ck.ones((2, 3)), ck.ones(1))


@pytest.mark.parametrize("limit", [1, 2, 3, 7])
@pytest.mark.parametrize("shapes", SHAPES[:1] + SHAPES[4:7], ids=str)
def test_products_in_pieces(shapes: Any, limit: int) -> None:
    a, b = (np.random.default_rng(0).standard_normal(shape) for shape in shapes)
    np.testing.assert_allclose(in_pieces(np, a, b, limit), a @ b, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    "shapes", [((2, 0), (0, 3)), ((0, 2), (2, 3)), ((0, 3, 2), (2, 0)), ((0,), (0,))], ids=str
)
def test_products_of_no_element(device: ck.Device, shapes: Any) -> None:
    a, b = map(ck.zeros, shapes)
    want = np.zeros(shapes[0]) @ np.zeros(shapes[1])
    assert (a @ b).shape == want.shape
    assert (a @ b).tolist() == want.tolist()


def test_products_do_not_warn(device: ck.Device) -> None:
    assert np.isnan((ck.asarray([[np.inf, 1.0]]) @ ck.asarray([[0.0], [1.0]])).item())


@pytest.mark.parametrize("offset", [-5, -2, -1, 0, 1, 3, 5])
def test_diagonals(device: ck.Device, offset: int) -> None:
    x = np.arange(24.0).reshape(2, 3, 4)
    for array in (ck.asarray(x), ck.asarray(x)[:, ::-1]):
        for axes in ((0, 1), (-2, -1), (2, 0)):
            want = np.diagonal(array.numpy(), offset, *axes)
            np.testing.assert_array_equal(ck.diagonal(array, offset, *axes).numpy(), want)
            assert_close(ck.trace(array, offset, *axes), want.sum(-1))
    if abs(offset) < 3:
        assert gradcheck(lambda x: ck.diagonal(x * x, offset, 1, 2), [ck.asarray(x)], order=2)
    vector = np.arange(3)
    np.testing.assert_array_equal(ck.diag(ck.asarray(vector), offset).numpy(), np.diag(vector, offset))
    np.testing.assert_array_equal(ck.diagflat(ck.asarray(x), offset).numpy(), np.diagflat(x, offset))


def test_a_diagonal_is_a_view(device: ck.Device) -> None:
    x = ck.zeros((2, 3, 3))
    ck.linalg.diagonal(x, offset=1)[...] = 1
    assert x.tolist() == [np.eye(3, k=1).tolist()] * 2
    x.diagonal(0, 1, 2)[0] = 2
    assert x[0].trace().item() == 6


def test_methods(device: ck.Device) -> None:
    x = ck.asarray([[1.0, 2.0], [3.0, 4.0]])
    assert x.dot(x).tolist() == [[7.0, 10.0], [15.0, 22.0]]
    assert x.trace().item() == 5.0
    assert x.diagonal(1).tolist() == [2.0]


@pytest.mark.parametrize(
    ("shapes", "axes"),
    [
        (((2, 3), (3, 2)), 1),
        (((2, 3), (2, 3)), 2),
        (((2,), (3,)), 0),
        (((2, 3), (4, 2)), ((0,), (1,))),
        (((2, 3, 4), (4, 3, 5)), ([1, -1], [1, 0])),
        (((0, 3), (3, 2)), 1),
        (((2, 0), (0, 2)), 1),
    ],
    ids=str,
)
def test_tensordot(device: ck.Device, shapes: Any, axes: Any) -> None:
    a, b = (np.random.default_rng(0).standard_normal(shape) for shape in shapes)
    assert_close(ck.tensordot(ck.asarray(a), ck.asarray(b), axes=axes), np.tensordot(a, b, axes))
    assert_close(ck.tensordot(ck.asarray(a), ck.asarray(b), axes), np.tensordot(a, b, axes))


@pytest.mark.parametrize(
    "shapes", [((2, 3), (3, 2)), ((2,), (3, 2)), ((2, 2, 2), (2, 3)), ((), (2, 2)), ((0,), (2,))], ids=str
)
def test_kron(device: ck.Device, shapes: Any) -> None:
    a, b = (np.random.default_rng(0).standard_normal(shape) for shape in shapes)
    assert_close(ck.kron(ck.asarray(a), ck.asarray(b)), np.kron(a, b))


def test_dot_into_an_array(device: ck.Device) -> None:
    x, out = ck.ones((2, 3)), ck.zeros((2, 2))
    for function in (ck.dot, ck.matmul):
        out = ck.zeros((2, 2))
        assert function(x, x.T, out=out) is out and out.tolist() == [[3.0, 3.0]] * 2
    for bad in (ck.zeros(2), ck.zeros((2, 2), "float64"), ck.zeros((2, 2))[::-1]):
        with pytest.raises(ValueError, match=r"dot: out: expected an array of shape \(2, 2\) and float32"):
            x.dot(x.T, out=bad)


def test_cross(device: ck.Device) -> None:
    a, b = (
        np.random.default_rng(0).standard_normal((4, 1, 3)),
        np.random.default_rng(1).standard_normal((5, 3)),
    )
    assert_close(ck.cross(ck.asarray(a), ck.asarray(b)), np.cross(a, b))
    a, b = np.moveaxis(a, -1, -2), np.moveaxis(b, -1, -2)
    assert_close(ck.cross(ck.asarray(a), ck.asarray(b), axis=-2), np.linalg.cross(a, b, axis=-2))
    many = np.random.default_rng(4).standard_normal((2, 8195, 3))  # more than one thread of the host makes
    assert_close(ck.cross(*map(ck.asarray, many)), np.cross(*many))
    both = many[:, :7]
    assert_close(ck.cross(*map(ck.asarray, both)), np.cross(*both))
    assert gradcheck(ck.cross, [ck.asarray(both[0]), ck.asarray(both[1])[::-1]], order=2)
    # Vectors of two elements have 0 as the third, which numpy.cross takes no more.
    u, v = np.random.default_rng(2).standard_normal((2, 5, 2))
    flat = np.pad(u, ((0, 0), (0, 1))), np.pad(v, ((0, 0), (0, 1)))
    assert_close(ck.cross(ck.asarray(u), ck.asarray(v)), np.cross(*flat)[:, 2])
    w = np.random.default_rng(3).standard_normal((5, 3))
    assert_close(ck.cross(ck.asarray(u), ck.asarray(w)), np.cross(flat[0], w))
    with pytest.raises(ValueError, match="cross: .*4"):
        ck.cross(ck.ones(4), ck.ones(3))


def test_refusals(device: ck.Device) -> None:
    with pytest.raises(ValueError, match=r"matmul: shapes \(2, 3\) and \(2, 3\) do not fit: 3 is not 2"):
        ck.ones((2, 3)) @ ck.ones((2, 3))
    with pytest.raises(ValueError, match="do not broadcast"):
        ck.ones((2, 3, 3)) @ ck.ones((4, 3, 3))
    with pytest.raises(ValueError, match="at least one axis"):
        ck.ones((2, 2)) @ ck.asarray(1.0)
    with pytest.raises(TypeError, match=r"x2: expected an array, a number or nested lists of them, got str"):
        ck.matmul(ck.ones(2), "3")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="tensordot: axes"):
        ck.tensordot(ck.ones((2, 3)), ck.ones((2, 3)), axes=1)
    with pytest.raises(ValueError, match="tensordot: axes"):
        ck.tensordot(ck.ones((2, 3)), ck.ones((2, 3)), axes=3)
    with pytest.raises(ValueError, match="at least two axes"):
        ck.diagonal(ck.ones(3))
    with pytest.raises(ValueError, match="named twice"):
        ck.diagonal(ck.ones((3, 3)), 0, 1, 1)
    with pytest.raises(ValueError, match="one axis or two"):
        ck.diag(ck.ones((2, 2, 2)))
    with pytest.raises(ValueError, match="matvec: expected a matrix and a vector"):
        ck.matvec(ck.ones(2), ck.ones(2))
    with pytest.raises(ValueError, match="vecmat: expected a vector and a matrix"):
        ck.vecmat(ck.ones(2), ck.ones(2))


def test_gradient_of_a_product_over_no_element(device: ck.Device) -> None:
    left, right = ck.grad(lambda a, b: ck.matmul(a, b).sum(), (0, 1))(ck.zeros((2, 3, 0)), ck.zeros((0, 4)))
    assert left.shape == (2, 3, 0)
    assert right.shape == (0, 4)


def test_the_sign_of_a_real_determinant_is_constant(device: ck.Device) -> None:
    x = ck.asarray([[2.0, 1.0], [0.0, -3.0]], dtype="float64")
    gradient = ck.grad(lambda a: ck.linalg.slogdet(a).sign)(x)
    np.testing.assert_array_equal(gradient.numpy(), np.zeros((2, 2)))


def test_multi_dot_of_lists_and_numpys_arrays(device: ck.Device) -> None:
    vector, matrix = [1.0, 2.0], [[3.0, 4.0], [5.0, 6.0]]
    want = np.linalg.multi_dot([np.asarray(vector), np.asarray(matrix), np.asarray(matrix)])
    made = ck.linalg.multi_dot([vector, np.asarray(matrix, np.float32), ck.asarray(matrix)])
    assert made.tolist() == want.tolist() and made.device is device
    with pytest.raises(TypeError, match="multi_dot"):
        ck.linalg.multi_dot(["a", ck.asarray(matrix)])
