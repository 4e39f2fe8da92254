"""Shapes: values and refusals of NumPy, views that share memory, derivatives."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import cukern as ck
from cukern.testing import assert_close, gradcheck

A = np.arange(24.0).reshape(2, 3, 4)

#: The function on an array of shape (2, 3, 4), NumPy's, and whether the result is a view.
CASES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], bool]] = {
    "reshape": (lambda x: ck.reshape(x, (4, -1)), lambda a: a.reshape(4, -1), True),
    "ravel": (ck.ravel, np.ravel, True),
    "permute_dims": (lambda x: ck.permute_dims(x, (2, 0, 1)), lambda a: a.transpose(2, 0, 1), True),
    "transpose": (ck.transpose, np.transpose, True),
    "matrix_transpose": (ck.matrix_transpose, lambda a: a.swapaxes(-1, -2), True),
    "swapaxes": (lambda x: ck.swapaxes(x, 0, -1), lambda a: a.swapaxes(0, -1), True),
    "moveaxis": (lambda x: ck.moveaxis(x, (0, 1), (-1, 0)), lambda a: np.moveaxis(a, (0, 1), (-1, 0)), True),
    "expand_dims": (lambda x: ck.expand_dims(x, (1, -1)), lambda a: np.expand_dims(a, (1, -1)), True),
    "expand_dims of a view": (lambda x: ck.expand_dims(x.T, 1), lambda a: np.expand_dims(a.T, 1), True),
    "squeeze": (lambda x: ck.squeeze(x[:, :1], 1), lambda a: a[:, :1].squeeze(1), True),
    "broadcast_to": (
        lambda x: ck.broadcast_to(x, (5, 2, 3, 4)),
        lambda a: np.broadcast_to(a, (5, 2, 3, 4)),
        True,
    ),
    "flip": (lambda x: ck.flip(x, (0, 2)), lambda a: np.flip(a, (0, 2)), True),
    "roll": (lambda x: ck.roll(x, (1, -2), (0, 2)), lambda a: np.roll(a, (1, -2), (0, 2)), False),
    "roll flat": (lambda x: ck.roll(x, 5), lambda a: np.roll(a, 5), False),
    "concat": (lambda x: ck.concat([x, x[:, :1]], axis=1), lambda a: np.concatenate([a, a[:, :1]], 1), False),
    "concat flat": (
        lambda x: ck.concat([x, x[0]], axis=None),
        lambda a: np.concatenate([a, a[0]], None),
        False,
    ),
    "stack": (lambda x: ck.stack([x, 2 * x], axis=-1), lambda a: np.stack([a, 2 * a], -1), False),
    "unstack": (lambda x: ck.unstack(x, axis=1)[2], lambda a: a[:, 2], True),
    "split": (lambda x: ck.split(x, 2, 2)[1], lambda a: np.split(a, 2, 2)[1], True),
    "split at": (lambda x: ck.split(x, [1, 3], -1)[1], lambda a: np.split(a, [1, 3], -1)[1], True),
    "tril": (lambda x: ck.tril(x, k=1), lambda a: np.tril(a, 1), False),
    "triu": (lambda x: ck.triu(x), np.triu, False),
    "T": (lambda x: x.T, lambda a: a.T, True),
    "mT": (lambda x: x.mT, lambda a: a.swapaxes(-1, -2), True),
    "method reshape": (lambda x: x.reshape(6, 4), lambda a: a.reshape(6, 4), True),
    "method transpose": (lambda x: x.transpose(1, 0, 2), lambda a: a.transpose(1, 0, 2), True),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_values_and_views(device: ck.Device, case: Any) -> None:
    ours, numpys, is_view = case
    x = ck.asarray(A.copy())
    got = ours(x)
    assert_close(got, numpys(A), dtype=np.float64)
    assert (got._storage is x._storage) is is_view
    x[...] = 0.0
    if is_view:
        assert not got.numpy().any()
    else:
        assert got.numpy().any()


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_gradients_to_second_order(device: ck.Device, case: Any) -> None:
    ours, _, _ = case
    assert gradcheck(lambda x: ours(x) * ours(x), [ck.asarray(A)], order=2)


@pytest.mark.parametrize("dtype", ck.dtypes.ALL, ids=lambda d: ck.dtypes.info(d).name)
def test_every_dtype(device: ck.Device, dtype: Any) -> None:
    a = np.arange(6).reshape(2, 3).astype(dtype)
    x = ck.asarray(a)
    assert_close(ck.concat([x, x.T.reshape(2, 3)]), np.concatenate([a, a.T.reshape(2, 3)]), dtype=dtype)
    assert_close(ck.roll(ck.flip(x), 1, 1), np.roll(np.flip(a), 1, 1), dtype=dtype)
    assert_close(ck.tril(x), np.tril(a), dtype=dtype)


def test_reshape_copies_where_it_must(device: ck.Device) -> None:
    x = ck.asarray(A).T
    assert x.reshape(-1)._storage is not x._storage
    assert ck.reshape(ck.asarray(A), (24,), copy=True)._storage.version == 0
    with pytest.raises(ValueError, match="needs a copy, and copy is False"):
        ck.reshape(x, (24,), copy=False)
    with pytest.raises(ValueError, match=r"an array of shape \(2, 3, 4\) has no shape \(5, -1\)"):
        ck.reshape(ck.asarray(A), (5, -1))


def test_joined_dtypes_are_promoted(device: ck.Device) -> None:
    assert ck.concat([ck.ones(2, dtype="int32"), ck.ones(2, dtype="float32")]).dtype == ck.float32
    assert ck.stack([ck.ones(2, dtype="bool"), ck.ones(2, dtype="uint8")]).dtype == ck.uint8


def test_broadcast_arrays(device: ck.Device) -> None:
    x, y = ck.broadcast_arrays(ck.ones((3, 1)), ck.ones(4))
    assert x.shape == y.shape == (3, 4)
    assert ck.broadcast_arrays() == ()


def test_arrays_that_are_not_joined_keep_their_dtypes(device: ck.Device) -> None:
    x, large = ck.ones(2), 2**24 + 1
    for made in (
        *(function(x, large) for function in (ck.atleast_1d, ck.atleast_2d, ck.atleast_3d)),
        ck.broadcast_arrays(x, large),
        ck.meshgrid(x, large),
        ck.broadcast(x, large).values,
    ):
        assert made[0].dtype == ck.float32 and made[1].dtype == ck.int64
        assert made[1].device is x.device and made[1].reshape(-1)[0].item() == large
    small, other = ck.broadcast_arrays(ck.asarray([1, 2], dtype="int8"), 300)
    assert small.dtype == ck.int8 and other.tolist() == [300, 300]


def test_empty(device: ck.Device) -> None:
    x = ck.zeros((0, 3))
    assert ck.concat([x, x]).shape == (0, 3)
    assert ck.flip(x).shape == (0, 3)
    assert ck.roll(x, 1, 0).shape == (0, 3)
    assert ck.reshape(x, (3, 0)).shape == (3, 0)
    assert ck.unstack(x) == ()


REFUSED: dict[str, tuple[Callable[[Any], Any], type[Exception], str]] = {
    "permutation": (lambda x: ck.permute_dims(x, (0, 1)), ValueError, "expected a permutation of 3 axes"),
    "axis": (lambda x: ck.swapaxes(x, 0, 3), np.exceptions.AxisError, "axis 3 is out of bounds"),
    "squeeze": (lambda x: ck.squeeze(x, 0), ValueError, "a size other than 1"),
    "broadcast": (lambda x: ck.broadcast_to(x, (2, 3)), ValueError, "does not broadcast"),
    "concat": (lambda x: ck.concat([x, x[0]]), ValueError, "differ along an axis other than 0"),
    "concat of none": (lambda x: ck.concat([]), ValueError, "expected at least one array"),
    "stack": (lambda x: ck.stack([x, x[0]]), ValueError, "expected one shape"),
    "split": (lambda x: ck.split(x, 3, 2), ValueError, "an axis of size 4 has no 3 equal parts"),
    "moveaxis": (lambda x: ck.moveaxis(x, (0, 1), 0), ValueError, "as many destinations as sources"),
    "matrix_transpose": (lambda x: ck.matrix_transpose(x[0, 0]), ValueError, "at least two axes"),
    "not an array": (lambda x: ck.flip("1"), TypeError, "flip: x: expected an array, a number or nested"),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_refusals(device: ck.Device, case: Any) -> None:
    function, error, message = case
    with pytest.raises(error, match=message):
        function(ck.asarray(A))


def test_all_parts_have_one_derivative(device: ck.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part's own would fill an array of the whole with zeros."""
    x = ck.asarray(np.arange(12.0).reshape(2, 6))
    monkeypatch.setattr(import_module("cukern.index.embed"), "_embedded", None)

    def of_some(x: ck.Array) -> ck.Array:
        a, _, c = ck.split(x, 3, axis=1)
        first, second = ck.unstack(a * a * c)
        return (first * second).sum()

    assert gradcheck(of_some, [x + 1], order=2)


def test_parts_that_overlap_add_up(device: ck.Device) -> None:
    gradient = ck.grad(lambda x: sum((i + 1) * part.sum() for i, part in enumerate(ck.split(x, [3, 1]))))
    assert gradient(ck.zeros(4)).tolist() == [1, 4, 4, 3]


@pytest.mark.parametrize("step", [1, -1])
def test_unstacked_numbers_are_views(device: ck.Device, step: int) -> None:
    x = ck.asarray(np.arange(3.0))
    ck.unstack(x[::step])[1][...] = 7
    assert x.tolist() == [0, 7, 2]


def test_derivative_of_unstacking_a_vector(device: ck.Device) -> None:
    x = ck.asarray(np.array([0.5, -1.0, 2.0]))
    assert gradcheck(lambda x: ck.stack(ck.unstack(x)[::-1]) ** 2, [x], order=2)
