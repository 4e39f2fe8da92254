"""One kernel of a text that has several, made the text's only one.

A launch needs one ``__global__`` function of a plain name. So the other kernels, and what runs on the host, are left
out; a kernel that is a template or in a namespace becomes a device function, which a kernel of a plain name calls.
Lines stay where they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import tree_sitter

from ..errors import TemplateError
from .signature import syntax_tree

#: Headers of the host's libraries, which kernels do not need; NVRTC has none of them.
_HOST_HEADERS = re.compile(
    rb"[a-z_0-9]+|(?:assert|ctype|errno|float|limits|math|memory|omp|stdarg|stdbool|stddef|stdint|stdio|stdlib|string|"
    rb"time|unistd|sys/\w+|mpi|cuda|cuda_runtime|cuda_runtime_api|cuda_profiler_api|curand|cublas_v2|cufft|getopt|"
    rb"helper_\w+)\.h|thrust/.*"
)
_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*(?:<([^>\n]*)>|"([^"\n]*)").*$', re.MULTILINE)
_WHOLE = {8: "signed char", 16: "short", 32: "int", 64: "long long"}
#: What the left-out headers define and kernels use, and functions of a warp that GPUs no longer have.
_DEFINED = {
    "FLT_MAX": "3.402823466e+38F",
    "FLT_MIN": "1.175494351e-38F",
    "FLT_EPSILON": "1.192092896e-07F",
    "DBL_MAX": "1.7976931348623158e+308",
    "DBL_MIN": "2.2250738585072014e-308",
    "DBL_EPSILON": "2.2204460492503131e-16",
    "INT_MAX": "2147483647",
    "INT_MIN": "(-2147483647 - 1)",
    "UINT_MAX": "0xffffffffu",
    "LLONG_MAX": "9223372036854775807LL",
    "M_PI": "3.14159265358979323846",
    "RAND_MAX": "2147483647",
    **{f"int{n}_t": kind for n, kind in _WHOLE.items()},
    **{f"uint{n}_t": f"unsigned {kind.removeprefix('signed ')}" for n, kind in _WHOLE.items()},
}
_OLD = {
    "__ballot": "(...) __ballot_sync(__activemask(), __VA_ARGS__)",
    "__any": "(...) __any_sync(__activemask(), __VA_ARGS__)",
    "__all": "(...) __all_sync(__activemask(), __VA_ARGS__)",
    "__shfl": "(...) __shfl_sync(__activemask(), __VA_ARGS__)",
    "__shfl_up": "(...) __shfl_up_sync(__activemask(), __VA_ARGS__)",
    "__shfl_down": "(...) __shfl_down_sync(__activemask(), __VA_ARGS__)",
    "__shfl_xor": "(...) __shfl_xor_sync(__activemask(), __VA_ARGS__)",
}
_DEVICE_WORDS = {"__device__", "__global__", "constexpr", "__constant__", "__shared__", "__managed__"}


@dataclass
class _Kernel:
    """A ``__global__`` function: its node, the template around it, the namespaces, whether it has C linkage."""

    node: tree_sitter.Node
    name: str
    template: tree_sitter.Node | None
    scope: tuple[str, ...]
    linked: bool


#: What the walk through a text finds, and the nodes to leave out.
_Found = tuple[list[_Kernel], list[tree_sitter.Node]]


def _text(node: tree_sitter.Node | None) -> str:
    return "" if node is None or node.text is None else node.text.decode()


def _function(node: tree_sitter.Node) -> tree_sitter.Node | None:
    """The declarator of the function that a definition or declaration declares."""
    declarator = node.child_by_field_name("declarator")
    while declarator is not None and declarator.type != "function_declarator":
        declarator = declarator.child_by_field_name("declarator")
    return declarator


def _walk(
    node: tree_sitter.Node,
    found: _Found,
    scope: tuple[str, ...],
    template: tree_sitter.Node | None,
    linked: bool,
) -> None:
    for child in node.named_children:
        if child.type in ("function_definition", "declaration"):
            _sort_out(child, found, scope, template, linked)
        elif child.type == "template_declaration":
            _walk(child, found, scope, child, linked)
        elif child.type == "namespace_definition":
            name = _text(child.child_by_field_name("name"))
            _walk(child, found, (*scope, *([name] if name else [])), None, linked)
        elif child.type == "linkage_specification":
            _walk(child, found, scope, None, True)
        elif child.type in (
            "declaration_list",
            "preproc_if",
            "preproc_ifdef",
            "preproc_else",
            "preproc_elif",
        ):
            _walk(child, found, scope, template, linked)


def _sort_out(
    node: tree_sitter.Node,
    found: _Found,
    scope: tuple[str, ...],
    template: tree_sitter.Node | None,
    linked: bool,
) -> None:
    kernels, left_out = found
    function = _function(node)
    words = {_text(child) for child in node.children} | {child.type for child in node.children}
    whole = template if template is not None and node.parent == template else node
    if "__global__" in words and function is not None:
        if node.type == "function_definition":
            kernels.append(
                _Kernel(node, _text(function.child_by_field_name("declarator")), template, scope, linked)
            )
        else:
            left_out.append(whole)
    elif function is not None and node.type == "function_definition" and words.isdisjoint(_DEVICE_WORDS):
        left_out.append(whole)


def _parameters(template: tree_sitter.Node) -> list[tree_sitter.Node]:
    listed = template.child_by_field_name("parameters")
    return [] if listed is None else listed.named_children


def _template_parameters(template: tree_sitter.Node) -> Iterator[tuple[str, str]]:
    """The name and the default of each parameter of a template.

    Raises:
        TemplateError: a parameter takes any number of arguments.
    """
    for node in _parameters(template):
        text = _text(node)
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
    """What stands for each parameter of a kernel's template.

    Raises:
        TemplateError: there are too few arguments, or too many.
    """
    parameters = [] if kernel.template is None else list(_template_parameters(kernel.template))
    if len(given) > len(parameters):
        raise TemplateError(
            f"{kernel.name}: expected at most {len(parameters)} template arguments, got {', '.join(given)}"
        )
    chosen = {}
    for i, (name, default) in enumerate(parameters):
        value = given[i] if i < len(given) else default
        if not value:
            raise TemplateError(
                f"{kernel.name}: expected an argument for the template parameter {name}, as in "
                f'kernel["{kernel.name}<{", ".join(n for n, _ in parameters)}>"]'
            )
        chosen[name] = value
    return chosen


def _substituted(node: tree_sitter.Node, values: dict[str, str]) -> str:
    """The text of a node with names of template parameters replaced."""
    base, text = node.start_byte, node.text or b""
    places = []
    stack = [node]
    while stack:
        one = stack.pop()
        stack.extend(one.children)
        if one.type in ("type_identifier", "identifier") and _text(one) in values:
            places.append((one.start_byte - base, one.end_byte - base, values[_text(one)]))
    for start, end, value in sorted(places, reverse=True):
        text = text[:start] + value.encode() + text[end:]
    return text.decode()


def _wrapper(kernel: _Kernel, values: dict[str, str], head: str) -> str:
    """A kernel of a plain name that calls the chosen one, which is a device function."""
    function = _function(kernel.node)
    listed = None if function is None else function.child_by_field_name("parameters")
    params = [] if listed is None else [p for p in listed.named_children if p.type.endswith("declaration")]
    params = [p for p in params if _text(p).strip() != "void"]
    names = []
    for param in params:
        node = param.child_by_field_name("declarator")
        while node is not None and node.type != "identifier":
            node = node.child_by_field_name("declarator") or next(iter(node.named_children), None)
        names.append(_text(node))
    chosen = f"<{', '.join(values.values())}>" if values else ""
    symbol = re.sub(r"\W+", "_", kernel.name + chosen).strip("_")
    called = "::".join(["", *kernel.scope, kernel.name]) + chosen
    declared = ", ".join(_substituted(param, values) for param in params)
    return (
        f'\n#line 1 "the kernel of a plain name"\nextern "C" __global__ {head} void cukern_{symbol}({declared}) '
        f"{{ {called}({', '.join(names)}); }}\n"
    )


def _chosen(kernels: list[_Kernel], wanted: str | None) -> tuple[_Kernel, list[str]]:
    """The kernel of a name, and its template arguments.

    Raises:
        TemplateError: there is no such kernel, or more than one.
    """
    name, _, rest = (wanted or "").partition("<")
    name = name.strip().removeprefix("::")
    known = ["::".join([*kernel.scope, kernel.name]) for kernel in kernels]
    fits = [
        kernel
        for kernel, full in zip(kernels, known, strict=True)
        if wanted is None or name in (full, kernel.name)
    ]
    if len(fits) != 1:
        names = ", ".join(dict.fromkeys(known)) or "none"
        asked = "one __global__ function" if wanted is None else f"one __global__ function {name}"
        hint = '; choose one as in kernel["name"]' if wanted is None and kernels else ""
        raise TemplateError(f"expected {asked} in a kernel's text, found {names}{hint}")
    return fits[0], _split(rest.strip().removesuffix(">"))


def _within(part: tuple[int, int], span: tuple[int, int]) -> bool:
    """Whether an edit is lost in another one; what is put before that one is not."""
    return span[0] <= part[0] and part[1] <= span[1] and span != part and part != (span[0], span[0])


def _blank(text: bytes) -> bytes:
    return re.sub(rb"[^\n]", b" ", text)


def kernels(text: str) -> dict[str, list[tuple[str, bool, str]]]:
    """The kernels of a text, each with the name, whether it is a type, and the default of its template's parameters."""
    found: _Found = ([], [])
    _walk(syntax_tree(text.encode()), found, (), None, False)
    made: dict[str, list[tuple[str, bool, str]]] = {}
    for one in found[0]:
        listed = []
        if one.template is not None:
            types = {
                name
                for node in _parameters(one.template)
                if re.match(r"(typename|class)\b", _text(node))
                for name in re.findall(r"\w+", _text(node).partition("=")[0])[-1:]
            }
            listed = [(name, name in types, default) for name, default in _template_parameters(one.template)]
        made["::".join([*one.scope, one.name])] = listed
    return made


