"""The launcher: start a program as several ranks on this machine, and end all of them when one fails."""

from __future__ import annotations

import os
import secrets
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .environment import EVENTS, LISTENING, TOKEN, described_pipe
from .output import Output
from .pmi import Exchange

#: Signals that are forwarded to the ranks.
_PASSED = ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2")
_ADDRESS = "127.0.0.1"
_KEEPER = str(Path(__file__).with_name("keeper.py"))
#: The least backlog of connections that rank 0 has yet to accept; others than the ranks may connect.
_LEAST_BACKLOG = 128
#: Seconds until ranks that were asked to end are killed.
_SECONDS_TO_END = 5.0
#: Seconds to read output after all ranks have ended.
_SECONDS_TO_DRAIN = 1.0
#: Seconds between looks at ranks.
_LOOK_SECONDS = 0.05
#: Bytes that are read at once.
_LONGEST_READ = 1 << 16


class Launch:
    """The ranks of one job.

    Each rank is the child of a keeper, which ends it when the launcher is gone, and whatever it has started when it
    has ended itself.

    Args:
        command: the command that each rank runs.
        size: the number of ranks.
        grace: seconds that the others have to notice that a rank failed, and to say so, before they are ended.
        variables: the environment of the ranks, without the variables that differ between them.
    """

    def __init__(
        self, command: Sequence[str], size: int, grace: float, variables: Mapping[str, str] = os.environ
    ) -> None:
        self._command, self._grace = list(command), grace
        self._selector = selectors.DefaultSelector()
        self._exchange = Exchange(size)
        self._outputs = {"stdout": Output(sys.stdout), "stderr": Output(sys.stderr)}
        self._ranks: list[subprocess.Popen[bytes]] = []
        self._reading = 0
        #: The order in which ranks began to end.
        self._order: dict[int, int] = {}
        #: Ranks that end because another has failed.
        self._followed: set[int] = set()
        self._heard = b""
        # The first pipe closes with the launcher. Through the second, ranks and keepers say what ends.
        kept, self._alive = os.pipe()
        self._events, self._told = os.pipe()
        os.set_blocking(self._events, False)
        self._selector.register(self._events, selectors.EVENT_READ, self._hear)
        token = secrets.token_hex(16)
        try:
            with socket.create_server((_ADDRESS, 0), backlog=max(size, _LEAST_BACKLOG)) as listening:
                port = listening.getsockname()[1]
                for rank in range(size):
                    own = {
                        "RANK": str(rank),
                        "LOCAL_RANK": str(rank),
                        "WORLD_SIZE": str(size),
                        "MASTER_ADDR": _ADDRESS,
                        "MASTER_PORT": str(port),
                        TOKEN: token,
                        EVENTS: described_pipe(self._told),
                        "PYTHONUNBUFFERED": "1",
                        "PMI_RANK": str(rank),
                        "PMI_SIZE": str(size),
                    }
                    passed = [listening.fileno()] if rank == 0 else []
                    if passed:
                        own[LISTENING] = str(passed[0])
                    self._start(rank, {**variables, **own}, kept, passed)
        except BaseException:
            self._close()
            raise
        finally:
            os.close(kept)

    def _start(self, rank: int, variables: dict[str, str], kept: int, passed: list[int]) -> None:
        ours, theirs = socket.socketpair()
        variables["PMI_FD"] = str(theirs.fileno())
        # The keeper needs none of what Python's site and variables change.
        keeper = [sys.executable, "-I", "-S", _KEEPER, str(kept), str(self._told), str(rank)]
        started = subprocess.Popen(
            [*keeper, *self._command],
            env=variables,
            pass_fds=[*passed, kept, self._told, theirs.fileno()],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # the terminal's Ctrl-C reaches the launcher alone, which passes it on
        )
        theirs.close()
        self._ranks.append(started)
        self._selector.register(ours, selectors.EVENT_READ, lambda: self._exchanged(ours))
        for name in ("stdout", "stderr"):
            file = getattr(started, name)
            self._selector.register(file, selectors.EVENT_READ, self._marker(file, rank, name))
            self._reading += 1

    def run(self) -> int:
        """Pass output and signals until all ranks have ended; the status of the first that failed, or 0."""
        before = {name: signal.signal(getattr(signal, name), self._pass) for name in _PASSED}
        failed: int | None = None
        ways: list[Callable[[], None]] = [lambda: self._signal(signal.SIGTERM), self._end_all]
        deadline = float("inf")
        try:
            while any(one.poll() is None for one in self._ranks):
                self._serve()
                if deadline == float("inf") and self._any_failed():
                    deadline = time.monotonic() + self._grace
                late = time.monotonic() > deadline
                if failed is None:
                    failed = self._first_failed(late)
                if late and ways:
                    ways.pop(0)()
                    deadline = time.monotonic() + _SECONDS_TO_END
            self._drain()
            return self._status(failed if failed is not None else self._first_failed(late=True))
        finally:
            self._close()
            for name, handler in before.items():
                signal.signal(getattr(signal, name), handler)

    def _drain(self) -> None:
        """Read what ranks wrote last; processes that could not be ended may keep their output open for longer."""
        end = time.monotonic() + _SECONDS_TO_DRAIN
        while self._reading and time.monotonic() < end:
            self._serve()

    def _any_failed(self) -> bool:
        return any(one.poll() for one in self._ranks)

    def _first_failed(self, late: bool) -> int | None:
        """The rank that failed first, when that is known; when it is ``late``, of those that have ended.

        A rank says that it ends before others can hear of it, and may end after them.
        """

        def turn(rank: int) -> tuple[bool, float]:
            return rank in self._followed, self._order.get(rank, float("inf"))

        self._hear()
        failed = [rank for rank, one in enumerate(self._ranks) if one.poll()]
        if not failed:
            return None
        first = min(failed, key=turn)
        running = [rank for rank, one in enumerate(self._ranks) if one.poll() is None]
        earlier = first in self._followed or any(turn(rank) < turn(first) for rank in running)
        if running and earlier and not late:
            return None
        status = self._ranks[first].returncode
        name = f"by {signal.Signals(-status).name}" if status < 0 else f"with status {status}"
        print(f"[launch] rank {first} ended {name}", file=sys.stderr, flush=True)
        return first

    def _status(self, failed: int | None) -> int:
        status = 0 if failed is None else self._ranks[failed].returncode
        return 128 - status if status < 0 else status

    def _hear(self) -> None:
        """Note which ranks begin to end, or have ended."""
        try:
            data = os.read(self._events, _LONGEST_READ)
        except BlockingIOError:
            return
        *lines, self._heard = (self._heard + data).split(b"\n")
        for line in lines:
            what, _, number = line.partition(b" ")
            if not number.isdigit() or int(number) >= len(self._ranks):
                continue
            rank = int(number)
            if what == b"stays":
                self._order.pop(rank, None)
                continue
            if what == b"follows":
                self._followed.add(rank)
            self._order.setdefault(rank, len(self._order))

    def _serve(self) -> None:
        for key, _ in self._selector.select(_LOOK_SECONDS):
            key.data()

    def _exchanged(self, connection: socket.socket) -> None:
        if not self._exchange.read(connection):
            self._selector.unregister(connection)
            connection.close()

    def _marker(self, file: Any, rank: int, name: str) -> Callable[[], None]:
        output = self._outputs[name]

        def mark() -> None:
            data = os.read(file.fileno(), _LONGEST_READ)
            if data:
                output.add(rank, data)
                return
            output.end(rank)
            self._selector.unregister(file)
            file.close()
            self._reading -= 1

        return mark

    def _pass(self, number: int, frame: object) -> None:
        self._signal(number)

    def _signal(self, number: int) -> None:
        """Send a signal to every rank that runs, and to what it has started."""
        for one in self._ranks:
            if one.poll() is None:
                try:
                    os.killpg(one.pid, number)
                except ProcessLookupError:
                    continue

    def _close(self) -> None:
        self._end_all()
        for key in self._selector.get_map().values():
            opened: Any = key.fileobj
            if opened != self._events:
                opened.close()
        self._selector.close()
        for end in (self._events, self._told):
            os.close(end)

    def _end_all(self) -> None:
        """Let the keepers kill all ranks and what they have started."""
        if self._alive >= 0:
            os.close(self._alive)
            self._alive = -1
        end = time.monotonic() + _SECONDS_TO_END
        for one in self._ranks:
            try:
                one.wait(max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                self._signal(signal.SIGKILL)


def launch(command: Sequence[str], size: int, grace: float) -> int:
    """Run a command as ``size`` ranks on this machine.

    Args:
        command: the program and its arguments.
        size: the number of ranks.
        grace: seconds that other ranks have to notice and report that one failed, before they are ended.

    Returns:
        0, or the exit status of the first rank that failed, 128 and its number for a signal.
    """
    return Launch(command, size, grace).run()
