"""The rendezvous of the ranks: a thread of rank 0 that compares their next calls, and notices who is gone.

Each rank has one connection to it. Before a collective call a rank sends what it is about to do, and waits until all
ranks of the group have sent the same. Only texts of a few hundred bytes pass here; arrays go through MPI or NCCL.
"""

from __future__ import annotations

import contextlib
import errno
import hmac
import selectors
import socket
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from .messages import LONGEST, LONGEST_ANSWER, LONGEST_JOIN, Inbox, packed, receive

#: Seconds after which a rank whose connection takes no bytes is gone.
_SECONDS_TO_SEND = 5.0
#: Seconds after which a connection that has not joined is closed.
_SECONDS_TO_JOIN = 10.0
#: Connections beside those of ranks that have yet to join. When more come, the oldest of all that have not joined is
#: closed: ranks say who they are at once.
_MOST_STRANGERS = 64
#: Errors of a process or a system without free descriptors or memory.
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
#: Seconds until another attempt after such an error.
_SECONDS_TO_RETRY = 0.01
#: Bytes that are sent at once.
_PIECE = 1 << 16


@dataclass
class _Meeting:
    """A call at which some ranks have arrived.

    Attributes:
        ranks: those that take part.
        come: for each that has arrived, its call's signature, its description for errors, and a text for the others.
        failed: the error that all of them get.
    """

    ranks: tuple[int, ...]
    come: dict[int, tuple[str, str, str]] = field(default_factory=dict)
    failed: str = ""


@dataclass(eq=False)
class _Peer:
    """A connection, with its rank once it is known."""

    connection: socket.socket
    inbox: Inbox
    rank: int = -1


