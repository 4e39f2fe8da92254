"""The linalg module: factorisations put together again, shapes and refusals, derivatives to second order."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.linalg import LinAlgError

import cukern as ck
from cukern.errors import GradientError
from cukern.linear.decompositions import narrow_values, squared, svd_by_squares
from cukern.linear.solving import by_squares
from cukern.testing import assert_close, gradcheck

L = ck.linalg
SHAPES = [
    (3, 3),
    (5, 3),
    (3, 5),
    (2, 3, 3),
    (2, 1, 4, 2),
    (1, 1),
    (0, 0),
    (0, 3),
    (3, 0),
    (2, 0, 0),
    (0, 2, 2),
]
SQUARE = [shape for shape in SHAPES if shape[-1] == shape[-2]]
NARROW = pytest.mark.parametrize("dtype", ["float32", "float64"])


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, shape)


def regular(*shape: int, seed: int = 0) -> np.ndarray:
    """Matrices far from singular."""
    return random(*shape, seed=seed) + 3 * np.eye(shape[-1])


def positive(*shape: int, seed: int = 0) -> np.ndarray:
    root = random(*shape, seed=seed)
    return root @ np.swapaxes(root, -1, -2) + np.eye(shape[-1])


def symmetric(x: ck.Array) -> ck.Array:
    return x + x.mT


def tolerance(dtype: str) -> dict[str, float]:
    size = 2e-5 if dtype == "float32" else 1e-12
    return {"rtol": size, "atol": size}


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@NARROW
def test_factors_make_the_matrix_again(device: ck.Device, shape: tuple[int, ...], dtype: str) -> None:
    x = ck.asarray(random(*shape), dtype=dtype)
    (m, n), k = shape[-2:], min(shape[-2:])
    for full in (False, True):
        u, s, vh = L.svd(x, full_matrices=full)
        assert (u.dtype, s.dtype, vh.dtype) == (x.dtype,) * 3
        assert u.shape == (*shape[:-1], m if full else k)
        assert vh.shape == (*shape[:-2], n if full else k, n)
        assert_close((u[..., :k] * ck.expand_dims(s, -2)) @ vh[..., :k, :], x, **tolerance(dtype))
        assert_close(u.mT @ u, np.broadcast_to(np.eye(u.shape[-1]), (u.mT @ u).shape), **tolerance(dtype))
        q, r = L.qr(x, mode="complete" if full else "reduced")
        assert q.shape == u.shape
        assert r.shape == (*shape[:-2], q.shape[-1], n)
        assert_close(q @ r, x, **tolerance(dtype))
        assert_close(ck.tril(r, k=-1), np.zeros(r.shape))
        assert_close(q.mT @ q, np.broadcast_to(np.eye(q.shape[-1]), (q.mT @ q).shape), **tolerance(dtype))
    assert_close(L.svdvals(x), np.linalg.svd(x.numpy(), compute_uv=False), **tolerance(dtype))
    assert_close(L.svd(x, compute_uv=False), s, **tolerance(dtype))
    assert_close(abs(L.qr(x, mode="r")), abs(np.linalg.qr(x.numpy(), mode="r")), **tolerance(dtype))


@pytest.mark.parametrize("shape", SQUARE, ids=str)
@NARROW
def test_square_matrices(device: ck.Device, shape: tuple[int, ...], dtype: str) -> None:
    a, p = regular(*shape).astype(dtype), positive(*shape).astype(dtype)
    x, definite = ck.asarray(a), ck.asarray(p)
    eye = np.broadcast_to(np.eye(shape[-1]), shape)
    assert_close(x @ L.inv(x), eye, **tolerance(dtype))
    assert_close(L.det(x), np.linalg.det(a), **tolerance(dtype))
    sign, size = L.slogdet(x)
    assert_close(sign * ck.exp(size), np.linalg.det(a), **tolerance(dtype))
    lower = L.cholesky(definite)
    assert_close(lower @ lower.mT, p, **tolerance(dtype))
    assert_close(L.cholesky(definite, upper=True), lower.mT, **tolerance(dtype))
    values, vectors = L.eigh(definite)
    assert_close((vectors * ck.expand_dims(values, -2)) @ vectors.mT, p, **tolerance(dtype))
    assert_close(L.eigvalsh(definite, UPLO="U"), values, **tolerance(dtype))
    assert_close(values, np.linalg.eigvalsh(p), **tolerance(dtype))
    for power in (0, 1, 2, 5, -1, -3):
        assert_close(L.matrix_power(x, power), np.linalg.matrix_power(a, power), rtol=1e-3, atol=1e-4)


def test_triangles_that_are_read(device: ck.Device) -> None:
    p = positive(3, 3)
    lower, upper = ck.asarray(np.tril(p)), ck.asarray(np.triu(p))
    assert_close(L.cholesky(lower), np.linalg.cholesky(p))
    assert_close(L.eigvalsh(lower), np.linalg.eigvalsh(p))
    assert_close(L.eigvalsh(upper, "U"), np.linalg.eigvalsh(p))
    assert_close(L.eigh(upper, "U").eigenvalues, np.linalg.eigvalsh(p))


SOLVED = [
    ((3, 3), (3,)),
    ((3, 3), (3, 2)),
    ((2, 3, 3), (3,)),
    ((2, 3, 3), (3, 2)),
    ((3, 3), (4, 3, 2)),
    ((5, 1, 3, 3), (2, 3, 1)),
    ((0, 3, 3), (3, 2)),
    ((3, 3), (3, 0)),
    ((0, 0), (0, 2)),
    ((2, 2, 2), (2,)),
]


@pytest.mark.parametrize("shapes", SOLVED, ids=str)
def test_solve(device: ck.Device, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    a, b = regular(*shapes[0]), random(*shapes[1])
    got = L.solve(ck.asarray(a), ck.asarray(b))
    want = np.linalg.solve(a, b)
    assert got.shape == want.shape
    assert_close(got, want)
    if got.size:
        assert gradcheck(L.solve, [ck.asarray(a), ck.asarray(b)], order=2)


def test_integers_get_the_default_dtype(device: ck.Device) -> None:
    x = ck.asarray([[2, 1], [1, 3]])
    for function in (L.inv, L.det, L.cholesky, L.eigvalsh, L.svdvals, L.pinv, L.cond):
        assert function(x).dtype == ck.float32
        assert_close(function(x), function(x.astype(ck.float32)))
        with ck.default_dtype(ck.float64):
            assert function(x).dtype == ck.float64
            assert_close(function(x), function(x.astype(ck.float64)))
    assert L.solve(x.astype(ck.float32), ck.asarray([1, 2])).dtype == ck.float32
    assert L.matrix_power(x, 3).dtype == ck.int64
    assert L.matrix_power(x, 0).tolist() == [[1, 0], [0, 1]]
    assert L.matrix_rank(x).dtype == ck.int64


REFUSING: dict[str, Callable[[ck.Array], Any]] = {
    "inv": L.inv,
    "det": L.det,
    "slogdet": L.slogdet,
    "cholesky": L.cholesky,
    "eigh": L.eigh,
    "eigvalsh": L.eigvalsh,
    "solve": lambda x: L.solve(x, ck.ones(x.shape[-1])),
}
ANY_SHAPE: dict[str, Callable[[ck.Array], Any]] = {
    "svd": L.svd,
    "svdvals": L.svdvals,
    "qr": L.qr,
    "pinv": L.pinv,
    "cond": L.cond,
    "lstsq": lambda x: L.lstsq(x, ck.ones(x.shape[0])),
}


@pytest.mark.parametrize("name", [*REFUSING, *ANY_SHAPE])
def test_refusals(device: ck.Device, name: str) -> None:
    function = {**REFUSING, **ANY_SHAPE}[name]
    with pytest.raises(LinAlgError, match="at least two axes"):
        function(ck.ones(3))
    if name in REFUSING:
        with pytest.raises(LinAlgError, match="square"):
            function(ck.ones((2, 3)))
    for dtype in ("float16", "bfloat16"):
        with pytest.raises(TypeError, match=f"float32 or float64, got {dtype}"):
            function(ck.ones((2, 2), dtype=dtype))
    with pytest.raises(TypeError, match="expected numbers that a dtype of cukern holds"):
        function(np.full((2, 2), "a"))  # type: ignore[arg-type]


def test_refusals_of_arguments(device: ck.Device) -> None:
    x = ck.ones((2, 2))
    with pytest.raises(ValueError, match="mode: expected"):
        L.qr(x, mode="raw")  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="UPLO: expected"):
        L.eigh(x, "X")
    with pytest.raises(ValueError, match="does not fit"):
        L.solve(x, ck.ones(3))
    with pytest.raises(ValueError, match="solve: .*broadcast"):
        L.solve(ck.ones((2, 2, 2)), ck.ones((3, 2, 1)))
    for p in (None, 1):
        with pytest.raises(LinAlgError, match="elements"):
            L.cond(ck.ones((0, 0)), p)
    with pytest.raises(ValueError, match="ord"):
        L.norm(x, "max")
    with pytest.raises(ValueError, match="one axis or two"):
        L.norm(ck.ones((2, 2, 2)), axis=(0, 1, 2))
    with pytest.raises(ValueError, match="no value"):
        L.matrix_norm(ck.ones((0, 2)), ord=-2)
    with pytest.raises(LinAlgError, match=r"shapes \(m, n\)"):
        L.lstsq(x, ck.ones(3))
    with pytest.raises(ValueError, match="expected one axis"):
        L.outer(x, x)
    with pytest.raises(ValueError, match="at least two arrays"):
        L.multi_dot([x])


def test_singular_matrices(device: ck.Device) -> None:
    singular, indefinite = ck.asarray([[1.0, 2.0], [2.0, 4.0]]), ck.asarray([[1.0, 2.0], [2.0, 1.0]])
    assert L.det(singular).item() == 0.0
    assert [part.item() for part in L.slogdet(singular)] == [0.0, -np.inf]
    assert [L.cond(ck.zeros((2, 2)), p).item() for p in (None, 1, "fro")] == [np.inf] * 3
    if device.kind == "host":
        for function in (L.inv, lambda x: L.solve(x, ck.ones(2))):
            with pytest.raises(LinAlgError, match="Singular"):
                function(singular)
        with pytest.raises(LinAlgError, match="positive definite"):
            L.cholesky(indefinite)
    else:
        assert not ck.all(ck.isfinite(L.inv(singular))).item()
        assert not ck.any(ck.isfinite(L.cholesky(indefinite))).item()
        stack = L.cholesky(ck.stack([indefinite, ck.eye(2)]))
        assert ck.isfinite(stack).tolist() == [[[False] * 2] * 2, [[True] * 2] * 2]


def test_pinv_of_symmetric_matrices(device: ck.Device) -> None:
    a = np.stack([np.diag([5.0, -1.0, 1e-3]), np.eye(3)])
    upper = ck.asarray(a + np.triu(random(3, 3), 1))  # is not read
    for options in ({}, {"rcond": 1e-2}, {"rtol": 1e-2}):
        want = np.linalg.pinv(a, hermitian=True, **options)
        assert_close(L.pinv(upper, hermitian=True, **options), want, rtol=1e-12, atol=1e-15)
    assert_close(L.pinv(ck.asarray(a), 1e-2), np.linalg.pinv(a, 1e-2))
    with pytest.raises(ValueError, match="rcond and rtol"):
        L.pinv(upper, 1e-2, rtol=1e-2)
    with pytest.raises(L.LinAlgError, match="square"):
        L.pinv(ck.zeros((2, 3)), hermitian=True)


def test_exponentials_of_matrices(device: ck.Device) -> None:
    turn = np.array([[0.0, -1.0], [1.0, 0.0]])
    for angle in (0.0, 1e-3, 1.0, 50.0):
        want = np.cos(angle) * np.eye(2) + np.sin(angle) * turn
        assert_close(L.expm(ck.asarray(angle * turn)), want, rtol=1e-12, atol=1e-13)
        single = L.expm(ck.asarray(angle * turn, dtype=ck.float32))
        assert single.dtype == ck.float32
        assert_close(single, want, rtol=0, atol=1e-6 * max(1.0, angle))
    both = L.expm(ck.asarray(np.stack([turn, 50 * turn])))  # squared as often as each needs
    assert_close(both[0], L.expm(ck.asarray(turn)), rtol=1e-15, atol=0)
    assert L.expm(ck.zeros((2, 0, 0))).shape == (2, 0, 0)
    assert np.isnan(L.expm(ck.asarray(turn * np.nan)).numpy()).all()
    with pytest.raises(L.LinAlgError, match="expm: x: expected square"):
        L.expm(ck.zeros((2, 3)))


@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize("lower", [False, True])
def test_triangular_equations(device: ck.Device, lower: bool, trans: bool, unit: bool) -> None:
    a, b = regular(2, 3, 3), random(2, 3, 2)
    triangle = np.tril(a) if lower else np.triu(a)
    if unit:
        triangle = triangle - triangle * np.eye(3) + np.eye(3)
    options = {"lower": lower, "trans": trans, "unit_diagonal": unit}
    got = L.solve_triangular(ck.asarray(a), ck.asarray(b), **options)
    assert_close(got, np.linalg.solve(triangle.mT if trans else triangle, b), rtol=1e-12, atol=1e-13)
    with pytest.raises(ValueError, match="solve_triangular: x2 of shape"):
        L.solve_triangular(ck.asarray(a), ck.zeros(2), **options)


@pytest.mark.parametrize(
    "shapes", [((130, 130), (130,)), ((2, 70, 70), (1, 70, 3)), ((9, 3, 3), (3, 1))], ids=str
)
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("lower", [False, True])
def test_triangular_equations_of_many_rows(
    device: ck.Device, lower: bool, dtype: str, shapes: tuple[tuple[int, ...], tuple[int, ...]]
) -> None:
    a, b = (random(*shape).astype(dtype) for shape in shapes)
    if dtype == "complex128":
        a, b = a + 1j * random(*a.shape), b - 1j * random(*b.shape)
    a = a / 8 + 4 * np.eye(a.shape[-1])
    triangle = np.tril(a) if lower else np.triu(a)
    for trans in (False, True):
        got = L.solve_triangular(ck.asarray(a), ck.asarray(b), lower=lower, trans=trans)
        column = b[:, None] if b.ndim == 1 else b
        want = np.linalg.solve(triangle.mT if trans else triangle, column)
        assert_close(got, want[..., 0] if b.ndim == 1 else want, rtol=1e-11, atol=1e-13)


def test_singular_triangles(device: ck.Device) -> None:
    a = np.eye(100)
    a[70, 70] = 0
    if device.kind == "host":
        with pytest.raises(LinAlgError, match="Singular"):
            L.solve_triangular(ck.asarray(a), ck.ones(100, dtype=ck.float64))
    else:
        got = L.solve_triangular(ck.asarray(a), ck.ones(100, dtype=ck.float64))
        assert not np.isfinite(got.numpy()[70])
    assert_close(L.solve_triangular(ck.asarray(a), ck.ones(100), unit_diagonal=True), np.ones(100))


def test_gradients_of_complex_triangular_equations(device: ck.Device) -> None:
    a, b = regular(3, 3) + 1j * random(3, 3), random(3, 2) + 1j * random(3, 2)
    for lower, trans, unit in ((False, True, False), (True, False, True), (True, True, False)):
        options = {"lower": lower, "trans": trans, "unit_diagonal": unit}
        solved = functools.partial(L.solve_triangular, **options)
        assert gradcheck(solved, [ck.asarray(a), ck.asarray(b)], order=2)


@pytest.mark.parametrize("shape", [(4, 3), (3, 4), (2, 3, 3), (0, 2), (2, 0)], ids=str)
def test_pinv_and_rank(device: ck.Device, shape: tuple[int, ...]) -> None:
    a = random(*shape)
    assert_close(L.pinv(ck.asarray(a)), np.linalg.pinv(a), rtol=1e-10, atol=1e-12)
    assert L.matrix_rank(ck.asarray(a)).tolist() == np.linalg.matrix_rank(a).tolist()
    flat = np.diag([5.0, 1.0, 1e-3])
    assert L.matrix_rank(ck.asarray(flat), rtol=1e-2).item() == 2
    assert_close(L.pinv(ck.asarray(flat), rtol=1e-2), np.diag([0.2, 1.0, 0.0]))
    assert L.matrix_rank(ck.asarray(np.stack([flat, flat])), rtol=ck.asarray([1e-2, 1e-6])).tolist() == [2, 3]
    assert L.matrix_rank(ck.zeros(3)).item() == 0


@pytest.mark.parametrize(
    "shapes", [((5, 3), (5,)), ((5, 3), (5, 2)), ((3, 5), (3,)), ((3, 3), (3, 2))], ids=str
)
def test_lstsq(device: ck.Device, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    a, b = (random(*shape) for shape in shapes)
    got, want = L.lstsq(ck.asarray(a), ck.asarray(b)), np.linalg.lstsq(a, b)
    for one, other in zip(got, want, strict=True):
        assert_close(one, other, rtol=1e-10, atol=1e-12)
    assert gradcheck(lambda a, b: L.lstsq(a, b).x, [ck.asarray(a), ck.asarray(b)], order=2)
    deficient = L.lstsq(ck.ones((4, 2)), ck.ones(4))
    assert deficient.rank.dtype == ck.int32
    assert L.lstsq(ck.ones((2, 2), "complex64"), ck.ones(2)).residuals.dtype == ck.float32
    assert (deficient.rank.item(), deficient.residuals.shape) == (1, (0,))
    assert_close(deficient.x, [0.5, 0.5], **tolerance("float32"))


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
@pytest.mark.parametrize("shape", [(9, 4), (4, 9)], ids=str)
def test_lstsq_by_squares(device: ck.Device, shape: tuple[int, int], dtype: str) -> None:
    wide = "complex128" if dtype == "complex64" else "float64"

    def draw(*size: int) -> Any:
        return random(*size) + (1j * random(*size, seed=1) if dtype == "complex64" else 0)

    for rank in (4, 2):
        a = (draw(shape[0], rank) @ draw(rank, shape[1])).astype(dtype)
        b = draw(shape[0], 2).astype(dtype)
        rtol = max(shape) * np.finfo(dtype).eps
        want = np.linalg.lstsq(a.astype(wide), b.astype(wide), rcond=rtol)
        x, found, s = by_squares(ck.asarray(a), ck.asarray(b), None)
        assert int(found) == want[2] == rank
        assert_close(x, want[0], rtol=1e-4, atol=1e-5)
        assert_close(s, want[3], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_svd_by_squares(device: ck.Device, dtype: str) -> None:
    """Factors as of the matrix itself, also where most singular values are below the square root of its rounding."""
    wide = "complex128" if dtype == "complex64" else "float64"
    for shape, far in (((12, 7), 2), ((7, 12), 12), ((6, 6), 40)):
        m, n = shape
        draw = random(m, m) + (1j * random(m, m, seed=1) if dtype == "complex64" else 0)
        turned = np.linalg.qr(draw)[0][:, : min(m, n)] * np.logspace(0, -far, min(m, n))
        a = (turned @ np.linalg.qr(random(n, n))[0][: min(m, n)]).astype(dtype)
        want = np.linalg.svd(a.astype(wide), compute_uv=False)
        x = ck.asarray(a)
        assert_close(
            narrow_values(L.eigvalsh(squared(x if m >= n else ck.matrix_transpose(x))[1]), x.dtype),
            want,
            atol=1e-6,
        )
        for full in (False, True):
            u, s, vh = svd_by_squares(x, full)
            assert (u.shape[1], vh.shape[0]) == (shape if full else (min(m, n),) * 2)
            assert_close(s, want, atol=1e-6)
            rest = (u[:, : s.size] * s) @ vh[: s.size]
            for made, exact in (
                (ck.conj(u.mT) @ u, np.eye(u.shape[1])),
                (vh @ ck.conj(vh.mT), np.eye(vh.shape[0])),
                (rest, a),
            ):
                assert_close(made, exact, atol=3e-6)


def test_tensors(device: ck.Device) -> None:
    a = random(2, 3, 6)
    assert_close(L.tensorinv(ck.asarray(a)), np.linalg.tensorinv(a))
    assert_close(L.tensorsolve(ck.asarray(a), ck.asarray(a[..., 0])), np.linalg.tensorsolve(a, a[..., 0]))
    moved = np.moveaxis(a, 2, 0)
    got = L.tensorsolve(ck.asarray(moved), ck.asarray(a[..., 0]), axes=(0,))
    assert_close(got, np.linalg.tensorsolve(moved, a[..., 0], axes=(0,)))
    with pytest.raises(LinAlgError, match="square"):
        L.tensorinv(ck.ones((2, 3)), 1)


def test_norms_of_nothing_and_of_many(device: ck.Device) -> None:
    for order in ("fro", "nuc", 1, 2, np.inf):
        assert L.matrix_norm(ck.ones((0, 3)), ord=order).item() == 0.0
    assert L.vector_norm(ck.ones(0), ord=np.inf).item() == 0.0
    assert L.norm(ck.ones((2, 2, 2))).item() == pytest.approx(8**0.5)
    assert L.norm(ck.full(300, 300.0, dtype="float16")).item() == pytest.approx(300 * 300**0.5, rel=1e-3)
    assert L.vector_norm(ck.asarray([100, 100], dtype="int8")).item() == pytest.approx(100 * 2**0.5)


SMOOTH: dict[str, tuple[Callable[..., Any], list[np.ndarray]]] = {
    "inv": (L.inv, [regular(2, 3, 3)]),
    "det": (L.det, [regular(2, 3, 3)]),
    "slogdet": (lambda x: L.slogdet(x).logabsdet, [regular(2, 3, 3)]),
    "cholesky": (lambda x: L.cholesky(symmetric(x)), [positive(2, 3, 3)]),
    "cholesky upper": (lambda x: L.cholesky(symmetric(x), upper=True), [positive(3, 3)]),
    "eigh": (lambda x: tuple(part * part for part in L.eigh(symmetric(x))), [random(2, 3, 3)]),
    "eigh upper": (lambda x: L.eigh(symmetric(x), "U").eigenvectors ** 2, [random(3, 3)]),
    "eigvalsh": (lambda x: L.eigvalsh(symmetric(x)), [random(2, 3, 3)]),
    "qr": (L.qr, [random(2, 4, 3)]),
    "qr square": (lambda x: L.qr(x, mode="complete"), [regular(3, 3)]),
    "qr wide": (L.qr, [random(2, 2, 4)]),
    "qr alone": (lambda x: L.qr(x, mode="r"), [random(4, 3)]),
    "svd": (lambda x: tuple(part * part for part in L.svd(x, full_matrices=False)), [random(2, 4, 3)]),
    "svd wide": (lambda x: tuple(part * part for part in L.svd(x, full_matrices=False)), [random(2, 4)]),
    "svd square": (lambda x: tuple(part * part for part in L.svd(x)), [regular(3, 3)]),
    "svd product": (lambda x: (lambda u, s, vh: u @ vh)(*L.svd(x, full_matrices=False)), [random(4, 2)]),
    "svdvals": (L.svdvals, [random(2, 3, 4)]),
    "pinv": (L.pinv, [random(2, 4, 3)]),
    "pinv wide": (L.pinv, [random(2, 4)]),
    "pinv hermitian": (lambda x: L.pinv(symmetric(x), hermitian=True), [regular(3, 3)]),
    "expm": (L.expm, [random(2, 3, 3)]),
    "expm squared often": (lambda x: L.expm(20 * (x - x.T)), [regular(3, 3)]),
    "triangle": (
        lambda a, b: [
            L.solve_triangular(a, b, lower=lower, trans=trans, unit_diagonal=unit)
            for lower, trans, unit in ((False, False, False), (True, False, True), (True, True, False))
        ],
        [regular(3, 3), random(3)],
    ),
    "pinv of low rank": (lambda a, b: L.pinv(a @ b, rtol=1e-8), [random(4, 2), random(2, 3)]),
    "power": (lambda x: L.matrix_power(x, 3), [random(2, 3, 3)]),
    "negative power": (lambda x: L.matrix_power(x, -2), [regular(3, 3)]),
    "cond": (L.cond, [regular(3, 3)]),
    "cond 1": (lambda x: L.cond(x, 1), [regular(3, 3)]),
    "multi_dot": (lambda *arrays: L.multi_dot(arrays), [random(3), random(3, 4), random(4, 2)]),
    "residuals": (lambda a, b: L.lstsq(a, b).residuals, [random(4, 2), random(4)]),
    "tensorinv": (lambda x: L.tensorinv(x, 1), [regular(4, 4).reshape(4, 2, 2)]),
    **{
        f"matrix_norm {order}": (lambda x, order=order: L.matrix_norm(x, ord=order), [random(2, 3, 4)])
        for order in ("fro", "nuc", 2, -2, 1, np.inf)
    },
}


@pytest.mark.parametrize("name", SMOOTH)
def test_gradients(device: ck.Device, name: str) -> None:
    function, arguments = SMOOTH[name]
    assert gradcheck(function, list(map(ck.asarray, arguments)), order=2)


def test_third_derivatives(device: ck.Device) -> None:
    assert gradcheck(L.inv, [ck.asarray(regular(2, 2))], order=3)
    assert gradcheck(lambda x: L.eigvalsh(symmetric(x)), [ck.asarray(regular(2, 2))], order=3)


def cofactors(a: np.ndarray) -> np.ndarray:
    minor = [
        [np.linalg.det(np.delete(np.delete(a, i, 0), j, 1)) * (-1) ** (i + j) for j in range(3)]
        for i in range(3)
    ]
    return np.asarray(minor)


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_derivative_of_a_determinant_that_is_0(device: ck.Device, rank: int) -> None:
    a = np.zeros((3, 3))
    a[:, :rank] = random(3, rank)
    stack = np.stack([a, regular(3, 3), a.T])
    made = ck.grad(lambda x: L.det(x).sum())(ck.asarray(stack))
    assert_close(made, np.stack([cofactors(one) for one in stack]))
    with pytest.raises(GradientError, match="det: the second derivative"):
        ck.grad(lambda x: (ck.grad(lambda y: L.det(y))(x) ** 2).sum())(ck.asarray(a))


def test_derivatives_of_values_that_are_equal(device: ck.Device) -> None:
    assert_close(ck.grad(lambda x: (L.eigh(x).eigenvalues ** 2).sum())(ck.eye(3)), 2 * np.eye(3))
    assert_close(ck.grad(lambda x: L.matrix_norm(x, ord="nuc"))(ck.eye(3)), np.eye(3), **tolerance("float32"))
    assert_close(ck.grad(L.norm)(ck.zeros((2, 3))), np.zeros((2, 3)))
    # The third vector has a derivative, the two of the value 1 have none.
    twice = ck.asarray(np.diag([1.0, 1.0, 2.0]))
    assert gradcheck(lambda x: L.eigh(symmetric(x)).eigenvectors[:, 2] ** 2 + 0 * x[0], [twice])
    weight = ck.asarray(random(3, 3))
    made = ck.grad(lambda x: (L.eigh(x).eigenvectors * weight).sum())(twice)
    assert not ck.all(ck.isfinite(made)).item()


def test_vectors_of_full_matrices_have_no_derivative(device: ck.Device) -> None:
    x = ck.asarray(random(4, 2))
    assert_close(
        ck.grad(lambda x: L.svd(x).S.sum())(x), ck.grad(lambda x: L.svd(x, full_matrices=False).S.sum())(x)
    )
    with pytest.raises(GradientError, match="full_matrices=False"):
        ck.grad(lambda x: L.svd(x).U.sum())(x)
    with pytest.raises(GradientError, match="mode='reduced'"):
        ck.grad(lambda x: L.qr(x, mode="complete").Q.sum())(x)


def test_numpys_functions(device: ck.Device) -> None:
    a, p = regular(3, 3), positive(3, 3)
    for name in ("inv", "det", "slogdet", "svd", "qr", "pinv", "norm", "cond", "matrix_rank", "svdvals"):
        function = getattr(np.linalg, name)
        for one, other in zip(_parts(function(ck.asarray(a))), _parts(function(a)), strict=True):
            assert isinstance(one, ck.Array)
            assert_close(abs(one), abs(np.asarray(other)))
    assert_close(np.linalg.cholesky(ck.asarray(p)), np.linalg.cholesky(p))
    assert_close(np.linalg.solve(ck.asarray(a), ck.asarray(p)), np.linalg.solve(a, p))


def _parts(made: Any) -> list[Any]:
    return list(made) if isinstance(made, tuple) else [made]
