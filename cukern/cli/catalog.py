"""The list of the namespace's functions, generated from the tables and docstrings."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any, NamedTuple

from .. import fft, io, linalg, namespace
from ..array import creation
from ..elementwise.row import Row
from ..namespace import aliases
from ..ops import grids, info, sources
from ..reduction.rows import __all__ as reductions

#: Names of :mod:`cukern` that are not functions.
CONSTANTS = frozenset({"e", "inf", "nan", "newaxis", "pi"})
root = sys.modules["cukern"]
#: The modules of functions, and their titles in the list.
_FAMILIES = {
    "shape.views": "Shapes",
    "shape.joins": "Joining and taking apart",
    "index.assemble": "Stacking and repeating",
    "ops.padding": "Padding",
    "index.take": "Indexing",
    "index.search": "Searching",
    "index.unravel": "Indices of flattened arrays",
    "index.sort": "Sorting",
    "index.select": "Selecting",
    "index.sets": "Sets",
    "index.scan": "Scans",
    "reduction.nan": "Reductions that ignore NaN",
    "ops.statistics": "Medians and quantiles",
    "ops.covariance": "Covariances",
    "ops.histogram": "Histograms",
    "ops.histogram_grid": "Histograms of points",
    "reduction.softmax": "Normalised exponentials",
    "linear.products": "Products",
    "linear.diagonals": "Diagonals",
    "linear.cross": "Cross products",
    "linear.einsum": "Einstein summation",
    "ops.calculus": "Differences and interpolation",
    "ops.fitting": "Polynomials that fit",
    "ops.polynomials": "Polynomials",
    "ops.slices": "Slices and windows",
    "ops.choices": "Choices",
    "ops.windows": "Windows of samples",
    "ops.conversions": "Phases, powers and complex numbers",
}


def _cell(function: Any) -> str:
    """The first sentence of a docstring, as a cell of a table."""
    return " ".join((inspect.getdoc(function) or "").split("\n\n")[0].split()).replace("|", r"\|")


class Family(NamedTuple):
    """Functions of one kind.

    Attributes:
        title: the title in the list.
        home: the public module of the functions.
        names: their names in it.
    """

    title: str
    home: ModuleType
    names: Sequence[str]


def families() -> Iterator[Family]:
    """The families of functions on arrays; each function is in one family."""
    rows = [name for name in namespace.__all__ if isinstance(getattr(namespace, name), Row)]
    told = set(rows) | set(reductions)
    yield Family("Elementwise", root, rows)
    yield Family("Reductions", root, reductions)
    for module, title in _FAMILIES.items():
        names = importlib.import_module(f"cukern.{module}").__all__
        yield Family(title, root, [name for name in names if name not in told])
        told |= set(names)
    yield Family("Further", root, [name for name in namespace.__all__ if name not in told])
    yield Family("Creation", root, creation.__all__)
    yield Family("Grids", root, grids.__all__)
    yield Family("Arrays of bytes, files and texts", root, sources.__all__)
    yield Family("Inspection", root, [name for name in info.__all__ if name not in CONSTANTS])
    yield Family("Files", root, io.__all__)
    for home, title in ((linalg, "Linear algebra"), (fft, "Fourier transforms")):
        yield Family(title, home, [name for name in home.__all__ if inspect.isfunction(getattr(home, name))])


def markdown() -> str:
    """Every public function with the first sentence of its docstring, by family."""
    lines = [
        "# The namespace",
        "",
        "The functions of `cukern` on arrays (`import cukern as ck`), made by `python -m cukern functions`.",
        "",
    ]
    for title, home, names in families():
        if names:
            lines += [f"## {title}", "", "| function | description |", "| --- | --- |"]
            prefix = home.__name__.replace("cukern", "ck", 1)
            lines += [f"| `{prefix}.{name}` | {_cell(getattr(home, name))} |" for name in names]
            lines.append("")
    pairs = ", ".join(f"`{name}` ({_named(getattr(aliases, name))})" for name in aliases.__all__)
    return "\n".join([*lines, "## NumPy's names", "", pairs + ".", ""])


def _named(function: Any) -> str:
    return f"`{function.__name__}`"
