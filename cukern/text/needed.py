"""Dead-code elimination for one kernel of a program: declarations that it does not reach, and the host's, are blanked.

A declaration is needed if the kernel, or a needed declaration, names it. Line numbers do not change.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import tree_sitter

from . import COMMENT, LEFT_OUT
from .assemble import left_out_line
from .edits import Edit, blank, edited
from .kernel_macros import expanded_kernels
from .macros import defined
from .scopes import declarators, declared_by, function_declarator
from .std_names import also_global, only_in_std, with_std
from .syntax import GROUPS, WORDS, part, syntax_tree, text_of, walk

_ON_DEVICE = set("__device__ __global__ constexpr __constant__ __shared__ __managed__ consteval".split())
#: Words that a macro which annotates functions may consist of.
_ANNOTATIONS = {"__host__", "__device__", "__global__", "__forceinline__", "__noinline__", "inline", "static"}
_ANNOTATIONS |= {"extern", '"C"', "constexpr", "__inline__", "__restrict__", "__launch_bounds__"}
_ANNOTATIONS |= {"__shared__", "__constant__", "void"}
#: Bounds of a kernel on a condition, which a parser expects no directive before.
_BOUNDS = re.compile(
    r"^[ \t]*#[ \t]*if[^\n\\]*(\n\s*__launch_bounds__\s*\([^()#]*\)\s*\n)[ \t]*#[ \t]*endif[^\n]*$",
    re.MULTILINE,
)
_TYPES = ("struct_specifier", "class_specifier", "union_specifier")
#: What makes names of a namespace known without it.
_USING = re.compile(r"using\s+namespace\b(?:\s*::)?\s*(\w+)?")
_SPACE = re.compile(rb"\bnamespace\s+(\w+(?:\s*::\s*\w+)*)\s*[{=]")
#: Namespaces of headers that are not left out.
_KNOWN_SPACES = {"std", "cuda", "cub", "cooperative_groups", "nvcuda", "cukern"}
_OF_STD = re.compile(r"using\s+(?:namespace\s+)?std\s*::\s*(\w+)")
#: Headers that a kernel includes only if it names a part of their path, as the host has none or few of them.
_OF_NAMES = re.compile(
    rb"^[ \t]*#[ \t]*include[ \t]*<((?:cuda|cub)/[^>\n]*|mma\.h|cuda_(?:fp6|awbarrier\w*)\.h|"
    rb"cu\w+_kernel\.h|cooperative_groups[./][^>\n]*)>",
    re.MULTILINE,
)
#: Names of such headers, by a part of their path.
_SPACES = {
    "mma": set("wmma nvcuda fragment load_matrix_sync store_matrix_sync fill_fragment mma_sync".split()),
    "cooperative_groups": set(
        "cooperative_groups thread_block thread_group grid_group cluster_group this_thread_block this_grid "
        "this_cluster tiled_partition coalesced_threads".split()
    ),
}
#: The first line that is not of the prelude.
_LINE = re.compile(rb'^#line \d+ "([^"]*)"', re.MULTILINE)
_OWN = re.compile(rb'^#line \d+ "(?!prelude/)', re.MULTILINE)


@dataclass
class _Item:
    """A declaration: where it is, what it declares, the words in it, and whether a kernel may use it.

    ``joined`` are patterns of the names that a macro pastes together by ``##``.
    """

    node: tree_sitter.Node
    names: frozenset[str]
    words: set[str]
    droppable: bool = True
    of_host: bool = False
    joined: tuple[re.Pattern[str], ...] = ()


def _words(text: str) -> set[str]:
    return set(WORDS.findall(text)) - {""}


def expanded_annotations(text: str) -> str:
    """The text with macros that make kernels, and such as ``#define HD __host__ __device__``, replaced by values.

    Bounds of kernels stand without a condition.
    """
    text = expanded_kernels(_BOUNDS.sub(r"\1", text))
    macros: dict[str, str] = {}
    every = defined(text)
    for one in every:
        words = [word for each in one.value.split() for word in macros.get(each, each).split()]
        is_known = not _ON_DEVICE.isdisjoint(macros.get(one.name, "").split())
        if one.params is None and set(words) <= _ANNOTATIONS and not is_known:
            macros[one.name] = " ".join(words)  # of several that the compiler decides on, the device's
    annotations = _ANNOTATIONS | macros.keys()
    for one in every:
        if one.params is not None or not set(one.value.split()) <= annotations:
            macros.pop(one.name, None)  # which is something else elsewhere
    if not macros:
        return text
    used = re.compile(rf"\"(?:\\.|[^\"\\])*\"|\b(?:{'|'.join(macros)})\b(?!\s*\()")
    lines = text.split("\n")
    return "\n".join(
        line
        if line.lstrip().startswith("#")
        else used.sub(lambda match: macros.get(match[0], match[0]), line)
        for line in lines
    )


def _without_arguments(name: str) -> str:
    """A name without what a template takes, and without the scope that it is in."""
    return re.sub(r"<.*", "", name, flags=re.DOTALL).rpartition("::")[2]


def _name_in(node: tree_sitter.Node | None) -> str:
    """The last identifier of what a declarator declares; that of an operator is empty."""
    text = text_of([None, *declarators(node)][-1])
    return "" if "operator" in text else _without_arguments(text).strip(" ~*&") or text


def _head(node: tree_sitter.Node) -> set[str]:
    """The words of a function before its body."""
    body, text = part(node, "body"), node.text or b""
    return _words((text if body is None else text[: body.start_byte - node.start_byte]).decode())


def _type_names(node: tree_sitter.Node | None) -> set[str]:
    if node is None or node.type not in _TYPES:
        return set()
    return {_without_arguments(text_of(part(node, "name"))).strip()}


def _item(node: tree_sitter.Node, inner: tree_sitter.Node) -> _Item:
    """What ``inner`` declares, with the template around it if there is one."""
    item = _Item(node, frozenset(), _words(text_of(node)))
    declared = part(inner, "type")
    if inner.type in ("function_definition", "declaration") and function_declarator(inner):
        name = _name_in(part(inner, "declarator"))
        # An operator has no name by which it is used.
        item.names, item.droppable = frozenset([name] if name else []), bool(name)
        item.of_host = inner.type == "function_definition" and _ON_DEVICE.isdisjoint(_head(inner))
    elif inner.type == "declaration":
        names = {_name_in(child) for child in inner.children_by_field_name("declarator")}
        defines = declared is not None and part(declared, "body") is not None
        item.names = frozenset(names | _type_names(declared))
        kind = re.match(r"\w*", text_of(declared))
        item.of_host = (
            not defines
            and _ON_DEVICE.isdisjoint(item.words)
            and "const" not in item.words
            and (kind is None or kind[0] not in ("texture", "surface"))
        )
    elif inner.type == "type_definition":
        names = {text_of(child).strip(" *&") for child in inner.children_by_field_name("declarator")}
        item.names = frozenset(
            ({re.sub(r"\W.*", "", name, flags=re.DOTALL) for name in names} | _type_names(declared)) - {""}
        )
        item.droppable = bool(item.names) and (declared is None or declared.type != "enum_specifier")
    elif inner.type in ("alias_declaration", "namespace_alias_definition"):
        item.names = frozenset([text_of(part(inner, "name"))])
    elif inner.type in _TYPES:
        item.names = frozenset(_type_names(inner))
        item.droppable = item.names.isdisjoint({""})
    elif inner.type in ("template_instantiation", "static_assert_declaration"):
        item.of_host = True
    elif inner.type == "using_declaration" and (of_std := _OF_STD.match(text_of(inner))):
        # What a kernel uses of std is global here, unless its namespace has another function of that name.
        item.names = frozenset([of_std[1]]) & also_global()
        item.of_host = not item.names or inner.parent is None or inner.parent.type != "declaration_list"
    elif text_of(inner).split() == ["using", "namespace", "std;"]:
        item.names = only_in_std()
    elif inner.type == "using_declaration" and not _USING.match(text_of(inner)):
        item.names = frozenset(WORDS.findall(text_of(inner))[-1:])
    else:
        item.droppable = False
    return item


def _joins(value: str, taken: set[str]) -> Iterator[re.Pattern[str]]:
    """Patterns of the names that a macro pastes by ``##``, with any word for its parameters."""
    for pasted in re.findall(r"\w+(?:\s*##\s*\w+)+", value):
        parts = re.split(r"\s*##\s*", pasted)
        yield re.compile("".join(r"\w*" if part in taken else re.escape(part) for part in parts))


