"""Memory filled with a number, and copied in C order: the bytes as they are, in one launch each."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from .. import dtypes
from ..device import Device
from ..dtypes import DType
from ..expr import input_node, scalar_node
from ..program import Program, program
from .launch import allocate, run_into

#: What elements of a size are moved as: a half type would lose what NaN carries on its way through float32.
BITS = {1: dtypes.uint8, 2: dtypes.uint16, 4: dtypes.uint32, 8: dtypes.uint64}


@cache
def _copy(bits: DType) -> Program:
    return program("copy", (input_node(0, bits),), (bits,))


@cache
def _fill(bits: DType) -> Program:
    return program("fill", (scalar_node(0, bits),), (), (bits,))


#: Elements from which on NumPy's own copy is slower than a kernel's on the host.
_LARGE = 1 << 21


def in_order(device: Device, data: Any) -> Any:
    """A copy of an ndarray in C order."""
    if device.kind == "host" and data.size < _LARGE:
        return np.array(data, order="C")
    bits, made = BITS[data.dtype.itemsize], allocate(device, data.shape, data.dtype)
    run_into(_copy(bits), device, (data.view(bits),), (), made.view(bits))
    return made


def filled(device: Device, shape: tuple[int, ...], value: Any, dtype: DType) -> Any:
    """A new ndarray whose every element is ``value``, cast as NumPy's ``full`` casts."""
    bits, made = BITS[dtype.itemsize], allocate(device, shape, dtype)
    number = int(np.full((), value, dtype).view(bits))
    run_into(_fill(bits), device, (), (number,), made.view(bits))
    return made
