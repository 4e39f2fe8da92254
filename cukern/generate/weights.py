"""The weights of a decoder, looked up by name in a GGUF file and checked against its hyper-parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import dtypes
from .. import namespace as ops
from ..array import Array
from ..array.creation import asarray
from ..device import Device
from ..gguf.file import Mapped
from .hyper import HyperParameters
from .kernels import HeadWeights


class Layer(NamedTuple):
    """The weights of a block. Of ``projections`` and ``networks``, several matrices may be concatenated.

    Attributes:
        norm, network_norm: the weights of the norms before attention and before the network.
        post, network_post: the weights of the norms after them, or None.
        projections: the matrices of queries, keys and values.
        heads: biases and norms of heads.
        out: the matrix of the result of attention.
        networks: the matrices of the gate and of what it is multiplied by.
        down: the matrix of the network's result.
        table: the cosines and sines of the layer's angles.
    """

    norm: Array
    network_norm: Array
    post: Array | None
    network_post: Array | None
    projections: list[Any]
    heads: HeadWeights
    out: Any
    networks: list[Any]
    down: Any
    table: Array


class Weights(NamedTuple):
    """All weights of a decoder.

    Attributes:
        tokens: the embeddings, shape (vocabulary, features).
        layers: the blocks.
        norm: the weight of the last norm.
        out: the matrix of the logits; ``tokens`` itself where the file has none.
        nbytes: the bytes of the matrices that each step reads whole.
    """

    tokens: Any
    layers: list[Layer]
    norm: Array
    out: Any
    nbytes: int


class _Source:
    """The tensors of a file, each of which must be read once."""

    def __init__(self, file: Mapped, device: Device) -> None:
        self.file, self.device, self.left, self.nbytes = file, device, set(file.places), 0

    def has(self, name: str) -> bool:
        return name in self.file.places

    def take(self, name: str, *shape: int) -> str:
        """The name of a tensor that must have this shape."""
        if name not in self.file.places:
            raise ValueError(f"{self.file.name}: {name!r}: the file lacks this tensor")
        own = self.file.places[name].shape
        if own != shape:
            raise ValueError(f"{self.file.name}: {name!r}: expected shape {shape}, got {own}")
        self.left.discard(name)
        return name

    def vector(self, name: str, size: int) -> Array:
        # A copy is aligned, as kernels read it; the file's tensors may begin at any multiple of 8 bytes.
        return ops.astype(self.file.array(self.take(name, size), self.device), dtypes.float32)

    def optional(self, name: str, size: int) -> Array | None:
        return self.vector(name, size) if self.has(name) else None

    def matrix(self, name: str, rows: int, columns: int) -> Any:
        self.nbytes += self.file.places[self.take(name, rows, columns)].nbytes
        return self.file.array(name, self.device)

    def matrices(self, names: Sequence[str], rows: Sequence[int], columns: int) -> list[Any]:
        """Matrices that are multiplied by the same vectors; one, concatenated, if their types are the same."""
        for name, count in zip(names, rows, strict=True):
            self.nbytes += self.file.places[self.take(name, count, columns)].nbytes
        return self.file.joined(names, self.device)


def read_weights(file: Mapped, hyper: HyperParameters, device: Device, positions: int) -> Weights:
    """The weights of a decoder, on a device.

    Args:
        file: the file.
        hyper: its hyper-parameters.
        device: the device of the weights.
        positions: the number of positions for which angles are computed.

    Raises:
        ValueError: a tensor is missing, or has another shape, or the file has tensors that the decoder does not use.
        TypeError: a tensor has a type that cukern lacks.
    """
    source = _Source(file, device)
    tokens_size = (hyper.vocabulary, hyper.features)
    # Checked first: they bound the sizes that are allocated below.
    source.take("token_embd.weight", *tokens_size)
    source.take("blk.0.attn_q.weight", hyper.heads * hyper.head_features, hyper.features)
    factors = None
    if source.has("rope_freqs.weight"):
        factors = source.vector("rope_freqs.weight", hyper.turned // 2).numpy()
    tables: dict[tuple[float, float], Array] = {}
    for i in range(hyper.layers):
        key = hyper.bases[i], hyper.stretches[i]
        if key not in tables:
            tables[key] = _table(hyper.frequencies(i, factors), positions, device)
    layers = [
        _layer(source, hyper, i, tables[hyper.bases[i], hyper.stretches[i]]) for i in range(hyper.layers)
    ]
    norm = source.vector("output_norm.weight", hyper.features)
    if source.has("output.weight"):
        out = source.matrix("output.weight", *tokens_size)
        tokens = file.array(source.take("token_embd.weight", *tokens_size), device)
    else:
        tokens = out = source.matrix("token_embd.weight", *tokens_size)
    if source.left:
        raise ValueError(
            f"{file.name}: {min(source.left)!r}: {hyper.architecture} has no such tensor here, and would ignore it"
        )
    return Weights(tokens, layers, norm, out, source.nbytes)


def _table(frequencies: np.ndarray[Any, Any], positions: int, device: Device) -> Array:
    angles = np.arange(positions)[:, None] * frequencies
    return asarray(np.stack([np.cos(angles), np.sin(angles)], axis=-1), dtypes.float32, device)


def _layer(source: _Source, hyper: HyperParameters, i: int, table: Array) -> Layer:
    at, features, hidden = f"blk.{i}", hyper.features, hyper.hidden
    width, key_width = (count * hyper.head_features for count in (hyper.heads, hyper.key_heads))
    rows = {"q": width, "k": key_width, "v": key_width}
    heads = HeadWeights(
        *(source.optional(f"{at}.attn_{name}.bias", count) for name, count in rows.items()),
        *(source.optional(f"{at}.attn_{name}_norm.weight", hyper.head_features) for name in "qk"),
    )
    return Layer(
        norm=source.vector(f"{at}.attn_norm.weight", features),
        network_norm=source.vector(f"{at}.ffn_norm.weight", features),
        post=source.optional(f"{at}.post_attention_norm.weight", features),
        network_post=source.optional(f"{at}.post_ffw_norm.weight", features),
        projections=source.matrices(
            [f"{at}.attn_{name}.weight" for name in rows], list(rows.values()), features
        ),
        heads=heads,
        out=source.matrix(f"{at}.attn_output.weight", features, width),
        networks=source.matrices(
            [f"{at}.ffn_{n}.weight" for n in ("gate", "up")], [hidden, hidden], features
        ),
        down=source.matrix(f"{at}.ffn_down.weight", features, hidden),
        table=table,
    )