class Rendezvous(threading.Thread):
    """Serves the ranks of one job until all have ended.

    Args:
        listening: a socket that listens, and is closed when every rank has joined.
        size: the number of ranks.
        token: the word that a rank must show.
    """

    def __init__(self, listening: socket.socket, size: int, token: str) -> None:
        super().__init__(name="cukern rendezvous", daemon=True)
        self._listening, self._size, self._token = listening, size, token
        self._peers: dict[int, _Peer] = {}
        #: Connections that have not joined, with the time until which they may.
        self._strangers: dict[_Peer, float] = {}
        self._meetings: dict[str, _Meeting] = {}
        #: Why ranks can take part no more; empty for one that has ended well.
        self._gone: dict[int, str] = {}
        #: The last call of each rank.
        self._last: dict[int, str] = {}
        self._selector = selectors.DefaultSelector()

    def run(self) -> None:
        """Serve until every rank has joined and gone."""
        self._listening.setblocking(False)
        self._selector.register(self._listening, selectors.EVENT_READ, None)
        while len(self._gone) < self._size or self._peers:
            ready = [key.data for key, _ in self._selector.select(self._patience())]
            for peer in ready:  # before another connection is taken: what has come may be a rank's
                if peer is not None:
                    self._read(peer)
            self._close_late()
            if None in ready:
                self._accept()
        self._selector.close()
        self._listening.close()

    def _patience(self) -> float | None:
        """Seconds until the next connection is too late to join."""
        times = self._strangers.values()
        return max(0.0, min(times) - time.monotonic()) if times else None

    def _close_late(self) -> None:
        now = time.monotonic()
        for peer in [peer for peer, end in self._strangers.items() if end <= now]:
            self._close(peer)

    def _accept(self) -> None:
        """Accept one connection; close the oldest that has not joined if there are too many."""
        if self._listening.fileno() < 0:
            return  # the last rank has joined meanwhile
        if len(self._strangers) >= self._size - len(self._peers) + _MOST_STRANGERS:
            self._close(next(iter(self._strangers)))
        try:
            connection, _ = self._listening.accept()
        except OSError as error:
            if error.errno in _EXHAUSTED:
                self._make_room()
            return  # otherwise it was closed again
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.settimeout(_SECONDS_TO_SEND)
        peer = _Peer(connection, Inbox(LONGEST_JOIN))
        self._strangers[peer] = time.monotonic() + _SECONDS_TO_JOIN
        self._selector.register(connection, selectors.EVENT_READ, peer)

    def _make_room(self) -> None:
        """Close the oldest connection that has not joined, or wait for the process to close some file."""
        if self._strangers:
            self._close(next(iter(self._strangers)))
        else:
            time.sleep(_SECONDS_TO_RETRY)

    def _read(self, peer: _Peer) -> None:
        if peer.connection.fileno() < 0:
            return  # it was closed meanwhile
        if not receive(peer.connection, peer.inbox):
            self._close(peer)
            return
        try:
            for message in peer.inbox.messages():
                if not self._answer(peer, message):
                    self._close(peer)
                    return
        except (
            KeyError,
            TypeError,
            ValueError,
            OverflowError,
            RecursionError,
        ):  # not a message that a rank sends
            self._close(peer)

    def _answer(self, peer: _Peer, message: dict[str, Any]) -> bool:
        """Act on a message; whether its sender may go on."""
        kind = message["kind"]
        if peer.rank < 0:
            return kind == "join" and self._joined(peer, message)
        if kind == "meet":
            self._meet(peer.rank, message)
        elif kind == "late":
            self._late(str(message["key"]), float(message["seconds"]))
        elif kind == "end":
            self._gone.setdefault(peer.rank, str(message["why"]))
            self._refuse_meetings_of(peer.rank)
            if len(self._gone) == self._size:
                self._tell({"kind": "ended", "well": all(why == "" for why in self._gone.values())})
        else:
            return False
        return True

    def _joined(self, peer: _Peer, message: dict[str, Any]) -> bool:
        rank, token = int(message["rank"]), str(message["token"])
        known = hmac.compare_digest(token.encode(), self._token.encode())
        if not known or message["size"] != self._size or not 0 <= rank < self._size:
            return False
        if rank in self._peers or rank in self._gone:
            return False
        peer.rank, peer.inbox.longest = rank, LONGEST
        self._peers[rank] = peer
        del self._strangers[peer]
        if len(self._peers) == self._size:
            self._selector.unregister(self._listening)
            self._listening.close()
            for stranger in list(self._strangers):
                self._close(stranger)
        for lost, why in self._gone.items():
            if why:
                self._send(rank, {"kind": "lost", "rank": lost, "why": why})
        return True

    def _meet(self, rank: int, message: dict[str, Any]) -> None:
        key, ranks = str(message["key"]), tuple(map(int, message["ranks"]))
        about = str(message["about"])
        self._last[rank] = about
        meeting = self._meetings.setdefault(key, _Meeting(ranks))
        meeting.come[rank] = (str(message["signature"]), about, str(message["payload"]))
        if meeting.failed:
            self._send(rank, {"kind": "refused", "key": key, "why": meeting.failed})
            self._forget_if_done(key, meeting)
            return
        missing = [one for one in meeting.ranks if one in self._gone and one not in meeting.come]
        if missing:
            self._refuse(key, meeting, self._why_gone(missing[0]))
        elif len(meeting.come) == len(meeting.ranks):
            self._compare(key, meeting)

    def _compare(self, key: str, meeting: _Meeting) -> None:
        first = meeting.ranks[0]
        expected = meeting.come[first][0]
        others = [one for one in meeting.ranks if meeting.come[one][0] != expected]
        if others:
            told = [f"rank {one}: {meeting.come[one][1]}" for one in (first, *others[:8])]
            more = f"; and {len(others) - 8} more ranks" if len(others) > 8 else ""
            self._refuse(key, meeting, f"ranks do not agree: {'; '.join(told)}{more}")
            return
        payloads = [meeting.come[one][2] for one in meeting.ranks]
        del self._meetings[key]
        answer = {"kind": "met", "key": key, "payloads": payloads if any(payloads) else []}
        try:
            self._tell_each(meeting.ranks, answer)
        except ValueError as error:
            self._meetings[key] = meeting
            self._refuse(key, meeting, f"the texts of all ranks are too long: {error}")

    def _late(self, key: str, seconds: float) -> None:
        meeting = self._meetings.get(key)
        if meeting is None or meeting.failed:
            return
        missing = [one for one in meeting.ranks if one not in meeting.come]
        told = ", ".join(f"rank {one} ({self._whereabouts(one)})" for one in missing[:8])
        more = f" and {len(missing) - 8} more" if len(missing) > 8 else ""
        self._refuse(key, meeting, f"not there within {seconds:g} s: {told}{more}")

    def _whereabouts(self, rank: int) -> str:
        if rank in self._last:
            return f"last at {self._last[rank]}"
        return "it has joined" if rank in self._peers else "it has not joined"

    def _refuse(self, key: str, meeting: _Meeting, why: str) -> None:
        meeting.failed = why
        self._tell_each(meeting.come, {"kind": "refused", "key": key, "why": why})
        self._forget_if_done(key, meeting)

    def _forget_if_done(self, key: str, meeting: _Meeting) -> None:
        if all(one in meeting.come or one in self._gone for one in meeting.ranks):
            self._meetings.pop(key, None)

    def _why_gone(self, rank: int) -> str:
        last = f" after {self._last[rank]}" if rank in self._last else ""
        return f"rank {rank} {self._gone[rank] or 'has ended'}{last}"

    def _refuse_meetings_of(self, rank: int) -> None:
        for key, meeting in list(self._meetings.items()):
            if rank in meeting.ranks and rank not in meeting.come and not meeting.failed:
                self._refuse(key, meeting, self._why_gone(rank))

    def _close(self, peer: _Peer) -> None:
        if peer.connection.fileno() < 0:
            return  # it is closed already
        self._selector.unregister(peer.connection)
        peer.connection.close()
        if peer.rank < 0:
            self._strangers.pop(peer, None)
            return
        self._peers.pop(peer.rank, None)
        if peer.rank not in self._gone:
            self._gone[peer.rank] = "died"
            self._tell({"kind": "lost", "rank": peer.rank, "why": self._why_gone(peer.rank)})
            self._refuse_meetings_of(peer.rank)
            if len(self._gone) == self._size:
                self._tell({"kind": "ended", "well": False})

    def _tell(self, message: dict[str, Any]) -> None:
        self._tell_each(self._peers, message)

    def _tell_each(self, ranks: Iterable[int], message: dict[str, Any]) -> None:
        """Send a message to several ranks, rank 0 last: an answer may end or stop its process, and so this thread."""
        for rank in sorted(ranks, reverse=True):
            self._send(rank, message)

    def _send(self, rank: int, message: dict[str, Any]) -> None:
        peer = self._peers.get(rank)
        if peer is None:
            return
        data = memoryview(packed(message, LONGEST_ANSWER))
        try:
            for at in range(0, len(data), _PIECE):
                peer.connection.sendall(data[at : at + _PIECE])
        except OSError:
            with contextlib.suppress(OSError):  # its connection is read as closed next
                peer.connection.shutdown(socket.SHUT_RDWR)
