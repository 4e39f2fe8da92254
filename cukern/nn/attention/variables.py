"""The template variables of attention's kernels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from ... import dtypes
from ...elementwise.print_cxx import compute_type
from .call import Call
from .cheaper import Given, Unit
from .conditions import axes_of_blocks
from .geometry import FewTile, MmaTile, Tile
from .scores import PLACES, Lookup, Printed, by_place, looked_up, printed, reached
from .staging import Staging, staging, unstaged
from .tma import OF_KEYS, TmaTile

AnyTile = Tile | FewTile | MmaTile | TmaTile
#: The largest factor of a score in a tanh whose arguments are expected to be small, and the scales of such scores.
_NEAR, _SCALES = 1 / 8, (2**-12, 16)


def _are_small(near: float, scale: float) -> bool:
    """Whether most scores times a factor are expected to be small."""
    return 0 < abs(near) <= _NEAR and _SCALES[0] <= scale <= _SCALES[1]


class Sum(NamedTuple):
    """Of which of the score's arrays the gradient is summed, and the axes of the scores that it has."""

    which: int
    kept: tuple[bool, bool, bool, bool]


def heads_apart(tile: AnyTile, summed: Sum | None) -> bool:
    """Whether each head of queries is for itself, though heads share one of keys."""
    return isinstance(tile, TmaTile) or summed is not None


def variables_of(call: Call, kind: str, tile: AnyTile, wide: bool, summed: Sum | None) -> dict[str, Any]:
    """The template variables of a kernel."""
    options, q = call.options, call.q
    staged = Staging(options.program)
    if isinstance(tile, TmaTile):
        staged = staging(call) if tile.ahead else unstaged(call)
    grouped, apart = q.shape[1] // call.k.shape[1], heads_apart(tile, summed)
    of_batch, of_head, of_query, of_key = axes_of_blocks(call)
    variables = {
        "elem": q.dtype,
        "half": dtypes.info(q.dtype).narrow,
        "index": "long long" if wide else "int",
        "head_size": call.head.size,
        "value_size": call.head.value,
        "group": 1 if apart else grouped,
        "sharing": grouped if apart else 1,
        "fed": isinstance(tile, TmaTile),
        "by_fragments": isinstance(tile, MmaTile),
        "summing": summed is not None,
        "listed": call.blocks is not None,
        "lists_by_batch": of_batch,
        "lists_by_head": of_head,
        "mask_by_query": of_query,
        "mask_by_key": of_key,
        "list_sharing": grouped if apart and kind in OF_KEYS else 1,
        "tile_m": tile.rows,
        "tile_n": tile.keys,
        "bounded_left": options.left is not None,
        "bounded_right": options.right is not None,
        "packed": options.packed,
        "counted": options.counted,
        "at_end": options.offset is None,
        "dropping": bool(options.dropout),
        "by_fours": bool(options.dropout) and not options.packed and call.k.shape[2] % 4 == 0,
        "plain": staged.score is None and options.scale > 0,
    }
    variables |= _of_score(call, kind, staged, isinstance(tile, TmaTile), summed)
    if summed is not None:
        names = ("keep_batch", "keep_head", "keep_rows", "keep_keys")
        variables |= dict(zip(names, summed.kept, strict=True))
    return variables | _of_tile(kind, tile)


