"""Several processes, on the host through MPI and on GPUs through NCCL: collectives, training, ranks that are killed."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import faults
import numpy as np
import pytest

import cukern as ck

HERE = Path(__file__).parent
GPUS = sum(one.kind == "cuda" for one in ck.devices())
DEVICES = os.environ.get("CUKERN_TEST_DEVICES", "host,cuda")


@pytest.fixture(params=["host", "cuda"])
def device(request: pytest.FixtureRequest) -> str:
    """Where the ranks run: on the host, or on a GPU each."""
    kind: str = request.param
    if kind not in DEVICES:
        pytest.skip(f"CUKERN_TEST_DEVICES={DEVICES}")
    if kind == "host":
        pytest.importorskip("mpi4py")
    elif GPUS < 2:
        pytest.skip("takes two GPUs")
    return kind


def launched(
    ranks: int, *arguments: str, device: str = "host", grace: float = 10.0, python: str = ""
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cukern", "launch", "-n", str(ranks), "--grace", str(grace), *arguments]
    environment = {**os.environ, "CUKERN_DEVICE": "host", "PYTHONDONTWRITEBYTECODE": python}
    if device == "cuda":
        del environment["CUKERN_DEVICE"]  # each rank takes the GPU of its number
    job = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=HERE.parent.parent,
    )
    try:
        output = job.communicate(timeout=240)
    except subprocess.TimeoutExpired:
        job.terminate()  # the launcher ends its ranks
        output = job.communicate(timeout=20)
    return subprocess.CompletedProcess(command, job.returncode, *output)


def test_the_program(tmp_path: Path, device: str) -> None:
    ranks = 4 if device == "host" or GPUS >= 4 else 2
    run = launched(ranks, str(HERE / "program.py"), str(tmp_path), device=device)
    passed_by(run, ranks)


def test_the_program_without_gpus(tmp_path: Path) -> None:
    """What is a GPU's alone, such as graphs with collectives, on a GPU and by an NCCL that are imitated."""
    if "host" not in DEVICES:
        pytest.skip(f"CUKERN_TEST_DEVICES={DEVICES}")
    arguments = [
        str(HERE / "program.py"),
        str(tmp_path),
        "check_reductions",
        "check_layouts",
        "check_captured_steps",
        "check_gradients_of_divided_modules",
    ]
    run = launched(2, str(HERE / "stand_in.py"), *arguments)
    passed_by(run, 2, set(arguments[2:]))
    outlived = [line.split()[-1] for line in run.stdout.splitlines() if "outlived the communicator" in line]
    assert outlived and set(outlived) == {"0"}


def passed_by(run: subprocess.CompletedProcess[str], ranks: int, wanted: Iterable[str] = ()) -> None:
    assert run.returncode == 0, run.stderr[-6000:]
    source = (HERE / "program.py").read_text()
    checks = {line[4 : line.index("(")] for line in source.splitlines() if line.startswith("def check_")}
    assert len(checks) > 10
    for rank in range(ranks):
        passed = {line.split()[2] for line in run.stdout.splitlines() if line.startswith(f"[{rank}] passed ")}
        assert passed == set(wanted or checks)


@pytest.mark.parametrize(
    ("fault", "form"),
    [
        ("killed_in_a_collective", "float32 (2, 2)"),
        pytest.param("killed_in_a_known_one", "float32 (3,)", marks=pytest.mark.thorough),
        pytest.param("killed_where_nobody_reads", "float32 (3,)", marks=pytest.mark.thorough),
        ("killed_in_a_captured_step", "float32 (3,)"),
    ],
)
def test_a_rank_that_is_killed(fault: str, form: str, device: str) -> None:
    begin = time.monotonic()
    run = launched(2, str(HERE / "faults.py"), fault, device=device)
    assert run.returncode == 128 + signal.SIGKILL, run.stderr
    assert "[launch] rank 1 ended by SIGKILL" in run.stderr
    lines = [line for line in run.stderr.splitlines() if "DistributedError: " in line]
    assert len(lines) == 1 and lines[0].startswith("[0] cukern.errors.DistributedError: rank 0:"), run.stderr
    assert "all_reduce #" in lines[0] and form in lines[0] and "rank 1 died" in lines[0]
    assert time.monotonic() - begin < 25, "the time limit of the call is 30 s"


@pytest.mark.parametrize(
    ("rank", "how", "status"),
    [
        ("1", "exit", 3),
        pytest.param("0", "exit", 3, marks=pytest.mark.thorough),
        pytest.param("1", "raise", 1, marks=pytest.mark.thorough),
        pytest.param("1", "at once", 4, marks=pytest.mark.thorough),
    ],
)
def test_the_rank_that_ended_first_gives_the_status(rank: str, how: str, status: int, device: str) -> None:
    """It waits for the others at its end, which have failed by then."""
    run = launched(2, str(HERE / "faults.py"), "leaves", rank, how, device=device)
    assert run.returncode == status, run.stderr
    assert f"[launch] rank {rank} ended with status {status}\n" in run.stderr
    assert "[launch]" not in run.stderr.replace(f"[launch] rank {rank} ended", "")


