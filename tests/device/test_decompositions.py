"""The linalg module: factorisations put together again, equations, shapes and refusals."""

from __future__ import annotations

import ctypes
import itertools
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from decomposition_support import positive, random, regular, tolerance
from numpy.linalg import LinAlgError

import cukern as ck
from cukern.device.cuda import cublas
from cukern.linear import decompositions
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


def rounded(singular: np.ndarray, dtype: str) -> np.ndarray:
    """Singular values, with 0 for those below the rounding of the largest."""
    return np.where(singular < 16 * np.finfo(dtype).eps * singular[0], 0, singular)


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
        assert_close(s, rounded(want[3], dtype), rtol=1e-5, atol=1e-6 * want[3][0])


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_svd_by_squares(device: ck.Device, dtype: str) -> None:
    """Factors as of the matrix itself, also where most singular values are below the square root of its rounding."""
    wide = "complex128" if dtype == "complex64" else "float64"
    for shape, far in (((12, 7), 2), ((7, 12), 12), ((6, 6), 40)):
        m, n = shape
        draw = random(m, m) + (1j * random(m, m, seed=1) if dtype == "complex64" else 0)
        turned = np.linalg.qr(draw)[0][:, : min(m, n)] * np.logspace(0, -far, min(m, n))
        a = (turned @ np.linalg.qr(random(n, n))[0][: min(m, n)]).astype(dtype)
        want = rounded(np.linalg.svd(a.astype(wide), compute_uv=False), dtype)
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


class _Library:
    """cuBLAS's substitution, of NumPy arrays at the addresses that it gets."""

    @staticmethod
    def cublasDtrsm_v2_64(
        handle: object,
        side: Any,
        uplo: Any,
        trans: Any,
        diag: Any,
        m: Any,
        n: Any,
        alpha: Any,
        *matrices: Any,
    ) -> int:
        at, lda, to, ldb = matrices
        size = n.value if side.value else m.value

        def by_columns(address: int, rows: int, columns: int, step: int) -> np.ndarray:
            memory = (ctypes.c_double * (step * columns)).from_address(address)
            return np.frombuffer(memory).reshape(columns, step)[:, :rows].T

        a, b = by_columns(at.value, size, size, lda.value), by_columns(to.value, m.value, n.value, ldb.value)
        a = np.triu(a) if uplo.value else np.tril(a)
        a = a - np.diag(np.diag(a)) + np.eye(size) if diag.value else a
        a = a.T if trans.value else a
        b[...] = np.linalg.solve(a.T, b.T).T if side.value else np.linalg.solve(a, b)
        return 0


@pytest.mark.parametrize("of_rows", [False, True])
def test_arguments_of_the_library_of_triangles(monkeypatch: pytest.MonkeyPatch, of_rows: bool) -> None:
    monkeypatch.setattr(cublas, "_ready", lambda *given: (_Library, None))
    monkeypatch.setattr(cublas, "_LARGE_TRIANGLE", 1)
    rng = np.random.default_rng(0)
    full, sides = rng.normal(size=(2, 4, 4)) + 3 * np.eye(4), rng.normal(size=(2, 4, 3))
    for lower, transposed, unit in itertools.product((False, True), repeat=3):
        a = np.tril(full) if lower else np.triu(full)
        a = a * (1 - np.eye(4)) + np.eye(4) if unit else a
        wanted = np.linalg.solve(a.swapaxes(-2, -1) if transposed else a, sides)
        own = sides.swapaxes(-2, -1).copy() if of_rows else sides.copy()
        given = [
            types.SimpleNamespace(data=types.SimpleNamespace(ptr=one.ctypes.data)) for one in (*full, *own)
        ]
        pairs = _Batch(own.shape, given[2:])
        cublas.solve_triangles(None, given[:2], pairs, lower, transposed, unit, of_rows)
        assert_close(own.swapaxes(-2, -1) if of_rows else own, wanted, rtol=1e-12, atol=1e-12)


class _Batch(list[Any]):
    """Matrices with the attributes of an array of all."""

    dtype = np.dtype(np.float64)

    def __init__(self, shape: tuple[int, ...], matrices: Sequence[Any]) -> None:
        super().__init__(matrices)
        self.shape = shape


def test_blocks_of_a_triangular_product(device: ck.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    x = ck.asarray(positive(9, 9))
    weights = ck.asarray(random(9, 9))
    wanted = ck.grad(lambda x: (L.cholesky(x) * weights).sum())(x)
    monkeypatch.setattr(decompositions, "_BLOCK", 2)
    assert_close(
        ck.grad(lambda x: (L.cholesky(x) * weights).sum())(x), wanted.numpy(), rtol=1e-12, atol=1e-12
    )
    assert_close(wanted, wanted.mT.numpy(), rtol=1e-12, atol=1e-12)
