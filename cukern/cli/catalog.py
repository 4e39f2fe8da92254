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
from ..control import loops
from ..elementwise.row import Row
from ..namespace import aliases
from ..ops import grids, info, sources
from ..reduction.rows import __all__ as reductions

#: Names of :mod:`cukern` that are not functions.
CONSTANTS = frozenset({"e", "inf", "nan", "newaxis", "pi"})
root = sys.modules["cukern"]
#: The titles of functions in the list, and the modules that have them.
_FAMILIES = {
    "Shapes": "shape.views",
    "Joining and splitting": "shape.joins",
    "Stacking, tiling and repeating": "index.assemble",
    "Padding": "ops.padding",
    "Indexing and assignment": "index.take index.put index.unravel",
    "Sliding windows and slices": "ops.slices",
    "Selection": "ops.choices",
    "Searching": "index.search",
    "Sorting": "index.sort index.select",
    "Sets": "index.sets",
    "Cumulative sums and scans": "index.scan",
    "Segments and scatter": "index.segments",
    "Averages, and reductions that ignore NaN": "reduction.nan",
    "Medians and quantiles": "ops.statistics",
    "Correlation": "ops.covariance",
    "Histograms": "ops.histogram ops.histogram_grid",
    "Softmax": "reduction.softmax",
    "Matrix and vector products": "linear.products linear.cross linear.einsum",
    "Diagonals": "linear.diagonals",
    "Differences, integrals and interpolation": "ops.calculus",
    "Polynomials": "ops.polynomials ops.fitting",
    "Window functions": "ops.windows",
    "Comparison": "ops.comparisons",
    "Special functions": "ops.gamma_functions",
    "Floating-point parts": "elementwise.exponents",
    "Bits": "index.bits",
    "Vectorised functions": "ops.vectorized",
    "Phases, powers and complex numbers": "ops.conversions",
    "Number ranges": "ops.spaces",
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
    for title, modules in _FAMILIES.items():
        own = [name for one in modules.split() for name in importlib.import_module(f"cukern.{one}").__all__]
        yield Family(title, root, [name for name in own if name not in told])
        told |= set(own)
    yield Family("Other functions", root, [name for name in namespace.__all__ if name not in told])
    yield Family("Control flow", root, [*loops.__all__, "custom_root", "odeint"])
    yield Family("Creation", root, creation.__all__)
    yield Family("Index grids", root, grids.__all__)
    yield Family("From bytes, files and texts", root, sources.__all__)
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
