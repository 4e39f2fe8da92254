"""Collectives of GPU arrays by NCCL, through CuPy, on a stream of their own."""

from __future__ import annotations

import ctypes
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

from .. import dtypes
from ..device import Device, capture_hooks
from ..errors import DistributedError
from .member import Member

#: How often the watch looks at what has not finished.
_LOOK_SECONDS = 0.2


def library() -> Any:
    """CuPy's module ``cupy.cuda.nccl``.

    Raises:
        DistributedError: NCCL is missing.
    """
    try:
        from cupy.cuda import nccl
    except ImportError as error:
        raise DistributedError(f"NCCL needs CuPy ({error}): pip install cukern[cuda12,nccl12]") from None
    if not nccl.available:
        raise DistributedError("NCCL is not here: pip install cukern[nccl12] or cukern[nccl13]")
    return nccl


class Work:
    """A collective that is on the engine's stream."""

    def __init__(
        self, device: Device, done: Any, held: Sequence[Any], member: Member | None, about: str
    ) -> None:
        self._device, self._done, self._held = device, done, held
        self._member, self._about = member, about

    def wait(self) -> None:
        """Let later launches on the current stream wait for the results."""
        if self._member is not None and self._member.failure:
            raise self._member.error(self._about, self._member.failure)
        with self._device.activate():
            self._device.xp.cuda.get_current_stream().wait_event(self._done)
        self._held = ()


