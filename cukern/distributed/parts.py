"""Equal parts of parameters that ranks update, each its own, and gather (ZeRO stage 1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..array import Array
from ..array.deferred import about_to_write
from ..autodiff.tape import stop_recording
from ..nn.parameter import Parameter
from ..optim.optimizer import Optimizer
from .buckets import Bucket
from .collectives import gathered
from .group import Group


class Parts:
    """This rank's part of each bucket's parameters.

    Parameters in C order get their memory in the bucket's, into which the parts of all ranks are gathered.

    Args:
        buckets: in the order in which an optimizer updates the parts.
        parameters: those of which the buckets have the indices.

    Attributes:
        shards: the part of each bucket.
    """

    def __init__(self, buckets: Sequence[Bucket], parameters: Sequence[Array], group: Group) -> None:
        self._buckets, self._parameters, self._group = buckets, parameters, group
        self.shards: list[Parameter] = []
        #: The memory of a bucket's parameters, if it is theirs.
        self._flats: list[Array | None] = []
        with stop_recording():
            for bucket in buckets:
                flat = bucket.packed(parameters, parameters)
                own = bucket.own(flat, group)
                if all(parameters[i].is_contiguous for i in bucket.members):
                    self._lay(bucket, flat)
                    self._flats.append(flat)
                    self.shards.append(Parameter._wrap(own._data, own.device, flat._storage))
                else:
                    self._flats.append(None)
                    self.shards.append(Parameter(own))
        self._versions = self._written()

    def _lay(self, bucket: Bucket, flat: Array) -> None:
        """Let parameters have their memory in the flat memory, which has their values."""
        for i, view in zip(bucket.members, bucket.cut(flat), strict=True):
            self._parameters[i]._replace(view)

    def _written(self) -> list[tuple[Any, int]]:
        """The memory of the parameters, and how often it was written."""
        return [(one._storage, one._storage.version) for one in self._parameters]

    def _take(self) -> None:
        """Take the values that something else has written to parameters."""
        for bucket, part, flat in zip(self._buckets, self.shards, self._flats, strict=True):
            members = [self._parameters[i] for i in bucket.members]
            if flat is None:
                part[...] = bucket.own(bucket.packed(self._parameters, self._parameters), self._group)
            elif any(one._storage is not flat._storage for one in members):  # they have got other memory
                flat[...] = bucket.packed(self._parameters, self._parameters)
                self._lay(bucket, flat)

    def step(self, optimizer: Optimizer, gradients: Sequence[Array | None]) -> None:
        """Update the parts; those of a bucket are gathered while the next ones are updated.

        Args:
            optimizer: of the shards, each in the part of its number, and of others in later parts.
            gradients: in its order.
        """
        begun: dict[int, Callable[[], Array]] = {}

        def gather(number: int) -> None:
            if number < len(self.shards) and number not in begun:
                with stop_recording():
                    part, flat = self.shards[number], self._flats[number]
                    begun[number] = gathered(part, self._group, aside=True, out=flat)

        with stop_recording():
            if self._versions != self._written():
                self._take()
        about_to_write(*self._flats)
        optimizer._step(gradients, gather)
        for number, (bucket, flat) in enumerate(zip(self._buckets, self._flats, strict=True)):
            gather(number)  # where no launch has updated it
            whole = begun[number]()
            if flat is None:
                bucket.unpack(whole, self._parameters)
            else:
                flat._bump("DataParallel.step")
        self._versions = self._written()
