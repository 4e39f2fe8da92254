"""Gradient buckets: parameters whose gradients are reduced over ranks together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from ..array import Array
from ..array.creation import empty_like
from ..array.deferred import Deferred
from ..array.layout import fresh_layout
from ..autodiff.tape import stop_recording
from ..nn.parameter import Parameter
from ..optim.optimizer import Optimizer
from ..shape.copy import contiguous
from .collectives import gathered, scattered
from .flat import Flat
from .group import Group
from .sharded import Shard


class Bucket(Flat):
    """Parameters that are reduced together, one after another in flat memory.

    Args:
        members: the indices of the parameters, in the order in which their gradients are expected.
        shapes, ranks: as :class:`.flat.Flat` takes them.
        group: the index of their group in the optimizer.
    """

    def __init__(
        self, members: Sequence[int], shapes: Sequence[tuple[int, ...]], ranks: int, group: int
    ) -> None:
        super().__init__(shapes, ranks)
        self.members, self.group = tuple(members), group

    def packed(self, arrays: Sequence[Array | None], parameters: Sequence[Array], dtype: Any = None) -> Array:
        """The members' arrays in flat memory, in their parameters' dtype or another."""
        like = parameters[self.members[0]]
        return self.pack(
            [arrays[i] for i in self.members], like.dtype if dtype is None else dtype, like.device
        )

    def unpack(self, flat: Array, parameters: Sequence[Array]) -> None:
        """Set the members to their values in flat memory."""
        members = [parameters[i] for i in self.members]
        with stop_recording():
            values = self.cut(flat)
            for k, one in enumerate(members):
                if not one.is_contiguous:  # its memory is in another order
                    values[k] = contiguous(values[k], one._planned().order)
            self.copy(values, members)
            for one in members:
                one._bump("DataParallel.step")


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
        self._group, self._note, self._parts = group, note, parts
        self._part = self._whole = flat
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
            self._whole = self._part if self._parts else self._whole
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


def promised(bucket: Bucket, like: Array, flat: Callable[[], Array]) -> list[Array]:
    """The members' parts of flat memory of the dtype of ``like``, on a GPU got by ``flat`` when one is first read."""

    @cache
    def parts() -> list[Array]:
        with stop_recording():
            return bucket.cut(flat())

    if like.device.addressable:
        return parts()
    layouts = [fresh_layout(like.device, like.dtype, shape) for shape in bucket.shapes]
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
        buckets.append(Bucket(members, [parameters[i].shape for i in members], ranks, kind[0]))

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
