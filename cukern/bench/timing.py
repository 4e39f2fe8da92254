"""Clocks: events around calls on a GPU, with the host ahead of it, or the host's own clock."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle
from typing import Any

import cukern as ck

Call = Callable[[], Any]
#: Calls per batch, seconds per measurement, and the most batches of a measurement.
BATCH, SECONDS, BATCHES = 10, 0.15, 9
#: For the host's clock: the least seconds per round, and the number of rounds.
ROUND, ROUNDS = 5e-3, 60

_SPIN = ck.Kernel(
    """
    extern "C" __global__ void << name >>(long long cycles)
    {
        const long long start = clock64();
        while (clock64() - start < cycles) {}
    }""",
    block=1,
    name="spin",
)
_CYCLES_A_SECOND = 2_000_000_000


def _host(calls: Sequence[Call]) -> Iterator[float]:
    for call in calls:
        start = time.perf_counter()
        call()
        yield time.perf_counter() - start


class DeviceClock:
    """The mean seconds of consecutive calls on a GPU's current stream.

    A kernel that waits until the host has launched the calls runs first, so the events enclose only the device's
    time, also for calls of many short kernels. An event takes as long as a short kernel, so there is none between
    calls. The results of all calls are kept until the last one, so results, like arguments, are in different memory.
    """

    def __init__(self, device: ck.Device) -> None:
        self.cuda = device.xp.cuda

    def __call__(self, calls: Sequence[Call]) -> list[float]:
        start = time.perf_counter()
        calls[0]()
        ahead = time.perf_counter() - start
        self.cuda.Device().synchronize()
        before, after = self.cuda.Event(), self.cuda.Event()
        _SPIN(int(_CYCLES_A_SECOND * (1.5 * ahead * len(calls) + 1e-3)), grid=1)
        before.record()
        results = [call() for call in calls]
        after.record()
        after.synchronize()
        del results
        return [1e-3 * float(self.cuda.get_elapsed_time(before, after)) / len(calls)]


class HostClock:
    """Seconds of each of some calls by the host's clock."""

    def __call__(self, calls: Sequence[Call]) -> list[float]:
        return list(_host(calls))


def median_seconds(
    clock: Callable[[Sequence[Call]], list[float]], sides: Sequence[Sequence[Call]]
) -> list[float]:
    """The median seconds of a call of each side, measured alternately.

    Args:
        sides: for each side, calls that do the same work on different memory, used cyclically.
    """
    taken: list[list[float]] = [[] for _ in sides]
    circles = [cycle(calls) for calls in sides]
    for side, circle in enumerate(circles):  # compiles, and fills the memory pool
        for _ in range(2 * len(sides[side])):
            next(circle)()
        clock([next(circle) for _ in range(BATCH)])
    started = time.perf_counter()
    for batch in range(BATCHES):
        for times, circle in zip(taken, circles, strict=True):
            times += clock([next(circle) for _ in range(BATCH)])
        if batch and time.perf_counter() - started > SECONDS * len(sides):
            break
    return [statistics.median(times) for times in taken]


def host_seconds(synchronize: Call, sides: Sequence[Call]) -> list[float]:
    """Seconds of a call of each side by the host's clock, including the device's work.

    This is the mean of the fastest round: a processor's speed varies within seconds, so rounds are short and sides
    alternate.
    """

    def taken(call: Call, calls: int) -> float:
        synchronize()
        start = time.perf_counter()
        for _ in range(calls):
            call()
        synchronize()
        return (time.perf_counter() - start) / calls

    best = [min(taken(call, 3) for _ in range(3)) for call in sides]
    calls = [max(3, int(ROUND / seconds)) for seconds in best]
    for _ in range(ROUNDS):
        best = [min(s, taken(call, n)) for s, call, n in zip(best, sides, calls, strict=True)]
    return best
