"""The signature of a kernel, read from its text with a C++ parser.

What a launch may pass, what it reads and what it writes all follow from here: ``const T*`` is a
read, ``T*`` a write, ``View<T, N>`` a strided accessor, an arithmetic type a scalar, and any other
type a struct passed by value.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import tree_sitter
import tree_sitter_cuda

from . import dtypes
from .errors import TemplateError

_ALIASES = {
    "char": "signed char",
    "long": "long long",
    "size_t": "unsigned long long",
    "ptrdiff_t": "long long",
    "unsigned": "unsigned int",
    "half": "__half",
    "nv_bfloat16": "__nv_bfloat16",
    **{f"int{n}_t": cxx for n, cxx in ((8, "signed char"), (16, "short"), (32, "int"), (64, "long long"))},
    **{
        f"uint{n}_t": f"unsigned {cxx}"
        for n, cxx in ((8, "char"), (16, "short"), (32, "int"), (64, "long long"))
    },
}
_NOISE = {"const", "volatile", "__restrict__", "__restrict", "__grid_constant__", "restrict"}


@dataclass(frozen=True)
class Param:
    """One parameter of a kernel.

    Attributes:
        name: the parameter's name.
        kind: ``"scalar"``, ``"pointer"``, ``"view"`` or ``"struct"``.
        dtype: the element dtype; None for a struct or a pointer to one.
        const: whether the kernel only reads what the pointer or view points at.
        ndim: the number of axes of a view, else 0.
        type_text: the type as it is written.
    """

    name: str
    kind: str
    dtype: dtypes.DType | None
    const: bool
    ndim: int
    type_text: str


@dataclass(frozen=True)
class DynamicShared:
    """A declaration ``extern __shared__ T name[];`` and the bytes of the text that it covers."""

    start: int
    end: int
    type_text: str
    name: str
    at_file_scope: bool


@dataclass(frozen=True)
class Signature:
    """A kernel's name and parameters."""

    name: str
    params: tuple[Param, ...]


@dataclass(frozen=True)
class Parsed:
    """What a rendered text says: its kernel, the functions it reaches, its dynamic shared memory."""

    signature: Signature
    calls: frozenset[str]
    dynamic_shared: tuple[DynamicShared, ...]


@lru_cache(maxsize=1)
def _parser() -> tree_sitter.Parser:
    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_cuda.language()))


def _walk(node: tree_sitter.Node) -> Iterator[tree_sitter.Node]:
    stack = [node]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(node.children))


def _text(node: tree_sitter.Node | None) -> str:
    return "" if node is None or node.text is None else node.text.decode()


def _blank_alignment(source: bytes) -> bytes:
    """``source`` with every ``__align__(n)`` blanked, which the grammar does not know before a type."""
    word = b"__align__("
    at = source.find(word)
    while at >= 0:
        end, depth = at + len(word), 1
        while depth and end < len(source):
            depth += {40: 1, 41: -1}.get(source[end], 0)
            end += 1
        source = source[:at] + b" " * (end - at) + source[end:]
        at = source.find(word, end)
    return source


def _canonical(type_text: str, typedefs: dict[str, str]) -> str:
    """A C++ arithmetic type in the dtype table's spelling, or the type's own text."""
    words = [word for word in type_text.split() if word not in _NOISE]
    text = " ".join(words)
    for _ in range(8):
        if text not in typedefs:
            break
        text = typedefs[text]
    if text in _ALIASES:
        return _ALIASES[text]
    words = text.split()
    if set(words) <= {"unsigned", "signed", "char", "short", "int", "long"} and words:
        prefix = "unsigned " if "unsigned" in words else ""
        if "char" in words:
            return prefix + "char" if prefix else "signed char"
        if "short" in words:
            return prefix + "short"
        return prefix + ("long long" if "long" in words else "int")
    return text


def _declarator_name(node: tree_sitter.Node | None) -> tuple[str, int]:
    """The declared name and how many pointer or array levels surround it."""
    levels = 0
    while node is not None and node.type != "identifier":
        if node.type in ("pointer_declarator", "array_declarator", "abstract_pointer_declarator"):
            levels += 1
        inner = node.child_by_field_name("declarator")
        if inner is None:
            inner = next(
                (c for c in node.named_children if c.type.endswith(("declarator", "identifier"))), None
            )
        node = inner
    return _text(node), levels


def _view(node: tree_sitter.Node, typedefs: dict[str, str]) -> tuple[dtypes.DType | None, bool, int]:
    arguments = node.child_by_field_name("arguments")
    parts = [] if arguments is None else arguments.named_children
    if len(parts) != 2 or not _text(parts[1]).strip().isdigit():
        raise TemplateError(f"{_text(node)}: expected View<element type, number of axes>")
    element = _text(parts[0])
    return dtypes.from_cxx(_canonical(element, typedefs)), "const" in element.split(), int(_text(parts[1]))


