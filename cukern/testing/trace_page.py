"""The HTML page of a trace: a table of the accesses of each line, and a picture of each."""

from __future__ import annotations

import base64
import html
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .trace import Access, Trace

#: The style of pages.
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; color: #1b1f24; }
code, td.code { font: 13px ui-monospace, monospace; }
table { border-collapse: collapse; }
th, td { text-align: left; padding: .2rem .8rem; border-bottom: 1px solid #d8dee4; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
.good { color: #116329; } .fair { color: #9a6700; } .poor { color: #cf222e; font-weight: 600; }
figure { margin: 1.5rem 0; } img { image-rendering: pixelated; border: 1px solid #d8dee4; max-width: 100%; }
"""


def _quality(share: float) -> str:
    name = "good" if share > 0.9 else "fair" if share > 0.5 else "poor"
    return f'<td class="number {name}">{share:.0%}</td>'


def _row(trace: Trace, one: Access) -> str:
    unit = "turns" if one.shared else "sectors"
    cells = "".join(
        f'<td class="number">{text}</td>'
        for text in (one.size, one.requests, f"{one.moved} {unit}", one.least)
    )
    code = html.escape(trace.source(one.place))
    return (
        f'<tr><td class="code">{html.escape(one.place)}</td><td class="code">{code}</td>'
        f'<td class="code">{html.escape(one.array)}</td><td>{one.what}</td>{cells}'
        f"{_quality(one.efficiency)}{_quality(one.lanes)}</tr>"
    )


def _figure(trace: Trace, number: int, one: Access) -> str:
    picture = base64.b64encode(trace.picture(number)).decode()
    text = html.escape(f"{one.array}, {one.what} at {one.place}: {trace.source(one.place)}")
    return (
        f'<figure><img src="data:image/png;base64,{picture}" alt="{text}"><figcaption><code>{text}</code>'
        "</figcaption></figure>"
    )


def summary(trace: Trace, arch: str, gpu: str) -> str:
    """What a launch takes of a GPU, in a few sentences."""
    room, cost = trace.occupancy(arch), trace.cost(gpu)
    registers = "unknown, as there is no NVRTC" if room.registers is None else f"{room.registers} a thread"
    spilled = f", {room.spilled} bytes spilled" if room.spilled else ""
    return (
        f"Global memory: {cost.moved} bytes moved, at least {cost.least}, for which the memory of an {gpu} takes "
        f"{1e6 * cost.seconds:.3g} us. Bank conflicts: {cost.conflicts} turns. Occupancy on {arch}: {room.warps} of "
        f"{room.most} warps ({room.blocks} blocks), limited by {room.limit}. Registers: {registers}{spilled}."
    )


def page(trace: Trace, arch: str = "sm_90", gpu: str = "H200") -> str:
    """The page's HTML."""
    missed = f" Left out: {trace.missed} accesses, for which there was no room." if trace.missed else ""
    name = html.escape(trace.kernel)
    heads = (
        "place",
        "line",
        "array",
        "what",
        "bytes a thread",
        "requests",
        "moved",
        "least",
        "least / moved",
        "lanes",
    )
    head = "".join(f"<th>{one}</th>" for one in heads)
    rows = "\n".join(_row(trace, one) for one in trace.accesses)
    figures = "\n".join(_figure(trace, number, one) for number, one in enumerate(trace.accesses))
    return f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{name}</title><style>{STYLE}</style>
<h1>{name}</h1>
<p>Grid {trace.grid}, block {trace.block}. Traced: the first {trace.blocks} blocks.{missed}</p>
<p>{summary(trace, arch, gpu)}</p>
<table><tr>{head}</tr>
{rows}
</table>
<p>A request is what the threads of a warp do at one place together. Global memory moves sectors of 32 bytes; shared
memory serves each of 32 banks, words of 4 bytes, once a turn. Lanes are the warp's threads that take part.</p>
<h2>Which thread touched what</h2>
<p>The first traced block: threads from top to bottom, the touched part of the array from left to right; later accesses
are darker.</p>
{figures}
</html>
"""
