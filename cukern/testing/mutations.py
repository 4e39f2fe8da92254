"""Mutation operators for kernels: small changes of a text, each of which should make it wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import tree_sitter

from ..text.edits import blank, edited
from ..text.syntax import ancestors, part, syntax_tree, text_of, walk

_INSERTED = re.compile(rb"<<.*?>>", re.DOTALL)
_STATEMENT = re.compile(rb"<[%#].*?[%#]>", re.DOTALL)

_OPERATORS = {
    "<": "<=",
    "<=": "<",
    ">": ">=",
    ">=": ">",
    "==": "!=",
    "!=": "==",
    "+": "-",
    "-": "+",
    "*": "+",
    "/": "*",
    "%": "/",
    "&&": "||",
    "||": "&&",
    "&": "|",
    "|": "&",
}
_ASSIGNMENTS = {"+=": ("=", "-="), "-=": ("+=",), "*=": ("=",), "|=": ("=",), "&=": ("=",)}
_COUNTERPARTS = {
    "fmin": "fmax",
    "fminf": "fmaxf",
    "min": "max",
    "minimum": "maximum",
    "atomicMin": "atomicMax",
    "__shfl_up_sync": "__shfl_down_sync",
    "sin": "cos",
    "exp": "expm1",
    "log": "log1p",
}
_COUNTERPARTS |= {b: a for a, b in _COUNTERPARTS.items()}
#: Calls that order threads or their memory accesses.
_WAITS = re.compile(
    r"__syncthreads|__syncwarp|__threadfence(_block|_system)?|\w*wait\w*|\w*barrier\w*|\w*fence\w*"
)
_AXES = {"x": "y", "y": "x", "z": "x"}
_BUILTINS = ("threadIdx", "blockIdx", "blockDim", "gridDim")
_NUMBER = re.compile(r"(\d+(?:\.\d*)?)([uUlLfF]*)")
_JUMPS = ("return_statement", "break_statement", "continue_statement")


@dataclass(frozen=True)
class Mutation:
    """A change of a text.

    Attributes:
        line: where it begins, counted from 1.
        what: the kind of change.
        start: the first byte that is replaced.
        end: the byte after the last one.
        new: the replacement.
    """

    line: int
    what: str
    start: int
    end: int
    new: str

    def apply(self, source: str) -> str:
        """The changed text."""
        return edited(source.encode(), [(self.start, self.end, self.new)]).decode()

    def diff(self, source: str) -> str:
        """The lines before and after, marked by ``-`` and ``+``."""
        text = source.encode()
        first = text.rfind(b"\n", 0, self.start) + 1
        last = text.find(b"\n", self.end) % (len(text) + 1)  # -1 is the end
        old = text[first:last]
        new = edited(old, [(self.start - first, self.end - first, self.new)])
        before, after = (one.decode().split("\n") for one in (old, new))
        lines = [*(f"- {line}" for line in before), *(f"+ {line}" for line in after)]
        return "\n".join([f"line {self.line}: {self.what}", *lines])


def masked(source: str) -> bytes:
    """A template as C++ of the same length: Jinja's expressions become names, its statements and comments spaces."""

    def name(match: re.Match[bytes]) -> bytes:
        return re.sub(rb"[^\n]", b"_", b"e" + match[0][1:])

    return _INSERTED.sub(name, _STATEMENT.sub(lambda match: blank(match[0]), source.encode()))


def mutations(source: str) -> list[Mutation]:
    """The changes that make sense in the functions of a template, in the order of its lines."""
    unique: dict[tuple[int, int, str], Mutation] = {}
    for node in walk(syntax_tree(masked(source))):
        operator = _KINDS.get(node.type)
        if operator is None or not _in_body(node):
            continue
        for what, changed, new in operator(node):
            one = Mutation(changed.start_point[0] + 1, what, changed.start_byte, changed.end_byte, new)
            unique.setdefault((one.start, one.end, one.new), one)
    text = source.encode()
    complete = (_unmasked(one, text) for one in unique.values())
    return sorted(complete, key=lambda one: (one.start, one.end, one.new))


def _unmasked(one: Mutation, text: bytes) -> Mutation:
    """The mutation with the template's own text where its new text copies some; see :func:`_copy`."""
    new = _COPIED.sub(lambda m: text[int(m[1]) : int(m[2])].decode(), one.new)
    return Mutation(one.line, one.what, one.start, one.end, new)


_COPIED = re.compile("\0(\\d+):(\\d+)\0")
Change = tuple[str, tree_sitter.Node, str]


def _copy(node: tree_sitter.Node) -> str:
    """A placeholder for the template's text of a node."""
    return f"\0{node.start_byte}:{node.end_byte}\0"


def _in_body(node: tree_sitter.Node) -> bool:
    """Whether a node is in a function's body, and is executed."""
    inside = False
    for parent in (node, *ancestors(node)):
        if parent.type in ("static_assert_declaration", "template_argument_list", "array_declarator"):
            return False
        if parent.type.startswith("preproc"):
            return inside and parent.type in ("preproc_if", "preproc_ifdef", "preproc_else")
        inside = inside or parent.type == "compound_statement"
    return inside


