"""Copies of several arrays to their places in one, in one launch: of rows of memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from ..array import Array
from ..array.layout import ALIGNMENT, Layout
from ..device import Device
from ..kernel import Kernel
from ..kernel.plan import threads
from ..kernel.sizes import LARGEST_INDEX, divide_up
from ..kernel.strides import collapse
from ..launch.params import Params

_JOIN = Kernel("shape/join.cu", block=256)
#: The most arrays of a launch: their addresses and sizes are kernel parameters, which have 4096 bytes.
TOGETHER = 64
#: Words that a thread moves, and the most blocks per array.
_WORDS, _BLOCKS = 4, 1024


class Rows(NamedTuple):
    """A part of a joined array that is rows of bytes: how many, their bytes, the bytes from one row to the next in the
    array and in the joined one, and those before the first."""

    rows: int
    columns: int
    source: int
    target: int
    at: int


@lru_cache(maxsize=TOGETHER)
def _parts(count: int) -> Params:
    return Params("Parts", **dict.fromkeys(Rows._fields, ("index", count)))


def rows_of(one: Layout, part: Layout, at: int) -> Rows | None:
    """How ``one`` is copied to ``part`` of a joined array, ``at`` bytes after its start; None if not as rows."""
    size = one.dtype.itemsize
    axes = collapse(one.shape, [one.strides, part.strides], part.strides)
    shape, (source, target) = axes.shape, axes.steps
    if shape and source[-1] == target[-1] == size:
        columns, outer = size * shape[-1], len(shape) - 1
    else:
        columns, outer = size, len(shape)
    if one.dtype != part.dtype or outer > 1:
        return None
    return (
        Rows(shape[0], columns, source[0], target[0], at) if outer else Rows(1, columns, columns, columns, at)
    )


class Together:
    """The launch that copies rows of several arrays to their places in one.

    Args:
        device: that of the arrays.
        numbers: which of the joined arrays they are.
        rows: of each.
        aligned: whether their addresses are multiples of 16, else of the elements' size.
        size: bytes of an element.
    """

    __slots__ = ("_launch", "_numbers")

    def __init__(
        self, device: Device, numbers: Sequence[int], rows: Sequence[Rows], aligned: bool, size: int
    ) -> None:
        count = len(rows)
        width = math.gcd(ALIGNMENT, ALIGNMENT if aligned else size, *(n for one in rows for n in one[1:]))
        words = [Rows(one.rows, *(n // width for n in one[1:])) for one in rows]
        spans = [one.rows * max(one.columns, one.source, one.target) + one.at for one in words]
        index = {"index": "long long" if 2 * max(spans) > LARGEST_INDEX else "int"}
        parts = _parts(count)(**dict(zip(Rows._fields, zip(*words, strict=True), strict=True)))
        block = threads(device, 256)
        bound = _JOIN.bind(
            device,
            **index,
            Parts=parts.source(index),
            count=count,
            width=width,
            block=block,
            name=f"join_{count}_{width}_{block}",
        )
        most = max(one.rows * one.columns for one in words)
        blocks = min(_BLOCKS, divide_up(most, block * _WORDS))
        self._numbers = numbers
        self._launch = bound.function.prepare((blocks, count, 1), (block, 1, 1), 0, (parts.packed(index),))

    def __call__(self, arrays: Sequence[Array], result: Array) -> None:
        self._launch(*[arrays[i]._operand for i in self._numbers], result._operand)
