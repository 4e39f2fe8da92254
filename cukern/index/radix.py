"""Least-significant-digit radix sort of long rows, stable, with digits of 8 bits: one read and write per digit.

On a GPU one kernel computes the digit histograms of all passes; then each pass scatters the elements, with the offsets
of its tiles from a decoupled look-back (Adinets and Merrill, "Onesweep: a faster least significant digit radix sort
for GPUs", 2022).
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from .. import dtypes
from ..array import Array
from ..device import Device
from ..device.interface import CompiledFunction, Style
from ..dtypes import DType
from ..kernel import Kernel
from ..kernel.plan import allocate, launch, zeros
from ..kernel.sizes import divide_up

_COUNTS = Kernel("index/radix_counts.cu", block=512)
_PASS = Kernel("index/radix_pass.cu", block=256)
_SERIAL = Kernel("index/radix_serial.cu", block=1)
#: The row length from which indices need 64 bits; below it, sums of a few indices still fit 32 bits, and so do a count
#: and two bits.
_LONGEST_ROW = 2**29
#: Elements of a row from which there are fewer passes over it than merges.
_LONG = 1 << 18
#: The same on the host, per byte of a key.
_HOST_LONG = 32
#: The most elements that a host thread sorts.
_RUN = 1 << 20
#: Values of a digit.
_DIGITS = 256
#: Threads per block of the histogram kernel.
_COUNT_BLOCK = 512
#: Elements in flight per thread of the histogram kernel.
_COUNT_ITEMS = 8
#: The fewest elements per thread of the histogram kernel.
_COUNT_PIECE = 64
#: Blocks of the histogram kernel: four in each of 132 multiprocessors.
_COUNTERS = 528


class Radix(NamedTuple):
    """How threads share the tiles of a pass.

    Attributes:
        block: threads per block, a multiple of 32, at least 256; or 1 for a single thread, which makes all passes over
            a tile, before tiles are merged.
        items: elements per thread of a tile.
        resident: blocks resident per multiprocessor.
    """

    block: int
    items: int
    resident: int = 1

    @property
    def tile(self) -> int:
        """Elements per tile."""
        return self.block * self.items


def radix_for(style: Style, dtype: DType, n: int, indexed: bool) -> Radix | None:
    """The geometry for rows of ``n`` elements; None where merging is faster."""
    if style == "serial":
        return Radix(1, _RUN) if n >= _HOST_LONG * dtype.itemsize else None
    if n < _LONG:
        return None
    widest = max(dtype.itemsize, (4 if n <= _LONGEST_ROW else 8) * indexed)
    if widest == 8:
        return Radix(256, 12, 3 if indexed else 4)
    return Radix(256, 16, 4) if indexed else Radix(384, 16, 3)


def bits_of(dtype: DType) -> DType:
    """The integer dtype that holds the bits of a dtype."""
    kind = "u" if dtypes.info(dtype).kind in "bu" else "i"
    return np.dtype(f"{kind}{dtype.itemsize}")


def index_of(n: int) -> tuple[str, DType]:
    """The C++ type and the dtype of indices in rows of ``n`` elements."""
    return ("long long", dtypes.int64) if n > _LONGEST_ROW else ("int", dtypes.int32)


def key_variables(dtype: DType, stage: str, index: str, indexed: bool, descending: bool) -> dict[str, Any]:
    """The template variables of keys of a dtype."""
    bits = bits_of(dtype)
    what = ("argsort" if indexed else "sort") + ("_descending" if descending else "")
    pair = dtype == dtypes.complex64
    named = dtypes.info(dtype).name if pair or dtype in dtypes.FLOATS else bits.name
    # C++ promotes narrow integers to int.
    width = "long long" if bits.itemsize == 8 else "int"
    return {
        "name": f"{what}_{stage.replace('_', f'_{named}_', 1)}",
        "elem": bits,
        "order": f"unsigned {width}" if bits.kind == "u" and bits.itemsize >= 4 else width,
        "index": index,
        "infinity": dtypes.info(dtypes.float32 if pair else dtype).infinity,
        "pair": pair,
        "indexed": indexed,
        "descending": descending,
    }


@cache
def _counting(device: Device, dtype: DType, index: str, descending: bool) -> CompiledFunction:
    return _bound(device, _COUNTS, dtype, "counts", index, False, descending, _COUNT_BLOCK, _COUNT_ITEMS)


@cache
def _passing(
    device: Device, dtype: DType, index: str, indexed: bool, descending: bool, shape: Radix, last: bool
) -> CompiledFunction:
    index_out = "long long" if last else index
    more = {"resident": shape.resident, "index_out": index_out}
    name = "last" if last and index_out != index else "pass"
    return _bound(device, _PASS, dtype, name, index, indexed, descending, shape.block, shape.items, **more)


@cache
def serial_radix(
    device: Device, dtype: DType, index: str, indexed: bool, descending: bool
) -> CompiledFunction:
    """The kernel by which a thread sorts runs of a row."""
    return _bound(device, _SERIAL, dtype, "runs", index, indexed, descending, 1, 1)


def _bound(
    device: Device,
    kernel: Kernel,
    dtype: DType,
    stage: str,
    index: str,
    indexed: bool,
    descending: bool,
    block: int,
    items: int,
    **more: Any,
) -> CompiledFunction:
    return kernel.bind(
        device,
        **key_variables(dtype, f"{stage}_{block}", index, indexed, descending),
        unsigned=f"unsigned {UNSIGNED[dtype.itemsize]}",
        word="unsigned" if index == "int" else "unsigned long long",
        block=block,
        items=items,
        **more,
    ).function


UNSIGNED = {1: "char", 2: "short", 4: "int", 8: "long long"}


def radix_sorted(x: Array, indexed: bool, descending: bool, shape: Radix) -> tuple[Array, Array | None]:
    """The sorted rows of ``x`` (..., n), in C order, and the indices of their elements in ``x``, in int64."""
    n, device = x.shape[-1], x.device
    index, index_dtype = index_of(n)
    bits, passes = bits_of(x.dtype), x.dtype.itemsize
    keys_out = allocate(device, x.shape, bits)
    indices_out = allocate(device, x.shape, dtypes.int64) if indexed else None
    if x.size:
        rows, tiles = x.size // n, divide_up(n, shape.tile)
        each = 1 + rows * tiles * _DIGITS
        word = dtypes.uint32 if index == "int" else dtypes.uint64
        words = zeros(device, (rows * passes * _DIGITS + passes * each,), word)
        counts, status = words[: rows * passes * _DIGITS], words[rows * passes * _DIGITS :]
        source: Any = x.contiguous()._data.view(bits)
        _count(device, x.dtype, index, descending, source, counts, rows, n)
        keys = _buffers(device, x.shape, bits, keys_out, passes)
        indices = _buffers(device, x.shape, index_dtype, indices_out, passes)
        for k in range(passes):
            last = indexed and k == passes - 1
            function = _passing(device, x.dtype, index, indexed, descending, shape, last)
            pairs = (source, indices[k - 1] if k else None) if indexed else (source,)
            outs = (keys[k], indices[k]) if indexed else (keys[k],)
            pass_status = status[k * each : (k + 1) * each]
            values = (*pairs, *outs, counts, pass_status, rows, n, tiles, k)
            launch(device, function, rows * tiles, shape.block, values)
            source = keys[k]
    values_out = Array._wrap(keys_out.view(x.dtype), device)
    return values_out, Array._wrap(indices_out, device) if indexed else None


def _buffers(device: Device, shape: tuple[int, ...], dtype: DType, last: Any, passes: int) -> list[Any]:
    """The output of each pass, double-buffered: two arrays alternate, and the last pass writes ``last``."""
    if last is None or passes == 1:
        return [last] * passes
    others = [allocate(device, shape, dtype) for _ in range(2 if last.dtype != dtype else 1)]
    pair = [last if last.dtype == dtype else others[0], others[-1]]
    result = [pair[(passes - 1 - k) % 2] for k in range(passes)]
    result[-1] = last
    return result


def _count(
    device: Device, dtype: DType, index: str, descending: bool, bits: Any, counts: Any, rows: int, n: int
) -> None:
    """Launch the histograms of the digits of the keys of each row."""
    function = _counting(device, dtype, index, descending)
    pieces = max(1, min(divide_up(_COUNTERS, rows), n // (_COUNT_BLOCK * _COUNT_PIECE)))
    piece = divide_up(n, pieces)
    launch(
        device,
        function,
        rows * divide_up(n, piece),
        _COUNT_BLOCK,
        (bits, counts, n, divide_up(n, piece), piece),
    )
