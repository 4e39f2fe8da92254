"""Evaluate polynomials, and fit them by least squares."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from .. import dtypes
from ..array import Array
from ..elementwise.function import astype
from ..elementwise.operands import public, require_array, require_arrays
from ..elementwise.table import divide, sqrt, square
from ..index.assemble import vander
from ..linear.solving import lstsq
from ..reduction.rows import sum
from ..shape.views import expand_dims

__all__ = ["polyfit", "polyval"]


@public
def polyval(p: Array, x: Any, /) -> Any:
    """Evaluate the polynomial with the coefficients ``p``, the highest first, at ``x``, by Horner's rule.

    >>> import cukern as ck
    >>> polyval(ck.asarray([1.0, 0.0, 2.0]), ck.asarray([3.0])).tolist()
    [11.0]
    """
    p = require_array(p, "polyval", "p", x if isinstance(x, Array) else None)
    if not isinstance(x, (int, float)):
        x = require_array(x, "polyval", "x", p)
    if p.ndim != 1:
        raise ValueError(f"polyval: p: expected one axis, got shape {p.shape}")
    made: Any = x * 0
    for i in range(p.size):
        made = made * x + p[i]
    return made


@public
def polyfit(x: Array, y: Array, /, deg: int, rcond: float | None = None, *, w: Array | None = None) -> Array:
    """The coefficients, the highest first, of the polynomial that fits ``y`` at ``x`` by least squares.

    Args:
        x: shape (n,).
        y: shape (n,), or (n, k) for k polynomials.
        deg: the degree, at least 0.
        rcond: singular values below this fraction of the largest count as 0; ``n * eps`` when None.
        w: weights, shape (n,), by which the residuals are multiplied before they are squared.

    Returns:
        Shape (deg + 1,) or (deg + 1, k), in the floating dtype of the arguments, the default one for integers;
        differentiable to any order.

    Raises:
        TypeError: an argument is of a half type.
        ValueError: the shapes do not fit, there are no elements, or the degree is negative.

    >>> import cukern as ck
    >>> x = ck.asarray([0.0, 1.0, 2.0])
    >>> ck.round(polyfit(x, 2 * x + 1, 1), 4).tolist()
    [2.0, 1.0]
    """
    degree = operator.index(deg)
    if degree < 0:
        raise ValueError(f"polyfit: deg: expected at least 0, got {deg}")
    x, y = require_arrays((x, y), "polyfit", ("x", "y"))
    if x.ndim != 1 or not x.size:
        raise ValueError(f"polyfit: x: expected one axis with elements, got shape {x.shape}")
    if y.ndim not in (1, 2) or y.shape[0] != x.shape[0]:
        raise ValueError(f"polyfit: y: expected shape ({x.shape[0]},) or ({x.shape[0]}, k), got {y.shape}")
    wide = x if x.dtype in dtypes.FLOATS else astype(x, dtypes.float64)
    left, right = vander(wide, degree + 1), y if y.dtype in dtypes.FLOATS else astype(y, wide.dtype)
    if w is not None:
        w = require_array(w, "polyfit", "w", x)
        if w.shape != x.shape:
            raise ValueError(f"polyfit: w: expected shape {x.shape}, got {w.shape}")
        left = left * expand_dims(w, 1)
        right = right * (expand_dims(w, 1) if right.ndim == 2 else w)
    scale = sqrt(sum(square(left), 0))  # scale columns to length 1, which the tolerance assumes
    limit = x.shape[0] * float(np.finfo(wide.dtype).eps) if rcond is None else rcond
    found = lstsq(divide(left, scale), right, rcond=limit).x
    made = divide(found, expand_dims(scale, 1) if found.ndim == 2 else scale)
    kinds = [one.dtype for one in (x, y, w) if one is not None]
    return astype(made, dtypes.float_of(*kinds), copy=False)
