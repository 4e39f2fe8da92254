"""The rules of optimizers: SGD, RMSprop, Adam and AdamW."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from .. import namespace as ops
from ..elementwise.custom import CustomElementwise
from ..elementwise.row import FLOAT
from .optimizer import Optimizer, Parameters, check, flag, rate, share
from .schedules import Schedule

_fma = CustomElementwise("fma", "fma(x, y, z)", FLOAT, "xxx->x", public=False)


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

    _name = "sgd"
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

    @staticmethod
    def _updated(
        x: Any, gradient: Any, state: dict[str, Any], lr: Any, momentum: Any, decay: Any, nesterov: bool
    ) -> Any:
        step = gradient + decay * x
        if "velocity" in state:
            velocity = state["velocity"] = momentum * state["velocity"] + step
            step = step + momentum * velocity if nesterov else velocity
        return x - lr * step

    def _choices(self, options: Mapping[str, Any]) -> tuple[Any, ...]:
        return (options["nesterov"],)

    def _slots(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        return ("velocity",) if options["momentum"] else ()

    def _fixed(self, options: Mapping[str, Any]) -> list[float]:
        return [options["momentum"], options["weight_decay"]]


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

    _name = "rmsprop"
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

    @staticmethod
    def _updated(
        x: Any, gradient: Any, state: dict[str, Any], lr: Any, rate: Any, eps: Any, momentum: Any, decay: Any
    ) -> Any:
        # fma by name: what a compiler may fuse as it likes, it fuses in one variant of the kernel and not in another.
        gradient = _fma(decay, x, gradient)
        square = state["square"]
        square = state["square"] = _fma(rate, _fma(gradient, gradient, -square), square)
        if "mean" in state:
            mean = state["mean"] = _fma(rate, gradient - state["mean"], state["mean"])
            square = ops.maximum(
                _fma(-mean, mean, square), 0
            )  # the variance, which rounding may take below 0
        step = gradient / (ops.sqrt(square) + eps)
        if "velocity" in state:
            step = state["velocity"] = _fma(momentum, state["velocity"], step)
        return _fma(-lr, step, x)

    def _slots(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        more = ("mean",) * bool(options["centered"]) + ("velocity",) * bool(options["momentum"])
        return "square", *more

    def _fixed(self, options: Mapping[str, Any]) -> list[float]:
        return [1.0 - options["alpha"], options["eps"], options["momentum"], options["weight_decay"]]


def _betas(name: str, value: Any) -> tuple[float, float]:
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise TypeError(f"{name}: expected two numbers, got {value!r}")
    return share(f"{name}[0]", value[0]), share(f"{name}[1]", value[1])


class Adam(Optimizer):
    """Adam: steps scaled by running averages of the gradient and its square (Kingma and Ba, 2015).

    The averages of float16 and bfloat16 parameters are kept in float32.

    Args:
        parameters: a Module, a pytree of arrays, or groups of them, as :class:`Optimizer` says.
        lr: the learning rate, or a function of the number of previous steps.
        betas: the decay factors of the averages of the gradient and of its square.
        eps: is added to the square root of the average square.
        weight_decay: this multiple of the parameter is added to its gradient.
        masters: whether to keep float32 copies of parameters of half types.

    Raises:
        ValueError: a number is out of its range.

    >>> import cukern as ck
    >>> x = ck.asarray([1.0, -2.0])
    >>> ck.optim.Adam([x], lr=0.25, eps=0.0).step([x])
    >>> x.tolist()
    [0.75, -1.75]
    """

    _name = "adam"
    _checks: ClassVar[Mapping[str, Any]] = {"lr": rate, "betas": _betas, "eps": check, "weight_decay": check}
    _decoupled: ClassVar[bool] = False
    betas: tuple[float, float]
    eps: float
    weight_decay: float

    def __init__(
        self,
        parameters: Parameters,
        lr: float | Schedule = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        *,
        masters: bool = True,
    ) -> None:
        super().__init__(parameters, masters, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)

    @staticmethod
    def _updated(
        x: Any,
        gradient: Any,
        state: dict[str, Any],
        lr: Any,
        unbias_mean: Any,
        unbias_square: Any,
        mean_rate: Any,
        square_rate: Any,
        eps: Any,
        decay: Any,
        decoupled: bool,
    ) -> Any:
        if decoupled:
            x = x - lr * decay * x
        else:
            gradient = gradient + decay * x
        mean, square = state["mean"], state["square"]
        state["mean"] = mean = mean + mean_rate * (gradient - mean)
        state["square"] = square = square + square_rate * (gradient * gradient - square)
        return x - lr * (mean * unbias_mean) / (ops.sqrt(square * unbias_square) + eps)

    def _choices(self, options: Mapping[str, Any]) -> tuple[Any, ...]:
        return (self._decoupled,)

    def _slots(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        return "mean", "square"

    def _changing(self, options: Mapping[str, Any], lr: float, updates: int) -> list[float]:
        return [lr, *(1.0 / (1.0 - beta**updates) for beta in options["betas"])]

    # The rates are 1 - beta, and 1 / (1 - beta ** t): computed here in double, as float would lose digits to 1.
    def _fixed(self, options: Mapping[str, Any]) -> list[float]:
        one, two = options["betas"]
        return [1.0 - one, 1.0 - two, options["eps"], options["weight_decay"]]


class AdamW(Adam):
    """Adam with decoupled weight decay: each step also subtracts ``lr * weight_decay * p``.

    The arguments are Adam's, with ``weight_decay`` 0.01 by default (Loshchilov and Hutter, 2019).

    >>> import cukern as ck
    >>> model = ck.nn.Linear(3, 2, rng=0)
    >>> groups = [{"params": [model.weight]}, {"params": [model.bias], "weight_decay": 0.0}]
    >>> optimizer = ck.optim.AdamW(groups, lr=ck.optim.CosineDecay(0.1, steps=100))
    >>> with ck.Tape() as tape:
    ...     loss = (model(ck.ones((4, 3))) ** 2).mean()
    >>> optimizer.step(tape.gradient(loss, model))
    >>> optimizer.steps
    1
    """

    _decoupled = True

    def __init__(
        self,
        parameters: Parameters,
        lr: float | Schedule = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        *,
        masters: bool = True,
    ) -> None:
        super().__init__(parameters, lr, betas, eps, weight_decay, masters=masters)
