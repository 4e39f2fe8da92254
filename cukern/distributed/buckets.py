"""Gradient buckets: parameters whose gradients are reduced over ranks together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..array import Array
from ..autodiff.tape import stop_recording
from ..nn.parameter import Parameter
from ..optim.optimizer import Optimizer
from ..shape.copy import contiguous
from .flat import Flat
from .sharded import Shard

#: The bytes of a parameter from which on it is a bucket of its own, which need not be copied.
_APART = 32 << 20


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


def planned(optimizer: Optimizer, ranks: int, most: int, order: Sequence[int] | None = None) -> list[Bucket]:
    """The buckets of an optimizer's parameters.

    Shards, and parameters that are not trained or have no elements, are in none.

    Args:
        optimizer: has the parameters; those of different dtypes or devices are in different buckets.
        ranks: the number of ranks, by which the size of each bucket is divisible.
        most: the bytes at which a bucket is complete; with a quarter it is, if a parameter comes that has its own.
        order: that in which gradients are finished, of which buckets have stretches. When None it is taken to be the
            reverse of the optimizer's order, and parameters of different groups are in different buckets.
    """
    parameters = optimizer.parameters
    group_of = {i: number for number, one in enumerate(optimizer.groups) for i in one.members}
    open_: dict[Any, list[int]] = {}
    buckets: list[Bucket] = []

    def close(kind: Any, members: Sequence[int]) -> None:
        buckets.append(Bucket(members, [parameters[i].shape for i in members], ranks, kind[0]))

    def nbytes(members: Sequence[int]) -> int:
        return sum(parameters[i].nbytes for i in members)

    for i in reversed(range(len(parameters))) if order is None else order:
        one = parameters[i]
        if isinstance(one, Shard) or (isinstance(one, Parameter) and not one.trainable) or not one.size:
            continue
        kind = (0 if order else group_of[i], one.dtype, one.device)
        apart = one.nbytes >= min(most, _APART)
        members = open_.setdefault(kind, [])
        if not apart:
            members.append(i)
        if nbytes(members) >= (min(most // 4, _APART) if apart else most):
            close(kind, open_.pop(kind))
        if apart:
            close(kind, [i])
    for kind, members in open_.items():
        if members:
            close(kind, members)
    return buckets
