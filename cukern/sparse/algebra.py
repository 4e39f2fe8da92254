"""Sums and products of sparse matrices with each other, entry by entry and as matrices."""

from __future__ import annotations

from typing import Any

from .. import dtypes
from .. import namespace as ops
from ..array import Array
from ..autodiff import tape
from .structure import Structure, chosen, coalesced, expanded, positions

Entries = tuple[Structure, Array]


def promoted(*xs: Array) -> list[Array]:
    """Values in their common dtype."""
    dtype = dtypes.result_type(*(x.dtype for x in xs))
    return [ops.astype(x, dtype, copy=False) for x in xs]


def added(a: Entries, b: Entries) -> Entries:
    """The sum of two matrices, which has the entries of both."""
    (left, x), (right, y) = a, b
    x, y = promoted(x, y)
    if left is right:
        return left, x + y
    rows, columns = (ops.concat(pair) for pair in ((left.rows, right.rows), (left.indices, right.indices)))
    return coalesced(left.shape, rows, columns, ops.concat((x, y)))


def multiplied(a: Entries, b: Entries) -> Entries:
    """The product entry by entry, which has the entries that both have."""
    (left, x), (right, y) = a, b
    if left is right:
        return left, x * y
    with tape.stop_recording():
        at, there = positions(right, left.keys)
        kept = ops.flatnonzero(there)
        rows, columns = chosen(left.rows, kept), chosen(left.indices, kept)
    result = chosen(x, kept) * chosen(y, chosen(at, kept))
    return Structure.of_rows(left.shape, rows, columns), result


def product(a: Entries, b: Entries) -> Entries:
    """The matrix product: all products of two entries, sorted by position and added up.

    Memory is proportional to the number of those products. The method is ESC: expand, sort, compress (Bell, Dalton and
    Olson, "Exposing fine-grained parallelism in algebraic multigrid methods", 2012).
    """
    (left, x), (right, y) = a, b
    x, y = promoted(x, y)
    with tape.stop_recording():
        owner, at, _ = expanded(right, ops.astype(left.indices, dtypes.int64))
        rows, columns = chosen(left.rows, owner), chosen(right.indices, at)
    return coalesced((left.shape[0], right.shape[1]), rows, columns, chosen(x, owner) * chosen(y, at))


def rows_of(a: Entries, selected: Array) -> Entries:
    """The selected rows, int64 numbers, one below the other."""
    structure, data = a
    owner, at, offsets = expanded(structure, selected)
    with tape.stop_recording():
        result = Structure((selected.size, structure.shape[1]), chosen(structure.indices, at), offsets, owner)
    return result, chosen(data, at)


def at_entries(structure: Structure, x: Array) -> Array:
    """The values of a dense matrix, or of what broadcasts to it, at the entries."""
    if x.ndim > 2:
        raise ValueError(f"sparse: expected at most two axes beside a sparse array, got shape {x.shape}")
    sizes = (1,) * (2 - x.ndim) + x.shape
    if any(size not in (1, whole) for size, whole in zip(sizes, structure.shape, strict=True)):
        raise ValueError(f"sparse: shapes {structure.shape} and {x.shape} do not fit")
    with tape.stop_recording():
        indices: Any = 0
        if sizes[0] > 1:
            indices = ops.astype(structure.rows, dtypes.int64) * sizes[1]
        if sizes[1] > 1:
            indices = structure.indices + indices
        if sizes == (1, 1):
            indices = structure.keys * 0
        indices = ops.astype(indices, dtypes.int64, copy=False)
    return chosen(ops.reshape(x, (-1,)), indices)
