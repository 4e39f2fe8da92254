"""Variables that may be read before they are set: whether that shows in what a launch does.

Of those that the compiler warns about, the kernel is compiled once more with these variables filled at their
declarations by a byte that each run chooses. Where no byte makes a difference, the launch has used no unset value, as
where one condition guards both the write and the read. Compilers do not warn about elements of arrays: those of a
user's kernel are always filled, as are structs, and runs with another value in them are compared with others: large
negative numbers with large positive ones, of integers with zeros. If the latter make NaN, zeros are tried of all. NaN
is tried once, as in a product with zero other numbers make no difference.
"""

from __future__ import annotations

import ctypes
import enum
import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import tree_sitter

from ....text.edits import Edit
from ....text.line_directives import place
from ....text.scopes import declarators
from ....text.syntax import in_function, part, syntax_tree, text_of, walk

#: Zeros; large numbers; negative ones of small and of large size; NaN.
BYTES = (0x00, 0x7F, 0xFE, 0xFF)
#: What a filled variable is set to.
PRELUDE = """
#line 1 "prelude/fills"
extern "C" { __attribute__((visibility("default"), externally_visible)) volatile unsigned char cukern_fill; }
namespace cukern {
struct Filled {
    operator bool() const { return cukern_fill & 1; }
    template <typename T> __attribute__((no_sanitize("thread"))) operator T() const {
        T value;
        __builtin_memset((void*)&value, cukern_fill, sizeof value);
        return value;
    }
};
}
"""
#: How a user's arrays are filled: the one whose number is in `cukern_other`, or all, with the value that `cukern_value`
#: says, one of `Value`; others with 0xfe.
ARRAYS_PRELUDE = """
#line 1 "prelude/fills"
extern "C" { __attribute__((visibility("default"), externally_visible)) volatile unsigned cukern_other, cukern_value; }
namespace cukern {
template <typename T> struct Element { using type = T; };
template <typename T, unsigned long n> struct Element<T[n]> : Element<T> {};
template <typename T> constexpr unsigned char second_fill = __is_class(T) && sizeof(T) > 2 ? 0x7f : 0;
template <> constexpr unsigned char second_fill<float> = 0x7f;
template <> constexpr unsigned char second_fill<double> = 0x7f;
template <typename T> inline __attribute__((no_sanitize("thread"))) void fill_array(T& array, unsigned number) {
    if constexpr (__is_trivially_constructible(T) && __is_trivially_copyable(T)) {
        const bool second = cukern_other == number || cukern_other == ~0u;
        const unsigned char values[] = {0xff, second_fill<typename Element<T>::type>, 0};
        const unsigned char other = values[cukern_value];
        __builtin_memset((void*)&array, second ? other : 0xfe, sizeof array);
        runtime->begins_variable(&array, sizeof array);
    }
}
}
"""
ALL_ARRAYS = 2**32 - 1


class Value(enum.IntEnum):
    """What arrays are filled with, in the order in which it is tried: NaN, or -1; large numbers, or zeros; zeros."""

    NAN = 0
    LARGE = 1
    ZEROS = 2


#: Nodes of types that may be structs.
_NAMED_TYPES = ("type_identifier", "template_type", "qualified_identifier", "struct_specifier")
_UNSURE = re.compile(r"warning: (.*) \[-W(?:maybe|sometimes|conditional)-uninitialized\]$", re.MULTILINE)
_NAMED = re.compile(r"[‘'](\w+)")
_ELSEWHERE = re.compile(rb"\b(?:static|extern|__shared__|typedef|volatile)\b")


def named(warning: str) -> str:
    """The variable of a compiler's warning; empty if it names none."""
    match = _NAMED.search(warning)
    return match[1] if match else ""


def unsure(said: str) -> set[str]:
    """The variables of which a compiler's warnings say that they may be unset."""
    return {named(warning) for warning in _UNSURE.findall(said)}


def declarations(text: bytes, names: Iterable[str]) -> Iterator[tuple[str, Edit]]:
    """The edits that fill variables of these names where functions declare them without a value."""
    wanted = {name.encode() for name in names}
    for node in _local(text):
        for one in node.children_by_field_name("declarator"):
            if one.type == "identifier" and one.text in wanted:
                yield one.text.decode(), (one.end_byte, one.end_byte, " = cukern::Filled()")


def _local(text: bytes) -> Iterator[tree_sitter.Node]:
    """The declarations in functions of variables that are theirs alone."""
    for node in walk(syntax_tree(text)):
        is_declaration = node.type == "declaration" and not node.has_error and in_function(node)
        if is_declaration and not _ELSEWHERE.search(text, node.start_byte, node.end_byte):
            yield node


def _lent(root: tree_sitter.Node) -> set[bytes]:
    """Names whose address is taken, or that are arguments where a function of the text takes a reference."""
    takers: set[bytes] = set()
    calls: list[tuple[bytes, list[bytes]]] = []
    lent: set[bytes] = set()
    for node in walk(root):
        if node.type == "function_declarator":
            name, given = part(node, "declarator"), part(node, "parameters")
            if name is not None and given is not None and b"&" in (given.text or b""):
                takers.add(name.text or b"")
        elif node.type == "pointer_expression" and (node.text or b"").startswith(b"&"):
            lent.add((node.text or b"")[1:].strip())
        elif node.type == "call_expression":
            name, given = part(node, "function"), part(node, "arguments")
            if name is not None and given is not None:
                calls.append((name.text or b"", [one.text or b"" for one in given.named_children]))
    return lent.union(*(given for name, given in calls if name.partition(b"<")[0] in takers))


@lru_cache(maxsize=32)  # a kernel's checks build it several times
def arrays(text: bytes) -> Sequence[tuple[str, str, Edit]]:
    """The arrays and structs that functions declare without a value: name, file and line, and the edit that does it.

    With them are the variables whose address or reference a function of the text takes: compilers that do not look into
    it say nothing of these.
    """
    lent, found = _lent(syntax_tree(text)), list[tuple[str, str, Edit]]()
    for node in _local(text):
        if node.parent is None or node.parent.type != "compound_statement":
            continue
        kind = part(node, "type")
        is_named = kind is not None and kind.type in _NAMED_TYPES
        for one in node.children_by_field_name("declarator"):
            *around, inner = declarators(one)
            is_plain = not around and not is_named and (inner.text or b"") not in lent
            is_array = all(outer.type == "array_declarator" for outer in around)
            if inner.type == "identifier" and is_array and not is_plain:
                name = text_of(inner)
                edit = (node.end_byte, node.end_byte, f" cukern::fill_array({name}, {len(found) + 1});")
                file, line = place(text[: inner.start_byte].decode())
                found.append((name, f"{file}:{line}" if file else "", edit))
    return found


def copy_of(addresses: dict[str, tuple[int, int]]) -> dict[str, bytes]:
    """The values of variables at these addresses, of so many bytes."""
    return {name: ctypes.string_at(at, size) for name, (at, size) in addresses.items()}


def put(values: dict[str, bytes], addresses: dict[str, tuple[int, int]]) -> None:
    """Set the variables at these addresses."""
    for name, (at, size) in addresses.items():
        ctypes.memmove(at, values[name], size)


def has_nan(arrays: Iterable[np.ndarray[Any, Any]]) -> bool:
    """Whether something in arrays is NaN."""
    return any(np.isnan(array).any() for array in arrays if "float" in array.dtype.name)


def bits(arrays: Iterable[np.ndarray[Any, Any]]) -> tuple[bytes, ...]:
    """Digests of what is in arrays."""
    return tuple(hashlib.sha256(array.tobytes()).digest() for array in arrays)
