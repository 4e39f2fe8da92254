"""The measurement: prepare cases for each library, check them against float64, and time them alternately."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import cukern as ck

from .case import Case, Input
from .cases import CASES
from .libraries import TRACKED, Arrays, Call, Library, NumPyLike, PyTorch, libraries
from .timing import DeviceClock, HostClock, host_seconds, median_seconds

#: The largest relative distance of a result from float64, in the norm.
TOLERANCE = {"float32": 2e-5, "tf32": 1e-3, "bfloat16": 1e-2}
#: The least bytes of memory through which calls rotate, several times the size of any cache.
_ROTATED = 256 * 2**20
#: The kinds of cases that take the host's time.
_CALLS = ("call", "backward")
#: Elements of the small arrays whose addition calls are compared with.
_SMALL = 64


@dataclass(frozen=True)
class Result:
    """The measurements of a case in a dtype.

    Attributes:
        measured: for each library with the case, the median of the seconds, or the bytes of memory.
        rate: in ``unit``.
        share: the rate divided by the large copy's, or by that of what ``against`` says; of a call, the time of an
            addition of small arrays, measured by turns with it, divided by the call's.
        error: the distance of cukern's result from that in float64; None if nothing was compared.
        unit: GB/s of the traffic, TFLOP/s of products and of attention, or, of calls, additions of small arrays in the
            time of one.
        against: what was computed for the share, for most by the first other library; empty for a large copy.
    """

    family: str
    name: str
    dtype: str
    measured: dict[str, float]
    rate: float
    share: float | None
    goal: float | None
    error: float | None
    failure: str = ""
    unit: str = "GB/s"
    against: str = ""

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    @property
    def right(self) -> bool:
        """Whether the result is close enough to float64's."""
        return not self.failure and (self.error is None or self.error <= TOLERANCE[self.dtype])


