"""Timelines of a block: what its warps do at barriers and for asynchronous copies, and in which order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ..device.host.checked.tracing import SHARED, WARP, Launch, requests_of
from ..text.render import table
from .pictures import Drawing

#: ``Happening`` of checked/trace.h.
_COMES, _GOES, _SENDS, _COMMITS, _FINISHES, _ARRIVES, _PASSES = range(7)
#: ``Elsewhere`` of checked/trace.h: barriers that are no variables.
_OF_CLUSTER, _OF_NUMBER = -3, -4


class _Kind(NamedTuple):
    """How a happening is told: the word between it and what it is of, its mark in a picture."""

    of: str
    mark: str


#: By their names, in the order of `Happening`.
_KINDS = {
    "comes": _Kind("to ", "comes"),
    "goes on": _Kind("after ", "goes"),
    "sends": _Kind("", "sends"),
    "commits": _Kind("a group of ", "commits"),
    "waits": _Kind("for ", "waits"),
    "arrives": _Kind("at ", "comes"),
    "passes": _Kind("", "goes"),
}
_NAMES = tuple(_KINDS)
#: What marks mean.
_LEGEND = {
    "comes": "comes to a barrier",
    "goes": "passes it",
    "sends": "sends copies or products",
    "commits": "commits a group",
    "waits": "waits for groups",
}
#: What each queue of the runtime takes: for some, copies; the last counts them at an mbarrier.
_COPIES, _PRODUCTS, _STORES, _COUNTED = "copies", "products", "stores", "counted copies"
_QUEUES = (_COPIES, _PRODUCTS, _STORES, _COUNTED)
#: Bytes of an mbarrier.
_MBARRIER = 8
#: The most steps that a picture shows.
_SHOWN = 48
#: Pixels of a step's width, of a row without copies in flight and of a copy in flight.
_STEP, _ROW, _FLIGHT = 26, 34, 9


@dataclass(frozen=True)
class Step:
    """What warps of a block do at one place, at the same step.

    Attributes:
        step: its number, from 1 on: one more than that of the warp's step before, and of all that it waits for.
        warps: their numbers in the block.
        what: ``"comes"`` to ``__syncthreads()``, ``"goes on"`` after it, ``"sends"`` what goes on beside the threads,
            ``"commits"`` a group of it, ``"waits"`` for groups, ``"arrives"`` at another barrier, ``"passes"`` it.
        of: the barrier, or ``"copies"`` (``cp.async``), ``"counted copies"`` (whose end an mbarrier counts),
            ``"stores"`` or ``"products"``.
        detail: the phase of an mbarrier, by its parity; of ``"waits"``, which groups.
        bytes: of what is sent, by each of the warps.
        place: the template and its line.
    """

    step: int
    warps: tuple[int, ...]
    what: str
    of: str
    detail: str
    bytes: int
    place: str

    def __str__(self) -> str:
        moved = f", {self.bytes} bytes" if self.bytes else ""
        detail = f", {self.detail}" if self.detail else ""
        return f"{self.what} {_KINDS[self.what].of}{self.of}{detail}{moved}"


@dataclass(frozen=True)
class Flight:
    """A group of copies, products or stores from its first part's issue to the end of the wait for it.

    Attributes:
        warp: who sent it.
        first, last: the steps; ``last`` is None if nothing waits for it.
        of: as of :class:`Step`.
        bytes: of all of it.
    """

    warp: int
    first: int
    last: int | None
    of: str
    bytes: int


@dataclass(frozen=True)
class _One:
    """A warp's step, as it was recorded: ``key`` is the barrier where it counts or waits, or the place of a group."""

    warp: int
    what: int
    queue: str
    region: int
    offset: int
    count: int
    place: int
    step: int = 0


