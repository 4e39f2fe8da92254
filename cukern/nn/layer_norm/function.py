"""Layer normalization: the forward pass, its gradients and the module."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ... import namespace as ops
from ...array import Array
from ...array.creation import ones, zeros
from ...cache import Cache
from ...device import Device
from ...elementwise.operands import first_array, require_array
from ...ops.info import finfo
from ..fused import common_dtype, is_int, layouts_of, record_fused, require_eps, tracked
from ..module import Module, Parameter
from .families import expect_backward, launch_backward, launch_forward
from .reference import layer_norm_reference


def normalized(
    name: str,
    x: Array,
    normalized_shape: int | Sequence[int],
    weight: Array | None,
    bias: Array | None,
    eps: float | None,
    centered: bool,
) -> Array:
    """:func:`layer_norm`, or :func:`.rms_norm`, which does not center rows."""
    layouts = layouts_of(x, weight, bias)
    sizes = normalized_shape if isinstance(normalized_shape, tuple) else (normalized_shape,)
    key = (sizes, layouts) if all(type(n) is int for n in sizes) else None
    if key in _checked:
        return _recorded(name, x, weight, bias, sizes, _eps_of(name, eps, x), centered)
    x = require_array(x, name, "x", first_array((weight, bias)))
    weight = None if weight is None else require_array(weight, name, "weight", x)
    bias = None if bias is None else require_array(bias, name, "bias", x)
    dtype = common_dtype(name, {"x": x}, {"weight": weight, "bias": bias})
    sizes = require_normalized_shape(normalized_shape, name)
    if x.shape[max(x.ndim - len(sizes), 0) :] != sizes:
        raise ValueError(f"{name}: x: expected trailing axes of sizes {sizes}, got shape {x.shape}")
    for argument, one in (("weight", weight), ("bias", bias)):
        if one is not None and one.shape != sizes:
            raise ValueError(f"{name}: {argument}: expected shape {sizes}, got {one.shape}")
    eps = _eps_of(name, eps, x)
    x = ops.astype(x, dtype, copy=False)
    weight, bias = (None if one is None else ops.astype(one, dtype, copy=False) for one in (weight, bias))
    if not x.size:
        return layer_norm_reference(x, len(sizes), weight, bias, eps, centered) if all(sizes) else x
    if key is not None and layouts is not None and layouts == layouts_of(x, weight, bias):
        _checked.keep(key, True)
    return _recorded(name, x, weight, bias, sizes, eps, centered)


def _eps_of(name: str, eps: float | None, x: Array) -> float:
    return float(finfo(x.dtype).eps) if eps is None else require_eps(name, eps)


#: ``normalized_shape`` and the layouts of checked arguments of one dtype.
_checked: Cache[Any, bool] = Cache()


def _recorded(
    name: str,
    x: Array,
    weight: Array | None,
    bias: Array | None,
    sizes: tuple[int, ...],
    eps: float,
    centered: bool,
) -> Array:
    """The same of checked arguments, on tapes that track them."""
    columns = math.prod(sizes)
    primals = (x, weight, bias)
    tracking = tracked(primals)
    if tracking is not None:
        expect_backward(x, columns, weight is not None, centered)
    y, statistics = launch_forward(x, weight, bias, eps, columns, centered)
    if tracking is not None:

        def kernels(
            saved: Sequence[Any], cotangents: Sequence[Array], wanted: Sequence[bool]
        ) -> Sequence[Array | None]:
            x, weight, bias, statistics = saved
            which = (wanted[1], wanted[2])
            dx, dweight, dbias = launch_backward(
                x, cotangents[0], weight, statistics, columns, which, centered
            )
            return [dx, _shaped(dweight, weight), _shaped(dbias, bias)]

        def composed(x: Array, weight: Array | None, bias: Array | None) -> Array:
            return layer_norm_reference(x, len(sizes), weight, bias, eps, centered)

        def again(x: Array, weight: Array | None, bias: Array | None) -> Array:
            return launch_forward(x, weight, bias, eps, columns, centered)[0]

        record_fused(name, primals, (y,), (statistics,), kernels, composed, tracking, again)
    return y


def _shaped(gradient: Array | None, like: Array | None) -> Array | None:
    """A gradient with the shape of ``like``; None if there is none."""
    if gradient is None or like is None or gradient.shape == like.shape:
        return gradient
    return ops.reshape(gradient, like.shape)


def layer_norm(
    x: Array,
    normalized_shape: int | Sequence[int],
    weight: Array | None = None,
    bias: Array | None = None,
    eps: float = 1e-5,
) -> Array:
    """``(x - mean) / sqrt(variance + eps) * weight + bias``, with mean and variance over the trailing axes.

    A GPU reads ``x`` once if a block can hold a row (up to 32,768 elements), or from compute capability 9 on a
    cluster of eight blocks (262,144 elements). The gradient reads ``x`` and the result's gradient once for up to half
    as many elements, a quarter in float64. Longer rows, and all rows on the host, are read twice: once for the mean
    and variance, or the gradient's sums, and once for the result. The mean is subtracted before squaring, so a large
    mean costs no accuracy. The gradient subtracts the row's first element instead: if that is k standard deviations
    from the mean, rounding errors are k times as large.

    Args:
        x: shape (..., *normalized_shape), a floating dtype.
        normalized_shape: the sizes of the trailing axes; an int for one axis.
        weight: shape ``normalized_shape``; ones when None.
        bias: shape ``normalized_shape``; zeros when None.
        eps: added to the variance, whose divisor is the number of elements.

    Returns:
        The shape of ``x``, in the promoted dtype of the arguments.

    Raises:
        TypeError: an argument is not a floating array.
        ValueError: the shapes do not fit, or ``eps`` is negative.

    Source: Ba, Kiros and Hinton, "Layer Normalization", 2016.

    >>> import cukern as ck
    >>> ck.nn.layer_norm(ck.asarray([[1.0, 3.0]]), 2, eps=0.0).tolist()
    [[-1.0, 1.0]]
    """
    return normalized("layer_norm", x, normalized_shape, weight, bias, eps, True)


def require_normalized_shape(normalized_shape: int | Sequence[int], name: str) -> tuple[int, ...]:
    """The sizes of the trailing axes.

    Raises:
        ValueError: there is none, or one is not a size.
    """
    shape = normalized_shape if isinstance(normalized_shape, Sequence) else (normalized_shape,)
    if not shape or not all(is_int(n) and n >= 0 for n in shape):
        raise ValueError(f"{name}: normalized_shape: expected one size or more, got {normalized_shape!r}")
    return tuple(map(int, shape))


class LayerNorm(Module):
    """:func:`layer_norm` with trained weight, initially ones, and bias, initially zeros.

    Args:
        normalized_shape: the sizes of the trailing axes; an int for one axis.
        eps: added to the variance.
        affine: whether there are a weight and a bias.
        bias: whether there is a bias besides the weight.
        dtype: that of the parameters; the default floating dtype when None.
        device: that of the parameters; the current one when None.
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        affine: bool = True,
        bias: bool = True,
        dtype: Any = None,
        device: Device | str | None = None,
    ) -> None:
        self.normalized_shape = require_normalized_shape(normalized_shape, "layer_norm")
        self.eps = eps
        sizes = self.normalized_shape
        self.weight = Parameter(ones(sizes, dtype, device)) if affine else None
        self.bias = Parameter(zeros(sizes, dtype, device)) if affine and bias else None

    def forward(self, x: Array) -> Array:
        """The normalized ``x``, of its shape."""
        return layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """The options that the parameters' shapes do not show."""
        return f"{self.normalized_shape}, eps={self.eps}"


__all__ = ["LayerNorm", "layer_norm"]
