"""Images read between their pixels, against loops over places and neighbours."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pytest
from nn_support import close, random

import cukern as ck
from cukern import nn
from cukern.testing import gradcheck

PADDINGS = ("zeros", "border", "reflection")


def pixel(given: float, n: int, padding: str, align: bool) -> float:
    """A coordinate in pixels, reflected at one edge after the other."""
    low, high = (0.0, n - 1.0) if align else (-0.5, n - 0.5)
    place = low + (given + 1) / 2 * (high - low)
    while padding == "reflection" and high > low and not low <= place <= high:
        place = 2 * low - place if place < low else 2 * high - place
    if padding == "reflection" and high == low:
        place = low
    return place if padding == "zeros" else min(max(place, 0.0), n - 1.0)


def sampled(x: np.ndarray, grid: np.ndarray, mode: str, padding: str, align: bool) -> np.ndarray:
    """grid_sample by its definition: each neighbour times its distances from the opposite one."""
    sizes = x.shape[2:]
    made = np.zeros((*grid.shape[:-1], x.shape[1]))
    for at in np.ndindex(grid.shape[:-1]):
        place = [pixel(g, n, padding, align) for g, n in zip(grid[at][::-1], sizes, strict=True)]
        if mode == "nearest":
            place = [float(np.rint(one)) for one in place]
        for corner in itertools.product(*((int(np.floor(p)), int(np.floor(p)) + 1) for p in place)):
            if all(0 <= c < n for c, n in zip(corner, sizes, strict=True)):
                weight = np.prod([1 - abs(c - p) for c, p in zip(corner, place, strict=True)])
                made[at] += weight * x[(at[0], slice(None), *corner)]
    return np.moveaxis(made, -1, 1)


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_values(device: ck.Device, mode: str, padding: str, align: bool) -> None:
    rng = np.random.default_rng(0)
    for shape, places in (((2, 3, 4, 5), (3, 4)), ((1, 2, 3, 1, 4), (2, 3, 2))):
        x = rng.normal(size=shape)
        grid = rng.uniform(-2.6, 2.6, (shape[0], *places, len(places)))
        expected = sampled(x, grid, mode, padding, align)
        for dtype in ("float64", "float32"):
            made = nn.grid_sample(ck.asarray(x, dtype), ck.asarray(grid, dtype), mode, padding, align)
            assert made.dtype == dtype
            np.testing.assert_allclose(made.numpy(), expected, atol=1e-12 if dtype == "float64" else 1e-5)


def test_the_image_itself(device: ck.Device) -> None:
    """At the centers of its pixels, in half precision too; and nothing of no image."""
    x = random(0, (2, 3, 4, 8), "float16")
    lines = [(2 * np.arange(n) + 1) / n - 1 for n in (8, 4)]
    grid = np.broadcast_to(np.stack(np.meshgrid(*lines), axis=-1), (2, 4, 8, 2))
    assert nn.grid_sample(x, ck.asarray(grid, "float16")).tolist() == x.tolist()
    assert nn.grid_sample(x[:0], ck.zeros((0, 5, 6, 2), "float16")).shape == (0, 3, 5, 6)
    view = ck.permute_dims(ck.permute_dims(x, (0, 2, 3, 1)).copy(), (0, 3, 1, 2))
    close(nn.grid_sample(view, ck.asarray(grid, "float16")), x.numpy().astype(float))


def test_places_far_away(device: ck.Device) -> None:
    """Infinities too are outside of the image, and have no gradient there."""
    x, far = ck.ones((1, 1, 2, 2)), ck.asarray([[[[np.inf, 0.0], [-np.inf, 0.0], [1e30, 0.0], [0.0, 0.0]]]])
    assert nn.grid_sample(x, far).tolist() == [[[[0.0, 0.0, 0.0, 1.0]]]]
    assert nn.grid_sample(x, far, padding_mode="border").tolist() == [[[[1.0] * 4]]]
    gradient = ck.grad(lambda grid: nn.grid_sample(x, grid).sum())(far)
    assert gradient.tolist() == [[[[0.0, 0.0]] * 4]]


@pytest.mark.parametrize("padding", PADDINGS)
def test_derivatives(device: ck.Device, padding: str) -> None:
    x, grid = random(0, (2, 2, 3, 4)), random(1, (2, 2, 3, 2))
    assert gradcheck(lambda x, g: nn.grid_sample(x * x, g, padding_mode=padding), [x, grid], order=2)
    assert gradcheck(lambda x: nn.grid_sample(x * x, grid, "nearest", padding), [x])


def test_refused(device: ck.Device) -> None:
    x, grid = ck.zeros((2, 3, 4, 5)), ck.zeros((2, 6, 7, 2))
    sample: Any = nn.grid_sample
    for args, error, message in (
        ((x[0], grid), ValueError, "x: expected shape (N, C, H, W) or (N, C, D, H, W), got (3, 4, 5)"),
        ((x, grid[:1]), ValueError, "grid: expected shape (2, ..., 2) of 4 axes, got (1, 6, 7, 2)"),
        ((x, grid[..., :1]), ValueError, "grid: expected shape (2, ..., 2) of 4 axes, got (2, 6, 7, 1)"),
        ((x, grid, "bicubic"), ValueError, "mode: expected one of 'bilinear', 'nearest', got 'bicubic'"),
        ((x, grid, "nearest", "wrap"), ValueError, "padding_mode: expected one of 'zeros', 'border', 'refl"),
        ((x, grid.astype("int32")), TypeError, "grid: expected a floating dtype, got int32"),
    ):
        with pytest.raises(error, match=re.escape(f"grid_sample: {message}")):
            sample(*args)
