"""LAPACK through the device's library: helpers of factorisations, inverses and linear equations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError

from .. import dtypes
from ..array import Array
from ..array.creation import empty, ones
from ..array.host_data import quiet
from ..array.layout import Layout
from ..array.mapping import leading, mapped
from ..autodiff import tape
from ..device.capture_hooks import between
from ..device.cuda.cusolver import factor
from ..device.cuda.libraries import needed
from ..elementwise.function import astype
from ..elementwise.operands import on_device, require_array, require_arrays
from ..errors import DeviceError
from ..kernel.plan import on
from ..kernel.strides import broadcast_shapes
from ..shape.copy import in_order
from ..shape.views import (
    broadcast_to,
    expand_dims,
    moveaxis,
    reshape,
)
from .batched import solutions, together
from .diagonals import from_diagonal
from .products import adjoint, matmul

Vjp = Callable[[Sequence[Any], Sequence[Array]], Array | None]


def matrices(x: Any, name: str, square: bool = False) -> Array:
    """``x`` as matrices of a dtype of LAPACK; integers get the default floating dtype, or float32 if that is a half.

    Raises:
        TypeError: ``x`` is of a half type, which LAPACK lacks.
        LinAlgError: there are fewer than two axes, or the matrices must be square and are not.
    """
    x = require_array(x, name)
    if x.ndim < 2:
        raise LinAlgError(f"{name}: x: expected at least two axes, got shape {x.shape}")
    if square and x.shape[-1] != x.shape[-2]:
        raise LinAlgError(f"{name}: x: expected square matrices, got shape {x.shape}")
    return floating(x, name)


def floating(x: Array, name: str) -> Array:
    """``x`` in a dtype of LAPACK."""
    _refuse_halves(x, name)
    if x.dtype in dtypes.INEXACT:
        return x
    default = dtypes.get_default_dtype()
    return astype(x, default if default == dtypes.float64 else dtypes.float32)


def _refuse_halves(x: Array, name: str) -> None:
    if dtypes.info(x.dtype).narrow:
        raise TypeError(
            f"{name}: expected float32 or float64, got {dtypes.info(x.dtype).name}; cast it first"
        )


def promoted(x1: Any, x2: Any, name: str, arguments: tuple[str, str] = ("x1", "x2")) -> tuple[Array, Array]:
    """Two arrays in their promoted dtype."""
    x1, x2 = require_arrays((x1, x2), name, arguments)
    for x in (x1, x2):
        _refuse_halves(x, name)
    if x1.dtype == x2.dtype:
        return x1, x2
    dtype = dtypes.result_type(x1.dtype, x2.dtype)
    return astype(x1, dtype, copy=False), astype(x2, dtype, copy=False)


@on_device
def library(x: Array, name: str, *args: Any, **options: Any) -> list[Array]:
    """The results of a function of numpy.linalg or cupy.linalg.

    Raises:
        DeviceError: the GPU's library cannot be loaded.
    """
    xp = x.device.xp
    others = [one._data if isinstance(one, Array) else one for one in args]
    function = getattr(xp.linalg, name)

    def computed() -> list[Any]:
        if x.device.addressable:
            result = quiet().run(function, x._data, *others, **options)
        else:
            with np.errstate(all="ignore"), needed(xp, "cusolver"):
                result = function(x._data, *others, **options)
        parts = result if isinstance(result, tuple) else (result,)
        return [xp.asarray(part, order="C") for part in parts]

    # cuSOLVER waits for what it allocates, and functions of cupy.linalg read values.
    return [Array._wrap(part, x.device) for part in between(computed)]


def factored(x: Array) -> Array:
    """A copy of a Hermitian matrix on a GPU, whose lower triangle is its Cholesky factor; what is above it stays.

    It lies in column-major order, as cuSOLVER takes it.
    """

    def computed() -> list[Any]:
        result = in_order(x.device, x._data.T)
        factor(x.device.xp, result)
        return [result]

    with on(x.device):
        return Array._wrap(between(computed)[0].T, x.device)


def differentiable(name: str, x: Array, outputs: Sequence[Array], saved: Sequence[Array], vjp: Vjp) -> None:
    """Record outputs with a vjp of their cotangents, which may be None, and of the saved arrays."""
    if tape.recording((x,)):

        def rule(cotangents: Sequence[Any], kept: Sequence[Array], needs: object) -> tuple[Array | None]:
            return (vjp(cotangents, kept),)

        tape.record(name, (x,), outputs, rule, saved, materialize=False)


def identity(n: int, like: Array) -> Array:
    """The identity matrix with the dtype and device of ``like``."""
    return from_diagonal(ones(n, like.dtype, like.device), n, n, 0)


def total(*parts: Array | None) -> Array | None:
    """The sum of the parts that are not None."""
    result: Array | None = None
    for part in parts:
        if part is not None:
            result = part if result is None else result + part
    return result


@mapped(leading)
def inv(x: Array, /) -> Array:
    """The inverses of square matrices.

    Raises:
        LinAlgError: a matrix is not square, or, on the host, singular.
        TypeError: ``x`` is of a half type.
    """
    a = matrices(x, "inv", square=True)
    (y,) = [_inverses(a)] if together(a) else library(a, "inv")
    differentiable("inv", a, (y,), (y,), lambda g, s: -matmul(matmul(adjoint(s[0]), g[0]), adjoint(s[0])))
    return y


def _inverses(a: Array) -> Array:
    with tape.stop_recording():
        return solutions(a, broadcast_to(identity(a.shape[-1], a), a.shape))


def equations(x1: Array, x2: Array, name: str) -> tuple[Array, Array]:
    """Square matrices and right-hand sides, checked, in one dtype of LAPACK."""
    x1, x2 = promoted(x1, x2, name)
    a, b = matrices(x1, name, square=True), floating(x2, name)
    if a.device is not b.device:
        raise DeviceError(f"{name}: expected arrays on one device, got {a.device} and {b.device}")
    if not b.ndim or b.shape[-2 if b.ndim > 1 else -1] != a.shape[-1]:
        raise ValueError(f"{name}: x2 of shape {x2.shape} does not fit x1 of shape {x1.shape}")
    return a, b


def solve(x1: Array, x2: Array, /) -> Array:
    """Solve ``x1 @ y = x2`` for ``y``.

    Args:
        x1: shape (..., n, n).
        x2: shape (..., n, k), or (n,).

    Raises:
        DeviceError: the arrays are on different devices.
        LinAlgError: a matrix is not square, or, on the host, singular.
        ValueError: the shapes do not fit.
    """
    if type(x1) is Array and type(x2) is Array:
        layouts = x1._layout or x1._planned(), x2._layout or x2._planned()
        if _are_numpys(*layouts) and not tape.recording((x1, x2)):
            return library(x1, "solve", x2)[0]
    return shaped("solve", *equations(x1, x2, "solve"), _solution)


@lru_cache(maxsize=4096)
def _are_numpys(a: Layout, b: Layout) -> bool:
    """Whether NumPy solves the equations of a matrix and right-hand sides as they are, with no further checks."""
    if a.device is not b.device or not a.device.addressable or a.dtype != b.dtype or not b.size:
        return False
    fits = len(a.shape) == 2 and len(b.shape) in (1, 2) and a.shape[0] == a.shape[1] == b.shape[0]
    return fits and a.dtype in dtypes.INEXACT and not dtypes.info(a.dtype).narrow


def shaped(name: str, a: Array, b: Array, solver: Callable[[Array, Array], Array]) -> Array:
    """The result of a solver, which takes matrices and right-hand sides of one batch, for arrays of any shapes."""
    if b.ndim == 1:
        return reshape(shaped(name, a, expand_dims(b, 1), solver), a.shape[:-1])
    if a.ndim == 2 and b.ndim > 2:  # all right-hand sides are those of one matrix
        columns = moveaxis(b, -2, 0)
        result = solver(a, reshape(columns, (b.shape[-2], -1)))
        return moveaxis(reshape(result, columns.shape), 0, -2)
    if a.shape[:-2] != b.shape[:-2]:
        batch = broadcast_shapes(name, [a.shape[:-2], b.shape[:-2]])
        a, b = broadcast_to(a, (*batch, *a.shape[-2:])), broadcast_to(b, (*batch, *b.shape[-2:]))
    return solver(a, b)


@mapped(leading)
def _solution(a: Array, b: Array) -> Array:
    """The ``y`` for which ``a @ y`` is ``b``, for checked arrays of matrices of one batch."""
    y = _solved(a, b) if b.size else empty(b.shape, b.dtype, b.device)
    if tape.recording((a, b)):

        def vjp(cotangents: tape.Arrays, saved: tape.Arrays, needs: Sequence[bool]) -> list[Array | None]:
            a, y = saved
            above = solve(adjoint(a), cotangents[0])
            return [-matmul(above, adjoint(y)) if needs[0] else None, above]

        tape.record("solve", (a, b), (y,), vjp, (a, y))
    return y


def _solved(a: Array, b: Array) -> Array:
    if not together(a):
        return library(a, "solve", b)[0]
    with tape.stop_recording():
        return solutions(a, b)
