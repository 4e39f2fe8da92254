"""Warnings are errors in every test, in ``tests/`` and in docstrings; those of pytest's plugins stay warnings."""

from __future__ import annotations

import atexit
import gc
import os
import re
import shutil
import tempfile
from types import ModuleType

import pytest

# Tests on all cores and the processes that they start: threads of a BLAS that wait for each other would take most of
# the time of each. Workers of xdist start with these; a variable that is set stays.
for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

# Where Python is to write no bytecode, each of the processes that tests start would compile the package anew, which
# takes them longer than all else: theirs goes to a folder of the run, out of the source tree.
if os.environ.pop("PYTHONDONTWRITEBYTECODE", "") and "PYTHONPYCACHEPREFIX" not in os.environ:
    os.environ["PYTHONPYCACHEPREFIX"] = tempfile.mkdtemp(prefix="cukern-bytecode-")
    atexit.register(shutil.rmtree, os.environ["PYTHONPYCACHEPREFIX"], ignore_errors=True)

# Collecting the tests makes half a million objects, nearly all to stay, that each garbage collection would visit.
gc.disable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    gc.collect()
    gc.freeze()
    gc.enable()


def _plugins(manager: pytest.PytestPluginManager) -> set[str]:
    """The top-level modules of the installed plugins, beyond pytest's own and the tests' conftest.py."""
    modules = [plugin for plugin in manager.get_plugins() if isinstance(plugin, ModuleType)]
    names = {module.__name__.partition(".")[0] for module in modules}
    return names - {"_pytest", "conftest", "cukern", "pytest_cukern", "tests"}


# Not in pyproject.toml: its filters also hold while plugins start, whose warning would end the run before a test.
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks each test ahead of the marks of its own, which may allow more; ``-W`` takes the place of it all."""
    if config.known_args_namespace.pythonwarnings:
        return
    others = (rf"default:::{re.escape(name)}(\.|\Z)" for name in sorted(_plugins(config.pluginmanager)))
    mark = pytest.mark.filterwarnings("error", *others)
    for item in items:
        item.add_marker(mark, append=False)
