"""The README's code runs as it stands, from top to bottom."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pages
import pytest

import cukern as ck

README = Path(__file__).parent.parent / "README.md"


def test_code_runs(device: ck.Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    printed = pages.run(README)
    loss = re.search(r"^loss ([0-9.]+)$", printed, re.MULTILINE)
    assert loss is not None
    assert float(loss[1]) < 0.01, "the README's training loop must train"
    assert "cases are right" in printed
    assert (tmp_path / "net.safetensors").is_file()


def test_pictures_are_those_of_the_kernels() -> None:
    """`python docs/picture.py` writes them, from traces and a report of the kernels that the pages show."""
    path = README.parent / "docs" / "picture.py"
    spec = importlib.util.spec_from_file_location("picture", path)
    assert spec is not None and spec.loader is not None
    picture = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(picture)
    assert picture.svg() == path.with_name("race.svg").read_text()
    assert picture.timeline() == path.with_name("timeline.svg").read_text()


def test_set_up_is_two_commands() -> None:
    block = re.search(r"^```sh\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)
    assert block is not None
    assert block[1].splitlines() == ['pip install -e ".[test]" && python -m cukern demo', "pytest"]


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "docs/pages/releasing.md"])
def test_links_lead_somewhere(page: str) -> None:
    path = README.parent / page
    text = path.read_text()
    links = [link for link in re.findall(r"\]\(([^)]+)\)", text) if not link.startswith("https://")]
    headings = (re.sub(r"[^\w -]", "", line.lower()) for line in re.findall(r"^#+ (.*)$", text, re.MULTILINE))
    anchors = {"#" + heading.replace(" ", "-") for heading in headings}
    assert links
    for link in links:
        assert link in anchors if link.startswith("#") else (path.parent / link).is_file(), link
