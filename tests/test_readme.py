"""The README's code runs as it stands, from top to bottom."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import cukern as ck

README = Path(__file__).parent.parent / "README.md"


def test_code_runs(device: ck.Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    text = README.read_text()
    names: dict[str, Any] = {}
    monkeypatch.chdir(tmp_path)
    for block in re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        # The blank lines make a traceback's line numbers those of the README.
        line = text.count("\n", 0, block.start(1))
        exec(compile("\n" * line + block[1], str(README), "exec"), names)
    printed = capsys.readouterr().out
    loss = re.search(r"^loss ([0-9.]+)$", printed, re.MULTILINE)
    assert loss is not None
    assert float(loss[1]) < 0.01, "the README's training loop must train"
    assert "[-0.5 ,  0.  ,  0.75]" in printed
    assert (tmp_path / "net.safetensors").is_file()


def test_set_up_is_two_commands() -> None:
    block = re.search(r"^```sh\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)
    assert block is not None
    assert block[1].splitlines() == ['pip install -e ".[test]" && python -m cukern demo', "pytest"]


def test_pictures_are_there() -> None:
    for path in re.findall(r"!\[[^]]*\]\(([^)]+)\)", README.read_text()):
        assert (README.parent / path).is_file(), path
