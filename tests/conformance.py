"""Run the public conformance suite of the Python Array API standard, data-apis/array-api-tests, against cukern.

Usage: python tests/conformance.py SUITE [--device DEVICE] [further arguments of pytest]

SUITE is a checkout of https://github.com/data-apis/array-api-tests with its submodule; the packages of its
requirements.txt must be installed. What cannot pass is skipped, with the reason that ``_reason`` gives.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


def _reason(name: str) -> str:
    """Why cukern cannot pass a test on the device; "" if it can."""
    if "tanh(real(x_i) is +infinity and isfinite(imag(x_i)) and imag(x_i) > 0) -> 1 + 0j" in name:
        return "the 0 has the sign of sin(2 * imag(x_i)), by C99 and in NumPy"
    if "test_can_cast" in name:
        return "takes a missing promotion for float64, as NumPy's dtype float64 equals None"
    if "test_dunder_dlpack" in name and os.environ["CUKERN_DEVICE"] != "host":
        return "asks for a GPU's memory on the host without a copy, which is a BufferError by the standard"
    return ""


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Skip what cukern cannot pass on the device."""
    import pytest

    for item in items:
        if reason := _reason(item.nodeid):
            item.add_marker(pytest.mark.skip(reason=reason))


def main() -> int:
    """Run the suite as its README says, in this process, or in those of pytest's option -n."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("suite", type=Path)
    parser.add_argument("--device", default="host")
    options, rest = parser.parse_known_args()
    suite = options.suite.resolve()
    os.environ.update(
        ARRAY_API_TESTS_MODULE="cukern",
        ARRAY_API_TESTS_VERSION="2025.12",
        CUKERN_DEVICE=options.device,
    )
    sys.path[:0] = [str(suite), str(HERE.parent)]
    import pytest

    named = any(not arg.startswith("-") and "array_api_tests" in arg for arg in rest)
    where = [] if named else ["array_api_tests"]
    os.chdir(suite)
    fixed = [
        "-c",
        str(suite / "pytest.ini"),
        "--rootdir",
        str(suite),
        "--disable-deadline",
        "-p",
        "no:cacheprovider",
        "--disable-warnings",
        *("-p", Path(__file__).stem),  # this module, which the processes of -n import too
    ]
    return int(pytest.main([*fixed, *where, *rest]))


if __name__ == "__main__":
    sys.exit(main())
