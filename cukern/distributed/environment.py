"""Rank, world size and rendezvous address of this process, from the variables that launchers set."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from ..errors import DistributedError

#: Variables of the rank, the number of ranks and the rank on the machine, by launcher. The first that are set count.
_LAUNCHERS = {
    "torchrun and python -m cukern launch": ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
    "Open MPI": ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    "MPICH and Intel MPI": ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
    "Slurm": ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),
}
#: The variable in which the launcher hands rank 0 a socket that already listens.
LISTENING = "CUKERN_LISTENING"
#: The variable of the pipe through which the launcher hears which rank ends first.
EVENTS = "CUKERN_EVENTS"
#: The variable of the word by which the ranks of a job know each other.
TOKEN = "CUKERN_JOB_TOKEN"
#: The variable by which torchrun says that it listens at MASTER_PORT itself.
_TORCHRUN_LISTENS = "TORCHELASTIC_USE_AGENT_STORE"
_MOST_RANKS = 1 << 20


@dataclass(frozen=True)
class RankInfo:
    """A process in its job, and where its rank 0 listens.

    Attributes:
        rank, size: the process's rank and the number of ranks.
        local_rank: the process's rank among those on this machine.
        address, port: where rank 0 listens; an empty address where no variable says it.
        token: the word that ranks show each other; empty where the launcher gave none.
    """

    rank: int
    size: int
    local_rank: int
    address: str
    port: int
    token: str


def rank_info(variables: Mapping[str, str] = os.environ) -> RankInfo:
    """The rank of this process, and its job, from the environment; in a job of one where no launcher set it.

    Raises:
        DistributedError: a variable is not a number in its range, or one is missing beside the others.

    >>> rank_info({"RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500"}).size
    4
    """
    rank, size, local = 0, 1, 0
    for launcher, (its_rank, its_size, its_local) in _LAUNCHERS.items():
        if its_rank not in variables and its_size not in variables:
            continue
        size = _number(variables, its_size, 1, _MOST_RANKS, launcher)
        rank = _number(variables, its_rank, 0, size - 1, launcher)
        local = _number(variables, its_local, 0, size - 1, launcher) if its_local in variables else rank
        break
    address = variables.get("MASTER_ADDR", "")
    port = _number(variables, "MASTER_PORT", 1, 65534, "MASTER_ADDR") if address else 0
    if variables.get(_TORCHRUN_LISTENS) == "True":
        port += 1
    return RankInfo(rank, size, local, address, port, variables.get(TOKEN, ""))


def is_loopback(address: str) -> bool:
    """Whether an address is one by which a machine reaches itself alone; an empty one stands for it."""
    return address in ("", "127.0.0.1", "localhost", "::1")


def described_pipe(end: int) -> str:
    """A descriptor of a pipe as text, with what tells the pipe from another file that has its number later."""
    return f"{end}:{os.fstat(end).st_ino}"


def events(variables: Mapping[str, str] = os.environ) -> int | None:
    """The descriptor through which the launcher hears which rank ends first; None where there is none."""
    end, _, pipe = variables.get(EVENTS, "").partition(":")
    try:
        return int(end) if pipe and os.fstat(int(end)).st_ino == int(pipe) else None
    except (ValueError, OSError):
        return None


def _number(variables: Mapping[str, str], name: str, low: int, high: int, beside: str) -> int:
    text = variables.get(name)
    if text is None:
        raise DistributedError(f"init: {name} is not set, although other variables of {beside} are")
    if not (text.isascii() and text.isdigit()) or not low <= int(text) <= high:
        raise DistributedError(f"init: {name}: expected a number from {low} to {high}, got {text!r}")
    return int(text)