class Bench:
    """A device, the libraries on it, and the bandwidth of a large copy there."""

    def __init__(self, device: ck.Device) -> None:
        self.device = device
        self.libraries = libraries(device)
        self.references = [one for one in self.libraries if isinstance(one, (PyTorch, NumPyLike))]
        self.clock = HostClock() if device.addressable else DeviceClock(device)
        self.copy = self._copy_rate()
        small = ck.ones(_SMALL, dtype="float32", device=device)
        self._add = partial(ck.add, small, small)
        #: The seconds of an addition, measured by turns with the last call.
        self._added = 0.0

    def _copy_rate(self) -> float:
        """GB/s of a large copy within the device, counting read and written bytes."""
        xp: Any = self.device.xp
        n = 2**24 if self.device.addressable else 2**29
        source, target = xp.ones(n, "float32"), xp.zeros(n, "float32")
        (seconds,) = median_seconds(self.clock, [[partial(xp.copyto, target, source)]])
        return 2 * float(source.nbytes) / seconds / 1e9

    def random(self, one: Input, seed: int) -> Any:
        """A random ndarray of the device for an argument."""
        xp: Any = self.device.xp
        rng = xp.random.default_rng(seed)
        if one.below:
            return rng.integers(0, one.below, one.shape)
        if one.logical:
            return rng.random(one.shape, dtype="float32") < 0.5
        return rng.standard_normal(one.shape, dtype="float32")

    def dtypes(self, case: Case) -> list[str]:
        """The dtypes in which a case is run on this device: NumPy lacks fast half types to compare with."""
        every = case.dtypes.split()
        if self.device.addressable and case.kind == "memory":
            return []
        return every if not self.device.addressable else [one for one in every if one == "float32"]

    def goal(self, case: Case) -> float | None:
        """The goal of a case; goals apply only to GPUs."""
        return case.goal if not self.device.addressable else None

    def measure(self, case: Case, dtype: str) -> Result:
        """Prepare, check and time a case."""
        nbytes = case.nbytes(self.device.kind, dtype)
        sets = max(1, min(16, math.ceil(_ROTATED / max(1.0, nbytes)))) if case.kind == "device" else 1
        if self.device.addressable:
            sets = 1
        datas = [
            {one.name: self.random(one, 10 * k + i) for i, one in enumerate(case.arguments(self.device.kind))}
            for k in range(sets)
        ]
        sides: dict[str, list[Call]] = {}
        for library in self.libraries:
            text = case.expression(library.name)
            if text is None or (dtype == "bfloat16" and isinstance(library, NumPyLike)):
                continue
            sides[library.name] = [self._prepare(library, text, case, dtype, data) for data in datas]
        error = self._error(case, dtype, datas[0], sides["cukern"][0])
        measured = dict(zip(sides, self._taken(case, sides), strict=True))
        rate, share = self._rate(case, dtype, nbytes, measured["cukern"], datas)
        unit, against = "TFLOP/s" if case.flops else "GB/s", case.bare
        if case.kind in _CALLS:
            unit, against = "adds", "ck.add of small arrays"
        goal = self.goal(case)
        return Result(
            case.family, case.name, dtype, measured, rate, share, goal, error, unit=unit, against=against
        )

    def _taken(self, case: Case, sides: Mapping[str, Sequence[Call]]) -> list[float]:
        """The seconds, or the bytes, of each library."""
        if case.kind == "memory":
            return [float(one.peak(sides[one.name][0])) for one in self.libraries if one.name in sides]
        if case.kind in _CALLS:
            synchronize = self.device.synchronize
            every: list[Call] = [*(calls[0] for calls in sides.values()), self._add]
            *times, self._added = host_seconds(synchronize, every)
            return [seconds / (TRACKED if case.grad else 1) for seconds in times]
        return median_seconds(self.clock, list(sides.values()))

    def _arrays(self, library: Library, case: Case, dtype: str, data: Arrays) -> Arrays:
        inputs = {one.name: one for one in case.arguments(self.device.kind)}
        return {name: library.take(array, inputs[name].dtype(dtype)) for name, array in data.items()}

    def _prepare(self, library: Library, text: str, case: Case, dtype: str, data: Arrays) -> Call:
        return library.prepare(text, case, self._arrays(library, case, dtype, data), self._cotangent)

    def _cotangent(self, shape: tuple[int, ...]) -> Any:
        """Random multiples of 1/8, which every dtype holds exactly."""
        xp: Any = self.device.xp
        return xp.asarray(xp.round(8 * self.random(Input("cotangent", shape), 99)) / 8, "float32")

    def _rate(
        self, case: Case, dtype: str, nbytes: float, seconds: float, datas: Sequence[Arrays]
    ) -> tuple[float, float | None]:
        if case.kind in _CALLS:
            return seconds / self._added, self._added / seconds
        if case.kind == "memory":
            return 0.0, None
        operations = case.operations(self.device.kind)
        rate = operations / seconds / 1e12 if operations else nbytes / seconds / 1e9
        if not case.bare:
            return rate, rate / self.copy
        other = self.references[0]
        if dtype != "float32" and isinstance(other, NumPyLike):
            return rate, None
        calls = [self._prepare(other, case.bare, case, dtype, data) for data in datas]
        (theirs,) = median_seconds(self.clock, [calls])
        return rate, theirs / seconds

    def _error(self, case: Case, dtype: str, data: Arrays, ours: Call) -> float | None:
        """The distance of cukern's result from a float64 evaluation by the first other library with the case."""
        for library in self.references:
            text = case.expression(library.name)
            if text is None:
                continue
            arrays = library.widen(self._arrays(library, case, dtype, data))
            exact = library.prepare(text, case, arrays, self._cotangent)()
            for _ in range(2 if case.kind in _CALLS else 0):
                ours()  # a captured step is replayed from its third call on
            return max(library.distance(*pair, case, arrays) for pair in _pairs(ours(), exact))
        return None


def _pairs(ours: Any, exact: Any) -> list[tuple[Any, Any]]:
    if isinstance(exact, (list, tuple)):
        return list(zip(ours, exact, strict=True))
    return [(ours[0] if isinstance(ours, list) else ours, exact)]


def run(
    device: ck.Device, families: Sequence[str], report: Callable[[Result], None]
) -> tuple[Bench, list[Result]]:
    """Measure the cases of some families, by default all; report each as soon as it is measured."""
    bench = Bench(device)
    results = []
    for case in CASES:
        if families and case.family not in families:
            continue
        for dtype in bench.dtypes(case):
            try:
                result = bench.measure(case, dtype)
            except Exception as error:  # a failed case becomes a line of the table
                text = f"{type(error).__name__}: {error}".splitlines()[0][:200]
                result = Result(case.family, case.name, dtype, {}, 0.0, None, bench.goal(case), None, text)
            report(result)
            results.append(result)
    return bench, results
