"""Every function of the namespace beside CuPy and PyTorch on a GPU, or beside NumPy on one core of the host.

    python benchmarks/functions.py [--out FILE]           on the default device, a GPU
    python benchmarks/functions.py --host [--out FILE]    arrays of 10^5 and 10^6 elements on the host

The calls are in ``function_cases.py``. A result that differs from the peer's is an error and has no time. The table is
sorted by the time of cukern over that of the fastest peer. ``--warm K/N`` makes each N-th call once from the K-th on,
so that N processes compile for a measured run.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from function_cases import INPUTS, NO_WORK, Case, cases

Call = Callable[[], Any]
#: Elements on a GPU and on the host; the highest ratio that passes on each.
GPU_SIZES, HOST_SIZES = (2**26,), (100_000, 1_000_000)
GPU_GOAL, HOST_GOAL = 1.05, 1.2
#: The largest relative distance of results, in the norm of all elements.
LIMIT = 2e-3
#: Seconds that a round of calls is to take, and the rounds of each side; on the host also the seconds of a case.
ROUND, ROUNDS = 3e-3, 3
HOST_ROUND, HOST_ROUNDS, HOST_SECONDS = 4e-4, (6, 60), 0.25
#: Bytes of device memory held by the pools above which they are emptied.
HELD = 50 << 30


def sizes_of(n: int, host: bool) -> dict[str, int]:
    """The sizes that the calls name, for ``n`` elements."""
    rows = next(r for r in range(math.isqrt(n), 0, -1) if n % r == 0)
    return {
        "N": n,
        "R": rows,
        "M": 512 if host else 4096,
        "D": 64 if host else 512,
        "IMAGES": max(1, n >> 17),
    }


class Inputs(dict[str, Any]):
    """Arguments by name, made by the array module of a device when they are first read."""

    def __init__(self, xp: Any, sizes: Mapping[str, int]) -> None:
        super().__init__(sizes)
        self.xp = xp
        self.rng = xp.random.default_rng(7)

    def __missing__(self, name: str) -> Any:
        if name not in INPUTS:
            raise KeyError(name)
        makers = {"np": self.xp, "normal": self.normal, "uniform": self.uniform, "integers": self.integers}
        text = INPUTS[name]
        made = eval(text, {**makers, "spd": self.positive, **self.sizes})
        self[name] = made.astype(np.complex64) if made.dtype.kind == "c" else made
        return self[name]

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes, by name."""
        return {name: value for name, value in self.items() if isinstance(value, int)}

    def normal(self, *shape: int) -> Any:
        """Standard normal numbers."""
        return self.rng.standard_normal(shape, dtype=np.float32)

    def uniform(self, low: float, high: float, *shape: int) -> Any:
        """Uniform numbers."""
        return self.rng.random(shape, dtype=np.float32) * np.float32(high - low) + np.float32(low)

    def integers(self, low: int, high: int, *shape: int, wide: bool = False) -> Any:
        """Uniform integers below ``high``."""
        return self.rng.integers(low, high, shape, dtype=np.int64 if wide else np.int32)

    def positive(self, count: int, n: int) -> Any:
        """Symmetric positive definite matrices."""
        a = self.normal(count, n, n)
        return a @ a.swapaxes(-1, -2) / np.float32(n) + self.xp.eye(n, dtype=np.float32)


class Converted(dict[str, Any]):
    """The same arguments as one library's arrays."""

    def __init__(self, inputs: Inputs, convert: Callable[[Any], Any], **names: Any) -> None:
        super().__init__(names)
        self.inputs, self.convert = inputs, convert

    def __missing__(self, name: str) -> Any:
        given = self.inputs[name]
        self[name] = made = given if isinstance(given, int) else self.convert(given)
        return made


