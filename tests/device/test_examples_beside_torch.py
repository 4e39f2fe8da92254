"""The examples' models against PyTorch: the same losses, step by step, from the same weights."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import cukern as ck

torch = pytest.importorskip("torch")

ROOT = Path(__file__).parents[2]
STEPS, LR = 20, 1e-2
#: How far a loss may be from PyTorch's, relatively, by the dtype: steps amplify what rounding makes differ.
TOLERANCE = {"float64": 1e-12, "float32": 1e-5}


def script(path: str) -> ModuleType:
    """A script of the repository as a module."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def parameters(model: ck.nn.Module) -> dict[str, Any]:
    """The model's parameters as PyTorch's."""
    return {n: torch.tensor(np.array(p.numpy()), requires_grad=True) for n, p in model.named_parameters()}


def differences(ours: list[float], theirs: list[float]) -> float:
    return max(abs(a - b) / abs(b) for a, b in zip(ours, theirs, strict=True))


def rate(step: int) -> float:
    """A tenth of the steps warms up, then half a cosine goes down to a tenth."""
    warm = STEPS // 10
    if step < warm:
        return LR * (step + 1) / (warm + 1)
    return LR * (0.1 + 0.45 * (1 + math.cos(math.pi * (step - warm) / (STEPS - warm))))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_gpt(device: ck.Device, dtype: str) -> None:
    gpt, beside = script("examples/07_gpt.py"), script("benchmarks/gpt2_launches.py")
    model = gpt.GPT(11, 8, features=12, heads=3, layers=2, dropout=0.0).astype(dtype)
    state = parameters(model)
    groups = [
        {"params": [p for p in state.values() if p.ndim >= 2], "weight_decay": 0.1},
        {"params": [p for p in state.values() if p.ndim < 2], "weight_decay": 0.0},
    ]
    theirs = torch.optim.AdamW(groups, lr=LR, betas=(0.9, 0.95))
    step = gpt.make_step(model, gpt.make_optimizer(model, LR, STEPS))
    rng = np.random.default_rng(0)
    losses: tuple[list[float], list[float]] = ([], [])
    for i in range(STEPS):
        codes = rng.integers(0, 11, (4, 9))
        losses[0].append(step(ck.asarray(codes[:, :-1]), ck.asarray(codes[:, 1:])).item())
        logits = beside.torch_gpt(state, torch.tensor(codes[:, :-1]), 3)
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), torch.tensor(codes[:, 1:]).flatten())
        losses[1].append(loss.item())
        theirs.zero_grad()
        loss.backward()
        # torch's own clipping adds 1e-6 to the norm.
        norm = torch.sqrt(sum((p.grad**2).sum() for p in state.values()))
        for group in theirs.param_groups:
            group["lr"] = rate(i)
            for parameter in group["params"]:
                parameter.grad /= torch.clamp(norm, min=1)
        theirs.step()
    found = differences(*losses)
    assert found < TOLERANCE[dtype], found
    assert losses[0][-1] != losses[0][0]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_vae(device: ck.Device, dtype: str) -> None:
    vae = script("examples/08_vae.py")
    model = vae.VAE(pixels=10, hidden=8, latent=3).astype(dtype)
    state = parameters(model)
    optimizer = ck.optim.Adam(model, lr=LR)
    theirs = torch.optim.Adam(list(state.values()), lr=LR)
    rng = np.random.default_rng(0)
    f = torch.nn.functional

    def network(x: Any, name: str) -> Any:
        first, second = ({k: state[f"{name}.layers.{i}.{k}"] for k in ("weight", "bias")} for i in (0, 2))
        return f.linear(f.silu(f.linear(x, **first)), **second)

    losses: tuple[list[float], list[float]] = ([], [])
    for _ in range(STEPS):
        images = rng.random((5, 10)).astype(dtype)
        noise = rng.normal(size=(5, 3)).astype(dtype)
        with ck.Tape() as tape:
            loss = vae.loss_of(model, ck.asarray(images), ck.asarray(noise))
        optimizer.step(tape.gradient(loss, model))
        losses[0].append(loss.item())
        mean, log_variance = network(torch.tensor(images), "encoder").chunk(2, -1)
        logits = network(mean + torch.exp(0.5 * log_variance) * torch.tensor(noise), "decoder")
        error = f.binary_cross_entropy_with_logits(logits, torch.tensor(images), reduction="sum") / 5
        apart = -0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum(-1).mean()
        theirs.zero_grad()
        (error + apart).backward()
        theirs.step()
        losses[1].append((error + apart).item())
    found = differences(*losses)
    assert found < TOLERANCE[dtype], found
    assert losses[0][-1] < losses[0][0]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_cnn(device: ck.Device, dtype: str) -> None:
    cnn = script("examples/11_cnn.py")
    model = cnn.ResNet(channels=4).astype(dtype)
    state = parameters(model)
    step = cnn.make_step(model, ck.optim.Adam(model, lr=1e-3))
    theirs = torch.optim.Adam(list(state.values()), lr=1e-3)
    rng = np.random.default_rng(0)
    f = torch.nn.functional

    def normed(x: Any, name: str) -> Any:
        weight, bias = state[f"{name}.weight"], state[f"{name}.bias"]
        return f.batch_norm(x, None, None, weight, bias, training=True)

    def network(x: Any) -> Any:
        x = f.relu(f.conv2d(x, state["start.weight"], state["start.bias"], padding=1))
        for i, stride in enumerate((1, 2, 2)):
            name = f"blocks.layers.{i}"
            y = f.conv2d(x, state[f"{name}.first.weight"], stride=stride, padding=1)
            y = f.conv2d(f.relu(normed(y, f"{name}.norms.0")), state[f"{name}.second.weight"], padding=1)
            past = f"{name}.past"
            if i:
                x = f.conv2d(x, state[f"{past}.weight"], state[f"{past}.bias"], stride=stride)
            x = f.relu(normed(y, f"{name}.norms.1") + x)
        return f.linear(x.mean((2, 3)), state["end.weight"], state["end.bias"])

    losses: tuple[list[float], list[float]] = ([], [])
    images, labels = rng.random((6, 1, 8, 8)).astype(dtype), rng.integers(0, 10, 6)
    for _ in range(5):
        losses[0].append(step(ck.asarray(images), ck.asarray(labels)).item())
        loss = f.cross_entropy(network(torch.tensor(images)), torch.tensor(labels))
        theirs.zero_grad()
        loss.backward()
        theirs.step()
        losses[1].append(loss.item())
    found = differences(*losses)
    assert found < TOLERANCE[dtype], found
    assert losses[0][-1] < losses[0][0]
