"""Diagonals of matrices: views of them, sums, and diagonal matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..array import Array
from ..array.mapping import leading, mapped, over_axis
from ..elementwise.operands import normalize_axes, on_device, public, recorded, require_array, view
from ..kernel.by_numpy import by_numpy
from ..kernel.plan import raw, zeros
from ..reduction.rows import sum
from ..shape.views import moveaxis, ravel

__all__ = ["diag", "diagflat", "diagonal", "trace"]


def _diagonal_view(data: Any, xp: Any, offset: int) -> Any:
    """A view of the diagonal of the last two axes of an ndarray."""
    if xp is np:
        result = data.diagonal(offset, -2, -1)
        result.flags.writeable = data.flags.writeable
        return result
    rows, columns = data.shape[-2:]
    count = max(0, min(rows + min(offset, 0), columns - max(offset, 0)))
    start = data[..., max(0, -offset) :, max(0, offset) :] if count else data[..., :0, :0]
    steps = (*data.strides[:-2], data.strides[-2] + data.strides[-1])
    return xp.lib.stride_tricks.as_strided(start, (*data.shape[:-2], count), steps)


@mapped(leading)
@on_device
def from_diagonal(x: Array, rows: int, columns: int, offset: int) -> Array:
    """Matrices of zeros with ``x`` (..., n) on a diagonal."""
    data = zeros(x.device, (*x.shape[:-1], rows, columns), x.dtype)
    _diagonal_view(raw(data), x.device.xp, offset)[...] = raw(x._data)
    result = Array._wrap(data, x.device)
    return recorded(
        "from_diagonal",
        x,
        result,
        lambda g: diagonal(g, offset, -2, -1),
        lambda t: from_diagonal(t, rows, columns, offset),
    )


@public
@mapped(over_axis("axis1", "axis2"))
@on_device
def diagonal(x: Array, /, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """A view of a diagonal of matrices, as the last axis; :func:`cukern.linalg.diagonal` takes the last two axes.

    Args:
        x: an array with at least two axes.
        offset: the distance above the main diagonal.
        axis1: the axis of the matrices' rows.
        axis2: the axis of their columns.

    Raises:
        ValueError: there are fewer than two axes, or both are the same.
    """
    x = require_array(x, "diagonal")
    if x.ndim < 2:
        raise ValueError(f"diagonal: expected at least two axes, got shape {x.shape}")
    axes = normalize_axes((axis1, axis2), x.ndim, "diagonal")
    moved = moveaxis(x, axes, (-2, -1))
    rows, columns = moved.shape[-2:]
    result = view(x, _diagonal_view(moved._data, x.device.xp, offset))
    return recorded(
        "diagonal",
        moved,
        result,
        lambda g: from_diagonal(g, rows, columns, offset),
        lambda t: diagonal(t, offset, -2, -1),
    )


@by_numpy("trace", warns=True)
def _traced(data: Any, offset: int) -> Any:
    if data.ndim > 2 or data.dtype.char not in "fd":
        return "no matrix, or no float32 or float64, in which sum computes"
    return np.add.reduce(data.diagonal(offset))


@public
def trace(
    x: Array,
    /,
    offset: int = 0,
    axis1: int = 0,
    axis2: int = 1,
    dtype: npt.DTypeLike | None = None,
    out: Array | None = None,
) -> Array:
    """The sum of a diagonal of matrices; arguments as in :func:`diagonal`, ``dtype`` and ``out`` as in :func:`sum`."""
    plain = dtype is None and out is None and axis1 == 0 and axis2 == 1 and type(x) is Array
    whole: Array | None = _traced(x, offset) if plain else None
    return sum(diagonal(x, offset, axis1, axis2), -1, dtype, out) if whole is None else whole


@public
def diag(x: Array, /, k: int = 0) -> Array:
    """The ``k``-th diagonal of a matrix ``x``, or a matrix of zeros with a vector ``x`` on that diagonal.

    Raises:
        ValueError: ``x`` is neither a vector nor a matrix.
    """
    x = require_array(x, "diag")
    if x.ndim == 2:
        return diagonal(x, k)
    if x.ndim != 1:
        raise ValueError(f"diag: expected one axis or two, got shape {x.shape}")
    n = x.size + abs(k)
    return from_diagonal(x, n, n, k)


@public
def diagflat(x: Array, /, k: int = 0) -> Array:
    """A matrix of zeros with the elements of ``x`` on the ``k``-th diagonal."""
    x = require_array(x, "diagflat")
    return diag(ravel(x), k)
