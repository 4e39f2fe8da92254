"""Training steps of whole models that nothing here was tuned for, beside PyTorch's eager, compiled and recorded ones.

Usage: python benchmarks/models.py [--scale N] [--only WORD] [--out FILE]

A model is written once, for either library: both have modules and functions of the same names and arguments. The sides
begin with the same weights and see the same numbers in bfloat16, with AdamW; their first losses are compared. The time
is the host's between two points at which the device has nothing to do, divided by the steps between them: the median of
rounds in which the sides take turns. `--scale` divides sizes, for a try without a GPU.

Sources: Ho and others, "Denoising diffusion probabilistic models", 2020; Dosovitskiy and others, "An image is worth
16x16 words", 2021; Touvron and others, "Llama", 2023.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
from measure import FIRST, Benchmark, graphed, milliseconds, torch

import cukern as ck
from cukern import nn

#: By how much of it the first loss may differ: rounding grows from layer to layer.
LIMIT = 0.05
OPTIONS = {"lr": 1e-4, "weight_decay": 0.01}

OURS = SimpleNamespace(
    Module=nn.Module,
    Conv2d=nn.Conv2d,
    Linear=nn.Linear,
    GroupNorm=nn.GroupNorm,
    GroupNormSiLU=lambda groups, channels: nn.GroupNorm(groups, channels, activation=nn.silu),
    LayerNorm=nn.LayerNorm,
    RMSNorm=nn.RMSNorm,
    Embedding=nn.Embedding,
    modules=list,
    parameter=nn.Parameter,
    silu=nn.silu,
    swiglu=nn.swiglu,
    gelu=nn.gelu,
    concat=ck.concat,
    zeros=ck.zeros,
    square=ck.square,
    mean=ck.mean,
    cross_entropy=nn.cross_entropy,
    attention=lambda q, k, v, causal=False: nn.attention(q, k, v, causal=causal),
    upsampled=lambda x: nn.interpolate(x, scale_factor=2),
    transposed=lambda x, *axes: ck.permute_dims(x, axes),
    rotated=nn.rotary_embedding,
)


def peer() -> SimpleNamespace:
    """The same names of PyTorch."""
    own, functions = torch.nn, torch.nn.functional

    def rotated(x: Any) -> Any:
        half, length = x.shape[-1] // 2, x.shape[-2]
        rates = 10000.0 ** (-torch.arange(half, device=x.device) / half)
        angles = torch.arange(length, device=x.device)[:, None] * rates
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        a, b = x[..., :half], x[..., half:]
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

    class GroupNormSiLU(own.GroupNorm):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return functions.silu(super().forward(x))

    def attention(q: Any, k: Any, v: Any, causal: bool = False) -> Any:
        grouped = q.shape[1] != k.shape[1]
        return functions.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=grouped)

    return SimpleNamespace(
        Module=own.Module,
        Conv2d=own.Conv2d,
        Linear=own.Linear,
        GroupNorm=own.GroupNorm,
        GroupNormSiLU=GroupNormSiLU,
        LayerNorm=own.LayerNorm,
        RMSNorm=own.RMSNorm,
        Embedding=own.Embedding,
        modules=own.ModuleList,
        parameter=own.Parameter,
        silu=functions.silu,
        swiglu=lambda gate, up: functions.silu(gate) * up,
        gelu=functions.gelu,
        concat=torch.cat,
        zeros=torch.zeros,
        square=torch.square,
        mean=torch.mean,
        cross_entropy=functions.cross_entropy,
        attention=attention,
        upsampled=lambda x: functions.interpolate(x, scale_factor=2),
        transposed=lambda x, *axes: x.permute(*axes),
        rotated=rotated,
    )


def unet(lib: Any, scale: int) -> Any:
    """A diffusion UNet of three halvings, whose two lowest levels have attention of 8 heads."""
    base, groups, heads = max(32, 128 // scale), 32 if scale == 1 else 8, 8
    widths, times = [base, 2 * base, 2 * base, 4 * base], 4 * base

    class Block(lib.Module):  # type: ignore[misc]
        def __init__(self, inputs: int, outputs: int) -> None:
            super().__init__()
            self.norms = lib.modules([lib.GroupNormSiLU(groups, one) for one in (inputs, outputs)])
            self.first = lib.Conv2d(inputs, outputs, 3, padding=1)
            self.second = lib.Conv2d(outputs, outputs, 3, padding=1)
            self.time = lib.Linear(times, outputs)
            self.past = lib.Conv2d(inputs, outputs, 1) if inputs != outputs else None

        def forward(self, x: Any, time: Any) -> Any:
            y = self.first(self.norms[0](x))
            y = y + self.time(lib.silu(time))[:, :, None, None]
            y = self.second(self.norms[1](y))
            return y + (x if self.past is None else self.past(x))

    class Attention(lib.Module):  # type: ignore[misc]
        def __init__(self, width: int) -> None:
            super().__init__()
            self.norm = lib.GroupNorm(groups, width)
            self.inputs, self.outputs = lib.Conv2d(width, 3 * width, 1), lib.Conv2d(width, width, 1)

        def forward(self, x: Any) -> Any:
            batch, width, rows, columns = x.shape
            all_ = self.inputs(self.norm(x)).reshape(batch, 3, heads, width // heads, rows * columns)
            q, k, v = (lib.transposed(all_[:, i], 0, 1, 3, 2) for i in range(3))
            y = lib.transposed(lib.attention(q, k, v), 0, 1, 3, 2).reshape(batch, width, rows, columns)
            return x + self.outputs(y)

    class UNet(lib.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.start = lib.Conv2d(3, base, 3, padding=1)
            self.time = lib.modules([lib.Linear(base, times), lib.Linear(times, times)])
            down, up, seen, width = [], [], [base], base
            for level, own in enumerate(widths):
                for _ in range(2):
                    down.append(lib.modules([Block(width, own), *([Attention(own)] if level > 1 else [])]))
                    seen.append(width := own)
                if level < len(widths) - 1:
                    down.append(lib.modules([lib.Conv2d(width, width, 3, stride=2, padding=1)]))
                    seen.append(width)
            self.middle = lib.modules([Block(width, width), Attention(width), Block(width, width)])
            for level, own in reversed(list(enumerate(widths))):
                for _ in range(3):
                    up.append(
                        lib.modules(
                            [Block(width + seen.pop(), own), *([Attention(own)] if level > 1 else [])]
                        )
                    )
                    width = own
                if level:
                    up.append(lib.modules([lib.Conv2d(width, width, 3, padding=1)]))
            self.down, self.up = lib.modules(down), lib.modules(up)
            self.norm, self.end = lib.GroupNormSiLU(groups, base), lib.Conv2d(base, 3, 3, padding=1)

        def forward(self, x: Any, time: Any) -> Any:
            time = self.time[1](lib.silu(self.time[0](time)))
            x = self.start(x)
            seen = [x]
            for stage in self.down:
                for one in stage:
                    x = one(x, time) if isinstance(one, Block) else one(x)
                seen.append(x)
            for one in self.middle:
                x = one(x, time) if isinstance(one, Block) else one(x)
            for stage in self.up:
                joins = isinstance(stage[0], Block)
                x = lib.concat([x, seen.pop()], 1) if joins else lib.upsampled(x)
                for one in stage:
                    x = one(x, time) if isinstance(one, Block) else one(x)
            return self.end(self.norm(x))

        def loss(self, x: Any, time: Any, noise: Any) -> Any:
            return lib.mean(lib.square(self(x, time) - noise))

    return UNet()


def unet_inputs(rng: np.random.Generator, scale: int) -> list[Any]:
    """Images, embedded times, and the noise."""
    batch, size, base = max(1, 32 // scale), max(8, 64 // scale), max(32, 128 // scale)
    shapes = (batch, 3, size, size), (batch, base), (batch, 3, size, size)
    return [rng.standard_normal(shape, np.float32) for shape in shapes]


def vit(lib: Any, scale: int) -> Any:
    """ViT-B/16."""
    width, heads, depth = 768 // scale // 12 * 12, 12, 12 // min(scale, 6)

    class Block(lib.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.norms = lib.modules([lib.LayerNorm(width), lib.LayerNorm(width)])
            self.qkv, self.out = lib.Linear(width, 3 * width), lib.Linear(width, width)
            self.wide, self.back = lib.Linear(width, 4 * width), lib.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            batch, length, _ = x.shape
            all_ = self.qkv(self.norms[0](x)).reshape(batch, length, 3, heads, width // heads)
            q, k, v = (lib.transposed(all_[:, :, i], 0, 2, 1, 3) for i in range(3))
            x = x + self.out(lib.transposed(lib.attention(q, k, v), 0, 2, 1, 3).reshape(batch, length, width))
            return x + self.back(lib.gelu(self.wide(self.norms[1](x))))

    class ViT(lib.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.patches = lib.Conv2d(3, width, 16, stride=16)
            self.places = lib.parameter(lib.zeros((1, (max(32, 224 // scale) // 16) ** 2, width)))
            self.blocks = lib.modules([Block() for _ in range(depth)])
            self.norm, self.head = lib.LayerNorm(width), lib.Linear(width, 1000)

        def loss(self, images: Any, labels: Any) -> Any:
            x = self.patches(images)
            x = lib.transposed(x.reshape(x.shape[0], width, -1), 0, 2, 1) + self.places
            for block in self.blocks:
                x = block(x)
            return lib.cross_entropy(self.head(lib.mean(self.norm(x), 1)), labels)

    return ViT()


def vit_inputs(rng: np.random.Generator, scale: int) -> list[Any]:
    """Images and labels."""
    batch, size = max(1, 64 // scale), max(32, 224 // scale)
    return [rng.standard_normal((batch, 3, size, size), np.float32), rng.integers(0, 1000, batch)]


def llama(lib: Any, scale: int) -> Any:
    """A decoder of 8 layers of 1024 features, 16 heads of which 4 have keys, and SwiGLU of 2816."""
    size, wide, heads, own, words = 64 // scale, 2816 // scale, 16, 4, 32000 // scale
    width = heads * size

    class Block(lib.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.norms = lib.modules([lib.RMSNorm(width), lib.RMSNorm(width)])
            self.q, self.out = lib.Linear(width, width, bias=False), lib.Linear(width, width, bias=False)
            self.k, self.v = (lib.Linear(width, own * size, bias=False) for _ in range(2))
            self.gate, self.wide = (lib.Linear(width, wide, bias=False) for _ in range(2))
            self.back = lib.Linear(wide, width, bias=False)

        def forward(self, x: Any) -> Any:
            batch, length, _ = x.shape

            def of_heads(y: Any, count: int) -> Any:
                return lib.transposed(y.reshape(batch, length, count, size), 0, 2, 1, 3)

            y = self.norms[0](x)
            q, k = lib.rotated(of_heads(self.q(y), heads)), lib.rotated(of_heads(self.k(y), own))
            y = lib.attention(q, k, of_heads(self.v(y), own), causal=True)
            x = x + self.out(lib.transposed(y, 0, 2, 1, 3).reshape(batch, length, width))
            y = self.norms[1](x)
            return x + self.back(lib.swiglu(self.gate(y), self.wide(y)))

    class Llama(lib.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.words, self.norm = lib.Embedding(words, width), lib.RMSNorm(width)
            self.blocks = lib.modules([Block() for _ in range(8 // min(scale, 4))])
            self.head = lib.Linear(width, words, bias=False)

        def loss(self, tokens: Any, labels: Any) -> Any:
            x = self.words(tokens)
            for block in self.blocks:
                x = block(x)
            return lib.cross_entropy(self.head(self.norm(x)).reshape(-1, words), labels)

    return Llama()


def llama_inputs(rng: np.random.Generator, scale: int) -> list[Any]:
    """Tokens and the next ones."""
    batch, length, words = 4 // min(scale, 4), 2048 // scale, 32000 // scale
    tokens = rng.integers(0, words, (batch, length + 1))
    return [tokens[:, :-1].copy(), tokens[:, 1:].reshape(-1).copy()]


MODELS: dict[str, tuple[Callable[[Any, int], Any], Callable[[np.random.Generator, int], list[Any]]]] = {
    "diffusion UNet": (unet, unet_inputs),
    "ViT-B/16": (vit, vit_inputs),
    "Llama of 8 layers": (llama, llama_inputs),
}


def own_step(model: Any, given: list[Any], captured: bool) -> Callable[[], Any]:
    """This library's step."""
    optimizer = ck.optim.AdamW(model, masters=False, **OPTIONS)

    def step() -> Any:
        with ck.Tape() as tape:
            loss = model.loss(*given)
        optimizer.step(tape.gradient(loss, model))
        return loss

    return ck.capture(step) if captured else step


