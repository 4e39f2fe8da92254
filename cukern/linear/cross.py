"""Cross products of vectors."""

from __future__ import annotations

from functools import cache

from .. import dtypes
from ..array import Array
from ..array.creation import zeros_like
from ..array.mapping import leading, mapped
from ..autodiff import tape
from ..device import Device
from ..device.interface import CompiledFunction
from ..dtypes import DType
from ..elementwise.fuse import fuse
from ..elementwise.operands import normalize_axis, public, require_arrays
from ..kernel import Kernel
from ..kernel.plan import allocate, launch, one_device, shares
from ..shape.joins import stack, unstack
from ..shape.views import moveaxis

__all__ = ["cross"]

_CROSS = Kernel("linear/cross.cu", block=256)
#: Vectors of a host thread.
_HOST_PIECE = 8192


@cache
def _crossing(device: Device, dtype: DType, block: int) -> CompiledFunction:
    return _CROSS.bind(
        device, name=f"cross_{dtypes.info(dtype).name}_{block}", elem=dtype, block=block
    ).function


@fuse
def _parts(a0: Array, a1: Array, a2: Array, b0: Array, b1: Array, b2: Array) -> tuple[Array, Array, Array]:
    return a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0


@mapped(leading)
def _joined(a: Array, b: Array) -> Array:
    """The cross products of two arrays (..., 3) of one shape and floating dtype, in one launch."""
    device = one_device("cross", (a, b))
    with tape.stop_recording():
        first, second = a.contiguous(), b.contiguous()
    result = allocate(device, a.shape, a.dtype)
    if result.size:
        n = result.size // 3
        block, piece, blocks = shares(device, n, _HOST_PIECE)
        values = (first._data, second._data, result, n, piece)
        launch(device, _crossing(device, a.dtype, block), blocks, block, values)
    whole = Array._wrap(result, device)
    if tape.recording((a, b)):
        tape.record(
            "cross",
            (a, b),
            (whole,),
            lambda cotangents, saved, needs: (
                cross(saved[1], cotangents[0]) if needs[0] else None,
                cross(cotangents[0], saved[0]) if needs[1] else None,
            ),
            (a, b),
        )
    return whole


@public
def cross(
    x1: Array, x2: Array, /, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> Array:
    """The cross product of vectors of three elements along an axis.

    Args:
        x1: any array. Vectors of two elements are in the plane; two of these give the third element alone.
        x2: any array, likewise.
        axisa: the axis of ``x1``.
        axisb: the axis of ``x2``.
        axisc: the axis of the result.
        axis: sets all three.

    Raises:
        ValueError: the axis has another size, or the shapes do not broadcast.
    """
    x1, x2 = require_arrays((x1, x2), "cross", ("x1", "x2"))
    axes = (axisa, axisb) if axis is None else (axis, axis)
    dims = [normalize_axis(one, x.ndim, "cross") for one, x in zip(axes, (x1, x2), strict=True)]
    for name, x, dim in (("x1", x1, dims[0]), ("x2", x2, dims[1])):
        if x.shape[dim] not in (2, 3):
            raise ValueError(f"cross: {name}: expected 2 or 3 elements along axis {dim}, got shape {x.shape}")
    alike = x1.shape == x2.shape and x1.dtype == x2.dtype and x1.dtype in dtypes.FLOATS
    if alike and x1.shape[-1] == 3 and dims[0] == dims[1] == x1.ndim - 1:
        result = _joined(x1, x2)
    else:
        rows = [list(unstack(x, axis=dim)) for x, dim in zip((x1, x2), dims, strict=True)]
        if len(rows[0]) == len(rows[1]) == 2:
            return rows[0][0] * rows[1][1] - rows[0][1] * rows[1][0]
        parts = [part for row in rows for part in (row if len(row) == 3 else [*row, zeros_like(row[0])])]
        result = stack(list(_parts(*parts)), axis=-1)
    if axis is not None:
        axisc = axis if axis < 0 else dims[0] + result.ndim - x1.ndim
    return moveaxis(result, -1, axisc)
