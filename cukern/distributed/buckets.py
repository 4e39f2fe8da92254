"""Gradient buckets: parameters whose gradients are reduced over ranks together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..nn.parameter import Parameter
from ..optim.optimizer import Optimizer
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
