"""Pictures as PNG files, and as SVG with axes, by the standard library alone."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence
from html import escape
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


def ticks(first: int, end: int, most: int) -> range:
    """Round numbers from ``first`` on and below ``end``, about so many at most, or two.

    >>> list(ticks(7, 107, 6))
    [20, 40, 60, 80, 100]
    """
    step, scale = 1, 1
    while end - first > max(2, most) * step:
        step, scale = next(
            ((n * scale, scale) for n in (2, 5, 10) if n * scale > step), (20 * scale, 10 * scale)
        )
    return range(-(-first // step) * step, end, step)


class Drawing:
    """An SVG file of a plot with axes, for light pages and dark ones; text has 12 pixels or more.

    Coordinates are those of the plot, whose left upper corner is (0, 0).

    Args:
        width, height: of the plot, in pixels.
        title: what stands above it.
    """

    #: Pixels beside the plot, and the widths of characters, of text and of titles, in wide fonts.
    left, top, right, below, character, of_title = 78, 46, 20, 46, 7.3, 9.5

    def __init__(self, width: float, height: float, title: str) -> None:
        self.width, self.height, self.title = width, height, title
        self._made: list[str] = []
        self._under = 0

    def _add(self, text: str) -> None:
        self._made.append(text)

    def _text(self, x: float, y: float, text: str, anchor: str = "middle", more: str = "") -> None:
        self._add(f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}"{more}>{escape(text)}</text>')

    def tick_x(self, x: float, text: str) -> None:
        """A mark of the axis below the plot."""
        self._add(f'<path class="axis" d="M{x:g} {self.height:g}v5"/>')
        self._text(x, self.height + 18, text)

    def tick_y(self, y: float, text: str) -> None:
        """A mark of the axis left of the plot."""
        self._add(f'<path class="axis" d="M0 {y:g}h-5"/>')
        self._text(-9, y + 4, text, "end")

    def label_x(self, text: str) -> None:
        """What the axis below counts."""
        self._text(0, self.height + 38, text, "start")

    def label_y(self, text: str) -> None:
        """What the axis at the left counts."""
        at = f"{-self.left + 16:g} {self.height / 2:g}"
        self._text(-self.left + 16, self.height / 2, text, more=f' transform="rotate(-90 {at})"')

    def above(self, x: float, text: str, anchor: str = "middle") -> None:
        """A name of a part of the plot."""
        self._text(x, -6, text, anchor)

    def line(self, x: float, y: float, to_x: float, to_y: float, kind: str) -> None:
        """A line of a kind that the style knows."""
        self._add(f'<path class="{kind}" d="M{x:g} {y:g}L{to_x:g} {to_y:g}"/>')

    def bar(self, x: float, y: float, to_x: float, height: float, kind: str, name: str) -> None:
        """A bar with a name that shows when it is pointed at."""
        width = max(4.0, to_x - x)
        self._add(
            f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="2">'
            f"<title>{escape(name)}</title></rect>"
        )

    def mark(self, x: float, y: float, kind: str, name: str) -> None:
        """A sign of :data:`SIGNS` with a name that shows when it is pointed at."""
        path = f'<path class="{kind}" transform="translate({x:g} {y:g})" d="{SIGNS[kind]}">'
        self._add(f"{path}<title>{escape(name)}</title></path>")

    def image(self, file: bytes, name: str) -> None:
        """A PNG that fills the plot."""
        data = base64.b64encode(file).decode()
        self._add(
            f'<image width="{self.width:g}" height="{self.height:g}" preserveAspectRatio="none" '
            f'href="data:image/png;base64,{data}"><title>{escape(name)}</title></image>'
        )
        self._add(f'<rect class="frame" width="{self.width:g}" height="{self.height:g}"/>')

    def legend(self, entries: Sequence[tuple[str, str]]) -> None:
        """What signs, and bars of a kind that is no sign, mean: below the axis."""
        x, y = 6.0, self.height + 62
        for kind, name in entries:
            width = 38 + self.character * len(name)
            if x > 6 and x + width > max(self.width, 300):
                x, y = 6.0, y + 22
            if kind in SIGNS:
                self.mark(x, y, kind, name)
            else:
                self.bar(x - 4, y - 3, x + 12, 6, kind, name)
            self._text(x + 16, y + 4, name, "start")
            x += width
        self._under = int(y - self.height - self.below + 18)

    def svg(self) -> str:
        """The file's text, which fits into a page of HTML too."""
        wide = max(self.width, self.of_title * len(self.title), 300)
        width, height = self.left + wide + self.right, self.top + self.height + self.below + self._under
        return "\n".join(
            [
                f'<svg class="drawing" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
                f'width="{width:g}" height="{height:g}" role="img">',
                f"<title>{escape(self.title)}</title><style>{_STYLE}</style>",
                f'<g transform="translate({self.left} {self.top})">',
                f'<text class="title" x="0" y="-26">{escape(self.title)}</text>',
                f'<path class="axis" d="M0 0V{self.height:g}H{self.width:g}"/>',
                *self._made,
                "</g></svg>",
            ]
        )


#: The signs of steps, around (0, 0).
SIGNS = {
    "comes": "M-5 -6L3 0L-5 6M5 -6V6",
    "goes": "M-5 -6V6M-2 -6L6 0L-2 6",
    "sends": "M-5 -5H5L0 5Z",
    "commits": "M-5 -5H5V5H-5Z",
    "waits": "M0 -6L6 0L0 6L-6 0Z",
}
_STYLE = """
.drawing { font: 12px system-ui, sans-serif; color-scheme: light dark; background: #fff; }
.drawing text { fill: #1b1f24; } .drawing .title { font-size: 14px; font-weight: 600; }
.drawing path { fill: none; stroke: #57606a; stroke-width: 1.5; } .drawing .grid { stroke: #d8dee4; stroke-width: 1; }
.drawing .barrier { stroke: #1a7f37; stroke-dasharray: 4 3; } .drawing .comes, .drawing .goes { stroke: #1a7f37; }
.drawing .sends { fill: #0969da; stroke: #0969da; } .drawing .commits { stroke: #0969da; }
.drawing .waits { fill: #9a6700; stroke: #9a6700; } .drawing .flight { fill: #0969da; opacity: .55; }
.drawing image { image-rendering: pixelated; } .drawing .frame { fill: none; stroke: #8c959f; }
@media (prefers-color-scheme: dark) {
.drawing { background: #0d1117; } .drawing text { fill: #e6edf3; } .drawing path { stroke: #9aa7b4; }
.drawing .grid { stroke: #2b3642; } .drawing .barrier, .drawing .comes, .drawing .goes { stroke: #3fb950; }
.drawing .sends { fill: #58a6ff; stroke: #58a6ff; } .drawing .commits { stroke: #58a6ff; }
.drawing .waits { fill: #e3b341; stroke: #e3b341; } .drawing .flight { fill: #58a6ff; }
}
"""
