"""Cases of sorting and of sets, beside those of cases_sorting."""

from __future__ import annotations

from typing import Any

import numpy as np
from namespace_cases import FLOAT, A, Case


def ordered(x: np.ndarray, kth: Any, axis: int | None = -1) -> np.ndarray:
    """What a partition is here."""
    return np.sort(x, axis)


def order(x: np.ndarray, kth: Any, axis: int | None = -1) -> np.ndarray:
    return np.argsort(x, axis, kind="stable")


def smallest(x: np.ndarray, k: int, axis: int | None = -1, largest: bool = False) -> Any:
    flat, at = (x.ravel(), 0) if axis is None else (x, axis)
    places = np.take(np.argsort(flat, at, kind="stable"), np.arange(k), at)
    return np.take_along_axis(flat, places, at), places


D = A((4, 5), distinct=True)
NANS = A(values=[[2.0, np.nan, -0.0, 0.0, -np.inf], [np.nan, 1.0, np.inf, np.nan, -1.0]])
CASES = [
    Case("sort", (A((2, 3, 4), distinct=True),), {"axis": 1}, label="middle"),
    Case("sort", (NANS,), label="nan", gradient=0, kinds=FLOAT, repeat=False),
    Case("argsort", (NANS,), {"kind": "stable"}, gradient=0, kinds=FLOAT, label="nan", repeat=False),
    Case("argsort", (A((3, 300), 0, 5),), {"axis": None, "kind": "stable"}, gradient=0, label="flat"),
    Case("partition", (D, 2), oracle=ordered),
    Case("partition", (D, (0, -1)), {"axis": 0}, oracle=ordered, label="columns", gradient=0),
    Case("argpartition", (D, 2), oracle=order, gradient=0),
    Case("topk", (D, 2), {"largest": False}, oracle=smallest, dtype="", label="smallest"),
    Case("topk", (D, 3), {"axis": None, "largest": False}, oracle=smallest, dtype="", label="flat"),
    Case("unique", (A((3, 10), 0, 9), True, True, True), gradient=0, label="all"),
    Case("unique", (A((6, 2), 0, 1), True, True, True, 0), gradient=0, label="rows"),
    Case("unique", (A((3, 5), 0, 1),), {"axis": 1}, gradient=0, label="columns"),
    Case("isin", (A((4, 6), 0, 9), A((5,), 0, 9)), {"invert": True}, gradient=0, label="invert"),
    Case(
        "intersect1d", (A((9,), 0, 9), A((8,), 0, 9)), {"return_indices": True}, gradient=0, label="indices"
    ),
]
