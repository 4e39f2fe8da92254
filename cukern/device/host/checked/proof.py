"""Kernels of which it is known before a launch that checks would find nothing: those need not be watched.

A launch is run once with ranges in the place of numbers (:mod:`.ranges`), for all threads together. So it is known
which elements each place of the text may access: they must be in their array, and where an array is written, different
threads must access different elements (:mod:`.distinct`). Integers must not overflow. Whatever this does not understand
is not proved, and the launch is watched: barriers, shared memory, atomic operations, functions of arrays, and so on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np
import tree_sitter

from ....text import COMMENT
from ....text.signature import Param, Unit, canonical
from ....text.syntax import part, syntax_tree, text_of, walk
from ..compiler import RUNTIME
from . import unset
from .counting import is_function
from .distinct import Access, are_apart
from .ranges import (
    BOOL,
    INT,
    KINDS,
    REAL,
    REALS,
    UNSIGNED,
    Kind,
    Pointer,
    Ranges,
    Real,
    State,
    Sum,
    Unproved,
    Value,
    Whole,
    constant_of,
    need,
    no_pointer,
    whole,
)

#: Where the template's text begins, behind the preludes.
_TEXTS = re.compile(r'^#line (\d+) "(?!prelude/base\.cuh")([^"\n]*)"\n', re.MULTILINE)
#: What a compiler may read in another way than the parser: outside comments, and anywhere.
_UNCLEAR = re.compile(r"[^\t\n -~]|['`@$]|<[:%]|%[:>]|:>|cukern")
_CONTINUED = re.compile(r"\\|\?\?")
_DIRECTIVE = re.compile(r"^\s*#(?!pragma unroll\b[ \t\w()]*$)", re.MULTILINE)
_NUMBER = re.compile(r"(0[xX][0-9a-fA-F]+|[0-9]+)([uU]?)(ll|LL|l|L)?([uU]?)")
_REAL = re.compile(r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?[fF]?")
#: Functions of floats, beside those whose operations are counted.
_OF_REALS = re.compile(
    r"f(?:abs|max|min|dim|loor)f?|(?:ceil|round|rint|trunc|copysign)f?|make_(?:float|double)[234]"
)
_KEPT = 64  # launches of a kernel whose results are remembered


class Argument(NamedTuple):
    """A parameter, and what a launch gives it: a number, or so many elements of an array.

    Attributes:
        kind: the type of either; None for floats.
    """

    name: str
    pointer: bool
    kind: Kind | None
    value: int


class Function(NamedTuple):
    """A function of the text, of numbers, whose result is a float or a vector of them.

    Attributes:
        params: the names and the types of its parameters, None for floats.
    """

    params: list[tuple[str, Kind | None]]
    body: tree_sitter.Node


class Run(Ranges):
    """A launch, run with ranges.

    Args:
        grid, block: of the launch.
        arguments: of each parameter.
        functions: those of the text, by their names.
    """

    def __init__(
        self,
        grid: Sequence[int],
        block: Sequence[int],
        arguments: Sequence[Argument],
        functions: Mapping[str, Function],
    ) -> None:
        super().__init__(grid, block)
        self.arguments, self._functions = arguments, functions
        #: The functions that run, from the kernel on.
        self._running: list[str] = []
        self.accesses: dict[int, list[Access]] = {}

    def run(self, body: tree_sitter.Node) -> None:
        """Run the kernel.

        Raises:
            Unproved: something may be wrong.
        """
        names: dict[str, Value] = {}
        for number, one in enumerate(self.arguments):
            if one.pointer:
                names[one.name] = Pointer(number, constant_of(0))
            else:
                names[one.name] = REAL if one.kind is None else Whole(one.kind, constant_of(one.value))
        self._statement(body, State(names))
        written = [made for made in self.accesses.values() if any(one.writes for one in made)]
        need(written and all(are_apart(self, made) for made in written))

    # Accesses.

    def _access(self, at: Value, index: Value, state: State, node: tree_sitter.Node, writes: bool) -> Value:
        need(isinstance(at, Pointer))
        assert isinstance(at, Pointer)
        one, place = self.arguments[at.param], at.at.plus(whole(index).sum)
        low, high = self.bounds(place, state)
        need(low >= 0 and high < one.value)
        every = self._all_between(place, state)
        made = Access(place, state.ranges, writes, every, node.start_point[0])
        self.accesses.setdefault(at.param, []).append(made)
        return REAL if one.kind is None else self.any_of(one.kind)

    def _all_between(self, place: Sum, state: State) -> tuple[int, int] | None:
        """The first and the last element, if all between are accessed too: by a single atom that takes each value."""
        if len(place.terms) != 1 or place.terms[0][1] != 1 or state.guards is None:
            return None
        atom = place.terms[0][0]
        if not state.guards <= {atom} or not self.atoms[atom].axes:
            return None
        unit = 1
        for each, factor in sorted(self.expanded(Sum(((atom, 1),), 0)).terms, key=lambda term: term[1]):
            low, high = self.atoms[each][:2]
            if factor != unit or low:
                return None
            unit *= high - low + 1
        low, high = self.range_of(atom, state.ranges)
        return place.constant + low, place.constant + high

    def _read(self, target: tree_sitter.Node, state: State) -> Value:
        return self._access(*self._place(target, state), state, target, False)

    def _place(self, node: tree_sitter.Node, state: State) -> tuple[Value, Value]:
        """The pointer and the index of ``at[index]`` or ``*at``."""
        at = self._value(part(node, "argument"), state)
        if node.type == "subscript_expression":
            return at, self._value(_only(known(part(node, "indices"))), state)
        need(node.type == "pointer_expression" and node.children[0].type == "*")
        return at, Whole(INT, constant_of(0))

    # Expressions.

    def _value(self, node: tree_sitter.Node | None, state: State) -> Value:
        node = known(node)
        how = _EXPRESSIONS.get(node.type)
        need(how)
        assert how is not None
        return how(self, node, state)

    def _literal(self, node: tree_sitter.Node, state: State) -> Value:
        return _literal(text_of(node))

    def _truth(self, node: tree_sitter.Node, state: State) -> Value:
        return Whole(BOOL, constant_of(int(node.type == "true")))

    def _variable(self, node: tree_sitter.Node, state: State) -> Value:
        need(text_of(node) in state.names)
        return state.names[text_of(node)]

    def _inner(self, node: tree_sitter.Node, state: State) -> Value:
        return self._value(_only(node), state)

    def _pointed(self, node: tree_sitter.Node, state: State) -> Value:
        if node.children[0].type == "*":
            return self._read(node, state)
        element = known(part(node, "argument"))
        need(node.children[0].type == "&" and element.type == "subscript_expression")
        return self.arithmetic("+", *self._place(element, state), state)

    def _binary(self, node: tree_sitter.Node, state: State) -> Value:
        how = node.children[1].type
        if how in _COMPARISONS or how in ("&&", "||"):
            self._split(node, state)
            return self.any_of(BOOL)
        left = self._value(part(node, "left"), state)
        return self.arithmetic(how, left, self._value(part(node, "right"), state), state)

    def _field(self, node: tree_sitter.Node, state: State) -> Value:
        what, field = part(node, "argument"), text_of(part(node, "field"))
        if (axis := self.axes.get((text_of(what), field))) is not None:
            return Whole(UNSIGNED, axis)
        need(node.children[1].type == "." and isinstance(self._value(what, state), Real))
        return REAL

    def _unary(self, node: tree_sitter.Node, state: State) -> Value:
        how, value = node.children[0].type, no_pointer(self._value(part(node, "argument"), state))
        need(how in "!+-~")
        if how == "!":
            return self.any_of(BOOL)
        if how == "~":
            kind = whole(value).kind
            return self.any_of(self.common(kind, kind))
        return (
            value
            if isinstance(value, Real)
            else self.arithmetic(how, Whole(INT, constant_of(0)), value, state)
        )

    def _either(self, node: tree_sitter.Node, state: State) -> Value:
        branches = self._split(part(node, "condition"), state)
        sides = zip(branches, ("consequence", "alternative"), strict=True)
        found = [(self._value(part(node, side), one), one) for one, side in sides if not one.dead]
        if any(isinstance(value, Real) for value, _ in found):
            return REAL
        need(len(found) == 2)  # the type is that of both, so neither may be left out
        common = self.common(*(whole(value).kind for value, _ in found))
        ends = [self.bounds(self.converted(value, common, branch).sum, branch) for value, branch in found]
        return self.within(common, min(low for low, _ in ends), max(high for _, high in ends))

    def _cast_expression(self, node: tree_sitter.Node, state: State) -> Value:
        return self._cast(part(node, "type"), part(node, "value"), state)

    def _cast(self, to: tree_sitter.Node | None, what: tree_sitter.Node | None, state: State) -> Value:
        return self._of_type(canonical(text_of(to), {}), no_pointer(self._value(what, state)), state)

    def _of_type(self, name: str, value: Value, state: State) -> Value:
        """A number as one of a type."""
        need(name in REALS or name in KINDS)
        return REAL if name in REALS else self.converted(value, KINDS[name], state)

    def _call(self, node: tree_sitter.Node, state: State) -> Value:
        function, listed = known(part(node, "function")), known(part(node, "arguments"))
        need(listed.type == "argument_list")
        given = listed.named_children
        if function.type == "primitive_type" and len(given) == 1:
            return self._cast(function, given[0], state)
        if function.type == "template_function":
            need(text_of(part(function, "name")) == "static_cast" and len(given) == 1)
            return self._cast(_only(known(part(function, "arguments"))), given[0], state)
        name = text_of(function)
        need(function.type == "identifier" and name not in state.names)
        values = [self._value(one, state) for one in given]
        if name in self._functions:
            return self._result(name, values, state)
        if name == "__ldg" and len(values) == 1:
            return self._access(values[0], Whole(INT, constant_of(0)), state, node, False)
        wholes = [one for one in values if isinstance(one, Whole)]
        if name in ("min", "max") and len(wholes) == len(values) == 2 and wholes[0].kind == wholes[1].kind:
            ends = [self.bounds(one.sum, state) for one in wholes]
            low, high = ((min if name == "min" else max)(each) for each in zip(*ends, strict=True))
            return self.within(wholes[0].kind, low, high)
        need(not wholes if name in ("min", "max") else is_function(name) or _OF_REALS.fullmatch(name))
        need(not any(isinstance(one, Pointer) for one in values))
        return REAL

    def _result(self, name: str, values: Sequence[Value], state: State) -> Value:
        params, body = self._functions[name]
        need(name not in self._running and len(params) == len(values))
        names: dict[str, Value] = {}
        for (own, kind), value in zip(params, map(no_pointer, values), strict=True):
            names[own] = REAL if kind is None else self.converted(value, kind, state)
        self._running.append(name)
        after = self._statement(body, replace(state.copy(), names=names, guards=None))
        self._running.pop()
        need(after.dead)  # else it ends without a result
        return REAL

    # Conditions.

    def _split(self, node: tree_sitter.Node | None, state: State) -> tuple[State, State]:
        """What is known where a condition is met, and where it is not."""
        node = known(node)
        if node.type == "parenthesized_expression":
            return self._split(_only(node), state)
        if node.type == "unary_expression" and node.children[0].type == "!":
            yes, no = self._split(part(node, "argument"), state)
            return no, yes
        unknown = replace(state.copy(), guards=None)
        if node.type == "binary_expression":
            how, left, right = node.children[1].type, part(node, "left"), part(node, "right")
            if how in ("&&", "||"):
                first = self._split(left, state)
                goes_on = first[how == "||"]
                if goes_on.dead:
                    return first
                second = self._split(right, goes_on)
                yes, no = second if how == "&&" else second[::-1]
                # One of both conditions is not met.
                other = first[how == "&&"]
                rest = no if other.dead else other if no.dead else unknown
                return (yes, rest) if how == "&&" else (rest, yes)
            if how in _COMPARISONS:
                return self.compared(how, self._value(left, state), self._value(right, state), state)
        no_pointer(self._value(node, state))
        return unknown, unknown.copy()

    # Statements.

    def _statement(self, node: tree_sitter.Node | None, state: State) -> State:
        """Run a statement; what is known behind it."""
        node = known(node)
        if state.dead or node.type in ("comment", "preproc_call"):
            return state
        if node.type == "compound_statement":
            inner = state.copy()
            for child in node.named_children:
                inner = self._statement(child, inner)
            return _left(inner, state)
        if node.type == "declaration":
            return self._declared(node, state)
        if node.type == "expression_statement":
            if node.named_children:
                self._assigned(_only(node), state)
            return state
        if node.type == "if_statement":
            return self._if(node, state)
        if node.type == "for_statement":
            return self._for(node, state)
        need(node.type in _JUMPS)
        if node.named_children:
            need(self._running)
            no_pointer(self._value(_only(node), state))
        return replace(state.copy(), dead=True)

    def _declared(self, node: tree_sitter.Node, state: State) -> State:
        for child in node.children:
            if child.type == "type_qualifier":
                need(text_of(child) in ("const", "constexpr"))
            else:
                need(child.type in (*_TYPES, "init_declarator", ",", ";", "comment"))
        name_of_type = canonical(text_of(part(node, "type")), {})
        for one in node.children_by_field_name("declarator"):
            need(one.type == "init_declarator" and len(one.named_children) == 2)
            made = self._value(part(one, "value"), state)
            declarator = known(part(one, "declarator"))
            is_pointer = declarator.type == "pointer_declarator"
            name = known(part(declarator, "declarator") if is_pointer else declarator)
            need(name.type == "identifier" and text_of(name) not in state.names)
            if name_of_type != "auto":
                need(is_pointer == isinstance(made, Pointer))
                made = made if is_pointer else self._of_type(name_of_type, made, state)
            if isinstance(made, Whole) and not made.sum.is_plain:
                made = Whole(made.kind, self.atom(*self.bounds(made.sum, state), made.sum))
            state.names[text_of(name)] = made
        return state

    def _assigned(self, node: tree_sitter.Node, state: State) -> None:
        """An assignment, or another expression whose value is not used."""
        if node.type == "parenthesized_expression":
            return self._assigned(_only(node), state)
        made: Value = Whole(INT, constant_of(1))
        if node.type == "update_expression":
            target, how = known(part(node, "argument")), "-" if "--" in text_of(node) else "+"
        elif node.type == "assignment_expression":
            target, how = known(part(node, "left")), node.children[1].type.removesuffix("=")
            made = no_pointer(self._value(part(node, "right"), state))
        else:
            self._value(node, state)
            return None
        if target.type == "identifier":
            need(text_of(target) in state.names)
            before = no_pointer(state.names[text_of(target)])
            made = self.arithmetic(how, before, made, state) if how else made
            is_real = isinstance(before, Real)
            state.names[text_of(target)] = (
                before if is_real else self.converted(made, whole(before).kind, state)
            )
            return None
        if target.type == "field_expression" and _only_name(target) in state.names:
            self._field(target, state)
            return None
        at, index = self._place(target, state)
        if how:
            made = self.arithmetic(how, self._access(at, index, state, target, False), made, state)
        self._access(at, index, state, target, True)
        return None

    def _if(self, node: tree_sitter.Node, state: State) -> State:
        need(not any(child.type == "constexpr" for child in node.children))
        yes, no = self._split(_only(known(part(node, "condition"))), state)
        other = part(node, "alternative")
        yes = self._scoped(part(node, "consequence"), yes)
        if other is not None:
            no = self._scoped(_only(other), no)
        if yes.dead or no.dead:
            return no if yes.dead else yes
        made = state.copy()
        for name in state.names:
            one, two = yes.names[name], no.names[name]
            made.names[name] = one if one == two else self._joined(one, yes, two, no)
        if _jumps(node):
            made.guards = None
        return made

    def _joined(self, one: Value, yes: State, two: Value, no: State) -> Whole:
        """A number that is one or another, each as is known where it is that."""
        need(whole(one).kind == whole(two).kind)
        low, high = self.bounds(whole(one).sum, yes)
        least, most = self.bounds(whole(two).sum, no)
        return self.within(whole(one).kind, min(low, least), max(high, most))

    def _scoped(self, node: tree_sitter.Node | None, state: State) -> State:
        """A statement whose variables end with it."""
        return _left(self._statement(node, state.copy()), state)

    def _for(self, node: tree_sitter.Node, state: State) -> State:
        begin, condition, update, body = (
            known(part(node, field)) for field in ("initializer", "condition", "update", "body")
        )
        need(begin.type == "declaration" and condition.type == "binary_expression")
        declarators = begin.children_by_field_name("declarator")
        outer = self._declared(begin, state.copy())
        name = text_of(part(declarators[0], "declarator"))
        need(len(declarators) == 1 and name in outer.names)
        first = whole(outer.names[name])
        changed = _changed(body)
        left, right = known(part(condition, "left")), known(part(condition, "right"))
        how = condition.children[1].type
        if how in (">", ">="):
            left, right, how = right, left, {">": "<", ">=": "<="}[how]
        need(how in ("<", "<=") and left.type == "identifier" and text_of(left) == name)
        step = self._step(update, name, outer)
        parts = [one for each in (right, update) for one in walk(each)]
        used = {text_of(one) for one in parts if one.type == "identifier"}
        need(name not in changed and not used & changed and name not in {text_of(one) for one in walk(right)})
        need(not any(one.type in _READS for one in parts))
        for each in changed & state.names.keys():
            before = no_pointer(outer.names[each])
            outer.names[each] = self.any_of(before.kind) if isinstance(before, Whole) else before
        end = whole(self._value(right, outer))
        low, (least, most) = self.bounds(first.sum, outer)[0], self.bounds(end.sum, outer)
        most -= how == "<"
        # The variable and its end are compared as they are, and the variable may go on once behind it.
        common = self.common(first.kind, end.kind)
        beyond = max(most, self.bounds(first.sum, outer)[1]) + step
        need(
            common.low <= min(low, least)
            and max(beyond, most + 1) <= common.high
            and beyond <= first.kind.high
        )
        inner = outer.copy()
        if most > low:
            turns = self.atom(0, (most - low) // step)
            made = self.atom(low, most, first.sum.plus(turns, step))
        else:
            made = first.sum
        inner.names[name] = Whole(first.kind, made)
        inner = self.at_most_zero(made.plus(end.sum, -1).plus(constant_of(int(how == "<"))), inner)
        leaves = _jumps(node)
        if leaves:
            inner.guards = None
        if not inner.dead:
            self._statement(body, inner)
        after = _left(outer, state)
        if leaves:
            after.guards = None
        return after

    def _step(self, update: tree_sitter.Node, name: str, state: State) -> int:
        if update.type == "update_expression":
            need(text_of(update).replace(" ", "") in (f"++{name}", f"{name}++"))
            return 1
        need(update.type == "assignment_expression" and update.children[1].type == "+=")
        step = whole(self._value(part(update, "right"), state)).sum
        need(text_of(part(update, "left")) == name and not step.terms and step.constant >= 1)
        return step.constant


#: How each kind of expression gets its value.
_EXPRESSIONS: dict[str, Callable[[Run, tree_sitter.Node, State], Value]] = {
    "number_literal": Run._literal,
    "true": Run._truth,
    "false": Run._truth,
    "identifier": Run._variable,
    "parenthesized_expression": Run._inner,
    "field_expression": Run._field,
    "subscript_expression": Run._read,
    "pointer_expression": Run._pointed,
    "cast_expression": Run._cast_expression,
    "call_expression": Run._call,
    "unary_expression": Run._unary,
    "conditional_expression": Run._either,
    "binary_expression": Run._binary,
}
_COMPARISONS = frozenset(("<", "<=", ">", ">=", "==", "!="))
_TYPES = ("primitive_type", "sized_type_specifier", "type_identifier", "placeholder_type_specifier")
_JUMPS = ("return_statement", "break_statement", "continue_statement")
_READS = frozenset(("subscript_expression", "pointer_expression", "call_expression"))


def known(node: tree_sitter.Node | None) -> tree_sitter.Node:
    """A node that is there, and that the parser understands."""
    if node is None or node.has_error:
        raise Unproved
    return node


def _only(node: tree_sitter.Node) -> tree_sitter.Node:
    """The only part of a node."""
    parts = [child for child in node.named_children if child.type != "comment"]
    need(len(parts) == 1)
    return parts[0]


def _left(inner: State, outer: State) -> State:
    """What is known behind a block, of the variables that were known before it."""
    return replace(inner, names={name: inner.names[name] for name in outer.names})


def _only_name(node: tree_sitter.Node) -> str:
    """The variable of which a field is taken; empty if it is of something else."""
    what = part(node, "argument")
    return text_of(what) if what is not None and what.type == "identifier" else ""


def _jumps(node: tree_sitter.Node) -> bool:
    return any(one.type in _JUMPS for one in walk(node))


def _changed(node: tree_sitter.Node) -> set[str]:
    """The names that a statement may assign to."""
    targets = (
        part(one, {"assignment_expression": "left"}.get(one.type, "argument"))
        for one in walk(node)
        if one.type in ("assignment_expression", "update_expression")
    )
    return {text_of(target) for target in targets if target is not None}


def _literal(text: str) -> Value:
    match = _NUMBER.fullmatch(text)
    if match is None:
        need(_REAL.fullmatch(text))
        return REAL
    digits, unsigned = match[1], bool(match[2] or match[4])
    need(not (match[2] and match[4]))
    base = 16 if digits[:2] in ("0x", "0X") else 8 if digits[0] == "0" else 10
    value = int(digits, base)
    for bits in (64,) if match[3] else (32, 64):
        for signed in (False,) if unsigned else (True,) if base == 10 else (True, False):
            if value <= Kind(bits, signed).high:
                return Whole(Kind(bits, signed), constant_of(value))
    raise Unproved


class _Found(NamedTuple):
    """What a launch does that is proved to be right.

    Attributes:
        read, written: the parameters whose arrays it may read, and write.
        every: of the latter, the ranges of elements that it writes, if all of them are known.
        rows: the first line of the text that writes each.
    """

    read: frozenset[int]
    written: frozenset[int]
    every: dict[int, list[tuple[int, int]]]
    rows: dict[int, int]


class Proof:
    """A kernel whose launches may be proved to be right.

    Args:
        unit: the kernel.
        body: of its function.
        functions: of its text, by their names.
        file, line: where the text that was parsed begins.
    """

    def __init__(
        self, unit: Unit, body: tree_sitter.Node, functions: Mapping[str, Function], file: str, line: int
    ) -> None:
        self._params, self._name, self._body = unit.signature.params, unit.signature.name, body
        self._functions = functions
        self._file, self._line = file, line
        self._found: dict[object, _Found | None] = {}

    def holds(
        self,
        header: Sequence[int],
        values: Sequence[int],
        arrays: Sequence[np.ndarray[Any, Any] | None],
    ) -> bool:
        """Whether a launch need not be watched. If so, elements that it writes count as written from now on.

        Args:
            header: grid and block.
            values: of each parameter that is a whole number; 0 for others.
            arrays: that of each parameter, or None.
        """
        sizes = tuple(0 if array is None else array.size for array in arrays)
        key = *header[:6], *values, *sizes
        if key not in self._found:
            if len(self._found) >= _KEPT:
                self._found.clear()
            self._found[key] = self._prove(header, values, sizes)
        found = self._found[key]
        return found is not None and self._fits(found, arrays) and self._writes(found, arrays)

    def _prove(self, header: Sequence[int], values: Sequence[int], sizes: Sequence[int]) -> _Found | None:
        arguments = []
        for param, value, size in zip(self._params, values, sizes, strict=True):
            pointer = param.kind == "pointer"
            count = size // _lanes(param) if pointer else value
            arguments.append(Argument(param.name, pointer, KINDS.get(_type_of(param)), count))
        run = Run(header[:3], header[3:6], arguments, self._functions)
        try:
            run.run(self._body)
        except (Unproved, RecursionError):
            return None
        writes = {number: [one for one in made if one.writes] for number, made in run.accesses.items()}
        return _Found(
            frozenset(number for number, made in run.accesses.items() if any(not one.writes for one in made)),
            frozenset(number for number, made in writes.items() if made),
            {
                number: [one.every for one in made if one.every]
                for number, made in writes.items()
                if made and all(one.every for one in made)
            },
            {number: min(one.row for one in made) for number, made in writes.items() if made},
        )

    def _fits(self, found: _Found, arrays: Sequence[np.ndarray[Any, Any] | None]) -> bool:
        """Whether arrays are laid out as the kernel takes them, each that it writes apart from all others."""
        used = found.read | found.written
        spans = {}
        for number in used:
            array, dtype = arrays[number], self._params[number].dtype
            if (
                array is None
                or dtype is None
                or array.itemsize != dtype.itemsize
                or not array.flags.c_contiguous
            ):
                return False
            at = array.ctypes.data
            if at % self._params[number].alignment:
                return False
            spans[number] = at, at + array.nbytes
        return not any(
            number != other and spans[number][0] < spans[other][1] and spans[other][0] < spans[number][1]
            for number in found.written
            for other in used
        )

    def _writes(self, found: _Found, arrays: Sequence[np.ndarray[Any, Any] | None]) -> bool:
        """Note what a launch writes; whether that, and that it reads nothing unset, is known."""
        marked = []
        for _, empty in unset.among(list(arrays)):
            for number, array in enumerate(arrays):
                if array is None or not empty.low <= (at := array.ctypes.data) < empty.high:
                    continue
                own = empty.elements[(at - empty.low) // empty.itemsize :][: array.size]
                unknown = number in found.read or number not in found.every
                if empty.itemsize != array.itemsize or (unknown and own.any()):
                    return False
                if not self._params[number].const:
                    marked.append((empty, own, number))
        for empty, own, number in marked:
            lanes = _lanes(self._params[number])
            for low, high in found.every.get(number, ()):
                own[lanes * low : lanes * (high + 1)] = 0
            line = f"{self._file}:{self._line + found.rows[number]}" if number in found.rows else ""
            unset.launched(empty, self._name, line)
        return True


def _lanes(param: Param) -> int:
    """Of how many elements of an array an element of a pointer's type is made."""
    return REALS.get(_type_of(param), 1)


