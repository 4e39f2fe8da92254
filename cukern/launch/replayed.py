"""Many launches that depend on some addresses alone: replayed as one CUDA graph where the addresses came before.

A training loop gets the same memory in each step, as a pool hands out again what was given back. So no copies are
needed, as :func:`cukern.capture` makes, and no memory is kept: where an address is another, the launches are made.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Any

from ..cache import Cache
from ..device import Device, capture_hooks, kernels_only
from ..device.cuda import cublas
from ..device.precision import allows_tf32

#: What came before: None where it came once, False where no graph records it, else the graph and its workspace.
_graphs: Cache[Any, Any] = Cache(64)


class _Workspace:
    """In a recorder's place while launches are recorded: a library's calls use the memory of the caller's stream."""

    def __init__(self, memory: Any) -> None:
        self._memory = memory

    def workspace(self, nbytes: int) -> Any:
        """The memory, which has as many bytes."""
        return self._memory


def replayed(device: Device, key: Hashable, launches: Callable[[], None]) -> None:
    """Make launches on ``device``, which is the current one, or replay them.

    Args:
        device: where they run.
        key: all on which the launches depend: what they are, and the address of each array.
        launches: makes them, and nothing else: it allocates no memory.
    """
    if device.addressable or kernels_only.active() or capture_hooks.recorder() is not None:
        launches()
        return
    cuda = device.xp.cuda
    stream = cuda.get_current_stream()
    own = not hasattr(device.xp, "products")
    if own and stream.is_capturing():
        launches()
        return
    memory: Any = cublas.workspace(device.xp, None, device.index, stream.ptr) if own else None
    where = key, device, stream.ptr, allows_tf32(), memory.ptr if own else 0
    if where not in _graphs:
        _graphs.keep(where, None)
        launches()
        return
    known = _graphs[where]
    if known is None:
        graph = _recorded(cuda, launches, memory)
        # The workspace lives as long as the graph, so that no other has its address.
        known = _graphs[where] = False if graph is None else (graph, memory)
    if known is False:
        launches()
    else:
        known[0].launch(stream)


def _recorded(cuda: Any, launches: Callable[[], None], memory: Any) -> Any:
    """The graph of launches; None if a graph cannot record them."""
    graph, side = None, cuda.Stream(non_blocking=True)
    with suppress(RuntimeError), side:
        side.begin_capture()
        recorder: Any = _Workspace(memory)
        capture_hooks.begin(recorder)
        try:
            launches()
        finally:
            capture_hooks.begin(None)
            graph = side.end_capture()
    return graph
