"""Matrix products, through the device's BLAS."""

from __future__ import annotations

import math
from typing import Any

from .. import dtypes, tape
from ..array import Array
from ..errors import DeviceError
from .axes import on_device, public, require_array
from .elementwise import astype
from .manipulate import expand_dims, reshape, squeeze, swapaxes
from .reduce import sum

__all__ = ["matmul", "vecdot"]


@on_device
def _product(a: Array, b: Array) -> Array:
    """The product of two arrays of one dtype; half types by float32 where the library has no such product."""
    xp, dtype = a.device.xp, a.dtype
    if dtype == dtypes.bfloat16 or (dtype == dtypes.float16 and a.device.kind == "host"):
        with tape.stop_recording():
            return astype(_product(astype(a, dtypes.float32), astype(b, dtypes.float32)), dtype)
    return Array._wrap(xp.matmul(a._data, b._data), a.device)


@public
def matmul(x1: Array, x2: Array, /) -> Array:
    """The matrix product, over the last two axes; the axes before them broadcast.

    Args:
        x1: shape (..., m, k), or (k,) for a row.
        x2: shape (..., k, n), or (k,) for a column.

    Returns:
        Shape (..., m, n), without the axis that a one-axis operand lacks. float16 and bfloat16 products
        accumulate in float32.

    Raises:
        ValueError: an operand has no axis, or the shapes do not fit.
        DeviceError: the operands are on different devices.
    """
    require_array(x1, "matmul", "x1")
    require_array(x2, "matmul", "x2")
    if x1.device is not x2.device:
        raise DeviceError(f"matmul: expected arrays on one device, got {x1.device} and {x2.device}")
    if not x1.ndim or not x2.ndim:
        raise ValueError(f"matmul: expected at least one axis each, got shapes {x1.shape} and {x2.shape}")
    dtype = dtypes.result_type(x1.dtype, x2.dtype)
    a, b = astype(x1, dtype, copy=False), astype(x2, dtype, copy=False)
    if a.ndim == 1:
        return squeeze(matmul(expand_dims(a, 0), b), -2 if b.ndim > 1 else 0)
    if b.ndim == 1:
        return squeeze(matmul(a, expand_dims(b, 1)), -1)
    if a.shape[-1] != b.shape[-2]:
        raise ValueError(
            f"matmul: shapes {x1.shape} and {x2.shape} do not fit: {a.shape[-1]} is not {b.shape[-2]}"
        )
    try:
        made = _product(a, b)
    except ValueError:
        raise ValueError(f"matmul: shapes {x1.shape} and {x2.shape} do not broadcast") from None
    if tape.recording((a, b)):
        flat = b.ndim == 2
        saved = (a if tape.recording((b,)) else None, b if tape.recording((a,)) else None)

        def vjp(cotangents: Any, saved: Any, needs: object) -> list[Array | None]:
            (g,), (a, b) = cotangents, saved
            left = None if b is None else matmul(g, swapaxes(b, -2, -1))
            return [left, None if a is None else _right_cotangent(a, g, flat)]

        tape.record("matmul", (a, b), (made,), vjp, saved)
    return made


def _right_cotangent(a: Array, g: Array, flat: bool) -> Array:
    """The cotangent of the right operand: one product over all rows where that had no batch axes."""
    if flat and a.ndim > 2:
        rows = math.prod(a.shape[:-1])
        a, g = reshape(a, (rows, a.shape[-1])), reshape(g, (rows, g.shape[-1]))
    return matmul(swapaxes(a, -2, -1), g)


@public
def vecdot(x1: Array, x2: Array, /, *, axis: int = -1) -> Array:
    """The sum of products along an axis of both.

    Raises:
        ValueError: the shapes do not broadcast.
    """
    return sum(x1 * x2, axis)
