"""Launches that are kept in files: a failure is named where they are replayed, by one command."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from planted import PAIRS, Pair

import cukern as ck
from cukern.cli import main

#: Failures of GPUs: illegal and misaligned addresses, too little shared memory, races, threads that wait for ever.
PLANTED = [*PAIRS[:8], PAIRS[9], *PAIRS[12:18], *PAIRS[23:25], PAIRS[29], *PAIRS[53:56]]
DOUBLE = """
extern "C" __global__ void << name >>(const << elem >>* x, << elem >>* y, int n) {
    int i = blockIdx.x * << block >> + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}"""
pytestmark = pytest.mark.unchecked_only("a checked launch is named where it fails")


def _command(path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "cukern", "replay", str(path), *options], capture_output=True, text=True
    )


def _edit(folder: Path, change: Any) -> None:
    """Change what a launch has written, as another device would have written it."""
    (path,) = folder.glob("*.result.npz")
    stored = dict(np.load(path))
    values = stored["a0"].view(np.float32).copy()
    change(values)
    packed = io.BytesIO()
    np.savez(packed, **{**stored, "a0": values.view(np.uint8)})
    path.write_bytes(packed.getvalue())


@pytest.mark.parametrize(
    "pair",
    [
        pytest.param(one, id=f"{one.kinds}, {one.name}", marks=() if i % 7 == 0 else pytest.mark.thorough)
        for i, one in enumerate(PLANTED)
    ],
)
def test_a_planted_failure_is_named(pair: Pair, tmp_path: Path) -> None:
    with ck.device("host"), ck.testing.recorded(tmp_path), contextlib.suppress(ck.LaunchError):
        pair.run(True)
    result = ck.testing.replay(tmp_path)
    assert {one.kind for one in result.reports} & set(pair.expected.split(",")), str(result)
    assert all(one.place.startswith("<planted") for one in result.reports), str(result)


def test_twenty_failures_are_planted() -> None:
    assert len(PLANTED) >= 20


def test_a_right_launch_has_no_finding_and_a_wrong_number_is_told(tmp_path: Path) -> None:
    kernel = ck.Kernel(DOUBLE, name="double", block=32)
    x = ck.linspace(1, 2, 120, dtype="float32", device="host")[20:]
    with ck.testing.recorded(tmp_path, keep=1):
        kernel(x, ck.zeros(100, device="host"), 100)
        kernel(x, ck.zeros(100, device="host"), 100)
    assert len(list(tmp_path.iterdir())) == 2  # the launch before is gone
    result = ck.testing.replay(tmp_path)
    assert not result.found and "no finding" in str(result) and "double on host ended" in str(result)

    def broken(values: Any) -> None:
        values[64:] = 0

    _edit(tmp_path, broken)
    result = ck.testing.replay(tmp_path)
    assert result.difference.startswith(
        "argument y differs from what host wrote, from element 64 on: 3.41176"
    ) and result.difference.endswith(
        "here, 0.0 there; 36 of 100 elements differ; written by y of <double>:4"
    ), result
    said = _command(tmp_path)
    assert said.returncode == 1 and "from element 64 on" in said.stdout

    def rounded(values: Any) -> None:
        values[:] = np.nextafter(values, np.float32(9))

    _edit(tmp_path, lambda values: values.__setitem__(slice(64, None), 2 * x.numpy()[64:]))
    _edit(tmp_path, rounded)
    assert not ck.testing.replay(tmp_path).found


def test_variables_types_and_arguments_are_as_they_were(tmp_path: Path) -> None:
    text = """
__constant__ float taps[2];
struct Pair { int first; float second; };
extern "C" __global__ void << name >>(const << elem >>* x, << elem >>* const* y, Pair p, int n, const int* none) {
    int i = blockIdx.x * << block >> + threadIdx.x;
    if (i < n && !none) y[1][i] = taps[1] * float(x[i]) * << factor >> + p.second;
}"""
    kernel = ck.Kernel(text, name="several", block=16, factor=3, elem="bfloat16")
    with ck.device("host"):
        kernel.globals["taps"] = [1, 2]
    x, y = ck.arange(20, dtype="bfloat16", device="host"), ck.zeros(20, dtype="bfloat16", device="host")
    pair = np.array([(1, 0.5)], [("first", "i4"), ("second", "f4")])[0]
    with ck.testing.recorded(tmp_path):
        kernel(x, [None, y], pair, 20, None, grid=np.int64(2), factor=np.int32(4))
    from cukern.kernel.recorder import read

    kernel.globals["taps"] = [0, 0]
    kernel(x, [None, ck.zeros_like(y)], pair, 20, None, grid=2, factor=4)  # what is compiled may be shared
    again = read(tmp_path, ck.Kernel)
    assert again.grid == (2, 1, 1) and again.overrides["factor"] == 4 and again.args[0].dtype == ck.bfloat16
    again.kernel(*again.args, grid=again.grid, **again.overrides)
    assert again.args[1][1].tolist() == y.tolist() and y.tolist()[:3] == [0.5, 8.5, 16.5]


def test_large_arrays_are_drawn_between_their_ends(tmp_path: Path) -> None:
    kernel = ck.Kernel(
        """
