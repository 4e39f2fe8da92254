"""Process groups: joining the job, and groups of its ranks."""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import math
import operator
import os
import secrets
import socket
import sys
import traceback
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

from ..device import Device, current, devices, set_default
from ..errors import DistributedError, require_choice
from . import mpi, nccl
from .engine import Engine
from .environment import LISTENING, RankInfo, events, rank_info
from .member import Member
from .rendezvous import Rendezvous

_LOOPBACK = "127.0.0.1"
#: The largest tag that every MPI allows.
_TAGS = 32767


class Group:
    """Ranks that call collectives together, from :func:`init` and :func:`new_group`.

    Attributes:
        ranks: their numbers among all ranks, ascending.
        rank: which of them this process is.
        timeout: seconds within which every rank must come to a call, and the call must finish.

    >>> import cukern as ck
    >>> ck.distributed.init()
    Group(rank 0 of 1, ranks=(0,))
    """

    def __init__(self, ranks: tuple[int, ...], rank: int, timeout: float, name: str) -> None:
        self.ranks, self.rank, self.timeout = ranks, ranks.index(rank), timeout
        self._name = name
        self._calls: dict[str, int] = {}
        self._engines: dict[str, Engine] = {}
        #: Signatures of calls on GPUs that the ranks have compared once; only a new one is compared.
        self._known: set[str] = set()

    @property
    def size(self) -> int:
        """The number of ranks."""
        return len(self.ranks)

    def __repr__(self) -> str:
        return f"Group(rank {self.rank} of {self.size}, ranks={self.ranks})"

    def __reduce__(self) -> Any:
        raise TypeError("a Group belongs to its process; create it where it is used")

    def meet(
        self, call: str, form: str = "", payload: str = "", ranks: tuple[int, ...] = (), known: bool = False
    ) -> tuple[str, list[str]]:
        """Wait until all ranks of the group make the same call.

        Args:
            call: its name.
            form: the array's dtype and shape, and whatever else must be the same.
            payload: a text for the others.
            ranks: the ranks of the job that take part, if not all of the group.
            known: whether to wait only at the first call of this form.

        Returns:
            A description of the call, and the payloads.

        Raises:
            DistributedError: the ranks do not agree, one is gone, or one does not come in time.
        """
        part = ranks or self.ranks
        name = self._name + (f"/{','.join(map(str, part))}" if ranks else "")
        number = self._calls[name] = self._calls.get(name, 0) + 1
        about = f"{call} #{number}{f' of {form}' if form else ''}"
        signature = f"{call} {form}"
        if self.size == 1 or (known and signature in self._known):
            return about, [payload] if payload else []
        payloads = _member().meet(f"{name}:{number}", part, signature, about, self.timeout, payload)
        if known:
            self._known.add(signature)
        return about, payloads

    def devices(self) -> list[Device]:
        """The devices whose arrays have been sent between the ranks."""
        return list(map(Device, self._engines))

    def engine(self, device: Device) -> Engine:
        """The engine that sends arrays of ``device`` between the ranks.

        Raises:
            DistributedError: MPI or NCCL is missing, or a rank is.
        """
        engine = self._engines.get(str(device))
        if engine is None:
            engine = self._engines[str(device)] = self._opened(device)
        return engine

    def together(self, device: Device, about: str) -> AbstractContextManager[None]:
        """A with-block whose collectives on ``device`` begin at its end, beside launches: see :class:`.Engine`."""
        return nullcontext() if self.size == 1 else self.engine(device).together(about, True)

    def _opened(self, device: Device) -> Engine:
        if device.addressable:
            library = _mpi()
            self.meet("open MPI")
            tag = int.from_bytes(hashlib.sha256(self._name.encode()).digest()[:4], "big") % _TAGS
            return mpi.Engine(library, self.ranks, tag, _member(), self.timeout)
        library = nccl.library(_joined().info)
        unique = library.get_unique_id().hex() if self.rank == 0 else ""
        _, payloads = self.meet("open NCCL", payload=unique)
        return nccl.Engine(
            library, device, self.size, self.rank, bytes.fromhex(payloads[0]), _member(), self.timeout
        )

    def close(self, well: bool = True) -> None:
        """Close the engines; all ranks do so together."""
        for engine in self._engines.values():
            engine.close(well)
        self._engines.clear()


class _Job:
    """This process in its job.

    Attributes:
        created: how many groups of the same ranks were created.
    """

    def __init__(self, info: RankInfo, member: Member | None, timeout: float) -> None:
        self.info, self.member, self.timeout = info, member, timeout
        self.world = Group(tuple(range(info.size)), info.rank, timeout, "world")
        self.groups = [self.world]
        self.created: dict[tuple[int, ...], int] = {}
        self.mpi: Any = None
        self._events = events()

    def tell(self, what: str) -> None:
        """Tell the launcher that this rank begins to end, before other ranks can notice it."""
        if self._events is not None:
            with contextlib.suppress(OSError):  # the launcher is gone
                os.write(self._events, f"{what} {self.info.rank}\n".encode())