@pytest.mark.parametrize(
    "fault", ["late", pytest.param("late_for_a_captured_step", marks=pytest.mark.thorough)]
)
def test_a_rank_that_does_not_come(fault: str, device: str) -> None:
    """It has joined, and is far from the call that the other waits in."""
    begin = time.monotonic()
    seconds = "2" if device == "host" else "10"
    run = launched(2, str(HERE / "faults.py"), fault, seconds, device=device, grace=1.0)
    assert run.returncode == 1, run.stderr
    words = "all_reduce #", "float32 (3,)", f"within {seconds} s"
    error = next(line for line in run.stderr.splitlines() if "DistributedError" in line)
    assert error.startswith("[0] ") and all(word in error for word in words), run.stderr
    assert time.monotonic() - begin < 40, "the other sleeps for 60 s"


def test_what_fails_at_the_end_is_the_program_s_failure() -> None:
    program = """
from cukern import errors
from cukern.distributed import group

def shutdown():
    raise errors.DistributedError("rank 0: not reduced")

group.shutdown = shutdown
group._leave()
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert run.returncode == 1 and "DistributedError: rank 0: not reduced" in run.stderr


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (("killed_in_a_known_one",), "rank 1 died"),
        pytest.param(("late", "3"), "not finished within 3 s", marks=pytest.mark.thorough),
    ],
)
def test_what_waits_on_a_gpu_is_aborted(fault: tuple[str, ...], why: str) -> None:
    """NCCL is imitated: the watch ends the call, and its error is raised in the program."""
    if "host" not in DEVICES:
        pytest.skip(f"CUKERN_TEST_DEVICES={DEVICES}")
    run = launched(2, str(HERE / "stand_in.py"), str(HERE / "faults.py"), *fault, grace=4.0)
    assert run.returncode == (1 if "late" in fault else 128 + signal.SIGKILL), run.stderr
    error = next(line for line in run.stderr.splitlines() if "DistributedError" in line)
    assert error.startswith("[0] cukern.errors.DistributedError: rank 0: all_reduce #"), run.stderr
    assert "float32 (3,)" in error and why in error


def test_another_shape_on_one_rank(device: str) -> None:
    run = launched(2, str(HERE / "faults.py"), "another_shape", device=device)
    assert run.returncode == 1, run.stderr
    for rank in range(2):
        told = next(line for line in run.stderr.splitlines() if line.startswith(f"[{rank}] cukern.errors"))
        words = f"DistributedError: rank {rank}: all_reduce #", "do not agree", "float32 (2, 3) sum"
        assert all(word in told for word in words), run.stderr


def test_a_rank_that_is_killed_in_a_checkpoint(tmp_path: Path, device: str) -> None:
    """The last whole checkpoint is left; one process goes on from what two saved, with the same losses."""
    run = launched(2, str(HERE / "faults.py"), "checkpoint", str(tmp_path / "two"), device=device)
    assert run.returncode == 128 + signal.SIGKILL
    assert "save_checkpoint" in run.stderr and "rank 1 died" in run.stderr
    names = sorted(path.name for path in (tmp_path / "two").iterdir())
    assert names == ["step-000000001", "step-000000002"]
    resumed = faults.trained(tmp_path / "two", faults.STEPS)
    whole = faults.trained(tmp_path / "one", faults.STEPS)
    np.testing.assert_allclose(resumed, whole[2:], rtol=1e-6)


def test_a_checkpoint_that_one_rank_cannot_write(tmp_path: Path, device: str) -> None:
    """All ranks learn of it, and nothing is left."""
    run = launched(2, str(HERE / "faults.py"), "full_for_one", str(tmp_path), device=device)
    assert run.returncode == 0, run.stderr
    file = tmp_path / ".step-000000001.partial" / "rank-00001-of-00002.safetensors"
    told = f"[Errno {errno.EFBIG}] {os.strerror(errno.EFBIG)}: {str(file)!r}"
    assert sorted(run.stdout.splitlines()) == [
        f"[0] told: save_checkpoint: rank 1: {told}",
        f"[1] told: {told}",
    ]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.thorough
def test_the_example_over_a_mesh(tmp_path: Path, device: str) -> None:
    """Four processes, then two that go on from their checkpoint, give the losses of one; of two GPUs, two and two."""
    script, small = (
        str(HERE.parent.parent / "examples" / "13_gpt_parallel.py"),
        ("--features", "16", "--layers", "1"),
    )
    ranks = 4 if device == "host" or GPUS >= 4 else 2
    more = ("--tensor", "2", "--sequence", "--checkpoints", str(tmp_path))
    first = launched(ranks, script, *small, *more, "--shard", "3", "--steps", "10", device=device)
    second = launched(2, script, *small, *more, "--steps", "15", device=device)
    alone = launched(1, script, *small, "--steps", "15", device=device)
    assert [run.returncode for run in (first, second, alone)] == [0, 0, 0], first.stderr + second.stderr
    losses = [[line.split()[4] for line in run.stdout.splitlines()] for run in (first, second, alone)]
    expected = np.asarray(losses[2], "float64")
    np.testing.assert_allclose(np.asarray(losses[0] + losses[1], "float64"), expected, atol=2e-4)
