"""A step of an optimizer as a few launches, each for the parameters of one group, dtype and device."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import dtypes
from .. import namespace as ops
from ..array import Array
from ..array.deferred import about_to_write, traced_threads
from ..array.layout import Layout, address
from ..device import capture_hooks
from ..elementwise.graph import Expr, cast, input_node, scalar_node, tracing
from ..elementwise.many import Many, bind, shared_out
from ..elementwise.program import Program, program
from ..shape.copy import contiguous

if TYPE_CHECKING:
    from .optimizer import Optimizer

#: The most numbers that an update takes.
_NUMBERS = 16


class Step:
    """The launches for gradients of given layouts, and for the present memory of parameters and state.

    Attributes:
        members: the indices of the updated parameters, including those without elements.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        members: Sequence[int],
        layouts: Sequence[Layout | None],
        slots: Mapping[int, tuple[str, ...]],
    ) -> None:
        self.members = tuple(members)
        parameters = [optimizer.parameters[i] for i in members]
        _refuse_shared(optimizer, members)
        #: The parameters' orders in memory; a launch takes all arrays of one element after another.
        self._orders = {i: one._planned().order for i, one in zip(members, parameters, strict=True)}
        self._reordered = [i for i in members if _known(layouts[i]).order != self._orders[i]]
        self._written: list[Array] = []
        self._launches: list[_Launch] = []
        kinds: dict[Any, list[int]] = {}
        group_of = {i: number for number, group in enumerate(optimizer.groups) for i in group.members}
        for i, parameter in zip(members, parameters, strict=True):
            if not parameter.size:
                continue
            self._written += [parameter, *[optimizer._state[i][slot] for slot in slots[i]]]
            kind = parameter.device, parameter.dtype, _known(layouts[i]).dtype
            of = optimizer._part_of.get(i, 0), group_of[i], optimizer._updates[i], slots[i]
            kinds.setdefault((*of, *kind), []).append(i)
        for (part, group, _, names, _, _, given), indices in kinds.items():
            for own, capacity in shared_out(len(indices), 2 + len(names), _NUMBERS):
                self._launches.append(_Launch(optimizer, part, group, indices[own], names, given, capacity))
        self._launches.sort(key=lambda launch: launch.part)
        #: Gradients that share these storages are copied, because a launch writes its arrays in any order.
        self._own = {one._storage for one in self._written}
        self._name = optimizer._name

    def in_step(self, updates: Sequence[int]) -> bool:
        """Whether all parameters of each launch have the same number of updates."""
        return all(one.in_step(updates) for one in self._launches)

    def run(
        self,
        optimizer: Optimizer,
        gradients: Sequence[Any],
        options: Sequence[Mapping[str, Any]],
        ended: Callable[[int], None] | None = None,
    ) -> None:
        """Update the parameters of the optimizer; ``ended`` is called with each part after its last launch."""
        about_to_write(*(self._written if traced_threads else ()))
        given = list(gradients)
        for i in self._reordered:
            given[i] = self._copied(i, given[i])
        if not self._own.isdisjoint([given[i]._storage for i in self.members]):
            for i in self.members:
                if given[i]._storage in self._own:
                    given[i] = self._copied(i, given[i])
        for _, part in itertools.groupby(self._launches, lambda launch: launch.part):
            for launch in part:
                launch.run(optimizer, given, options[launch.group])
            if ended is not None:
                ended(launch.part)
        if capture_hooks.recorder() is None:
            name = self._name
            for storage in self._own:
                storage.version += 1
                storage.writer = name
        else:
            for array in self._written:
                array._bump(self._name)

    def _copied(self, i: int, gradient: Array) -> Array:
        """A copy of a gradient, whose memory is in the order of its parameter's."""
        result = contiguous(gradient, self._orders[i])
        result._planned()
        return result


