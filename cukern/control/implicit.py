"""Solutions of equations, differentiated by the implicit function theorem: not through the steps that found them.

Where ``f(x, p) = 0``, the cotangent ``g`` of ``x`` gives ``p`` the gradient ``-(df/dp)^T w``, where ``w`` solves
``(df/dx)^T w = g``: one linear system, whatever found ``x``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from .. import namespace as ops
from .. import pytree
from ..array import Array
from ..autodiff import tape
from ..autodiff.cotangents import float_leaves
from ..autodiff.tape import Tape
from ..function import reads

__all__ = ["implicit"]

#: A linear function of an array.
Linear: TypeAlias = Callable[[Array], Array]


def implicit(
    name: str,
    residual: Callable[[Any], Any],
    solution: Any,
    solve_transposed: Callable[[Linear, Array], Array],
) -> Any:
    """``solution``, on the tapes that track what ``residual`` reads.

    Args:
        residual: takes the solution; returns a tree of arrays like it, zeros there.
        solve_transposed: takes a linear function of a vector and a vector; returns the vector that it maps there.
    """
    if not tape.active():
        return solution
    read = reads(lambda: residual(solution))
    leaves = float_leaves(solution, f"{name}: solution")
    outputs = [leaf._alias() for leaf in leaves]
    ends = list(itertools.accumulate((leaf.size for leaf in leaves), initial=0))

    def joined(parts: Sequence[Array]) -> Array:
        return ops.reshape(parts[0], (-1,)) if len(parts) == 1 else ops.concat(parts, axis=None)

    def apart(vector: Array) -> list[Array]:
        pieces = zip(itertools.pairwise(ends), leaves, strict=True)
        return [
            ops.reshape(vector[a:b], like.shape).astype(like.dtype, copy=False) for (a, b), like in pieces
        ]

    def backward(cotangents: Any, saved: Any, needs: Sequence[bool]) -> list[Array | None]:
        own = list(saved[: len(leaves)])
        wanted = list(itertools.compress(read, needs))
        with Tape(persistent=True) as inner:
            inner.watch(own, wanted)
            found = float_leaves(residual(pytree.replace(solution, own)), f"{name}: f")

        def transposed(vector: Array) -> Array:
            return joined(inner.gradient(found, own, apart(vector), unconnected="zero"))

        vector = solve_transposed(transposed, joined(cotangents))
        gradients = iter(inner.gradient(found, wanted, apart(-vector)))
        return [next(gradients) if needed else None for needed in needs]

    tape.record(name, read, outputs, backward, [*outputs, *read])
    return pytree.replace(solution, outputs)
