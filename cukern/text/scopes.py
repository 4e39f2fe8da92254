"""Where a text's declarations stand, and what they declare: file scope, namespaces, templates, declarators."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import tree_sitter

from .syntax import GROUPS, ancestors, part, text_of


def at_file_scope(root: tree_sitter.Node) -> Iterator[tree_sitter.Node]:
    """The nodes outside functions, types and templates, in the text's order."""
    for child in root.named_children:
        yield child
        if child.type in (*GROUPS, "namespace_definition", "linkage_specification"):
            yield from at_file_scope(child)


class Scope(NamedTuple):
    """What is around a declaration.

    Attributes:
        spaces: the namespaces, the outermost first; one without a name is empty.
        linked: whether it has C linkage.
        template: the innermost template.
    """

    spaces: tuple[str, ...]
    linked: bool
    template: tree_sitter.Node | None

    @property
    def named(self) -> list[str]:
        """The namespaces that have a name."""
        return [name for name in self.spaces if name]


def scope_of(node: tree_sitter.Node) -> Scope:
    """What is around a node."""
    around = list(ancestors(node))
    spaces = [text_of(part(one, "name")) for one in around if one.type == "namespace_definition"]
    template = next((one for one in around if one.type == "template_declaration"), None)
    return Scope(
        tuple(reversed(spaces)), any(one.type == "linkage_specification" for one in around), template
    )


def declared_by(node: tree_sitter.Node) -> tree_sitter.Node:
    """The declaration that a template, or one with a linkage, is of; another declaration itself."""
    while node.type in ("template_declaration", "linkage_specification"):
        node = next(one for one in reversed(node.named_children) if one.type != "comment")
    return node


def declarators(node: tree_sitter.Node | None) -> Iterator[tree_sitter.Node]:
    """A declarator and those within it, the outermost first; the last one is the declared name."""
    while node is not None:
        yield node
        if not node.type.endswith("declarator"):
            return
        inner = (one for one in node.named_children if one.type.endswith(("declarator", "identifier")))
        node = part(node, "declarator") or next(inner, None)


def declared_name(node: tree_sitter.Node | None, kind: str = "identifier") -> tree_sitter.Node | None:
    """The name, a node of a kind, that a declarator declares."""
    return next((one for one in declarators(node) if one.type == kind), None)


def declarator_name(node: tree_sitter.Node | None, kind: str = "identifier") -> tuple[str, int]:
    """The declared name, and its levels of pointers: an array of arrays, or a pointer to one, is one level."""
    pointers = ("pointer_declarator", "array_declarator", "abstract_pointer_declarator")
    levels = [one.type for one in declarators(node) if one.type in pointers]
    name = text_of(declared_name(node, kind))
    return name, bool(levels) + sum(level != "array_declarator" for level in levels[:-1])


def function_declarator(node: tree_sitter.Node) -> tree_sitter.Node | None:
    """The declarator of the function that a definition or declaration declares."""
    return declared_name(part(node, "declarator"), "function_declarator")


def function_name(node: tree_sitter.Node) -> str:
    """The name that the definition of a function declares."""
    return text_of(part(function_declarator(node), "declarator"))


def parameters(node: tree_sitter.Node) -> list[tree_sitter.Node]:
    """The parameters of the function that a definition or declaration declares."""
    listed = part(function_declarator(node), "parameters")
    found = (
        [] if listed is None else [one for one in listed.named_children if one.type.endswith("declaration")]
    )
    return [one for one in found if text_of(one).strip() != "void"]