def _of_tile(kind: str, tile: AnyTile) -> dict[str, Any]:
    if isinstance(tile, TmaTile):
        workers = tile.workers(kind)
        return {
            "block": 128 * (workers + 1),
            "workers": workers,
            "stages": tile.stages,
            "by_turns": tile.by_turns,
            "held": tile.held,
            "ahead_size": tile.ahead,
            "ahead_stages": tile.ahead_stages,
        }
    if isinstance(tile, MmaTile):
        along = tile.keys if kind == "backward_keys" else tile.rows
        return {"block": along // 16 * 32, "fixed": tile.fixed}
    if isinstance(tile, FewTile):
        return {"block": tile.threads, "lanes": tile.lanes}
    return {"block": tile.threads, "lanes_x": tile.lanes_x, "lanes_y": tile.lanes_y}


def _of_score(
    call: Call, kind: str, staged: Staging, by_warpgroups: bool, summed: Sum | None
) -> dict[str, Any]:
    """The text of the function of a score, and what it reads."""
    options, q, starts = call.options, call.q, call.starts[0]
    sizes = (q.shape[0] if starts is None else starts.size, *q.shape[1:3], call.k.shape[2])
    lines, read = Printed([], ["a0", "1"], True), frozenset[int]()
    if staged.score is not None:
        read = reached(options.lookups, staged.score.outputs)
        wanted = () if summed is None else (PLACES + summed.which,)
        given = None
        if dtypes.info(q.dtype).narrow:
            uniform = [PLACES + i for i, one in enumerate(call.operands) if not by_place(one.shape)]
            forward = kind == "forward"
            given = Given(
                sizes,
                uniform,
                near=q.dtype == dtypes.bfloat16,
                shifted=forward and by_warpgroups and options.scale > 0,
                gained=not forward and by_warpgroups,
                ahead=_inputs_of_windows(staged),
            )
        lines = printed(staged.score, options.lookups, sizes, None if kind == "forward" else wanted, given)
    elif options.scale > 0:
        lines = lines._replace(unit=Unit(scaled=True))
    masked = call.blocks is not None and options.condition is None
    operands = [
        {
            "k": PLACES + i,
            "number": i,
            "type": dtypes.info(one.dtype).cxx,
            "compute": compute_type(one.dtype),
            "settled": by_warpgroups and not by_place(one.shape),
            "opened": masked and i == len(call.operands) - 1,
            "tiled": i == staged.tiled,
            "read": PLACES + i in read,
            "axes": [axis for axis, n in enumerate(one.shape, 4 - one.ndim) if n > 1],
        }
        for i, one in enumerate(call.operands)
    ]
    by_places = bool(call.tables) or any(by_place(one.shape) for one in call.operands)
    return {
        "operands": operands,
        "tables": [{"k": k, "type": dtypes.info(one.dtype).cxx} for k, one in enumerate(call.tables)],
        "reads_places": staged.reads if by_warpgroups else by_places,
        "windows": _windows(staged, options.lookups, sizes, lines.unit),
        "tiled": None if staged.tiled is None else f"x{PLACES + staged.tiled}",
        "body": lines.lines,
        "values": lines.values,
        "slope": lines.values[1] if lines.constant_slope else None,
        "finite_slope": lines.finite_slope,
        "gain": lines.unit.gain,
        "scaled": lines.unit.scaled,
        "prescaled": kind == "forward"
        and staged.tiled is not None
        and lines.unit.scaled
        and q.dtype == dtypes.bfloat16
        and _keeps_bits(options.scale),
        "limited": lines.unit.limited,
        "near": lines.unit.near if _are_small(lines.unit.near, options.scale) else 0,
    }


def _keeps_bits(scale: float) -> bool:
    """Whether multiplication by a scale is exact in bfloat16, for all but the smallest numbers."""
    digits, exponent = math.frexp(scale)
    return abs(digits) == 0.5 and -16 < exponent <= 1


def _inputs_of_windows(staged: Staging) -> range:
    """The inputs of a score that stand for what is made for each distance: the last ones."""
    end = len(staged.score.inputs) if staged.score else 0
    return range(end - len(staged.windows), end)


def _windows(staged: Staging, lookups: Sequence[Lookup], sizes: Sequence[int], unit: Unit) -> dict[str, Any]:
    """The text of what is made for each distance of a query and a key, and the inputs that have it."""
    lines, names = looked_up(lookups, staged.windows, sizes) if staged.windows else ([], [])
    inputs = list(_inputs_of_windows(staged))
    values = [f"{x} * inverse" if k in unit.divided else x for k, x in zip(inputs, names, strict=True)]
    return {"lines": lines, "values": values, "inputs": inputs}


__all__ = ["AnyTile", "Sum", "heads_apart", "variables_of"]
