"""Pictures from traces of kernels: `python docs/picture.py` writes `docs/race.svg`, of the README's race, and
`docs/timeline.svg`, of the pipeline in `docs/pages/ten-bugs.md`.

The race's template is rendered for a block of 8 threads, so that each thread and element has room for a mark.
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path
from typing import NamedTuple

import cukern as ck

DOCS = Path(__file__).parent
_BLOCK = 8
#: Pixels: the side of a cell, the left and top of the first grid, what is between two grids.
_CELL, _LEFT, _TOP, _GAP = 16, 88, 92, 42
_SIDE = _BLOCK * _CELL
# One opaque card, as readable on a light page as on a dark one.
_BACK, _TEXT, _FAINT, _LINE = "#111820", "#e6edf3", "#9aa7b4", "#2b3642"
_WRITE, _READ, _BARRIER, _RACE = "#e3b341", "#58a6ff", "#3fb950", "#ff6b62"
_FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, monospace"


class Mark(NamedTuple):
    """An access of a thread to an element of the shared array."""

    thread: int
    element: int
    writes: bool


class Phase(NamedTuple):
    """What a block does to the shared array at a line of the kernel, once round its loop."""

    line: int
    marks: list[Mark]


def kernel() -> str:
    """The text of the README's first kernel."""
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    found = re.search(r'^text = """\n(.*?)"""$', readme, re.MULTILINE | re.DOTALL)
    assert found is not None, "README.md has no kernel in text"
    return "\n" + found[1]