class _Launch:
    """One launch: parameters of one part and group, dtype and device with the same number of updates."""

    def __init__(
        self,
        optimizer: Optimizer,
        part: int,
        group: int,
        indices: Sequence[int],
        slots: tuple[str, ...],
        given: dtypes.DType,
        capacity: int,
    ) -> None:
        self.part, self.group = part, group
        self._indices, self._slots = tuple(indices), slots
        self._given, self._capacity = given, capacity
        first = optimizer.parameters[indices[0]]
        self._device, self._dtype = first.device, first.dtype
        #: The plans, by whether the changing numbers are read from memory.
        self._plans: dict[bool, Many] = {}

    def in_step(self, updates: Sequence[int]) -> bool:
        counts = [updates[i] for i in self._indices]
        return counts.count(counts[0]) == len(counts)

    def run(self, optimizer: Optimizer, gradients: Sequence[Any], options: Mapping[str, Any]) -> None:
        memory = capture_hooks.numbers(dtypes.info(self._dtype).acc, partial(self._changing, optimizer))
        plan = self._plans.get(memory is not None)
        if plan is None:
            plan = self._plans[memory is not None] = self._planned(optimizer, memory is not None, options)
        numbers = self._changing(optimizer, options) if memory is None else []
        given = [gradients[i]._operand for i in self._indices]
        if memory is not None:
            ones = [Array._wrap(memory._data[i : i + 1], self._device) for i in range(memory.size)]
            for one in ones:
                one._planned()
            given += [one._operand for one in ones]
        plan.write(given, [*numbers, *optimizer._fixed(options)], ())

    def _changing(self, optimizer: Optimizer, options: Mapping[str, Any] | None = None) -> list[Any]:
        """The numbers that change between steps, for ``options`` or the present options."""
        own = optimizer._options(optimizer.groups[self.group]) if options is None else options
        return optimizer._changing(own, optimizer._rates[self.group], optimizer._updates[self._indices[0]])

    def _planned(self, optimizer: Optimizer, in_memory: bool, options: Mapping[str, Any]) -> Many:
        kept = [[optimizer.parameters[i] for i in self._indices]]
        kept += [[optimizer._state[i][slot] for i in self._indices] for slot in self._slots]
        for arrays in kept:
            for one in arrays:
                one._planned()
        outs = [[one._operand for one in arrays] for arrays in kept]
        update = _update(optimizer, options, self._slots, self._dtype, self._given, in_memory)
        sizes = [optimizer.parameters[i].size for i in self._indices]
        return Many(
            update.program, self._device, sizes, self._capacity, (), update.ones, update.inplace, outs
        )


class _Update(NamedTuple):
    """A program that computes parameters and their state from gradients and from them, see :class:`.many.Many`."""

    program: Program
    ones: tuple[int, ...]
    inplace: tuple[int | None, ...]


def _update(
    optimizer: Optimizer,
    options: Mapping[str, Any],
    slots: tuple[str, ...],
    dtype: dtypes.DType,
    given: dtypes.DType,
    in_memory: bool,
) -> _Update:
    """The update of parameters; ``in_memory`` says that what changes from step to step is read from memory."""
    # How many numbers there are does not depend on what they are.
    changing, fixed = len(optimizer._changing(options, 0.0, 1)), len(optimizer._fixed(options))
    ones = changing if in_memory else 0
    kinds = optimizer._name, optimizer._updated, optimizer._choices(options), slots, dtype, given
    return _formed(*kinds, ones, changing + fixed)


@cache
def _formed(
    name: str,
    formula: Callable[..., Any],
    choices: tuple[Any, ...],
    slots: tuple[str, ...],
    dtype: dtypes.DType,
    given: dtypes.DType,
    ones: int,
    count: int,
) -> _Update:
    """The update by a rule; of its ``count`` numbers the first ``ones`` are read from memory."""
    acc = dtypes.info(dtype).acc
    inputs = [given, *[acc] * ones, dtype, *[acc] * len(slots)]
    scalars = [acc] * (count - ones)
    with tracing(name):
        gradient, *read = [Expr(cast(input_node(k, one), acc)) for k, one in enumerate(inputs)]
        numbers = [*read[:ones], *[Expr(scalar_node(k, one)) for k, one in enumerate(scalars)]]
        x, state = read[ones], dict(zip(slots, read[ones + 1 :], strict=True))
        master = state.pop("master", None)
        if master is not None:
            # One that the parameter is not the rounding of is out of date: something else has written the parameter.
            x = ops.where(master.astype(dtype).astype(acc) == x, master, x)
        x = formula(x, gradient, state, *numbers, *choices)
        results = [x.astype(dtype), *state.values(), *([] if master is None else [x])]
    made = program(name, [one.node for one in results], inputs, scalars)
    return _Update(made, tuple(range(1, 1 + ones)), (*[None] * (1 + ones), *range(len(results))))


def expect(
    optimizer: Optimizer, options: Mapping[str, Any], members: Sequence[int], slots: tuple[str, ...]
) -> None:
    """Compile the kernel that will update these parameters, all of one dtype, device and group."""
    first = optimizer.parameters[members[0]]
    update = _update(optimizer, options, slots, first.dtype, first.dtype, False)
    _, capacity = next(shared_out(len(members), 2 + len(slots), _NUMBERS))
    compiling = partial(bind, update.program, first.device, capacity, update.ones, update.inplace)
    first.device.backend.ahead(compiling, plans_alone=True)


def _known(layout: Layout | None) -> Layout:
    assert layout is not None  # the parameter has a gradient
    return layout


def _refuse_shared(optimizer: Optimizer, members: Sequence[int]) -> None:
    """Refuse parameters that may not be written, or whose memory overlaps.

    Raises:
        ValueError: the message names them.
    """
    spans = []
    for i in members:
        parameter = optimizer.parameters[i]
        if parameter._storage.constant:
            raise ValueError(
                f"parameters: {optimizer.names[i]!r} is a constant that other arrays share; train a copy of it"
            )
        if parameter.size:
            start = address(parameter._data)
            spans.append((str(parameter.device), start, start + parameter.nbytes, optimizer.names[i]))
    spans.sort()
    for (where, _, end, name), (there, start, _, other) in itertools.pairwise(spans):
        if where == there and start < end:
            raise ValueError(
                f"parameters: {name!r} and {other!r} share memory, which one step would write twice"
            )
