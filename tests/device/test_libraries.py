"""NVIDIA's libraries: what is called is what the extras install, and what is missing is named."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
import tomllib
import types
from pathlib import Path

import pytest

import cukern as ck
from cukern.device.cuda import libraries

ROOT = Path(__file__).parent.parent.parent
#: Submodules of CuPy that bring libraries.
WITH_LIBRARIES = {"linalg", "fft", "random", "sparse", "cutensor", "testing", "cudnn"}
LOADED = """
import re, sys
import cukern as ck
x = ck.asarray([[2.0, 1.0], [1.0, 3.0]], device="cuda:0")
x @ x
for name in ("cholesky", "det", "eigh", "inv", "qr", "slogdet", "svd"):
    getattr(ck.linalg, name)(x)
ck.linalg.solve(x, x)
with ck.device("cuda:0"):
    ck.random.default_rng(0).normal(size=3)
print("LOADED", *sorted(set(re.findall(r"/lib((?:cu|nv)[A-Za-z]+)[-.\\w]*[.]so", open("/proc/self/maps").read()))))
"""


def installed(extra: str) -> set[str]:
    """The packages of an extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return {re.split("[<>=]", one)[0] for one in project["optional-dependencies"][extra]}


def wheel(library: str, extra: str) -> str:
    return libraries.WHEELS[library] + ("-cu12" if extra == "cuda12" else "")


def submodules() -> set[str]:
    """The submodules of CuPy that cukern's source names, as ``xp.linalg``."""
    found = set()
    for path in (ROOT / "cukern").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and isinstance(node.value, (ast.Name, ast.Attribute)):
                owner = node.value.id if isinstance(node.value, ast.Name) else node.value.attr
                if owner in ("xp", "cupy"):
                    found.add(node.attr)
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("cupy."):
                found.add((node.module or "").split(".")[1])
    return found


@pytest.mark.parametrize("extra", ["cuda12", "cuda13"])
def test_the_extra_installs_every_library_that_is_called(extra):
    called = submodules()
    assert "linalg" in called
    assert called & WITH_LIBRARIES <= libraries.SUBMODULES.keys()
    wanted = {"nvrtc", "cudart", "cublas", "cufft", *libraries.SUBMODULES.values()}
    for _ in range(3):
        wanted |= {other for one in wanted for other in libraries.NEEDS.get(one, ())}
    assert wanted == libraries.WHEELS.keys()
    assert {wheel(one, extra) for one in wanted} <= installed(extra)


@pytest.mark.skipif(not any(d.kind == "cuda" for d in ck.devices()), reason="needs a GPU")
def test_what_a_gpu_has_loaded_is_what_the_extra_installs():
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    loaded = done.stdout.partition("LOADED ")[2].split()
    assert {"cublas", "cusolver", "nvrtc"} <= set(loaded)
    drivers = {"cuda", "cudadebugger"}
    own = {one for one in loaded if one not in drivers and not one.startswith("nvidia")}
    assert own - {"nvrtc-builtins", "nvrtcbuiltins"} <= libraries.WHEELS.keys()


class Cupy:
    """CuPy of a CUDA version, its libraries missing."""

    def __init__(self, major: int, error: Exception) -> None:
        def missing(*args: object, **options: object) -> None:
            raise error

        runtime = types.SimpleNamespace(runtimeGetVersion=lambda: 1000 * major)
        device = types.SimpleNamespace(get_cublas_handle=missing)
        self.cuda = types.SimpleNamespace(runtime=runtime, device=device)
        self.linalg = types.SimpleNamespace(inv=missing)


@pytest.mark.parametrize("major", [12, 13])
@pytest.mark.parametrize(
    "error",
    [
        ImportError("libcusolver.so.11: cannot open shared object file: No such file or directory"),
        OSError("libcusolver.so.11: cannot open shared object file"),
        RuntimeError("CuPy failed to load libnvrtc.so.12: OSError"),
    ],
)
def test_a_missing_library_is_an_error_that_names_the_extra(major, error):
    with (
        pytest.raises(ck.DeviceError, match=rf'cusolver .*pip install "cukern\[cuda{major}\]"') as caught,
        libraries.needed(Cupy(major, error), "cusolver"),
    ):
        raise error
    assert caught.value.__cause__ is error


def test_each_call_of_a_library_says_so(monkeypatch):
    lapack = importlib.import_module("cukern.linear.lapack")
    cublas = importlib.import_module("cukern.device.cuda.cublas")
    cupy = Cupy(12, ImportError("no library"))
    x = types.SimpleNamespace(_data=None, device=types.SimpleNamespace(addressable=False, xp=cupy))
    with pytest.raises(ck.DeviceError, match=r"cusolver.*cukern\[cuda12\]"):
        lapack.library.__wrapped__(x, "inv")
    with pytest.raises(ck.DeviceError, match=r"cublas.*cukern\[cuda12\]"):
        cublas.major_version.__wrapped__(cupy)


@pytest.mark.parametrize(
    "error", [RuntimeError("CUSOLVER_STATUS_EXECUTION_FAILED"), OSError(28, "No space left on device")]
)
def test_an_error_of_another_kind_is_passed_on(error):
    with pytest.raises(type(error)) as caught, libraries.needed(None, "cusolver"):
        raise error
    assert caught.value is error


def test_a_library_is_loaded_after_those_that_it_calls(monkeypatch):
    loaded: list[str] = []
    pathfinder = types.SimpleNamespace(load_nvidia_dynamic_lib=loaded.append)
    monkeypatch.setattr(libraries.importlib, "import_module", lambda name: pathfinder)
    libraries.load.cache_clear()
    try:
        libraries.load("cusolver")
    finally:
        libraries.load.cache_clear()
    assert loaded == ["cublasLt", "cublas", "nvJitLink", "cusparse", "cusolver"]
