"""Vectors of length 1, and cosines between vectors."""

from __future__ import annotations

from typing import Any

from .. import linalg
from .. import namespace as ops
from ..array import Array
from ..elementwise.fuse import fuse
from ..elementwise.operands import require_array, require_arrays
from ..ops.info import finfo
from .fused import common_dtype, few_kernels, require_eps


def normalize(x: Array, axis: int | tuple[int, ...] = -1, ord: float = 2, eps: float = 1e-12) -> Array:
    """``x / max(norm, eps)``, with the norm along an axis: vectors of length 1.

    Args:
        x: a floating dtype.
        axis: along which vectors lie; the last by default (PyTorch's default is 1).
        ord: of the norm, see :func:`cukern.linalg.vector_norm`.
        eps: the least divisor, at least the dtype's smallest normal number; vectors of zeros stay zeros.

    Returns:
        The shape and dtype of ``x``.

    Raises:
        TypeError: ``x`` is not a floating array.
        ValueError: ``eps`` is negative.
        AxisError: there is no such axis.

    >>> import cukern as ck
    >>> print(ck.nn.normalize(ck.asarray([[3.0, 4.0], [0.0, 0.0]])))
    [[0.6 0.8]
     [0.  0. ]]
    """
    x = require_array(x, "normalize")
    dtype = common_dtype("normalize", {"x": x})
    least = max(require_eps("normalize", eps), float(finfo(dtype).smallest_normal))
    return _over(x, linalg.vector_norm(x, axis=axis, keepdims=True, ord=ord), least)


@fuse
def _over(x: Any, norm: Any, least: float) -> Any:
    return x / ops.maximum(norm, least)


def cosine_similarity(x: Array, y: Array, axis: int = -1, eps: float = 1e-8) -> Array:
    """The cosine of the angle between vectors: the sum of products along an axis, over the lengths.

    For all pairs of rows of two matrices, ``normalize(x) @ normalize(y).T`` is one product.

    Args:
        x, y: shapes that broadcast, floating dtypes.
        axis: along which vectors lie; the last by default (PyTorch's default is 1).
        eps: the least length by which is divided.

    Returns:
        The broadcast shape without the axis, in the promoted dtype; 0 for a vector of 0.

    Raises:
        TypeError: an argument is not a floating array.
        ValueError: the shapes do not broadcast, or ``eps`` is negative.
        AxisError: there is no such axis.

    >>> import cukern as ck
    >>> x = ck.asarray([[1.0, 0.0], [1.0, 1.0]])
    >>> print(ck.round(ck.nn.cosine_similarity(x, ck.asarray([2.0, 0.0])), 4))
    [1.     0.7071]
    """
    name = "cosine_similarity"
    x, y = ops.broadcast_arrays(*require_arrays((x, y), name, ("x", "y")))
    common_dtype(name, {"x": x, "y": y})
    eps = require_eps(name, eps)
    return _cosine(x, y, axis, eps)


@few_kernels
def _cosine(x: Array, y: Array, axis: int, eps: float) -> Array:
    return ops.sum(ops.multiply(normalize(x, axis, eps=eps), normalize(y, axis, eps=eps)), axis=axis)
