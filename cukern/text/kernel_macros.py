"""Expansion of a text's own macros that make kernels, which a parser would not find."""

from __future__ import annotations

import re

from . import COMMENT

_DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)\(([\w\s,.]*)\)((?:[^\n\\]|\\.|\\\n)*)$", re.MULTILINE)
#: A macro without parameters, and the parameters of a kernel.
_OBJECT = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+((?:[^\n\\]|\\.|\\\n)+)$", re.MULTILINE)
_PARAMETERS = re.compile(r"\b__global__\b[^;{}()#]*(?:\([^()]*\)[^;{}()#]*)?\b\w+\s*\(([^()#]*)\)\s*\{")
#: Where no macro is expanded: directives, comments and strings.
_PASSED = r'^[ \t]*#(?:[^\n\\]|\\.|\\\n)*|//[^\n]*|(?s:/\*.*?\*/)|"(?:\\.|[^"\\\n])*"'
#: What a kernel's body begins with, and a macro as the last of its statements.
_BODY = re.compile(r"\b__global__\b[^;{}#]*\)\s*\{")
_LAST = re.compile(r"(?:^|[;{})\s])(\w+)\s*(?:\([^;{}]*\))?\s*$")
_BRACES = re.compile(rf"{_PASSED}|[{{}}]", re.MULTILINE)
#: More are left to the compiler: a macro that names itself has no end.
_MOST = 100_000


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


def _replaced(value: str, names: list[str], given: list[str]) -> str:
    """A macro's value with the arguments in place of its parameters, and names pasted together."""
    values = dict(zip(names, given, strict=True))
    value = re.sub(r"(?<!#)#\s*(\w+)", lambda m: '"' + values[m[1]] + '"' if m[1] in values else m[0], value)
    value = re.sub(r"\b[A-Za-z_]\w*", lambda m: values.get(m[0], m[0]), value)
    return re.sub(r"\s*##\s*", "", value)


Macro = tuple[list[str], str]


def _defined(text: str) -> list[tuple[str, Macro]]:
    """The macros that a text defines, in order, each with its parameters and its value."""
    found = [
        (
            name,
            (
                [p.strip() for p in names.split(",") if p.strip()],
                COMMENT.sub(" ", value.replace("\\\n", " ")),
            ),
        )
        for name, names, value in _DEFINE.findall(text)
    ]
    return [(name, one) for name, one in found if "..." not in one[0]]


def _makers(text: str) -> tuple[dict[str, Macro], set[str]]:
    """A text's macros, as first defined, and which make functions of the device, themselves or by such macros."""
    defined = _defined(text)
    # What a condition of the compiler's decides is left to it.
    ended = re.findall(r"^[ \t]*#[ \t]*undef[ \t]+(\w+)", text, re.MULTILINE)
    values = {name: {str(one) for other, one in defined if other == name} for name, _ in defined}
    defined = [(name, one) for name, one in defined if len(values[name]) <= 1 + ended.count(name)]
    makers = {"__global__", "__device__"}
    for _ in range(4):
        makers |= {name for name, (_, value) in defined if makers & set(re.findall(r"\w+", value))}
    found = dict(reversed(defined))
    return found, makers & found.keys()


def _with_parameters(text: str) -> str:
    """The text with macros that stand for parameters of kernels expanded, but for those of several values."""
    values: dict[str, set[str]] = {}
    for name, value in _OBJECT.findall(text):
        values.setdefault(name, set()).add(" ".join(COMMENT.sub(" ", value.replace("\\\n", " ")).split()))
    known = {name: value.pop() for name, value in values.items() if len(value) == 1}

    def expanded(match: re.Match[str]) -> str:
        at, end = match.start(1) - match.start(), match.end(1) - match.start()
        listed = re.sub(r"(?:^|(?<=,))\s*(\w+)\s*(?=,|$)", lambda one: known.get(one[1], one[0]), match[1])
        return match[0][:at] + listed + match[0][end:]

    return _PARAMETERS.sub(expanded, text) if known else text


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
    """The text with uses of its macros that make kernels, or their parameters, expanded on the line of the use."""
    text = _with_statements(_with_parameters(text))
    found, makers = _makers(text)
    if not found:
        return text
    # Of the others those that make the name of a kernel, before its parameters.
    forms = [rf"\b({'|'.join(sorted(makers))})\s*(?=\()"] if makers else []
    forms.append(rf"\b__global__\b[^;{{}}]*?\bvoid\s+({'|'.join(sorted(found))})\s*(?=\([^()]*\)\s*\()")
    uses = re.compile("|".join([_PASSED, *forms]), re.MULTILINE)
    at = 0
    for _ in range(_MOST):
        match = uses.search(text, at)
        if match is None:
            break
        at = match.end()
        if match.lastindex is None:
            found.update((name, one) for name, one in _defined(match[0]) if name in found)
            continue
        names, value = found[match[match.lastindex]]
        start, (given, end) = match.start(match.lastindex), _arguments(text, at)
        given = given if names or given != [""] else []
        if end > at and len(given) == len(names):
            # Arguments of several lines come together on the first one.
            value = " ".join(_replaced(value, names, given).split("\n"))
            text = text[:start] + value + "\n" * text.count("\n", start, end) + text[end:]
            at = start
    return text
