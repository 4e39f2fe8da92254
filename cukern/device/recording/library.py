"""NumPy by CuPy's names, with CUDA's streams and graphs: arrays in the host's memory that pass for those of a GPU.

Of a step that is captured nothing runs, as on a GPU; each launch of its graph does what was captured, in order.
"""

from __future__ import annotations

import ctypes
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import numpy as np

from ... import dtypes

#: What the step that is being captured does, and the arrays that its graph uses; None outside a capture.
_captured: list[Callable[[], object]] | None = None
_kept: list[Any] = []


def do(action: Callable[[], object]) -> None:
    """Run ``action`` now, or in each launch of the graph that is being captured."""
    if _captured is None:
        action()
    else:
        _captured.append(action)


def keep(array: Any) -> Any:
    """``array``, whose memory a graph that is being captured keeps."""
    if _captured is not None:
        _kept.append(array)
    return array


def address(data: Any) -> int:
    """The address of an ndarray's first element."""
    return int(data.__array_interface__["data"][0])


class Data(np.ndarray):
    """An ndarray with what CuPy's has beyond NumPy's."""

    @property
    def data(self) -> Any:
        """The memory from the first element to the end of the array that owns it."""
        root: Any = self
        while isinstance(root.base, np.ndarray):
            root = root.base
        first = address(self)
        size = max(np.lib.array_utils.byte_bounds(one)[1] for one in (self, root)) - first
        memory = memoryview((ctypes.c_uint8 * max(1, size)).from_address(first))
        made = np.frombuffer(memory, np.uint8).view(Memory)
        made.owner = self
        return made

    def get(self) -> Any:
        """A copy as a NumPy array."""
        if _captured is not None:
            raise RuntimeError("a value is read while a stream is captured")
        return np.array(self)

    def copy(self, order: Any = "C") -> Any:
        """A copy, made anew in each launch of a graph."""
        made = keep(super().copy(order))
        if _captured is not None:
            _captured.append(lambda: np.copyto(made.view(np.ndarray), self.view(np.ndarray)))
        return made

    def __setitem__(self, key: Any, value: Any) -> None:
        do(lambda: super(Data, self).__setitem__(key, value))


class Memory(np.ndarray):
    """Bytes, and their address, as CuPy's allocator gives them; ``owner`` keeps the bytes of another array."""

    owner: Data | None = None

    @property
    def ptr(self) -> int:
        return address(self)

    def memset_async(self, value: int, nbytes: int) -> None:
        """Set the first bytes, all to one value."""
        do(lambda: self[:nbytes].fill(value))

    def __add__(self, nbytes: int) -> Memory:  # type: ignore[override]
        made = self[nbytes:].view(Memory)
        made.owner = self.owner
        return made


class _Stream:
    """A stream, whose work is done when it is asked for."""

    ptr = 0

    def __init__(self, non_blocking: bool = False, priority: int | None = None) -> None:
        """There is nothing to block, and nothing that comes first."""

    def __enter__(self) -> _Stream:
        return self

    def __exit__(self, *error: object) -> None:
        """The stream before needs no work to become the current one."""

    def synchronize(self) -> None:
        """Return at once."""

    def wait_event(self, event: _Event) -> None:
        """It has happened."""

    def begin_capture(self) -> None:
        global _captured, _kept
        _captured, _kept = [], []

    def end_capture(self) -> _Graph:
        global _captured, _kept
        assert _captured is not None
        made = _Graph(_captured, _kept)
        _captured, _kept = None, []
        return made


class _Graph:
    """What a step does, in order."""

    def __init__(self, actions: Sequence[Callable[[], object]], kept: Sequence[Any]) -> None:
        self._actions, self._kept = actions, kept

    def launch(self, stream: _Stream) -> None:
        for action in self._actions:
            action()


class _Pool:
    """A memory pool, of which only the allocator is asked for."""

    @staticmethod
    def malloc(nbytes: int) -> Any:
        return np.zeros(nbytes, np.uint8).view(Memory)


class _Event:
    """An event, which has always happened."""

    done = True

    def __init__(self, block: bool = False, disable_timing: bool = False) -> None:
        """There is no time to take, and nothing to wait for."""

    def synchronize(self) -> None:
        """Return at once."""

    def record(self, stream: _Stream) -> None:
        """Nothing waits for it."""


@contextmanager
def _allocator(malloc: object) -> Iterator[None]:
    """What is allocated within a capture is kept by its graph, whatever the pool."""
    yield


def _cuda() -> types.SimpleNamespace:
    stream = _Stream()
    runtime = types.SimpleNamespace(
        getDevice=lambda: 0,
        memcpyHostToDevice=1,
        memcpyAsync=lambda to, at, size, kind, stream: ctypes.memmove(to, at, size),
        CUDARuntimeError=RuntimeError,
    )
    return types.SimpleNamespace(
        runtime=runtime,
        Device=nullcontext,
        get_current_stream=lambda: stream,
        Stream=_Stream,
        Event=_Event,
        MemoryPool=_Pool,
        using_allocator=_allocator,
    )


