"""Batch and group normalization."""

from __future__ import annotations

from numbers import Real
from typing import Any

from .. import dtypes, pytree
from .. import namespace as ops
from ..array import Array
from ..array.batched import Level
from ..array.creation import ones, zeros
from ..array.deferred import trace, traced_threads
from ..array.layout import Layout
from ..array.mapping import looped, mapped
from ..autodiff import tape
from ..cache import Cache
from ..device import Device
from ..errors import require_int
from .channel_norm.function import layouts_of, normalized
from .channel_norm.problem import ChannelNorm
from .channel_norm.reference import beside, composed
from .fused import (
    Activation,
    common_dtype,
    require_activation,
    require_eps,
    require_shape,
    require_sizes,
    traced,
)
from .module import Module, Parameter


def _require_channels(name: str, channels: int, **arrays: Array | None) -> None:
    for argument, one in arrays.items():
        require_shape(name, argument, one, channels, note=", one a channel")


def _require_momentum(name: str, momentum: object) -> None:
    if not isinstance(momentum, Real) or isinstance(momentum, bool):
        raise TypeError(f"{name}: momentum: expected a number, got {momentum!r}")


def _channel_axis(name: str, x: Array, channel_axis: int) -> int:
    """The axis of channels, counted from the front.

    Raises:
        TypeError: it is not an int.
        ValueError: ``x`` has fewer than two axes, or no such one after the first.
    """
    require_int(f"{name}: channel_axis", channel_axis)
    require_shape(name, "x", x, "N", "C", ...)
    axis = channel_axis + x.ndim if channel_axis < 0 else channel_axis
    if not 0 < axis < x.ndim:
        raise ValueError(
            f"{name}: channel_axis: expected an axis of shape {x.shape} but the first, got {channel_axis}"
        )
    return int(axis)


#: The problems of checked arguments, by their layouts and options.
_checked: Cache[Any, ChannelNorm] = Cache()


