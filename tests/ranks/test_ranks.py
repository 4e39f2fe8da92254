"""Several processes on the host, through MPI: collectives, training, checkpoints, and ranks that are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import faults
import numpy as np
import pytest

pytest.importorskip("mpi4py")
HERE = Path(__file__).parent


def launched(
    ranks: int, *arguments: str, grace: float = 10.0, python: str = ""
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cukern", "launch", "-n", str(ranks), "--grace", str(grace), *arguments]
    environment = {**os.environ, "CUKERN_DEVICE": "host", "PYTHONDONTWRITEBYTECODE": python}
    return subprocess.run(
        command, capture_output=True, text=True, timeout=240, env=environment, cwd=HERE.parent.parent
    )


def test_four_ranks(tmp_path: Path) -> None:
    run = launched(4, str(HERE / "program.py"), str(tmp_path))
    assert run.returncode == 0, run.stderr[-6000:]
    source = (HERE / "program.py").read_text()
    checks = {line[4 : line.index("(")] for line in source.splitlines() if line.startswith("def check_")}
    assert len(checks) > 10
    for rank in range(4):
        passed = {line.split()[2] for line in run.stdout.splitlines() if line.startswith(f"[{rank}] passed ")}
        assert passed == checks


def test_a_rank_that_is_killed_in_a_collective() -> None:
    begin = time.monotonic()
    run = launched(2, str(HERE / "faults.py"), "collective")
    assert run.returncode == 128 + signal.SIGKILL
    assert "[launch] rank 1 ended by SIGKILL" in run.stderr
    assert "[0] cukern.errors.DistributedError: rank 0: all_reduce" in run.stderr
    assert "float32 (2, 2)" in run.stderr and "rank 1 died" in run.stderr
    assert time.monotonic() - begin < 25, "the time limit of the call is 30 s"


def test_a_rank_that_is_killed_in_a_checkpoint(tmp_path: Path) -> None:
    """The last whole checkpoint is left; one process goes on from what two saved, with the same losses."""
    run = launched(2, str(HERE / "faults.py"), "checkpoint", str(tmp_path / "two"))
    assert run.returncode == 128 + signal.SIGKILL
    assert "save_checkpoint" in run.stderr and "rank 1 died" in run.stderr
    names = sorted(path.name for path in (tmp_path / "two").iterdir())
    assert names == [".step-000000003.partial", "step-000000001", "step-000000002"]
    resumed = faults.trained(tmp_path / "two", faults.STEPS)
    whole = faults.trained(tmp_path / "one", faults.STEPS)
    np.testing.assert_allclose(resumed, whole[2:], rtol=1e-6)


@pytest.mark.thorough
def test_the_example_over_a_mesh(tmp_path: Path) -> None:
    """Four processes, then two that go on from their checkpoint, give the losses of one."""
    script, small = (
        str(HERE.parent.parent / "examples" / "13_gpt_parallel.py"),
        ("--features", "16", "--layers", "1"),
    )
    more = ("--tensor", "2", "--sequence", "--checkpoints", str(tmp_path))
    first = launched(4, script, *small, *more, "--shard", "3", "--steps", "10")
    second = launched(2, script, *small, *more, "--steps", "15")
    alone = launched(1, script, *small, "--steps", "15")
    assert [run.returncode for run in (first, second, alone)] == [0, 0, 0], first.stderr + second.stderr
    losses = [[line.split()[4] for line in run.stdout.splitlines()] for run in (first, second, alone)]
    expected = np.asarray(losses[2], "float64")
    np.testing.assert_allclose(np.asarray(losses[0] + losses[1], "float64"), expected, atol=2e-4)
