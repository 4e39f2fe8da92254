"""Arrays that are computed when something first reads their memory: cotangents that often nobody reads.

While a function is traced (:mod:`..elementwise.trace`), all results of elementwise functions are such arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..device.trace_hooks import trace as trace
from ..device.trace_hooks import traced_threads as traced_threads
from ..device.trace_hooks import writes
from .array import Array, Storage
from .layout import Layout

_new = object.__new__
#: Where an array keeps its memory; of one that is not computed yet, the function that computes it.
_MEMORY = vars(Array)["_memory"]


class Deferred(Array):
    """An array on a GPU, in C order, that is an ordinary one from when its memory is read on.

    What it is computed from must not be written until then.
    """

    __slots__ = ()

    @classmethod
    def of(cls, layout: Layout, compute: Callable[[], Array]) -> Array:
        """An array of the layout of a new one, which ``compute`` returns, in any shape."""
        result = _new(cls)
        result.compute = compute
        result._layout, result.device, result._storage = layout, layout.device, Storage()
        result._key = result._viewed = None
        return result

    @property
    def compute(self) -> Callable[[], Array]:
        """What computes it, as long as it is not computed."""
        compute: Callable[[], Array] = _MEMORY.__get__(self)
        return compute

    @compute.setter
    def compute(self, by: Callable[[], Array]) -> None:
        _MEMORY.__set__(self, by)

    def _seen(self, layout: Layout, offset: int = 0) -> Array:
        """The view, not computed either if it has all elements."""
        if type(self) is Deferred and layout.contiguous and layout.nbytes == self.nbytes:
            return Deferred.of(layout, self.compute)
        return super()._seen(layout, offset)


class Arriving(Deferred):
    """One that a user may get before it is computed, as nobody but its function can write what it is computed from.

    A view of it is of its memory, which is computed then.
    """

    __slots__ = ()
    arriving = True


def _computed(name: str) -> Any:
    """A part of an array, which becomes an ordinary one."""

    def part(self: Any) -> Any:
        settled(self, self.compute())
        return getattr(self, name)

    return property(part)


def settled(x: Any, made: Array) -> None:
    """Make an array that is not computed yet an ordinary one, with the memory of another of its layout."""
    made._planned()
    x.__class__ = Array
    x._ndarray = made._ndarray if made.shape == x.shape else None
    there = made._memory is not None or made.device.addressable
    x._memory = made._memory if there else made._ndarray.data
    x._operand = made._operand


for _name in ("_memory", "_ndarray", "_operand"):
    setattr(Deferred, _name, _computed(_name))


def computed(x: Array) -> None:
    """Compute an array that is not computed yet."""
    if isinstance(x, Deferred):
        _ = x._operand


def deferred(x: Array) -> Callable[[], Array] | None:
    """What computes an array that is not computed yet; else None."""
    return x.compute if type(x) is Deferred else None


def about_to_write(*arrays: Array | None) -> None:
    """Compute what waits and reads the memory of these arrays, before it is written."""
    if traced_threads and (given := [one for one in arrays if one is not None]):
        writes(*given)
