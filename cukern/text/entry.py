"""Isolation of one kernel of a text that has several.

A launch needs one ``__global__`` function of a plain name. So the other kernels, and what this one does not need, are
left out; a kernel that is a template or in a namespace becomes a device function, which a kernel of a plain name calls.
Line numbers do not change.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import tree_sitter

from ..errors import TemplateError
from . import COMMENT, LEFT_OUT
from .declarations import declarator_name, function_declarator
from .line_directives import origin
from .needed import expanded_annotations, needed
from .syntax import GROUPS, first_problem, syntax_tree, text_of


@dataclass
class _Kernel:
    """A ``__global__`` function.

    Attributes:
        node: its definition.
        name: as it is written, with arguments where it specialises a template.
        template: the template around it.
        scope: the namespaces around it, the outermost first; one without a name is empty.
        linked: whether it has C linkage.
    """

    node: tree_sitter.Node
    name: str
    template: tree_sitter.Node | None
    scope: tuple[str, ...]
    linked: bool

    @property
    def qualified(self) -> str:
        return "::".join([*(name for name in self.scope if name), self.name])

    @property
    def whole(self) -> tree_sitter.Node:
        return self.node if self.template is None else self.template


#: The kernels of a text, and the declarations of kernels, which are left out.
_Functions = tuple[list[_Kernel], list[tree_sitter.Node]]


def _walk(
    node: tree_sitter.Node,
    functions: _Functions,
    scope: tuple[str, ...],
    template: tree_sitter.Node | None,
    linked: bool,
) -> None:
    for child in node.named_children:
        if child.type in ("function_definition", "declaration"):
            _sort_out(child, functions, scope, template, linked)
        elif child.type == "template_declaration":
            _walk(child, functions, scope, child, linked)
        elif child.type == "namespace_definition":
            _walk(child, functions, (*scope, text_of(child.child_by_field_name("name"))), None, linked)
        elif child.type == "linkage_specification":
            _walk(child, functions, scope, None, True)
        elif child.type in GROUPS:
            _walk(child, functions, scope, template, linked)


def _sort_out(
    node: tree_sitter.Node,
    functions: _Functions,
    scope: tuple[str, ...],
    template: tree_sitter.Node | None,
    linked: bool,
) -> None:
    kernels, left_out = functions
    function = function_declarator(node)
    words = {text_of(child) for child in node.children} | {child.type for child in node.children}
    if "__global__" in words and function is not None:
        if node.type == "function_definition":
            name = text_of(function.child_by_field_name("declarator"))
            kernels.append(_Kernel(node, name, template, scope, linked))
        else:
            left_out.append(template if template is not None and node.parent == template else node)


def _parameters(template: tree_sitter.Node) -> list[str]:
    listed = template.child_by_field_name("parameters")
    return [] if listed is None else [_code(node) for node in listed.named_children if node.type != "comment"]


def _code(node: tree_sitter.Node) -> str:
    """The text of a node on one line, without comments."""
    return " ".join(COMMENT.sub(" ", text_of(node)).split())


def _template_parameters(template: tree_sitter.Node) -> Iterator[tuple[str, str]]:
    """The name and the default of each parameter of a template.

    Raises:
        TemplateError: a parameter takes any number of arguments.
    """
    for text in _parameters(template):
        if "..." in text:
            raise TemplateError(f"{text}: a kernel's template cannot take any number of arguments here")
        declared, _, default = text.partition("=")
        yield re.findall(r"\w+", declared)[-1], default.strip()


def _split(arguments: str) -> list[str]:
    """Template arguments, divided at the commas that are outside brackets."""
    parts, depth = [""], 0
    for c in arguments:
        depth += (c in "(<[{") - (c in ")>]}")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return [part.strip() for part in parts if part.strip()]


def _arguments(kernel: _Kernel, given: list[str]) -> dict[str, str]:
    """The argument of each parameter of a kernel's template.

    Raises:
        TemplateError: there are too few arguments, or too many.
    """
    parameters = [] if kernel.template is None else list(_template_parameters(kernel.template))
    if len(given) > len(parameters):
        raise TemplateError(
            f"{kernel.name}: expected at most {len(parameters)} template arguments, got {', '.join(given)}"
        )
    chosen: dict[str, str] = {}
    for i, (name, default) in enumerate(parameters):
        value = given[i] if i < len(given) else _replaced(default, chosen)
        if not value:
            raise TemplateError(
                f"{kernel.name}: expected an argument for the template parameter {name}, as in "
                f'kernel["{kernel.name}<{", ".join(n for n, _ in parameters)}>"]'
            )
        chosen[name] = value
    return chosen


def _replaced(text: str, values: dict[str, str]) -> str:
    """The default of a template's parameter, in which earlier parameters may stand."""
    return re.sub(r"\w+", lambda match: values.get(match[0], match[0]), text)


