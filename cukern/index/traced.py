"""Rows by a vector of indices in a trace: gathered where they are read, and computed by the kernels that combine them.

Both are linear functions, each the derivative of the other. After the trace, where a tape may call them, they are
gathers and sums of arrays.
"""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

from .. import dtypes
from ..array import Array
from ..array.deferred import trace
from ..elementwise.operands import recorded
from ..elementwise.table import subtract
from ..shape.views import reshape
from .combine import Combination, combined
from .gather_scatter import gathered, ordered
from .segment_program import segment_plan


class TracedRows(NamedTuple):
    """Which row of an array (size, ...) each row of another one (count, ...) belongs to.

    Attributes:
        ids: a vector for kernels, which wrap and clip it.
        size: the number of rows of the first.
        given: the array in whose memory the ids may lie.
        rising: whether they are in ascending order.
        starts: the first place of each number among them, and the end, where that is known.
    """

    ids: Array
    size: int
    given: Array
    rising: bool = False
    starts: Array | None = None

    def gathered(self, x: Array) -> Array:
        """The rows of ``x`` (size, ...) that the ids name: (count, ...)."""
        if (active := trace()) is not None and x.dtype not in dtypes.COMPLEX and x.size and self.ids.size:
            result: Array = active.gathered(x, self.ids, self.given)
        else:
            inner = math.prod(x.shape[1:])
            rows = gathered(reshape(x, (1, self.size, inner)), self.ids._data, 1, self.size, inner)
            result = reshape(rows, (*self.ids.shape, *x.shape[1:]))
        return recorded("take", x, result, self.summed, self.gathered)

    def summed(self, x: Array) -> Array:
        """The sums of the rows of ``x`` (count, ...) that have the same id: (size, ...)."""
        return recorded("segment_sum", x, self.combined(x), self.gathered, self.summed)

    def combined(self, x: Array, how: Combination = "sum", mean: bool = False) -> Array:
        """The rows of ``x`` (count, ...) that have the same id, combined: (size, ...)."""
        if (active := trace()) is not None and x.dtype not in dtypes.COMPLEX and x.size and self.size:
            plan_of = partial(segment_plan, number=self.size, how=how, mean=mean)
            name = "segment_mean" if mean else f"segment_{how}"
            result: Array = active.combined(x, self._order(), plan_of, name)
            return result
        inner, starts = math.prod(x.shape[1:]), None if self.starts is None else self.starts._data
        rows = reshape(x, (1, self.ids.size, inner))
        made = combined(
            rows, self.ids._data, 1, self.size, inner, how=how, rising=self.rising, mean=mean, starts=starts
        )
        return reshape(made, (self.size, *x.shape[1:]))

    def counts(self, like: Array) -> Array:
        """How many rows have each id: integers (size, 1, ...), of as many axes as ``like``."""
        starts = self._order()[1]
        return reshape(subtract(starts[1:], starts[:-1]), (self.size, *(1,) * (like.ndim - 1)))

    def _order(self) -> list[Array]:
        """The ids in ascending order, the first place of each number, and where they were if that was elsewhere."""
        if self.starts is not None:
            return [self.ids, self.starts]
        active, given = trace(), (self.ids, self.size, self.rising)
        found: list[Array] = (
            order_of_indices(*given) if active is None else active.once(order_of_indices, *given)
        )
        return found


def order_of_indices(ids: Array, size: int, rising: bool) -> list[Array]:
    """See :meth:`TracedRows._order`."""
    found = ordered(ids.device, ids._data, size, rising)
    places = [] if found.order is None else [found.order]
    return [found.keys, found.starts(size), *places]
