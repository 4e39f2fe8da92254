"""Addresses and axes of arrays, as :mod:`numpy.lib.array_utils`."""

from __future__ import annotations

from numpy.lib import array_utils
from numpy.lib.array_utils import normalize_axis_tuple

from ..array import Array
from ..array.layout import address
from ..elementwise.operands import require_array
from ..namespace.hints import missing as _missing
from ..ops.slices import reach

__all__ = ["byte_bounds", "normalize_axis_index", "normalize_axis_tuple"]


def byte_bounds(a: Array, /) -> tuple[int, int]:
    """The addresses of the first byte of an array, and of the first one after it.

    >>> import cukern as ck
    >>> low, high = ck.lib.array_utils.byte_bounds(ck.zeros(3, dtype="float32"))
    >>> high - low
    12
    """
    x = require_array(a, "byte_bounds")
    low, high = reach(x.shape, x.strides, x.itemsize)
    start = address(x._data)
    return start + low, start + high


def normalize_axis_index(axis: int, ndim: int, msg_prefix: str | None = None) -> int:
    """An axis counted from the first, of an array with ``ndim`` axes.

    Args:
        axis: from ``-ndim`` to ``ndim - 1``.
        msg_prefix: what the error's message begins with.

    Raises:
        AxisError: there is no such axis.

    >>> normalize_axis_index(-1, 3)
    2
    """
    return array_utils.normalize_axis_index(axis, ndim, msg_prefix)


__getattr__, __dir__ = _missing(__name__, __all__, {}, "numpy.lib.array_utils")
