"""A decoder of the family of Llama: blocks of attention and a gated network, with norms before them."""

from __future__ import annotations

import functools
import os
from typing import Any

from .. import dtypes, nn, quant
from .. import namespace as ops
from ..array import Array
from ..array.creation import zeros
from ..autodiff import tape
from ..device import Device, current
from ..elementwise.fuse import fuse
from ..gguf.file import Mapped, open_gguf
from .hyper import HyperParameters
from .kernels import add_norm, append_heads
from .weights import Layer, read_weights


@fuse(static=("activation",))
def _gated(gate: Any, up: Any, activation: str) -> Any:
    return (ops.silu(gate) if activation == "silu" else ops.gelu_tanh(gate)) * up


@fuse
def _capped(x: Any, cap: float) -> Any:
    return ops.tanh(x / cap) * cap


def _product(x: Array, w: Any, exact: bool) -> Array:
    """``x @ w.T`` in float32, of activations in float32 and weights as they are stored."""
    if isinstance(w, quant.QuantArray):
        return quant.linear(x, w, exact=exact)
    made: Array = nn.linear(x.astype(w.dtype, copy=False), w).astype(dtypes.float32, copy=False)
    return made


def _products(x: Array, matrices: list[Any], rows: list[int], exact: bool) -> list[Array]:
    """The products with matrices of so many rows, of which some are joined."""
    made = [_product(x, w, exact) for w in matrices]
    if len(made) == len(rows):
        return made
    starts = [sum(rows[:i]) for i in range(len(rows))]
    return [made[0][..., start : start + count] for start, count in zip(starts, rows, strict=True)]


