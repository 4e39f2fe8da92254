"""Macros that a plain text uses but does not define, where declarations stand: they are of the host's libraries.

``PYBIND11_MODULE(...) {...}``, ``TORCH_LIBRARY(...) {...}``, ``REGISTER(f);`` and the like say nothing to the compilers
of kernels, and a parser takes what follows them for something else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from . import COMMENT
from .edits import blank
from .macros import PASSED, Macro, defined, makers

#: What is passed over as a whole, or may begin or end a declaration.
_LITERAL = rf"{PASSED}|'(?:\\.|[^'\\\n])*'"
_TOKEN = re.compile(rf"{_LITERAL}|\w+|\n|[^\S\n]+|->|.", re.MULTILINE)
#: Brackets, and what is passed over to find them.
_BRACKET = re.compile(rf"{_LITERAL}|[][(){{}}]", re.MULTILINE)
#: What a text declares of which ``::`` may name a member, and what kernels use without a declaration.
_DECLARED = re.compile(r"\b(?:namespace|class|struct|enum|union|typename)\s+(\w+)")
_SPACES = {"std", "cuda", "cub", "cg", "cooperative_groups", "nvcuda", "wmma", "thrust", "curand"}
#: Words before a parenthesis that no text defines.
_WORDS = set("alignas asm decltype explicit operator static_assert typeof noexcept requires".split())
_CONDITION = re.compile(r"[ \t]*#[ \t]*(if|el|endif)")
#: What comes before a brace in which declarations stand.
_LINKED = re.compile(r"(?:inline\s+)?namespace\b[\w\s:]*|extern\s*\"C(?:\+\+)?\"\s*")


#: A word of CUDA.
_CUDA = re.compile(r"\b__\w+__\b")


def _macros(text: str) -> tuple[set[str], set[str]]:
    """The macros of a text, and the words before parentheses that are none, or are one that begins with such a word."""
    macros = defined(text)
    known = {one.name for one in macros}
    words = set(re.findall(r"\b([A-Za-z]\w*)\s*\(", text)) - _WORDS
    unknown = words - known - set(re.findall(r"\b(?!return\b|else\b)\w+[ \t*&]+(\w+)\s*\(", text))
    spaces = _SPACES | set(_DECLARED.findall(text)) | set(re.findall(r"\busing\s+(\w+)\s*=", text))
    on_device = makers(macros, [word for one in macros for word in _CUDA.findall(one.value)])
    unknown |= {one.name for one in macros if _is_of_host(one, spaces, on_device)}
    # Of several definitions that the compiler decides on, one may be of the device.
    names_cuda = {one.name for one in macros if _CUDA.search(one.value)}
    firsts = {one.name: one.words[0] for one in reversed(macros) if one.words and one.name not in names_cuda}
    for _ in range(4):
        unknown |= {name for name, first in firsts.items() if first in unknown}
    return known, unknown


#: What only the host's code has: launches, strings of names by which it registers something.
_OF_HOST = re.compile(r"<<<|\bcuda(?:Stream|Event|Error)_t\b|(?<!#)#\s*[A-Za-z_]")
#: A function whose body follows, and what has a body that kernels may use without a word of CUDA.
_FUNCTION = re.compile(r"\)\s*(?:const|noexcept|override|\s)*$")
_USABLE = re.compile(r"\b(?:constexpr|consteval|struct|class|union|enum|namespace|using|typedef)\b")


def _is_of_host(macro: Macro, spaces: set[str], on_device: set[str]) -> bool:
    """Whether a macro makes code of the host where declarations stand.

    Args:
        spaces: what has members that kernels may use.
        on_device: the macros that make a word of CUDA.
    """
    value = macro.value
    if macro.params is not None and re.match(r"template\b(?!\s*<)", value):
        return True  # explicit instantiations
    members = set(re.findall(r"(?<!::)\b([A-Za-z]\w*)::(?!\s*##)", value))
    if members - spaces and not _CUDA.search(value):
        return True  # such as a function that takes a torch::Tensor
    head, brace, _ = value.partition("{")
    makes = brace and _FUNCTION.search(head) and re.search(r"\w[\s*&>]+[\w#:]+\s*\(", head)
    return macro.name not in on_device and (
        _OF_HOST.search(value) is not None
        or bool(makes and not _USABLE.search(head))
        or re.match(r"class\b.*<<<", value) is not None
    )


def _is_sound(text: str) -> bool:
    """Whether each branch of a condition closes the braces that it opens, so that braces can be counted."""
    depth, conditions = 0, []
    for match in _BRACKET.finditer(text):
        token = match[0]
        depth += (token == "{") - (token == "}")
        word = _CONDITION.match(token)
        if word is None:
            continue
        if word[1] == "if":
            conditions.append(depth)
        elif not conditions or conditions[-1] != depth:
            return False
        elif word[1] == "endif":
            conditions.pop()
    return depth == 0


#: What begins a declaration of the device's, which may have conditions in it.
_OF_DEVICE = re.compile(r"\b__(?:global|device|host)__\b")


class _Reader:
    """The tokens of a text, read one after another from an offset."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.at = 0

    def peek(self) -> str:
        """The next token after spaces and comments, which become past; empty at the end."""
        while match := _TOKEN.match(self._text, self.at):
            token = match[0]
            if not (token.isspace() or token.startswith(("//", "/*"))):
                return token
            self.at = match.end()
        return ""

    def take(self) -> str:
        """The next token, which becomes past."""
        token = self.peek()
        self.at += len(token)
        return token

    def closed(self) -> bool:
        """Pass over a bracket and what it holds; return whether it is closed."""
        depth = 0
        for match in _BRACKET.finditer(self._text, self.at):
            token = match[0]
            depth += (token in "({[") - (token in ")}]") if len(token) == 1 else 0
            if depth == 0:
                self.at = match.end()
                return True
        self.at = len(self._text)
        return False


