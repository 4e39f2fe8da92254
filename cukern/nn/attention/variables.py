"""The template variables of attention's kernels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ... import dtypes
from ...elementwise.print_cxx import compute_type
from .cheaper import Given, Unit
from .conditions import axes_of_blocks
from .problem import Attention
from .scores import PLACES, Lookup, Printed, by_place, looked_up, printed, reached
from .staging import Staging


def variables_of(
    asked: Attention, staged: Staging, fed: bool, by_fragments: bool, of_keys: bool
) -> dict[str, Any]:
    """The template variables of a kernel.

    Args:
        asked: the problem.
        staged: the score, and what is brought ahead of its tiles.
        fed: whether tensor maps bring tiles.
        by_fragments: whether warps multiply fragments in registers.
        of_keys: whether a block has a tile of keys, and goes along the rows.
    """
    options, q, summing = asked.options, asked.q, asked.of_array is not None
    apart = fed or summing  # each head of queries is for itself, though heads share one of keys
    of_batch, of_head, of_query, of_key = axes_of_blocks(asked)
    variables = {
        "elem": q.dtype,
        "half": asked.half,
        "head_size": asked.head.size,
        "value_size": asked.head.value,
        "group": 1 if apart else asked.sharing,
        "sharing": asked.sharing if apart else 1,
        "fed": fed,
        "by_fragments": by_fragments,
        "summing": summing,
        "listed": asked.kinds is not None,
        "lists_by_batch": of_batch,
        "lists_by_head": of_head,
        "mask_by_query": of_query,
        "mask_by_key": of_key,
        "list_sharing": asked.sharing if apart and of_keys else 1,
        "bounded_left": options.left is not None,
        "bounded_right": options.right is not None,
        "packed": options.packed,
        "counted": options.counted,
        "at_end": options.offset is None,
        "dropping": bool(options.dropout),
        "by_fours": bool(options.dropout) and not options.packed and asked.k.shape[2] % 4 == 0,
        "plain": staged.score is None and options.scale > 0,
    }
    if summing:
        names = ("keep_batch", "keep_head", "keep_rows", "keep_keys")
        variables |= dict(zip(names, asked.kept, strict=True))
    return variables | _of_score(asked, staged, fed)


def _of_score(asked: Attention, staged: Staging, by_warpgroups: bool) -> dict[str, Any]:
    """The text of the function of a score, and what it reads."""
    options, q, forward = asked.options, asked.q, asked.d is None
    lines, read = Printed([], ["a0", "1"], True), frozenset[int]()
    if staged.score is not None:
        read = reached(options.lookups, staged.score.outputs)
        wanted = () if asked.of_array is None else (PLACES + asked.of_array,)
        given = None
        if asked.half:
            uniform = [PLACES + i for i, one in enumerate(asked.operands) if not by_place(one.shape)]
            given = Given(
                asked.scores,
                uniform,
                near=q.dtype == dtypes.bfloat16,
                shifted=forward and by_warpgroups and options.scale > 0,
                gained=not forward and by_warpgroups,
                ahead=_inputs_of_windows(staged),
            )
        lines = printed(staged.score, options.lookups, asked.scores, None if forward else wanted, given)
    elif options.scale > 0:
        lines = lines._replace(unit=Unit(scaled=True))
    masked = asked.kinds is not None and options.condition is None
    operands = [
        {
            "k": PLACES + i,
            "number": i,
            "type": dtypes.info(one.dtype).cxx,
            "compute": compute_type(one.dtype),
            "settled": by_warpgroups and not by_place(one.shape),
            "opened": masked and i == len(asked.operands) - 1,
            "tiled": i == staged.tiled,
            "read": PLACES + i in read,
            "axes": [axis for axis, n in enumerate(one.shape, 4 - one.ndim) if n > 1],
        }
        for i, one in enumerate(asked.operands)
    ]
    by_places = bool(asked.tables) or any(by_place(one.shape) for one in asked.operands)
    return {
        "operands": operands,
        "tables": [{"k": k, "type": dtypes.info(one.dtype).cxx} for k, one in enumerate(asked.tables)],
        "reads_places": staged.reads if by_warpgroups else by_places,
        "windows": _windows(staged, options.lookups, asked.scores, lines.unit),
        "tiled": None if staged.tiled is None else f"x{PLACES + staged.tiled}",
        "body": lines.lines,
        "values": lines.values,
        "slope": lines.values[1] if lines.constant_slope else None,
        "finite_slope": lines.finite_slope,
        "gain": lines.unit.gain,
        "scaled": lines.unit.scaled,
        "prescaled": forward
        and staged.tiled is not None
        and lines.unit.scaled
        and q.dtype == dtypes.bfloat16
        and _keeps_bits(options.scale),
        "limited": lines.unit.limited,
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
