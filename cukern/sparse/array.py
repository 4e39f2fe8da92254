"""Sparse arrays: their values, which are differentiable, at the positions of a constant structure."""

from __future__ import annotations

import importlib
import math
from typing import Any, Self, TypeVar

import numpy.typing as npt

from .. import dtypes, pytree
from .. import namespace as ops
from ..array import Array
from ..device import Device
from ..elementwise.operands import require_array
from ..errors import DeviceError
from . import algebra
from .build import (
    Parts,
    in_blocks,
    is_scipy,
    is_shape,
    of_dense,
    of_entries,
    of_nothing,
    of_pointers,
    out_of_blocks,
    shape_of,
)
from .operators import Operators
from .products import Blocks, transposed
from .structure import Structure

S = TypeVar("S", bound="SparseArray")


class SparseArray(Operators):
    """The base class of the formats; a pytree whose leaf is ``data``.

    Entries are kept in the order of rows and then of columns, and entries at the same position are added up. Where a
    constructor is given values in that order, ``data`` are those values themselves.

    Attributes:
        data: the values.
        shape: rows and columns.

    >>> import cukern as ck
    >>> A = ck.sparse.csr_array([[1.0, 0.0], [0.0, 4.0]])
    >>> isinstance(A, SparseArray), A.with_data(ck.sqrt(A.data)).toarray().tolist()
    (True, [[1.0, 0.0], [0.0, 2.0]])
    """

    __slots__ = ("_blocks", "_structure", "data", "shape")
    format = ""
    ndim = 2

    def __init__(
        self,
        arg: Any,
        shape: Any = None,
        dtype: npt.DTypeLike | None = None,
        *,
        device: Device | str | None = None,
    ) -> None:
        parts = self._parts(arg, shape, dtype, device)
        self._fill(parts if parts[2].ndim == 1 else out_of_blocks(*parts))

    @classmethod
    def _given(cls, arg: tuple[Any, ...], shape: Any, dtype: Any, device: Device | None) -> Parts:
        """The parts of a tuple of arrays.

        Raises:
            ValueError: it has another number of arrays.
        """
        raise NotImplementedError

    def _fill(self, parts: Parts) -> None:
        self._structure, self._blocks, self.data = parts
        rows, columns = self._structure.shape
        self.shape = rows * self._blocks[0], columns * self._blocks[1]

    @classmethod
    def _of(cls, structure: Structure, data: Array, blocks: Blocks = (1, 1)) -> Self:
        result = object.__new__(cls)
        result._fill((structure, blocks, data))
        return result

    def _parts(self, arg: Any, shape: Any, dtype: Any, device: Any) -> Parts:
        """The parts of what a constructor takes."""
        name, where = type(self).__name__, None if device is None else Device(device)
        if is_scipy(arg):
            arg = _of_scipy(arg, where)
        if isinstance(arg, SparseArray):
            given = arg if where is None else arg.to_device(where)
            given = given if dtype is None else given.astype(dtype)
            if shape is not None and shape_of(name, shape) != given.shape:
                raise ValueError(f"{name}: shape: expected that of arg, {given.shape}, got {shape}")
            return given._structure, given._blocks, given.data
        if is_shape(arg):
            return of_nothing(shape_of(name, arg), (1, 1), dtype, where)
        if isinstance(arg, tuple):
            return self._given(arg, shape, dtype, where)
        parts = of_dense(name, arg, dtype, where)
        if shape is not None and shape_of(name, shape) != parts[0].shape:
            raise ValueError(f"{name}: shape: expected that of arg, {parts[0].shape}, got {shape}")
        return parts

    # ----- attributes -----

    @property
    def dtype(self) -> dtypes.DType:
        """The dtype of the values."""
        return self.data.dtype

    @property
    def nnz(self) -> int:
        """The number of values that are stored, zeros among them."""
        return self.data.size

    @property
    def T(self) -> Self:
        """The transpose, in the same format."""
        return self.transpose()

    def __repr__(self) -> str:
        sizes = f"{self.shape[0]}x{self.shape[1]}, {self.nnz} stored"
        return f"{type(self).__name__}({sizes}, dtype={dtypes.info(self.dtype).name}, device='{self.device}')"

    def __len__(self) -> int:
        raise TypeError("the length of a sparse array is ambiguous: write A.shape[0] or A.nnz")

    def __bool__(self) -> bool:
        raise TypeError("the truth of a sparse array is ambiguous: write A.nnz")

    def with_data(self, data: Array) -> Self:
        """An array of the same structure with other values, such as a function of ``data``.

        Raises:
            DeviceError: the values are on another device.
            ValueError: they have another shape.
        """
        result = require_array(data, "with_data", "data", self.data)
        if result.shape != self.data.shape:
            raise ValueError(f"with_data: data: expected shape {self.data.shape}, got {result.shape}")
        if result.device is not self.device:
            raise DeviceError(
                f"with_data: data: expected an array on {self.device}, got one on {result.device}"
            )
        return type(self)._of(self._structure, result, self._blocks)

    def astype(self, dtype: npt.DTypeLike) -> Self:
        """With the values cast to a dtype."""
        return self.with_data(ops.astype(self.data, dtype, copy=False))

    def to_device(self, device: Device | str) -> Self:
        """On another device; differentiable as :meth:`cukern.Array.to_device` is."""
        where = Device(device)
        return type(self)._of(self._structure.to_device(where), self.data.to_device(where), self._blocks)

    def copy(self) -> Self:
        """With a copy of the values."""
        return self.with_data(ops.copy(self.data))

    # ----- other formats -----

    def _csr(self, structure: Structure, data: Array) -> csr_array:
        return csr_array._of(structure, data)

    def _known(self, other: Any) -> Any:
        return _of_scipy(other, self.device) if is_scipy(other) else other

    def _entries(self) -> algebra.Entries:
        """Single entries, also of an array of blocks."""
        structure, _, data = out_of_blocks(self._structure, self._blocks, self.data)
        return structure, data

    def tocsr(self) -> csr_array:
        """As :class:`csr_array`."""
        return csr_array._of(*self._entries())

    def tocoo(self) -> coo_array:
        """As :class:`coo_array`."""
        return coo_array._of(*self._entries())

    def tobsr(self, blocksize: tuple[int, int] | None = None) -> bsr_array:
        """As :class:`bsr_array`; waits for the device.

        Args:
            blocksize: rows and columns of a block; by default those it has, or (1, 1).

        Raises:
            ValueError: the shape is not a multiple of the blocks'.
        """
        return bsr_array(self, blocksize=blocksize)

    def toarray(self) -> Array:
        """As a dense array."""
        structure, data = self._entries()
        size = math.prod(self.shape)
        flat = ops.segment_sum(data, structure.keys, size, indices_are_sorted=True) if size else data
        return ops.reshape(ops.astype(flat, data.dtype, copy=False), self.shape)

    todense = toarray

    def to_scipy(self) -> Any:
        """As SciPy's array of the same format, on the host.

        Raises:
            ImportError: SciPy is not installed.
        """
        sparse = _module("scipy.sparse", "SciPy", "pip install cukern[sparse]")
        return self._foreign(sparse.__name__, self.to_device("host"), lambda x: x.numpy())

    def to_cupyx(self) -> Any:
        """As a matrix of ``cupyx.scipy.sparse``, CSR or COO, which shares the values' memory.

        Raises:
            DeviceError: the array is not on a GPU.
            TypeError: CuPy has no BSR matrices.
        """
        if self.device.addressable:
            raise DeviceError(f"to_cupyx: expected an array on a GPU, got one on {self.device}")
        if self.format == "bsr":
            raise TypeError("to_cupyx: CuPy has no BSR matrices; write A.tocsr().to_cupyx()")
        _module("cupyx.scipy.sparse", "CuPy", "pip install cukern[cuda13]")
        return self._foreign("cupyx.scipy.sparse", self, lambda x: x._data)

    def _foreign(self, module: str, given: Self, convert: Any) -> Any:
        """An array of another library, whose classes end in ``array`` or else in ``matrix``."""
        scipy_sparse = importlib.import_module(module)
        result = getattr(scipy_sparse, f"{self.format}_array", None) or getattr(
            scipy_sparse, f"{self.format}_matrix"
        )
        structure = given._structure
        data, indices = convert(given.data), convert(structure.indices)
        if self.format == "coo":
            return result((data, (convert(structure.rows), indices)), shape=self.shape)
        return result((data, indices, convert(structure.offsets)), shape=self.shape)

    # ----- algebra -----

    def transpose(self) -> Self:
        """The transpose, in the same format."""
        data = transposed(self._structure, self._blocks, self.data)
        return type(self)._of(self._structure.transposed[0], data, self._blocks[::-1])

    def sum(self, axis: int | None = None) -> Array:
        """The sum of all values, or along an axis, as a dense array; integers are summed in int64 or uint64.

        Raises:
            ValueError: there is no such axis.
        """
        if axis is None:
            return ops.sum(self.data)
        if axis not in (-2, -1, 0, 1):
            raise ValueError(f"sum: axis: expected 0, 1 or None, got {axis!r}")
        structure, data = self._entries()
        if axis in (1, -1):
            return ops.segment_sum(data, structure.rows, self.shape[0], indices_are_sorted=True)
        return ops.segment_sum(data, structure.indices, self.shape[1])


