"""In-place operators: memory that is shared, repeated views, the rules of their operators."""

from __future__ import annotations

import numpy as np
import pytest

import cukern as ck
from cukern.testing import assert_close


def test_in_place_on_a_repeated_view_is_refused(device: ck.Device) -> None:
    x = ck.asarray([1.0, 2.0])
    with ck.Tape() as recorder:
        recorder.watch(x)
        y = x.sum()
    for view in (ck.broadcast_to(x, (3, 2)), recorder.gradient(y, x)):
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
