"""Radix selection: the first elements of sorted rows, or the middle ones, without sorting the rows."""

from __future__ import annotations

import math
import operator
from functools import cache

from .. import dtypes
from ..array import Array
from ..array.mapping import mapped, over_axis
from ..autodiff import tape
from ..device import Device
from ..device.interface import CompiledFunction
from ..dtypes import DType
from ..elementwise.function import astype
from ..elementwise.operands import public
from ..kernel import Kernel
from ..kernel.plan import allocate, launch, serial
from ..shape.views import moveaxis
from .sort import along, permuted, sorted_along, sorted_rows
from .sort_keys import UNSIGNED, index_of, key_variables
from .take import take_along_axis

__all__ = ["topk"]

_SELECT = Kernel("index/select.cu", block=256)
#: Threads per block.
_BLOCK = 256
#: Elements in flight per thread.
_ITEMS = 4
#: Elements per row from which selecting is faster than sorting.
_SHORTEST = 1024
#: The same up to which it is, if there are fewer rows than ``_BUSY``.
_LONGEST_OF_FEW = 1 << 15
#: Rows that keep a GPU busy, one block each.
_BUSY = 132
#: The most bits of a digit.
_WIDTH = 11
#: The share of a row up to which selecting its first elements is faster than sorting it.
_FEW = 0.25


def selects(x: Array) -> bool:
    """Whether the rows of ``x`` (..., n) are such that selecting is faster than sorting."""
    n = x.shape[-1] if x.ndim else 0
    if serial(x.device) or x.dtype in dtypes.COMPLEX or n < _SHORTEST:
        return False
    return n <= _LONGEST_OF_FEW or x.size // n >= _BUSY


@cache
def _selecting(
    device: Device, dtype: DType, index: str, descending: bool, middle: bool, block: int
) -> CompiledFunction:
    width = min(_WIDTH, 8 * dtype.itemsize)
    variables = key_variables(
        dtype, f"{'middle' if middle else 'select'}_{block}", index, not middle, descending
    )
    return _SELECT.bind(
        device,
        **variables,
        unsigned=UNSIGNED[dtype.itemsize],
        middle=middle,
        block=block,
        items=_ITEMS,
        width=width,
        digits=2**width,
    ).function


def first_of_sorted(x: Array, k: int, descending: bool, block: int = _BLOCK) -> tuple[Array, Array]:
    """The first ``k`` of each sorted row of ``x`` (..., n), but in the order of ``x``, and where they stand there.

    Args:
        x: an array that is not complex, with elements.
        k: 1 to n.
        descending: whether the rows are sorted in descending order.
        block: threads per block, a multiple of 32.

    Returns:
        The elements, (..., k), and their indices in int32, or int64 in very long rows.
    """
    n, device = x.shape[-1], x.device
    index, index_dtype = index_of(n)
    result = allocate(device, (*x.shape[:-1], k), x.dtype)
    indices = allocate(device, result.shape, index_dtype)
    function = _selecting(device, x.dtype, index, descending, False, block)
    launch(device, function, x.size // n, block, (x.contiguous(), result, indices, n, k))
    return Array._wrap(result, device), Array._wrap(indices, device)


def middle_of_sorted(x: Array, block: int = _BLOCK) -> Array:
    """The elements at (n - 1) // 2 and n // 2 of each sorted row of ``x`` (..., n); the second is NaN if one is.

    Args:
        x: an array that is not complex, with elements.
        block: threads per block, a multiple of 32.

    Returns:
        (..., 2).
    """
    n, device = x.shape[-1], x.device
    result = allocate(device, (*x.shape[:-1], 2), x.dtype)
    function = _selecting(device, x.dtype, index_of(n)[0], False, True, block)
    launch(device, function, math.prod(x.shape[:-1]), block, (x.contiguous(), result, n, (n - 1) // 2 + 1))
    return Array._wrap(result, device)


@public
@mapped(over_axis("axis"))
def topk(x: Array, /, k: int, axis: int | None = -1, *, largest: bool = True) -> tuple[Array, Array]:
    """The ``k`` largest or smallest elements along an axis, sorted, and their indices.

    Args:
        x: any array. NaN counts as larger than any number.
        k: the number of elements, at most the size of the axis.
        axis: the axis; None searches the flattened array.
        largest: True for the largest in descending order, False for the smallest in ascending order.

    Returns:
        The values, which are differentiable, and their indices in int64; equal elements keep their order.

    Raises:
        AxisError: there is no such axis.
        ValueError: there are fewer than ``k`` elements.

    >>> import cukern as ck
    >>> values, indices = ck.topk(ck.asarray([3, 1, 2]), 2)
    >>> values.tolist(), indices.tolist()
    ([3, 2], [0, 2])
    """
    x, axis = along(x, axis, "topk")
    count = operator.index(k)
    if not 0 <= count <= x.shape[axis]:
        raise ValueError(f"topk: k: expected 0 to {x.shape[axis]}, the size of axis {axis}, got {k}")
    rows = moveaxis(x, axis, -1)
    if 0 < count <= _FEW * rows.shape[-1] and x.size and selects(rows):
        values, indices = _selected(rows, count, bool(largest))
        return moveaxis(values, -1, axis), moveaxis(indices, -1, axis)
    values, indices = sorted_along(x, axis, bool(largest))
    first = (slice(None),) * axis + (slice(count),)
    return values[first], indices[first]


def _selected(rows: Array, k: int, descending: bool) -> tuple[Array, Array]:
    """The first ``k`` of each sorted row, differentiable, and their indices."""
    with tape.stop_recording():
        few, indices = first_of_sorted(rows, k, descending)
        keys, order = sorted_rows(few, True, descending)
        indices = permuted(astype(indices, dtypes.int64), order, "gather")
    return (take_along_axis(rows, indices, axis=-1) if tape.recording((rows,)) else keys), indices
