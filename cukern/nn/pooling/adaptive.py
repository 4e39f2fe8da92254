"""Pooling to given sizes, whatever those of the input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import namespace as ops
from ...array import Array
from ...array.creation import asarray
from ..fused import is_int, of_axes
from ..resampling import bands
from ..resampling.function import area
from .function import avg_pool1d, avg_pool2d, checked, max_pool1d, max_pool2d, max_pool3d

#: A size for all axes, or one for each, where None keeps that of the input.
Output = int | None | Sequence[int | None]

_AVERAGE = {1: avg_pool1d, 2: avg_pool2d}
_LARGEST = {1: max_pool1d, 2: max_pool2d, 3: max_pool3d}


def _checked(name: str, x: Array, output_size: Output, count: int) -> tuple[Array, tuple[int, ...]]:
    """``x``, and the sizes of the result's last axes."""
    x = checked(name, x, count)
    targets: tuple[Any, ...] = (
        tuple(output_size) if isinstance(output_size, (tuple, list)) else (output_size,) * count
    )
    if len(targets) != count or not all(one is None or is_int(one) for one in targets):
        raise TypeError(
            f"{name}: output_size: expected an int or None, or {count} of them, got {output_size!r}"
        )
    sizes = tuple(n if one is None else int(one) for n, one in zip(x.shape[-count:], targets, strict=True))
    if min(sizes) < 1:
        raise ValueError(f"{name}: output_size: expected at least 1, got {output_size!r}")
    return x, sizes


def _divided(x: Array, sizes: Sequence[int]) -> list[int] | None:
    """The sizes of windows that have no element in common; None if they are not all equal."""
    plane = x.shape[-len(sizes) :]
    return (
        None
        if any(n % out for n, out in zip(plane, sizes, strict=True))
        else [n // out for n, out in zip(plane, sizes, strict=True)]
    )


def _average(count: int, x: Array, output_size: Output) -> Array:
    x, sizes = _checked(f"adaptive_avg_pool{count}d", x, output_size, count)
    if max(sizes) == 1:
        return ops.mean(x, axis=tuple(range(-count, 0)), keepdims=True)
    kernel = _divided(x, sizes)
    return area(x, sizes) if kernel is None or count == 3 else _AVERAGE[count](x, kernel)


def _largest(count: int, x: Array, output_size: Output) -> Array:
    x, sizes = _checked(f"adaptive_max_pool{count}d", x, output_size, count)
    kernel = _divided(x, sizes)
    if kernel is not None:
        return _LARGEST[count](x, kernel)
    # Along one axis after another, from the last: of equal elements the first wins.
    for axis, out in zip(range(-1, -count - 1, -1), reversed(sizes), strict=True):
        x = _largest_along(x, x.ndim + axis, out)
    return x


def _largest_along(x: Array, axis: int, out: int) -> Array:
    """The largest element of each window along an axis; windows shorter than others repeat their last."""
    first, last = (np.asarray(one) for one in bands.adaptive(x.shape[axis], out))
    indices = np.minimum(first[:, None] + np.arange((last - first).max()), last[:, None] - 1)
    taken = ops.take(x, asarray(indices.reshape(-1), device=x.device), axis=axis)
    values = ops.reshape(taken, (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))
    winners = ops.argmax(values, axis=axis + 1, keepdims=True)
    return ops.squeeze(ops.take_along_axis(values, winners, axis=axis + 1), axis=axis + 1)


_DOC = """
{of} of each of as many windows of every {whole} as are wanted.

Along an axis of n elements, window i of m begins at ``floor(i * n / m)`` and ends before ``ceil((i + 1) * n / m)``.
{more}

Args:
    x: shape (N, C, {axes}) or (C, {axes}), a floating dtype.
    output_size: {number}; None keeps the size of ``x``.

Returns:
    Shape (N, C, *output_size) or (C, *output_size), in the dtype of ``x``.

Raises:
    TypeError: ``x`` is not a floating array, or ``output_size`` is no such number.
    ValueError: a size is less than 1, or the shape of ``x`` does not fit.
"""
_average.__doc__ = _DOC.replace("{of}", "The mean").replace(
    "{more}",
    "For three axes, and where sizes do not divide, windows of each axis are weights of one pass over ``x``.",
)
_largest.__doc__ = _DOC.replace("{of}", "The largest element").replace(
    "{more}", "NaN if the window contains NaN. The gradient goes to the first of equal elements."
)

adaptive_avg_pool1d = of_axes(
    _average, "adaptive_avg_pool1d", "ck.asarray([[1.0, 2.0, 3.0, 4.0, 5.0]]), 2", "[[2.0, 4.0]]"
)
adaptive_avg_pool2d = of_axes(
    _average, "adaptive_avg_pool2d", "ck.asarray([[[1.0, 2.0], [3.0, 4.0]]]), (1, None)", "[[[2.0, 3.0]]]"
)
adaptive_avg_pool3d = of_axes(
    _average, "adaptive_avg_pool3d", "ck.asarray([[[[1.0, 3.0]]]]), 1", "[[[[2.0]]]]"
)
adaptive_max_pool1d = of_axes(
    _largest, "adaptive_max_pool1d", "ck.asarray([[1.0, 2.0, 3.0, 4.0, 5.0]]), 2", "[[3.0, 5.0]]"
)
adaptive_max_pool2d = of_axes(
    _largest, "adaptive_max_pool2d", "ck.asarray([[[1.0, 2.0], [3.0, 4.0]]]), (1, None)", "[[[3.0, 4.0]]]"
)
adaptive_max_pool3d = of_axes(
    _largest, "adaptive_max_pool3d", "ck.asarray([[[[1.0, 3.0]]]]), 1", "[[[[3.0]]]]"
)
