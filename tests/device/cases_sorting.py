"""Cases of sorting, searching, sets and scans."""

from __future__ import annotations

from typing import Any

import numpy as np
from namespace_cases import ALL, FLOAT, NUMERIC, A, Case


def descending(x: np.ndarray, axis: int = -1, **options: object) -> np.ndarray:
    """The stable order of the largest first."""
    return np.argsort(-x.astype(np.float64), axis, kind="stable")


def topk(x: np.ndarray, k: int, axis: int = -1) -> Any:
    order = np.take(descending(x, axis), np.arange(k), axis)
    return np.take_along_axis(x, order, axis), order


def lead(scan: Any, start: float) -> Any:
    def scanned(x: np.ndarray, axis: int, include_initial: bool) -> np.ndarray:
        made = scan(x, axis)
        shape = list(made.shape)
        shape[axis] = 1
        return np.concatenate([np.full(shape, start, made.dtype), made], axis)

    return scanned


def logcumsumexp(x: np.ndarray, axis: int | None = None) -> np.ndarray:
    return np.logaddexp.accumulate(
        np.ravel(x) if axis is None else x, 0 if axis is None else axis, dtype=np.float64
    )


def stable(x: np.ndarray, axis: int | None = -1) -> np.ndarray:
    return np.argsort(x, axis, kind="stable")


D = A((4, 5), distinct=True)
TIES = A((3, 40), 0, 5)
CASES = [
    Case("sort", (D,), {"axis": 0}),
    Case("msort", (D,), oracle=lambda x: np.sort(x, 0)),
    Case("sort", (TIES,), label="ties", gradient=0),
    Case("sort", (D,), {"axis": None}, label="flat"),
    Case("sort", (A((0, 3)),), label="empty", gradient=0),
    Case("sort", (A((2, 3000), distinct=True),), label="long", gradient=0),
    Case("argsort", (TIES,), oracle=stable, gradient=0),
    Case("argsort", (TIES,), {"descending": True}, oracle=descending, gradient=0, label="descending"),
    Case("argsort", (D,), {"axis": 0}, oracle=stable, gradient=0, label="columns"),
    Case("topk", (D, 2), oracle=topk, dtype=""),
    Case("topk", (D, 3), {"axis": 0}, oracle=topk, dtype="", label="columns"),
    Case("lexsort", ([A((20,), 0, 3), A((20,), 0, 3)],), gradient=0),
    Case(
        "searchsorted",
        (A(values=[-2, -1, 0, 0, 1, 2]), A((3, 4))),
        gradient=0,
        kinds=FLOAT + "i",
        repeat=False,
    ),
    Case(
        "searchsorted",
        (A(values=[0, 1, 1, 2]), A((7,), 0, 3)),
        {"side": "right"},
        gradient=0,
        label="right",
        repeat=False,
    ),
    Case("nonzero", (A((5, 7), -1, 1),), gradient=0),
    Case("argwhere", (A((5, 7), 0, 1),), gradient=0),
    Case("flatnonzero", (A((5, 7), 0, 1),), gradient=0),
    Case(
        "compress",
        (A((4,), kind="bool", values=[True, False, True, True]), A((4, 3))),
        {"axis": 0},
        repeat=False,
    ),
    Case("extract", (A((2, 2), kind="bool", values=[[True, False], [True, True]]), A((2, 2))), repeat=False),
    Case("unique_values", (A((30,), 0, 9),), oracle=np.unique, gradient=0),
    Case("unique_counts", (A((3, 10), 0, 9),), oracle=lambda x: np.unique(x, return_counts=True), gradient=0),
    Case(
        "unique_inverse", (A((3, 10), 0, 9),), oracle=lambda x: np.unique(x, return_inverse=True), gradient=0
    ),
    Case("unique_all", (A((3, 10), 0, 9),), oracle=lambda x: np.unique(x, True, True, True), gradient=0),
    Case("unique", (A((20,), 0, 9),), gradient=0),
    Case("isin", (A((4, 6), 0, 9), A((5,), 0, 9)), gradient=0),
    Case("isin", (A((4, 6), 0, 9), A((0,))), {"invert": True}, gradient=0, label="empty"),
    Case("union1d", (A((9,), 0, 9), A((8,), 0, 9)), gradient=0),
    Case("intersect1d", (A((9,), 0, 9), A((8,), 0, 9)), gradient=0),
    Case("setdiff1d", (A((9,), 0, 9), A((8,), 0, 9)), gradient=0),
    Case("setxor1d", (A((9,), 0, 9), A((8,), 0, 9)), gradient=0),
    Case("cumsum", (A((3, 5)),), {"axis": 1}, kinds=NUMERIC, tolerance=4),
    Case("cumsum", (A((3, 5)),), kinds=ALL, label="flat", tolerance=4),
    Case("cumsum", (A((3, 4, 2)),), {"axis": 0}, kinds=NUMERIC, label="first", tolerance=4),
    Case("cumsum", (A((0, 2)),), {"axis": 0}, gradient=0, label="empty"),
    Case("cumsum", (A((3000,), 0, 1),), gradient=0, label="long", tolerance=4, kinds="iu" + FLOAT),
    Case(
        "cumulative_sum",
        (A((4, 3)),),
        {"axis": 0, "include_initial": True},
        oracle=lead(np.cumsum, 0),
        tolerance=4,
    ),
    Case("cumprod", (A((3, 5), 0.3, 1.5),), {"axis": 1}, tolerance=4),
    Case(
        "cumprod",
        (A(values=[[2.0, 0.0, 3.0, 0.0, 1.5], [0.5, 1.0, 2.0, 1.5, 0.0]]),),
        {"axis": 1},
        label="zeros",
        kinds=FLOAT,
        tolerance=4,
    ),
    Case(
        "cumulative_prod",
        (A((4, 3), 0.5, 1.5),),
        {"axis": 1, "include_initial": True},
        oracle=lead(np.cumprod, 1),
        tolerance=4,
    ),
    Case("nancumsum", (A(values=[1.0, np.nan, 3.0]),), kinds=FLOAT, gradient=0, repeat=False),
    Case("nancumprod", (A(values=[2.0, np.nan, 3.0]),), kinds=FLOAT, gradient=0, repeat=False),
    Case("cummax", (D,), {"axis": 1}, oracle=np.maximum.accumulate),
    Case("cummin", (D,), {"axis": 0}, oracle=np.minimum.accumulate),
    Case("logcumsumexp", (A((3, 5)),), {"axis": 1}, oracle=logcumsumexp, kinds=FLOAT, tolerance=4),
]
