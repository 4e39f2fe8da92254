"""Batch and group norm by single operations: for derivatives of higher order, and to compare kernels with."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ... import dtypes
from ... import namespace as ops
from ... import random as numbers
from ...array import Array
from ...array.creation import zeros
from ...device import Device, device
from ...elementwise.function import evaluate
from ..fused import derivative_of
from .problem import ChannelNorm


def beside(problem: ChannelNorm, one: Array) -> Array:
    """An array of one number per channel, reshaped to broadcast with the others."""
    return ops.reshape(one, [n if i == problem.channel else 1 for i, n in enumerate(problem.x.shape)])


def _grouped(problem: ChannelNorm) -> tuple[list[int], tuple[int, ...]]:
    """The shape of ``x`` with an axis of groups before that of their channels, and the axes normalized together."""
    shape, at, groups = problem.x.shape, problem.channel, problem.groups or problem.channels
    cut = [*shape[:at], groups, shape[at] // groups, *shape[at + 1 :]]
    apart = (at,) if problem.groups is None else (0, at)
    return cut, tuple(i for i in range(len(cut)) if i not in apart)


def composed(
    problem: ChannelNorm,
    x: Array,
    weight: Array | None,
    bias: Array | None,
    constants: Sequence[Array | None],
    eps: float,
) -> Array:
    """The normalized ``x`` as a composition.

    Args:
        constants: mean and variance, where they are constants.
    """
    if problem.constant:
        mean, variance = (one for one in constants if one is not None)
        scale = ops.rsqrt(ops.add(ops.astype(variance, dtypes.info(x.dtype).acc, copy=False), eps))
        scale = scale if weight is None else ops.multiply(scale, weight)
        y = ops.multiply(ops.subtract(x, beside(problem, mean)), beside(problem, scale))
    else:
        together = tuple(i for i in range(x.ndim) if i != problem.channel)
        if problem.groups is not None:
            shape, together = _grouped(problem)
            x = ops.reshape(x, shape)
        apart = ops.subtract(x, ops.mean(x, axis=together, keepdims=True))
        variance = ops.mean(ops.square(apart), axis=together, keepdims=True)
        y = ops.multiply(apart, ops.rsqrt(ops.add(variance, eps)))
        y = y if problem.groups is None else ops.reshape(y, problem.x.shape)
        y = y if weight is None else ops.multiply(y, beside(problem, weight))
    y = ops.astype(y if bias is None else ops.add(y, beside(problem, bias)), problem.dtype)
    return y if problem.activation is None else evaluate(problem.activation, (y,))[0]


def _spread(problem: ChannelNorm, of_groups: Array) -> Array:
    """Numbers of groups, reshaped to broadcast with ``x`` as it is grouped."""
    shape, together = _grouped(problem)
    return ops.reshape(of_groups, [1 if i in together else n for i, n in enumerate(shape)])


def normalization(problem: ChannelNorm) -> Callable[..., tuple[Array, Array | None]]:
    """What computes the result, and statistics: the mean, 0 and 1 / sqrt(variance + eps)."""

    def compute(
        x: Array, weight: Any, bias: Any, mean: Any, variance: Any, by: Any, eps: float, momentum: float
    ) -> tuple[Array, Array | None]:
        wide: list[Any] = [
            one if one is None else ops.astype(one, problem.acc) for one in (x, weight, bias, mean, variance)
        ]
        y = composed(problem, wide[0], wide[1], wide[2], wide[3:], eps)
        if not problem.tracked:
            return y, None
        mean, variance = wide[3:]
        if not problem.constant:
            shape, together = _grouped(problem)
            cut = ops.reshape(wide[0], shape)
            mean, variance = (ops.reshape(of(cut, axis=together), (-1,)) for of in (ops.mean, ops.var))
        return y, ops.stack([mean, 0 * mean, 1 / ops.sqrt(variance + eps)], axis=1)

    return compute


def gradient(problem: ChannelNorm) -> Callable[..., list[Array | None]]:
    """What computes the gradients that are wanted, of statistics as kernels leave them."""
    shape, together = _grouped(problem)

    def compute(x: Array, dy: Array, weight: Any, bias: Any, statistics: Array) -> list[Array | None]:
        own = ops.reshape(ops.astype(x, problem.acc), shape)
        mean, above, rstd = (_spread(problem, statistics[:, i]) for i in range(3))
        normal = (own - mean - above) * rstd
        factor, offset = (
            one if one is None else beside(problem, ops.astype(one, problem.acc)) for one in (weight, bias)
        )
        if problem.activation is not None:
            z = ops.reshape(normal, x.shape)
            z = z if factor is None else z * factor
            z = z if offset is None else z + offset
            pull = derivative_of(problem.activation)
            dy = evaluate(pull, [ops.astype(one, pull.inputs[0]) for one in (z, dy)])[0]
        given = ops.reshape(ops.astype(dy, problem.acc), shape)
        g = given if factor is None else ops.reshape(ops.reshape(given, x.shape) * factor, shape)
        if not problem.constant:
            slope, rest = (ops.mean(one, axis=together, keepdims=True) for one in (g * normal, g))
            g = g - normal * slope - rest
        axes = tuple(i for i in range(x.ndim) if i != problem.channel)
        sums = (ops.sum(ops.reshape(one, x.shape), axis=axes) for one in (given * normal, given))
        found = [ops.reshape(g * rstd, x.shape), *sums]
        layouts = (problem.x, problem.weight, problem.bias)
        return [
            ops.astype(one, like.dtype) if want and like is not None else None
            for one, like, want in zip(found, layouts, problem.wanted, strict=True)
        ]

    return compute


#: Batch, channels, rows and columns, and groups or 0: ResNet-50, and U-Nets and decoders of diffusion.
_MODELS = (
    (64, 64, 112, 112, 0),
    (64, 256, 56, 56, 0),
    (64, 512, 28, 28, 0),
    (64, 1024, 14, 14, 0),
    (64, 2048, 7, 7, 0),
    (8, 320, 64, 64, 32),
    (8, 640, 32, 32, 32),
    (8, 1280, 16, 16, 32),
    (1, 128, 512, 512, 32),
)
#: Elements at most, on a GPU and on the host.
_MOST, _MOST_ON_HOST = 2**26, 2**18


def _shapes(draw: random.Random) -> Iterator[tuple[int, ...]]:
    """Those of models, then others without end."""
    yield from _MODELS
    while True:
        side, groups = 2 ** draw.randint(1, 7), draw.choice((0, 0, 1, 8, 32))
        channels = draw.choice((3, 16, 48, 64, 96, 256, 512, 1000))
        yield draw.choice((1, 4, 16, 64, 256)), 32 * channels if groups else channels, side, side, groups


def samples(of_gradient: bool) -> Any:
    """Problems of batch and group norm, or of their gradients, those of models first, without end."""

    def drawn(where: Device, seed: int) -> Iterator[tuple[ChannelNorm, tuple[Any, ...]]]:
        draw, own = random.Random(seed), numbers.default_rng(seed)

        def normal(shape: tuple[int, ...], dtype: dtypes.DType) -> Array:
            return ops.astype(own.standard_normal(shape, dtype="float32"), dtype)

        for batch, channels, rows, columns, groups in _shapes(draw):
            most = (_MOST_ON_HOST if where.addressable else _MOST) // (channels * rows * columns)
            dtype, last = draw.choice((dtypes.bfloat16, dtypes.float16, dtypes.float32)), draw.random() < 0.5
            constant, wants = not groups and draw.random() < 0.2, draw.random() < 0.8
            if not most:
                continue
            shape = min(batch, most), channels, rows, columns
            with device(where):
                x, dy = (normal(shape, dtype) for _ in range(2))
                if last:
                    x, dy = (ops.moveaxis(ops.moveaxis(one, 1, -1).contiguous(), -1, 1) for one in (x, dy))
                weight, bias = (normal((channels,), dtypes.float32 if last else dtype) for _ in range(2))
                moments = (zeros((channels,)), zeros((channels,)) + 1) if constant else (None, None)
                own_x, own_weight, own_bias = (one._planned() for one in (x, weight, bias))
                result = dtypes.result_type(dtype, weight.dtype)
                mean, variance = (one if one is None else one._planned() for one in moments)
                forward = ChannelNorm(
                    own_x, own_weight, own_bias, 1, groups or None, result, mean, variance, constant
                )
                given: tuple[Any, ...] = (x, weight, bias, *moments, None, 1e-5, 0.0)
                if not of_gradient:
                    yield forward, given
                    continue
                found = normalization(forward._replace(tracked=True))(*given)[1]
            yield (
                forward._replace(dy=dy._planned(), wanted=(True, wants, wants)),
                (x, dy, weight, bias, found),
            )

    return drawn