class Engine:
    """The collectives of one group on one GPU.

    Args:
        nccl: CuPy's module.
        size, rank: of the group, and of this process in it.
        unique: NCCL's identifier of the group, made by its first rank.
        member: whose failure ends what waits; None in a job of one.
        timeout: seconds after which a collective that has not finished is aborted.
    """

    def __init__(
        self,
        nccl: Any,
        device: Device,
        size: int,
        rank: int,
        unique: bytes,
        member: Member | None,
        timeout: float,
    ) -> None:
        self._nccl, self._device, self._size, self._rank = nccl, device, size, rank
        self._member, self._timeout = member, timeout
        cuda = device.xp.cuda
        with device.activate():
            self._communicator = nccl.NcclCommunicator(size, unique, rank)
            self._stream = cuda.Stream(non_blocking=True)
        self._types = {
            dtypes.int8: nccl.NCCL_INT8,
            dtypes.uint8: nccl.NCCL_UINT8,
            dtypes.int32: nccl.NCCL_INT32,
            dtypes.uint32: nccl.NCCL_UINT32,
            dtypes.int64: nccl.NCCL_INT64,
            dtypes.uint64: nccl.NCCL_UINT64,
            dtypes.float16: nccl.NCCL_FLOAT16,
            dtypes.bfloat16: nccl.NCCL_BFLOAT16,
            dtypes.float32: nccl.NCCL_FLOAT32,
            dtypes.float64: nccl.NCCL_FLOAT64,
            dtypes.complex64: nccl.NCCL_FLOAT32,
            dtypes.complex128: nccl.NCCL_FLOAT64,
        }
        self._operations = {
            "sum": nccl.NCCL_SUM,
            "prod": nccl.NCCL_PROD,
            "max": nccl.NCCL_MAX,
            "min": nccl.NCCL_MIN,
        }
        #: What has not finished: the event, when it began, and the call.
        self._begun: deque[tuple[Any, float, str]] = deque()
        self._closed = threading.Event()
        if member is not None:
            program = threading.get_ident()
            watch = threading.Thread(target=self._watch, args=(program,), name="cukern NCCL", daemon=True)
            watch.start()

    def carrier(self, dtype: dtypes.DType) -> dtypes.DType:
        """The dtype in which elements are reduced: NCCL knows no integers of 16 bits."""
        return dtypes.int32 if dtype in (dtypes.int16, dtypes.uint16) else dtype

    def _start(self, about: str, held: Sequence[Any], call: Any) -> Work:
        """Run ``call`` with the engine's stream, after what is on the current stream."""
        cuda = self._device.xp.cuda
        with self._device.activate():
            before, done = cuda.Event(disable_timing=True), cuda.Event(disable_timing=True)
            before.record(cuda.get_current_stream())
            self._stream.wait_event(before)
            call(self._stream.ptr)
            done.record(self._stream)
        if capture_hooks.recorder() is None and self._member is not None:
            self._begun.append((done, time.monotonic(), about))
        return Work(self._device, done, held, self._member, about)

    def _counted(self, data: Any) -> tuple[int, int]:
        """The number of elements that NCCL reduces, and their type."""
        parts = 2 if data.dtype.kind == "c" else 1
        return data.size * parts, self._types[data.dtype]

    def all_reduce(self, data: Any, op: str, about: str) -> Work:
        """Reduce ``data`` over the ranks, in place."""
        count, kind = self._counted(data)
        at, operation = data.data.ptr, self._operations[op]
        return self._start(
            about,
            (data,),
            lambda stream: self._communicator.allReduce(at, at, count, kind, operation, stream),
        )

    def reduce_scatter(self, data: Any, out: Any, op: str, about: str) -> Work:
        """Reduce ``data`` over the ranks, and give each an equal part of the result."""
        count, kind = self._counted(out)
        source, to, operation = data.data.ptr, out.data.ptr, self._operations[op]
        return self._start(
            about,
            (data, out),
            lambda stream: self._communicator.reduceScatter(source, to, count, kind, operation, stream),
        )

    def all_gather(self, data: Any, out: Any, about: str) -> Work:
        """Put the ``data`` of all ranks into ``out``, one after another."""
        source, to, kind = data.data.ptr, out.data.ptr, self._nccl.NCCL_UINT8
        return self._start(
            about,
            (data, out),
            lambda stream: self._communicator.allGather(source, to, data.nbytes, kind, stream),
        )

    def broadcast(self, data: Any, root: int, about: str) -> Work:
        """Fill ``data`` with that of ``root``."""
        at, kind = data.data.ptr, self._nccl.NCCL_UINT8
        return self._start(
            about,
            (data,),
            lambda stream: self._communicator.broadcast(at, at, data.nbytes, kind, root, stream),
        )

    def all_to_all(self, data: Any, out: Any, about: str) -> Work:
        """Send each rank its equal part of ``data``."""
        part, kind = data.nbytes // self._size, self._nccl.NCCL_UINT8

        def call(stream: int) -> None:
            self._nccl.groupStart()
            for peer in range(self._size):
                self._communicator.send(data.data.ptr + peer * part, part, kind, peer, stream)
                self._communicator.recv(out.data.ptr + peer * part, part, kind, peer, stream)
            self._nccl.groupEnd()

        return self._start(about, (data, out), call)

    def send(self, data: Any, to: int, about: str) -> Work:
        """Send ``data`` to a rank."""
        at, kind = data.data.ptr, self._nccl.NCCL_UINT8
        return self._start(
            about, (data,), lambda stream: self._communicator.send(at, data.nbytes, kind, to, stream)
        )

    def receive(self, data: Any, source: int, about: str) -> Work:
        """Fill ``data`` with what a rank sends."""
        at, kind = data.data.ptr, self._nccl.NCCL_UINT8
        return self._start(
            about, (data,), lambda stream: self._communicator.recv(at, data.nbytes, kind, source, stream)
        )

    def close(self, well: bool) -> None:
        """Give the communicator back."""
        self._closed.set()
        if well:
            self._communicator.destroy()
        else:
            self._communicator.abort()

    def _watch(self, program: int) -> None:
        """Abort what does not finish, and raise in the program's thread, which may be waiting for the GPU."""
        member = self._member
        assert member is not None
        with self._device.activate():
            while not self._closed.wait(_LOOK_SECONDS):
                while self._begun and self._begun[0][0].done:
                    self._begun.popleft()
                if not self._begun:
                    continue
                _, began, about = self._begun[0]
                why = member.failure or self._fault()
                if not why and time.monotonic() - began > self._timeout:
                    why = f"not finished within {self._timeout:g} s"
                if why:
                    member.fail(f"{about}: {why}")
                    self._communicator.abort()
                    _raise_in(program, str(member.error(about, why)))
                    return

    def _fault(self) -> str:
        try:
            self._communicator.check_async_error()
        except self._nccl.NcclError as error:
            return str(error)
        return ""


def _raise_in(thread: int, message: str) -> None:
    """Raise a :class:`DistributedError` in another thread, as soon as it runs Python again."""

    class Aborted(DistributedError):
        """A collective that was aborted."""

        def __init__(self) -> None:
            super().__init__(message)

    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(Aborted))
