"""Atomic operations of whose result nothing is made.

A statement drops the result, or a variable takes it that is never read from there on. A compare and swap that fails
then changes nothing, and nobody knows. Sums and the like may come in any order, if nobody looks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import tree_sitter

from ....text.syntax import syntax_tree, text_of, walk
from ..translate import Edit
from .counting import is_dropped

#: Such a compare and swap: see `swap_value` in runtime/checked/atomics.h.
PRELUDE = """
#line 1 "prelude/dropped"
namespace cukern {
template <typename T> struct Same { using type = T; };
template <typename T> inline T swap_unseen(T* at, typename Same<T>::type compare, typename Same<T>::type value) {
    __atomic_compare_exchange_n(at, &compare, value, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
    return compare;
}
}
"""
_SWAPS = re.compile(r"atomicCAS(_block|_system)?")
_ATOMICS = re.compile(rb"\batomic[A-Z]\w*")
#: Methods of ``cuda::atomic``, whose first argument takes what the place has.
_METHODS = re.compile(rb"\bcompare_exchange_(?:strong|weak)\b")
#: Operations of which any two of one row have the same effect in either order.
_COMMUTE = [
    re.compile(rf"atomic({names})(_block|_system)?")
    for names in ("Add|Sub", "Min", "Max", "And", "Or", "Xor")
]
#: What makes a number of others and does nothing else.
_PURE = frozenset(["parenthesized_expression", "cast_expression", "binary_expression", "unary_expression"])
_LOOPS = frozenset(["for_statement", "while_statement", "do_statement"])
#: By which a variable may be read at any place.
_ANYWHERE = frozenset(
    ["lambda_expression", "reference_declarator", "goto_statement", "gnu_asm_expression", "ERROR"]
)
_NOT_LOCAL = re.compile(r"\b(?:static|extern|__shared__|volatile)\b")


def edits(text: bytes) -> Iterator[Edit]:
    """The edits that give each such compare and swap a name of its own."""
    for name in _unseen(text) if b"atomicCAS" in text else ():
        if _SWAPS.fullmatch(text_of(name)):
            yield name.start_byte, name.end_byte, "cukern::swap_unseen"
    calls = list(_method_calls(text)) if _METHODS.search(text) else []
    if len(calls) != len(_METHODS.findall(text)):  # a class of the text's own has one
        return
    for call, name in calls:
        arguments = call.child_by_field_name("arguments")
        first = arguments.named_child(0) if arguments is not None else None
        if (
            first is not None
            and first.type == "identifier"
            and _is_unseen(call)
            and _is_unread(text_of(first), call)
        ):
            yield name.start_byte, name.end_byte, "compare_exchange_unseen"


def _method_calls(text: bytes) -> Iterator[tuple[tree_sitter.Node, tree_sitter.Node]]:
    for node in walk(syntax_tree(text)):
        function = node.child_by_field_name("function") if node.type == "call_expression" else None
        name = function.child_by_field_name("field") if function is not None else None
        if name is not None and _METHODS.fullmatch(name.text or b""):
            yield node, name


def commute(text: bytes) -> bool:
    """Whether nothing is made of the result of any atomic operation, and these may come in any order."""
    count = len(_ATOMICS.findall(text))
    names = [text_of(name) for name in _unseen(text)] if count else []
    if len(names) != count:  # one is in a macro, or its result is used
        return False
    return any(all(kind.fullmatch(name) for name in names) for kind in _COMMUTE)


def _unseen(text: bytes) -> Iterator[tree_sitter.Node]:
    """The names of atomic operations of whose result nothing is made, where they are called."""
    for node in walk(syntax_tree(text)):
        name = node.child_by_field_name("function") if node.type == "call_expression" else None
        if name is not None and _ATOMICS.fullmatch(name.text or b"") and _is_unseen(node):
            yield name


def _is_unseen(call: tree_sitter.Node) -> bool:
    node = call
    while node.parent is not None and node.parent.type in _PURE:
        node = node.parent
    if is_dropped(node):
        return True
    parent = node.parent
    if parent is None or parent.children[1:2] == [] or text_of(parent.children[1]) != "=":
        return False
    if parent.type == "init_declarator":
        variable = parent.child_by_field_name("declarator")
    elif parent.type == "assignment_expression" and is_dropped(parent):
        variable = parent.child_by_field_name("left")
    else:
        return False
    return variable is not None and variable.type == "identifier" and _is_unread(text_of(variable), node)


def _is_unread(name: str, value: tree_sitter.Node) -> bool:
    """Whether a local variable is not read any more once it has been given a value."""
    around = list(_ancestors(value))
    function = next((one for one in around if one.type == "function_definition"), None)
    body = None if function is None else function.child_by_field_name("body")
    if function is None or body is None:
        return False
    if any(one.type in _ANYWHERE or text_of(one) == f"&{name}" for one in walk(body)):
        return False
    every = [one for one in walk(function) if one.type == "identifier" and text_of(one) == name]
    declared = [own for one in every if (own := _declaration(one)) is not None and own.parent in around]
    if not declared or _NOT_LOCAL.search(text_of(declared[-1])):
        return False
    scope = declared[-1].parent
    if scope is None:
        return False
    # In a loop that the variable outlives, what comes before comes after, too.
    loops = [one for one in around if one.type in _LOOPS and not _is_in(declared[-1], one)]
    return not any(
        _is_read(one)
        and _is_in(one, scope)
        and (one.start_byte > value.end_byte or any(_is_in(one, loop) for loop in loops))
        for one in every
    )


def _ancestors(node: tree_sitter.Node) -> Iterator[tree_sitter.Node]:
    parent = node.parent
    while parent is not None:
        yield parent
        parent = parent.parent


def _is_in(node: tree_sitter.Node, other: tree_sitter.Node) -> bool:
    return other.start_byte <= node.start_byte and node.end_byte <= other.end_byte


def _declaration(name: tree_sitter.Node) -> tree_sitter.Node | None:
    """The declaration of a variable that is no reference, if this is its name there."""
    parent = name.parent
    if parent is not None and parent.type == "init_declarator" and _is_declarator(name, parent):
        name, parent = parent, parent.parent
    kinds = ("declaration", "parameter_declaration")
    return parent if parent is not None and parent.type in kinds and _is_declarator(name, parent) else None


def _is_declarator(node: tree_sitter.Node, parent: tree_sitter.Node) -> bool:
    return any(one.id == node.id for one in parent.children_by_field_name("declarator"))


def _is_read(name: tree_sitter.Node) -> bool:
    """Whether a variable's value, or its address, is taken where it is named."""
    parent = name.parent
    if _declaration(name) is not None:
        return False
    is_target = (
        parent is not None and parent.type == "assignment_expression" and parent.children[0].id == name.id
    )
    return not (
        is_target and parent is not None and text_of(parent.children[1]) == "=" and is_dropped(parent)
    )