_job: _Job | None = None


def init(timeout: float = 600.0) -> Group:
    """Join the ranks of this job; a second call returns the same group.

    Which of how many ranks this process is comes from the environment: RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and
    MASTER_PORT, as ``python -m cukern launch`` and torchrun set them, or from MPI's or Slurm's variables. Where none is
    set the job is this process alone. Rank 0 listens on MASTER_ADDR alone; without it, as under ``mpiexec`` on one
    machine, on the loopback address. Where there are GPUs, ``cuda:LOCAL_RANK`` becomes the current device unless
    ``CUKERN_DEVICE`` is set.

    Args:
        timeout: seconds within which every rank must join, and later come to each collective call and finish it.

    Raises:
        ValueError: ``timeout`` is not positive.
        DistributedError: a variable is wrong or missing, or a rank does not join in time.

    >>> import cukern as ck
    >>> world = ck.distributed.init()
    >>> world.rank, world.size
    (0, 1)
    """
    global _job
    if _job is not None:
        return _job.world
    if not timeout > 0:
        raise ValueError(f"init: timeout: expected a positive number of seconds, got {timeout!r}")
    info = rank_info()
    if info.size == 1:
        _job = _Job(info, None, timeout)
        return _job.world
    _choose_device(info)
    library = None
    if not info.address:
        library = mpi.library(info)
        info = _agreed(library, info)
    if info.rank == 0:
        Rendezvous(_listening(info), info.size, info.token).start()
    member = Member(info, (info.address, info.port), timeout)
    _job = _Job(info, member, timeout)
    _job.mpi = library
    atexit.register(_leave)
    _job.world.meet("init")
    if current().addressable:
        _mpi()
    return _job.world


def _choose_device(info: RankInfo) -> None:
    gpus = [one for one in devices() if not one.addressable]
    if os.environ.get("CUKERN_DEVICE") or not gpus:
        return
    if info.local_rank >= len(gpus):
        raise DistributedError(
            f"rank {info.rank}: init: it is rank {info.local_rank} on a machine of {len(gpus)} GPUs; one process "
            "uses one GPU: start fewer, or set CUKERN_DEVICE"
        )
    set_default(str(gpus[info.local_rank]))
    gpus[info.local_rank].xp.cuda.Device(info.local_rank).use()


def _agreed(library: Any, info: RankInfo) -> RankInfo:
    """The same with an address, a port and a token that the ranks of one machine agree on through MPI.

    Raises:
        DistributedError: the ranks are on several machines.
    """
    world = library.COMM_WORLD
    beside = world.Split_type(library.COMM_TYPE_SHARED)
    together = beside.Get_size() == info.size
    beside.Free()
    if not together:
        raise DistributedError(
            f"rank {info.rank}: init: MASTER_ADDR is not set; ranks on several machines need the address of rank 0 "
            "there, and a free port in MASTER_PORT"
        )
    agreed = bytearray(34)
    if info.rank == 0:
        listening = socket.create_server((_LOOPBACK, 0))
        os.environ[LISTENING] = str(listening.detach())
        port = socket.socket(fileno=os.dup(int(os.environ[LISTENING]))).getsockname()[1]
        agreed[:] = port.to_bytes(2, "big") + secrets.token_bytes(32)
    world.Bcast([agreed, library.BYTE], 0)
    return replace(info, address=_LOOPBACK, port=int.from_bytes(agreed[:2], "big"), token=agreed[2:].hex())


