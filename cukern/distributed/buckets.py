"""Gradient buckets: parameters whose gradients are reduced over ranks together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..array import Array
from ..array.deferred import about_to_write
from ..autodiff.tape import stop_recording
from ..nn.parameter import Parameter
from ..optim.optimizer import Optimizer
from ..shape.copy import contiguous
from .flat import Flat
from .sharded import Shard

#: The bytes of a parameter from which on it is a bucket of its own, which need not be copied.
_APART = 32 << 20
#: What divides the size at which the last bucket, and the one before it, is complete.
_SMALLER = {0: 8, 1: 2}


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
        about_to_write(*members)
        with stop_recording():
            values = self.cut(flat)
            for k, one in enumerate(members):
                if not one.is_contiguous:  # its memory is in another order
                    values[k] = contiguous(values[k], one._planned().order)
            self.copy(values, members)
            for one in members:
                one._bump("DataParallel.step")


def planned(optimizer: Optimizer, ranks: int, most: int, order: Sequence[int] | None = None) -> list[Bucket]:
    """The buckets of an optimizer's parameters.

    Shards, and parameters that are not trained or have no elements, are in none. The last buckets are small, as nothing
    is computed while they are reduced.

    Args:
        optimizer: has the parameters; those of different dtypes or devices are in different buckets.
        ranks: the number of ranks, by which the size of each bucket is divisible.
        most: the bytes at which a bucket is complete, counted from the end: an eighth for the last, a half for the one
            before it. Beside a parameter that has a bucket of its own, a sixteenth is enough.
        order: that in which gradients are finished, of which buckets have stretches. When None it is taken to be the
            reverse of the optimizer's order, and parameters of different groups are in different buckets.
    """
    parameters = optimizer.parameters
    group_of = {i: number for number, one in enumerate(optimizer.groups) for i in one.members}
    open_: dict[Any, list[int]] = {}
    closed: dict[Any, list[list[int]]] = {}
    made: list[tuple[Any, list[int]]] = []

    def close(kind: Any, members: list[int]) -> None:
        made.append((kind, members))
        closed.setdefault(kind, []).append(members)

    def nbytes(members: Sequence[int]) -> int:
        return sum(parameters[i].nbytes for i in members)

    for i in range(len(parameters)) if order is None else reversed(order):
        one = parameters[i]
        if isinstance(one, Shard) or (isinstance(one, Parameter) and not one.trainable) or not one.size:
            continue
        kind = (0 if order else group_of[i], one.dtype, one.device)
        members = open_.setdefault(kind, [])
        if one.nbytes >= min(most, _APART):
            if nbytes(members) >= most // 16:
                close(kind, open_.pop(kind))
            made.append((kind, [i]))
            continue
        members.append(i)
        if nbytes(members) >= most // _SMALLER.get(len(closed.get(kind, ())), 1):
            close(kind, open_.pop(kind))
    for kind, members in open_.items():
        if members and kind in closed and nbytes(members) < most // 16:
            closed[kind][-1].extend(members)
        elif members:
            made.append((kind, members))
    return [
        Bucket(members[::-1], [parameters[i].shape for i in members[::-1]], ranks, kind[0])
        for kind, members in reversed(made)
    ]
