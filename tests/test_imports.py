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
