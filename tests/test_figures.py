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


#: The rows of the tables beside PyTorch, and the beginning of the line of the table that has their figures.
ROWS: dict[str, tuple[str, list[str]]] = {
    "`x * 2.5 + 1.25`, fused": ("h200.md", ["| elementwise | affine, fused |"]),
    "`gelu(m * row + row) * 0.5`, fused": ("h200.md", ["| elementwise | gelu chain, fused |"]),
    "its gradient": ("h200.md", ["| elementwise | gelu chain, backward |"]),
    "copy of a transpose": ("h200.md", ["| layout | copy of a transpose |"]),
    "sum along axis 0": ("h200.md", ["| reduction | sum, axis 0 |"]),
    "cumsum of 2^28": ("h200.md", ["| scan | cumsum |"]),
    "softmax, 8192 x 4096": ("h200.md", ["| softmax | softmax 4096 |"]),
    "gradients of layer norm, 65536 x 768": ("h200.md", ["| layer_norm | 65536x768 affine, backward |"]),
    "index add, deterministic": ("h200.md", ["| indexing | index add |"]),
    "LLTM, after the products": ("h200.md", ["| lltm | pointwise |"]),
    "LLTM, backward": ("h200.md", ["| lltm | pointwise, backward |"]),
    "product of 4096 x 4096 x 4096 with bias and ReLU, bfloat16": (
        "h200.md",
        ["| product | matmul_add_relu 4096 | bfloat16 |"],
    ),
    "product of 16384 x 768 x 3072 with bias and GELU, bfloat16": (
        "h200.md",
        ["| product | gelu(x @ w.T + b) | bfloat16 |"],
    ),
    "32 products of 512 x 512 x 512 with bias and ReLU, bfloat16": (
        "h200.md",
        ["| product | matmul_add_relu 32 x 512 | bfloat16 |"],
    ),
    "a row times a 4096 x 4096 matrix, bfloat16": ("h200.md", ["| product | 1 x 4096 x 4096 | bfloat16 |"]),
    "attention, causal, 4 x 16 x 4096 x 128, forward": (
        "h200.md",
        ["| attention | causal, heads of 128 | bfloat16 |"],
    ),
    "attention, backward": ("h200.md", ["| attention | causal, heads of 128, backward | bfloat16 |"]),
    "attention with capped scores": ("h200.md", ["| attention | capped scores, heads of 128 | bfloat16 |"]),
    "attention of a query to 16,384 keys of 32 heads, bfloat16": (
        "h200.md",
        ["| attention | 1 query of 16384 keys | bfloat16 |"],
    ),
    "the same in float32": ("h200.md", ["| attention | 1 query of 16384 keys | float32 |"]),
    "convolution, 64 channels of 56 x 56, 3 x 3, channels last": (
        "convolution.md",
        ["| bfloat16 last: 64x64x56x56, 64 of 3x3 / 1 | 29.9"],
    ),
    "step of ResNet-50, 64 images, captured": (
        "resnet50.md",
        ["| cukern, captured", "| PyTorch, eager, as a", "| PyTorch, compiled, as a"],
    ),
    "step of GPT-2, 124M, 8 x 1024 tokens, captured": (
        "gpt2-profile.md",
        ["| cukern, captured | 15.68", "| PyTorch, reduce-overhead | 20.15"],
    ),
    "text by a Llama of 8 billion parameters in Q4_K": ("generate.md", ["| 16 | 1368.5"]),
    "`add`": ("h200.md", ["| call | add |"]),
    "`add` of 64 numbers, the host's time": ("h200.md", ["| call | add |"]),
    "`add`, under a tape": ("h200.md", ["| call | add, tracked |"]),
    "`sum`": ("h200.md", ["| call | sum |"]),
    "a product of 8 x 8": ("h200.md", ["| call | product |"]),
    "a slice": ("h200.md", ["| call | slice |"]),
    "`(x * x).sum()` and its gradient": ("h200.md", ["| call | (x * x).sum(), its gradient |"]),
}


def _rows(page: str, heading: str) -> list[list[str]]:
    """The cells of the rows of the tables in a page's section."""
    section = (ROOT / page).read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|") and not line.startswith("| ---")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in rows if row[0] and row[1] != "cukern"]


def test_each_row_beside_pytorch_has_its_own_figures() -> None:
    """A figure of another case would be in the file too: each row's are looked up in the lines of its case."""
    short, long = _rows("README.md", "Speed"), _rows("docs/pages/performance.md", "Beside PyTorch")
    assert {row[0] for row in [*short, *long]} == set(ROWS)
    assert 6 <= len(short) <= 8
    for name, *cells in [*short, *long]:
        file, starts = ROWS[name]
        lines = [line for line in (RESULTS / file).read_text().splitlines() if line.startswith(tuple(starts))]
        assert lines, f"{name}: no line of {file} begins with {starts}"
        known = {number for line in lines for number in numbers(line)}
        wanted = [number for cell in cells for number in figures(f"{cell} ")]
        assert wanted, f"{name}: no figures"
        assert set(wanted) <= known, f"{name}: {set(wanted) - known} not in {file}"
