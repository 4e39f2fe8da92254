"""The signature of a kernel, read from its text with a C++ parser.

The signature determines the arguments that a launch takes, reads and writes: ``const T*`` is read, ``T*`` is
written, ``View<T, N>`` is a strided accessor, an arithmetic type is a scalar, and any other type is a struct
passed by value.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import tree_sitter

from .. import dtypes
from ..errors import TemplateError
from . import Dim3
from .declarations import DynamicShared, declarations, words_of
from .definitions import TYPES
from .scopes import declarator_name, function_name, parameters, scope_of
from .syntax import ancestors, first_problem, part, syntax_tree, text_of, walk

_ALIASES = {
    "char": "signed char",
    "long": "long long",
    "size_t": "unsigned long long",
    "ptrdiff_t": "long long",
    "unsigned": "unsigned int",
    **{alias: row.cxx for row in dtypes.TABLE for alias in row.aliases},
    **{name: cxx for name, cxx in TYPES.items() if re.fullmatch(r"u?int\d+_t", name)},
}
#: CUDA's vector types: the element type, and the alignment in bytes.
VECTORS = {
    f"{cuda}{n}": (cxx, size if n == 3 else min(size * n, 16))
    for cuda, cxx, size in (
        ("char", "signed char", 1),
        ("uchar", "unsigned char", 1),
        ("short", "short", 2),
        ("ushort", "unsigned short", 2),
        ("int", "int", 4),
        ("uint", "unsigned int", 4),
        ("longlong", "long long", 8),
        ("ulonglong", "unsigned long long", 8),
        ("float", "float", 4),
        ("double", "double", 8),
    )
    for n in (1, 2, 3, 4)
} | {pair: (row.cxx, 2 * row.itemsize) for row in dtypes.TABLE for pair in row.pairs}
#: Words of a type that do not change its layout.
_NOISE = {"const", "volatile", "enum", "__restrict__", "__restrict", "__grid_constant__", "restrict"}


@dataclass(frozen=True)
class Param:
    """One parameter of a kernel.

    Attributes:
        name: the parameter's name.
        kind: ``"scalar"``, ``"pointer"``, ``"view"``, ``"struct"``, or ``"table"`` for pointers to arrays.
        dtype: the element dtype; None for a struct or a pointer to one.
        const: whether the kernel only reads through the pointer or view.
        ndim: the number of axes of a view, else 0.
        type_text: the type as written in the text.
        alignment: the alignment in bytes that a pointer needs.
        cxx: the type without qualifiers and pointers, its aliases expanded.
    """

    name: str
    kind: str
    dtype: dtypes.DType | None
    const: bool
    ndim: int
    type_text: str
    alignment: int = 1
    cxx: str = ""

    def rounded(self, value: Any) -> Any:
        """A number rounded to the parameter's float type: infinite if it is too large. Another value as it is."""
        if self.kind != "scalar" or self.dtype is None or self.dtype.name not in ("float16", "float32"):
            return value
        with np.errstate(over="ignore"):
            return self.dtype.type(value)


@dataclass(frozen=True)
class Signature:
    """A kernel's name and parameters.

    Attributes:
        name: the function's symbol.
        params: the parameters in order.
        max_threads: the first argument of ``__launch_bounds__`` if it is a number, else None.
        cluster: the blocks of a cluster along x, y and z, as ``__cluster_dims__`` says.
    """

    name: str
    params: tuple[Param, ...]
    max_threads: int | None = None
    cluster: Dim3 = (1, 1, 1)