class Side(NamedTuple):
    """A library of a table: its name, its names and arguments, and where its functions are looked up."""

    name: str
    scope: Converted
    homes: tuple[Any, ...]

    def text(self, case: Case) -> str | None:
        """The text of the library's call; "" for the function of the same name, None if it has none."""
        return case.call if self.name == "cukern" else case.torch if self.name == "torch" else case.other

    def call(self, case: Case) -> Call | None:
        """The library's call of a case; None if it has none."""
        text = self.text(case)
        if text is None:
            return None
        self.scope["name"] = case.name.rpartition(".")[2]
        if not text:
            found = self._found(case.name)
            if found is None or not case.arguments:
                return None
            self.scope["function"] = found
            text = f"function({case.arguments})"
        made: Call = eval(
            f"lambda {', '.join(f'{n}={n}' for n in ('name', 'function'))}: {text.lstrip('~ ')}", self.scope
        )
        return made

    def _found(self, name: str) -> Any:
        *modules, last = name.split(".")
        for home in self.homes:
            for module in modules:
                home = getattr(home, module, None)
            for one in (last, *_numpy_names().get(last, ())):
                if callable(getattr(home, one, None)):
                    return getattr(home, one)
        return None


def _numpy_names() -> dict[str, list[str]]:
    """NumPy's other names of a function."""
    from cukern.namespace import aliases

    made: dict[str, list[str]] = {}
    for other in aliases.__all__:
        made.setdefault(getattr(aliases, other).__name__, []).append(other)
    return made


def sides(inputs: Inputs, host: bool) -> list[Side]:
    """cukern and its peers."""
    import cukern as ck

    xp = inputs.xp
    shared: dict[str, Any] = {"host": host, "function": None, "device": "cuda"}
    rng = xp.random.default_rng(3)
    if host:
        import scipy.special as special

        numpys = Side(
            "NumPy", Converted(inputs, lambda a: a, np=xp, sp=special, rng=rng, **shared), (xp, special)
        )
        return [Side("cukern", Converted(inputs, ck.asarray, ck=ck, np=np, **shared), (ck,)), numpys]
    from cupyx.scipy import special

    found = [
        Side("cukern", Converted(inputs, ck.from_dlpack, ck=ck, np=np, **shared), (ck,)),
        Side("CuPy", Converted(inputs, lambda a: a, np=xp, sp=special, rng=rng, **shared), (xp, special)),
    ]
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    names = {**shared, "torch": torch, "np": np, "F": torch.nn.functional}
    homes = (torch, torch.special, torch.nn.functional)
    return [*found, Side("torch", Converted(inputs, torch.from_dlpack, **names), homes)]


def _arrays(value: Any, xp: Any) -> list[Any]:
    """The arrays of a result, flat."""
    import cukern as ck

    if isinstance(value, (tuple, list)):
        return [array for one in value for array in _arrays(one, xp)]
    if isinstance(value, ck.Array):
        return [value._data.ravel()]
    if value is None or isinstance(value, (bool, int, float, complex)):
        return [xp.asarray(value).ravel()]
    if type(value).__module__.startswith("torch"):
        value = value.resolve_conj().contiguous()
        return [xp.from_dlpack(value.byte() if value.dtype.itemsize == 1 else value).ravel()]
    return [xp.asarray(value).ravel()]


def distance(mine: Any, peers: Any, xp: Any) -> float:
    """The largest relative distance of the arrays of two results; infinite if their sizes differ."""
    worst = 0.0
    for a, b in zip(_arrays(mine, xp), _arrays(peers, xp), strict=False):
        if a.size != b.size:
            return math.inf
        wide = np.complex128 if "c" in (a.dtype.kind, b.dtype.kind) else np.float64
        a, b = a.astype(wide), b.astype(wide)
        same = (a == b) | (xp.isnan(a) & xp.isnan(b))
        norm = float(xp.linalg.norm(xp.where(same, 0, b)))
        apart = float(xp.linalg.norm(xp.where(same, 0, a - b)))
        whole = float(xp.sqrt(xp.sum(xp.where(xp.isfinite(b), abs(b), 0) ** 2)))
        worst = max(worst, apart / max(norm if not math.isfinite(norm) else whole, 1e-30))
    return worst


