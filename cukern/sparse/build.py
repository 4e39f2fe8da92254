"""The structure and values of sparse arrays from a user's arguments: checked, sorted, duplicates added up."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import dtypes
from .. import namespace as ops
from ..array import Array
from ..array.creation import arange, asarray, full, zeros
from ..array.creation import device_of as devices_of
from ..autodiff import tape
from ..device import Device
from ..elementwise.operands import require_array
from .products import Blocks
from .structure import Structure, added, chosen, coalesced, rising

Parts = tuple[Structure, Blocks, Array]


def is_scipy(value: object) -> bool:
    """Whether ``value`` is a sparse array or matrix of SciPy or CuPy."""
    return type(value).__module__.startswith(("scipy.sparse", "cupyx.scipy.sparse"))


def shape_of(name: str, given: Any) -> tuple[int, int]:
    """A shape that a user gives.

    Raises:
        ValueError: it is not that of a matrix.
    """
    try:
        sizes = tuple(operator.index(size) for size in given)
    except TypeError:
        sizes = ()
    if len(sizes) != 2 or min(sizes) < 0:
        raise ValueError(f"{name}: shape: expected two numbers of at least 0, got {given!r}")
    if sizes[0] * sizes[1] >= 2**63:
        raise ValueError(f"{name}: shape: a matrix of {sizes} has too many elements")
    return sizes[0], sizes[1]


def is_shape(value: object) -> bool:
    """Whether a tuple is a shape and not arrays."""
    return (
        isinstance(value, tuple) and len(value) == 2 and all(isinstance(x, (int, np.integer)) for x in value)
    )


def values_of(name: str, data: Any, dtype: Any, device: Device | None, axes: int) -> Array:
    """The values of entries as an array of numbers."""
    wanted = None if dtype is None else dtypes.as_dtype(dtype)
    result = data if isinstance(data, Array) else asarray(data, wanted, device)
    if device is not None:
        result = result.to_device(device)
    if wanted is not None:
        result = ops.astype(result, wanted, copy=False)
    if result.dtype == dtypes.bool_:
        raise TypeError(f"{name}: data: expected numbers, got bool")
    if result.ndim != axes:
        raise ValueError(f"{name}: data: expected {axes} axes, got shape {result.shape}")
    return result


def places_of(name: str, argument: str, given: Any, beside: Array) -> Array:
    """Integers as an int64 vector on the device of other arrays, in memory of its own."""
    result = require_array(given, name, argument, beside).to_device(beside.device)
    if result.size == 0 and not isinstance(given, Array):
        result = ops.astype(result, dtypes.int64)
    if dtypes.info(result.dtype).kind not in "iu":
        raise TypeError(f"{name}: {argument}: expected integers, got {result.dtype}")
    if result.ndim != 1:
        raise ValueError(f"{name}: {argument}: expected one axis, got shape {result.shape}")
    return ops.astype(result, dtypes.int64)


def _size(indices: Array) -> int:
    return int(ops.max(indices).item()) + 1 if indices.size else 0


def _in_range(name: str, argument: str, indices: Array, size: int) -> None:
    if not indices.size:
        return
    low, high = int(ops.min(indices).item()), int(ops.max(indices).item())
    if low < 0 or high >= size:
        raise ValueError(
            f"{name}: {argument}: expected numbers from 0 to {size - 1}, got {low if low < 0 else high}"
        )


def of_entries(name: str, data: Any, coords: Any, shape: Any, dtype: Any, device: Device | None) -> Parts:
    """A matrix of entries ``(data, (row, col))`` in any order.

    Raises:
        TypeError: rows and columns are not integers, or the data are not numbers.
        ValueError: sizes differ, or a number is out of range.
    """
    if not isinstance(coords, (tuple, list)) or len(coords) != 2:
        raise ValueError(
            f"{name}: expected (data, (row, col)), got {type(coords).__name__} in place of (row, col)"
        )
    values = values_of(name, data, dtype, device or devices_of([data, *coords]), 1)
    with tape.stop_recording():
        rows, columns = (
            places_of(name, argument, one, values)
            for argument, one in zip(("row", "col"), coords, strict=True)
        )
        if not rows.size == columns.size == values.size:
            raise ValueError(
                f"{name}: expected data, row and col of one length, got {values.size}, {rows.size} and {columns.size}"
            )
        sizes = (_size(rows), _size(columns)) if shape is None else shape_of(name, shape)
        _in_range(name, "row", rows, sizes[0])
        _in_range(name, "col", columns, sizes[1])
    structure, values = coalesced(sizes, rows, columns, values)
    return structure, (1, 1), values


def of_pointers(
    name: str, given: Sequence[Any], shape: Any, dtype: Any, device: Device | None, blocks: bool = False
) -> Parts:
    """A matrix of ``(data, indices, indptr)``, the columns of whose rows may be in any order.

    Raises:
        TypeError: indices or offsets are not integers, or the data are not numbers.
        ValueError: sizes do not fit, a column is out of range, or the offsets are not in rising order.
    """
    data, indices, indptr = given
    values = values_of(name, data, dtype, device or devices_of(given), 3 if blocks else 1)
    size = (values.shape[1], values.shape[2]) if blocks else (1, 1)
    if min(size) < 1:
        raise ValueError(
            f"{name}: data: expected blocks of at least one row and column, got shape {values.shape}"
        )
    with tape.stop_recording():
        columns = places_of(name, "indices", indices, values)
        offsets = places_of(name, "indptr", indptr, values)
        if columns.size != values.shape[0]:
            raise ValueError(
                f"{name}: indices: expected {values.shape[0]}, one for each entry of data, got {columns.size}"
            )
        sizes = _sizes(name, shape, size, columns, offsets)
        _check_offsets(name, offsets, columns.size)
        _in_range(name, "indices", columns, sizes[1])
        structure = Structure(sizes, columns, offsets)
        if rising(structure.keys):
            return structure, size, values
        rows = structure.rows
    structure, values = coalesced(sizes, rows, columns, values)
    return structure, size, values


def _sizes(name: str, shape: Any, blocks: Blocks, columns: Array, offsets: Array) -> tuple[int, int]:
    """Rows and columns of blocks."""
    if not offsets.size:
        raise ValueError(f"{name}: indptr: expected at least one offset, got none")
    rows = offsets.size - 1
    if shape is None:
        return rows, _size(columns)
    sizes = shape_of(name, shape)
    if sizes[0] % blocks[0] or sizes[1] % blocks[1]:
        raise ValueError(f"{name}: shape: expected multiples of the blocks' {blocks}, got {sizes}")
    if sizes[0] // blocks[0] != rows:
        raise ValueError(
            f"{name}: indptr: expected {sizes[0] // blocks[0] + 1} offsets for shape {sizes}, got {offsets.size}"
        )
    return rows, sizes[1] // blocks[1]


def _check_offsets(name: str, offsets: Array, count: int) -> None:
    first, last = int(offsets[0].item()), int(offsets[offsets.size - 1].item())
    if first != 0 or last != count:
        raise ValueError(f"{name}: indptr: expected offsets from 0 to {count}, got {first} to {last}")
    if bool(ops.any(offsets[1:] < offsets[:-1]).item()):
        raise ValueError(f"{name}: indptr: expected rising offsets, got one less than that before")


def of_dense(name: str, given: Any, dtype: Any, device: Device | None) -> Parts:
    """The entries of a dense matrix that are not 0; waits for the device."""
    values = values_of(name, given, dtype, device, 2)
    with tape.stop_recording():
        flat = ops.flatnonzero(values)
        columns = max(1, values.shape[1])
        rows = ops.floor_divide(flat, columns)
        structure = Structure.of_rows((values.shape[0], values.shape[1]), rows, flat - rows * columns)
    return structure, (1, 1), chosen(ops.reshape(values, (-1,)), flat)


def of_nothing(shape: tuple[int, int], blocks: Blocks, dtype: Any, device: Device | None) -> Parts:
    """A matrix without entries."""
    wanted = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    inner = () if blocks == (1, 1) else blocks
    data = zeros((0, *inner), dtype=wanted, device=device)
    none = zeros(0, dtype=dtypes.int64, device=data.device)
    structure = Structure.of_rows((shape[0] // blocks[0], shape[1] // blocks[1]), none, none)
    return structure, blocks, data


def in_blocks(structure: Structure, data: Array, blocks: Blocks) -> Parts:
    """The matrix in blocks, of which those are kept that have an entry; waits for the device."""
    height, width = blocks
    shape = (structure.shape[0] // height, structure.shape[1] // width)
    with tape.stop_recording():
        rows, columns = (ops.astype(x, dtypes.int64) for x in (structure.rows, structure.indices))
        block_rows, block_columns = rows // height, columns // width
        keys = block_rows * max(1, shape[1]) + block_columns
        order = ops.argsort(keys)
        ordered = chosen(keys, order)
        fresh = ops.concat([full(min(1, keys.size), True, device=keys.device), ordered[1:] != ordered[:-1]])
        firsts = ops.flatnonzero(fresh)
        number = ops.cumulative_sum(ops.astype(fresh, dtypes.int64)) - 1
        inside = (rows % height) * width + columns % width
        indices = number * (height * width) + chosen(inside, order)
        first = chosen(order, firsts)
        result = Structure.of_rows(shape, chosen(block_rows, first), chosen(block_columns, first))
    flat = added(chosen(data, order), indices, firsts.size * height * width)
    return result, blocks, ops.reshape(flat, (firsts.size, height, width))


def out_of_blocks(structure: Structure, blocks: Blocks, data: Array) -> Parts:
    """The matrix with each number of each block as an entry."""
    if blocks == (1, 1):
        return structure, blocks, ops.reshape(data, (-1,))
    height, width = blocks
    shape = (structure.shape[0] * height, structure.shape[1] * width)
    with tape.stop_recording():
        indices = (structure.rows, structure.indices)
        rows, columns = (ops.reshape(ops.astype(x, dtypes.int64), (-1, 1, 1)) for x in indices)
        down = ops.reshape(arange(height, device=rows.device), (1, -1, 1))
        across = ops.reshape(arange(width, device=rows.device), (1, 1, -1))
        flat = [
            ops.reshape(ops.broadcast_to(x, (structure.count, height, width)), (-1,))
            for x in (rows * height + down, columns * width + across)
        ]
        order = ops.argsort(flat[0] * shape[1] + flat[1])
        result = Structure.of_rows(shape, chosen(flat[0], order), chosen(flat[1], order))
    return result, (1, 1), chosen(ops.reshape(data, (-1,)), order)
