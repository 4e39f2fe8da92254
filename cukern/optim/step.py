"""A step of an optimizer as a few launches, each for the parameters of one group, dtype and device."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from .. import dtypes
from ..array import Array
from ..array.deferred import about_to_write, traced_threads
from ..array.layout import Layout, address
from ..device import capture_hooks
from ..kernel.plan import on
from ..shape.copy import contiguous
from .multi import Batch, batches

if TYPE_CHECKING:
    from .optimizer import Optimizer


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
        #: Gradients that share these storages are copied, because a launch writes parameters in any order.
        self._own = {parameter._storage for parameter in parameters}
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
        for (part, group, _, names, device, dtype, given), indices in kinds.items():
            sizes = [optimizer.parameters[i].size for i in indices]
            for batch in batches(device, dtype, dtypes.info(dtype).acc, sizes, 2 + len(names)):
                own = tuple(indices[k] for k in batch.members)
                self._launches.append(_Launch(optimizer, part, group, own, names, given, batch))
        self._launches.sort(key=lambda launch: launch.part)
        self._name = optimizer._kernel.name

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
        used = [given[i] for i in self.members]
        if not self._own.isdisjoint([one._storage for one in used]):
            for i in self.members:
                if given[i]._storage in self._own:
                    given[i] = self._copied(i, given[i])
        for _, part in itertools.groupby(self._launches, lambda launch: launch.part):
            for launch in part:
                launch.run(optimizer, given, options[launch.group])
            if ended is not None:
                ended(launch.part)
        if capture_hooks.recorder() is None:
            for array in self._written:
                storage = array._storage
                storage.version += 1
                storage.writer = self._name
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
        indices: tuple[int, ...],
        slots: tuple[str, ...],
        given: dtypes.DType,
        batch: Batch,
    ) -> None:
        self.part, self.group = part, group
        self._indices = indices
        self._slots = slots
        self._batch = batch
        first = optimizer.parameters[indices[0]]
        self._device, self._acc = first.device, dtypes.info(first.dtype).acc
        self._variables = _variables(given, slots)
        #: The prepared launches, by whether the changing numbers are read from memory.
        self._prepared: dict[bool, Any] = {}

    def in_step(self, updates: Sequence[int]) -> bool:
        counts = [updates[i] for i in self._indices]
        return counts.count(counts[0]) == len(counts)

    def run(self, optimizer: Optimizer, gradients: Sequence[Any], options: Mapping[str, Any]) -> None:
        memory = capture_hooks.numbers(self._acc, partial(self._changing, optimizer))
        launch = self._prepared.get(memory is not None)
        if launch is None:
            launch = self._prepared[memory is not None] = self._prepare(
                optimizer, memory is not None, options
            )
        given = self._batch.addresses([gradients[i] for i in self._indices])
        numbers = self._changing(optimizer, options) if memory is None else [_operand(memory)]
        with on(self._device):
            launch(given, *numbers, *optimizer._fixed(options))

    def _changing(self, optimizer: Optimizer, options: Mapping[str, Any] | None = None) -> list[Any]:
        """The numbers that change between steps, for ``options`` or the present options."""
        own = optimizer._options(optimizer.groups[self.group]) if options is None else options
        return optimizer._changing(own, optimizer._rates[self.group], optimizer._updates[self._indices[0]])

    def _prepare(self, optimizer: Optimizer, in_memory: bool, options: Mapping[str, Any]) -> Any:
        kept = [[optimizer.parameters[i] for i in self._indices]]
        kept += [[optimizer._state[i][slot] for i in self._indices] for slot in self._slots]
        for arrays in kept:
            for one in arrays:
                one._planned()
        table = b"".join(map(self._batch.addresses, kept))
        variables = {**self._variables, **optimizer._variables(options), "live": in_memory}
        return self._batch.prepare(optimizer._kernel, self._device, [table], 1, **variables)


def _variables(given: dtypes.DType, slots: Sequence[str]) -> dict[str, Any]:
    return {"given": dtypes.info(given).cxx, "masters": "master" in slots}


def expect(
    optimizer: Optimizer, options: Mapping[str, Any], members: Sequence[int], slots: Sequence[str]
) -> None:
    """Compile the kernel that will update these parameters, all of one dtype, device and group."""
    first = optimizer.parameters[members[0]]
    sizes = [optimizer.parameters[i].size for i in members]
    batch = batches(first.device, first.dtype, dtypes.info(first.dtype).acc, sizes, 2 + len(slots))[0]
    variables = {**_variables(first.dtype, slots), **optimizer._variables(options), "live": False}
    first.device.backend.ahead(partial(optimizer._kernel.bind, first.device, **batch.variables, **variables))


def _operand(array: Array) -> Any:
    array._planned()
    return array._operand


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