def launched() -> tuple[list[Phase], ck.KernelReport]:
    """The phases of a launch of one block, and the report of its race."""
    racy = ck.Kernel(kernel(), name="rms_norm", block=_BLOCK)
    x = ck.ones((1, _BLOCK), device="host")
    with ck.testing.traced() as traces:
        racy(x, ck.empty_like(x), _BLOCK, grid=1)
    with ck.testing.checked(collect=True) as reports:
        racy(x, ck.empty_like(x), _BLOCK, grid=1)
    (trace,), (report,) = traces, reports
    lines: dict[int, list[list[Mark]]] = {}
    for access, events in zip(trace.accesses, trace._groups, strict=True):
        if access.array == report.array:
            marks = [
                Mark(int(e["thread"]), int(e["offset"]) // access.size, bool(e["writes"])) for e in events
            ]
            lines.setdefault(_line(access.place), []).append(marks)
    return [Phase(line, marks) for line, groups in lines.items() for marks in _rounds(groups)], report


def _line(place: str) -> int:
    return int(place.rpartition(":")[2])


def _rounds(groups: list[list[Mark]]) -> list[list[Mark]]:
    """The accesses of a line by rounds of its loop: thread 0 takes part in each."""
    counts = [sum(mark.thread == 0 for mark in marks) for marks in groups]
    rounds: list[list[Mark]] = [[] for _ in range(min(counts))]
    for marks, count in zip(groups, counts, strict=True):
        seen = [0] * _BLOCK
        for mark in marks:
            rounds[seen[mark.thread] * len(rounds) // count].append(mark)
            seen[mark.thread] += 1
    return rounds


def _words(x: float, y: float, text: str, color: str = _TEXT, anchor: str = "middle", more: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}" fill="{color}" text-anchor="{anchor}"{more}>{escape(text)}</text>'


def _mark(x: float, y: float, writes: bool, color: str) -> str:
    """A filled square for a write; a ring, which leaves a square below it visible, for a read."""
    if writes:
        return f'<rect x="{x - 6:g}" y="{y - 6:g}" width="12" height="12" rx="2" fill="{color}"/>'
    return f'<circle cx="{x:g}" cy="{y:g}" r="3.5" fill="{_BACK}" stroke="{color}" stroke-width="2"/>'


def _grid(left: int, phase: Phase, race: set[Mark]) -> list[str]:
    """A phase: threads from top to bottom, elements from left to right."""
    kinds = {mark.writes for mark in phase.marks}
    step = max(mark.element - mark.thread for mark in phase.marks)
    what = f"half = {step}" if len(kinds) == 2 else "writes" if True in kinds else "reads"
    made = [
        _words(left + _SIDE / 2, _TOP - 30, f"line {phase.line}"),
        _words(left + _SIDE / 2, _TOP - 12, what, _FAINT),
    ]
    for i in range(_BLOCK + 1):
        path = f"M{left} {_TOP + i * _CELL}h{_SIDE}M{left + i * _CELL} {_TOP}v{_SIDE}"
        made.append(f'<path d="{path}" stroke="{_LINE}"/>')
    made += [_words(left + (i + 0.5) * _CELL, _TOP + _SIDE + 15, f"{i}", _FAINT) for i in range(_BLOCK)]
    for mark in sorted(phase.marks, key=lambda mark: not mark.writes):
        color = _RACE if mark in race else _WRITE if mark.writes else _READ
        x, y = left + (mark.element + 0.5) * _CELL, _TOP + (mark.thread + 0.5) * _CELL
        made.append(_mark(x, y, mark.writes, color))
    return made


def _between(x: float, racy: bool) -> list[str]:
    """What stands between two phases."""
    color, text = (_RACE, "no barrier") if racy else (_BARRIER, "__syncthreads()")
    dash, middle = ' stroke-dasharray="4 4"' if racy else "", _TOP + _SIDE / 2
    return [
        f'<path d="M{x:g} {_TOP - 8}v{_SIDE + 16}" stroke="{color}" stroke-width="2"{dash}/>',
        _words(x - 6, middle, text, color, more=f' transform="rotate(-90 {x - 6:g} {middle:g})"'),
    ]


def svg() -> str:
    """The picture."""
    phases, report = launched()
    wrote, read = _line(report.other_place), _line(report.place)
    width, below = _LEFT + len(phases) * (_SIDE + _GAP) - _GAP + 24, _TOP + _SIDE
    made = [
        _words(
            24,
            34,
            "What the threads of a block do to its shared array",
            anchor="start",
            more=' font-size="15"',
        )
    ]
    for i in range(_BLOCK):
        made.append(_words(_LEFT - 10, _TOP + (i + 0.75) * _CELL, f"thread {i}", _FAINT, "end"))
    made.append(_words(_LEFT - 10, below + 15, f"{report.array}[ ]", _FAINT, "end"))
    for number, phase in enumerate(phases):
        left = _LEFT + number * (_SIDE + _GAP)
        following = phases[number + 1].line if number + 1 < len(phases) else 0
        race = {mark for mark in phase.marks if mark.element == report.element}
        if (phase.line, following) == (wrote, read):
            race = {mark for mark in race if mark.writes}
        elif phase.line == read:
            race = {mark for mark in race if mark.thread != report.other_thread[0]}
        else:
            race = set()
        made += _grid(left, phase, race)
        if following:
            made += _between(left + _SIDE + _GAP / 2 + 3, following == read)
    x = float(_LEFT)
    for text, writes, color in (("writes", True, _WRITE), ("reads", False, _READ), ("races", True, _RACE)):
        made += [_mark(x + 6, below + 46, writes, color), _words(x + 20, below + 50, text, _FAINT, "start")]
        x += 92
    message = report.message.split("\n")[0].partition(": ")[2]
    first, second, rest = message.partition(", written by")
    made += [
        _words(_LEFT, below + 84, first + ",", _RACE, "start"),
        _words(_LEFT, below + 104, second.removeprefix(", ") + rest, _RACE, "start"),
    ]
    height = below + 128
    title = f"<title>{escape(message)}</title>"
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" font-family="{_FONT}" font-size="12">'
    )
    card = f'<rect width="{width}" height="{height}" rx="10" fill="{_BACK}"/>'
    return "\n".join([head, title, card, *made, "</svg>", ""])


def timeline() -> str:
    """The timeline of the page's pipeline."""
    page = (DOCS / "pages" / "ten-bugs.md").read_text(encoding="utf-8")
    found = re.search(r'^pipeline = ck.Kernel\("""(.*?)"""', page, re.MULTILINE | re.DOTALL)
    assert found is not None, "ten-bugs.md has no pipeline"
    tiles = 4
    x = ck.ones(256 * tiles, device="host")
    with ck.testing.traced() as traces:
        ck.Kernel(found[1], name="tiles_in_flight", block=64)(x, ck.empty_like(x), tiles, grid=1)
    return traces[0].timeline().svg() + "\n"


if __name__ == "__main__":
    (DOCS / "race.svg").write_text(svg(), encoding="utf-8")
    (DOCS / "timeline.svg").write_text(timeline(), encoding="utf-8")