def _substituted(node: tree_sitter.Node, values: dict[str, str]) -> str:
    """The text of a node with names of template parameters replaced."""
    base, text = node.start_byte, node.text or b""
    edits = []
    stack = [node]
    while stack:
        one = stack.pop()
        stack.extend(one.children)
        if one.type in ("type_identifier", "identifier") and text_of(one) in values:
            edits.append((one.start_byte - base, one.end_byte - base, values[text_of(one)]))
    for start, end, value in sorted(edits, reverse=True):
        text = text[:start] + value.encode() + text[end:]
    return " ".join(COMMENT.sub(" ", text.decode()).split())


def _wrapper(kernel: _Kernel, values: dict[str, str], head: str) -> str:
    """A kernel of a plain name that calls the chosen one, which is a device function."""
    function = function_declarator(kernel.node)
    listed = None if function is None else function.child_by_field_name("parameters")
    params = [] if listed is None else [p for p in listed.named_children if p.type.endswith("declaration")]
    params = [p for p in params if text_of(p).strip() != "void"]
    types, names = [], []
    for i, param in enumerate(params):
        node = param.child_by_field_name("declarator")
        while node is not None and node.type != "identifier":
            node = node.child_by_field_name("declarator") or next(iter(node.named_children), None)
        names.append(text_of(node) or f"unnamed_{i}")
        types.append(_substituted(param, values) + ("" if node is not None else f" unnamed_{i}"))
    chosen = f"<{', '.join(values.values())}>" if values else ""
    symbol = "cukern_" + re.sub(r"\W+", "_", kernel.name + chosen).strip("_")
    called = "::".join(["", kernel.qualified]) + chosen
    wrapper = (
        f'extern "C" __global__ {head} void {symbol}({", ".join(types)}) {{ {called}({", ".join(names)}); }}'
    )
    scope = [name for name in kernel.scope if name]
    if scope:
        spaces = " ".join(f"namespace {name} {{" for name in scope)
        wrapper = f"{spaces} {wrapper} {'}' * len(scope)} using ::{'::'.join(scope)}::{symbol};"
    return f'\n#line 1 "prelude/plain name"\n{wrapper}\n'


def _normal(types: str) -> str:
    """Types of parameters with the same blanks for the same types."""
    text = re.sub(r"\b__restrict(?:__)?\b", " ", types)
    return re.sub(r"\s*([*&,<>])\s*", r"\1", " ".join(text.split())).replace(",", ", ")


def _types(kernel: _Kernel, given: list[str]) -> str:
    """The types of a kernel's parameters, with arguments of its template in place of the parameters of that."""
    listed = [] if kernel.template is None else _parameters(kernel.template)
    names = [re.findall(r"\w+", one.partition("=")[0])[-1] for one in listed]
    values = dict(zip(names, given, strict=False))
    function = function_declarator(kernel.node)
    params = None if function is None else function.child_by_field_name("parameters")
    found = []
    for node in [] if params is None else params.named_children:
        name, _ = declarator_name(node.child_by_field_name("declarator"))
        if node.type.endswith("declaration"):
            code = _code(node)
            found.append(re.sub(rf"\b{name}\b", " ", code.partition("=")[0]) if name else code)
    return _normal(_replaced(", ".join(found), values))


def _chosen(
    kernels: list[_Kernel], wanted: str | None, root: tree_sitter.Node, text: str
) -> tuple[_Kernel, list[str]]:
    """The kernel of a name, and its template arguments.

    Raises:
        TemplateError: there is no such kernel, or more than one.
    """
    wanted_name, chosen_types, listed = (wanted or "").partition("(")
    name, _, rest = wanted_name.partition("<")
    name, given = name.strip().removeprefix("::"), _split(rest.strip().removesuffix(">"))
    kernels = [kernel for kernel in kernels if "<" not in kernel.name]
    known = [kernel.qualified for kernel in kernels]
    named = [kernel for kernel in kernels if wanted is None or name in (kernel.qualified, kernel.name)]
    types = _normal(listed.strip().removesuffix(")"))
    fits = [one for one in named if not chosen_types or types in (_types(one, []), _types(one, given))]
    if len(fits) != 1 and len({kernel.qualified for kernel in named}) == 1:
        arguments = f"<{', '.join(given)}>" if given else ""
        overloads = [f'kernel["{one.qualified}{arguments}({_types(one, given)})"]' for one in named]
        asked = "of this name" if fits else f"that takes ({types})"
        raise TemplateError(
            f"{named[0].qualified}: expected one __global__ function {asked}, found {len(fits) or 'none'}, in "
            f"{' and '.join(_place(kernel, text) for kernel in named)}: choose one by its types, as in "
            f"{' or '.join(overloads)}"
        )
    if len(fits) != 1:
        names = ", ".join(dict.fromkeys(known)) or "none"
        asked = "one __global__ function" if wanted is None else f"one __global__ function {name}"
        hint = '; choose one as in kernel["name"]' if wanted is None and kernels else ""
        hint = f"; {said}" if (said := unknown_macro(text, name)) else hint
        hint += "".join(f"; {line[3:]}" for line in text.split("\n") if line.startswith(f"// {LEFT_OUT}"))
        raise TemplateError(
            f"expected {asked} in a kernel's text, found {names}{first_problem(root, text)}{hint}"
        )
    return fits[0], given


