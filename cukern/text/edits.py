"""Edits of a text: ranges of its bytes, and what stands there instead."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import AnyStr

#: Replace the bytes from the first offset up to the second by the text.
Edit = tuple[int, int, str]


def edited(text: bytes, edits: Iterable[Edit]) -> bytes:
    """A text with edits, of which no two overlap."""
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new.encode() + text[end:]
    return text


def split(text: str, opening: str, closing: str) -> list[str]:
    """The parts of a text between commas that are outside brackets, without spaces around them and empty ones.

    >>> split("a, f(b, c), d<e, f>", "(<[{", ")>]}")
    ['a', 'f(b, c)', 'd<e, f>']
    """
    parts, depth = [""], 0
    for c in text:
        depth += (c in opening) - (c in closing)
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return [part.strip() for part in parts if part.strip()]


def blank(text: AnyStr) -> AnyStr:
    """As many spaces as a text has bytes or characters, with its line breaks."""
    if isinstance(text, bytes):
        return re.sub(rb"[^\n]", b" ", text)
    return re.sub(r"[^\n]", " ", text)
