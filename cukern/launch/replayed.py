"""Many launches that depend on some addresses alone: replayed as one CUDA graph where the addresses came before.

A training loop gets the same memory in each step, as a pool hands out again what was given back. So no copies are
needed, as :func:`cukern.capture` makes, and no memory is kept: where an address is another, the launches are made.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from ..cache import Cache
from ..device import Device, capture_hooks, kernels_only
from ..device.cuda import cublas
from ..device.precision import allows_tf32

#: What came before: True where it came once, False where no graph records it, else the graph and its workspaces.
_graphs: Cache[Any, Any] = Cache(64)


class _Thread(threading.local):
    """The streams on which a thread records branches, by device."""

    def __init__(self) -> None:
        self.streams: dict[Device, list[Any]] = {}


_thread = _Thread()


class _Workspace:
    """In a recorder's place while launches are recorded: a library's calls use the memory of the caller's stream.

    Args:
        memory: that memory.
        main: the stream that is recorded; others that join it have memory of their own.
        allocate: allocates so many bytes.
    """

    def __init__(self, memory: Any, main: int, allocate: Callable[[int], Any]) -> None:
        self._allocate, self._by_stream = allocate, {main: memory}

    def workspace(self, nbytes: int, stream: int) -> Any:
        """The memory of a stream, of as many bytes."""
        if stream not in self._by_stream:
            self._by_stream[stream] = self._allocate(nbytes)
        return self._by_stream[stream]


class Branch:
    """Launches beside others on one device: a with-block makes them.

    Args:
        cuda: CuPy's module; None where the launches of all branches run in the order in which they are made.
        stream: where they run.
    """

    def __init__(self, cuda: Any = None, stream: Any = None) -> None:
        self._cuda, self._stream = cuda, stream

    def follow(self, other: Branch) -> None:
        """Run what comes after all that ``other`` has been given so far."""
        if self._cuda is not None:
            event = self._cuda.Event(disable_timing=True)
            event.record(other._stream)
            self._stream.wait_event(event)

    def __enter__(self) -> None:
        if self._cuda is not None:
            self._stream.__enter__()

    def __exit__(self, *error: object) -> None:
        if self._cuda is not None:
            self._stream.__exit__(*error)


@contextmanager
def forked(device: Device, count: int) -> Iterator[list[Branch]]:
    """Branches of launches, the first of which is the current stream; after the with-block this waits for the others.

    They run side by side while a graph records them.
    """
    if device.addressable or count == 1 or capture_hooks.recorder() is None:
        yield [Branch() for _ in range(count)]
        return
    cuda = device.xp.cuda
    # A stream has to live until the recording ends.
    others = _thread.streams.setdefault(device, [])
    others += [cuda.Stream(non_blocking=True) for _ in range(count - 1 - len(others))]
    branches = [Branch(cuda, one) for one in (cuda.get_current_stream(), *others[: count - 1])]
    yield branches
    for one in branches[1:]:
        branches[0].follow(one)


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
    known: Any = _graphs.get(where)
    if known is None:
        _graphs.keep(where, True)
        launches()
        return
    if known is True:
        known = _graphs[where] = _recorded(cuda, launches, memory, stream) or False
    if known is False:
        launches()
    else:
        known[0].launch(stream)


def _recorded(cuda: Any, launches: Callable[[], None], memory: Any, stream: Any) -> Any:
    """The graph of launches, and its workspaces, whose addresses no other has as long as it lives.

    None if a graph cannot record them. ``stream`` will replay it, and orders who has the workspaces after it.
    """
    graph, side = None, cuda.Stream(non_blocking=True)

    def allocate(nbytes: int) -> Any:
        with stream:
            return cuda.alloc(nbytes)

    recorder: Any = _Workspace(memory, side.ptr, allocate)
    with suppress(RuntimeError), side:
        side.begin_capture()
        capture_hooks.begin(recorder)
        try:
            launches()
        finally:
            capture_hooks.begin(None)
            graph = side.end_capture()
    return None if graph is None else (graph, recorder)
