"""``#line`` directives for rendered texts.

While Jinja parses a template, every piece of its text gets a mark with the template's name and line. After
rendering, a mark becomes a ``#line`` directive where its line does not follow the previous one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2.lexer import Token

_OPEN, _CLOSE = "\x01", "\x02"
# The content of these blocks is a value that the template may still change or compare, so it gets no marks.
_HOLDS = {"macro": "endmacro", "call": "endcall", "filter": "endfilter", "set": "endset"}


def marked(tokens: list[Token], name: str) -> Iterator[Token]:
    """The tokens of the template ``name``, with its text marked with the origin."""
    held: list[str] = []
    for i, token in enumerate(tokens):
        if token.type == "name" and i and tokens[i - 1].type == "block_begin":
            word = str(token.value)
            if held and word == held[-1]:
                held.pop()
            elif word in _HOLDS and not (word == "set" and _assigns(tokens, i)):
                held.append(_HOLDS[word])
        if token.type == "data" and not held:
            token = token._replace(value=f"{_OPEN}{name}:{token.lineno}{_CLOSE}{token.value}")
        yield token


def _assigns(tokens: list[Token], i: int) -> bool:
    """Whether the ``set`` at ``i`` is ``set name = value`` rather than the block form."""
    while tokens[i].type != "block_end":
        if tokens[i].type == "assign":
            return True
        i += 1
    return False


def place_directives(text: str) -> str:
    """Replace the marks in ``text`` by ``#line`` directives."""
    out: list[str] = []
    expected: tuple[str, int] | None = None
    name, line = text.partition(_OPEN)[2].partition(_CLOSE)[0].rpartition(":")[0], 1
    continued = False
    for raw in text.split("\n"):
        if _OPEN in raw:
            code, origin, name, line = _unmarked(raw, name, line)
        else:
            code, origin = raw, (name, line)
        if origin != expected and not continued:
            out.append(directive(*origin))
            expected = origin
        out.append(code)
        continued = code.endswith("\\")
        line += 1
        expected = None if expected is None or continued else (expected[0], expected[1] + 1)
        # A compiler ignores directives in a conditional group that it skips.
        if "#e" in code and code.lstrip().startswith(("#endif", "#else", "#elif")):
            expected = None
    return "\n".join(out)


def _unmarked(raw: str, name: str, line: int) -> tuple[str, tuple[str, int], str, int]:
    """A line of rendered text without its marks, its origin, and the template and line after its last mark.

    Args:
        raw: the line, with marks.
        name: the template in which it begins.
        line: the line of the template in which it begins.
    """
    pieces = raw.split(_OPEN)
    clean = [pieces[0]]
    origin = (name, line)
    settled = bool(pieces[0].strip())
    for piece in pieces[1:]:
        mark, _, rest = piece.partition(_CLOSE)
        name, _, number = mark.rpartition(":")
        line = int(number)
        if not settled:
            origin = (name, line)
            settled = bool(rest.strip())
        clean.append(rest)
    return "".join(clean), origin, name, line


def directive(name: str, line: int) -> str:
    """The directive that names the origin of the next line."""
    escaped = name.replace("\\", "/").replace('"', "'")
    return f'#line {line} "{escaped}"'


_DIRECTIVE = re.compile(r'#line (\d+)(?: "((?:\\.|[^"\\])*)")?')
_BLOCK = re.compile(r"<%[-+]?\s*(\w+)")


def placed(text: str) -> Iterator[tuple[str, int, str]]:
    """The lines of a rendered text, each after the file and the number that directives give it.

    >>> list(placed('a\\n#line 7 "f"\\nb\\nc'))
    [('', 1, 'a'), ('f', 7, 'b'), ('f', 8, 'c')]
    """
    file, number = "", 1
    for line in text.split("\n"):
        if directive := _DIRECTIVE.match(line):
            file, number = directive[2] or file, int(directive[1])
        else:
            yield file, number, line
            number += 1


def lines_from(text: str, name: str) -> dict[int, str]:
    """The lines of a file that a rendered text has, by their numbers."""
    return {number: line for file, number, line in placed(text) if file == name}


def place(text: str) -> tuple[str, int]:
    """The file and the number of the last line of a rendered text; of a directive, those of the line before it."""
    return [("", 1), *((file, number) for file, number, _ in placed(text))][-1]


def origin(text: str, at: int) -> str:
    """The line of a template in which the character at an offset of a rendered text lies, in words."""
    file, number = place(text[:at])
    return f"line {number} of {file}" if file else f"line {number}"


def lines_of(text: str, name: str) -> set[int]:
    """The lines of the template ``name``, counted from 1, of which a rendered text has more than spaces."""
    return {number for file, number, line in placed(text) if file == name and line.strip()}


def held_lines(source: str) -> set[int]:
    """The lines of a template, counted from 1, in macros and other blocks whose text is placed elsewhere."""
    numbers: set[int] = set()
    held: list[str] = []
    for number, line in enumerate(source.split("\n"), 1):
        if held:
            numbers.add(number)
        for word in _BLOCK.findall(line):
            if held and word == held[-1]:
                held.pop()
            elif word in _HOLDS and not (word == "set" and "=" in line):
                held.append(_HOLDS[word])
    return numbers
