"""The package as it is published: a wheel, made from the sdist, that runs outside of the source tree."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BUILDERS = pytest.importorskip("build"), pytest.importorskip("hatchling")

RUNS_A_KERNEL = """
import cukern as ck, pathlib, sys
assert pathlib.Path(ck.__file__).is_relative_to(sys.prefix), ck.__file__
with ck.device("host"):
    x = ck.asarray([1.0, 2.0])
    double = ck.Kernel('''
extern "C" __global__ void << name >>(const << elem >>* x, << elem >>* y, int n) {
    __shared__ << elem >> held[<< block >>];
    if (threadIdx.x < n) held[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    if (threadIdx.x < n) y[threadIdx.x] = 2 * held[threadIdx.x];
}''', block=32)
    y = ck.empty(2)
    double(x, y, 2)
    print((y + x).tolist())
"""


def _files(folder: str) -> set[str]:
    paths = (ROOT / folder).rglob("*")
    return {str(p.relative_to(ROOT)) for p in paths if p.is_file() and "__pycache__" not in p.parts}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """An sdist of the tree and a wheel made from that sdist."""
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    (sdist,), (wheel,) = out.glob("*.tar.gz"), out.glob("*.whl")
    return sdist, wheel


def test_sdist_carries_the_sources(built: tuple[Path, Path]) -> None:
    with tarfile.open(built[0]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    folders = ("cukern", "templates", "tests", "benchmarks", "docs", "examples", ".ci", ".github")
    missing = set().union(*map(_files, folders)) - names
    assert not missing
    assert {"LICENSE", "README.md", "CHANGELOG.md", "pyproject.toml", ".pre-commit-config.yaml"} <= names


def test_wheel_carries_templates_and_the_host_runtime(built: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(built[1]) as archive:
        names = set(archive.namelist())
    wanted = _files("cukern") | {f"cukern/{name}" for name in _files("templates")} | {"pytest_cukern.py"}
    assert not wanted - names
    assert "cukern/templates/prelude/base.cuh" in names
    assert not any(name.startswith(("tests/", "templates/")) for name in names)


def test_wheel_runs_from_another_folder(built: tuple[Path, Path], tmp_path: Path) -> None:
    place = tmp_path / "environment"
    # The dependencies are those of this environment, so that nothing is downloaded.
    venv.create(place, with_pip=False)
    site = next(place.glob("lib/python*/site-packages"))
    here = [path for path in sys.path if path.endswith("-packages")]
    (site / "dependencies.pth").write_text("\n".join(here))
    install = [sys.executable, "-m", "pip", "--python", str(place), "install", "--no-deps", "--no-index"]
    install += ["--ignore-installed", "--quiet", str(built[1])]
    subprocess.run(install, check=True)
    run = subprocess.run(
        [place / "bin" / "python", "-I", "-c", RUNS_A_KERNEL],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == "[3.0, 6.0]"


def test_core_dependencies_are_those_that_cukern_imports() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {requirement.partition(">")[0].replace("-", "_") for requirement in project["dependencies"]}
    assert names == {
        "filelock",
        "jinja2",
        "ml_dtypes",
        "numpy",
        "opt_einsum",
        "platformdirs",
        "safetensors",
        "threadpoolctl",
        "tree_sitter",
        "tree_sitter_cuda",
    }
