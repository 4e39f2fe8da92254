"""Variants that any device has: sums over parts of channels, their totals, and the result; and groups as rows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self

from ... import dtypes
from ... import namespace as ops
from ...array import Array
from ...array.layout import Layout, fresh_layout
from ...autodiff import tape
from ...device.interface import Properties
from ...function import stop_gradient
from ...kernel import Kernel
from ...kernel.plan import new
from ...launch import cost
from ...launch.variant import Launch, Plan, Run, Variant, prepared
from ...reduction.plan import load
from ...shape.known_views import items
from ..fused import activation_variables, derivative_of
from ..layer_norm.families import LAYER_NORM
from ..layer_norm.problem import Normalization
from .problem import ChannelNorm
from .sharing import Cut, Share, cut, cut_after_sums, cut_of_sums, share_of

_SUMS = Kernel("nn/channel_norm/sums.cu", name="channel_sums")
_STATISTICS = Kernel("nn/channel_norm/statistics.cu", name="channel_statistics")
_GRADIENTS = Kernel("nn/channel_norm/gradients.cu", name="channel_gradients")
_APPLY = Kernel("nn/channel_norm/apply.cu", name="channel_normalized")
_DERIVE = Kernel("nn/channel_norm/apply.cu", name="channel_derivative")

#: Blocks that a multiprocessor gets for results of constants, and for others and derivatives, by whether channels lie
#: innermost, whose threads have numbers of several channels.
_APPLYING, _DERIVING = {False: 1024, True: 32}, {False: 32, True: 4}


def replayed(problem: ChannelNorm, compute: Plan) -> Plan:
    """What computes a problem, of what computes it with arrays that kernels take, on the current device."""
    device, (x, *own, dy) = problem.device, problem.conversions()
    moves = problem.dy is None and not problem.constant
    conversions = (x, *own) if problem.dy is None else (x, dy, *own[:2])
    which = device.which

    def converted(*given: Any) -> Any:
        with tape.stop_recording():
            made = zip(given, conversions, strict=False)
            used = [one if one is None or change is None else change(one) for one, change in made]
            result = compute(*used, *given[len(used) :])
            for one, moved in zip(given[3:5], used[3:5], strict=True) if moves else ():
                if moved is not one:
                    stop_gradient(one)[...] = moved
        return result

    plan = converted if any(conversions) else compute
    if which is None:
        return plan

    def there(*given: Any) -> Any:
        if which() == device.index:
            return plan(*given)
        with device.activate():
            return plan(*given)

    return there


def cxx(dtype: dtypes.DType) -> str:
    """The C++ type of a dtype."""
    return dtypes.info(dtype).cxx


def activated(problem: ChannelNorm) -> dict[str, Any]:
    """The template variables of the activation of a result, or of its derivative."""
    made = problem.activation
    return activation_variables(made if made is None or problem.dy is None else derivative_of(made))


class OfChannels(Variant[ChannelNorm]):
    """What all variants share: a cost by the bytes that are moved."""

    #: The share of the memory's rate that is reached, estimated, and how often arrays are moved on average.
    efficiency: ClassVar[float]
    times: ClassVar[float] = 1.0
    launches: ClassVar[int] = 1

    def cost(self, problem: ChannelNorm, limits: Properties) -> float:
        """The time of the bytes (roofline), and of launches."""
        moved = self.times * problem.least_seconds(limits) / self.efficiency
        return moved + self.launches * cost.launch(limits)


@dataclass(frozen=True)
class Separate(OfChannels):
    """Moments of parts of channels, the statistics of groups, and the result; by constants, the result alone.

    Attributes:
        results: how threads share results.
        sums: how they share what is summed.
        joining: threads that join the parts of a group.
        joined: parts that each has on their way.
    """

    name = "separate launches"
    efficiency = 0.6
    times = 1.5
    launches = 3

    results: Share
    sums: Share
    joining: int
    joined: int

    @classmethod
    def configs(cls, problem: ChannelNorm, limits: Properties) -> Iterator[Self]:
        """One."""
        joining = (1, 1) if cost.is_host(limits) else (128, 4)
        item = max(one.dtype.itemsize for one in problem.read)
        yield cls(share_of(problem, problem.widest, limits), share_of(problem, item, limits), *joining)

    def constants(self) -> dict[str, Any]:
        """None: each launch has its own."""
        return {}

    def shared(
        self, kernel: Kernel, share: Share, cut: Cut, problem: ChannelNorm, **constants: Any
    ) -> Launch:
        """A launch whose threads share elements."""
        own = {"elem": problem.x.dtype, "acc": problem.acc, "index": cut.integer, **share._asdict()}
        own |= {"out": cxx(problem.read[-1].dtype), "derivative": problem.dy is not None}
        own |= activated(problem) | constants
        block = own.pop("block")
        return Launch((cut.blocks, cut.parts, 1), block, constants=own, params=(cut.sizes,), kernel=kernel)

    def summing(self, problem: ChannelNorm, limits: Properties, image: bool = False) -> tuple[Run, Layout]:
        """The launch that sums, and the layout of its parts; with ``image`` it writes the gradient of x too."""
        places = problem.places
        parts = cut_of_sums(places, self.sums, limits)
        own = {"param": cxx(problem.param)} if problem.dy is not None else {"activation": None}
        made = self.shared(_SUMS, self.sums, parts, problem, image=image, backwards=False, **own)
        shape = places.instances * places.channels, parts.parts, 4 if problem.dy is None else 2
        layout = fresh_layout(problem.device, problem.acc, shape)
        return prepared(self, made, problem.device), layout

    def join(self, kernel: Kernel, problem: ChannelNorm, *params: float, **constants: Any) -> Run:
        """The launch that joins the parts of each group."""
        own = {"elem": problem.acc, "acc": problem.acc, "index": "long long", "unroll": self.joined}
        grid = (problem.places.groups, 1, 1)
        made = Launch(grid, self.joining, constants={**own, **constants}, params=params, kernel=kernel)
        return prepared(self, made, problem.device)

    def apply(self, kernel: Kernel, problem: ChannelNorm, limits: Properties, **constants: Any) -> Run:
        """The launch that writes the result, or the gradient of x."""
        places, share, own = problem.places, self.results, {"constant": False, "tracked": False, **constants}
        if own["constant"]:
            parts = cut(places, share, limits, _APPLYING[places.last], share.unroll)
        else:
            parts = cut_after_sums(places, share, limits, _DERIVING[places.last])
        made = self.shared(kernel, share, parts, problem, backwards=not own["constant"], **own)
        return prepared(self, made, problem.device)

    def plan(self, problem: ChannelNorm, limits: Properties) -> Plan:
        """The launches; that of constants leaves statistics too, if they are asked for."""
        types = {"out": cxx(problem.dtype), "param": cxx(problem.param), "running": cxx(problem.moments)}
        more = {"constant": problem.constant, "tracked": problem.constant and problem.tracked}
        apply, layouts = self.apply(_APPLY, problem, limits, **types, **more), problem.results
        if problem.constant:

            def once(
                x: Array, weight: Any, bias: Any, mean: Array, variance: Array, by: None, eps: float, _: float
            ) -> tuple[Array, Array | None]:
                y, *found = new(layouts)
                apply((x, weight, bias, mean, variance, y, *found, eps))
                return y, found[0] if found else None

            return replayed(problem, once)
        sums, parts = self.summing(problem, limits)
        numbers = parts.shape[1], problem.places.together
        statistics = self.join(_STATISTICS, problem, *numbers, running=types["running"])
        layouts, tracked = (problem.made, problem.statistics, parts), problem.tracked

        def compute(
            x: Array, weight: Any, bias: Any, mean: Any, variance: Any, by: Any, eps: float, momentum: float
        ) -> tuple[Array, Array | None]:
            y, found, between = new(layouts)
            sums((x, between))
            statistics((between, found, mean, variance, by, eps, momentum))
            apply((x, weight, bias, found, y))
            return y, found if tracked else None

        return replayed(problem, compute)


@dataclass(frozen=True)
class Rows(OfChannels):
    """Groups of channels as rows of layer norm, where registers hold a row."""

    name = "rows"
    efficiency = 0.9

    @staticmethod
    def rows(problem: ChannelNorm) -> Normalization:
        """The same as a problem of layer norm."""
        x, inner, groups = problem.x, math.prod(problem.x.shape[2:]), problem.groups or 1
        weight, bias = (
            one if one is None or one.contiguous else fresh_layout(one.device, one.dtype, one.shape)
            for one in (problem.weight, problem.bias)
        )
        return Normalization(
            x,
            weight,
            bias,
            x.shape[1] // groups * inner,
            groups=groups,
            inner=inner,
            activation=problem.activation,
        )

    @classmethod
    def fits(cls, problem: ChannelNorm, limits: Properties) -> str:
        """For groups in C order, of arrays of one dtype, that a variant of layer norm holds."""
        given = [one.dtype for one in (problem.x, problem.weight, problem.bias) if one is not None]
        if problem.groups is None:
            return "for groups of an example's channels"
        if problem.channel != 1 or not problem.x.contiguous:
            return "for channels first, in C order"
        if {*given} != {problem.dtype}:
            return "for arrays of one dtype"
        return "" if LAYER_NORM.computes(cls.rows(problem)) else "for groups that registers hold"

    def plan(self, problem: ChannelNorm, limits: Properties) -> Plan:
        """That of layer norm."""
        rows, tracked = LAYER_NORM(self.rows(problem)), problem.tracked

        def compute(
            x: Array, weight: Any, bias: Any, mean: None, variance: None, by: None, eps: float, _: float
        ) -> tuple[Array, Array | None]:
            y, found = rows(x, weight, bias, eps)
            return y, found if tracked else None

        return replayed(problem, compute)


class ParameterGradients:
    """The new arrays in which kernels write the gradients of weight and bias, and what is made of them.

    Attributes:
        dtype: in which kernels write them.
        layouts: those of the arrays.
    """

    def __init__(self, problem: ChannelNorm) -> None:
        places, device, acc = problem.places, problem.device, problem.acc
        own, wants = (problem.weight, problem.bias), problem.wanted[1:]
        types, wanted = ({one.dtype for one in some if one} for some in (own, itertools.compress(own, wants)))
        self._own = [one.dtype if one and want else None for one, want in zip(own, wants, strict=True)]
        count, shape = len(self._own) - sum(one is None for one in self._own), (places.channels,)
        self.dtype = acc if places.instances > 1 or len(types) != 1 else next(iter(types))
        self.layouts, self._sum, made = [fresh_layout(device, self.dtype, shape)] * count, None, self.dtype
        if places.instances > 1 and count:  # sums over instances are rounded once
            made = acc if len(wanted) > 1 else next(iter(wanted))
            self._sum = partial(
                ops.sum.evaluate, load(acc, acc), scalars=(), axes=(1,), keepdims=False, result=made
            )
            self.layouts = [fresh_layout(device, acc, (count, places.instances, places.channels))]
        self._casts = any(one is not None and one != made for one in self._own)

    def each(self, made: list[Array]) -> list[Array | None]:
        """Where a kernel writes the gradients of weight and bias for each instance, of arrays of the layouts."""
        found = iter(made if self._sum is None else items(made[0]))
        return [None if one is None else next(found) for one in self._own]

    def whole(self, made: list[Array]) -> list[Array | None]:
        """The gradients, of what kernels wrote."""
        found = self.each(made if self._sum is None else [self._sum(made)])
        if not self._casts:
            return found
        given = zip(found, self._own, strict=True)
        return [one if one is None else ops.astype(one, dtype, copy=False) for one, dtype in given]


@dataclass(frozen=True)
class GradientSeparate(Separate):
    """Sums over parts of channels, the gradients of parameters, and that of x: by constants with the sums."""

    def plan(self, problem: ChannelNorm, limits: Properties) -> Plan:
        """The launches that the wanted gradients need: makes those of x, weight and bias, or None."""
        acc, places, own = problem.acc, problem.places, ParameterGradients(problem)
        applies = problem.activation is not None
        wants_x, sums, derive = problem.wanted[0], None, None
        image, parts = wants_x and problem.constant, None
        if any(problem.wanted[1:]) or not problem.constant:
            sums, parts = self.summing(problem, limits, image)
        types = {"param": cxx(problem.param), "grad": cxx(own.dtype)}
        numbers = parts.shape[1] if parts else 0, places.together, places.channels, problem.share
        join = self.join(
            _GRADIENTS, problem, *numbers, moving=not problem.constant, activation=applies, **types
        )
        if wants_x and not (sums and image):
            derive = self.apply(_DERIVE, problem, limits, param=cxx(problem.x.dtype))
        factors = fresh_layout(problem.device, acc, (places.instances * places.channels, 4 + applies))
        layouts = [factors, *([parts] if parts else []), *[problem.made] * wants_x, *own.layouts]

        def compute(x: Array, dy: Array, weight: Any, bias: Any, statistics: Array) -> list[Array | None]:
            factors, *made = new(layouts)
            between = made.pop(0) if sums else None
            dx = made.pop(0) if wants_x else None
            if sums:
                params = (weight, bias) if applies else (weight,) if image else ()
                sums((x, dy, statistics, *params, *((dx,) if image else ()), between))
            join((between, statistics, weight, *((bias,) if applies else ()), *own.each(made), factors))
            if derive:
                derive((x, dy, factors, dx))
            return [dx, *own.whole(made)]

        return replayed(problem, compute)
