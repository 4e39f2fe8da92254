"""Cases of products, diagonals and norms along other axes, and of einsum's subscripts."""

from __future__ import annotations

from namespace_cases import FLOAT, NUMERIC, A, Case

M, N, STACK = A((3, 4)), A((4, 5)), A((2, 3, 4))
V, W = A((4,)), A((5,))

CASES = [
    Case("vecdot", (A((4, 3)), A((4, 3))), {"axis": -2}, kinds=NUMERIC, label="axis", tolerance=8),
    Case("matvec", (STACK, V), kinds=NUMERIC, tolerance=8),
    Case("vecmat", (V, N), kinds=NUMERIC, tolerance=8),
    Case(
        "tensordot",
        (STACK, A((5, 4, 2))),
        {"axes": ((0, 2), (2, 1))},
        kinds=NUMERIC,
        label="axes",
        tolerance=16,
    ),
    Case("tensordot", (M, V), {"axes": 0}, kinds=NUMERIC, label="outer"),
    Case("dot", (STACK, A((2, 4, 5))), kinds=NUMERIC, label="stacks", tolerance=8),
    Case("cross", (A((3, 2)), A((3, 2))), {"axis": 0}, kinds="i" + FLOAT, label="axis", tolerance=4),
    Case("diagonal", (STACK,), {"offset": -1, "axis1": 2, "axis2": 0}, label="axes"),
    Case("matrix_transpose", (STACK,)),
    Case("linalg.matrix_transpose", (STACK,)),
    Case("linalg.outer", (V, W), kinds=NUMERIC),
    Case("linalg.cross", (A((2, 3)), A((2, 3))), kinds="i" + FLOAT, tolerance=4),
    Case(
        "linalg.norm",
        (STACK,),
        {"ord": 1, "axis": (2, 0), "keepdims": True},
        kinds=FLOAT,
        label="axes",
        tolerance=4,
    ),
    Case(
        "linalg.vector_norm",
        (STACK,),
        {"ord": 2.5, "axis": (0, 2), "keepdims": True},
        kinds=FLOAT,
        label="axes",
        tolerance=8,
    ),
    *(
        Case("einsum", (subscripts, *operands), kinds=NUMERIC, label=subscripts, tolerance=16)
        for subscripts, *operands in (
            ("...ij,jk", STACK, N),
            ("ij,ij->i", M, M),
            ("ij,ij->ij", M, M),
            ("ii->i", A((4, 4))),
            ("iij->j", A((3, 3, 4))),
            ("ij->ji", M),
            ("ij->", M),
            ("ij,j,k->ik", M, V, W),
        )
    ),
    Case("einsum", (STACK, [0, 1, 2], N, [2, 3], [3, 0]), kinds=NUMERIC, label="lists", tolerance=8),
    Case("fft.fftshift", (A((5, 4)),), {"axes": 0}, label="axes"),
]
