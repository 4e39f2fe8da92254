"""What the collectives make of an engine's results, and what an engine makes of errors, in one process."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import cukern as ck
from cukern.distributed import collectives, nccl


class Doubling:
    """An engine of two ranks that have the same arrays; it adds half types in float32, as MPI's does."""

    size = 2

    def engine(self, device: Any) -> Doubling:
        return self

    def meet(self, call: str, *about: str, known: bool) -> tuple[str, list[str]]:
        return call, []

    def carrier(self, dtype: Any) -> Any:
        return ck.dtypes.float32

    def averages(self, dtype: Any) -> bool:
        return False

    def all_reduce(self, data: Any, out: Any, op: str, *more: object) -> Any:
        assert op == "sum"
        np.add(data, data, out=out)
        return SimpleNamespace(wait=lambda: None)


def test_means_of_half_types_are_rounded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their sums overflow, and those of their gradients."""
    monkeypatch.setattr(collectives, "_checked", lambda call, x, group: Doubling())
    with ck.device("host"):
        x = ck.asarray([40000.0, 1.5, -65504.0], dtype="float16")
        with ck.Tape() as tape:
            tape.watch(x)
            made = ck.distributed.all_reduce(x, "mean")
        assert made.dtype == ck.dtypes.float16
        assert made.tolist() == [40000.0, 1.5, -65504.0]
        assert tape.gradient(made, x, output_gradients=x).tolist() == x.tolist()


@pytest.mark.parametrize("size", [2, 3, 8])
def test_what_nccl_averages(size: int) -> None:
    """What loses no digits: numbers of float16 that are divided before they are added may become subnormal."""
    engine = nccl.Engine.__new__(nccl.Engine)
    engine._size = size
    found = {str(dtype) for dtype in (*ck.dtypes.FLOATS, ck.dtypes.int32) if engine.averages(dtype)}
    assert found == (set() if size == 3 else {"bfloat16", "float32", "float64"})


def test_the_watch_does_not_tell_what_a_call_tells() -> None:
    """It tells a failure that it sees while the program has not been told."""
    seen: list[tuple[bool, str]] = []

    class Told:
        told = False

        def heard(self, seconds: float) -> str:
            return ""

        def fail(self, why: str) -> None:
            seen.append((self.told, why))

        def error(self, about: str, why: str) -> Exception:
            return ck.DistributedError(f"{about}: {why}")

    engine = nccl.Engine.__new__(nccl.Engine)
    engine._member = Told()  # type: ignore[assignment]
    assert "all_reduce: NCCL: gone" in str(engine._failed("all_reduce", "NCCL: gone"))
    assert seen == [(True, "all_reduce: NCCL: gone")]


def _closing(monkeypatch: pytest.MonkeyPatch, done: bool, destroy: Any) -> nccl.Engine:
    """An engine with one collective, to be closed."""
    monkeypatch.setattr(nccl, "_SECONDS_TO_ABORT", 0.2)
    engine = nccl.Engine.__new__(nccl.Engine)
    engine._member = SimpleNamespace(  # type: ignore[assignment]
        told=False, failure="", error=lambda about, why: ck.DistributedError(f"{about}: {why}")
    )
    engine._closed, engine._ending, engine._over = threading.Event(), threading.Lock(), False
    engine._begun, engine._graphs, engine._size = deque([nccl._Begun("all_reduce #1")]), weakref.WeakSet(), 2
    engine._begun[0].over = done
    engine._communicator = SimpleNamespace(destroy=destroy, abort=destroy)
    return engine


def test_a_collective_that_a_rank_never_called_is_an_error_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """NCCL waits for it when it is given back, though all ranks have ended well."""
    never = threading.Event()
    _closing(monkeypatch, True, never.wait).close(True)  # it had finished, and NCCL takes its time
    _closing(monkeypatch, False, lambda: None).close(True)  # it finished meanwhile
    engine = _closing(monkeypatch, False, never.wait)
    with pytest.raises(ck.DistributedError, match="all_reduce #1: not finished at the program's end"):
        engine.close(True)
    never.set()


def test_what_cuda_says_while_the_end_is_awaited_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> None:
        raise RuntimeError("an illegal memory access")

    engine = _closing(monkeypatch, False, lambda: None)
    engine._begun[0].event = SimpleNamespace(synchronize=fails)
    runtime = SimpleNamespace(CUDARuntimeError=RuntimeError)
    engine._device = SimpleNamespace(  # type: ignore[assignment]
        activate=nullcontext, xp=SimpleNamespace(cuda=SimpleNamespace(runtime=runtime))
    )
    engine._errors, engine._broken = (KeyError,), ""
    engine._communicator.check_async_error = lambda: None
    monkeypatch.setattr(nccl, "_LOOK_SECONDS", 0.01)
    engine._look()
    assert engine._fault() == "CUDA: an illegal memory access"


def test_events_are_destroyed_in_the_programs_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread would keep the interpreter's lock while the program copies from the GPU what is not ready."""
    where: list[str] = []
    engine = _closing(monkeypatch, False, lambda: None)

    class Ended:
        def synchronize(self) -> None:
            engine._closed.set()

        def __del__(self) -> None:
            where.append(threading.current_thread().name)

    engine._begun.append(nccl._Begun("all_reduce #2"))
    for one in engine._begun:
        one.event = Ended()
    del one
    engine._spent = deque()
    engine._device = SimpleNamespace(  # type: ignore[assignment]
        activate=nullcontext,
        xp=SimpleNamespace(cuda=SimpleNamespace(runtime=SimpleNamespace(CUDARuntimeError=OSError))),
    )
    monkeypatch.setattr(nccl, "_LOOK_SECONDS", 0.01)
    looking = threading.Thread(target=engine._look, name="looking")
    looking.start()
    looking.join()
    assert not engine._begun
    assert where == []
    engine._member = None
    engine._replayed("a captured step")
    assert where == [threading.current_thread().name] * 2


@pytest.mark.parametrize("shard", [0, 1])
def test_there_is_nothing_to_clip_without_gradients(shard: Any) -> None:
    ck.distributed.init()
    try:
        net = ck.nn.Linear(2, 3)
        training = ck.distributed.DataParallel(ck.optim.SGD(net.parameters(), lr=1.0), shard=shard)
        clipped, norm = training.clip([None, None], 1.0)
    finally:
        ck.distributed.shutdown()
    assert clipped == [None, None] and norm.item() == 0
