"""Expansion of a text's own macros that make kernels, which a parser would not find."""

from __future__ import annotations

import re
from dataclasses import dataclass

from . import COMMENT

_DEFINE = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+(\w+)(?:\(([\w\s,.]*)\))?((?:[^\n\\]|\\.|\\\n)*)$", re.MULTILINE
)
_UNDEF = re.compile(r"^[ \t]*#[ \t]*undef[ \t]+(\w+)", re.MULTILINE)
#: Where no macro is expanded: directives, comments and strings.
_PASSED = r'^[ \t]*#(?:[^\n\\]|\\.|\\\n)*|//[^\n]*|(?s:/\*.*?\*/)|"(?:\\.|[^"\\\n])*"'
#: A macro of no value, which the parser takes to go on in the next line if blanks follow.
_EMPTY = re.compile(r"^([ \t]*#[ \t]*define[ \t]+\w+\([^()\n]*\))[ \t]+$", re.MULTILINE)
#: What a kernel's body begins with, and a macro as the last of its statements.
_BODY = re.compile(r"\b__global__\b[^;{}#]*\)\s*\{")
_LAST = re.compile(r"(?:^|[;{})\s])(\w+)\s*(?:\([^;{}]*\))?\s*$")
_BRACES = re.compile(rf"{_PASSED}|[{{}}]", re.MULTILINE)
#: More are left to the compiler: a macro that names itself has no end.
_MOST = 100_000
_WORD = re.compile(rf"{_PASSED}|\b([A-Za-z_]\w*)", re.MULTILINE)
_HEAD_END = re.compile(rf"{_PASSED}|[;{{]", re.MULTILINE)


def _arguments(text: str, at: int) -> tuple[list[str], int]:
    """The arguments of a macro between the parenthesis at an offset and its partner, and the offset after that."""
    parts, depth = [""], 0
    for end in range(at, len(text)):
        c = text[end]
        depth += (c in "({[") - (c in ")}]")
        if depth == 0:
            return [part.strip() for part in parts], end + 1
        if c == "," and depth == 1:
            parts.append("")
        elif end > at:
            parts[-1] += c
    return [], at


@dataclass(frozen=True)
class Macro:
    """A macro: its parameters, none for one that is used without parentheses, and its value."""

    params: tuple[str, ...] | None
    value: str

    def used(self, text: str, at: int) -> tuple[str, int]:
        """What stands for a use whose name ends at an offset, and where the use ends: there, if it has no arguments."""
        if self.params is None:
            return self.value, at
        opening = re.compile(r"\s*(?=\()").match(text, at)
        given, end = _arguments(text, opening.end()) if opening else ([], at)
        names = list(self.params)
        if names[-1:] == ["..."]:
            names[-1] = "__VA_ARGS__"
            given[len(names) - 1 :] = [", ".join(given[len(names) - 1 :])]
        given = given if names or given != [""] else []
        if opening is None or end == opening.end() or len(given) != len(names):
            return "", at
        return " ".join(_replaced(self.value, names, given).split("\n")), end


def _replaced(value: str, names: list[str], given: list[str]) -> str:
    """A macro's value with the arguments in place of its parameters, and names pasted together."""
    values = dict(zip(names, given, strict=True))
    value = re.sub(r"(?<!#)#\s*(\w+)", lambda m: '"' + values[m[1]] + '"' if m[1] in values else m[0], value)
    value = re.sub(r"\b[A-Za-z_]\w*", lambda m: values.get(m[0], m[0]), value)
    return re.sub(r"\s*##\s*", "", value)


def _defined(text: str) -> list[tuple[str, Macro]]:
    """The macros that a text defines, in order."""
    return [
        (
            match[1],
            Macro(
                None if match[2] is None else tuple(p.strip() for p in match[2].split(",") if p.strip()),
                COMMENT.sub(" ", match[3].replace("\\\n", " ")).strip(),
            ),
        )
        for match in _DEFINE.finditer(text)
    ]


def _decided(text: str) -> dict[str, Macro]:
    """A text's macros, as first defined, but for those of which a condition of the compiler's decides."""
    defined, ended = _defined(text), _UNDEF.findall(text)
    values: dict[str, set[Macro]] = {}
    for name, one in defined:
        values.setdefault(name, set()).add(Macro(one.params, " ".join(one.value.split())))
    return {name: one for name, one in reversed(defined) if len(values[name]) <= 1 + ended.count(name)}


def _makers(found: dict[str, Macro], *words: str) -> set[str]:
    """The macros that make one of the words, themselves or by other such macros."""
    makers = set(words)
    for _ in range(4):
        makers |= {name for name, one in found.items() if makers & set(re.findall(r"\w+", one.value))}
    return makers - set(words)


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
    makers = {name for name in _makers(decided, "__global__") if decided[name].params is None}
    tokens = re.compile(rf"{_PASSED}|[;{{}}]|\b(?:{'|'.join(['__global__', *makers])})\b", re.MULTILINE)
    known: dict[str, Macro] = {}
    start = at = 0
    while match := tokens.search(text, at):
        at, token = match.end(), match[0]
        if token.startswith(('"', "/")):
            continue
        if token[-1] in ";{}" or token.lstrip().startswith("#"):
            known.update((name, one) for name, one in _defined(token) if name in decided)
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
    names = set(re.findall(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", text, re.MULTILINE))
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
    makers = _makers(found, "__global__", "__device__")
    uses = re.compile(rf"{_PASSED}|\b({'|'.join(sorted(makers))})\s*(?=\()", re.MULTILINE)
    at = 0
    for _ in range(_MOST if makers else 0):
        match = uses.search(text, at)
        if match is None:
            break
        at, start = match.end(), match.start()
        if match[1] is None:
            found.update((name, one) for name, one in _defined(match[0]) if name in found)
            continue
        value, end = found[match[1]].used(text, match.end(1))
        if end > match.end(1):
            text = text[:start] + value + "\n" * text.count("\n", start, end) + text[end:]
            at = start
    return _with_statements(_with_heads(text))
