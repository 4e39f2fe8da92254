"""Cases of products, norms, differences and reductions that are maps before a reduction."""

from __future__ import annotations

from typing import Any

import numpy as np
from namespace_cases import FLOAT, NUMERIC, A, Case

RNG = np.random.default_rng(7)
SQUARE = A(values=RNG.normal(size=(2, 4, 4)) + 3 * np.eye(4))
WIDE, TALL = A(values=RNG.normal(size=(2, 3, 5))), A(values=RNG.normal(size=(2, 5, 3)))
M, V = A((3, 4)), A((4,))
NAN = A(values=[[1.0, np.nan, 2.0], [np.nan, np.nan, 4.0], [0.5, -1.0, 3.0]])
#: Factorisations are of float32 and float64.
WIDE_FLOAT: dict[str, Any] = {"kinds": FLOAT, "repeat": False, "halves": False, "tolerance": 30}


def last(function: Any) -> Any:
    """A function of the last two axes."""
    return lambda x, offset=0: function(x, offset, -2, -1)


def _expm(x: Any) -> Any:
    """The exponentials of matrices that have a basis of eigenvectors."""
    values, vectors = np.linalg.eig(x.astype(np.float64))
    return (vectors * np.exp(values)[..., None, :] @ np.linalg.inv(vectors)).real.astype(x.dtype)


