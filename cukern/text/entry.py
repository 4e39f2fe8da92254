"""Isolation of one kernel of a text that has several.

A launch needs one ``__global__`` function of a plain name. So the other kernels, and what this one does not need, are
left out; a kernel that is a template or in a namespace becomes a device function, which a kernel of a plain name calls.
Line numbers do not change.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import tree_sitter

from ..errors import TemplateError
from . import COMMENT, LEFT_OUT
from .edits import Edit, blank, edited, split
from .line_directives import origin
from .needed import expanded_annotations, needed
from .scopes import (
    Scope,
    at_file_scope,
    declared_by,
    declared_name,
    function_declarator,
    parameters,
    scope_of,
)
from .syntax import code_of, first_problem, part, syntax_tree, text_of, walk


@dataclass(frozen=True)
class _Kernel:
    """A ``__global__`` function.

    Attributes:
        node: its definition.
        name: as it is written, with arguments where it specialises a template.
        scope: what is around it.
    """

    node: tree_sitter.Node
    name: str
    scope: Scope

    @property
    def qualified(self) -> str:
        return "::".join([*self.scope.named, self.name])

    @property
    def whole(self) -> tree_sitter.Node:
        return self.scope.template or self.node

    @property
    def template_parameters(self) -> list[_TemplateParameter]:
        listed = part(self.scope.template, "parameters")
        nodes = [] if listed is None else listed.named_children
        return [_template_parameter(code_of(node)) for node in nodes if node.type != "comment"]


class _TemplateParameter(NamedTuple):
    """A parameter of a kernel's template: its name, whether it is a type, and its default."""

    name: str
    is_type: bool
    default: str


def _template_parameter(text: str) -> _TemplateParameter:
    """The parameter that a text declares.

    Raises:
        TemplateError: it takes any number of arguments.
    """
    if "..." in text:
        raise TemplateError(f"{text}: a kernel's template cannot take any number of arguments here")
    declared, _, default = text.partition("=")
    is_type = re.match(r"(typename|class)\b", text) is not None
    return _TemplateParameter(re.findall(r"\w+", declared)[-1], is_type, default.strip())


def _functions(root: tree_sitter.Node) -> tuple[list[_Kernel], list[tree_sitter.Node]]:
    """The kernels of a text, and the declarations of kernels, which are left out."""
    kernels, declared = [], []
    for outer in at_file_scope(root):
        node = declared_by(outer) if outer.type == "template_declaration" else outer
        function = function_declarator(node)
        words = {text_of(child) for child in node.children} | {child.type for child in node.children}
        if "__global__" not in words or function is None:
            continue
        if node.type == "function_definition":
            kernels.append(_Kernel(node, text_of(part(function, "declarator")), scope_of(node)))
        elif node.type == "declaration":
            declared.append(outer)
    return kernels, declared


def _arguments(kernel: _Kernel, given: list[str]) -> dict[str, str]:
    """The argument of each parameter of a kernel's template.

    Raises:
        TemplateError: there are too few arguments, or too many.
    """
    params = kernel.template_parameters
    if len(given) > len(params):
        raise TemplateError(
            f"{kernel.name}: expected at most {len(params)} template arguments, got {', '.join(given)}"
        )
    chosen: dict[str, str] = {}
    for i, (name, _, default) in enumerate(params):
        value = given[i] if i < len(given) else _replaced(default, chosen)
        if not value:
            raise TemplateError(
                f"{kernel.name}: expected an argument for the template parameter {name}, as in "
                f'kernel["{kernel.name}<{", ".join(one.name for one in params)}>"]'
            )
        chosen[name] = value
    return chosen


def _replaced(text: str, values: dict[str, str]) -> str:
    """The default of a template's parameter, in which earlier parameters may stand."""
    return re.sub(r"\w+", lambda match: values.get(match[0], match[0]), text)


def _substituted(node: tree_sitter.Node, values: dict[str, str]) -> str:
    """The text of a node with names of template parameters replaced."""
    base = node.start_byte
    edits = [
        (one.start_byte - base, one.end_byte - base, values[text_of(one)])
        for one in walk(node)
        if one.type in ("type_identifier", "identifier") and text_of(one) in values
    ]
    return " ".join(COMMENT.sub(" ", edited(node.text or b"", edits).decode()).split())


