"""A training step of ResNet-50 in bfloat16, channels last, beside PyTorch's eager and compiled ones.

Usage: python benchmarks/resnet50.py [--scale N] [--out FILE]

The models begin with the same weights and see the same images; their first losses are compared, later ones shown. This
library's step is captured; PyTorch's runs eagerly, compiled, and both as a CUDA graph too. The time is the host's
between two points at which the device has nothing to do, divided by the steps between them: the median of rounds in
which the sides take turns. `--scale` divides batch, image and channels, for a try without a GPU.

Source of the model: He and others, "Deep residual learning for image recognition", 2015, with the stride of a block in
its convolution of 3 by 3.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from measure import FIRST, Benchmark, graphed, milliseconds, torch

import cukern as ck
from cukern import nn

#: Blocks of each stage, images of a batch, pixels along a side, channels of the first stage, classes.
STAGES, BATCH, SIZE, CHANNELS, CLASSES = (3, 4, 6, 3), 64, 224, 64, 1000
#: By how much of it the first loss may differ: rounding grows from layer to layer.
LIMIT = 0.05
OPTIONS = {"lr": 0.01, "momentum": 0.9}


class Block(nn.Module):
    def __init__(self, inputs: int, channels: int, stride: int, rng: np.random.Generator) -> None:
        sizes = ((inputs, channels, 1), (channels, channels, 3), (channels, 4 * channels, 1))
        self.convolutions = [
            nn.Conv2d(a, b, k, stride if k == 3 else 1, padding=k // 2, bias=False, rng=rng)
            for a, b, k in sizes
        ]
        self.norms = [
            nn.BatchNorm(b, activation=None if i == 2 else ck.relu) for i, (_, b, _) in enumerate(sizes)
        ]
        self.past = self.past_norm = None
        if stride > 1 or inputs != 4 * channels:
            self.past = nn.Conv2d(inputs, 4 * channels, 1, stride, bias=False, rng=rng)
            self.past_norm = nn.BatchNorm(4 * channels)

    def forward(self, x: ck.Array) -> ck.Array:
        y = x
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            y = norm(convolution(y))
        if self.past is not None and self.past_norm is not None:
            x = self.past_norm(self.past(x))
        return ck.relu(y + x)


class ResNet(nn.Module):
    def __init__(self, channels: int) -> None:
        rng = np.random.default_rng(0)
        self.start = nn.Conv2d(3, channels, 7, 2, padding=3, bias=False, rng=rng)
        self.norm = nn.BatchNorm(channels, activation=ck.relu)
        self.pool = nn.MaxPool2d(3, 2, padding=1)
        self.blocks: list[Block] = []
        inputs = channels
        for i, count in enumerate(STAGES):
            for k in range(count):
                self.blocks.append(Block(inputs, channels * 2**i, 2 if i and not k else 1, rng))
                inputs = 4 * channels * 2**i
        self.end = nn.Linear(inputs, CLASSES, rng=rng)

    def forward(self, images: ck.Array) -> ck.Array:
        x = self.pool(self.norm(self.start(images)))
        for block in self.blocks:
            x = block(x)
        return self.end(ck.mean(x, axis=(2, 3)))


def own_step(model: ResNet, images: ck.Array, labels: ck.Array) -> Callable[[], Any]:
    """This library's step, captured."""
    optimizer = ck.optim.SGD(model, masters=False, **OPTIONS)

    @ck.capture
    def step(images: ck.Array, labels: ck.Array) -> ck.Array:
        with ck.Tape() as tape:
            loss = nn.cross_entropy(model(images), labels)
        optimizer.step(tape.gradient(loss, model))
        return loss

    return lambda: step(images, labels)


