"""Cases of order statistics, histograms, covariances and sums of neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np
from namespace_cases import FLOAT, INTEGER, NUMERIC, A, Case

D = A((4, 5), distinct=True)
ODD = A((3, 5, 3), distinct=True)
NAN = A(values=[[1.0, np.nan, 3.0, 0.5], [np.nan, np.nan, -1.0, 2.0], [0.0, 1.5, 2.0, -2.0]])
ROWS = A((3, 6))
METHODS = ("lower", "higher", "midpoint", "nearest", "hazen", "inverted_cdf", "closest_observation")


def numbers(x: np.ndarray) -> np.ndarray:
    """Bools as the integers that they are binned as, of which NumPy warns."""
    return x.astype(np.uint8) if x.dtype == bool else x


def histogram(x: np.ndarray, *args: Any, **options: Any) -> Any:
    return np.histogram(numbers(x), *args, **options)


def edges(x: np.ndarray, *args: Any) -> np.ndarray:
    return np.histogram_bin_edges(numbers(x), *args)


CASES = [
    Case("median", (D,), {"axis": 1}),
    Case("median", (D,), {"axis": 0, "keepdims": True}, label="even"),
    Case("median", (ODD,), {"axis": (0, -1)}, label="axes"),
    Case("median", (ODD,), label="flat"),
    Case("median", (A(values=3.0),), label="0-d", kinds=FLOAT),
    Case("nanmedian", (D,), {"axis": 1}),
    Case("nanmedian", (NAN,), {"axis": 0}, kinds=FLOAT, gradient=0),
    Case("nanmedian", (NAN,), {"axis": 1}, kinds=FLOAT, gradient=0, label="rows"),
    Case("quantile", (D, 0.3), {"axis": 1}, kinds=NUMERIC, tolerance=4),
    Case("quantile", (D, [0.0, 0.21, 0.8, 1.0]), {"axis": 0}, kinds=NUMERIC, label="several", tolerance=4),
    Case("quantile", (ODD, [[0.2], [0.6]]), {"axis": (0, 2), "keepdims": True}, kinds=NUMERIC, label="axes"),
    *(
        Case("quantile", (D, [0.13, 0.55]), {"axis": 1, "method": m}, kinds=NUMERIC, label=m, tolerance=4)
        for m in METHODS
    ),
    Case("percentile", (D, [10, 42.5]), {"axis": 1}, kinds=NUMERIC, tolerance=4),
    Case("nanquantile", (NAN, [0.3, 0.9]), {"axis": 1}, kinds=FLOAT, gradient=0, tolerance=4),
    Case("nanquantile", (D, 0.4), {"axis": 0}, kinds=NUMERIC, label="without NaN", tolerance=4),
    Case("nanpercentile", (NAN, 25), {"axis": 0, "keepdims": True}, kinds=FLOAT, gradient=0, tolerance=4),
    Case("cov", (ROWS,), kinds=NUMERIC, tolerance=16),
    Case("cov", (A((6,)), A((6,))), {"ddof": 2}, kinds=FLOAT, label="two", tolerance=16),
    Case("cov", (ROWS,), {"rowvar": False, "bias": True}, kinds=NUMERIC, label="columns", tolerance=16),
    Case("corrcoef", (ROWS,), kinds=FLOAT, tolerance=16, repeat=False),
    Case("corrcoef", (A((6,)), A((6,))), kinds=FLOAT, label="two", tolerance=16, repeat=False),
    *(
        Case("histogram", (D, *a), oracle=histogram, gradient=0, dtype="", halves=False, label=label)
        for label, *a in (("", 4), ("range", 4, (-1.0, 2.5)), ("edges", [-2, -1, 0, 0, 2, 3]))
    ),
    Case("histogram_bin_edges", (D, 5), oracle=edges, gradient=0, repeat=False),
    Case("bincount", (A((40,), 0, 7),), kinds=INTEGER, gradient=0),
    Case("bincount", (A(values=[3, 1, 1, 0], kind="int64"), A((4,))), kinds=FLOAT, label="weights"),
    Case("bincount", (A((0,), kind="int32"),), {"minlength": 3}, kinds="i", gradient=0, label="empty"),
    Case("digitize", (D, [-1, 0, 1]), gradient=0, kinds=NUMERIC),
    Case("digitize", (D, [1, 0, -1], True), gradient=0, kinds=NUMERIC, label="falling"),
    Case("gradient", (A((5, 6)), 0.5, 2.0), kinds=FLOAT, label="spacings", tolerance=8),
    Case("convolve", (A((40,)), A((5,))), kinds=NUMERIC, label="long", tolerance=8),
    Case("convolve", (A((40,)), A((35,)), "valid"), kinds=NUMERIC, label="valid", tolerance=16),
    Case("correlate", (A((3,)), A((7,)), "same"), kinds=NUMERIC, label="same", tolerance=8),
    Case(
        "interp",
        (A((9,), -3, 3), A(values=[-1.5, -0.3, 0.9, 1.7]), A((4,))),
        {"left": -7.0, "right": 5.0},
        kinds=FLOAT,
        label="ends",
        tolerance=8,
        repeat=False,
    ),
    Case(
        "interp",
        (A((9,), -9, 9), A(values=[0.5, 2.0, 3.5, 1.25], kind="float64"), A((4,), kind="float64")),
        {"period": 4.0},
        kinds=FLOAT,
        label="period",
        dtype=np.float64,
        halves=False,
        repeat=False,
    ),
]
