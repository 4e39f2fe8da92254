"""Root-mean-square normalization by the kernels of layer normalization."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...array import Array
from ...array.creation import ones
from ...array.mapping import mapped
from ...device import Device
from ..fused import require_eps
from ..module import Module, Parameter
from .function import normalized, of_all, require_normalized_shape, require_residual


@mapped(of_all)
def rms_norm(
    x: Array, normalized_shape: int | Sequence[int], weight: Array | None = None, eps: float | None = None
) -> Array:
    """``x / sqrt(mean(x ** 2) + eps) * weight``, with the mean over the trailing axes.

    The kernels are those of :func:`layer_norm`, which says how often they read ``x``.

    Args:
        x: shape (..., *normalized_shape), a floating dtype.
        normalized_shape: the sizes of the trailing axes; an int for one axis.
        weight: shape ``normalized_shape``; ones when None.
        eps: added to the mean; the machine epsilon of the dtype of ``x`` when None.

    Returns:
        The shape of ``x``, in the promoted dtype of the arguments.

    Raises:
        TypeError: an argument is not a floating array.
        ValueError: the shapes do not fit, or ``eps`` is negative.

    Source: Zhang and Sennrich, "Root mean square layer normalization", 2019.

    >>> import cukern as ck
    >>> ck.nn.rms_norm(ck.asarray([[3.0, 3.0]]), 2, eps=0.0).tolist()
    [[1.0, 1.0]]
    """
    made: Array = normalized("rms_norm", x, normalized_shape, weight, None, eps, False)
    return made


def add_rms_norm(
    x: Array,
    residual: Array,
    normalized_shape: int | Sequence[int],
    weight: Array | None = None,
    eps: float | None = None,
) -> tuple[Array, Array]:
    """:func:`rms_norm` of ``x + residual``, and the sum itself, in one launch; so are their gradients.

    Args:
        x: shape (..., *normalized_shape), a floating dtype.
        residual: shape of ``x``.
        normalized_shape: the sizes of the trailing axes; an int for one axis.
        weight: shape ``normalized_shape``; ones when None.
        eps: added to the mean; the machine epsilon of the dtype of ``x`` when None.

    Returns:
        The normalized sum and the sum, both of the shape of ``x``, in the promoted dtype of the arguments.

    Raises:
        TypeError: an argument is not a floating array.
        ValueError: the shapes do not fit, or ``eps`` is negative.

    >>> import cukern as ck
    >>> y, total = ck.nn.add_rms_norm(ck.asarray([[1.0, 1.0]]), ck.asarray([[2.0, 2.0]]), 2, eps=0.0)
    >>> y.tolist(), total.tolist()
    ([[1.0, 1.0]], [[3.0, 3.0]])
    """
    require_residual("add_rms_norm", residual)
    made: tuple[Array, Array] = normalized(
        "add_rms_norm", x, normalized_shape, weight, None, eps, False, residual
    )
    return made


class RMSNorm(Module):
    """:func:`rms_norm` with a trained weight, initially ones.

    Args:
        normalized_shape: the sizes of the trailing axes; an int for one axis.
        eps: added to the mean square; the machine epsilon of the inputs' dtype when None.
        affine: whether there is a weight.
        dtype: that of the weight; the default floating dtype when None.
        device: that of the weight; the current one when None.
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        affine: bool = True,
        dtype: Any = None,
        device: Device | str | None = None,
    ) -> None:
        self.normalized_shape = require_normalized_shape(normalized_shape, "RMSNorm")
        self.eps = eps if eps is None else require_eps("RMSNorm", eps)
        self.weight = Parameter(ones(self.normalized_shape, dtype, device)) if affine else None

    def forward(self, x: Array, residual: Array | None = None) -> Any:
        """The normalized ``x``, of its shape; with a ``residual`` what :func:`add_rms_norm` returns, a pair."""
        own = self.normalized_shape, self.weight, self.eps
        return rms_norm(x, *own) if residual is None else add_rms_norm(x, residual, *own)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}"


__all__ = ["RMSNorm", "add_rms_norm", "rms_norm"]
