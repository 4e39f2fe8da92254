"""The base class of optimizers: parameters in groups, their gradients, and state that can be saved."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from numbers import Real
from types import MappingProxyType
from typing import Any, ClassVar, Self

import numpy as np

from .. import dtypes
from ..array import Array
from ..array.creation import asarray, zeros
from ..array.layout import Layout
from ..cache import Cache
from ..device import capture_hooks
from ..namespace.hints import OPTIMIZER, hinting
from ..nn.module import Module, Parameter
from ..shape.copy import laid_out
from .groups import Group, aligned, describe, is_floating, read
from .schedules import Schedule
from .step import Step, expect

Parameters = Module | Iterable[Any] | Mapping[str, Any]
#: The most combinations of gradients' layouts for which an optimizer caches its launches.
_CAPACITY = 16


class Optimizer:
    """Base class of optimizers. A subclass defines its options, its state for each parameter, and a formula.

    Args:
        parameters: a Module, a pytree of arrays (dicts, lists and so on), pairs of names and arrays, or groups: a
            list of dicts, each with the parameters of a group under ``"params"`` and the group's own options,
            as ``[{"params": matrices}, {"params": vectors, "weight_decay": 0.0}]``.
        masters: whether to keep float32 copies of parameters of half types. A step then updates the copy, so that
            steps too small for the half type add up, and writes both. If something else has written a parameter,
            the next step starts from the new value.
        options: the options of all groups that do not set their own. Each is an attribute that may be set between
            steps; ``lr`` is a number, or a function of the number of previous steps, such as those of
            :mod:`cukern.optim.schedules`.

    Raises:
        ValueError: there are no parameters, one is given twice, has gaps in memory or the name of another,
            or an option is out of its range.
        TypeError: a parameter is not a floating array, or there is no such option.

    Attributes:
        parameters: the parameters, those of the first group first.
        names: the name of each.
        groups: the groups, with the indices of their parameters and their own options.
        steps: the number of steps taken.
    """

    lr: float | Schedule
    #: The name of a step's kernel.
    _name: ClassVar[str]
    #: For each option, a function that takes its name and value and returns the checked value.
    _checks: ClassVar[Mapping[str, Callable[[str, Any], Any]]]
    #: The parts of parameters, by index: a step updates one part after another. Those that are not here are in part 0.
    _part_of: Mapping[int, int] = MappingProxyType({})

    def __init__(self, parameters: Parameters, masters: bool = True, **options: Any) -> None:
        leaves, groups = read(parameters)
        self.names = [name for name, _ in leaves]
        self.parameters = [parameter for _, parameter in leaves]
        self.groups = tuple(groups)
        self.masters = bool(masters)
        for name, value in options.items():
            setattr(self, name, value)
        for i, group in enumerate(groups):
            group.checked(partial(_checked, self._checks, f"parameters[{i}]"))
            self._check_together(self._options(group))
        self.steps = 0
        self._state: list[dict[str, Array]] = [{} for _ in leaves]
        #: The number of updates of each parameter.
        self._updates = [0] * len(leaves)
        self._rates: list[float] = []
        self._indices = {id(parameter): i for i, parameter in enumerate(self.parameters)}
        self._forget()
        with suppress(Exception):  # an incomplete subclass; the step raises the error
            self._expect_step()

    __getattr__ = hinting(OPTIMIZER)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._checks:
            value = self._checks[name](name, value)
            if name != "lr" and vars(self).get(name) != value:  # captured steps read only lr anew
                capture_hooks.replaced += 1
        super().__setattr__(name, value)

    def _expect_step(self) -> None:
        """Compile a step's kernels ahead of need, for gradients of the parameters' dtypes."""
        kinds: dict[Any, list[int]] = {}
        for number, group in enumerate(self.groups):
            for i in group.members:
                one = self.parameters[i]
                if one.size and _is_trained(one):
                    kinds.setdefault((number, one.device, one.dtype), []).append(i)
        for (number, *_), members in kinds.items():
            options = self._options(self.groups[number])
            expect(self, options, members, self._kept(members[0], options))

    def _forget(self) -> None:
        """Drop the launches prepared for the parameters' former state."""
        self._steps: Cache[Any, Step] = Cache(_CAPACITY)
        self._replaced = capture_hooks.replaced

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("_steps", "_indices")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._indices = {id(parameter): i for i, parameter in enumerate(self.parameters)}
        self._forget()

    def __copy__(self) -> Self:
        """An optimizer of the same parameters, with options and state of its own."""
        return copy.deepcopy(self, {id(parameter): parameter for parameter in self.parameters})

    def __repr__(self) -> str:
        options = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._checks)
        lines = [f"{self._amount(range(len(self.parameters)))}, steps={self.steps}, {options}"]
        if len(self.groups) > 1:
            for group in self.groups:
                own = "".join(f", {name}={value!r}" for name, value in group.options.items())
                lines.append(f"{self._amount(group.members)}{own}")
        body = lines[0] if len(lines) == 1 else "".join(f"\n  {line}" for line in lines) + "\n"
        return f"{type(self).__name__}({body})"

    def _amount(self, members: Sequence[int]) -> str:
        frozen = sum(not _is_trained(self.parameters[i]) for i in members)
        size = sum(self.parameters[i].size for i in members)
        plural = "" if len(members) == 1 else "s"
        return (
            f"{len(members)} parameter{plural} of {size:,} elements{f', {frozen} frozen' if frozen else ''}"
        )

    def step(self, gradients: Any) -> None:
        """Update all parameters by their gradients, in place.

        Parameters that are frozen, or whose gradient is None, are not changed.

        Args:
            gradients: the result of ``tape.gradient`` for the parameters: gradients of a Module, a dict by the
                parameters' names, or a pytree in the order of ``parameters``.

        Raises:
            ValueError: the gradients do not match the parameters in number, name, shape or device, or all are
                None.
            TypeError: a gradient is not a floating array.
        """
        self._step(gradients)

    def _step(self, gradients: Any, ended: Callable[[int], None] | None = None) -> None:
        """:meth:`step`; ``ended`` is called with each part once its launches are made."""
        leaves = aligned(gradients, self.names, self.parameters, self._indices)
        if self._replaced != capture_hooks.replaced:
            self._forget()
        options = [self._options(group) for group in self.groups]
        try:
            layouts = tuple(
                [None if array is None else array._layout or array._planned() for array in leaves]
            )
        except AttributeError:  # a gradient is not an array
            layouts = ()
        key = (layouts, *[self._choices(one) for one in options])
        result = self._steps.get(key)
        if result is None or not result.in_step(self._updates):
            self._check_gradients(leaves)
            result = self._steps.keep(key, self._worked_out(layouts, options))
        capture_hooks.repeated(partial(self._count, result.members))
        result.run(self, leaves, options, ended)

    def _options(self, group: Group) -> dict[str, Any]:
        """All options of a group: its own, and the optimizer's for the others."""
        return {**{name: getattr(self, name) for name in self._checks}, **group.options}

    def _check_together(self, options: Mapping[str, Any]) -> None:
        """Refuse options that do not fit together."""

    @staticmethod
    def _updated(x: Any, gradient: Any, state: dict[str, Any], *numbers: Any) -> Any:
        """The new parameter, as the symbol of one element; that of its state replaces the old one.

        Args:
            x: the parameter, like the others in its accumulator dtype.
            state: by the names of :meth:`_slots`.
            numbers: those of :meth:`_changing` and :meth:`_fixed`, then :meth:`_choices`.
        """
        raise NotImplementedError

    def _choices(self, options: Mapping[str, Any]) -> tuple[Any, ...]:
        """What of these options decides on the formula, besides the names of the state arrays."""
        return ()

    def _slots(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        """The names of the state arrays of each parameter, which have its shape and its accumulator dtype."""
        return ()

    def _changing(self, options: Mapping[str, Any], lr: float, updates: int) -> list[float]:
        """The formula's numbers that change between steps, for parameters with this number of updates."""
        return [lr]

    def _fixed(self, options: Mapping[str, Any]) -> list[float]:
        """The formula's constant numbers."""
        raise NotImplementedError

    def _count(self, updated: Iterable[int]) -> None:
        """Count a step that updates these parameters, and evaluate the learning rates."""
        rates = [self._options(group)["lr"] for group in self.groups]
        self._rates = [
            check(f"lr({self.steps})", lr(self.steps)) if callable(lr) else check("lr", lr) for lr in rates
        ]
        self.steps += 1
        updates = self._updates
        for i in updated:
            updates[i] += 1

    def _check_gradients(self, gradients: Sequence[Any]) -> None:
        for name, parameter, gradient in zip(self.names, self.parameters, gradients, strict=True):
            if gradient is None:
                continue
            if not is_floating(gradient):
                raise TypeError(
                    f"gradients: that of {name!r} is not a floating array but {describe(gradient)}"
                )
            if gradient.shape != parameter.shape:
                order = "; they go in the order of optimizer.parameters" if len(self.groups) > 1 else ""
                raise ValueError(
                    f"gradients: that of {name!r} has shape {gradient.shape}, expected {parameter.shape}{order}"
                )
            if gradient.device is not parameter.device:
                raise ValueError(
                    f"gradients: that of {name!r} is on {gradient.device}, its parameter on {parameter.device}"
                )
        if all(gradient is None for gradient in gradients):
            raise ValueError(
                "gradients: all are None: was the loss computed inside the tape's block, are "
                "arrays other than Parameters watched, and is a parameter not frozen?"
            )

    def _worked_out(self, layouts: Sequence[Layout | None], options: Sequence[Mapping[str, Any]]) -> Step:
        """The launches of a step whose gradients have these layouts."""
        trained = [i for i, one in enumerate(self.parameters) if layouts[i] is not None and _is_trained(one)]
        slots: dict[int, tuple[str, ...]] = {}
        self._make_room(trained)
        for group, own in zip(self.groups, options, strict=True):
            for i in set(group.members).intersection(trained):
                slots[i] = self._kept(i, own)
                self._state[i].update({slot: self._placed(i, slot) for slot in slots[i]})
        return Step(self, trained, layouts, slots)

    def _make_room(self, trained: Sequence[int]) -> None:
        """Free cached memory before the first state, which could otherwise split a block that a backward pass freed."""
        if capture_hooks.recorder() is not None:
            return
        for device in {self.parameters[i].device for i in trained if not self._state[i]}:
            with device.activate():
                device.backend.free_unused()

    def _kept(self, i: int, options: Mapping[str, Any]) -> tuple[str, ...]:
        """The names of the state arrays of a parameter."""
        return self._slots(options) + (("master",) if self._has_master(i) else ())

    def _has_master(self, i: int) -> bool:
        dtype = self.parameters[i].dtype
        return self.masters and dtypes.info(dtype).narrow

    def _placed(self, i: int, slot: str) -> Array:
        """A state array of a parameter, on its device and in its order in memory.

        Initially it is zeros, and for a master not up to date.
        """
        parameter = self.parameters[i]
        wanted, order = dtypes.info(parameter.dtype).acc, parameter._planned().order
        have = self._state[i].get(slot)
        if have is None:
            have = zeros(parameter.shape, dtype=wanted, device=parameter.device)
        placed = asarray(have.to_device(parameter.device), dtype=wanted)
        return placed if order is None or placed._planned().order == order else laid_out(placed, order)

    def state_dict(self) -> dict[str, Array]:
        """The number of steps and the per-parameter state, under ``"<parameter>.<slot>"``, as arrays.

        ``"<parameter>.updates"`` is the number of steps with a gradient for it. The counts are on the host, the
        others are the live arrays; :func:`cukern.save_safetensors` and :func:`cukern.savez` can write them all.
        """
        state = {"steps": asarray(np.int64(self.steps), device="host")}
        for name, updates, slots in zip(self.names, self._updates, self._state, strict=True):
            if updates:
                state[f"{name}.updates"] = asarray(np.int64(updates), device="host")
                state.update({f"{name}.{slot}": value for slot, value in slots.items()})
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load a state of :meth:`state_dict`; nothing is changed if there is an error.

        Raises:
            ValueError: a name is missing or unknown, a shape is not that of its parameter, or a count
                is not a number of steps.
            TypeError: a value is no real array, or ``state`` has no names.
        """
        owner = f"state of {type(self).__name__}"
        if not isinstance(state, Mapping):
            raise TypeError(f"{owner}: expected values by name, got {type(state).__name__}")
        if "steps" not in state:
            raise ValueError(f"{owner}: missing 'steps'")
        steps = _number_of_steps(owner, "steps", state["steps"])
        kinds: list[tuple[str, ...]] = [()] * len(self.names)
        for group in self.groups:
            for i in group.members:
                kinds[i] = (*self._slots(self._options(group)), "updates")
        indices = {f"{name}.{kind}": (i, kind) for i, name in enumerate(self.names) for kind in kinds[i]}
        # A missing master is a cast of its parameter.
        indices |= {
            f"{self.names[i]}.master": (i, "master") for i in range(len(kinds)) if self._has_master(i)
        }
        loaded: list[dict[str, Array]] = [{} for _ in kinds]
        updates = [0] * len(kinds)
        for key, value in state.items():
            if key == "steps":
                continue
            if key not in indices:
                raise ValueError(f"{owner}: unexpected {key!r}")
            i, slot = indices[key]
            if slot == "updates":
                updates[i] = _number_of_steps(owner, key, value)
                continue
            like = self.parameters[i]
            try:
                buffer = asarray(value, dtype=dtypes.info(like.dtype).acc, device=like.device, copy=True)
            except (TypeError, ValueError) as error:
                raise type(error)(f"{owner}: {key!r}: {error}") from None
            if buffer.shape != like.shape:
                raise ValueError(f"{owner}: {key!r} has shape {buffer.shape}, expected {like.shape}")
            loaded[i][slot] = buffer
        for i, own in enumerate(loaded):
            have = {*own, *(("updates",) if updates[i] else ())}
            if have and (missing := [kind for kind in kinds[i] if kind not in have]):
                raise ValueError(f"{owner}: missing '{self.names[i]}.{missing[0]}'")
        self.steps, self._state, self._updates = steps, loaded, updates
        capture_hooks.replaced += 1  # steps captured before must be captured anew


def _checked(checks: Mapping[str, Callable[[str, Any], Any]], owner: str, name: str, value: Any) -> Any:
    """The checked value of an option of a group.

    Raises:
        TypeError: there is no such option, or its value has another type.
        ValueError: the value is out of range.
    """
    if name not in checks:
        raise TypeError(f"{owner}: {name!r} is not an option of a group, which are: {', '.join(checks)}")
    return checks[name](f"{owner}[{name!r}]", value)


def check(name: str, value: Any, below: float = float("inf")) -> float:
    """Check that an option is a number in [0, below), and return it.

    Raises:
        TypeError: ``value`` is not a number.
        ValueError: ``value`` is out of range.
    """
    if not isinstance(value, Real):
        raise TypeError(f"{name}: expected a number, got {value!r}")
    number = float(value)
    if not 0.0 <= number < below:
        raise ValueError(f"{name}: expected a number in [0, {below}), got {value!r}")
    return number


def rate(name: str, value: Any) -> float | Schedule:
    """Check a learning rate: a non-negative number, or a function of the number of previous steps."""
    return value if callable(value) else check(name, value)


def share(name: str, value: Any) -> float:
    """Check that an option is a number in [0, 1)."""
    return check(name, value, below=1.0)


def flag(name: str, value: Any) -> bool:
    """Check that an option is True or False.

    Raises:
        TypeError: ``value`` is neither.
    """
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name}: expected True or False, got {value!r}")
    return bool(value)


def _number_of_steps(owner: str, key: str, value: Any) -> int:
    number = np.asarray(value)
    if number.ndim or number.dtype.kind not in "iu" or number < 0:
        raise ValueError(f"{owner}: {key!r}: expected a number of steps, got {value!r}")
    return int(number)


def _is_trained(parameter: Array) -> bool:
    return not isinstance(parameter, Parameter) or parameter.trainable
