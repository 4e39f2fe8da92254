"""Networks of text.

Sources: Touvron and others, "Llama", 2023; Vaswani and others, "Attention is all you need", 2017; Devlin and others,
"BERT", 2019; Jozefowicz and others, "Exploring the limits of language modeling", 2016.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .program import Program


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
            y = self.out(lib.transposed(y, 0, 2, 1, 3).reshape(batch, length, width))
            y, x = lib.added_norm(self.norms[1], x, y)
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


def attend(lib: Any, heads: int, q: Any, k: Any, v: Any, **options: Any) -> Any:
    """Attention of (batch, length, width), whose heads divide the width."""

    def of_heads(x: Any) -> Any:
        return lib.transposed(x.reshape(x.shape[0], x.shape[1], heads, -1), 0, 2, 1, 3)

    y = lib.transposed(lib.attention(of_heads(q), of_heads(k), of_heads(v), **options), 0, 2, 1, 3)
    return y.reshape(q.shape)


def transformer(lib: Any, scale: int) -> Any:
    """The base Transformer of 3 and 3 layers, its embeddings shared with its output."""
    width, heads, words = 512 // scale, 8, 16000 // scale
    depth = 3 if scale == 1 else 1

    class Attention(lib.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.q, self.k, self.v, self.out = (lib.Linear(width, width) for _ in range(4))

        def forward(self, x: Any, y: Any, **options: Any) -> Any:
            return self.out(attend(lib, heads, self.q(x), self.k(y), self.v(y), **options))

    class Layer(lib.Module):  # type: ignore[misc]
        def __init__(self, decodes: bool) -> None:
            super().__init__()
            self.own, self.other = Attention(), Attention() if decodes else None
            self.wide, self.back = lib.Linear(width, 4 * width), lib.Linear(4 * width, width)
            self.norms = lib.modules([lib.LayerNorm(width) for _ in range(3 if decodes else 2)])

        def forward(self, x: Any, mask: Any, source: Any = None) -> Any:
            if self.other is None:
                x, _ = lib.added_norm(self.norms[0], x, self.own(x, x, mask=mask))
            else:
                x, _ = lib.added_norm(self.norms[0], x, self.own(x, x, causal=True))
                x, _ = lib.added_norm(self.norms[1], x, self.other(x, source, mask=mask))
            return lib.added_norm(self.norms[-1], x, self.back(lib.relu(self.wide(x))))[0]

    class Transformer(lib.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.words = lib.Embedding(words, width)
            self.encoder = lib.modules([Layer(False) for _ in range(depth)])
            self.decoder = lib.modules([Layer(True) for _ in range(depth)])

        def loss(self, source: Any, target: Any, labels: Any, waves: Any) -> Any:
            mask = (source != 0)[:, None, None, :]
            x = self.words(source) + waves[: source.shape[1]]
            for layer in self.encoder:
                x = layer(x, mask)
            y = self.words(target) + waves[: target.shape[1]]
            for layer in self.decoder:
                y = layer(y, mask, x)
            logits = lib.linear(y * width**-0.5, self.words.weight)
            return lib.cross_entropy(logits.reshape(-1, words), labels, label_smoothing=0.1)

    return Transformer()


def transformer_inputs(rng: np.random.Generator, scale: int) -> list[Any]:
    """Sources padded with 0, targets, the targets' next tokens, and waves that stand for positions."""
    batch, length, words, width = max(2, 32 // scale), max(8, 256 // scale), 16000 // scale, 512 // scale
    source, target = (rng.integers(1, words, (batch, n)) for n in (length, length + 1))
    source[np.arange(length) >= rng.integers(length // 2, length + 1, (batch, 1))] = 0
    angles = np.arange(length)[:, None] / 10000.0 ** (np.arange(0, width, 2) / width)
    waves = np.stack([np.sin(angles), np.cos(angles)], -1).reshape(length, width)
    return [source, target[:, :-1].copy(), target[:, 1:].reshape(-1).copy(), waves]


def bert(lib: Any, scale: int) -> Any:
    """BERT of 4 layers of the base size, which predicts masked words."""
    width, heads, words, length = 768 // scale, 12, 30522 // scale, 512 // scale
    depth = 4 if scale == 1 else 1

    class Layer(lib.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.q, self.k, self.v, self.out = (lib.Linear(width, width) for _ in range(4))
            self.wide, self.back = lib.Linear(width, 4 * width), lib.Linear(4 * width, width)
            self.norms = lib.modules([lib.LayerNorm(width), lib.LayerNorm(width)])

        def forward(self, x: Any, mask: Any) -> Any:
            y = self.out(attend(lib, heads, self.q(x), self.k(x), self.v(x), mask=mask))
            x, _ = lib.added_norm(self.norms[0], x, y)
            return lib.added_norm(self.norms[1], x, self.back(lib.gelu(self.wide(x))))[0]

    class BERT(lib.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.words, self.kinds = lib.Embedding(words, width), lib.Embedding(2, width)
            self.places, self.norm = lib.weight((length, width), 0.02), lib.LayerNorm(width)
            self.layers = lib.modules([Layer() for _ in range(depth)])
            self.last, self.last_norm = lib.Linear(width, width), lib.LayerNorm(width)
            self.bias = lib.parameter(lib.zeros((words,)))

        def loss(self, tokens: Any, kinds: Any, seen: Any, masked: Any, labels: Any) -> Any:
            x = self.norm(self.words(tokens) + self.kinds(kinds) + self.places)
            mask = seen[:, None, None, :]
            for layer in self.layers:
                x = layer(x, mask)
            x = x.reshape(-1, width)[masked]
            x = self.last_norm(lib.gelu(self.last(x)))
            return lib.cross_entropy(lib.linear(x * width**-0.5, self.words.weight, self.bias), labels)

    return BERT()


def bert_inputs(rng: np.random.Generator, scale: int) -> list[Any]:
    """Tokens, the sentence of each, which are not padding, which are masked, and what these were."""
    batch, length, words = max(2, 16 // scale), 512 // scale, 30522 // scale
    tokens = rng.integers(1, words, (batch, length))
    lengths = rng.integers(length // 2, length + 1, (batch, 1))
    kinds, seen = (np.arange(length) >= lengths // 2).astype(np.int64), np.arange(length) < lengths
    masked = np.sort(rng.choice(batch * length, batch * length * 15 // 100, replace=False))
    return [tokens, kinds, seen, masked, rng.integers(1, words, len(masked))]


def lstm(lib: Any, scale: int) -> Any:
    """A language model of two LSTM layers of 1024 numbers."""
    width, words = 1024 // scale, 10000 // scale

    class Model(lib.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.words, self.lstm = lib.Embedding(words, width), lib.LSTM(width, width, 2)
            self.head = lib.Linear(width, words)

        def loss(self, tokens: Any, labels: Any) -> Any:
            x, _ = self.lstm(self.words(tokens))
            return lib.cross_entropy(self.head(x).reshape(-1, words), labels)

    return Model()


def lstm_inputs(rng: np.random.Generator, scale: int) -> list[Any]:
    """Tokens (steps, batch) and the next ones."""
    length, batch, words = max(8, 256 // scale), max(2, 32 // scale), 10000 // scale
    tokens = rng.integers(0, words, (length + 1, batch))
    return [tokens[:-1].copy(), tokens[1:].reshape(-1).copy()]


PROGRAMS = (
    Program("Llama of 8 layers", llama, llama_inputs, "bfloat16"),
    Program("Transformer, encoder and decoder", transformer, transformer_inputs, "bfloat16"),
    Program("BERT of 4 layers", bert, bert_inputs, "bfloat16"),
    Program("LSTM language model", lstm, lstm_inputs, "bfloat16"),
)
