"""Where ranks meet, with threads in place of processes."""

from __future__ import annotations

import pickle
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import cukern as ck
from cukern.distributed import environment, messages
from cukern.distributed.environment import Place
from cukern.distributed.member import Member
from cukern.distributed.rendezvous import Rendezvous

SIZE = 3


@pytest.fixture
def address() -> Iterator[tuple[str, int]]:
    listening = socket.create_server(("127.0.0.1", 0))
    address = listening.getsockname()
    Rendezvous(listening, SIZE, "word").start()
    return address


def refuses(address: tuple[str, int]) -> bool:
    """Whether connections are refused, soon: who listens hears of the last member after that one goes on."""
    end = time.monotonic() + 5
    while time.monotonic() < end:
        try:
            socket.create_connection(address, 5).close()
        except ConnectionRefusedError:
            return True
        time.sleep(0.01)
    return False


def member(address: tuple[str, int], rank: int, token: str = "word") -> Member:
    return Member(Place(rank, SIZE, rank, *address, token), address, 5.0)


def together(*calls: Callable[[], Any]) -> list[Any]:
    """The results of calls made at once, or the errors that they raise."""
    found: list[Any] = [None] * len(calls)

    def run(i: int) -> None:
        try:
            found[i] = calls[i]()
        except ck.DistributedError as error:
            found[i] = str(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(calls))]
    for one in threads:
        one.start()
    for one in threads:
        one.join(20)
    return found


def test_what_is_not_of_the_job_is_turned_away(address: tuple[str, int]) -> None:
    """Whoever does not know the word is refused, bytes that are no messages end their connection, nothing is loaded."""

    class Loaded:
        def __reduce__(self) -> Any:
            return pytest.fail, ("unpickled",)

    for junk in (
        pickle.dumps(Loaded()),
        b"\xff" * 64,
        messages.packed({"kind": "join", "rank": 0, "size": SIZE, "token": "wrong"}),
        messages.packed({"kind": "join", "rank": "0"}),
        messages.packed({"kind": "join", "rank": float("inf"), "size": SIZE, "token": "wrong"}),
        messages.packed({"kind": "meet", "key": "world:1"}),
        b"\0\0\0\x02[]",
        b"GET / HTTP/1.1\r\n\r\n",
    ):
        with socket.create_connection(address, 5) as stranger:
            stranger.sendall(junk)
            assert stranger.recv(100) == b""
    members = [member(address, rank) for rank in range(SIZE)]
    assert refuses(address)  # all are there: nothing listens any more
    found = together(
        *(lambda one=one: one.meet("k", [0, 1, 2], "s", "call", 5, f"of {one.rank}") for one in members)
    )
    assert found == [["of 0", "of 1", "of 2"]] * SIZE


def test_a_rank_that_dies_ends_what_waits(address: tuple[str, int]) -> None:
    members = [member(address, rank) for rank in range(SIZE)]
    together(*(lambda one=one: one.meet("k", [0, 1, 2], "s", "first call", 5) for one in members))
    threading.Timer(0.1, members[2].close).start()
    found = together(
        *(lambda one=one: one.meet("m", [0, 1, 2], "s", "second call", 5) for one in members[:2])
    )
    assert found == [f"rank {rank}: second call: rank 2 died after first call" for rank in range(2)]
    with pytest.raises(ck.DistributedError, match="third call: rank 2 died"):
        members[0].meet("n", [0, 1], "s", "third call", 5)


def test_a_rank_that_has_ended(address: tuple[str, int]) -> None:
    members = [member(address, rank) for rank in range(SIZE)]
    together(*(lambda one=one: one.meet("k", [0, 1, 2], "s", "a call", 5) for one in members))
    found = together(
        lambda: members[0].meet("m", [0, 1], "s", "another", 5),
        lambda: members[1].end("ended with KeyError: 3", 0.3),
    )
    assert found == ["rank 0: another: rank 1 ended with KeyError: 3 after a call", False]
    assert together(lambda: members[0].end("", 5), lambda: members[2].end("", 5)) == [False, False]


def test_all_end_well(address: tuple[str, int]) -> None:
    members = [member(address, rank) for rank in range(SIZE)]
    assert together(*(lambda one=one: one.end("", 5) for one in members)) == [True] * SIZE


def test_a_rendezvous_that_cannot_be_reached() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = taken.getsockname()
    with pytest.raises(
        ck.DistributedError, match=rf"rank 1: init: rank 0 does not answer at 127.0.0.1:{address[1]}"
    ):
        Member(Place(1, 2, 1, *address, ""), address, 0.2)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, (0, 1, 0, "", 0)),
        (
            {
                "RANK": "3",
                "WORLD_SIZE": "8",
                "LOCAL_RANK": "1",
                "MASTER_ADDR": "node1",
                "MASTER_PORT": "29500",
            },
            (3, 8, 1, "node1", 29500),
        ),
        (
            {
                "RANK": "0",
                "WORLD_SIZE": "2",
                "LOCAL_RANK": "0",
                "MASTER_ADDR": "node1",
                "MASTER_PORT": "29500",
                "TORCHELASTIC_USE_AGENT_STORE": "True",
            },
            (0, 2, 0, "node1", 29501),
        ),
        ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}, (1, 2, 1, "", 0)),
        ({"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "0"}, (1, 2, 0, "", 0)),
        (
            {
                "SLURM_PROCID": "5",
                "SLURM_NTASKS": "6",
                "SLURM_LOCALID": "1",
                "MASTER_ADDR": "a",
                "MASTER_PORT": "1",
            },
            (5, 6, 1, "a", 1),
        ),
    ],
)
def test_places(variables: dict[str, str], expected: tuple[int, int, int, str, int]) -> None:
    found = environment.place(variables)
    assert (found.rank, found.size, found.local_rank, found.address, found.port) == expected


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"RANK": "1"}, "WORLD_SIZE is not set"),
        ({"RANK": "2", "WORLD_SIZE": "2"}, "RANK: expected a number from 0 to 1, got '2'"),
        ({"RANK": "x", "WORLD_SIZE": "2"}, "RANK: expected a number"),
        ({"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "a"}, "MASTER_PORT is not set"),
        (
            {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "a", "MASTER_PORT": "70000"},
            "MASTER_PORT: expected",
        ),
    ],
)
def test_wrong_variables(variables: dict[str, str], message: str) -> None:
    with pytest.raises(ck.DistributedError, match=message):
        environment.place(variables)
