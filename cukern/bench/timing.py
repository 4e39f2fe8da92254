"""Clocks: events around some calls on a GPU, with the host kept ahead of it; the host's own clock elsewhere."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle
from typing import Any

import cukern as ck

Call = Callable[[], Any]
#: Calls in a batch, seconds of a measurement, and batches of it at most.
BATCH, SECONDS, BATCHES = 10, 0.15, 9
#: Of the host's clock: seconds of a round at least, and rounds.
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
    """The mean seconds of some calls that follow each other on a GPU's current stream.

    A kernel that only waits goes first, for as long as the host will take to launch the calls: so what the
    events enclose is the device's time alone, also of calls of many short kernels. An event takes as long as
    a short kernel, so one is not set between calls. What the calls return is kept until the last of them:
    results, like arguments, lie in other memory each time.
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
    """The median seconds of a call of each side, the sides measured by turns.

    Args:
        sides: for each side, calls that do the same work on different memory, taken in a circle.
    """
    taken: list[list[float]] = [[] for _ in sides]
    circles = [cycle(calls) for calls in sides]
    for side, circle in enumerate(circles):  # compiled, and the memory pool filled
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
    """Seconds of a call of each side by the host's clock, until the device is done.

    The mean of a round, of the quickest round: a processor changes its speed from one second to the next, so rounds are
    short, and the sides take turns.
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
