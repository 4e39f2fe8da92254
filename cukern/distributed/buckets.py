"""Gradient buckets: parameters whose gradients are reduced over ranks together."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from ..array import Array
from ..array.creation import empty_like
from ..array.deferred import Deferred
from ..array.layout import fresh_layout
from ..autodiff.tape import stop_recording
from ..nn.parameter import Parameter
from ..optim.optimizer import Optimizer
from .collectives import gathered, scattered
from .group import Group
from .sharded import ALIGNED, Shard


@dataclass(eq=False)
class Bucket:
    """Parameters that are reduced together, one after another in flat memory.

    Attributes:
        members: the indices of the parameters, in the order in which their gradients are expected.
        offsets: the offset of each, in elements.
        size: elements in all, with the gaps between them.
        group: the index of their group in the optimizer.
    """

    members: tuple[int, ...]
    offsets: tuple[int, ...]
    size: int
    group: int

    def gaps(self, sizes: Sequence[int]) -> list[tuple[int, int]]:
        """The begin and end of each gap between and behind members of these sizes."""
        ends = (*self.offsets[1:], self.size)
        filled = [offset + size for offset, size in zip(self.offsets, sizes, strict=True)]
        return [(begin, end) for begin, end in zip(filled, ends, strict=True) if begin < end]

    def own(self, flat: Array, group: Group) -> Array:
        """A rank's equal part of the bucket's flat memory."""
        share = self.size // group.size
        return flat[group.rank * share : (group.rank + 1) * share]

    def cut(self, flat: Array, shapes: Sequence[tuple[int, ...]]) -> list[Array]:
        """The members' parts of flat memory, as views in their shapes."""
        return [
            flat[offset : offset + math.prod(shape)].reshape(shape)
            for offset, shape in zip(self.offsets, shapes, strict=True)
        ]


class Mean:
    """The mean over ranks of a bucket, which travels beside launches: first each rank's part of it, then all.

    Args:
        flat: this rank's values.
        note: describes them in errors.
        reuse: whether the mean may take their memory.
        parts: whether each rank needs its part alone.
    """

    def __init__(
        self, bucket: Bucket, flat: Array, group: Group, note: str, reuse: bool, parts: bool
    ) -> None:
        self._group, self._note, self._part, self._whole = group, note, flat, flat
        self._reducing: Callable[[], Array] | None = None
        self._gathering: Callable[[], Array] | None = None
        if group.size > 1:
            self._whole = flat if reuse or parts else empty_like(flat)
            own = None if parts else bucket.own(self._whole, group)
            self._reducing = scattered(flat, "mean", group, note, aside=True, out=own)

    def part(self) -> Array:
        """Wait for this rank's part."""
        if self._reducing is not None:
            self._part, self._reducing = self._reducing(), None
        return self._part

    def gather(self) -> None:
        """Begin to gather the parts, once this rank's is there."""
        if self._group.size > 1:
            self._gathering = gathered(self.part(), self._group, self._note, aside=True, out=self._whole)

    def whole(self) -> Array:
        """Wait for all that was gathered."""
        if self._gathering is not None:
            self._whole, self._gathering = self._gathering(), None
        return self._whole

    def wait(self) -> None:
        """Wait for what is on its way."""
        self.part()
        self.whole()


def promised(
    bucket: Bucket, shapes: Sequence[tuple[int, ...]], like: Array, flat: Callable[[], Array]
) -> list[Array]:
    """The members' parts of flat memory of the dtype of ``like``, on a GPU got by ``flat`` when one is first read."""

    @cache
    def parts() -> list[Array]:
        with stop_recording():
            return bucket.cut(flat(), shapes)

    if like.device.addressable:
        return parts()
    layouts = [fresh_layout(like.device, like.dtype, shape) for shape in shapes]
    return [Deferred.of(layout, lambda k=k: parts()[k]) for k, layout in enumerate(layouts)]  # type: ignore[misc]


def planned(optimizer: Optimizer, ranks: int, most: int) -> list[Bucket]:
    """The buckets of an optimizer's parameters: the last ones first, whose gradients are finished first.

    Shards, and parameters that are not trained or have no elements, are in none.

    Args:
        optimizer: has the parameters; those of different groups, dtypes or devices are in different buckets.
        ranks: the number of ranks, by which the size of each bucket is divisible.
        most: the bytes at which a bucket is complete.
    """
    parameters = optimizer.parameters
    group_of = {i: number for number, one in enumerate(optimizer.groups) for i in one.members}
    open_: dict[Any, list[int]] = {}
    buckets: list[Bucket] = []

    def close(kind: Any) -> None:
        members = open_.pop(kind)
        buckets.append(_bucket(members, [parameters[i].size for i in members], kind[0], ranks))

    for i in reversed(range(len(parameters))):
        one = parameters[i]
        if isinstance(one, Shard) or (isinstance(one, Parameter) and not one.trainable) or not one.size:
            continue
        kind = (group_of[i], one.dtype, one.device)
        if one.nbytes >= most and kind in open_:  # a bucket of its own, which need not be gathered
            close(kind)
        members = open_.setdefault(kind, [])
        members.append(i)
        if sum(parameters[j].nbytes for j in members) >= most:
            close(kind)
    for kind in list(open_):
        close(kind)
    return buckets


def _bucket(members: Sequence[int], sizes: Sequence[int], group: int, ranks: int) -> Bucket:
    offsets, end = [], 0
    for size in sizes:
        offsets.append(end)
        end += -(-size // ALIGNED) * ALIGNED
    whole = ALIGNED * ranks
    return Bucket(tuple(members), tuple(offsets), -(-end // whole) * whole, group)