def _of_all(level: Level, norm: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Array:
    """The rule of a norm that is of each of its images alone: those of all examples are as those of one."""
    x, *others = args
    if (
        kwargs.get("training")
        or any(one is True for one in others)
        or any(map(level.holds, pytree.leaves((others, kwargs))))
    ):
        return looped(level, norm, args, kwargs)
    whole = level.front(x)
    made: Array = norm(ops.reshape(whole, (-1, *whole.shape[2:])), *others, **kwargs)
    return ops.reshape(made, whole.shape)


@mapped(_of_all)
def batch_norm(
    x: Array,
    running_mean: Array | None = None,
    running_var: Array | None = None,
    weight: Array | None = None,
    bias: Array | None = None,
    training: bool = False,
    momentum: float | Array = 0.1,
    eps: float = 1e-5,
    channel_axis: int = 1,
    *,
    activation: Activation | None = None,
) -> Array:
    """``activation((x - mean) / sqrt(variance + eps) * weight + bias)`` for each channel.

    In training a GPU needs the sums over each channel, which are the same in every run, before the first result. It
    reads ``x``, and in the backward ``x`` and the result's gradient, once where shared memory holds whole channels
    until then, and twice elsewhere.

    Args:
        x: shape (N, C, ...), or (N, ..., C) with ``channel_axis=-1``; a floating dtype.
        running_mean, running_var: the statistics without ``training``, shape (C,). In training the statistics are
            those of the batch, and these two are updated in place.
        weight: shape (C,); ones when None.
        bias: shape (C,); zeros when None.
        training: whether to use the statistics of ``x``.
        momentum: the weight of the batch's statistics in the update of the running ones, whose variance is unbiased; a
            number or a 0-d array.
        eps: added to the variance.
        channel_axis: the axis of the channels, not the first.
        activation: as in :func:`group_norm`; none is applied when None.

    Returns:
        The shape of ``x``, in the promoted dtype of ``x``, ``weight`` and ``bias``.

    Raises:
        TypeError: an argument is not a floating array, ``momentum`` not a number, or ``activation`` not a function.
        ValueError: the shapes do not fit, statistics are missing, or in training a channel has fewer than two numbers.
        LaunchError: running statistics that are updated share memory with another array.

    Source: Ioffe and Szegedy, "Batch normalization", 2015.

    >>> import cukern as ck
    >>> ck.nn.batch_norm(ck.asarray([[1.0], [3.0]]), training=True, eps=0.0).tolist()
    [[-1.0], [1.0]]
    """
    name = "batch_norm"
    by = momentum if isinstance(momentum, Array) else None
    layouts = layouts_of(x, weight, bias, running_mean, running_var, by)
    key = (layouts, bool(training), channel_axis, activation) if type(channel_axis) is int else None
    problem = _checked.get(key)
    if type(eps) is not float or not eps >= 0:
        eps = require_eps(name, eps)
    if by is None and type(momentum) is not float:
        _require_momentum(name, momentum)
    moments = (running_mean, running_var)
    if problem is None:
        problem = _batch_problem(x, weight, bias, *moments, training, channel_axis, layouts)
        problem = _activated(name, problem, activation)
        if not x.size:
            return _empty(problem, x, weight, bias, activation)
        if key is not None:
            _checked.keep(key, problem)
    waits = traced_threads and trace() is not None  # then it is a part of what is around it
    if not training and (waits or tape.recording(moments)):  # type: ignore[arg-type]
        y = composed(problem, x, weight, bias, moments, eps)
    else:
        y = normalized(name, problem, x, weight, bias, eps, moments, momentum)
    return y if activation is None or problem.activation is not None else activation(y)


def _batch_problem(
    x: Array,
    weight: Array | None,
    bias: Array | None,
    running_mean: Array | None,
    running_var: Array | None,
    training: bool,
    channel_axis: int,
    layouts: tuple[Layout | None, ...] | None,
) -> ChannelNorm:
    """What :func:`batch_norm` is asked for, checked."""
    name = "batch_norm"
    result = common_dtype(name, {"x": x}, {"weight": weight, "bias": bias})
    common_dtype(name, {"x": x}, {"running_mean": running_mean, "running_var": running_var})
    axis = _channel_axis(name, x, channel_axis)
    given = {"running_mean": running_mean, "running_var": running_var, "weight": weight, "bias": bias}
    _require_channels(name, x.shape[axis], **given)
    if (running_mean is None) != (running_var is None):
        raise ValueError(f"{name}: running_mean, running_var: expected both or neither")
    if not training and running_mean is None:
        raise ValueError(f"{name}: running_mean, running_var: expected both where training is false")
    assert layouts is not None
    own, own_weight, own_bias, mean, variance, by = layouts
    assert own is not None
    problem = ChannelNorm(own, own_weight, own_bias, axis, None, result, mean, variance, not training, by)
    if training and x.shape[axis] and problem.together < 2:
        raise ValueError(
            f"{name}: x: expected two numbers a channel or more in training, got shape {x.shape}"
        )
    return problem


def _activated(name: str, problem: ChannelNorm, activation: Activation | None) -> ChannelNorm:
    """The problem with the activation, unless that is to be called with the result."""
    require_activation(name, activation)
    if activation is None:
        return problem
    return problem._replace(activation=traced(activation, problem.dtype, problem.x.shape))


def _empty(
    problem: ChannelNorm,
    x: Array,
    weight: Array | None,
    bias: Array | None,
    activation: Activation | None,
) -> Array:
    """An empty result, of which the gradients of weight and bias are zeros."""
    y = x
    for one in (weight, bias):
        y = y if one is None else ops.add(y, beside(problem, one))
    y = ops.astype(y, problem.dtype)
    return y if activation is None else activation(y)


@mapped(_of_all)
def group_norm(
    x: Array,
    groups: int,
    weight: Array | None = None,
    bias: Array | None = None,
    eps: float = 1e-5,
    channel_axis: int = 1,
    *,
    activation: Activation | None = None,
) -> Array:
    """Normalize groups of each example's channels: subtract the group's mean, divide by its standard deviation.

    An elementwise activation is a part of the kernel that writes the result, and its derivative of those of the
    gradients: what it is applied to is neither written nor kept. Any other function is called with the result.

    Args:
        x: shape (N, C, ...), or (N, ..., C) with ``channel_axis=-1``; a floating dtype.
        groups: the number of groups, each of C / groups neighbouring channels.
        weight: the factor of each channel, shape (C,); ones when None.
        bias: the offset of each channel, shape (C,); zeros when None.
        eps: added to the variance.
        channel_axis: the axis of the channels, not the first.
        activation: an elementwise function, such as :func:`cukern.silu`; none is applied when None.

    Returns:
        The shape of ``x``, in the promoted dtype of the arguments.

    Raises:
        TypeError: an argument is not a floating array, ``groups`` not an int, or ``activation`` not a function.
        ValueError: the shapes do not fit.

    Source: Wu and He, "Group normalization", 2018.

    >>> import cukern as ck
    >>> ck.nn.group_norm(ck.asarray([[1.0, 3.0, 0.0, 4.0]]), 2, eps=0.0).tolist()
    [[-1.0, 1.0, -1.0, 1.0]]
    >>> ck.nn.group_norm(ck.asarray([[1.0, 3.0, 0.0, 4.0]]), 2, eps=0.0, activation=ck.relu).tolist()
    [[0.0, 1.0, 0.0, 1.0]]
    """
    name = "group_norm"
    layouts = layouts_of(x, weight, bias)
    key = (
        (layouts, groups, channel_axis, name, activation)
        if type(groups) is type(channel_axis) is int
        else None
    )
    problem = _checked.get(key)
    if type(eps) is not float or not eps >= 0:
        eps = require_eps(name, eps)
    if problem is None:
        result = common_dtype(name, {"x": x}, {"weight": weight, "bias": bias})
        require_sizes(name, groups=groups)
        axis = _channel_axis(name, x, channel_axis)
        channels = x.shape[axis]
        if not groups or channels % groups:
            raise ValueError(f"{name}: groups: expected a divisor of the {channels} channels, got {groups}")
        _require_channels(name, channels, weight=weight, bias=bias)
        assert layouts is not None
        own, own_weight, own_bias = layouts
        assert own is not None
        problem = ChannelNorm(own, own_weight, own_bias, axis, int(groups), result)
        problem = _activated(name, problem, activation)
        if not x.size:
            return _empty(problem, x, weight, bias, activation)
        if key is not None:
            _checked.keep(key, problem)
    y = normalized(name, problem, x, weight, bias, eps)
    return y if activation is None or problem.activation is not None else activation(y)


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
        channel_axis: the axis of the channels of inputs, not the first.
        activation: an elementwise function that is applied to the outputs, see :func:`group_norm`.
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
        channel_axis: int = 1,
        activation: Activation | None = None,
    ) -> None:
        require_sizes("BatchNorm", features=features)
        require_activation("BatchNorm", activation)
        if momentum is not None:
            _require_momentum("BatchNorm", momentum)
        self.eps, self.momentum = require_eps("BatchNorm", eps), momentum
        self.channel_axis, self.activation = channel_axis, activation
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
                assert self.running_mean is not None
                momentum = ops.divide(1.0, ops.astype(tracked, dtypes.info(self.running_mean.dtype).acc))
        return batch_norm(
            x,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or tracked is None,
            momentum,
            self.eps,
            self.channel_axis,
            activation=self.activation,
        )

    def extra_repr(self) -> str:
        return f"eps={self.eps}, momentum={self.momentum}"


