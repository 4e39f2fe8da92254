"""The positions of a sparse matrix's entries (CSR indices and offsets), and what follows from them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .. import dtypes
from .. import namespace as ops
from ..array import Array
from ..array.creation import arange, full
from ..autodiff import tape
from ..device import Device
from ..index.gather_scatter import gathered
from ..index.take import gather
from ..kernel.sizes import LARGEST_INDEX


def place_dtype(*sizes: int) -> dtypes.DType:
    """The dtype of indices up to each of ``sizes``."""
    return np.dtype(np.int32) if max(sizes) <= LARGEST_INDEX else dtypes.int64


class LongRows(NamedTuple):
    """Rows that are cut into parts.

    Attributes:
        rows: their numbers, (count,), int64.
        firsts: the index of the first part of each row, then the number of parts, (count + 1,), int64.
        parts: the number of parts.
        owners: for each part the index of its row in ``rows``, (parts,), int64.
    """

    rows: Array
    firsts: Array
    parts: int
    owners: Array


def _kept(indices: Array, dtype: dtypes.DType) -> Array:
    """Indices that kernels trust without a check: their memory is constant from here on."""
    with tape.stop_recording():
        result = ops.astype(indices, dtype, copy=False).contiguous()
    result._storage.constant = True
    return result


class Structure:
    """The positions of entries, sorted by row and then by column, no two the same. Constant: arrays share it.

    Of a matrix of blocks, rows and columns are those of blocks.

    Attributes:
        shape: rows and columns.
        indices: the column of each entry, (nnz,).
        offsets: where the entries of each row begin, and the end of the last, (rows + 1,).
    """

    __slots__ = ("_long", "_rows", "_transposed", "indices", "offsets", "shape")

    def __init__(
        self, shape: tuple[int, int], indices: Array, offsets: Array, rows: Array | None = None
    ) -> None:
        dtype = place_dtype(*shape, indices.size)
        self.shape = shape
        self.indices, self.offsets = _kept(indices, dtype), _kept(offsets, dtype)
        self._rows = None if rows is None else _kept(rows, dtype)
        self._transposed: tuple[Structure, Array] | None = None
        self._long: dict[tuple[int, int], LongRows | None] = {}

    @classmethod
    def of_rows(cls, shape: tuple[int, int], rows: Array, columns: Array) -> Structure:
        """The structure of entries that are sorted already."""
        with tape.stop_recording():
            ends = numbered(shape[0] + 1, rows.device)
            offsets = ops.searchsorted(ops.astype(rows, dtypes.int64, copy=False), ends)
        return cls(shape, columns, offsets, rows)

    @property
    def device(self) -> Device:
        """The device."""
        return self.indices.device

    @property
    def count(self) -> int:
        """The number of entries."""
        return self.indices.size

    @property
    def rows(self) -> Array:
        """The row of each entry, (nnz,)."""
        if self._rows is None:
            with tape.stop_recording():
                result = ops.searchsorted(self.offsets[1:], numbered(self.count, self.device), side="right")
                self._rows = _kept(result, self.indices.dtype)
        return self._rows

    @property
    def keys(self) -> Array:
        """The index of each entry in the flattened matrix, int64."""
        with tape.stop_recording():
            return ops.astype(self.rows, dtypes.int64) * self.shape[1] + self.indices

    @property
    def transposed(self) -> tuple[Structure, Array]:
        """The structure of the transpose, and the entries in its order, int64."""
        if self._transposed is None:
            with tape.stop_recording():
                order = ops.argsort(self.indices)
                result = Structure.of_rows(
                    (self.shape[1], self.shape[0]), chosen(self.indices, order), chosen(self.rows, order)
                )
                self._transposed = result, order
                result._transposed = self, ops.argsort(order)
        return self._transposed

    def long_rows(self, longest: int, part: int) -> LongRows | None:
        """The rows of more than ``longest`` entries, cut into parts; None if there are none.

        Waits for the device when it is first called.
        """
        if (longest, part) not in self._long:
            with tape.stop_recording():
                offsets = ops.astype(self.offsets, dtypes.int64)
                lengths = offsets[1:] - offsets[:-1]
                rows = ops.flatnonzero(lengths > longest)
                long = None
                if rows.size:
                    counts = (chosen(lengths, rows) + (part - 1)) // part
                    firsts = ops.cumulative_sum(counts, include_initial=True)
                    parts = int(firsts[rows.size].item())
                    numbers = numbered(parts, self.device)
                    owners = ops.searchsorted(firsts, numbers, side="right") - 1
                    long = LongRows(rows, firsts, parts, owners)
                self._long[longest, part] = long
        return self._long[longest, part]

    def to_device(self, device: Device) -> Structure:
        """The same on another device."""
        if device is self.device:
            return self
        return Structure(self.shape, self.indices.to_device(device), self.offsets.to_device(device))


def numbered(count: int, device: Device) -> Array:
    """0, 1, ..., ``count - 1`` in int64."""
    return arange(count, dtype=dtypes.int64, device=device)


def chosen(x: Array, indices: Array) -> Array:
    """The rows of ``x`` along its first axis at ``indices``, which are in range; differentiable."""
    inner = x.size // max(1, x.shape[0])
    rows = ops.reshape(x, (1, x.shape[0], inner))
    if not tape.recording((x,)):
        result = gathered(rows, indices.contiguous()._data, 1, x.shape[0], inner)
    else:
        result = gather(rows, indices.contiguous()._data, 1, x.shape[0], inner)
    return ops.reshape(result, (indices.size, *x.shape[1:]))


def rising(keys: Array) -> bool:
    """Whether each number is larger than the one before; waits for the device."""
    return keys.size < 2 or bool(ops.all(keys[1:] > keys[:-1]).item())


def coalesced(shape: tuple[int, int], rows: Array, columns: Array, data: Array) -> tuple[Structure, Array]:
    """The structure of entries in any order, and their data in its order; entries at the same position are added up.

    Waits for the device; differentiable with respect to ``data`` (entries, ...).
    """
    with tape.stop_recording():
        rows, columns = (ops.astype(x, dtypes.int64, copy=False) for x in (rows, columns))
        keys = rows * shape[1] + columns
        if rising(keys):
            return Structure.of_rows(shape, rows, columns), data
        order = ops.argsort(keys)
        keys, rows, columns = (chosen(x, order) for x in (keys, rows, columns))
        fresh = ops.concat([full(1, True, device=keys.device), keys[1:] != keys[:-1]])
        firsts = ops.flatnonzero(fresh)
    data = chosen(data, order)
    if firsts.size < keys.size:
        with tape.stop_recording():
            segments = ops.cumulative_sum(ops.astype(fresh, dtypes.int64)) - 1
            rows, columns = chosen(rows, firsts), chosen(columns, firsts)
        data = added(data, segments, firsts.size)
    return Structure.of_rows(shape, rows, columns), data


def added(data: Array, segments: Array, number: int) -> Array:
    """The sums of rows of ``data``, in its dtype, by segments in rising order."""
    result = ops.segment_sum(data, segments, number, indices_are_sorted=True)
    return ops.astype(result, data.dtype, copy=False)


def expanded(structure: Structure, selected: Array) -> tuple[Array, Array, Array]:
    """The entries of selected rows, one row after the other; waits for the device.

    Args:
        structure: the positions.
        selected: int64, numbers of rows, which may repeat.

    Returns:
        For each entry of the result the index of its row in ``selected``, and its index in ``structure``; and the
        offsets of the selected rows.
    """
    with tape.stop_recording():
        starts = ops.astype(chosen(structure.offsets, selected), dtypes.int64)
        ends = ops.astype(chosen(structure.offsets, selected + 1), dtypes.int64)
        offsets = ops.cumulative_sum(ends - starts, include_initial=True)
        total = int(offsets[selected.size].item())
        numbers = numbered(total, structure.device)
        owner = ops.searchsorted(offsets[1:], numbers, side="right")
        return owner, numbers + chosen(starts - offsets[:-1], owner), offsets


def positions(structure: Structure, keys: Any) -> tuple[Array, Array]:
    """For each key the index of its entry, and whether there is one."""
    own = structure.keys
    with tape.stop_recording():
        if not own.size:
            empty = ops.astype(keys, dtypes.int64) * 0
            return empty, empty > 0
        at = ops.minimum(ops.searchsorted(own, keys), own.size - 1)
        return at, chosen(own, at) == keys
