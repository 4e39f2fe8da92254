"""Root-mean-square normalization by the kernels of layer norm, against its reference and finite differences."""

from __future__ import annotations

import numpy as np
import pytest
from nn_support import check_equal, close, gpu_limits, only_with, random, sized

import cukern as ck
from cukern import nn
from cukern.nn.layer_norm.families import GRADIENT, LAYER_NORM, launch_backward, launch_forward
from cukern.nn.layer_norm.reference import layer_norm_reference
from cukern.testing import gradcheck

#: The forward pass's variant, the gradient's, their constants, and columns; of packs those that are chosen.
RMS_LAUNCHES = [
    pytest.param(
        "two passes",
        "two passes",
        {"threads": 1, "groups": 1, "width": 4, "tile": 32},
        100,
        id="a thread a row",
    ),
    pytest.param(
        "two passes",
        "two passes",
        {"threads": 64, "groups": 1, "width": 1, "tile": 8},
        100,
        id="a block a row",
    ),
    pytest.param("registers", "packs", {}, 104, id="packs"),
]


@pytest.mark.parametrize("forward, backward, constants, columns", RMS_LAUNCHES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_root_mean_square(
    device: ck.Device, forward: str, backward: str, constants: dict[str, int], columns: int, dtype: str
) -> None:
    """The kernels of rows that are not centered, the derivative with and without sums for the weight."""
    x, dy = random(0, (19, columns), dtype) + 3, random(1, (19, columns), dtype)
    weight = random(2, (columns,), dtype)

    def formula(x: np.ndarray, dy: np.ndarray, weight: np.ndarray) -> list[np.ndarray]:
        rstd = 1 / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5)
        normal, g = x * rstd, dy * weight
        return [
            normal * weight,
            rstd,
            (g - normal * (g * normal).mean(-1, keepdims=True)) * rstd,
            (dy * normal).sum(0),
        ]

    result, rstd, by_x, by_weight = sized(formula, x, dy, weight)
    limits = None if forward == "two passes" else gpu_limits(device)
    with only_with(LAYER_NORM, forward, limits, constants):
        y, statistics = launch_forward(x, weight, None, 1e-5, columns, centered=False)
    close(y, result)
    close(statistics[:, 1:], rstd)
    for summed in (True, False):
        with only_with(GRADIENT, backward, limits, constants):
            dx, dweight, dbias = launch_backward(x, dy, weight, statistics, columns, (summed, False), False)
        close(dx, by_x)
        assert dbias is None and (dweight is not None) == summed
        if dweight is not None:
            close(dweight, by_weight)


def test_root_mean_square_of_layouts_and_derivatives(device: ck.Device) -> None:
    x, weight = random(0, (6, 10)), random(1, (20,))[::2]
    for view in (ck.permute_dims(random(3, (10, 6)), (1, 0)), ck.broadcast_to(x[:1], (6, 10))):
        check_equal(
            lambda x, own: nn.rms_norm(x, 10, own, 1e-3),
            lambda x, own: layer_norm_reference(x, 1, own, None, 1e-3, centered=False),
            (view, weight),
            cotangents=[ck.broadcast_to(ck.asarray(np.float64(0.7)), (6, 10))],
        )
    assert gradcheck(lambda x: nn.rms_norm(x, (3, 7), eps=1e-3), [random(0, (2, 3, 7))], order=2)
    values = np.ones((2, 8), np.float32)
    values[0, 3] = np.inf
    made = nn.rms_norm(ck.asarray(values), 8, eps=0.0).numpy()
    assert np.isnan(made[0, 3]) and not made[0, :3].any() and (made[1] == 1).all()
