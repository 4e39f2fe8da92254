"""Linear systems given as functions, solved by products with them alone."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError

from .. import dtypes
from .. import namespace as ops
from ..array import Array
from ..array.creation import asarray, zeros
from ..autodiff import tape
from ..autodiff.cotangents import describe, is_array
from ..ops.info import finfo
from .implicit import Linear, implicit

__all__ = ["cg", "gmres"]


def _system(name: str, a: Any, b: Array, x0: Array | None, preconditioner: Any) -> tuple[Linear, Linear]:
    """The matrix and the preconditioner as functions; all arguments are checked."""
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
    return function(a, "A"), function(preconditioner, "M")


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
    function, precondition = _system("cg", A, b, x0, M)
    most = 10 * b.size if maxiter is None else maxiter

    with tape.stop_recording():
        x = zeros(b.shape, b.dtype, b.device) if x0 is None else x0
        r = b if x0 is None else b - function(x0)
        least, residual, step = max(tol * _size(b), atol), _size(r), 0
        z = p = precondition(r)
        rz = _dot(r, z)
        while not residual <= least:
            if step >= most or math.isnan(residual):
                raise _unmet("cg", residual, step, least)
            ap = function(p)
            if (curvature := float(pap := _dot(p, ap))) <= 0:
                raise LinAlgError(
                    f"cg: A: expected a positive definite matrix, got p^T A p = {curvature:.3g} in step {step}"
                )
            x, r = x + rz / pap * p, r - rz / pap * ap
            z = precondition(r)
            before, rz = rz, _dot(r, z)
            p = z + rz / before * p
            residual, step = _size(r), step + 1

    def again(transposed: Linear, right: Array) -> Array:  # A is symmetric
        columns = ops.reshape(right, b.shape)
        return ops.reshape(cg(function, columns, tol=tol, atol=atol, maxiter=maxiter, M=M), (-1,))

    result: Array = implicit("cg", lambda x: function(x) - b, x, again)
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
    function, precondition = _system("gmres", A, b, x0, M)
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

    result: Array = implicit("gmres", lambda x: function(x) - b, x, again)
    return result
