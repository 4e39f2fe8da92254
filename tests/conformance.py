"""Run the public conformance suite of the Python Array API standard, data-apis/array-api-tests, against cukern.

Usage: python tests/conformance.py SUITE [--device DEVICE] [further arguments of pytest]

SUITE is a checkout of https://github.com/data-apis/array-api-tests with its submodule; the packages of its
requirements.txt must be installed. What cannot pass is named, with the reason, in tests/conformance_skips.txt.
"""

from __future__ import annotations

import argparse
import builtins
import importlib.machinery
import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


def _max(*args: object, **options: object) -> object:
    """The suite takes the widest of the complex dtypes, and cukern has none."""
    one = len(args) == 1 and "default" not in options
    return builtins.max(*args, **options, **({"default": (None, 0)} if one else {}))


def load_dtype_helpers(suite: Path) -> None:
    """Import the suite's module of dtypes, which stops without a complex dtype, with ``max`` of nothing allowed."""
    path = suite / "array_api_tests" / "dtype_helpers.py"
    loader = importlib.machinery.SourceFileLoader("array_api_tests.dtype_helpers", str(path))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    import array_api_tests

    module = importlib.util.module_from_spec(spec)
    vars(module)["max"] = _max
    sys.modules[loader.name] = module
    loader.exec_module(module)
    vars(array_api_tests)["dtype_helpers"] = module


class Skips:
    """Skips what cukern cannot pass on a device, beside what is named in the skips file."""

    def __init__(self, device: str) -> None:
        self.device = device

    def _reason(self, name: str) -> str:
        # The suite names the special cases of complex operands by their imaginary parts.
        if "imag(x_i)" in name:
            return "cukern has no complex dtype"
        if "test_dunder_dlpack" in name and self.device != "host":
            return (
                "asks for a GPU's memory on the host without a copy, which is a BufferError by the standard"
            )
        return ""

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Mark them."""
        import pytest

        for item in items:
            if reason := self._reason(item.nodeid):
                item.add_marker(pytest.mark.skip(reason=reason))


def main() -> int:
    """Run the suite as its README says, in this process."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("suite", type=Path)
    parser.add_argument("--device", default="host")
    options, rest = parser.parse_known_args()
    suite = options.suite.resolve()
    os.environ.update(
        ARRAY_API_TESTS_MODULE="cukern",
        ARRAY_API_TESTS_VERSION="2025.12",
        ARRAY_API_TESTS_SKIP_DTYPES="complex64,complex128",
        CUKERN_DEVICE=options.device,
    )
    sys.path[:0] = [str(suite), str(HERE.parent)]
    load_dtype_helpers(suite)
    import pytest

    skips = HERE / "conformance_skips.txt"
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
    ]
    if skips.exists():
        fixed += ["--skips-file", str(skips)]
    return int(pytest.main([*fixed, *where, *rest], plugins=[Skips(options.device)]))


if __name__ == "__main__":
    sys.exit(main())
