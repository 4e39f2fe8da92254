"""Solutions of equations, differentiated by the implicit function theorem: not through the steps that found them.

Where ``f(x, p) = 0``, the cotangent ``g`` of ``x`` gives ``p`` the gradient ``-(df/dp)^T w``, where ``w`` solves
``(df/dx)^T w = g``: one linear system, whatever found ``x``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.linalg import LinAlgError

from .. import dtypes, pytree
from .. import namespace as ops
from ..array import Array
from ..array.creation import asarray, zeros
from ..autodiff import tape
from ..autodiff.cotangents import describe, float_leaves, is_array
from ..autodiff.tape import Tape
from ..function import reads
from ..linear.lapack import solve as dense_solve
from ..ops.info import finfo

__all__ = ["cg", "custom_root", "gmres"]

#: A linear function of an array.
Linear: TypeAlias = Callable[[Array], Array]

#: Elements up to which a linear system is solved as a matrix.
_DENSE = 64


def _implicit(
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
    return _implicit("custom_root", f, root, tangent_solve or _linear)


def _system(
    name: str, a: Any, b: Array, x0: Array | None, preconditioner: Any
) -> tuple[Linear, Array, Array | None, Linear]:
    """The function of a matrix, the right side, the start and the preconditioner, checked."""
    if not is_array(b) or dtypes.info(b.dtype).kind != "f" or not b.ndim:
        got = describe(b) if is_array(b) else type(b).__name__
        raise TypeError(f"{name}: b: expected an array of real floating numbers with an axis, got {got}")

    def function(one: Any, which: str) -> Linear:
        if one is None:
            return lambda v: v
        if not callable(one) and getattr(one, "shape", None) != (b.shape[0], b.shape[0]):
            got = f"shape {one.shape}" if hasattr(one, "shape") else type(one).__name__
            raise ValueError(
                f"{name}: {which}: expected a function, or a matrix of shape {(b.shape[0],) * 2} as b has "
                f"{b.shape[0]} rows, got {got}"
            )

        def checked(v: Array) -> Array:
            result: Array = one(v) if callable(one) else one @ v
            if not is_array(result) or result.shape != b.shape:
                got = f"shape {result.shape}" if is_array(result) else type(result).__name__
                raise ValueError(
                    f"{name}: {which}: expected an array of shape {b.shape} of v, as b has, got {got}"
                )
            return result

        return checked

    if x0 is not None and (not is_array(x0) or (x0.shape, x0.dtype) != (b.shape, b.dtype)):
        got = describe(x0) if is_array(x0) else type(x0).__name__
        raise ValueError(f"{name}: x0: expected {describe(b)}, as b is, got {got}")
    return function(a, "A"), b, x0, function(preconditioner, "M")


def _dot(x: Array, y: Array) -> Array:
    return ops.sum(x * y)


def _size(x: Array) -> float:
    return math.sqrt(float(_dot(x, x)))


def _unmet(name: str, residual: float, steps: int, least: float) -> LinAlgError:
    return LinAlgError(
        f"{name}: tolerance not met: expected a residual of at most {least:.3g}, got {residual:.3g} after {steps} "
        "steps; give a larger tol or maxiter, or a preconditioner M"
    )


def cg(
    A: Any,
    b: Array,
    x0: Array | None = None,
    *,
    tol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,
) -> Array:
    """The solution of ``A x = b`` by conjugate gradients, for a symmetric positive definite ``A``.

    The host reads the residual at each step. The gradients, by ``b`` and by the matrix or what the function ``A``
    reads, are those of the solution, by another such solve, to any order: no step is recorded.

    Args:
        A: a matrix, also a sparse one, or a linear function of arrays of the shape of ``b``.
        b: real floating numbers, with an axis; of more axes, the columns are one system.
        x0: the start; zeros by default.
        tol, atol: the norm of the residual is at most ``max(tol * norm(b), atol)``.
        maxiter: the most steps; ten for each element by default.
        M: the preconditioner, an approximate inverse of ``A``, as ``A`` is given.

    Raises:
        LinAlgError: the tolerance is not met in ``maxiter`` steps, or ``A`` is not positive definite.
        TypeError: ``b`` has no real floating numbers.
        ValueError: shapes do not fit.

    >>> import cukern as ck
    >>> a, b = ck.asarray([[4.0, 1.0], [1.0, 3.0]]), ck.asarray([1.0, 2.0])
    >>> ck.round(ck.linalg.cg(a, b), 4).tolist() == ck.round(ck.linalg.solve(a, b), 4).tolist()
    True
    """
    function, b, x0, precondition = _system("cg", A, b, x0, M)
    most = 10 * b.size if maxiter is None else maxiter

    def solved(function: Linear, b: Array, start: Array | None) -> Array:
        x = zeros(b.shape, b.dtype, b.device) if start is None else start
        r = b if start is None else b - function(x)
        least, residual = max(tol * _size(b), atol), _size(r)
        z = p = precondition(r)
        rz, step = _dot(r, z), 0
        while not residual <= least:
            if step >= most or math.isnan(residual):
                raise _unmet("cg", residual, step, least)
            ap = function(p)
            curvature = _dot(p, ap)
            if float(curvature) <= 0:
                raise LinAlgError(
                    f"cg: A: expected a positive definite matrix, got p^T A p = {float(curvature):.3g} in step {step}"
                )
            alpha = rz / curvature
            x, r = x + alpha * p, r - alpha * ap
            z = precondition(r)
            before, rz = rz, _dot(r, z)
            p = z + (rz / before) * p
            residual, step = _size(r), step + 1
        return x

    with tape.stop_recording():
        x = solved(function, b, x0)
    shape = b.shape

    def again(transposed: Linear, right: Array) -> Array:  # A is symmetric
        return ops.reshape(
            cg(function, ops.reshape(right, shape), tol=tol, atol=atol, maxiter=maxiter, M=M), (-1,)
        )

    result: Array = _implicit("cg", lambda x: function(x) - b, x, again)
    return result


def gmres(
    A: Any,
    b: Array,
    x0: Array | None = None,
    *,
    tol: float = 1e-5,
    atol: float = 0.0,
    restart: int = 20,
    maxiter: int | None = None,
    M: Any = None,
) -> Array:
    """The solution of ``A x = b`` by GMRES, for any regular ``A``; arguments, gradients and errors as of :func:`cg`.

    ``maxiter`` counts restarts, each after ``restart`` products with ``A``. ``M`` stands to the right of ``A``, so that
    the tolerance is that of the residual itself; the gradient's solve has no preconditioner.

    >>> import cukern as ck
    >>> a, b = ck.asarray([[4.0, 1.0], [-1.0, 3.0]]), ck.asarray([1.0, 2.0])
    >>> ck.round(ck.linalg.gmres(a, b), 4).tolist() == ck.round(ck.linalg.solve(a, b), 4).tolist()
    True
    """
    function, b, x0, precondition = _system("gmres", A, b, x0, M)
    most = 10 * b.size if maxiter is None else maxiter

    def cycle(r: Array, residual: float, least: float) -> Array:
        """The change of the solution by one run from a residual."""
        basis, columns = [r / residual], []
        target = np.zeros(restart + 1)
        target[0] = residual
        for k in range(min(restart, b.size)):
            w = function(precondition(basis[-1]))
            vectors = ops.reshape(ops.stack(basis), (k + 1, -1))
            h: Any = 0.0
            for _ in range(2):  # once more, against rounding
                more = vectors @ ops.reshape(w, (-1,))
                w = w - ops.reshape(more @ vectors, b.shape)
                h = h + more.numpy().astype(float)
            length = _size(w)
            columns.append(np.append(h, length))
            matrix = np.zeros((k + 2, k + 1))
            for j, column in enumerate(columns):
                matrix[: j + 2, j] = column
            y = np.linalg.lstsq(matrix, target[: k + 2], rcond=None)[0]
            left = float(np.linalg.norm(matrix @ y - target[: k + 2]))
            if left <= least / 2 or length <= finfo(b.dtype).eps * float(np.linalg.norm(h)):
                break
            basis.append(w / length)
        vectors = ops.reshape(ops.stack(basis[: len(y)]), (len(y), -1))
        combined = asarray(y, dtype=b.dtype, device=b.device) @ vectors
        return precondition(ops.reshape(combined, b.shape))

    with tape.stop_recording():
        x = zeros(b.shape, b.dtype, b.device) if x0 is None else x0
        least, step = max(tol * _size(b), atol), 0
        while not (residual := _size(r := b - function(x))) <= least:
            if step >= most or math.isnan(residual):
                raise _unmet("gmres", residual, step * restart, least)
            x, step = x + cycle(r, residual, least), step + 1

    def again(transposed: Linear, right: Array) -> Array:
        return gmres(transposed, right, tol=tol, atol=atol, restart=restart, maxiter=maxiter)

    result: Array = _implicit("gmres", lambda x: function(x) - b, x, again)
    return result