def _param(node: tree_sitter.Node, typedefs: dict[str, str]) -> Param:
    declarator = node.child_by_field_name("declarator")
    type_node = node.child_by_field_name("type")
    name, levels = _declarator_name(declarator)
    qualifiers = [_text(child) for child in node.children if child.type == "type_qualifier"]
    base = _text(type_node)
    qualifiers += base.split()
    words = [word for word in base.split() if word != "const"]
    type_text = " ".join([*(["const"] if "const" in qualifiers else []), *words]) + "*" * levels
    if type_node is not None and type_node.type == "template_type":
        if _text(type_node.child_by_field_name("name")) == "View" and levels == 0:
            dtype, const, ndim = _view(type_node, typedefs)
            return Param(name, "view", dtype, const, ndim, type_text)
    dtype = dtypes.from_cxx(_canonical(base, typedefs))
    if levels == 1:
        return Param(name, "pointer", dtype, "const" in qualifiers, 0, type_text)
    if levels > 1:
        raise TemplateError(
            f"parameter {name}: {type_text} is a pointer to a pointer; pass one array a parameter"
        )
    return Param(name, "struct" if dtype is None else "scalar", dtype, True, 0, type_text)


def _function_name(node: tree_sitter.Node) -> str:
    declarator = node.child_by_field_name("declarator")
    while declarator is not None and declarator.type != "function_declarator":
        declarator = declarator.child_by_field_name("declarator")
    return _text(None if declarator is None else declarator.child_by_field_name("declarator"))


def _called(body: tree_sitter.Node) -> set[str]:
    """Every identifier of a function's body: a superset of what it calls, macros and templates included."""
    kinds = ("identifier", "type_identifier", "field_identifier")
    return {_text(node) for node in _walk(body) if node.type in kinds}


def _reachable(start: str, bodies: dict[str, set[str]]) -> frozenset[str]:
    seen = {start}
    queue = [start]
    while queue:
        for name in bodies.get(queue.pop(), ()):
            if name not in seen:
                seen.add(name)
                queue.append(name)
    return frozenset(seen)


def _dynamic_shared(node: tree_sitter.Node) -> DynamicShared | None:
    words = [_text(child) for child in node.children]
    declarator = node.child_by_field_name("declarator")
    if "extern" not in words or "__shared__" not in words or declarator is None:
        return None
    name, levels = _declarator_name(declarator)
    if levels == 0:
        return None
    at_file_scope = node.parent is not None and node.parent.type != "compound_statement"
    type_text = _text(node.child_by_field_name("type"))
    return DynamicShared(node.start_byte, node.end_byte, type_text, name, at_file_scope)


def parse(text: str) -> Parsed:
    """Read the kernel of a rendered text.

    Args:
        text: CUDA C++ with exactly one ``__global__`` function.

    Raises:
        TemplateError: there is no kernel, more than one, or a parameter that no launch can pass.

    >>> p = parse('extern "C" __global__ void twice(const float* x, float* y, int n) {}')
    >>> p.signature.name, [(q.name, q.kind, q.const) for q in p.signature.params]
    ('twice', [('x', 'pointer', True), ('y', 'pointer', False), ('n', 'scalar', True)])
    """
    root = _parser().parse(_blank_alignment(text.encode())).root_node
    kernels: list[tree_sitter.Node] = []
    bodies: dict[str, set[str]] = {}
    typedefs: dict[str, str] = {}
    shared: list[DynamicShared] = []
    for node in _walk(root):
        if node.type == "function_definition":
            name, body = _function_name(node), node.child_by_field_name("body")
            bodies.setdefault(name.split("::")[-1], set()).update(_called(node if body is None else body))
            if any(child.type == "__global__" for child in node.children):
                kernels.append(node)
        elif node.type in ("preproc_function_def", "preproc_def"):
            value = node.child_by_field_name("value")
            words = _text(value)
            table = {ord(c): " " for c in words if not (c.isalnum() or c == "_")}
            bodies.setdefault(_text(node.child_by_field_name("name")), set()).update(
                words.translate(table).split()
            )
        elif node.type == "alias_declaration":
            typedefs[_text(node.child_by_field_name("name"))] = _text(node.child_by_field_name("type"))
        elif node.type == "type_definition":
            typedefs[_text(node.child_by_field_name("declarator"))] = _text(node.child_by_field_name("type"))
        elif node.type == "declaration" and (found := _dynamic_shared(node)):
            shared.append(found)
    if len(kernels) != 1:
        names = ", ".join(_function_name(kernel) for kernel in kernels) or "none"
        raise TemplateError(f"expected one __global__ function in a kernel's text, found {names}")
    declarator = kernels[0].child_by_field_name("declarator")
    listed = None if declarator is None else declarator.child_by_field_name("parameters")
    params = tuple(
        _param(node, typedefs)
        for node in ([] if listed is None else listed.named_children)
        if node.type in ("parameter_declaration", "optional_parameter_declaration")
        and _text(node).strip() != "void"
    )
    signature = Signature(_function_name(kernels[0]), params)
    return Parsed(signature, _reachable(signature.name, bodies), tuple(shared))
