"""Reports of a measurement: a table in the terminal, Markdown, JSON and a picture."""

from __future__ import annotations

import json
import platform
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import cukern as ck

from ..files import replacing, write_text
from .run import Bench, Result

_HEAD = ("family", "case", "dtype", "time", "rate", "of a copy", "goal", "others", "error")


def row(result: Result) -> tuple[str, ...]:
    """The cells of a result's line."""
    if result.failure:
        return (
            result.family,
            result.name,
            result.dtype,
            "-",
            "-",
            "-",
            _percent(result.goal),
            "-",
            result.failure,
        )
    own = result.measured["cukern"]
    others = ", ".join(
        f"{name} {_amount(result, amount)} ({amount / own:.2f}x)"
        for name, amount in result.measured.items()
        if name != "cukern"
    )
    rate = f"{result.rate:.1f} {result.unit}" if result.rate else "-"
    error = "-" if result.error is None else f"{result.error:.0e}" + ("" if result.right else " WRONG")
    share = _percent(result.share)
    if result.goal is not None and result.share is not None:
        share += " met" if result.share >= result.goal else " short"
    return (
        result.family,
        result.name,
        result.dtype,
        _amount(result, own),
        rate,
        share,
        _percent(result.goal),
        others,
        error,
    )


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.0f}%"


def _amount(result: Result, amount: float) -> str:
    if result.family == "memory":
        return f"{amount / 2**20:.2f} MiB"
    return f"{1e3 * amount:.3f} ms" if amount >= 1e-3 else f"{1e6 * amount:.1f} us"


def line(result: Result) -> str:
    """A result's line in the terminal."""
    return aligned(row(result))


def aligned(cells: tuple[str, ...]) -> str:
    """The cells of a line, padded to the table's columns."""
    family, name, dtype, time, rate, share, goal, others, error = cells
    return (
        f"{family:11} {name:28} {dtype:9} {time:>11} {rate:>14} {share:>10} {goal:>5}  {error:>8}  {others}"
    )


def machine(bench: Bench) -> dict[str, Any]:
    """The conditions of the measurement: device, driver, versions, date."""
    about = {
        "device": bench.device.properties.name,
        "copy GB/s": round(bench.copy),
        "python": platform.python_version(),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        **{library.name: library.version for library in bench.libraries},
    }
    if not bench.device.addressable:
        runtime = bench.device.xp.cuda.runtime
        about["driver"] = _driver()
        about["its CUDA"] = _version(runtime.driverGetVersion())
        about["CUDA runtime"] = _version(runtime.runtimeGetVersion())
    return about


@cache
def _driver() -> str:
    """The version of NVIDIA's driver."""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return "unknown"


def _version(number: int) -> str:
    """CUDA's version number as text: 13020 is 13.2."""
    return f"{number // 1000}.{number % 1000 // 10}"


def markdown(bench: Bench, results: Sequence[Result]) -> str:
    """The results as a Markdown table, with a heading that names machine and versions."""
    about = ", ".join(f"{name} {value}" for name, value in machine(bench).items())
    lines = [
        "# Speed",
        "",
        f"{about}.",
        "",
        f"Medians{' by events around ten calls' if not bench.device.addressable else ''}; of a copy: the share of the",
        "bandwidth of a large copy measured in the same run, each byte of input and output counted once; of products",
        "and of attention but for single queries: of the speed of the first other library's product alone, of its",
        "attention without a function of the scores, and, for few rows, of its copy of the larger factor's bytes.",
        "Each result was compared with float64 in the same run: `error` is the norm of the difference over the norm.",
        "Others: their time, and how many times that of cukern it is; `torch compiled` by `torch.compile`, for large",
        "products in the mode `max-autotune-no-cudagraphs`; `torch graphed` as a CUDA graph that is replayed.",
        "",
        "| " + " | ".join(_HEAD) + " |",
        "|" + " --- |" * len(_HEAD),
        *("| " + " | ".join(row(result)) + " |" for result in results),
    ]
    return "\n".join(lines) + "\n"