def _uses(text: str, known: set[str], unknown: set[str]) -> Iterator[tuple[str, int, int]]:
    """The name of each macro that is used where a declaration begins, and the range of its use."""
    reader = _Reader(text)
    begins, head, after = _is_sound(text), 0, False
    while token := reader.peek():
        start = reader.at
        if begins:
            head = start
        if (begins or after) and token in known and token not in unknown:
            reader.take()
            after = reader.peek() == "(" and reader.closed()  # a macro, perhaps without a semicolon
            begins = False
            continue
        if (begins or (after and token.isupper())) and token in unknown:
            reader.take()
            if reader.peek() == "(" and (end := _end(reader, text)):
                yield token, start, end
                begins, after = True, False
                continue
            begins = after = False
        elif token == "{" and not _LINKED.fullmatch(COMMENT.sub(" ", text[head:start])):
            reader.closed()
            begins = True
        else:
            reader.take()
            directive = token.lstrip().startswith("#") and not _OF_DEVICE.search(text, head, start)
            begins, after = directive or token in (";", "{", "}"), False


def _end(reader: _Reader, text: str) -> int:
    """Pass over the arguments and what belongs to them; return where that ends, 0 if it is no use of a macro."""
    before = reader.at
    if re.match(r"\(\s*[*&]", text[reader.at : reader.at + 40]) or not reader.closed():
        reader.at = before
        return 0
    end = reader.at
    while (token := reader.peek()) in (".", "->", "{"):
        if token != "{":
            reader.take()
            reader.take()  # a member's name
            if reader.peek() != "(":
                continue
        if not reader.closed():
            break
        end = reader.at
        if token == "{":
            break
    if reader.peek() == ";":
        reader.take()
        end = reader.at
    return end


_CALLED = r"([A-Z]\w*)\s*\((?:[^()]|\([^()]*\))*\)"
#: Attributes of kernels, such as C10_LAUNCH_BOUNDS_1(256), before ``__global__`` and before the name.
_ATTRIBUTE = re.compile(
    rf"\b{_CALLED}(?=\s*(?:(?:static|inline)\s+)*__global__\b)|\b__global__\s+(?:(?:static|inline)\s+)*void\s+{_CALLED}"
    r"(?=\s+\w+\s*\()"
)


def without_host_macros(text: str) -> tuple[str, list[str]]:
    """A text whose uses of unknown macros are overwritten by spaces, and the names of these macros."""
    known, unknown = _macros(text)
    uses = list(_uses(text, known, unknown))
    for match in _ATTRIBUTE.finditer(text):
        place = match.lastindex or 0
        if match[place] not in known and not any(start <= match.start(place) < end for _, start, end in uses):
            uses.append((match[place], match.start(place), match.end()))
    uses.sort(key=lambda use: use[1])
    for _, start, end in reversed(uses):
        text = text[:start] + blank(text[start:end]) + text[end:]
    return text, list(dict.fromkeys(name for name, _, _ in uses))
