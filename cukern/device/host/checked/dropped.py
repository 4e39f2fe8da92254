"""Atomic operations of whose result nothing is made.

A statement drops the result, or a variable takes it that is never read from there on; or a function or a macro of the
text returns it, of whose result nothing is made wherever it is called. A compare and swap that fails then changes
nothing, and nobody knows. Sums and the like may come in any order, if nobody looks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import tree_sitter

from ....text.edits import Edit
from ....text.macros import Value, value_of
from ....text.scopes import function_declarator
from ....text.syntax import WORDS, ancestors, part, syntax_tree, text_of, walk
from .counting import is_dropped

#: Such compare and swaps, and exchanges: see `swap_value` and `exchange_value` in runtime/checked/atomics.h.
PRELUDE = """
#line 1 "prelude/dropped"
namespace cukern {
template <typename T> struct Same { using type = T; };
template <typename T> inline T swap_unseen(T* at, typename Same<T>::type compare, typename Same<T>::type value) {
    __atomic_compare_exchange_n(at, &compare, value, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
    return compare;
}
template <typename T> inline T exchange_unseen(T* at, typename Same<T>::type value) {
    using Word = typename Bits<sizeof(T)>::type;
    Word bits;
    __builtin_memcpy(&bits, &value, sizeof(T));
    bits = __atomic_exchange_n((Word*)at, bits, __ATOMIC_ACQ_REL);
    __builtin_memcpy(&value, &bits, sizeof(T));
    return value;
}
}
"""
_NAMED = {"atomicCAS": "swap_unseen", "atomicExch": "exchange_unseen"}
_SWAPS = re.compile(r"(atomicCAS|atomicExch)(_block|_system)?")
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
#: Functions that make another number of one.
_CONVERTS = re.compile(r"__\w+_as_\w+|(?:static|reinterpret)_cast\s*<.*>|int|unsigned|float|double")
_LOOPS = frozenset(["for_statement", "while_statement", "do_statement"])
#: By which a variable may be read at any place.
_ANYWHERE = frozenset(
    ["lambda_expression", "reference_declarator", "goto_statement", "gnu_asm_expression", "ERROR"]
)
_NOT_LOCAL = re.compile(r"\b(?:static|extern|__shared__|volatile)\b")


def edits(text: bytes) -> Iterator[Edit]:
    """The edits that give each such compare and swap, and each such exchange, a name of its own."""
    for name, at in _unseen(text) if is_needed(text.decode()) else ():
        if swap := _SWAPS.fullmatch(name):
            yield at, at + len(name), f"cukern::{_NAMED[swap[1]]}"
    calls = list(_method_calls(text)) if _METHODS.search(text) else []
    if len(calls) != len(_METHODS.findall(text)):  # a class of the text's own has one
        return
    for call, method in calls:
        arguments = part(call, "arguments")
        first = None if arguments is None else arguments.named_child(0)
        if (
            first is not None
            and first.type == "identifier"
            and _is_unseen(call)
            and _is_unread(text_of(first), call)
        ):
            yield method.start_byte, method.end_byte, "compare_exchange_unseen"


def is_needed(text: str) -> bool:
    """Whether a text may need :data:`PRELUDE`."""
    return _SWAPS.search(text) is not None


def _method_calls(text: bytes) -> Iterator[tuple[tree_sitter.Node, tree_sitter.Node]]:
    for node in walk(syntax_tree(text)):
        name = part(node, "function", "field") if node.type == "call_expression" else None
        if name is not None and _METHODS.fullmatch(name.text or b""):
            yield node, name


def commute(text: bytes) -> bool:
    """Whether nothing is made of the result of any atomic operation, and these may come in any order."""
    count = len(_ATOMICS.findall(text))
    names = [name for name, _ in _unseen(text)] if count else []
    if len(names) != count:  # the result of one is used
        return False
    return any(all(kind.fullmatch(name) for name in names) for kind in _COMMUTE)


def _unseen(text: bytes) -> Iterator[tuple[str, int]]:
    """The names of atomic operations of whose result nothing is made, and the offsets where they are called."""
    root = syntax_tree(text)
    trees, seen = [Value(root, 0)], set[str]()
    for node in walk(root):
        if node.type in ("preproc_def", "preproc_function_def"):
            tree = value_of(node)
            if tree is not None and "({" not in text_of(part(node, "value")):
                trees.append(tree)
            else:  # whatever it names
                seen |= set(WORDS.findall(text_of(part(node, "value"))))
    ignored = _ignored([tree.root for tree in trees], seen)
    for tree in trees:
        for node in walk(tree.root):
            name = part(node, "function") if node.type == "call_expression" else None
            if name is not None and _ATOMICS.fullmatch(name.text or b"") and _is_unseen(node, ignored):
                yield text_of(name), name.start_byte + tree.shift


def _ignored(roots: list[tree_sitter.Node], seen: set[str]) -> frozenset[str]:
    """The functions with atomic operations of whose result nothing is made wherever they are named.

