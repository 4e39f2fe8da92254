"""What all optimizers share: parameters in groups, gradients beside them, and state that can be saved."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from .. import dtypes
from ..array import Array
from ..array.creation import asarray, zeros
from ..array.layout import Layout
from ..device import capture_hooks
from ..kernel import Kernel
from ..namespace.hints import OPTIMIZER, hinting
from ..nn.module import Module, Parameter
from .groups import Group, aligned, describe, is_floating, read
from .schedules import Schedule
from .step import Step, expect

Parameters = Module | Iterable[Any] | Mapping[str, Any]
#: Forms of gradients that an optimizer remembers its launches for.
_CAPACITY = 16


class Optimizer:
    """Base class: a subclass names its options, its state for each parameter, and the kernel of a step.

    Args:
        parameters: a Module, a pytree of arrays (dicts, lists and so on), pairs of names and arrays, or groups: a
            list of dicts, each with the parameters of a group under ``"params"`` and the options that are its own,
            as ``[{"params": matrices}, {"params": vectors, "weight_decay": 0.0}]``.
        masters: whether parameters of half types are kept in float32 as well. A step is then made there, so that
            steps too small for the half type add up, and writes both. Where something else has written a
            parameter, the next step begins with that.
        options: the options of all groups that have not their own. Each is an attribute that may be set between
            steps; ``lr`` is a number, or a function of the number of steps before, as those of
            :mod:`cukern.optim.schedules`.

    Raises:
        ValueError: there are no parameters, one is given twice, is not contiguous or has the name of another,
            or an option is out of its range.
        TypeError: a parameter is no floating array; there is no option of a name.

    Attributes:
        parameters: the parameters, those of the first group first.
        names: the name of each.
        groups: each with the places of its parameters and the options that are its own.
        steps: how many steps have been made.
    """

    lr: float | Schedule
    #: The kernel of a step.
    _kernel: ClassVar[Kernel]
    #: What checks each option: it takes name and value, and returns the value.
    _checks: ClassVar[Mapping[str, Callable[[str, Any], Any]]]

    def __init__(self, parameters: Parameters, masters: bool = True, **options: Any) -> None:
        found, groups = read(parameters)
        self.names = [name for name, _ in found]
        self.parameters = [parameter for _, parameter in found]
        self.groups = tuple(groups)
        self.masters = bool(masters)
        for name, value in options.items():
            setattr(self, name, value)
        for i, group in enumerate(groups):
            group.checked(partial(_checked, self._checks, f"parameters[{i}]"))
            self._check_together(self._options(group))
        self.steps = 0
        self._state: list[dict[str, Array]] = [{} for _ in found]
        #: How often each parameter was updated.
        self._updates = [0] * len(found)
        self._rates: list[float] = []
        self._places = {id(parameter): i for i, parameter in enumerate(self.parameters)}
        self._forget()
        with suppress(Exception):  # of a subclass that is not whole yet; the step meets it
            self._expect_step()

    __getattr__ = hinting(OPTIMIZER)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._checks:
            value = self._checks[name](name, value)
            if name != "lr" and vars(self).get(name) != value:  # steps that were captured read lr alone
                capture_hooks.replaced += 1
        super().__setattr__(name, value)

    def _expect_step(self) -> None:
        """Have a step's kernels compiled, for gradients of the parameters' dtypes."""
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
        """Drop what has been worked out for parameters as they were."""
        self._made: dict[Any, Step] = {}
        self._replaced = capture_hooks.replaced

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("_made", "_places")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._places = {id(parameter): i for i, parameter in enumerate(self.parameters)}
        self._forget()

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
        """Update every parameter by its gradient, in place.

        Parameters that are frozen, or whose gradient is None, stay as they are.

        Args:
            gradients: what ``tape.gradient`` gives for the parameters: a Module, whose gradients find their
                parameters by themselves; a dict by their names; or a pytree in the order of ``parameters``.

        Raises:
            ValueError: the gradients do not match the parameters in number, name, shape or device, or all are
                None.
            TypeError: a gradient is no floating array.
        """
        found = aligned(gradients, self.names, self.parameters, self._places)
        if self._replaced != capture_hooks.replaced:
            self._forget()
        options = [self._options(group) for group in self.groups]
        try:
            layouts = tuple([None if one is None else one._layout or one._planned() for one in found])
        except AttributeError:  # one is no array
            layouts = ()
        key = (layouts, *[tuple(self._variables(one).values()) for one in options])
        made = self._made.get(key)
        if made is None or not made.in_step(self._updates):
            self._check_gradients(found)
            if len(self._made) >= _CAPACITY:
                self._made.clear()
            made = self._made[key] = self._worked_out(layouts, options)
        capture_hooks.repeated(partial(self._count, made.members))
        made.run(self, found, options)

    def _options(self, group: Group) -> dict[str, Any]:
        """The options of a group, those that are not its own included."""
        return {**{name: getattr(self, name) for name in self._checks}, **group.options}

    def _check_together(self, options: Mapping[str, Any]) -> None:
        """Refuse options that do not go together."""

    def _variables(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """What the kernel's template is to know of the options."""
        return {}

    def _slots(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        """The arrays that are kept for each parameter, of its shape and of its accumulator dtype."""
        return ()

    def _changing(self, options: Mapping[str, Any], lr: float, updates: int) -> list[float]:
        """The kernel's numbers that change from step to step, for parameters that have been updated so often."""
        return [lr]

    def _fixed(self, options: Mapping[str, Any]) -> list[float]:
        """The rest of the kernel's numbers."""
        raise NotImplementedError

    def _count(self, updated: Iterable[int]) -> None:
        """Count a step that updates these parameters, with the learning rate of each group."""
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
                raise TypeError(f"gradients: that of {name!r} is no floating array but {describe(gradient)}")
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
                "gradients: there is none for any parameter: was the loss computed inside the tape's block, are "
                "arrays that are no Parameters watched, and is a parameter not frozen?"
            )

    def _worked_out(self, layouts: Sequence[Layout | None], options: Sequence[Mapping[str, Any]]) -> Step:
        """The launches of a step whose gradients have these layouts."""
        trained = [i for i, one in enumerate(self.parameters) if layouts[i] is not None and _is_trained(one)]
        slots: dict[int, tuple[str, ...]] = {}
        for group, own in zip(self.groups, options, strict=True):
            for i in set(group.members).intersection(trained):
                slots[i] = self._kept(i, own)
                self._state[i].update({slot: self._placed(i, slot) for slot in slots[i]})
        return Step(self, trained, layouts, slots)

    def _kept(self, i: int, options: Mapping[str, Any]) -> tuple[str, ...]:
        """The arrays that are kept for a parameter."""
        return self._slots(options) + (("master",) if self._has_master(i) else ())

    def _has_master(self, i: int) -> bool:
        dtype = self.parameters[i].dtype
        return self.masters and dtypes.info(dtype).narrow

    def _placed(self, i: int, slot: str) -> Array:
        """An array of a parameter's state, where the parameter is: zeros at first, a master that is out of date too."""
        parameter = self.parameters[i]
        wanted = dtypes.info(parameter.dtype).acc
        have = self._state[i].get(slot)
        if have is None:
            return zeros(parameter.shape, dtype=wanted, device=parameter.device)
        return asarray(have.to_device(parameter.device), dtype=wanted)

    def state_dict(self) -> dict[str, Array]:
        """The number of steps and the per-parameter state, under ``"<parameter>.<slot>"``, as arrays.

        ``"<parameter>.updates"`` is how many of the steps had a gradient for it. The counts are on the host, the
        rest are the live arrays; :func:`cukern.save_safetensors` and :func:`cukern.savez` take them all.
        """
        state = {"steps": asarray(np.int64(self.steps), device="host")}
        for name, updates, slots in zip(self.names, self._updates, self._state, strict=True):
            if updates:
                state[f"{name}.updates"] = asarray(np.int64(updates), device="host")
                state.update({f"{name}.{slot}": value for slot, value in slots.items()})
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what :meth:`state_dict` gave; nothing is changed when there is an error.

        Raises:
            ValueError: a name is missing or not of this optimizer, a shape is not its parameter's, or a count
                is no number of steps.
        """
        owner = f"state of {type(self).__name__}"
        if "steps" not in state:
            raise ValueError(f"{owner}: missing 'steps'")
        steps = _number_of_steps(owner, "steps", state["steps"])
        kinds: list[tuple[str, ...]] = [()] * len(self.names)
        for group in self.groups:
            for i in group.members:
                kinds[i] = (*self._slots(self._options(group)), "updates")
        places = {f"{name}.{kind}": (i, kind) for i, name in enumerate(self.names) for kind in kinds[i]}
        # Without its master, a parameter is its own.
        places |= {f"{self.names[i]}.master": (i, "master") for i in range(len(kinds)) if self._has_master(i)}
        loaded: list[dict[str, Array]] = [{} for _ in kinds]
        updates = [0] * len(kinds)
        for key, value in state.items():
            if key == "steps":
                continue
            if key not in places:
                raise ValueError(f"{owner}: unexpected {key!r}")
            i, slot = places[key]
            if slot == "updates":
                updates[i] = _number_of_steps(owner, key, value)
                continue
            like = self.parameters[i]
            found = asarray(value, dtype=dtypes.info(like.dtype).acc, device=like.device, copy=True)
            if found.shape != like.shape:
                raise ValueError(f"{owner}: {key!r} has shape {found.shape}, expected {like.shape}")
            loaded[i][slot] = found
        for i, own in enumerate(loaded):
            have = {*own, *(("updates",) if updates[i] else ())}
            if have and (missing := [kind for kind in kinds[i] if kind not in have]):
                raise ValueError(f"{owner}: missing '{self.names[i]}.{missing[0]}'")
        self.steps, self._state, self._updates = steps, loaded, updates
        capture_hooks.replaced += 1  # steps that were captured before go on with what was there


def _checked(checks: Mapping[str, Callable[[str, Any], Any]], owner: str, name: str, value: Any) -> Any:
    """An option of a group.

    Raises:
        TypeError: there is no option of the name, or its value has another type.
        ValueError: it is out of its range.
    """
    if name not in checks:
        raise TypeError(f"{owner}: {name!r} is no option of a group; these are: {', '.join(checks)}")
    return checks[name](f"{owner}[{name!r}]", value)


def check(name: str, value: Any, below: float = float("inf")) -> float:
    """``value`` where it is in [0, below), for an option.

    Raises:
        TypeError: it is no number.
        ValueError: it is out of range.
    """
    if not isinstance(value, Real):
        raise TypeError(f"{name}: expected a number, got {value!r}")
    number = float(value)
    if not 0.0 <= number < below:
        raise ValueError(f"{name}: expected a number in [0, {below}), got {value!r}")
    return number


def rate(name: str, value: Any) -> float | Schedule:
    """A learning rate: a number that is at least 0, or a function of the number of steps before."""
    return value if callable(value) else check(name, value)


def share(name: str, value: Any) -> float:
    """A number in [0, 1)."""
    return check(name, value, below=1.0)


def flag(name: str, value: Any) -> bool:
    """True or False.

    Raises:
        TypeError: it is neither.
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
