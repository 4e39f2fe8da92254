"""The template lines of addresses in a kernel's compiled code, for the report of a stopped kernel."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...text.signature import Unit
from ..interface import CompilerFailure
from .compiler import build_kernel, frames
from .translate import source

_DIRECTIVE = re.compile(r'^#line \d+ "([^"]+)"', re.MULTILINE)


def lines_at(unit: Unit, offsets: Sequence[int]) -> dict[int, str]:
    """`` at template:line`` for offsets into the library of ``unit``, as far as they are known.

    The kernel is compiled once more with a line table, which leaves its code unchanged.
    """
    if not offsets:
        return {}
    try:
        path = build_kernel(source(unit), lines=True)
    except CompilerFailure:
        return {}
    templates = templates_of(unit)
    lines = {}
    for offset, found in zip(offsets, frames(path, offsets), strict=True):
        if at := template_line(found, templates):
            lines[offset] = f" at {at}"
    return lines


def templates_of(unit: Unit) -> list[str]:
    """The templates that a text was rendered from: the prelude last, a longer name before one that it ends with."""
    return sorted(
        set(_DIRECTIVE.findall(unit.text)), key=lambda name: (name.startswith("prelude/"), -len(name))
    )


def template_line(frames: Sequence[str], templates: Sequence[str]) -> str | None:
    """The innermost of addr2line's frames that is in a template, and not in the prelude if there is another."""
    for of_prelude in (False, True):
        group = [name for name in templates if name.startswith("prelude/") == of_prelude]
        for frame in frames:
            file, _, number = frame.partition(" (")[0].rpartition(":")
            for template in group:
                if file.endswith(template) and number.isdigit():
                    return f"{template}:{number}"
    return None
