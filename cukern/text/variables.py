"""The ``__constant__`` and ``__device__`` variables of a text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import tree_sitter

from .. import dtypes
from .conditions import integer
from .declarations import aliases
from .scopes import at_file_scope, declarators, scope_of
from .signature import canonical
from .syntax import part, syntax_tree, text_of

_KINDS = {"__constant__", "__device__", "__managed__"}
#: Declarators of values, of pointers and of arrays of these, rather than of references and pointers to arrays.
_OF_VALUES = frozenset(("init_declarator", "pointer_declarator", "array_declarator"))
#: A text without a match has no variable.
_MAYBE = re.compile(r"\b__(?:constant|device|managed)__\b[^(){};]*[;=\[{]")


@dataclass(frozen=True)
class Variable:
    """A variable of the device, outside functions.

    Attributes:
        name: with its namespaces, such as ``"a::b"``.
        symbol: its name in a compiled module.
        dtype: the element dtype; None for a struct.
        shape: the lengths of its axes; None where they cannot be read from the text.
        constant: whether kernels only read it.
        type_text: as written in the text.
    """

    name: str
    symbol: str
    dtype: dtypes.DType | None
    shape: tuple[int, ...] | None
    constant: bool
    type_text: str


def _length(text: str, numbers: dict[str, str]) -> int | None:
    """The value of an array's length, an expression of numbers and their names."""
    for _ in range(8):
        text = re.sub(r"[A-Za-z_]\w*", lambda match: f"({numbers.get(match[0], match[0])})", text)
    return integer(text)


def _declared(node: tree_sitter.Node, names: dict[str, str]) -> Iterator[Variable]:
    words = {text_of(child) for child in node.children}
    if words.isdisjoint(_KINDS) or words & {"__shared__", "const", "constexpr", "extern"}:
        return
    type_text, scope = text_of(part(node, "type")), scope_of(node)
    for declarator in node.children_by_field_name("declarator"):
        *around, inner = declarators(declarator)
        kinds = [one.type for one in around]
        if inner.type != "identifier" or not _OF_VALUES.issuperset(kinds):
            continue
        sizes = [text_of(part(one, "size")) for one in around if one.type == "array_declarator"]
        lengths = [_length(size, names) for size in reversed(sizes)]
        name = text_of(inner)
        dtype = dtypes.from_cxx(canonical(type_text, names))
        parts = [*scope.named, name]
        mangled = f"_ZN{''.join(f'{len(word)}{word}' for word in parts)}E"
        yield Variable(
            "::".join(parts),
            mangled if scope.named and not scope.linked else name,
            dtypes.uint64 if "pointer_declarator" in kinds else dtype,
            None if None in lengths else tuple(length for length in lengths if length is not None),
            "__constant__" in words,
            type_text,
        )


@lru_cache(maxsize=256)
def device_variables(text: str) -> tuple[Variable, ...]:
    """The variables of a text that have memory on the device, without those that nobody can write.

    >>> [(v.name, v.dtype.name, v.shape) for v in device_variables("__constant__ float x[2 * 4]; __device__ int n;")]
    [('x', 'float32', (8,)), ('n', 'int32', ())]
    """
    if not _MAYBE.search(text):
        return ()
    nodes = list(at_file_scope(syntax_tree(text.encode())))
    names: dict[str, str] = {}
    for node in nodes:
        names |= aliases(node)
        if node.type == "declaration":
            for number in re.findall(r"\bconst(?:expr)?\b[^;=]*?\b(\w+)\s*=\s*([^;,]+);", text_of(node)):
                names[number[0]] = number[1]
    return tuple(one for node in nodes if node.type == "declaration" for one in _declared(node, names))
