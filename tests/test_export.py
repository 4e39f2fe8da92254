"""``python -m cukern export``: folders that need no cukern compute what the operator does."""

from __future__ import annotations

import ctypes
import importlib
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cukern.export
from cukern.device.host.backend import Host
from cukern.text import signature

ARGS = {
    "ColumnSums": "ck.ones((3, 20)), ck.ones(20)",
    "Scaled": "ck.ones((3, 20)), 0.5",
    "twice": "ck.ones((3, 20)), 60, 0.5",
}
FILE = Path(__file__).parent / "exported.py"
SOURCES = Path(cukern.export.__file__).parent / "folder"
#: A program without launches, whose result has a size of its own.
PROGRAM = """
from .runtime import Plan
NAME, ARGUMENTS, OUTPUTS, SEVERAL, DIFFERENTIABLE = "own", [("x", "float32", False)], 1, False, False
KINDS, RANKS, WORDS, OPTIONS = [True], {"forward": [1]}, {"forward": ["x"]}, []
def forward(x):
    return Plan([x], [((FACTOR,), "float32")], [], [], lambda at: [])
"""


def export(name: str, target: str, args: str, out: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cukern", "export", f"{FILE}::{name}", "--to", target, "--args", args]
    return subprocess.run([*command, "--out", str(out)], capture_output=True, text=True)


@cache
def compiled(path: Path) -> Any:
    unit = signature.parse(path.read_text())
    return unit.signature.params, Host().compile(0, replace(unit, trusted=True))


def launch(
    path: Path, options: Any, device: int, stream: int, grid: Any, block: Any, shared: int, values: Any
) -> None:
    """Launches on the host in the place of a GPU."""
    params, function = compiled(path)
    given = []
    for param, value in zip(params, values, strict=True):
        if param.kind != "pointer":
            given.append(value if isinstance(value, bytes) else value.value)
        else:
            memory = (ctypes.c_uint8 * 1).from_address(value.value) if value.value else None
            given.append(None if memory is None else np.frombuffer(memory, np.uint8))
    function(grid, block, shared, given)


def clear(address: int, nbytes: int, device: int, stream: int) -> None:
    ctypes.memset(address, 0, nbytes)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exported")
    said = export(
        "ColumnSums", "torch", "ck.ones((3, 20), 'float16'), ck.ones(20, 'float16')", folder / "columns_torch"
    )
    assert not said.returncode, said.stderr
    assert "forward: 1 launches, for any sizes: x (x_0, x_1), w (x_1,)\n" in said.stdout
    assert "backward: 1 launches, for any sizes: x (x_0, x_1), w (x_1,), result0 (x_0, x_1)" in said.stdout
    return folder


def loaded(folders: Path, name: str) -> tuple[Any, Any]:
    """The program and the runtime of a folder, without its binding."""
    package = importlib.machinery.ModuleSpec(name, None, is_package=True)
    package.submodule_search_locations = [str(folders / name)]
    sys.modules[name] = importlib.util.module_from_spec(package)
    runtime = importlib.import_module(f"{name}.runtime")
    runtime.launch, runtime.clear = launch, clear
    return importlib.import_module(f"{name}.program"), runtime


def run(folders: Path, name: str, direction: str, arrays: list[Any]) -> list[Any]:
    program, runtime = loaded(folders, name)
    plan = runtime.planned(
        program,
        getattr(program, direction),
        program.RANKS[direction],
        program.WORDS[direction],
        [x.shape for x in arrays],
    )
    results = [np.full(shape, 7, dtype) for shape, dtype in plan.results]
    memory = [
        np.frombuffer(bytearray(n if isinstance(n, bytes) else b"\7" * n), np.uint8) for n in plan.memory
    ]
    runtime.run(program, plan, [x.ctypes.data for x in (*arrays, *results, *memory)], 0, 0)
    return results


@pytest.mark.unchecked_only("its launches have addresses without sizes")
@pytest.mark.parametrize("shape", [(3, 20), (1, 1), (5, 16), (11, 77)])
def test_a_folder_computes_for_any_sizes(folders: Path, shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(1)
    x, g = rng.normal(size=shape).astype("f2"), rng.normal(size=shape).astype("f2")
    w = rng.normal(size=shape[1]).astype("f2")
    y, sums = run(folders, "columns_torch", "forward", [x, w])
    exact = x.astype("f8").sum(0)
    assert np.allclose(sums, exact, atol=1e-4) and np.allclose(
        y, np.broadcast_to(w * exact, shape), atol=1e-2
    )
    dx, dw = run(folders, "columns_torch", "backward", [x, w, y, sums, g])
    assert np.allclose(dx, np.broadcast_to(w * g.astype("f8").sum(0), shape), atol=1e-2)
    assert np.allclose(dw, g.astype("f8").sum(0) * exact, rtol=1e-2, atol=1e-2)


def test_nvrtc_compiles_the_kernels_as_the_folder_asks_it(folders: Path) -> None:
    program, runtime = loaded(folders, "columns_torch")
    try:
        runtime._library("nvrtc")
    except RuntimeError:
        pytest.skip("needs NVRTC")
    for path in sorted((folders / "columns_torch" / "kernels").iterdir()):
        assert path.stem.encode() in runtime._compiled(path.read_text(), "sm_90", program.OPTIONS)
    with pytest.raises(RuntimeError, match=r"kernel.cu\(1\): error"):
        runtime._compiled("none", "sm_90", program.OPTIONS)


def test_shapes_that_do_not_fit_are_refused(folders: Path) -> None:
    x = np.ones((3, 20), "f2")
    with pytest.raises(ValueError, match=r"columnsums: argument w: expected shape \(20,\), got \(21,\)"):
        run(folders, "columns_torch", "forward", [x, np.ones(21, "f2")])
    with pytest.raises(ValueError, match=r"columnsums: argument x: expected 2 axes, got shape \(3,\)"):
        run(folders, "columns_torch", "forward", [x[:, 0], x[:, 0]])


def test_what_depends_on_sizes_in_other_ways_is_for_the_sizes_of_the_examples(tmp_path: Path) -> None:
    said = export("Table", "torch", "ck.ones((3, 20))", tmp_path / "some folder")
    for direction in ("forward", "backward"):
        expected = f"{direction}: 1 launches, for the sizes of the examples: stream_ (3, 20)"
        assert expected in said.stdout, said
    readme = (tmp_path / "some folder" / "README.md").read_text()
    assert "table = importlib.import_module('some folder').table" in readme
    assert "The forward takes these shapes alone: stream_ (3, 20)." in readme


def test_folders_of_one_name_are_operators_of_their_own(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    sys.path.insert(0, str(tmp_path))
    try:
        operators = []
        for factor in (2, 3):
            folder = tmp_path / f"own_{factor}"
            folder.mkdir()
            for name in ("of_torch", "runtime"):
                (folder / f"{name}.py").write_text((SOURCES / f"{name}.py").read_text())
            (folder / "__init__.py").write_text("")
            (folder / "program.py").write_text(PROGRAM.replace("FACTOR", str(factor)))
            binding = importlib.import_module(f"{folder.name}.of_torch")
            binding.runtime.launch = lambda *_: None
            operators.append(binding.operator(importlib.import_module(f"{folder.name}.program")))
        assert [one(torch.ones(3)).shape[0] for one in operators] == [2, 3]
    finally:
        sys.path.remove(str(tmp_path))


@pytest.mark.thorough
@pytest.mark.parametrize(
    "name, args, said",
    [
        ("by_numpy", "ck.ones((2, 3))", "Failure: result 0 does not come from launches of kernels alone"),
        (
            "number",
            "ck.ones((2, 3))",
            "export: number: expected a Function, an operator of one, or a function",
        ),
        ("_forward", "ck.ones((2, 3))", "a kernel is exported by a function that launches it"),
        ("ColumnSums", "", "export: columnsums: expected example arguments: --args"),
        ("Missing", "ck.ones(2)", "exported.py defines no Missing"),
    ],
)
def test_what_cannot_be_exported(tmp_path: Path, name: str, args: str, said: str) -> None:
    result = export(name, "torch", args, tmp_path / "out")
    assert result.returncode and said in result.stderr, result.stderr


@pytest.mark.thorough
@pytest.mark.parametrize("target", ["torch", "jax"])
@pytest.mark.parametrize("name", ["ColumnSums", "Scaled", "twice"])
def test_folders_work_without_cukern(tmp_path: Path, target: str, name: str) -> None:
    """The folder's own test: in a process that cannot import cukern, and in one with the host in the place of a GPU."""
    pytest.importorskip(target)
    if name == "twice":
        pytest.importorskip("torch")
    folder = tmp_path / "exported_one"
    result = export(name, target, ARGS[name], folder)
    assert not result.returncode, result.stderr
    env = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu"}
    own = f"""
import sys, pytest
sys.modules["cukern"] = None
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", {str(folder)!r}]))
"""
    alone = subprocess.run(
        [sys.executable, "-P", "-c", own], capture_output=True, text=True, env=env, cwd=tmp_path
    )
    assert "1 passed, 1 skipped" in alone.stdout, alone.stdout + alone.stderr
    inside = f"""
import importlib, sys, pytest
sys.path[:0] = [{str(FILE.parent)!r}, {str(tmp_path)!r}]
import test_export
class Plugin:
    def pytest_collection_modifyitems(self, items):
        runtime = sys.modules["hosted"].binding.runtime
        runtime.launch, runtime.clear = test_export.launch, test_export.clear
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "-n", "0", {str(tmp_path / "hosted")!r}], plugins=[Plugin()]))
"""
    folder.rename(tmp_path / "hosted")
    with_host = subprocess.run(
        [sys.executable, "-c", inside], capture_output=True, text=True, env=env, cwd=tmp_path
    )
    assert "2 passed" in with_host.stdout, with_host.stdout + with_host.stderr


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["ColumnSums", "Scaled"])
def test_nvcc_builds_the_functions(tmp_path: Path, name: str) -> None:
    if shutil.which("nvcc") is None:
        pytest.skip("needs nvcc")
    result = export(name, "cuda", ARGS[name], tmp_path / "functions")
    assert not result.returncode, result.stderr
    built = subprocess.run(
        ["sh", str(tmp_path / "functions" / "build.sh"), "-arch=sm_80"], capture_output=True, text=True
    )
    assert not built.returncode, built.stderr
    assert (tmp_path / "functions" / f"lib{name.lower()}.so").exists()