class csr_array(SparseArray):
    """A sparse matrix in the CSR format: for each row its columns and values, one row after the other.

    Args:
        arg: a dense matrix; a sparse array of this module, of SciPy or of CuPy; ``(data, indices, indptr)``;
            ``(data, (row, col))``; or a shape, for a matrix without entries.
        shape: rows and columns; by default as many as the entries need.
        dtype: the dtype to which the values are cast, any but bool; they keep theirs by default.
        device: where the array is; by default where the arrays of ``arg`` are, or the current device.

    The host waits for the device to check the indices.

    Raises:
        TypeError: indices or offsets are not integers, or the values are bool.
        ValueError: sizes do not fit, an index is out of range, or offsets are not in rising order.

    >>> import cukern as ck
    >>> A = ck.sparse.csr_array(([1.0, 2.0, 3.0], [0, 2, 1], [0, 2, 3]), shape=(2, 3))
    >>> (A @ ck.asarray([1.0, 1.0, 1.0])).tolist()
    [3.0, 3.0]
    >>> A
    csr_array(2x3, 3 stored, dtype=float32, device='host')
    """

    __slots__ = ()
    format = "csr"

    @classmethod
    def _given(cls, arg: tuple[Any, ...], shape: Any, dtype: Any, device: Device | None) -> Parts:
        if len(arg) == 3:
            return of_pointers("csr_array", arg, shape, dtype, device)
        if len(arg) == 2:
            return of_entries("csr_array", *arg, shape, dtype, device)
        raise ValueError(f"csr_array: arg: expected a tuple of two or three, got {len(arg)}")

    @property
    def indices(self) -> Array:
        """The column of each value. Nothing can be written there: copy it."""
        return self._structure.indices

    @property
    def indptr(self) -> Array:
        """Where the values of each row begin, and the end of the last. Nothing can be written there."""
        return self._structure.offsets


