"""Arrays one after another in flat memory, which is divided over ranks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from ..array import Array
from ..array.creation import empty, zeros
from ..array.layout import fresh_layout
from ..device import Device
from ..dtypes import DType, info
from ..elementwise.many import Many, split
from ..shape.copy import copying
from .group import Group

#: Arrays begin at multiples of so many elements, so that kernels may read 16 bytes at once.
_ALIGNED = 16


class Flat:
    """Where arrays lie in flat memory.

    Args:
        shapes: those of the arrays.
        ranks: the number of ranks, by which the size is divisible.

    Attributes:
        shapes: the same.
        offsets: the offset of each array, in elements.
        size: elements in all, with the gaps between arrays.
    """

    def __init__(self, shapes: Sequence[tuple[int, ...]], ranks: int) -> None:
        self.shapes, self.offsets, end = tuple(shapes), list[int](), 0
        for size in self.sizes:
            self.offsets.append(end)
            end += -(-size // _ALIGNED) * _ALIGNED
        self.size = -(-end // (_ALIGNED * ranks)) * _ALIGNED * ranks
        #: The launches that copy the arrays.
        self._copies: dict[tuple[Device, DType], list[tuple[slice, Many]]] = {}

    @cached_property
    def sizes(self) -> list[int]:
        """The number of elements of each array."""
        return list(map(math.prod, self.shapes))

    def own(self, flat: Array, group: Group) -> Array:
        """A rank's equal part of flat memory."""
        share = self.size // group.size
        return flat[group.rank * share : (group.rank + 1) * share]

    def cut(self, flat: Array) -> list[Array]:
        """The arrays, as views of flat memory."""
        places = zip(self.offsets, self.sizes, self.shapes, strict=True)
        return [flat[offset : offset + size].reshape(shape) for offset, size, shape in places]

    def pack(self, arrays: Sequence[Array | None], dtype: Any, device: Device) -> Array:
        """The arrays in flat memory, with zeros for None and in the gaps; the memory of one that takes all of it."""
        given = [
            zeros(shape, dtype=dtype, device=device)
            if one is None
            else one.astype(dtype, copy=False).contiguous()
            for one, shape in zip(arrays, self.shapes, strict=True)
        ]
        if len(given) == 1 and given[0].size == self.size:
            return given[0].reshape(-1)
        flat = empty(self.size, dtype=dtype, device=device)
        ends = (*self.offsets[1:], self.size)
        for offset, size, end in zip(self.offsets, self.sizes, ends, strict=True):
            if offset + size < end:
                flat[offset + size : end] = 0
        self.copy(given, self.cut(flat))
        flat._bump("pack")
        return flat

    def copy(self, given: Sequence[Array], to: Sequence[Array]) -> None:
        """Copy arrays of these sizes that have no gaps in memory to others, all in few launches."""
        device, dtype = key = given[0].device, given[0].dtype
        if key not in self._copies:
            layouts = [fresh_layout(device, dtype, (size,)) for size in self.sizes]
            self._copies[key] = split(copying(info(dtype).bits), device, layouts)
        for one in (*given, *to):
            one._planned()
        for part, plan in self._copies[key]:
            plan.write([x._operand for x in given[part]], (), [x._operand for x in to[part]])
