"""What ``import cukern`` loads and what it exports."""

from __future__ import annotations

import subprocess
import sys
import types

import pytest

import cukern

HEAVY = (
    "cupy",
    "matplotlib",
    "safetensors.torch",
    "torch",
    "cukern.device.cuda.backend",
    "cukern.device.nvrtc",
    "cukern.demo",
)


def _loaded(statement: str) -> set[str]:
    code = f"import sys; {statement}; print('\\n'.join(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


def test_import_loads_neither_cupy_nor_a_compiler() -> None:
    loaded = _loaded("import cukern")
    assert "cukern.kernel.kernel" in loaded
    assert loaded.isdisjoint(HEAVY)
    assert "subprocess" not in loaded, "importing cukern must not be ready to start a compiler"


def test_the_plugin_of_pytest_loads_nothing_of_cukern() -> None:
    loaded = _loaded("import pytest, pytest_cukern")
    assert not any(name.partition(".")[0] in {"cukern", "numpy", "jinja2"} for name in loaded)


@pytest.mark.parametrize("module", [cukern, cukern.nn, cukern.nn.functional, cukern.optim, cukern.testing])
def test_all_is_what_is_public(module: types.ModuleType) -> None:
    public = {
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and not (isinstance(value, types.ModuleType) and name not in module.__all__)
    }
    public -= {"annotations"}
    assert sorted(module.__all__) == sorted(set(module.__all__)), "a name stands twice"
    assert public == set(module.__all__)
    assert all(hasattr(module, name) for name in module.__all__)
