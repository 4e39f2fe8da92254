"""Pooling and its gradient as compositions of basic operations: what kernels are compared with."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from ... import dtypes
from ... import namespace as ops
from ...array import Array
from ...array.creation import asarray, zeros
from .problem import Pooling, Windows


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
