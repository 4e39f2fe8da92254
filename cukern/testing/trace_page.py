"""The HTML page of a trace: a table of the accesses of each line, and a picture of each."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .timeline import ranges

if TYPE_CHECKING:
    from .trace import Access, Trace

#: The most rows of a table of steps.
_MOST_STEPS = 400
#: The head of a page of HTML: a title and, between ``<style>`` tags, more style.
HEAD = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title><style>
:root {{ color-scheme: light dark; --text: #1b1f24; --back: #fff; --line: #d8dee4;
--good: #116329; --fair: #7d4e00; --poor: #cf222e; }}
@media (prefers-color-scheme: dark) {{ :root {{
--text: #e6edf3; --back: #0d1117; --line: #2b3642; --good: #3fb950; --fair: #e3b341; --poor: #ff6b62; }} }}
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem;
color: var(--text); background: var(--back); }}
h1, p, figcaption {{ overflow-wrap: anywhere; }} h1 {{ font-size: 1.5rem; }} h2 {{ margin-top: 2rem; }}
code, td.code {{ font: 13px ui-monospace, monospace; }}
.scroll {{ overflow-x: auto; margin: 1rem 0; }}
table {{ border-collapse: collapse; }}
th, td {{ text-align: left; vertical-align: baseline; padding: .25rem .8rem; border-bottom: 1px solid var(--line); }}
th {{ font-size: 13px; }} td.code {{ white-space: pre-wrap; overflow-wrap: anywhere; min-width: 9ch; }}
td.line {{ min-width: 24ch; }} td.place {{ min-width: 16ch; }}
.number {{ text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }}
.good {{ color: var(--good); }} .fair {{ color: var(--fair); }} .poor {{ color: var(--poor); font-weight: 600; }}
figure {{ margin: 1.5rem 0; }}
{more}</style>
"""


def _quality(text: str) -> str:
    """The class of a cell with a share."""
    if not text.endswith("%") or not text[:-1].isdigit():
        return ""
    return "good" if int(text[:-1]) > 90 else "fair" if int(text[:-1]) > 50 else "poor"


def _row(trace: Trace, one: Access) -> list[str]:
    moved = f"{one.moved} {'turns' if one.shared else 'sectors'}"
    lanes = "" if one.what == "copies" and one.lanes < 1 else f"{one.lanes:.0%}"  # one thread sends for many
    numbers = f"{one.size}", f"{one.requests}", moved, f"{one.least}", f"{one.efficiency:.0%}", lanes
    return [one.place, trace.source(one.place), one.array, one.what, *numbers]


def _figure(svg: str, caption: str) -> str:
    text = f"<figcaption><code>{html.escape(caption)}</code></figcaption>" if caption else ""
    return f'<figure><div class="scroll">{svg}</div>{text}</figure>'


def _table(heads: str, rows: Sequence[Sequence[str]]) -> str:
    """A table that is scrolled where the page is narrower, by the classes and names of its columns: ``number: lanes``.

    Args:
        heads: separated by commas.
        rows: their cells' text.
    """
    columns = [head.strip().partition(": ")[::2] for head in heads.split(",")]
    cells = "".join(f'<th class="{kind}">{name}</th>' for kind, name in columns)
    lines = [f'<div class="scroll"><table><tr>{cells}</tr>']
    for row in rows:
        texts = zip(columns, row, strict=True)
        cells = "".join(
            f'<td class="{kind} {_quality(text)}">{html.escape(text)}</td>' for (kind, _), text in texts
        )
        lines.append(f"<tr>{cells}</tr>")
    return "\n".join([*lines, "</table></div>"])


def amount(number: float, unit: str) -> str:
    """A number with its unit and a prefix, as ``1.5 GFLOP``."""
    for prefix, size in (
        ("T", 1e12),
        ("G", 1e9),
        ("M", 1e6),
        ("k", 1e3),
        ("", 1.0),
        ("m", 1e-3),
        ("u", 1e-6),
        ("n", 1e-9),
        ("p", 1e-12),
    ):
        if abs(number) >= size:
            return f"{number / size:.3g} {prefix}{unit}"
    return f"{number:.3g} {unit}"


