"""Ordinary differential equations."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from .. import namespace as ops
from .. import pytree
from ..array import Array
from ..array.creation import asarray, device_of
from ..autodiff import tape
from ..autodiff.cotangents import is_array, require_floats, zeros_like
from .loops import Loop

__all__ = ["odeint"]

_Leaves: TypeAlias = Sequence[Array]

#: Dormand and Prince, "A family of embedded Runge-Kutta formulae", Journal of Computational and Applied Mathematics
#: 6(1), 1980: the times of the stages in a step, and the slopes' weights in each. The last stage is the result.
_TIMES = (0.0, 1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0, 1.0)
_WEIGHTS = (
    (),
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
)
#: The weights of the result of fifth order less those of fourth.
_ERROR = (71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40)
#: Of the step that the error would allow, the part that is tried next, and the least and the largest change of a step.
_SAFETY, _LEAST, _LARGEST = 0.9, 0.2, 10.0


@ops.fuse
def _moved(y: Array, *weights_and_slopes: Any) -> Array:
    """``y`` plus the sum of slopes, each times a number."""
    half = len(weights_and_slopes) // 2
    for weight, slope in zip(weights_and_slopes[:half], weights_and_slopes[half:], strict=True):
        y = y + weight * slope
    return y


@ops.fuse
def _squares(error: Array, y: Array, new: Array, rtol: float, atol: float) -> Array:
    """The mean square of an error in units of what is allowed."""
    return ops.mean(ops.square(error / (atol + rtol * ops.maximum(ops.abs(y), ops.abs(new)))))


class _Equation:
    """The right side of an equation for the leaves of a tree."""

    def __init__(self, f: Callable[..., Any], y0: Any, args: Sequence[Any], rtol: float, atol: float) -> None:
        self._f, self._y0, self._args, self._rtol, self._atol = f, y0, args, rtol, atol

    def slopes(self, y: _Leaves, t: float) -> _Leaves:
        """The derivative by time."""
        returned = self._f(pytree.replace(self._y0, y), t, *self._args)
        found = pytree.aligned(self._y0, returned, "odeint: f")
        for i, (value, like) in enumerate(zip(found, y, strict=True)):
            if not is_array(value):
                found[i] = value = asarray(value, like.dtype, like.device)
            if (value.shape, value.dtype) != (like.shape, like.dtype):
                path = list(pytree.leaves_with_path(self._y0, "odeint: f"))[i].path
                raise ValueError(
                    f"{path}: expected {like.dtype} of shape {like.shape}, as of y0, got {value.dtype} of shape "
                    f"{value.shape}"
                )
        return found

    def step(self, y: _Leaves, slopes: _Leaves, t: float, h: float) -> tuple[_Leaves, list[_Leaves]]:
        """The state after a step, and the slopes of all stages, the last of them there."""
        stages, new = [slopes], y
        for part, weights in zip(_TIMES[1:], _WEIGHTS[1:], strict=True):
            new = self._combined(y, h, weights, stages)
            stages.append(self.slopes(new, t + part * h))
        return new, stages

    @staticmethod
    def _combined(y: _Leaves, h: float, weights: Sequence[float], stages: list[_Leaves]) -> _Leaves:
        used = [(h * weight, slopes) for weight, slopes in zip(weights, stages, strict=True) if weight]
        numbers = [weight for weight, _ in used]
        return [_moved(leaf, *numbers, *(slopes[i] for _, slopes in used)) for i, leaf in enumerate(y)]

    def size(self, error: _Leaves, y: _Leaves, new: _Leaves) -> float:
        """The root of the mean square of an error, in units of what is allowed."""
        each = zip(error, y, new, strict=True)
        total = sum(a.size * float(_squares(a, b, c, self._rtol, self._atol)) for a, b, c in each)
        return math.sqrt(total / max(1, sum(one.size for one in y)))

    def error(self, y: _Leaves, new: _Leaves, h: float, stages: list[_Leaves]) -> float:
        """The error of a step; at most 1 is allowed."""
        return self.size(self._combined([zeros_like(one) for one in y], h, _ERROR, stages), y, new)

    def first_step(self, y: _Leaves, slopes: _Leaves) -> float:
        """A step by which the state changes little: of Hairer, Norsett and Wanner, II.4, without its second slope."""
        state, slope = self.size(y, y, y), self.size(slopes, y, y)
        return 0.01 * state / slope if min(state, slope) > 1e-5 else 1e-6


def odeint(
    f: Callable[..., Any],
    y0: Any,
    t: Any,
    *args: Any,
    rtol: float = 1e-6,
    atol: float = 1e-6,
    mxstep: int = 10000,
    states: int | None = None,
) -> Any:
    """The solution of ``dy/dt = f(y, t, *args)`` at given times: ``jax.experimental.ode.odeint``.

    The method is Dormand and Prince's, of fifth order, with steps by its error estimate, which the host reads.
    Gradients are those of the steps that were taken, run again from few states as in :func:`~cukern.scan`; the sizes of
    steps are constants. So they are those of the numbers that are returned, whatever the tolerances, to any order, and
    reach all that ``f`` reads. JAX integrates an adjoint equation backwards instead (Chen et al., "Neural ordinary
    differential equations", 2018), which keeps no states, but has an error of its own, and is unstable where the
    equation damps.

    Args:
        f: takes the state, the time as a float, and ``args``; returns the derivative, like the state.
        y0: the state at the first time: an array of a floating dtype, or a pytree of these.
        t: times in ascending or descending order, a vector. Gradients reach it too.
        args: passed on to ``f``.
        rtol, atol: the error of a step is at most about ``atol + rtol * abs(y)``. JAX's are 1.4e-8, for float64.
        mxstep: the most steps between two times.
        states: of each interval, as in :func:`~cukern.scan`.

    Returns:
        The states at all times, stacked along a new first axis.

    Raises:
        RuntimeError: the tolerance is not met in ``mxstep`` steps, or by the least step.
        TypeError: ``y0`` has a leaf that is no floating array.
        ValueError: ``f`` returns other containers, shapes or dtypes; times are no vector, or not in order; a tolerance
            is negative, or both are 0.

    >>> import cukern as ck
    >>> end = lambda rate: odeint(lambda y, t, rate: -rate * y, ck.asarray(1.0), ck.asarray([0.0, 1.0]), rate)[-1]
    >>> round(end(ck.asarray(2.0)).item(), 4), round(ck.grad(end)(ck.asarray(2.0)).item(), 4)
    (0.1353, -0.1353)
    """
    y: _Leaves = pytree.leaves(y0)
    require_floats(y, y0, "odeint: y0")
    times = t if is_array(t) else asarray(np.asarray(t, float), device=device_of(y))
    if times.ndim != 1 or not times.size:
        raise ValueError(f"odeint: t: expected a vector of times, got shape {times.shape}")
    if not (min(rtol, atol) >= 0 and max(rtol, atol) > 0):
        raise ValueError(
            f"odeint: rtol, atol: expected numbers of at least 0, one of them above, got {rtol}, {atol}"
        )
    with tape.stop_recording():
        ends = [float(one) for one in times.numpy()]
    order = np.sign(np.diff(ends))
    if not (np.all(order > 0) or np.all(order < 0)):
        raise ValueError(f"odeint: t: expected times in ascending or descending order, got {ends}")
    equation = _Equation(f, y0, args, rtol, atol)
    moves = tape.recording((times,))

    def at(i: int, y: _Leaves, slopes: _Leaves, sign: int = 1) -> _Leaves:
        """The state at a time, which moves with the time."""
        if not moves:
            return y
        moved = sign * (times[i] - ends[i])  # 0
        return [leaf + (moved * slope).astype(leaf.dtype) for leaf, slope in zip(y, slopes, strict=True)]

    slopes = equation.slopes(y, ends[0])
    rows = [y]
    if moves:
        y = at(0, y, slopes, -1)
        slopes = equation.slopes(y, ends[0])
    with tape.stop_recording():
        size = equation.first_step(y, slopes)
    for i, (start, end) in enumerate(pairwise(ends), 1):
        (y, slopes), size = _interval(equation, y, slopes, start, end, size, mxstep, states)
        rows.append(at(i, y, slopes))
    return pytree.replace(y0, [ops.stack(list(column)) for column in zip(*rows, strict=True)])


def _interval(
    equation: _Equation,
    y: _Leaves,
    slopes: _Leaves,
    start: float,
    end: float,
    size: float,
    mxstep: int,
    states: int | None,
) -> tuple[tuple[_Leaves, _Leaves], float]:
    """The state and the slopes at the end of an interval, and the next step's size."""
    taken: list[tuple[float, float]] = []  # times and sizes
    t, tries = start, 0

    def again(i: int, carry: Any, x: object) -> tuple[Any, None]:
        (y, slopes), (t, h) = carry, taken[i]
        new, stages = equation.step(y, slopes, t, h)
        return (new, stages[-1]), None

    loop = Loop("odeint", (list(y), list(slopes)), again, states=states)

    def first(carry: _Leaves, start: int, most: int) -> tuple[_Leaves, int]:
        nonlocal t, size, tries
        y, slopes = loop.carry.tree(carry)
        steps = 0
        while t != end and steps != most:
            last = size >= abs(end - t)
            h = end - t if last else math.copysign(size, end - t)
            new, stages = equation.step(y, slopes, t, h)
            error = equation.error(y, new, h, stages)
            tries += 1
            fits = error <= 1
            change = _SAFETY * error**-0.2 if error else _LARGEST
            tried, size = size, abs(h) * min(max(_LEAST, change), _LARGEST if fits else 1.0)
            if fits:
                taken.append((t, h))
                y, slopes, steps = new, stages[-1], steps + 1
                t, size = (end, max(size, tried)) if last else (t + h, size)
            if t != end and (tries >= mxstep or (not fits and t + h == t)):
                raise RuntimeError(
                    f"odeint: tolerance not met: expected t = {end:.6g} in {mxstep} steps, got to {t:.6g} in "
                    f"{tries}, the last of size {h:.3g} with an error of {error:.3g} times atol + rtol * abs(y)"
                )
        return pytree.leaves((y, slopes)), steps

    return loop.carry.tree(loop.until(first, loop.carry.leaves)), size