def _type_of(param: Param) -> str:
    """The type of a number, or of what a pointer points to."""
    return canonical(param.type_text.replace("*", " "), {})


@lru_cache(maxsize=16)
def of(unit: Unit) -> Proof | None:
    """The proof of a kernel; None for one whose launches are all watched."""
    try:
        return _read(unit)
    except Unproved:
        return None


def _read(unit: Unit) -> Proof:
    """The proof of a kernel.

    Raises:
        Unproved: it has something that is not understood.
    """
    texts = list(_TEXTS.finditer(unit.text))
    need(not (unit.trusted or unit.checked or unit.dynamic_shared))
    need(unit.signature.cluster == (1, 1, 1) and len(texts) == 1)
    others, own = unit.text[: texts[0].start()], unit.text[texts[0].end() :]
    need(not (_CONTINUED.search(own) or _UNCLEAR.search(COMMENT.sub(" ", own)) or _DIRECTIVE.search(own)))
    for param in unit.signature.params:
        need(param.kind in ("pointer", "scalar") and "volatile" not in param.type_text)
        need(_type_of(param) in REALS or _type_of(param) in KINDS)
    kernel, functions = None, dict[str, Function]()
    for node in known(syntax_tree(own.encode())).named_children:
        if node.type == "comment":
            continue
        one = known(part(node, "body") if node.type == "linkage_specification" else node)
        need(one.type == "function_definition")
        if any(child.type == "__global__" for child in one.children):
            kernel = one if {child.type for child in one.children} <= _OF_KERNELS else None
        else:
            name, function = _function(one)
            # Of a name that is also a header's, another function may be called.
            need(name not in functions and _known().isdisjoint((name, name[:-1])))
            need(not re.search(rf"\b{name}\b", others))
            functions[name] = function
    return Proof(unit, known(part(kernel, "body")), functions, texts[0][2], int(texts[0][1]))


