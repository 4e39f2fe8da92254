"""Expansion of a text's own macros that make kernels, which a parser would not find."""

from __future__ import annotations

import re

from . import COMMENT
from .macros import PASSED, Macro, defined, makers

_UNDEF = re.compile(r"^[ \t]*#[ \t]*undef[ \t]+(\w+)", re.MULTILINE)
#: A macro of no value, which the parser takes to go on in the next line if blanks follow.
_EMPTY = re.compile(r"^([ \t]*#[ \t]*define[ \t]+\w+\([^()\n]*\))[ \t]+$", re.MULTILINE)
#: What a kernel's body begins with, and a macro as the last of its statements.
_BODY = re.compile(r"\b__global__\b[^;{}#]*\)\s*\{")
_LAST = re.compile(r"(?:^|[;{})\s])(\w+)\s*(?:\([^;{}]*\))?\s*$")
_BRACES = re.compile(rf"{PASSED}|[{{}}]", re.MULTILINE)
#: More are left to the compiler: a macro that names itself has no end.
_MOST = 100_000
_WORD = re.compile(rf"{PASSED}|\b([A-Za-z_]\w*)", re.MULTILINE)
_HEAD_END = re.compile(rf"{PASSED}|[;{{]", re.MULTILINE)


def _decided(text: str) -> dict[str, Macro]:
    """A text's macros, as first defined, but for those of which a condition of the compiler's decides."""
    macros, ended = defined(text), _UNDEF.findall(text)
    values: dict[str, set[object]] = {}
    for one in macros:
        values.setdefault(one.name, set()).add((one.params, *one.value.split()))
    return {one.name: one for one in reversed(macros) if len(values[one.name]) <= 1 + ended.count(one.name)}


def _expanded(text: str, macros: dict[str, Macro]) -> str:
    """A text with its macros expanded, with as many lines."""
    at = 0
    while match := _WORD.search(text, at):
        at, start = match.end(), match.start()
        if match[1] in macros:
            macro = macros[match[1]]
            value, end = macro.used(text, at)
            if end > at or macro.params is None:
                others = {name: one for name, one in macros.items() if name != match[1]}
                value = _expanded(value, others) + "\n" * text.count("\n", start, end)
                text, at = text[:start] + value + text[end:], start + len(value)
    return text


def _with_heads(text: str) -> str:
    """The text with the macros in what comes before the bodies of kernels expanded."""
    decided = _decided(text)
    if not decided:
        return text
    heads = {one for one in makers(decided.values(), ["__global__"]) if decided[one].params is None}
    tokens = re.compile(rf"{PASSED}|[;{{}}]|\b(?:{'|'.join(['__global__', *heads])})\b", re.MULTILINE)
    known: dict[str, Macro] = {}
    start = at = 0
    while match := tokens.search(text, at):
        at, token = match.end(), match[0]
        if token.startswith(('"', "/")):
            continue
        if token[-1] in ";{}" or token.lstrip().startswith("#"):
            known.update((one.name, one) for one in defined(token) if one.name in decided)
            for name in _UNDEF.findall(token):
                known.pop(name, None)
            start = at
            continue
        end = next((one.start() for one in _HEAD_END.finditer(text, at) if one[0] in ";{"), at)
        head = _expanded(text[start:end], known)
        text, at = text[:start] + head + text[end:], start + len(head)
    return text


def _with_statements(text: str) -> str:
    """The text with a semicolon behind a macro that ends the body of a kernel, which a parser would not find."""
    names = {one.name for one in defined(text)}
    for match in reversed(list(_BODY.finditer(text))) if names else ():
        depth = 1
        for brace in _BRACES.finditer(text, match.end()):
            depth += (brace[0] == "{") - (brace[0] == "}")
            if depth == 0:
                last = _LAST.search(COMMENT.sub(" ", text[match.end() : brace.start()]))
                if last is not None and last[1] in names:
                    text = f"{text[: brace.start()]};{text[brace.start() :]}"
                break
    return text


def expanded_kernels(text: str) -> str:
    """The text with its macros that make kernels, and those before kernels' bodies, expanded on the line of the use."""
    text = _EMPTY.sub(r"\1", text)
    found = {name: one for name, one in _decided(text).items() if one.params is not None}
    expanded = makers(found.values(), ["__global__", "__device__"])
    uses = re.compile(rf"{PASSED}|\b({'|'.join(sorted(expanded))})\s*(?=\()", re.MULTILINE)
    at = 0
    for _ in range(_MOST if expanded else 0):
        match = uses.search(text, at)
        if match is None:
            break
        at, start = match.end(), match.start()
        if match[1] is None:
            found.update((one.name, one) for one in defined(match[0]) if one.name in found)
            continue
        value, end = found[match[1]].used(text, match.end(1))
        if end > match.end(1):
            text = text[:start] + value + "\n" * text.count("\n", start, end) + text[end:]
            at = start
    return _with_statements(_with_heads(text))
