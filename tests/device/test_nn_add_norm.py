"""Norms of a sum, which is a result too: against the sum and the norm one after the other, in every variant."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import pytest
from nn_support import DTYPE_NAMES, check_equal, close, gpu_limits, only_with, random, sized
from test_nn_rms_norm import RMS_LAUNCHES

import cukern as ck
from cukern import nn
from cukern.nn.layer_norm.families import GRADIENT, LAYER_NORM, launch_backward, launch_forward
from cukern.testing import gradcheck


@pytest.mark.parametrize("centered", [True, False], ids=["layer norm", "RMS norm"])
@pytest.mark.parametrize("forward, backward, constants, columns", RMS_LAUNCHES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_every_variant(
    device: ck.Device,
    forward: str,
    backward: str,
    constants: dict[str, int],
    columns: int,
    dtype: str,
    centered: bool,
) -> None:
    x, residual, dy, plus = (random(i, (19, columns), dtype) for i in range(4))
    weight = random(4, (columns,), dtype)
    total = ck.add(x, residual)

    def formula(total: np.ndarray, dy: np.ndarray, plus: np.ndarray, weight: np.ndarray) -> list[np.ndarray]:
        apart = total - total.mean(-1, keepdims=True) * centered
        rstd = 1 / np.sqrt((apart**2).mean(-1, keepdims=True) + 1e-5)
        normal, g = apart * rstd, dy * weight
        projected = normal * (g * normal).mean(-1, keepdims=True) + g.mean(-1, keepdims=True) * centered
        return [normal * weight, (g - projected) * rstd + plus, (dy * normal).sum(0)]

    result, by_sum, by_weight = sized(formula, total, dy, plus, weight)
    limits = None if forward == "two passes" else gpu_limits(device)
    with only_with(LAYER_NORM, forward, limits, constants):
        y, statistics, made = launch_forward(x, weight, None, 1e-5, columns, centered, residual)
    assert made.tolist() == total.tolist()
    close(y, result)
    for summed in (True, False):
        with only_with(GRADIENT, backward, limits, constants):
            dx, dweight, _ = launch_backward(
                total, dy, weight, statistics, columns, (summed, False), centered, plus
            )
        close(dx, by_sum)
        if summed:
            assert dweight is not None
            close(dweight, by_weight)


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_values_and_gradients(device: ck.Device, dtype: str) -> None:
    x, residual = random(0, (2, 3, 20), dtype), random(1, (20, 3, 2), dtype).T.transpose(0, 1, 2)
    weight, bias = random(2, (20,), dtype), random(3, (20,), dtype)

    def composed(x: Any, residual: Any, weight: Any, bias: Any) -> Any:
        total = x + residual
        return nn.layer_norm(total, 20, weight, bias), total

    y, total = nn.add_layer_norm(x, residual, 20, weight, bias)
    assert total.tolist() == (x + residual).tolist()
    assert y.tolist() == nn.layer_norm(total, 20, weight, bias).tolist()
    check_equal(
        lambda x, residual, weight, bias: nn.add_layer_norm(x, residual, 20, weight, bias),
        composed,
        [x, residual, weight, bias],
    )


def test_derivatives(device: ck.Device) -> None:
    x, residual, weight, bias = (random(i, (3, 6)[i > 1 :], "float64") for i in range(4))
    own = [x, residual, weight, bias]
    assert gradcheck(lambda x, r, w, b: nn.add_layer_norm(x, r, 6, w, b), own, order=2)
    assert gradcheck(lambda x, r, w: nn.add_rms_norm(x, r, 6, w), own[:3], order=2)
    for result in (0, 1):
        assert gradcheck(lambda x, r, result=result: nn.add_rms_norm(x, r, 6)[result], own[:2], order=2)
    # An array may be added to itself, and only one of the two be watched.
    assert gradcheck(lambda x: nn.add_rms_norm(x, x, 6), [x], order=2)
    assert gradcheck(lambda r, w: nn.add_rms_norm(x, r, 6, w), [residual, weight], order=2)


def test_gradients_have_memory_of_their_own(device: ck.Device) -> None:
    x, residual = random(0, (3, 6), "float32"), random(1, (3, 6), "float32")
    with ck.Tape() as tape:
        tape.watch(x, residual)
        y, total = nn.add_rms_norm(x, residual, 6)
        loss = ck.sum(y * y + total)
    first, second = tape.gradient(loss, [x, residual])
    kept = second.tolist()
    assert first.tolist() == kept
    first[...] = 0
    assert second.tolist() == kept


def test_the_norm_is_computed_again(device: ck.Device) -> None:
    x, residual, weight = (
        random(0, (3, 6), "float32"),
        random(1, (3, 6), "float32"),
        random(2, (6, 6), "float32"),
    )

    def gradients(again: bool) -> tuple[bool, list[Any]]:
        with ck.Tape(recompute=again) as tape:
            tape.watch(x, residual, weight)
            y, total = nn.add_rms_norm(x, residual, 6, weight[0])
            loss = ck.sum((y @ weight) ** 2 + total)
            kept = weakref.ref(y._data if device.addressable else y)
            del y
        alive = kept() is not None
        return alive, [one.tolist() for one in tape.gradient(loss, [x, residual, weight])]

    (kept, wanted), (left, made) = gradients(False), gradients(True)
    assert kept and not left
    assert made == wanted


def test_modules(device: ck.Device) -> None:
    x, residual = random(0, (3, 6), "float32"), random(1, (3, 6), "float32")
    for norm in (nn.LayerNorm(6), nn.RMSNorm(6, eps=1e-5)):
        y, total = norm(x, residual)
        assert total.tolist() == (x + residual).tolist()
        assert y.tolist() == norm(total).tolist()


@pytest.mark.parametrize("shape", [(0, 4), (2, 0)])
def test_no_elements(device: ck.Device, shape: tuple[int, int]) -> None:
    y, total = nn.add_layer_norm(ck.zeros(shape), ck.zeros(shape), shape[1])
    assert y.shape == total.shape == shape


def test_dtypes_are_promoted(device: ck.Device) -> None:
    x, residual = random(0, (3, 6), "bfloat16"), random(1, (3, 6), "float32")
    y, total = nn.add_rms_norm(x, residual, 6)
    assert y.dtype == total.dtype == ck.float32
    assert total.tolist() == (x.astype("float32") + residual).tolist()


def test_what_is_refused(device: ck.Device) -> None:
    x = ck.zeros((3, 6))
    with pytest.raises(
        ValueError, match=r"add_rms_norm: residual: expected the shape of x, \(3, 6\), got \(6,\)"
    ):
        nn.add_rms_norm(x, x[0], 6)
    with pytest.raises(TypeError, match="add_layer_norm: residual: expected a cukern array, got NoneType"):
        nn.add_layer_norm(x, None, 6)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="add_layer_norm: residual: expected a floating dtype, got int64"):
        nn.add_layer_norm(x, ck.zeros((3, 6), dtype="int64"), 6)


def test_records_of_like_calls_share_their_rule(device: ck.Device) -> None:
    x, weight = random(0, (3, 8)), random(1, (8,))
    with ck.Tape() as tape:
        tape.watch(x)
        for eps in (1e-5, 1e-5, 0.5):
            nn.add_rms_norm(x, x, 8, weight, eps=eps)
    first, second, other = (operation for operation, *_ in tape._records)
    assert first is second
    assert first is not other
