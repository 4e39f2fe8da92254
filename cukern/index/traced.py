"""Rows and elements by indices in a trace: gathered where they are read, and rows computed by what combines them.

Both are linear functions, each the derivative of the other. After the trace, where a tape may call them, they are
gathers and sums of arrays.
"""

from __future__ import annotations

import math
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np

from .. import dtypes
from ..array import Array
from ..array.deferred import trace
from ..autodiff import tape
from ..elementwise.function import astype
from ..elementwise.operands import recorded
from ..elementwise.staged import LEAST_ELEMENTS
from ..elementwise.table import add, clip, less, multiply, subtract, where
from ..kernel.plan import serial
from ..kernel.sizes import LARGEST_INDEX
from ..kernel.strides import Strides, contiguous_steps
from ..shape.views import reshape
from .combine import Combination, added_along, combined
from .gather_scatter import gathered, ordered

#: Elements of a row from which the host gathers rows where they are read, and from which it computes rows where it
#: combines them, for which it sorts the indices.
_GATHERED, _COMPUTED = LEAST_ELEMENTS, 64


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
        active = trace()
        if active is None:
            result = take_rows(x, self.ids)
        elif x.ndim == 1 and picks(x, self.ids):
            result = active.picked(x, TracedElements((bounded(self.ids, self.size),), x.shape).places)
        elif self.ids.size and _within(x, _GATHERED):
            result = active.gathered(x, self.ids, self.given)
        else:
            result = active.call(take_rows, (x, self.ids), {})
        return recorded("take", x, result, self.summed, self.gathered)

    def summed(self, x: Array) -> Array:
        """The sums of the rows of ``x`` (count, ...) that have the same id: (size, ...)."""
        return recorded("segment_sum", x, self.combined(x), self.gathered, self.summed)

    def combined(self, x: Array, how: Combination = "sum") -> Array:
        """The rows of ``x`` (count, ...) that have the same id, combined: (size, ...)."""
        active, known = trace(), (self.ids, self.size, self.rising, self.starts)
        if active is None:
            return combine_rows(x, how, *known)
        if self.size and _within(x, _COMPUTED):
            return self._computed(active, x, how, False)
        made: Array = active.call(combine_rows, (x, how, *known), {})
        return made

    def mean(self, x: Array) -> Array:
        """The means of the rows of ``x`` (count, ...) that have the same id, 0 of none, in a trace: (size, ...)."""
        return self._computed(trace(), x, "sum", True)

    def _computed(self, active: Any, x: Array, how: Combination, mean: bool) -> Array:
        from .segment_program import segment_plan  # many programs have none

        plan_of = partial(segment_plan, number=self.size, how=how, mean=mean)
        name = "segment_mean" if mean else f"segment_{how}"
        made: Array = active.combined(x, self._order(), plan_of, name)
        return made

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


class TracedElements(NamedTuple):
    """Which element of an array each of another one is.

    Attributes:
        at: the indices along each axis, within its range, which broadcast.
        shape: that of the array.
        along: if all of them but those along one axis number the others: this axis. They have the shape of the result.
    """

    at: tuple[Array, ...]
    shape: tuple[int, ...]
    along: int | None = None

    def picked(self, x: Array) -> Array:
        """The elements of ``x``."""
        active = trace()
        if active is None:
            ids = self.places(contiguous_steps(self.shape))
            result = reshape(take_rows(reshape(x, (-1,)), reshape(ids, (-1,))), ids.shape)
        else:
            result = active.picked(x, self.places)
        return recorded("take", x, result, self.added, self.picked)

    def added(self, x: Array) -> Array:
        """The sums of the elements of ``x`` that are the same one."""
        ids = self.places(contiguous_steps(self.shape)) if self.along is None else self.at[self.along]
        active, given = trace(), (x, ids, self.shape, self.along)
        result = add_elements(*given) if active is None else active.call(add_elements, given, {})
        return recorded("scatter_add", x, result, self.picked, self.added)

    def places(self, steps: Strides) -> Array:
        """Where the elements are in an array with these steps, behind its first element."""
        reach = sum([abs(step) * size for step, size in zip(steps, self.shape, strict=True)])
        dtype = dtypes.int32 if reach <= LARGEST_INDEX else dtypes.int64
        at = [astype(index, dtype, copy=False) for index in self.at]
        return reduce(
            add, [one if step == 1 else multiply(one, step) for one, step in zip(at, steps, strict=True)]
        )


def picks(x: Array, *indices: Array) -> bool:
    """Whether what reads elements of ``x`` at indices picks them."""
    return x.size > 0 and x.dtype not in dtypes.COMPLEX and all(one.size for one in indices)


def bounded(index: Array, size: int) -> Array:
    """Indices wrapped and clipped to the range of an axis; those of the host were checked."""
    if serial(index.device):
        return index
    fits = np.can_cast(index.dtype, dtypes.int32) and size <= LARGEST_INDEX
    at = astype(index, dtypes.int32 if fits else dtypes.int64, copy=False)
    return clip(where(less(at, 0), add(at, size), at), 0, size - 1)


def _within(x: Array, least: int) -> bool:
    """Whether what reads or combines the rows of ``x`` computes them, on the host from ``least`` elements on."""
    long = not serial(x.device) or x.size >= least * x.shape[0]
    return x.size > 0 and x.dtype not in dtypes.COMPLEX and long


def order_of_indices(ids: Array, size: int, rising: bool) -> list[Array]:
    """See :meth:`TracedRows._order`."""
    found = ordered(ids.device, ids._data, size, rising)
    places = [] if found.order is None else [found.order]
    return [found.keys, found.starts(size), *places]


def take_rows(x: Array, ids: Array) -> Array:
    """See :meth:`TracedRows.gathered`."""
    size, *rest = x.shape
    inner = math.prod(rest)
    with tape.stop_recording():
        made = gathered(reshape(x, (1, size, inner)), ids._data, 1, size, inner)
        return reshape(made, (ids.size, *rest))


def combine_rows(
    x: Array, how: Combination, ids: Array, size: int, rising: bool, starts: Array | None
) -> Array:
    """See :meth:`TracedRows.combined`."""
    count, *rest = x.shape
    inner, known = math.prod(rest), None if starts is None else starts._data
    with tape.stop_recording():
        rows = reshape(x, (1, count, inner))
        made = combined(rows, ids._data, 1, size, inner, how=how, rising=rising, starts=known)
        return reshape(made, (size, *rest))


def add_elements(x: Array, ids: Array, shape: tuple[int, ...], along: int | None) -> Array:
    """See :meth:`TracedElements.added`; ``ids`` are places in C order, or the indices along an axis."""
    with tape.stop_recording():
        if along is None:
            flat, places = reshape(x, (-1,)), reshape(ids, (-1,))
            made = combine_rows(flat, "sum", places, math.prod(shape), False, None)
        else:
            sizes = math.prod(shape[:along]), shape[along], math.prod(shape[along + 1 :])
            made = added_along(x, ids.contiguous()._data, *sizes)
        return reshape(made, shape)
