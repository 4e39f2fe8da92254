"""Messages between the ranks and the rendezvous: JSON after its length, never pickled objects."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Iterator
from typing import Any

# A message that claims to be longer is refused.
#: The most bytes of a message by which a rank joins.
LONGEST_JOIN = 1 << 12
#: The most bytes of another message of a rank.
LONGEST = 1 << 20
#: The most bytes of an answer, which may hold the texts of all ranks.
LONGEST_ANSWER = (1 << 32) - 1
_LENGTH = struct.Struct("!I")


def packed(message: dict[str, Any], longest: int = LONGEST) -> bytes:
    """The bytes of a message.

    Raises:
        ValueError: it is longer than ``longest`` bytes.
    """
    text = json.dumps(message, separators=(",", ":")).encode()
    if len(text) > longest:
        raise ValueError(f"a message of {len(text)} bytes is longer than {longest}")
    return _LENGTH.pack(len(text)) + text


class Inbox:
    """A buffer of received bytes, which are split into messages.

    Attributes:
        longest: the most bytes of a message.
    """

    def __init__(self, longest: int) -> None:
        self._bytes = bytearray()
        self.longest = longest

    def add(self, data: bytes) -> None:
        """Append received bytes."""
        self._bytes += data

    def messages(self) -> Iterator[dict[str, Any]]:
        """Take out the messages that are whole, one by one: :attr:`longest` may change between them.

        Raises:
            ValueError: the bytes are no messages.
        """
        while len(self._bytes) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._bytes)
            if length > self.longest:
                raise ValueError(f"a message of {length} bytes is longer than {self.longest}")
            end = _LENGTH.size + length
            if len(self._bytes) < end:
                break
            message = json.loads(self._bytes[_LENGTH.size : end])
            if not isinstance(message, dict):
                raise ValueError("a message is not a JSON object")
            del self._bytes[:end]
            yield message


def receive(connection: socket.socket, inbox: Inbox) -> bool:
    """Wait for bytes and put them into the inbox; False where the connection is closed."""
    try:
        data = connection.recv(65536)
    except OSError:
        return False
    inbox.add(data)
    return bool(data)
