"""Collectives of the host's arrays by MPI, through mpi4py.

Every call is non-blocking, and polled until it has finished or the time limit has passed: MPI waits for ever for a rank
that has died. Memory is sent as bytes, or as numbers that MPI adds; nothing is pickled.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np

from .. import dtypes
from ..errors import DistributedError
from .environment import RankInfo, is_loopback
from .member import Member

#: Seconds between two tests of a request, at most.
_LONGEST_PAUSE = 1e-3
#: The prefix of the files of shared memory of MPICH's ranks of one machine.
_SHARED = "/dev/shm/mpich_shm_"
#: Work that was given up, kept alive because MPI may still write its memory.
_abandoned: list[Work] = []


def library(info: RankInfo) -> Any:
    """mpi4py's module ``MPI``, ready for use.

    Raises:
        DistributedError: mpi4py or an MPI is missing, or MPI did not start this process as ``info`` says.
    """
    # Ranks of one machine share memory; without this, UCX listens on every network interface.
    if is_loopback(info.address):
        os.environ.setdefault("UCX_TLS", "self,sm")
    try:
        import mpi4py

        mpi4py.rc.initialize = mpi4py.rc.finalize = False
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise DistributedError(
            f"rank {info.rank}: arrays of the host pass between ranks by MPI, which is not here ({error}): "
            "pip install cukern[mpi]"
        ) from None
    if not MPI.Is_initialized():
        MPI.Init_thread()
    world = MPI.COMM_WORLD
    if (world.Get_rank(), world.Get_size()) != (info.rank, info.size):
        raise DistributedError(
            f"rank {info.rank}: the environment says rank {info.rank} of {info.size}, MPI says rank "
            f"{world.Get_rank()} of {world.Get_size()}; start host ranks by python -m cukern launch or mpiexec"
        )
    return MPI


class Work:
    """A request of MPI."""

    def __init__(self, request: Any, held: Sequence[Any], member: Member, timeout: float, about: str) -> None:
        self._request, self._held, self._member = request, held, member
        self._timeout, self._about = timeout, about

    def wait(self) -> None:
        """Return when the results can be read."""
        end, pause = time.monotonic() + self._timeout, 0.0
        while not self._request.Test():
            why = self._member.failure
            if not why and time.monotonic() > end:
                why = f"not finished within {self._timeout:g} s"
                self._member.fail(f"{self._about}: {why}")
            if why:
                _abandoned.append(self)
                raise self._member.error(self._about, why)
            time.sleep(pause)
            pause = min(pause + 2e-5, _LONGEST_PAUSE)
        self._held = ()


class Engine:
    """The collectives of one group.

    Args:
        mpi: mpi4py's module.
        ranks: the group's ranks among all.
        tag: distinguishes groups that are created at the same time.
    """

    def __init__(self, mpi: Any, ranks: Sequence[int], tag: int, member: Member, timeout: float) -> None:
        self._mpi, self._member, self._timeout = mpi, member, timeout
        self._own = len(ranks) < mpi.COMM_WORLD.Get_size()
        world = mpi.COMM_WORLD
        self._communicator = world.Create_group(world.group.Incl(list(ranks)), tag) if self._own else world
        self._operations = {"sum": mpi.SUM, "prod": mpi.PROD, "max": mpi.MAX, "min": mpi.MIN}

    def carrier(self, dtype: dtypes.DType) -> dtypes.DType:
        """The dtype in which elements are reduced: MPI knows no half types."""
        return dtypes.float32 if dtypes.info(dtype).narrow else dtype

    def _bytes(self, data: Any) -> list[Any]:
        return [data.reshape(-1).view(np.uint8), self._mpi.BYTE]

    def _work(self, request: Any, about: str, *held: Any) -> Work:
        return Work(request, held, self._member, self._timeout, about)

    def averages(self, dtype: dtypes.DType) -> bool:
        """Whether ``"mean"`` is a reduction: MPI has none."""
        return False

    def together(self, about: str, aside: bool = False) -> AbstractContextManager[None]:
        """Nothing, as collectives begin when they are called."""
        return contextlib.nullcontext()

    def all_reduce(self, data: Any, out: Any, op: str, about: str, aside: bool = False) -> Work:
        """Reduce ``data`` over the ranks."""
        source = self._mpi.IN_PLACE if data is out else data
        request = self._communicator.Iallreduce(source, out, self._operations[op])
        return self._work(request, about, data, out)

    def reduce_scatter(self, data: Any, out: Any, op: str, about: str, aside: bool = False) -> Work:
        """Reduce ``data`` over the ranks, and give each an equal part of the result."""
        request = self._communicator.Ireduce_scatter_block(data, out, self._operations[op])
        return self._work(request, about, data, out)

    def all_gather(self, data: Any, out: Any, about: str, aside: bool = False) -> Work:
        """Put the ``data`` of all ranks into ``out``, one after another."""
        request = self._communicator.Iallgather(self._bytes(data), self._bytes(out))
        return self._work(request, about, data, out)

    def broadcast(self, data: Any, root: int, about: str) -> Work:
        """Fill ``data`` with that of ``root``."""
        return self._work(self._communicator.Ibcast(self._bytes(data), root), about, data)

    def all_to_all(self, data: Any, out: Any, about: str) -> Work:
        """Send each rank its equal part of ``data``."""
        request = self._communicator.Ialltoall(self._bytes(data), self._bytes(out))
        return self._work(request, about, data, out)

    def send(self, data: Any, to: int, about: str) -> Work:
        """Send ``data`` to a rank."""
        return self._work(self._communicator.Isend(self._bytes(data), to), about, data)

    def receive(self, data: Any, source: int, about: str) -> Work:
        """Fill ``data`` with what a rank sends."""
        return self._work(self._communicator.Irecv(self._bytes(data), source), about, data)

    def close(self, well: bool) -> None:
        """Give the communicator back, which needs all ranks."""
        if well and self._own:
            self._communicator.Free()


def finish(mpi: Any, well: bool) -> None:
    """End MPI, which needs all ranks to do so; else remove the files of the memory that they shared."""
    if well:
        if not mpi.Is_finalized():
            mpi.Finalize()
        return
    with contextlib.suppress(OSError):
        mapped = Path("/proc/self/maps").read_text().splitlines()
        for path in {line.split()[-1] for line in mapped if _SHARED in line}:
            os.unlink(path)
