"""Launches that quantise to blocks, and that dequantise all rows of blocks or those at given indices."""

from __future__ import annotations

import math
from typing import Any

from .. import dtypes
from ..array import Array
from ..kernel import Kernel
from ..kernel.plan import allocate, compiled, launch, on, serial, shares
from ..kernel.sizes import index_type
from .kinds import Kind

_DEQUANTIZE = Kernel("quant/dequantize.cu")
_QUANTIZE = Kernel("quant/quantize.cu")
#: Threads per block.
_THREADS = 256
#: Units of weights that a host thread converts in sequence.
_HOST_PIECE = 512
#: The most bytes of weights that a block dequantises, which are staged in shared memory.
_SHARED = 32 * 1024


def dequantized(
    blocks: Array,
    kind: Kind,
    shape: tuple[int, ...],
    dtype: dtypes.DType,
    indices: Any = None,
) -> Array:
    """The weights of rows of blocks as an array of ``shape``.

    Args:
        blocks: uint8, shape (rows, bytes of a row), contiguous.
        kind: that of the blocks, which are no plain numbers.
        shape: of the result; its last axis is that of a row.
        dtype: of the result, floating.
        indices: the rows, an ndarray, checked or to be clipped; all rows if None.
    """
    device = blocks.device
    row_blocks = shape[-1] // kind.weights
    with on(device):
        result = allocate(device, shape, dtype)
        count = result.size // kind.unit
        if count:
            block, piece, grid = shares(
                device, count, _HOST_PIECE, min(_THREADS, _SHARED // (kind.unit * dtype.itemsize))
            )
            function = compiled(
                _DEQUANTIZE,
                device,
                name=f"dequantize_{kind.header}_{dtypes.info(dtype).name}{'' if indices is None else '_rows'}_{block}",
                block=block,
                kind=kind.header,
                elem=dtype,
                index=index_type(result.size + block * piece),
                index_type="int" if indices is None else dtypes.info(indices.dtype).cxx,
                placed=indices is not None,
                clip=not serial(device),
                serial=serial(device),
            )
            values = (blocks._data, indices, result, count, piece, row_blocks, blocks.shape[0])
            launch(device, function, grid, block, values)
    return Array._wrap(result, device)


def quantized(x: Array, kind: Kind) -> Array:
    """The blocks of an array, uint8: shape (rows, bytes of a row).

    Args:
        x: float32, contiguous; its last axis is a multiple of a block.
        kind: has levels.
    """
    device, count = x.device, x.size // kind.weights
    rows = math.prod(x.shape[:-1])
    with on(device):
        result = allocate(device, (rows, kind.row_bytes(x.shape[-1])), dtypes.uint8)
        if count:
            block, piece, grid = shares(device, count, _HOST_PIECE, _THREADS)
            function = compiled(
                _QUANTIZE,
                device,
                name=f"quantize_{kind.header}_{block}",
                block=block,
                kind=kind.name,
                levels=kind.levels,
                bytes=kind.bytes,
                shifted=kind.shifted,
                index=index_type(count + block * piece),
            )
            launch(device, function, grid, block, (x._data, result, count, piece))
    return Array._wrap(result, device)
