"""Linear algebra: the linalg extension of the Array API standard, and more of NumPy's functions.

LAPACK computes factorisations on the host, cuSOLVER on a GPU, in float32 and float64; integers become the default
dtype, half types are refused as in NumPy. Derivatives are of any order. On a GPU singular matrices raise no error:
inverses and solutions have NaN or infinities, and the Cholesky factor of a matrix that is not positive definite is NaN.
There cukern's own kernels solve, invert and take determinants of a batch of matrices of up to 1024 rows, all at once.
Within ``cupyx.errstate(linalg="raise")`` a function waits for its result and raises LinAlgError on a GPU too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from numpy.linalg import LinAlgError

from . import dtypes
from . import namespace as ops
from .array import Array
from .autodiff import tape
from .control.krylov import cg, gmres
from .elementwise.exponents import _exponent, _scaled
from .elementwise.fuse import fuse
from .elementwise.operands import (
    normalize_axes,
    normalize_axis,
    require_array,
    require_arrays,
    require_constant,
)
from .elementwise.table import root_of_squares, size_to_power
from .kernel.by_numpy import by_numpy
from .linear.cross import cross as _cross
from .linear.decompositions import (
    EighResult,
    EigResult,
    QRResult,
    SVDResult,
    cholesky,
    eig,
    eigh,
    eigvals,
    eigvalsh,
    qr,
    svd,
    svdvals,
)
from .linear.exponential import expm
from .linear.lapack import identity, inv, matrices, solve
from .linear.products import matmul, tensordot, vecdot
from .linear.solving import (
    LstsqResult,
    SlogdetResult,
    det,
    lstsq,
    matrix_power,
    matrix_rank,
    pinv,
    slogdet,
    tensorinv,
    tensorsolve,
)
from .linear.triangular import solve_triangular
from .namespace.hints import missing
from .shape.views import matrix_transpose

__all__ = [
    "EigResult",
    "EighResult",
    "LinAlgError",
    "LstsqResult",
    "QRResult",
    "SVDResult",
    "SlogdetResult",
    "cg",
    "cholesky",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "expm",
    "gmres",
    "inv",
    "lstsq",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "multi_dot",
    "norm",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensordot",
    "tensorinv",
    "tensorsolve",
    "trace",
    "vecdot",
    "vector_norm",
]


def cross(x1: Array, x2: Array, /, *, axis: int = -1) -> Array:
    """The cross product of vectors of three elements along an axis; :func:`cukern.cross` takes those of a plane, too.

    Raises:
        ValueError: the axis of an array has another size, or the shapes do not broadcast.

    >>> import cukern as ck
    >>> ck.linalg.cross(ck.asarray([1.0, 0.0, 0.0]), ck.asarray([0.0, 1.0, 0.0])).tolist()
    [0.0, 0.0, 1.0]
    """
    x1, x2 = require_arrays((x1, x2), "cross", ("x1", "x2"))
    for name, x in (("x1", x1), ("x2", x2)):
        if x.shape[normalize_axis(axis, x.ndim, "cross")] != 3:
            raise ValueError(f"cross: {name}: expected 3 elements along axis {axis}, got shape {x.shape}")
    result: Array = _cross(x1, x2, axis=axis)
    return result


def diagonal(x: Array, /, *, offset: int = 0) -> Array:
    """A view of a diagonal of the matrices in the last two axes."""
    return ops.diagonal(x, offset, -2, -1)


def trace(x: Array, /, *, offset: int = 0, dtype: npt.DTypeLike | None = None) -> Array:
    """The sum of a diagonal of the matrices in the last two axes; ``dtype`` as of :func:`cukern.sum`."""
    if dtype is None and isinstance(x, Array) and x.ndim == 2:
        return ops.trace(x, offset)
    return ops.sum(diagonal(x, offset=offset), -1, dtype=dtype)


def outer(x1: Array, x2: Array, /) -> Array:
    """The products of each element of one vector with each of another: a matrix.

    Raises:
        ValueError: an operand is not a vector; :func:`cukern.outer` flattens its operands.
    """
    x1, x2 = require_arrays((x1, x2), "outer", ("x1", "x2"))
    for name, x in (("x1", x1), ("x2", x2)):
        if x.ndim != 1:
            raise ValueError(f"outer: {name}: expected one axis, got shape {x.shape}")
    return ops.outer(x1, x2)


@fuse(static=["p"])
def _power(x: Array, p: float, unit: Array | None = None) -> Array:
    """``abs(x) ** p``, times ``unit`` of a root, with derivative 0 at 0; all derivatives of even powers are right."""
    if p > 1:
        return (x if p % 2 == 0 else ops.abs(x)) ** p
    root: Array = root_of_squares(x) if p == 0.5 else size_to_power(x, p)
    return root if unit is None else root * unit


@fuse
def _power_of_two(x: Array) -> Array:
    """The largest power of two that is no larger than ``x``; 1 for 0, infinity and NaN."""
    finite = ops.isfinite(x) & ops.not_equal(x, 0)
    return ops.where(finite, _scaled(1.0, _exponent(ops.where(finite, x, 1)) - 1), 1)


@fuse(static=["p", "axes", "dtype", "keepdims"])
def _measure(
    x: Array,
    p: float,
    axes: tuple[int, ...],
    dtype: dtypes.DType,
    keepdims: bool = True,
    unit: Array | None = None,
) -> Array:
    """The reduction from which the norm of order ``p`` of ``x / unit`` is computed, in one kernel."""
    wide = x.astype(dtype)
    if dtype in dtypes.COMPLEX:
        if p == 2:
            parts = [
                ops.square(part if unit is None else part / unit) for part in (ops.real(wide), ops.imag(wide))
            ]
            return ops.sum(parts[0] + parts[1], axes, keepdims=keepdims)
        wide, dtype = ops.abs(wide), dtypes.info(dtype).real
    if unit is not None:
        wide = wide / unit
    if p == 2:
        return ops.sum(ops.square(wide), axes, keepdims=keepdims)
    if p == 0:
        return ops.sum(ops.not_equal(wide, 0).astype(dtype), axes, keepdims=keepdims)
    if p == -math.inf:
        return ops.min(ops.abs(wide), axes, keepdims=keepdims)
    if p == math.inf:
        return ops.max(ops.abs(wide), axes, keepdims=keepdims)
    return ops.sum(ops.abs(wide) if p == 1 else _power(wide, p), axes, keepdims=keepdims)


def _working(x: Array) -> dtypes.DType:
    """The dtype in which norms are computed: float32 for half types, whose squares would overflow."""
    info = dtypes.info(x.dtype)
    return info.acc if info.kind in "fc" else dtypes.float64


#: The dtypes of twice as many digits and powers, in which no square overflows or vanishes.
_TWICE = {dtypes.float32: dtypes.float64, dtypes.complex64: dtypes.complex128}


def _unit(x: Array, p: float, axes: tuple[int, ...], dtype: dtypes.DType) -> Array:
    """A power of two near the element that decides a norm, in which neither powers nor their sum overflow or vanish."""
    with tape.stop_recording():
        return _power_of_two(_measure(x, math.copysign(math.inf, p), axes, dtype))


def _narrowed(result: Array, x: Array) -> Array:
    """A norm of ``x`` in the dtype of ``x``, or the default one for integers."""
    if result.dtype == x.dtype:
        return result
    return result.astype(dtypes.info(dtypes.inexact_of(x.dtype)).real, copy=False)


def _largest(x: Array, axis: int | tuple[int, ...]) -> Array:
    """The maximum of non-negative numbers, 0 if there are none; keeps the axes."""
    axes = normalize_axes(axis, x.ndim, "max")
    of_none = not math.prod(x.shape[i] for i in axes)
    return (ops.sum if of_none else ops.max)(x, axes, keepdims=True)


@by_numpy("norm", warns=True, why="a BLAS has it at hand")
def _length(data: Any) -> float | str:
    """The norm by BLAS."""
    least = _LEAST.get(data.dtype.char)
    if least is None or not data.flags.c_contiguous:
        return "no float32 or float64 in C order"
    data = data.reshape(-1)
    squares = float(data.dot(data))
    return math.sqrt(squares) if least * data.size < squares < math.inf else "its squares overflow or vanish"


#: By the dtype's letter, the number in relation to which the error of a rounded product that is no normal number is
#: small.
_LEAST = {kind: float(np.finfo(kind).tiny / np.finfo(kind).eps) for kind in ("f", "d")}


def vector_norm(
    x: Array, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False, ord: float = 2
) -> Array:
    """``sum(|x|**ord) ** (1 / ord)`` over axes, where the powers overflow or vanish too.

    The derivative is 0 at elements of 0, and where the norm is 0, as in PyTorch. A norm of 0 has no second derivative:
    it is NaN, also that of ``vector_norm(x) ** 2``; of ``sum(square(x))`` it is right.

    Args:
        x: any array. Norms of integers are computed in float64 and returned in the default floating dtype.
        axis: the axis or axes; all by default.
        keepdims: whether the axes stay, with size 1.
        ord: any number; ``inf`` and ``-inf`` for the largest and the smallest absolute value, whose derivative equal
            elements share; 0 for the number of non-zero elements.

    Raises:
        AxisError: there is no such axis.
        ValueError: ``ord`` is negative infinity and there is no element.
    """
    require_constant("vector_norm", ord=ord)
    x = require_array(x, "vector_norm")
    axes = normalize_axes(axis, x.ndim, "vector_norm")
    p = float(ord)
    if p == 2 and len(axes) == x.ndim and type(x) is Array and (length := _length(x)) is not None:
        whole = np.asarray(length, x.dtype)
        return Array._wrap(whole.reshape((1,) * x.ndim) if keepdims else whole, x.device)
    empty = not math.prod(x.shape[i] for i in axes)
    if p == math.inf and empty:
        p = 1.0  # of no element, 0
    dtype, unit = _working(x), None
    powers = p not in (0, 1, math.inf, -math.inf)
    if p == 2 and dtype in _TWICE:
        dtype = _TWICE[dtype]
    elif powers and not empty and x.dtype in dtypes.INEXACT:
        unit = _unit(x, p, axes, dtype)
    result = _measure(x, p, axes, dtype, keepdims, unit)
    if unit is not None and not keepdims:
        unit = ops.squeeze(unit, axes)
    if p == 2 and unit is None and not tape.recording((result,)):
        result = ops.sqrt(result)
    elif powers:
        result = _power(result, 1 / p, unit)
    return _narrowed(result, x)


def matrix_norm(
    x: Array, /, *, keepdims: bool = False, ord: float | Literal["fro", "nuc"] | None = "fro"
) -> Array:
    """The norm of the matrices in the last two axes.

    Args:
        x: shape (..., m, n). Norms of integers are computed in float64 and returned in the default floating dtype.
        keepdims: whether the two axes stay, with size 1.
        ord: ``"fro"``, or 1, infinity and their negatives; 2, -2 and ``"nuc"`` are norms of the singular values.

    Raises:
        TypeError: ``x`` is of a half type, and the norm is one of singular values.
        ValueError: there is no such norm, ``x`` has fewer than two axes, or a minimum is over no element.
    """
    require_constant("matrix_norm", ord=ord)
    x = require_array(x, "matrix_norm")
    if x.ndim < 2:
        raise ValueError(f"matrix_norm: expected at least two axes, got shape {x.shape}")
    if ord in (None, "fro", "f"):
        return vector_norm(x, axis=(-2, -1), keepdims=keepdims)
    if ord in (1, -1, math.inf, -math.inf):
        sums = _measure(x, 1.0, (x.ndim - 2 if ord in (1, -1) else x.ndim - 1,), _working(x))
        largest = ord in (1, math.inf)
        result = _largest(sums, (-2, -1)) if largest else ops.min(sums, (-2, -1), keepdims=True)
    elif ord in (2, -2, "nuc"):
        values = ops.expand_dims(svdvals(x), -1)
        if ord == "nuc":
            result = ops.sum(values, (-2, -1), keepdims=True)
        else:
            result = _largest(values, (-2, -1)) if ord == 2 else ops.min(values, (-2, -1), keepdims=True)
    else:
        raise ValueError(
            f"matrix_norm: ord: expected 'fro', 'nuc', 1, 2, inf or their negatives, got {ord!r}"
        )
    return _narrowed(result if keepdims else ops.squeeze(result, (-2, -1)), x)


def norm(
    x: Array, /, ord: Any = None, axis: int | tuple[int, ...] | None = None, keepdims: bool = False
) -> Array:
    """The norm of vectors along an axis, or of matrices along two, as ``numpy.linalg.norm``.

    Args:
        x: any array.
        ord: for vectors as in :func:`vector_norm`, for matrices as in :func:`matrix_norm`; None for the square root
            of the sum of squares.
        axis: one axis for vectors, two for matrices. By default all axes of ``x``, of any number if ``ord`` is None.
        keepdims: whether the axes stay, with size 1.

    Raises:
        ValueError: there is no such norm, or the number of axes is not 1 or 2.

    >>> import cukern as ck
    >>> ck.linalg.norm(ck.asarray([3.0, 4.0])).item()
    5.0
    """
    x = require_array(x, "norm")
    if ord is None and axis is None:
        length = None if keepdims else _length(x)
        if length is not None:
            return Array._wrap(np.asarray(length, x.dtype), x.device)
        return vector_norm(x, keepdims=keepdims)
    axes = normalize_axes(axis, x.ndim, "norm")
    if len(axes) not in (1, 2) and not (axis is None and ord is None):
        raise ValueError(f"norm: axis: expected one axis or two, got {axes}")
    if ord is None:
        return vector_norm(x, axis=axes, keepdims=keepdims)
    if len(axes) == 1:
        if isinstance(ord, str):
            raise ValueError(f"norm: ord: expected a number for vectors, got {ord!r}")
        return vector_norm(x, axis=axes, keepdims=keepdims, ord=ord)
    result = matrix_norm(ops.moveaxis(x, axes, (-2, -1)), ord=ord)
    return ops.expand_dims(result, axes) if keepdims else result


def cond(x: Array, /, p: Any = None) -> Array:
    """The condition number of matrices: their norm times that of the inverse.

    Args:
        x: shape (..., m, n), square unless ``p`` is None, 2 or -2.
        p: the norm, as ``ord`` in :func:`matrix_norm`; 2 when None.

    Returns:
        Shape (...); infinity for a singular matrix, or 0 if ``p`` is -2.

    Raises:
        LinAlgError: the matrices have no elements, or are not square.
        TypeError: ``x`` is of a half type.
    """
    a = matrices(x, "cond", square=p not in (None, 2, -2))
    if 0 in a.shape[-2:]:
        raise LinAlgError(f"cond: x: expected matrices with elements, got shape {x.shape}")
    if p in (None, 2, -2):
        values = svdvals(a)
        above, below = values[..., 0], values[..., -1]
        above, below = (below, above) if p == -2 else (above, below)
        singular = ops.equal(below, 0)
        return ops.where(singular, math.inf, above / ops.where(singular, 1, below))
    singular = ops.equal(slogdet(a).sign, 0)
    regular = ops.where(ops.expand_dims(singular, (-2, -1)), identity(a.shape[-1], a), a)
    return ops.where(singular, math.inf, matrix_norm(a, ord=p) * matrix_norm(inv(regular), ord=p))


def multi_dot(arrays: Sequence[Array], /, *, out: Array | None = None) -> Array:
    """The product of several matrices, in the cheapest order; the first and the last may be vectors.

    Raises:
        TypeError: an operand is not an array.
        ValueError: fewer than two arrays, or shapes that do not fit.
    """
    if len(arrays) < 2:
        raise ValueError(f"multi_dot: expected at least two arrays, got {len(arrays)}")
    labels: list[list[int]] = []
    arrays = require_arrays(arrays, "multi_dot")
    for i, x in enumerate(arrays):
        ends = x.ndim == 1 and i in (0, len(arrays) - 1)
        if not ends and x.ndim != 2:
            raise ValueError(f"multi_dot: arrays[{i}]: expected a matrix, got shape {x.shape}")
        labels.append([i, i + 1] if x.ndim == 2 else [i + 1] if i == 0 else [i])
    result = [labels[0][0]] * (arrays[0].ndim == 2) + [labels[-1][-1]] * (arrays[-1].ndim == 2)
    operands = [part for x, label in zip(arrays, labels, strict=True) for part in (x, label)]
    return ops.einsum(*operands, result, optimize="optimal", out=out)


__getattr__, __dir__ = missing(__name__, __all__, numpys="numpy.linalg")
