"""Launches of ``ufunc.reduceat``: a segmented reduction along an axis by any function of two operands.

Which elements are combined depends only on the starts of the slices, so every run gives the same bits.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

from .. import dtypes
from ..array import Array
from ..device import Device
from ..device.interface import CompiledFunction
from ..dtypes import DType
from ..elementwise.print_cxx import Statement, compute_type
from ..elementwise.row import Row
from ..kernel import Kernel
from ..kernel.plan import allocate, on, threads
from ..kernel.sizes import divide_up, index_type, power_of_two
from .gather_scatter import HOST_PIECE, launch_2d

_FOLD = Kernel("index/fold.cu", block=256)
#: Threads per warp.
_WARP = 32
#: The fewest elements of a slice per thread.
_LEAST = 4


def folded(
    row: Row, x: Array, starts: Any, axis: int, dtype: DType, in_order: bool, block: int | None = None
) -> Array:
    """Combine the elements of slices along an axis.

    Args:
        row: the function, whose operands and result have ``dtype``.
        x: an array, whose elements are cast to ``dtype`` first.
        starts: an int64 ndarray on the device of ``x``: where the slices start.
        axis: the axis.
        dtype: that of the result.
        in_order: whether to combine from left to right; otherwise operands are reordered.
        block: threads per block, 1 or a multiple of 32.
    """
    device, n, count = x.device, x.shape[axis], starts.size
    inner = math.prod(x.shape[axis + 1 :])
    with on(device):
        result = allocate(device, (*x.shape[:axis], count, *x.shape[axis + 1 :]), dtype)
        if result.size:
            block = block or threads(device, 256)
            lanes, piece = 1, max(1, HOST_PIECE * count // n) if block == 1 else 1
            if block > 1 and not in_order:
                # A warp reads neighbouring columns, and where these are few, neighbouring rows.
                lanes = min(
                    _WARP // min(_WARP, power_of_two(inner)), power_of_two(max(1, n // (_LEAST * count)))
                )
            index = index_type((result.size + piece) * lanes, n + _WARP, inner)
            function = _folding(device, row, x.dtype, dtype, in_order, block, lanes, index)
            blocks = divide_up(result.size, block // lanes * piece)
            arrays = (x.contiguous()._data, starts, result)
            launch_2d(device, function, blocks, block, *arrays, result.size, piece, count, n, inner)
    return Array._wrap(result, device)


@cache
def _folding(
    device: Device,
    row: Row,
    elem: DType,
    result: DType,
    in_order: bool,
    block: int,
    lanes: int,
    index: str,
) -> CompiledFunction:
    acc = compute_type(result)
    body = [Statement(acc, "combined", row.print("ab", result))]
    return _FOLD.bind(
        device, name=f"{row.name}_slices_{dtypes.info(elem).name}_{block}", block=block, elem=elem,
        result_type=dtypes.info(result).cxx, acc=acc, what=row.name, body=body, in_order=in_order, lanes=lanes,
        index=index,
    ).function  # fmt: skip
