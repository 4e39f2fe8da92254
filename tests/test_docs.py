"""The documentation: its code runs and prints what it shows, and each public name is on one page, with an example."""

from __future__ import annotations

import doctest
import importlib.util
import re
import tempfile
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pages
import pytest

import cukern as ck

DOCS = Path(__file__).parent.parent / "docs"
PAGES = sorted(path for path in (DOCS / "pages").rglob("*.md") if next(pages.blocks(path.read_text()), None))


def _reference() -> ModuleType:
    """The module that makes the pages of the reference."""
    spec = importlib.util.spec_from_file_location("reference", DOCS / "reference.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


reference = _reference()
EXAMPLES = [
    page
    for page in reference.pages()
    if any(reference.path_of(*one) in reference.examples() for one in page.names)
]


def cases(named: dict[str, Any], *unchecked: str) -> list[Any]:
    """A test's cases; those named after them show the message of an unchecked launch."""
    mark = pytest.mark.unchecked_only("the page shows another message")
    return [pytest.param(one, id=name, marks=[mark] * (name in unchecked)) for name, one in named.items()]


@pytest.mark.parametrize(
    "path", cases({path.stem: path for path in PAGES}, "devices", "first-hour", "kernels")
)
def test_code_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with ck.device("host"):
        pages.run(path)


def test_each_row_of_a_page_names_tests_that_are_there() -> None:
    text = (DOCS / "pages" / "from-candle.md").read_text()
    rows = [line for line in text.splitlines() if line.startswith("| ") and "---" not in line]
    missing = []
    for row in rows:
        shown = row.rsplit(" | ", 1)[1]
        if shown.startswith("is shown by"):
            continue
        named = re.findall(r"`(tests/[^`:]+)::(test_[^`]+)`", shown)
        missing += [row] if not named else []
        for path, name in named:
            file = DOCS.parent / path
            if not file.is_file() or f"\ndef {name}(" not in file.read_text():
                missing.append(f"{path}::{name}")
    assert len(rows) > 30 and not missing


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("```python\nprint(1)\n```\n\n```text\n2\n```\n", "line 2: the page shows\n2\n\nand it printed\n1"),
        ("```python\nint('x')\n```\n", "invalid literal"),
        ("```python\nint('x')\n```\n\n```text\nKeyError: 'x'\n```\n", "invalid literal"),
        ("```python\nint('x')\n```\n\n```text\nValueError: else\n```\n", "it printed\nValueError: invalid"),
    ],
)
def test_a_page_that_is_wrong_is_found(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text(text)
    with pytest.raises((AssertionError, ValueError), match=message):
        pages.run(tmp_path / "page.md")


@pytest.mark.parametrize(
    "page", cases({page.title: page for page in EXAMPLES}, "Devices, settings and errors")
)
def test_examples_of_functions_run(page: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    out: list[str] = []
    with ck.device("host"):
        for path in (reference.path_of(*one) for one in page.names):
            text = reference.examples().get(path, "")
            test = doctest.DocTestParser().get_doctest(text, {"ck": ck}, path, "docs/examples.txt", 0)
            runner.run(test, out=out.append)
    assert runner.summarize(verbose=False).attempted > 0
    assert not out, "".join(out)


def test_every_function_has_an_example() -> None:
    documented = set(reference.in_full(reference.pages()).values())
    missing = {path for path in documented if "```pycon" not in reference.docstring(path)}
    assert not missing, f"add an example to docs/examples.txt, or to the docstring, for {missing}"
    assert set(reference.examples()) <= documented, "examples of what has no page"


def test_each_public_name_is_on_one_page() -> None:
    made = reference.pages()
    texts = [reference.markdown(page, reference.in_full(made)) for page in made]
    lines = Counter(line for text in texts for line in text.splitlines())
    for module in reference.modules():
        for name in reference.public(module):
            path = f"{module.__name__}.{name}"
            row = f"| `{path.replace('cukern', 'ck', 1)}` |"
            found = lines[f"::: {path}"] + sum(count for line, count in lines.items() if line.startswith(row))
            assert found == 1, f"{path} is on {found} pages"
    assert len({page.path for page in made}) == len(made)


def test_public_modules_are_all_there() -> None:
    found = {f"cukern.{name}" for name in ck.__all__ if isinstance(getattr(ck, name), ModuleType)}
    assert found - {"cukern.dtypes"} <= {module.__name__ for module in reference.modules()}


@pytest.mark.parametrize(
    "path", [DOCS.parent / "README.md", *sorted((DOCS / "pages").glob("*.md"))], ids=lambda path: path.stem
)
def test_a_page_opens_with_a_picture_or_a_program(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    first = re.search(r"^(?:```|\[?!\[|<img )", text, re.MULTILINE)
    assert first is not None
    assert first.start() < 600, "it is not on the first screen"


def test_the_sidebar_is_short() -> None:
    nav = (DOCS / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    written = re.findall(r"[\w/-]+\.md", nav)
    assert len(set(written)) == len(written) > 15
    assert len(written) + 1 + len(reference.pages()) <= 40, "a page of few readers goes into `not_in_nav`"
