"""Functions that split arrays into unequal parts, or along a certain axis, beside :func:`split`."""

from __future__ import annotations

import operator
from collections.abc import Sequence

import numpy as np

from ..array import Array
from ..elementwise.operands import normalize_axis, public, require_array
from ..shape.joins import split

__all__ = ["array_split", "dsplit", "hsplit", "vsplit"]


@public
def array_split(x: Array, /, indices_or_sections: int | Sequence[int], axis: int = 0) -> list[Array]:
    """:func:`split` into parts whose sizes may differ by one, the larger ones first.

    Raises:
        ValueError: the number of parts is less than one.
    """
    x = require_array(x, "array_split")
    place = normalize_axis(axis, x.ndim, "array_split")
    if not isinstance(indices_or_sections, (int, np.integer)):
        return split(x, indices_or_sections, place)
    sections = operator.index(indices_or_sections)
    if sections < 1:
        raise ValueError(f"array_split: expected at least one section, got {sections}")
    each, more = divmod(x.shape[place], sections)
    sizes = [each + (i < more) for i in range(sections)]
    return split(x, [sum(sizes[:i]) for i in range(1, sections)], place)


def _split_along(x: Array, cuts: int | Sequence[int], axis: int, least: int, name: str) -> list[Array]:
    x = require_array(x, name)
    if x.ndim < least:
        raise ValueError(f"{name}: expected at least {least} axes, got shape {x.shape}")
    return split(x, cuts, axis)


@public
def hsplit(x: Array, /, indices_or_sections: int | Sequence[int]) -> list[Array]:
    """:func:`split` along the second axis, or along the first for a vector."""
    x = require_array(x, "hsplit")
    return _split_along(x, indices_or_sections, 1 if x.ndim > 1 else 0, 1, "hsplit")


@public
def vsplit(x: Array, /, indices_or_sections: int | Sequence[int]) -> list[Array]:
    """:func:`split` along the first axis of an array with two or more."""
    return _split_along(x, indices_or_sections, 0, 2, "vsplit")


@public
def dsplit(x: Array, /, indices_or_sections: int | Sequence[int]) -> list[Array]:
    """:func:`split` along the third axis."""
    return _split_along(x, indices_or_sections, 2, 3, "dsplit")
