"""Bits packed into bytes."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from .. import dtypes
from ..array import Array
from ..array.creation import asarray, zeros
from ..elementwise.logic import bitwise_and, bitwise_right_shift
from ..elementwise.operands import normalize_axis, public, require_array
from ..kernel import Kernel
from ..kernel.by_numpy import by_numpy
from ..kernel.plan import allocate, compiled
from ..kernel.sizes import divide_up
from ..shape.joins import concat
from ..shape.views import expand_dims, moveaxis, reshape
from .gather_scatter import WORDS, aligned, launch_2d

__all__ = ["packbits", "unpackbits"]

_PACK = by_numpy("packbits", least=0, most=None, refusals=())(np.packbits)
_UNPACK = by_numpy("unpackbits", least=0, most=None, refusals=())(np.unpackbits)

_PACKBITS = Kernel("index/packbits.cu", block=256)
#: Bytes that a thread packs.
_BYTES = 4

Order = Literal["big", "little"]


def _check(bitorder: Order, name: str) -> None:
    if bitorder not in ("big", "little"):
        raise ValueError(f"{name}: bitorder: expected 'big' or 'little', got {bitorder!r}")


def _bit_shifts(bitorder: Order, x: Array) -> Array:
    """By how much to shift a byte for each of its eight bits."""
    shifts = np.arange(8, dtype=np.uint8)
    return asarray(shifts[::-1].copy() if bitorder == "big" else shifts, device=x.device)


def _with_last(x: Array, axis: int | None, name: str) -> tuple[Array, int]:
    """The array with the axis moved to the end, and the axis counted from 0; flattened without an axis."""
    if axis is None:
        return reshape(x, (-1,)), 0
    axis = normalize_axis(axis, x.ndim, name)
    return moveaxis(x, axis, -1), axis


@public
def packbits(x: Any, /, axis: int | None = None, bitorder: Order = "big") -> Array:
    """Pack elements, taken as bits, along an axis into the bits of uint8; zeros fill up the last byte.

    Args:
        x: an array of bool or integers; all numbers but 0 are a 1.
        axis: the axis; by default that of the flattened array.
        bitorder: whether the first element is a byte's highest bit, or its lowest.

    Raises:
        AxisError: there is no such axis.
        TypeError: the elements are neither bool nor integers.

    >>> import cukern as ck
    >>> ck.packbits([1, 0, 1]).tolist()
    [160]
    """
    x = require_array(x, "packbits")
    if x.dtype.kind not in "biu":
        raise TypeError(f"packbits: x: expected bool or integers, got {x.dtype}")
    _check(bitorder, "packbits")
    where = axis if axis is None else normalize_axis(axis, x.ndim, "packbits")
    if (packed := _PACK(x, where, bitorder)) is not None:
        return packed
    bits, dim = _with_last(x, axis, "packbits")
    return moveaxis(_packed(bits.contiguous(), bitorder), -1, dim)


def _packed(x: Array, bitorder: Order) -> Array:
    """Rows of bits in bytes."""
    device, data, n = x.device, x._data, x.shape[-1]
    result = allocate(device, (*x.shape[:-1], divide_up(n, 8)), dtypes.uint8)
    full = n % (8 * _BYTES) == 0 and aligned(16, x.itemsize, 16, (data,)) == 16
    items = _BYTES if full else 1
    kernel = compiled(
        _PACKBITS, device, block=256, name=f"packbits_{8 * x.itemsize}_{items}", items=items, word=WORDS[x.itemsize],
        align=16 if full else x.itemsize, big=bitorder == "big",
    )  # fmt: skip
    if result.size:
        blocks = divide_up(result.size, 256 * items)
        launch_2d(device, kernel, blocks, 256, data, result, result.size, n, result.shape[-1])
    return Array._wrap(result, device)


@public
def unpackbits(
    x: Any, /, axis: int | None = None, count: int | None = None, bitorder: Order = "big"
) -> Array:
    """The bits of uint8 as elements 0 and 1 of uint8 along an axis, the inverse of :func:`packbits`.

    Args:
        x: an array of uint8.
        axis: the axis; by default that of the flattened array.
        count: how many bits to return along the axis, more with zeros; counted from the end if negative.
        bitorder: whether the first element is a byte's highest bit, or its lowest.

    Raises:
        AxisError: there is no such axis.
        TypeError: the array is not of uint8.

    >>> import cukern as ck
    >>> ck.unpackbits(ck.asarray([160], dtype=ck.uint8), count=3).tolist()
    [1, 0, 1]
    """
    x = require_array(x, "unpackbits")
    if x.dtype != dtypes.uint8:
        raise TypeError(f"unpackbits: x: expected uint8, got {x.dtype}")
    _check(bitorder, "unpackbits")
    where = axis if axis is None else normalize_axis(axis, x.ndim, "unpackbits")
    if (unpacked := _UNPACK(x, where, count, bitorder)) is not None:
        return unpacked
    shifts = _bit_shifts(bitorder, x)
    rows, dim = _with_last(x, axis, "unpackbits")
    bits = bitwise_and(bitwise_right_shift(expand_dims(rows, -1), shifts), 1)
    bits = reshape(bits, (*rows.shape[:-1], rows.shape[-1] * 8))
    if count is not None:
        more = count - bits.shape[-1]
        if more > 0:
            bits = concat([bits, zeros((*bits.shape[:-1], more), dtype=bits.dtype, device=bits.device)], -1)
        else:
            bits = bits[..., :count]
    return moveaxis(bits, -1, dim)
