"""The launches of attention's backward pass."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from ... import dtypes
from ... import namespace as ops
from ...array import Array
from ...array.creation import empty
from ...array.layout import Layout, fresh_layout, memory_order
from ...device.interface import Prepared
from ...elementwise.fuse import fuse
from ...kernel import Kernel
from ...kernel.plan import new, on, zeroed
from ...kernel.sizes import divide_up
from ...shape.known_views import items
from .call import Call
from .geometry import MmaTile, tile_for
from .plan import choose, dense, fed, launch, like
from .scores import curved
from .staging import staging
from .tma import TmaTile, whole_lines
from .variables import Sum

_ROUNDED = Kernel("nn/attention/backward_rounded.cu", name="attention_backward_rounded", block=256)


@fuse(static=("acc",))
def _dot(o: Any, d: Any, acc: dtypes.DType) -> Any:
    return ops.sum(o.astype(acc) * d.astype(acc), axis=-1)


def launch_backward(
    call: Call, made: Array, statistics: Array, cotangent: Array, of_lse: Array | None, wanted: Sequence[bool]
) -> list[Array | None]:
    """The gradients of q, k, v and the score's arrays, or None for those that are not needed.

    Args:
        cotangent, of_lse: of the result and of the logarithms of its rows' sums of exponentials.
    """
    q, k, v = call.q, call.k, call.v
    d = dense(cotangent)
    delta: Array = _dot(made, d, statistics.dtype)
    # A score moves its row's logarithm as it moves the row's mean of dot products, by its weight.
    given = (d, statistics, delta if of_lse is None else ops.subtract(delta, of_lse))
    blank, rows = call.options.packed, (q, k, v, d)
    dq = dk = dv = None
    whole = fed(call, "backward", rows) if all(wanted[:3]) and not call.options.deterministic else None
    if whole is not None:
        whole = whole._replace(by_turns=_takes_turns(call, whole))
        dq, dk, dv = _together(call, given, whole)
        wanted = (False, False, False, *wanted[3:])
    if wanted[0]:
        dq = like(q, call.head.size, blank)
        launch(call, "backward_queries", given, (dq,), choose(call, "backward_queries", rows))
    if wanted[1] or wanted[2]:
        tile = choose(call, "backward_keys", rows)
        dk = like(k, call.head.size, blank) if wanted[1] else None
        dv = like(v, call.head.value, blank) if wanted[2] else None
        if dk is not None and dv is not None and isinstance(tile, MmaTile | TmaTile) and tile.apart:
            launch(call, "backward_keys", given, (dk, None), tile)
            launch(call, "backward_keys", given, (None, dv), tile)
        else:
            launch(call, "backward_keys", given, (dk, dv), tile)
    others = [_summed(call, i, given) if want else None for i, want in enumerate(wanted[3:])]
    return [dq, dk, dv, *others]


def _takes_turns(call: Call, tile: TmaTile) -> bool:
    """Whether warpgroups that multiply by turns were measured to be faster."""
    of = call.options.program
    if tile.by_turns or of is None:
        return tile.by_turns
    return curved(of) or (tile.ahead > 0 and staging(call).tiled is not None)


def _together(call: Call, given: Sequence[Array], tile: TmaTile) -> tuple[Array, Array, Array]:
    """The gradients of q, k and v by one kernel, in which blocks add to those of q."""
    q = call.q
    dq, dk, dv = _beside(q, call.k, call.v)
    layout, rounded = _rounding(dq._planned(), tile)
    with on(q.device):
        sums = zeroed(layout)
    launch(call, "backward", given, (dk, dv, sums), tile)
    with on(q.device):
        rounded(dq._operand, sums._operand)
    return dq, dk, dv


@lru_cache(maxsize=1024)
def _rounding(of: Layout, tile: TmaTile) -> tuple[Layout, Prepared]:
    """The layout of the sums from which gradients of queries are rounded, and the launch that rounds them."""
    batch, heads, length, features = of.shape
    lines = whole_lines(features)
    shape = (batch, heads, divide_up(length, tile.rows), tile.rows, lines)
    count = math.prod(shape) // 8
    steps = [step // of.dtype.itemsize for step in of.strides[:3]]
    bound = _ROUNDED.bind(of.device, elem=of.dtype, tile_m=tile.rows, lines=lines)
    tail = (count, *steps, heads, length, features)
    launch = bound.function.prepare((divide_up(count, 256), 1, 1), bound.block, 0, tail)
    return fresh_layout(of.device, dtypes.float32, shape), launch


def _beside(q: Array, k: Array, v: Array) -> list[Array]:
    """New arrays for their gradients: of one memory if they are parts of one, to be joined without copies."""
    layout, step = q._planned(), 0
    if (
        not layout.on_host
        and q._storage is k._storage is v._storage
        and layout is k._planned() is v._planned()
    ):
        step = k._operand - q._operand
    whole = _joined(layout, step) if step and v._operand - k._operand == step else None
    if whole is None:
        return [like(one, one.shape[-1], False) for one in (q, k, v)]
    with on(q.device):
        (made,) = new((whole,))
    return items(made)


@lru_cache(maxsize=1024)
def _joined(one: Layout, step: int) -> Layout | None:
    """The layout of three arrays that lie ``step`` bytes apart, as one; None if they leave gaps."""
    shape = (3, *one.shape)
    order = memory_order(shape, (step, *one.strides), one.dtype.itemsize)
    return None if order is None else fresh_layout(one.device, one.dtype, shape, order)


def _summed(call: Call, which: int, given: Sequence[Array]) -> Array:
    """The gradient of one of the score's arrays."""
    one, q = call.operands[which], call.q
    tile = tile_for(call.head, q.dtype, q.device, True)
    assert tile is not None
    whole = (*q.shape[:3], call.k.shape[2])
    shape = (1,) * (4 - one.ndim) + one.shape
    kept = tuple(n == m for n, m in zip(shape, whole, strict=True))
    parts = [
        n if keep else 1 if axis < 2 else divide_up(n, (tile.rows, tile.keys)[axis - 2])
        for axis, (n, keep) in enumerate(zip(whole, kept, strict=True))
    ]
    sums = empty(tuple(parts), dtypes.info(q.dtype).acc, q.device)
    launch(call, "backward_arrays", given, (sums,), tile, Sum(which, kept))  # type: ignore[arg-type]
    axes = tuple(axis for axis, keep in enumerate(kept) if not keep)
    total = ops.sum(sums, axis=axes, keepdims=True) if axes else sums
    return ops.reshape(total, one.shape).astype(one.dtype)