@dataclass(frozen=True)
class Unit:
    """One translation unit: a rendered text and the results of parsing it.

    Attributes:
        text: CUDA C++ with the prelude included and ``#line`` directives in it.
        signature: the kernel's name and parameters.
        body: the offset in bytes at which the kernel's body begins.
        calls: the names of all functions reachable from the kernel.
        dynamic_shared: the declarations ``extern __shared__ T name[];``.
        trusted: whether the text is the library's own, which the host runs without checks.
        checked: whether each launch on the host is a checked one.
        plain: whether the text is CUDA C++ as it stands, from a program.
    """

    text: str
    signature: Signature
    body: int
    calls: frozenset[str]
    dynamic_shared: tuple[DynamicShared, ...]
    trusted: bool = False
    checked: bool = False
    plain: bool = False

    @property
    def grid_group_meets(self) -> bool:
        """Whether all blocks of a grid may meet by cooperative groups."""
        return {"this_grid", "sync"} <= self.calls

    @property
    def host_cluster(self) -> Dim3:
        """The blocks that the host runs together along each axis; zeros for all of a grid, where so many can."""
        alone = self.signature.cluster == (1, 1, 1)
        return (0, 0, 0) if alone and self.grid_group_meets else self.signature.cluster


#: The types of cuComplex.h, whose values are those of these.
_COMPLEX = {
    "cuComplex": "complex<float>",
    "cuFloatComplex": "complex<float>",
    "cuDoubleComplex": "complex<double>",
}


def _expanded(type_text: str, typedefs: dict[str, str]) -> list[str]:
    """The words of a type, with aliases and macros expanded."""
    words = type_text.split()
    for _ in range(8):
        if not any(word in typedefs for word in words):
            break
        words = [part for word in words for part in typedefs.get(word, word).split()]
    return words


def canonical(type_text: str, typedefs: dict[str, str]) -> str:
    """A C++ arithmetic type in the spelling of the dtype table; another type as written."""
    text = " ".join(word for word in _expanded(type_text, typedefs) if word not in _NOISE)
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


def _view(node: tree_sitter.Node, typedefs: dict[str, str]) -> tuple[dtypes.DType | None, bool, int]:
    arguments = part(node, "arguments")
    parts = [] if arguments is None else arguments.named_children
    if len(parts) != 2 or not text_of(parts[1]).strip().isdigit():
        raise TemplateError(f"{text_of(node)}: expected View<element type, number of axes>")
    element = text_of(parts[0])
    return dtypes.from_cxx(canonical(element, typedefs)), "const" in element.split(), int(text_of(parts[1]))


def _param(node: tree_sitter.Node, typedefs: dict[str, str]) -> Param:
    declarator = part(node, "declarator")
    type_node = part(node, "type")
    name, levels = declarator_name(declarator)
    qualifiers = [text_of(child) for child in node.children if child.type == "type_qualifier"]
    base = text_of(type_node)
    qualifiers += _expanded(base, typedefs)
    words = [word for word in base.split() if word != "const"]
    type_text = " ".join([*(["const"] if "const" in qualifiers else []), *words]) + "*" * levels
    if type_node is not None and type_node.type == "template_type":
        is_view = text_of(part(type_node, "name")) == "View"
        if is_view and levels == 0:
            dtype, const, ndim = _view(type_node, typedefs)
            return Param(name, "view", dtype, const, ndim, type_text)
    plain = canonical(base, typedefs)
    dtype = dtypes.from_cxx(plain)
    if (
        any(mark in plain for mark in "*&")
        or plain.startswith("View")
        or _has(declarator, "reference_declarator", "function_declarator")
    ):
        raise TemplateError(
            f"parameter {name}: {text_of(node)} cannot be passed by a launch: write a number type, T* or "
            "const T*, View<T, N>, or a plain struct"
        )
    if levels == 1:
        vector = VECTORS.get(plain)
        size = vector[1] if vector else 16 if dtype is None else dtypes.info(dtype).itemsize
        dtype = dtypes.from_cxx(vector[0]) if vector else dtype
        return Param(name, "pointer", dtype, "const" in qualifiers, 0, type_text, size)
    if levels > 1:
        if levels > 2 or dtype is None:
            raise TemplateError(
                f"parameter {name}: {type_text} cannot be passed by a launch: T** takes a list of arrays"
            )
        return Param(name, "table", dtype, "const" in qualifiers, 0, type_text, dtypes.info(dtype).itemsize)
    return Param(name, "struct" if dtype is None else "scalar", dtype, True, 0, type_text, cxx=plain)


