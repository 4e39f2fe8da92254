"""Syntax trees of CUDA C++."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache

import tree_sitter
import tree_sitter_cuda

from . import COMMENT
from .edits import blank

#: A word of C++ outside comments, strings and character literals. Much faster than visiting a body's nodes.
WORDS = re.compile(r"""//.*|(?s:/\*.*?\*/)|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\])'|\b([A-Za-z_]\w*)""")

#: Nodes whose parts stand where they do.
GROUPS = ("preproc_if", "preproc_ifdef", "preproc_else", "preproc_elif", "declaration_list")


@lru_cache(maxsize=1)
def _language() -> tree_sitter.Language:
    return tree_sitter.Language(tree_sitter_cuda.language())


@lru_cache(maxsize=4)  # a compilation reads the tree of a text several times
def syntax_tree(text: bytes) -> tree_sitter.Node:
    """The root of the syntax tree of a text, without what the grammar lacks."""
    global _last
    parser, source, last = tree_sitter.Parser(_language()), blanked(text), _last
    tree = parser.parse(source) if last is None else parser.parse(source, _edited(*last, source))
    _last = source, tree
    return tree.root_node


#: The last text and its tree: most texts begin as the one before, which incremental parsing exploits.
_last: tuple[bytes, tree_sitter.Tree] | None = None


def _edited(old: bytes, tree: tree_sitter.Tree, new: bytes) -> tree_sitter.Tree:
    """The tree of ``old``, edited for incremental parsing: all behind its common prefix with ``new`` is replaced."""
    same, longest = 0, min(len(old), len(new))
    while same < longest:
        half = (same + longest + 1) // 2
        if old[same:half] == new[same:half]:
            same = half
        else:
            longest = half - 1
    edited = tree.copy()
    edited.edit(same, len(old), len(new), _point(new, same), _point(old, len(old)), _point(new, len(new)))
    return edited


def _point(text: bytes, at: int) -> tuple[int, int]:
    """The row and column of a byte."""
    return text.count(b"\n", 0, at), at - 1 - text.rfind(b"\n", 0, at)


def walk(
    node: tree_sitter.Node, is_leaf: Callable[[tree_sitter.Node], bool] | None = None
) -> Iterator[tree_sitter.Node]:
    """The node and its named descendants, in the text's order; those of a leaf are left out."""
    stack = [node]
    while stack:
        node = stack.pop()
        yield node
        if is_leaf is None or not is_leaf(node):
            stack.extend(reversed(node.named_children))


def ancestors(node: tree_sitter.Node) -> Iterator[tree_sitter.Node]:
    """The nodes around one, the innermost first."""
    parent = node.parent
    while parent is not None:
        yield parent
        parent = parent.parent


def part(node: tree_sitter.Node | None, *fields: str) -> tree_sitter.Node | None:
    """The part of a node that a field names, and of that the next field's, and so on; None if one is missing."""
    for field in fields:
        node = None if node is None else node.child_by_field_name(field)
    return node


def in_function(node: tree_sitter.Node) -> bool:
    """Whether a node is in a function's body, perhaps in an ``#if`` there."""
    return any(one.type == "compound_statement" for one in ancestors(node))


def text_of(node: tree_sitter.Node | None) -> str:
    return "" if node is None or node.text is None else node.text.decode()


def code_of(node: tree_sitter.Node | None) -> str:
    """The text of a node on one line, without comments."""
    return " ".join(COMMENT.sub(" ", text_of(node)).split())


def blanked(source: bytes) -> bytes:
    """``source`` with ``#line`` directives, and with constructs that the grammar lacks, overwritten by spaces."""
    lines = source.split(b"\n")
    source = b"\n".join(b" " * len(line) if line.startswith(b"#line ") else line for line in lines)
    source = _COMMENT_IN_MACRO.sub(lambda match: b" " * len(match[0]), source)
    for word in (b"__align__", b"__cluster_dims__", b"__maxnreg__", b"alignas"):
        at = source.find(word)
        while at >= 0:
            end, depth = source.find(b"(", at) + 1, 1
            while depth and end < len(source):
                depth += {40: 1, 41: -1}.get(source[end], 0)
                end += 1
            source = source[:at] + blank(source[at:end]) + source[end:]
            at = source.find(word, end)
    return source


#: A comment in a line that goes on, at which the grammar ends a macro.
_COMMENT_IN_MACRO = re.compile(rb"/\*[^\n]*?\*/(?=[^\n]*\\$)", re.MULTILINE)


def variables(expression: str) -> tuple[str, ...] | None:
    """The variables that a C++ expression reads and does not declare, in the text's order.

    Functions, types, members and qualified names are left out. None for a text that is not an expression.
    """
    tree = tree_sitter.Parser(_language()).parse(f"auto cukern_ = ({expression});".encode())
    if tree.root_node.has_error or len(tree.root_node.named_children) != 1:
        return None
    read: dict[str, None] = {}
    declared = {"cukern_"}
    for node in walk(tree.root_node):
        parent = node.parent
        if node.type != "identifier" or parent is None:
            continue
        if parent.child_by_field_name("declarator") == node:
            declared.add(text_of(node))
        elif parent.type not in ("template_function", "qualified_identifier") and (
            parent.child_by_field_name("function") != node
        ):
            read[text_of(node)] = None
    return tuple(name for name in read if name not in declared)


def first_problem(root: tree_sitter.Node, text: str) -> str:
    """The first place of a text that does not parse, for an error: in parentheses after a blank, or empty."""
    if brace := unclosed(text):
        return f" ({brace})"
    for node in walk(root):
        if node.type == "ERROR" or any(child.is_missing for child in node.children):
            return f" (the parser understands no more from {' '.join(text_of(node).split())[:60]!r} on)"
    return ""


#: A directive that names lines, a brace, and what braces do not count in: comments and literals.
_BRACES = re.compile(
    r'^[ \t]*#[ \t]*line[ \t]+(\d+)(?:[ \t]+"([^"\n]*)")?.*|//.*|/\*(?s:.*?)\*/|"(?:\\.|[^"\\\n])*"|'
    r"'(?:\\.|[^'\\\n])*'|[{}\n]",
    re.MULTILINE,
)


def unclosed(text: str) -> str:
    """The first brace without a partner, for an error; empty if there is none."""
    line, file = 1, ""
    opened: list[str] = []
    for match in _BRACES.finditer(text):
        where = f"line {line} of {file}" if file else f"line {line}"
        if match[1]:
            line, file = int(match[1]) - 1, match[2] or file
        elif match[0] == "{":
            opened.append(where)
        elif match[0] == "}" and not opened:
            return f"a '}}' in {where} closes nothing"
        elif match[0] == "}":
            opened.pop()
        line += match[0].count("\n")
    return f"the '{{' in {opened[-1]} is not closed" if opened else ""
