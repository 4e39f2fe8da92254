"""Counts of the floating-point operations that a kernel executes: edits of its text, which tell the runtime of each.

Each ``+ - * /`` and its assignment, and each call of one of :data:`_FUNCTIONS`, is counted by the type of its
result, which the compiler knows; those of other types count nothing. A function that the text defines counts what it
computes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import tree_sitter

from ....text.edits import Edit
from ....text.macros import value_of
from ....text.syntax import part, syntax_tree, text_of

#: Kinds 0 to 3 of checked/trace.h; results that are known at compile time are not counted, as nothing computes them.
PRELUDE = """
#line 1 "prelude/counting"
namespace cukern {
template <class T, unsigned size = sizeof(T)> struct Counted { static constexpr unsigned kind = 0, lanes = 0; };
template <> struct Counted<float> { static constexpr unsigned kind = 0, lanes = 1; };
template <> struct Counted<double> { static constexpr unsigned kind = 1, lanes = 1; };
template <template <auto> class Small, auto format>
struct Counted<Small<format>, 2> { static constexpr unsigned kind = 2, lanes = 1; };
template <template <auto> class Pair, auto format>
struct Counted<Pair<format>, 4> { static constexpr unsigned kind = 2, lanes = 2; };
template <class T> struct Bare { using type = T; };
template <class T> struct Bare<T&> : Bare<T> {};
template <class T> struct Bare<T&&> : Bare<T> {};
template <class T> struct Bare<const T> : Bare<T> {};
template <class T> struct Bare<volatile T> : Bare<T> {};
template <class T> struct Bare<const volatile T> : Bare<T> {};
template <unsigned each, class T> inline __attribute__((always_inline)) void count() {
    using Of = Counted<typename Bare<T>::type>;
    if constexpr (Of::lanes && each) cukern_count(Of::kind, each * Of::lanes);
    else if constexpr (Of::lanes) cukern_count(3, Of::lanes);
}
template <unsigned each, class T> constexpr inline __attribute__((always_inline)) T counted(T&& x) {
    if (!__builtin_is_constant_evaluated()) {
        if constexpr (Counted<typename Bare<T>::type>::kind < 2) {
            if (!__builtin_constant_p(x)) count<each, T>();
        } else count<each, T>();
    }
    return static_cast<T&&>(x);
}
}
"""
#: Functions, by how many operations of their result's type they are; 0 where that is not known, which are calls.
_FUNCTIONS = {
    2: re.compile(r"fmaf?|__fmaf?_r[nzud]|__hfma2?(?:_relu|_sat)?"),
    1: re.compile(
        r"__[fd](?:add|sub|mul|div|rcp)_r[nzud]|__h(?:add|sub|mul|div)2?(?:_rn|_sat)?|__h2div|(?:__)?fdividef|atomicAdd"
    ),
    0: re.compile(
        r"__[fd]r?sqrt_r[nzud]|(?:__|h2?)?(?:a?(?:cos|sin|tan)h?|atan2|cospi|sinpi|exp|exp2|exp10|expm1|log|log2|log10"
        r"|log1p|pow|powi|sqrt|rsqrt|cbrt|rcbrt|hypot|rhypot|erfc?|erf(?:inv|cinv|cx)|normcdf|normcdfinv|[lt]gamma|fmod"
        r"|remainder)f?"
    ),
}
_OPERATORS = frozenset(["+", "-", "*", "/"])
#: Constants and integers: nothing in them is computed in floats when the kernel runs.
_CONSTANT = frozenset(
    """template_argument_list template_parameter_list sizeof_expression alignof_expression static_assert_declaration
    decltype enumerator bitfield_clause gnu_asm_expression noexcept requires_clause attribute_specifier
    attribute_declaration alignas_qualifier concept_definition""".split()
)
#: Parts of nodes that are constants, or indices.
_CONSTANT_PARTS = {
    "array_declarator": "size",
    "case_statement": "value",
    "preproc_if": "condition",
    "preproc_elif": "condition",
    "subscript_expression": "indices",
}
_SOME = re.compile(r"[-+*/]|\w\s*\(")


def edits(text: bytes) -> Iterator[list[Edit]]:
    """The edits of each operation, in any order."""
    root = syntax_tree(text)
    yield from _edits(root, text, 0)
    definitions = (one for one in _computed(root) if one.type in ("preproc_def", "preproc_function_def"))
    for node in definitions:
        value = value_of(node) if _SOME.search(text_of(part(node, "value"))) else None
        if value is not None:
            yield from _edits(value.root, text, value.shift)


def _edits(root: tree_sitter.Node, text: bytes, at: int) -> Iterator[list[Edit]]:
    """The edits of a tree, whose offsets are ``at`` less than those of the text."""
    for node in _computed(root):
        kind, start, end = node.type, node.start_byte + at, node.end_byte + at
        if kind == "binary_expression" and node.children[1].type in _OPERATORS:
            yield [(start, start, " ::cukern::counted<1>("), (end, end, ")")]
        elif kind == "call_expression" and (each := _called(node)) is not None:
            yield [(start, start, f" ::cukern::counted<{each}>("), (end, end, ")")]
        elif kind == "assignment_expression" and node.children[1].type[:1] in _OPERATORS:
            left = " ".join(text[start : node.children[0].end_byte + at].decode().split())
            if is_dropped(node):
                yield [(end, end, f", ::cukern::count<1, decltype({left})>()")]
            else:
                yield [(start, start, " ::cukern::counted<1>("), (end, end, ")")]


def _computed(root: tree_sitter.Node) -> Iterator[tree_sitter.Node]:
    """The nodes of a tree, but for constants."""
    nodes = [root]
    while nodes:
        node = nodes.pop()
        if node.type in _CONSTANT or _is_of_host(node):
            continue
        yield node
        constant = _constant_part(node)
        nodes.extend(child for child in reversed(node.named_children) if child.id != constant)


def _is_of_host(node: tree_sitter.Node) -> bool:
    """Whether a node is what the host has in place of a GPU's instructions."""
    return node.type == "namespace_definition" and text_of(part(node, "name")) == "cukern"


def _constant_part(node: tree_sitter.Node) -> int:
    """The id of a child that is a constant or an index, which has no floats; 0 if there is none.

    Asked of the parent, as a tree finds a node's parent by a search from its root.
    """
    field = _CONSTANT_PARTS.get(node.type, "")
    child = part(node, field) if field else None
    return 0 if child is None or (field == "indices" and "(" in text_of(child)) else child.id


def is_function(name: str) -> bool:
    """Whether a function's floating-point operations are counted: it computes a number of numbers."""
    return any(names.fullmatch(name) for names in _FUNCTIONS.values())


def _called(node: tree_sitter.Node) -> int | None:
    """How many operations a call is; 0 for one of an unknown number, None for one that does not count."""
    function = part(node, "function")
    if function is None or function.type not in ("identifier", "qualified_identifier"):
        return None
    name = (function.text or b"").rpartition(b"::")[2].decode()
    return next((each for each, names in _FUNCTIONS.items() if names.fullmatch(name)), None)


def is_dropped(node: tree_sitter.Node) -> bool:
    """Whether nothing is made of an assignment's value."""
    parent = node.parent
    while parent is not None and parent.type == "comma_expression":
        node, parent = parent, parent.parent
    if parent is None or parent.type == "for_statement":
        return part(parent, "update") == node
    return parent.type == "expression_statement"
