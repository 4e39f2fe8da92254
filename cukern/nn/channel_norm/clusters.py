"""Variants of one launch, where a cluster of blocks, or the grid, has whole groups of channels."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

from ...array import Array
from ...array.layout import Layout, fresh_layout
from ...device.interface import Properties
from ...kernel import Kernel
from ...kernel.plan import new
from ...kernel.sizes import ACCESS, divide_up, power_of_two
from ...launch import cost
from ...launch.variant import Launch, Plan, prepared
from .problem import ChannelNorm, Places
from .sharing import Share, sizes_of, width_of
from .variants import GradientSeparate, OfChannels, ParameterGradients, Separate, activated, cxx, replayed

#: The most channels that a block takes one after another, and threads that have neighbouring packs of channels.
_MEMBERS, _ACROSS = 32, 32
#: Packs of an array that a thread keeps, unless clusters have too few blocks; bytes of a block's other shared memory.
_KEPT, _OTHER = 25, 8 << 10
#: The part of the multiprocessors that gets a block at least; rounds of clusters from which on units take turns; rounds
#: of one block a multiprocessor from which on keeping pays, unless all run at once; the most blocks of a cluster for
#: which there is a place everywhere; and the most blocks of a multiprocessor that, of one array, ask for what is next.
_BUSY, _TURNS, _PAYS, _PLACED, _ASKING = 0.9, 1.2, 2.5, 2, 2
#: Threads of a block, packs of each array that one has on their way, and elements of a pack of innermost channels.
_BLOCK, _UNROLL, _WIDTH = 256, 4, 4
#: Bytes of what a cluster has of one array: the fewest if blocks share it, the most, and the most of a block alone.
_LEAST, _MOST, _ALONE = 96 << 10, 1 << 20, 64 << 10
#: Of kept rows: bytes of one that a block has, bytes of arrays that are too few, the most blocks that are a cluster,
#: the most units that take turns on all blocks, as many of one array of float32, and bytes of a block's other shared
#: memory besides sums.
_SECTION, _FEW, _SMALL, _ALONE_TURNS, _ALONE_FLOATS, _RESERVED = 128, 3 << 20, 2, 2, 8, 1 << 10
#: Bytes of a channel, of which a result needs more than four blocks; of which a derivative does; and more threads.
_FEW_RESULTS, _FEW_DERIVATIVES, _FEW_THREADS = 512 << 10, 128 << 10, 320 << 10


class Sizes(NamedTuple):
    """What the form of clusters depends on besides places.

    Attributes:
        item: bytes of an element of the widest of all arrays.
        items: bytes of an element of each array that is read, together.
        acc: bytes of a sum, of which arrays besides these may decide, as running statistics do.
    """

    item: int
    items: int
    acc: int


@dataclass(frozen=True)
class Form:
    """How clusters share an array.

    Attributes:
        share: how the threads of a block do.
        cluster: blocks of a cluster.
        members: channels that a block takes one after another.
        kept: packs of each array that a thread keeps of a channel; 0 if it reads them again.
        turns: units of channels that a cluster takes one after another.
        wide: whether what is said of clusters holds for all blocks of a grid that have the same channels.
        asked: of those kept of the next unit, packs that are sent for while blocks wait for each other.
    """

    share: Share
    cluster: int
    members: int
    kept: int = 0
    turns: int = 1
    wide: bool = False
    asked: int = 0

    @property
    def here(self) -> int:
        """Channels of a block."""
        return self.share.across * self.share.width if self.share.last else self.members

    def each(self, places: Places) -> int:
        """Elements of a channel that a block has."""
        return self.share.whole(divide_up(places.sequence, self.cluster))

    def keeping(self, places: Places) -> Self:
        """The form that keeps what it reads."""
        return replace(self, kept=divide_up(self.each(places), self.share.step))

    def asking(self, whole: bool = False) -> Self:
        """The form that asks for what it keeps next, or half of it, while blocks wait for each other."""
        return replace(self, asked=self.kept if whole else self.kept // 2)

    def memory(self, items: int) -> int:
        """Bytes of dynamic shared memory, of elements of so many bytes in all arrays together."""
        return self.members * self.kept * self.share.block * self.share.width * items

    def sums(self, acc: int) -> int:
        """Bytes of other shared memory, for sums of so many bytes: two a warp of each channel, and a few numbers."""
        return (2 * self.share.block // 32 + 12) * self.here * acc

    def fitting(self, limits: Properties, of: Sizes) -> Self | None:
        """With as many blocks of a multiprocessor as its shared memory lets; None if it has too little."""
        other = max(_OTHER // self.share.resident, self.sums(of.acc))
        blocks = limits.max_shared_memory_per_block // (self.memory(of.items) + other)
        resident = min(self.share.resident, blocks)
        return replace(self, share=self.share._replace(resident=resident)) if blocks else None

    @classmethod
    def plain(cls, places: Places, item: int) -> Self | None:
        """The form of a block alone that reads its channels again; None if it does not have whole groups."""
        if not places.last:
            width = width_of(places.inner, ACCESS // item)
            own = cls(Share(_BLOCK, 1, width, _UNROLL, False, 4), 1, places.together)
            return own if places.together <= _MEMBERS else None
        width, across = width_of(places.channels, min(_WIDTH, ACCESS // item)), 1
        while across <= _ACROSS and across * width % places.together:
            across *= 2
        return cls(Share(_BLOCK, across, width, _UNROLL, True, 4), 1, 1) if across <= _ACROSS else None

    @classmethod
    def kept_channels(cls, places: Places, limits: Properties, of: Sizes) -> Self | None:
        """How clusters keep the channels of a batch, not innermost; None where that is slow or does not fit."""
        processors, most = limits.multiprocessors, min(8, limits.max_blocks_per_cluster)
        width, cluster = width_of(places.inner, ACCESS // of.item), 1
        shares = (Share(n, 1, width, _UNROLL, False, 4 * _BLOCK // n) for n in (_BLOCK, 2 * _BLOCK))
        small, large = (cls(share, 1, 1) for share in shares)

        def keeping(form: Self) -> Self:
            return replace(form, cluster=cluster).keeping(places)

        def is_busy(parts: int) -> bool:
            return places.channels * cluster >= _BUSY * parts * processors

        while cluster < most and not (keeping(small).kept <= _KEPT and is_busy(1)):
            cluster *= 2
        wide = keeping(small).kept > _KEPT
        if not wide and cluster > 1 and is_busy(2) and places.channels * cluster <= 2 * processors:
            cluster, wide = cluster // 2, True  # a block of more threads on each multiprocessor
        if _PLACED < cluster < most and places.channels * cluster > 2 * processors:
            cluster = most  # of small blocks, for which there is a place on more multiprocessors
        form = keeping(large if wide else small).fitting(limits, of)
        if form is None or not is_busy(1):
            return None
        rounds = places.channels * cluster / (processors * form.share.resident)
        if form.share.resident == 1 < rounds < _PAYS:
            return None
        if rounds < _TURNS:
            return form
        form = replace(form, turns=max(2, math.ceil(rounds)) if cluster <= _PLACED else 2)
        return form.asking() if of.items > of.item or form.share.resident <= _ASKING else form

    @classmethod
    def kept_rows(cls, places: Places, limits: Properties, of: Sizes) -> Self | None:
        """How blocks that all run at once keep channels that lie innermost; None where that is slow or does not fit."""
        width, blocks = width_of(places.channels, ACCESS // of.item), limits.multiprocessors
        packs = places.channels // width
        across = min(packs, _SECTION // (width * of.item))
        bytes_read = places.instances * places.outer * places.channels * of.items
        if bytes_read < _FEW or across & (across - 1) or packs % across or across * width % places.together:
            return None
        units = places.instances * packs // across
        for beside in range(min(units, blocks), 0, -1):
            turns, alone = units // beside, beside == 1 and units > _ALONE_TURNS
            if units % beside or (alone and (of.items > 4 or of.item < 4 or turns > _ALONE_FLOATS)):
                continue
            share = Share(2 * _BLOCK if alone else _BLOCK, across, width, _UNROLL, True)
            cluster, wide = blocks // beside, True
            if cluster <= min(_SMALL, limits.max_blocks_per_cluster):
                cluster, wide = power_of_two(cluster + 1) // 2, False
            form = cls(share, cluster, 1, turns=turns, wide=wide).keeping(places)
            if turns > 1:
                form = form.asking(whole=alone)
            if form.memory(of.items) + form.sums(of.acc) + _RESERVED <= limits.max_shared_memory_per_block:
                return form
        return None

    @classmethod
    def again(cls, places: Places, limits: Properties, item: int, derivative: bool) -> Self | None:
        """How clusters share the channels of a batch, not innermost, and read them again; None where that is slow."""
        bytes_of_channel = places.sequence * item
        if limits.max_blocks_per_cluster < 8 or not _LEAST <= bytes_of_channel <= _MOST:
            return None
        cluster = 8 if bytes_of_channel > (_FEW_DERIVATIVES if derivative else _FEW_RESULTS) else 4
        if places.channels * cluster < limits.multiprocessors:
            return None
        block = 2 * _BLOCK if derivative and bytes_of_channel > _FEW_THREADS else _BLOCK
        width = width_of(places.inner, ACCESS // item)
        return cls(Share(block, 1, width, _UNROLL, False, 4 * _BLOCK // block), cluster, 1)

    @classmethod
    def of_instances(cls, places: Places, limits: Properties, of: Sizes, derivative: bool) -> Self | None:
        """How clusters share groups of channels of instances, and read them again; None where that is slow."""
        units = places.instances if places.last else places.groups
        bytes_of_unit = places.sequence * places.channels * places.instances // units * of.item
        if places.last:
            width = width_of(places.channels, min(_WIDTH, ACCESS // of.item))
            across = places.channels // width
            few = 8 * units < limits.multiprocessors or not _LEAST <= bytes_of_unit <= _MOST
            if few or across > _ACROSS or across & (across - 1) or limits.max_blocks_per_cluster < 8:
                return None
            return cls(Share(_BLOCK, across, width, _UNROLL, True, 4), 8, 1)
        small = bytes_of_unit <= _ALONE and places.together <= _MEMBERS
        if not derivative or not small or units < 4 * limits.multiprocessors:
            return None
        width = width_of(places.inner, ACCESS // of.item)
        packs = divide_up(places.sequence, width)
        # That of which the fewest threads have nothing in the last round.
        block = min(
            range(_BLOCK // 2, _BLOCK + 1, 32), key=lambda threads: divide_up(packs, threads) * threads
        )
        form = cls(Share(block, 1, width, _UNROLL, False, 4), 1, places.together)
        return form.keeping(places).fitting(limits, of) or form


@dataclass(frozen=True)
class _Clusters(Form, OfChannels):
    """What both variants share."""

    needs = (5, 0)
    efficiency = 0.7

    #: What computes the same where the blocks of a grid do not meet.
    otherwise: ClassVar[type[Separate]]
    #: Numbers that a block leaves of a channel where those of a grid join theirs.
    numbers: ClassVar[int]

    @classmethod
    def fits(cls, problem: ChannelNorm, limits: Properties) -> str:
        """For packs of whole groups."""
        if problem.constant or not problem.aligned:
            return (
                "for statistics that are found"
                if problem.constant
                else f"for arrays at multiples of {ACCESS} bytes"
            )
        alone = cls.plain(problem.places, problem.widest)
        return "" if alone or cls.best(problem, limits) else "for groups that a block has whole"

    @classmethod
    def configs(cls, problem: ChannelNorm, limits: Properties) -> Iterator[Self]:
        """The form that pays, or else the one of a block alone."""
        form = cls.best(problem, limits) or cls.plain(problem.places, problem.widest)
        assert form is not None
        yield form

    @classmethod
    def best(cls, problem: ChannelNorm, limits: Properties) -> Self | None:
        """The form that pays; None where launches for sums and results do better."""
        places, of, derivative = problem.places, cls.sizes(problem), problem.dy is not None
        if places.instances > 1 or places.together > 1:
            kept = cls.kept_rows(places, limits, of) if places.last else None
            return kept or cls.of_instances(places, limits, of, derivative)
        if places.last:
            return cls.kept_rows(places, limits, of)
        kept = cls.kept_channels(places, limits, of)
        return kept or cls.again(places, limits, of.item, derivative)

    @staticmethod
    def sizes(problem: ChannelNorm) -> Sizes:
        """Those of a problem."""
        return Sizes(problem.widest, sum(one.dtype.itemsize for one in problem.read), problem.acc.itemsize)

    def cost(self, problem: ChannelNorm, limits: Properties) -> float:
        """See :class:`OfChannels`; more than that of other launches where these were measured to do better."""
        pays = self == self.best(problem, limits)
        return super().cost(problem, limits) * (1 if pays else 10)

    def constants(self) -> dict[str, Any]:
        """Those of the form."""
        own = {**super().constants(), **self.share._asdict()}
        return {key: value for key, value in own.items() if key not in ("share", "block", "turns")}

    def launched(self, problem: ChannelNorm, **constants: Any) -> Launch:
        """The launch of a template."""
        places = problem.places
        blocks = divide_up(places.channels, self.here)
        sizes, index = sizes_of(places, self.share.step, self.each(places), blocks)
        units = places.instances * blocks
        own = {
            "elem": problem.x.dtype,
            "acc": problem.acc,
            "index": index,
            "whole": places.channels % self.here == 0,
            # On the host the blocks that wait for each other are a cluster.
            "dims": self.cluster if not self.wide or cost.is_host(problem.device.properties) else 1,
            "streaming": True,
            "backwards": False,
            **activated(problem),
        }
        return Launch(
            grid=(divide_up(units, self.turns), self.cluster, 1),
            block=self.share.block,
            shared=self.memory(self.sizes(problem).items),
            constants={**own, **constants},
            params=(sizes, units),
        )

    def partials(self, problem: ChannelNorm) -> list[Layout]:
        """Where the blocks of a wide form leave some numbers of each channel of each unit."""
        units = problem.places.instances * divide_up(problem.places.channels, self.here)
        shape = units, self.cluster, self.here, self.numbers
        return [fresh_layout(problem.device, problem.acc, shape)] if self.wide else []

    def plan(self, problem: ChannelNorm, limits: Properties) -> Plan:
        """The launch; for a recorded GPU's grid, whose blocks do not meet, it is compiled, and others compute."""
        made = self.run(problem)
        if not self.wide or problem.device.backend.grids_meet:
            return replayed(problem, made)
        (other,) = self.otherwise.configs(problem, limits)
        return other.plan(problem, limits)

    def run(self, problem: ChannelNorm) -> Plan:
        """What computes a problem with arrays that kernels take."""
        raise NotImplementedError