def _place(kernel: _Kernel, text: str) -> str:
    """The line of a kernel in the user's text."""
    return origin(text, len((text.encode()[: kernel.node.start_byte]).decode()))


_ATTRIBUTES = re.compile(
    r"\b(?:__launch_bounds__|__maxnreg__|__cluster_dims__|__align__|__attribute__|__declspec|alignas)\s*"
    r"\((?:[^()]|\([^()]*\))*\)|\[\[.*?\]\]"
)
_CXX = {
    "static",
    "inline",
    "extern",
    "C",
    "void",
    "auto",
    "const",
    "constexpr",
    "noexcept",
    "typename",
    "template",
}


def _check_head(kernel: _Kernel, text: str) -> None:
    """Raise an error that names a macro before a kernel's name, if the text has not defined it.

    Raises:
        TemplateError: there is one.
    """
    head = COMMENT.sub(" ", (kernel.node.text or b"").decode().partition("{")[0])
    head = _ATTRIBUTES.sub(" ", re.sub(r"^[ \t]*#.*$", " ", head, flags=re.MULTILINE))
    before, _, rest = head.partition("(")
    words = re.findall(r"\w+", re.sub(r"<.*|\w+\s*::", "", before))
    called = re.match(r"[^()]*\)\s*\(", rest) is not None
    suspects = [] if {"void", "auto"}.isdisjoint(words) else words if called else words[:-1]
    for word in suspects:
        if word not in _CXX and not word.startswith("__") and not _names(text, word):
            raise TemplateError(_no_macro(word, _place(kernel, text)))


def _no_macro(word: str, place: str) -> str:
    return (
        f"{word}, in {place}, is no word of C++ and no macro that the text defines: give its value, which may be "
        f'empty, as in defines={{"{word}": ""}}, or the folder of the file that has it, as in include=folder'
    )


def unknown_macro(text: str, name: str) -> str:
    """What is said of a macro that a text does not define: of that name, or before a function of the name."""
    blank = COMMENT.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    words = r"(?:\w+[ \t]+|\([^()\n]*\)[ \t]*)*?"
    pattern = (
        rf"^[ \t]*{words}([A-Z][A-Z0-9_]+)\b[ \t]*{words}[\w*&<>]*[ \t]*\(?[ \t]*{re.escape(name)}[ \t]*[,()]"
    )
    if not name:
        pattern = r"^[ \t]*([A-Z][A-Z0-9_]+)[ \t]+(?:\w+[ \t]+)*?void[ \t]+\w+[ \t]*\("
    elif re.fullmatch(r"[A-Z][A-Z0-9_]+", name):
        pattern = rf"\b({name})\b"
    for match in re.finditer(pattern, blank, re.MULTILINE):
        if not _names(text, match[1]):
            return _no_macro(match[1], origin(text, match.start(1)))
    return ""


def _names(text: str, word: str) -> bool:
    """Whether a text may declare a macro or a type of a name."""
    return re.search(rf"#[ \t]*define[ \t]+{word}\b|\b(?:using|typedef\b.*)\s{word}\b", text) is not None


def _within(part: tuple[int, int], span: tuple[int, int]) -> bool:
    """Whether an edit is lost in another one; what is put before that one is not."""
    return span[0] <= part[0] and part[1] <= span[1] and span != part and part != (span[0], span[0])


#: Attributes of kernels that functions of the device cannot have.
_MORE_BOUNDS = re.compile(rb"\b(?:__maxnreg__|__cluster_dims__)\s*\([^()]*\)")


def _blank(text: bytes) -> bytes:
    return re.sub(rb"[^\n]", b" ", text)