def _listening(info: RankInfo) -> socket.socket:
    """The socket at which rank 0 waits for the others.

    Raises:
        DistributedError: the address is not this machine's, or the port is taken.
    """
    handed = os.environ.pop(LISTENING, "")
    if handed:
        return socket.socket(fileno=int(handed))
    try:
        resolved = socket.getaddrinfo(info.address, info.port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(resolved[4][:2], family=resolved[0], backlog=min(info.size, 4096))
    except OSError as error:
        raise DistributedError(
            f"rank 0: init: cannot listen on MASTER_ADDR {info.address} at MASTER_PORT {info.port}: {error}"
        ) from None


def _joined() -> _Job:
    if _job is None:
        raise DistributedError("call cukern.distributed.init() first")
    return _job


def _member() -> Member:
    member = _joined().member
    assert member is not None  # a group of several ranks is part of a job of several
    return member


def _mpi() -> Any:
    job = _joined()
    if job.mpi is None:
        job.world.meet("start MPI")  # which does not return before all ranks have called it
        job.mpi = mpi.library(job.info)
    return job.mpi


def world() -> Group:
    """The group of all ranks.

    Raises:
        DistributedError: :func:`init` has not been called.

    >>> import cukern as ck
    >>> ck.distributed.init() is ck.distributed.world()
    True
    """
    return _joined().world


def rank() -> int:
    """Which of the job's ranks this process is; 0 before :func:`init`.

    >>> import cukern as ck
    >>> if ck.distributed.rank() == 0:
    ...     print("once")
    once
    """
    return 0 if _job is None else _job.info.rank


def size() -> int:
    """The number of ranks of the job; 1 before :func:`init`.

    >>> import cukern as ck
    >>> ck.distributed.size()
    1
    """
    return 1 if _job is None else _job.info.size


def new_group(ranks: Iterable[int], timeout: float | None = None) -> Group:
    """A group of some ranks; they call this together, the others do not.

    Args:
        ranks: their numbers among all ranks, in any order.
        timeout: as in :func:`init`; that of the job when None.

    Raises:
        ValueError: a number is out of range or comes twice, or this rank is not among them.
        DistributedError: one of them does not come.

    >>> import cukern as ck
    >>> world = ck.distributed.init()
    >>> pair = ck.distributed.new_group({world.rank, world.rank ^ 1} if world.size > 1 else {0})
    """
    job = _joined()
    given = tuple(sorted(map(operator.index, ranks)))
    if len(set(given)) != len(given) or not given or not 0 <= given[0] <= given[-1] < job.info.size:
        raise ValueError(f"new_group: ranks: expected different numbers below {job.info.size}, got {given}")
    if job.info.rank not in given:
        raise ValueError(f"new_group: ranks: this is rank {job.info.rank}, which is not in {given}")
    number = job.created[given] = job.created.get(given, 0) + 1
    name = f"{','.join(map(str, given))}#{number}"
    group = Group(given, job.info.rank, job.timeout if timeout is None else timeout, name)
    group.meet("new_group", f"ranks {given}")
    job.groups.append(group)
    return group


class Mesh:
    """All ranks of the job in a grid of named axes, as ``Mesh(data=2, tensor=4)``.

    The ranks run fastest along the last axis, which should be the one along which most bytes travel: its ranks are then
    on one machine. All ranks create the mesh together.

    Args:
        axes: the size of each axis; their product is the number of ranks.

    Raises:
        ValueError: it is not, or there are no axes.

    Attributes:
        shape: the size of each axis by name.
        coordinates: this rank's index along each axis, by name.

    >>> import cukern as ck
    >>> _ = ck.distributed.init()
    >>> mesh = Mesh(data=1, tensor=1)
    >>> mesh.group("tensor").size, mesh.coordinates
    (1, {'data': 0, 'tensor': 0})
    """

    def __init__(self, **axes: int) -> None:
        everyone = world()
        if not axes or min(axes.values()) < 1 or math.prod(axes.values()) != everyone.size:
            raise ValueError(f"Mesh: expected sizes whose product is the {everyone.size} ranks, got {axes}")
        self.shape = dict(axes)
        self.coordinates: dict[str, int] = {}
        self._groups: dict[str, Group] = {}
        stride = everyone.size
        for name, size in axes.items():
            stride //= size
            at = self.coordinates[name] = everyone.rank // stride % size
            first = everyone.rank - at * stride
            self._groups[name] = new_group(range(first, first + size * stride, stride))

    def group(self, axis: str) -> Group:
        """The ranks that differ from this one along one axis alone, and this one.

        Raises:
            ValueError: there is no such axis.
        """
        require_choice("Mesh: axis", axis, self._groups)
        return self._groups[axis]

    def __repr__(self) -> str:
        return f"Mesh({', '.join(f'{name}={size}' for name, size in self.shape.items())})"


def shutdown() -> None:
    """Leave the job, when all other ranks do so or the time limit has passed; called by itself at the program's end.

    Raises:
        DistributedError: a collective on a GPU can no longer finish.

    >>> import cukern as ck
    >>> _ = ck.distributed.init()
    >>> ck.distributed.shutdown()
    """
    global _job
    job, _job = _job, None
    if job is None or job.member is None:
        return
    atexit.unregister(_leave)
    error = getattr(sys, "last_value", None)
    why = "" if error is None else f"ended with {type(error).__name__}: {str(error)[:500]}"
    job.tell("follows" if job.member.failure else "ends")
    well = job.member.end(why, job.timeout)
    if well:
        job.tell("stays")  # the program may go on
    failed: DistributedError | None = None
    for group in reversed(job.groups):
        try:
            group.close(well)
        except DistributedError as one:
            failed = failed or one
    if job.mpi is not None:
        mpi.finish(job.mpi, well)
    job.member.close()
    if failed is not None and not why:
        raise failed


def _leave() -> None:
    """Shut down at the program's end; what fails then is the program's failure."""
    try:
        shutdown()
    except DistributedError:
        traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)  # an exception would be printed, and the program end as if all were well