@dataclass(frozen=True)
class Clusters(_Clusters):
    """Statistics and result in one launch: clusters of blocks, or all blocks of a grid, join the sums of channels."""

    name = "clusters"
    kernel = Kernel("nn/channel_norm/cluster_apply.cu", name="channel_norm")
    otherwise = Separate
    numbers = 3

    def run(self, problem: ChannelNorm) -> Plan:
        """The launch."""
        types = {"out": cxx(problem.dtype), "param": cxx(problem.param), "running": cxx(problem.moments)}
        run = prepared(self, self.launched(problem, derivative=False, **types), problem.device)
        layouts = problem.made, problem.statistics, *self.partials(problem)
        tracked = problem.tracked

        def compute(
            x: Array, weight: Any, bias: Any, mean: Any, variance: Any, by: Any, eps: float, momentum: float
        ) -> tuple[Array, Array | None]:
            y, found, *partials = new(layouts)
            run((x, weight, bias, found, mean, variance, by, y, *partials, eps, momentum))
            return y, found if tracked else None

        return compute


@dataclass(frozen=True)
class ClustersGradient(_Clusters):
    """The gradients in one launch, as by :class:`Clusters`."""

    name = "clusters"
    kernel = Kernel("nn/channel_norm/cluster_gradients.cu", name="channel_norm_gradients")
    otherwise = GradientSeparate
    numbers = 2

    def run(self, problem: ChannelNorm) -> Plan:
        """The launch: makes the gradients of x, weight and bias, or None."""
        own, applies = ParameterGradients(problem), problem.activation is not None
        types = {"param": cxx(problem.param), "out": cxx(problem.read[-1].dtype)}
        grad = cxx(own.dtype if any(problem.wanted[1:]) else problem.acc)
        made = self.launched(problem, derivative=True, grad=grad, **types)
        made = replace(made, params=(*made.params, problem.share))
        run = prepared(self, made, problem.device)
        partials, wants_x = self.partials(problem), problem.wanted[0]
        layouts = [*partials, *[problem.made] * wants_x, *own.layouts]

        def compute(x: Array, dy: Array, weight: Any, bias: Any, statistics: Array) -> list[Array | None]:
            made = new(layouts)
            between = made[: len(partials)]
            dx = made[len(partials)] if wants_x else None
            made = made[len(partials) + wants_x :]
            run((x, dy, statistics, weight, *((bias,) if applies else ()), *own.each(made), dx, *between))
            return [dx, *own.whole(made)]

        return compute
