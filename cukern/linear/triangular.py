"""Equations of triangular matrices, by substitution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import dtypes
from ..array import Array
from ..array.array import copied
from ..array.creation import arange, empty
from ..array.mapping import leading, mapped
from ..autodiff import tape
from ..device.cuda.cublas import solve_triangles
from ..elementwise.complex_rows import conj, conjugated
from ..elementwise.fuse import fuse
from ..elementwise.table import where
from ..kernel.plan import on
from ..shape.joins import concat
from ..shape.views import expand_dims, flip, matrix_transpose, tril, triu
from .batched import is_stand_in
from .lapack import equations, identity, library, shaped
from .products import adjoint, matmul

#: The rows of the blocks that the host solves as any matrix; what is outside of them are products.
_BLOCK = 64


def solve_triangular(
    x1: Array, x2: Array, /, *, lower: bool = False, trans: bool = False, unit_diagonal: bool = False
) -> Array:
    """Solve ``x1 @ y = x2`` for ``y``, with triangular ``x1``.

    Args:
        x1: shape (..., n, n); one triangle of each matrix is read.
        x2: shape (..., n, k), or (n,).
        lower: whether to read the lower triangle.
        trans: whether to solve with the transpose of ``x1``.
        unit_diagonal: whether the diagonal consists of ones and is not read.

    Raises:
        DeviceError: the arrays are on different devices.
        LinAlgError: a matrix is not square, or, on the host, singular.
        TypeError: an argument is of a half type.
        ValueError: the shapes do not fit.

    >>> import cukern as ck
    >>> solve_triangular(ck.asarray([[2.0, 1.0], [9.0, 4.0]]), ck.asarray([4.0, 8.0])).tolist()
    [1.0, 2.0]
    """
    a, b = equations(x1, x2, "solve_triangular")
    if not trans:
        return substituted(a, b, lower, unit=unit_diagonal)
    result: Array = conjugated(substituted(a, conjugated(b), lower, True, unit_diagonal))
    return result


def substituted(
    a: Array, b: Array, lower: bool, adjoined: bool = False, unit: bool = False, spare: bool = False
) -> Array:
    """The ``y`` for which ``a @ y``, or ``adjoint(a) @ y``, is ``b``; arguments as of :func:`solve_triangular`.

    Args:
        a: matrices whose dtype is that of ``b``, and whose shape fits.
        b: the right-hand sides.
        lower: whether the lower triangle is read, of ``a`` itself.
        adjoined: whether to solve with the adjoint.
        unit: whether the diagonal consists of ones.
        spare: whether nobody else reads ``b``, so that ``y`` may be written to its memory.
    """
    return shaped("solve_triangular", a, b, lambda a, b: _substituted(a, b, lower, adjoined, unit, spare))


@mapped(leading)
def _substituted(a: Array, b: Array, lower: bool, adjoined: bool, unit: bool, spare: bool) -> Array:
    recorded = tape.recording((a, b))
    with tape.stop_recording():
        if not b.size:
            y = empty(b.shape, b.dtype, b.device)
        elif a.device.addressable or is_stand_in(a.device):
            y = _by_blocks(adjoint(a) if adjoined else a, b, lower != adjoined, unit)
        else:
            y = _by_library(a, b, lower, adjoined, unit, spare and not recorded)
    if recorded:

        def vjp(cotangents: tape.Arrays, saved: tape.Arrays, needs: Sequence[bool]) -> list[Array | None]:
            a, y = saved
            above = substituted(a, cotangents[0], lower, not adjoined, unit)
            left, right = (y, above) if adjoined else (above, y)
            return [_less_product(left, right, lower, unit) if needs[0] else None, above]

        tape.record("solve_triangular", (a, b), (y,), vjp, (a, y))
    return y


def _less_product(left: Array, right: Array, lower: bool, unit: bool) -> Array:
    """The triangle of ``-left @ adjoint(right)``, without the diagonal if that is not read."""
    n = left.shape[-2]
    triangle, edge = (tril, -1) if lower else (triu, 1)
    if left.shape[-1] > 1:
        return triangle(matmul(-left, adjoint(right)), k=edge if unit else 0)
    numbers = arange(n, device=left.device)
    result: Array = _outer(-left, adjoint(right), expand_dims(numbers, 1), numbers, lower, unit)
    return result


@fuse(static=("lower", "unit"))
def _outer(left: Any, right: Any, rows: Any, columns: Any, lower: bool, unit: bool) -> Any:
    high, low = (rows, columns) if lower else (columns, rows)
    return where(high > low if unit else high >= low, left * right, 0)


#: Right-hand sides of which a transposed copy takes no time.
_FEW = 32


def _by_library(a: Array, b: Array, lower: bool, adjoined: bool, unit: bool, spare: bool) -> Array:
    """The library solves with a matrix or its transpose; the adjoint of a complex one is the conjugate of that.

    It takes triangles and right-hand sides as they lie, in rows or in columns, and the result lies as these do.
    """
    n = a.shape[-1]
    by_columns = matrix_transpose(a).is_contiguous
    left = (matrix_transpose(a) if by_columns else a.contiguous())._data.reshape(-1, n, n)
    b = conjugated(b) if adjoined else b
    rows = matrix_transpose(b)
    of_rows = rows.is_contiguous or b.shape[-1] <= _FEW
    given = rows if of_rows else b
    y = (
        given
        if spare and given.is_contiguous
        else copied(given)
        if given.is_contiguous
        else given.contiguous()
    )
    with on(a.device):
        right = y._data.reshape(-1, *y.shape[-2:])
        lower, transposed = lower != by_columns, adjoined != by_columns
        solve_triangles(a.device.xp, left, right, lower, transposed, unit, of_rows)
    result = matrix_transpose(y) if of_rows else y
    return conj(result) if adjoined and result.dtype in dtypes.COMPLEX else result


def _by_blocks(a: Array, b: Array, lower: bool, unit: bool) -> Array:
    """Solve by halves of the rows, the second after products with the first are subtracted."""
    n = a.shape[-1]
    if n <= _BLOCK:
        return _by_elimination(a, b, lower, unit)
    half = n // 2
    first, last = (..., slice(half), slice(None)), (..., slice(half, None), slice(None))
    corners = a[first][..., :half], a[last][..., half:]
    if lower:
        top = _by_blocks(corners[0], b[first], True, unit)
        return concat(
            [top, _by_blocks(corners[1], b[last] - matmul(a[last][..., :half], top), True, unit)], -2
        )
    low = _by_blocks(corners[1], b[last], False, unit)
    return concat(
        [_by_blocks(corners[0], b[first] - matmul(a[first][..., half:], low), False, unit), low], -2
    )


def _by_elimination(a: Array, b: Array, lower: bool, unit: bool) -> Array:
    triangle = (tril if lower else triu)(a, k=(-1 if lower else 1) if unit else 0)
    if unit:
        triangle = triangle + identity(a.shape[-1], a)
    if not lower:
        return library(triangle, "solve", b)[0]
    # Reversed, a lower triangle is an upper one, in which elimination has nothing to do and swaps no rows.
    return flip(library(flip(triangle, axis=(-2, -1)), "solve", flip(b, axis=-2))[0], axis=-2)
