"""Batch and group norm as problems of families: what a call asks for, as far as a launch depends on it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ... import dtypes
from ... import namespace as ops
from ...array import Array
from ...array.layout import Layout, fresh_layout
from ...device import Device
from ...device.interface import Properties
from ...elementwise.program import Program
from ...launch import cost

#: Makes an array dense and of a dtype.
Conversion = Callable[[Array], Array]


def _conversion(given: Layout | None, dtype: dtypes.DType | None = None) -> Conversion | None:
    if given is None:
        return None
    wanted = given.dtype if dtype is None else dtype
    if given.contiguous and given.dtype == wanted:
        return None
    return lambda one: ops.astype(one, wanted, copy=False).contiguous()


class Places(NamedTuple):
    """How an array lies in memory: as (instances, outer, channels, inner).

    Attributes:
        together: the number of neighbouring channels of an instance that share statistics.
    """

    instances: int
    outer: int
    channels: int
    inner: int
    together: int

    @property
    def groups(self) -> int:
        """The number of statistics of all instances."""
        return self.instances * self.channels // self.together

    @property
    def last(self) -> bool:
        """Whether channels lie innermost."""
        return self.inner == 1

    @property
    def sequence(self) -> int:
        """Elements of a channel of an instance."""
        return self.outer * self.inner


class ChannelNorm(NamedTuple):
    """The normalization of channels, or if ``dy`` is given its gradient.

    Attributes:
        x: of a channel or more; any strides.
        weight, bias: one number a channel.
        channel: the axis of the channels.
        groups: of channels of an example, of which each is normalized; None for the channels of the whole batch.
        dtype: of the result.
        mean, variance: of each channel: constants, or running statistics, which move towards those found.
        constant: whether they are constants.
        by: the momentum of running statistics, if it is an array.
        tracked: whether the statistics are returned besides the result, for a gradient.
        dy: the gradient of the result, of the shape of ``x``.
        wanted: whether the gradients of x, of weight and of bias are.
        activation: of the normalized values, with which all is one launch.
    """

    x: Layout
    weight: Layout | None
    bias: Layout | None
    channel: int
    groups: int | None
    dtype: dtypes.DType
    mean: Layout | None = None
    variance: Layout | None = None
    constant: bool = False
    by: Layout | None = None
    tracked: bool = False
    dy: Layout | None = None
    wanted: tuple[bool, ...] = (False, False, False)
    activation: Program | None = None

    @property
    def device(self) -> Device:
        return self.x.device

    @property
    def acc(self) -> dtypes.DType:
        """The dtype of statistics and sums."""
        given = (self.x, self.weight, self.bias, self.mean, self.variance)
        return dtypes.info(dtypes.result_type(*[one.dtype for one in given if one is not None])).acc

    @property
    def channels(self) -> int:
        """The number of channels of an example."""
        return self.x.shape[self.channel]

    @property
    def together(self) -> int:
        """The number of elements that are normalized together."""
        apart = self.channels if self.groups is None else self.x.shape[0] * self.groups
        return self.x.size // max(1, apart)

    @property
    def share(self) -> float:
        """That of an element in the mean."""
        return 1 / max(self.together, 1)

    @property
    def order(self) -> tuple[int, ...] | None:
        """The axes of ``x`` in memory, and of results; None for C order, to which ``x`` is copied if need be."""
        order = self.x.order
        return None if order is None or (self.groups and order[0]) else order

    @property
    def places(self) -> Places:
        """How ``x`` lies in memory, once it is dense."""
        shape, order = self.x.shape, self.order or tuple(range(self.x.ndim))
        at = order.index(self.channel)
        outer, inner = (math.prod(shape[i] for i in part) for part in (order[:at], order[at + 1 :]))
        if self.groups is None:
            return Places(1, outer, self.channels, inner, 1)
        return Places(shape[0], outer // shape[0], self.channels, inner, self.channels // self.groups)

    @property
    def param(self) -> dtypes.DType:
        """The dtype in which kernels read weight and bias, of which a gradient may read the weight alone."""
        read = (self.weight, None if self.dy is not None and self.activation is None else self.bias)
        given = {one.dtype for one in read if one is not None}
        return (
            self.acc if len(given) > 1 else next(iter(given), self.x.dtype if self.dy is None else self.acc)
        )

    @property
    def moments(self) -> dtypes.DType:
        """The dtype of constants as kernels read them, or in which they move running statistics."""
        if self.mean is None or self.variance is None:
            return self.acc
        same = self.mean.dtype == self.variance.dtype or not self.constant
        return self.mean.dtype if same else self.acc

    def conversions(self) -> list[Conversion | None]:
        """What makes arrays those that kernels take: x, weight, bias, mean, variance, by and dy; None for itself."""
        x = None if self.order is not None or self.x.contiguous else Array.contiguous
        params = [_conversion(one, self.param) for one in (self.weight, self.bias)]
        moments = [_conversion(one, self.moments) for one in (self.mean, self.variance)]
        if self.dy is None:
            return [x, *params, *moments, _conversion(self.by, self.acc), None]
        own = params[0], None if self.activation is None else params[1]
        return [x, *own, None, None, None, self._in_order(self.dy)]

    def _in_order(self, dy: Layout) -> Conversion | None:
        order, like = self.order or tuple(range(dy.ndim)), zip(dy.shape, dy.strides, strict=True)
        steps = fresh_layout(dy.device, dy.dtype, dy.shape, order).strides
        if all(n == 1 or own == step for (n, own), step in zip(like, steps, strict=True)):
            return None
        return lambda dy: ops.permute_dims(dy, order).contiguous()

    @property
    def aligned(self) -> bool:
        """Whether what kernels read in packs allows them: x and dy, and beside constants all others."""
        beside = (self.weight, self.bias, self.mean, self.variance) if self.constant else (None,) * 4
        given = (self.x, *beside, None, self.dy) if self.dy is None else (self.x, *(None,) * 5, self.dy)
        made = zip(given, self.conversions(), strict=True)
        return all(one is None or one.aligned or conversion is not None for one, conversion in made)

    @property
    def read(self) -> Sequence[Layout]:
        """The layouts of the arrays of elements that are read."""
        return (self.x,) if self.dy is None else (self.x, self.dy)

    @property
    def widest(self) -> int:
        """Bytes of an element of the widest array of elements."""
        return max(self.x.dtype.itemsize, (self.dy or self.x).dtype.itemsize, self.made.dtype.itemsize)

    @property
    def made(self) -> Layout:
        """The layout of the result, or of the gradient of ``x``."""
        dtype = self.dtype if self.dy is None else self.x.dtype
        return fresh_layout(self.device, dtype, self.x.shape, self.order)

    @property
    def statistics(self) -> Layout:
        """The layout of statistics, as ``templates/nn/channel_norm/channel_statistics.cuh`` has them."""
        return fresh_layout(self.device, self.acc, (self.places.groups, 3))

    @property
    def results(self) -> tuple[Layout, ...]:
        """The layouts of the result, and of statistics, or of the gradients that are wanted."""
        if self.dy is None:
            return (self.made, self.statistics) if self.tracked else (self.made,)
        own = (
            self.made,
            *(one and fresh_layout(self.device, one.dtype, one.shape) for one in (self.weight, self.bias)),
        )
        return tuple(one for one, want in zip(own, self.wanted, strict=True) if one is not None and want)

    @property
    def features(self) -> dict[str, Any]:
        places = self.places
        return {
            "dtype": dtypes.info(self.x.dtype).name,
            "other": dtypes.info((self.dy or self.made).dtype).name,
            "last": places.last,
            "aligned": self.aligned,
            "grouped": self.groups is not None,
            "constant": self.constant,
            "image": self.wanted[0],
            "sums": any(self.wanted[1:]),
            "instances": places.instances,
            "outer": places.outer,
            "channels": places.channels,
            "inner": places.inner,
            "together": places.together,
        }

    @property
    def summary(self) -> str:
        name = "batch norm" if self.groups is None else f"norm of {self.groups} groups"
        of, by = "" if self.dy is None else "gradient of ", " by constants" if self.constant else ""
        order = "last" if self.places.last else "first"
        by += "" if self.activation is None else " with an activation"
        return f"{of}{name}{by} of {dtypes.info(self.x.dtype).name} {self.x.shape}, channels {order}"

    def least_seconds(self, limits: Properties) -> float:
        """The time in which arrays are read and written once."""
        return sum(one.nbytes for one in (*self.read, self.made)) / cost.bandwidth(limits)
