"""The command line: what it prints, and what it says when something is wrong."""

from __future__ import annotations

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

import cukern as ck
from cukern import cli
from cukern.demo import run as run_module
from cukern.demo import text, train
from cukern.demo.display import Progress
from cukern.demo.model import CharacterModel

METRICS = [
    "device",
    "steps",
    "loss_first",
    "loss_last",
    "val_loss",
    "unigram_entropy",
    "chars_per_s",
    "seconds",
]


def test_info_lists_devices_compilers_versions_and_caches(
    capsys: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUKERN_CACHE_DIR", str(tmp_path))
    (tmp_path / "entry").write_bytes(b"x" * 1_500_000)
    assert cli.main(["info"]) == 0
    out = capsys.readouterr().out
    assert "  host        " in out
    assert f"  folder      {tmp_path}" in out
    assert "1 files, 1.5 MB" in out
    for title in ("versions", "devices", "compilers", "cache"):
        assert f"\n{title}\n" in "\n" + out


def test_render_prints_what_is_compiled(capsys: Any) -> None:
    arguments = ["optim/norms.cu", "elem=bfloat16", "capacity=8", "piece=4096", "block=64"]
    assert cli.main(["render", *arguments]) == 0
    out = capsys.readouterr().out
    assert "__launch_bounds__(64)" in out
    assert "using T = __nv_bfloat16;" in out
    assert "block = 64, capacity = 8, piece_size = 4096;" in out


def test_render_takes_a_file(capsys: Any, tmp_path: Path) -> None:
    path = tmp_path / "own.cu"
    path.write_text('extern "C" __global__ void << name >>(<< elem >>* x) { x[0] = << value >>; }\n')
    assert cli.main(["render", str(path), "elem=double", "value=1.5"]) == 0
    assert "void own_float64_256(double* x) { x[0] = 1.5; }" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["nowhere.cu"], 1, "no template named 'nowhere.cu'"),
        (["optim/norms.cu", "elem=float32"], 1, "'capacity' is undefined"),
        (["optim/norms.cu", "elem"], 2, "expected var=value, got 'elem'"),
        (["optim/norms.cu", "elem=quad"], 2, "optim/norms.cu: elem: 'quad' is not a dtype"),
        ([sys.executable, "elem=float32"], 2, "codec can't decode"),
    ],
)
def test_render_says_what_is_wrong(capsys: Any, arguments: list[str], status: int, message: str) -> None:
    assert cli.main(["render", *arguments]) == status
    assert message in capsys.readouterr().err


def test_an_unknown_device_is_an_error(capsys: Any, tmp_path: Path) -> None:
    assert cli.main(["demo", "--device", "tpu", "--out", str(tmp_path)]) == 1
    assert "expected 'host', 'cuda' or 'cuda:N', got 'tpu'" in capsys.readouterr().err


