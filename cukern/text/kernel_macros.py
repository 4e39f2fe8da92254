"""Expansion of a text's own macros that make kernels, which a parser would not find."""

from __future__ import annotations

import re

_DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)\(([\w\s,.]*)\)((?:[^\n\\]|\\.|\\\n)*)$", re.MULTILINE)
_COMMENT = re.compile(r"//[^\n]*|(?s:/\*.*?\*/)")
#: Where no macro is expanded: directives, comments and strings.
_PASSED = r'^[ \t]*#(?:[^\n\\]|\\.|\\\n)*|//[^\n]*|(?s:/\*.*?\*/)|"(?:\\.|[^"\\\n])*"'
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


def _makers(text: str) -> tuple[dict[str, tuple[list[str], str]], set[str]]:
    """The parameters and values of a text's macros, and which make kernels, themselves or by such macros."""
    found = {
        name: (
            [p.strip() for p in names.split(",") if p.strip()],
            _COMMENT.sub(" ", value.replace("\\\n", " ")),
        )
        for name, names, value in _DEFINE.findall(text)
    }
    found = {name: one for name, one in found.items() if "..." not in one[0]}
    makers = {"__global__", "__device__"}
    for _ in range(4):
        makers |= {name for name, (_, value) in found.items() if makers & set(re.findall(r"\w+", value))}
    return found, makers & found.keys()


def expanded_kernels(text: str) -> str:
    """The text with uses of its macros that make kernels expanded, each on the line where it is used."""
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
