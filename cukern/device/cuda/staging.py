"""Copies of large arrays between the host's memory and a GPU's, in pieces through page-locked memory.

A GPU copies at the speed of its link from and to page-locked memory alone ("Page-Locked Host Memory" in NVIDIA's CUDA
C++ Programming Guide). One thread that fills such memory is slower than the link, so several do, each with the next
piece. Copies have streams of their own, one for each calling thread, and run while kernels of the current stream do.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

#: Bytes from which on arrays are copied in pieces.
LARGE = 8 << 20
#: Bytes of a piece.
PIECE = 4 << 20
#: Threads that copy pieces.
THREADS = 8
#: Pieces of page-locked memory per thread: one is filled while another is copied (double buffering).
EACH = 2

Bytes = npt.NDArray[np.uint8]


class PageLockedMemoryRefused(Exception):
    """The system locks no more pages of memory."""


class _Piece:
    """Page-locked memory, and an event after its last copy."""

    def __init__(self, cupy: ModuleType) -> None:
        try:
            memory = cupy.cuda.alloc_pinned_memory(PIECE)
        except cupy.cuda.runtime.CUDARuntimeError as error:
            raise PageLockedMemoryRefused(str(error)) from None
        self.data: Bytes = np.frombuffer(memory, np.uint8, PIECE)
        self.address = int(self.data.ctypes.data)
        self.copied = cupy.cuda.Event(block=True, disable_timing=True)


class _Own(threading.local):
    """The stream of a thread's copies, and the pieces of a thread of the pool."""

    def __init__(self, cupy: ModuleType) -> None:
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.pieces: list[_Piece] = []


class Staging:
    """Copies between the host and one GPU, which is the current device in each call.

    Both ways raise :class:`PageLockedMemoryRefused` where pieces are needed and there is no memory for them.

    Args:
        cupy: the module.
        index: of the GPU.
    """

    def __init__(self, cupy: ModuleType, index: int) -> None:
        self._cupy, self._index, self._own = cupy, index, _Own(cupy)
        self._count = max(1, min(THREADS, len(os.sched_getaffinity(0))))
        self._threads = ThreadPoolExecutor(self._count, "cukern-copies")

    def upload(self, data: npt.NDArray[Any]) -> Any:
        """A new array of the GPU with the values of a C-contiguous one of NumPy's."""
        uploaded = self._cupy.empty(data.shape, data.dtype)
        source, start = data.reshape(-1).view(np.uint8), uploaded.data.ptr
        with self._stream() as stream:
            if self._is_page_locked(source):
                self._copy(start, source.ctypes.data, source.size, True, stream)
                stream.synchronize()  # the caller may write it next
            else:
                self._divide(source, lambda begin, part, piece: self._up(start + begin, part, piece, stream))
        return uploaded

    def download(self, data: Any) -> npt.NDArray[Any]:
        """A new array of NumPy's with the values of a C-contiguous one of the GPU."""
        downloaded = np.empty(data.shape, data.dtype)
        target, start = downloaded.reshape(-1).view(np.uint8), data.data.ptr
        with self._stream() as stream:
            self._divide(target, lambda begin, part, piece: self._down(part, start + begin, piece, stream))
        return downloaded

    @contextmanager
    def _stream(self) -> Iterator[Any]:
        """The calling thread's stream, in order with what the current stream had to do and what it does next."""
        current, own = self._cupy.cuda.get_current_stream(), self._own.stream
        # Memory of a new array may still be used by kernels whose arrays are gone.
        own.wait_event(current.record(self._cupy.cuda.Event(disable_timing=True)))
        try:
            yield own
        finally:
            current.wait_event(own.record(self._cupy.cuda.Event(disable_timing=True)))

    def _divide(self, memory: Bytes, copy: Callable[[int, Bytes, _Piece], None]) -> None:
        """Call ``copy`` with the start of each part of the host's memory, the part and a piece, by several threads."""
        jobs = []
        try:
            for first in range(0, min(memory.size, self._count * PIECE), PIECE):
                begins = range(first, memory.size, self._count * PIECE)
                try:
                    jobs.append(self._threads.submit(self._each, memory, begins, copy))
                except RuntimeError:  # no thread can start, as when the interpreter ends
                    self._each(memory, begins, copy)
        finally:
            wait(jobs)  # all of them, before an error lets the memory go
        for job in jobs:
            job.result()

    def _each(self, memory: Bytes, begins: range, copy: Callable[[int, Bytes, _Piece], None]) -> None:
        """The parts of one thread, which uses its pieces in rotation."""
        with self._cupy.cuda.Device(self._index):
            pieces = self._own.pieces
            while len(pieces) < EACH:
                pieces.append(_Piece(self._cupy))
            for begin in begins:
                pieces.append(pieces.pop(0))
                pieces[-1].copied.synchronize()  # no earlier copy uses it
                copy(begin, memory[begin : begin + PIECE], pieces[-1])

    def _up(self, to: int, part: Bytes, piece: _Piece, stream: Any) -> None:
        np.copyto(piece.data[: part.size], part)
        self._copy(to, piece.address, part.size, True, stream)
        piece.copied.record(stream)

    def _down(self, part: Bytes, at: int, piece: _Piece, stream: Any) -> None:
        self._copy(piece.address, at, part.size, False, stream)
        piece.copied.record(stream)
        piece.copied.synchronize()
        np.copyto(part, piece.data[: part.size])

    def _copy(self, to: int, at: int, nbytes: int, up: bool, stream: Any) -> None:
        runtime = self._cupy.cuda.runtime
        kind = runtime.memcpyHostToDevice if up else runtime.memcpyDeviceToHost
        runtime.memcpyAsync(to, at, nbytes, kind, stream.ptr)

    def _is_page_locked(self, memory: Bytes) -> bool:
        runtime, first = self._cupy.cuda.runtime, memory.ctypes.data
        kinds = {runtime.pointerGetAttributes(at).type for at in (first, first + memory.size - 1)}
        return kinds == {runtime.memoryTypeHost}