def kernels(text: str) -> dict[str, list[tuple[str, bool, str]]]:
    """The kernels of a text, each with the name, whether it is a type, and the default of its template's parameters."""
    functions: _Functions = ([], [])
    _walk(syntax_tree(expanded_annotations(text).encode()), functions, (), None, False)
    result: dict[str, list[tuple[str, bool, str]]] = {}
    for one in functions[0]:
        if "<" in one.name:
            continue
        listed = []
        if one.template is not None:
            types = {
                name
                for text in _parameters(one.template)
                if re.match(r"(typename|class)\b", text)
                for name in re.findall(r"\w+", text.partition("=")[0])[-1:]
            }
            listed = [(name, name in types, default) for name, default in _template_parameters(one.template)]
        result[one.qualified] = listed
    return result


def _refuse_launches(kernel: _Kernel) -> None:
    """Raise if a kernel launches kernels, which NVRTC compiles for no launch of ours."""
    if b"<<<" not in (kernel.node.text or b""):
        return
    nodes = [kernel.node]
    while nodes:
        node = nodes.pop()
        if node.type == "kernel_call_syntax" and node.parent is not None:
            raise TemplateError(
                f"{kernel.name}: {' '.join(text_of(node.parent).split())[:80]}: a kernel that launches kernels "
                "(dynamic parallelism) cannot run here: launch both from Python"
            )
        nodes.extend(node.named_children)


def _constants_by_reference(node: tree_sitter.Node) -> Iterator[tuple[int, int, bytes]]:
    """The edits by which a function of the device takes ``__grid_constant__`` parameters of a kernel where they are."""
    declarator = function_declarator(node)
    listed = None if declarator is None else declarator.child_by_field_name("parameters")
    for param in () if listed is None else listed.named_children:
        text = param.text or b""
        name = re.search(rb"\w+\s*$", text)
        if (mark := re.search(rb"\b__grid_constant__\b", text)) and name:
            at = param.start_byte
            yield at + mark.start(), at + mark.end(), _blank(mark[0])
            yield at + name.start(), at + name.start(), b"&"


def isolated(text: str, wanted: str | None) -> str:
    """The text with one kernel, whose name is plain.

    Args:
        text: CUDA C++.
        wanted: the kernel's name, with the arguments of its template, such as ``"axpy<float, 4>"``; None for the
            only one.

    Raises:
        TemplateError: there is no such kernel, or it cannot be launched.
    """
    text = expanded_annotations(text)
    source = text.encode()
    functions: _Functions = ([], [])
    root = syntax_tree(source)
    _walk(root, functions, (), None, False)
    kernel, given = _chosen(functions[0], wanted, root, text)
    _check_head(kernel, text)
    _refuse_launches(kernel)
    values = _arguments(kernel, given)
    edits: list[tuple[int, int, bytes]] = []

    def blank(node: tree_sitter.Node) -> None:
        around = node.parent
        if (
            around is not None
            and around.type == "linkage_specification"
            and around.child_by_field_name("body") == node
        ):
            node = around  # an extern "C" left alone would precede what follows
        edits.append((node.start_byte, node.end_byte, _blank(source[node.start_byte : node.end_byte])))

    for other in functions[0]:
        if other is kernel:
            continue
        if other.name.partition("<")[0] == kernel.name and other.scope == kernel.scope and "<" in other.name:
            mark = next(child for child in other.node.children if child.type == "__global__")
            edits += [(mark.start_byte, mark.end_byte, b"__device__"), *_constants_by_reference(other.node)]
        else:
            blank(other.whole)
    for node in functions[1]:
        blank(node)
    plain = kernel.template is None and not kernel.scope
    bounds = ""
    if not plain:  # what the grammar lacks belongs to the wrapper too
        body = kernel.node.child_by_field_name("body") or kernel.node
        for match in _MORE_BOUNDS.finditer(source, kernel.node.start_byte, body.start_byte):
            bounds += _replaced(match[0].decode(), values) + " "
            edits.append((*match.span(), _blank(match[0])))
        edits += _constants_by_reference(kernel.node)
    for child in kernel.node.children:
        if child.type == "storage_class_specifier" and text_of(child) in ("static", "inline"):
            blank(child)
        elif child.type == "__global__" and plain and not kernel.linked:
            edits.append((kernel.node.start_byte, kernel.node.start_byte, b'extern "C" '))
        elif child.type == "__global__" and not plain:
            edits.append((child.start_byte, child.end_byte, b"__device__"))
        elif child.type == "launch_bounds" and not plain:
            bounds += _substituted(child, values)
            blank(child)
    inside = [(start, end) for start, end, _ in edits if end > start]
    edits = [one for one in edits if not any(_within(one[:2], span) for span in inside)]
    for start, end, new in sorted(set(edits), reverse=True):
        source = source[:start] + new + source[end:]
    return needed(source.decode() + ("" if plain else _wrapper(kernel, values, bounds)))