class Timeline:
    """The steps of a traced block at barriers and of asynchronous copies, in an order in which each follows its causes.

    ``str(timeline)`` is a table of the steps, and :meth:`svg` a picture.

    Attributes:
        block: which one.
        steps: by their number, those of like warps together.
        flights: what was in flight beside the threads.
    """

    def __init__(self, launch: Launch) -> None:
        grid = launch.grid
        number = int(launch.steps["block"].min()) if len(launch.steps) else 0
        self.block = number % grid[0], number // grid[0] % grid[1], number // grid[0] // grid[1]
        self._launch = launch
        ones, self.flights = _timed(
            list(_of_warps(launch.steps[launch.steps["block"] == number], launch.lines))
        )
        self.steps = tuple(self._together(ones))

    def __str__(self) -> str:
        if not self.steps:
            return f"block {self.block}: no barriers and no asynchronous copies"
        head = f"block {self.block}: barriers and asynchronous copies, in steps that follow their causes"
        head += f"; {said}" if (said := self._launch.left_out) else ""
        rows = [("step", "warps", "what", "where")]
        rows += [(f"{one.step}", ranges(one.warps), str(one), one.place or "?") for one in self.steps]
        return f"{head}\n{table(rows)}"

    def _together(self, ones: Sequence[_One]) -> Iterator[Step]:
        groups: dict[_One, list[int]] = {}
        for one in sorted(ones, key=lambda one: (one.step, one.warp)):
            groups.setdefault(replace(one, warp=0), []).append(one.warp)
        for one, warps in groups.items():
            of, detail = self._named(one)
            moved = one.count if one.what == _SENDS else 0
            place = self._launch.lines.get(one.place, "")
            yield Step(one.step, tuple(warps), _NAMES[one.what], of, detail, moved, place)

    def _named(self, one: _One) -> tuple[str, str]:
        """The barrier or queue of a step, and the rest of what there is to say."""
        if one.what in (_COMES, _GOES):
            return "__syncthreads()", ""
        if one.what in (_COMMITS, _FINISHES):
            left = f"all but the last {one.count}" if one.count else "all"
            return one.queue, left if one.what == _FINISHES else ""
        if one.region == _OF_CLUSTER:
            return "the cluster's barrier", ""
        if one.region == _OF_NUMBER:
            return f"barrier {one.offset}", ""
        if one.region < SHARED:
            return one.queue, ""
        barrier = f"{self._launch.arrays[one.region].name}[{one.offset // _MBARRIER}]"
        if one.what == _SENDS:
            return one.queue, f"counted at {barrier}"
        return barrier, f"phase of parity {one.offset // 4 % 2}"

    def svg(self) -> str:
        """A picture: warps from top to bottom, steps from left to right, what is in flight as bars below its warp.

        Warps that do the same at the same steps share a row. Steps after the 48th are left out.
        """
        rows = self._rows()
        shown = min(_SHOWN, max((one.step for one in self.steps), default=0))
        lanes = {
            warps[0]: _lanes([one for one in self.flights if one.warp == warps[0] and one.first <= shown])
            for warps in rows
        }
        heights = [_ROW + _FLIGHT * len(lanes[warps[0]]) for warps in rows]
        drawing = Drawing(
            (shown + 1) * _STEP, sum(heights), f"Barriers and asynchronous copies of block {self.block}"
        )
        for step in range(5, shown + 1, 5):
            drawing.tick_x((step + 0.5) * _STEP, f"{step}")
        drawing.label_x("step: one after all that it waits for, no measure of time")
        drawing.label_y("warps")
        ends = sorted({one.step for one in self.steps if one.what == "goes on" and one.step <= shown})
        for phase, (first, last) in enumerate(zip([0, *ends], [*ends, shown + 1], strict=True)):
            drawing.above((first + last + 1) / 2 * _STEP, f"{phase}")
        drawing.above(-9, "phase", "end")
        for end in ends:
            drawing.line((end + 0.5) * _STEP, 0, (end + 0.5) * _STEP, sum(heights), "barrier")
        top = 0
        for warps, height in zip(rows, heights, strict=True):
            drawing.tick_y(top + _ROW / 2, ranges(warps))
            drawing.line(0, top + height, (shown + 1) * _STEP, top + height, "grid")
            for one in self.steps:
                if warps[0] in one.warps and one.step <= shown:
                    x = (one.step + 0.5) * _STEP
                    drawing.mark(
                        x, top + _ROW / 2, _KINDS[one.what].mark, f"step {one.step}: {one}, {one.place}"
                    )
            for lane, flights in enumerate(lanes[warps[0]]):
                for flight in flights:
                    left, right = flight.first + 0.5, min(flight.last or shown, shown) + 0.5
                    moved = f": {flight.bytes} bytes" * bool(flight.bytes)
                    y, name = top + _ROW - 5 + lane * _FLIGHT, f"{flight.of} in flight{moved}"
                    drawing.bar(left * _STEP, y, right * _STEP, _FLIGHT - 3, "flight", name)
            top += height
        kinds = {_KINDS[one.what].mark for one in self.steps}
        entries = [(kind, name) for kind, name in _LEGEND.items() if kind in kinds]
        drawing.legend([*entries, *([("flight", "in flight")] if self.flights else [])])
        return drawing.svg()

    def _rows(self) -> list[tuple[int, ...]]:
        """The warps that do the same at the same steps."""
        did: dict[int, list[int]] = {}
        for number, one in enumerate(self.steps):
            for warp in one.warps:
                did.setdefault(warp, []).append(number)
        alike: dict[tuple[int, ...], list[int]] = {}
        for warp in sorted(did):
            alike.setdefault(tuple(did[warp]), []).append(warp)
        return [tuple(warps) for warps in alike.values()]


