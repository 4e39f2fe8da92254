"""The one Jinja environment: a template and its variables give the text of a kernel.

``<< value >>`` writes a value, ``<% statement %>`` runs one, ``<# comment #>`` is left out. An
unbound variable is an error. The text carries ``#line`` directives, so that a compiler's message
names the template's own line.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import jinja2
import jinja2.ext

from .errors import TemplateError

_HERE = Path(__file__).parent
#: The library's own templates: inside the installed package, or beside it in a source tree.
TEMPLATES = _HERE / "templates" if (_HERE / "templates").is_dir() else _HERE.parent / "templates"
PRELUDE = "prelude/base.cuh"


@dataclass(frozen=True)
class Rendered:
    """The text of a kernel and what it was rendered from."""

    text: str
    template: str
    variables: Mapping[str, Any] = field(compare=False)


class _LineDirectives(jinja2.ext.Extension):
    """Writes ``#line`` wherever a statement makes the text's lines part from the template's."""

    def preprocess(self, source: str, name: str | None, filename: str | None = None) -> str:
        lines = source.split("\n")
        macros = 0
        for i, line in enumerate(lines[:-1]):
            code = line.strip()
            if code.startswith(("#endif", "#else", "#elif")) and not macros:
                # A compiler passes over the directives of a group that it skips.
                lines[i] = line + f"<< '\\n' ~ _line({i + 2}) >>"
                continue
            if code.startswith(("<% macro", "<% call", "<%- macro", "<%- call")):
                macros += 1
            whole = code.startswith(("<%", "<#")) or (code.endswith(("%>", "#>")) and _opened_above(lines, i))
            if code.endswith(("%>", "#>")):
                if whole and not macros and not (i and lines[i - 1].endswith("\\")):
                    lines[i] = line + f"<< _line({i + 2}) >>"
                elif not whole:
                    lines[i] = line + "<< '' >>"
            if code.startswith(("<% endmacro", "<% endcall", "<%- endmacro", "<%- endcall")):
                macros -= 1
        name = (name or "<kernel>").replace("\\", "/").replace('"', "'")
        head = f"<% set _line = _directive({name!r}) %><< _line(1) ~ '\\n' >>" if len(lines) > 1 else ""
        return head + "\n".join(lines)


def _opened_above(lines: list[str], i: int) -> bool:
    """Whether the tag that ends line ``i`` was opened on an earlier line."""
    line = lines[i]
    tag = "<%" if line.rstrip().endswith("%>") else "<#"
    return tag not in line


def _directive(name: str) -> Any:
    return lambda number: f'#line {number} "{name}"'


class _Sources(jinja2.BaseLoader):
    """Templates given as strings, and folders that a user adds, before the library's own."""

    def __init__(self) -> None:
        self.strings: dict[str, str] = {}
        self.folders: list[Path] = [TEMPLATES]

    def get_source(self, environment: jinja2.Environment, template: str) -> tuple[str, str | None, Any]:
        if template in self.strings:
            source = self.strings[template]
            return source, None, lambda: self.strings.get(template) == source
        for folder in self.folders:
            path = folder / template
            if path.is_file() and ".." not in Path(template).parts:
                return path.read_text(), str(path), _unchanged(path)
        raise jinja2.TemplateNotFound(template)


def _unchanged(path: Path) -> Callable[[], bool]:
    stamp = path.stat().st_mtime_ns
    return lambda: path.is_file() and path.stat().st_mtime_ns == stamp


_sources = _Sources()
_lock = threading.RLock()


@lru_cache(maxsize=1)
def environment() -> jinja2.Environment:
    """The environment that renders every kernel."""
    made = jinja2.Environment(
        variable_start_string="<<",
        variable_end_string=">>",
        block_start_string="<%",
        block_end_string="%>",
        comment_start_string="<#",
        comment_end_string="#>",
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        loader=_sources,
        extensions=[_LineDirectives],
    )
    made.globals["_directive"] = _directive
    return made


def add_templates(folder: str | Path) -> None:
    """Look for templates in ``folder`` before the library's own.

    Raises:
        NotADirectoryError: ``folder`` is not a folder.
    """
    path = Path(folder).expanduser().resolve()
    if not path.is_dir():
        raise NotADirectoryError(f"folder: expected an existing folder, got {path}")
    with _lock:
        if path in _sources.folders:
            _sources.folders.remove(path)
        _sources.folders.insert(0, path)


