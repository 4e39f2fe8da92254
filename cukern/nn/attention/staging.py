"""What a score reads that kernels fed by tensor maps bring to shared memory ahead of each tile of scores."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from ... import dtypes
from ...array.layout import Layout
from ...elementwise.graph import Node, input_node, order, substitute
from ...elementwise.program import Program, program
from .cheaper import linear_in_places
from .conditions import score_by_bits
from .problem import Attention
from .scores import PLACES, Lookup, by_place, reached

_QUERY, _KEY = 3, 4  # among the inputs
#: Rows that take one or two instructions, of which a thread that needs the value may as well make it.
_QUICK = frozenset({"add", "subtract", "multiply", "negative", "abs", "maximum", "minimum", "where"})
#: Bytes from row to row that a tensor map has not.
LONGEST_STRIDE = 2**40
#: More numbers for each distance would fill the shared memory.
_MOST = 2


class Staging(NamedTuple):
    """What is brought ahead of each tile of scores.

    Attributes:
        score: the program of the score, whose last inputs are the windows; None if the score stays as it is.
        windows: parts of the score that depend on query and key by their distance alone.
        tiled: which array of the score is brought by tiles, by a tensor map; None if none is.
        reads: whether the score reads memory by its query or key besides.
    """

    score: Program | None
    windows: tuple[Node, ...] = ()
    tiled: int | None = None
    reads: bool = False


def staging(asked: Attention) -> Staging:
    """What is brought ahead of each tile of the scores of a call."""
    score = score_by_bits(asked)
    if score is None or not asked.half:
        return Staging(score)
    return _staged(score, asked.options.lookups, asked.operands, asked.options.packed)


def unstaged(asked: Attention) -> Staging:
    """The same where there is no room for it."""
    score, lookups = score_by_bits(asked), asked.options.lookups
    return Staging(score, reads=score is not None and _reads(score, lookups, asked.operands, None))


@lru_cache(maxsize=1024)
def _staged(
    score: Program, lookups: tuple[Lookup, ...], layouts: tuple[Layout, ...], packed: bool
) -> Staging:
    inputs = reached(lookups, score.outputs)
    tiles = (k for k, one in enumerate(layouts) if k + PLACES in inputs and _has_tiles(one))
    tiled = None if packed else next(tiles, None)
    found = _found(score, lookups, layouts)
    if found and len(found) <= _MOST:
        kinds = [*score.inputs, *[dtypes.float32] * len(found)]
        score = program(score.name, substitute(score.outputs, found), kinds)
    else:
        found = {}
    return Staging(score, tuple(found), tiled, _reads(score, lookups, layouts, tiled))


def describable(layouts: Sequence[Layout]) -> bool:
    """Whether tensor maps describe matrices whose rows are packs of 16 bytes: no two of their rows have one address."""
    return all(
        0 < step < LONGEST_STRIDE
        for one in layouts
        for n, step in zip(one.shape[:-1], one.strides[:-1], strict=True)
        if n > 1
    )


def _has_tiles(layout: Layout) -> bool:
    """Whether an array is of floats of 16 bits for each query and key, in rows of aligned packs of 16 bytes."""
    whole = len(layout.shape) > 1 and layout.shape[-2] > 1 and layout.strides[-1] == 2
    return (
        whole
        and layout.dtype in (dtypes.float16, dtypes.bfloat16)
        and layout.aligned
        and layout.shape[-1] % 8 == 0
        and all(step % 16 == 0 for step in layout.strides[:-1])
        and describable([layout])
    )


def _reads(score: Program, lookups: Sequence[Lookup], layouts: Sequence[Layout], tiled: int | None) -> bool:
    inputs = reached(lookups, score.outputs)
    own = {k for k, one in enumerate(layouts, PLACES) if by_place(one.shape) and k != tiled_input(tiled)}
    return bool(inputs & (own | {one.value.value for one in lookups}))


def tiled_input(tiled: int | None) -> int | None:
    """The input of the score that is brought by tiles."""
    return None if tiled is None else PLACES + tiled


def _found(score: Program, lookups: Sequence[Lookup], layouts: Sequence[Layout]) -> dict[Node, Node]:
    """Parts of a score that are worth making once for each distance, and the inputs that stand for them."""
    found: dict[Node, Node] = {}
    known: dict[Node, bool] = {}
    seen: set[Node] = set()
    pending = [score.outputs[0]]
    while pending:
        node = pending.pop()
        if node in seen:
            continue
        seen.add(node)
        by_distance = node.dtype == dtypes.float32 and _by_distance(node, lookups, layouts, known)
        if by_distance and _is_long(node, lookups):
            found[node] = input_node(len(score.inputs) + len(found), dtypes.float32)
        else:
            pending.extend(reversed(node.args))
    return found


def _by_distance(
    root: Node, lookups: Sequence[Lookup], layouts: Sequence[Layout], known: dict[Node, bool]
) -> bool:
    """Whether a node depends on query and key by their distance alone, and not on the score; ``known`` are others'."""
    for node in order((root,)):
        if node not in known:
            known[node] = _is_by_distance(node, lookups, layouts, known)
    return known[root]


def _is_by_distance(
    node: Node, lookups: Sequence[Lookup], layouts: Sequence[Layout], known: dict[Node, bool]
) -> bool:
    factors = linear_in_places(node)
    if factors is not None:
        of_query, of_key = factors[0][2:]
        return of_query + of_key == 0
    if node.kind != "input":
        return node.kind != "scalar" and all(known[one] for one in node.args)
    if node.value < PLACES:
        return node.value in (1, 2)
    if node.value < PLACES + len(layouts):
        return not by_place(layouts[node.value - PLACES].shape)
    places = next((one.places for one in lookups if one.value is node), None)
    return places is not None and all(_by_distance(one, lookups, layouts, known) for one in places)


def _is_long(node: Node, lookups: Sequence[Lookup]) -> bool:
    """Whether a node depends on query and key, and takes more than a few instructions or reads memory by them."""
    if not reached(lookups, (node,)) & {_QUERY, _KEY}:
        return False
    by_places = {one.value for one in lookups if reached(lookups, one.places) & {_QUERY, _KEY}}
    return any(
        one in by_places
        or (one.row is not None and one.row.name not in _QUICK and one.dtype == dtypes.float32)
        for one in order((node,))
    )
