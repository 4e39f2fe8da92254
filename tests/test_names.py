"""Names of other libraries are answered by what is written here, and completion shows public names alone."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import cukern as ck
from cukern.function import Context

MODULES = [
    "cukern",
    *(
        f"cukern.{name}"
        for name in (
            *("fft", "linalg", "nn", "nn.functional", "optim", "polynomial", "polynomial.polynomial"),
            *("polynomial.polyutils", "quant", "random", "sparse", "testing"),
            *("lib", "lib.array_utils", "lib.stride_tricks"),
        )
    ),
]


@pytest.mark.parametrize(
    ("module", "name", "hint"),
    [
        ("cukern", "tensor", "cukern.asarray"),
        ("cukern", "cat", "cukern.concat"),
        ("cukern", "no_grad", "cukern.stop_recording"),
        ("cukern", "asnumpy", r"x\.numpy\(\)"),
        ("cukern", "RawKernel", r"cukern\.Kernel\(source\)"),
        ("cukern", "ElementwiseKernel", r"cukern\.elementwise\(name, expression\)"),
        ("cukern", "ReductionKernel", r"cukern\.reduction\(name, map_expr"),
        ("cukern", "dtype", "numpy.dtype"),
        ("cukern", "busday_count", "NumPy has it: numpy.busday_count"),
        ("cukern.nn", "BatchNorm2d", "cukern.nn.BatchNorm"),
        ("cukern.nn", "ModuleList", "a list of modules"),
        ("cukern.nn", "InstanceNorm2d", r"cukern\.nn\.GroupNorm\(channels, channels\)"),
        ("cukern.nn.functional", "dropout2d", r"broadcast_axes=\(2, 3\)"),
        ("cukern.nn", "hardtanh", r"cukern\.clip\(x, -1, 1\)"),
        ("cukern.random", "PRNGKey", "default_rng"),
        ("cukern.random", "split", r"rng\.split\(2\)"),
        ("cukern.optim", "lr_scheduler", "CosineDecay"),
        ("cukern.testing", "assert_allclose", "assert_close"),
    ],
)
def test_modules_say_what_to_write(module: str, name: str, hint: str) -> None:
    found = importlib.import_module(module)
    with pytest.raises(AttributeError, match=f"module '{module}' has no attribute '{name}'; .*{hint}"):
        getattr(found, name)
    assert not hasattr(found, name)
    with pytest.raises(AttributeError, match=f"module '{module}' has no attribute 'no_such_name'$"):
        _ = found.no_such_name


@pytest.mark.parametrize("name", MODULES)
def test_completion_shows_public_names_alone(name: str) -> None:
    module = importlib.import_module(name)
    assert sorted(module.__all__) == dir(module)
    assert all(hasattr(module, one) for one in dir(module))


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("backward", "tape.gradient"),
        ("grad", "tape.gradient"),
        ("requires_grad", "tape.watch"),
        ("detach", "cukern.stop_gradient"),
        ("cpu", "to_device"),
        ("cuda", "to_device"),
        ("to", "x.astype"),
        ("get", r"x\.numpy"),
        ("unsqueeze", "cukern.expand_dims"),
        ("permute", "cukern.permute_dims"),
        ("exp", r"cukern\.exp\(x\)"),
    ],
)
def test_arrays_say_what_to_write(name: str, hint: str) -> None:
    for x in (ck.zeros(2, device="host"), ck.nn.Parameter(ck.zeros(2, device="host"))):
        with pytest.raises(AttributeError, match=f"object has no attribute '{name}'; .*{hint}"):
            getattr(x, name)
        assert not hasattr(x, name) and name not in dir(x)
        assert {"shape", "dtype", "device", "sum", "numpy"} <= set(dir(x))
        with pytest.raises(AttributeError):
            setattr(ck.zeros(2, device="host"), name, 1)
    assert np.asarray(ck.zeros(2, device="host")).shape == (2,)


def test_modules_and_optimizers_say_what_to_write() -> None:
    model = ck.nn.Linear(3, 2, device="host")
    optimizer = ck.optim.SGD(model, lr=0.1)
    for owner, name, hint in (
        (model, "cuda", r"model\.to_device\('cuda'\)"),
        (model, "to", r"model\.astype\(dtype\)"),
        (model, "zero_grad", "new gradients each time"),
        (optimizer, "zero_grad", r"optimizer\.step\(gradients\)"),
        (optimizer, "param_groups", r"optimizer\.groups"),
    ):
        with pytest.raises(AttributeError, match=f"object has no attribute '{name}'; .*{hint}"):
            getattr(owner, name)
        assert not hasattr(owner, name) and name not in dir(owner)
    with pytest.raises(AttributeError, match="'Linear' object has no attribute 'no_such_name'$"):
        _ = model.no_such_name

    class Mistaken(ck.nn.Module):
        @property
        def norm(self) -> object:
            return self.weigth

    with pytest.raises(AttributeError, match="no attribute 'weigth'"):
        _ = Mistaken().norm


def test_contexts_say_what_to_write() -> None:
    ctx = Context("F", ())
    with pytest.raises(AttributeError, match="no attribute 'saved_tensors'; write ctx.saved_arrays"):
        _ = ctx.saved_tensors  # type: ignore[attr-defined]
    ctx.own = 1  # type: ignore[attr-defined]
    assert ctx.own == 1  # type: ignore[attr-defined]


def test_sequentials_show_every_layer() -> None:
    model = ck.nn.Sequential(ck.nn.Linear(2, 3), ck.tanh, ck.nn.Sequential(abs))
    assert repr(model) == (
        "Sequential(\n"
        "  layers.0: Linear(weight: float32[3, 2], bias: float32[3])\n"
        "  layers.1: tanh\n"
        "  layers.2: Sequential(\n"
        "    layers.0: abs\n"
        "  )\n"
        ")"
    )
    assert repr(ck.nn.Sequential()) == "Sequential()"
