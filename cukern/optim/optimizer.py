"""What all optimizers share: parameters, gradients beside them, and state that can be saved."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from numbers import Real
from typing import Any

import numpy as np

from .. import dtypes, live, pytree
from ..array import Array
from ..creation import asarray, zeros
from ..kernel import BoundKernel, Kernel
from ..nn.module import Module


class Optimizer:
    """Base class: a subclass names its per-parameter state and updates one parameter at a time.

    Args:
        parameters: a Module, or the arrays to update.
        lr: the learning rate, an attribute that a schedule may set between steps.

    Raises:
        ValueError: there are no parameters, one is given twice, is not contiguous or has the name of another,
            or ``lr`` is negative.
        TypeError: a parameter is no floating array.
    """

    #: The arrays that are kept for each parameter, of its shape and of its accumulator dtype.
    _slots: tuple[str, ...] = ()

    def __init__(self, parameters: Module | Iterable[Array], lr: float) -> None:
        if isinstance(parameters, Array):
            raise TypeError("parameters: expected a Module or a sequence of arrays, got one array")
        if isinstance(parameters, Module):
            named: list[tuple[str, Array]] = list(parameters.named_parameters())
        else:
            named = [(str(i), parameter) for i, parameter in enumerate(parameters)]
        if not named:
            raise ValueError("parameters: expected at least one, got none")
        for name, parameter in named:
            if not _is_floating(parameter):
                raise TypeError(f"parameters: {name!r} is no floating array but {_describe(parameter)}")
            if not parameter.is_contiguous:
                raise ValueError(f"parameters: {name!r} is written in place and must be contiguous")
        _refuse_repeated(named)
        self.names = [name for name, _ in named]
        self.parameters = [parameter for _, parameter in named]
        self.lr = check("lr", lr)
        self.steps = 0
        self._state: dict[int, dict[str, Array]] = {}
        #: How often each parameter had a gradient.
        self._updates: dict[int, int] = {}

    def step(self, gradients: Any) -> None:
        """Update every parameter by its gradient, in place.

        Args:
            gradients: what ``tape.gradient`` gives for the parameters: a sequence in their order, a
                dict by their names, a Module, or another pytree. A parameter whose gradient is None
                stays as it is.

        Raises:
            ValueError: the gradients do not match the parameters in number, name, shape or device, or all are
                None.
            TypeError: a gradient is no floating array.
        """
        aligned = self._aligned(gradients)
        for name, parameter, gradient in zip(self.names, self.parameters, aligned, strict=True):
            if gradient is None:
                continue
            if not _is_floating(gradient):
                raise TypeError(f"gradients: that of {name!r} is no floating array but {_describe(gradient)}")
            if gradient.shape != parameter.shape:
                raise ValueError(
                    f"gradients: that of {name!r} has shape {gradient.shape}, expected {parameter.shape}"
                )
            if gradient.device is not parameter.device:
                raise ValueError(
                    f"gradients: that of {name!r} is on {gradient.device}, its parameter on {parameter.device}"
                )
        updated = {
            i: (parameter, gradient)
            for i, (parameter, gradient) in enumerate(zip(self.parameters, aligned, strict=True))
            if gradient is not None and parameter.size
        }
        if not any(gradient is not None for gradient in aligned):
            raise ValueError(
                "gradients: there is none for any parameter: was the loss computed inside the tape's block, and "
                "are arrays that are no Parameters watched?"
            )
        live.repeated(partial(self._count, tuple(updated)))
        for i, (parameter, gradient) in updated.items():
            if i not in self._state:
                self._state[i] = {slot: _zeros(parameter) for slot in self._slots}
            elif any(one.device is not parameter.device for one in self._state[i].values()):  # it has moved
                self._state[i] = {
                    slot: one.to_device(parameter.device) for slot, one in self._state[i].items()
                }
            self._update(parameter, _beside(parameter, gradient), i, **self._state[i])

    def _count(self, updated: Iterable[int]) -> None:
        """Count a step that updates these parameters."""
        self.steps += 1
        for i in updated:
            self._updates[i] = self._updates.get(i, 0) + 1

    def _update(self, parameter: Array, gradient: Array, i: int, **state: Array) -> None:
        """Update the parameter of number ``i`` and its state, in place."""
        raise NotImplementedError

    def _aligned(self, gradients: Any) -> list[Any]:
        """The gradients in the order of the parameters."""
        if isinstance(gradients, Mapping):
            unknown = [name for name in gradients if name not in self.names]
            if unknown:
                raise ValueError(f"gradients: no parameters are named {', '.join(map(repr, unknown))}")
            return [gradients.get(name) for name in self.names]
        if isinstance(gradients, (list, tuple)) and all(g is None or isinstance(g, Array) for g in gradients):
            found = list(gradients)
        elif isinstance(gradients, Module):
            found = gradients.leaves()
        else:
            found = [leaf.value for leaf in pytree.leaves(gradients)]
        if len(found) != len(self.parameters):
            raise ValueError(f"gradients: expected {len(self.parameters)}, got {len(found)}")
        return found

    def state_dict(self) -> dict[str, Any]:
        """The number of steps and the per-parameter state, under ``"<parameter>.<slot>"``.

        ``"<parameter>.updates"`` is how many of the steps had a gradient for it.
        """
        state: dict[str, Any] = {"steps": self.steps}
        for i, slots in self._state.items():
            state[f"{self.names[i]}.updates"] = self._updates[i]
            state.update({f"{self.names[i]}.{slot}": value for slot, value in slots.items()})
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
        steps = _count(owner, "steps", state["steps"])
        kinds = (*self._slots, "updates")
        places = {f"{name}.{kind}": (i, kind) for i, name in enumerate(self.names) for kind in kinds}
        loaded: dict[int, dict[str, Array]] = {}
        updates: dict[int, int] = {}
        for key, value in state.items():
            if key == "steps":
                continue
            if key not in places:
                raise ValueError(f"{owner}: unexpected {key!r}")
            i, slot = places[key]
            if slot == "updates":
                updates[i] = _count(owner, key, value)
                continue
            like = self.parameters[i]
            found = asarray(value, dtype=_accumulator(like), device=like.device, copy=True)
            if found.shape != like.shape:
                raise ValueError(f"{owner}: {key!r} has shape {found.shape}, expected {like.shape}")
            loaded.setdefault(i, {})[slot] = found
        for i in {**loaded, **updates}:
            have = {*loaded.setdefault(i, {}), *(("updates",) if i in updates else ())}
            if missing := [kind for kind in kinds if kind not in have]:
                raise ValueError(f"{owner}: missing '{self.names[i]}.{missing[0]}'")
        self.steps, self._state, self._updates = steps, loaded, updates


def check(name: str, value: float, below: float = float("inf")) -> float:
    """``value`` where it is in [0, below), for a hyper-parameter.

    Raises:
        TypeError: it is no number.
        ValueError: it is out of range.
    """
    if not isinstance(value, Real):
        raise TypeError(f"{name}: expected a number, got {value!r}")
    if not 0.0 <= value < below:
        raise ValueError(f"{name}: expected a number in [0, {below}), got {value!r}")
    return float(value)


def _refuse_repeated(named: list[tuple[str, Array]]) -> None:
    """Refuse an array that would be updated twice a step, and a name that would stand for two states."""
    names: set[str] = set()
    owners: dict[int, str] = {}
    for name, parameter in named:
        if name in names:
            raise ValueError(f"parameters: two of them are named {name!r}")
        if id(parameter) in owners:
            raise ValueError(f"parameters: {owners[id(parameter)]!r} and {name!r} are one array")
        names.add(name)
        owners[id(parameter)] = name


def _count(owner: str, key: str, value: Any) -> int:
    number = np.asarray(value)
    if number.ndim or number.dtype.kind not in "iu" or number < 0:
        raise ValueError(f"{owner}: {key!r}: expected a number of steps, got {value!r}")
    return int(number)


def bind(kernel: Kernel, parameter: Array, **variables: Any) -> tuple[BoundKernel, int]:
    """The kernel for a parameter's dtype, size and device, and the blocks that cover it."""
    index = "int" if parameter.size <= 0x7FFFFFFF - kernel.block[0] else "long long"
    bound = kernel.bind(parameter.device, elem=parameter.dtype, index=index, **variables)
    return bound, -(-parameter.size // kernel.block[0])


def schedule(parameter: Array, values: Callable[[], Sequence[float]]) -> tuple[bool, Sequence[Any]]:
    """The numbers that change from step to step, as the kernels of this package take them.

    Returns:
        Whether they are read from memory, and the arguments: one array, or the numbers themselves.
    """
    memory = live.numbers(_accumulator(parameter), values)
    return memory is not None, values() if memory is None else [memory]


def _accumulator(parameter: Array) -> dtypes.DType:
    return dtypes.info(parameter.dtype).acc


def _beside(parameter: Array, gradient: Array) -> Array:
    """The gradient in the parameter's dtype, in memory of its own where it is the parameter itself."""
    shared = gradient._storage is parameter._storage
    return asarray(gradient, dtype=parameter.dtype, copy=True if shared else None)


def _zeros(parameter: Array) -> Array:
    return zeros(parameter.shape, dtype=_accumulator(parameter), device=parameter.device)


def _is_floating(value: object) -> bool:
    return isinstance(value, Array) and dtypes.info(value.dtype).kind == "f"


def _describe(value: object) -> str:
    return f"an array of {value.dtype}" if isinstance(value, Array) else type(value).__name__
