"""Vectors of length 1 and cosines, against NumPy's formulas."""

from __future__ import annotations

import numpy as np
import pytest
from nn_support import random

import cukern as ck
from cukern import nn
from cukern.testing import gradcheck


def test_normalized(device: ck.Device) -> None:
    x = random(0, (3, 4, 5))
    for axis, ord in ((-1, 2), (1, 2), (0, 1), ((1, 2), 2), (2, np.inf)):
        axes = axis if isinstance(axis, tuple) else (axis,)
        values = np.moveaxis(x.numpy(), axes, range(len(axes))).reshape(-1, *np.delete(x.shape, axes))
        lengths = np.linalg.norm(values, ord, axis=0)
        expected = x.numpy() / np.expand_dims(lengths, axis)
        made = nn.normalize(x, axis, ord)
        np.testing.assert_allclose(made.numpy(), expected, rtol=1e-12)
        single = nn.normalize(x.astype("float32"), axis, ord)
        assert single.dtype == "float32"
        np.testing.assert_allclose(single.numpy(), expected, rtol=1e-5)
    assert gradcheck(lambda x: nn.normalize(x, 1), [x], order=2)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_vectors_of_zeros(device: ck.Device, dtype: str) -> None:
    """They stay zeros, also in dtypes in which the least divisor rounds to 0."""
    x = ck.zeros((2, 3), dtype)
    assert nn.normalize(x).tolist() == x.tolist()
    assert nn.cosine_similarity(x, ck.ones((2, 3), dtype)).tolist() == [0.0, 0.0]
    gradient = ck.grad(lambda x: nn.normalize(x, eps=0.25).sum())(x)
    assert gradient.tolist() == [[4.0] * 3] * 2


def test_cosines(device: ck.Device) -> None:
    x, y = random(0, (3, 1, 5)), random(1, (4, 5))
    a, b = x.numpy(), y.numpy()
    expected = (a * b).sum(-1) / np.linalg.norm(a, axis=-1) / np.linalg.norm(b, axis=-1)
    np.testing.assert_allclose(nn.cosine_similarity(x, y).numpy(), expected, rtol=1e-12)
    np.testing.assert_allclose((nn.normalize(x[:, 0]) @ nn.normalize(y).T).numpy(), expected, rtol=1e-12)
    made = nn.cosine_similarity(x.astype("float32"), y.astype("float16"))
    assert made.dtype == "float32" and made.shape == (3, 4)
    columns = nn.cosine_similarity(y, y[::-1], axis=0)
    lengths = np.linalg.norm(b, axis=0) * np.linalg.norm(b[::-1], axis=0)
    np.testing.assert_allclose(columns.numpy(), (b * b[::-1]).sum(0) / lengths, rtol=1e-12)
    assert nn.cosine_similarity(y, y, eps=10.0).tolist() == pytest.approx(((b / 10) ** 2).sum(-1).tolist())
    assert gradcheck(nn.cosine_similarity, [x, y], order=2)
    assert nn.cosine_similarity(x[:0], y).shape == (0, 4)


def test_refused(device: ck.Device) -> None:
    x = ck.ones((2, 3))
    with pytest.raises(ValueError, match="normalize: eps: expected a number of at least 0, got -1"):
        nn.normalize(x, eps=-1)
    with pytest.raises(TypeError, match="normalize: x: expected a floating dtype, got int64"):
        nn.normalize(ck.asarray([1]))
    with pytest.raises(np.exceptions.AxisError):
        nn.normalize(x, 2)
    with pytest.raises(TypeError, match="cosine_similarity: y: expected a floating dtype, got int32"):
        nn.cosine_similarity(x, x.astype("int32"))
    with pytest.raises(ValueError, match="broadcast"):
        nn.cosine_similarity(x, ck.ones((2, 4)))
