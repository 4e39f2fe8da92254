"""Scripts: the launches of a trace as data, to repeat them for other arrays of the same layouts without its Python."""

from __future__ import annotations

import math
import time
import weakref
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeVar

from .. import pytree
from ..array import Array
from ..array.donated import alone
from ..array.layout import Layout, address
from ..cache import Is
from ..kernel.plan import on
from .graph import View
from .many import Many
from .operands import view
from .plan import Plan

_T = TypeVar("_T")


class Read(NamedTuple):
    """What a launch reads: the array in a slot, or a view of it.

    Attributes:
        slot: the array's.
        view: None for the array itself.
        layout: that of the view.
        offset: bytes before the view.
    """

    slot: int
    view: View | None
    layout: Layout
    offset: int

    def of(self, values: Sequence[Any]) -> Array:
        """The array."""
        x: Array = values[self.slot]
        if self.view is None:
            if x._layout is None:
                x._planned()
            return x
        if not self.layout.on_host:
            return x._seen(self.layout, self.offset)
        seen = view(x, self.view.of_data(x._data))
        seen._layout, seen._operand = self.layout, x.device.backend.operand(seen._ndarray)
        return seen


class Launch(NamedTuple):
    """A kernel that makes new arrays."""

    plan: Plan | Many
    reads: tuple[Read, ...]
    numbers: tuple[Any, ...]
    slots: tuple[int, ...]

    def run(self, values: list[Any]) -> None:
        """Launch, and put the results into their slots."""
        arrays = [one.of(values) for one in self.reads]
        for slot, made in zip(self.slots, self.plan.run(arrays, self.numbers), strict=True):
            values[slot] = made


class Single(NamedTuple):
    """A launch of a reduction, or of a product or a call with what follows it, whose result is one new array.

    Attributes:
        others: what else the plan takes.
    """

    plan: Any
    reads: tuple[Read, ...]
    numbers: tuple[Any, ...]
    others: tuple[Any, ...]
    slot: int

    def run(self, values: list[Any]) -> None:
        """Launch, and put the result into its slot."""
        arrays = [one.of(values) for one in self.reads]
        values[self.slot] = self.plan.run(arrays, self.numbers, *self.others)


@dataclass(frozen=True)
class CallPlan:
    """A call with what follows it as the plan of a :class:`Single`.

    Attributes:
        function: of arrays, numbers and what else is given.
        layouts: that of its result.
    """

    function: Callable[..., Array]
    given: tuple[Any, ...]
    layouts: tuple[Layout, ...]
    ready: ClassVar[None] = None
    source: ClassVar[str] = ""

    def run(self, arrays: Sequence[Array], numbers: Sequence[Any]) -> Array:
        """Call it."""
        return self.function(arrays, numbers, *self.given)


class InPlace(NamedTuple):
    """A kernel that writes some of its results to the memory of arrays that it is the last to read.

    Attributes:
        step: what does so with new memory.
        outputs: for each input of its plan the number of the output that is written there, or None, as for all tables.
    """

    step: Launch
    outputs: tuple[int | None, ...]

    @classmethod
    def of(cls, step: Step, free: Collection[int]) -> InPlace | None:
        """The step by a kernel that writes to arrays in ``free`` slots; None if none has the place of a result."""
        if not isinstance(step, Launch) or type(step.plan) not in (Plan, Many):
            return None
        layouts, often = step.plan.layouts, Counter([one.slot for one in step.reads])
        left = list(range(len(step.plan.program.outputs)))
        outputs: list[int | None] = []
        inputs = len(step.plan.program.inputs)
        for i, reads in enumerate(_by_inputs(step.plan, step.reads)):
            fits = all(one.view is None and one.slot in free and often[one.slot] == 1 for one in reads)
            own = [one.layout for one in reads] if fits and i < inputs else []
            place = next((k for k in left if own and list(_outputs(step.plan, layouts, k)) == own), None)
            outputs.append(place)
            left = [k for k in left if k != place]
        return None if outputs.count(None) == len(outputs) else cls(step, tuple(outputs))

    def run(self, values: list[Any]) -> None:
        """Launch; where others have the memory too, with new one."""
        step, plan = self.step, self.step.plan
        arrays = list(_by_inputs(plan, [one.of(values) for one in step.reads]))
        places = [
            k if k is not None and all(map(alone, own)) else None
            for k, own in zip(self.outputs, arrays, strict=True)
        ]
        kept = {k: own for k, own in zip(places, arrays, strict=True) if k is not None}
        if not kept:
            step.run(values)
            return
        outs: list[Array] = []
        with on(plan.device):
            for k in range(len(plan.program.outputs)):
                outs += kept[k] if k in kept else map(Array._made, _outputs(plan, plan.layouts, k))
        apart = [x._operand for k, own in zip(places, arrays, strict=True) if k is None for x in own]
        plan.into(tuple(places)).write(apart, step.numbers, [x._operand for x in outs])
        for slot, made in zip(step.slots, outs, strict=True):
            values[slot] = made


