"""Slopes of functions by other means than their backwards: finite differences in float32, and dual numbers.

The differences, for functions that take no wider type, find large mistakes only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .. import dtypes, pytree
from ..array import Array
from ..device import Device
from ..errors import CukernError
from ..text.stand_ins import DUAL
from .locate import change, cotangents, floats, paths, pull
from .shapes import directions, is_floating, short
from .stand_ins import StandIns, launching

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
    size = float(sum(np.linalg.norm(w * y) for w, y in zip(weights, pulled.outputs, strict=True)))
    for position, (path, x, gradient) in enumerate(zip(paths(args), inputs, pulled.gradients, strict=True)):
        if not x.size:
            continue
        move = directions(rng, x.shape)
        slopes = [change(function, args, position, step * move, weights) / (2 * step) for step in STEPS]
        better = [(4 * near - far) / 3 for far, near in pairwise(slopes)]
        noise = [4 * _EPS * size / step for step in STEPS[1:]]
        errors = [abs(a - b) + n for (a, b), n in zip(pairwise(better), noise, strict=False)]
        best = int(np.argmin(np.nan_to_num(errors, nan=np.inf)))
        terms = gradient * move
        scale = max(float(np.linalg.norm(terms)), abs(better[best])) + 1e-3
        yield Coarse(path, better[best], float(np.sum(terms)), errors[best], scale)


#: The scale of a dual number's derivative part (a complex step): between kernels dual numbers are complex numbers, in
#: whose products the product of two such parts must vanish.
STEP = 2.0**-90


class NoDuals(Exception):
    """A function cannot be computed in dual numbers; the message says why."""


def derivative(
    function: Callable[..., Any], args: Sequence[Any], moves: Sequence[Values | None]
) -> tuple[list[Values], list[Values]]:
    """The floating outputs of a function and their derivatives along a direction, all in float64.

    Kernels are rendered with a dual number for each float.

    Args:
        function: takes ``args``; outside its kernels it may do whatever is defined for complex numbers.
        args: pytrees of arrays; the floats among their leaves are replaced by dual numbers.
        moves: for each floating leaf, the direction in which it moves; None for one that stays.

    Raises:
        NoDuals: a kernel takes floats apart, or a function has no complex form.
    """
    given = iter(moves)

    def moving(leaf: Any) -> Any:
        if not is_floating(leaf):
            return leaf
        move = next(given)
        slopes = np.zeros(leaf.shape) if move is None else move * STEP
        return _dual(leaf.numpy().astype(np.float64), slopes, leaf.device)

    replaced = pytree.map(moving, list(args))
    first = next(filter(is_floating, pytree.leaves(list(args))), None)
    run = StandIns(DUAL, dtypes.complex128, dtypes.float32 if first is None else first.dtype)
    try:
        with launching(run.launch):
            outputs = pytree.leaves(function(*replaced))
        values = [one.numpy() for one in outputs if is_floating(one)]
    except (CukernError, TypeError, ValueError, NotImplementedError) as error:
        raise NoDuals(short(error)) from error
    finally:
        run.restore()
    return [y.real.astype(np.float64) for y in values], [y.imag.astype(np.float64) / STEP for y in values]


def _dual(values: Values, slopes: Values, device: Device) -> Array:
    whole = np.empty(values.shape, np.complex128)
    whole.real, whole.imag = values, slopes
    with device.activate():
        return Array._wrap(device.xp.asarray(whole), device)