def _operations(trace: Trace) -> str:
    """The operations of each line, and those of tensor cores by kind."""
    told = [(place, trace.source(place), count) for place, count in trace.flops_at.items()]
    told += [
        (kind, "", count)
        for kind, count in (trace.operations or {}).items()
        if count and kind.startswith("tensor")
    ]
    if not told:
        return ""
    told.sort(key=lambda one: -one[2])
    rows = [(place, code, f"{count}") for place, code, count in told]
    return f"""<h2>Floating-point operations</h2>
<p>Of all blocks. A fused multiply-add is two, a call of a function one.</p>
{_table("code place: place, code line: line, number: operations", rows)}"""


def _timeline(trace: Trace) -> str:
    timeline = trace.timeline()
    if not timeline.steps:
        return ""
    rows = [
        (f"{one.step}", ranges(one.warps), str(one), one.place, trace.source(one.place))
        for one in timeline.steps[:_MOST_STEPS]
    ]
    left = len(timeline.steps) - len(rows)
    more = f"<p>Left out: {left} more.</p>" if left else ""
    return f"""<h2>Barriers and asynchronous copies</h2>
<p>The first traced block. A step follows the step of its warp before, and all that it waits for; steps are no measure
of time. Bars are copies and products in flight, from their issue to the end of the wait for them.</p>
{_figure(timeline.svg(), "")}
<details><summary>All steps</summary>
{_table("number: step, number: warps, : what, code place: place, code line: line", rows)}{more}</details>"""


def _facts(trace: Trace, arch: str, gpu: str) -> list[str]:
    """What a launch takes of a GPU, in sentences."""
    room, cost, roof = trace.occupancy(arch), trace.cost(gpu), trace.roofline(gpu)
    registers = f"unknown, as {room.unknown}" if room.registers is None else f"{room.registers} a thread"
    spilled = f", {room.spilled} bytes spilled" if room.spilled else ""
    about, memory = "" if roof.exact else "about ", amount(roof.memory, "s")
    facts = [
        f"Global memory: {cost.moved} bytes moved, at least {cost.least}; {about}{roof.bytes}, if each "
        f"is moved once, which takes the memory of an {gpu} {memory}.",
        f"Bank conflicts: {cost.conflicts} turns.",
        f"Occupancy on {arch}: {room.warps} of {room.most} warps ({room.blocks} blocks), limited by {room.limit}. "
        f"Registers: {registers}{spilled}.",
    ]
    if roof.arithmetic is None:
        return [
            *facts,
            "Floating-point operations were not counted: the compiler refuses the text that counts them.",
        ]
    calls = f"; calls of functions such as exp, not among them: {roof.calls}" if roof.calls else ""
    intensity = "" if roof.intensity is None else f", {roof.intensity:.3g} a byte moved once"
    peak = f"at the peak rate they take {amount(roof.arithmetic, 's')}"
    counted = f"Floating-point operations: {roof.flops}{intensity}; {peak}"
    bound = f"The launch is bound by {roof.bound}: it takes {amount(roof.seconds, 's')} at least."
    return [*facts, f"{counted}{calls}.", bound]


def summary(trace: Trace, arch: str, gpu: str) -> str:
    """What a launch takes of a GPU, in a few sentences."""
    return " ".join(_facts(trace, arch, gpu))


def page(trace: Trace, arch: str = "sm_90", gpu: str = "H200") -> str:
    """The page's HTML."""
    missed = f" {trace.left_out.capitalize()}." if trace.left_out else ""
    name = html.escape(trace.kernel)
    facts = "".join(f"<li>{html.escape(one)}</li>" for one in _facts(trace, arch, gpu))
    count = math.prod(trace.grid)
    blocks = f"{count} block{'s' * (count > 1)}"
    heads = (
        "code place: place, code line: line, code: array, : what, number: bytes a thread, number: requests"
    )
    heads += ", number: moved, number: least, number: least / moved, number: lanes"
    table = _table(heads, [_row(trace, one) for one in trace.accesses])
    figures = "\n".join(
        _figure(trace.svg(number), trace.source(one.place)) for number, one in enumerate(trace.accesses)
    )
    return f"""{HEAD.format(title=name, more="")}
<h1>{name}</h1>
<p>Grid {trace.grid}, block {trace.block}. Traced: {trace.blocks} of its {blocks}.{missed}</p>
<ul>{facts}</ul>
{table}
<p>A request is what the threads of a warp do at one place together. Global memory moves sectors of 32 bytes; shared
memory serves each of 32 banks, words of 4 bytes, once a turn. Lanes are the warp's threads that take part.</p>
{_operations(trace)}
{_timeline(trace)}
<h2>Which thread touched what</h2>
<p>The first traced block; later accesses are darker.</p>
{figures}
</html>
"""