def torch_model(own: ResNet) -> Any:
    """PyTorch's modules of the same structure, with the same weights."""
    made = torch.nn

    def like(module: Any) -> Any:
        if isinstance(module, nn.Conv2d):
            filters, channels, size, _ = module.weight.shape
            stride = module.options[0]
            found = made.Conv2d(channels, filters, size, stride, size // 2, bias=False)
        elif isinstance(module, nn.BatchNorm):
            found = made.BatchNorm2d(module.weight.shape[0])
        else:
            found = made.Linear(*reversed(module.weight.shape))
        return found

    class TorchBlock(made.Module):  # type: ignore[misc, name-defined]
        def __init__(self, block: Block) -> None:
            super().__init__()
            self.convolutions = made.ModuleList(map(like, block.convolutions))
            self.norms = made.ModuleList(map(like, block.norms))
            self.past = None if block.past is None else like(block.past)
            self.past_norm = None if block.past_norm is None else like(block.past_norm)

        def forward(self, x: Any) -> Any:
            y = x
            for convolution, norm in zip(self.convolutions[:2], self.norms[:2], strict=True):
                y = torch.relu(norm(convolution(y)))
            y = self.norms[2](self.convolutions[2](y))
            return torch.relu(y + (x if self.past is None else self.past_norm(self.past(x))))

    class TorchResNet(made.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.start, self.norm, self.end = like(own.start), like(own.norm), like(own.end)
            self.pool = made.MaxPool2d(3, 2, padding=1)
            self.blocks = made.Sequential(*(TorchBlock(one) for one in own.blocks))

        def forward(self, images: Any) -> Any:
            features = self.pool(torch.relu(self.norm(self.start(images))))
            return self.end(self.blocks(features).mean((2, 3)))

    model = TorchResNet()
    state = {name: torch.tensor(one.astype("float32").numpy()) for name, one in own.state_dict().items()}
    model.load_state_dict(state)
    target = "cuda" if torch.cuda.is_available() else "cpu"
    return model.to(target, torch.bfloat16, memory_format=torch.channels_last)


def torch_step(model: Any, images: ck.Array, labels: ck.Array) -> Callable[[], Any]:
    """PyTorch's step of a model."""
    optimizer = torch.optim.SGD(model.parameters(), fused=torch.cuda.is_available() or None, **OPTIONS)
    given, wanted = torch.from_dlpack(images), torch.from_dlpack(labels)

    def step() -> Any:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(given), wanted)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def main() -> None:
    heads = ["step", "ms", "images/s", "first losses"]
    bench = Benchmark(__doc__, "ResNet-50 in bfloat16, channels last", heads)
    batch, size, channels = (n // bench.scale for n in (BATCH, SIZE, CHANNELS))
    rng = np.random.default_rng(1)
    ck.set_default_dtype(ck.bfloat16)
    pixels = ck.asarray(rng.standard_normal((batch, size, size, 3), np.float32)).astype(ck.bfloat16)
    images, labels = ck.permute_dims(pixels, (0, 3, 1, 2)), ck.asarray(rng.integers(0, CLASSES, batch))

    def peer(change: Callable[[Any], Any] = lambda model: model) -> Callable[[], Any]:
        return torch_step(change(torch_model(ResNet(channels))), images, labels)

    peers: dict[str, Callable[[], Callable[[], Any]]] = {}
    if torch is not None:
        torch.backends.cudnn.benchmark = True
        peers["PyTorch, eager"] = peer
    if torch is not None and torch.cuda.is_available():
        searched = partial(torch.compile, mode="max-autotune-no-cudagraphs")
        peers |= {
            "PyTorch, compiled": lambda: peer(torch.compile),
            "PyTorch, eager, as a CUDA graph": lambda: graphed(peer()),
            "PyTorch, compiled, as a CUDA graph": lambda: graphed(peer(torch.compile)),
            "PyTorch, compiled with max-autotune, as a graph": lambda: graphed(peer(searched)),
        }
    sides = {"cukern, captured": own_step(ResNet(channels), images, labels)}
    sides |= {name: peers[name]() for name in bench.chosen(list(peers))}

    losses = {name: [float(step()) for _ in range(FIRST)] for name, step in sides.items()}
    times = milliseconds(list(sides.values()), bench.device.synchronize)
    wanted = losses["cukern, captured"][0]
    for (name, found), taken in zip(losses.items(), times, strict=True):
        bench.row(name, taken, 1e3 * batch / taken, " ".join(f"{one:.3f}" for one in found))
        apart = abs(found[0] - wanted) / wanted
        assert apart < LIMIT, f"{name}: the first loss is {found[0]}, expected {wanted}"
    bench.end()


if __name__ == "__main__":
    main()
