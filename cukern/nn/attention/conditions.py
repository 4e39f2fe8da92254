"""The condition under which a score's function leaves a score above -inf: what it empties is left out as by a mask."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from ... import dtypes
from ...array import Array
from ...elementwise.graph import Node, call
from ...elementwise.logic import logical_and
from ...elementwise.print_cxx import compute_type
from ...elementwise.program import Program, program
from ...kernel.strides import broadcast_steps
from ...launch.params import Params
from .masks import Blocks, InBlocks, axes_of, without_array
from .problem import Attention, Call
from .scores import PLACES, Lookup, printed, reached, unless_excluded, without_mask

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
    while (excluding := unless_excluded(score)) is not None:
        holds, rest = excluding
        own = _axes(holds, lookups, arrays)
        if own is None or 1 in own:
            break
        axes |= own
        found = holds if found is None else call(logical_and, (found, holds))
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
    problem, condition = asked.problem, asked.options.condition
    assert condition is not None
    inputs = reached(problem.options.lookups, condition.holds.outputs)
    arrays = [one for k, one in enumerate(asked.operands, PLACES) if k in inputs]
    return _blocks_of(problem, bits)(*arrays, *asked.tables)


@lru_cache(maxsize=1024)
def _blocks_of(asked: Attention, bits: bool) -> InBlocks:
    condition, lookups, (batch, _, queries, keys) = (
        asked.options.condition,
        asked.options.lookups,
        asked.scores,
    )
    assert condition is not None
    inputs = reached(lookups, condition.holds.outputs)
    read = [(k, one) for k, one in enumerate(asked.operands, PLACES) if k in inputs]
    lines = printed(condition.holds, lookups, asked.scores, None)
    sources = [*((f"x{k}", one) for k, one in read), *((f"t{k}", one) for k, one in enumerate(asked.tables))]
    constants = {
        "packs": False,
        "computed": True,
        "operands": [
            {
                "k": k,
                "number": number,
                "compute": compute_type(one.dtype),
                "axes": [axis for axis, n in enumerate(one.shape, 4 - len(one.shape)) if n > 1],
            }
            for number, (k, one) in enumerate(read)
        ],
        "sources": [{"name": name, "type": dtypes.info(one.dtype).cxx} for name, one in sources],
        "body": lines.lines,
        "value": lines.values[0],
    }
    steps = [broadcast_steps(one, asked.scores) for _, one in read] or [(0, 0, 0, 0)]
    given = Params("Steps", of=("long long", (len(steps), 4)))(of=steps)
    axes = batch if condition.by_batch else 1, 1, queries, keys
    return InBlocks(asked.device, axes, bits, constants, without_array(queries, keys), given)


def axes_of_blocks(asked: Attention) -> tuple[bool, ...]:
    """Whether what a mask or a condition empties depends on the batch, the head, the query and the key."""
    condition = asked.options.condition
    if asked.kinds is None:
        return (False,) * 4
    if condition is not None:
        return condition.by_batch, False, asked.q.shape[2] > 1, asked.k.shape[2] > 1
    return tuple(n > 1 for n, _ in axes_of(asked.operands[-1]))


def score_by_bits(asked: Attention) -> Program | None:
    """The program of a score for kernels that read the bits of a mask or a condition; None if it stays as it is."""
    options = asked.options
    if asked.kinds is None or options.program is None:
        return options.program
    if options.condition is not None:
        return options.condition.score
    return without_mask(options.program, PLACES + len(asked.operands) - 1)
