"""Attention composed of products and softmax: what its kernels compute, for derivatives of higher order."""

from __future__ import annotations

import math
from typing import Any

from ... import dtypes
from ... import namespace as ops
from ...array import Array
from ...array.creation import arange, zeros_like
from ...launch.variant import Plan
from ...transforms import vjp
from ..dropout import dropped
from .problem import Attention, Call
from .scores import Table, changed


def _places(call: Call) -> tuple[list[Array], Array]:
    """The batch, query and key of each score, and whether the query may attend to the key."""
    (batch, heads, length, _), keys, device = call.q.shape, call.k.shape[2], call.q.device
    options = call.options
    rows = arange(length, dtype="int32", device=device)[:, None]
    columns = arange(keys, dtype="int32", device=device)
    which = arange(batch, dtype="int32", device=device)[:, None, None, None]
    lengths: Any = length
    ends: Any = keys
    allowed = ops.less(columns, keys)
    if options.packed:
        starts_q, starts_k = call.starts
        assert starts_q is not None
        assert starts_k is not None
        of_q, of_k = (
            ops.subtract(ops.searchsorted(starts, places, side="right"), 1)
            for starts, places in ((starts_q, rows[:, 0]), (starts_k, columns))
        )
        of_q = ops.clip(of_q, 0, starts_q.size - 2)
        allowed = ops.logical_and(ops.equal(of_q[:, None], of_k), ops.less(rows, starts_q[-1]))
        lengths, ends = (ops.take(starts[1:] - starts[:-1], of_q)[:, None] for starts in (starts_q, starts_k))
        rows = rows - ops.take(starts_q, of_q)[:, None]
        columns = columns - ops.take(starts_k, ops.clip(of_k, 0, starts_k.size - 2))
        which = of_q[:, None].astype("int32")
    elif options.counted:
        assert call.starts[1] is not None
        ends = ops.clip(call.starts[1], 0, keys)[:, None, None, None]
        allowed = ops.less(columns, ends)
    at = rows + (ops.subtract(ends, lengths) if options.offset is None else options.offset)
    if options.left is not None:
        allowed = ops.logical_and(allowed, ops.greater_equal(columns, at - options.left))
    if options.right is not None:
        allowed = ops.logical_and(allowed, ops.less_equal(columns, at + options.right))
    head = arange(heads, dtype="int32", device=device)[:, None, None]
    return [which, head, rows, columns], allowed


def composed(call: Call, *arrays: Array) -> tuple[Array, Array]:
    """The result of a call for other arrays: q, k, v, the score's, of which the last are a bias and a mask, and tables.

    The second result has, for each query, the logarithm of the sum of the exponentials of its scores.
    """
    acc = dtypes.info(call.q.dtype).acc
    q, k, v = (one.astype(acc) for one in arrays[:3])
    (batch, heads, length, size), (_, key_heads, keys, _) = q.shape, k.shape
    places, allowed = _places(call)
    if call.options.counted:
        # What is beyond the numbers of keys may be NaN, which a weight of 0 does not hide.
        assert call.starts[1] is not None
        present = ops.less(places[3][:, None], call.starts[1][:, None, None, None])
        k, v = (ops.where(present, one, 0.0) for one in (k, v))
    grouped = (batch, key_heads, heads // key_heads)
    q = ops.reshape(q * call.options.scale, (*grouped, length, size))
    s = ops.reshape(ops.matmul(q, ops.swapaxes(k, -1, -2)[:, :, None]), (batch, heads, length, keys))
    tables = [Table(k, one) for k, one in enumerate(arrays[len(arrays) - len(call.tables) :])]
    rest = list(arrays[3 : len(arrays) - len(tables)])
    mask = rest.pop() if call.given[1] else None
    bias = rest.pop() if call.given[0] else None
    if call.options.packed:
        rest = [_taken(one, places[0]) for one in rest]
    s = changed(call.score, s, places, [*rest, *tables], bias, mask)
    s = ops.where(allowed, s, -math.inf)
    alive = ops.greater(ops.max(s, axis=-1, keepdims=True), -math.inf)
    s = ops.where(alive, s, 0.0)
    lse = ops.where(alive[..., 0], ops.logsumexp(s, axis=-1), -math.inf)
    weights = ops.softmax(s, axis=-1)
    if call.draw is not None:
        weights = dropped(weights, call.options.dropout, call.draw)
    found = ops.matmul(ops.reshape(weights, (*grouped, length, keys)), v[:, :, None])
    found = ops.reshape(found, (batch, heads, length, v.shape[-1]))
    return ops.where(alive, found, 0.0).astype(call.q.dtype), lse


def _taken(x: Array, which: Array) -> Array:
    """An array of (sequences, heads, 1, 1) for the rows of packed sequences: (heads, rows, 1)."""
    wide = ops.reshape(x, (1,) * (4 - x.ndim) + x.shape)
    if wide.shape[0] == 1:
        return wide[0]
    return ops.swapaxes(ops.take(wide[..., 0, 0], which[:, 0], axis=0), 0, 1)[..., None]


def attention(problem: Attention) -> Plan:
    """What computes the result of a call, and the statistics of its rows, as the kernels do."""

    def compute(call: Call) -> list[Array]:
        made, lse = composed(call, *call[:3], *call.operands, *call.tables)
        return [made, ops.stack([lse, zeros_like(lse)], axis=-1)]

    return compute


def gradient(problem: Attention) -> Plan:
    """What computes the gradients of a call from the cotangent of its result."""
    wanted = (
        [3 + problem.of_array] if problem.of_array is not None else [i for i in range(3) if problem.wanted[i]]
    )

    def compute(call: Call, d: Array, *statistics: Array) -> list[Array]:
        arrays = [*call[:3], *call.operands]

        def of_wanted(*own: Array) -> Array:
            given = dict(zip(wanted, own, strict=True))
            return composed(call, *(given.get(i, one) for i, one in enumerate(arrays)), *call.tables)[0]

        _, pull = vjp(of_wanted, *(arrays[i] for i in wanted))
        return list(pull(d))

    return compute
