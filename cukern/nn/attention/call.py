"""What a call of attention asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...array import Array
from ...elementwise.program import Program
from ..dropout import Draw
from .geometry import Head
from .scores import Lookup

if TYPE_CHECKING:
    from .conditions import Condition
    from .masks import Blocks


class Options(NamedTuple):
    """What a call asks for besides its arrays.

    Attributes:
        scale: the factor of the scores.
        left, right: how many keys before and after its position a query attends to; None for all.
        offset: the position of the first query among the keys; None if the last query is at the last key.
        program: the function of a score.
        lookups: what it reads of tables.
        condition: the part of it that makes scores -inf, if what that empties is to be left out.
        dropout: the probability of dropping a weight.
        packed: whether sequences lie behind one another along the axes of queries and keys.
        counted: whether each batch has its own number of keys.
        deterministic: whether gradients are the same in every run, to the last bit.
    """

    scale: float
    left: int | None = None
    right: int | None = None
    offset: int | None = 0
    program: Program | None = None
    lookups: tuple[Lookup, ...] = ()
    condition: Condition | None = None
    dropout: float = 0.0
    packed: bool = False
    counted: bool = False
    deterministic: bool = False


class Call(NamedTuple):
    """The arrays of a call: q (batch, heads, L, E), k and v (batch, heads of keys, S, E or V), and those of the score.

    Attributes:
        operands: broadcast to the scores.
        tables: contiguous; the function of a score indexes them.
        starts: where the packed sequences begin along the queries and the keys, and end: (sequences + 1,) each; or
            None and the number of keys of each batch.
        blocks: of a mask, the last of the operands, or of the score's condition, what it has in blocks of queries and
            keys, and in bits; None if no tile is to be left out for it.
    """

    q: Array
    k: Array
    v: Array
    operands: tuple[Array, ...]
    tables: tuple[Array, ...]
    starts: tuple[Array | None, Array | None]
    options: Options
    draw: Draw | None
    blocks: Blocks | None = None

    @property
    def head(self) -> Head:
        """The features of a head."""
        return Head(self.q.shape[3], self.v.shape[3])

    @property
    def rows(self) -> int:
        """The queries that share a head of keys."""
        return self.q.shape[2] * self.q.shape[1] // self.k.shape[1]