_OF_KERNELS = frozenset(
    ("__global__", "primitive_type", "function_declarator", "compound_statement", "launch_bounds", "comment")
)
#: Words before a function's name that change nothing here.
_OF_FUNCTIONS = frozenset(
    ["", *"__device__ __host__ __forceinline__ __noinline__ static inline constexpr const".split()]
)


@cache
def _known() -> frozenset[str]:
    """What headers that a text may use declare as functions or macros, or by macros, beside what they call."""
    paths = [
        *RUNTIME.glob("cukern_*.h"),
        *(path for path in (RUNTIME / "include").rglob("*") if path.is_file()),
    ]
    texts = (COMMENT.sub(" ", path.read_text()) for path in paths)
    known = re.compile(r"[A-Za-z_]\w*(?=\()|(?<=#define )\w+|(?<=[A-Z]\()\w+")
    return frozenset(word for text in texts for word in known.findall(text))


def _function(node: tree_sitter.Node) -> tuple[str, Function]:
    """The name of a function, and what it takes: numbers alone, of which it makes a float or a vector of them."""
    declarator, body, result = (known(part(node, field)) for field in ("declarator", "body", "type"))
    listed, name = known(part(declarator, "parameters")), known(part(declarator, "declarator"))
    need(declarator.type == "function_declarator" and len(declarator.named_children) == 2)
    need(name.type == "identifier" and canonical(text_of(result), {}) in REALS)
    need(
        {text_of(child) for child in node.children if child not in (declarator, body, result)}
        <= _OF_FUNCTIONS
    )
    params = [_parameter(one) for one in listed.named_children if one.type != "comment"]
    return text_of(name), Function(params, body)


def _parameter(node: tree_sitter.Node) -> tuple[str, Kind | None]:
    """The name of a parameter of a function and its type, None for floats."""
    declarator, kind = known(part(node, "declarator")), known(part(node, "type"))
    name = canonical(text_of(kind), {})
    need(node.type == "parameter_declaration" and declarator.type == "identifier")
    need({text_of(child) for child in node.children if child not in (declarator, kind)} <= {"const"})
    need(name in REALS or name in KINDS)
    return text_of(declarator), KINDS.get(name)