def _wrapper(kernel: _Kernel, values: dict[str, str], head: str) -> str:
    """A kernel of a plain name that calls the chosen one, which is a device function."""
    types, names = [], []
    for i, param in enumerate(parameters(kernel.node)):
        name = text_of(declared_name(part(param, "declarator")))
        names.append(name or f"unnamed_{i}")
        types.append(_substituted(param, values) + ("" if name else f" unnamed_{i}"))
    chosen = f"<{', '.join(values.values())}>" if values else ""
    symbol = "cukern_" + re.sub(r"\W+", "_", kernel.name + chosen).strip("_")
    called = "::".join(["", kernel.qualified]) + chosen
    wrapper = (
        f'extern "C" __global__ {head} void {symbol}({", ".join(types)}) {{ {called}({", ".join(names)}); }}'
    )
    if spaces := kernel.scope.named:
        opened = " ".join(f"namespace {name} {{" for name in spaces)
        wrapper = f"{opened} {wrapper} {'}' * len(spaces)} using ::{'::'.join(spaces)}::{symbol};"
    return f'\n#line 1 "prelude/plain name"\n{wrapper}\n'


def _normal(types: str) -> str:
    """Types of parameters with the same blanks for the same types."""
    text = re.sub(r"\b__restrict(?:__)?\b", " ", types)
    return re.sub(r"\s*([*&,<>])\s*", r"\1", " ".join(text.split())).replace(",", ", ")


def _types(kernel: _Kernel, given: list[str]) -> str:
    """The types of a kernel's parameters, with arguments of its template in place of the parameters of that."""
    names = [one.name for one in kernel.template_parameters]
    found = []
    for node in parameters(kernel.node):
        name, code = text_of(declared_name(part(node, "declarator"))), code_of(node)
        found.append(re.sub(rf"\b{name}\b", " ", code.partition("=")[0]) if name else code)
    return _normal(_replaced(", ".join(found), dict(zip(names, given, strict=False))))


def _chosen(
    kernels: list[_Kernel], wanted: str | None, root: tree_sitter.Node, text: str
) -> tuple[_Kernel, list[str]]:
    """The kernel of a name, and its template arguments.

    Raises:
        TemplateError: there is no such kernel, or more than one.
    """
    wanted_name, chosen_types, listed = (wanted or "").partition("(")
    name, _, rest = wanted_name.partition("<")
    name, given = name.strip().removeprefix("::"), split(rest.strip().removesuffix(">"), "(<[{", ")>]}")
    kernels = [kernel for kernel in kernels if "<" not in kernel.name]
    known = [kernel.qualified for kernel in kernels]
    named = [kernel for kernel in kernels if wanted is None or name in (kernel.qualified, kernel.name)]
    types = _normal(listed.strip().removesuffix(")"))
    taken = "" if types == "void" else types
    fits = [one for one in named if not chosen_types or taken in (_types(one, []), _types(one, given))]
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
_CXX = set("static inline extern C void auto const constexpr noexcept typename template".split())


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
    code = COMMENT.sub(lambda match: blank(match[0]), text)
    words = r"(?:\w+[ \t]+|\([^()\n]*\)[ \t]*)*?"
    pattern = (
        rf"^[ \t]*{words}([A-Z][A-Z0-9_]+)\b[ \t]*{words}[\w*&<>]*[ \t]*\(?[ \t]*{re.escape(name)}[ \t]*[,()]"
    )
    if not name:
        pattern = r"^[ \t]*([A-Z][A-Z0-9_]+)[ \t]+(?:\w+[ \t]+)*?void[ \t]+\w+[ \t]*\("
    elif re.fullmatch(r"[A-Z][A-Z0-9_]+", name):
        pattern = rf"\b({name})\b"
    for match in re.finditer(pattern, code, re.MULTILINE):
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


