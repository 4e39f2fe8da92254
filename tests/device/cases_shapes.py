"""Cases of arrays put together, indexed and taken apart."""

from __future__ import annotations

from typing import Any

import numpy as np
from namespace_cases import A, Case

M = A((3, 4))
T = A((2, 3, 4))


def named(function: Any, name: str) -> Any:
    """A NumPy function that takes an option by another name."""
    return lambda *args, **options: function(*args, options.pop(name))


CASES = [
    Case("copy", (M,)),
    Case("reshape", (T, (4, -1))),
    Case("reshape", (T, (4, -1)), {"order": "F"}, label="first-axis-fastest"),
    Case("ravel", (T,)),
    Case("ravel", (T, "F"), label="first-axis-fastest"),
    Case("permute_dims", (T, (2, 0, 1))),
    Case("transpose", (T,)),
    Case("matrix_transpose", (T,), oracle=lambda x: x.swapaxes(-1, -2)),
    Case("swapaxes", (T, 0, -1)),
    Case("moveaxis", (T, (0, 1), (-1, 0))),
    Case("expand_dims", (M, (0, 2))),
    Case("squeeze", (A((1, 3, 1)),), {"axis": (0, 2)}),
    Case("broadcast_to", (M, (2, 3, 4))),
    Case("broadcast_arrays", (A((3, 1)), A((4,)))),
    Case("flip", (T, (0, 2))),
    Case("roll", (T, (1, -2), (0, 2))),
    Case("roll", (T, 5), label="flat"),
    Case("roll", (T, (1, 2), (1, 1)), label="added"),
    Case("roll", (T, 1, (0, -1)), label="one-for-all"),
    Case("concat", ([M, A((2, 4))],), {"axis": 0}, oracle=np.concatenate),
    Case("concat", ([M, A((0, 4))],), {"axis": 0}, oracle=np.concatenate, label="empty", gradient=0),
    Case("concat", ([M, A((2,))],), {"axis": None}, oracle=np.concatenate, label="flat"),
    Case("stack", ([M, M],), {"axis": 1}),
    Case("unstack", (M,), {"axis": 1}, oracle=lambda x, axis: list(np.moveaxis(x, axis, 0))),
    Case("split", (M, 2, 1)),
    Case("tril", (T,), {"k": 1}),
    Case("triu", (T,), {"k": -1}),
    Case("atleast_1d", (A(()),)),
    Case("atleast_2d", (A((3,)),)),
    Case("atleast_3d", (A((3,)),)),
    Case("hstack", ([M, A((3, 2))],)),
    Case("vstack", ([A((4,)), M],)),
    Case("dstack", ([M, M],)),
    Case("column_stack", ([A((3,)), M],)),
    Case("block", ([[M, A((3, 1))], [A((5,))]],)),
    Case("vander", (A((3,)),), {"N": 4}),
    Case("vander", (A((3,)),), {"increasing": True}, label="increasing"),
    Case("trim_zeros", (A(values=[0, 0, 1, 2, 0, 3, 0]),), gradient=0),
    Case("trim_zeros", (A(values=[[0, 0, 0], [0, 1, 0]]), "b", 1), gradient=0, repeat=False, label="axis"),
    Case("array_split", (A((7, 2)), 3)),
    Case("hsplit", (M, 2)),
    Case("vsplit", (M, [1, 2])),
    Case("dsplit", (T, 2)),
    Case("fliplr", (M,)),
    Case("flipud", (M,)),
    Case("rot90", (T, 3, (1, 2))),
    Case("rollaxis", (T, 2, 1)),
    Case("tile", (M, (2, 1, 2))),
    Case("repeat", (M, 2), {"axis": 1}),
    Case("repeat", (M, A(values=[2, 0, 1], kind="int64")), {"axis": 0}, label="each"),
    Case("pad", (M, ((1, 2), (0, 1)))),
    Case("pad", (M, 2, "edge"), label="edge"),
    Case("pad", (M, ((3, 1), (1, 2)), "reflect"), label="reflect"),
    Case("pad", (M, 2, "symmetric"), label="symmetric"),
    Case("pad", (M, 2, "wrap"), label="wrap"),
    Case("pad", (M, ((1, 2), (2, 1))), {"constant_values": ((1, 2), (3, 4))}, label="constants"),
    Case("pad", (M, ((0, 2), (1, 0)), "maximum"), kinds="iuf", label="maximum"),
    Case("pad", (M, 2, "minimum"), {"stat_length": 2}, kinds="iuf", label="minimum"),
    Case("pad", (M, ((0, 2), (1, 0)), "mean"), label="mean"),
    Case(
        "pad", (M, ((2, 2), (1, 4)), "linear_ramp"), {"end_values": (2, 0)}, kinds="iuf", label="linear-ramp"
    ),
    Case("append", (M, A((1, 4))), {"axis": 0}),
    Case("delete", (M, [0, 2]), {"axis": 1}, oracle=named(np.delete, "axis")),
    Case("insert", (M, 1, A((4,))), {"axis": 0}, oracle=named(np.insert, "axis")),
    Case("resize", (M, (5, 3))),
    Case("meshgrid", (A((3,)), A((2,)))),
    Case("meshgrid", (A((3,)), A((2,))), {"indexing": "ij", "sparse": True}, label="sparse"),
    Case("astype", (M, "float64"), oracle=lambda x, dtype: x.astype(dtype), dtype=np.float64),
    Case("linspace", (A((3,)), A((2, 1))), {"num": 4, "axis": 1}, kinds="f"),
    Case("logspace", (A((3,)), A((2, 1))), {"num": 3, "base": 2.5}, kinds="f", tolerance=4),
    Case("geomspace", (A((3,), 0.5, 2), A((2, 1), 0.5, 2)), {"num": 4}, kinds="f"),
    Case("take", (M, A(values=[2, 0, -1], kind="int64")), {"axis": 1}),
    Case("take_along_axis", (M, A(values=[[1, 0], [3, 3], [2, -1]], kind="int64")), {"axis": 1}),
    Case("where", (A((3, 1), kind="bool"), M, A((4,)))),
    Case("clip", (M, -0.5, 0.5), kinds="f"),
    Case("isclose", (A(values=[1.0, 2.0, np.inf]), A(values=[1.0, 2.1, np.inf])), kinds="f", gradient=0),
    Case(
        "divmod", (A((5, 6), 1, 5), A((6,), 1, 3)), kinds="f", gradient=0, oracle=lambda x, y: np.divmod(x, y)
    ),
    Case("modf", (A((3, 4)),), kinds="f", gradient=0),
    Case("real", (M,)),
    Case("angle", (M,), kinds="iuf", gradient=0, dtype=""),
    Case("conj", (M,), kinds="iuf"),
    Case("imag", (M,), gradient=0),
    Case("isreal", (M,), gradient=0),
    Case("iscomplex", (M,), gradient=0),
]
