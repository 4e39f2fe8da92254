"""The result of all keys from those of parts of the keys, where blocks of a launch share them."""

from __future__ import annotations

import struct
from typing import Any

from ... import dtypes
from ...array import Array
from ...device.interface import Prepared
from ...kernel import Kernel
from ...kernel.plan import on, remember
from ...kernel.sizes import index_type
from .geometry import combining

_COMBINE = Kernel("nn/attention/combine.cu", name="attention_combine")


def steps_of(x: Array) -> tuple[int, ...]:
    """The strides of batch, head and row, in elements."""
    return tuple(step // x.itemsize for step in x._planned().strides[:3])


_combiners: dict[Any, Prepared] = {}


def combine(parts: int, of_parts: Array, statistics_of_parts: Array, made: Array, statistics: Array) -> None:
    """Write the result of all keys, and its statistics, from those of the parts."""
    device, arrays = made.device, (of_parts, statistics_of_parts, made, statistics)
    key = (parts, tuple(one._planned() for one in arrays))
    launch = _combiners.get(key)
    if launch is None:
        _, heads, length, value = made.shape
        lanes, teams = combining(value, device)
        index = index_type(of_parts.size, made.size)
        steps = steps_of(made)
        results = struct.pack("3q3i0q" if index == "long long" else "6i", *steps, parts, heads, length)
        variables = {
            "elem": made.dtype,
            "half": dtypes.info(made.dtype).narrow,
            "index": index,
            "value_size": value,
            "lanes": lanes,
            "teams": teams,
            "block": lanes * teams,
        }
        with on(device):
            function = _COMBINE.bind(device, **variables).function
            prepared = function.prepare((statistics.size // 2, 1, 1), (lanes * teams, 1, 1), 0, (results,))
        launch = remember(_combiners, key, prepared)
    with on(device):
        launch(*(one._operand for one in arrays))
