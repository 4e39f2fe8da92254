"""Copies of large arrays in pieces, by a stand-in for CUDA whose copies happen only when something waits for them."""

from __future__ import annotations

import ctypes
import threading
import time
import types
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import cukern as ck
from cukern.device.cuda import staging

HOST = 1
LOCK = threading.RLock()


class Stream:
    """Work in order, done when an event after it is waited for."""

    ptr = 0

    def __init__(self, non_blocking: bool = True) -> None:
        self.work: list[Callable[[], object]] = []
        self.ptr = id(self)
        CUDA.streams[self.ptr] = self

    def run(self, count: int) -> None:
        with LOCK:
            while self.work and count > 0:
                self.work.pop(0)()
                count -= 1

    def synchronize(self) -> None:
        self.run(len(self.work))

    def record(self, event: Event) -> Event:
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        with LOCK:
            self.work.append(event.synchronize)


class Event:
    """A place in the work of a stream."""

    def __init__(self, block: bool = False, disable_timing: bool = False) -> None:
        self.wait: Callable[[], object] = lambda: None

    def record(self, stream: Stream) -> None:
        done = threading.Event()

        def finish() -> None:
            with LOCK:
                while not done.is_set():
                    stream.run(1)

        with LOCK:
            stream.work.append(done.set)
        self.wait = finish

    def synchronize(self) -> None:
        self.wait()


class CUDA:
    """What the module calls of ``cupy.cuda``."""

    streams: dict[int, Stream] = {}  # noqa: RUF012
    locked: set[int] = set()  # noqa: RUF012
    copies: list[int] = []  # noqa: RUF012
    Stream, Event, Device = Stream, Event, staticmethod(lambda index: nullcontext())
    current: Stream

    class runtime:
        memcpyHostToDevice, memcpyDeviceToHost, memoryTypeHost = 1, 2, HOST
        CUDARuntimeError = RuntimeError
        refuses = False
        fails = 0

        @staticmethod
        def pointerGetAttributes(at: int) -> Any:
            return types.SimpleNamespace(type=HOST if at in CUDA.locked else 0)

        @staticmethod
        def memcpyAsync(to: int, at: int, nbytes: int, kind: int, stream: int) -> None:
            CUDA.copies.append(nbytes)
            if CUDA.runtime.fails and CUDA.runtime.fails == len(CUDA.copies):
                raise RuntimeError("the link is down")
            time.sleep(0.005 if CUDA.runtime.fails else 0.0)
            with LOCK:
                CUDA.streams[stream].work.append(lambda: ctypes.memmove(to, at, nbytes))

    @staticmethod
    def alloc_pinned_memory(nbytes: int) -> Any:
        if CUDA.runtime.refuses:
            raise RuntimeError("cudaErrorMemoryAllocation")
        return np.zeros(nbytes, np.uint8)

    @staticmethod
    def get_current_stream() -> Stream:
        return CUDA.current


class OnGpu(np.ndarray):
    @property
    def data(self) -> Any:
        return types.SimpleNamespace(ptr=self.ctypes.data)


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> staging.Staging:
    for name, value in {"PIECE": 64, "THREADS": 2, "EACH": 1}.items():
        monkeypatch.setattr(staging, name, value)
    CUDA.current, CUDA.runtime.fails = Stream(), 0
    CUDA.copies.clear()
    CUDA.locked.clear()
    cupy: Any = types.SimpleNamespace(
        cuda=CUDA, empty=lambda shape, dtype: np.zeros(shape, dtype).view(OnGpu)
    )
    return staging.Staging(cupy, 0)


