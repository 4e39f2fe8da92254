"""Linear algebra: the linalg extension of the Array API standard, and what NumPy has beside it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy.typing as npt
from numpy.linalg import LinAlgError

from . import dtypes
from . import namespace as ops
from .array import Array
from .fuse import fuse
from .ops.axes import normalize_axes, require_array
from .ops.decompositions import (
    EighResult,
    LstsqResult,
    QRResult,
    SlogdetResult,
    SVDResult,
    cholesky,
    det,
    eigh,
    eigvalsh,
    floating,
    inv,
    lstsq,
    matrices,
    matrix_power,
    matrix_rank,
    pinv,
    qr,
    slogdet,
    solve,
    svd,
    svdvals,
)
from .ops.linalg import cross, matmul, outer, tensordot, vecdot
from .ops.manipulate import matrix_transpose

__all__ = [
    "EighResult",
    "LinAlgError",
    "LstsqResult",
    "QRResult",
    "SVDResult",
    "SlogdetResult",
    "cholesky",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
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
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]


def eig(x: Array, /) -> Any:
    """Refused: the eigenvalues of a matrix that is not symmetric are complex, and cukern has no complex dtype.

    Raises:
        TypeError: always; :func:`eigh` takes symmetric matrices.
    """
    raise TypeError(
        "eig: the result is complex, and cukern has no complex dtype; eigh takes symmetric matrices"
    )


def eigvals(x: Array, /) -> Any:
    """Refused, as :func:`eig`.

    Raises:
        TypeError: always; :func:`eigvalsh` takes symmetric matrices.
    """
    raise TypeError(
        "eigvals: the result is complex, and cukern has no complex dtype; eigvalsh takes symmetric matrices"
    )


def diagonal(x: Array, /, *, offset: int = 0) -> Array:
    """A view of a diagonal of the matrices in the last two axes."""
    return ops.diagonal(x, offset, -2, -1)


def trace(x: Array, /, *, offset: int = 0, dtype: npt.DTypeLike | None = None) -> Array:
    """The sum of a diagonal of the matrices in the last two axes; ``dtype`` as of :func:`cukern.sum`."""
    return ops.sum(diagonal(x, offset=offset), -1, dtype=dtype)


@fuse
def _root(total: Array) -> Array:
    """The square root, with derivative 0 at 0."""
    zero = ops.equal(total, 0)
    return ops.where(zero, 0, ops.sqrt(ops.where(zero, 1, total)))


def _power_sum(x: Array, axes: tuple[int, ...], p: float) -> Array:
    size = ops.abs(x)
    total = ops.sum(size**p, axes, keepdims=True)
    if p < 0:
        return total ** (1 / p)
    zero = ops.equal(total, 0)
    return ops.where(zero, 0, ops.where(zero, 1, total) ** (1 / p))


def vector_norm(
    x: Array, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False, ord: float = 2
) -> Array:
    """``sum(|x|**ord) ** (1 / ord)`` over axes; the derivative of the norm at 0 is 0.

    Args:
        x: any array; integers are computed in float64.
        axis: the axis or axes; all by default.
        keepdims: whether the axes stay, with size 1.
        ord: any number; infinities for the largest and the smallest size, 0 for how many are not 0.

    Raises:
        AxisError: there is no such axis.
        ValueError: no element to take the largest or smallest of.
    """
    require_array(x, "vector_norm")
    axes = normalize_axes(axis, x.ndim, "vector_norm")
    wide = x if x.dtype in dtypes.FLOATS else x.astype(dtypes.float64)
    if ord == 2:
        made = _root(ops.sum(ops.square(wide), axes, keepdims=True))
    elif ord == 1:
        made = ops.sum(ops.abs(wide), axes, keepdims=True)
    elif ord == math.inf:
        empty = not math.prod(x.shape[i] for i in axes)
        made = (
            ops.sum(ops.abs(wide), axes, keepdims=True)
            if empty
            else ops.max(ops.abs(wide), axes, keepdims=True)
        )
    elif ord == -math.inf:
        made = ops.min(ops.abs(wide), axes, keepdims=True)
    elif ord == 0:
        made = ops.sum(ops.not_equal(wide, 0), axes, dtype=wide.dtype, keepdims=True)
    else:
        made = _power_sum(wide, axes, float(ord))
    return made if keepdims else ops.squeeze(made, axes)


def matrix_norm(
    x: Array, /, *, keepdims: bool = False, ord: float | Literal["fro", "nuc"] | None = "fro"
) -> Array:
    """The norm of the matrices in the last two axes.

    Args:
        x: shape (..., m, n).
        keepdims: whether the two axes stay, with size 1.
        ord: ``"fro"``, ``"nuc"``, or 1, 2, infinity and their negatives.

    Raises:
        ValueError: there is no such norm, or there are not two axes.
    """
    if require_array(x, "matrix_norm").ndim < 2:
        raise ValueError(f"matrix_norm: expected at least two axes, got shape {x.shape}")
    if ord is None or ord == "fro":
        return vector_norm(x, axis=(-2, -1), keepdims=keepdims)
    wide = x if x.dtype in dtypes.FLOATS else x.astype(dtypes.float64)
    if ord in (1, -1, math.inf, -math.inf):
        along = -2 if ord in (1, -1) else -1
        sums = ops.sum(ops.abs(wide), along, keepdims=True)
        made = ops.max(sums, (-2, -1), keepdims=True) if ord > 0 else ops.min(sums, (-2, -1), keepdims=True)
    elif ord in (2, -2, "nuc"):
        values = svdvals(wide)
        one = (
            ops.sum(values, -1) if ord == "nuc" else ops.max(values, -1) if ord == 2 else ops.min(values, -1)
        )
        made = ops.expand_dims(one, (-2, -1))
    else:
        raise ValueError(
            f"matrix_norm: ord: expected 'fro', 'nuc', 1, 2, inf or their negatives, got {ord!r}"
        )
    return made if keepdims else ops.squeeze(made, (-2, -1))


def norm(
    x: Array, /, ord: Any = None, axis: int | tuple[int, int] | None = None, keepdims: bool = False
) -> Array:
    """The norm of vectors along an axis, or of matrices along two, as ``numpy.linalg.norm``.

    Raises:
        ValueError: there is no such norm, or not as many axes.
    """
    require_array(x, "norm")
    if ord is None:
        return vector_norm(x, axis=axis, keepdims=keepdims)
    axes = normalize_axes(axis, x.ndim, "norm")
    if len(axes) == 1:
        if isinstance(ord, str):
            raise ValueError(f"norm: ord: expected a number for vectors, got {ord!r}")
        return vector_norm(x, axis=axes, keepdims=keepdims, ord=ord)
    if len(axes) != 2:
        raise ValueError(f"norm: axis: expected one axis or two, got {axes}")
    given = axis if isinstance(axis, tuple) else axes
    moved = ops.moveaxis(x, given, (-2, -1))
    made = matrix_norm(moved, ord=ord)
    return ops.expand_dims(made, axes) if keepdims else made


def cond(x: Array, /, p: Any = None) -> Array:
    """The condition number of matrices, in the norm ``p`` of :func:`matrix_norm`; in the second when None."""
    a = matrices(x, "cond")
    if p in (None, 2, -2):
        values = svdvals(a)
        first, last = values[..., 0], values[..., -1]
        return last / first if p == -2 else first / last
    return matrix_norm(a, ord=p) * matrix_norm(inv(a), ord=p)


def multi_dot(arrays: Sequence[Array], /) -> Array:
    """The product of several matrices in the order of the least work; the first and the last may be vectors.

    Raises:
        ValueError: fewer than two arrays, or shapes that do not fit.
    """
    if len(arrays) < 2:
        raise ValueError(f"multi_dot: expected at least two arrays, got {len(arrays)}")
    labels: list[list[int]] = []
    for i, x in enumerate(arrays):
        ends = x.ndim == 1 and i in (0, len(arrays) - 1)
        if not ends and x.ndim != 2:
            raise ValueError(f"multi_dot: arrays[{i}]: expected a matrix, got shape {x.shape}")
        labels.append([i, i + 1] if x.ndim == 2 else [i + 1] if i == 0 else [i])
    result = [labels[0][0]] * (arrays[0].ndim == 2) + [labels[-1][-1]] * (arrays[-1].ndim == 2)
    operands = [
        part for x, label in zip(arrays, labels, strict=True) for part in (floating(x, "multi_dot"), label)
    ]
    return ops.einsum(*operands, result, optimize="optimal")
