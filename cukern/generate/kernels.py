"""Kernels of one step of a decoder: norms of the stream, and heads from projections to the cache."""

from __future__ import annotations

from typing import NamedTuple

from .. import dtypes
from ..array import Array
from ..array.creation import empty
from ..device import Device
from ..kernel import Kernel
from ..kernel.sizes import divide_up, power_of_two
from ..nn import KeyValueCache

_ADD_NORM = Kernel("generate/add_norm.cu", name="add_norm")
_HEADS = Kernel("generate/heads.cu", name="heads")
#: Threads of a block at most: of a row of the stream, and of heads, each of a warp.
_ROW_THREADS, _HEADS_THREADS = 1024, 128


def _threads(device: Device, most: int) -> int:
    return 1 if device.style == "serial" else most


def add_norm(
    x: Array, delta: Array | None, weight: Array, eps: float, post: Array | None, dtype: dtypes.DType
) -> Array:
    """Add ``delta``, normalised if there is ``post``, to the stream ``x`` in place; return the normalised stream.

    Args:
        x: shape (..., features), float32, in C order.
        delta: the shape of ``x``, float32; nothing is added when None.
        weight: shape (features,), float32.
        eps: added to mean squares.
        post: the weight of the norm of ``delta``, which is added as it is when None.
        dtype: that of the result.
    """
    columns = x.shape[-1]
    threads = _threads(x.device, min(_ROW_THREADS, max(32, power_of_two(divide_up(columns, 4)))))
    y = empty(x.shape, dtype, x.device)
    if x.size:
        _ADD_NORM(
            x,
            delta,
            post,
            weight,
            y,
            eps,
            grid=x.size // columns,
            elem=dtype,
            block=threads,
            threads=threads,
            columns=columns,
            posted=post is not None,
        )
    return y


class HeadWeights(NamedTuple):
    """What is applied to the heads of queries, keys and values besides the projections; None for nothing."""

    q_bias: Array | None = None
    k_bias: Array | None = None
    v_bias: Array | None = None
    q_norm: Array | None = None
    k_norm: Array | None = None


def append_heads(
    projected: tuple[Array, Array, Array],
    weights: HeadWeights,
    table: Array,
    cache: KeyValueCache,
    lengths: Array,
    neighbours: bool,
    eps: float,
) -> Array:
    """The rotated queries of new positions; their keys and values are written to the cache.

    Args:
        projected: queries, keys and values, float32: shape (batch, length, heads * features).
        weights: biases and norms.
        table: the cosine and sine of each angle, float32: shape (positions, turned / 2, 2).
        cache: its lengths are not used.
        lengths: shape (batch,), int32: the number of positions with the new ones.
        neighbours: whether a rotated pair lies side by side.
        eps: added to mean squares.

    Returns:
        Shape (batch, heads, length, features), in the dtype of the cache.
    """
    q, k, v = projected
    features = cache.keys.shape[3]
    batch, length, width = q.shape
    heads = width // features
    rows = batch * length * (heads + 2 * cache.keys.shape[1])
    threads = _threads(q.device, 32)
    block = _threads(q.device, _HEADS_THREADS)
    made = empty((batch, heads, length, features), cache.keys.dtype, q.device)
    if rows:
        _HEADS(
            q,
            k,
            v,
            *weights,
            table,
            lengths,
            made,
            cache.keys,
            cache.values,
            heads,
            rows,
            eps,
            grid=divide_up(rows, block // threads),
            elem=cache.keys.dtype,
            block=block,
            threads=threads,
            features=features,
            turned=2 * table.shape[1],
            neighbours=neighbours,
        )
    return made
