"""Nested lists that contain arrays, stacked to one array."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import dtypes
from ..array import Array
from ..array.batched import level_of
from ..array.creation import asarray, full
from ..array.host_data import holds_array
from ..array.operators import FUNCTIONS
from ..autodiff import tape
from ..device import Device
from ..elementwise.function import astype
from ..kernel.by_numpy import by_numpy
from .joins import stack


def _leaves(items: Any) -> Iterator[Any]:
    for item in items:
        if isinstance(item, (list, tuple)):
            yield from _leaves(item)
        else:
            yield item


def _plain(items: Any) -> Any:
    """Nested lists and tuples as lists, with NumPy arrays for the arrays in them."""
    if isinstance(items, (list, tuple)):
        return [_plain(item) for item in items]
    return items.numpy() if isinstance(items, Array) else items


def _stacked(items: Any, dtype: dtypes.DType, device: Device) -> Array:
    if isinstance(items, (list, tuple)) and holds_array(items):
        parts = [_stacked(item, dtype, device) for item in items]
        if any(part.shape != parts[0].shape for part in parts):
            shapes = ", ".join(str(part.shape) for part in parts)
            raise ValueError(f"obj: expected arrays and lists of one shape in a list, got shapes {shapes}")
        return stack(parts)
    if isinstance(items, Array):
        return astype(asarray(items, device=device), dtype, copy=False)
    if isinstance(items, (bool, int, float, complex)):
        return full((), items, dtype, device)  # does not wait for the GPU
    return asarray(items, dtype, device)


@by_numpy("asarray of lists", refusals=(), why="one pass over items on the host")
def _joined(items: Any, dtype: dtypes.DType) -> Any:
    return np.asarray(_plain(items)).astype(dtype, copy=False)


def assembled(items: Any, dtype: dtypes.DType | None, device: Device | None) -> Array:
    """Stack nested lists that contain arrays; numbers in them take the arrays' dtype.

    Args:
        items: lists and tuples of arrays, numbers and such lists.
        dtype: that of the result; the promoted dtype of the items when None.
        device: that of the result; the device of the first array when None.

    Raises:
        ValueError: the parts of a list have different shapes.
    """
    leaves = list(_leaves(items))
    arrays = [leaf for leaf in leaves if isinstance(leaf, Array)]
    where = arrays[0].device if device is None else device
    wanted = dtypes.result_type(*leaves) if dtype is None else dtype
    if (
        level_of(arrays) is None
        and not tape.recording(arrays)
        and (made := _joined(where, items, wanted)) is not None
    ):
        return made
    return _stacked(items, wanted, where)


FUNCTIONS["assembled"] = assembled