def _items(node: tree_sitter.Node) -> Iterator[_Item]:
    for child in node.named_children:
        body = part(child, "body")
        is_block = (
            child.type == "linkage_specification" and body is not None and body.type == "declaration_list"
        )
        if child.type in GROUPS or child.type == "namespace_definition" or is_block:
            yield from _items(child)
        elif child.type in ("preproc_def", "preproc_function_def"):
            name, value = part(child, "name"), part(child, "value")
            taken = _words(text_of(part(child, "parameters")))
            yield _Item(
                child,
                frozenset([text_of(name)]),
                _words(text_of(value)),
                joined=tuple(_joins(text_of(value), taken)),
            )
        elif child.type != "comment":
            yield _item(child, declared_by(child))


def _declares_host(member: tree_sitter.Node, words: set[str], annotated: set[str]) -> bool:
    """Whether a member without a word of CUDA is a function of the host, and not virtual, which takes room."""
    name = part(function_declarator(member), "declarator")
    is_named = name is not None and name.type == "field_identifier"  # no operator or pointer to functions
    typed = part(member, "type") is not None and not member.has_error
    return is_named and typed and "virtual" not in words and text_of(name) not in annotated


def _host_members(node: tree_sitter.Node, annotated: set[str]) -> Iterator[tree_sitter.Node]:
    """Member functions that run on the host alone: definitions, and declarations."""
    nodes = walk(node, lambda one: one.type == "compound_statement")
    classes = (one for one in nodes if one.type == "field_declaration_list")
    for member in (member for one in classes for member in one.named_children):
        inner = declared_by(member)
        if inner.type == "function_definition" and part(inner, "body") is not None and not inner.has_error:
            name = _name_in(part(inner, "declarator"))
            if _ON_DEVICE.isdisjoint(_head(inner)) and name not in annotated:
                yield member
        elif (
            inner.type in ("field_declaration", "declaration")
            and function_declarator(inner)
            and _ON_DEVICE.isdisjoint(words := _words(text_of(inner)))
            and ("__host__" in words or _declares_host(inner, words, annotated))
        ):
            yield member