def _has(node: tree_sitter.Node | None, *kinds: str) -> bool:
    return node is not None and any(one.type in kinds for one in walk(node))


def _reachable(start: str, bodies: dict[str, set[str]]) -> frozenset[str]:
    seen = {start}
    queue = [start]
    while queue:
        for name in bodies.get(queue.pop(), ()):
            if name not in seen:
                seen.add(name)
                queue.append(name)
    return frozenset(seen)


def parse(text: str, trusted: bool = False) -> Unit:
    """Parse the kernel of a rendered text.

    Args:
        text: CUDA C++ with exactly one ``__global__`` function.
        trusted: whether it is the library's own.

    Raises:
        TemplateError: there is no kernel or more than one, or a launch cannot pass a parameter.

    >>> p = parse('extern "C" __global__ void twice(const float* x, float* y, int n) {}')
    >>> p.signature.name, [(q.name, q.kind, q.const) for q in p.signature.params]
    ('twice', [('x', 'pointer', True), ('y', 'pointer', False), ('n', 'scalar', True)])
    """
    root = syntax_tree(text.encode())
    declared = declarations(root)
    kernels, typedefs = declared.kernels, declared.typedefs
    if "<cuComplex.h>" in text:
        typedefs = _COMPLEX | typedefs
    if len(kernels) != 1:
        names = ", ".join(function_name(kernel) for kernel in kernels) or "none"
        raise TemplateError(
            f"expected one __global__ function in a kernel's text, found {names}{first_problem(root, text)}; "
            "what must differ from case to case is written with <% if %>, not with #if"
        )
    _check_linkage(kernels[0])
    _check_result(kernels[0], typedefs)
    params = tuple(_param(node, typedefs) for node in parameters(kernels[0]))
    name, head = function_name(kernels[0]), text.encode()[kernels[0].start_byte : _body(kernels[0])]
    signature = Signature(name, params, _launch_bound(kernels[0]), _cluster(name, head.decode()))
    # A text that does not parse completely may call any function that it names.
    calls = words_of(root.text or b"") if root.has_error else _reachable(signature.name, declared.bodies)
    return Unit(text, signature, _body(kernels[0]), calls, tuple(declared.shared), trusted)


def passed(text: str) -> list[str]:
    """The types of a text's kernel's parameters as launches pass them, without names and aliases: structs as declared.

    >>> text = "typedef float T; struct Pair { T a, b; };"
    >>> passed(text + ' extern "C" __global__ void f(const T* x, unsigned n, Pair p) {}')
    ['const float*', 'unsigned int', 'Pair { float a, b; }']
    """
    root = syntax_tree(text.encode())
    aliases = declarations(root).typedefs
    bodies: dict[str, str] = {}
    for node in walk(root):
        if node.type == "struct_specifier" and (body := part(node, "body")) is not None:
            bodies[text_of(part(node, "name"))] = text_of(body)

    def declared(name: str, outer: tuple[str, ...] = ()) -> str:
        if name not in bodies or name in outer:
            return canonical(name, aliases)
        members = re.sub(r"\w+", lambda word: declared(word[0], (*outer, name)), bodies[name])
        return " ".join(f"{name} {members}".split())

    types = []
    for one in parse(text).signature.params:
        words = (
            (one.cxx or canonical(one.type_text, aliases))
            if one.dtype is None
            else dtypes.info(one.dtype).cxx
        )
        words = declared(words) if one.kind == "struct" else words
        const = one.const and one.kind in ("pointer", "view")
        end = {"pointer": "*", "table": "**", "view": f"[{one.ndim}]"}.get(one.kind, "")
        types.append(f"{'const ' if const else ''}{words.rstrip('*')}{end}")
    return types


def _body(kernel: tree_sitter.Node) -> int:
    body = part(kernel, "body")
    if body is None or not text_of(body).startswith("{"):
        raise TemplateError(f"{function_name(kernel)}: expected a kernel with a body in braces")
    return body.start_byte + 1


