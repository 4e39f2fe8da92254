"""Dropout."""

from __future__ import annotations

from numbers import Real
from typing import Any

from .. import dtypes, random
from .. import namespace as ops
from ..array import Array
from ..array.creation import zeros_like
from ..device import device
from ..elementwise.fuse import fuse
from ..random import Generator, default_rng
from . import init
from .fused import common_dtype
from .module import Module

_WORDS = 2**32


def require_probability(name: str, p: float) -> float:
    """``p`` as a float.

    Raises:
        ValueError: it is no number in [0, 1].
    """
    if not isinstance(p, Real) or isinstance(p, bool) or not 0 <= p <= 1:
        raise ValueError(f"{name}: p: expected a probability in [0, 1], got {p!r}")
    return float(p)


@fuse
def _kept(x: Any, bits: Any, threshold: int, scale: float) -> Any:
    return ops.where(ops.greater_equal(bits, threshold), x * scale, 0)


def dropout(x: Array, p: float = 0.5, rng: Generator | None = None) -> Array:
    """``x`` with each element 0 with probability ``p``, and divided by ``1 - p`` otherwise.

    A seed drops the same elements on every device, and a step that :func:`cukern.capture` replays drops others in
    each replay.

    Args:
        x: a floating dtype.
        p: the probability that an element is dropped.
        rng: the generator that is drawn from, on the device of ``x``, see :func:`cukern.random.default_rng`; that
            of the functions of :mod:`cukern.random` when None.

    Returns:
        the shape and dtype of ``x``.

    Raises:
        TypeError: ``x`` is not a floating array, or ``rng`` no generator of cukern's.
        ValueError: ``p`` is not in [0, 1], or ``rng`` draws on another device.

    Source: Srivastava and others, "Dropout: a simple way to prevent neural networks from overfitting", 2014.

    >>> import cukern as ck
    >>> y = ck.nn.dropout(ck.ones(1000), 0.25, ck.random.default_rng(0))
    >>> abs(ck.mean(y == 0).item() - 0.25) < 0.05, round(y.max().item(), 4)
    (True, 1.3333)
    """
    common_dtype("dropout", {"x": x})
    p = require_probability("dropout", p)
    if rng is not None and not isinstance(rng, Generator):
        raise TypeError(f"dropout: rng: expected a generator of cukern.random, got {type(rng).__name__}")
    if rng is not None and rng.device is not x.device:
        raise ValueError(f"dropout: rng draws on {rng.device}, x is on {x.device}")
    if p == 0:
        return x
    if p == 1:
        return zeros_like(x)
    threshold = min(round(p * _WORDS), _WORDS - 1)
    with device(x.device):
        bits = (rng or random).bits(x.shape, dtypes.uint32)
    made: Array = _kept(x, bits, threshold, 1 / (1 - p))
    return made


class Dropout(Module):
    """:func:`dropout` while the module is in training; afterwards (:meth:`Module.eval`) ``x`` as it is.

    What is drawn is no part of the module's state: :attr:`generator` has a ``state`` to be kept where a run is to go
    on as if it had not been cut.

    Args:
        p: the probability that an element is dropped.
        rng: what the generator's key is drawn from, see :mod:`cukern.nn.init`; or a generator of
            :mod:`cukern.random`, which is then drawn from.

    Attributes:
        generator: what is drawn from.

    >>> import cukern as ck
    >>> layer = ck.nn.Dropout(0.5, rng=0)
    >>> layer.eval()(ck.ones(3)).tolist()
    [1.0, 1.0, 1.0]
    """

    def __init__(self, p: float = 0.5, rng: init.Rng | Generator = None) -> None:
        self.p = require_probability("Dropout", p)
        self._follows = not isinstance(rng, Generator)
        self.generator = stream(rng)

    def forward(self, x: Array) -> Array:
        """``x`` with some elements 0 in training."""
        if not self.training:
            return x
        if self._follows:
            self.generator.device = x.device
        return dropout(x, self.p, self.generator)

    def extra_repr(self) -> str:
        """The probability."""
        return f"p={self.p}"


def stream(rng: init.Rng | Generator) -> Generator:
    """A generator that is ``rng``, or has a key drawn from it."""
    if isinstance(rng, Generator):
        return rng
    return default_rng([int(word) for word in init.generator(rng).integers(0, _WORDS, 4)])


__all__ = ["Dropout", "dropout"]
