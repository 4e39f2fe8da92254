"""The ReLU of a matrix product and a bias, against its reference and finite differences."""

from __future__ import annotations

import numpy as np
import pytest
from nn_support import DTYPE_NAMES, check_equal, random

import cukern as ck
from cukern import nn
from cukern.testing import gradcheck


def composed(lhs: ck.Array, rhs: ck.Array, bias: ck.Array) -> ck.Array:
    return ck.relu(lhs @ rhs + bias)


@pytest.mark.parametrize("strategy", ["save", "recompute"])
@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_equals_the_reference(device: ck.Device, dtype: str, strategy: str) -> None:
    arrays = [random(0, (2, 9, 13), dtype), random(1, (2, 13, 21), dtype), random(2, (21,), dtype)]
    check_equal(lambda *own: nn.matmul_add_relu(*own, strategy=strategy), composed, arrays)


@pytest.mark.parametrize(
    "shapes",
    [
        ((3, 4), (4, 5), ()),
        ((3, 4), (4, 5), (3, 1)),
        ((3, 4), (4, 5), (1, 5)),
        ((2, 3, 4), (4, 5), (5,)),
        ((3, 4), (2, 4, 5), (3, 5)),
        ((2, 1, 3, 4), (6, 4, 5), (1, 6, 3, 5)),
        ((3, 4), (4, 5), (2, 3, 5)),
        ((1, 4), (4, 1), (2, 3, 5)),
        ((2, 1, 2, 3, 4), (2, 1, 4, 5), (2, 1, 1, 5)),
    ],
    ids=str,
)
def test_every_operand_broadcasts(device: ck.Device, shapes: tuple[tuple[int, ...], ...]) -> None:
    arrays = [random(i, shape) for i, shape in enumerate(shapes)]
    check_equal(nn.matmul_add_relu, composed, arrays)


def test_gradients_of_views_from_a_broadcast_cotangent(device: ck.Device) -> None:
    arrays = [random(0, (6, 8))[::2, ::-2], ck.permute_dims(random(1, (5, 4)), (1, 0)), random(2, (5,))]
    cotangents = [ck.broadcast_to(ck.asarray(np.float64(0.3)), (3, 5))]
    check_equal(nn.matmul_add_relu, composed, arrays, cotangents=cotangents)


def test_empty_axes(device: ck.Device) -> None:
    bias = ck.asarray([1.0, -1.0])
    assert nn.matmul_add_relu(ck.zeros((3, 0)), ck.zeros((0, 2)), bias).tolist() == [[1.0, 0.0]] * 3
    for shape in ((0, 4), (0, 3, 4), (2, 0, 4)):
        lhs, rhs = ck.zeros(shape), ck.ones((4, 2))
        with ck.Tape() as tape:
            tape.watch(lhs, rhs, bias)
            y = ck.sum(nn.matmul_add_relu(lhs, rhs, bias))
        dlhs, drhs, dbias = tape.gradient(y, (lhs, rhs, bias))
        assert dlhs.shape == shape
        assert not drhs.numpy().any()
        assert not dbias.numpy().any()


def test_nan_passes_and_infinity_is_kept(device: ck.Device) -> None:
    lhs = ck.asarray([[1.0], [float("nan")], [float("inf")], [float("-inf")]])
    y = nn.matmul_add_relu(lhs, ck.ones((1, 1)), ck.zeros(1)).numpy()[:, 0]
    assert y[0] == 1.0
    assert np.isnan(y[1])
    assert y[2] == np.inf
    assert y[3] == 0.0


def test_dtypes_promote(device: ck.Device) -> None:
    y = nn.matmul_add_relu(random(0, (2, 3), "float32"), random(1, (3, 2), "float64"), ck.zeros(2, "float16"))
    assert y.dtype == ck.float64


@pytest.mark.parametrize("strategy", ["save", "recompute"])
def test_derivatives_to_second_order(device: ck.Device, strategy: str) -> None:
    arrays = (random(0, (2, 3, 4)), random(1, (4, 5)), random(2, (5,)))
    assert gradcheck(lambda *own: nn.matmul_add_relu(*own, strategy=strategy), arrays, order=2)


def test_gradients_of_one_argument_alone(device: ck.Device) -> None:
    arrays = [random(0, (2, 3, 4)), random(1, (4, 5)), random(2, (5,))]
    for i in range(3):

        def chosen(one: ck.Array, i: int = i) -> list[ck.Array]:
            return [one if i == j else own for j, own in enumerate(arrays)]

        check_equal(
            lambda one, chosen=chosen: nn.matmul_add_relu(*chosen(one)),
            lambda one, chosen=chosen: composed(*chosen(one)),
            [arrays[i]],
        )


def test_recompute_does_not_keep_the_output(device: ck.Device) -> None:
    lhs, rhs, bias = random(0, (3, 4)), random(1, (4, 5)), random(2, (5,))
    kept = {}
    for strategy in ("save", "recompute"):
        with ck.Tape() as tape:
            tape.watch(lhs)
            y = nn.matmul_add_relu(lhs, rhs, bias, strategy=strategy)
        kept[strategy] = any(
            one is not None and one.shape == y.shape for _, _, _, saved, *_ in tape._records for one in saved
        )
    assert kept == {"save": True, "recompute": False}


def test_what_does_not_fit_is_refused(device: ck.Device) -> None:
    lhs, rhs, bias = ck.zeros((2, 3)), ck.zeros((3, 4)), ck.zeros(4)
    with pytest.raises(ValueError, match="rhs: expected 3 rows"):
        nn.matmul_add_relu(lhs, ck.zeros((2, 4)), bias)
    with pytest.raises(ValueError, match="lhs: expected at least 2 axes"):
        nn.matmul_add_relu(ck.zeros(3), rhs, bias)
    with pytest.raises(ValueError, match=r"do not broadcast: lhs \(2, 3\), rhs \(3, 4\), bias \(5,\)"):
        nn.matmul_add_relu(lhs, rhs, ck.zeros(5))
    with pytest.raises(ValueError, match="strategy: expected 'save' or 'recompute', got 'forget'"):
        nn.matmul_add_relu(lhs, rhs, bias, strategy="forget")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="bias: expected a floating dtype, got int64"):
        nn.matmul_add_relu(lhs, rhs, ck.asarray([1, 2, 3, 4]))
    with pytest.raises(TypeError, match="rhs: expected an array, .* got dict"):
        nn.matmul_add_relu(lhs, {}, bias)  # type: ignore[arg-type]
