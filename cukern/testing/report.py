"""What was checked of a kernel, how, with what result, and what was not: for a terminal, as JSON and as one page."""

from __future__ import annotations

import html
import json
import os
import textwrap
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..errors import require_choice
from ..files import replacing
from .trace_page import HEAD

#: What a line's result may be.
RESULTS = ("passed", "failed", "not checked")
_HEADS = ("checked", "result", "how", "found", "not shown")
#: In a narrow window each check is a list of its cells.
_STYLE = """
td { min-width: 12ch; overflow-wrap: anywhere; } td:nth-child(3) { min-width: 22ch; } td.found { min-width: 36ch; }
pre { margin: 0; white-space: pre-wrap; overflow-wrap: anywhere; }
@media (max-width: 50rem) {
tr, td, td.found { display: block; min-width: 0; } th, td:empty { display: none; } td { border: 0; padding: .1rem 0; }
tr { border-bottom: 1px solid var(--line); padding: .5rem 0; }
td::before { content: attr(data-name) ": "; font-weight: 600; }
}
"""
_MARKS = {"passed": "good", "failed": "poor", "not checked": "fair"}


@dataclass(frozen=True)
class Line:
    """One check.

    Attributes:
        what: what was checked.
        how: by what means, and of how much.
        result: ``"passed"``, ``"failed"`` or ``"not checked"``.
        found: what was found, or measured.
        left_out: what this check does not show.
        reason: the code of a failure; empty otherwise.
        place: the first fault's line, as ``file:line``; empty if that is not known.

    >>> line = Line("results", "beside the reference", "failed", "y[3] is 0", reason="wrong", place="k.cu:5")
    >>> line.result, line.place
    ('failed', 'k.cu:5')
    """

    what: str
    how: str
    result: str
    found: str = ""
    left_out: str = ""
    reason: str = ""
    place: str = ""

    def __post_init__(self) -> None:
        require_choice("result", self.result, RESULTS)


@dataclass
class Report:
    """The checks of a kernel.

    Attributes:
        title: of what.
        lines: the checks, in their order.
        facts: how to repeat them: seeds, versions, devices.

    ``str(report)`` is for a terminal, :meth:`json` for programs, :meth:`page` for people.

    >>> wrong = Line("results", "compared", "failed", reason="wrong")
    >>> report = Report("k", [Line("inputs", "compared", "passed"), wrong])
    >>> report.ok, report.reason, report.verdict
    (False, 'wrong', 'k: failed (wrong)')
    """

    title: str
    lines: list[Line] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether something was checked and nothing failed."""
        results = [line.result for line in self.lines]
        return "passed" in results and "failed" not in results

    @property
    def first(self) -> Line | None:
        """The first line that failed."""
        return next((line for line in self.lines if line.result == "failed"), None)

    @property
    def reason(self) -> str:
        """The code of the first failure; empty if nothing failed."""
        return "" if self.first is None else self.first.reason

    @property
    def place(self) -> str:
        """Where the first failure is, as ``file:line``; empty if that is not known."""
        return "" if self.first is None else self.first.place

    @property
    def verdict(self) -> str:
        """One line: what came out."""
        if self.first is not None:
            where = f" at {self.place}" if self.place else ""
            return f"{self.title}: failed ({self.reason}){where}"
        return f"{self.title}: {'passed' if self.ok else 'nothing was checked'}"

    def __str__(self) -> str:
        parts = []
        for line in self.lines:
            parts.append(f"{line.result:<12}{line.what}: {line.how}")
            where = f" [{line.reason}]" if line.reason else ""
            for head, text in (("", line.found + where), ("not shown: ", line.left_out)):
                if text.strip():
                    parts.append(textwrap.indent(head + text.strip(), " " * 12))
        facts = ", ".join(f"{name} {value}" for name, value in self.facts.items())
        return "\n".join([*parts, self.verdict, *([facts] if facts else [])])

    def json(self) -> str:
        """All of it as JSON."""
        whole = {
            "title": self.title,
            "ok": self.ok,
            "reason": self.reason,
            "place": self.place,
            "lines": [asdict(line) for line in self.lines],
            "facts": self.facts,
        }
        return json.dumps(whole, indent=2) + "\n"

    def page(self) -> str:
        """All of it as a page of HTML."""
        rows = "\n".join(_row(line) for line in self.lines)
        facts = ", ".join(f"{name} {value}" for name, value in self.facts.items())
        title, color = html.escape(self.title), "good" if self.ok else "poor"
        heads = "".join(f"<th>{head}</th>" for head in _HEADS)
        return f"""{HEAD.format(title=title, more=_STYLE)}
<h1>{title}</h1>
<p class="{color}">{html.escape(self.verdict)}</p>
<div class="scroll"><table><tr>{heads}</tr>
{rows}
</table></div>
<p>{html.escape(facts)}</p>
</html>
"""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page to ``path``, and the JSON beside it, with the suffix ``.json``."""
        to = Path(path)
        _write(to, self.page())
        _write(to.with_suffix(".json"), self.json())


def _row(line: Line) -> str:
    found = html.escape("\n".join(one for one in (line.found, line.reason and f"[{line.reason}]") if one))
    found = f"<pre><code>{found}</code></pre>" if found else ""
    texts = (html.escape(line.what), line.result, html.escape(line.how), found, html.escape(line.left_out))
    kinds = "", _MARKS[line.result], "", "found", ""
    cells = zip(_HEADS, kinds, texts, strict=True)
    made = "".join(f'<td class="{kind}" data-name="{name}">{text}</td>' for name, kind, text in cells)
    return f"<tr>{made}</tr>"


def _write(path: Path, text: str) -> None:
    with replacing(path) as file:
        file.write(text.encode())
