"""Products of the matrices of a batch with a vector each, as sums of elementwise products, against NumPy in float64."""

from __future__ import annotations

import numpy as np
import pytest
from nn_support import close

import cukern as ck
from cukern.linear.families import PRODUCT


def random(dtype: str, *shape: int) -> ck.Array:
    return ck.asarray(np.random.default_rng(sum(shape)).standard_normal(shape)).astype(dtype)


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("column", [True, False])
def test_vectors_of_a_batch(device: ck.Device, dtype: str, column: bool) -> None:
    x, y = random(dtype, 3, 2, 5, 7), random(dtype, 2, 7, 1)
    if not column:
        x, y = ck.swapaxes(y, -1, -2), ck.swapaxes(x, -1, -2)
    with PRODUCT.only("sum of products") as used:
        for a, b in ((x, y), (x, ck.swapaxes(ck.swapaxes(y, -1, -2).copy(), -1, -2))):
            close(a @ b, a.numpy().astype(float) @ b.numpy().astype(float))
    assert {one.name for one in used} == {"sum of products"}


def test_what_follows(device: ck.Device) -> None:
    x, y, bias = random("float32", 4, 6, 8), random("float32", 4, 8, 1), random("float32", 6, 1)
    ended = ck.fuse(lambda x, y, bias: ck.tanh(x @ y + bias))
    with PRODUCT.only("sum of products") as used:
        close(ended(x, y, bias), np.tanh(x.numpy().astype(float) @ y.numpy() + bias.numpy()))
    assert {one.name for one in used} == {"sum of products"}


def test_it_is_refused_elsewhere(device: ck.Device) -> None:
    x = random("float32", 6, 8)
    with (
        PRODUCT.only("sum of products"),
        pytest.raises(ck.LaunchError, match="a batch of matrices and a vector each"),
    ):
        x @ x.T


@pytest.mark.parametrize("dtype", ["int8", "uint32"])
def test_integers(device: ck.Device, dtype: str) -> None:
    """Their products are priced beside the sums, too, whatever bytes an element has."""
    x, y = ck.asarray(np.arange(24).reshape(2, 3, 4)).astype(dtype), ck.ones((2, 4, 1), dtype=dtype)
    np.testing.assert_array_equal((x @ y).numpy(), x.numpy() @ y.numpy())
