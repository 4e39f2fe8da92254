"""The hyper-parameters of a decoder, from the metadata of a GGUF file.

Source of the names and defaults: ``llama-arch.cpp`` and ``llama-model.cpp`` of https://github.com/ggml-org/llama.cpp.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

#: The known architectures, and whether the elements of a rotated pair lie side by side.
ARCHITECTURES = {
    "llama": True,
    "qwen2": False,
    "qwen3": False,
    "gemma": False,
    "gemma2": False,
    "gemma3": False,
}
#: The most layers, far more than models have.
_MOST_LAYERS = 2**16
#: Layers in a period of which the last attends to all positions, and the others have a sliding window.
_PERIODS = {"gemma2": 2, "gemma3": 6}
#: Layers of the two Gemmas of 27 billion parameters, which scale scores by features per head instead of a head's size.
_SCALED_BY_HEADS = {("gemma2", 46), ("gemma3", 62)}


@dataclass(frozen=True)
class HyperParameters:
    """The numbers that describe a decoder.

    Attributes:
        architecture: its name, such as ``"llama"``.
        layers: the number of blocks.
        features: elements of the stream between blocks.
        hidden: elements of the inner layer of a block's network.
        heads: heads of queries.
        key_heads: heads of keys and values, a divisor of ``heads``.
        head_features: elements of a head.
        positions: the most positions that it was trained for.
        vocabulary: the number of tokens.
        eps: added to mean squares.
        turned: how many features of a head the positions rotate.
        neighbours: whether a rotated pair lies side by side, or half of ``turned`` apart.
        bases: for each layer, the base of the angles.
        stretches: for each layer, what positions are divided by.
        windows: for each layer, how many positions a query attends to, its own included; None for all before it.
        activation: that of the gate, ``"silu"`` or ``"gelu_tanh"``.
        scale: the factor of the scores.
        score_cap: scores s become ``cap * tanh(s / cap)``; None for no cap.
        logit_cap: the same of the logits.
        embedding_scale: the factor of embeddings.
    """

    architecture: str
    layers: int
    features: int
    hidden: int
    heads: int
    key_heads: int
    head_features: int
    positions: int
    vocabulary: int
    eps: float
    turned: int
    neighbours: bool
    bases: tuple[float, ...]
    stretches: tuple[float, ...]
    windows: tuple[int | None, ...]
    activation: str
    scale: float
    score_cap: float | None
    logit_cap: float | None
    embedding_scale: float

    @classmethod
    def of(cls, metadata: Mapping[str, Any], vocabulary: int) -> HyperParameters:
        """The hyper-parameters that a file's metadata state.

        Args:
            metadata: values by name, as :func:`cukern.load_gguf` reads them.
            vocabulary: the number of tokens, the rows of the embeddings.

        Raises:
            ValueError: the architecture is not known, an entry is missing or impossible, or ``vocabulary`` is 0; the
                message names it.
        """
        return _read(_Entries(metadata), vocabulary)

    def frequencies(self, layer: int, factors: np.ndarray[Any, Any] | None = None) -> np.ndarray[Any, Any]:
        """The angle by which each pair of a layer turns from one position to the next, in radians.

        Args:
            layer: its number.
            factors: what the frequencies are divided by, shape (turned / 2,); 1 when None.

        Source: Su and others, "RoFormer: enhanced transformer with rotary position embedding", 2021.
        """
        exponents = np.arange(0, self.turned, 2) / self.turned
        angles = self.bases[layer] ** -exponents / self.stretches[layer]
        return angles if factors is None else angles / np.asarray(factors, np.float64)


class _Entries:
    """The entries of one architecture, checked as they are read."""

    def __init__(self, metadata: Mapping[str, Any]) -> None:
        self.metadata = metadata
        architecture = metadata.get("general.architecture")
        if not isinstance(architecture, str) or architecture not in ARCHITECTURES:
            raise ValueError(
                f"'general.architecture': expected one of {', '.join(ARCHITECTURES)}, got {architecture!r}"
            )
        self.architecture = architecture

    def _get(self, name: str, kinds: Any, default: Any, wanted: str) -> Any:
        key = f"{self.architecture}.{name}"
        value = self.metadata.get(key, default)
        if value is None:
            raise ValueError(f"{key!r}: the file lacks this entry")
        if isinstance(value, bool) or not isinstance(value, kinds):
            raise ValueError(f"{key!r}: expected {wanted}, got {value!r:.60}")
        return value

    def size(self, name: str, default: int | None = None, most: int = 2**31 - 1) -> int:
        value = self._get(name, (int, np.integer), default, "an integer")
        if not 0 < value <= most:
            raise ValueError(f"'{self.architecture}.{name}': expected a number from 1 to {most}, got {value}")
        return int(value)

    def real(self, name: str, default: float | None = None) -> float:
        value = self._get(name, (int, float, np.integer, np.floating), default, "a number")
        if not 0 < value < math.inf:
            raise ValueError(f"'{self.architecture}.{name}': expected a number above 0, got {value}")
        return float(value)

    def cap(self, name: str, default: float) -> float | None:
        """A bound of scores or logits, which only Gemma 2 has where the file states none."""
        stated = f"{self.architecture}.{name}" in self.metadata
        return self.real(name, default) if stated or self.architecture == "gemma2" else None

    def text(self, name: str, default: str) -> str:
        return self._get(name, str, default, "a string")

    def has(self, name: str) -> bool:
        return f"{self.architecture}.{name}" in self.metadata


def _read(entries: _Entries, vocabulary: int) -> HyperParameters:
    architecture = entries.architecture
    if not vocabulary:
        raise ValueError("'token_embd.weight': the file lacks this matrix")
    layers = entries.size("block_count", most=_MOST_LAYERS)
    features, heads = entries.size("embedding_length"), entries.size("attention.head_count")
    key_heads = entries.size("attention.head_count_kv", heads)
    if heads % key_heads:
        raise ValueError(
            f"'{architecture}.attention.head_count_kv': expected a divisor of the {heads} heads, got {key_heads}"
        )
    head_features = entries.size("attention.key_length", max(1, features // heads))
    turned = entries.size("rope.dimension_count", head_features)
    if entries.size("attention.value_length", head_features) != head_features:
        raise ValueError(
            f"'{architecture}.attention.value_length': expected {head_features}, that of the keys"
        )
    if turned > head_features or turned % 2 or head_features % 2:
        raise ValueError(
            f"'{architecture}.rope.dimension_count': expected an even number up to the {head_features} of a head, "
            f"which is even, got {turned}"
        )
    if entries.has("expert_count"):
        raise ValueError(f"'{architecture}.expert_count': mixtures of experts are not supported")
    gemma = architecture.startswith("gemma")
    windows = _windows(entries, layers)
    bases, stretches = _angles(entries, windows)
    by_heads = (architecture, layers) in _SCALED_BY_HEADS
    return HyperParameters(
        architecture=architecture,
        layers=layers,
        features=features,
        hidden=entries.size("feed_forward_length"),
        heads=heads,
        key_heads=key_heads,
        head_features=head_features,
        positions=entries.size("context_length"),
        vocabulary=vocabulary,
        eps=entries.real("attention.layer_norm_rms_epsilon"),
        turned=turned,
        neighbours=ARCHITECTURES[architecture],
        bases=bases,
        stretches=stretches,
        windows=windows,
        activation="gelu_tanh" if gemma else "silu",
        scale=1 / math.sqrt(features / heads if by_heads else head_features),
        score_cap=entries.cap("attn_logit_softcapping", 50.0),
        logit_cap=entries.cap("final_logit_softcapping", 30.0),
        embedding_scale=math.sqrt(features) if gemma else 1.0,
    )


def _windows(entries: _Entries, layers: int) -> tuple[int | None, ...]:
    period = _PERIODS.get(entries.architecture)
    if period is None:
        return (None,) * layers
    window = entries.size("attention.sliding_window", 4096 if entries.architecture == "gemma2" else None)
    return tuple(window if i % period < period - 1 else None for i in range(layers))


def _angles(
    entries: _Entries, windows: tuple[int | None, ...]
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The bases of the angles, and what positions are divided by, for each layer."""
    kind = entries.text("rope.scaling.type", "linear")
    if kind not in ("none", "linear"):
        raise ValueError(
            f"'{entries.architecture}.rope.scaling.type': expected 'none' or 'linear', got {kind!r}"
        )
    old = entries.real("rope.scale_linear", 1.0)  # as older files name it
    stretch = entries.real("rope.scaling.factor", old) if kind == "linear" else 1.0
    base = entries.real("rope.freq_base", 10000.0)
    if entries.architecture != "gemma3":
        return (base,) * len(windows), (stretch,) * len(windows)
    local = entries.real("rope.freq_base_swa", 10000.0)
    bases = tuple(base if window is None else local for window in windows)
    return bases, tuple(stretch if window is None else 1.0 for window in windows)