def _by_inputs(plan: Plan | Many, reads: Sequence[_T]) -> Iterator[Sequence[_T]]:
    """What belongs to each input of a plan."""
    at = 0
    for n in plan.counts:
        yield reads[at : at + n]
        at += n


def _outputs(plan: Plan | Many, results: Sequence[_T], k: int) -> Sequence[_T]:
    """What belongs to an output of a plan."""
    count = len(results) // len(plan.program.outputs)
    return results[k * count : (k + 1) * count]


class New(NamedTuple):
    """A new array, of which launches write the parts."""

    layout: Layout
    slot: int

    def run(self, values: list[Any]) -> None:
        """Allocate it."""
        values[self.slot] = Array._made(self.layout)


class Into(NamedTuple):
    """A kernel that writes parts of arrays, of one shape, which begin ``offsets`` bytes behind the first elements."""

    plan: Plan
    reads: tuple[Read, ...]
    numbers: tuple[Any, ...]
    slots: tuple[int, ...]
    keys: tuple[Any, ...]
    offsets: tuple[int, ...]

    def run(self, values: list[Any]) -> None:
        """Launch."""
        targets: list[Array] = [values[slot] for slot in self.slots]
        arrays = [one.of(values) for one in self.reads]
        inputs = [one._operand for one in arrays]
        if self.plan.device.addressable:
            parts = [x._data[key] for x, key in zip(targets, self.keys, strict=True)]
            outs = list(map(self.plan.device.backend.operand, parts))
        else:
            outs = [x._operand + offset for x, offset in zip(targets, self.offsets, strict=True)]
        self.plan.write(inputs, self.numbers, outs)


class Seen(NamedTuple):
    """A view of an array, as one of the results or for what follows."""

    of: int
    take: Callable[[Any], Any]
    slot: int
    layout: Layout
    offset: int

    @property
    def form(self) -> Any:
        """What is equal for equal views."""
        return self._replace(take=len)

    def run(self, values: list[Any]) -> None:
        """Make the view."""
        x: Array = values[self.of]
        there = not self.layout.on_host
        values[self.slot] = x._seen(self.layout, self.offset) if there else view(x, self.take(x._data))


class Differs(Exception):
    """A call has a result of another layout than before, as where values decide on sizes."""


class Call(NamedTuple):
    """A call of a function that is no elementwise one.

    Attributes:
        constants: its arguments that are no arrays, and the containers of all of them.
        rebuilt: makes the positional arguments and those by name of arrays.
        layouts: those of the results, which what follows is made for.
    """

    function: Callable[..., Any]
    slots: tuple[int, ...]
    constants: Any
    rebuilt: Callable[[list[Any]], Any]
    results: tuple[int, ...]
    layouts: tuple[Layout, ...]

    @property
    def form(self) -> Any:
        """What is equal for equal calls."""
        return self._replace(rebuilt=len)

    def run(self, values: list[Any]) -> None:
        """Call it."""
        args, options = self.rebuilt([values[slot] for slot in self.slots])
        made = self.function(*args, **options)
        for slot, one, own in zip(self.results, pytree.leaves(made), self.layouts, strict=True):
            if (one._layout or one._planned()) is not own:
                raise Differs
            values[slot] = one


def _place(x: Array) -> tuple[Any, ...]:
    """What arrays have in common that are the same part of the same memory."""
    own = x._layout or x._planned()
    return id(x._storage), address(x._data) if own.on_host else x._operand, own


def lies_at(x: Array) -> Callable[[Array], bool]:
    """A function that says of an array whether it is the part of memory that ``x`` is now."""
    array, storage, place = weakref.ref(x), weakref.ref(x._storage), _place(x)
    return lambda other: other is array() or (other._storage is storage() and _place(other) == place)


def _nothing() -> None:
    return None


Step = Launch | Single | New | Into | Seen | Call | InPlace