def seconds(clock: Any, calls: list[Call], warm: Call) -> list[float]:
    """The median seconds of a call of each side on a GPU, measured by turns."""
    counts = []
    for call in calls:
        call()
        warm()
        start = time.perf_counter()
        call()
        warm()
        counts.append(max(1, min(10, int(ROUND / (time.perf_counter() - start)))))
    taken: list[list[float]] = [[] for _ in calls]
    for turn in range(-1, ROUNDS):
        for times, call, count in zip(taken, calls, counts, strict=True):
            spent = clock([call] * count)
            if turn >= 0:
                times += spent
    return [statistics.median(times) for times in taken]


def host_seconds(calls: list[Call]) -> list[float]:
    """The least seconds of a call of each side on the host, measured by turns.

    Other programs may have the core between: it is the process's own time that counts.
    """

    def taken(call: Call, count: int) -> float:
        start = time.process_time_ns()
        for _ in range(count):
            call()
        return 1e-9 * (time.process_time_ns() - start) / count

    best = [min(taken(call, 1) for _ in range(3)) for call in calls]
    counts = [max(1, int(HOST_ROUND / one)) for one in best]
    least, most = HOST_ROUNDS
    started = time.process_time()
    for turn in range(most):
        best = [min(one, taken(call, n)) for one, call, n in zip(best, calls, counts, strict=True)]
        if turn >= least and time.process_time() - started > HOST_SECONDS:
            break
    return best


class Row(NamedTuple):
    """A measured case: the elements, microseconds of each side (None: has no such function), and what is to be said."""

    elements: int
    call: str
    times: list[float | None]
    note: str

    @property
    def ratio(self) -> float | None:
        """cukern's time over the fastest peer's."""
        peers = [one for one in self.times[1:] if one is not None]
        return self.times[0] / min(peers) if peers and self.times[0] else None


class Run:
    """The measurement of all cases at one size."""

    def __init__(self, n: int, host: bool) -> None:
        import cukern as ck
        from cukern.bench.timing import DeviceClock

        self.n, self.host = n, host
        self.device = ck.Device("host") if host else ck.zeros(1).device
        self.xp = self.device.xp
        self.inputs = Inputs(self.xp, sizes_of(n, host))
        self.sides = sides(self.inputs, host)
        self.clock = None if host else DeviceClock(self.device)

    def row(self, case: Case) -> Row:
        """Measure a case; a peer that refuses it, or has another result, has no time."""
        calls: list[Call | None] = []
        results: list[Any] = []
        notes = []
        for side in self.sides:
            call = None
            try:
                call = side.call(case)
                results.append(call() if call else None)
            except Exception as error:
                call = None
                results.append(None)
                notes.append(f"{side.name}: {type(error).__name__}: {str(error).splitlines()[0][:80]}")
            calls.append(call)
        if calls[0] is None:
            return Row(self.n, case.call, [None] * len(calls), "; ".join(notes))
        for place, side in enumerate(self.sides[1:], 1):
            if calls[place] and case.compared(side.text(case)):
                apart = distance(results[0], results[place], self.xp)
                if not apart <= LIMIT:
                    notes.append(f"{side.name}'s result differs by {apart:.1e}")
                    if len([one for one in calls if one]) > 2 or apart == math.inf:
                        calls[place] = None
        del results
        present = [one for one in calls if one]
        taken = iter(self.seconds(present))
        times = [1e6 * next(taken) if call else None for call in calls]
        self.trim()
        return Row(self.n, case.call, times, "; ".join(notes))

    def seconds(self, calls: list[Call]) -> list[float]:
        """The seconds of a call of each side."""
        return host_seconds(calls) if self.host else seconds(self.clock, calls, self.device.synchronize)

    def trim(self) -> None:
        """Empty the memory pools if they hold much."""
        if self.host:
            return
        import torch

        pool = self.xp.get_default_memory_pool()
        if pool.total_bytes() + torch.cuda.memory_reserved() > HELD:
            pool.free_all_blocks()
            torch.cuda.empty_cache()


