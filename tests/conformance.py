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
    if "test_dunder_dlpack" in name and os.environ["CUKERN_DEVICE"] != "host":
        return "asks for a GPU's memory on the host without a copy, which is a BufferError by the standard"
    return ""


def _tell_none_from_float64() -> None:
    """Let the suite look up a pair of dtypes without a promotion as what no dtype equals.

    It expects ``can_cast`` to be true where the promotion is the target, and float64, NumPy's dtype, equals None.
    """
    from array_api_tests import dtype_helpers

    table, nothing = dtype_helpers.promotion_table, object()
    get = table.get
    table.get = lambda pair, default=nothing: get(pair, default)


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Skip what cukern cannot pass on the device, and run what it can."""
    import pytest

    _tell_none_from_float64()
    for item in items:
        # The suite does not run its test of remainder, which it calls flaky; cukern passes it.
        item.own_markers = [one for one in item.own_markers if one.kwargs.get("reason") != "flaky"]
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
