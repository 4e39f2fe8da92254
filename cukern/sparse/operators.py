"""The operators of sparse arrays."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from .. import namespace as ops
from ..array import Array
from ..array.creation import asarray
from ..device import Device
from ..elementwise.operands import require_array
from ..elementwise.row import is_scalar
from ..errors import DeviceError
from . import algebra
from .products import Blocks, data_shape, multiply
from .structure import Structure


class Operators:
    """Products, sums and rows of a sparse array, in terms of its values, structure and format."""

    __slots__ = ()
    #: NumPy's arrays leave operators to this class.
    __array_ufunc__ = None
    __hash__ = None  # type: ignore[assignment]

    format: str
    data: Array
    shape: tuple[int, int]
    _structure: Structure
    _blocks: Blocks

    @property
    def device(self) -> Device:
        """Where the array is."""
        return self.data.device

    def with_data(self, data: Array) -> Self:
        raise NotImplementedError

    def copy(self) -> Self:
        raise NotImplementedError

    def toarray(self) -> Array:
        raise NotImplementedError

    def transpose(self) -> Self:
        raise NotImplementedError

    def tocoo(self) -> Any:
        raise NotImplementedError

    def _entries(self) -> algebra.Entries:
        raise NotImplementedError

    def _csr(self, structure: Structure, data: Array) -> Any:
        """A CSR array."""
        raise NotImplementedError

    def _known(self, other: Any) -> Any:
        """An operand, of this module if it is a sparse array of SciPy or CuPy."""
        raise NotImplementedError

    def dot(self, other: Any) -> Any:
        """The matrix product; the product with a number."""
        return self * other if is_scalar(other) else self @ other

    def multiply(self, other: Any) -> Any:
        """The product entry by entry: ``A * other``."""
        return self * other

    def __matmul__(self, other: Any) -> Any:
        other = self._known(other)
        if isinstance(other, Operators):
            self._fits(other.shape[0], other)
            return self._csr(*algebra.product(self._entries(), other._entries()))
        x = self._dense(other, "@")
        if x is None:
            return NotImplemented
        if x.ndim not in (1, 2):
            raise ValueError(f"@: expected a vector or a matrix beside a sparse array, got shape {x.shape}")
        self._fits(x.shape[0], x)
        data, x = algebra.promoted(self.data, x)
        columns = ops.reshape(x, (-1, 1)) if x.ndim == 1 else x
        data = ops.reshape(data, data_shape(self._structure, self._blocks))
        result = multiply(self._structure, self._blocks, data, columns)
        return ops.reshape(result, (self.shape[0],)) if x.ndim == 1 else result

    def __rmatmul__(self, other: Any) -> Any:
        x = self._dense(other, "@")
        if x is None:
            return NotImplemented
        if x.ndim not in (1, 2) or x.shape[-1] != self.shape[0]:
            raise ValueError(f"@: shapes {x.shape} and {self.shape} do not fit")
        result = self.transpose() @ (x if x.ndim == 1 else x.T)
        return result if x.ndim == 1 else result.T

    def _fits(self, rows: int, other: Any) -> None:
        if self.shape[1] != rows:
            raise ValueError(f"@: shapes {self.shape} and {other.shape} do not fit")

    def _dense(self, other: Any, operator: str) -> Array | None:
        """A dense operand as an array; None of what is none.

        Raises:
            DeviceError: it is on another device.
        """
        if not isinstance(other, (Array, np.ndarray, list)):
            return None
        x = require_array(other, operator, "other", self.data)
        if x.device is not self.device:
            raise DeviceError(
                f"{operator}: expected operands on one device, got {self.device} and {x.device}"
            )
        return x

    def _same_shape(self, other: Operators, operator: str) -> None:
        if other.shape != self.shape:
            raise ValueError(
                f"{operator}: expected sparse arrays of one shape, got {self.shape} and {other.shape}"
            )
        if other.device is not self.device:
            raise DeviceError(
                f"{operator}: expected operands on one device, got {self.device} and {other.device}"
            )

    def _alike(self, other: Operators) -> bool:
        return self._structure is other._structure and self._blocks == other._blocks

    def __add__(self, other: Any) -> Any:
        other = self._known(other)
        if isinstance(other, Operators):
            self._same_shape(other, "+")
            if self._alike(other):
                return self.with_data(self.data + other.data)
            result = self._csr(*algebra.added(self._entries(), other._entries()))
            return result.tocoo() if self.format == other.format == "coo" else result
        if is_scalar(other):
            if other == 0:
                return self.copy()
            raise TypeError("+: a number beside a sparse array gives a dense one; write A.toarray() + number")
        x = self._dense(other, "+")
        return NotImplemented if x is None else self.toarray() + x

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        other = self._known(other)
        if isinstance(other, list):
            other = require_array(other, "-", "other", self.data)
        return self + (-other)

    def __rsub__(self, other: Any) -> Any:
        return (-self) + other

    def __mul__(self, other: Any) -> Any:
        other = self._known(other)
        if is_scalar(other):
            return self.with_data(self.data * other)
        if isinstance(other, Operators):
            self._same_shape(other, "*")
            if self._alike(other):
                return self.with_data(self.data * other.data)
            result = self._csr(*algebra.multiplied(self._entries(), other._entries()))
            return result.tocoo() if self.format == other.format == "coo" else result
        return self._by_entry(other, "*", lambda x, y: x * y)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        if is_scalar(other):
            return self.with_data(self.data / other)
        return self._by_entry(other, "/", lambda x, y: x / y)

    def _by_entry(self, other: Any, operator: str, function: Any) -> Any:
        """A function of the values and of a dense operand at their positions."""
        x = self._dense(other, operator)
        if x is None:
            return NotImplemented
        if x.ndim == 0:
            return self.with_data(function(self.data, x))
        structure, data = self._entries()
        result = self._csr(structure, function(data, algebra.at_entries(structure, x)))
        return result.tocoo() if self.format == "coo" else result

    def __neg__(self) -> Self:
        return self.with_data(-self.data)

    def __pos__(self) -> Self:
        return self

    def __abs__(self) -> Self:
        return self.with_data(abs(self.data))

    def conj(self) -> Self:
        """With the conjugates of the values."""
        return self.with_data(ops.conj(self.data))

    def __getitem__(self, key: Any) -> Any:
        """Rows: ``A[2:5]``, ``A[::-1]``, ``A[[3, 0]]``, in CSR; waits for the device.

        Raises:
            IndexError: the key is something else, or a row is out of range.
        """
        if isinstance(key, tuple) and len(key) == 2 and key[1] in (slice(None), Ellipsis):
            key = key[0]
        if isinstance(key, slice):
            rows: Any = np.arange(self.shape[0])[key]
        elif isinstance(key, (list, np.ndarray, Array)):
            rows = key.numpy() if isinstance(key, Array) else np.asarray(key, None if len(key) else np.int64)
            if rows.ndim != 1 or rows.dtype.kind not in "iu":
                raise IndexError(
                    f"sparse: expected a vector of integers, got {rows.dtype} of shape {rows.shape}"
                )
            if rows.size and not -self.shape[0] <= rows.min() <= rows.max() < self.shape[0]:
                raise IndexError(
                    f"sparse: a row of {rows.tolist()[:8]} is out of range for {self.shape[0]} rows"
                )
            rows = rows % max(1, self.shape[0])
        else:
            raise IndexError(
                f"sparse: expected a slice or a vector of rows, got {key!r}; one row is A[i:i + 1]"
            )
        selected = asarray(rows.astype(np.int64), device=self.device)
        result = self._csr(*algebra.rows_of(self._entries(), selected))
        return result.tocoo() if self.format == "coo" else result
