"""Ranges of whole numbers, for a run of a kernel that stands for all of its threads.

A whole number is a sum of multiples of *atoms*, each in a range: the indices of threads and blocks, counters of loops,
variables, and what is read from memory. Conditions narrow these ranges.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias

#: Atoms by their numbers in order, with their factors.
Terms: TypeAlias = tuple[tuple[int, int], ...]


class Unproved(Exception):
    """Something that is not understood, or may be wrong."""


class Kind(NamedTuple):
    """A type of whole numbers; of one bit: bool."""

    bits: int
    signed: bool

    @property
    def low(self) -> int:
        return -(1 << self.bits - 1) if self.signed else 0

    @property
    def high(self) -> int:
        return (1 << self.bits - self.signed) - 1


BOOL, INT, UNSIGNED = Kind(1, False), Kind(32, True), Kind(32, False)
KINDS = {
    "bool": BOOL, "unsigned char": Kind(8, False), "short": Kind(16, True), "unsigned short": Kind(16, False),
    "int": INT, "unsigned int": UNSIGNED, "long long": Kind(64, True), "unsigned long long": Kind(64, False),
}  # fmt: skip
#: Of each the numbers that it has; only of numbers, not of vectors, is there arithmetic in a text.
REALS = {f"{one}{count or ''}": count or 1 for one in ("float", "double") for count in (0, 2, 3, 4)}


class Sum(NamedTuple):
    """A sum of multiples of atoms, by their numbers in order, and a constant."""

    terms: Terms
    constant: int

    @property
    def is_plain(self) -> bool:
        """Whether it is one atom, or a constant."""
        return not self.terms or (len(self.terms) == 1 and self.terms[0][1] == 1 and self.constant == 0)

    def plus(self, other: Sum, times: int = 1) -> Sum:
        made = dict(self.terms)
        for atom, factor in other.terms:
            made[atom] = made.get(atom, 0) + times * factor
        return Sum(
            tuple(sorted((atom, factor) for atom, factor in made.items() if factor)),
            self.constant + times * other.constant,
        )


def constant_of(value: int) -> Sum:
    return Sum((), value)


class Whole(NamedTuple):
    """A whole number of a type."""

    kind: Kind
    sum: Sum


class Real(NamedTuple):
    """A float or double, or a vector of them, of which nothing is known."""


class Pointer(NamedTuple):
    """A pointer to an element of an argument."""

    param: int
    at: Sum


Value: TypeAlias = Whole | Real | Pointer
REAL = Real()


def need(holds: object) -> None:
    """Raise :class:`Unproved` unless something holds."""
    if not holds:
        raise Unproved


def whole(value: Value) -> Whole:
    """A value that is a whole number, as need be."""
    if not isinstance(value, Whole):
        raise Unproved
    return value


def no_pointer(value: Value) -> Whole | Real:
    """A value that is no pointer, as need be."""
    if isinstance(value, Pointer):
        raise Unproved
    return value


class Atom(NamedTuple):
    """A whole number that differs from thread to thread, or from time to time.

    Attributes:
        low, high: its range.
        definition: what it is the sum of; None for one that is no sum.
        axes: the atoms of threads and blocks of which it is made.
    """

    low: int
    high: int
    definition: Sum | None
    axes: frozenset[int]


@dataclass
class State:
    """What is known at a place of the text.

    Attributes:
        names: the variables.
        ranges: of atoms, narrower than their own.
        limits: the most that sums of atoms are, by their terms.
        guards: the atoms by which conditions have let threads through, where nothing else has; None if something has.
        dead: whether no thread gets there.
    """

    names: dict[str, Value]
    ranges: dict[int, tuple[int, int]] = field(default_factory=dict)
    limits: dict[Terms, int] = field(default_factory=dict)
    guards: frozenset[int] | None = frozenset()
    dead: bool = False

    def copy(self) -> State:
        return State(dict(self.names), dict(self.ranges), dict(self.limits), self.guards, self.dead)


class Ranges:
    """The atoms of a launch, and arithmetic with sums of them.

    Args:
        grid, block: of the launch.
    """

    def __init__(self, grid: Sequence[int], block: Sequence[int]) -> None:
        self.atoms: list[Atom] = []
        self.axes: dict[tuple[str, str], Sum] = {}
        for what, sizes in (("threadIdx", block), ("blockIdx", grid)):
            for axis, size in zip("xyz", sizes, strict=True):
                number = len(self.atoms)
                if size > 1:
                    self.atoms.append(Atom(0, size - 1, None, frozenset((number,))))
                self.axes[what, axis] = Sum(((number, 1),), 0) if size > 1 else constant_of(0)
        for what, sizes in (("blockDim", block), ("gridDim", grid)):
            for axis, size in zip("xyz", sizes, strict=True):
                self.axes[what, axis] = constant_of(size)
        self.axis_atoms = frozenset(range(len(self.atoms)))

    def atom(self, low: int, high: int, definition: Sum | None = None) -> Sum:
        axes = (
            frozenset().union(*(self.atoms[atom].axes for atom, _ in definition.terms))
            if definition
            else frozenset()
        )
        self.atoms.append(Atom(low, high, definition, axes))
        return Sum(((len(self.atoms) - 1, 1),), 0)

    def any_of(self, kind: Kind) -> Whole:
        return Whole(kind, self.atom(kind.low, kind.high))

    def range_of(self, atom: int, ranges: dict[int, tuple[int, int]]) -> tuple[int, int]:
        return ranges.get(atom) or self.atoms[atom][:2]

    def bounds(self, one: Sum, state: State) -> tuple[int, int]:
        low = high = one.constant
        for atom, factor in one.terms:
            ends = [factor * end for end in self.range_of(atom, state.ranges)]
            low, high = low + min(ends), high + max(ends)
        negative = tuple((atom, -factor) for atom, factor in one.terms)
        high = (
            min(high, state.limits.get(one.terms, high) + one.constant) if one.terms in state.limits else high
        )
        low = max(low, one.constant - state.limits[negative]) if negative in state.limits else low
        return low, high

    def at_most_zero(self, one: Sum, state: State) -> State:
        """What is known besides where a sum is at most 0."""
        made = state.copy()
        if self.bounds(one, state)[0] > 0:
            made.dead = True
        if not one.terms or made.dead:
            return made
        made.limits[one.terms] = min(-one.constant, made.limits.get(one.terms, -one.constant))
        for atom, factor in one.terms:
            rest = sum(
                min(other * end for end in self.range_of(each, state.ranges))
                for each, other in one.terms
                if each != atom
            )
            low, high = self.range_of(atom, made.ranges)
            most = -one.constant - rest
            if factor > 0:
                high = min(high, most // factor)
            else:
                low = max(low, -(most // -factor))
            made.ranges[atom] = low, high
            made.dead |= low > high
        single = len(one.terms) == 1 and made.guards is not None
        made.guards = made.guards | {one.terms[0][0]} if single and made.guards is not None else None
        return made

    def converted(self, value: Value, kind: Kind, state: State) -> Whole:
        if isinstance(value, Pointer):
            raise Unproved
        if isinstance(value, Whole):
            low, high = self.bounds(value.sum, state)
            if kind.low <= low and high <= kind.high:
                return Whole(kind, value.sum)
        return self.any_of(kind)

    def in_range(self, kind: Kind, made: Sum, state: State) -> Whole:
        """A result of arithmetic, which must not overflow."""
        low, high = self.bounds(made, state)
        if kind.low <= low and high <= kind.high:
            return Whole(kind, made)
        need(not kind.signed)
        return self.any_of(kind)

    def within(self, kind: Kind, low: int, high: int) -> Whole:
        if low < kind.low or high > kind.high:
            need(not kind.signed)
            return self.any_of(kind)
        return Whole(kind, constant_of(low) if low == high else self.atom(low, high))

    @staticmethod
    def common(a: Kind, b: Kind) -> Kind:
        kinds = [one if one.bits >= 32 else INT for one in (a, b)]
        bits = max(one.bits for one in kinds)
        return Kind(bits, all(one.signed for one in kinds if one.bits == bits))

    def arithmetic(self, how: str, a: Value, b: Value, state: State) -> Value:
        if isinstance(a, Pointer) or isinstance(b, Pointer):
            if how == "+" and isinstance(b, Pointer):
                a, b = b, a
            if how not in "+-" or not isinstance(a, Pointer):
                raise Unproved
            return Pointer(a.param, a.at.plus(whole(b).sum, 1 if how == "+" else -1))
        if isinstance(a, Real) or isinstance(b, Real):
            need(how in "+-*/")
            return REAL
        if how in ("<<", ">>"):
            return self._shifted(how, a, b, state)
        kind = self.common(a.kind, b.kind)
        one, other = (self.converted(each, kind, state).sum for each in (a, b))
        if how in "+-":
            return self.in_range(kind, one.plus(other, 1 if how == "+" else -1), state)
        ends = self.bounds(one, state), self.bounds(other, state)
        if how == "*":
            if not other.terms or not one.terms:
                factor, rest = (other.constant, one) if not other.terms else (one.constant, other)
                return self.in_range(kind, constant_of(0).plus(rest, factor), state)
            products = [x * y for x in ends[0] for y in ends[1]]
            return self.within(kind, min(products), max(products))
        (low, high), (least, most) = ends
        if how in ("/", "%"):
            need(least >= 1 and low >= 0)
            if how == "/":
                return self.within(kind, low // most, high // least)
            if low == high and least == most:
                return Whole(kind, constant_of(low % least))
            return self.within(kind, 0, min(high, most - 1))
        if how == "&" and (least >= 0 or low >= 0):
            return self.within(kind, 0, min(end for begin, end in ends if begin >= 0))
        if how in "&|^":
            return self.any_of(kind)
        raise Unproved

    def _shifted(self, how: str, a: Whole, b: Whole, state: State) -> Whole:
        kind = self.common(a.kind, a.kind)
        low, high = self.bounds(a.sum, state)
        need(not b.sum.terms and 0 <= b.sum.constant < kind.bits and low >= 0)
        if how == ">>":
            return self.within(kind, low >> b.sum.constant, high >> b.sum.constant)
        return self.in_range(kind, constant_of(0).plus(a.sum, 1 << b.sum.constant), state)

    def compared(self, how: str, a: Value, b: Value, state: State) -> tuple[State, State]:
        a, b = no_pointer(a), no_pointer(b)
        unknown = replace(state.copy(), guards=None)
        if isinstance(a, Real) or isinstance(b, Real):
            return unknown, unknown.copy()
        kind = self.common(a.kind, b.kind)
        one, other = (self.converted(each, kind, state).sum for each in (a, b))
        difference = one.plus(other, -1)
        opposite = other.plus(one, -1)
        if how in ("==", "!="):
            same = self.at_most_zero(opposite, self.at_most_zero(difference, state))
            apart = unknown
            low, high = self.bounds(difference, state)
            if low > 0 or high < 0:
                apart = state.copy()
            elif low == high == 0:
                apart.dead = True
            return (same, apart) if how == "==" else (apart, same)
        if how in (">", ">="):
            difference, opposite, how = opposite, difference, {">": "<", ">=": "<="}[how]
        # a < b: a - b + 1 <= 0, else b - a <= 0
        strict = int(how == "<")
        met = self.at_most_zero(difference.plus(constant_of(strict)), state)
        return met, self.at_most_zero(opposite.plus(constant_of(1 - strict)), state)

    def expanded(self, one: Sum) -> Sum:
        """The same sum, of atoms that are no sums."""
        for atom, factor in one.terms:
            if (definition := self.atoms[atom].definition) is not None:
                rest = one.plus(Sum(((atom, factor),), 0), -1)
                return self.expanded(rest.plus(definition, factor))
        return one