def kernels(text: str) -> dict[str, list[tuple[str, bool, str]]]:
    """The kernels of a text, each with the name, whether it is a type, and the default of its template's parameters."""
    found, _ = _functions(syntax_tree(expanded_annotations(text).encode()))
    return {one.qualified: [*one.template_parameters] for one in found if "<" not in one.name}


def _refuse_launches(kernel: _Kernel) -> None:
    """Raise if a kernel launches kernels, which NVRTC compiles for no launch of ours."""
    for node in walk(kernel.node) if b"<<<" in (kernel.node.text or b"") else ():
        if node.type == "kernel_call_syntax":
            raise TemplateError(
                f"{kernel.name}: {' '.join(text_of(node.parent).split())[:80]}: a kernel that launches kernels "
                "(dynamic parallelism) cannot run here: launch both from Python"
            )


def _constants_by_reference(node: tree_sitter.Node) -> Iterator[Edit]:
    """The edits by which a function of the device takes ``__grid_constant__`` parameters of a kernel where they are."""
    for param in parameters(node):
        text = param.text or b""
        name = re.search(rb"\w+\s*$", text)
        if (mark := re.search(rb"\b__grid_constant__\b", text)) and name:
            at = param.start_byte
            yield at + mark.start(), at + mark.end(), blank(mark[0]).decode()
            yield at + name.start(), at + name.start(), "&"


def _left_out(node: tree_sitter.Node) -> Edit:
    """The edit that leaves out a node, and an ``extern "C"`` of it alone, which would precede what follows."""
    around = node.parent
    if around is not None and around.type == "linkage_specification" and part(around, "body") == node:
        node = around
    return node.start_byte, node.end_byte, blank(node.text or b"").decode()


def _without_others(kernel: _Kernel, others: list[_Kernel]) -> Iterator[Edit]:
    """The edits that leave out the other kernels, but for specialisations of the kernel's template."""
    for other in others:
        if other is kernel:
            continue
        named = other.name.partition("<")[0] == kernel.name and other.scope.spaces == kernel.scope.spaces
        if named and "<" in other.name:
            yield from _on_device(other)
        else:
            yield _left_out(other.whole)


def _on_device(kernel: _Kernel) -> Iterator[Edit]:
    """The edits that make a kernel a function of the device."""
    mark = next(child for child in kernel.node.children if child.type == "__global__")
    yield mark.start_byte, mark.end_byte, "__device__"
    yield from _constants_by_reference(kernel.node)


def _bounds(kernel: _Kernel, source: bytes, values: dict[str, str]) -> tuple[str, list[Edit]]:
    """The attributes of a kernel that functions of the device cannot have, and the edits that leave them out."""
    bounds, edits = [], []
    body = part(kernel.node, "body") or kernel.node
    for match in _MORE_BOUNDS.finditer(source, kernel.node.start_byte, body.start_byte):
        bounds.append(_replaced(match[0].decode(), values))
        edits.append((*match.span(), blank(match[0]).decode()))
    for child in kernel.node.children:
        if child.type == "launch_bounds":
            bounds.append(_substituted(child, values))
            edits.append(_left_out(child))
    return " ".join(bounds), edits


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
    root = syntax_tree(source)
    found, declared = _functions(root)
    kernel, given = _chosen(found, wanted, root, text)
    _check_head(kernel, text)
    _refuse_launches(kernel)
    values = _arguments(kernel, given)
    edits = [*_without_others(kernel, found), *map(_left_out, declared)]
    edits += (
        _left_out(child)
        for child in kernel.node.children
        if child.type == "storage_class_specifier" and text_of(child) in ("static", "inline")
    )
    wrapper = ""
    if kernel.scope.template or kernel.scope.spaces:
        bounds, more = _bounds(kernel, source, values)
        edits += [*more, *_on_device(kernel)]
        wrapper = _wrapper(kernel, values, bounds)
    elif not kernel.scope.linked:
        edits.append((kernel.node.start_byte, kernel.node.start_byte, 'extern "C" '))
    inside = [(start, end) for start, end, _ in edits if end > start]
    kept = {one for one in edits if not any(_within(one[:2], span) for span in inside)}
    return needed(edited(source, kept).decode() + wrapper)
