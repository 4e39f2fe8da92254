"""The launches of attention's kernels."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any

from ... import dtypes
from ...array import Array
from ...array.creation import empty, full
from ...array.layout import Layout, fresh_layout
from ...device.interface import Prepared
from ...kernel import Kernel
from ...kernel.plan import new, on, raw, remember
from ...kernel.sizes import LARGEST_INDEX, divide_up
from ...kernel.strides import broadcast_steps
from .call import Call
from .combine import combine, steps_of
from .geometry import (
    FEW,
    FewTile,
    Head,
    MmaTile,
    few_tile_for,
    mma_tile_for,
    parts_for,
    residents,
    residents_of_few,
    tile_for,
)
from .masks import lists_for
from .staging import staging, unstaged
from .tma import (
    MAP_BYTES,
    OF_KEYS,
    TMA_TILES,
    Mapped,
    TmaTile,
    describable,
    order,
    tiles_of,
    tma_tile_for,
    whole_lines,
    work_of,
)
from .variables import AnyTile, Sum, heads_apart, variables_of

_KINDS = ("forward", "backward_keys", "backward_queries")
_KERNELS = {
    kind: Kernel(f"nn/attention/{kind}.cu", name=f"attention_{kind}") for kind in (*_KINDS, "backward_arrays")
}
_FEW_ROWS = {"forward": Kernel("nn/attention/forward_few.cu", name="attention_forward")}
_MMA = {kind: Kernel(f"nn/attention/{kind}_mma.cu", name=f"attention_{kind}") for kind in _KINDS}
_TMA = {kind: Kernel(f"nn/attention/{kind}_tma.cu", name=f"attention_{kind}") for kind in _KINDS}
_TMA["backward"] = Kernel("nn/attention/backward_keys_tma.cu", name="attention_backward")
#: From so many queries on there is enough to do for warpgroups.
_MANY = 64
#: From so many scores on kernels mask them and drop weights in less time than the composed form.
_MANY_SCORES = 2**22
#: The matrices that the kernels make.
_MADE = {
    "forward": ("o",),
    "backward": ("dk", "dv"),
    "backward_keys": ("dk", "dv"),
    "backward_queries": ("dq",),
    "backward_arrays": (),
}
_WORDS = 2**32


def like(x: Array, features: int, blank: bool) -> Array:
    """A new array of the shape of ``x`` but for the last axis, whose axes lie in memory in the order of those of x."""
    batch, heads, length, _ = x.shape
    strides = x._planned().strides
    order = (0, 2, 1, 3) if strides[1] < strides[2] else None
    layout = fresh_layout(x.device, x.dtype, (batch, heads, length, features), order)
    with on(x.device):
        if not blank:
            return new((layout,))[0]
        made = Array._made(layout)
        raw(made._data)[...] = 0
    return made


def dense(x: Array) -> Array:
    """``x`` with contiguous features."""
    return x if x.shape[-1] == 1 or x._planned().strides[-1] == x.itemsize else x.contiguous()


def _vectors(arrays: Sequence[Array]) -> bool:
    """Whether every row consists of aligned packs of 16 bytes."""
    return all(
        one._planned().aligned
        and one.shape[-1] * one.dtype.itemsize % 16 == 0
        and all(step % 16 == 0 for step in one._planned().strides[:-1])
        for one in arrays
    )


_chosen: dict[Any, Any] = {}
_UNKNOWN: Any = object()


def _bounded(call: Call) -> bool:
    """Whether a query attends to some of the keys alone."""
    return call.options.left is not None or call.options.right is not None


def _situation(call: Call, kind: str, rows: Sequence[Array]) -> tuple[Any, ...]:
    """All on which the tile of a launch depends; ``rows`` begin with q, k and v."""
    starts = call.starts[0]
    sequences = None if starts is None else starts.size - 1
    return (
        kind,
        call.options.packed,
        _bounded(call),
        staging(call)[1:],
        sequences,
        *[one._planned() for one in rows],
    )


def fed(call: Call, kind: str, rows: Sequence[Array]) -> TmaTile | None:
    """The tile of a launch that tensor maps feed; None if they cannot, or if there is too little to do for it.

    Args:
        kind: the kernel.
        rows: the matrices that it reads and writes.
    """
    key = ("fed", *_situation(call, kind, rows))
    found: TmaTile | None = _chosen.get(key, _UNKNOWN)
    return remember(_chosen, key, _feedable(call, kind, rows)) if found is _UNKNOWN else found


def _feedable(call: Call, kind: str, rows: Sequence[Array]) -> TmaTile | None:
    q = call.q
    packed, starts = call.options.packed, call.starts[0]
    sequences = 1 if starts is None else starts.size - 1
    if not dtypes.info(q.dtype).narrow or q.shape[2] < _MANY * sequences or (packed and kind == "backward"):
        return None
    if not _vectors(rows) or not describable([x._planned() for x in rows]):
        return None
    tile = tma_tile_for(call.head, q.device, kind, q.shape[2], _bounded(call))
    if tile is None:
        return None
    found = staging(call)
    if found.windows or found.tiled is not None:
        whole = _narrower(tile, kind) if found.reads else tile
        whole_tile = whole.bringing(len(found.windows), found.tiled is not None, call.head, kind, q.device)
        if whole_tile is not None:
            return whole_tile
    return _narrower(tile, kind) if unstaged(call).reads else tile


def _narrower(tile: TmaTile, kind: str) -> TmaTile:
    """The tile of scores that read memory by place: addresses leave too few registers to three warpgroups."""
    few = kind == "forward" and tile.workers(kind) > 2
    return TMA_TILES[kind][128]._replace(blocks=tile.blocks) if few else tile


def choose(call: Call, kind: str, rows: Sequence[Array]) -> AnyTile:
    """The tile of a launch on q, k, v and a fourth matrix; see :func:`fed`."""
    key = _situation(call, kind, rows)
    found: AnyTile = _chosen.get(key) or remember(_chosen, key, _choice(call, kind, rows))
    return found


def _choice(call: Call, kind: str, rows: Sequence[Array]) -> AnyTile:
    q = call.q
    few = kind == "forward" and call.rows <= FEW
    packs = _vectors(rows)
    if dtypes.info(q.dtype).narrow and packs:
        made = mma_tile_for(call.head, q.device, "few" if few else kind)
        best = fed(call, kind, rows)
        # Where few blocks have all queries, more of them share the keys: those that tensor maps feed do not.
        if best is not None and (kind != "forward" or made is None or _parts(call, made) == 1):
            return best
        if made is not None:
            return made
    direct = few_tile_for(call.head, call.rows, q.dtype, q.device) if few and packs else None
    if direct is not None:
        return direct
    tile = tile_for(call.head, q.dtype, q.device, kind != "forward", few)
    if tile is None:
        raise ValueError(
            f"attention: {q.device.properties.name} has too little shared memory for heads of {max(call.head)} features"
        )
    return tile


def can_run(q: Array, v: Array) -> bool:
    """Whether a device can hold the tiles of these heads."""
    head = Head(q.shape[-1], v.shape[-1])
    return 0 < min(head) <= max(head) <= 256 and tile_for(head, q.dtype, q.device, True) is not None


def quickest(q: Array, k: Array, v: Array, causal: bool, more: bool) -> bool:
    """Whether a kernel was measured to be faster than products and softmax of these matrices, forward and backward.

    Args:
        q: shape (..., L, E).
        k: shape (..., S, E), of the dtype of q.
        v: shape (..., S, V), likewise.
        causal: whether half of the scores count.
        more: whether there is a mask, or dropout.
    """
    if not dtypes.info(q.dtype).narrow or not 3 <= q.ndim == k.ndim == v.ndim or not q.size * k.size * v.size:
        return False
    head = Head(q.shape[-1], v.shape[-1])
    if q.shape[:-2] != k.shape[:-2] or k.shape[:-2] != v.shape[:-2]:
        return False
    if mma_tile_for(head, q.device, "forward") is None or not _vectors((q, k, v)):
        return False
    # The composed form makes all scores; without warpgroups it makes them faster, and masks and drops them too.
    if causal and not more:
        return True
    few = more and not causal and math.prod(q.shape[:-1]) * k.shape[-2] < _MANY_SCORES
    by_warpgroups = tma_tile_for(head, q.device, "backward_keys", q.shape[-2], causal) is not None
    return by_warpgroups and q.shape[-2] >= _MANY and not few


def _shared(call: Call, tile: AnyTile, kind: str) -> int:
    """Bytes of shared memory of a block."""
    if isinstance(tile, TmaTile):
        return tile.shared(call.head, kind)
    if isinstance(tile, MmaTile):
        return tile.shared(call.head, kind)
    if isinstance(tile, FewTile):
        return tile.shared(call.head, call.q.dtype)
    return tile.shared(call.head, call.q.dtype, kind != "forward")


_prepared: dict[Any, Prepared | Mapped] = {}


def launch(
    call: Call,
    kind: str,
    given: Sequence[Array],
    made: Sequence[Array | None],
    tile: AnyTile,
    summed: Sum | None = None,
    parts: int = 1,
) -> None:
    """Launch a kernel on the call's arrays, others that it reads, and those that it writes.

    Args:
        given: of the backward kernels the result's cotangent, then the statistics.
        made: of the forward kernel the result, of the others gradients, or None for one that is not needed.
        summed: what the kernel of the arrays' gradients makes.
        parts: of the keys, of which the forward kernel makes a result each.
    """
    q = call.q
    device = q.device
    live = None if call.draw is None else call.draw.live
    lists = () if call.blocks is None else lists_for(call, kind, tile)
    arrays = [q, call.k, call.v, *call.operands, *call.tables, *call.starts, live, *lists, *given, *made]
    layouts = tuple(None if one is None else one._planned() for one in arrays)
    key = (kind, tile, summed, parts, layouts, call.options, None if call.draw is None else call.draw.key)
    launch = _prepared.get(key)
    if launch is None:
        matrices = {"q": q, "k": call.k, "v": call.v}
        if given:
            matrices["o"] = given[0]
        matrices |= {name: one for name, one in zip(_MADE[kind], made, strict=False) if one is not None}
        launch = remember(_prepared, key, _prepare(call, kind, matrices, tile, layouts, summed, parts))
    null = device.backend.operand(None)
    values = [null if one is None else one._operand for one in arrays]
    with on(device):
        at = call.draw.at if call.draw else 0
        if isinstance(launch, Mapped):
            launch(arrays, *values, at)
        else:
            launch(*values, at)


def _prepare(
    call: Call,
    kind: str,
    matrices: dict[str, Array],
    tile: AnyTile,
    layouts: Sequence[Layout | None],
    summed: Sum | None,
    parts: int,
) -> Prepared | Mapped:
    q, k, options = call.q, call.k, call.options
    device = q.device
    (batch, heads, length, _), (_, key_heads, keys, _) = q.shape, k.shape
    shape = (batch, heads, length, keys)
    if options.packed:
        assert call.starts[0] is not None
        batch, shape = 1, (call.starts[0].size - 1, heads, 1, 1)
    of_keys = kind in OF_KEYS
    size, extent = (tile.keys, keys) if of_keys else (tile.rows, length * heads // key_heads)
    if isinstance(tile, TmaTile) and not of_keys:
        extent, key_heads = length, heads
    tiles = divide_up(extent, size) + (shape[0] if options.packed else 0)
    steps = [broadcast_steps(layout, shape) for layout in layouts[3 : 3 + len(call.operands)] if layout]
    spans = [sum(abs(s) * n for s, n in zip(one, shape, strict=True)) for one in steps]
    spans += [
        sum(abs(s) // x.itemsize * n for s, n in zip(x._planned().strides, x.shape, strict=True))
        for x in matrices.values()
    ]
    spans += [one.size for one in call.tables]
    if kind == "backward":  # its sums for the gradient of q are of whole tiles and lines
        spans.append(batch * heads * divide_up(length, tile.rows) * tile.rows * whole_lines(call.head.size))
    wide = max(*spans, batch * heads * length) > LARGEST_INDEX - 2**20
    variables = variables_of(call, kind, tile, wide, summed)
    variables |= {"split": parts > 1, "makes_k": "dk" in matrices, "makes_v": "dv" in matrices}
    variables["makes_q"] = kind == "backward"
    if summed is not None:
        tiles = divide_up(keys, tile.keys)
        blocks = tiles * divide_up(length, tile.rows)
        blocks *= (batch if summed.kept[0] else 1) * (heads if summed.kept[1] else 1)
    else:
        blocks = tiles * key_heads * batch
    tail: tuple[Any, ...] = _tail(call, matrices, steps, tiles, wide, heads_apart(tile, summed))
    threads = variables["block"]
    with on(device):
        if isinstance(tile, TmaTile):
            function = _TMA[kind].bind(device, **variables).function
            sharing, along = heads // k.shape[1], length if of_keys else keys
            grid = min(blocks, tile.blocks), 1, 1
            work = work_of(call, tile, of_keys, tiles)
            tail += (order(call.head, batch * key_heads, 1 if of_keys else sharing, along, work, grid[0]),)
            sizes = {0: tile.rows, 1: tile.keys, 2: tile.keys}
            if "o" in matrices and kind != "forward":
                sizes[6 + len(call.operands) + len(call.tables) + 2 * (call.blocks is not None)] = tile.rows
            if tile.ahead and (tiled := staging(call).tiled) is not None:
                sizes[3 + tiled] = tile.rows
            maps = {i: tiles_of(one, sizes[i]) for i, one in enumerate(layouts) if one and i in sizes}
            shared, structs = _shared(call, tile, kind), [MAP_BYTES] * len(maps)
            return Mapped(function.prepare(grid, (threads, 1, 1), shared, tail, structs), device, maps)
        kernels = _MMA if isinstance(tile, MmaTile) else _FEW_ROWS if isinstance(tile, FewTile) else _KERNELS
        function = kernels[kind].bind(device, **variables).function
        return function.prepare((blocks, parts, 1), (threads, 1, 1), _shared(call, tile, kind), tail)


def _tail(
    call: Call,
    matrices: dict[str, Array],
    steps: Sequence[tuple[int, ...]],
    tiles: int,
    wide: bool,
    apart: bool,
) -> tuple[bytes, bytes]:
    """The kernel's structs: sizes, and the strides of the score's arrays."""
    options, code = call.options, "q" if wide else "i"
    strides = [
        step
        for name in ("q", "k", "v", "o", "dq", "dk", "dv")
        for step in (steps_of(matrices[name]) if name in matrices else (0, 0, 0))
    ]
    p = options.dropout
    threshold = min(round(p * _WORDS), _WORDS - 1)
    starts = call.starts[0]
    sizes = struct.pack(
        f"21{code}2d8i3I0q",
        *strides,
        options.scale,
        1 / (1 - p),
        (call.q if apart else call.k).shape[1],
        call.q.shape[2],
        call.k.shape[2],
        tiles,
        call.q.shape[0] if starts is None else starts.size - 1,
        options.offset or 0,
        options.left or 0,
        options.right or 0,
        threshold,
        *(call.draw.key if call.draw else (0, 0)),
    )
    through = [step for one in steps for step in one] or [0] * 4
    return sizes, struct.pack(f"{len(through)}{code}", *through)


def launch_forward(call: Call) -> tuple[Array, Array]:
    """The result, and for each query the logarithm of the sum of the exponentials of its scores, as two terms."""
    q, device, acc = call.q, call.q.device, dtypes.info(call.q.dtype).acc
    made = like(q, call.head.value, call.options.packed)
    # No block has the rows that belong to no packed sequence.
    shape = (*q.shape[:3], 2)
    statistics = full(shape, -math.inf, acc, device) if call.options.packed else empty(shape, acc, device)
    tile = choose(call, "forward", (q, call.k, call.v, made))
    parts = _parts(call, tile)
    if parts == 1:
        launch(call, "forward", (), (made, statistics), tile)
        return made, statistics
    shape = (parts * q.shape[0], *q.shape[1:3])
    of_parts, of_each = empty((*shape, call.head.value), acc, device), empty((*shape, 2), acc, device)
    launch(call, "forward", (), (of_parts, of_each), tile, parts=parts)
    combine(parts, of_parts, of_each, made, statistics)
    return made, statistics


def _parts(call: Call, tile: AnyTile) -> int:
    """How many blocks share the keys of a head: one if tensor maps feed it, of packed sequences, and of many rows."""
    if isinstance(tile, TmaTile) or call.options.packed:
        return 1
    if call.rows > tile.rows and not isinstance(tile, FewTile):
        return 1
    device, blocks = call.q.device, call.q.shape[0] * call.k.shape[1] * divide_up(call.rows, tile.rows)
    tiles = divide_up(call.k.shape[2], tile.keys)
    if isinstance(tile, FewTile):
        resident = residents_of_few(tile, call.head, call.q.dtype, device)
        return parts_for(device, blocks, tiles, tile.keys * sum(call.head) * call.q.itemsize, resident)
    shared = _shared(call, tile, "forward")
    return parts_for(device, blocks, tiles, shared // 2, residents(device, shared))
