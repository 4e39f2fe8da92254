"""Windows as columns, and back, against slices in NumPy."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from nn_support import close, random

import cukern as ck
from cukern import nn
from cukern.testing import gradcheck

OPTIONS: list[dict[str, Any]] = [
    {"kernel_size": 2},
    {"kernel_size": (3, 2), "stride": (2, 3), "padding": (1, 2), "dilation": (2, 1)},
]


def columns(x: np.ndarray, options: dict[str, Any]) -> np.ndarray:
    def pair(name: str, default: int) -> Any:
        value = options.get(name, default)
        return (value, value) if isinstance(value, int) else value

    kernel, stride, padding, dilation = (
        pair(name, default)
        for name, default in (("kernel_size", 0), ("stride", 1), ("padding", 0), ("dilation", 1))
    )
    x = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in padding)])
    found = []
    for tap in itertools.product(*map(range, kernel)):
        parts = []
        for axis in range(2):
            start, last = tap[axis] * dilation[axis], (kernel[axis] - 1 - tap[axis]) * dilation[axis]
            parts.append(slice(start, x.shape[2 + axis] - last, stride[axis]))
        found.append(x[:, :, parts[0], parts[1]].reshape(*x.shape[:2], -1))
    return np.stack(found, axis=2).reshape(x.shape[0], -1, found[0].shape[-1])


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_windows_are_columns(device: ck.Device, dtype: str, options: dict[str, Any]) -> None:
    x = ck.moveaxis(random(0, (2, 7, 8, 3), dtype), -1, 1)
    y = nn.unfold(x, **options)
    assert np.array_equal(y.numpy(), columns(x.numpy(), options))
    assert np.array_equal(nn.unfold(x[0], **options).numpy(), y[0].numpy())
    with ck.kernels_only():
        assert np.array_equal(nn.unfold(x, **options).numpy(), y.numpy())


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_fold_is_the_transpose(device: ck.Device, options: dict[str, Any]) -> None:
    x = random(0, (2, 3, 7, 8))
    y = columns(x.numpy(), options)
    other = random(1, y.shape)
    folded = nn.fold(other, (7, 8), **options)
    assert folded.shape == x.shape
    close(ck.sum(folded * x), (y * other.numpy()).sum(), 64)
    ones = nn.fold(ck.ones(y.shape, "float64"), (7, 8), **options).numpy()
    assert ones.max() == (4 if options["kernel_size"] == 2 else 3)
    close(nn.fold(other[0], (7, 8), **options), folded[0].numpy(), 1)


def test_derivatives(device: ck.Device) -> None:
    options: dict[str, Any] = {"kernel_size": 2, "stride": (1, 2), "padding": 1}
    gradcheck(lambda x: nn.unfold(x, **options), (random(0, (2, 4, 3)),), order=2)
    gradcheck(lambda x: nn.fold(x, (4, 3), **options), (random(0, (8, 10)),), order=2)


def test_refused(device: ck.Device) -> None:
    with pytest.raises(ValueError, match="unfold: kernel_size: no window"):
        nn.unfold(ck.zeros((1, 3, 3)), 4)
    with pytest.raises(ValueError, match="fold: x: expected 4 windows, of 4 elements"):
        nn.fold(ck.zeros((4, 5)), 3, 2)
