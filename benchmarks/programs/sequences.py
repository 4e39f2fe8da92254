"""Networks of sequences that are more than layers of attention.

Sources: Jiang and others, "Mixtral of experts", 2024, with the capacities of Fedus and others, "Switch transformers",
2022; Dao and Gu, "Transformers are SSMs" (Mamba-2), 2024; van den Oord and others, "WaveNet", 2016.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .language import attend
from .program import Program


def mixture(lib: Any, scale: int) -> Any:
    """A decoder of 4 layers with 8 experts each, of which a token takes 2."""
    width, wide, heads, words = 1024 // scale, 3584 // scale, 16, 32000 // scale
    experts, taken, depth = 8, 2, 4 if scale == 1 else 1

    class Experts(lib.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.router = lib.Linear(width, experts, bias=False)
            self.gate, self.up = (lib.weight((experts, width, wide), width**-0.5) for _ in range(2))
            self.back = lib.weight((experts, wide, width), wide**-0.5)

        def forward(self, x: Any) -> Any:
            rows = x.reshape(-1, width)
            count = rows.shape[0]
            capacity = count * taken * 5 // 4 // experts
            scores = lib.softmax(lib.cast(self.router(rows), lib.float32), -1)
            weights, chosen = lib.topk(scores, taken)
            weights = weights / lib.sum(weights, -1, keepdims=True)
            hot = lib.one_hot(chosen.reshape(-1), experts)
            place = lib.sum((lib.cumsum(hot, 0) - 1) * hot, 1)
            kept = place < capacity
            # Tokens that no longer find room write and read the row after the last.
            slot = lib.where(kept, chosen.reshape(-1) * capacity + place, experts * capacity)
            spare = lib.zeros_of(rows, (experts * capacity + 1, width))
            y = lib.added_at(spare, slot, lib.repeated(rows, taken, 0))[:-1].reshape(experts, capacity, width)
            y = lib.swiglu(lib.matmul(y, self.gate), lib.matmul(y, self.up))
            y = lib.padded_rows(lib.matmul(y, self.back).reshape(-1, width))[slot].reshape(
                count, taken, width
            )
            y = lib.sum(y * lib.cast(weights, y.dtype)[:, :, None], 1)
            share = lib.mean(lib.cast(hot, lib.float32), 0)
            return y.reshape(x.shape), experts * lib.sum(share * lib.mean(scores, 0))

    class Block(lib.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.norms = lib.modules([lib.RMSNorm(width), lib.RMSNorm(width)])
            self.q, self.k, self.v, self.out = (lib.Linear(width, width, bias=False) for _ in range(4))
            self.experts = Experts()

        def forward(self, x: Any) -> Any:
            y = self.norms[0](x)
            y = self.out(attend(lib, heads, self.q(y), self.k(y), self.v(y), causal=True))
            y, x = lib.added_norm(self.norms[1], x, y)
            y, balance = self.experts(y)
            return x + y, balance

    class Mixture(lib.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.words, self.norm = lib.Embedding(words, width), lib.RMSNorm(width)
            self.blocks = lib.modules([Block() for _ in range(depth)])
            self.head = lib.Linear(width, words, bias=False)

        def loss(self, tokens: Any, labels: Any) -> Any:
            x, balances = self.words(tokens), 0.0
            for block in self.blocks:
                x, balance = block(x)
                balances = balances + balance
            return lib.cross_entropy(self.head(self.norm(x)).reshape(-1, words), labels) + 0.01 * balances

    return Mixture()


def mixture_inputs(rng: np.random.Generator, scale: int) -> list[Any]:
    """Tokens and the next ones."""
    batch, length, words = max(1, 4 // scale), 1024 // scale, 32000 // scale
    tokens = rng.integers(0, words, (batch, length + 1))
    return [tokens[:, :-1].copy(), tokens[:, 1:].reshape(-1).copy()]


def mamba(lib: Any, scale: int) -> Any:
    """Mamba-2 of 4 layers, its recurrence as products of chunks of 64 steps."""
    width, states, size, chunk, words = (
        768 // scale,
        64 // min(scale, 4),
        64,
        64 // min(scale, 4),
        16000 // scale,
    )
    inner = 2 * width
    heads, depth = inner // size, 4 if scale == 1 else 1

    def sums_between(x: Any) -> Any:
        """Of the last axis: the sum of the elements after j until i, for all i and j; -inf where j > i."""
        length = x.shape[-1]
        below = lib.tril(lib.ones_of(x, (length, length)), -1) > 0
        sums = lib.cumsum(lib.where(below, x[..., :, None], 0.0), -2)
        return lib.where(lib.tril(lib.ones_of(x, (length, length))) > 0, sums, -float("inf"))

    def recurrence(x: Any, a: Any, b: Any, c: Any) -> Any:
        """``state = exp(a) state + b x`` and ``c state``, of x (batch, length, heads, size), b and c (..., states)."""
        batch, length = x.shape[:2]
        count = length // chunk
        x, a, b, c = (one.reshape(batch, count, chunk, *one.shape[2:]) for one in (x, a, b, c))
        a = lib.transposed(a, 0, 3, 1, 2)
        until = lib.cumsum(a, -1)
        scores = lib.einsum("bcln,bcsn->bcls", c, b)[:, None] * lib.exp(sums_between(a))
        near = lib.einsum("bhcls,bcshp->bclhp", scores, x)
        left = lib.transposed(lib.exp(until[..., -1:] - until), 0, 2, 3, 1)
        parts = lib.einsum("bcln,bclhp->bchpn", b, x * left[..., None])
        parts = lib.concat([lib.zeros_like(parts[:, :1]), parts], 1)
        decay = lib.exp(sums_between(lib.padded(until[..., -1], 1, 0)))
        before = lib.einsum("bhzc,bchpn->bzhpn", decay, parts)[:, :-1]
        far = lib.einsum("bcln,bchpn->bclhp", c, before)
        y = near + far * lib.transposed(lib.exp(until), 0, 2, 3, 1)[..., None]
        return y.reshape(batch, length, heads, size)

    class Block(lib.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            mixed = inner + 2 * states
            self.norm, self.norm_out = lib.RMSNorm(width), lib.RMSNorm(inner)
            self.inputs = lib.Linear(width, inner + mixed + heads, bias=False)
            self.conv = lib.Conv1d(mixed, mixed, 4, groups=mixed, padding=3)
            self.rate, self.step = lib.weight((heads,), 0.5), lib.weight((heads,), 0.5)
            self.skip, self.out = lib.weight((heads,), 1.0), lib.Linear(inner, width, bias=False)

        def forward(self, x: Any) -> Any:
            batch, length, _ = x.shape
            y = self.inputs(self.norm(x))
            gate, mixed, step = y[..., :inner], y[..., inner:-heads], y[..., -heads:]
            mixed = self.conv(lib.transposed(mixed, 0, 2, 1))[..., :length]
            mixed = lib.transposed(lib.silu(mixed), 0, 2, 1)
            values = mixed[..., :inner].reshape(batch, length, heads, size)
            b, c = mixed[..., inner : inner + states], mixed[..., inner + states :]
            step = lib.softplus(step + self.step)
            y = recurrence(values * step[..., None], -lib.exp(self.rate) * step, b, c)
            y = y + values * self.skip[:, None]
            y = self.norm_out(y.reshape(batch, length, inner) * lib.silu(gate))
            return x + self.out(y)

    class Mamba(lib.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.words, self.norm = lib.Embedding(words, width), lib.RMSNorm(width)
            self.blocks = lib.modules([Block() for _ in range(depth)])
            self.head = lib.Linear(width, words, bias=False)

        def loss(self, tokens: Any, labels: Any) -> Any:
            x = self.words(tokens)
            for block in self.blocks:
                x = block(x)
            return lib.cross_entropy(self.head(self.norm(x)).reshape(-1, words), labels)

    return Mamba()


def mamba_inputs(rng: np.random.Generator, scale: int) -> list[Any]:
    """Tokens and the next ones."""
    batch, length, words = max(2, 8 // scale), max(64, 1024 // scale // 64 * 64), 16000 // scale
    tokens = rng.integers(0, words, (batch, length + 1))
    return [tokens[:, :-1].copy(), tokens[:, 1:].reshape(-1).copy()]


def wavenet(lib: Any, scale: int) -> Any:
    """WaveNet of two stacks of ten dilated causal convolutions."""
    width, wide, levels = max(16, 128 // scale), max(16, 256 // scale), 256
    dilations = [2**i for i in range(10 if scale == 1 else 4)] * 2

    class Layer(lib.Module):  # type: ignore[misc]
        def __init__(self, dilation: int) -> None:
            super().__init__()
            self.dilation = dilation
            self.both = lib.Conv1d(width, 2 * width, 2, dilation=dilation)
            self.past, self.seen = lib.Conv1d(width, width, 1), lib.Conv1d(width, wide, 1)

        def forward(self, x: Any) -> Any:
            y = self.both(lib.padded(x, self.dilation, 0))
            y = lib.tanh(y[:, :width]) * lib.sigmoid(y[:, width:])
            return x + self.past(y), self.seen(y)

    class WaveNet(lib.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.levels = lib.Embedding(levels, width)
            self.layers = lib.modules([Layer(one) for one in dilations])
            self.wide, self.head = lib.Conv1d(wide, wide, 1), lib.Conv1d(wide, levels, 1)

        def loss(self, sound: Any, labels: Any) -> Any:
            x, seen = lib.transposed(self.levels(sound), 0, 2, 1), 0.0
            for layer in self.layers:
                x, one = layer(x)
                seen = seen + one
            y = self.head(lib.relu(self.wide(lib.relu(seen))))
            return lib.cross_entropy(lib.transposed(y, 0, 2, 1).reshape(-1, levels), labels)

    return WaveNet()


def wavenet_inputs(rng: np.random.Generator, scale: int) -> list[Any]:
    """Sound of 256 levels, and what follows."""
    sound = rng.integers(0, 256, (max(2, 8 // scale), 8192 // scale + 1))
    return [sound[:, :-1].copy(), sound[:, 1:].reshape(-1).copy()]


PROGRAMS = (
    Program("mixture of experts", mixture, mixture_inputs, "bfloat16"),
    Program("Mamba-2", mamba, mamba_inputs, "bfloat16"),
    Program("WaveNet", wavenet, wavenet_inputs, "bfloat16"),
)
