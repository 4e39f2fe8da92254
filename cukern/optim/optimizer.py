"""What all optimizers share: parameters, gradients beside them, and state that can be saved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .. import dtypes, pytree
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
        ValueError: there are no parameters, or ``lr`` is negative.
        TypeError: a parameter is no floating array.
    """

    #: The arrays that are kept for each parameter, of its shape and of its accumulator dtype.
    _slots: tuple[str, ...] = ()

    def __init__(self, parameters: Module | Iterable[Array], lr: float) -> None:
        if isinstance(parameters, Module):
            named: list[tuple[str, Array]] = list(parameters.named_parameters())
        else:
            named = [(str(i), parameter) for i, parameter in enumerate(parameters)]
        if not named:
            raise ValueError("parameters: expected at least one, got none")
        for name, parameter in named:
            if not isinstance(parameter, Array) or dtypes.info(parameter.dtype).kind != "f":
                raise TypeError(f"parameters: {name!r} is no floating array but {_describe(parameter)}")
        self.names = [name for name, _ in named]
        self.parameters = [parameter for _, parameter in named]
        self.lr = check("lr", lr)
        self.steps = 0
        self._state: dict[int, dict[str, Array]] = {}

    def step(self, gradients: Any) -> None:
        """Update every parameter by its gradient, in place.

        Args:
            gradients: what ``tape.gradient`` gives for the parameters: a sequence in their order, a
                dict by their names, a Module, or another pytree. A parameter whose gradient is None
                stays as it is.

        Raises:
            ValueError: the gradients do not match the parameters in number, name or shape.
        """
        aligned = self._aligned(gradients)
        for name, parameter, gradient in zip(self.names, self.parameters, aligned, strict=True):
            if gradient is not None and gradient.shape != parameter.shape:
                raise ValueError(
                    f"gradients: that of {name!r} has shape {gradient.shape}, expected {parameter.shape}"
                )
        self.steps += 1
        for i, (parameter, gradient) in enumerate(zip(self.parameters, aligned, strict=True)):
            if gradient is not None and parameter.size:
                if i not in self._state:
                    self._state[i] = {slot: _zeros(parameter) for slot in self._slots}
                self._update(parameter, _beside(parameter, gradient), **self._state[i])

    def _update(self, parameter: Array, gradient: Array, **state: Array) -> None:
        """Update one parameter and its state, in place."""
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
        """The number of steps and the per-parameter state, under ``"<parameter>.<slot>"``."""
        state: dict[str, Any] = {"steps": self.steps}
        for i, slots in self._state.items():
            state.update({f"{self.names[i]}.{slot}": value for slot, value in slots.items()})
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what :meth:`state_dict` gave; nothing is changed when there is an error.

        Raises:
            ValueError: a name is missing or not of this optimizer, or a shape is not its parameter's.
        """
        if "steps" not in state:
            raise ValueError(f"state of {type(self).__name__}: missing 'steps'")
        places = {f"{name}.{slot}": (i, slot) for i, name in enumerate(self.names) for slot in self._slots}
        loaded: dict[int, dict[str, Array]] = {}
        for key, value in state.items():
            if key == "steps":
                continue
            if key not in places:
                raise ValueError(f"state of {type(self).__name__}: unexpected {key!r}")
            i, slot = places[key]
            like = self.parameters[i]
            found = asarray(value, dtype=_accumulator(like), device=like.device, copy=True)
            if found.shape != like.shape:
                raise ValueError(
                    f"state of {type(self).__name__}: {key!r} has shape {found.shape}, expected {like.shape}"
                )
            loaded.setdefault(i, {})[slot] = found
        for i, slots in loaded.items():
            if missing := [slot for slot in self._slots if slot not in slots]:
                raise ValueError(f"state of {type(self).__name__}: missing '{self.names[i]}.{missing[0]}'")
        self.steps, self._state = int(state["steps"]), loaded


def check(name: str, value: float, below: float = float("inf")) -> float:
    """``value`` where it is in [0, below), for a hyper-parameter.

    Raises:
        ValueError: it is not.
    """
    if not 0.0 <= value < below:
        raise ValueError(f"{name}: expected a number in [0, {below}), got {value!r}")
    return float(value)


def bind(kernel: Kernel, parameter: Array, **variables: Any) -> tuple[BoundKernel, int]:
    """The kernel for a parameter's dtype, size and device, and the blocks that cover it."""
    index = "int" if parameter.size <= 0x7FFFFFFF - kernel.block[0] else "long long"
    bound = kernel.bind(parameter.device, elem=parameter.dtype, index=index, **variables)
    return bound, -(-parameter.size // kernel.block[0])


def _accumulator(parameter: Array) -> dtypes.DType:
    return dtypes.info(parameter.dtype).acc


def _beside(parameter: Array, gradient: Array) -> Array:
    """The gradient in the parameter's dtype, in memory of its own where it is the parameter itself."""
    shared = gradient._storage is parameter._storage
    return asarray(gradient, dtype=parameter.dtype, copy=True if shared else None)


def _zeros(parameter: Array) -> Array:
    return zeros(parameter.shape, dtype=_accumulator(parameter), device=parameter.device)


def _describe(value: object) -> str:
    return f"an array of {value.dtype}" if isinstance(value, Array) else type(value).__name__