def table(rows: list[Row], names: list[str], goal: float) -> Iterator[str]:
    """The lines of the table, slowest ratio first; those above the goal are marked."""
    yield f"| elements | call | {' us | '.join(names)} us | ratio | |"
    yield f"| ---: | --- |{' ---: |' * len(names)} ---: | --- |"
    for row in sorted(rows, key=lambda one: -(one.ratio or 0)):
        times = " | ".join("" if one is None else f"{one:.1f}" for one in row.times)
        ratio = row.ratio
        shown = "" if ratio is None else f"**{ratio:.2f}**" if ratio > goal else f"{ratio:.2f}"
        call = row.call.replace("|", "or")
        yield f"| {row.elements:,} | `{call}` | {times} | {shown} | {row.note.replace('|', '/')} |"


def _missing() -> list[str]:
    """Functions of the namespace, and of random generators, without a case."""
    from cukern.cli.catalog import families
    from cukern.random import Generator

    known = {case.name for case in cases()} | NO_WORK
    found = []
    for family in families():
        prefix = family.home.__name__.removeprefix("cukern").lstrip(".")
        found += [f"{prefix}.{name}".lstrip(".") for name in family.names]
    found += [f"random.{name}" for name in dir(Generator) if not name.startswith("_")]
    return [name for name in found if name not in known]


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--host", action="store_true", help="beside NumPy on one core of the host")
    parser.add_argument("--core", type=int, default=0, help="the core, with --host")
    parser.add_argument("--elements", type=int, help="elements of an array, in place of the usual sizes")
    parser.add_argument("--only", nargs="*", help="names of functions, in the order to measure them")
    parser.add_argument("--warm", help="K/N: make each N-th call once, from the K-th on")
    parser.add_argument("--seconds", type=float, default=math.inf, help="the time after which no case begins")
    parser.add_argument("--out", type=Path, help="a file for the table")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    """Measure, print and keep the table."""
    options = _options(arguments)
    if options.host:
        os.sched_setaffinity(0, {options.core})
        # NumPy's library of products is loaded already, and has as many threads as cukern gives it.
        os.environ.update(CUKERN_NUM_THREADS="1", CUKERN_DEVICE="host", CUKERN_QUICK_BUILDS="0")

    chosen = [case for case in cases() if not options.only or case.name in options.only]
    if options.only:
        chosen.sort(key=lambda case: options.only.index(case.name))
    if options.warm:
        first, _, step = options.warm.partition("/")
        chosen = chosen[int(first) :: int(step)]
    started, rows, left = time.perf_counter(), [], []
    sizes = (options.elements,) if options.elements else HOST_SIZES if options.host else GPU_SIZES
    for n in sizes:
        run = Run(n, options.host)
        for case in chosen:
            if options.warm:
                for call in filter(None, (side.call(case) for side in run.sides)):
                    _quietly(call)
            elif time.perf_counter() - started > options.seconds:
                left.append(case.call)
            else:
                rows.append(run.row(case))
    if options.warm:
        return
    names = [side.name for side in run.sides]
    goal = HOST_GOAL if options.host else GPU_GOAL
    slow = sum((row.ratio or 0) > goal for row in rows)
    beside = sum(row.ratio is not None for row in rows)
    made = [
        f"{run.device.properties.name}, {', '.join(names)}: {beside} calls beside a peer, {slow} above {goal}",
        "",
        *table(rows, names, goal),
        *([f"\nNot measured: {', '.join(left)}"] if left else []),
        *([f"\nWithout a case in functions.txt: {', '.join(missing)}"] if (missing := _missing()) else []),
    ]
    print("\n".join(made), f"\n{time.perf_counter() - started:.0f} s", flush=True)
    if options.out:
        options.out.write_text("\n".join(made) + "\n")


def _quietly(call: Call) -> None:
    try:
        call()
    except Exception as error:
        print(f"{type(error).__name__}: {str(error)[:200]}", file=sys.stderr)


if __name__ == "__main__":
    main()
