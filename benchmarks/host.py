"""cukern against NumPy on one core: medians of large contiguous float32 arrays, each result checked in the same run.

Usage: python benchmarks/host.py [--core N] [--out FILE]
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

#: Elements of an array, and timed calls of each side, by turns.
SIZE, ROWS, CALLS = 16_000_000, (4096, 1024), 15


def median_ms(ours: Callable[[], Any], theirs: Callable[[], Any]) -> tuple[float, float]:
    """The median milliseconds of a call of each, measured by turns after a call that is not counted."""
    times: tuple[list[float], list[float]] = ([], [])
    for call in range(CALLS + 1):
        for which, f in enumerate((ours, theirs)):
            start = time.perf_counter()
            f()
            if call:
                times[which].append(1e3 * (time.perf_counter() - start))
    return statistics.median(times[0]), statistics.median(times[1])


def cases() -> dict[str, tuple[Callable[[], Any], Callable[[], Any]]]:
    """cukern's and NumPy's call of each case, on the same random numbers."""
    import numpy as np

    import cukern as ck

    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, SIZE), np.float32)
    m = rng.standard_normal(ROWS, np.float32)
    x, y, z = ck.asarray(a), ck.asarray(b), ck.asarray(m)

    def softmax() -> Any:
        e = np.exp(m - m.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    return {
        "add": (lambda: x + y, lambda: a + b),
        "tanh": (lambda: ck.tanh(x), lambda: np.tanh(a)),
        "exp": (lambda: ck.exp(x), lambda: np.exp(a)),
        "sum": (lambda: ck.sum(x), lambda: a.sum()),
        "sum of columns": (lambda: ck.sum(z, axis=0), lambda: m.sum(0)),
        "softmax of rows": (lambda: ck.softmax(z), softmax),
        "cumsum": (lambda: ck.cumsum(x), lambda: np.cumsum(a)),
        "sort of 1e6": (lambda: ck.sort(x[:1_000_000]), lambda: np.sort(a[:1_000_000])),
        "sort of 1e6, NumPy's stable": (
            lambda: ck.sort(x[:1_000_000]),
            lambda: np.sort(a[:1_000_000], kind="stable"),
        ),
    }


def table() -> str:
    """The results as Markdown."""
    import numpy as np

    from cukern.testing import assert_close

    lines = [
        "# Host speed against NumPy",
        "",
        f"One core, float32, {SIZE:,} elements, rows {ROWS}; medians of {CALLS} calls by turns, results checked.",
        f"{platform.processor() or platform.machine()}, Python {platform.python_version()}, NumPy {np.__version__},"
        f" {datetime.now(UTC):%Y-%m-%d}.",
        "",
        "| case | cukern ms | NumPy ms | speed |",
        "| --- | ---: | ---: | ---: |",
    ]
    for name, (ours, theirs) in cases().items():
        exact = np.asarray(theirs())
        # A running sum of float32 in float32 has lost digits that cukern's, in float64, has.
        assert_close(
            ours(), exact, rtol=2e-3 if name == "cumsum" else 1e-4, atol=5.0 if name == "cumsum" else 1e-2
        )
        mine, numpys = median_ms(ours, theirs)
        lines.append(f"| {name} | {mine:.2f} | {numpys:.2f} | {numpys / mine:.2f}x |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print and keep the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--core", type=int, default=0, help="the core that everything runs on")
    parser.add_argument("--out", type=Path, help="a Markdown file")
    options = parser.parse_args()
    os.sched_setaffinity(0, {options.core})
    os.environ.update(OPENBLAS_NUM_THREADS="1", CUKERN_DEVICE="host")
    made = table()
    print(made)
    if options.out:
        options.out.write_text(made)


if __name__ == "__main__":
    main()
