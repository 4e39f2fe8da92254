"""A rank's connection to the rendezvous."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Sequence
from typing import Any

from ..errors import DistributedError
from .environment import RankInfo
from .messages import LONGEST_ANSWER, Inbox, packed, receive

#: Seconds that the rendezvous may take to say who is late.
_ANSWER_SECONDS = 5.0
#: Seconds between attempts to connect.
_RETRY_SECONDS = 0.05


class Member:
    """A rank that has joined its job.

    Args:
        info: that of this process.
        address: where the rendezvous listens.
        timeout: seconds within which it must answer at first.

    Raises:
        DistributedError: it cannot be reached in time.

    Attributes:
        failure: why the job cannot go on; empty while it can.
        told: whether the program has had an error that says so.
    """

    told = False

    def __init__(self, info: RankInfo, address: tuple[str, int], timeout: float) -> None:
        self.rank, self.size = info.rank, info.size
        self.failure = ""
        self._connection = _connected(info, address, timeout)
        self._sending, self._changed = threading.Lock(), threading.Condition()
        self._answers: dict[str, dict[str, Any]] = {}
        self._ended: bool | None = None
        self._send(
            {"kind": "join", "rank": info.rank, "size": info.size, "token": info.token},
        )
        self._reader = threading.Thread(target=self._read, name="cukern member", daemon=True)
        self._reader.start()

    def meet(
        self, key: str, ranks: Sequence[int], signature: str, about: str, timeout: float, payload: str = ""
    ) -> list[str]:
        """Wait until all ``ranks`` are at the call ``key`` with the same signature.

        Args:
            signature: what must be the same on all.
            about: the call and its array, for errors.
            timeout: seconds.
            payload: a text for the others.

        Returns:
            The payloads of all, in the order of ``ranks``; an empty list if all are empty.

        Raises:
            DistributedError: a rank is about to do something else, is gone, or does not come in time.
        """
        self.check(about)
        message = {
            "kind": "meet",
            "key": key,
            "ranks": list(ranks),
            "signature": signature,
            "about": about,
            "payload": payload,
        }
        try:
            self._send(message)
        except ValueError as error:
            raise self.error(about, f"the text for the other ranks is too long: {error}") from None
        answer = self._awaited(key, timeout)
        if answer is None and not self.failure:
            self._send({"kind": "late", "key": key, "seconds": timeout})
            answer = self._awaited(key, _ANSWER_SECONDS)
        if answer is None:
            self.check(about)
            raise self.error(about, "rank 0, where the ranks meet, does not answer")
        if answer["kind"] == "refused":
            raise self.error(about, answer["why"])
        return list(answer["payloads"])

    def check(self, about: str) -> None:
        """Raise if the job cannot go on."""
        if self.failure:
            self.told = True
            raise self.error(about, self.failure)

    def error(self, about: str, why: str) -> DistributedError:
        """The error of this rank at a call."""
        return DistributedError(f"rank {self.rank}: {about}: {why}")

    def fail(self, why: str) -> None:
        """Let every further call raise."""
        with self._changed:
            if self.failure:
                return
            self.failure = why
            self._changed.notify_all()

    def heard(self, seconds: float) -> str:
        """:attr:`failure`, if there is one within some seconds."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self.failure), seconds)
        return self.failure

    def end(self, why: str, timeout: float) -> bool:
        """Take part no more; whether all ranks have ended well within ``timeout`` seconds.

        Args:
            why: what went wrong, in words that follow the rank's name; empty if nothing did.
        """
        if not self.failure:
            with contextlib.suppress(DistributedError):
                self._send({"kind": "end", "why": why})
                with self._changed:
                    self._changed.wait_for(lambda: self._ended is not None or bool(self.failure), timeout)
        return bool(self._ended)

    def close(self) -> None:
        """Close the connection."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()

    def _awaited(self, key: str, timeout: float) -> dict[str, Any] | None:
        with self._changed:
            self._changed.wait_for(lambda: key in self._answers or bool(self.failure), timeout)
            return self._answers.pop(key, None)

    def _send(self, message: dict[str, Any]) -> None:
        try:
            with self._sending:
                self._connection.sendall(packed(message))
        except OSError as error:
            self.fail(f"rank 0, where the ranks meet, is gone ({error})")

    def _read(self) -> None:
        inbox = Inbox(LONGEST_ANSWER)
        with contextlib.suppress(ValueError, RecursionError):  # what comes are no messages
            while receive(self._connection, inbox):
                for message in inbox.messages():
                    self._take(message)
        if self._ended is None:
            self.fail("rank 0, where the ranks meet, is gone")

    def _take(self, message: dict[str, Any]) -> None:
        kind = message.get("kind")
        if kind == "lost":
            self.fail(str(message["why"]))
            return
        with self._changed:
            if kind == "ended":
                self._ended = bool(message["well"])
            elif kind in ("met", "refused"):
                self._answers[str(message["key"])] = message
            self._changed.notify_all()


def _connected(info: RankInfo, address: tuple[str, int], timeout: float) -> socket.socket:
    end = time.monotonic() + timeout
    while True:
        left = end - time.monotonic()
        try:
            connection = socket.create_connection(address, max(left, _RETRY_SECONDS))
            break
        except OSError as error:
            if left < _RETRY_SECONDS:
                raise DistributedError(
                    f"rank {info.rank}: init: rank 0 does not answer at {address[0]}:{address[1]} "
                    f"within {timeout:g} s ({error})"
                ) from None
            time.sleep(_RETRY_SECONDS)
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection
