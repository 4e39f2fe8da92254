"""The modules of activations, and embeddings with padding."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cukern as ck
from cukern import nn
from cukern.nn.activations import Activation

#: The module, and the function that it is.
MODULES: list[tuple[nn.Module, Callable[[Any], Any], str]] = [
    (nn.ELU(0.5), lambda x: ck.elu(x, 0.5), "ELU(alpha=0.5)"),
    (nn.GELU(), ck.gelu, "GELU(approximate='none')"),
    (nn.GELU(approximate="tanh"), ck.gelu_tanh, "GELU(approximate='tanh')"),
    (nn.LeakyReLU(), lambda x: ck.leaky_relu(x, 0.01), "LeakyReLU(negative_slope=0.01)"),
    (nn.LogSigmoid(), ck.log_sigmoid, "LogSigmoid()"),
    (nn.LogSoftmax(), ck.log_softmax, "LogSoftmax(axis=-1)"),
    (nn.Mish(), ck.mish, "Mish()"),
    (nn.ReLU(), ck.relu, "ReLU()"),
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
    with pytest.raises(ValueError, match="GELU: approximate: expected 'none' or 'tanh', got 'erf'"):
        nn.GELU("erf")


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
