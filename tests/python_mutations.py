"""Small changes of the functions of a Python module, each of which should make it wrong."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

_COMPARISONS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
_OPERATORS: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "+"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "//"),
    ast.Pow: ("**", "*"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
}
_COUNTERPARTS = {"min": "max", "any": "all", "minimum": "maximum", "floor": "ceil", "zeros": "ones"}
_COUNTERPARTS |= {b: a for a, b in _COUNTERPARTS.items()}
#: Keywords without which the same is done: a check of lengths that are equal, a copy that is not needed, a text.
_NO_MATTER = (None, "strict", "copy", "help")
_NAMED = (ast.Name, ast.Attribute, ast.Subscript)
_JUMPS = (ast.Raise, ast.Return, ast.Break, ast.Continue)


class PythonMutation(NamedTuple):
    """A change of a module's text.

    Attributes:
        line: where it begins, counted from 1.
        what: the kind of change.
        start: the first byte that is replaced.
        end: the byte after the last one.
        new: what stands there instead.
        function: the first line of the innermost function around it, its decorators included.
        body: the first line of that function's body.
    """

    line: int
    what: str
    start: int
    end: int
    new: str
    function: int
    body: int

    def apply(self, source: str) -> str:
        """The changed text."""
        text = source.encode()
        return (text[: self.start] + self.new.encode() + text[self.end :]).decode()

    def diff(self, source: str) -> str:
        """The lines before and after, marked by ``-`` and ``+``."""
        text = source.encode()
        first = text.rfind(b"\n", 0, self.start) + 1
        last = text.find(b"\n", self.end)
        last = len(text) if last < 0 else last
        old = text[first:last].decode()
        new = (text[first : self.start] + self.new.encode() + text[self.end : last]).decode()
        before = [f"- {line}" for line in old.split("\n")]
        return "\n".join(
            [f"line {self.line}: {self.what}", *before, *(f"+ {line}" for line in new.split("\n"))]
        )


def python_mutations(source: str) -> list[PythonMutation]:
    """The changes that make sense in the functions of a module, in the order of its lines."""
    starts = [0]
    for line in source.encode().split(b"\n"):
        starts.append(starts[-1] + len(line) + 1)
    text = source.encode()

    def span(node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset

    def copied(node: ast.expr) -> str:
        start, end = span(node)
        return text[start:end].decode()

    found: dict[tuple[int, int, str], PythonMutation] = {}
    for node, (function, body) in _places(ast.parse(source), (0, 0)):
        make = _KINDS.get(type(node))
        for what, place, new in make(node, copied) if make else ():
            if isinstance(place, tuple):  # between two nodes: an operator
                start, end = span(place[0])[1], span(place[1])[0]
                between = text[start:end].decode()
                old, new = new.split(" to ")
                # Brackets of either side stand there too; a comment may hold anything.
                if between.count(old) != 1 or "#" in between:
                    continue
                start += len(between.partition(old)[0].encode())
                end = start + len(old.encode())
            else:
                start, end = span(place)
            line = text.count(b"\n", 0, start) + 1
            one = PythonMutation(line, what, start, end, new, function, body)
            found.setdefault((start, end, new), one)
    return sorted(found.values(), key=lambda one: (one.start, one.end, one.new))


Copied = Callable[[ast.expr], str]
#: The kind of change; the node that is replaced, or the nodes beside an operator; what stands there instead.
Change = tuple[str, "ast.expr | ast.stmt | tuple[ast.expr, ast.expr]", str]


def _places(node: ast.AST, function: tuple[int, int]) -> Iterator[tuple[ast.AST, tuple[int, int]]]:
    """The nodes within functions that say what is done, each with its function: no messages, types or docstrings."""
    if isinstance(node, (ast.Raise, ast.JoinedStr, ast.Assert)):
        return
    if isinstance(node, ast.keyword) and node.arg == "strict":
        return
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
        return
    if function[0]:
        yield node, function
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        if any("overload" in ast.dump(one) for one in node.decorator_list):
            return
        function = min([node.lineno, *(one.lineno for one in node.decorator_list)]), node.body[0].lineno
        given = [one for one in (*node.args.defaults, *node.args.kw_defaults) if one is not None]
        for child in (*given, *node.body):
            yield from _places(child, function)
    elif isinstance(node, ast.Lambda):
        yield from _places(node.body, (node.lineno, node.lineno))
    else:
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "type_comment"):
                continue
            for child in value if isinstance(value, list) else (value,):
                if isinstance(child, ast.AST):
                    yield from _places(child, function)


def _compare(node: ast.AST, copied: Copied) -> Iterator[Change]:
    assert isinstance(node, ast.Compare)
    sides = [node.left, *node.comparators]
    for left, operator, right in zip(sides, node.ops, sides[1:], strict=False):
        old, new = _COMPARISONS[type(operator)]
        yield f"`{old}` is `{new}`", (left, right), f"{old} to {new}"


def _bool(node: ast.AST, copied: Copied) -> Iterator[Change]:
    assert isinstance(node, ast.BoolOp)
    if len(node.values) == 2:
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        yield f"`{old}` is `{new}`", (node.values[0], node.values[1]), f"{old} to {new}"
    else:
        yield "the last condition is dropped", node.values[-1], str(isinstance(node.op, ast.And))


def _binary(node: ast.AST, copied: Copied) -> Iterator[Change]:
    assert isinstance(node, ast.BinOp)
    if isinstance(node.left, ast.JoinedStr) or isinstance(getattr(node.left, "value", None), str):
        return  # text
    if type(node.op) in _OPERATORS:
        old, new = _OPERATORS[type(node.op)]
        yield f"`{old}` is `{new}`", (node.left, node.right), f"{old} to {new}"


def _unary(node: ast.AST, copied: Copied) -> Iterator[Change]:
    assert isinstance(node, ast.UnaryOp)
    if isinstance(node.op, (ast.USub, ast.Not)) and not isinstance(node.operand, ast.Constant):
        word = "-" if isinstance(node.op, ast.USub) else "not"
        yield f"`{word}` is left out", node, f"({copied(node.operand)})"


def _constant(node: ast.AST, copied: Copied) -> Iterator[Change]:
    assert isinstance(node, ast.Constant)
    value = node.value
    if isinstance(value, bool):
        yield f"`{value}` is `{not value}`", node, str(not value)
    elif isinstance(value, int):
        yield f"`{copied(node)}` is off by one", node, str({0: 1, 1: 0}.get(value, value + 1))
    elif isinstance(value, float):
        new = {0.0: 1.0, 1.0: 0.5}.get(value, 2 * value)
        yield f"`{copied(node)}` is `{new}`", node, repr(new)


def _if(node: ast.AST, copied: Copied) -> Iterator[Change]:
    assert isinstance(node, ast.If)
    jumps = isinstance(node.body[-1], _JUMPS)
    yield "the check is dropped" if jumps else "the guard is dropped", node.test, str(not jumps)
    if not isinstance(node.test, (ast.Compare, ast.UnaryOp)):
        yield "the condition is negated", node.test, f"not ({copied(node.test)})"


def _choice(node: ast.AST, copied: Copied) -> Iterator[Change]:
    assert isinstance(node, ast.IfExp)
    swapped = f"({copied(node.orelse)}) if ({copied(node.test)}) else ({copied(node.body)})"
    yield "the choices are swapped", node, f"({swapped})"


def _call(node: ast.AST, copied: Copied) -> Iterator[Change]:
    assert isinstance(node, ast.Call)
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name in _COUNTERPARTS:
        whole = copied(node.func)
        yield f"`{name}` is `{_COUNTERPARTS[name]}`", node.func, whole[: -len(name)] + _COUNTERPARTS[name]
    if name in ("isinstance", "cast", "getattr", "setattr", "hasattr", "issubclass"):
        return
    pairs = zip(node.args, node.args[1:], strict=False)
    for left, right in pairs:
        if isinstance(left, _NAMED) and isinstance(right, _NAMED) and copied(left) != copied(right):
            others = {id(left): right, id(right): left}
            args = [others.get(id(one), one) for one in node.args]
            yield "arguments are swapped", node, _called(node.func, args, node.keywords, copied)
            break
    if node.keywords and node.keywords[-1].arg not in _NO_MATTER:
        less = _called(node.func, node.args, node.keywords[:-1], copied)
        yield f"`{node.keywords[-1].arg}` is left out", node, less


def _called(
    function: ast.expr, args: Sequence[ast.expr], keywords: Sequence[ast.keyword], copied: Copied
) -> str:
    """The text of a call."""
    given = [copied(one) for one in args]
    given += [f"{one.arg}={copied(one.value)}" if one.arg else f"**{copied(one.value)}" for one in keywords]
    return f"{copied(function)}({', '.join(given)})"


def _expression(node: ast.AST, copied: Copied) -> Iterator[Change]:
    assert isinstance(node, ast.Expr)
    if isinstance(node.value, ast.Call):
        yield "the statement is left out", node, "pass"


def _augmented(node: ast.AST, copied: Copied) -> Iterator[Change]:
    assert isinstance(node, ast.AugAssign)
    yield "the statement is left out", node, "pass"


def _assignment(node: ast.AST, copied: Copied) -> Iterator[Change]:
    """What is made of a value anew, such as ``x = x.contiguous()``."""
    assert isinstance(node, ast.Assign)
    made = {one.id for target in node.targets for one in ast.walk(target) if isinstance(one, ast.Name)}
    used = {one.id for one in ast.walk(node.value) if isinstance(one, ast.Name)}
    stored = all(isinstance(one, ast.Subscript) for one in node.targets)
    if stored or (made & used and isinstance(node.targets[0], ast.Name)):
        yield "the statement is left out", node, "pass"


_KINDS: dict[type[ast.AST], Callable[[ast.AST, Copied], Iterator[Change]]] = {
    ast.Compare: _compare,
    ast.BoolOp: _bool,
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.Constant: _constant,
    ast.If: _if,
    ast.IfExp: _choice,
    ast.Call: _call,
    ast.Expr: _expression,
    ast.AugAssign: _augmented,
    ast.Assign: _assignment,
}
