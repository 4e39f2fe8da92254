"""In-place operators: memory that is shared, repeated views, the rules of their operators."""

from __future__ import annotations

import numpy as np
import pytest

import cukern as ck
from cukern.testing import assert_close


def test_in_place_on_a_repeated_view_is_refused(device: ck.Device) -> None:
    view = ck.broadcast_to(ck.asarray([1.0, 2.0]), (3, 2))
    with pytest.raises(ValueError, match="repeated view"):
        view *= 0.5
    with pytest.raises(ValueError, match="repeated view"):
        view[0] = 0.5


def test_in_place_where_numpy_memory_is_shared() -> None:
    a = np.arange(40.0)
    with ck.device("host"):
        x, y = ck.asarray(a), ck.asarray(a[::-1])
        x += y
    assert_close(x, np.full(40, 39.0))


def test_in_place_powers_follow_the_rules_of_powers(device: ck.Device) -> None:
    x = ck.asarray([1, 2])
    with pytest.raises(ValueError, match="negative integer powers"):
        x **= -1
    x **= 2
    assert x.tolist() == [1, 4]


def test_in_place_writes_the_memory_and_counts(device: ck.Device) -> None:
    x = ck.asarray(np.arange(12.0).reshape(3, 4))
    part = x[:, ::2]
    version = x._storage.version
    part *= 10.0
    assert x._storage.version == version + 1
    want = np.arange(12.0).reshape(3, 4)
    want[:, ::2] *= 10.0
    assert_close(x, want)
    turned = x.T
    turned += turned
    assert_close(x, 2 * want)


def test_in_place_with_overlapping_memory(device: ck.Device) -> None:
    a = np.arange(6.0)
    x = ck.asarray(a.copy())
    x += x[::-1]
    assert_close(x, a + a[::-1])


def test_in_place_matrix_products(device: ck.Device) -> None:
    a, b = np.arange(8.0, dtype="float32").reshape(2, 2, 2), np.array([[0.0, 2.0], [1.0, 3.0]])
    x = whole = ck.asarray(a.copy())
    part, version = x[1], x._storage.version
    x @= ck.asarray(b)  # float64 goes to float32, as in NumPy
    assert x is whole and x.dtype == ck.float32 and x._storage.version == version + 1
    assert_close(x, a @ b.astype("float32"))
    assert_close(part, (a @ b.astype("float32"))[1])
    turned, rows = x[0].T, x[0].numpy()
    turned @= turned
    assert_close(x[0], (rows.T @ rows.T).T)
    v = ck.asarray([1.0, 2.0])
    v @= b.astype("float32")
    assert_close(v, [2.0, 8.0])
    n = ck.asarray([[1, 2], [3, 4]])
    n @= [[0, 1], [1, 0]]
    assert n.dtype == ck.int64 and n.tolist() == [[2, 1], [4, 3]]


SHAPES = [((2, 3), (3, 2)), ((2, 2), (2, 1)), ((2,), (2,)), ((2, 2), (3, 2, 2)), ((2, 2), (3, 3))]


@pytest.mark.parametrize(("left", "right"), SHAPES)
def test_in_place_matrix_products_that_numpy_refuses(
    device: ck.Device, left: tuple[int, ...], right: tuple[int, ...]
) -> None:
    a, b = np.ones(left, "float32"), np.ones(right, "float32")
    with pytest.raises(ValueError, match="matmul|matrix multiplication|output operand"):
        a @= b
    x = ck.asarray(a)
    with pytest.raises(ValueError, match=r"matmul: .*shape"):
        x @= ck.asarray(b)
    whole = ck.ones((2, 2), dtype="int64")
    with pytest.raises(TypeError, match="a result of float32 cannot be written to an array of int64"):
        whole @= ck.ones((2, 2))
    repeated = ck.broadcast_to(ck.ones(2), (2, 2))
    with pytest.raises(ValueError, match="repeated view"):
        repeated @= ck.ones((2, 2))


def test_in_place_refusals(device: ck.Device) -> None:
    x = ck.asarray([1, 2, 3])
    with pytest.raises(TypeError, match="a result of float32 cannot be written to an array of int64"):
        x /= 2
    with pytest.raises(ValueError, match="does not fit"):
        x += ck.ones((2, 3), dtype="int64")
    y = ck.asarray([1.0])
    with ck.Tape() as recorder:
        recorder.watch(y)
        with pytest.raises(ck.GradientError, match=r"x = cukern.add\(x, y\)"):
            y += 1.0


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_in_place_of_complex_numbers(device: ck.Device, dtype: str) -> None:
    rng = np.random.default_rng(0)
    a, b = ((rng.normal(size=(3, 4)) + 1j * rng.normal(size=(3, 4))).astype(dtype) for _ in range(2))
    for other in (b, b.real, 2 - 3j, 1.5, 2):
        given = ck.asarray(other) if isinstance(other, np.ndarray) else other
        for part in (np.s_[:], np.s_[:, ::2], np.s_[::-1]):
            want, x = a.copy(), ck.asarray(a.copy())
            beside = other[part] if isinstance(other, np.ndarray) else other
            view, wanted = x[part], want[part]
            beside_x = given[part] if isinstance(given, ck.Array) else given
            view += beside_x
            wanted += beside
            view *= beside_x
            wanted *= beside
            view -= beside_x
            wanted -= beside
            view /= beside_x
            wanted /= beside
            assert view.dtype == dtype
            assert_close(x, want)
    real = ck.asarray(a.real.copy())
    for refused in (1j, ck.asarray(a)):
        with pytest.raises(
            TypeError, match=f"a result of {dtype} cannot be written to an array of {real.dtype}"
        ):
            real += refused


def test_in_place_gradients_of_complex_numbers(device: ck.Device) -> None:
    """Those of the same operations that are not in place."""
    rng = np.random.default_rng(0)
    a, b = (ck.asarray(rng.normal(size=3) + 1j * rng.normal(size=3)) for _ in range(2))
    made = []
    for in_place in (True, False):
        with ck.Tape() as active:
            active.watch(a, b)
            x = a + 0j
            if in_place:
                x *= b
                x += b
                x /= b * b
                x -= 2j
            else:
                x = (x * b + b) / (b * b) - 2j
            total = ck.real(x * ck.conj(x)).sum()
        made.append(active.gradient(total, [a, b]))
    for one, other in zip(*made, strict=True):
        assert_close(one, other.numpy())
