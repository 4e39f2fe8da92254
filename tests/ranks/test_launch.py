"""The launcher, with programs that do not import cukern."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cukern.cli import main
from cukern.distributed.launch import _KEEPER, Launch
from cukern.distributed.output import Output


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


def gone(process: int) -> bool:
    """Whether a process has ended, also if whoever must ask for its status has not."""
    try:
        return Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()[0] == b"Z"
    except OSError:
        return True


def all_gone(processes: list[int]) -> bool:
    """Whether all processes end soon."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        if all(map(gone, processes)):
            return True
        time.sleep(0.02)
    return False


@pytest.fixture
def family(tmp_path: Path) -> Path:
    """A rank that starts a process in its own session, whose parent then ends, and prints both and its keeper."""
    path, orphan = tmp_path / "family.py", tmp_path / "orphan.py"
    orphan.write_text(
        "import subprocess\n"
        "null = subprocess.DEVNULL\n"
        "print(subprocess.Popen(['sleep', '60'], stdout=null, stderr=null, start_new_session=True).pid)\n"
    )
    path.write_text(
        "import os, subprocess, sys, time\n"
        f"command = [sys.executable, {str(orphan)!r}]\n"
        "made = subprocess.run(command, capture_output=True, text=True, check=True)\n"
        "print('pids', os.getpid(), os.getppid(), made.stdout, end='')\n"
        "if sys.argv[1] == 'fail' and os.environ['RANK'] == '1': sys.exit(3)\n"
        "if sys.argv[1] != 'pass': time.sleep(60)\n"
    )
    return path


def pids(line: str) -> list[int]:
    assert "pids" in line
    return list(map(int, line.split()[2:]))


@pytest.mark.parametrize("killed", ["launcher", "keeper"])
def test_what_is_killed_leaves_no_process(family: Path, killed: str) -> None:
    command = [sys.executable, "-m", "cukern", "launch", "-n", "2", "--grace", "0", str(family), "sleep"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as job:
        assert job.stdout is not None and job.stderr is not None
        own, other = (pids(job.stdout.readline()) for _ in range(2))
        if killed == "launcher":
            job.kill()
            assert all_gone(own + other)
            return
        os.kill(own[1], signal.SIGKILL)
        assert job.wait(30) == 128 + signal.SIGKILL
        assert all_gone(own[:2] + other)
        os.kill(own[2], signal.SIGKILL)  # the one in another session, which nobody could know of any more


def test_a_rank_that_ends_when_the_launcher_is_gone_leaves_no_process(family: Path) -> None:
    """The keeper may see that before it sees the launcher's end, and has nobody to tell."""
    alive, held = os.pipe()
    heard, events = os.pipe()
    os.close(heard)
    command = [sys.executable, "-I", "-S", _KEEPER, str(alive), str(events), "0"]
    try:
        done = subprocess.run(
            [*command, sys.executable, str(family), "pass"],
            pass_fds=[alive, events], capture_output=True, text=True, timeout=60,
        )  # fmt: skip
    finally:
        for end in (alive, held, events):
            os.close(end)
    assert done.returncode == 0, done.stderr
    assert all_gone(pids(f"[0] {done.stdout}"))


@pytest.mark.parametrize("how", ["fail", "pass"])
def test_what_ranks_have_started_ends_with_the_job(
    family: Path, capfd: pytest.CaptureFixture[str], how: str
) -> None:
    assert main(["launch", "-n", "2", "--grace", "0", str(family), how]) == (3 if how == "fail" else 0)
    lines = capfd.readouterr().out.splitlines()
    assert lines
    assert all_gone([process for line in lines for process in pids(line)])


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("import os; os.kill(os.getpid(), 11)", 139),
        ("import os; os.abort()", 134),
        ("raise SystemExit(77)", 77),
    ],
)
def test_the_status_of_a_rank_is_returned(code: str, status: int) -> None:
    assert Launch([sys.executable, "-c", code], 1, 0.0).run() == status


def test_a_program_that_is_not_there(capfd: pytest.CaptureFixture[str]) -> None:
    assert Launch(["no such program"], 1, 0.0).run() == 127
    assert "no such program: No such file or directory" in capfd.readouterr().err


def test_signals_find_a_rank_with_pythons_handlers() -> None:
    code = (
        "import signal; assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL;"
        "assert signal.getsignal(signal.SIGINT) is signal.default_int_handler;"
        "assert not signal.pthread_sigmask(signal.SIG_BLOCK, [])"
    )
    assert Launch([sys.executable, "-c", code], 1, 0.0).run() == 0


def written(*pieces: tuple[int, bytes]) -> str:
    """What is shown of pieces that ranks write one after another; a rank ends with an empty one."""
    stream = io.StringIO()
    output = Output(stream)
    for rank, data in pieces:
        if data:
            output.add(rank, data)
        else:
            output.end(rank)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("pieces", "shown"),
    [
        ([(0, b"a\nb"), (1, b"c\n"), (0, b"d\n")], "[0] a\n[1] c\n[0] bd\n"),
        ([(0, b"a"), (0, b"")], "[0] a\n"),
        ([(0, b"10%\r"), (0, b"20%\r"), (0, b"\n")], "[0] 10%\r[0] 20%\r\n"),
        ([(0, b"\r10%"), (0, b"\r20%"), (0, b"")], "\r[0] 10%\r[0] 20%\n"),
        ([(0, b"\r10%"), (1, b"line\n"), (0, b"\r20%\n")], "\r[0] 10%\n[1] line\n\r[0] 20%\n"),
        ([(0, b"a\r\nb\r"), (0, b"\nc\n")], "[0] a\r\n[0] b\r\n[0] c\n"),
        ([(0, "é\n".encode()[:1]), (0, "é\n".encode()[1:])], "[0] é\n"),
        ([(0, b"\xff\n"), (0, b"\xc3"), (0, b"")], "[0] \ufffd\n[0] \ufffd\n"),
        ([(0, b"\n\n"), (0, b"")], "[0] \n[0] \n"),
    ],
)
def test_lines_do_not_mix_and_progress_is_shown(pieces: list[tuple[int, bytes]], shown: str) -> None:
    assert written(*pieces) == shown


def test_progress_is_shown_as_it_comes() -> None:
    stream = io.StringIO()
    output = Output(stream)
    output.add(0, b"10%\r")
    assert stream.getvalue() == "[0] 10%"
    output.add(0, b"20%")
    assert stream.getvalue() == "[0] 10%\r[0] 20%"


def test_a_long_line_is_written_in_parts_and_kept_by_nobody() -> None:
    stream, piece = io.StringIO(), b"x" * 1000
    output = Output(stream)
    for _ in range(300):
        output.add(0, piece)
        assert output._ranks[0].length <= 1 << 16
    output.add(0, b"\n")
    assert stream.getvalue() == f"[0] {'x' * 300000}\n"


def test_a_line_of_megabytes_passes(capfd: pytest.CaptureFixture[str]) -> None:
    size = 8 << 20
    assert Launch([sys.executable, "-c", f"print('y' * {size})"], 1, 0.0).run() == 0
    assert capfd.readouterr().out == f"[0] {'y' * size}\n"


def test_wrong_options(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["launch", "-n", "0", str(script)]) == 2
    assert "-n of at least 1" in capsys.readouterr().err
