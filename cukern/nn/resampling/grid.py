"""Images read at places between their pixels."""

from __future__ import annotations

import itertools
import math
from typing import Any

from ... import dtypes
from ... import namespace as ops
from ...array import Array
from ...array.creation import arange
from ...elementwise.fuse import fuse
from ...elementwise.operands import require_arrays
from ...errors import require_choice
from ..fused import common_dtype

_MODES = ("bilinear", "nearest")
_PADDINGS = ("zeros", "border", "reflection")


@fuse(static=("n", "padding", "align"))
def _place(given: Any, n: int, padding: str, align: bool) -> Any:
    """Where along an axis of ``n`` pixels a coordinate from -1 to 1 lies, in pixels."""
    place = (given + 1) * (0.5 * (n - 1)) if align else (given + 1) * (0.5 * n) - 0.5
    if padding == "reflection":
        low, span = (0.0, n - 1.0) if align else (-0.5, float(n))
        apart = abs(place - low)
        turned = apart - 2 * span * ops.floor(apart / (2 * span)) if span else 0 * place
        place = low + ops.where(turned > span, 2 * span - turned, turned)
    # Beyond these all neighbours are outside, and infinities are harmless.
    return ops.clip(place, 0.0, n - 1.0) if padding != "zeros" else ops.clip(place, -2.0, n + 1.0)


@fuse(static=("n", "upper"))
def _share(place: Any, n: int, upper: bool) -> Any:
    """The weight of the lower or the upper neighbour; 0 outside of the image."""
    low = ops.floor(place)
    inside = ops.logical_and(low >= (-1.0 if upper else 0.0), low <= (n - 2.0 if upper else n - 1.0))
    return ops.where(inside, place - low if upper else 1 + low - place, 0.0)


def grid_sample(
    x: Array,
    grid: Array,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool = False,
) -> Array:
    """The elements of images at given places, between pixels by linear interpolation along each axis.

    It is composed of gathers, one for each neighbour. The gradient of ``x`` is the same in every run.

    Args:
        x: shape (N, C, H, W) or (N, C, D, H, W), a floating dtype.
        grid: shape (N, rows, columns, 2) or (N, planes, rows, columns, 3), a floating dtype: coordinates along the
            last axis of ``x`` first, from -1 to 1 within an image.
        mode: ``"bilinear"``, for volumes too; or ``"nearest"``, of which ``grid`` has no gradient.
        padding_mode: what is outside: ``"zeros"``, the nearest edge (``"border"``), or the image mirrored at its edges
            (``"reflection"``).
        align_corners: whether -1 and 1 are the centers of the outermost pixels rather than their outer edges.

    Returns:
        Shape (N, C, rows, columns) or (N, C, planes, rows, columns), in the promoted dtype.

    Raises:
        TypeError: an argument is not a floating array.
        ValueError: the shapes do not fit, or there is no such mode.

    Source: Jaderberg and others, "Spatial transformer networks", 2015.

    >>> import cukern as ck
    >>> x = ck.asarray([[[[1.0, 3.0]]]])
    >>> ck.nn.grid_sample(x, ck.asarray([[[[0.0, 0.0], [0.5, 0.0]]]])).tolist()
    [[[[2.0, 3.0]]]]
    """
    name = "grid_sample"
    x, grid = require_arrays((x, grid), name, ("x", "grid"))
    result = common_dtype(name, {"x": x, "grid": grid})
    axes = x.ndim - 2
    if axes not in (2, 3) or 0 in x.shape[1:]:
        raise ValueError(f"{name}: x: expected shape (N, C, H, W) or (N, C, D, H, W), got {x.shape}")
    if grid.ndim != x.ndim or grid.shape[0] != x.shape[0] or grid.shape[-1] != axes:
        raise ValueError(
            f"{name}: grid: expected shape ({x.shape[0]}, ..., {axes}) of {x.ndim} axes, got {grid.shape}"
        )
    require_choice(f"{name}: mode", mode, _MODES)
    require_choice(f"{name}: padding_mode", padding_mode, _PADDINGS)
    sizes, count, acc = x.shape[2:], math.prod(grid.shape[1:-1]), dtypes.info(result).acc
    flat = ops.reshape(ops.astype(grid, acc, copy=False), (x.shape[0] * count, axes))
    places = [
        _place(flat[:, axes - 1 - i], n, padding_mode, bool(align_corners)) for i, n in enumerate(sizes)
    ]
    if mode == "nearest":
        places = [ops.rint(one) for one in places]
    pixels = ops.reshape(ops.moveaxis(x, 1, -1), (-1, x.shape[1]))
    first = ops.repeat(arange(x.shape[0], device=x.device) * math.prod(sizes), count)
    total: Any = None
    for uppers in itertools.product((False, True) if mode == "bilinear" else (False,), repeat=axes):
        index: Any = 0
        weight: Any = None
        for place, n, upper in zip(places, sizes, uppers, strict=True):
            at = ops.clip(ops.astype(ops.floor(place), dtypes.int64) + int(upper), 0, n - 1)
            share = _share(place, n, upper)
            index, weight = index * n + at, share if weight is None else weight * share
        part = ops.take(pixels, first + index, axis=0) * ops.expand_dims(weight, axis=1)
        total = part if total is None else total + part
    made = ops.reshape(ops.astype(total, result, copy=False), (x.shape[0], *grid.shape[1:-1], x.shape[1]))
    return ops.moveaxis(made, -1, 1)
