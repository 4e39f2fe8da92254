"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ..kernel import Kernel
from .optimizer import Optimizer, Parameters, check, flag, rate, share
from .schedules import Schedule


class SGD(Optimizer):
    """Stochastic gradient descent with momentum.

    A step is ``p -= lr * g``. With momentum, the velocity ``v = momentum * v + g`` replaces ``g``; with ``nesterov``,
    ``g + momentum * v`` does (Sutskever et al., 2013).

    Args:
        parameters: a Module, a pytree of arrays, or groups of them, as :class:`Optimizer` says.
        lr: the learning rate, or a function of the number of previous steps.
        momentum: the decay factor of the velocity, in [0, 1).
        nesterov: whether the step looks ahead along the velocity; needs a momentum.
        weight_decay: this multiple of the parameter is added to its gradient.
        masters: whether to keep float32 copies of parameters of half types.

    Raises:
        ValueError: a number is out of its range, or ``nesterov`` is set without momentum.

    >>> import cukern as ck
    >>> x = ck.asarray([1.0, -2.0])
    >>> ck.optim.SGD([x], lr=0.5).step([x])
    >>> x.tolist()
    [0.5, -1.0]
    """

    _kernel: ClassVar[Kernel] = Kernel("optim/sgd.cu", block=256, name="sgd")
    _checks: ClassVar[Mapping[str, Any]] = {
        "lr": rate,
        "momentum": share,
        "nesterov": flag,
        "weight_decay": check,
    }
    momentum: float
    nesterov: bool
    weight_decay: float

    def __init__(
        self,
        parameters: Parameters,
        lr: float | Schedule,
        momentum: float = 0.0,
        nesterov: bool = False,
        weight_decay: float = 0.0,
        *,
        masters: bool = True,
    ) -> None:
        super().__init__(
            parameters, masters, lr=lr, momentum=momentum, nesterov=nesterov, weight_decay=weight_decay
        )

    def _check_together(self, options: Mapping[str, Any]) -> None:
        if options["nesterov"] and not options["momentum"]:
            raise ValueError("nesterov: expected a momentum above 0 with it, got 0")

    def _variables(self, options: Mapping[str, Any]) -> dict[str, Any]:
        return {"has_momentum": bool(options["momentum"]), "nesterov": options["nesterov"]}

    def _slots(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        return ("velocity",) if options["momentum"] else ()

    def _fixed(self, options: Mapping[str, Any]) -> list[float]:
        return [options["momentum"], options["weight_decay"]]
