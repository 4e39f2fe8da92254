"""Index arrays on a GPU as kernels read them, and their orders: kept with the memory of the array until it is written.

A graph's edges, or the tokens of a batch, are the indices of several layers, forward and backward: they are copied and
sorted once.
"""

from __future__ import annotations

import weakref
from typing import Any

from ..array import Array
from ..autodiff import tape
from ..device import capture_hooks
from ..kernel.plan import apart

#: The index arrays of one memory that are kept: a vector of which each step reads another part is of many.
_MOST = 4


class Kept:
    """Indices as kernels read them.

    Attributes:
        data: the indices, an ndarray.
        orders: what their order was found to be, by the size of the axis: see :func:`.gather_scatter.ordered`.
    """

    __slots__ = ("__weakref__", "_array", "_own", "_recorder", "_state", "data", "orders")

    def __init__(self, data: Any, state: tuple[int, int], array: Array) -> None:
        self.orders: dict[Any, Any] = {}
        self._own = False
        self._state = state
        self._array = weakref.ref(array)
        recorder = capture_hooks.recorder()
        self._recorder = None if recorder is None else weakref.ref(recorder)
        self.data = data

    def holds(self, state: tuple[int, int]) -> bool:
        """Whether it is what a call in this state reads: a capture reads nothing from before it, which replays keep."""
        recorder = capture_hooks.recorder()
        return self._state == state and (None if self._recorder is None else self._recorder()) is recorder

    def before(self) -> Array | None:
        """In a capture the array, if what is kept of it from before the capture has an order and is of now."""
        array = self._array()
        known = None if self._recorder is None or array is None else array._storage.kept
        if array is None or not known or array._data.dtype != self.data.dtype or not array.is_contiguous:
            return None
        found: Kept | None = known.get(_key(array, True))
        return array if found is not None and found._state[0] == self._state[0] and found.orders else None

    def separate(self, array: Array) -> None:
        """Move the indices out of the memory of ``array``, which the caller may write before the backward."""
        if not self._own:
            self._own = True
            self.data = apart(array.device, self.data, array._data)


#: By the identity of the ndarray.
_known: weakref.WeakValueDictionary[int, Kept] = weakref.WeakValueDictionary()


def kept_of(indices: Any) -> Kept | None:
    """What is kept of an ndarray that :func:`kept` has returned."""
    found = _known.get(id(indices))
    return found if found is not None and found.data is indices else None


def kept(array: Array, data: Any) -> Any:
    """The ndarray ``data`` of the indices in an array on a GPU, or the same from an earlier call.

    An array's memory that another library may write is not kept.
    """
    storage = array._storage
    if storage.shared:
        return apart(array.device, data, array._data) if tape.active() else data
    state = storage.version, stream(array)
    if storage.kept is None:
        storage.kept = {}
    key = _key(array, capture_hooks.recorder() is None)
    found: Kept | None = storage.kept.pop(key, None)
    if found is None or not found.holds(state):
        found = Kept(data, state, array)
        for oldest in list(storage.kept)[: 1 - _MOST]:
            del storage.kept[oldest]
    storage.kept[key] = found
    if tape.active():
        found.separate(array)
    # Without a tape, what is kept in a capture and outside may have one ndarray, of which the last call decides.
    _known[id(found.data)] = found
    return found.data


def _key(array: Array, eager: bool) -> tuple[Any, ...]:
    """Where a memory keeps what is found out about an array: apart in a capture."""
    return array._layout or array._planned(), array._operand, eager


def stream(array: Array) -> int:
    """The current stream of an array's device, on which what is kept was made; 0 of what has none."""
    cuda = getattr(array.device.xp, "cuda", None)
    return 0 if cuda is None else int(cuda.get_current_stream().ptr)
