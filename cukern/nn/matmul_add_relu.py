"""The ReLU of a matrix product and a bias, as a fused function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from .. import namespace as ops
from ..array import Array
from ..elementwise.fuse import fuse
from ..elementwise.operands import require_arrays
from ..function import checkpoint
from .fused import common_dtype


@fuse
def _fused(lhs: Array, rhs: Array, bias: Array) -> Array:
    return ops.relu(lhs @ rhs + bias)


#: By strategy.
_FUSED: dict[str, Callable[[Array, Array, Array], Array]] = {"save": _fused, "recompute": checkpoint(_fused)}


def matmul_add_relu(
    lhs: Array, rhs: Array, bias: Array, *, strategy: Literal["save", "recompute"] = "save"
) -> Array:
    """The larger of ``lhs @ rhs + bias`` and 0, as one expression: see :func:`cukern.fuse`.

    Args:
        lhs: shape (..., M, K), a floating dtype.
        rhs: shape (..., K, N).
        bias: any shape that broadcasts with the product: a scalar, a row (N,), or full.
            The batch axes of all three broadcast.
        strategy: how the gradient finds the ReLU's mask: ``"save"`` saves the output,
            ``"recompute"`` saves only the arguments and computes the output again.

    Returns:
        Shape (..., M, N), in the promoted dtype of the arguments.

    Raises:
        TypeError: an argument is not a floating array.
        ValueError: the shapes do not fit, or there is no such strategy.

    >>> import cukern as ck
    >>> lhs, rhs = ck.asarray([[1.0, 2.0]]), ck.asarray([[3.0, -3.0], [4.0, -4.0]])
    >>> ck.nn.matmul_add_relu(lhs, rhs, ck.asarray([0.5, 0.5])).tolist()
    [[11.5, 0.0]]
    """
    name = "matmul_add_relu"
    lhs, rhs, bias = require_arrays((lhs, rhs, bias), name, ("lhs", "rhs", "bias"))
    dtype = common_dtype(name, {"lhs": lhs, "rhs": rhs, "bias": bias})
    if strategy not in ("save", "recompute"):
        raise ValueError(f"{name}: strategy: expected 'save' or 'recompute', got {strategy!r}")
    for argument, one in (("lhs", lhs), ("rhs", rhs)):
        if one.ndim < 2:
            raise ValueError(f"{name}: {argument}: expected at least 2 axes, got shape {one.shape}")
    if lhs.shape[-1] != rhs.shape[-2]:
        raise ValueError(
            f"{name}: rhs: expected {lhs.shape[-1]} rows, as many as lhs {lhs.shape} has columns, "
            f"got {rhs.shape}"
        )
    try:
        batch = np.broadcast_shapes(lhs.shape[:-2], rhs.shape[:-2])
        np.broadcast_shapes((*batch, lhs.shape[-2], rhs.shape[-1]), bias.shape)
    except ValueError:
        raise ValueError(
            f"{name}: shapes do not broadcast: lhs {lhs.shape}, rhs {rhs.shape}, bias {bias.shape}"
        ) from None
    return _FUSED[strategy](*(ops.astype(one, dtype, copy=False) for one in (lhs, rhs, bias)))


__all__ = ["matmul_add_relu"]
