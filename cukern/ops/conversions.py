"""Numbers as others: phases unwrapped, powers in double precision, complex numbers as real ones and sorted."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import dtypes
from ..array import Array
from ..elementwise.complex_rows import imag
from ..elementwise.function import astype
from ..elementwise.fuse import fuse
from ..elementwise.operands import normalize_axis, public, require_array, require_arrays, require_constant
from ..elementwise.table import abs, pow, remainder, where
from ..index.scan import cumulative_sum
from ..index.sort import sort
from ..reduction.rows import all
from ..shape.joins import concat
from ..shape.views import moveaxis
from .calculus import diff

__all__ = ["float_power", "real_if_close", "sort_complex", "unwrap"]


@public
def float_power(x1: Any, x2: Any, /, *, dtype: npt.DTypeLike | None = None) -> Array:
    """x1 to the power x2 in float64, or complex128, so that negative integer powers are not truncated.

    Args:
        x1: any array or number.
        x2: any array or number.
        dtype: float64 or complex128; by default the latter for complex numbers.

    Raises:
        TypeError: ``dtype`` is another one, or real and an operand complex.

    >>> import cukern as ck
    >>> ck.float_power(ck.asarray([2, 4]), -1).tolist()
    [0.5, 0.25]
    """
    base, power = require_arrays((x1, x2), "float_power", ("x1", "x2"))
    wide = dtypes.result_type(dtypes.float64, base.dtype, power.dtype)
    if dtype is not None:
        wide = dtypes.as_dtype(dtype)
        if wide not in (dtypes.float64, dtypes.complex128):
            raise TypeError(f"float_power: dtype: expected float64 or complex128, got {wide}")
    return _wide_power(base, power, wide)


@fuse(static=["wide"])
def _wide_power(base: Any, power: Any, wide: dtypes.DType) -> Any:
    return pow(astype(base, wide, copy=False), astype(power, wide, copy=False))


@public
def real_if_close(x: Any, /, tol: float = 100) -> Array:
    """The real parts, if all imaginary parts are close to 0, else ``x``; waits for the device.

    Args:
        x: any array.
        tol: the largest absolute value of an imaginary part, if up to 1; above, in units of the dtype's epsilon.

    >>> import cukern as ck
    >>> ck.real_if_close(ck.asarray([2 + 1e-9j])).tolist()
    [2.0]
    """
    a: Array = require_array(x, "real_if_close")
    if a.dtype not in dtypes.COMPLEX:
        return a
    require_constant("real_if_close", tol=tol)
    limit = tol * float(np.finfo(a.dtype).eps) if tol > 1 else tol
    return a.real if all(abs(imag(a)) < limit) else a


@public
def sort_complex(x: Any, /) -> Array:
    """The elements sorted along the last axis, as complex numbers: by their real, then by their imaginary parts.

    >>> import cukern as ck
    >>> ck.sort_complex(ck.asarray([3 - 2j, 1 + 1j, 3 - 3j])).tolist()
    [(1+1j), (3-3j), (3-2j)]
    """
    result: Array = sort(require_array(x, "sort_complex"))
    wanted = result.dtype if result.dtype in dtypes.INEXACT else dtypes.get_default_dtype()
    return astype(result, dtypes.complex_of(wanted), copy=False)


@fuse
def _correction(step: Any, discont: Any, period: Any, low: Any, high: Any, ambiguous: Any) -> Any:
    """What to add to a step so that it is at most half a period."""
    within = remainder(step - low, period) + low
    within = where((ambiguous != 0) & (within == low) & (step > 0), high, within)
    return where(abs(step) < discont, 0, within - step)


@public
def unwrap(p: Any, discont: Any = None, axis: int = -1, *, period: Any = 2 * math.pi) -> Array:
    """Add multiples of ``period`` so that neighbours differ by at most half of it; differentiable.

    Args:
        p: real numbers.
        discont: steps smaller than this stay; half a period when None, which is also the least.
        axis: the axis of neighbours.
        period: a number; an integer keeps the dtype of integers.

    Raises:
        AxisError: there is no such axis.
        GradientError: a tape tracks ``period`` or ``discont``.

    >>> import cukern as ck
    >>> ck.unwrap(ck.asarray([0, 1, 2, -1, 0]), period=4).tolist()
    [0, 1, 2, 3, 4]
    """
    p = require_array(p, "unwrap", "p")
    require_constant("unwrap", period=period, discont=discont)
    rows = moveaxis(p, normalize_axis(axis, p.ndim, "unwrap"), -1)
    whole = dtypes.info(p.dtype).kind in "iu" and isinstance(period, (int, np.integer))
    if not whole:
        rows = astype(rows, dtypes.float_of(p.dtype), copy=False)
    high, rest = divmod(period, 2) if whole else (period / 2, 0)
    ambiguous = not rest
    least = high if discont is None else discont
    steps = diff(rows)
    added = cumulative_sum(
        _correction(steps, least, period, -high, high, int(ambiguous)), axis=-1, dtype=rows.dtype
    )
    result = concat([rows[..., :1], rows[..., 1:] + astype(added, rows.dtype, copy=False)], axis=-1)
    return moveaxis(result, -1, axis)