@pytest.mark.parametrize("size", [1, 16, 17, 100])
def test_both_ways(stage: staging.Staging, size: int) -> None:
    given = np.random.default_rng(size).normal(size=(size, 1)).astype("float32")
    kept = given.copy()
    made = stage.upload(given)
    given[...] = 0  # the copy is of the values at the call
    CUDA.current.synchronize()
    np.testing.assert_array_equal(np.asarray(made), kept)
    assert sorted(CUDA.copies) == sorted([64] * (size * 4 // 64) + [size * 4 % 64] * (size % 16 > 0))
    np.testing.assert_array_equal(stage.download(made), kept)


def test_several_threads_at_once(stage: staging.Staging) -> None:
    given = [np.random.default_rng(i).integers(0, 99, 200) for i in range(6)]
    made: dict[int, Any] = {}
    threads = [
        threading.Thread(target=lambda i=i: made.update({i: stage.upload(given[i])})) for i in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    CUDA.current.synchronize()
    assert all((np.asarray(made[i]) == given[i]).all() for i in range(6))


def test_what_came_before_on_the_current_stream_comes_before(stage: staging.Staging) -> None:
    """Memory of a new array may still be written by kernels of an array that is gone."""
    made = np.zeros(4, "int32").view(OnGpu)
    stage._cupy.empty = lambda shape, dtype: made  # type: ignore[attr-defined]
    CUDA.current.work.append(lambda: made.fill(7))
    stage.upload(np.arange(4, dtype="int32"))
    CUDA.current.synchronize()
    assert made.tolist() == [0, 1, 2, 3]
    CUDA.current.work.append(lambda: made.fill(5))
    assert stage.download(made).tolist() == [5] * 4


def test_page_locked_memory_is_read_where_it_is(stage: staging.Staging) -> None:
    given = np.arange(100, dtype="int32")
    first = given.ctypes.data
    CUDA.locked.update({first, first + given.nbytes - 1})
    made = stage.upload(given)
    assert CUDA.copies == [400]
    given[...] = 0  # nothing reads it after the call
    assert np.asarray(made).tolist() == list(range(100))
    CUDA.locked.discard(first + given.nbytes - 1)  # only a part is
    stage.upload(given)
    assert sorted(CUDA.copies[1:]) == [16] + [64] * 6


def test_an_error_of_a_piece_is_raised_when_all_have_ended(stage: staging.Staging) -> None:
    CUDA.runtime.fails = 1
    with pytest.raises(RuntimeError, match="the link is down"):
        stage.upload(np.zeros(100, "int32"))
    count, CUDA.runtime.fails = len(CUDA.copies), 0
    time.sleep(0.03)
    assert count == len(CUDA.copies) in (4, 5)  # those of the other thread, and the one that failed
    assert np.asarray(stage.upload(np.ones(100, "int32"))).size == 100


def test_refused_page_locked_memory_is_named(stage: staging.Staging, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CUDA.runtime, "refuses", True)
    for call in (lambda: stage.upload(np.ones(100, "int32")), lambda: stage.download(np.ones(9).view(OnGpu))):
        with pytest.raises(staging.PageLockedMemoryRefused, match="cudaErrorMemoryAllocation"):
            call()
    monkeypatch.setattr(CUDA.runtime, "refuses", False)
    assert np.asarray(stage.upload(np.ones(100, "int32"))).size == 100


def test_arrays_are_copied_without_page_locked_memory(
    device: ck.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    if device.addressable:
        pytest.skip("copies between the host and itself have no pieces")

    def refuse(cupy: Any) -> None:
        raise staging.PageLockedMemoryRefused

    monkeypatch.setattr(staging, "_Piece", refuse)
    monkeypatch.setattr(device.backend, "_staging", {})
    given = np.random.default_rng(0).normal(size=(2, staging.LARGE // 8))
    made = ck.asarray(given.T, device=device)
    np.testing.assert_array_equal(made.numpy(), given.T)


@pytest.mark.parametrize("order", ["C", "F", "strided"])
def test_large_arrays_of_a_device(device: ck.Device, order: str) -> None:
    size = staging.LARGE // 8
    given = np.arange(3.0 * size).reshape(3, size)
    given = given[:, ::2] if order == "strided" else np.asarray(given, order=order)
    made = ck.asarray(given, device=device)
    assert made.device is device
    np.testing.assert_array_equal(made.numpy(), given)
    moved = ck.asarray(given, device="host").to_device(device)
    np.testing.assert_array_equal(np.asarray(moved), given)