class Script:
    """The steps of a trace, as it goes on.

    Attributes:
        steps: what has been done.
        outer: by slots, arrays that no step has made, as long as they are there: what the function refers to.
        open: why the steps are not all that the function has done; "" while they are.
    """

    def __init__(self, arguments: Iterable[Array]) -> None:
        self.steps: list[Step] = []
        self.outer: dict[int, Callable[[], Array | None]] = {}
        self.open = ""
        self._slots: dict[int, tuple[Callable[[], Array | None], int]] = {}
        self.count = 0
        #: The memory of arguments, of which others are aliases, as what a tape watches; and their slots.
        self._lying: dict[Any, tuple[Callable[[], Any], int]] = {}
        for x in arguments:
            place, slot = _place(x), self.put(x)
            self._lying[place] = (_nothing if place in self._lying else weakref.ref(x._storage)), slot
        self._arguments = self.count

    def put(self, x: Array) -> int:
        """A new slot for an array."""
        self._slots[id(x)] = weakref.ref(x), self.count
        self.count += 1
        return self.count - 1

    def same(self, x: Array, made: Array) -> None:
        """Let ``x``, which has got the memory of ``made``, have its slot."""
        self._slots[id(x)] = weakref.ref(x), self.slot(made)

    def seen(self, view: Array, base: Array, take: Callable[[Any], Any], made: Array | None = None) -> None:
        """Note that an array is a view of another one; ``made``, if given, is there already in its place."""
        there = view if made is None else made
        own = there._planned()
        offset = address(there._data) - address(base._data) if own.size else 0
        self.steps.append(Seen(self.slot(base), take, self.put(view), own, offset))

    def made(self, x: Array) -> bool:
        """Whether a step has made an array."""
        return self.known(x) and self._arguments <= self.slot(x) not in self.outer

    def known(self, x: Array) -> bool:
        """Whether an array has a slot."""
        found = self._slots.get(id(x))
        return found is not None and found[0]() is x

    def slot(self, x: Array) -> int:
        """The slot of an array."""
        if self.known(x):
            return self._slots[id(x)][1]
        storage, slot = self._lying.get(_place(x), (_nothing, 0))
        if storage() is x._storage:
            self._slots[id(x)] = weakref.ref(x), slot
            return slot
        slot = self.put(x)
        self.outer[slot] = weakref.ref(x)
        return slot

    def read(self, x: Array, seen: View | None, of: Array) -> Read:
        """What a launch reads: ``of``, which is ``x`` or a view of it."""
        own = of._layout or of._planned()
        offset = 0 if own.on_host or seen is None else of._operand - x._operand
        return Read(self.slot(x), seen, own, offset)

    def writer(self, x: Array) -> int | None:
        """The number of the last launch that wrote to an array, or to one of which that is a view; None of others."""
        sought, found = {self.slot(x)}, None
        for step in reversed(self.steps):
            if isinstance(step, Seen) and step.slot in sought:
                sought.add(step.of)
        for i, step in enumerate(filter(launches, self.steps)):
            if not sought.isdisjoint(_written_by(step)):
                found = i
        return found

    def form(self) -> tuple[Any, ...]:
        """What is equal for two traces that did the same."""
        steps = [one.form if isinstance(one, (Seen, Call)) else one for one in self.steps]
        return (*steps, *[(slot, Is(x())) for slot, x in self.outer.items()])

    def end(self) -> None:
        """Note that there are no more steps."""
        if any(x() is None for x in self.outer.values()):
            self.open = self.open or "it makes arrays by what is no step"


def taken_apart(tree: Any) -> tuple[list[Any], Callable[[list[Any]], Any]]:
    """:func:`.pytree.taken_apart`, of which what is kept to make the tree again keeps no array of it alive."""
    leaves, rebuilt = pytree.taken_apart(tree)
    if not any(isinstance(leaf, Array) for leaf in leaves):
        return leaves, rebuilt
    try:
        bare = rebuilt([0 if isinstance(leaf, Array) else leaf for leaf in leaves])
    except Exception:  # a container of arrays alone
        return leaves, rebuilt
    _, again = pytree.taken_apart(bare)
    return leaves, again


#: How often steps are timed.
_TIMES = 5


