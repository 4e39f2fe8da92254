"""Initial values of parameters, drawn from a NumPy generator, so a seed gives the same values on every device.

Without a ``dtype`` they have the default floating dtype.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import numpy as np

from ..array import Array
from ..array.creation import asarray
from ..device import Device

#: A generator, a seed, or None for the process's generator, which :func:`seed` sets.
Rng = np.random.Generator | int | None

_default = np.random.default_rng()


def seed(value: int) -> None:
    """Seed the process's generator with ``value``, so that initial parameters are the same in each run."""
    global _default
    _default = np.random.default_rng(value)


def generator(rng: Rng = None) -> np.random.Generator:
    """The generator for an argument ``rng``.

    Raises:
        TypeError: ``rng`` is neither a generator, nor an int, nor None.
    """
    if rng is None:
        return _default
    if isinstance(rng, np.random.Generator):
        return rng
    if isinstance(rng, int):
        return np.random.default_rng(rng)
    raise TypeError(f"rng: expected a numpy Generator, an int or None, got {type(rng).__name__}")


def uniform(
    shape: tuple[int, ...],
    low: float = 0.0,
    high: float = 1.0,
    dtype: Any = None,
    device: Device | str | None = None,
    rng: Rng = None,
) -> Array:
    """Uniform in [low, high).

    >>> uniform((2, 3), -1, 1, rng=0).shape
    (2, 3)
    """
    return asarray(generator(rng).uniform(low, high, shape), float if dtype is None else dtype, device)


def normal(
    shape: tuple[int, ...],
    mean: float = 0.0,
    std: float = 1.0,
    dtype: Any = None,
    device: Device | str | None = None,
    rng: Rng = None,
) -> Array:
    """Normal with the given mean and standard deviation."""
    return asarray(generator(rng).normal(mean, std, shape), float if dtype is None else dtype, device)


def fans(shape: tuple[int, ...]) -> tuple[int, int]:
    """The number of inputs and outputs of a weight (outputs, inputs, ...); both include the sizes of further axes.

    Raises:
        ValueError: there are fewer than two axes.
    """
    if len(shape) < 2:
        raise ValueError(f"shape: expected a weight of at least 2 axes, got {shape}")
    field = math.prod(shape[2:])
    return shape[1] * field, shape[0] * field


def xavier_uniform(
    shape: tuple[int, ...],
    gain: float = 1.0,
    dtype: Any = None,
    device: Device | str | None = None,
    rng: Rng = None,
) -> Array:
    """Uniform in ±``gain * sqrt(6 / (inputs + outputs))``. Source: Glorot and Bengio, 2010."""
    bound = gain * math.sqrt(6 / sum(fans(shape)))
    return uniform(shape, -bound, bound, dtype, device, rng)


def kaiming_uniform(
    shape: tuple[int, ...],
    gain: float = math.sqrt(2),
    dtype: Any = None,
    device: Device | str | None = None,
    rng: Rng = None,
) -> Array:
    """Uniform in ±``gain * sqrt(3 / inputs)``, by default with the gain of ReLU. Source: He and others, 2015."""
    bound = gain * math.sqrt(3 / fans(shape)[0])
    return uniform(shape, -bound, bound, dtype, device, rng)


def xavier_normal(
    shape: tuple[int, ...],
    gain: float = 1.0,
    dtype: Any = None,
    device: Device | str | None = None,
    rng: Rng = None,
) -> Array:
    """Normal with the standard deviation ``gain * sqrt(2 / (inputs + outputs))``. Source: Glorot and Bengio, 2010."""
    return normal(shape, 0.0, gain * math.sqrt(2 / sum(fans(shape))), dtype, device, rng)


def kaiming_normal(
    shape: tuple[int, ...],
    gain: float = math.sqrt(2),
    outputs: bool = False,
    dtype: Any = None,
    device: Device | str | None = None,
    rng: Rng = None,
) -> Array:
    """Normal with the standard deviation ``gain / sqrt(inputs)``, by default with the gain of ReLU.

    With ``outputs``, which PyTorch calls ``mode="fan_out"``, the outputs are counted instead. Source: He and others,
    2015.
    """
    return normal(shape, 0.0, gain / math.sqrt(fans(shape)[outputs]), dtype, device, rng)


def truncated_normal(
    shape: tuple[int, ...],
    mean: float = 0.0,
    std: float = 1.0,
    low: float = -2.0,
    high: float = 2.0,
    dtype: Any = None,
    device: Device | str | None = None,
    rng: Rng = None,
) -> Array:
    """Normal, drawn again outside of [low, high], which are values as in PyTorch, not multiples of ``std``.

    Raises:
        ValueError: not even one of a thousand draws would be in the range.
    """
    spread = NormalDist(mean, std) if std > 0 else None
    if spread is None or spread.cdf(high) - spread.cdf(low) < 1e-3:
        raise ValueError(f"low, high: expected a range in which normal numbers lie, got [{low}, {high}]")
    draw = generator(rng)
    values = np.asarray(draw.normal(mean, std, shape))
    while (outside := (values < low) | (values > high)).any():
        values[outside] = draw.normal(mean, std, int(outside.sum()))
    return asarray(values, float if dtype is None else dtype, device)


def orthogonal(
    shape: tuple[int, ...],
    gain: float = 1.0,
    dtype: Any = None,
    device: Device | str | None = None,
    rng: Rng = None,
) -> Array:
    """``gain`` times a random matrix with orthonormal rows, or columns if rows are more; of axes after the second too.

    Source: Saxe and others, 2014.

    Raises:
        ValueError: there are fewer than two axes.
    """
    columns = fans(shape)[0]
    drawn = generator(rng).normal(size=(max(shape[0], columns), min(shape[0], columns)))
    q, r = np.linalg.qr(drawn)
    q = gain * q * np.sign(np.diagonal(r))
    values = (q if shape[0] >= columns else q.T).reshape(shape)
    return asarray(values, float if dtype is None else dtype, device)