class Library(types.ModuleType):
    """NumPy by CuPy's names."""

    cuda = _cuda()
    ndarray = Data

    def __getattr__(self, name: str) -> Any:
        return _passing(getattr(np, name))

    def empty(self, *args: Any, **kwargs: Any) -> Any:
        """Zeros, which do not vary from run to run."""
        return self.zeros(*args, **kwargs)

    class products:
        """Products by addresses, in the place of cuBLAS."""

        @staticmethod
        def prepare(
            a: Any, b: Any, out: Any, batch: int, steps: Sequence[int], add: bool
        ) -> Callable[..., None]:
            def multiply(*places: int) -> None:
                parts = zip((a, b, out), places, steps, strict=True)
                left, right, made = (_matrices(one, at, batch, step) for one, at, step in parts)
                _multiply(left, right, made, add)

            return lambda *places: do(lambda: multiply(*places))

        @staticmethod
        def prepare_ended(
            a: Any, b: Any, out: Any, batch: int, steps: Sequence[int], added: Sequence[str], relu: bool
        ) -> Callable[..., None]:
            """In the place of cuBLASLt: with a bias and a matrix, whose addresses precede the last, and a ReLU."""

            def multiply(at: int, of: int, *then: int) -> None:
                parts = zip((a, b, out), (at, of, then[-1]), steps, strict=True)
                left, right, made = (_matrices(one, place, batch, step) for one, place, step in parts)
                more = []
                for name, place in zip(added, then, strict=False):
                    row = np.zeros(out.shape[-1], out.dtype)
                    if name == "row":
                        ctypes.memmove(address(row), place, row.nbytes)
                    more.append(row if name == "row" else _matrices(out, place, batch, steps[2]))
                _end(left, right, made, more, relu)

            return lambda *places: do(lambda: multiply(*places))

        @staticmethod
        def prepare_pointers(a: Any, b: Any, out: Any, batch: int) -> Callable[[int], None]:
            def multiply(table: int) -> None:
                places = np.array((ctypes.c_uint64 * (3 * batch)).from_address(table)).reshape(3, batch).T
                for row in places.tolist():
                    _multiply(*(_matrices(one, at, 1, 0) for one, at in zip((a, b, out), row, strict=True)))

            return lambda table: do(lambda: multiply(table))


def _passing(found: Any) -> Any:
    """A name of NumPy's; a function's new arrays pass for a GPU's, and are made anew in each launch of a graph."""
    if isinstance(found, types.ModuleType):
        return _Module(found)
    if not callable(found) or isinstance(found, type):
        return found

    def call(*args: Any, **kwargs: Any) -> Any:
        return _passed(found(*args, **kwargs), lambda: found(*args, **kwargs))

    return call


class _Module:
    """A module of NumPy's."""

    def __init__(self, found: types.ModuleType) -> None:
        self._found = found

    def __getattr__(self, name: str) -> Any:
        return _passing(getattr(self._found, name))


def _passed(made: Any, again: Callable[[], Any]) -> Any:
    if isinstance(made, tuple):
        parts = [_passed(one, partial(_part, again, i)) for i, one in enumerate(made)]
        return type(made)(*parts) if hasattr(made, "_fields") else tuple(parts)
    if not isinstance(made, np.ndarray):
        return made
    if _captured is not None and made.flags.owndata:
        _captured.append(lambda: np.copyto(made, again()))
    return keep(made.view(Data))


def _part(make: Callable[[], Any], index: int) -> Any:
    return make()[index]


def _matrices(one: Any, at: int, batch: int, step: int) -> Any:
    """A batch of matrices at an address."""
    rows, columns = one.shape[-2:]
    size = one.dtype.itemsize
    strides = (step * size, *one.strides[-2:])
    last = sum((n - 1) * stride for n, stride in zip((batch, rows, columns), strides, strict=True))
    memory = (ctypes.c_uint8 * (last + size)).from_address(at)
    return np.ndarray((batch, rows, columns), one.dtype, memory, strides=strides)


def _end(a: Any, b: Any, out: Any, added: Sequence[Any], relu: bool) -> None:
    wide = dtypes.info(a.dtype).acc
    with np.errstate(all="ignore"):
        made = sum((one.astype(wide) for one in added), np.matmul(a.astype(wide), b.astype(wide)))
        out[...] = np.maximum(made, 0) if relu else made


def _multiply(a: Any, b: Any, out: Any, add: bool = False) -> None:
    wide = dtypes.info(a.dtype).acc
    with np.errstate(all="ignore"):
        made = np.matmul(a.astype(wide), b.astype(wide))
        out[...] = out + made if add else made
