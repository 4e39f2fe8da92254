"""RMSprop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ..kernel import Kernel
from .optimizer import Optimizer, Parameters, check, flag, rate, share
from .schedules import Schedule


class RMSprop(Optimizer):
    """RMSprop: steps divided by the square root of a running average of the squared gradient, as in PyTorch.

    Args:
        parameters: a Module, a pytree of arrays, or groups of them, as :class:`Optimizer` says.
        lr: the learning rate, or a function of the number of previous steps.
        alpha: the decay factor of the average.
        eps: is added to the square root.
        weight_decay: this multiple of the parameter is added to its gradient.
        momentum: the decay factor of the velocity, the sum of steps, in [0, 1).
        centered: whether to subtract the square of the average gradient, which gives a variance.
        masters: whether to keep float32 copies of parameters of half types.

    Raises:
        ValueError: a number is out of its range.

    Source: Tieleman and Hinton, "Neural networks for machine learning", lecture 6.5, 2012; centered: Graves,
    "Generating sequences with recurrent neural networks", 2013.

    >>> import cukern as ck
    >>> x = ck.asarray([1.0, -2.0])
    >>> ck.optim.RMSprop([x], lr=0.25, alpha=0.75, eps=0.0).step([x])
    >>> x.tolist()
    [0.5, -1.5]
    """

    _kernel: ClassVar[Kernel] = Kernel("optim/rmsprop.cu", block=256, name="rmsprop")
    _checks: ClassVar[Mapping[str, Any]] = {
        "lr": rate,
        "alpha": share,
        "eps": check,
        "weight_decay": check,
        "momentum": share,
        "centered": flag,
    }
    alpha: float
    eps: float
    weight_decay: float
    momentum: float
    centered: bool

    def __init__(
        self,
        parameters: Parameters,
        lr: float | Schedule = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        centered: bool = False,
        *,
        masters: bool = True,
    ) -> None:
        numbers = {"alpha": alpha, "eps": eps, "weight_decay": weight_decay, "momentum": momentum}
        super().__init__(parameters, masters, lr=lr, **numbers, centered=centered)

    def _variables(self, options: Mapping[str, Any]) -> dict[str, Any]:
        return {"has_momentum": bool(options["momentum"]), "centered": options["centered"]}

    def _slots(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        more = ("mean",) * bool(options["centered"]) + ("velocity",) * bool(options["momentum"])
        return "square", *more

    def _fixed(self, options: Mapping[str, Any]) -> list[float]:
        return [1.0 - options["alpha"], options["eps"], options["momentum"], options["weight_decay"]]
