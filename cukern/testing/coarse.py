"""Finite differences in float32, for functions that take no wider type: they find large mistakes only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .. import pytree
from .locate import change, cotangents, floats, pull

Values = npt.NDArray[np.float64]
#: The steps that are tried, relative to directions of elements between 0.5 and 1.5.
STEPS = [2.0**-power for power in (4, 5, 6, 7, 8, 9, 10)]
#: The tolerance of a gradient, relative to the terms of its product with a direction.
RTOL = 2e-2
#: Smaller mistakes of a gradient are not noticed, relative to the same.
UNSEEN = 2 * RTOL
_EPS = float(np.finfo(np.float32).eps)


class Coarse(NamedTuple):
    """The slope of a function along a direction in one argument, by differences and by its gradient.

    Attributes:
        path: the argument.
        numeric: the slope by finite differences; ``error`` is how far it may be wrong.
        analytic: the product of gradient and direction; ``scale`` is the size of its terms.
    """

    path: str
    numeric: float
    analytic: float
    error: float
    scale: float

    @property
    def decides(self) -> bool:
        """Whether the slope is known well enough to judge by."""
        return self.error <= RTOL * self.scale

    @property
    def agrees(self) -> bool:
        return abs(self.numeric - self.analytic) <= UNSEEN * self.scale


def coarse(function: Callable[..., Any], args: Sequence[Any], seed: int) -> Iterator[Coarse]:
    """The slopes along a random direction in each floating argument that has elements, and the gradients."""
    pulled = pull(function, args, seed)
    weights = cotangents(pulled.outputs, seed)
    rng = np.random.default_rng([seed, 5])
    inputs = floats(list(args))
    paths = [
        leaf.path
        for leaf in pytree.leaves_with_path(list(args), "args")
        if any(leaf.value is x for x in inputs)
    ]
    size = float(sum(np.linalg.norm(w * y) for w, y in zip(weights, pulled.outputs, strict=True)))
    for position, (path, x, gradient) in enumerate(zip(paths, inputs, pulled.gradients, strict=True)):
        if not x.size:
            continue
        move = rng.uniform(0.5, 1.5, x.shape) * rng.choice([-1.0, 1.0], x.shape)
        slopes = [change(function, args, position, step * move, weights) / (2 * step) for step in STEPS]
        better = [(4 * near - far) / 3 for far, near in pairwise(slopes)]
        noise = [4 * _EPS * size / step for step in STEPS[1:]]
        errors = [abs(a - b) + n for (a, b), n in zip(pairwise(better), noise, strict=False)]
        best = int(np.argmin(np.nan_to_num(errors, nan=np.inf)))
        terms = gradient * move
        scale = max(float(np.linalg.norm(terms)), abs(better[best])) + 1e-3
        yield Coarse(path, better[best], float(np.sum(terms)), errors[best], scale)
