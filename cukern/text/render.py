"""Render templates and their variables to the text of kernels, with one Jinja environment.

``<< value >>`` inserts a value, ``<% statement %>`` runs a statement, ``<# comment #>`` is left out. An
unbound variable is an error. The text has ``#line`` directives, so that compiler messages name lines of the
template.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ..errors import TemplateError
from .bytecode import Bytecode
from .line_directives import place_directives

if TYPE_CHECKING:
    import jinja2

    from .stand_ins import StandIn

_PACKAGE = os.path.dirname(os.path.dirname(__file__))
#: The folder of the library's own templates: inside the installed package, or beside it in a source tree.
TEMPLATES = os.path.join(_PACKAGE, "templates")
if not os.path.isdir(TEMPLATES):
    TEMPLATES = os.path.join(os.path.dirname(_PACKAGE), "templates")
PRELUDE = "prelude/base.cuh"
_HALF_WORDS = ("__half", "__half2", "half", "half2")
_BFLOAT16_WORDS = ("__nv_bfloat16", "__nv_bfloat162", "nv_bfloat16", "nv_bfloat162")


@dataclass(frozen=True)
class Rendered:
    """The text of a kernel, its template and variables, and whether it is plain CUDA C++ instead of a template."""

    text: str
    template: str
    variables: Mapping[str, Any] = field(compare=False)
    plain: bool = False


class _Sources:
    """Loads templates from strings, then from folders that a user added, then from the library's folder."""

    def __init__(self) -> None:
        self.strings: dict[str, str] = {}
        self.folders: list[str] = [TEMPLATES]

    def find(self, template: str) -> str | None:
        if os.path.isabs(template) or ".." in template.split("/"):
            return None
        return next(filter(os.path.isfile, (os.path.join(one, template) for one in self.folders)), None)

    def load(self, template: str) -> tuple[str, str | None, Callable[[], bool]] | None:
        if template in self.strings:
            source = self.strings[template]
            return source, None, lambda: self.strings.get(template) == source
        path = self.find(template)
        if path is None:
            return None
        with open(path, encoding="utf-8") as file:
            return file.read(), path, _unchanged(path)


def _unchanged(path: str) -> Callable[[], bool]:
    stamp = os.stat(path).st_mtime_ns
    return lambda: os.path.isfile(path) and os.stat(path).st_mtime_ns == stamp


_sources = _Sources()
#: The compiled templates of bundles.
bytecode = Bytecode()
_lock = threading.RLock()


@lru_cache(maxsize=1)
def environment() -> jinja2.Environment:
    """The environment that renders every kernel."""
    from .environment import environment

    return environment(_sources.load, bytecode)


def add_templates(folder: str | os.PathLike[str]) -> None:
    """Look for templates in ``folder`` before the library's own.

    Raises:
        NotADirectoryError: ``folder`` is not a folder.
    """
    path = os.path.realpath(os.path.expanduser(folder))
    if not os.path.isdir(path):
        raise NotADirectoryError(f"folder: expected an existing folder, got {path}")
    with _lock:
        if path in _sources.folders:
            _sources.folders.remove(path)
        _sources.folders.insert(0, path)


def add_source(source: str, label: str) -> str:
    """Register a string as a template; return its name, which is the same for the same string."""
    with _lock:
        name = f"<{label}>"
        # A text of a `#line` has the lines of others, of which one may have this name.
        if source.startswith("#line ") or _sources.strings.setdefault(name, source) != source:
            from hashlib import sha256

            name = f"<{label} {sha256(source.encode()).hexdigest()[:8]}>"
            _sources.strings[name] = source
        return name


def require(template: str) -> None:
    """Raise a TemplateError if there is no such template."""
    if not _exists(template):
        raise _missing(template)


def source_of(template: str) -> str:
    """The text of a template, before rendering.

    Raises:
        TemplateError: there is no such template, or it is not UTF-8.
    """
    try:
        loaded = _sources.load(template)
    except UnicodeDecodeError as error:
        raise TemplateError(f"{template}: expected UTF-8 text; {error}") from None
    if loaded is None:
        raise _missing(template)
    return loaded[0]


def _missing(name: str) -> TemplateError:
    folders = ", ".join(_sources.folders)
    return TemplateError(f"no template named {name!r} in {folders}")


def is_own(template: str) -> bool:
    """Whether a template is the library's own, not a user's string or file."""
    path = _sources.find(template)
    return template not in _sources.strings and path is not None and _within(path, TEMPLATES)


def excerpt(text: str, line: int, around: int = 3) -> str:
    """The lines around ``line`` (counted from 1), numbered, with that line marked."""
    lines = text.split("\n")
    shown = range(max(1, line - around), min(len(lines), line + around) + 1)
    return "\n".join(f"{'>' if n == line else ' '} {n:4d} | {lines[n - 1]}" for n in shown)


