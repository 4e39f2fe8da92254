"""How the tests themselves run: whatever plugins are installed, and which tests are left out."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

PLUGIN = """
import warnings
import pytest

def pytest_configure(config):
    warnings.warn("configure")

def pytest_sessionstart(session):
    warnings.warn("start")

def pytest_collection_modifyitems(items):
    warnings.warn("collection")

def pytest_runtest_setup(item):
    warnings.warn("setup")

@pytest.fixture(autouse=True)
def meddling():
    warnings.warn("fixture")
"""

TESTS = '''
import warnings
import pytest

def test_quiet():
    pass

def test_loud():
    """
    >>> import warnings
    >>> warnings.warn("a docstring's")
    """
    warnings.warn("a test's")

def test_deprecated():
    warnings.warn("old", DeprecationWarning)

@pytest.mark.filterwarnings("ignore:allowed")
def test_allowed():
    warnings.warn("allowed")

@pytest.mark.thorough
def test_long():
    pass
'''


def run_tests(folder: Path, *options: str) -> tuple[dict[str, int], str]:
    """Runs TESTS under the project's configuration, and counts their outcomes."""
    (folder / "noisy.py").write_text(PLUGIN)
    (folder / "test_them.py").write_text(TESTS)
    for name in ("conftest.py", "pyproject.toml"):
        (folder / name).write_text((ROOT / name).read_text())
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n0", "-p", "no:cacheprovider", *options, "test_them.py"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    words = done.stdout.strip().splitlines()[-1].strip("= ").partition(" in ")[0].split(", ")
    return {outcome: int(count) for count, outcome in map(str.split, words)}, done.stdout


@pytest.mark.parametrize("plugin", [[], ["-p", "noisy"]])
def test_only_a_test_s_own_warning_is_an_error(tmp_path, plugin):
    counts, out = run_tests(tmp_path, *plugin)
    assert (counts["passed"], counts["failed"]) == (2, 3), out
    assert "errors" not in counts
    assert "a docstring's" in out and "a test's" in out and "old" in out


def test_an_option_allows_warnings(tmp_path):
    counts, out = run_tests(tmp_path, "-W", "default")
    assert (counts["passed"], counts.get("failed", 0)) == (5, 0), out


@pytest.mark.parametrize("marks,selected", [(None, 5), ("thorough", 1), ("", 6)])
def test_thorough_tests_are_asked_for(tmp_path, marks, selected):
    counts, out = run_tests(tmp_path, "-Wdefault", *([] if marks is None else ["-m", marks]))
    assert counts["passed"] == selected, out
    assert counts.get("deselected", 0) == 6 - selected
