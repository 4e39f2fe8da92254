"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Iterable

from ..array import Array
from ..kernel import Kernel
from ..nn.module import Module
from .optimizer import Optimizer, bind, check, schedule

_kernel = Kernel("optim/sgd.cu", block=256, name="sgd")


class SGD(Optimizer):
    """Stochastic gradient descent with momentum.

    With momentum, the velocity ``v = momentum * v + g`` takes the gradient's place in ``p -= lr * g``;
    with ``nesterov``, ``g + momentum * v`` does (Sutskever et al., 2013).

    Args:
        parameters: a Module, or the arrays to update.
        lr: the learning rate.
        momentum: how much of the velocity is kept each step, in [0, 1).
        nesterov: whether the step looks ahead along the velocity; needs a momentum.
        weight_decay: this multiple of the parameter is added to its gradient.

    Raises:
        ValueError: a number is out of its range, or ``nesterov`` is asked for without momentum.

    >>> import cukern as ck
    >>> x = ck.asarray([1.0, -2.0])
    >>> ck.optim.SGD([x], lr=0.5).step([x])
    >>> x.tolist()
    [0.5, -1.0]
    """

    _slots: tuple[str, ...] = ("velocity",)

    def __init__(
        self,
        parameters: Module | Iterable[Array],
        lr: float,
        momentum: float = 0.0,
        nesterov: bool = False,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(parameters, lr)
        self.momentum = check("momentum", momentum, below=1.0)
        self.weight_decay = check("weight_decay", weight_decay)
        self.nesterov = bool(nesterov)
        if self.nesterov and not self.momentum:
            raise ValueError("nesterov: expected a momentum above 0 with it, got 0")
        if not self.momentum:
            self._slots = ()

    def _update(self, parameter: Array, gradient: Array, i: int, **state: Array) -> None:
        in_memory, changing = schedule(parameter, lambda: [self.lr])
        variables = {"has_momentum": bool(self.momentum), "nesterov": self.nesterov, "live": in_memory}
        bound, blocks = bind(_kernel, parameter, **variables)
        args = (parameter, gradient, state.get("velocity"), *changing, self.momentum, self.weight_decay)
        bound((*args, parameter.size), blocks)
