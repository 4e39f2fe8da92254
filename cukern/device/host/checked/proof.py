"""Kernels of which it is known before a launch that checks would find nothing: those need not be watched.

A launch is run once with ranges in the place of numbers (:mod:`.ranges`), for all threads together. So it is known
which elements each place of the text may access: they must be in their array, and where an array is written, different
threads must access different elements (:mod:`.distinct`). Integers must not overflow. Whatever this does not understand
is not proved, and the launch is watched: barriers, shared memory, atomic operations, functions of arrays, and so on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np
import tree_sitter

from ....text.signature import Param, Unit, canonical
from ....text.syntax import syntax_tree, text_of, walk
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
)

#: Where the template's text begins, behind the preludes.
_TEXTS = re.compile(r'^#line (\d+) "(?!prelude/base\.cuh")([^"\n]*)"\n', re.MULTILINE)
#: What a compiler may read in another way than the parser: outside comments, and anywhere.
_UNCLEAR = re.compile(r"[^\t\n -~]|['`@$]|<[:%]|%[:>]|:>|cukern")
_CONTINUED = re.compile(r"\\|\?\?")
_COMMENTS = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
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
        if not written or not all(are_apart(self, made) for made in written):
            raise Unproved

    # Accesses.

    def _access(self, at: Value, index: Value, state: State, node: tree_sitter.Node, writes: bool) -> Value:
        if not isinstance(at, Pointer) or not isinstance(index, Whole):
            raise Unproved
        one, place = self.arguments[at.param], at.at.plus(index.sum)
        low, high = self.bounds(place, state)
        if low < 0 or high >= one.value:
            raise Unproved
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

    # Expressions.

    def _value(self, node: tree_sitter.Node | None, state: State) -> Value:
        if node is None or node.has_error:
            raise Unproved
        kind = node.type
        if kind == "number_literal":
            return _literal(text_of(node))
        if kind in ("true", "false"):
            return Whole(BOOL, constant_of(int(kind == "true")))
        if kind == "identifier":
            if text_of(node) not in state.names:
                raise Unproved
            return state.names[text_of(node)]
        if kind == "parenthesized_expression":
            return self._value(_only(node), state)
        if kind == "field_expression":
            return self._field(node, state)
        if kind == "subscript_expression":
            return self._access(*self._place(node, state), state, node, False)
        if kind == "pointer_expression":
            argument = node.child_by_field_name("argument")
            if node.children[0].type == "*":
                return self._access(
                    self._value(argument, state), Whole(INT, constant_of(0)), state, node, False
                )
            if node.children[0].type != "&" or argument is None or argument.type != "subscript_expression":
                raise Unproved
            return self.arithmetic("+", *self._place(argument, state), state)
        if kind == "cast_expression":
            return self._cast(node.child_by_field_name("type"), node.child_by_field_name("value"), state)
        if kind == "call_expression":
            return self._call(node, state)
        if kind == "unary_expression":
            return self._unary(node, state)
        if kind == "conditional_expression":
            return self._either(node, state)
        if kind == "binary_expression":
            how = node.children[1].type
            if how in _COMPARISONS or how in ("&&", "||"):
                self._split(node, state)
                return self.any_of(BOOL)
            left = self._value(node.child_by_field_name("left"), state)
            return self.arithmetic(how, left, self._value(node.child_by_field_name("right"), state), state)
        raise Unproved

    def _field(self, node: tree_sitter.Node, state: State) -> Value:
        what, field = node.child_by_field_name("argument"), text_of(node.child_by_field_name("field"))
        if (axis := self.axes.get((text_of(what), field))) is not None:
            return Whole(UNSIGNED, axis)
        if node.children[1].type != "." or not isinstance(self._value(what, state), Real):
            raise Unproved
        return REAL

    def _place(self, node: tree_sitter.Node, state: State) -> tuple[Value, Value]:
        indices = node.child_by_field_name("indices")
        at = self._value(node.child_by_field_name("argument"), state)
        return at, self._value(None if indices is None else _only(indices), state)

    def _unary(self, node: tree_sitter.Node, state: State) -> Value:
        how, value = node.children[0].type, self._value(node.child_by_field_name("argument"), state)
        if how == "!":
            if isinstance(value, Pointer):
                raise Unproved
            return self.any_of(BOOL)
        if isinstance(value, Real) and how in "+-":
            return value
        if not isinstance(value, Whole) or how not in "+-~":
            raise Unproved
        if how == "~":
            return self.any_of(self.common(value.kind, value.kind))
        return self.arithmetic(how, Whole(INT, constant_of(0)), value, state)

    def _either(self, node: tree_sitter.Node, state: State) -> Value:
        found = []
        for branch, name in zip(
            self._split(node.child_by_field_name("condition"), state),
            ("consequence", "alternative"),
            strict=True,
        ):
            if not branch.dead:
                found.append((self._value(node.child_by_field_name(name), branch), branch))
        if any(isinstance(value, Real) for value, _ in found):
            return REAL
        # The type is that of both, so neither may be left out.
        wholes = [(value, branch) for value, branch in found if isinstance(value, Whole)]
        if len(wholes) != 2:
            raise Unproved
        common = self.common(wholes[0][0].kind, wholes[1][0].kind)
        ends = [self.bounds(self.converted(value, common, branch).sum, branch) for value, branch in wholes]
        return self.within(common, min(low for low, _ in ends), max(high for _, high in ends))

    def _cast(self, to: tree_sitter.Node | None, what: tree_sitter.Node | None, state: State) -> Value:
        value, name = self._value(what, state), canonical(text_of(to), {})
        if isinstance(value, Pointer):
            raise Unproved
        if name in REALS:
            return REAL
        if name not in KINDS:
            raise Unproved
        return self.converted(value, KINDS[name], state)

    def _call(self, node: tree_sitter.Node, state: State) -> Value:
        function, listed = node.child_by_field_name("function"), node.child_by_field_name("arguments")
        if function is None or listed is None or listed.type != "argument_list":
            raise Unproved
        given = listed.named_children
        if function.type == "primitive_type" and len(given) == 1:
            return self._cast(function, given[0], state)
        if function.type == "template_function":
            to = function.child_by_field_name("arguments")
            if (
                text_of(function.child_by_field_name("name")) != "static_cast"
                or to is None
                or len(given) != 1
            ):
                raise Unproved
            return self._cast(_only(to), given[0], state)
        name = text_of(function)
        if function.type != "identifier" or name in state.names:
            raise Unproved
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
        of_reals = not wholes if name in ("min", "max") else is_function(name) or _OF_REALS.fullmatch(name)
        if not of_reals or any(isinstance(one, Pointer) for one in values):
            raise Unproved
        return REAL

    def _result(self, name: str, values: Sequence[Value], state: State) -> Value:
        params, body = self._functions[name]
        if name in self._running or len(params) != len(values):
            raise Unproved
        names: dict[str, Value] = {}
        for (own, kind), value in zip(params, values, strict=True):
            if isinstance(value, Pointer):
                raise Unproved
            names[own] = REAL if kind is None else self.converted(value, kind, state)
        self._running.append(name)
        after = self._statement(body, replace(state.copy(), names=names, guards=None))
        self._running.pop()
        if not after.dead:  # it ends without a result
            raise Unproved
        return REAL

    # Conditions.

    def _split(self, node: tree_sitter.Node | None, state: State) -> tuple[State, State]:
        """What is known where a condition is met, and where it is not."""
        if node is None or node.has_error:
            raise Unproved
        if node.type == "parenthesized_expression":
            return self._split(_only(node), state)
        if node.type == "unary_expression" and node.children[0].type == "!":
            yes, no = self._split(node.child_by_field_name("argument"), state)
            return no, yes
        unknown = replace(state.copy(), guards=None)
        if node.type == "binary_expression":
            how = node.children[1].type
            left, right = (node.child_by_field_name(side) for side in ("left", "right"))
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
        if isinstance(self._value(node, state), Pointer):
            raise Unproved
        return unknown, unknown.copy()

    # Statements.

    def _statement(self, node: tree_sitter.Node | None, state: State) -> State:
        """Run a statement; what is known behind it."""
        if node is None or node.has_error:
            raise Unproved
        if state.dead or node.type in ("comment", "preproc_call"):
            return state
        if node.type == "compound_statement":
            inner = state.copy()
            for child in node.named_children:
                inner = self._statement(child, inner)
            return replace(inner, names={name: inner.names[name] for name in state.names})
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
        if node.type in ("return_statement", "break_statement", "continue_statement"):
            if node.named_children and (
                not self._running or isinstance(self._value(_only(node), state), Pointer)
            ):
                raise Unproved
            return replace(state.copy(), dead=True)
        raise Unproved

    def _declared(self, node: tree_sitter.Node, state: State) -> State:
        for child in node.children:
            if child.type == "type_qualifier" and text_of(child) not in ("const", "constexpr"):
                raise Unproved
            if child.type not in (*_TYPES, "type_qualifier", "init_declarator", ",", ";", "comment"):
                raise Unproved
        name_of_type = canonical(text_of(node.child_by_field_name("type")), {})
        for one in node.children_by_field_name("declarator"):
            if one.type != "init_declarator" or len(one.named_children) != 2:
                raise Unproved
            declarator, value = (
                one.child_by_field_name("declarator"),
                self._value(one.child_by_field_name("value"), state),
            )
            is_pointer = declarator is not None and declarator.type == "pointer_declarator"
            if is_pointer:
                declarator = declarator.child_by_field_name("declarator") if declarator else None
            name = text_of(declarator)
            if declarator is None or declarator.type != "identifier" or name in state.names:
                raise Unproved
            if name_of_type == "auto":
                made = value
            elif isinstance(value, Pointer):
                if not is_pointer:
                    raise Unproved
                made = value
            elif name_of_type in REALS:
                made = REAL
            elif name_of_type in KINDS:
                made = self.converted(value, KINDS[name_of_type], state)
            else:
                raise Unproved
            if is_pointer != isinstance(made, Pointer) and name_of_type != "auto":
                raise Unproved
            if isinstance(made, Whole) and not made.sum.is_plain:
                made = Whole(made.kind, self.atom(*self.bounds(made.sum, state), made.sum))
            state.names[name] = made
        return state

    def _assigned(self, node: tree_sitter.Node, state: State) -> None:
        """An assignment, or another expression whose value is not used."""
        if node.type == "parenthesized_expression":
            return self._assigned(_only(node), state)
        if node.type == "update_expression":
            target, how, value = (
                node.child_by_field_name("argument"),
                "+-"[text_of(node).find("--") >= 0],
                None,
            )
        elif node.type == "assignment_expression":
            target, how = node.child_by_field_name("left"), node.children[1].type.removesuffix("=")
            value = node.child_by_field_name("right")
        else:
            self._value(node, state)
            return None
        if target is None or target.has_error:
            raise Unproved
        made: Value = Whole(INT, constant_of(1)) if value is None else self._value(value, state)
        if isinstance(made, Pointer):
            raise Unproved
        if target.type == "identifier":
            name = text_of(target)
            before = state.names.get(name)
            if before is None or isinstance(before, Pointer):
                raise Unproved
            if how:
                made = self.arithmetic(how, before, made, state)
            state.names[name] = (
                before if isinstance(before, Real) else self.converted(made, before.kind, state)
            )
            return None
        if target.type == "field_expression" and _only_name(target) in state.names:
            self._field(target, state)
            return None
        if target.type == "subscript_expression":
            at, index = self._place(target, state)
        elif target.type == "pointer_expression" and target.children[0].type == "*":
            at, index = self._value(target.child_by_field_name("argument"), state), Whole(INT, constant_of(0))
        else:
            raise Unproved
        if how:
            made = self.arithmetic(how, self._access(at, index, state, target, False), made, state)
        self._access(at, index, state, target, True)
        return None

    def _if(self, node: tree_sitter.Node, state: State) -> State:
        condition = node.child_by_field_name("condition")
        if condition is None or any(child.type == "constexpr" for child in node.children):
            raise Unproved
        yes, no = self._split(_only(condition), state)
        other = node.child_by_field_name("alternative")
        yes = self._scoped(node.child_by_field_name("consequence"), yes)
        if other is not None:
            no = self._scoped(_only(other), no)
        if yes.dead or no.dead:
            return no if yes.dead else yes
        made = state.copy()
        for name in state.names:
            one, two = yes.names[name], no.names[name]
            if one == two:
                made.names[name] = one
            elif isinstance(one, Whole) and isinstance(two, Whole) and one.kind == two.kind:
                ends = self.bounds(one.sum, yes), self.bounds(two.sum, no)
                made.names[name] = self.within(
                    one.kind, min(ends[0][0], ends[1][0]), max(ends[0][1], ends[1][1])
                )
            else:
                raise Unproved
        if _jumps(node):
            made.guards = None
        return made

    def _scoped(self, node: tree_sitter.Node | None, state: State) -> State:
        """A statement whose variables end with it."""
        made = self._statement(node, state.copy())
        return replace(made, names={name: made.names[name] for name in state.names})

    def _for(self, node: tree_sitter.Node, state: State) -> State:
        begin, condition, update = (
            node.child_by_field_name(part) for part in ("initializer", "condition", "update")
        )
        body = node.child_by_field_name("body")
        if (
            begin is None
            or begin.type != "declaration"
            or condition is None
            or update is None
            or body is None
        ):
            raise Unproved
        declarators = begin.children_by_field_name("declarator")
        outer = self._declared(begin, state.copy())
        name = text_of(declarators[0].child_by_field_name("declarator"))
        first = outer.names[name]
        if len(declarators) != 1 or not isinstance(first, Whole) or condition.type != "binary_expression":
            raise Unproved
        changed = _changed(body)
        left, right = (condition.child_by_field_name(side) for side in ("left", "right"))
        how = condition.children[1].type
        if how in (">", ">="):
            left, right, how = right, left, {">": "<", ">=": "<="}[how]
        if (
            left is None
            or right is None
            or how not in ("<", "<=")
            or left.type != "identifier"
            or text_of(left) != name
        ):
            raise Unproved
        step = self._step(update, name, outer)
        parts = [one for part in (right, update) for one in walk(part)]
        used = {text_of(one) for one in parts if one.type == "identifier"}
        if name in changed or used & changed or name in {text_of(one) for one in walk(right)}:
            raise Unproved
        if any(one.type in _READS for one in parts):
            raise Unproved
        for each in changed & state.names.keys():
            before = outer.names[each]
            if isinstance(before, Pointer):
                raise Unproved
            outer.names[each] = self.any_of(before.kind) if isinstance(before, Whole) else before
        end = self._value(right, outer)
        if not isinstance(end, Whole):
            raise Unproved
        low, (least, most) = self.bounds(first.sum, outer)[0], self.bounds(end.sum, outer)
        most -= how == "<"
        # The variable and its end are compared as they are, and the variable may go on once behind it.
        common = self.common(first.kind, end.kind)
        beyond = max(most, self.bounds(first.sum, outer)[1]) + step
        if min(low, least) < common.low or max(beyond, most + 1) > common.high or beyond > first.kind.high:
            raise Unproved
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
        after = replace(outer, names={each: outer.names[each] for each in state.names})
        if leaves:
            after.guards = None
        return after

    def _step(self, update: tree_sitter.Node, name: str, state: State) -> int:
        if update.type == "update_expression" and text_of(update).replace(" ", "") in (
            f"++{name}",
            f"{name}++",
        ):
            return 1
        if update.type != "assignment_expression" or update.children[1].type != "+=":
            raise Unproved
        step = self._value(update.child_by_field_name("right"), state)
        target = update.child_by_field_name("left")
        if text_of(target) != name or not isinstance(step, Whole) or step.sum.terms or step.sum.constant < 1:
            raise Unproved
        return step.sum.constant


_COMPARISONS = frozenset(("<", "<=", ">", ">=", "==", "!="))
_TYPES = ("primitive_type", "sized_type_specifier", "type_identifier", "placeholder_type_specifier")
_READS = frozenset(("subscript_expression", "pointer_expression", "call_expression"))


def _only(node: tree_sitter.Node) -> tree_sitter.Node:
    """The only part of a node."""
    parts = [child for child in node.named_children if child.type != "comment"]
    if len(parts) != 1:
        raise Unproved
    return parts[0]


def _only_name(node: tree_sitter.Node) -> str:
    """The variable of which a field is taken; empty if it is of something else."""
    what = node.child_by_field_name("argument")
    return text_of(what) if what is not None and what.type == "identifier" else ""


def _jumps(node: tree_sitter.Node) -> bool:
    return any(
        one.type in ("return_statement", "break_statement", "continue_statement") for one in walk(node)
    )


def _changed(node: tree_sitter.Node) -> set[str]:
    """The names that a statement may assign to."""
    made = set()
    for one in walk(node):
        part = {"assignment_expression": "left", "update_expression": "argument"}.get(one.type)
        if part and (target := one.child_by_field_name(part)):
            made.add(text_of(target))
    return made


def _literal(text: str) -> Value:
    match = _NUMBER.fullmatch(text)
    if match is None:
        if _REAL.fullmatch(text) is None:
            raise Unproved
        return REAL
    digits, unsigned = match[1], bool(match[2] or match[4])
    if match[2] and match[4]:
        raise Unproved
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
            high = empty.low + empty.elements.size * empty.itemsize
            for number, array in enumerate(arrays):
                if array is None or not empty.low <= (at := array.ctypes.data) < high:
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
    texts = list(_TEXTS.finditer(unit.text))
    if (
        unit.trusted
        or unit.checked
        or unit.dynamic_shared
        or unit.signature.cluster != (1, 1, 1)
        or len(texts) != 1
    ):
        return None
    own = unit.text[texts[0].end() :]
    if _CONTINUED.search(own) or _UNCLEAR.search(_COMMENTS.sub(" ", own)) or _DIRECTIVE.search(own):
        return None
    for param in unit.signature.params:
        known = _type_of(param) in REALS or _type_of(param) in KINDS
        if param.kind not in ("pointer", "scalar") or not known or "volatile" in param.type_text:
            return None
    root = syntax_tree(own.encode())
    kernel, functions = None, dict[str, Function]()
    for node in [] if root.has_error else root.named_children:
        part = node.child_by_field_name("body") if node.type == "linkage_specification" else node
        if node.type == "comment":
            continue
        if part is None or part.type != "function_definition":
            return None
        if any(child.type == "__global__" for child in part.children):
            kernel = part if {child.type for child in part.children} <= _OF_KERNELS else None
        else:
            name, function = _function(part)
            # Of a name that is also a header's, another function may be called.
            others = unit.text[: texts[0].start()]
            if (
                function is None
                or name in functions
                or not _known().isdisjoint((name, name[:-1]))
                or re.search(rf"\b{name}\b", others)
            ):
                return None
            functions[name] = function
    body = None if kernel is None else kernel.child_by_field_name("body")
    return None if body is None else Proof(unit, body, functions, texts[0][2], int(texts[0][1]))


_OF_KERNELS = frozenset(
    ("__global__", "primitive_type", "function_declarator", "compound_statement", "launch_bounds", "comment")
)
_OF_FUNCTIONS = frozenset(
    (
        "__device__",
        "__host__",
        "__forceinline__",
        "__noinline__",
        "static",
        "inline",
        "constexpr",
        "const",
        "",
    )
)


@cache
def _known() -> frozenset[str]:
    """What headers that a text may use declare as functions or macros, or by macros, beside what they call."""
    paths = [
        *RUNTIME.glob("cukern_*.h"),
        *(path for path in (RUNTIME / "include").rglob("*") if path.is_file()),
    ]
    texts = (_COMMENTS.sub(" ", path.read_text()) for path in paths)
    known = re.compile(r"[A-Za-z_]\w*(?=\()|(?<=#define )\w+|(?<=[A-Z]\()\w+")
    return frozenset(word for text in texts for word in known.findall(text))


def _function(node: tree_sitter.Node) -> tuple[str, Function | None]:
    """The name of a function, and what it takes if that are numbers, and a float or a vector of them is its result."""
    declarator, body = node.child_by_field_name("declarator"), node.child_by_field_name("body")
    result = node.child_by_field_name("type")
    listed = None if declarator is None else declarator.child_by_field_name("parameters")
    if body is None or listed is None or declarator is None or declarator.type != "function_declarator":
        return "", None
    words = {text_of(child) for child in node.children if child not in (declarator, body, result)}
    params = [_parameter(one) for one in listed.named_children if one.type != "comment"]
    name = declarator.child_by_field_name("declarator")
    simple = name is not None and name.type == "identifier" and len(declarator.named_children) == 2
    if (
        not simple
        or not words <= _OF_FUNCTIONS
        or canonical(text_of(result), {}) not in REALS
        or None in params
    ):
        return "", None
    return text_of(name), Function([one for one in params if one is not None], body)


def _parameter(node: tree_sitter.Node) -> tuple[str, Kind | None] | None:
    """The name of a parameter of a function and its type, None for floats; None for another one."""
    declarator, kind = node.child_by_field_name("declarator"), node.child_by_field_name("type")
    others = {text_of(child) for child in node.children if child not in (declarator, kind)}
    name = canonical(text_of(kind), {})
    known = (
        node.type == "parameter_declaration" and declarator is not None and declarator.type == "identifier"
    )
    if not known or not others <= {"const"} or name not in (*REALS, *KINDS):
        return None
    return text_of(declarator), KINDS.get(name)