def _class_name(members: tree_sitter.Node) -> str:
    return re.sub(r"<.*", "", text_of(part(members.parent, "name")), flags=re.DOTALL)


def _constructors(members: tree_sitter.Node) -> Iterator[tree_sitter.Node]:
    """The constructors among the members of a class."""
    for member in members.named_children:
        inner = declared_by(member)
        is_untyped = function_declarator(inner) and not part(inner, "type")
        if is_untyped and text_of(part(inner, "declarator")).partition("(")[0].strip() == _class_name(
            members
        ):
            yield member


def _instead(left_out: list[tree_sitter.Node]) -> Iterator[Edit]:
    """The ranges of what is left out, and what stands there.

    A class that loses all its constructors gets a deleted one, as without any it would be made of values that nobody
    has set; or a trivial one, where one did nothing, as CUDA allows variables of such a class in shared memory.
    """
    ids = {node.id for node in left_out}
    for node in left_out:
        made = [] if node.parent is None else list(_constructors(node.parent))
        text = ""
        if node.parent and made and made[0].id == node.id and ids.issuperset(one.id for one in made):
            empty = any(re.search(r"^[^:]*\(\s*(?:void)?\s*\)[^:]*{\s*}$", text_of(one)) for one in made)
            name = _class_name(node.parent)
            text = f"{name}() = default;" if empty else f"explicit {name}() = delete;"
        yield node.start_byte, node.end_byte, text


def _left_out(node: tree_sitter.Node, annotated: set[str]) -> Iterator[tree_sitter.Node]:
    """The parts of a needed declaration that are not needed; also ``static``, which would hide a variable's symbol."""
    yield from _host_members(node, annotated)
    if (
        node.type == "declaration"
        and function_declarator(node) is None
        and not _ON_DEVICE.isdisjoint(_words(text_of(node)))
    ):
        yield from (child for child in node.children if text_of(child) == "static")


_FUNCTIONS = ("declaration", "field_declaration", "function_definition")


def _has_no_members(node: tree_sitter.Node) -> bool:
    """Whether nothing in a node is the member of a class, as in a function; a variable's declaration may define one."""
    is_function = node.type in _FUNCTIONS and function_declarator(node) is not None
    return is_function or node.type == "compound_statement"


def _annotated(items: list[_Item]) -> set[str]:
    """The names of functions that a declaration, or a definition outside their class, marks as the device's."""
    names: set[str] = set()
    for node in (node for item in items for node in walk(item.node, _has_no_members)):
        function = function_declarator(node) if node.type in _FUNCTIONS else None
        name = part(function, "declarator")
        # Of definitions, those of members of classes and namespaces.
        is_member = name is not None and name.type == "qualified_identifier"
        is_told = function and (is_member or node.type != "function_definition")
        if is_told and not _ON_DEVICE.isdisjoint(_head(node)):
            names.add(_name_in(name))
    return names - {""}


def _joined(item: _Item, name: str) -> bool:
    """Whether a macro may paste a name together, as ``#define CALL(f) f##_device()`` does."""
    return any(pattern.fullmatch(name) for pattern in item.joined)