class coo_array(SparseArray):
    """A sparse matrix in the COO format: a row and a column for each value.

    Args:
        arg: a dense matrix; a sparse array of this module, of SciPy or of CuPy; ``(data, (row, col))``; or a shape, for
            a matrix without entries.
        shape: rows and columns; by default as many as the entries need.
        dtype: the dtype to which the values are cast, any but bool; they keep theirs by default.
        device: where the array is; by default where the arrays of ``arg`` are, or the current device.

    The host waits for the device to check the indices.

    Raises:
        TypeError: indices or offsets are not integers, or the values are bool.
        ValueError: sizes do not fit, an index is out of range, or offsets are not in rising order.

    >>> import cukern as ck
    >>> A = ck.sparse.coo_array(([1.0, 2.0, 3.0], ([0, 1, 0], [2, 1, 2])))
    >>> A.toarray().tolist()
    [[0.0, 0.0, 4.0], [0.0, 2.0, 0.0]]
    """

    __slots__ = ()
    format = "coo"

    @classmethod
    def _given(cls, arg: tuple[Any, ...], shape: Any, dtype: Any, device: Device | None) -> Parts:
        if len(arg) == 2:
            return of_entries("coo_array", *arg, shape, dtype, device)
        raise ValueError(f"coo_array: arg: expected (data, (row, col)), got a tuple of {len(arg)}")

    @property
    def row(self) -> Array:
        """The row of each value."""
        return self._structure.rows

    @property
    def col(self) -> Array:
        """The column of each value. Nothing can be written there: copy it."""
        return self._structure.indices

    @property
    def coords(self) -> tuple[Array, Array]:
        """Rows and columns."""
        return self.row, self.col


