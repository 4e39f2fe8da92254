"""Whether all threads of a launch access different elements of an array."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from .ranges import Ranges, Sum, Terms


class Access(NamedTuple):
    """The elements of an argument that a place of the text may access.

    Attributes:
        ranges: of atoms there.
        every: the first and the last of elements that are all accessed; None if that is not known.
        row: its line in the text.
    """

    at: Sum
    ranges: dict[int, tuple[int, int]]
    writes: bool
    every: tuple[int, int] | None
    row: int


def are_apart(ranges: Ranges, accesses: Sequence[Access]) -> bool:
    """Whether different threads access different elements.

    Args:
        ranges: what is known of the launch.
        accesses: all of them to an array.
    """
    return _Accesses(ranges, accesses, False).are_apart() or _Accesses(ranges, accesses, True).are_apart()


class _Accesses:
    """Accesses to an array: elements that are sums of what tells threads apart, and of what any thread may have.

    Args:
        expanded: whether to take variables for what they are the sums of.
    """

    def __init__(self, ranges: Ranges, accesses: Sequence[Access], expanded: bool) -> None:
        self._ranges, self._all, self._atoms = ranges, accesses, ranges.atoms
        self._places = [ranges.expanded(one.at) if expanded else one.at for one in accesses]

    def are_apart(self) -> bool:
        threads = {tuple(term for term in at.terms if self._atoms[term[0]].axes) for at in self._places}
        if len(threads) != 1:
            return False
        (terms,) = threads
        told = frozenset[int]().union(*(self._atoms[atom].axes for atom, _ in terms))
        if any(span and axis not in told for axis, span in self._spans(self._ranges.axis_atoms).items()):
            return False
        digits = [*self._digits(terms), *self._others().items()]
        return _is_unique(digits) and all(self._tells(atom) for atom, _ in terms)

    def _others(self) -> dict[int, int]:
        """How far apart sums of what is no thread's are at most, by their factors."""
        made: dict[int, int] = {}
        lowest = []
        for at, one in zip(self._places, self._all, strict=True):
            low, own = at.constant, dict[int, int]()
            for atom, factor in at.terms:
                if not self._atoms[atom].axes:
                    ends = self._ranges.range_of(atom, one.ranges)
                    low += min(factor * end for end in ends)
                    own[abs(factor)] = own.get(abs(factor), 0) + ends[1] - ends[0]
            lowest.append(low)
            made.update({factor: max(span, made.get(factor, 0)) for factor, span in own.items()})
        made[1] = made.get(1, 0) + max(lowest) - min(lowest)
        return made

    def _spans(self, atoms: Iterable[int]) -> dict[int, int]:
        """How far apart two values of each atom are at most."""
        spans = {}
        for atom in atoms:
            ranges = [self._ranges.range_of(atom, one.ranges) for one in self._all]
            spans[atom] = max(high for _, high in ranges) - min(low for low, _ in ranges)
        return spans

    def _digits(self, terms: Terms) -> list[tuple[int, int]]:
        spans = self._spans(atom for atom, _ in terms)
        return [(abs(factor), spans[atom]) for atom, factor in terms]

    def _tells(self, atom: int) -> bool:
        """Whether an atom's value tells those of all axes that it is made of."""
        definition = self._atoms[atom].definition
        if definition is None:
            return True
        return _is_unique(self._digits(definition.terms)) and all(
            self._tells(one) for one, _ in definition.terms
        )


def _is_unique(digits: Iterable[tuple[int, int]]) -> bool:
    """Whether a sum tells its digits, each given by its factor and by how far apart two of its values are at most."""
    reach = 0
    for factor, span in sorted(digits):
        if span and factor <= reach:
            return False
        reach += factor * span
    return True
