"""Roots of functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import dtypes, pytree
from .. import namespace as ops
from ..array import Array
from ..array.creation import asarray
from ..autodiff import tape
from ..autodiff.cotangents import float_leaves
from ..linear.lapack import solve as dense_solve
from .implicit import Linear, implicit
from .krylov import gmres

__all__ = ["custom_root"]

#: Elements up to which a linear system is solved as a matrix.
_DENSE = 64


def _linear(function: Linear, right: Array) -> Array:
    """The solution of a small system as a matrix, of a larger one by :func:`gmres`."""
    if right.size > _DENSE:
        return gmres(function, right, tol=1e-10 if right.dtype == dtypes.float64 else 1e-5)
    unit = np.eye(right.size)
    columns = [function(asarray(row, dtype=right.dtype, device=right.device)) for row in unit]
    return dense_solve(ops.stack(columns, 1), right)


def custom_root(
    f: Callable[[Any], Any],
    initial_guess: Any,
    solve: Callable[[Callable[[Any], Any], Any], Any],
    tangent_solve: Callable[[Linear, Array], Array] | None = None,
) -> Any:
    """A root of ``f``, with the gradient of the implicit function theorem: ``jax.lax.custom_root``.

    The gradient reaches what ``f`` reads, as parameters that it closes over, to any order; none goes through ``solve``,
    or to ``initial_guess``.

    Args:
        f: takes an array or a pytree of arrays; returns one of the same containers and shapes, zeros at the root.
        initial_guess: given to ``solve``.
        solve: ``solve(f, initial_guess)`` returns the root. Tapes do not record it.
        tangent_solve: ``tangent_solve(g, y)`` returns the vector ``x`` with ``g(x) = y``, for a linear function ``g``
            of vectors: the transposed Jacobian of ``f``, for all elements of the root in a row. By default it is made
            a matrix, by one backward pass for each element, of up to 64 elements; for more it is
            :func:`cukern.linalg.gmres`.

    Raises:
        LinAlgError: the Jacobian is singular, in the backward.
        TypeError: the root has a leaf that is no floating array.
        ValueError: ``f`` returns other containers or shapes than the root's.

    >>> import cukern as ck
    >>> def newton(f, x):
    ...     return ck.fori_loop(0, 20, lambda i, x: x - f(x) / ck.grad(f)(x), x)
    >>> root = lambda a: custom_root(lambda x: x * x - a, ck.asarray(1.0), newton)
    >>> root(ck.asarray(4.0)).item(), ck.grad(root)(ck.asarray(4.0)).item()
    (2.0, 0.25)
    """
    with tape.stop_recording():
        root = solve(f, initial_guess)
        leaves = float_leaves(root, "custom_root: root")
        found = pytree.aligned(root, f(root), "custom_root: f")
    if [one.shape for one in found] != [one.shape for one in leaves]:
        raise ValueError(
            f"custom_root: f: expected shapes {', '.join(str(one.shape) for one in leaves)}, as the root's, got "
            f"{', '.join(str(one.shape) for one in found)}"
        )
    return implicit("custom_root", f, root, tangent_solve or _linear)
