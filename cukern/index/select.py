"""Selection: the first elements of sorted rows, or the middle ones, without sorting the rows."""

from __future__ import annotations

import math
import operator
from functools import cache

from .. import dtypes
from ..array import Array
from ..autodiff import tape
from ..device import Device
from ..device.interface import CompiledFunction
from ..dtypes import DType
from ..elementwise.function import astype
from ..elementwise.operands import public
from ..kernel import Kernel
from ..kernel.plan import allocate, launch
from ..shape.views import moveaxis
from .radix import UNSIGNED, bits_of, index_of, key_variables
from .sort import along, permuted, sorted_along, sorted_rows
from .take import take_along_axis

__all__ = ["topk"]

_SELECT = Kernel("index/select.cu", block=256)
#: Threads of a block, and elements that each has in flight.
_BLOCK, _ITEMS = 256, 4
#: Row lengths between which selecting is faster than sorting, if few rows are at hand; rows that keep a GPU busy.
_SHORTEST, _LONGEST_OF_FEW, _BUSY = 1024, 1 << 15, 132
#: The most bits of a digit; the share of a row up to which selecting its first elements is faster than sorting it.
_WIDTH, _FEW = 11, 0.25


def selects(x: Array) -> bool:
    """Whether the rows of ``x`` (..., n) are such that selecting is faster than sorting."""
    n = x.shape[-1] if x.ndim else 0
    if x.device.style == "serial" or x.dtype in dtypes.COMPLEX or n < _SHORTEST:
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
        unsigned=f"unsigned {UNSIGNED[dtype.itemsize]}",
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
    index, place = index_of(n)
    made = allocate(device, (*x.shape[:-1], k), x.dtype)
    places = allocate(device, made.shape, place)
    bits = bits_of(x.dtype)
    function = _selecting(device, x.dtype, index, descending, False, block)
    values = (x.contiguous()._data.view(bits), made.view(bits), places, n, k)
    launch(device, function, x.size // n, block, values)
    return Array._wrap(made, device), Array._wrap(places, device)


def middle_of_sorted(x: Array, block: int = _BLOCK) -> Array:
    """The elements at (n - 1) // 2 and n // 2 of each sorted row of ``x`` (..., n); the second is NaN if one is.

    Args:
        x: an array that is not complex, with elements.
        block: threads per block, a multiple of 32.

    Returns:
        (..., 2).
    """
    n, device = x.shape[-1], x.device
    made = allocate(device, (*x.shape[:-1], 2), x.dtype)
    bits = bits_of(x.dtype)
    function = _selecting(device, x.dtype, index_of(n)[0], False, True, block)
    values = (x.contiguous()._data.view(bits), made.view(bits), n, (n - 1) // 2 + 1)
    launch(device, function, math.prod(x.shape[:-1]), block, values)
    return Array._wrap(made, device)


@public
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
    >>> values, places = ck.topk(ck.asarray([3, 1, 2]), 2)
    >>> values.tolist(), places.tolist()
    ([3, 2], [0, 2])
    """
    x, place = along(x, axis, "topk")
    count = operator.index(k)
    if not 0 <= count <= x.shape[place]:
        raise ValueError(f"topk: k: expected 0 to {x.shape[place]}, the size of axis {place}, got {k}")
    rows = moveaxis(x, place, -1)
    if 0 < count <= _FEW * rows.shape[-1] and x.size and selects(rows):
        values, places = _selected(rows, count, bool(largest))
        return moveaxis(values, -1, place), moveaxis(places, -1, place)
    values, places = sorted_along(x, place, bool(largest))
    first = (slice(None),) * place + (slice(count),)
    return values[first], places[first]


def _selected(rows: Array, k: int, descending: bool) -> tuple[Array, Array]:
    """The first ``k`` of each sorted row, differentiable, and their indices."""
    with tape.stop_recording():
        few, places = first_of_sorted(rows, k, descending)
        keys, order = sorted_rows(few, True, descending)
        assert order is not None
        places = permuted(astype(places, dtypes.int64), order, "gather")
    return (take_along_axis(rows, places, axis=-1) if tape.recording((rows,)) else keys), places
