"""The declarations of a text at file scope, from its syntax tree: kernels, functions, macros, types, shared memory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import tree_sitter

from ..cache import Cache
from .scopes import declarator_name, function_name
from .syntax import WORDS, in_function, part, text_of


@dataclass(frozen=True)
class DynamicShared:
    """A declaration ``extern __shared__ T name[];`` and its range of bytes in the text."""

    start: int
    end: int
    type_text: str
    name: str
    at_file_scope: bool


#: Function bodies without a match have no declaration of interest.
_DECLARES = re.compile(rb"\bextern\b|#\s*define\b")
#: The beginnings of such declarations in a function body.
_DECLARATION = re.compile(rb"\b(?:extern|typedef|using|enum)\b|#\s*define\b")
#: Frequent kinds of nodes that hold no such declaration.
_WITHOUT = frozenset(
    "identifier type_identifier field_identifier primitive_type sized_type_specifier type_qualifier comment "
    "parameter_list template_parameter_list template_argument_list template_type type_descriptor "
    "storage_class_specifier function_declarator pointer_declarator reference_declarator array_declarator "
    "number_literal string_literal".split()
)


def _declarations(root: tree_sitter.Node) -> Iterator[tree_sitter.Node]:
    """The nodes that may declare what :class:`Declared` keeps, in the text's order.

    Most nodes lie in bodies of functions: bodies without ``extern`` and macros are skipped.
    """
    stack = [(root, False)]
    while stack:
        node, inside = stack.pop()
        kind = node.type
        if kind in _WITHOUT or (inside and not _DECLARATION.search(node.text or b"")):
            continue
        yield node
        if kind == "compound_statement" and not inside:
            inside = True
            if not _DECLARES.search(node.text or b""):
                continue
        stack.extend((child, inside) for child in reversed(node.named_children))


@lru_cache(maxsize=8192)
def words_of(body: bytes) -> frozenset[str]:
    """Every word of a function's body: a superset of what it calls, macros and templates included."""
    return frozenset(WORDS.findall(body.decode())) - {""}


def _dynamic_shared(node: tree_sitter.Node) -> DynamicShared | None:
    words = [text_of(child) for child in node.children]
    name, levels = declarator_name(part(node, "declarator"))
    if "extern" not in words or "__shared__" not in words or not levels:
        return None
    type_text = text_of(part(node, "type"))
    return DynamicShared(node.start_byte, node.end_byte, type_text, name, not in_function(node))


#: The declaration of dynamic shared memory in a macro's value, with a name that it may paste together.
_SHARED_IN_MACRO = re.compile(
    rb"\bextern\s+__shared__\s+([\w:<>, \t]*[\w>])\s+(\w+(?:\s*##\s*\w+)*)\s*\[\s*\]"
)


def _shared_in_macro(node: tree_sitter.Node | None) -> Iterator[DynamicShared]:
    if node is None:
        return
    for match in _SHARED_IN_MACRO.finditer(node.text or b""):
        start, end = node.start_byte + match.start(), node.start_byte + match.end()
        yield DynamicShared(start, end, match[1].decode(), match[2].decode(), False)


def _defines(node: tree_sitter.Node | None) -> bool:
    """Whether a type is a struct, union or enumeration that is defined where it is named."""
    return node is not None and node.type.endswith("_specifier") and part(node, "body") is not None


#: Nodes that declare names of types and of macros.
_NAMING = ("preproc_def", "enum_specifier", "type_definition", "alias_declaration")


def aliases(node: tree_sitter.Node) -> dict[str, str]:
    """The name that a typedef, an alias, an enumeration or a macro declares, and what it stands for."""
    declared, levels = text_of(part(node, "name")), 0
    if node.type == "preproc_def":
        return {declared: text_of(part(node, "value"))}
    if node.type == "enum_specifier":
        base = text_of(part(node, "base")) or "int"
        return {declared: base} if declared and _defines(node) else {}
    if node.type == "type_definition":
        declared, levels = declarator_name(part(node, "declarator"), "type_identifier")
        kind = part(node, "type")
        if not declared or _defines(kind):
            is_enum = kind is not None and kind.type == "enum_specifier"
            return {declared: "int"} if declared and is_enum else {}
    elif node.type != "alias_declaration":
        return {}
    kept = [text_of(child) for child in node.children if child.type == "type_qualifier"]
    return {declared: " ".join([*kept, text_of(part(node, "type"))]) + " *" * levels}


class Declared:
    """The result of reading declarations: kernels, the words of functions and macros, types, and shared memory."""

    def __init__(self) -> None:
        self.kernels: list[tree_sitter.Node] = []
        self.bodies: dict[str, set[str]] = {}
        self.typedefs: dict[str, str] = {}
        self.shared: list[DynamicShared] = []

    def add(self, other: Declared) -> None:
        self.kernels += other.kernels
        self.typedefs |= other.typedefs
        self.shared += other.shared
        for name, words in other.bodies.items():
            self.bodies.setdefault(name, set()).update(words)

    def read(self, declaration: tree_sitter.Node) -> None:
        """Add what a declaration at file scope declares."""
        for node in _declarations(declaration):
            kind = node.type
            if kind in _NAMING:
                self.typedefs |= aliases(node)
            if kind == "function_definition":
                name, body = function_name(node), part(node, "body")
                words = words_of((node if body is None else body).text or b"")
                self.bodies.setdefault(name.split("::")[-1], set()).update(words)
                if any(child.type == "__global__" for child in node.children):
                    self.kernels.append(node)
            elif kind in ("preproc_function_def", "preproc_def"):
                value, name = part(node, "value"), text_of(part(node, "name"))
                self.bodies.setdefault(name, set()).update(re.findall(r"\w+", text_of(value)))
                self.shared += _shared_in_macro(value)
            elif kind == "declaration" and (shared := _dynamic_shared(node)):
                self.shared.append(shared)


#: A cache of declarations without kernels and shared memory, by kind and text: most texts share most of them.
_known: Cache[tuple[str, bytes], Declared] = Cache()


def declarations(root: tree_sitter.Node) -> Declared:
    """The declarations of a text."""
    everything = Declared()
    for child in root.named_children:
        text = child.text or b""
        if child.type == "comment":
            continue
        if b"__global__" in text or b"__shared__" in text:
            everything.read(child)
            continue
        known = _known.get((child.type, text))
        if known is None:
            known = Declared()
            known.read(child)
            _known.keep((child.type, text), known)
        everything.add(known)
    return everything