class bsr_array(SparseArray):
    """A sparse matrix in the BSR format: CSR whose values are dense blocks, ``data`` (blocks, rows, columns).

    Args:
        arg: a dense matrix; a sparse array of this module, of SciPy or of CuPy; ``(data, indices, indptr)`` with
            one column for each block; or a shape, for a matrix without entries.
        shape: rows and columns; by default as many as the entries need.
        dtype: the dtype to which the values are cast, any but bool; they keep theirs by default.
        blocksize: rows and columns of a block; by default those of ``arg``, or (1, 1).
        device: where the array is; by default where the arrays of ``arg`` are, or the current device.

    The host waits for the device to check the indices.

    Raises:
        TypeError: indices or offsets are not integers, or the values are bool.
        ValueError: sizes do not fit, an index is out of range, or offsets are not in rising order.

    >>> import cukern as ck
    >>> A = ck.sparse.bsr_array([[1.0, 2.0, 0.0, 0.0], [3.0, 4.0, 0.0, 0.0]], blocksize=(2, 2))
    >>> A.data.tolist(), (A @ ck.ones(4)).tolist()
    ([[[1.0, 2.0], [3.0, 4.0]]], [3.0, 7.0])
    """

    __slots__ = ()
    format = "bsr"

    def __init__(
        self,
        arg: Any,
        shape: Any = None,
        dtype: npt.DTypeLike | None = None,
        *,
        blocksize: tuple[int, int] | None = None,
        device: Device | str | None = None,
    ) -> None:
        size = None if blocksize is None else shape_of("bsr_array: blocksize", blocksize)
        parts = self._parts(arg, shape, dtype, device)
        if size is not None and size != parts[1]:
            structure, _, data = out_of_blocks(*parts)
            whole = structure.shape
            if min(size) < 1 or whole[0] % size[0] or whole[1] % size[1]:
                raise ValueError(
                    f"bsr_array: blocksize: expected sizes that divide the shape {whole}, got {size}"
                )
            parts = in_blocks(structure, data, size)
        self._fill(parts)
        if self._blocks == (1, 1):
            self.data = ops.reshape(self.data, (-1, 1, 1))

    @classmethod
    def _given(cls, arg: tuple[Any, ...], shape: Any, dtype: Any, device: Device | None) -> Parts:
        if len(arg) != 3:
            raise ValueError(f"bsr_array: arg: expected (data, indices, indptr), got a tuple of {len(arg)}")
        return of_pointers("bsr_array", arg, shape, dtype, device, blocks=True)

    @property
    def blocksize(self) -> tuple[int, int]:
        """Rows and columns of a block."""
        return self._blocks

    @property
    def indices(self) -> Array:
        """The column of each block, counted in blocks."""
        return self._structure.indices

    @property
    def indptr(self) -> Array:
        """Where the blocks of each row of blocks begin, and the end of the last."""
        return self._structure.offsets


def _module(name: str, library: str, install: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"needs {library}, which is not installed: {install}") from error


def _of_scipy(given: Any, device: Device | None) -> SparseArray:
    """A sparse array of SciPy or CuPy in the format of ours that is nearest."""
    if given.ndim != 2:
        raise ValueError(f"sparse: expected two axes, got shape {given.shape}")
    if given.format == "coo":
        return coo_array((given.data, (given.row, given.col)), given.shape, device=device)
    kind: Any = {"csr": csr_array, "bsr": bsr_array}.get(given.format)
    if kind is None:
        given, kind = given.tocsr(), csr_array
    result: SparseArray = kind((given.data, given.indices, given.indptr), given.shape, device=device)
    return result


def issparse(x: object) -> bool:
    """Whether ``x`` is a sparse array of this module.

    >>> import cukern as ck
    >>> issparse(ck.sparse.coo_array((2, 3))), issparse(ck.zeros((2, 3)))
    (True, False)
    """
    return isinstance(x, SparseArray)


def _flatten(x: SparseArray) -> tuple[list[Any], Any]:
    return [x.data], (type(x), x._structure, x._blocks)


def _unflatten(kept: Any, children: list[Any]) -> Any:
    kind, structure, blocks = kept
    result = object.__new__(kind)
    result._fill((structure, blocks, children[0]))
    return result


pytree.register(SparseArray, _flatten, _unflatten)
