"""Adam and AdamW."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from ..array import Array
from ..kernel import Kernel
from ..nn.module import Module
from .optimizer import Optimizer, bind, check, schedule

_kernel = Kernel("optim/adam.cu", block=256, name="adam")


class Adam(Optimizer):
    """Adam: steps scaled by running averages of the gradient and its square (Kingma and Ba, 2015).

    The averages of f16 and bf16 parameters are kept in float32.

    Args:
        parameters: a Module, or the arrays to update.
        lr: the learning rate.
        betas: how much of the average of the gradient, and of its square, is kept each step.
        eps: is added to the root of the average square.
        weight_decay: this multiple of the parameter is added to its gradient.

    Raises:
        ValueError: a number is out of its range.

    >>> import cukern as ck
    >>> x = ck.asarray([1.0, -2.0])
    >>> ck.optim.Adam([x], lr=0.25, eps=0.0).step([x])
    >>> x.tolist()
    [0.75, -1.75]
    """

    _slots: tuple[str, ...] = ("mean", "square")
    _decoupled = False

    def __init__(
        self,
        parameters: Module | Iterable[Array],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(parameters, lr)
        self.betas = check("betas[0]", betas[0], below=1.0), check("betas[1]", betas[1], below=1.0)
        self.eps = check("eps", eps)
        self.weight_decay = check("weight_decay", weight_decay)

    def _update(self, parameter: Array, gradient: Array, i: int, **state: Array) -> None:
        in_memory, changing = schedule(parameter, partial(self._schedule, i))
        bound, blocks = bind(_kernel, parameter, decoupled=self._decoupled, live=in_memory)
        rates = [1.0 - beta for beta in self.betas]
        scalars = (*changing, *rates, self.eps, self.weight_decay, parameter.size)
        bound((parameter, gradient, state["mean"], state["square"], *scalars), blocks)

    def _schedule(self, i: int) -> list[float]:
        return [self.lr, *(1.0 / (1.0 - beta ** self._updates[i]) for beta in self.betas)]


class AdamW(Adam):
    """Adam with decoupled weight decay: ``p -= lr * weight_decay * p`` beside Adam's step.

    The arguments are Adam's, with ``weight_decay`` 0.01 by default (Loshchilov and Hutter, 2019).
    """

    _decoupled = True

    def __init__(
        self,
        parameters: Module | Iterable[Array],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
    ) -> None:
        super().__init__(parameters, lr, betas, eps, weight_decay)
