"""Fused kernels of a decoder's step: residual add and RMS norm, rotary heads and cache, attention, and gates.

On GPUs they let the next kernel begin at once, and quantise activations to 8 bits for products that read them so.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from .. import dtypes
from ..array import Array
from ..array.creation import empty
from ..array.deferred import about_to_write
from ..device import Device
from ..kernel import Kernel
from ..kernel.plan import compiled, launch, on, serial
from ..kernel.sizes import divide_up, power_of_two
from ..nn import KeyValueCache
from ..quant.kinds import Kind
from ..quant.planes import Planes, planes_like

_ADD_NORM = Kernel("generate/add_norm.cu", name="add_norm")
_HEADS = Kernel("generate/heads.cu", name="heads")
_GATED = Kernel("generate/gated.cu", name="gated")
_ATTEND = Kernel("generate/attend.cu", name="attend")
#: The most threads of a block that norms a row.
_ROW_THREADS = 1024
#: Threads of a block of rotary heads, of which a warp has one.
_HEADS_THREADS = 128
#: Threads of a block of gates.
_GATED_THREADS = 128
#: Blocks of a cluster, which share the positions of a head.
_PARTS = 8
#: The most positions of a cache for which one cluster per head keeps a GPU busy.
_MOST_POSITIONS = 8192
#: Clusters that share the queries of a head of keys: two end sooner on an H200.
_SHARES = 2
#: Features of a head for which attention is compiled: eight a lane.
_HEAD_FEATURES = (32, 64, 128, 256)
#: The most features of all queries of a head of keys, whose sums are in a warp's registers.
_GROUP_FEATURES = 1024
#: Warps of a block, for up to half of those features and for more.
_ATTEND_WARPS = (8, 4)
#: Elements per access.
_PACK = 4
#: Elements per access where they are rounded to 8 bits.
_ROUNDED = 8


def add_norm(
    x: Array, delta: Array | None, weight: Array, eps: float, post: Array | None, kind: Kind | None = None
) -> Any:
    """Add ``delta``, normalised if there is ``post``, to the stream ``x`` in place; return the normalised stream.

    Args:
        x: shape (..., features), float32, in C order.
        delta: as many numbers as ``x``, float32, in C order; nothing is added when None.
        weight: shape (features,), float32.
        eps: added to mean squares.
        post: the weight of the norm of ``delta``, which is added as it is when None.
        kind: the quantisation of the next weights, for a result as :class:`Planes`; an array like ``x`` when None.
    """
    about_to_write(x)
    device, columns = x.device, x.shape[-1]
    width = _ROUNDED if kind is not None else _PACK if columns % _PACK == 0 else 1
    most = max(32, power_of_two(divide_up(columns, width)))
    threads = 1 if serial(device) else min(_ROW_THREADS, most)
    rows = x.size // columns
    with on(device):
        y, outputs = _result(x.shape, kind, device)
        function = compiled(
            _ADD_NORM,
            device,
            elem=dtypes.float32,
            block=threads,
            threads=threads,
            columns=columns,
            width=width,
            posted=post is not None,
            planes=kind is not None,
            kind=None if kind is None else kind.header,
        )
        given = (x, delta, post, weight)
        if rows:
            launch(device, function, rows, threads, (*map(_data, given), *outputs, eps))
    x._bump("add_norm")
    return y


def _data(x: Array | None) -> Any:
    return None if x is None else x._data


def _result(shape: tuple[int, ...], kind: Kind | None, device: Device) -> tuple[Any, tuple[Any, ...]]:
    """A new result, of 8 bits if there is a ``kind`` of quantisation, and what kernels take of it."""
    if kind is None:
        y = empty(shape, dtypes.float32, device)
        return y, (y._data, None, None)
    planes = planes_like(math.prod(shape[:-1]), shape[-1], kind, device)
    return planes, (None, *planes[:2])


class HeadWeights(NamedTuple):
    """Biases and RMS norms of the heads of queries, keys and values; None for none."""

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
        projected: queries, keys and values, float32: shape (batch, length, heads * features), of rows that are equally
            far apart.
        weights: biases and norms.
        table: the cosine and sine of each angle, float32: shape (positions, rotary features / 2, 2).
        cache: its lengths are not used.
        lengths: shape (batch,), int32: the number of positions with the new ones.
        neighbours: whether a rotated pair lies side by side.
        eps: added to mean squares.

    Returns:
        Shape (batch, heads, length, features), in the dtype of the cache.
    """
    device, features = cache.keys.device, cache.keys.shape[3]
    (batch, length, width), key_heads = projected[0].shape, cache.keys.shape[1]
    heads = width // features
    rows = batch * length * (heads + 2 * key_heads)
    threads, block = (1, 1) if serial(device) else (32, _HEADS_THREADS)
    queries = empty((batch, heads, length, features), cache.keys.dtype, device)
    function = compiled(
        _HEADS,
        device,
        elem=cache.keys.dtype,
        block=block,
        threads=threads,
        features=features,
        rotary=2 * table.shape[1],
        neighbours=neighbours,
    )
    arrays = (*projected, *weights, table, lengths, queries, cache.keys, cache.values)
    steps = (one._data.strides[1] // one.itemsize for one in projected)
    numbers = (*steps, heads, key_heads, length, cache.capacity, rows, eps)
    about_to_write(cache.keys, cache.values)
    if rows:
        launch(device, function, divide_up(rows, block // threads), block, (*map(_data, arrays), *numbers))
        for one in (cache.keys, cache.values):
            one._bump("append_heads")
    return queries


def has_clusters(device: Device) -> bool:
    """Whether blocks read each other's shared memory."""
    return not serial(device) and device.properties.compute_capability >= (9, 0)


def attends(cache: KeyValueCache, heads: int) -> bool:
    """Whether :func:`attend` takes queries of so many heads."""
    _, key_heads, positions, features = cache.keys.shape
    grouped = heads // key_heads * features
    fits = features in _HEAD_FEATURES and grouped <= min(_GROUP_FEATURES, 8 * features)
    narrow_or_float = cache.keys.dtype.itemsize <= dtypes.float32.itemsize
    return has_clusters(cache.keys.device) and fits and positions <= _MOST_POSITIONS and narrow_or_float


class Scores(NamedTuple):
    """How scores follow from the products of queries and keys.

    Attributes:
        scale: what products are multiplied by.
        cap: what scores are bounded by, as ``cap * tanh(score / cap)``; None for no bound.
        window: the number of positions that a query attends to, its own included; None for all.
    """

    scale: float
    cap: float | None = None
    window: int | None = None


def attend(
    projected: tuple[Array, Array, Array],
    weights: HeadWeights,
    table: Array,
    cache: KeyValueCache,
    lengths: Array,
    neighbours: bool,
    eps: float,
    scores: Scores,
    kind: Kind | None = None,
) -> Array | Planes:
    """:func:`append_heads` and attention for one new position of each sequence, in one launch.

    Args:
        projected, weights, table, cache, lengths, neighbours, eps: as in :func:`append_heads`, of length 1; see
            :func:`attends`.
        scores: how scores follow from products.
        kind: the quantisation of the next weights, for a result as :class:`Planes`; float32 when None.

    Returns:
        Shape (batch, heads * features).
    """
    device, features = cache.keys.device, cache.keys.shape[3]
    (batch, _, width), key_heads = projected[0].shape, cache.keys.shape[1]
    group = width // features // key_heads
    many = 2 * group * features > _GROUP_FEATURES
    warps, shares = _ATTEND_WARPS[many], 1 if many or group % _SHARES else _SHARES
    function = compiled(
        _ATTEND,
        device,
        elem=cache.keys.dtype,
        half=dtypes.info(cache.keys.dtype).narrow,
        features=features,
        rotary=2 * table.shape[1],
        neighbours=neighbours,
        group=group // shares,
        shares=shares,
        block=32 * warps,
        warps=warps,
        parts=_PARTS,
        capped=scores.cap is not None,
        planes=kind is not None,
        kind=None if kind is None else kind.header,
    )
    with on(device):
        y, outputs = _result((batch, width), kind, device)
        arrays = (*map(_data, (*projected, *weights, table, lengths, cache.keys, cache.values)), *outputs)
        steps = (one._data.strides[0] // one.itemsize for one in projected)
        window = cache.capacity if scores.window is None else scores.window
        numbers = (*steps, key_heads, cache.capacity, window, scores.scale, scores.cap or 1.0, eps)
        about_to_write(cache.keys, cache.values)
        launch(device, function, batch * key_heads * shares * _PARTS, 32 * warps, (*arrays, *numbers))
    for one in (cache.keys, cache.values):
        one._bump("attend")
    return y


def gated_planes(gate: Array, up: Array, activation: str, kind: Kind) -> Planes:
    """``silu(gate) * up`` or ``gelu_tanh(gate) * up`` in 8 bits.

    Args:
        gate, up: shape (..., columns), float32, of rows that are equally far apart; columns are a multiple of 32.
        activation: ``"silu"`` or ``"gelu_tanh"``.
        kind: the quantisation of the next weights.
    """
    device, columns = gate.device, gate.shape[-1]
    packs = gate.size // _ROUNDED
    function = compiled(_GATED, device, block=_GATED_THREADS, gate=activation, kind=kind.header)
    step = gate._data.strides[-2] // gate.itemsize
    with on(device):
        planes = planes_like(gate.size // columns, columns, kind, device)
        if packs:
            values = (gate._data, up._data, *planes[:2], step, columns, packs)
            launch(device, function, divide_up(packs, _GATED_THREADS), _GATED_THREADS, values)
    return planes
