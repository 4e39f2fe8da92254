"""Every figure of speed in the README and on the pages stands in a table that a script wrote."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "pages").glob("*.md"))]
#: A number with a unit of time or of a rate; a speedup, or memory, with decimals.
_FIGURE = re.compile(
    r"(?<![\w.^-])(\d[\d,]*(?:\.\d+)?) ?(?:us\b|ms\b|GB/s|TFLOP/s|tokens/s|tokens a second)"
    r"|(?<![\w.])(\d+\.\d+) ?(?:x(?![\w-])|MiB\b|GiB\b)"
)
#: A share, and a cell that is a number: of pages that are about speed alone.
_SHARE = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?) ?%|\|\s*(\d[\d,]*(?:\.\d+)?)\s*(?=\|)")
_NUMBER = re.compile(r"(?<![\d.])\d+(?:\.\d+)?")


def figures(text: str) -> list[str]:
    """The figures of a page's text and tables, without its code and what the code prints."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    patterns = [_FIGURE, _SHARE] if text.startswith(("# cukern", "# Performance", "| ")) else [_FIGURE]
    found = [max(one) for pattern in patterns for one in pattern.findall(text)]
    return [one.replace(",", "") for one in found]


def linked(text: str) -> list[Path]:
    """The tables of measurements that a page links."""
    names = re.findall(r"(?:measured|benchmarks/results)/([\w-]+)\.md", text)
    return [RESULTS / f"{name}.md" for name in dict.fromkeys(names)]


def numbers(text: str) -> set[str]:
    return set(_NUMBER.findall(text.replace(",", "")))


def missing(text: str) -> list[str]:
    """The figures of a page that no table has which the page links."""
    known = {number for path in linked(text) for number in numbers(path.read_text())}
    return [one for one in figures(text) if one not in known]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_figures_of_a_page_are_in_the_tables_that_it_links(page: Path) -> None:
    assert missing(page.read_text()) == []


def test_a_figure_that_no_table_has_is_seen() -> None:
    text = "# Performance\nIt takes 42.4242 us, [as measured](measured/h200.md), 17.171717x as fast.\n"
    text += "| a | 31.313131 |\n"
    assert missing(text) == ["42.4242", "17.171717", "31.313131"]
    assert missing("```text\n42.4242 us\n```\nkernels of sm_90, 3 x 3, 16 x 16 blocks, 8-bit, 60 s") == []


#: The rows of the README's tables, and the beginning of the line of the table that has their figures.
ROWS: dict[str, tuple[str, list[str]]] = {}


def _rows() -> list[list[str]]:
    """The cells of the rows of the tables in the README's section on speed."""
    section = (ROOT / "README.md").read_text().partition("\n## Speed\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|") and not line.startswith("| ---")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in rows if row[0]]


def test_each_row_of_the_readme_has_its_own_figures() -> None:
    """A figure of another case would be in the file too: each row's are looked up in the lines of its case."""
    rows = _rows()
    assert {row[0] for row in rows} == set(ROWS)
    for name, *cells in rows:
        file, starts = ROWS[name]
        lines = [line for line in (RESULTS / file).read_text().splitlines() if line.startswith(tuple(starts))]
        assert lines, f"{name}: no line of {file} begins with {starts}"
        known = {number for line in lines for number in numbers(line)}
        wanted = [number for cell in cells for number in figures(f"{cell} ")]
        assert wanted, f"{name}: no figures"
        assert set(wanted) <= known, f"{name}: {set(wanted) - known} not in {file}"
