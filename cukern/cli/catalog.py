"""The list of the namespace's functions, made of the tables and docstrings that the functions are made of."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from typing import Any

from .. import fft, io, linalg, namespace
from ..array import creation
from ..elementwise.row import Row
from ..namespace import aliases
from ..ops import grids, info
from ..reduction.rows import __all__ as reductions

#: The modules of functions, and what a reader calls them.
_FAMILIES = {
    "shape.views": "Shapes",
    "index.assemble": "Arrays put together",
    "index.padding": "Padding",
    "index.take": "Places",
    "index.search": "Searching",
    "index.sort": "Sorting",
    "index.sets": "Sets",
    "index.scan": "Scans",
    "reduction.nan": "Reductions that leave NaN out",
    "ops.statistics": "Statistics",
    "ops.histogram": "Histograms",
    "reduction.softmax": "Normalised exponentials",
    "linear.products": "Products",
    "linear.einsum": "Einstein's sums",
    "ops.calculus": "Differences and interpolation",
    "ops.fitting": "Polynomials",
    "ops.slices": "Slices and windows",
}


def _line(function: Any) -> str:
    """The first sentence of a docstring, on one line."""
    return " ".join((inspect.getdoc(function) or "").split("\n\n")[0].split())


def _section(title: str, names: Iterator[str], home: Any, prefix: str = "ck.") -> list[str]:
    rows = [
        f"| `{prefix}{name}` | {_line(getattr(home, name)).replace('|', chr(92) + '|')} |" for name in names
    ]
    return [f"## {title}", "", "| function | what it gives |", "| --- | --- |", *rows, ""] if rows else []


def markdown() -> str:
    """Every public function with the first sentence of its docstring, by family."""
    lines = [
        "# The namespace",
        "",
        "The functions of `cukern` on arrays (`import cukern as ck`), made by `python -m cukern functions`.",
        "",
    ]
    rows = [name for name in namespace.__all__ if isinstance(getattr(namespace, name), Row)]
    told = set(rows) | set(reductions)
    lines += _section("Elementwise", iter(rows), namespace)
    lines += _section("Reductions", iter(reductions), namespace)
    for module, title in _FAMILIES.items():
        names = importlib.import_module(f"cukern.{module}").__all__
        lines += _section(title, (name for name in names if name not in told), namespace)
        told |= set(names)
    lines += _section("Further", (name for name in namespace.__all__ if name not in told), namespace)
    lines += _section("Creation", iter(creation.__all__), creation)
    lines += _section("Grids", iter(grids.__all__), grids)
    constants = {"e", "inf", "nan", "newaxis", "pi"}
    lines += _section("Inspection", (name for name in info.__all__ if name not in constants), info)
    lines += _section("Files", iter(io.__all__), io)
    for home, title in ((linalg, "Linear algebra"), (fft, "Fourier transforms")):
        functions = (name for name in home.__all__ if inspect.isfunction(getattr(home, name)))
        lines += _section(title, functions, home, f"ck.{home.__name__.rpartition('.')[2]}.")
    pairs = ", ".join(f"`{name}` ({_named(getattr(aliases, name))})" for name in aliases.__all__)
    return "\n".join([*lines, "## NumPy's names", "", pairs + ".", ""])


def _named(function: Any) -> str:
    return f"`{function.__name__}`"