class Replay:
    """The steps of a finished script as a function of its arguments.

    Args:
        script: it.
        results: the slots of the arrays that are returned.
        donated: those of arguments whose memory is the call's.
    """

    def __init__(self, script: Script, results: Sequence[int], donated: Collection[int] = ()) -> None:
        self._steps = list(script.steps)
        self._results, self._donated = tuple(results), frozenset(donated)
        self._start: list[Any] = [None] * script.count
        for slot, x in script.outer.items():
            self._start[slot] = x()
        used: dict[int, int] = {}
        for i, step in enumerate(self._steps):
            for slot in _slots_of(step):
                used[slot] = i
        kept = {*script.outer, *results}
        views = {step.of for step in self._steps if isinstance(step, Seen)}
        # Calls may raise errors, behind which arguments are to be as they were.
        first = max([i + 1 for i, step in enumerate(self._steps) if isinstance(step, Call)], default=0)
        for i, step in enumerate(self._steps[first:], first):
            free = {slot for slot in donated if used.get(slot) == i} - kept - views
            self._steps[i] = InPlace.of(step, free) or step
        self._ends: list[list[int]] = [[] for _ in self._steps]
        for slot, i in used.items():
            if slot not in kept:
                self._ends[i].append(slot)

    def timed(self, arguments: Sequence[Array], synchronize: Callable[[], None]) -> list[float]:
        """The seconds of each step that launches something, one after another: the least of several."""
        best: dict[int, float] = {}
        for _ in range(_TIMES):
            values = self._start.copy()
            values[: len(arguments)] = arguments
            for i, step in enumerate(self._steps):
                synchronize()
                start = time.perf_counter()
                step.run(values)
                synchronize()
                best[i] = min(best.get(i, math.inf), time.perf_counter() - start)
        return [best[i] for i, step in enumerate(self._steps) if launches(step)]

    def most_bytes(self, arguments: Sequence[Array]) -> int:
        """The most bytes of arrays that steps have made at a time, less those of donated arguments that are gone.

        What is allocated within calls is not counted.
        """
        size = {slot: arguments[slot].nbytes for slot in self._donated}
        #: By slots whose memory they are: the slots of the arrays that have it.
        holders = {slot: {slot} for slot in size}
        home: dict[int, int] = {}
        now = most = 0

        def end(slots: Iterable[int]) -> None:
            nonlocal now
            for slot in slots:
                at = home.get(slot, slot)
                if at in size:
                    holders[at].discard(slot)
                    now -= 0 if holders[at] else size.pop(at)

        for step, ends in zip(self._steps, self._ends, strict=True):
            if isinstance(step, Seen):
                home[step.slot] = at = home.get(step.of, step.of)
                holders.setdefault(at, {at}).add(step.slot)
            elif not isinstance(step, Into):
                if isinstance(step, InPlace):
                    own = zip(_by_inputs(step.step.plan, step.step.reads), step.outputs, strict=True)
                    end([read.slot for reads, k in own if k is not None for read in reads])
                for slot, one in zip(_written_by(step), _layouts_of(step), strict=True):
                    size[slot], holders[slot] = one.nbytes, {slot}
                    now += one.nbytes
            most = max(most, now)
            end(ends)
        return most

    def __call__(self, arguments: list[Array]) -> list[Array]:
        """The results; memory of what is between them, and of donated arguments, is free as soon as it can be."""
        values = self._start.copy()
        values[: len(arguments)] = arguments
        if self._donated:
            arguments.clear()
        for step, ends in zip(self._steps, self._ends, strict=True):
            step.run(values)
            for slot in ends:
                values[slot] = None
        return [values[slot] for slot in self._results]


def launches(step: Step) -> bool:
    """Whether a step launches or calls something."""
    return not isinstance(step, (New, Seen))


def _slots_of(step: Step) -> list[int]:
    """The slots that a step reads or writes."""
    if isinstance(step, Call):
        return [*step.slots, *step.results]
    if isinstance(step, Seen):
        return [step.of, step.slot]
    if isinstance(step, New):
        return [step.slot]
    reads = step.step.reads if isinstance(step, InPlace) else step.reads
    return [*_written_by(step), *[one.slot for one in reads]]


def _written_by(step: Step) -> tuple[int, ...]:
    """The slots that a step writes."""
    if isinstance(step, Call):
        return step.results
    step = step.step if isinstance(step, InPlace) else step
    return step.slots if isinstance(step, (Launch, Into)) else (step.slot,)


def _layouts_of(step: Launch | Single | New | Call | InPlace) -> Sequence[Layout]:
    """Those of the new arrays in the slots that a step writes."""
    if isinstance(step, New):
        return [step.layout]
    if isinstance(step, Call):
        return step.layouts
    plan = step.step.plan if isinstance(step, InPlace) else step.plan
    layouts: Sequence[Layout] = plan.layouts
    return layouts
