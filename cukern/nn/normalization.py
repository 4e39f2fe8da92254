"""Batch, group and root-mean-square normalization, composed of fused functions and reductions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real
from typing import Any

from .. import dtypes
from .. import namespace as ops
from ..array import Array
from ..array.creation import ones, zeros
from ..device import Device
from ..elementwise.fuse import fuse
from ..function import stop_gradient
from ..ops.info import finfo
from .fused import common_dtype, require_sizes
from .layer_norm.function import require_normalized_shape
from .module import Module, Parameter

_STATIC = ("axes", "dtype")


@fuse(static=_STATIC)
def _mean(x: Any, axes: tuple[int, ...], dtype: dtypes.DType) -> Any:
    return ops.mean(x.astype(dtype), axis=axes, keepdims=True)


@fuse(static=_STATIC)
def _variance(x: Any, mean: Any, axes: tuple[int, ...], dtype: dtypes.DType) -> Any:
    return ops.mean(ops.square(x.astype(dtype) - mean), axis=axes, keepdims=True)


@fuse(static=_STATIC)
def _mean_square(x: Any, axes: tuple[int, ...], dtype: dtypes.DType) -> Any:
    return ops.mean(ops.square(x.astype(dtype)), axis=axes, keepdims=True)


@fuse(static=("dtype",))
def _normalized(
    x: Any, mean: Any, variance: Any, weight: Any, bias: Any, eps: float, dtype: dtypes.DType
) -> Any:
    y = x.astype(variance.dtype)
    y = (y if mean is None else y - mean) * ops.rsqrt(variance + eps)
    y = y if weight is None else y * weight
    return (y if bias is None else y + bias).astype(dtype)


@fuse
def _moved(running: Any, found: Any, momentum: Any) -> Any:
    return (running + (found - running) * momentum).astype(running.dtype)


def _require_eps(name: str, eps: float) -> float:
    if not isinstance(eps, Real) or isinstance(eps, bool) or not eps >= 0:
        raise ValueError(f"{name}: eps: expected a number of at least 0, got {eps!r}")
    return float(eps)


def _require_channels(name: str, channels: int, **arrays: Array | None) -> None:
    for argument, one in arrays.items():
        if one is not None and one.shape != (channels,):
            raise ValueError(
                f"{name}: {argument}: expected shape ({channels},), one a channel, got {one.shape}"
            )


def _along(one: Array | None, ndim: int) -> Array | None:
    """An array of one number per channel, reshaped to broadcast with (N, C, ...)."""
    return None if one is None else ops.reshape(one, (-1, *(1,) * (ndim - 2)))


def batch_norm(
    x: Array,
    running_mean: Array | None = None,
    running_var: Array | None = None,
    weight: Array | None = None,
    bias: Array | None = None,
    training: bool = False,
    momentum: float | Array = 0.1,
    eps: float = 1e-5,
) -> Array:
    """``(x - mean) / sqrt(variance + eps) * weight + bias`` for each channel, the second axis.

    Args:
        x: shape (N, C, ...), a floating dtype.
        running_mean, running_var: the statistics without ``training``, shape (C,). In training the statistics are
            those of the batch, and these two are updated in place.
        weight: shape (C,); ones when None.
        bias: shape (C,); zeros when None.
        training: whether to use the statistics of ``x``.
        momentum: the weight of the batch's statistics in the update of the running ones, whose variance is unbiased; a
            number or a 0-d array.
        eps: added to the variance.

    Returns:
        The shape of ``x``, in the promoted dtype of ``x``, ``weight`` and ``bias``.

    Raises:
        TypeError: an argument is not a floating array.
        ValueError: the shapes do not fit, statistics are missing, or in training a channel has fewer than two numbers.

    Source: Ioffe and Szegedy, "Batch normalization", 2015.

    >>> import cukern as ck
    >>> ck.nn.batch_norm(ck.asarray([[1.0], [3.0]]), training=True, eps=0.0).tolist()
    [[-1.0], [1.0]]
    """
    name = "batch_norm"
    result = common_dtype(name, {"x": x}, {"weight": weight, "bias": bias})
    common_dtype(name, {"x": x}, {"running_mean": running_mean, "running_var": running_var})
    if x.ndim < 2:
        raise ValueError(f"{name}: x: expected shape (N, C, ...), got {x.shape}")
    channels = x.shape[1]
    given = {"running_mean": running_mean, "running_var": running_var, "weight": weight, "bias": bias}
    _require_channels(name, channels, **given)
    eps = _require_eps(name, eps)
    if (running_mean is None) != (running_var is None):
        raise ValueError(f"{name}: running_mean, running_var: expected both or neither")
    weight, bias = _along(weight, x.ndim), _along(bias, x.ndim)
    if not training:
        if running_mean is None:
            raise ValueError(f"{name}: running_mean, running_var: expected both where training is false")
        mean, variance = _along(running_mean, x.ndim), _along(running_var, x.ndim)
        made: Array = _normalized(x, mean, variance, weight, bias, eps, result)
        return made
    count = x.size // channels if channels else 0
    if channels and count < 2:
        raise ValueError(
            f"{name}: x: expected two numbers a channel or more in training, got shape {x.shape}"
        )
    axes, acc = (0, *range(2, x.ndim)), dtypes.info(x.dtype).acc
    mean = _mean(x, axes, acc)
    variance = _variance(x, mean, axes, acc)
    if running_mean is not None and running_var is not None and channels:
        # Running statistics are constants to tapes.
        found = [ops.reshape(stop_gradient(one), (channels,)) for one in (mean, variance)]
        running_mean[...] = _moved(running_mean, found[0], momentum)
        running_var[...] = _moved(running_var, found[1] * (count / (count - 1)), momentum)
    made = _normalized(x, mean, variance, weight, bias, eps, result)
    return made


def group_norm(
    x: Array, groups: int, weight: Array | None = None, bias: Array | None = None, eps: float = 1e-5
) -> Array:
    """Normalize groups of each example's channels: subtract the group's mean, divide by its standard deviation.

    Args:
        x: shape (N, C, ...), a floating dtype.
        groups: the number of groups, each of C / groups neighbouring channels.
        weight: the factor of each channel, shape (C,); ones when None.
        bias: the offset of each channel, shape (C,); zeros when None.
        eps: added to the variance.

    Returns:
        The shape of ``x``, in the promoted dtype of the arguments.

    Raises:
        TypeError: an argument is not a floating array, or ``groups`` not an int.
        ValueError: the shapes do not fit.

    Source: Wu and He, "Group normalization", 2018.

    >>> import cukern as ck
    >>> ck.nn.group_norm(ck.asarray([[1.0, 3.0, 0.0, 4.0]]), 2, eps=0.0).tolist()
    [[-1.0, 1.0, -1.0, 1.0]]
    """
    name = "group_norm"
    result = common_dtype(name, {"x": x}, {"weight": weight, "bias": bias})
    require_sizes(name, groups=groups)
    if x.ndim < 2:
        raise ValueError(f"{name}: x: expected shape (N, C, ...), got {x.shape}")
    examples, channels = x.shape[:2]
    if not groups or channels % groups:
        raise ValueError(f"{name}: groups: expected a divisor of the {channels} channels, got {groups}")
    _require_channels(name, channels, weight=weight, bias=bias)
    eps = _require_eps(name, eps)
    shape = (examples, groups, channels // groups, math.prod(x.shape[2:]))
    grouped, acc = ops.reshape(x, shape), dtypes.info(x.dtype).acc
    mean = _mean(grouped, (2, 3), acc)
    variance = _variance(grouped, mean, (2, 3), acc)
    sizes = (groups, channels // groups, 1)
    weight, bias = (None if one is None else ops.reshape(one, sizes) for one in (weight, bias))
    return ops.reshape(_normalized(grouped, mean, variance, weight, bias, eps, result), x.shape)


def rms_norm(
    x: Array, normalized_shape: int | Sequence[int], weight: Array | None = None, eps: float | None = None
) -> Array:
    """``x / sqrt(mean(x ** 2) + eps) * weight``, with the mean over the trailing axes.

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
    result = common_dtype(name, {"x": x}, {"weight": weight})
    sizes = require_normalized_shape(normalized_shape, name)
    if x.shape[max(x.ndim - len(sizes), 0) :] != sizes:
        raise ValueError(f"{name}: x: expected trailing axes of sizes {sizes}, got shape {x.shape}")
    if weight is not None and weight.shape != sizes:
        raise ValueError(f"{name}: weight: expected shape {sizes}, got {weight.shape}")
    eps = float(finfo(x.dtype).eps) if eps is None else _require_eps(name, eps)
    axes = tuple(range(x.ndim - len(sizes), x.ndim))
    square = _mean_square(x, axes, dtypes.info(x.dtype).acc)
    made: Array = _normalized(x, None, square, weight, None, eps, result)
    return made