def _launch_bound(kernel: tree_sitter.Node) -> int | None:
    for node in kernel.children:
        if node.type == "launch_bounds":
            first = text_of(node.named_children[0]) if node.named_children else ""
            return int(first) if first.isdigit() else None
    return None


_CLUSTER = re.compile(r"\b__cluster_dims__\s*\(([^()]*)\)")


def _cluster(name: str, head: str) -> Dim3:
    """The sizes in a kernel's ``__cluster_dims__``, which the grammar lacks."""
    match = _CLUSTER.search(head)
    if match is None and "__cluster_dims__" not in head:
        return 1, 1, 1
    # Numbers, or products of these, as arguments of a template make them.
    sizes = [[part.strip() for part in size.split("*")] for size in match[1].split(",")] if match else []
    if not 1 <= len(sizes) <= 3 or not all(part.isdigit() and int(part) for size in sizes for part in size):
        raise TemplateError(
            f"{name}: expected __cluster_dims__ of one to three numbers that are at least 1, got "
            f"{match[0] if match else 'something else'}: write a size that varies as a template variable"
        )
    x, y, z = (*(math.prod(map(int, size)) for size in sizes), 1, 1)[:3]
    return x, y, z


def _check_result(kernel: tree_sitter.Node, typedefs: dict[str, str]) -> None:
    """Check that the kernel returns void.

    Raises:
        TemplateError: the kernel returns something.
    """
    declarator = part(kernel, "declarator")
    pointer = declarator is not None and declarator.type != "function_declarator"
    result = text_of(part(kernel, "type"))
    if pointer or _expanded(result, typedefs) not in (["void"], ["auto"]):
        raise TemplateError(
            f"{function_name(kernel)}: a kernel returns void, and this one {result}{'*' * pointer}: write void, and "
            "the result into an argument, such as int* result"
        )


def _check_linkage(kernel: tree_sitter.Node) -> None:
    """Check that the kernel's symbol is its plain name.

    Raises:
        TemplateError: it is a template, in a namespace without a using-declaration, or without ``extern "C"``.
    """
    name, scope, root = function_name(kernel), scope_of(kernel), [*ancestors(kernel)][-1]
    if scope.template is not None:
        raise TemplateError(f"{name}: a kernel template has no plain name; use template variables")
    used = f"using ::{'::'.join([*scope.spaces, name])};"
    if scope.spaces and not (scope.linked and any(text_of(node) == used for node in root.children)):
        raise TemplateError(f"{name}: a kernel in a C++ namespace has no plain name; use template variables")
    if not scope.linked:
        raise TemplateError(f'{name}: write extern "C" before __global__, so that the kernel keeps its name')


def stored(unit: Unit) -> dict[str, Any]:
    """A unit as JSON, but for its text: the results of parsing, which is slower than reading them."""
    return {
        "name": unit.signature.name,
        "max_threads": unit.signature.max_threads,
        "cluster": list(unit.signature.cluster),
        "params": [
            [p.name, p.kind, p.dtype and p.dtype.name, p.const, p.ndim, p.type_text, p.alignment, p.cxx]
            for p in unit.signature.params
        ],
        "body": unit.body,
        "calls": sorted(unit.calls),
        "dynamic_shared": [
            [one.start, one.end, one.type_text, one.name, one.at_file_scope] for one in unit.dynamic_shared
        ],
        "trusted": unit.trusted,
    }


def restored(row: dict[str, Any], text: str) -> Unit:
    """The unit of a text, from :func:`stored`.

    Raises:
        KeyError, TypeError, ValueError: it is no such row.
    """
    params = tuple(
        Param(name, kind, None if dtype is None else dtypes.as_dtype(dtype), *rest)
        for name, kind, dtype, *rest in row["params"]
    )
    x, y, z = row["cluster"]
    return Unit(
        text,
        Signature(row["name"], params, row["max_threads"], (x, y, z)),
        row["body"],
        frozenset(row["calls"]),
        tuple(DynamicShared(*one) for one in row["dynamic_shared"]),
        row["trusted"],
    )
