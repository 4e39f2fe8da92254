"""The macros of a text: their definitions, their uses, and the trees of their values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import tree_sitter

from . import COMMENT
from .syntax import part, syntax_tree, text_of

#: A directive with its continuation lines, and what else macros are not expanded in: comments and strings.
DIRECTIVE = r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*"
PASSED = rf'{DIRECTIVE}|{COMMENT.pattern}|"(?:\\.|[^"\\\n])*"'
_DEFINE = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+(\w+)(?:\(((?:[^()\n\\]|\\\n)*)\))?((?:[^\n\\]|\\.|\\\n)*)$", re.MULTILINE
)


@dataclass(frozen=True)
class Macro:
    """A macro: its parameters, none for one that is used without parentheses, and its value on one line."""

    name: str
    params: tuple[str, ...] | None
    value: str

    @property
    def words(self) -> list[str]:
        """The words of its value."""
        return re.findall(r"\w+", self.value)

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
        return _replaced(self.value, dict(zip(names, given, strict=True))), end


def _arguments(text: str, at: int) -> tuple[list[str], int]:
    """The arguments of a macro between the parenthesis at an offset and its partner, and the offset after that."""
    parts, depth = [""], 0
    for end in range(at, len(text)):
        c = text[end]
        depth += (c in "({[") - (c in ")}]")
        if depth == 0:
            return [one.strip() for one in parts], end + 1
        if c == "," and depth == 1:
            parts.append("")
        elif end > at:
            parts[-1] += c
    return [], at


def _replaced(value: str, values: Mapping[str, str]) -> str:
    """A macro's value with the arguments in place of its parameters, and names pasted together, on one line."""
    value = re.sub(r"(?<!#)#\s*(\w+)", lambda m: '"' + values[m[1]] + '"' if m[1] in values else m[0], value)
    value = re.sub(r"\b[A-Za-z_]\w*", lambda m: values.get(m[0], m[0]), value)
    return re.sub(r"\s*##\s*", "", value).replace("\n", " ")


def _on_one_line(text: str) -> str:
    """A part of a definition without line breaks and comments."""
    return COMMENT.sub(" ", text.replace("\\\n", " "))


def defined(text: str) -> list[Macro]:
    """The macros that a text defines, in order.

    >>> defined("#define TWICE(x) (2 * (x))  // of a number")
    [Macro(name='TWICE', params=('x',), value='(2 * (x))')]
    """
    return [
        Macro(
            name,
            None if params is None else tuple(one.strip() for one in params.split(",") if one.strip()),
            value.strip(),
        )
        for match in _DEFINE.finditer(text)
        for name, params, value in [(match[1], match[2] and _on_one_line(match[2]), _on_one_line(match[3]))]
    ]


def makers(macros: Iterable[Macro], words: Iterable[str]) -> set[str]:
    """The macros that make one of the words, themselves or by other such macros."""
    macros, words = list(macros), set(words)
    found = set(words)
    for _ in range(4):
        found |= {one.name for one in macros if not found.isdisjoint(one.words)}
    return found - words


class Value(NamedTuple):
    """The tree of a function of a macro's name that returns its value, or has it as statements.

    Attributes:
        root: the tree.
        shift: how much less its offsets are than those of the text.
    """

    root: tree_sitter.Node
    shift: int


def value_of(definition: tree_sitter.Node) -> Value | None:
    """The tree of the value of a macro that a node defines; None if that is neither an expression nor statements."""
    value, name = part(definition, "value"), text_of(part(definition, "name"))
    body = text_of(value)
    if value is None or "#" in body or "//" in body:
        return None
    for head in (f"int {name}() {{ return ", f"void {name}() {{ "):
        root = syntax_tree(f"{head}{body}; }}".encode())
        block = part(root.named_child(0), "body")
        if not root.has_error and block and (head.startswith("void") or block.named_child_count == 1):
            return Value(root, value.start_byte - len(head))
    return None
