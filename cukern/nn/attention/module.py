"""Scaled dot-product attention, composed of products and softmax where no kernel is faster, and the module."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

from ... import dtypes
from ... import namespace as ops
from ...array import Array
from ...array.creation import arange, zeros
from ...device import Device
from ...elementwise.fuse import fuse
from ...kernel.strides import broadcast_shapes
from ...random import Generator
from .. import init
from ..dropout import dropout as of_weights
from ..dropout import require_probability, stream
from ..fused import (
    common_dtype,
    require_beside,
    require_broadcast,
    require_kind,
    require_shape,
    require_sizes,
)
from ..linear import Linear, linear
from ..module import Module, Parameter
from .cache import KeyValueCache
from .families import quickest
from .function import attention


@fuse
def _causal(scores: Any, rows: Any, columns: Any, scale: float) -> Any:
    return ops.where(columns <= rows, scores * scale, -math.inf)


@fuse
def _chosen(scores: Any, mask: Any, alive: Any, scale: float) -> Any:
    # A row that may attend to nothing is computed as if it attended to everything, which avoids NaN.
    return ops.where(ops.logical_or(mask, ops.logical_not(alive)), scores * scale, -math.inf)


@fuse
def _added(scores: Any, mask: Any, alive: Any, scale: float) -> Any:
    return ops.where(alive, scores * scale + mask, 0).astype(scores.dtype)


@fuse
def _alive_only(x: Any, alive: Any) -> Any:
    return ops.where(alive, x, 0)


def _masked(scores: Array, mask: Array, scale: float) -> tuple[Array, Array]:
    """The scaled and masked scores, and whether each row may attend to any key."""
    if dtypes.info(mask.dtype).kind == "b":
        alive = ops.any(mask, axis=-1, keepdims=True)
        return _chosen(scores, mask, alive, scale), alive
    alive = ops.greater(ops.max(mask, axis=-1, keepdims=True), -math.inf)
    return _added(scores, mask, alive, scale), alive


def scaled_dot_product_attention(
    query: Array,
    key: Array,
    value: Array,
    attn_mask: Array | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    rng: Generator | None = None,
    deterministic: bool = False,
) -> Array:
    """``softmax(query @ key.T * scale) @ value`` for each of the leading axes.

    Half types on GPUs with tensor cores are left to :func:`attention` for sizes at which it was measured to be faster
    without a mask and dropout, and on GPUs of compute capability 9.0 with dropout or a mask of bools: from 2^22 scores
    on, or with ``is_causal``. Elsewhere the matrix of scores is in memory. So it is for masks of floats, as
    :func:`attention` makes the gradient of such an array without tensor cores.

    Args:
        query: shape (..., L, E), a floating dtype.
        key: shape (..., S, E).
        value: shape (..., S, V).
        attn_mask: broadcasts to the scores (..., L, S). A bool mask is True where a query may attend to a key; a
            float mask is added to the scaled scores.
        dropout_p: the probability of dropping a weight, see :func:`dropout`.
        is_causal: whether query i attends only to keys 0 to i.
        scale: the factor of the scores; ``1 / sqrt(E)`` when None.
        rng: the generator of dropout, see :func:`dropout`.
        deterministic: whether gradients are the same in every run to the last bit, see :func:`attention`.

    Returns:
        Shape (..., L, V), in the promoted dtype of the arrays; zeros where a query may attend to no key.

    Raises:
        TypeError: an argument is not a floating array, or a mask is neither of bools nor of floats.
        ValueError: the shapes do not fit, or a mask is given for causal attention.

    Source: Vaswani and others, "Attention is all you need", 2017.

    >>> import cukern as ck
    >>> x = ck.asarray([[1.0, 0.0], [0.0, 1.0]])
    >>> ck.nn.scaled_dot_product_attention(x, x, x, is_causal=True)[0].tolist()
    [1.0, 0.0]
    """
    name = "scaled_dot_product_attention"
    dtype = common_dtype(name, {"query": query, "key": key, "value": value})
    require_shape(name, "query", query, ..., "length", "features")
    require_shape(name, "key", key, ..., "S", query.shape[-1])
    require_shape(name, "value", value, ..., key.shape[-2], "V")
    if is_causal and attn_mask is not None:
        raise ValueError(f"{name}: attn_mask: none may be given with is_causal; put both into the mask")
    if scale is not None and not isinstance(scale, Real):
        raise TypeError(f"{name}: scale: expected a number or None, got {type(scale).__name__}")
    dropout_p = require_probability(name, dropout_p)
    query, key, value = (ops.astype(one, dtype, copy=False) for one in (query, key, value))
    factor = float(scale) if scale is not None else 1 / math.sqrt(max(query.shape[-1], 1))
    lead = broadcast_shapes(name, [one.shape[:-2] for one in (query, key, value)])
    if attn_mask is not None:
        require_kind(name, "attn_mask", attn_mask, "bf", "an array of bools or floats")
        scores = (*lead, query.shape[-2], key.shape[-2])
        require_shape(name, "attn_mask", attn_mask, ..., "S")
        require_broadcast(name, "attn_mask", attn_mask, scores, "the scores' ")
        require_beside(name, "attn_mask", attn_mask, query, "query")
    matrices = query._planned(), key._planned(), value._planned()
    more = attn_mask is not None or dropout_p > 0
    floats = attn_mask is not None and dtypes.info(attn_mask.dtype).kind == "f"
    given: dict[str, Any] = {"mask": attn_mask, "dropout": dropout_p, "rng": rng}
    if not floats and quickest(matrices, is_causal, more, query.device.properties):
        given |= {"causal": is_causal, "scale": factor, "deterministic": deterministic}
        return attention(query, key, value, **given)
    return _composed(query, key, value, is_causal, factor, **given)


def _composed(
    q: Array,
    k: Array,
    v: Array,
    causal: bool,
    scale: float,
    mask: Array | None,
    dropout: float,
    rng: Generator | None,
) -> Array:
    """The same by products and softmax, with the matrix of scores in memory."""
    alive = None
    if q.dtype == dtypes.float16 or (mask is None and not causal):
        # In other cases the mask's launch scales too, but unscaled scores may overflow float16.
        q, scale = ops.multiply(q, scale), 1.0
    scores = ops.matmul(q, ops.swapaxes(k, -2, -1))
    if causal:
        length, keys = scores.shape[-2:]
        places = arange(max(length, keys), device=scores.device)
        scores = _causal(scores, ops.reshape(places[:length], (length, 1)), places[:keys], scale)
    elif mask is not None:
        scores, alive = _masked(scores, mask, scale)
    weights = ops.softmax(scores, axis=-1)
    if dropout:
        weights = of_weights(weights, dropout, rng)
    attended = ops.matmul(weights, v)
    return attended if alive is None else _alive_only(attended, alive)


class MultiHeadAttention(Module):
    """Multi-head attention: each head has its own projections, and an output projection joins the heads.

    The parameters have the names, shapes and order of PyTorch's ``MultiheadAttention``, so that its state can be
    loaded. As in :func:`scaled_dot_product_attention`, True in a mask means that a key takes part, and half types are
    left to :func:`attention` on GPUs where it was measured to be faster.

    Args:
        features: elements of an input and of an output.
        heads: the number of heads, a divisor of ``features``.
        dropout: the probability of dropping a weight in training.
        bias: whether the projections have biases, initially zero.
        dtype: that of the parameters; the default floating dtype when None.
        device: that of the parameters; the current one when None.
        rng: the source of the initial parameters, see :mod:`cukern.nn.init`.
        deterministic: whether gradients are the same in every run to the last bit, see :func:`attention`.

    Raises:
        ValueError: ``heads`` does not divide ``features``.

    >>> import cukern as ck
    >>> ck.nn.MultiHeadAttention(6, 2, rng=0)(ck.ones((3, 5, 6)), is_causal=True).shape
    (3, 5, 6)
    """

    def __init__(
        self,
        features: int,
        heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        dtype: Any = None,
        device: Device | str | None = None,
        rng: init.Rng = None,
        deterministic: bool = False,
    ) -> None:
        require_sizes("MultiHeadAttention", features=features, heads=heads)
        if not heads or features % heads:
            raise ValueError(
                f"MultiHeadAttention: heads: expected a divisor of the {features} features, got {heads}"
            )
        self.heads = heads
        self.deterministic = bool(deterministic)
        self.dropout = require_probability("MultiHeadAttention", dropout)
        generator = init.generator(rng)
        shape = (3 * features, features)
        self.in_proj_weight = Parameter(init.xavier_uniform(shape, 1.0, dtype, device, generator))
        self.in_proj_bias = Parameter(zeros(3 * features, dtype, device)) if bias else None
        self.out_proj = Linear(features, features, bias, dtype, device, generator)
        if self.out_proj.bias is not None:
            self.out_proj.bias[...] = 0.0
        self._stream = stream(generator) if self.dropout else None

    def forward(
        self,
        query: Array,
        key: Array | None = None,
        value: Array | None = None,
        attn_mask: Array | None = None,
        is_causal: bool = False,
        cache: KeyValueCache | None = None,
    ) -> Array:
        """Attend with the queries; the result has their shape (N, L, features).

        Args:
            query: shape (N, L, features).
            key: shape (N, S, features); ``query`` when None.
            value: shape (N, S, features); ``key`` when None.
            attn_mask: broadcasts to (N, heads, L, S), such as ``mask[:, None, None, :]`` for a mask of keys (N, S).
            is_causal: whether query i attends only to keys 0 to i.
            cache: for generation: the keys and values of ``query`` are appended, and the queries attend to all that it
                has; with ``is_causal`` up to their own. ``key``, ``value`` and ``attn_mask`` must be None.
        """
        if cache is not None and not (key is value is attn_mask is None):
            raise ValueError("MultiHeadAttention: key, value and attn_mask: none may be given with a cache")
        key = query if key is None else key
        value = key if value is None else value
        self._require(query=query, key=key, value=value)
        features = self.out_proj.weight.shape[0]
        if query is key is value:
            projected = ops.split(linear(query, self.in_proj_weight, self.in_proj_bias), 3, axis=-1)
        else:
            weights = ops.split(self.in_proj_weight, 3)
            biases = [None] * 3 if self.in_proj_bias is None else ops.split(self.in_proj_bias, 3)
            projected = [
                linear(one, weight, bias)
                for one, weight, bias in zip((query, key, value), weights, biases, strict=True)
            ]
        q, k, v = (self._apart(one) for one in projected)
        p = self.dropout if self.training else 0.0
        if self._stream is not None:
            self._stream.device = query.device
        if cache is None:
            found = scaled_dot_product_attention(
                q, k, v, attn_mask, p, is_causal, rng=self._stream, deterministic=self.deterministic
            )
        else:
            cache.append(k, v)
            found = attention(
                q,
                cache.keys,
                cache.values,
                causal=is_causal,
                offset="end",
                dropout=p,
                rng=self._stream,
                key_lengths=cache.lengths,
                deterministic=self.deterministic,
            )
        joined = ops.reshape(ops.swapaxes(found, 1, 2), (*query.shape[:2], features))
        return self.out_proj(joined)

    def _require(self, **arrays: Array) -> None:
        features = self.out_proj.weight.shape[0]
        for argument, one in arrays.items():
            if not isinstance(one, Array) or one.ndim != 3 or one.shape[-1] != features:
                got = one.shape if isinstance(one, Array) else type(one).__name__
                raise ValueError(
                    f"MultiHeadAttention: {argument}: expected shape (N, length, {features}), got {got}"
                )

    def _apart(self, x: Array) -> Array:
        """Split (N, length, features) into heads: (N, heads, length, features of a head)."""
        batch, length, features = x.shape
        return ops.swapaxes(ops.reshape(x, (batch, length, self.heads, features // self.heads)), 1, 2)

    def extra_repr(self) -> str:
        return f"heads={self.heads}, dropout={self.dropout}"
