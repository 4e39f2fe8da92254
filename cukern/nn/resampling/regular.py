"""Matrices of resampling whose rows have the same weights at equal distances, but for those near the ends."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ...kernel.sizes import ACCESS
from .bands import Band


class Regular(NamedTuple):
    """A banded matrix by groups of rows, whose parts of the columns are equally far apart.

    Attributes:
        items: rows of a group.
        apart: columns from one part to the next.
        first: where the first part begins; before the first column if negative.
        reach: columns of a part.
        weights: of the first group, of those between, and of the last one: for each row those of the part's columns.
            They are 0 in the same places, except for columns beyond the ends, whose weights are any.
    """

    items: int
    apart: int
    first: int
    reach: int
    weights: tuple[tuple[tuple[float, ...], ...], ...]

    @property
    def used(self) -> tuple[int, ...]:
        """The columns that some row takes, counted from where a part begins that begins at the first column."""
        of_columns = zip(*self.weights[1], strict=True)
        return tuple(self.first + place for place, column in enumerate(of_columns) if any(column))

    @property
    def terms(self) -> tuple[tuple[int, ...], ...]:
        """For each row the places of a part that it takes."""
        return tuple(tuple(place for place, one in enumerate(row) if one) for row in self.weights[1])

    def ending(self, place: int) -> tuple[int, ...]:
        """The rows that take nothing beyond a place of a part; the first place is that of rows that take nothing."""
        return tuple(row for row, places in enumerate(self.terms) if max(places, default=0) == place)

    @property
    def products(self) -> int:
        """Weights of a group that are not 0."""
        return sum(weight != 0 for row in self.weights[1] for weight in row)


@lru_cache(maxsize=1024)
def regular(band: Band, items: int) -> Regular | None:
    """The matrix by groups of ``items`` rows, if they are alike: weights may differ by what rounding makes."""
    groups = band.out // items
    if band.out % items or items * band.n % band.out or groups == 2 or not groups:
        return None
    apart, noise = items * band.n // band.out, 8 * band.n * np.finfo(np.float64).eps
    rows, taps = np.nonzero(np.abs(band.weights) > noise)
    if not len(rows):
        return None
    group, columns = rows // items, band.starts[rows] + taps
    places = columns - group * apart
    first, reach = int(places.min()), int(np.ptp(places)) + 1
    if groups * items * reach > 64 * band.weights.size:
        return None
    weights = np.zeros((groups, items, reach))
    weights[group, rows % items, places - first] = band.weights[rows, taps]
    at = first + apart * np.arange(groups)[:, None] + np.arange(reach)
    inside = ((at >= 0) & (at < band.n))[:, None]
    usual = weights[groups // 2]
    if (inside & ((weights != 0) != (usual != 0))).any():
        return None
    if (np.abs(weights[1:-1] - usual)[np.broadcast_to(inside, weights.shape)[1:-1]] > noise).any():
        return None
    three = np.where(inside, weights, usual)[[0, groups // 2, -1]]
    three = np.where(np.abs(three - usual) > noise, three, usual)
    made = tuple(tuple(tuple(row) for row in one) for one in three.tolist())
    return Regular(items, apart, first, reach, made)


def packs(across: Regular, width: int, itemsize: int) -> tuple[tuple[int, int], ...]:
    """The packs in which a thread reads its columns of rows of ``width``: where each begins, and its elements."""
    widest, used = math.gcd(across.apart, width, ACCESS // itemsize), set(across.used)
    made = []
    for column in across.used:
        if column not in used:
            continue
        wide = widest
        while 2 * len(used & set(_pack(column, wide))) <= wide > 1:
            wide //= 2
        made.append((_pack(column, wide).start, wide))
        used -= set(_pack(column, wide))
    return tuple(made)


def _pack(column: int, wide: int) -> range:
    return range(column // wide * wide, column // wide * wide + wide)