@pytest.mark.parametrize("steps", ["0", "-1", "many", "1.5"])
def test_a_number_of_steps_that_is_none(capsys: Any, steps: str) -> None:
    with pytest.raises(SystemExit):
        cli.main(["demo", f"--steps={steps}"])
    assert f"--steps: expected a whole number of at least 1, got '{steps}'" in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_is_found_before_the_training(capsys: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for out in (tmp_path / "file", tmp_path / "file" / "inner"):
        assert cli.main(["demo", "--device", "host", "--out", str(out)]) == 1
        said = capsys.readouterr()
        assert f"--out: expected a folder to write to, got '{out}'" in said.err
        assert not said.out


def test_corpus_is_deterministic_and_holds_files_out() -> None:
    one, two = text.standard_library(), text.standard_library()
    assert (one.training == two.training).all()
    assert one.training.size > 5 * one.validation.size > 1_000_000
    assert 2.5 < text.unigram_entropy(one.validation) < 3.5
    assert text.decode(text.encode("def f(é):\n")) == "def f(\N{REPLACEMENT CHARACTER}):\n"


def test_windows_are_shifted_by_one() -> None:
    codes = text.encode("abcdef")
    inputs, targets = text.windows(codes, np.array([0, 2]), 3)
    assert text.decode(inputs.T) == "abccde"
    assert text.decode(targets.T) == "bcddef"


def test_progress_is_plain_lines_where_there_is_no_terminal(capsys: Any) -> None:
    progress = Progress(40)
    for step in range(1, 41):
        progress.show(step, "loss")
    progress.close()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 10
    assert lines[-1] == "  step 40/40  loss"


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_one_line_of_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    screen = _Terminal()
    progress = Progress(4, screen)
    for step in range(1, 5):
        progress.show(step, "loss 1.234  " + "x" * 60)
    progress.close()
    shown = screen.getvalue()
    assert shown.count("\n") == 1
    last = shown.rstrip("\n").rpartition("\r")[2]
    assert last.startswith("█" * 24 + " 4/4  loss 1.234")
    assert len(last) == 59


@pytest.mark.unchecked_only("of the files that it writes; other tests launch its kernels")
def test_demo_writes_its_results(device: ck.Device, capsys: Any, tmp_path: Path) -> None:
    assert cli.main(["demo", "--device", str(device), "--steps", "12", "--out", str(tmp_path)]) == 0
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert list(metrics) == METRICS
    assert (metrics["device"], metrics["steps"]) == (str(device), 12)
    assert metrics["loss_last"] < metrics["loss_first"]
    out = capsys.readouterr().out
    assert out.count("  agree  ") == 6
    CharacterModel().load(tmp_path / "model.safetensors")
    assert (tmp_path / "loss.png").is_file() or "matplotlib is not installed" in out


@pytest.mark.parametrize(
    ("steps", "line", "seconds"),
    [(100000, "model: LLTM", 3), (2, "  step 2/2", 0)],
    ids=["in training", "in the last validation"],
)
def test_an_interrupt_leaves_a_checkpoint(tmp_path: Path, steps: int, line: str, seconds: float) -> None:
    options = ["--device", "host", "--steps", str(steps), "--out", str(tmp_path)]
    command = [sys.executable, "-m", "cukern", "demo", *options]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as run:
        assert run.stdout is not None
        for said in run.stdout:
            if said.startswith(line):
                break
        time.sleep(seconds)
        run.send_signal(signal.SIGINT)
        rest = run.communicate(timeout=120)[0]
    assert run.returncode == 130, rest
    assert "the model is saved as it is" in rest
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert 0 < metrics["steps"] <= min(steps, 99999)
    CharacterModel().load(tmp_path / "model.safetensors")


@pytest.mark.unchecked_only("of the files that it writes; other tests launch its kernels")
def test_an_interrupt_in_the_sample_leaves_all_files(
    device: ck.Device, capsys: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*args: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(run_module, "sample", interrupted)
    assert cli.main(["demo", "--device", str(device), "--steps", "1", "--out", str(tmp_path)]) == 130
    assert json.loads((tmp_path / "metrics.json").read_text())["steps"] == 1
    CharacterModel().load(tmp_path / "model.safetensors")


def test_a_second_interrupt_leaves_a_checkpoint(
    device: ck.Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*args: object) -> float:
        raise KeyboardInterrupt

    monkeypatch.setattr(train, "validate", interrupted)
    assert cli.main(["demo", "--device", str(device), "--steps", "1", "--out", str(tmp_path)]) == 130
    CharacterModel().load(tmp_path / "model.safetensors")


def test_output_that_takes_ascii_alone_gets_replacements(tmp_path: Path) -> None:
    path = tmp_path / "own.cu"
    path.write_text('// é\nextern "C" __global__ void << name >>(int* x) {}\n', encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "cukern", "render", str(path)],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "// ?" in done.stdout


def test_the_list_of_functions_is_up_to_date(capsys: Any) -> None:
    """Made anew by ``python -m cukern functions > docs/namespace.md``."""
    assert cli.main(["functions"]) == 0
    made = capsys.readouterr().out
    written = (Path(__file__).parent.parent / "docs" / "namespace.md").read_text()
    assert made == written, "run: python -m cukern functions > docs/namespace.md"
    for name in ("ck.tanh", "ck.sort", "ck.linalg.svd", "ck.load"):
        assert f"| `{name}` |" in made
