"""``python -m cukern tune``: the times of the variants of kernels on this machine, with their results checked."""

from __future__ import annotations

import argparse
import datetime
import importlib
import itertools
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from .. import __version__
from .. import namespace as ops
from ..array import Array
from ..device import Device, current
from ..device import device as device_of
from ..device.precision import matmul_precision
from ..errors import CukernError
from ..launch import tuned
from ..launch.family import FAMILIES, Family

#: The modules of families that are measured.
_FAMILIES = (
    "linear.families",
    "reduction.families",
    "index.families",
    "nn.attention.families",
    "nn.convolution.families",
    "nn.layer_norm.families",
    "nn.pooling.families",
    "nn.resampling.families",
    "nn.channel_norm.function",
    "quant.families",
)
#: Seconds of the measurement of one variant at most, and batches of launches at least.
_SECONDS = 0.03
_BATCHES = 3
#: How far a variant's result may be from the reference's, by the dtype's bytes: a share of the largest magnitude of it.
_TOLERANCE = {2: 3e-2, 4: 3e-3, 8: 1e-6}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add those of this command."""
    parser.add_argument("families", nargs="*", metavar="FAMILY", help="such as convolution; by default all")
    parser.add_argument("--problems", type=int, default=60, help="problems of each family (default: 60)")
    parser.add_argument(
        "--configs", type=int, default=2, help="constants of each variant that are tried (default: 2)"
    )
    parser.add_argument("--seconds", type=float, default=600, help="when to stop (default: 600)")
    parser.add_argument("--seed", type=int, default=0, help="of the problems that are drawn (default: 0)")
    parser.add_argument("--out", help="the folder to write to, by default the user's, from which it is read")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Measure, write the file, and print what the choice by it costs where a problem is left out."""
    for name in _FAMILIES:
        importlib.import_module(f"..{name}", __package__)
    unknown = [name for name in options.families if name not in FAMILIES]
    if unknown:
        print(f"tune: no family {', '.join(unknown)}; there are {', '.join(sorted(FAMILIES))}")
        return 2
    chosen = [
        one
        for one in FAMILIES.values()
        if one.samples and (not options.families or one.name in options.families)
    ]
    device = current()
    path = Path(options.out or tuned.user_folder()) / tuned.file_name(device.properties.name)
    known = tuned.read(path) if path.is_file() else {}
    wrong = 0
    for number, family in enumerate(chosen):
        limit = options.seconds / len(chosen)
        entries, refused = measure(family, device, options.problems, options.configs, options.seed, limit)
        known[family.name] = entries
        wrong += len(refused)
        for line in refused:
            print(line)
        regrets = tuned.regret(entries)
        print(
            f"{family.name}: {len(entries)} problems; with each left out, the chosen variant is "
            f"{100 * statistics.fmean(regrets or [0]):.1f} % slower than the fastest on average, "
            f"{100 * max(regrets, default=0):.0f} % at most ({number + 1} of {len(chosen)})",
            flush=True,
        )
    about = {
        "device": device.properties.name,
        "date": datetime.date.today().isoformat(),
        "cukern": __version__,
        "python": platform.python_version(),
        "seed": options.seed,
    }
    tuned.save(path, about, known)
    tuned.load.cache_clear()
    print(f"written: {path}")
    return 1 if wrong else 0


def measure(
    family: Family[Any], device: Device, problems: int, configs: int, seed: int, seconds: float
) -> tuple[list[tuned.Entry], list[str]]:
    """The times of a family's variants, and what was wrong with those that were refused.

    Args:
        family: the family.
        device: where they run.
        problems: how many are measured at most.
        configs: constants of each variant that are tried.
        seed: of the problems.
        seconds: when to stop.
    """
    assert family.samples is not None
    entries, refused, end = [], [], time.monotonic() + seconds
    for problem, arrays in itertools.islice(family.samples(device, seed), problems):
        if time.monotonic() > end:
            break
        found: dict[str, tuned.Timed] = {}
        with matmul_precision(getattr(problem, "precision", "highest")), device_of(device):
            wanted = family.reference(problem)(*arrays)
            candidates = [
                (one, config)
                for one in family.choices(problem)
                for config in family.candidates(one, problem, configs)
            ]
            for (one, config), plan in zip(candidates, _compiled(candidates, problem, device), strict=True):
                try:
                    taken = _timed(plan(), arrays, wanted, device)
                except (CukernError, ValueError) as error:
                    refused.append(f"refused: {family.name}, {problem.summary}: {config}: {error}")
                    continue
                if one.variant not in found or taken < found[one.variant].seconds:
                    predicted = config.cost(problem, device.properties)
                    found[one.variant] = tuned.Timed(taken, predicted, family.fields(config))
        if found:
            entries.append(tuned.Entry(dict(problem.features), found))
    return entries, refused


def _compiled(candidates: list[Any], problem: Any, device: Device) -> list[Callable[[], Any]]:
    """The plan of each candidate, compiled by many threads; raises what its compilation raised when it is asked for."""

    def make(candidate: tuple[Any, Any]) -> Any:
        with device_of(device):
            return candidate[1].plan(problem, device.properties)

    with ThreadPoolExecutor() as pool:
        return [pool.submit(make, one).result for one in candidates]


def _timed(plan: Any, arrays: Sequence[Array], wanted: Any, device: Device) -> float:
    """The seconds of a plan.

    Raises:
        ValueError: its result is wrong.
    """
    _check(plan(*arrays), wanted)
    seconds = _clock(lambda: plan(*arrays), device)
    _check(plan(*arrays), wanted)
    return seconds


def _check(result: Any, wanted: Any) -> None:
    results, rights = (
        [x for x in one if x is not None] if isinstance(one, (list, tuple)) else [one]
        for one in (result, wanted)
    )
    for one, its in zip(results, rights, strict=True):
        if one.shape != its.shape:
            raise ValueError(f"its result has shape {one.shape}, that of the reference is {its.shape}")
        if its.size:
            # Where the arrays are: copies to the host would take longer than the launches that are measured.
            given, right = (x.astype("float64") for x in (one, its))
            error = float(ops.max(abs(given - right))) / max(float(ops.max(abs(right))), 1e-30)
            if not error <= _TOLERANCE[one.dtype.itemsize]:
                raise ValueError(f"its result is off by {error:.1e} of the largest number")


def _clock(call: Callable[[], Any], device: Device) -> float:
    """The median seconds of a call: on a GPU of batches of calls, of which the host is ahead."""
    from ..bench.timing import DeviceClock, HostClock

    start = time.perf_counter()
    call()
    device.synchronize()
    once = max(1e-6, time.perf_counter() - start)
    count = max(1, min(10, int(_SECONDS / _BATCHES / once)))
    clock = HostClock() if device.addressable else DeviceClock(device)
    return statistics.median(second for _ in range(_BATCHES) for second in clock([call] * count))
