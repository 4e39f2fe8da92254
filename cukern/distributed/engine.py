"""The interface of MPI and NCCL to groups: non-blocking collectives on contiguous memory."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Protocol

from ..dtypes import DType

#: The reductions that both libraries have; complex numbers have the sum alone.
REDUCTIONS = ("sum", "prod", "max", "min")


class Work(Protocol):
    """A collective that has begun."""

    def wait(self) -> None:
        """Return when the results can be read: by Python on the host, by later launches on a GPU.

        Raises:
            DistributedError: a rank is gone, or the time limit has passed.
        """


class Engine(Protocol):
    """The collectives of one group on one kind of device.

    All arguments are C-ordered ndarrays of the device; they must live and stay as they are until the work is waited
    for. ``about`` describes the call in errors. ``aside``: launches go on beside the collective until it is waited for.
    """

    def carrier(self, dtype: DType) -> DType:
        """The dtype in which elements of ``dtype`` are reduced."""

    def averages(self, dtype: DType) -> bool:
        """Whether elements of ``dtype`` have the reduction ``"mean"``, as precise as a sum that is divided."""

    def together(self, about: str, aside: bool = False) -> AbstractContextManager[None]:
        """A with-block whose collectives, none of which is waited for in it, may begin together at its end."""

    def all_reduce(self, data: Any, out: Any, op: str, about: str, aside: bool = False) -> Work:
        """Reduce ``data`` over the ranks; ``out`` may be ``data``."""

    def reduce_scatter(self, data: Any, out: Any, op: str, about: str, aside: bool = False) -> Work:
        """Reduce ``data`` over the ranks, and give each an equal part of the result."""

    def all_gather(self, data: Any, out: Any, about: str, aside: bool = False) -> Work:
        """Put the ``data`` of all ranks into ``out``, one after another."""

    def broadcast(self, data: Any, root: int, about: str) -> Work:
        """Fill ``data`` with that of ``root``."""

    def all_to_all(self, data: Any, out: Any, about: str) -> Work:
        """Send each rank its equal part of ``data``; the parts received lie in ``out`` in the ranks' order."""

    def send(self, data: Any, to: int, about: str) -> Work:
        """Send ``data`` to a rank."""

    def receive(self, data: Any, source: int, about: str) -> Work:
        """Fill ``data`` with what a rank sends."""

    def close(self, well: bool) -> None:
        """Give everything back; ``well``: whether all other ranks do so too."""
