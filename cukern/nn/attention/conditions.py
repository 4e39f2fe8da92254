"""The condition under which a score's function leaves a score above -inf: what it empties is left out as by a mask."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

from ... import dtypes
from ...array import Array
from ...array.creation import empty
from ...array.layout import Layout
from ...array.operators import FUNCTIONS
from ...device.interface import Prepared
from ...elementwise.graph import Node, call
from ...elementwise.print_cxx import compute_type
from ...elementwise.program import Program, program
from ...kernel.plan import on, remember
from ...kernel.sizes import divide_up
from ...kernel.strides import broadcast_steps
from .call import Call
from .masks import BLOCKS, Blocks, axes_of, sizes_of
from .scores import PLACES, Lookup, printed, reached, without_mask

#: Above so many scores what they are in bits would take more than a gigabyte.
_MOST = 2**32


class Condition(NamedTuple):
    """What a score's function says of which keys a query attends to, and the rest of it.

    Attributes:
        holds: the condition, of the inputs of the score.
        score: what the score is where it holds; None if the function leaves it as it is.
        by_batch: whether it depends on the batch.
    """

    holds: Program
    score: Program | None
    by_batch: bool


def condition_of(
    of: Program, lookups: Sequence[Lookup], shape: tuple[int, ...], arrays: Sequence[Array]
) -> Condition | None:
    """The condition of a score; None if there is none that is the same for all heads, and known before the score.

    Args:
        of: the program of the score.
        lookups: what it reads of tables.
        shape: that of the scores, of four axes.
        arrays: which it reads, of at most four axes.
    """
    found: Node | None = None
    score = of.outputs[0]
    axes: set[int] = set()
    while score.kind == "call" and score.row is not None and score.row.name == "where":
        holds, one, other = score.args
        if other.kind == "constant" and other.value == -math.inf:
            rest = one
        elif one.kind == "constant" and one.value == -math.inf:
            holds, rest = call(FUNCTIONS["logical_not"], (holds,)), other
        else:
            break
        own = _axes(holds, lookups, arrays)
        if own is None or 1 in own:
            break
        axes |= own
        found = holds if found is None else call(FUNCTIONS["logical_and"], (found, holds))
        score = rest
    count = shape[2] * shape[3] * (shape[0] if 0 in axes else 1)
    if found is None or not axes & {2, 3} or count > _MOST:
        return None
    unchanged = score.kind == "input" and score.value == 0
    inner = None if unchanged else program(of.name, (score,), of.inputs)
    return Condition(program("attention_condition", (found,), of.inputs), inner, 0 in axes and shape[0] > 1)


def _axes(node: Node, lookups: Sequence[Lookup], arrays: Sequence[Array]) -> set[int] | None:
    """The axes of the scores on which a node depends; None if it depends on the score."""
    found: set[int] = set()
    inputs = reached(lookups, (node,))
    if 0 in inputs:
        return None
    for k in inputs:
        if k < PLACES:
            found.add(k - 1)
        elif k < PLACES + len(arrays):
            shape = arrays[k - PLACES].shape
            found |= {axis for axis, n in enumerate(shape, 4 - len(shape)) if n > 1}
    return found


def condition_blocks(asked: Call, bits: bool) -> Blocks:
    """What the condition of a call has in blocks, and if they are asked for in bits; see :func:`.masks.mask_blocks`."""
    condition, device = asked.options.condition, asked.q.device
    assert condition is not None
    inputs = reached(asked.options.lookups, condition.holds.outputs)
    arrays = [(k, one) for k, one in enumerate(asked.operands, PLACES) if k in inputs]
    read = [one for _, one in arrays] + list(asked.tables)
    layouts = tuple((k, one._planned()) for k, one in arrays)
    tables = tuple(one._planned().dtype for one in asked.tables)
    shape = asked.q.shape[0], asked.q.shape[1], asked.q.shape[2], asked.k.shape[2]
    key = (device, condition, asked.options.lookups, shape, layouts, tables, bits)
    found = _launches.get(key)
    if found is None:
        found = remember(_launches, key, _launch(condition, asked, shape, layouts, bits))
    of_kinds, words, launch = found
    kinds = empty(of_kinds, "uint8", device)
    made = empty((words,), dtypes.uint32, device) if bits else None
    with on(device):
        null = device.backend.operand(None)
        launch(*(one._operand for one in read), kinds._operand, null if made is None else made._operand)
    return Blocks(kinds, made)


_launches: dict[Any, tuple[tuple[int, ...], int, Prepared]] = {}


def _launch(
    condition: Condition,
    asked: Call,
    shape: tuple[int, int, int, int],
    layouts: Sequence[tuple[int, Layout]],
    bits: bool,
) -> tuple[tuple[int, ...], int, Prepared]:
    """The shape of the kinds of blocks, how many words of bits there are, and the launch that makes both."""
    queries, keys = shape[2:]
    steps = [broadcast_steps(one, shape) for _, one in layouts]
    lines = printed(condition.holds, asked.options.lookups, shape, None)
    bound = BLOCKS.bind(
        asked.q.device,
        block=256,
        packs=False,
        makes_bits=bits,
        computed=True,
        by_query=queries > 1,
        by_key=keys > 1,
        operands=[
            {
                "k": k,
                "number": number,
                "compute": compute_type(one.dtype),
                "axes": [axis for axis, n in enumerate(one.shape, 4 - len(one.shape)) if n > 1],
            }
            for number, (k, one) in enumerate(layouts)
        ],
        sources=[
            *({"name": f"x{k}", "type": dtypes.info(one.dtype).cxx} for k, one in layouts),
            *({"name": f"t{k}", "type": dtypes.info(one.dtype).cxx} for k, one in enumerate(asked.tables)),
        ],
        body=lines.lines,
        value=lines.values[0],
    )
    kinds, words = sizes_of((shape[0] if condition.by_batch else 1, 1, queries, keys))
    sizes = struct.pack("4q3i0q", 0, 0, 0, 0, 1, queries, keys)
    through = [step for one in steps for step in one] or [0] * 4
    tail = (sizes, struct.pack(f"{len(through)}q", *through), math.prod(kinds))
    with on(asked.q.device):
        grid = divide_up(math.prod(kinds), 256)
        return kinds, words, bound.function.prepare((grid, 1, 1), (256, 1, 1), 0, tail)


def axes_of_blocks(asked: Call) -> tuple[bool, ...]:
    """Whether what a mask or a condition empties depends on the batch, the head, the query and the key."""
    condition = asked.options.condition
    if asked.blocks is None:
        return (False,) * 4
    if condition is not None:
        return condition.by_batch, False, asked.q.shape[2] > 1, asked.k.shape[2] > 1
    return tuple(n > 1 for n, _ in axes_of(asked.operands[-1]._planned()))


def score_by_bits(asked: Call) -> Program | None:
    """The program of a score for kernels that read the bits of a mask or a condition; None if it stays as it is."""
    options = asked.options
    if asked.blocks is None or options.program is None:
        return options.program
    if options.condition is not None:
        return options.condition.score
    return without_mask(options.program, PLACES + len(asked.operands) - 1)


__all__ = [
    "Condition",
    "axes_of_blocks",
    "condition_blocks",
    "condition_of",
    "score_by_bits",
]