class Decoder:
    """A decoder with the weights of a GGUF file, and the keys and values of the positions so far.

    The stream between blocks is float32. Matrices stay as the file has them: quantised ones are multiplied by
    :func:`cukern.quant.linear`, which rounds the activations of up to eight positions to 8 bits; others by activations
    in their dtype.

    Attributes:
        hyper: what describes it.
        caches: keys and values, one :class:`cukern.nn.KeyValueCache` a block, all with the same lengths.
        nbytes: bytes of the matrices that a step of one token reads.

    Args:
        file: the path of a GGUF file.
        positions: the most positions of a sequence; those that the model was trained for when None.
        batch: the number of sequences.
        dtype: that of keys and values; float32 on the host and float16 elsewhere when None.
        device: where the weights go; the current device when None.
        exact: whether no activations are rounded to 8 bits, which takes longer.

    Raises:
        ValueError: the file is damaged, its architecture is not known, or a tensor is missing or has another shape;
            the message names the file and the entry.
        TypeError: a tensor has a type that cukern lacks.
        OSError: the file cannot be read.
    """

    def __init__(
        self,
        file: str | os.PathLike[str] | Mapped,
        positions: int | None = None,
        batch: int = 1,
        dtype: Any = None,
        device: Device | str | None = None,
        exact: bool = False,
    ) -> None:
        where = current() if device is None else Device(device)
        mapped = file if isinstance(file, Mapped) else open_gguf(file)
        self.hyper = hyper = read_hyper(mapped)
        self._exact = exact
        count = hyper.positions if positions is None else positions
        self.weights = read_weights(mapped, hyper, where, count)
        self.nbytes = self.weights.nbytes
        made = dtype if dtype is not None else dtypes.float32 if where.addressable else dtypes.float16
        self._lengths = zeros((batch,), dtypes.int32, where)
        self.caches = [
            nn.KeyValueCache(batch, hyper.key_heads, count, hyper.head_features, dtype=made, device=where)
            for _ in range(hyper.layers)
        ]
        for cache in self.caches:
            cache.lengths = self._lengths

    @property
    def device(self) -> Device:
        """Where the weights are."""
        return self._lengths.device

    @property
    def positions(self) -> int:
        """The most positions of a sequence."""
        return self.caches[0].capacity

    def reset(self) -> None:
        """Forget all positions."""
        self._lengths[...] = 0

    def __call__(self, tokens: Array) -> Array:
        """The logits of what follows the last of some tokens, which come behind those of earlier calls.

        Args:
            tokens: their numbers, shape (batch, length).

        Returns:
            Shape (batch, vocabulary), float32.

        Raises:
            ValueError: there is no room, which is checked only on the host; on a GPU the result is then undefined.
        """
        hyper, weights = self.hyper, self.weights
        length = tokens.shape[1]
        if self.device.addressable and (self._lengths.numpy() + length > self.positions).any():
            raise ValueError(
                f"Decoder: tokens: expected room for {length} positions of {self.positions}, "
                f"and {self._lengths.tolist()} are taken"
            )
        with tape.stop_recording():
            self._lengths += length
            x = self._embedded(tokens)
            delta: Array | None = None
            post: Array | None = None
            for i, layer in enumerate(weights.layers):
                y = add_norm(x, delta, layer.norm, hyper.eps, post, dtypes.float32)
                delta, post = self._attended(y, layer, i), layer.post
                y = add_norm(x, delta, layer.network_norm, hyper.eps, post, dtypes.float32)
                gate, up = _products(y, layer.networks, [hyper.hidden] * 2, self._exact)
                delta, post = (
                    _product(_gated(gate, up, hyper.activation), layer.down, self._exact),
                    layer.network_post,
                )
            last = x[:, -1].contiguous(), None if delta is None else delta[:, -1].contiguous()
            y = add_norm(*last, weights.norm, hyper.eps, post, dtypes.float32)
            logits = _product(y, weights.out, self._exact)
            return logits if hyper.logit_cap is None else _capped(logits, hyper.logit_cap)

    def _embedded(self, tokens: Array) -> Array:
        table = self.weights.tokens
        if isinstance(table, quant.QuantArray):
            x = quant.take(table, tokens)
        else:
            x = nn.embedding(tokens, table).astype(dtypes.float32, copy=False)
        return x if self.hyper.embedding_scale == 1 else x * self.hyper.embedding_scale

    def _attended(self, y: Array, layer: Layer, i: int) -> Array:
        hyper, cache = self.hyper, self.caches[i]
        rows = [count * hyper.head_features for count in (hyper.heads, hyper.key_heads, hyper.key_heads)]
        q, k, v = _products(y, layer.projections, rows, self._exact)
        queries = append_heads(
            (q, k, v), layer.heads, layer.table, cache, self._lengths, hyper.neighbours, hyper.eps
        )
        window, cap = hyper.windows[i], hyper.score_cap
        made = nn.attention(
            queries,
            cache.keys,
            cache.values,
            causal=True,
            offset="end",
            key_lengths=self._lengths,
            window=None if window is None else window - 1,
            scale=hyper.scale,
            score=None if cap is None else _capping(cap),
        )
        joined = ops.reshape(ops.swapaxes(made, 1, 2), (*y.shape[:2], rows[0]))
        return _product(joined.astype(dtypes.float32, copy=False), layer.out, self._exact)

    def __repr__(self) -> str:
        hyper = self.hyper
        return (
            f"Decoder({hyper.architecture}, {hyper.layers} layers of {hyper.features} features, "
            f"{hyper.vocabulary} tokens, {self.positions} positions, {self.device})"
        )


def read_hyper(file: Mapped) -> HyperParameters:
    """The hyper-parameters of a file.

    Raises:
        ValueError: as :meth:`HyperParameters.of`, with the file's name; or it has no embeddings.
    """
    try:
        tokens = file.places.get("token_embd.weight")
        return HyperParameters.of(file.metadata, tokens.shape[0] if tokens and len(tokens.shape) == 2 else 0)
    except ValueError as error:
        raise ValueError(f"{file.name}: {error}") from None


@functools.cache
def _capping(cap: float) -> Any:
    """The bound of scores, as a function that attention traces."""

    def capped(s: Any, batch: Any, head: Any, i: Any, j: Any) -> Any:
        return ops.tanh(s / cap) * cap

    return capped
