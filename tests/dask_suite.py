"""Runs Dask's own tests of CuPy chunks with cukern's arrays in the place of CuPy's, and counts what passes.

``python tests/dask_suite.py [pytest's options]``. Dask knows CuPy by name at some places, and what differs there is no
fault. Not run: sparse matrices, and Dask's random generators, which are made of CuPy's.
"""

from __future__ import annotations

import sys
import types
from collections import Counter
from pathlib import Path
from typing import Any

import dask.array
import numpy as np
import pytest

import cukern as ck

FILES = "core creation gufunc linalg overlap percentile reductions routines slicing".split()


class _Standing(types.ModuleType):
    """cukern under the name of CuPy."""

    __version__ = "14.0.0"
    ndarray = ck.Array
    linalg, random, newaxis = ck.linalg, ck.random, None

    def __getattr__(self, name: str) -> Any:
        return getattr(ck, name)

    asnumpy = staticmethod(np.asarray)
    asanyarray = staticmethod(ck.asarray)


class _Count:
    """A plugin of pytest that counts outcomes by file, and keeps the first line of each error."""

    def __init__(self) -> None:
        self.outcomes: dict[str, Counter[str]] = {}
        self.errors: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.outcome != "passed":
            outcome = "expected to fail" if hasattr(report, "wasxfail") else report.outcome
            self.outcomes.setdefault(Path(report.location[0]).stem, Counter())[outcome] += 1
            if outcome == "failed" and report.longrepr is not None:
                self.errors[str(getattr(report.longrepr, "reprcrash", report.longrepr))[-160:]] += 1


def main(options: list[str]) -> int:
    """Run the tests and print the counts."""
    ck.devices()  # asks CuPy, if it is here, before another has its name
    sys.modules["cupy"] = _Standing("cupy")
    ck.set_default_dtype("float64")  # as CuPy's random numbers and arrays of zeros have
    ck.Array.get = ck.Array.numpy  # type: ignore[attr-defined]
    ck.distributed.register_dask()
    folder = Path(dask.array.__file__).parent / "tests"
    files = [str(folder / f"test_cupy_{name}.py") for name in FILES]
    count = _Count()
    own = [
        "-q",
        "--no-header",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "-p",
        "no:cukern",
        "-o",
        "addopts=",
    ]
    own += ["-o", "markers=gpu", "-W", "ignore", f"--rootdir={folder}", "-c", "/dev/null", "--tb=line"]
    pytest.main([*own, *options, *files], plugins=[count])
    total: Counter[str] = Counter()
    for name, found in sorted(count.outcomes.items()):
        total += found
        print(f"{name:28}" + ", ".join(f"{number} {outcome}" for outcome, number in sorted(found.items())))
    print(f"{'all':28}" + ", ".join(f"{number} {outcome}" for outcome, number in sorted(total.items())))
    for text, number in count.errors.most_common(25):
        print(f"{number:4} {text}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