def _of_warps(steps: np.ndarray[Any, Any], lines: dict[int, str]) -> Iterator[_One]:
    """The steps of warps, in the order in which the first of their lanes came there."""
    steps, firsts = steps.copy(), dict[str, int]()
    # A compiler may make one line's code several times, as for both ways out of a branch.
    one_of = {place: firsts.setdefault(line, place) if line else place for place, line in lines.items()}
    steps["place"] = [one_of[int(place)] for place in steps["place"]]
    told = steps.copy()
    told["place"] = steps["place"] * 8 + steps["what"]
    numbers = requests_of(told)
    found, first = np.unique(numbers, return_index=True)
    counts = np.bincount(numbers, steps["count"], minlength=len(found)).astype(np.int64)
    last: dict[int, _One] = {}
    ones: list[_One] = []
    for number in np.argsort(first):
        step = steps[first[number]]
        what, warp = int(step["what"]), int(step["thread"]) // WARP
        count = int(counts[number] if what == _SENDS else step["count"])
        one = _One(
            warp,
            what,
            _QUEUES[int(step["queue"])],
            int(step["region"]),
            int(step["offset"]),
            count,
            int(step["place"]),
        )
        before = last.get(warp)
        if before is not None and what == _SENDS and replace(before, count=count) == one:
            ones[ones.index(before)] = one = replace(one, count=before.count + count)
        else:
            ones.append(one)
        last[warp] = one
    yield from ones


def _timed(ones: list[_One]) -> tuple[list[_One], tuple[Flight, ...]]:
    """The same with their steps, and what is in flight."""
    at: dict[int, int] = {}
    turn: dict[tuple[int, int], int] = {}
    latest: dict[object, int] = {}
    open_: dict[tuple[int, str], list[list[Any]]] = {}
    counted: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
    flights: list[Flight] = []
    timed = []
    for one in ones:
        step = at.get(one.warp, 0) + 1
        barrier: object = one.region, one.offset
        if one.what in (_COMES, _GOES) or one.region == _OF_CLUSTER:  # of which each warp takes each in turn
            nth = turn[one.warp, one.what] = turn.get((one.warp, one.what), 0) + 1
            barrier = one.region, nth
        if one.what in (_COMES, _ARRIVES):
            latest[barrier] = max(latest.get(barrier, 0), step)
        elif one.what in (_GOES, _PASSES):
            where = one.region, one.offset // _MBARRIER
            sent = counted.pop(where, []) if one.region >= SHARED else []
            step = max(step, latest.get(barrier, 0) + 1, latest.get(("sent", *where), 0) + 1)
            flights += (Flight(warp, first, step, _COUNTED, moved) for warp, first, moved in sent)
        elif one.what == _SENDS and one.queue == _COUNTED:
            where = one.region, one.offset // _MBARRIER
            counted.setdefault(where, []).append((one.warp, step, one.count))
            latest["sent", *where] = step
        elif one.what == _SENDS:
            groups = open_.setdefault((one.warp, one.queue), [[]])
            groups[-1].append((step, one.count))
        elif one.what == _COMMITS:
            open_.setdefault((one.warp, one.queue), [[]]).append([])
        elif one.what == _FINISHES:
            groups = open_.setdefault((one.warp, one.queue), [[]])
            for group in groups[: max(0, len(groups) - 1 - one.count)]:
                if group:
                    flights.append(_flight(one.warp, group, step, one.queue))
                    group.clear()
        at[one.warp] = step
        timed.append(replace(one, step=step))
    for (warp, queue), groups in open_.items():
        flights += (_flight(warp, group, None, queue) for group in groups if group)
    for sent in counted.values():
        flights += (Flight(warp, first, None, _COUNTED, moved) for warp, first, moved in sent)
    return timed, tuple(sorted(flights, key=lambda one: (one.warp, one.first)))


def _flight(warp: int, group: Sequence[tuple[int, int]], last: int | None, of: str) -> Flight:
    return Flight(warp, group[0][0], last, of, sum(moved for _, moved in group))


def _lanes(flights: Sequence[Flight]) -> list[list[Flight]]:
    """Flights in as few rows as need be for none to cover another."""
    lanes: list[list[Flight]] = []
    for flight in flights:
        for lane in lanes:
            if lane[-1].last is not None and lane[-1].last <= flight.first:
                lane.append(flight)
                break
        else:
            lanes.append([flight])
    return lanes


def ranges(numbers: Sequence[int]) -> str:
    """Numbers as ``0-3, 5``."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ", ".join(f"{part[0]}-{part[-1]}" if len(part) > 1 else f"{part[0]}" for part in parts)
