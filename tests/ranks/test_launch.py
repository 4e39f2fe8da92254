"""The launcher, with programs that do not import cukern."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cukern.cli import main
from cukern.distributed.launch import Launch


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "script.py"
    path.write_text(
        "import os, sys, time, signal\n"
        "rank = int(os.environ['RANK'])\n"
        "print('rank', rank, 'of', os.environ['WORLD_SIZE'], *sys.argv[1:])\n"
        "print('no newline', end='', file=sys.stderr)\n"
        "if sys.argv[1] == 'fail' and rank == 1: sys.exit(3)\n"
        "if sys.argv[1] == 'stubborn': signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "if sys.argv[1] == 'stubborn' and rank == 1: sys.exit(4)\n"
        "if sys.argv[1] != 'pass': time.sleep(60)\n"
    )
    return path


def test_output_is_marked_by_rank(script: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["launch", "-n", "2", str(script), "pass", "--flag"]) == 0
    out, err = capfd.readouterr()
    assert sorted(out.splitlines()) == ["[0] rank 0 of 2 pass --flag", "[1] rank 1 of 2 pass --flag"]
    assert sorted(err.splitlines()) == ["[0] no newline", "[1] no newline"]


def test_one_failure_ends_all(script: Path, capfd: pytest.CaptureFixture[str]) -> None:
    begin = time.monotonic()
    assert main(["launch", "-n", "3", "--grace", "0.2", str(script), "fail"]) == 3
    assert time.monotonic() - begin < 20
    assert "[launch] rank 1 ended with status 3" in capfd.readouterr().err


def test_what_ignores_its_end_is_killed(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cukern.distributed.launch._SECONDS_TO_END", 0.2)
    job = Launch([sys.executable, str(script), "stubborn"], 2, grace=0.5)
    assert job.run() == 4
    assert job._ranks[0].returncode == -signal.SIGKILL


def test_signals_are_passed(script: Path) -> None:
    command = [sys.executable, "-m", "cukern", "launch", "-n", "2", str(script), "sleep"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ) as job:
        assert job.stdout is not None
        lines = [job.stdout.readline() for _ in range(2)]  # both run
        assert sorted(lines) == ["[0] rank 0 of 2 sleep\n", "[1] rank 1 of 2 sleep\n"]
        job.send_signal(signal.SIGTERM)
        assert job.wait(20) == 128 + signal.SIGTERM


def test_wrong_options(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["launch", "-n", "0", str(script)]) == 2
    assert "-n of at least 1" in capsys.readouterr().err
