"""The function of a score as a program, and its derivatives."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ... import dtypes
from ... import namespace as ops
from ...elementwise.graph import Expr, Node, constant, input_node
from ...elementwise.print_cxx import Statement, statements
from ...elementwise.program import Program, program, roots_from

#: Inputs of the program before the arrays: the score, and its batch, head, query and key.
PLACES = 5


def changed(
    score: Callable[..., Any] | None,
    s: Any,
    places: Sequence[Any],
    arrays: Sequence[Any],
    bias: Any,
    mask: Any,
) -> Any:
    """The score after the function of it, the bias and the mask; of symbols or of arrays."""
    dtype = s.dtype
    if score is not None:
        s = score(s, *places, *arrays)
        if not hasattr(s, "astype"):
            raise TypeError(
                f"attention: score: expected a function that returns a score, got {type(s).__name__}"
            )
        s = s.astype(dtype)
    if bias is not None:
        s = (s + bias).astype(dtype)
    return s if mask is None else ops.where(mask, s, -math.inf)


def traced(
    score: Callable[..., Any] | None,
    arrays: Sequence[dtypes.DType],
    given: tuple[bool, bool],
    acc: dtypes.DType,
) -> Program | None:
    """The program of a score; None if the score stays as it is.

    Args:
        score: the function of it.
        arrays: the dtypes of its arrays, and of a bias and a mask if they are given.
        given: whether there is a bias, and whether there is a mask.
        acc: the dtype of the score.
    """
    inputs = [acc, *[dtypes.int32] * (PLACES - 1), *arrays]
    symbols = [Expr(input_node(k, dtype)) for k, dtype in enumerate(inputs)]
    rest = symbols[PLACES:]
    mask = rest.pop() if given[1] else None
    bias = rest.pop() if given[0] else None
    made = changed(score, symbols[0], symbols[1:PLACES], rest, bias, mask)
    if not isinstance(made, Expr):
        raise TypeError(
            f"attention: score: expected an elementwise function of its arguments, got {type(made).__name__}"
        )
    if made.node is symbols[0].node:
        return None
    return program("attention_score", (made.node,), inputs)


def printed(of: Program, wanted: Sequence[int] | None) -> tuple[list[Statement], list[str]]:
    """The statements of a score, and the names of the score, its slope, and its derivatives by arrays.

    Args:
        of: the program of the score.
        wanted: the inputs whose derivatives are needed besides the score's; None if not even that one is.
    """
    acc = of.inputs[0]
    if wanted is None:
        return statements(of.outputs)
    needs = tuple(k == 0 or k in wanted for k in range(len(of.inputs)))
    # The derivative is linear in the cotangent, with which the kernel multiplies it.
    roots, results = roots_from(of, [constant(1.0, acc)], needs, needs)

    def root(k: int) -> Node:
        result = results[k]
        return constant(0.0, acc) if result is None else roots[result[1]]

    return statements([*of.outputs, root(0), *(root(k) for k in wanted)])
