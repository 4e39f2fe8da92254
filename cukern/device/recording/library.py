"""A stand-in for CuPy by NumPy, with streams and graphs: arrays in the host's memory that pass for those of a GPU.

A captured step does not run, as on a GPU; each launch of its graph runs the captured actions, in order.
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

#: The actions of the step that is being captured; None outside a capture.
_captured: list[Callable[[], object]] | None = None
#: The arrays that its graph uses.
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
        return _bytes_at(first, size, self)

    def __dlpack__(self, *, stream: int | None = None) -> Any:  # type: ignore[override]
        """The memory for another library; there is nothing to wait for."""
        return super().__dlpack__()

    def get(self) -> Any:
        """A copy as a NumPy array."""
        if _captured is not None:
            raise RuntimeError("a value is read while a stream is captured")
        return np.array(self)

    def item(self, *index: Any) -> Any:
        """An element, as a Python number."""
        return self.get().item(*index)

    def copy(self, order: Any = "C") -> Any:
        """A copy, repeated in each launch of a graph."""
        result = keep(super().copy(order))
        if _captured is not None:
            _captured.append(lambda: np.copyto(result.view(np.ndarray), self.view(np.ndarray)))
        return result

    def __setitem__(self, key: Any, value: Any) -> None:
        do(lambda: super(Data, self).__setitem__(key, value))


class Memory(np.ndarray):
    """Bytes, and their address, as CuPy's allocator gives them; ``owner`` keeps the bytes of another array."""

    owner: Any = None

    @property
    def ptr(self) -> int:
        return address(self)

    def memset_async(self, value: int, nbytes: int) -> None:
        """Set the first bytes, all to one value."""
        do(lambda: self[:nbytes].fill(value))

    def __add__(self, nbytes: int) -> Memory:  # type: ignore[override]
        rest = self[nbytes:].view(Memory)
        rest.owner = self.owner
        return rest


def _bytes_at(at: int, nbytes: int, owner: Any) -> Memory:
    """The bytes from an address on, which ``owner`` keeps."""
    memory = memoryview((ctypes.c_uint8 * max(1, nbytes)).from_address(at))
    result = np.frombuffer(memory, np.uint8).view(Memory)
    result.owner = owner
    return result


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
        graph = _Graph(_captured, _kept)
        _captured, _kept = None, []
        return graph


class _Graph:
    """The actions of a step, in order."""

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
        get_current_stream=lambda index=0: stream,
        UnownedMemory=lambda at, nbytes, owner, index: _bytes_at(at, nbytes, owner),
        MemoryPointer=lambda memory, offset: memory,
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
            def multiply(*addresses: int) -> None:
                parts = zip((a, b, out), addresses, steps, strict=True)
                left, right, result = (_matrices(one, at, batch, step) for one, at, step in parts)
                _multiply(left, right, result, add)

            return lambda *addresses: do(lambda: multiply(*addresses))

        @staticmethod
        def prepare_ended(
            a: Any, b: Any, out: Any, batch: int, steps: Sequence[int], added: Sequence[str], relu: bool
        ) -> Callable[..., None]:
            """In the place of cuBLASLt: with a bias and a matrix, whose addresses precede the last, and a ReLU."""

            def multiply(at: int, of: int, *then: int) -> None:
                parts = zip((a, b, out), (at, of, then[-1]), steps, strict=True)
                left, right, result = (
                    _matrices(one, address_of, batch, step) for one, address_of, step in parts
                )
                more = []
                for name, address_of in zip(added, then, strict=False):
                    row = np.zeros(out.shape[-1], out.dtype)
                    if name == "row":
                        ctypes.memmove(address(row), address_of, row.nbytes)
                    more.append(row if name == "row" else _matrices(out, address_of, batch, steps[2]))
                _end(left, right, result, more, relu)

            return lambda *addresses: do(lambda: multiply(*addresses))

        @staticmethod
        def prepare_pointers(a: Any, b: Any, out: Any, batch: int) -> Callable[[int], None]:
            def multiply(table: int) -> None:
                addresses = np.array((ctypes.c_uint64 * (3 * batch)).from_address(table)).reshape(3, batch).T
                for row in addresses.tolist():
                    _multiply(*(_matrices(one, at, 1, 0) for one, at in zip((a, b, out), row, strict=True)))

            return lambda table: do(lambda: multiply(table))


def _passing(value: Any) -> Any:
    """A name of NumPy's; a function's new arrays pass for a GPU's, and are computed anew in each launch of a graph."""
    if isinstance(value, types.ModuleType):
        return _Module(value)
    if not callable(value) or isinstance(value, type):
        return value

    def call(*args: Any, **kwargs: Any) -> Any:
        return _passed(value(*args, **kwargs), lambda: value(*args, **kwargs))

    return call


class _Module:
    """A module of NumPy's."""

    def __init__(self, module: types.ModuleType) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return _passing(getattr(self._module, name))


def _passed(result: Any, again: Callable[[], Any]) -> Any:
    if isinstance(result, tuple):
        parts = [_passed(one, partial(_part, again, i)) for i, one in enumerate(result)]
        return type(result)(*parts) if hasattr(result, "_fields") else tuple(parts)
    if not isinstance(result, np.ndarray):
        return result
    if _captured is not None and result.flags.owndata:
        _captured.append(lambda: np.copyto(result, again()))
    return keep(result.view(Data))


def _part(compute: Callable[[], Any], index: int) -> Any:
    return compute()[index]


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
        result = sum((one.astype(wide) for one in added), np.matmul(a.astype(wide), b.astype(wide)))
        out[...] = np.maximum(result, 0) if relu else result


def _multiply(a: Any, b: Any, out: Any, add: bool = False) -> None:
    wide = dtypes.info(a.dtype).acc
    with np.errstate(all="ignore"):
        product = np.matmul(a.astype(wide), b.astype(wide))
        out[...] = out + product if add else product
