"""Fit polynomials by least squares."""

from __future__ import annotations

import warnings
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.exceptions import RankWarning

from .. import dtypes
from ..array import Array
from ..elementwise.function import astype
from ..elementwise.operands import public, require_array, require_arrays
from ..elementwise.table import abs, divide, sqrt, square
from ..index.assemble import vander
from ..linear.products import adjoint, matmul, outer
from ..reduction.rows import sum
from ..shape.views import expand_dims

__all__ = ["polyfit"]


class Fit(NamedTuple):
    """What :func:`polyfit` gives with ``full=True``.

    Attributes:
        coefficients: shape (deg + 1,) or (deg + 1, k).
        residuals: the sums of squared residuals, empty if the rank is not ``deg + 1`` or ``n`` is not larger.
        rank: of the matrix of powers, whose columns are scaled to length 1.
        singular_values: of that matrix.
        rcond: the fraction of the largest below which singular values count as 0.
    """

    coefficients: Array
    residuals: Array
    rank: Array
    singular_values: Array
    rcond: float


@public
def polyfit(
    x: Array,
    y: Array,
    /,
    deg: int,
    rcond: float | None = None,
    full: bool = False,
    w: Array | None = None,
    cov: bool | Literal["unscaled"] = False,
) -> Any:
    """The coefficients, the highest first, of the polynomial that fits ``y`` at ``x`` by least squares.

    Args:
        x: shape (n,).
        y: shape (n,), or (n, k) for k polynomials.
        deg: the degree, at least 0; rounded towards 0.
        rcond: singular values below this fraction of the largest count as 0; ``n * eps`` when None.
        full: whether to return a named tuple with the residuals, rank, singular values and ``rcond`` too.
        w: weights, shape (n,), by which the residuals are multiplied before they are squared.
        cov: whether to return also the covariance matrix of the coefficients, (deg + 1, deg + 1) or
            (deg + 1, deg + 1, k), scaled by the residuals unless ``"unscaled"``.

    Returns:
        Shape (deg + 1,) or (deg + 1, k), in the floating dtype of the arguments, the default one for integers;
        differentiable to any order. With ``full`` or ``cov`` a tuple.

    Raises:
        TypeError: an argument is of a half type, or has another shape.
        ValueError: the degree is negative, or there are too few points to scale the covariances.

    Warns:
        RankWarning: on the host, the points do not determine the coefficients, and ``full`` is not set.

    >>> import cukern as ck
    >>> x = ck.asarray([0.0, 1.0, 2.0])
    >>> ck.round(polyfit(x, 2 * x + 1, 1), 4).tolist()
    [2.0, 1.0]
    """
    from ..linear.lapack import inv
    from ..linear.solving import lstsq

    degree = int(deg)
    if degree < 0:
        raise ValueError(f"polyfit: deg: expected at least 0, got {deg}")
    x, y = require_arrays((x, y), "polyfit", ("x", "y"))
    if x.ndim != 1 or not x.size:
        raise TypeError(f"polyfit: x: expected one axis with elements, got shape {x.shape}")
    if y.ndim not in (1, 2) or y.shape[0] != x.shape[0]:
        raise TypeError(f"polyfit: y: expected shape ({x.shape[0]},) or ({x.shape[0]}, k), got {y.shape}")
    if w is not None:
        w = require_array(w, "polyfit", "w", x)
        if w.shape != x.shape:
            raise TypeError(f"polyfit: w: expected shape {x.shape}, got {w.shape}")
    kinds = [one.dtype for one in (x, y, w) if one is not None]
    result = dtypes.inexact_of(*kinds)
    left, right = _system(x, y, w, degree)
    scale = sqrt(sum(square(abs(left)), 0))  # scale columns to length 1, which the tolerance assumes
    limit = x.shape[0] * _epsilon(x) if rcond is None else rcond
    scaled = divide(left, scale)
    solution = lstsq(scaled, right, rcond=limit)
    coefficients = astype(
        divide(solution.x, expand_dims(scale, 1) if right.ndim == 2 else scale), result, copy=False
    )
    if full:
        rest = astype(solution.residuals, result, copy=False)
        return Fit(coefficients, rest, solution.rank, solution.singular_values, limit)
    if x.device.addressable and int(solution.rank) != degree + 1:
        warnings.warn("polyfit: the points do not determine the coefficients", RankWarning, stacklevel=2)
    if not cov:
        return coefficients
    spread = divide(inv(matmul(adjoint(scaled), scaled)), outer(scale, scale))
    if cov != "unscaled":
        spare = x.shape[0] - degree - 1
        if spare <= 0:
            raise ValueError(
                f"polyfit: cov: expected more than {degree + 1} points to scale it, got {x.size}"
            )
        factor = divide(solution.residuals, spare)
        spread = spread * factor if right.ndim == 1 else expand_dims(spread, -1) * factor
    elif right.ndim == 2:
        spread = expand_dims(spread, -1)
    return coefficients, astype(spread, result, copy=False)


def _epsilon(x: Array) -> float:
    return float(np.finfo(x.dtype if x.dtype in dtypes.INEXACT else dtypes.float64).eps)


def _system(x: Array, y: Array, w: Array | None, degree: int) -> tuple[Array, Array]:
    """The powers of ``x``, and ``y``, both times the weights, in double precision: powers are nearly dependent."""
    for one in (x, y):
        if dtypes.info(one.dtype).itemsize == 2 and one.dtype in dtypes.FLOATS:
            raise TypeError(f"polyfit: expected float32, float64 or complex numbers, got {one.dtype}")
    points, values = (
        astype(one, dtypes.complex128 if one.dtype in dtypes.COMPLEX else dtypes.float64, copy=False)
        for one in (x, y)
    )
    powers = vander(points, degree + 1)
    if w is None:
        return powers, values
    return powers * expand_dims(w, 1), values * (expand_dims(w, 1) if values.ndim == 2 else w)