def _kept(source: bytes) -> tuple[list[_Item], set[int], set[str]]:
    """The declarations of a text, the ids of those that its kernels need, and the functions of the device."""
    items = list(_items(syntax_tree(source)))
    annotated = _annotated(items)
    for item in items:
        item.of_host = item.of_host and item.names.isdisjoint(annotated)
    kernels = [item for item in items if "__global__" in item.words and not item.of_host]
    by_name: dict[str, list[_Item]] = {}
    for item in items:
        for name in item.names if not item.of_host else ():
            by_name.setdefault(name, []).append(item)
    kept = {id(item) for item in items if item in kernels or not (item.droppable or item.of_host)}
    queue = [item for item in items if id(item) in kept]
    while queue:
        one = queue.pop()
        for word in one.words | {name for name in by_name if _joined(one, name)}:
            for item in by_name.pop(word, ()):
                if id(item) not in kept:
                    kept.add(id(item))
                    queue.append(item)
    return items, kept, annotated


def _unneeded_headers(source: bytes, items: list[_Item]) -> Iterator[tuple[str, tuple[int, int]]]:
    """The headers of which a text's needed declarations name nothing, and where they are included; also what says
    that names come from their namespaces, without a name.
    """
    named = [item for item in items if not item.node.type.startswith("preproc_inc")]
    of_space = [item for item in named if _USING.match(text_of(item.node))]
    words = {word for item in named if item not in of_space for word in item.words}
    words |= {"curand_kernel"} if any(word.startswith("curand") for word in words) else set()
    kept, dropped = set(), set()
    for match in _OF_NAMES.finditer(source):
        path = re.findall(r"\w+", re.sub(r"\.\w+$", "", match[1].decode()))
        spaces = {word for part in path for word in _SPACES.get(part, {part})}
        if path[0].startswith("cuda_"):  # whose names have a common part
            part = path[0].split("_")[1]
            spaces |= {word for word in words if part in word}
        if words.isdisjoint(spaces):
            dropped |= spaces
            yield f"<{match[1].decode()}>", match.span()
        else:
            kept |= spaces
    for item in of_space:
        if not item.words.isdisjoint(dropped - kept):
            yield "", (item.node.start_byte, item.node.end_byte)


def _without_headers(source: bytes, items: list[_Item]) -> Iterator[_Item]:
    """What says that names come from a namespace that only headers which are left out may have."""
    if f"// {LEFT_OUT}".encode() not in source:
        return
    known = _KNOWN_SPACES | {word for name in _SPACE.findall(source) for word in WORDS.findall(name.decode())}
    for item in items:
        known |= item.words if item.node.type.startswith("preproc") else set()
    for item in items:
        match = _USING.match(text_of(item.node))
        if match is not None and match[1] not in known:
            yield item


def _preludes(source: bytes) -> list[tuple[int, int]]:
    """The ranges of a text that are of the prelude."""
    marks = [(match.start(), match[1].startswith(b"prelude/")) for match in _LINE.finditer(source)]
    own = _OWN.search(source)
    ends = [at for at, _ in marks[1:]] + [len(source)]
    inside = [(at, end) for (at, is_given), end in zip(marks, ends, strict=True) if is_given]
    return [(0, own.start()), *inside] if own else []


def needed(text: str) -> str:
    """The text with what its kernel does not need overwritten by spaces, and a comment that names it."""
    source = text.encode()
    given = _preludes(source)
    items, kept, annotated = _kept(source)
    headers = list(_unneeded_headers(source, [item for item in items if id(item) in kept]))
    spans, host = [(*place, "") for _, place in headers], [name for name, _ in headers]
    for item in _without_headers(source, [item for item in items if id(item) in kept]):
        kept.remove(id(item))
        host.append(text_of(item.node).rstrip(";"))
    for item in items:
        at = item.node.start_byte
        if item.node.type.startswith("preproc") or any(start <= at < end for start, end in given):
            continue
        host += sorted(item.names) if item.of_host else []
        if id(item) in kept:
            spans += _instead(list(_left_out(item.node, annotated)))
        else:
            spans.append((item.node.start_byte, item.node.end_byte, ""))
    kept_text = edited(
        source, [(at, end, instead + blank(source[at:end]).decode()) for at, end, instead in spans]
    )
    return with_std(
        "\n".join([kept_text.decode(), *left_out_line(name for name in dict.fromkeys(host) if name)])
    )


def reached(text: str) -> str:
    """The declarations and macros that a text's kernel needs, one after another, without comments."""
    source = text.encode()
    own = _OWN.search(source)
    items, kept, _ = _kept(source)
    parts = [
        text_of(item.node)
        for item in items
        if id(item) in kept and not (own and item.node.start_byte < own.start())
    ]
    return COMMENT.sub(" ", "\n".join(parts))
