"""Start a program as several ranks on this machine, and end all of them when one fails."""

from __future__ import annotations

import os
import secrets
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import IO, Any

from .environment import LISTENING, TOKEN
from .pmi import Exchange

_PASSED = ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2")
_ADDRESS = "127.0.0.1"
#: How long ranks that were asked to end may take until they are killed.
_SECONDS_TO_END = 5.0
_SECONDS_TO_DRAIN = 1.0
_LOOK_SECONDS = 0.05


class Launch:
    """The ranks of one job.

    Args:
        command: what each rank runs.
        size: the number of ranks.
        grace: seconds that the others have to notice that a rank failed, and to say so, before they are ended.
        variables: the environment of the ranks, without what tells them apart.
    """

    def __init__(
        self, command: Sequence[str], size: int, grace: float, variables: Mapping[str, str] = os.environ
    ) -> None:
        self._command, self._size, self._grace = list(command), size, grace
        self._selector = selectors.DefaultSelector()
        self._exchange = Exchange(size)
        self._rest: dict[tuple[int, str], bytes] = {}
        self._ranks: list[subprocess.Popen[bytes]] = []
        self._reading = 0
        token = secrets.token_hex(16)
        with socket.create_server((_ADDRESS, 0), backlog=size) as listening:
            port = listening.getsockname()[1]
            for rank in range(size):
                own = {
                    "RANK": str(rank),
                    "LOCAL_RANK": str(rank),
                    "WORLD_SIZE": str(size),
                    "MASTER_ADDR": _ADDRESS,
                    "MASTER_PORT": str(port),
                    TOKEN: token,
                    "PYTHONUNBUFFERED": "1",
                    "PMI_RANK": str(rank),
                    "PMI_SIZE": str(size),
                }
                kept = [listening.fileno()] if rank == 0 else []
                if kept:
                    own[LISTENING] = str(kept[0])
                self._start(rank, {**variables, **own}, kept)

    def _start(self, rank: int, variables: dict[str, str], kept: list[int]) -> None:
        ours, theirs = socket.socketpair()
        variables["PMI_FD"] = str(theirs.fileno())
        started = subprocess.Popen(
            self._command,
            env=variables,
            pass_fds=[*kept, theirs.fileno()],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # the terminal's Ctrl-C reaches the launcher alone, which passes it on
        )
        theirs.close()
        self._ranks.append(started)
        self._selector.register(ours, selectors.EVENT_READ, None)
        for name in ("stdout", "stderr"):
            self._selector.register(getattr(started, name), selectors.EVENT_READ, (rank, name))
            self._reading += 1

    def run(self) -> int:
        """Pass output and signals until all ranks have ended; the status of the first that failed, or 0."""
        before = {name: signal.signal(getattr(signal, name), self._pass) for name in _PASSED}
        failed: int | None = None
        ways, deadline = [signal.SIGTERM, signal.SIGKILL], float("inf")
        try:
            while any(one.poll() is None for one in self._ranks):
                self._serve()
                if failed is None:
                    failed = self._first_failure()
                    deadline = float("inf") if failed is None else time.monotonic() + self._grace
                elif ways and time.monotonic() > deadline:
                    self._signal(ways.pop(0))
                    deadline = time.monotonic() + _SECONDS_TO_END
            self._drain()
        finally:
            self._signal(signal.SIGKILL)
            for name, handler in before.items():
                signal.signal(getattr(signal, name), handler)
        return failed if failed is not None else self._first_failure() or 0

    def _drain(self) -> None:
        """Read what ranks wrote last; what they started may keep their output open for longer than that."""
        end = time.monotonic() + _SECONDS_TO_DRAIN
        while self._reading and time.monotonic() < end:
            self._serve()

    def _first_failure(self) -> int | None:
        """Say which rank failed and return its status; of several one that was killed, as others fail without it."""
        ended = [(status, rank) for rank, one in enumerate(self._ranks) if (status := one.poll())]
        if not ended:
            return None
        status, rank = min(ended, key=lambda one: one[0] > 0)
        name = f"by {signal.Signals(-status).name}" if status < 0 else f"with status {status}"
        print(f"[launch] rank {rank} ended {name}", file=sys.stderr, flush=True)
        return 128 - status if status < 0 else status

    def _serve(self) -> None:
        for key, _ in self._selector.select(_LOOK_SECONDS):
            file: Any = key.fileobj
            if key.data is None:
                if not self._exchange.read(file):
                    self._selector.unregister(file)
                    file.close()
            else:
                self._mark(file, *key.data)

    def _mark(self, file: IO[bytes], rank: int, name: str) -> None:
        """Write the whole lines that have come, each with its rank before it."""
        data = os.read(file.fileno(), 65536)
        text = self._rest.pop((rank, name), b"") + data
        *lines, rest = text.split(b"\n")
        if data:
            self._rest[rank, name] = rest
        else:
            lines += [rest] if rest else []
            self._selector.unregister(file)
            file.close()
            self._reading -= 1
        stream = getattr(sys, name)
        for line in lines:
            stream.write(f"[{rank}] {line.decode(errors='replace')}\n")
        stream.flush()

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