    Args:
        roots: all that may name them, as far as it parses.
        seen: words of the rest.
    """
    words = {
        text_of(name): set(WORDS.findall(text_of(node)))
        for root in roots
        for node in walk(root)
        if node.type == "function_definition" and (name := _function_name(node)) is not None
    }
    able = {name for name, own in words.items() if any(word.startswith("atomic") for word in own)}
    for _ in range(4):
        able |= {name for name, own in words.items() if not able.isdisjoint(own)}
    named: dict[str, list[tree_sitter.Node]] = {name: [] for name in able - seen}
    for root in roots if named else ():
        for node in walk(root):
            if not node.named_children and text_of(node) in named and not _declares_function(node):
                named[text_of(node)].append(node)
    ignored = frozenset[str]()
    while True:
        more = {
            name
            for name in named.keys() - ignored
            if named[name]
            and all((call := _call_of(one)) is not None and _is_unseen(call, ignored) for one in named[name])
        }
        if not more:
            return ignored
        ignored |= more


def _function_name(definition: tree_sitter.Node) -> tree_sitter.Node | None:
    """The name of a function that is no method."""
    name = part(function_declarator(definition), "declarator")
    return name if name is not None and name.type == "identifier" else None


def _declares_function(name: tree_sitter.Node) -> bool:
    """Whether a function, or a macro, is declared where it is named."""
    parent = name.parent
    kinds = ("function_declarator", "preproc_def", "preproc_function_def")
    return parent is not None and parent.type in kinds


def _call_of(name: tree_sitter.Node) -> tree_sitter.Node | None:
    """The call of the function that is named there, if it is called."""
    node = name
    while node.parent is not None and node.parent.type in ("template_function", "qualified_identifier"):
        node = node.parent
    parent = node.parent
    is_called = parent is not None and parent.type == "call_expression"
    return parent if is_called and part(parent, "function") == node else None


def _number_of(node: tree_sitter.Node) -> tree_sitter.Node:
    """The expression around one that makes a number of it and does nothing else."""
    while (parent := node.parent) is not None:
        if parent.type in _PURE:
            node = parent
        elif (
            parent.type == "argument_list"
            and (call := parent.parent) is not None
            and _CONVERTS.fullmatch(text_of(part(call, "function")))
        ):
            node = call
        else:
            break
    return node


def _is_returned(node: tree_sitter.Node, ignored: frozenset[str]) -> bool:
    """Whether a function returns an expression, and nothing is made of that."""
    if node.parent is None or node.parent.type != "return_statement":
        return False
    function = _function_around(node)
    name = None if function is None else _function_name(function)
    return name is not None and text_of(name) in ignored


def _is_unseen(call: tree_sitter.Node, ignored: frozenset[str] = frozenset()) -> bool:
    """Whether nothing is made of a call's result, if nothing is made of the results of some functions."""
    node = _number_of(call)
    if is_dropped(node) or _is_returned(node, ignored):
        return True
    parent = node.parent
    if parent is None or parent.children[1:2] == [] or text_of(parent.children[1]) != "=":
        return False
    if parent.type == "init_declarator":
        variable = part(parent, "declarator")
    elif parent.type == "assignment_expression" and is_dropped(parent):
        variable = part(parent, "left")
    else:
        return False
    return (
        variable is not None
        and variable.type == "identifier"
        and _is_unread(text_of(variable), node, ignored)
    )


def _is_unread(name: str, value: tree_sitter.Node, ignored: frozenset[str] = frozenset()) -> bool:
    """Whether a local variable is not read any more once it has been given a value, but for such functions' results."""
    around, function = list(ancestors(value)), _function_around(value)
    body = part(function, "body")
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
        and not _is_returned(_number_of(one), ignored)
        and _is_in(one, scope)
        and (one.start_byte > value.end_byte or any(_is_in(one, loop) for loop in loops))
        for one in every
    )


def _function_around(node: tree_sitter.Node) -> tree_sitter.Node | None:
    return next((one for one in ancestors(node) if one.type == "function_definition"), None)


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