class GroupNorm(Module):
    """:func:`group_norm` with trained weight, initially ones, and bias, initially zeros.

    Args:
        groups: the number of groups.
        channels: the number of channels.
        eps: added to the variance.
        affine: whether there are a weight and a bias.
        dtype: that of the parameters; the default floating dtype when None.
        device: that of the parameters; the current one when None.
        channel_axis: the axis of the channels of inputs, not the first.
        activation: an elementwise function that is applied to the outputs, see :func:`group_norm`.

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
        channel_axis: int = 1,
        activation: Activation | None = None,
    ) -> None:
        require_sizes("GroupNorm", groups=groups, channels=channels)
        require_activation("GroupNorm", activation)
        if not groups or channels % groups:
            raise ValueError(
                f"GroupNorm: groups: expected a divisor of the {channels} channels, got {groups}"
            )
        self.groups, self.eps, self.channel_axis = groups, require_eps("GroupNorm", eps), channel_axis
        self.activation = activation
        self.weight = Parameter(ones(channels, dtype, device)) if affine else None
        self.bias = Parameter(zeros(channels, dtype, device)) if affine else None

    def forward(self, x: Array) -> Array:
        """The normalized ``x``, of its shape."""
        own = (self.groups, self.weight, self.bias, self.eps, self.channel_axis)
        return group_norm(x, *own, activation=self.activation)

    def extra_repr(self) -> str:
        return f"groups={self.groups}, eps={self.eps}"
