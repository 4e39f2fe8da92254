"""Weights of convolutions whose channels lie innermost in memory: from a module's start to a file."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nn_support import random

import cukern as ck
from cukern import nn
from cukern.nn.convolution.arrangement import channels_last
from cukern.testing import gradcheck

LAYERS = [nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d]


def last(axes: int) -> tuple[int, ...]:
    """The axes of weights in memory with channels innermost."""
    return (0, *range(2, axes + 2), 1)


def order(x: ck.Array) -> Any:
    return x._planned().order


def in_c_order(layer: Any) -> Any:
    """A copy of a layer whose weight lies in C order."""
    other = copy.deepcopy(layer)
    other.weight = nn.Parameter(layer.weight.contiguous())
    assert other.weight.is_contiguous
    return other


@pytest.mark.parametrize("layer", LAYERS)
def test_channels_lie_innermost_in_multiples_of_16_bytes(device: ck.Device, layer: Any) -> None:
    weight = layer(16, 16, 3, rng=0).weight
    assert order(weight) == last(weight.ndim - 2) and weight.shape[:2] == (16, 16)
    assert layer(12, 12, 3, rng=0).weight.is_contiguous
    assert layer(8, 8, 3, groups=8, rng=0).weight.is_contiguous
    point = layer(16, 16, 1, rng=0).weight
    assert point.strides == point.contiguous().strides == ck.zeros(point.shape).strides
    assert layer(16, 0, 3, rng=0).weight.size == 0


def test_tensor_cores_read_the_weight_as_it_lies(device: ck.Device) -> None:
    weight = nn.Conv2d(16, 8, 3, dtype="bfloat16", rng=0).weight
    assert channels_last(weight._planned()).order is None
    assert channels_last(weight.contiguous()._planned()).order == last(2)


def test_values_do_not_depend_on_the_order(device: ck.Device) -> None:
    weight = nn.Conv2d(16, 8, 3, rng=5).weight
    same = nn.init.uniform((8, 16, 3, 3), -1 / 12, 1 / 12, rng=5)
    np.testing.assert_array_equal(weight.numpy(), same.numpy())
    assert weight.numpy().flags.c_contiguous


def test_the_order_goes_with_the_weight(device: ck.Device) -> None:
    layer = nn.Conv2d(8, 4, (3, 2), rng=0)
    values, kept = layer.weight.numpy(), last(2)
    for other in (
        copy.copy(layer.weight),
        copy.deepcopy(layer).weight,
        pickle.loads(pickle.dumps(layer)).weight,
    ):
        assert order(other) == kept and isinstance(other, nn.Parameter)
        np.testing.assert_array_equal(other.numpy(), values)
    layer.load_state_dict(nn.Conv2d(8, 4, (3, 2), rng=1).state_dict())
    layer.weight[...] = values
    assert order(layer.to_device("host").weight) == order(layer.to_device(device).weight) == kept
    np.testing.assert_array_equal(layer.weight.numpy(), values)
    assert order(layer.astype("float64").weight) == order(layer.astype("float32").weight) == kept
    np.testing.assert_array_equal(layer.weight.numpy(), values)


@pytest.mark.parametrize("layer", [nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose2d])
def test_derivatives_of_second_order(device: ck.Device, layer: Any) -> None:
    own = layer(8, 8, 2, stride=2, padding=1, dtype="float64", rng=0)
    x = random(0, (1, 8, *(3, 4, 3)[: own.weight.ndim - 2]))
    axes = own.weight.ndim - 2
    moved = ck.moveaxis(own.weight, 1, -1).contiguous()
    function = {nn.Conv1d: nn.conv1d, nn.Conv2d: nn.conv2d, nn.Conv3d: nn.conv3d}.get(
        layer, nn.conv_transpose2d
    )

    def applied(x: ck.Array, weight: ck.Array, bias: ck.Array) -> ck.Array:
        weight = ck.moveaxis(weight.contiguous(), -1, 1)
        assert order(weight) == last(axes)
        return function(x, weight, bias, stride=2, padding=1)

    gradcheck(applied, (x, moved, own.bias), order=2)


@pytest.mark.parametrize("optimizer", [ck.optim.SGD, ck.optim.AdamW, ck.optim.RMSprop])
def test_a_model_learns_the_same_in_either_order(device: ck.Device, optimizer: Any) -> None:
    mine: Any = nn.Sequential(
        nn.Conv2d(8, 16, 3, padding=1, dtype="float64", rng=0),
        nn.ConvTranspose2d(16, 8, 3, dtype="float64", rng=1),
    )
    other: Any = nn.Sequential(*map(in_c_order, mine.layers))
    x = random(0, (2, 8, 5, 4))
    for model in (mine, other):
        steps = optimizer(model, lr=0.01)
        for _ in range(3):
            with ck.Tape() as tape:
                loss = (model(x) ** 2).mean()
            gradients, _ = ck.optim.clip_by_global_norm(tape.gradient(loss, model), 0.5)
            steps.step(gradients)
        for one, state in zip(model.parameters(), steps._state, strict=True):
            assert {order(slot) for slot in state.values()} <= {order(one)}
    assert [order(one) for one in mine.parameters()] == [last(2), (0,)] * 2
    assert [order(one) for one in other.parameters()] == [(0, 1, 2, 3), (0,)] * 2
    for one, two in zip(mine.parameters(), other.parameters(), strict=True):
        np.testing.assert_allclose(one.numpy(), two.numpy(), rtol=1e-9, atol=1e-12)


def test_a_gradient_lies_as_its_weight(device: ck.Device) -> None:
    for dtype in ("float32", "bfloat16"):
        layer = nn.Conv2d(16, 16, 3, padding=1, dtype=dtype, rng=0)
        with ck.Tape() as tape:
            loss = layer(random(0, (2, 16, 6, 6), dtype)).sum()
        gradients = tape.gradient(loss, layer)
        assert order(gradients.weight) == last(2)
        assert order(ck.optim.clip_by_global_norm(gradients, 0.1)[0].weight) == last(2)


def test_files_have_c_order(device: ck.Device, tmp_path: Path) -> None:
    layer = nn.Conv2d(8, 4, 3, dtype="bfloat16", rng=0)
    optimizer = ck.optim.Adam(layer, lr=0.1)

    def step() -> None:
        optimizer.step([ck.sin(one) for one in layer.parameters()])

    step()
    layer.save(tmp_path / "model.safetensors")
    ck.save_safetensors(tmp_path / "state.safetensors", optimizer.state_dict())
    raw = (tmp_path / "model.safetensors").read_bytes()
    assert layer.weight.numpy().tobytes() in raw
    np.savez(
        tmp_path / "model.npz",
        **{name: one.astype("float32").numpy() for name, one in layer.state_dict().items()},
    )
    with np.load(tmp_path / "model.npz") as file:
        assert file["weight"].flags.c_contiguous
        np.testing.assert_array_equal(file["weight"], layer.weight.astype("float32").numpy())

    plain = in_c_order(nn.Conv2d(8, 4, 3, dtype="bfloat16", rng=1)).load(tmp_path / "model.safetensors")
    continued = ck.optim.Adam(plain, lr=0.1)
    continued.load_state_dict(ck.load(tmp_path / "state.safetensors"))
    step()
    continued.step([ck.sin(one) for one in plain.parameters()])
    for mine, other in zip(layer.parameters(), plain.parameters(), strict=True):
        np.testing.assert_array_equal(mine.numpy(), other.numpy())
    assert plain.weight.is_contiguous and order(layer.weight) == last(2)
    for name, value in optimizer.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), continued.state_dict()[name].numpy(), err_msg=name)
