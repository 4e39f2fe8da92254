"""Numbers of a launch as formulas of the sizes of arguments, found from launches of several sizes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple


class Formula(NamedTuple):
    """``ceil(factor * product of sizes / divisor)``; without sizes the constant ``factor``."""

    factor: int
    sizes: tuple[str, ...] = ()
    divisor: int = 1

    def value(self, sizes: dict[str, int]) -> int:
        """The number for given sizes."""
        return -(-self.factor * math.prod(sizes[one] for one in self.sizes) // self.divisor)

    def __str__(self) -> str:
        """Python and C++."""
        words = [*self.sizes] if self.factor == 1 and self.sizes else [str(self.factor), *self.sizes]
        product = " * ".join(words)
        if self.divisor == 1:
            return product
        return f"divided({product}, {self.divisor})"


def constant(value: int) -> Formula:
    """A number that no size changes."""
    return Formula(value)


def found(values: Sequence[int], sizes: Sequence[dict[str, int]], divisors: Sequence[int]) -> Formula | None:
    """The simplest formula that gives each of ``values`` for the sizes of the same trial; None if there is none."""
    if len(set(values)) == 1:
        return Formula(values[0])
    for one in _candidates(tuple(sizes[0]), divisors):
        if all(one.value(given) == value for given, value in zip(sizes, values, strict=True)):
            return one
    return None


def _candidates(names: tuple[str, ...], divisors: Sequence[int]) -> Iterator[Formula]:
    whole = sorted({1, *divisors, *(1 << i for i in range(1, 11))})
    for count in (1, 2, 3, 4):
        for chosen in itertools.combinations_with_replacement(names, count):
            for factor in (1, 2, 4, 8, 16):
                for divisor in whole:
                    yield Formula(factor, chosen, divisor)