def _in_step(node: tree_sitter.Node) -> bool:
    """Whether a node is the step of a for loop."""
    parent = node.parent
    return parent is not None and parent.type == "for_statement" and part(parent, "update") == node


def _binary(node: tree_sitter.Node) -> Iterator[Change]:
    operator = node.children[1]
    new = _OPERATORS.get(text_of(operator))
    if new is not None and not node.has_error:
        yield f"`{text_of(operator)}` is `{new}`", operator, new
    left, right = node.children[0], node.children[2]
    if text_of(operator) == "+" and left.type == "binary_expression" and text_of(left.children[1]) == "*":
        # row * columns + column
        swapped = f"{_copy(right)} * {_copy(left.children[2])} + {_copy(left.children[0])}"
        if right.type == "identifier" and left.children[0].type == "identifier":
            yield "index terms are swapped", node, swapped


def _assignment(node: tree_sitter.Node) -> Iterator[Change]:
    operator = node.children[1]
    word = text_of(operator)
    if _in_step(node):
        if word == "+=":
            yield "the stride is larger by one", node.children[2], f"1 + ({_copy(node.children[2])})"
        return
    for new in _ASSIGNMENTS.get(word, ()):
        yield f"`{word}` is `{new}`", operator, new
    if node.parent is not None and node.parent.type == "expression_statement":
        yield "the statement is left out", node.parent, ";"


def _condition(node: tree_sitter.Node) -> Iterator[Change]:
    condition, body = part(node, "condition"), part(node, "consequence")
    if condition is None or body is None or any(child.type == "constexpr" for child in node.children):
        return
    while body.type == "compound_statement" and len(body.named_children) == 1:
        body = body.named_children[0]
    yield "the guard is dropped", condition, "(false)" if body.type in _JUMPS else "(true)"


def _number(node: tree_sitter.Node) -> Iterator[Change]:
    match = _NUMBER.fullmatch(text_of(node))
    if match is None or (node.parent is not None and node.parent.type == "subscript_designator"):
        return
    digits, suffix = match.groups()
    new = {"0": "1", "1": "0"}.get(digits)
    if new is None:
        new = str(float(digits) + 1) if "." in digits else str(int(digits) + 1)
    yield f"`{text_of(node)}` is `{new}{suffix}`", node, new + suffix


def _subscript(node: tree_sitter.Node) -> Iterator[Change]:
    indices = part(node, "indices")
    inner = part(node, "argument")
    if indices is None or inner is None or not indices.named_children or node.has_error:
        return
    index = indices.named_children[0]
    yield "the index is larger by one", index, f"({_copy(index)}) + 1"
    first = part(inner, "indices") if inner.type == "subscript_expression" else None
    array = part(inner, "argument")
    if first is not None and array is not None and text_of(first) != text_of(indices):
        yield "indices are swapped", node, f"{_copy(array)}{_copy(indices)}{_copy(first)}"


def _field(node: tree_sitter.Node) -> Iterator[Change]:
    name, _, axis = text_of(node).partition(".")
    if name in _BUILTINS and axis in _AXES:
        yield f"`{name}.{axis}` is `{name}.{_AXES[axis]}`", node, f"{name}.{_AXES[axis]}"


def _call(node: tree_sitter.Node) -> Iterator[Change]:
    function, given = part(node, "function"), part(node, "arguments")
    if function is None or given is None:
        return
    name = text_of(function).partition("<")[0].strip()
    alone = node.parent is not None and node.parent.type == "expression_statement"
    if alone and node.parent is not None and _WAITS.fullmatch(name.rpartition("::")[2]):
        yield f"`{name}` is left out", node.parent, ";"
    elif name in _COUNTERPARTS:
        yield f"`{name}` is `{_COUNTERPARTS[name]}`", function, _COUNTERPARTS[name]
    elif name == "atomicAdd" and len(given.named_children) == 2:
        target, value = given.named_children
        yield "the atomic is plain", node, f"(*({_copy(target)}) += ({_copy(value)}))"


def _ternary(node: tree_sitter.Node) -> Iterator[Change]:
    yes, no = part(node, "consequence"), part(node, "alternative")
    condition = part(node, "condition")
    if yes is not None and no is not None and condition is not None and text_of(yes) != text_of(no):
        yield "the choices are swapped", node, f"{_copy(condition)} ? {_copy(no)} : {_copy(yes)}"


def _unary(node: tree_sitter.Node) -> Iterator[Change]:
    operator, value = node.children[0], node.children[-1]
    if text_of(operator) in ("-", "!") and value.type != "number_literal":
        yield f"`{text_of(operator)}` is left out", operator, " "


_KINDS: dict[str, Callable[[tree_sitter.Node], Iterator[Change]]] = {
    "binary_expression": _binary,
    "assignment_expression": _assignment,
    "if_statement": _condition,
    "number_literal": _number,
    "subscript_expression": _subscript,
    "field_expression": _field,
    "call_expression": _call,
    "conditional_expression": _ternary,
    "unary_expression": _unary,
}
