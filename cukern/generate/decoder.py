"""A decoder-only transformer of the Llama family: pre-norm blocks of attention and a gated network."""

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
from ..kernel.plan import serial
from ..nn.fused import require_ids, require_sizes
from ..quant import planes
from ..quant.kinds import Kind
from ..quant.planes import Normed, Planes
from ..quant.problem import MOST_ROWS
from .hyper import HyperParameters
from .kernels import Scores, add_norm, append_heads, attend, attends, gated_planes
from .weights import Layer, read_weights


@fuse(static=("activation",))
def _gated(gate: Any, up: Any, activation: str) -> Any:
    return (ops.silu(gate) if activation == "silu" else ops.gelu_tanh(gate)) * up


@fuse
def _capped(x: Any, cap: float) -> Any:
    return ops.tanh(x / cap) * cap


def _product(x: Array | Planes | Normed, w: Any, exact: bool = False) -> Array:
    """``x @ w.T`` in float32, of activations in float32 or 8 bits and weights as they are stored."""
    if isinstance(x, Planes | Normed):
        # All weights were written before the first kernel of the step began.
        return planes.product(x, w)
    if isinstance(w, quant.QuantArray):
        rows = x.size // x.shape[-1]
        if exact or rows <= MOST_ROWS or serial(x.device):
            return quant.linear(x, w, exact=exact)
        # Tensor cores multiply the many rows of a prompt; the rounding is about that of fewer rows to 8 bits.
        return quant.linear(x.astype(dtypes.bfloat16), w).astype(dtypes.float32)
    return nn.linear(x.astype(w.dtype, copy=False), w).astype(dtypes.float32, copy=False)