extern "C" __global__ void << name >>(const int* index, const float* x, float* y, int n) {
    int i = blockIdx.x * << block >> + threadIdx.x;
    if (i < n) y[i] = x[index[i]];
}""",
        name="gather",
        block=32,
    )
    index = ck.asarray(np.arange(1000, dtype=np.int32) % 11, device="host")
    with ck.testing.recorded(tmp_path, whole=100):
        kernel(index, ck.ones(11, device="host"), ck.zeros(1000, device="host"), 1000)
    assert (
        not (result := ck.testing.replay(tmp_path)).found
        and "argument 0, argument 2: too large" in result.told
    )
    with ck.testing.recorded(tmp_path, whole=100):
        kernel(index, ck.ones(10, device="host"), ck.zeros(1000, device="host"), 1000)
    (report,) = ck.testing.replay(tmp_path).reports
    assert (report.kind, report.array, report.element) == ("out of bounds", "x", 10)


COPY = """
extern "C" __global__ void << name >>(const << elem >>* x, << elem >>* y, int n) {
    int i = blockIdx.x * << block >> + threadIdx.x;
    if (i < n) y[i] = x[i];
}"""


@pytest.mark.parametrize(
    "dtype, values, least, largest",
    [
        ("float32", [-np.inf, -2, np.nan, 3], -2, 3),
        ("float64", [-1.7e308, 1.7e308], -1.7e308, 1.7e308),
        ("uint64", [2**64 - 2, 2**64 - 1], 2**64 - 2, 2**64 - 1),
        ("int64", [2**63 - 2, 2**63 - 1], 2**63 - 2, 2**63 - 1),
        ("complex64", [1 + 1j, 3], 0, 0),
    ],
)
def test_what_is_drawn_of_large_arrays(
    tmp_path: Path, dtype: str, values: Any, least: Any, largest: Any
) -> None:
    x = ck.asarray(np.array(values * 20, dtype), device="host")
    with ck.testing.recorded(tmp_path, whole=64):
        ck.Kernel(COPY, name="copy", block=32)(x, ck.zeros_like(x), x.size)
    from cukern.kernel.recorder import read

    again = read(tmp_path, ck.Kernel)
    drawn = again.args[0].numpy()
    assert again.drawn == [0, 1] and drawn.dtype == dtype
    assert np.isin(drawn, [least, largest]).all() or ((drawn >= least) & (drawn <= largest)).all()
    assert not ck.testing.replay(tmp_path).found


def test_strides_are_as_they_were(tmp_path: Path) -> None:
    text = """
