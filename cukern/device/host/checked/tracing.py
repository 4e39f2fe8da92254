"""Records of a checked launch: its first blocks' accesses to memory and steps at barriers, and its operations."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

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
#: The struct ``Step`` of checked/trace.h.
STEP = np.dtype(
    [
        ("block", np.uint64),
        ("region", np.int32),
        *((name, np.uint32) for name in ("offset", "place", "count")),
        ("thread", np.uint16),
        ("what", np.uint8),
        ("queue", np.uint8),
        ("padding", np.uint32),
    ]
)
#: The kinds of floating-point operations, as checked/trace.h numbers them: calls of functions are of unknown size.
KINDS = (
    "float32",
    "float64",
    "float16",
    "calls",
    "tensor float16",
    "tensor tf32",
    "tensor float8",
    "tensor float64",
)
#: Threads of a warp.
WARP = 32
#: The places in the code that the runtime tells apart.
_PLACES = 1 << 20
#: The most steps that are recorded of a launch.
_STEPS = 200_000
#: The smallest region that is a variable in shared memory.
SHARED = 1000
# Values of ``how``: atomic, and asynchronous.
ATOMIC, BESIDE = 1, 2


class Region(NamedTuple):
    """An argument, or a variable in shared memory.

    Attributes:
        name: of the argument or the variable.
        start: at how many bytes of its memory it starts.
        bytes: its size.
    """

    name: str
    start: int
    bytes: int


class Recording:
    """The memory in which the runtime records a launch.

    Args:
        room: the most accesses.
        blocks: how many blocks.
        library: the runtime.
    """

    def __init__(self, room: int, blocks: int, library: ctypes.CDLL) -> None:
        self.events, self.steps = np.empty(room, EVENT), np.empty(min(room, _STEPS), STEP)
        self.by_place = np.zeros(_PLACES, np.uint64)
        self.missed = 0
        self.operations: dict[str, int] = {}
        memory = (ctypes.c_void_p(one.ctypes.data) for one in (self.events, self.steps, self.by_place))
        sizes = map(ctypes.c_ulonglong, (room, blocks, len(self.steps)))
        events, steps, places = memory
        room_, blocks_, steps_ = sizes
        library.cukern_trace(events, room_, blocks_, steps, steps_, places)

    def stop(self, library: ctypes.CDLL) -> None:
        """Record no more."""
        library.cukern_traced.restype = ctypes.c_ulonglong
        steps, operations = ctypes.c_ulonglong(), (ctypes.c_ulonglong * len(KINDS))()
        count = int(library.cukern_traced(ctypes.byref(steps), operations))
        none = ctypes.c_ulonglong(0)
        library.cukern_trace(None, none, none, None, none, None)
        self.missed = max(0, count - len(self.events)) + max(0, steps.value - len(self.steps))
        self.events, self.steps = self.events[:count].copy(), self.steps[: steps.value].copy()
        self.operations = dict(zip(KINDS, map(int, operations), strict=True))


@dataclass
class Launch:
    """A launch whose first blocks were traced.

    Attributes:
        unit: the kernel.
        grid, block: the launch's shape.
        shared: bytes of dynamic shared memory.
        blocks: how many blocks were traced, the first ones.
        events: their accesses in the order in which they ran, with the fields of :data:`EVENT`.
        missed: accesses and steps for which there was no room.
        steps: what these blocks' threads did at barriers and for asynchronous copies, with the fields of :data:`STEP`.
        lines: the template's line of each address of code in the events, as far as it is known.
        arrays: by region.
        operations: the floating-point operations of all blocks, by :data:`KINDS`; None if they were not counted.
        operations_at: the same by addresses of code, but for those of tensor cores.
    """

    unit: Unit
    grid: Dim3
    block: Dim3
    shared: int
    blocks: int
    events: np.ndarray[Any, Any]
    missed: int
    steps: np.ndarray[Any, Any]
    lines: dict[int, str]
    arrays: dict[int, Region]
    operations: dict[str, int] | None
    operations_at: dict[int, int]

    @property
    def left_out(self) -> str:
        """That there was no room for all, in words; empty if there was."""
        more = f"{self.missed} accesses or steps, for which there was no room"
        return f"left out: {more}: all figures are of the others" if self.missed else ""


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

    def start(self, library: ctypes.CDLL) -> Recording:
        """Record the next launch."""
        return Recording(self.room, self.blocks, library)

    def took(
        self,
        unit: Unit,
        header: Sequence[int],
        recorded: Recording,
        counted: bool,
        lines: Callable[[set[int]], dict[int, str]],
        region: Callable[[int], Region],
    ) -> None:
        """Keep a launch.

        Args:
            unit: the kernel.
            header: grid, block and bytes of dynamic shared memory.
            recorded: what :meth:`start` returned, stopped.
            counted: whether the kernel counts its operations.
            lines: the template's lines of addresses of code.
            region: the argument or variable of a region.
        """
        grid, block = (header[0], header[1], header[2]), (header[3], header[4], header[5])
        events, steps = recorded.events, recorded.steps
        places = np.flatnonzero(recorded.by_place)
        found = {int(place) for place in np.concatenate([events["place"], steps["place"], places])}
        regions = {
            int(one) for one in np.concatenate([events["region"], steps["region"][steps["region"] >= SHARED]])
        }
        self.launches.append(
            Launch(
                unit,
                grid,
                block,
                int(header[6]),
                min(self.blocks, math.prod(grid)),
                events,
                recorded.missed,
                steps,
                lines(found),
                {number: region(number) for number in sorted(regions)},
                recorded.operations if counted else None,
                {int(place): int(recorded.by_place[place]) for place in places},
            )
        )


def sorted_by(*keys: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The stable order by keys, the first one first, and flags of the beginnings of its groups."""
    order = np.lexsort(keys[::-1])
    begins = np.ones(len(order), bool)
    begins[1:] = False
    for key in keys:
        sorted_key = key[order]
        begins[1:] |= sorted_key[1:] != sorted_key[:-1]
    return order, begins


def requests_of(events: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The number of each event's request: what lanes of a warp do at one place, in their turns there."""
    order, begins = sorted_by(events["place"], events["block"], events["thread"])
    starts = np.flatnonzero(begins)
    turn = np.empty(len(events), np.int64)
    turn[order] = np.arange(len(events)) - np.repeat(starts, np.diff(np.append(starts, len(events))))
    order, begins = sorted_by(events["place"], events["block"], events["thread"] // WARP, turn)
    number = np.empty(len(events), np.int64)
    number[order] = np.cumsum(begins) - 1
    return number
