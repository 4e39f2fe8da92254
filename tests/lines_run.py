"""A plugin for pytest that notes which tests run which lines of some functions.

``LINES_RUN`` names a JSON file ``{"path": [first line of a function, ...]}``; the same with ``.out`` behind is written:
for each test its outcome, its seconds of CPU time, and the lines that ran. What runs while tests are collected stands
under the name ``""``. Of each file, as many tests run as begin within ``LINES_SECONDS`` of CPU time.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Generator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

WANTED = {
    (os.path.abspath(path), line)
    for path, lines in json.loads(Path(os.environ["LINES_RUN"]).read_text()).items()
    for line in lines
}
SECONDS = float(os.environ["LINES_SECONDS"])
_spent: dict[str, float] = {}
_ran: set[tuple[str, int]] = set()
_tests: dict[str, dict[str, Any]] = {}


def _of_function(frame: FrameType, event: str, _: Any) -> Any:
    code = frame.f_code
    if (code.co_filename, code.co_firstlineno) not in WANTED:
        return None
    _ran.add((code.co_filename, code.co_firstlineno))
    return _of_line


def _of_line(frame: FrameType, event: str, _: Any) -> Any:
    _ran.add((frame.f_code.co_filename, frame.f_lineno))
    return _of_line


def _note(name: str, seconds: float) -> None:
    lines = [[os.path.relpath(path), line] for path, line in sorted(_ran)]
    _tests.setdefault(name, {"outcome": "passed"}).update(seconds=round(seconds, 3), lines=lines)
    _ran.clear()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Notes what one test runs, its fixtures included."""
    if not _tests:
        _note("", 0)
    file = item.nodeid.partition("::")[0]
    began = _cpu()
    sys.settrace(_of_function)
    try:
        return (yield)
    finally:
        sys.settrace(None)
        _note(item.nodeid, _cpu() - began)
        _spent[file] = _spent.get(file, 0) + _cpu() - began


def _cpu() -> float:
    return time.process_time() + sum(os.times()[2:4])


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips what begins too late."""
    if _spent.get(item.nodeid.partition("::")[0], 0) > SECONDS:
        pytest.skip("there is no more time for this file")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Notes what became of a test."""
    one = _tests.setdefault(report.nodeid, {"outcome": "passed"})
    if report.outcome != "passed":
        one["outcome"] = report.outcome


def pytest_sessionfinish() -> None:
    """Writes it all."""
    Path(os.environ["LINES_RUN"] + ".out").write_text(json.dumps(_tests))


sys.settrace(_of_function)
threading.settrace(_of_function)