def _explain(error: Exception, template: str, variables: Mapping[str, Any]) -> TemplateError:
    """The error of a rendering, with the template's line and the variables."""
    import jinja2

    name, line = template, None
    syntax = isinstance(error, jinja2.TemplateSyntaxError)
    if isinstance(error, jinja2.TemplateSyntaxError):
        name, line = error.name or template, error.lineno
    else:
        trace = error.__traceback__
        while trace is not None:
            inner = _template_of(trace.tb_frame.f_code.co_filename, template)
            if inner is not None:
                name, line = inner, trace.tb_lineno
            trace = trace.tb_next
    if isinstance(error, jinja2.TemplateNotFound):
        message = str(_missing(str(error.name or error)))
    elif isinstance(error, jinja2.TemplateError):
        message = str(error.message)
    else:
        message = f"{type(error).__name__}: {error}"
    parts = [f"{name}{'' if line is None else f', line {line}'}: {message}"]
    if line is not None:
        text = source_of(name)
        opened = [n for n, code in enumerate(text.split("\n")[:line], 1) if "<<" in code]
        if syntax and opened:
            parts.append(
                f"'<<' (last on line {opened[-1]}) opens an expression that '>>' closes; "
                "for a left shift write shl(x, n), for an argument of a C++ template View< << elem >> >; "
                "if the text is CUDA C++ and no template, Kernel(..., plain=True)"
            )
        parts.append(excerpt(text, line))
    parts.append(f"bound variables: {describe(variables)}")
    return TemplateError("\n".join(parts))


def _template_of(filename: str, template: str) -> str | None:
    """The template whose file name in Jinja's frames is ``filename``; string templates have no file name."""
    if filename == "<template>":
        return template
    for folder in _sources.folders:
        if _within(filename, folder):
            return filename[len(folder) + 1 :]
    return None


def _within(path: str, folder: str) -> bool:
    return path.startswith(folder + os.sep)


def describe(variables: Mapping[str, Any]) -> str:
    """The variables of a rendering on one line, long values shortened."""
    shown = []
    for key in sorted(variables):
        value = repr(variables[key])
        shown.append(f"{key}={value if len(value) <= 60 else value[:57] + '...'}")
    return ", ".join(shown) or "none"


def table(rows: Iterable[Sequence[str]], between: str = "  ") -> str:
    """Rows of words, the words of a column one below the other."""
    rows = list(rows)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        between.join(word.ljust(n) for word, n in zip(row, widths, strict=True)).rstrip() for row in rows
    )


# A word outside comments and strings.
_WORD = re.compile(r"""//.*|(?s:/\*.*?\*/)|"(?:\\.|[^"\\\n])*"|(\w+)""")


def _named(text: str, *words: str) -> set[str]:
    """Those of ``words`` that a text has outside comments and strings."""
    if not any(word in text for word in words):
        return set()
    return {*words} & {*_WORD.findall(text)}


@lru_cache(maxsize=64)
def _placed(prelude: str) -> str:
    """The prelude with ``#line`` directives, cached: there are few different ones."""
    return place_directives(prelude.removesuffix("\n")) + "\n"


def render(
    template: str, variables: Mapping[str, Any], stand_in: StandIn | None = None, plain: bool = False
) -> Rendered:
    """Render a template, preceded by the prelude.

    Args:
        template: the name of a template, in a folder or from :func:`add_source`.
        variables: the template's variables.
        stand_in: the number type that replaces all floats, if any.
        plain: whether the text is CUDA C++ as it stands, with ``#line`` directives, which uses no variable.

    Raises:
        TemplateError: there is no such template, it has a syntax error or an unbound variable, or an
            expression fails.
    """
    source = source_of(template)
    try:
        with _lock:
            body = source if plain else environment().get_template(template).render(variables)
            if stand_in is not None:
                body = stand_in.text(body)
            named = _named(body, *_HALF_WORDS, *_BFLOAT16_WORDS, "complex")
            bound = {
                "uses_half": not named.isdisjoint(_HALF_WORDS),
                "uses_complex": "complex" in named,
                "uses_dual": stand_in is not None and stand_in.dual,
                "uses_bfloat16": not named.isdisjoint(_BFLOAT16_WORDS),
            }
            prelude = _placed(environment().get_template(PRELUDE).render(bound))
    except Exception as error:
        raise _explain(error, template, variables) from None
    text = prelude + (body if plain else place_directives(body))
    return Rendered(text, template, dict(variables), plain)


@lru_cache(maxsize=32)
def prelude(template: str) -> str:
    """A file of the library's own ``prelude/`` for a plain text, as compilers of GPUs and of the host take it.

    Its host's half is what a host's compiler gets even where the text defines what those of CUDA do.
    """
    with _lock:
        body = place_directives(environment().get_template(template).render({}))
    macros = ("__CUDACC__", "__CUDA_ARCH__")
    hide = "\n".join(f'#pragma push_macro("{name}")\n#undef {name}' for name in macros)
    show = "\n".join(f'#pragma pop_macro("{name}")' for name in macros)
    return "\n".join(
        f"#ifndef __CUDACC_RTC__\n{part}\n#endif" if part != body else body for part in (hide, body, show)
    )


def locate(log: str) -> tuple[str, int] | None:
    """The template and line of the first error in a compiler's log, as given by ``#line`` directives."""
    for line in log.split("\n"):
        for name in _named_in(line):
            rest = line[len(name) :]
            number, _, message = rest[1:].replace(")", ":", 1).partition(":")
            if rest[:1] in ("(", ":") and number.isdigit() and "error" in message:
                return name, int(number)
    return None


def _named_in(line: str) -> list[str]:
    """The templates with which a compiler's message may start, the longest name first."""
    heads = {line[:at] for at, mark in enumerate(line) if mark in "(:"}
    return sorted((head for head in heads if head and _exists(head)), key=len, reverse=True)


def _exists(name: str) -> bool:
    return name in _sources.strings or _sources.find(name) is not None