def torch_step(model: Any, given: list[Any], compiled: bool) -> Callable[[], Any]:
    """PyTorch's step."""
    on_gpu = torch.cuda.is_available()
    optimizer = torch.optim.AdamW(model.parameters(), fused=on_gpu or None, capturable=on_gpu, **OPTIONS)
    loss_of = torch.compile(model.loss) if compiled else model.loss

    def step() -> Any:
        optimizer.zero_grad()
        loss = loss_of(*given)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def sides(name: str, scale: int, words: str) -> dict[str, Callable[[], Any]]:
    """The steps of a model that are measured."""
    build, draw = MODELS[name]
    given = draw(np.random.default_rng(1), scale)
    whole = [np.issubdtype(one.dtype, np.integer) for one in given]
    own = [
        ck.asarray(one) if i else ck.asarray(one).astype(ck.bfloat16)
        for one, i in zip(given, whole, strict=True)
    ]
    first = build(OURS, scale)
    state = first.state_dict()

    def ours(captured: bool) -> Callable[[], Any]:
        model = build(OURS, scale)
        model.load_state_dict(state)
        return own_step(model, own, captured)

    def theirs(compiled: bool) -> Callable[[], Any]:
        target = "cuda" if torch.cuda.is_available() else "cpu"
        model = build(peer(), scale)
        model.load_state_dict(
            {key: torch.tensor(one.astype("float32").numpy()) for key, one in state.items()}
        )
        inputs = [torch.tensor(one).to(target) for one in given]
        inputs = [one if i else one.to(torch.bfloat16) for one, i in zip(inputs, whole, strict=True)]
        return torch_step(model.to(target, torch.bfloat16), inputs, compiled)

    made = {"cukern, eager": lambda: ours(False), "cukern, captured": lambda: ours(True)}
    if torch is not None:
        made["PyTorch, eager"] = lambda: theirs(False)
    if torch is not None and torch.cuda.is_available():
        made["PyTorch, compiled"] = lambda: theirs(True)
        made["PyTorch, eager, as a CUDA graph"] = lambda: graphed(theirs(False))
        made["PyTorch, compiled, as a CUDA graph"] = lambda: graphed(theirs(True))
    return {key: make() for key, make in made.items() if words not in key}


def main() -> None:
    bench = Benchmark(__doc__, "training steps in bfloat16", ["model", "step", "ms", "first losses"])
    ck.set_default_dtype(ck.bfloat16)
    for name in bench.chosen(list(MODELS)):
        steps = sides(name, bench.scale, "compiled" if bench.quick else "nothing")
        losses: dict[str, list[float]] = {}
        for side, step in list(steps.items()):
            try:
                losses[side] = [float(step()) for _ in range(FIRST)]
            except (ck.CukernError, RuntimeError) as error:
                del steps[side]
                bench.row(name, side, None, f"{type(error).__name__}: {str(error).splitlines()[0][:90]}")
        times = milliseconds(list(steps.values()), bench.device.synchronize)
        wanted = losses["cukern, eager"][0]
        for (side, found), taken in zip(losses.items(), times, strict=True):
            bench.row(name, side, taken, " ".join(f"{one:.3f}" for one in found))
            apart = abs(found[0] - wanted) / wanted
            assert apart < LIMIT, f"{name}, {side}: the first loss is {found[0]}, expected {wanted}"
    bench.end()


if __name__ == "__main__":
    main()
