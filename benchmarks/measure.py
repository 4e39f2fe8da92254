"""What the scripts of this folder share: arguments, times, checked results, and a table printed line by line.

A script measures cases of one operation beside other libraries:

    bench = Benchmark(__doc__, "bfloat16, device times in us", ["sizes", "own", "PyTorch's", "error"])
    for case in CASES:
        x = random(case.scaled(bench.scale), device=bench.device)
        error = difference(str(case), relu(x), exact(x), limit=2**-8)
        own, other = bench.microseconds(lambda: relu(x), torch and (lambda: torch.relu(torch.from_dlpack(x))))
        bench.row(case, own, other, f"{error:.1e}")
    bench.end()
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

import cukern as ck
from cukern.bench.timing import DeviceClock, HostClock, median_seconds

try:
    import torch
except ImportError:
    torch = None  # type: ignore[assignment]

__all__ = ["FIRST", "Benchmark", "Call", "difference", "graphed", "milliseconds", "torch"]

Call = Callable[[], Any]
T = TypeVar("T")
#: Calls whose time on the host is measured.
CALLS = 50
#: Steps of a program before its time is taken, of which the losses are shown; then steps of a round, and rounds.
FIRST, TIMED, ROUNDS = 5, 10, 5


class Benchmark:
    """A run of a script: its arguments, the default device, and the table that it makes.

    Args:
        doc: the script's docstring, shown by ``--help``.
        title: what the table's times are; the device's name is put before it.
        columns: the table's heads.
        arguments: those of the command line, ``--scale N``, ``--only WORD``, ``--quick`` and ``--out FILE``; the
            process's own if not given.
        numbers: further options of the script, with a number as their value, 0 if not given, and what they mean.

    Attributes:
        number: the value of each of these.
    """

    def __init__(
        self,
        doc: str | None,
        title: str,
        columns: Sequence[str],
        arguments: Sequence[str] | None = None,
        numbers: Mapping[str, str] | None = None,
    ) -> None:
        parser = argparse.ArgumentParser(
            description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        parser.add_argument("--scale", type=int, default=1, help="divides sizes, for a try without a GPU")
        parser.add_argument("--only", default="", help="a word of the cases that are measured")
        parser.add_argument("--quick", action="store_true", help="leave out what takes long to compile")
        parser.add_argument("--out", type=Path, help="a file for the table")
        for name, meaning in (numbers or {}).items():
            parser.add_argument(f"--{name}", type=int, default=0, metavar="N", help=meaning)
        options = parser.parse_args(arguments)
        self.number: dict[str, int] = {name: getattr(options, name) for name in numbers or {}}
        self.scale: int = options.scale
        self.quick: bool = options.quick
        self._only: str = options.only
        self.device = ck.zeros(1).device
        self._out: Path | None = options.out
        self._clock: Any = DeviceClock(self.device) if self.device.kind == "cuda" else HostClock()
        self._columns = len(columns)
        self._lines: list[str] = []
        self._add(f"{self.device.properties.name}, {title}", "", f"| {' | '.join(columns)} |")
        self._add("| --- " * self._columns + "|")

    def _add(self, *lines: str) -> None:
        self._lines += lines
        print(*lines, sep="\n", flush=True)

    def chosen(self, cases: Sequence[T]) -> list[T]:
        """The cases whose names contain the word that ``--only`` gives."""
        return [one for one in cases if self._only in str(one)]

    def microseconds(self, *sides: Call | Sequence[Call] | None) -> list[float | None]:
        """The median time on the device of a call of each side, measured by turns.

        Args:
            sides: a call, or several that do the same work on different memory, used cyclically; None has no time.
        """
        taken = [[side] if callable(side) else side for side in sides if side is not None]
        seconds = iter(median_seconds(self._clock, taken))
        return [None if side is None else 1e6 * next(seconds) for side in sides]

    def host_microseconds(self, call: Call | None) -> float | None:
        """The median time in which a call returns, the device having nothing else to do."""
        if call is None:
            return None
        times = []
        for _ in range(CALLS):
            self.device.synchronize()
            start = time.perf_counter()
            call()
            times.append(1e6 * (time.perf_counter() - start))
        return statistics.median(times)

    def copy_of(self, moved: int) -> Call:
        """A copy by the device's own library that reads ``moved / 2`` bytes and writes as many."""
        xp = self.device.xp
        source = xp.zeros(moved // 8, np.float32)
        target = xp.empty_like(source)
        return lambda: xp.copyto(target, source)

    def row(self, *cells: object) -> None:
        """Add a line to the table: floats are shown with one digit, None as nothing.

        Raises:
            ValueError: there are not as many cells as columns.
        """
        if len(cells) != self._columns:
            raise ValueError(f"row: expected {self._columns} cells, got {len(cells)}")
        shown = ["" if one is None else f"{one:.1f}" if isinstance(one, float) else str(one) for one in cells]
        self._add(f"| {' | '.join(shown)} |")

    def end(self, *lines: str) -> None:
        """Print what follows the table, and write all to the file that ``--out`` names."""
        if lines:
            self._add("", *lines)
        if self._out:
            self._out.write_text("\n".join(self._lines) + "\n")


def difference(name: str, made: ck.Array, exact: ck.Array, limit: float, relative: bool = False) -> float:
    """The largest difference of a result to the exact one, both in the exact one's dtype.

    Args:
        name: the case, for the message.
        relative: divide by the largest magnitude of ``exact``.

    Raises:
        AssertionError: it is over the limit, or NaN.
    """
    apart = float(ck.max(ck.abs(made.astype(exact.dtype) - exact)))
    if relative:
        apart /= float(ck.max(ck.abs(exact)))
    if not apart <= limit:
        raise AssertionError(f"{name}: the results differ by {apart:.2g}, expected {limit:.2g} at most")
    return apart


def graphed(step: Callable[[], Any]) -> Callable[[], Any]:
    """A step of PyTorch as a CUDA graph, recorded in its call number `FIRST`."""
    cuda, graph = torch.cuda, torch.cuda.CUDAGraph()
    side = cuda.Stream()
    losses: list[Any] = []

    def replay() -> Any:
        if len(losses) < FIRST - 1:
            side.wait_stream(cuda.current_stream())
            with cuda.stream(side):  # its first calls allocate what must not be recorded
                losses.append(step())
            cuda.current_stream().wait_stream(side)
            return losses[-1]
        if len(losses) == FIRST - 1:
            with cuda.graph(graph):
                losses.append(step())
        graph.replay()
        return losses[-1]

    return replay


def milliseconds(steps: Sequence[Callable[[], Any]], synchronize: Callable[[], None]) -> list[float]:
    """The milliseconds of a call of each step, measured by turns."""
    taken: list[list[float]] = [[] for _ in steps]
    for _ in range(ROUNDS):
        for times, step in zip(taken, steps, strict=True):
            synchronize()
            start = time.perf_counter()
            for _ in range(TIMED):
                step()
            synchronize()
            times.append(1e3 * (time.perf_counter() - start) / TIMED)
    return [statistics.median(times) for times in taken]
