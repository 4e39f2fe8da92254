"""Learning-rate schedules: functions of the number of previous steps.

An optimizer's ``lr`` may be any such function, for example ``lambda step: 0.1 / (1 + step)``; this module has the
usual ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

Schedule: TypeAlias = Callable[[int], float]


def _check(name: str, steps: int) -> None:
    if not isinstance(steps, int) or isinstance(steps, bool) or steps < 1:
        raise ValueError(f"{name}: expected a number of steps, at least 1, got {steps!r}")


@dataclass(frozen=True)
class _Decay:
    """A decay from one rate to another in a number of steps."""

    lr: float
    steps: int
    end: float = 0.0

    def __post_init__(self) -> None:
        _check("steps", self.steps)


@dataclass(frozen=True)
class CosineDecay(_Decay):
    """From ``lr`` to ``end`` in ``steps`` steps along half a cosine; ``end`` from there on.

    Raises:
        ValueError: ``steps`` is not at least 1.

    Source: Loshchilov and Hutter, "SGDR: stochastic gradient descent with warm restarts", 2017, equation 5.

    >>> import cukern as ck
    >>> schedule = ck.optim.CosineDecay(0.5, steps=4)
    >>> [round(schedule(step), 3) for step in range(6)]
    [0.5, 0.427, 0.25, 0.073, 0.0, 0.0]
    """

    def __call__(self, step: int) -> float:
        share = (1 + math.cos(math.pi * min(step / self.steps, 1.0))) / 2
        return self.end + (self.lr - self.end) * share


@dataclass(frozen=True)
class LinearDecay(_Decay):
    """From ``lr`` to ``end`` in ``steps`` equal steps; ``end`` from there on.

    Raises:
        ValueError: ``steps`` is not at least 1.

    >>> import cukern as ck
    >>> schedule = ck.optim.LinearDecay(0.5, steps=4, end=0.1)
    >>> [round(schedule(step), 3) for step in range(6)]
    [0.5, 0.4, 0.3, 0.2, 0.1, 0.1]
    """

    def __call__(self, step: int) -> float:
        return self.lr + (self.end - self.lr) * min(step / self.steps, 1.0)


@dataclass(frozen=True)
class StepDecay:
    """``lr``, multiplied by ``factor`` after every ``every`` steps.

    Raises:
        ValueError: ``every`` is not at least 1.

    >>> import cukern as ck
    >>> schedule = ck.optim.StepDecay(0.5, every=2, factor=0.1)
    >>> [round(schedule(step), 3) for step in range(5)]
    [0.5, 0.5, 0.05, 0.05, 0.005]
    """

    lr: float
    every: int
    factor: float = 0.1

    def __post_init__(self) -> None:
        _check("every", self.every)

    def __call__(self, step: int) -> float:
        return self.lr * self.factor ** (step // self.every)


@dataclass(frozen=True)
class WarmUp:
    """A linear rise in ``steps`` steps to the first rate of ``then``, followed by ``then``; the first rate is above 0.

    Args:
        steps: the number of steps with a lower rate than the first of ``then``.
        then: a rate, or a schedule, which counts its own steps from 0.

    Raises:
        ValueError: ``steps`` is not at least 1.

    >>> import cukern as ck
    >>> schedule = ck.optim.WarmUp(3, then=ck.optim.LinearDecay(0.4, steps=2))
    >>> [round(schedule(step), 3) for step in range(6)]
    [0.1, 0.2, 0.3, 0.4, 0.2, 0.0]
    """

    steps: int
    then: float | Schedule

    def __post_init__(self) -> None:
        _check("steps", self.steps)

    def __call__(self, step: int) -> float:
        then = self.then if callable(self.then) else lambda _: self.then
        if step < self.steps:
            return then(0) * (step + 1) / (self.steps + 1)
        return then(step - self.steps)