extern "C" __global__ void << name >>(View<const float, 2> x, float* y) {
    y[threadIdx.x] = x.data[threadIdx.x * x.strides[1]];
}"""
    x = ck.arange(24, dtype="float32", device="host").reshape(4, 6)[::-2, 5:0:-2]
    with ck.testing.recorded(tmp_path):
        ck.Kernel(text, name="strided", block=3)(x, ck.zeros(3, device="host"), grid=1)
    from cukern.kernel.recorder import read

    again = read(tmp_path, ck.Kernel)
    assert again.args[0].strides == x.strides and np.array_equal(again.args[0].numpy(), x.numpy())
    assert again.written is not None and again.written[1].tolist() == [23, 21, 19]
    assert not ck.testing.replay(tmp_path).found


def test_rounding_is_that_of_the_dtype(tmp_path: Path) -> None:
    x = ck.asarray(np.full(8, 1 + 2j, "complex64"), device="host")
    with ck.testing.recorded(tmp_path):
        ck.Kernel(COPY, name="c" * 300, block=32)(x, ck.zeros_like(x), 8)

    def rounded(values: Any) -> None:
        values[:] = np.nextafter(values, np.float32(9))

    _edit(tmp_path, rounded)
    assert not ck.testing.replay(tmp_path).found
    _edit(tmp_path, lambda values: values.__setitem__(3, 2.5))
    assert "from element 1 on" in ck.testing.replay(tmp_path).difference


def test_a_folder_that_cannot_be_written_and_a_forked_process(tmp_path: Path) -> None:
    from cukern.kernel.kernel import Call
    from cukern.kernel.recorder import Recorder

    (tmp_path / "file").write_text("")
    kernel, y = ck.Kernel(COPY, name="copy", block=32), ck.zeros(3, device="host")
    call = Call(kernel, (ck.ones(3, device="host"), y, 3), None, 0, {})
    with pytest.warns(RuntimeWarning, match="a launch is not kept: .*Not a directory"):
        Recorder(tmp_path / "file" / "kept")(call)
    assert y.tolist() == [1, 1, 1]
    recorder = Recorder(tmp_path / "kept", keep=1)
    recorder(call)
    recorder._process = -1  # as in a fork
    recorder(call)
    assert len(list((tmp_path / "kept").glob("*.launch.npz"))) == 2


@pytest.mark.parametrize(
    "change",
    [
        lambda stored, launch: launch.pop("args"),
        lambda stored, launch: launch["args"][0].update(dtype="object"),
        lambda stored, launch: launch["args"][0].update(strides=[1 << 40]),
        lambda stored, launch: launch["kernel"]["variables"].update(some={"unknown": "x"}),
        lambda stored, launch: stored.pop("a0"),
        lambda stored, launch: stored.update(a0=np.array([print], dtype=object)),
    ],
    ids=["missing", "dtype", "strides", "variable", "array", "pickle"],
)
def test_files_that_are_damaged(tmp_path: Path, change: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with ck.testing.recorded(tmp_path):
        x = ck.ones(3, device="host")
        ck.Kernel(COPY, name="copy", block=32)(x, ck.zeros_like(x), 3)
    (path,) = tmp_path.glob("*.launch.npz")
    stored = dict(np.load(path))
    launch = json.loads(stored["launch"].tobytes())
    change(stored, launch)
    packed = io.BytesIO()
    np.savez(packed, **{**stored, "launch": np.frombuffer(json.dumps(launch).encode(), np.uint8)})
    path.write_bytes(packed.getvalue())
    assert main(["replay", str(tmp_path)]) == 2 and "replay: " in capsys.readouterr().err
    path.write_bytes(packed.getvalue()[:-20])
    assert main(["replay", str(tmp_path)]) == 2 and "not a zip file" in capsys.readouterr().err


def test_a_process_that_is_killed_in_a_launch_leaves_it(tmp_path: Path) -> None:
    code = """
import cukern as ck
wait = ck.Kernel('''
__global__ void wait(int* flag, int* y) {
    if (threadIdx.x == 1) while (atomicAdd(flag, 0) == 0) { }
    y[threadIdx.x] = 1;
}''', name="wait", block=2, plain=True)
y = ck.zeros(2, dtype="int32", device="host")
wait(ck.zeros(1, dtype="int32", device="host"), y, grid=1)
"""
    folder = tmp_path / "kept"
    env = {**os.environ, "CUKERN_RECORD": str(folder)}
    process = subprocess.Popen([sys.executable, "-c", code], env=env)
    for _ in range(600):
        if folder.exists() and list(folder.glob("*.launch.npz")):
            break
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    said = _command(folder, "--timeout", "1")
    assert said.returncode == 1, said.stdout + said.stderr
    assert "wait on host did not end" in said.stdout and "<wait>:3" in said.stdout, said.stdout
    assert ">    3 |     if (threadIdx.x == 1) while" in said.stdout, said.stdout


def test_what_is_no_launch_is_refused(tmp_path: Path) -> None:
    assert "there is no launch in this folder" in _command(tmp_path).stderr
    (tmp_path / "some.launch.npz").write_bytes(b"none")
    with pytest.raises(ValueError, match=r"some.launch.npz: expected a launch that CUKERN_RECORD has kept"):
        ck.testing.replay(tmp_path / "some.launch.npz")
    with pytest.raises(
        ValueError, match=r"expected a folder that CUKERN_RECORD names, or a file \*.launch.npz"
    ):
        ck.testing.replay(tmp_path / "some.npz")


def test_a_launch_that_is_refused_is_refused_again(tmp_path: Path) -> None:
    kernel = ck.Kernel(DOUBLE, name="double", block=32)
    with ck.testing.recorded(tmp_path), pytest.raises(ck.LaunchError, match="shared is 9999999 bytes"):
        kernel(ck.ones(3, device="host"), ck.zeros(3, device="host"), 3, shared=9999999)
    result = ck.testing.replay(tmp_path)
    assert result.error.startswith("LaunchError: double_float32_32: shared is 9999999 bytes")
    assert "double on host failed: LaunchError" in result.told
