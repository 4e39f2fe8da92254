"""Cases of reductions and their options, and of the normalised exponentials."""

from __future__ import annotations

from typing import Any

import numpy as np
from namespace_cases import ALL, FLOAT, NUMERIC, A, Case

X, CUBE = A((3, 5)), A((2, 3, 4))
SPREAD = A((3, 5), distinct=True)
NEAR_ONE = A((3, 5), 0.5, 1.5)
MASK = np.arange(15).reshape(3, 5) % 3 > 0
ROW = np.array([True, False, True, True, False])
MANY = A(values=np.random.default_rng(5).normal(size=(3, 200)))


def exponentials(x: Any, axis: int) -> Any:
    """The softmax."""
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def log_sum(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The logarithm of the sum of exponentials."""
    return np.log(np.sum(np.exp(x), axis=axis, keepdims=keepdims))


CASES = [
    *(
        Case(name, (CUBE,), {"axis": axis, "keepdims": keepdims}, kinds=kinds, tolerance=8, label=str(axis))
        for name, kinds in (("sum", ALL), ("mean", ALL), ("var", ALL), ("std", ALL))
        for axis, keepdims in ((None, False), ((0, 2), True), (-2, False))
    ),
    Case("prod", (NEAR_ONE,), {"axis": 1}, tolerance=8),
    Case("prod", (NEAR_ONE,), {"axis": (0, 1), "keepdims": True}, tolerance=8, gradient=1, label="all"),
    *(
        Case(name, (SPREAD,), {"axis": axis}, label=str(axis), repeat=False)
        for name in ("max", "min")
        for axis in (None, 0)
    ),
    *(
        Case(name, (SPREAD,), {"axis": axis}, gradient=0, label=str(axis))
        for name in ("argmax", "argmin")
        for axis in (None, 1)
    ),
    *(Case(name, (A((3, 5), -1, 1),), {"axis": 1}, gradient=0) for name in ("any", "all")),
    Case("logsumexp", (X,), {"axis": 1}, oracle=log_sum, kinds=FLOAT, tolerance=4),
    Case(
        "logsumexp", (MANY,), {"axis": 1}, oracle=log_sum, kinds=FLOAT, gradient=0, label="long", tolerance=4
    ),
    *(
        Case("softmax", (x, axis), oracle=exponentials, kinds=FLOAT, gradient=order, label=label, tolerance=4)
        for x, axis, order, label in ((X, 1, 2, "rows"), (CUBE, 1, 2, "columns"), (MANY, -1, 0, "long"))
    ),
    *(
        Case(
            "log_softmax",
            (x, axis),
            oracle=lambda x, axis: np.log(exponentials(x, axis)),
            kinds=FLOAT,
            gradient=order,
            label=label,
            tolerance=4,
        )
        for x, axis, order, label in ((X, 1, 2, "rows"), (CUBE, 1, 2, "columns"), (MANY, -1, 0, "long"))
    ),
    # The options of NumPy.
    Case("sum", (X,), {"axis": 0, "dtype": np.float64}, dtype=np.float64, label="dtype"),
    Case("sum", (X,), {"axis": 0, "initial": 3}, label="initial", tolerance=4),
    Case("prod", (NEAR_ONE,), {"axis": 0, "initial": 2}, label="initial", tolerance=4),
    Case("max", (SPREAD,), {"axis": 0, "initial": 1}, kinds=NUMERIC, label="initial"),
    Case("min", (SPREAD,), {"axis": 0, "initial": 1}, kinds=NUMERIC, label="initial"),
    Case("mean", (X,), {"axis": 0, "dtype": np.float64}, dtype=np.float64, label="dtype", tolerance=4),
    Case("var", (X,), {"axis": 0, "ddof": 1}, label="ddof", tolerance=8),
    Case("std", (X,), {"axis": 0, "correction": 1.5}, label="correction", tolerance=8),
    Case("average", (CUBE, (2, 0), A((4, 2), 0.5, 2)), kinds=FLOAT, label="axes", tolerance=8),
    Case(
        "average", (X,), {"axis": 1, "returned": True}, kinds=FLOAT, label="returned", tolerance=8, gradient=0
    ),
    # Where a mask is true.
    Case("sum", (X,), {"axis": 0, "where": MASK}, label="where"),
    Case("prod", (NEAR_ONE,), {"axis": 1, "where": ROW}, label="where", tolerance=4),
    Case("max", (SPREAD,), {"axis": 0, "initial": -3, "where": MASK}, kinds="if", label="where"),
    Case("min", (SPREAD,), {"axis": 0, "initial": 9, "where": MASK}, kinds=NUMERIC, label="where"),
    Case("any", (A((3, 5), -1, 1),), {"axis": 0, "where": MASK}, gradient=0, label="where"),
    Case("all", (A((3, 5), -1, 1),), {"axis": 0, "where": MASK}, gradient=0, label="where"),
    Case("mean", (X,), {"axis": 1, "where": ROW}, label="where", tolerance=8),
    Case("var", (X,), {"axis": 1, "where": MASK, "ddof": 1}, label="where", tolerance=8),
    Case("std", (X,), {"axis": 0, "where": MASK}, label="where", tolerance=8, repeat=False),
]
