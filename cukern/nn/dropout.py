"""Dropout."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real
from typing import Any, NamedTuple

from .. import namespace as ops
from .. import random
from ..array import Array
from ..array.batched import in_progress
from ..array.creation import ones, zeros
from ..array.layout import fresh_layout, is_aligned
from ..elementwise.operands import normalize_axis
from ..function import Function
from ..kernel import Kernel
from ..kernel.plan import compiled, launch, new, on
from ..kernel.sizes import ACCESS, divide_up, index_type
from ..pytree import declare_leaf
from ..random import Generator, default_rng
from . import init
from .fused import common_dtype
from .module import Module

_BLOCK = 256
_KERNEL = Kernel("nn/dropout.cu", block=_BLOCK)
_WORDS = 2**32


def require_probability(name: str, p: float) -> float:
    """``p`` as a float.

    Raises:
        ValueError: it is not a number in [0, 1].
    """
    if not isinstance(p, Real) or isinstance(p, bool) or not 0 <= p <= 1:
        raise ValueError(f"{name}: p: expected a probability in [0, 1], got {p!r}")
    return float(p)


def require_generator(name: str, argument: str, x: Array, rng: Generator | None) -> None:
    """Check the generator of a function of ``x``, if one is given.

    Raises:
        TypeError: ``rng`` is not a cukern generator.
        ValueError: ``rng`` draws on another device.
    """
    if rng is not None and not isinstance(rng, Generator):
        raise TypeError(f"{name}: rng: expected a generator of cukern.random, got {type(rng).__name__}")
    if rng is not None and rng.device is not x.device:
        raise ValueError(f"{name}: rng draws on {rng.device}, {argument} is on {x.device}")


@declare_leaf
class Draw(NamedTuple):
    """Where dropout draws: the key of the stream, the counter, or the memory that holds it in a captured step."""

    key: tuple[int, int]
    at: int
    live: Array | None


def drawn(name: str, argument: str, x: Array, rng: Generator | None, words: int) -> Draw:
    """Advance the generator, or that of the functions of :mod:`cukern.random`, over ``words`` words for ``x``.

    Raises:
        TypeError: ``rng`` is not a cukern generator.
        ValueError: ``rng`` draws on another device.
    """
    require_generator(name, argument, x, rng)
    generator = rng or random._generator(x.device)
    live, at = generator._claim(words * math.prod([level.size for level in in_progress()]))
    return Draw(generator._key, at, live)


def _launch(x: Array, p: float, draw: Draw) -> Array:
    if not x.size or p == 1:
        return zeros(x.shape, x.dtype, x.device)
    x = x.contiguous()
    width = max(4, ACCESS // x.itemsize)
    form = {"elem": x.dtype, "index": index_type(x.size), "width": width, "aligned": is_aligned(x)}
    function = compiled(_KERNEL, x.device, **form, live=draw.live is not None)
    with on(x.device):
        (y,) = new((fresh_layout(x.device, x.dtype, x.shape),))
    threshold = min(round(p * _WORDS), _WORDS - 1)
    offset = draw.at if draw.live is None else draw.live
    values = x, y, x.size, threshold, 1 / (1 - p), offset, *draw.key
    launch(x.device, function, divide_up(x.size, width * _BLOCK), _BLOCK, values)
    return y


class _Dropout(Function):
    """Linear in ``x``, and its own transpose: the words say again which elements are dropped."""

    _only_reads = True

    @staticmethod
    def forward(ctx: Any, x: Array, p: float, draw: Draw) -> Array:
        ctx.p, ctx.draw = p, draw
        return _launch(x, p, draw)

    @staticmethod
    def backward(ctx: Any, dy: Array) -> tuple[Array | None, ...]:
        return _Dropout.apply(dy, ctx.p, ctx.draw), None, None

    @staticmethod
    def vmap(size: int, batched: tuple[bool, ...], x: Array, p: float, draw: Draw) -> Array:
        """All examples at once, which the draw is for."""
        return _Dropout.apply(x, p, draw)


def dropped(x: Array, p: float, draw: Draw) -> Array:
    """:func:`dropout` of what a draw drops."""
    return _Dropout.apply(x, p, draw)


def dropout(
    x: Array, p: float = 0.5, rng: Generator | None = None, broadcast_axes: Sequence[int] = ()
) -> Array:
    """Set each element of ``x`` to 0 with probability ``p``, and divide the others by ``1 - p``.

    The result is all that is kept: the gradient computes again from the generator's counter which elements were
    dropped. A seed drops the same elements on every device. Each replay of a step of :func:`cukern.capture` drops
    different elements.

    Args:
        x: a floating dtype.
        p: the probability of dropping an element.
        rng: the generator, on the device of ``x``, see :func:`cukern.random.default_rng`; that of the functions of
            :mod:`cukern.random` when None.
        broadcast_axes: axes along which all elements are dropped together: (2, 3) drops channels of (N, C, H, W),
            (1, 2, 3) whole examples, as stochastic depth does with what a block adds.

    Returns:
        An array with the shape and dtype of ``x``.

    Raises:
        TypeError: ``x`` is not a floating array, or ``rng`` not a cukern generator.
        ValueError: ``p`` is not in [0, 1], or ``rng`` draws on another device.
        AxisError: there is no such axis.

    Source: Srivastava and others, "Dropout: a simple way to prevent neural networks from overfitting", 2014.

    >>> import cukern as ck
    >>> y = ck.nn.dropout(ck.ones(1000), 0.25, ck.random.default_rng(0))
    >>> abs(ck.mean(y == 0).item() - 0.25) < 0.05, round(y.max().item(), 4)
    (True, 1.3333)
    """
    for level in in_progress():  # each example drops elements of its own
        x = x if level.holds(x) else level.batched(level.run(level.front, x))
    common_dtype("dropout", {"x": x})
    p = require_probability("dropout", p)
    axes = {normalize_axis(one, x.ndim, "dropout") for one in broadcast_axes}
    if p == 0:
        return x
    if axes:
        kept = ones([1 if i in axes else n for i, n in enumerate(x.shape)], x.dtype, x.device)
        return ops.multiply(x, dropout(kept, p, rng))
    return dropped(x, p, drawn("dropout", "x", x, rng, x.size if p < 1 else 0))


class Dropout(Module):
    """:func:`dropout` while the module is in training; after :meth:`Module.eval` the identity.

    The generator is not part of the module's state: to resume a run exactly, also save the ``state`` of
    :attr:`generator`.

    Args:
        p: the probability of dropping an element.
        rng: the source of the generator's key, see :mod:`cukern.nn.init`; or a generator of :mod:`cukern.random` to
            use.
        broadcast_axes: axes along which all elements are dropped together.

    Attributes:
        generator: the generator.

    >>> import cukern as ck
    >>> layer = ck.nn.Dropout(0.5, rng=0)
    >>> layer.eval()(ck.ones(3)).tolist()
    [1.0, 1.0, 1.0]
    """

    def __init__(
        self, p: float = 0.5, rng: init.Rng | Generator = None, broadcast_axes: Sequence[int] = ()
    ) -> None:
        self.p = require_probability("Dropout", p)
        self.broadcast_axes = tuple(broadcast_axes)
        self._follows = not isinstance(rng, Generator)
        self.generator = stream(rng)

    def forward(self, x: Array) -> Array:
        """Drop elements of ``x`` in training."""
        if not self.training:
            return x
        if self._follows:
            self.generator.device = x.device
        return dropout(x, self.p, self.generator, self.broadcast_axes)

    def extra_repr(self) -> str:
        """The probability, and the axes."""
        return f"p={self.p}" + (f", broadcast_axes={self.broadcast_axes}" if self.broadcast_axes else "")


def stream(rng: init.Rng | Generator) -> Generator:
    """``rng`` if it is a generator of :mod:`cukern.random`, else one whose key is drawn from it."""
    if isinstance(rng, Generator):
        return rng
    return default_rng([int(word) for word in init.generator(rng).integers(0, _WORDS, 4)])
