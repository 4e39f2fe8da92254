"""Pooling and its gradient composed of basic operations, and problems on which variants are compared with that."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ... import dtypes
from ... import namespace as ops
from ... import random as numbers
from ...array import Array
from ...array.creation import asarray, zeros
from ...device import Device, device
from .problem import Pooling, Windows, channels_last


def _taken(x: Array, windows: Windows, outside: float) -> Array:
    """The elements of the windows of ``x`` (..., height, width), along a last axis."""
    height, width = x.shape[-2:]
    table = windows.positions(height, width)
    flat = ops.reshape(x, (*x.shape[:-2], height * width))
    padding = ops.broadcast_to(asarray(np.array(outside, x.dtype), device=x.device), (*x.shape[:-2], 1))
    positions = asarray(np.where(table < 0, height * width, table).reshape(-1), device=x.device)
    taken = ops.take(ops.concat([flat, padding], axis=-1), positions, axis=-1)
    return ops.reshape(taken, (*x.shape[:-2], *windows.output_shape(height, width), table.shape[1]))


def _divisors(x: Array, windows: Windows, plane: tuple[int, int]) -> Array:
    """Those of averages, in the dtype of ``x``."""
    divisors = windows.divisors(*plane).reshape(windows.output_shape(*plane))
    return asarray(divisors.astype(x.dtype), device=x.device)


def avg_pool2d_reference(x: Array, windows: Windows) -> Array:
    """The mean of each window of ``x`` (..., height, width)."""
    height, width = x.shape[-2:]
    sums = ops.sum(_taken(x, windows, 0.0), axis=-1)
    return ops.divide(sums, _divisors(x, windows, (height, width)))


def max_pool2d_reference(x: Array, windows: Windows) -> Array:
    """The largest element of each window of ``x`` (..., height, width): the first of equal ones, or of NaNs."""
    values = _taken(x, windows, -np.inf)
    winners = ops.argmax(values, axis=-1, keepdims=True)
    return ops.squeeze(ops.take_along_axis(values, winners, axis=-1), axis=-1)


def _winners(x: Array, y: Array, windows: Windows) -> Array:
    """The place in each window of its first element in the plane that is its largest, ``y``, or NaN."""
    values = _taken(x, windows, -np.inf)
    alike = ops.logical_or(ops.equal(values, ops.expand_dims(y, axis=-1)), ops.isnan(values))
    is_winner = ops.logical_and(
        alike, ops.isfinite(_taken(zeros(x.shape, x.dtype, device=x.device), windows, -np.inf))
    )
    indices = ops.where(ops.any(is_winner, axis=-1), ops.argmax(is_winner, axis=-1), windows.no_winner)
    return ops.astype(indices, windows.winner_dtype)


def pooling(problem: Pooling) -> Any:
    """What pools by single operations."""
    windows, acc = problem.windows, dtypes.info(problem.dtype).acc
    pool = max_pool2d_reference if problem.maximum else avg_pool2d_reference

    def compute(x: Array) -> Any:
        y = ops.astype(pool(ops.astype(x, acc), windows), problem.dtype)
        return [y, _winners(x, y, windows)] if problem.keep else y

    return compute


def gradient(problem: Pooling) -> Any:
    """What computes the gradient by single operations: place by place of a window, to the padded image."""
    windows, acc = problem.windows, dtypes.info(problem.dtype).acc
    axes = list(
        zip(problem.plane, problem.outputs, windows.stride, windows.padding, windows.span, strict=True)
    )
    whole = [max(p + n, (m - 1) * s + span) for n, m, s, p, span in axes]

    def compute(dy: Array, winners: Array | None = None) -> Array:
        share = ops.astype(dy, acc)
        if winners is None:
            share = ops.divide(share, _divisors(share, windows, problem.plane))
        dx = zeros((*problem.shape[:-2], *whole), share.dtype, device=dy.device)
        for index, tap in enumerate(itertools.product(*map(range, windows.kernel))):
            first = [t * d for t, d in zip(tap, windows.dilation, strict=True)]
            at = (slice(a, a + (m - 1) * s + 1, s) for a, (_, m, s, _, _) in zip(first, axes, strict=True))
            own = share if winners is None else ops.where(ops.equal(winners, index), share, 0)
            dx[(..., *at)] += own
        inner = (slice(p, p + n) for n, _, _, p, _ in axes)
        return ops.astype(dx[(..., *inner)], problem.dtype)

    return compute


#: Elements of an image at most, on a GPU and on the host.
_MOST = 2**26
_MOST_ON_HOST = 2**17


class Shape(NamedTuple):
    """Images and windows: batch, channels, height and width, kernel, stride, padding, and whether maxima are taken."""

    batch: int
    channels: int
    size: int
    kernel: int
    stride: int
    padding: int
    maximum: bool


#: ResNet's stem, VGG, SqueezeNet, Inception, DenseNet and the whole planes of MobileNet.
MODELS = (
    Shape(64, 64, 112, 3, 2, 1, True),
    Shape(64, 64, 224, 2, 2, 0, True),
    Shape(64, 512, 28, 2, 2, 0, True),
    Shape(64, 96, 111, 3, 2, 0, True),
    Shape(64, 288, 35, 3, 1, 1, False),
    Shape(64, 128, 56, 2, 2, 0, False),
    Shape(64, 1280, 7, 7, 1, 0, False),
)


def shapes(seed: int) -> Iterator[Shape]:
    """Those of models, then others without end."""
    yield from MODELS
    draw = random.Random(seed)
    while True:
        kernel = draw.choice((2, 2, 3, 3, 3, 5, 7))
        yield Shape(
            draw.choice((1, 4, 16, 64, 128)),
            draw.choice((3, 16, 64, 96, 256, 512)),
            draw.choice((14, 28, 35, 56, 64, 112, 224)),
            kernel,
            draw.choice((1, 2, kernel)),
            draw.choice((0, kernel // 2)),
            draw.random() < 0.5,
        )


def samples(where: Device, seed: int) -> Iterator[tuple[Pooling, tuple[Array, ...]]]:
    """Problems of pooling, without end."""
    most = _MOST_ON_HOST if where.addressable else _MOST
    for number, of in enumerate(shapes(seed)):
        windows = Windows((of.kernel,) * 2, (of.stride,) * 2, (of.padding,) * 2)
        shape = min(of.batch, most // (of.channels * of.size**2)), of.channels, of.size, of.size
        forms = itertools.product((dtypes.bfloat16, dtypes.float32), (False, True))
        for dtype, last in forms if shape[0] else ():
            with device(where):
                x = numbers.default_rng(number).standard_normal(shape, dtype="float32").astype(dtype)
                x = channels_last(x) if last else x
            yield Pooling(where, dtype, shape, last, windows, of.maximum, False, True), (x,)


def samples_of_gradients(where: Device, seed: int) -> Iterator[tuple[Pooling, tuple[Array, ...]]]:
    """Problems of gradients of pooling, without end: of the windows' own results."""
    for problem, (x,) in samples(where, seed):
        with device(where):
            pooled = pooling(replace(problem, keep=problem.maximum))(x)
            arrays = pooled if problem.maximum else [pooled]
            arrays = [channels_last(one) if problem.channels_last else one for one in arrays]
        yield replace(problem, gradient=True), tuple(arrays)