CASES = [
    Case("matmul", (A((2, 3, 4)), A((4, 2))), kinds=NUMERIC, tolerance=8),
    Case("tensordot", (A((2, 3, 4)), A((3, 4, 2))), {"axes": 2}, kinds=NUMERIC, tolerance=8),
    Case("vecdot", (M, V), kinds=NUMERIC, oracle=lambda x, y: (x * y).sum(-1, dtype=x.dtype), tolerance=8),
    Case("outer", (V, A((3,))), kinds=NUMERIC),
    Case("inner", (M, V), kinds=NUMERIC, tolerance=8),
    Case("dot", (M, A((4, 2))), kinds=NUMERIC, tolerance=8),
    Case("vdot", (M, M), kinds=NUMERIC, tolerance=8),
    Case("kron", (A((2, 3)), A((2,))), kinds=NUMERIC),
    Case("diagonal", (A((3, 4, 5)), 1, 0, 2)),
    Case("trace", (A((3, 4, 5)), -1), kinds=NUMERIC, tolerance=4),
    Case("diag", (V, 1)),
    Case("diag", (M, -1), label="of a matrix"),
    Case("diagflat", (A((2, 2)), 1)),
    Case("cross", (A((4, 3)), A((3,))), kinds="i" + FLOAT, tolerance=4),
    Case("einsum", ("ij,kj->ik", M, A((2, 4))), kinds=NUMERIC, tolerance=8),
    Case(
        "einsum",
        ("bij,bjk,k->bi", A((2, 3, 4)), A((2, 4, 2)), A((2,))),
        kinds="i" + FLOAT,
        label="three",
        tolerance=16,
        gradient=1,
    ),
    Case("linalg.inv", (SQUARE,), **WIDE_FLOAT),
    Case("linalg.det", (SQUARE,), **WIDE_FLOAT),
    Case("linalg.solve", (SQUARE, A((2, 4, 2))), **WIDE_FLOAT),
    Case("linalg.slogdet", (SQUARE,), **WIDE_FLOAT),
    Case("linalg.pinv", (WIDE,), **WIDE_FLOAT),
    Case("linalg.expm", (SQUARE,), oracle=_expm, **WIDE_FLOAT),
    Case(
        "linalg.solve_triangular",
        (SQUARE, A((2, 4, 2))),
        {"lower": True},
        oracle=lambda a, b, lower: np.linalg.solve(np.tril(a), b),
        **WIDE_FLOAT,
    ),
    Case("linalg.svdvals", (TALL,), oracle=lambda x: np.linalg.svd(x, compute_uv=False), **WIDE_FLOAT),
    Case("linalg.matrix_rank", (TALL,), gradient=0, **WIDE_FLOAT),
    Case("linalg.matrix_power", (SQUARE, 3), **WIDE_FLOAT),
    Case("linalg.cond", (SQUARE,), **WIDE_FLOAT),
    Case("linalg.trace", (A((2, 3, 4)),), {"offset": 1}, oracle=last(np.trace), kinds=NUMERIC, tolerance=4),
    Case("linalg.diagonal", (A((2, 3, 4)),), {"offset": 1}, oracle=last(np.diagonal)),
    Case("linalg.multi_dot", ([M, A((4, 5)), A((5, 2))],), tolerance=30, kinds=FLOAT, halves=False),
    *(
        Case(
            "linalg.vector_norm",
            (A((3, 4), 0.2, 2),),
            {"ord": p, "axis": 1},
            oracle=lambda x, ord, axis: np.linalg.norm(x, ord, axis),
            kinds=FLOAT,
            label=str(p),
            tolerance=4,
        )
        for p in (2, 1, np.inf, -np.inf, 3, 0)
    ),
    *(
        Case(
            "linalg.matrix_norm",
            (A((2, 3, 4)),),
            {"ord": p},
            oracle=lambda x, ord: np.linalg.norm(x, ord, (-2, -1)),
            label=str(p),
            **WIDE_FLOAT,
        )
        for p in ("fro", "nuc", 1, -1, 2, -2, np.inf)
    ),
    Case("linalg.norm", (M,), kinds=FLOAT, tolerance=4),
    Case("diff", (M,), {"n": 2, "axis": 0}, kinds=NUMERIC, tolerance=4),
    Case("diff", (M,), {"prepend": 0, "append": 1}, kinds=NUMERIC, label="ends", tolerance=4),
    Case("ediff1d", (M,), kinds=NUMERIC, tolerance=4),
    Case("gradient", (A((5, 6)),), {"edge_order": 2}, kinds=FLOAT, tolerance=8),
    Case(
        "gradient",
        (A((4, 3)), A(values=[0.0, 1.0, 3.0, 3.5])),
        {"axis": 0},
        kinds=FLOAT,
        label="coordinates",
        repeat=False,
        tolerance=8,
    ),
    Case("trapezoid", (M,), {"dx": 0.5}, kinds=FLOAT, tolerance=8),
    Case(
        "trapezoid",
        (M, A(values=[0.0, 1.0, 1.5, 4.0])),
        kinds=FLOAT,
        label="coordinates",
        tolerance=8,
        repeat=False,
    ),
    Case("convolve", (A((7,)), A((3,))), kinds=NUMERIC, tolerance=8),
    Case("convolve", (A((4,)), A((6,)), "same"), kinds=NUMERIC, label="same", tolerance=8),
    Case("correlate", (A((7,)), A((4,)), "full"), kinds=NUMERIC, label="full", tolerance=8),
    Case(
        "interp",
        (A((3, 5)), A(values=[-1.5, -0.3, 0.9, 1.7], kind="float64"), A((4,), kind="float64")),
        kinds=FLOAT,
        dtype=np.float64,
        tolerance=8,
        repeat=False,
        halves=False,
    ),
    Case("nansum", (NAN,), {"axis": 0}, kinds=FLOAT, gradient=0),
    Case("nanprod", (NAN,), {"axis": 1}, kinds=FLOAT, gradient=0),
    Case("nanmean", (NAN,), {"axis": 0}, kinds=FLOAT, gradient=0),
    Case("nanvar", (NAN,), {"axis": 0}, kinds=FLOAT, gradient=0, tolerance=4),
    Case("nanstd", (NAN,), {"axis": 1, "keepdims": True}, kinds=FLOAT, gradient=0, tolerance=4),
    Case("nanmax", (NAN,), {"axis": 0}, kinds=FLOAT, gradient=0),
    Case("nanmin", (NAN,), {"axis": 1}, kinds=FLOAT, gradient=0),
    Case("nanargmax", (NAN,), {"axis": 1}, kinds=FLOAT, gradient=0, repeat=False),
    Case("nanargmin", (NAN,), {"axis": 1}, kinds=FLOAT, gradient=0, repeat=False),
    *(
        Case(name, (A((3, 5)),), {"axis": 1}, kinds=FLOAT, label="without NaN", tolerance=8)
        for name in ("nansum", "nanprod", "nanmean", "nanvar", "nanstd")
    ),
    *(
        Case(name, (A((3, 5), distinct=True),), {"axis": 1}, kinds=FLOAT, label="without NaN")
        for name in ("nanmax", "nanmin", "ptp")
    ),
    Case("count_nonzero", (A((3, 5), -1, 1),), {"axis": 1}, gradient=0),
    Case("average", (M, 1, A((4,), 0.5, 2)), kinds=FLOAT, tolerance=8),
    Case("fft.fftshift", (A((4, 5)),)),
    Case("fft.ifftshift", (A((4, 5)),), {"axes": 1}),
]