def add_source(source: str, label: str) -> str:
    """Make a string a template; the name it is known by is returned."""
    with _lock:
        name = f"<{label}>"
        number = 2
        while _sources.strings.setdefault(name, source) != source:
            name = f"<{label}.{number}>"
            number += 1
        return name


def source_of(template: str) -> str:
    """The text of a template, before rendering.

    Raises:
        TemplateError: there is no such template.
    """
    try:
        return _sources.get_source(environment(), template)[0]
    except jinja2.TemplateNotFound as error:
        raise _missing(str(error.name or template)) from None


def _missing(name: str) -> TemplateError:
    folders = ", ".join(str(folder) for folder in _sources.folders)
    return TemplateError(f"no template named {name!r} in {folders}")


def excerpt(text: str, line: int, around: int = 3) -> str:
    """The lines about ``line`` (counted from 1), numbered, that line marked."""
    lines = text.split("\n")
    shown = range(max(1, line - around), min(len(lines), line + around) + 1)
    return "\n".join(f"{'>' if n == line else ' '} {n:4d} | {lines[n - 1]}" for n in shown)


def _explain(error: jinja2.TemplateError, template: str, variables: Mapping[str, Any]) -> TemplateError:
    name, line = template, None
    if isinstance(error, jinja2.TemplateSyntaxError):
        name, line = error.name or template, error.lineno
    else:
        trace = error.__traceback__
        while trace is not None:
            found = _template_of(trace.tb_frame.f_code.co_filename, template)
            if found is not None:
                name, line = found, trace.tb_lineno
            trace = trace.tb_next
    message = str(error.message if isinstance(error, jinja2.TemplateSyntaxError) else error)
    parts = [f"{name}{'' if line is None else f', line {line}'}: {message}"]
    syntax = isinstance(error, jinja2.TemplateSyntaxError)
    if syntax and line is not None and "<<" in source_of(name).split("\n")[line - 1]:
        parts.append("'<<' opens an expression that '>>' closes; for a left shift write shl(x, n)")
    if line is not None:
        parts.append(excerpt(source_of(name), line))
    parts.append(f"bound variables: {describe(variables)}")
    return TemplateError("\n".join(parts))


def _template_of(filename: str, template: str) -> str | None:
    """The name of the template that Jinja's frames give ``filename`` to; strings have none of their own."""
    if filename == "<template>":
        return template
    for folder in _sources.folders:
        if Path(filename).is_relative_to(folder):
            return Path(filename).relative_to(folder).as_posix()
    return None


def describe(variables: Mapping[str, Any]) -> str:
    """The variables of a rendering on one line, long values shortened."""
    shown = []
    for key in sorted(variables):
        value = repr(variables[key])
        shown.append(f"{key}={value if len(value) <= 60 else value[:57] + '...'}")
    return ", ".join(shown) or "none"


def render(template: str, variables: Mapping[str, Any]) -> Rendered:
    """Render a template, the prelude before it.

    Args:
        template: the name of a template, from a folder or from :func:`add_source`.
        variables: the template's variables.

    Raises:
        TemplateError: no such template, a syntax error, or a variable that is not bound.
    """
    try:
        with _lock:
            body = environment().get_template(template).render(variables)
            bound = {"uses_half": "__half" in body, "uses_bfloat16": "__nv_bfloat16" in body}
            prelude = environment().get_template(PRELUDE).render(bound)
    except jinja2.TemplateNotFound as error:
        raise _missing(str(error.name or template)) from None
    except jinja2.TemplateError as error:
        raise _explain(error, template, variables) from None
    return Rendered(prelude + body, template, dict(variables))


def locate(log: str) -> tuple[str, int] | None:
    """The template and line of the first error in a compiler's log, as its ``#line`` made it."""
    for line in log.split("\n"):
        head, found, _ = line.partition("error")
        if not found:
            continue
        for name in sorted([*_sources.strings, *_named_before(head)], key=len, reverse=True):
            _, found, rest = head.partition(name)
            number = rest[1:].replace(")", ":").split(":")[0]
            if found and rest[:1] in ("(", ":") and number.isdigit() and _exists(name):
                return name, int(number)
    return None


def _named_before(head: str) -> list[str]:
    """What may be a file's name at the start of a compiler's message."""
    return [head.split(mark)[0].strip() for mark in ("(", ":")]


def _exists(name: str) -> bool:
    return name in _sources.strings or any((folder / name).is_file() for folder in _sources.folders)
