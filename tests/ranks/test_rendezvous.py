"""Where ranks meet, with threads in place of processes."""

from __future__ import annotations

import contextlib
import os
import pickle
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import cukern as ck
from cukern.distributed import environment, messages, rendezvous
from cukern.distributed.environment import RankInfo
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
    return Member(RankInfo(rank, SIZE, rank, *address, token), address, 5.0)


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
        (messages.LONGEST_JOIN + 1).to_bytes(4, "big"),
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


def is_closed(connection: socket.socket) -> bool:
    """Whether the other side closes a connection within seconds."""
    connection.settimeout(5)
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False


def opened() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_who_does_not_join_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither one that says nothing, nor one that says its name byte by byte."""
    monkeypatch.setattr(rendezvous, "_SECONDS_TO_JOIN", 0.3)
    listening = socket.create_server(("127.0.0.1", 0))
    where = listening.getsockname()
    Rendezvous(listening, SIZE, "word").start()
    with socket.create_connection(where, 5) as silent, socket.create_connection(where, 5) as slow:
        for byte in messages.packed({"kind": "join"})[:8]:
            with contextlib.suppress(OSError):  # closed
                slow.send(bytes([byte]))
            time.sleep(0.1)
        assert is_closed(silent) and is_closed(slow)
    members = [member(where, rank) for rank in range(SIZE)]
    assert together(*(lambda one=one: one.end("", 5) for one in members)) == [True] * SIZE


def test_a_flood_of_connections_takes_few_descriptors(address: tuple[str, int]) -> None:
    most, before = rendezvous._MOST_STRANGERS + SIZE, opened()
    flood = [socket.create_connection(address, 5) for _ in range(3 * most)]
    assert all(map(is_closed, flood[: 2 * most - 1]))
    assert opened() - before <= len(flood) + most
    members = [member(address, rank) for rank in range(SIZE)]
    assert all(map(is_closed, flood))  # all ranks are there
    assert together(*(lambda one=one: one.end("", 5) for one in members)) == [True] * SIZE
    for one in flood:
        one.close()


SCARCE = """
import resource, socket, sys
from cukern.distributed.rendezvous import Rendezvous
listening = socket.create_server(("127.0.0.1", 0), backlog=512)
print(listening.getsockname()[1], flush=True)
free = socket.socket().fileno()
resource.setrlimit(resource.RLIMIT_NOFILE, (free + 20, free + 20))
serving = Rendezvous(listening, 3, "word")
serving.start()
serving.join()
"""


def test_ranks_join_where_descriptors_are_scarce() -> None:
    with subprocess.Popen([sys.executable, "-c", SCARCE], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        where = ("127.0.0.1", int(process.stdout.readline()))
        flood = [socket.create_connection(where, 5) for _ in range(100)]
        members = [member(where, rank) for rank in range(SIZE)]
        assert together(*(lambda one=one: one.end("", 10) for one in members)) == [True] * SIZE
        for one in (*members, *flood):
            one.close()
        assert process.wait(20) == 0


def test_texts_of_all_ranks_may_be_long_together(
    address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    members = [member(address, rank) for rank in range(SIZE)]
    texts = [str(rank) * 600_000 for rank in range(SIZE)]

    def meet(key: str) -> list[Any]:
        return together(
            *(lambda one=one: one.meet(key, [0, 1, 2], "s", "call", 20, texts[one.rank]) for one in members)
        )

    assert meet("k") == [texts] * SIZE
    monkeypatch.setattr(rendezvous, "LONGEST_ANSWER", 1 << 20)
    for rank, told in enumerate(meet("l")):
        assert told.startswith(f"rank {rank}: call: the texts of all ranks are too long: a message of 18000")
    with pytest.raises(
        ck.DistributedError, match="rank 0: call: the text for the other ranks is too long: a message of"
    ):
        members[0].meet("m", [0, 1, 2], "s", "call", 20, "x" * (messages.LONGEST + 1))
    assert together(*(lambda one=one: one.end("", 5) for one in members)) == [True] * SIZE


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
        Member(RankInfo(1, 2, 1, *address, ""), address, 0.2)


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
def test_rank_info(variables: dict[str, str], expected: tuple[int, int, int, str, int]) -> None:
    found = environment.rank_info(variables)
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
        environment.rank_info(variables)