def save(folder: Path, bench: Bench, results: Sequence[Result]) -> list[Path]:
    """Write ``bench.md``, ``bench.json`` and, with matplotlib, ``bench.png``; return the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    table, numbers, picture = (folder / f"bench.{kind}" for kind in ("md", "json", "png"))
    write_text(table, markdown(bench, results))
    found = {"machine": machine(bench), "results": [result.as_dict() for result in results]}
    write_text(numbers, json.dumps(found, indent=1) + "\n")
    return [table, numbers, *([picture] if _draw(picture, bench, results) else [])]


def _draw(path: Path, bench: Bench, results: Sequence[Result]) -> bool:
    """Draw the shares of cukern and of the first other library as bars; return False without matplotlib."""
    shown = [one for one in results if one.share is not None and not one.against and not one.failure]
    if not shown:
        return False
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        return False
    dtypes = sorted({one.dtype for one in shown}, reverse=True)
    names = list(dict.fromkeys((one.family, one.name) for one in shown))
    figure = Figure(figsize=(5.2 * len(dtypes) + 2, 0.24 * len(names) + 1.2), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    for axes, dtype in zip(
        figure.subplots(1, len(dtypes), sharey=True, squeeze=False)[0], dtypes, strict=True
    ):
        of_dtype = {(one.family, one.name): one for one in shown if one.dtype == dtype}
        for place, key in enumerate(names):
            one = of_dtype.get(key)
            if one is None or one.share is None:
                continue
            own = one.measured["cukern"]
            other = next((s for name, s in one.measured.items() if name != "cukern"), None)
            axes.barh(place - 0.2, 100 * one.share, 0.38, color="#1f5fa8")
            if other is not None:
                axes.barh(place + 0.2, 100 * one.share * own / other, 0.38, color="#b8c4d1")
            if one.goal is not None:
                axes.plot([100 * one.goal] * 2, [place - 0.42, place + 0.42], color="#1f2933", linewidth=1)
        axes.set_yticks(range(len(names)), [f"{family}: {name}" for family, name in names], fontsize=7)
        axes.set_ylim(len(names), -1)
        axes.set_title(f"{dtype}: % of a copy's bandwidth", loc="left", fontsize=9)
        axes.spines[["top", "right"]].set_visible(False)
    other_names = [library.name for library in bench.libraries[1:2]]
    figure.suptitle(
        f"cukern (dark) and {', '.join(other_names)} (light) on {bench.device.properties.name}", fontsize=10
    )
    with replacing(path) as file:
        figure.savefig(file, format="png")
    return True


def summary(results: Sequence[Result]) -> str:
    """The goals that are met, the results that are wrong, and the cases in which another library is faster."""
    goals = [one for one in results if one.goal is not None and one.share is not None]
    met = sum(one.share >= one.goal for one in goals if one.share is not None and one.goal is not None)
    wrong = [f"{one.name} {one.dtype}" for one in results if not one.right]
    slower = [
        f"{one.name} {one.dtype} ({name})"
        for one in results
        for name, seconds in one.measured.items()
        if name.startswith("torch") and seconds < one.measured["cukern"]
    ]
    lines = [f"wrong or failed: {', '.join(wrong) or 'none'}"]
    if goals:
        lines += [f"goals met: {met} of {len(goals)}", f"slower than torch: {', '.join(slower) or 'none'}"]
    return "\n".join(lines)


def measured(device: ck.Device, families: Sequence[str], folder: Path | None) -> int:
    """Measure, print a line for each case, save the results, and return the exit status."""
    from .run import run

    print(aligned(_HEAD))
    bench, results = run(device, families, lambda result: print(line(result), flush=True))
    print(", ".join(f"{name} {value}" for name, value in machine(bench).items()))
    print(summary(results))
    if folder is not None:
        print("written:", *save(folder, bench, results))
    return 0 if all(result.right for result in results) else 1