def isolated(text: str, wanted: str | None) -> str:
    """The text with one kernel, whose name is plain.

    Args:
        text: CUDA C++.
        wanted: the kernel's name, with the arguments of its template, such as ``"axpy<float, 4>"``; None for the
            only one.

    Raises:
        TemplateError: there is no such kernel, or it cannot be launched.
    """
    source = text.encode()
    found: _Found = ([], [])
    _walk(syntax_tree(source), found, (), None, False)
    kernel, given = _chosen(found[0], wanted)
    values = _arguments(kernel, given)
    edits: list[tuple[int, int, bytes]] = []
    for other in found[0]:
        if other is not kernel:
            whole = other.template if other.template is not None else other.node
            edits.append(
                (whole.start_byte, whole.end_byte, _blank(source[whole.start_byte : whole.end_byte]))
            )
    for node in found[1]:
        edits.append((node.start_byte, node.end_byte, _blank(source[node.start_byte : node.end_byte])))
    plain = kernel.template is None and not kernel.scope
    bounds = ""
    for child in kernel.node.children:
        if child.type == "storage_class_specifier" and _text(child) in ("static", "inline"):
            edits.append((child.start_byte, child.end_byte, _blank(child.text or b"")))
        elif child.type == "__global__" and plain and not kernel.linked:
            edits.append((kernel.node.start_byte, kernel.node.start_byte, b'extern "C" '))
        elif child.type == "__global__" and not plain:
            edits.append((child.start_byte, child.end_byte, b"__device__"))
        elif child.type == "launch_bounds" and not plain:
            bounds = _substituted(child, values)
            edits.append((child.start_byte, child.end_byte, _blank(child.text or b"")))
    inside = [(start, end) for start, end, _ in edits if end > start]
    edits = [one for one in edits if not any(_within(one[:2], span) for span in inside)]
    for start, end, new in sorted(set(edits), reverse=True):
        source = source[:start] + new + source[end:]
    return source.decode() + ("" if plain else _wrapper(kernel, values, bounds))


