"""Arrays of indices: of grids, diagonals and triangles."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import dtypes
from ..array.array import Array
from ..array.creation import arange, asarray, device_of, ones
from ..array.layout import Shape, shape_of
from ..device import Device, current
from ..elementwise.function import astype
from ..elementwise.operands import require_array, require_each
from ..elementwise.row import is_scalar
from ..index.gather_scatter import ranges
from ..index.search import flatnonzero, nonzero
from ..shape.joins import concat, stack
from ..shape.views import broadcast_arrays, broadcast_to, reshape, tril, triu
from .spaces import linspace

__all__ = [
    "broadcast",
    "c_",
    "diag_indices",
    "diag_indices_from",
    "fromfunction",
    "indices",
    "ix_",
    "mask_indices",
    "mgrid",
    "ogrid",
    "r_",
    "tril_indices",
    "tril_indices_from",
    "triu_indices",
    "triu_indices_from",
]


class _Joined:
    """``r_[...]`` and ``c_[...]``: join slices, numbers and arrays along an axis.

    The first part may be a string of up to three integers: the axis; the least number of axes of each part; and the
    place of a vector's axis among these.
    """

    def __init__(self, columns: bool) -> None:
        self._columns = columns

    def __repr__(self) -> str:
        return "c_" if self._columns else "r_"

    def __getitem__(self, key: Any) -> Array:
        parts = list(key) if isinstance(key, tuple) else [key]
        axis, least, first = (-1, 2, 0) if self._columns else (0, 1, -1)
        if isinstance(parts[0], str):
            axis, least, first = self._directive(parts.pop(0), axis, least, first)
        device = device_of(parts)
        lines = [_line(part, device) for part in parts]
        numbers = [part for part in parts if is_scalar(part)]
        arrays = [line for line, part in zip(lines, parts, strict=True) if not is_scalar(part)]
        wanted = dtypes.result_type(*arrays, *numbers)
        return concat([astype(_raised(x, least, first), wanted, copy=False) for x in lines], axis=axis)

    def _directive(self, text: str, axis: int, least: int, first: int) -> tuple[int, int, int]:
        """The axis, the least number of axes, and the first place of a part's own axes among more."""
        if text in ("r", "c"):
            raise NotImplementedError(f"{self!r}: there is no class of matrices; use atleast_2d")
        try:
            numbers = [int(word) for word in text.split(",")]
        except ValueError:
            numbers = []
        if not 1 <= len(numbers) <= 3:
            raise ValueError(f"{self!r}: expected up to three integers in the string, got {text!r}")
        given = (*numbers, *(axis, 1, -1)[len(numbers) :])
        return (given[0], given[1], given[2]) if not self._columns else (given[0], max(given[1], 1), given[2])


def _raised(x: Array, least: int, first: int) -> Array:
    """``x`` with at least ``least`` axes, of which its own begin at ``first``; at the end for -1."""
    extra = max(least, 1) - x.ndim
    if extra <= 0:
        return x
    before = extra if first < 0 else min(first, extra)
    return reshape(x, (1,) * before + x.shape + (1,) * (extra - before))


def _line(part: Any, device: Device | None) -> Array:
    """One part; a slice gives its numbers, and with an imaginary step that many numbers including both ends."""
    if not isinstance(part, slice):
        return asarray(part, device=device)
    start = 0 if part.start is None else part.start
    if isinstance(part.step, (complex, np.complexfloating)):
        return linspace(start, part.stop, int(abs(complex(part.step))), device=device)
    return arange(start, part.stop, 1 if part.step is None else part.step, device=device)


#: Join slices, numbers and arrays along the first axis: ``r_[1:4, 0, x]``, as ``numpy.r_``.
r_ = _Joined(columns=False)
#: Join slices, numbers and arrays as columns of a matrix: ``c_[x, y]``, as ``numpy.c_``.
c_ = _Joined(columns=True)


