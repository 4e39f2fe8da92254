"""The host builds the library's kernels quickly at first, and optimises those that run long."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cukern.device.host import backend

PROLOGUE = """
import sys
import numpy as np
import cukern as ck
from cukern.device import ahead

scope = ck.device("host")  # which ends when nothing names it
scope.__enter__()
host = sys.modules[type(ck.Device("host").backend).__module__]
built = []

def counted(name):
    real = getattr(host, name)
    setattr(host, name, lambda text: built.append(name) or real(text))

counted("build_quickly")
counted("build_kernel")
x = ck.asarray(np.random.default_rng(0).standard_normal(50_001), dtype="f4")
"""


def run(program: str, **environment: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROLOGUE + program],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that has the runtime and no kernel."""
    folder = tmp_path_factory.mktemp("begun")
    run("host._runtime()\nahead.settle()", **os.environ | {"CUKERN_CACHE_DIR": str(folder)})
    return folder


@pytest.fixture
def environment(begun: Path, tmp_path: Path) -> dict[str, str]:
    folder = shutil.copytree(begun, tmp_path / "cache")
    return {**os.environ, "CUKERN_CACHE_DIR": str(folder), "CUKERN_QUICK_BUILDS": "1"}


LONG = """
first = ck.exp(x)
assert built == ["build_quickly"], built
for _ in range(100_000):
    again = ck.exp(x)
    if len(built) > 1:
        break
ahead.settle()
print(*built)
assert built == ["build_quickly", "build_kernel"], built
for result in (again, ck.exp(x)):
    assert (result.numpy().view("u4") == first.numpy().view("u4")).all()
assert np.allclose(first.numpy(), np.exp(x.numpy()))
"""


def test_a_kernel_that_has_run_long_is_optimised_and_found_so_by_the_next_process(environment) -> None:
    assert run(LONG, **environment) == ["build_quickly", "build_kernel"]
    assert run("ck.exp(x)\nprint(len(built), 'built')", **environment) == ["0", "built"]


def test_one_core_optimises_between_two_launches(environment) -> None:
    assert run("import os\nos.sched_getaffinity = lambda process: {0}\n" + LONG, **environment) == [
        "build_quickly",
        "build_kernel",
    ]


LARGE = """
rows = ck.broadcast_to(ck.asarray([1, 2, 3], dtype="i1"), (6_000_000, 3))
total = ck.sum(ck.astype(rows, ck.int8), axis=1, dtype="i1")
print(*built)
assert (total.numpy() == 6).all()
"""


def test_a_large_launch_is_optimised_before_it_begins(environment) -> None:
    built = run(LARGE, **environment)
    assert "build_kernel" in built, built


def test_what_cannot_be_optimised_runs_on(environment) -> None:
    refuse = """
def fail(text):
    built.append("refused")
    raise ERROR

host.build_kernel = fail
"""
    long = LONG.replace('"build_quickly", "build_kernel"', '"build_quickly", "refused"')
    refused = refuse.replace("ERROR", 'host.CompilerFailure("no memory")')
    assert run(refused + long, **environment) == ["build_quickly", "refused"]
    no_process = refuse.replace("ERROR", 'BlockingIOError("no process can be started")')
    assert "refused" in run(no_process + LARGE, **environment)


def test_a_launch_is_repeated_until_it_has_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other threads that launch the same kernel meanwhile may let it ask again for an optimised build."""
    function = object.__new__(backend.HostFunction)
    answers, optimised = [backend._HAS_RUN_LONG, backend._WILL_RUN_LONG, 0], []
    function._launch, function._handle = lambda handle, packed: answers.pop(0), None
    function._optimise = lambda: optimised.append(len(answers))  # type: ignore[method-assign]
    monkeypatch.setattr(backend, "ahead", lambda job: True)
    function._end(backend._WILL_RUN_LONG, b"")
    assert (answers, optimised) == ([], [3, 1])


def test_quick_builds_can_be_switched_off(environment) -> None:
    environment["CUKERN_QUICK_BUILDS"] = "0"
    assert run("ck.exp(x)\nprint(*built)", **environment) == ["build_kernel"]
    environment["CUKERN_QUICK_BUILDS"] = "yes"
    done = subprocess.run(
        [sys.executable, "-c", PROLOGUE + "ck.exp(x)"], capture_output=True, text=True, env=environment
    )
    assert "CUKERN_QUICK_BUILDS: expected 0 or 1, got 'yes'" in done.stderr


@pytest.mark.parametrize(
    ("dtypes", "functions"),
    [
        (["f4"], "sum softmax"),
        pytest.param(
            ["f2", "f4", "f8", "i1", "i8", "u4"],
            "sum cumsum sort prod var sqrt exp tanh softmax logsumexp",
            marks=pytest.mark.thorough,
        ),
    ],
)
def test_both_builds_give_the_same_bits(environment, dtypes, functions) -> None:
    """For reductions, scans, rows and functions of every kind of dtype."""
    program = f"""
import zlib
rng = np.random.default_rng(1)
for dtype in {dtypes}:
    a = rng.integers(0 if dtype[0] == "u" else -3, 100, (37, 129))
    a = ck.asarray(a / 7 if dtype[0] == "f" else a, dtype=dtype)
    for f in (getattr(ck, name) for name in "{functions}".split()):
        for axis in (0, 1):
            try:
                y = f(a, axis=axis)
            except TypeError:
                try:
                    y = f(a)
                except TypeError:
                    continue
            print(f.__name__, dtype, axis, zlib.crc32(y.numpy().tobytes()))
"""
    quick = run(program, **environment)
    environment["CUKERN_QUICK_BUILDS"] = "0"
    assert quick == run(program, **environment)
    assert len(quick) > len(dtypes) * len(functions.split())
