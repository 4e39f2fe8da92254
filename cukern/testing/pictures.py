"""Pictures as PNG files, by the standard library alone."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np


def png(image: np.ndarray[Any, Any], scale: int = 1) -> bytes:
    """A PNG file of an image of shape (height, width, 3), uint8, each of whose points is ``scale`` by ``scale``.

    Format: PNG Specification, Third Edition (W3C, 2025).
    """
    large = np.repeat(np.repeat(image, scale, axis=0), scale, axis=1)
    height, width, _ = large.shape
    lines = np.zeros((height, 1 + 3 * width), np.uint8)  # each begins with its filter, 0 for none
    lines[:, 1:] = large.reshape(height, 3 * width)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(lines.tobytes(), 9)) + _chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