class BatchNorm(Module):
    """:func:`batch_norm` with trained weight, initially ones, and bias, initially zeros, and running statistics.

    It takes inputs of any number of axes, (N, C), (N, C, L), (N, C, H, W), and replaces PyTorch's BatchNorm1d to 3d,
    with the same names in the state.

    Args:
        features: the number of channels.
        eps: added to the variance.
        momentum: the weight of each batch's statistics in the running ones; None for the mean of all batches.
        affine: whether there are a weight and a bias.
        track_running_stats: whether there are running statistics, which are used after :meth:`Module.eval`; without
            them the statistics are always those of the batch.
        dtype: that of the parameters and statistics; the default floating dtype when None.
        device: that of the parameters and statistics; the current one when None.
    """

    def __init__(
        self,
        features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        dtype: Any = None,
        device: Device | str | None = None,
    ) -> None:
        require_sizes("BatchNorm", features=features)
        self.eps, self.momentum = _require_eps("BatchNorm", eps), momentum
        self.weight = Parameter(ones(features, dtype, device)) if affine else None
        self.bias = Parameter(zeros(features, dtype, device)) if affine else None
        track = track_running_stats
        self.running_mean = zeros(features, dtype, device) if track else None
        self.running_var = ones(features, dtype, device) if track else None
        self.num_batches_tracked = zeros((), dtypes.int64, device) if track else None

    def forward(self, x: Array) -> Array:
        """The normalized ``x``, of its shape."""
        momentum: float | Array = 0.0 if self.momentum is None else self.momentum
        tracked = self.num_batches_tracked
        if self.training and tracked is not None:
            tracked += 1
            if self.momentum is None:
                momentum = ops.divide(1.0, ops.astype(tracked, dtypes.float32))
        return batch_norm(
            x,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or tracked is None,
            momentum,
            self.eps,
        )

    def extra_repr(self) -> str:
        """The options that the parameters' shapes do not show."""
        return f"eps={self.eps}, momentum={self.momentum}"


