"""Records of the memory accesses of a checked launch's first blocks."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ....text import Dim3
from ....text.signature import Unit

#: The struct ``Event`` of checked/trace.h.
EVENT = np.dtype(
    [
        ("offset", np.uint64),
        ("block", np.uint64),
        ("region", np.int32),
        ("place", np.uint32),
        ("thread", np.uint16),
        ("size", np.uint16),
        ("writes", np.bool_),
        ("how", np.uint8),
        ("padding", np.uint8, (2,)),
    ]
)
#: The smallest region that is a variable in shared memory.
SHARED = 1000
# Values of ``how``: atomic, and asynchronous.
ATOMIC, BESIDE = 1, 2


@dataclass
class Launch:
    """A launch whose first blocks were traced.

    Attributes:
        unit: the kernel.
        grid, block: the launch's shape.
        shared: bytes of dynamic shared memory.
        blocks: how many blocks were traced, the first ones.
        events: their accesses in the order in which they ran, with the fields of :data:`EVENT`.
        missed: accesses for which there was no room.
        lines: the template's line of each address of code in the events, as far as it is known.
        arrays: by region, the name of the argument or shared variable, and at how many bytes of its memory it starts.
    """

    unit: Unit
    grid: Dim3
    block: Dim3
    shared: int
    blocks: int
    events: np.ndarray[Any, Any]
    missed: int
    lines: dict[int, str]
    arrays: dict[int, tuple[str, int]]


@dataclass
class Tracer:
    """Which launches are traced, and where they go.

    Attributes:
        blocks: how many blocks of a launch.
        room: the most accesses of a launch.
        kernel: what a traced kernel's name contains.
        most: the most launches.
        launches: those that were traced; of launches that differ in their arrays alone, the first.
    """

    blocks: int
    room: int
    kernel: str
    most: int
    launches: list[Launch] = field(default_factory=list)

    def takes(self, name: str, grid: Sequence[int], block: Sequence[int]) -> bool:
        """Whether a launch is to be traced."""
        if self.kernel not in name or len(self.launches) >= self.most:
            return False
        known = ((one.unit.signature.name, one.grid, one.block) for one in self.launches)
        return all(one != (name, tuple(grid), tuple(block)) for one in known)

    def start(self, library: ctypes.CDLL) -> np.ndarray[Any, Any]:
        """Let the next launch write what it does to the returned array."""
        events = np.empty(self.room, EVENT)
        room, blocks = ctypes.c_ulonglong(self.room), ctypes.c_ulonglong(self.blocks)
        library.cukern_trace(ctypes.c_void_p(events.ctypes.data), room, blocks)
        return events

    def stop(self, library: ctypes.CDLL) -> int:
        """Trace no more; the number of accesses that there were."""
        library.cukern_traced.restype = ctypes.c_ulonglong
        count = int(library.cukern_traced())
        library.cukern_trace(None, ctypes.c_ulonglong(0), ctypes.c_ulonglong(0))
        return count

    def took(
        self,
        unit: Unit,
        header: Sequence[int],
        events: np.ndarray[Any, Any],
        count: int,
        line: Callable[[int], str],
        array: Callable[[int], tuple[str, int]],
    ) -> None:
        """Keep a launch.

        Args:
            unit: the kernel.
            header: grid, block and bytes of dynamic shared memory.
            events: as :meth:`start` returned it.
            count: as :meth:`stop` returned it.
            line: the template's line of an address of code.
            array: the name of a region, and at how many bytes of its memory it starts.
        """
        grid, block = (header[0], header[1], header[2]), (header[3], header[4], header[5])
        kept = events[: min(count, len(events))].copy()
        self.launches.append(
            Launch(
                unit,
                grid,
                block,
                int(header[6]),
                min(self.blocks, math.prod(grid)),
                kept,
                max(0, count - len(events)),
                {int(place): line(int(place)) for place in np.unique(kept["place"])},
                {int(region): array(int(region)) for region in np.unique(kept["region"])},
            )
        )
