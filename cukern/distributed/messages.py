"""Messages between the ranks and the rendezvous: JSON after its length, never pickled objects."""

from __future__ import annotations

import json
import socket
import struct
from typing import Any

#: The most bytes of a message; what claims to be longer is no message of a rank.
LONGEST = 1 << 20
_LENGTH = struct.Struct("!I")


def packed(message: dict[str, Any]) -> bytes:
    """The bytes of a message.

    Raises:
        ValueError: it is longer than :data:`LONGEST`.
    """
    text = json.dumps(message, separators=(",", ":")).encode()
    if len(text) > LONGEST:
        raise ValueError(f"a message of {len(text)} bytes is longer than {LONGEST}")
    return _LENGTH.pack(len(text)) + text


class Inbox:
    """Bytes that arrive, cut into messages."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def add(self, data: bytes) -> list[dict[str, Any]]:
        """The messages that are whole after ``data``.

        Raises:
            ValueError: the bytes are no messages.
        """
        self._bytes += data
        made = []
        while len(self._bytes) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._bytes)
            if length > LONGEST:
                raise ValueError(f"a message of {length} bytes is longer than {LONGEST}")
            end = _LENGTH.size + length
            if len(self._bytes) < end:
                break
            message = json.loads(self._bytes[_LENGTH.size : end])
            if not isinstance(message, dict):
                raise ValueError("a message is not a JSON object")
            del self._bytes[:end]
            made.append(message)
        return made


def received(connection: socket.socket, inbox: Inbox) -> list[dict[str, Any]] | None:
    """The messages that have come; None where the connection is closed or what comes are no messages."""
    try:
        data = connection.recv(65536)
        return inbox.add(data) if data else None
    except (OSError, ValueError, RecursionError):
        return None
