"""The ranks' standard output and error, each line prefixed with its rank."""

from __future__ import annotations

import codecs
import re
from typing import TextIO

#: Characters of a line that are held back until it ends.
_LONGEST_HELD = 1 << 16
_PARTS = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


class Output:
    """One of the launcher's two streams, to which all ranks write.

    Lines of different ranks do not mix: a line is written when it ends. A line that is longer than 64 KiB, or that
    begins again after a carriage return, as bars of progress do, is written as it comes; a rank that writes meanwhile
    begins a new line.

    Args:
        stream: where to write.

    >>> import sys
    >>> out = Output(sys.stdout)
    >>> out.add(0, b"first ")
    >>> out.add(1, b"second\\n")
    [1] second
    >>> out.add(0, b"line\\n")
    [0] first line
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._ranks: dict[int, _Rank] = {}
        #: The rank whose line the stream shows and that has not ended, if any.
        self._open: int | None = None

    def add(self, rank: int, data: bytes) -> None:
        """Write data from a rank."""
        line = self._ranks.setdefault(rank, _Rank())
        text = line.decoder.decode(data)
        ended = "\r" in text or "\n" in text
        line.held.append(text)
        line.length += len(text)
        if not (ended or line.live or line.length > _LONGEST_HELD):
            return
        text = "".join(line.held)
        end = text.rfind("\n") + 1
        if "\r" in text[end:].rstrip("\r") or text.endswith("\r") or len(text) - end > _LONGEST_HELD:
            line.live = True
        elif end:
            line.live = False
        if line.live:
            end = len(text) - text.endswith("\r")  # which may be the first half of a line's end
        self._write(rank, text[:end])
        line.hold(text[end:])

    def end(self, rank: int) -> None:
        """Write the rest of a rank's output, at its end."""
        line = self._ranks.pop(rank, None)
        if line is None:
            return
        text = "".join(line.held) + line.decoder.decode(b"", final=True)
        self._write(rank, text)
        if self._open == rank:
            self._stream.write("\n")
            self._stream.flush()
            self._open = None

    def _write(self, rank: int, text: str) -> None:
        if not text:
            return
        parts = []
        begun = self._open == rank
        if not begun and self._open is not None:
            parts.append("\n")
        for part in _PARTS.findall(text):
            parts.append(part if begun or part == "\r" else f"[{rank}] {part}")
            begun = not part.endswith(("\r", "\n"))
        self._open = None if text.endswith("\n") else rank
        self._stream.write("".join(parts))
        self._stream.flush()


class _Rank:
    """A rank's line.

    Attributes:
        held: its parts that are not written yet.
        length: their number of characters.
        live: whether what comes is written at once.
    """

    def __init__(self) -> None:
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.held: list[str] = []
        self.length = 0
        self.live = False

    def hold(self, text: str) -> None:
        self.held, self.length = [text] if text else [], len(text)
