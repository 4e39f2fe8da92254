"""The modules of activations, and embeddings with padding."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from nn_support import random

import cukern as ck
from cukern import nn
from cukern.nn.activations import Activation
from cukern.testing import gradcheck

#: The module, and the function that it is.
MODULES: list[tuple[nn.Module, Callable[[Any], Any], str]] = [
    (nn.ELU(0.5), lambda x: ck.elu(x, 0.5), "ELU(alpha=0.5)"),
    (nn.GELU(), ck.gelu, "GELU(approximate='none')"),
    (nn.GELU(approximate="tanh"), ck.gelu_tanh, "GELU(approximate='tanh')"),
    (nn.GLU(axis=0), lambda x: x[:1] * ck.sigmoid(x[1:]), "GLU(axis=0)"),
    (nn.Hardsigmoid(), ck.hardsigmoid, "Hardsigmoid()"),
    (nn.Hardswish(), ck.hardswish, "Hardswish()"),
    (nn.LeakyReLU(), lambda x: ck.leaky_relu(x, 0.01), "LeakyReLU(negative_slope=0.01)"),
    (nn.LogSigmoid(), ck.log_sigmoid, "LogSigmoid()"),
    (nn.LogSoftmax(), ck.log_softmax, "LogSoftmax(axis=-1)"),
    (nn.Mish(), ck.mish, "Mish()"),
    (nn.ReLU(), ck.relu, "ReLU()"),
    (nn.ReLU6(), ck.relu6, "ReLU6()"),
    (nn.SELU(), ck.selu, "SELU()"),
    (nn.SiLU(), ck.silu, "SiLU()"),
    (nn.Sigmoid(), ck.sigmoid, "Sigmoid()"),
    (nn.Softmax(axis=0), lambda x: ck.softmax(x, axis=0), "Softmax(axis=0)"),
    (nn.Softplus(), ck.softplus, "Softplus()"),
    (nn.Softsign(), ck.softsign, "Softsign()"),
    (nn.Tanh(), ck.tanh, "Tanh()"),
]


def test_every_activation_is_tested() -> None:
    named = {name for name in nn.__all__ if isinstance(getattr(nn, name), type)}
    found = {name for name in named if issubclass(getattr(nn, name), Activation)}
    assert found == {type(module).__name__ for module, *_ in MODULES}, "name it in MODULES"
    functions = {type(module)._function.__name__ for module, *_ in MODULES if isinstance(module, Activation)}
    missing = functions - {"_gelu"} - set(nn.functional.__all__)
    assert not missing, f"import {missing} in cukern/nn/functional.py"


@pytest.mark.parametrize(("module", "function", "shown"), MODULES, ids=[shown for *_, shown in MODULES])
def test_a_module_is_its_function(
    device: ck.Device, module: nn.Module, function: Callable[[Any], Any], shown: str
) -> None:
    x = ck.asarray(np.array([[-2.0, -0.5, 0.0], [0.5, 1.0, 3.0]]))
    assert repr(module) == shown
    for one in (module, copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert one(x).tolist() == function(x).tolist()
    assert not module.state_dict()


def test_options_of_activations() -> None:
    with pytest.raises(TypeError, match="ReLU: got an unexpected keyword argument 'inplace'"):
        nn.ReLU(inplace=True)
    with pytest.raises(ValueError, match="GELU: approximate: expected one of 'none', 'tanh', got 'erf'"):
        nn.GELU("erf")


def test_gated_halves(device: ck.Device) -> None:
    x = random(0, (3, 4, 6))
    a, b = np.split(x.numpy(), 2, axis=1)
    np.testing.assert_allclose(nn.glu(x, 1).numpy(), a / (1 + np.exp(-b)), rtol=1e-13)
    assert nn.glu(x.astype("float16"), -2).dtype == "float16"
    assert nn.glu(x[:0]).shape == (0, 4, 3)
    assert gradcheck(nn.glu, [x], order=2)
    with pytest.raises(
        ValueError, match=r"glu: x: expected an even size along axis 0, got shape \(3, 4, 6\)"
    ):
        nn.glu(x, 0)
    with pytest.raises(TypeError, match="glu: x: expected a floating dtype, got int64"):
        nn.glu(ck.asarray([1, 2]))


def test_kinks(device: ck.Device) -> None:
    """Values and derivatives at bounds, and where exponentials overflow."""
    x = ck.asarray([-np.inf, -1e4, -3.0, -1.0, 0.0, 3.0, 6.0, 1e4, np.inf, np.nan], dtype="float64")
    tail = -1.0507009873554805 * 1.6732632423543772
    values: dict[Any, tuple[list[float], list[float]]] = {
        ck.relu6: ([0, 0, 0, 0, 0, 3, 6, 6, 6], [0, 0, 0, 0, 0, 1, 0, 0, 0]),
        ck.hardsigmoid: ([0, 0, 0, 1 / 3, 0.5, 1, 1, 1, 1], [0, 0, 0, 1 / 6, 1 / 6, 0, 0, 0, 0]),
        ck.hardswish: ([0, 0, 0, -1 / 3, 0, 3, 6, 1e4, np.inf], [0, 0, 0, 1 / 6, 0.5, 1, 1, 1, 1]),
        ck.selu: (
            [tail, tail, tail * (1 - np.exp(-3)), tail * (1 - np.exp(-1)), 0]
            + [1.0507009873554805 * one for one in (3, 6, 1e4, np.inf)],
            [0, 0, -tail * np.exp(-3), -tail * np.exp(-1), -tail, *[1.0507009873554805] * 4],
        ),
    }
    for function, (expected, slopes) in values.items():
        np.testing.assert_allclose(function(x).numpy(), [*expected, np.nan], rtol=1e-14)
        np.testing.assert_allclose(ck.elementwise_grad(function)(x).numpy()[:-1], slopes, rtol=1e-14)


def test_parameters_by_name(device: ck.Device) -> None:
    x = ck.asarray([-1.0, 2.0], dtype="float64")
    assert ck.leaky_relu(x, negative_slope=0.25).tolist() == ck.leaky_relu(x, 0.25).tolist() == [-0.25, 2.0]
    assert ck.elu(x, alpha=3.0).tolist() == ck.elu(x, 3.0).tolist()
    assert ck.fuse(lambda x: ck.elu(x, alpha=3.0))(x).tolist() == ck.elu(x, 3.0).tolist()
    slope = ck.asarray(0.5, dtype="float64")
    assert ck.grad(lambda s: ck.leaky_relu(x, negative_slope=s).sum())(slope).item() == -1.0
    with pytest.raises(TypeError, match="elu: unexpected argument 'beta'"):
        ck.elu(x, beta=1.0)
    with pytest.raises(TypeError, match="elu: unexpected argument 'alpha'"):
        ck.elu(x, 1.0, alpha=1.0)


def test_a_row_for_padding(device: ck.Device) -> None:
    ids = ck.asarray([[0, 2, 1], [2, 2, 3]])
    for padding in (2, -2):
        layer = nn.Embedding(4, 2, rng=0, padding_idx=padding)
        assert not layer.weight[2].numpy().any()
        assert layer.weight[1].numpy().all()
        layer.weight[2] = 7.0
        with ck.Tape() as tape:
            rows = layer(ids)
            loss = rows.sum()
        assert rows[0, 1].tolist() == [7, 7]
        assert tape.gradient(loss, layer.weight).tolist() == [[1, 1], [1, 1], [0, 0], [1, 1]]
    assert repr(layer) == "Embedding(weight: float32[4, 2], padding_idx=2)"
    weight = ck.ones((4, 2))
    assert ck.grad(lambda w: nn.embedding(ids, w, 0).sum())(weight)[:, 0].tolist() == [0, 1, 3, 1]
    with pytest.raises(ValueError, match=r"Embedding: padding_idx: expected a row in \[-4, 4\), got 4"):
        nn.Embedding(4, 2, padding_idx=4)
    with pytest.raises(TypeError, match=r"embedding: padding_idx: expected an int or None, got 1.0"):
        nn.embedding(ids, weight, 1.0)  # type: ignore[arg-type]


def test_swiglu(device: ck.Device, launches: list[str]) -> None:
    """One kernel forward and one backward; in a fused function a part of that, in which shapes broadcast."""
    rng = np.random.default_rng(0)
    gate, up, dy = (ck.asarray(rng.normal(size=(3, 5))) for _ in range(3))
    launches.clear()
    y, pull = ck.vjp(nn.swiglu, gate, up)
    pull(dy)
    assert len(launches) == 2
    wide = gate.numpy()
    np.testing.assert_allclose(y.numpy(), wide / (1 + np.exp(-wide)) * up.numpy(), rtol=1e-14)
    assert ck.testing.gradcheck(nn.swiglu, [gate, up], order=2)
    assert ck.testing.gradcheck(nn.swiglu, [gate, up[0]])
    launches.clear()
    z = ck.fuse(lambda gate, up: nn.swiglu(gate, up) + up)(gate, up)
    assert len(launches) == 1
    np.testing.assert_allclose(z.numpy(), (y + up).numpy(), rtol=1e-14)
    assert nn.swiglu(ck.zeros((0, 2), "bfloat16"), ck.zeros((0, 2), "bfloat16")).dtype == ck.bfloat16