class Decoder:
    """A decoder with the weights of a GGUF file, and the keys and values of the positions so far.

    The stream between blocks is float32. Matrices stay as the file has them: quantised ones are multiplied by
    :func:`cukern.quant.linear`, which rounds the activations of up to eight positions to 8 bits, and on a GPU takes
    those of more in bfloat16; others by activations in their dtype.

    Attributes:
        hyper: the hyper-parameters.
        caches: keys and values, one :class:`cukern.nn.KeyValueCache` a block, all with the same lengths.
        nbytes: bytes of the matrices that a step of one token reads.

    Args:
        file: the path of a GGUF file.
        positions: the most positions of a sequence; those that the model was trained for when None.
        batch: the number of sequences.
        dtype: that of keys and values; float32 on the host and float16 elsewhere when None.
        device: where the weights go; the current device when None.
        exact: whether activations that multiply quantised weights stay in float32, which takes longer.

    Raises:
        ValueError: the file is damaged, its architecture is not known, or a tensor is missing or has another shape;
            the message names the file and the entry.
        TypeError: a tensor has a type that cukern lacks; or ``positions`` or ``batch`` is no int.
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
        require_sizes("Decoder", batch=batch, **({} if positions is None else {"positions": positions}))
        mapped = file if isinstance(file, Mapped) else open_gguf(file)
        self.hyper = hyper = read_hyper(mapped)
        self._exact = exact
        count = hyper.positions if positions is None else positions
        self.weights = read_weights(mapped, hyper, where, count)
        self.nbytes = self.weights.nbytes
        cache_dtype = dtype if dtype is not None else dtypes.float32 if where.addressable else dtypes.float16
        self._lengths = zeros((batch,), dtypes.int32, where)
        self.caches = [
            nn.KeyValueCache(
                batch, hyper.key_heads, count, hyper.head_features, dtype=cache_dtype, device=where
            )
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
        """The logits of the token that follows ``tokens``, which continue the sequences of earlier calls.

        Args:
            tokens: their numbers, shape (batch, length), integers; at least one for each sequence.

        Returns:
            Shape (batch, vocabulary), float32.

        Raises:
            TypeError: ``tokens`` is no array of integers.
            ValueError: it has another shape; or there is no room, which is checked only on the host: on a GPU the
                result is then undefined.
            IndexError: there is no such token (on the host; on a GPU the number is clipped).
        """
        hyper, weights = self.hyper, self.weights
        self._require_tokens(tokens)
        self._shape, length = tokens.shape, tokens.shape[1]
        if self.device.addressable and (self._lengths.numpy() + length > self.positions).any():
            raise ValueError(
                f"Decoder: tokens: expected room for {length} positions of {self.positions}, "
                f"and {self._lengths.tolist()} are taken"
            )
        with tape.stop_recording():
            x, delta, post = self._embedded(tokens), None, None
            self._lengths += length
            for layer, cache, window in zip(weights.layers, self.caches, hyper.windows, strict=True):
                y = self._normed(x, delta, layer.norm, post, layer.projections)
                post = layer.post
                x, delta = self._added(x, self._attended(y, layer, cache, window), layer.out, post)
                y = self._normed(x, delta, layer.network_norm, post, layer.networks)
                post = layer.network_post
                x, delta = self._added(x, self._network(y, layer), layer.down, post)
            if delta is not None:
                delta = ops.reshape(delta, x.shape)[:, -1].contiguous()
            y = self._normed(x[:, -1].contiguous(), delta, weights.norm, post, [weights.out])
            logits = _product(y, weights.out, self._exact)
            return logits if hyper.logit_cap is None else _capped(logits, hyper.logit_cap)

    def _require_tokens(self, tokens: Array) -> None:
        require_ids("Decoder", "tokens", tokens, self.hyper.vocabulary)
        batch = self._lengths.size
        if tokens.ndim != 2 or tokens.shape[0] != batch or not tokens.shape[1]:
            raise ValueError(
                f"Decoder: tokens: expected shape ({batch}, length) with a length of at least 1, got {tokens.shape}"
            )

    def _kind(self, rows: int, matrices: list[Any]) -> Kind | None:
        """The quantisation of ``matrices`` if their products with so many rows take 8-bit activations, else None."""
        return None if self._exact or serial(self.device) else planes.common_kind(matrices, rows)

    def _fuses(self, matrices: list[Any], gated: bool = False) -> bool:
        """Whether the product of one row with each matrix is one launch with the norm before it and what follows."""
        one = self._shape == (1, 1) and not self._exact and not serial(self.device)
        return one and all(planes.fuses(w, gated) for w in matrices)

    def _normed(
        self, x: Any, delta: Array | None, weight: Array, post: Array | None, matrices: list[Any]
    ) -> Any:
        """The normalised stream with ``delta`` added, in the form that the products with ``matrices`` take."""
        if delta is None and self._fuses(matrices):
            return Normed(x, weight, self.hyper.eps)
        kind = self._kind(x.size // x.shape[-1], matrices)
        return add_norm(x, delta, weight, self.hyper.eps, post, kind)

    def _added(self, x: Array, y: Array | Planes, w: Any, post: Array | None) -> tuple[Array, Array | None]:
        """The stream with ``y @ w.T`` added, and None; or the stream and the product, for the next norm to add."""
        if post is None and self._fuses([w]):
            return ops.reshape(planes.product(y, w, added=x), x.shape), None
        return x, _product(y, w, self._exact)

    def _products(self, x: Array | Planes | Normed, matrices: list[Any], rows: list[int]) -> list[Array]:
        """The products with matrices of so many ``rows``, some of them concatenated: (batch, length, rows) each."""
        products = [_product(x, w, self._exact) for w in matrices]
        products = [ops.reshape(one, (*self._shape, one.shape[-1])) for one in products]
        if len(products) == len(rows):
            return products
        starts = [sum(rows[:i]) for i in range(len(rows))]
        return [products[0][..., start : start + count] for start, count in zip(starts, rows, strict=True)]

    def _embedded(self, tokens: Array) -> Array:
        table = self.weights.tokens
        if isinstance(table, quant.QuantArray):
            x = quant.take(table, tokens)
        else:
            x = nn.embedding(tokens, table).astype(dtypes.float32, copy=False)
        return x if self.hyper.embedding_scale == 1 else x * self.hyper.embedding_scale

    def _attended(
        self, y: Array | Planes | Normed, layer: Layer, cache: nn.KeyValueCache, window: int | None
    ) -> Array | Planes:
        """The result of a block's attention, in the form that the product with its last matrix takes."""
        hyper, cap = self.hyper, self.hyper.score_cap
        rows = [count * hyper.head_features for count in (hyper.heads, hyper.key_heads, hyper.key_heads)]
        q, k, v = self._products(y, layer.projections, rows)
        given = (q, k, v), layer.heads, layer.table, cache, self._lengths, hyper.neighbours, hyper.eps
        kind = self._kind(self._shape[0] * self._shape[1], [layer.out])
        if self._shape[1] == 1 and attends(cache, hyper.heads):
            return attend(*given, Scores(hyper.scale, cap, window), kind)
        queries = append_heads(*given)
        heads = nn.attention(
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
        joined = ops.reshape(ops.swapaxes(heads, 1, 2), (-1, rows[0]))
        if kind is not None:
            return planes.rounded(joined.contiguous(), kind)
        return joined.astype(dtypes.float32, copy=False)

    def _network(self, y: Array | Planes | Normed, layer: Layer) -> Array | Planes:
        """The result of a block's network, in the form that the product with its last matrix takes."""
        hyper = self.hyper
        if len(layer.networks) == 1 and self._fuses([*layer.networks], True) and self._fuses([layer.down]):
            return planes.product(y, layer.networks[0], gate=hyper.activation)
        gate, up = self._products(y, layer.networks, [hyper.hidden] * 2)
        kind = self._kind(gate.shape[0] * gate.shape[1], [layer.down])
        if kind is not None:
            return gated_planes(gate, up, hyper.activation, kind)
        return _gated(gate, up, hyper.activation)

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
    """Soft-capped scores, as a function that attention traces."""

    def capped(s: Any, batch: Any, head: Any, i: Any, j: Any) -> Any:
        return ops.tanh(s / cap) * cap

    return capped
