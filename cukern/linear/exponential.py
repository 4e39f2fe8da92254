"""The exponential of matrices."""

from __future__ import annotations

import math
from typing import Any

from .. import dtypes
from ..array import Array
from ..array.mapping import leading, mapped
from ..autodiff import tape
from ..elementwise.function import astype
from ..elementwise.fuse import fuse
from ..elementwise.table import abs, ceil, exp2, isfinite, log2, maximum, minimum, where
from ..reduction.rows import max, sum
from ..shape.views import expand_dims
from .lapack import identity, matrices
from .products import matmul

#: The largest 1-norms for which the Taylor polynomials of degree 8 and 18 are exact in a dtype: those of which the
#: relative backward error is half a unit in the last place.
_EXACT = {
    dtypes.float32: (0.58005246276887681, 3.0100663628176343),
    dtypes.float64: (0.049912288711153227, 1.0908637192900362),
}


@mapped(leading)
def expm(x: Array, /) -> Array:
    """The exponentials of square matrices, by scaling, a Taylor polynomial of degree 8 or 18 and squaring.

    Waits for the device, to determine the degree and the number of squarings. Differentiable to any order.

    Args:
        x: shape (..., n, n); integers are computed in the default floating dtype.

    Raises:
        LinAlgError: a matrix is not square.
        TypeError: ``x`` is of a half type.

    Source: Bader, Blanes and Casas, "Computing the matrix exponential with an optimized Taylor polynomial
    approximation", 2019.

    >>> import cukern as ck
    >>> expm(ck.asarray([[0.0, 1.0], [0.0, 0.0]])).tolist()
    [[1.0, 1.0], [0.0, 1.0]]
    """
    a = matrices(x, "expm", square=True)
    if not a.size:
        return astype(a, a.dtype)
    short, long = _EXACT[dtypes.info(a.dtype).real]
    with tape.stop_recording():
        norm = max(sum(abs(a), -2), -1)
        norm = where(isfinite(norm), norm, 0)
        largest = max(norm).item()
        most = math.ceil(math.log2(largest / long)) if largest > long else 0
        if most:
            needed = minimum(ceil(log2(maximum(norm / long, 1))), most)
            squarings = expand_dims(needed, (-2, -1))
            scale = exp2(-squarings)
    one = identity(a.shape[-1], a)
    if largest <= short:
        return _of_degree_8(a, one)
    if not most:
        return _of_degree_18(a, one)
    result = _of_degree_18(a * scale, one)
    for i in range(most):
        result = where(squarings > i, matmul(result, result), result)
    return result


_ROOT = math.sqrt(177)
#: The coefficients of the polynomial of degree 8: x1 to x7, and y2 of the source.
_X3 = 2 / 3
_X1, _X2 = _X3 * (1 + _ROOT) / 88, _X3 * (1 + _ROOT) / 352
_X4, _X5 = (29 * _ROOT - 271) / (315 * _X3), 11 * (_ROOT - 1) / (1260 * _X3)
_X6, _X7 = 11 * (_ROOT - 9) / (5040 * _X3), (89 - _ROOT) / (5040 * _X3**2)
_Y2 = (857 - 58 * _ROOT) / 630


def _of_degree_8(a: Array, one: Array) -> Array:
    """The Taylor polynomial in three products."""
    square = matmul(a, a)
    fourth = matmul(square, _X1 * a + _X2 * square)
    eighth = matmul(_X3 * square + fourth, _X4 * one + _X5 * a + _X6 * square + _X7 * fourth)
    return one + a + _Y2 * square + eighth


def _of_degree_18(a: Array, one: Array) -> Array:
    """The Taylor polynomial in five products."""
    square = matmul(a, a)
    cube = matmul(square, a)
    sixth = matmul(cube, cube)
    b1, b2, b3, b4, b5 = _combined(one, a, square, cube, sixth)
    ninth = matmul(b1, b5) + b4
    result: Array = matmul(b3 + ninth, ninth) + b2
    return result


@fuse
def _combined(one: Any, a: Any, square: Any, cube: Any, sixth: Any) -> tuple[Any, ...]:
    """The polynomials B1 to B5 of the source."""
    return (
        -0.10036558103014462001 * a - 0.00802924648241156960 * square - 0.00089213849804572995 * cube,
        0.39784974949964507614 * a
        + 1.36783778460411719922 * square
        + 0.49828962252538267755 * cube
        - 0.00063789819459472330 * sixth,
        -10.9676396052962062593 * one
        + 1.68015813878906197182 * a
        + 0.05717798464788655127 * square
        - 0.00698210122488052084 * cube
        + 0.00003349750170860705 * sixth,
        -0.09043168323908105619 * one
        - 0.06764045190713819075 * a
        + 0.06759613017704596460 * square
        + 0.02955525704293155274 * cube
        - 0.00001391802575160607 * sixth,
        -0.09233646193671185927 * square - 0.01693649390020817171 * cube - 0.00001400867981820361 * sixth,
    )