def _read(name: str, folders: tuple[Path, ...]) -> tuple[Path, str] | None:
    for folder in folders:
        path = folder / name
        if path.is_file():
            return path, path.read_text(encoding="utf-8", errors="replace")
    return None


def assembled(source: str, label: str, folders: tuple[Path, ...] = ()) -> str:
    """A plain text with the files that it includes from folders, and without headers of the host's libraries.

    Args:
        source: CUDA C++.
        label: the name that compilers' messages give it.
        folders: where files in quotes are looked for.
    """
    seen: set[Path] = set()

    def put(text: str, name: str, here: tuple[Path, ...]) -> str:
        lines = [f'#line 1 "{name}"']
        for number, line in enumerate(text.split("\n"), 1):
            include = _INCLUDE.match(line.encode())
            if include is None:
                lines.append(line)
                continue
            wanted = (include[1] or include[2]).decode()
            own = _read(wanted, here) if include[2] is not None else None
            if own is not None:
                if own[0] not in seen:
                    seen.add(own[0])
                    lines += [put(own[1], wanted, (own[0].parent, *folders)), f'#line {number + 1} "{name}"']
                else:
                    lines.append("")
            elif include[2] is None and not _HOST_HEADERS.fullmatch(include[1]):
                lines.append(line)
            else:
                lines.append("")
        return "\n".join(lines)

    text = put(source, label, folders)
    words = set(re.findall(r"\w+", text))
    defined = [
        f"#ifndef {name}\n#define {name} {value}\n#endif" for name, value in _DEFINED.items() if name in words
    ]
    defined += [
        f"#ifndef {name}\n#define {name}{value}\n#endif" for name, value in _OLD.items() if name in words
    ]
    return "\n".join([*(['#line 1 "prelude/plain"'] if defined else []), *defined, text])
