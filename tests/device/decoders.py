"""Small decoders with random weights as GGUF files, and the same computed by NumPy in float64."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import cukern as ck

FEATURES, HIDDEN, HEADS, KEY_HEADS, WIDTH, TOKENS, POSITIONS, LAYERS = 64, 96, 4, 2, 32, 40, 32, 2
EPS = 1e-5


class Form:
    """A kind of decoder: what its metadata and its tensors have besides those of all."""

    def __init__(self, architecture: str, layers: int = LAYERS, **entries: Any) -> None:
        self.architecture, self.layers, self.entries = architecture, layers, entries
        self.tied = architecture != "llama"
        self.biases = architecture == "qwen2"
        self.head_norms = architecture in ("qwen3", "gemma3")
        self.post_norms = architecture in ("gemma2", "gemma3")
        self.gemma = architecture.startswith("gemma")
        self.factors = architecture == "llama"

    def metadata(self) -> dict[str, Any]:
        entries = {
            "block_count": self.layers,
            "context_length": POSITIONS,
            "embedding_length": FEATURES,
            "feed_forward_length": HIDDEN,
            "attention.head_count": HEADS,
            "attention.head_count_kv": KEY_HEADS,
            "attention.key_length": WIDTH,
            "attention.value_length": WIDTH,
            "attention.layer_norm_rms_epsilon": EPS,
            "rope.freq_base": 500.0,
            **{name.replace("__", "."): value for name, value in self.entries.items()},
        }
        named = {f"{self.architecture}.{name}": value for name, value in entries.items()}
        return {"general.architecture": self.architecture, **named}

    def weights(self) -> dict[str, np.ndarray]:
        """The weights, each matrix so that it keeps the scale of what it multiplies."""
        rng = np.random.default_rng(0)

        def matrix(rows: int, columns: int) -> np.ndarray:
            return (rng.normal(size=(rows, columns)) / np.sqrt(columns)).astype("f4")

        def vector(size: int) -> np.ndarray:
            return (1 + 0.2 * rng.normal(size=size)).astype("f4")

        made = {"token_embd.weight": matrix(TOKENS, FEATURES) * 8, "output_norm.weight": vector(FEATURES)}
        if not self.tied:
            made["output.weight"] = matrix(TOKENS, FEATURES)
        if self.factors:
            made["rope_freqs.weight"] = np.linspace(1, 8, WIDTH // 2).astype("f4")
        for i in range(self.layers):
            sizes = {"q": HEADS * WIDTH, "k": KEY_HEADS * WIDTH, "v": KEY_HEADS * WIDTH}
            block = {f"attn_{n}.weight": matrix(size, FEATURES) for n, size in sizes.items()}
            if self.biases:
                block |= {f"attn_{n}.bias": vector(size) for n, size in sizes.items()}
            if self.head_norms:
                block |= {f"attn_{n}_norm.weight": vector(WIDTH) for n in "qk"}
            if self.post_norms:
                block |= {f"post_{n}.weight": vector(FEATURES) for n in ("attention_norm", "ffw_norm")}
            block |= {
                "attn_norm.weight": vector(FEATURES),
                "ffn_norm.weight": vector(FEATURES),
                "attn_output.weight": matrix(FEATURES, HEADS * WIDTH),
                "ffn_gate.weight": matrix(HIDDEN, FEATURES),
                "ffn_up.weight": matrix(HIDDEN, FEATURES),
                "ffn_down.weight": matrix(FEATURES, HIDDEN),
            }
            made |= {f"blk.{i}.{name}": one for name, one in block.items()}
        return made


FORMS = {
    "llama": Form("llama"),
    "llama stretched": Form("llama", rope__scaling__type="linear", rope__scaling__factor=4.0),
    "qwen2": Form("qwen2"),
    "qwen3": Form("qwen3"),
    "gemma": Form("gemma"),
    "gemma2": Form(
        "gemma2", attention__sliding_window=4, attn_logit_softcapping=3.0, final_logit_softcapping=5.0
    ),
    "gemma3": Form("gemma3", layers=6, attention__sliding_window=4, rope__scaling__factor=8.0),
}


def write(
    path: Path, form: Form, kind: str = "F32", others: dict[str, str] | None = None, extra: Any = None
) -> dict[str, np.ndarray]:
    """Write a decoder with its matrices in one kind of blocks; return its weights as the blocks hold them.

    Args:
        others: kinds of some matrices, by the ends of their names.
        extra: more metadata.
    """
    tensors: dict[str, Any] = {}
    held = {}
    for name, value in form.weights().items():
        x = ck.asarray(value, device="host")
        own = next((k for end, k in (others or {}).items() if name.endswith(end)), kind)
        tensors[name] = x if own == "F32" or x.ndim < 2 else ck.quant.quantize(x, own)
        dense = tensors[name] if tensors[name] is x else tensors[name].dequantize()
        held[name] = dense.numpy().astype("f8")
    ck.save_gguf(path, tensors, form.metadata() | (extra or {}))
    return held


def rms(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    return x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + EPS) * weight


def rotated(x: np.ndarray, form: Form, i: int, factors: np.ndarray) -> np.ndarray:
    """Heads (length, heads, features) with each pair turned as a complex number."""
    base, stretch = form.entries.get("rope__freq_base", 500.0), form.entries.get("rope__scaling__factor", 1.0)
    if form.architecture == "gemma3" and i % 6 != 5:
        base, stretch = 10000.0, 1.0
    angles = np.arange(len(x))[:, None] * base ** (-np.arange(WIDTH // 2) * 2 / WIDTH) / stretch / factors
    turn = np.exp(1j * angles)[:, None]
    if form.architecture == "llama":
        z = (x[..., ::2] + 1j * x[..., 1::2]) * turn
        return np.stack([z.real, z.imag], axis=-1).reshape(x.shape)
    z = (x[..., : WIDTH // 2] + 1j * x[..., WIDTH // 2 :]) * turn
    return np.concatenate([z.real, z.imag], axis=-1)


def attended(q: np.ndarray, k: np.ndarray, v: np.ndarray, form: Form, i: int) -> np.ndarray:
    k, v = (np.repeat(one, HEADS // KEY_HEADS, axis=1) for one in (k, v))
    scores = np.einsum("ihd,jhd->hij", q, k) / np.sqrt(WIDTH)
    if cap := form.entries.get("attn_logit_softcapping"):
        scores = cap * np.tanh(scores / cap)
    far = np.arange(len(q))[:, None] - np.arange(len(q))
    period = {"gemma2": 2, "gemma3": 6}.get(form.architecture)
    windowed = period is not None and i % period != period - 1
    scores[:, (far < 0) | (windowed & (far >= form.entries.get("attention__sliding_window", 0)))] = -np.inf
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.einsum("hij,jhd->ihd", weights / weights.sum(axis=-1, keepdims=True), v).reshape(len(q), -1)


def logits(form: Form, w: dict[str, np.ndarray], tokens: list[int]) -> np.ndarray:
    """The logits of what follows each token, in float64: shape (length, vocabulary)."""
    x = w["token_embd.weight"][tokens] * (np.sqrt(FEATURES) if form.gemma else 1)
    factors = w.get("rope_freqs.weight", np.ones(WIDTH // 2))
    for i in range(form.layers):

        def of(name: str, i: int = i) -> np.ndarray:
            return w[f"blk.{i}.{name}"]

        y = rms(x, of("attn_norm.weight"))
        heads = {}
        for n, count in (("q", HEADS), ("k", KEY_HEADS), ("v", KEY_HEADS)):
            z = y @ of(f"attn_{n}.weight").T + (of(f"attn_{n}.bias") if form.biases else 0)
            heads[n] = z.reshape(len(tokens), count, WIDTH)
        for n in "qk":
            if form.head_norms:
                heads[n] = rms(heads[n], of(f"attn_{n}_norm.weight"))
            heads[n] = rotated(heads[n], form, i, factors)
        y = attended(*heads.values(), form, i) @ of("attn_output.weight").T
        x = x + (rms(y, of("post_attention_norm.weight")) if form.post_norms else y)
        y = rms(x, of("ffn_norm.weight"))
        gate, up = (y @ of(f"ffn_{n}.weight").T for n in ("gate", "up"))
        if form.gemma:
            gate = gate * 0.5 * (1 + np.tanh(np.sqrt(2 / np.pi) * (gate + 0.044715 * gate**3)))
        else:
            gate = gate / (1 + np.exp(-gate))
        y = (gate * up) @ of("ffn_down.weight").T
        x = x + (rms(y, of("post_ffw_norm.weight")) if form.post_norms else y)
    found = rms(x, w["output_norm.weight"]) @ w.get("output.weight", w["token_embd.weight"]).T
    cap = form.entries.get("final_logit_softcapping")
    return cap * np.tanh(found / cap) if cap else found