class GroupNorm(Module):
    """:func:`group_norm` with trained weight, initially ones, and bias, initially zeros.

    Args:
        groups: the number of groups.
        channels: the size of the second axis.
        eps: added to the variance.
        affine: whether there are a weight and a bias.
        dtype: that of the parameters; the default floating dtype when None.
        device: that of the parameters; the current one when None.

    Raises:
        ValueError: ``groups`` does not divide ``channels``.
    """

    def __init__(
        self,
        groups: int,
        channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        dtype: Any = None,
        device: Device | str | None = None,
    ) -> None:
        require_sizes("GroupNorm", groups=groups, channels=channels)
        if not groups or channels % groups:
            raise ValueError(
                f"GroupNorm: groups: expected a divisor of the {channels} channels, got {groups}"
            )
        self.groups, self.eps = groups, _require_eps("GroupNorm", eps)
        self.weight = Parameter(ones(channels, dtype, device)) if affine else None
        self.bias = Parameter(zeros(channels, dtype, device)) if affine else None

    def forward(self, x: Array) -> Array:
        """The normalized ``x``, of its shape."""
        return group_norm(x, self.groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """The options that the parameters' shapes do not show."""
        return f"groups={self.groups}, eps={self.eps}"


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
        self.eps = eps if eps is None else _require_eps("RMSNorm", eps)
        self.weight = Parameter(ones(self.normalized_shape, dtype, device)) if affine else None

    def forward(self, x: Array) -> Array:
        """The normalized ``x``, of its shape."""
        return rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        """The options that the parameters' shapes do not show."""
        return f"{self.normalized_shape}, eps={self.eps}"


__all__ = ["BatchNorm", "GroupNorm", "RMSNorm", "batch_norm", "group_norm", "rms_norm"]