class _Grid:
    """``mgrid[...]`` and ``ogrid[...]``: the coordinates of a grid, from a slice for each axis."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name

    def __getitem__(self, key: Any) -> Any:
        """The coordinates, on the current device; an imaginary step is their number, including both ends."""
        if not isinstance(key, tuple):
            return _line(key, None)
        lines = [_line(part, None) for part in key]
        wanted = dtypes.result_type(*lines) if lines else dtypes.default_int
        lines = [
            reshape(astype(x, wanted, copy=False), tuple(-1 if i == axis else 1 for i in range(len(lines))))
            for axis, x in enumerate(lines)
        ]
        if self._name == "ogrid" or not lines:
            return tuple(lines)
        sizes = tuple(line.size for line in lines)
        return stack([broadcast_to(line, sizes) for line in lines])


#: The coordinates of a dense grid as one array: ``mgrid[0:3, 0:2]`` has shape (2, 3, 2), as ``numpy.mgrid``.
mgrid = _Grid("mgrid")
#: The coordinates of a grid as an array for each axis, which broadcast to it, as ``numpy.ogrid``.
ogrid = _Grid("ogrid")


class broadcast:
    """Arrays broadcast against each other, as ``numpy.broadcast``.

    Attributes:
        shape: their common shape.
        ndim: the number of its axes; also ``nd``.
        size: the number of elements.
        values: read-only views of the arrays in that shape.
        numiter: the number of the arrays.

    >>> b = broadcast([[1], [2]], [3, 4, 5])
    >>> b.shape, b.size
    ((2, 3), 6)
    """

    def __init__(self, *arrays: Any) -> None:
        """Broadcast arrays, numbers and nested lists.

        Raises:
            ValueError: the shapes do not broadcast.
        """
        given = [x for array in arrays for x in (array.values if isinstance(array, broadcast) else (array,))]
        self.values: tuple[Array, ...] = broadcast_arrays(*require_each(given, "broadcast"))
        self.numiter = len(self.values)
        self.shape = self.values[0].shape if arrays else ()
        self.ndim = self.nd = len(self.shape)
        self.size = math.prod(self.shape)


def mask_indices(
    n: int, mask_func: Any, k: int = 0, *, device: Device | str | None = None
) -> tuple[Array, ...]:
    """The indices of the elements of an ``n`` by ``n`` matrix that a function such as :func:`triu` keeps.

    >>> [places.tolist() for places in mask_indices(2, lambda x, k: x * [[1, 0], [0, 0]])]
    [[0], [0]]
    """
    if mask_func is triu or mask_func is tril:
        return (triu_indices if mask_func is triu else tril_indices)(n, k, device=device)
    return nonzero(mask_func(ones((n, n), dtypes.int64, device), k))


def indices(
    dimensions: Shape,
    dtype: npt.DTypeLike | None = None,
    sparse: bool = False,
    *,
    device: Device | str | None = None,
) -> Any:
    """The indices of a grid: shape (axes, *dimensions), where slice i holds the index along axis i.

    Args:
        dimensions: the sizes of the grid's axes.
        dtype: that of the indices, int64 by default.
        sparse: whether to return one array for each axis instead, which broadcast to the grid.
        device: the current one by default.
    """
    sizes = shape_of(dimensions)
    wanted = dtypes.default_int if dtype is None else dtypes.as_dtype(dtype)
    lines = [arange(n, dtype=wanted, device=device) for n in sizes]
    result = [
        reshape(x, tuple(-1 if i == axis else 1 for i in range(len(sizes)))) for axis, x in enumerate(lines)
    ]
    if sparse or not result:
        return tuple(result) if sparse else reshape(arange(0, dtype=wanted, device=device), (0,))
    return stack([broadcast_to(x, sizes) for x in result])


def fromfunction(
    function: Any,
    shape: Shape,
    *,
    dtype: npt.DTypeLike | None = None,
    device: Device | str | None = None,
    **options: Any,
) -> Any:
    """Call ``function`` with the coordinates of a grid: one array for each axis of ``shape``."""
    wanted = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    grid = indices(shape, wanted, device=device)
    return function(*(grid[i] for i in range(grid.shape[0])), **options)


def diag_indices(n: int, ndim: int = 2, *, device: Device | str | None = None) -> tuple[Array, ...]:
    """The indices of the main diagonal of an array of ``ndim`` axes of ``n`` elements."""
    return (arange(n, device=device),) * ndim


def diag_indices_from(x: Array, /) -> tuple[Array, ...]:
    """The indices of the main diagonal of ``x``.

    Raises:
        ValueError: ``x`` has fewer than two axes, or axes of different sizes.
    """
    x = require_array(x, "diag_indices_from")
    shape = x.shape
    if len(shape) < 2 or len(set(shape)) > 1:
        raise ValueError(f"diag_indices_from: x: expected two equal axes at least, got shape {shape}")
    return diag_indices(shape[0], len(shape), device=x.device)


def _diagonal_at(n: int, k: int, m: int | None) -> Any:
    """The column of the ``k``-th diagonal in each of ``n`` rows of ``m`` columns; the nearest end beyond them."""
    return np.clip(np.arange(n, dtype=np.int64) + k, 0, n if m is None else max(m, 0))


def tril_indices(
    n: int, k: int = 0, m: int | None = None, *, device: Device | str | None = None
) -> tuple[Array, ...]:
    """The row and column indices on and below the ``k``-th diagonal of ``n`` rows and ``m`` columns.

    >>> [places.tolist() for places in tril_indices(2)]
    [[0, 1, 1], [0, 0, 1]]
    """
    where = Device(device) if device is not None else current()
    ends = _diagonal_at(n, k + 1, m)
    return ranges(where, np.zeros_like(ends), ends)


def triu_indices(
    n: int, k: int = 0, m: int | None = None, *, device: Device | str | None = None
) -> tuple[Array, ...]:
    """The row and column indices on and above the ``k``-th diagonal of ``n`` rows and ``m`` columns."""
    where = Device(device) if device is not None else current()
    first = _diagonal_at(n, k, m)
    return ranges(where, first, (n if m is None else max(m, 0)) - first)


def _matrix(x: Array, name: str) -> tuple[int, int]:
    x = require_array(x, name)
    rows_and_columns = x.shape
    if len(rows_and_columns) != 2:
        raise ValueError(f"{name}: x: expected two axes, got shape {rows_and_columns}")
    return rows_and_columns


def tril_indices_from(x: Array, /, k: int = 0) -> tuple[Array, ...]:
    """:func:`tril_indices` for a matrix of the shape of ``x``.

    Raises:
        ValueError: ``x`` is not a matrix.
    """
    rows, columns = _matrix(x, "tril_indices_from")
    return tril_indices(rows, k, columns, device=x.device)


def triu_indices_from(x: Array, /, k: int = 0) -> tuple[Array, ...]:
    """:func:`triu_indices` for a matrix of the shape of ``x``.

    Raises:
        ValueError: ``x`` is not a matrix.
    """
    rows, columns = _matrix(x, "triu_indices_from")
    return triu_indices(rows, k, columns, device=x.device)


def ix_(*arrays: Any) -> tuple[Array, ...]:
    """An index of the grid spanned by a vector of integers, or a mask, for each axis.

    Raises:
        ValueError: an argument is not a vector.
    """
    home = device_of(arrays)
    result = []
    for i, given in enumerate(arrays):
        x = asarray(given, dtype=dtypes.default_int if not len(given) else None, device=home)
        if x.ndim != 1:
            raise ValueError(f"ix_: arrays[{i}]: expected one axis, got shape {x.shape}")
        if x.dtype == dtypes.bool_:
            x = flatnonzero(x)
        result.append(reshape(x, (1,) * i + (-1,) + (1,) * (len(arrays) - i - 1)))
    return tuple(result)
