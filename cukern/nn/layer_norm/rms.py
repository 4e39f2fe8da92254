"""Root-mean-square normalization by the kernels of layer normalization."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ... import namespace as ops
from ...array import Array
from ...array.creation import ones
from ...device import Device
from ...elementwise.operands import first_array, require_array
from ...ops.info import finfo
from ..fused import common_dtype, record_fused, require_eps, tracked
from ..module import Module, Parameter
from .function import require_normalized_shape, shaped
from .launch import expect_backward, launch_backward, launch_forward


def rms_norm_reference(
    x: Array, normalized_ndim: int, weight: Array | None = None, eps: float = 1e-5
) -> Array:
    """:func:`rms_norm` of checked arguments as a composition: for derivatives of higher order, and for tests."""
    axes = tuple(range(-normalized_ndim, 0))
    y = ops.divide(x, ops.sqrt(ops.add(ops.mean(ops.square(x), axis=axes, keepdims=True), eps)))
    return y if weight is None else ops.multiply(y, weight)


def _normalized(x: Array, weight: Array | None, normalized_ndim: int, eps: float) -> Array:
    """:func:`rms_norm` of checked arguments, recorded."""
    columns = math.prod(x.shape[x.ndim - normalized_ndim :])
    primals = (x, weight)
    tracking = tracked(primals)
    if tracking is not None:
        expect_backward(x, columns, weight is not None, centered=False)
    y, statistics = launch_forward(x, weight, None, eps, columns, centered=False)
    if tracking is not None:

        def kernels(
            saved: Sequence[Any], cotangents: Sequence[Array], wanted: Sequence[bool]
        ) -> Sequence[Array | None]:
            x, weight, statistics = saved
            dx, dweight, _ = launch_backward(
                x, cotangents[0], weight, statistics, columns, (wanted[0], wanted[1], False), centered=False
            )
            return [dx, shaped(dweight, weight)]

        def composed(x: Array, weight: Array | None) -> Array:
            return rms_norm_reference(x, normalized_ndim, weight, eps)

        def again(x: Array, weight: Array | None) -> Array:
            return launch_forward(x, weight, None, eps, columns, centered=False)[0]

        record_fused("rms_norm", primals, (y,), (statistics,), kernels, composed, tracking, again)
    return y


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
    name = "rms_norm"
    x = require_array(x, name, "x", first_array((weight,)))
    weight = None if weight is None else require_array(weight, name, "weight", x)
    result = common_dtype(name, {"x": x}, {"weight": weight})
    sizes = require_normalized_shape(normalized_shape, name)
    if x.shape[max(x.ndim - len(sizes), 0) :] != sizes:
        raise ValueError(f"{name}: x: expected trailing axes of sizes {sizes}, got shape {x.shape}")
    if weight is not None and weight.shape != sizes:
        raise ValueError(f"{name}: weight: expected shape {sizes}, got {weight.shape}")
    eps = float(finfo(x.dtype).eps) if eps is None else require_eps(name, eps)
    x = ops.astype(x, result, copy=False)
    weight = None if weight is None else ops.astype(weight, result, copy=False)
    if not x.size:
        return rms_norm_reference(x, len(sizes), weight, eps) if all(sizes) else x
    return _normalized(x, weight, len(sizes), eps)


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

    def forward(self, x: Array) -> Array:
        """The normalized ``x``, of its shape."""
        return rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        """The options that the parameters' shapes do not show."""
        return f"{self.normalized_shape}, eps={self.eps}"


__all__ = ["RMSNorm", "rms_norm"]
