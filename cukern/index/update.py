"""``x.at[key]``: update a part of an array in a new array, differentiable with respect to the array and the values.

The flat indices of a key are found by indexing an array of the numbers 0, 1, ..., so every kind of key works;
views and whole rows have faster paths. Values for the same element are combined in an order that depends only on
the indices, so every run gives the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from .. import dtypes
from ..array import Array
from ..array.creation import asarray
from ..autodiff import tape
from ..device import Device
from ..elementwise.function import astype
from ..elementwise.operands import public, require_written
from ..elementwise.row import is_scalar
from ..elementwise.table import (
    add,
    divide,
    less,
    maximum,
    minimum,
    multiply,
    negative,
    where,
)
from ..errors import DeviceError
from ..kernel.plan import on
from ..shape.views import broadcast_to, reshape
from .gather_scatter import best_of_each, last_of_each
from .segments import Segments, product
from .subscript import Rows, getitem, named, replaced
from .take import scatter_into, take

__all__: list[str] = []


def numbers(x: Array) -> Array:
    """The numbers 0, 1, ... in the shape of ``x``, on its device."""
    with on(x.device):
        return Array._wrap(x.device.xp.arange(x.size, dtype=dtypes.int64).reshape(x.shape), x.device)


class _Targets:
    """The elements to which the values of an update go.

    Attributes:
        flat: the index of each value in the flattened array, an ndarray.
        size: the size of the array.
    """

    def __init__(self, flat: Any, size: int, device: Device) -> None:
        self.flat, self.size, self._device = flat, size, device

    def best(self, values: Array, mode: Literal["min", "max"]) -> Array:
        """For each element the index of the smallest or largest of its values, -1 if there is none."""
        return Array._wrap(best_of_each(values, mode, self.flat, self.size), self._device)

    def products(self, values: Array) -> Array:
        """For each element the product of its values, 1 if there is none; differentiable to any order."""
        rows = reshape(values, (1, -1, 1))
        return reshape(product(rows, Segments(self.flat, self.size)), (-1,))


class At:
    """``x.at``: index it."""

    __slots__ = ("_x",)

    def __init__(self, x: Array) -> None:
        self._x = x

    def __getitem__(self, key: Any) -> Change:
        return Change(self._x, key)

    def __repr__(self) -> str:
        return f"<at of an array of shape {self._x.shape}>"


class Change:
    """``x.at[key]``: the methods return a copy of ``x``, updated at ``key``.

    Values are broadcast to the part and cast to the dtype of ``x``, whose range must include Python integers. If the
    key repeats an index, ``set`` takes its last value, and the other methods combine all its values.
    """

    __slots__ = ("_key", "_x")

    def __init__(self, x: Array, key: Any) -> None:
        self._x, self._key = x, key

    def _values(self, value: Any, shape: tuple[int, ...], name: str) -> Array:
        x = self._x
        if isinstance(value, Array):
            if value.device is not x.device:
                raise DeviceError(
                    f"at.{name}: expected arrays on one device, got {x.device} and {value.device}"
                )
            result = astype(value, x.dtype, copy=False)
        else:
            dtype = x.dtype if is_scalar(value) or isinstance(value, (list, tuple)) else None
            result = astype(asarray(value, dtype, x.device), x.dtype, copy=False)
        try:
            return broadcast_to(result, shape)
        except ValueError:
            raise ValueError(
                f"at.{name}: values of shape {result.shape} do not broadcast to the part's shape {shape}"
            ) from None

    def _apply(
        self,
        value: Any,
        name: str,
        row: Callable[[Array, Array], Array],
        change: Callable[[Array, _Targets, Array], Array],
        rows: Callable[[Array, Rows, Array], Array] | None = None,
    ) -> Array:
        """The updated array.

        Args:
            row: computes an element from its old value and its one new value.
            change: updates the flattened array from the targets and the flattened values.
            rows: updates the array as rows, from the selected rows and the rows of values.
        """
        x = self._x
        part = named(x, self._key)
        if isinstance(part, Rows) and rows is not None:
            values = self._values(value, part.shape, name)
            outer, _, inner = part.sizes
            if not values.size:
                return astype(x, x.dtype)
            values = reshape(values, (outer, part.indices.size, inner))
            return reshape(rows(reshape(x, part.sizes), part, values), x.shape)
        if isinstance(part, tuple):
            old = getitem(x, part)
            return replaced(x, part, row(old, self._values(value, old.shape, name)))
        if isinstance(part, Rows) and part.sizes[0] == part.sizes[2] == 1:
            flat, shape = part.indices, part.shape
        else:
            with tape.stop_recording():
                positions = getitem(numbers(x), self._key)
                flat, shape = reshape(positions, (-1,)).contiguous()._data, positions.shape
        values = reshape(self._values(value, shape, name), (-1,))
        if not values.size:
            return astype(x, x.dtype)
        return reshape(change(reshape(x, (-1,)), _Targets(flat, x.size, x.device), values), x.shape)

    def get(self) -> Array:
        """The part: ``x[key]``."""
        return getitem(self._x, self._key)

    def set(self, value: Any) -> Array:
        """Set the part to ``value``; if an index is repeated, the last value wins."""

        def rows(x: Array, part: Rows, values: Array) -> Array:
            winners = last_of_each(x.device, part.indices, part.sizes[1])
            return _chosen(x, values, Array._wrap(winners, x.device), 1, second)

        def change(x: Array, targets: _Targets, values: Array) -> Array:
            winners = last_of_each(x.device, targets.flat, targets.size)
            return _chosen(x, values, Array._wrap(winners, x.device), 0, second)

        def second(x: Array, value: Array) -> Array:
            return value

        return self._apply(value, "set", second, change, rows)

    def add(self, value: Any) -> Array:
        """Add ``value`` to the part.

        >>> import cukern as ck
        >>> ck.zeros(3).at[ck.asarray([0, 2, 2])].add(1.0).tolist()
        [1.0, 0.0, 2.0]
        """

        def rows(x: Array, part: Rows, values: Array) -> Array:
            return scatter_into(x, values, part.indices, *part.sizes)

        def change(x: Array, targets: _Targets, values: Array) -> Array:
            sizes = (1, targets.size, 1)
            result = scatter_into(reshape(x, sizes), reshape(values, (1, -1, 1)), targets.flat, *sizes)
            return reshape(result, (-1,))

        return self._apply(value, "add", add, change, rows)

    def subtract(self, value: Any) -> Array:
        """Subtract ``value`` from the part."""
        if not isinstance(value, Array):
            keeps_dtype = is_scalar(value) or isinstance(value, (list, tuple))
            value = asarray(value, self._x.dtype if keeps_dtype else None, self._x.device)
        return self.add(negative(value))

    def multiply(self, value: Any) -> Array:
        """Multiply the part by ``value``."""
        return self._apply(
            value, "multiply", multiply, lambda x, indices, values: multiply(x, indices.products(values))
        )

    def divide(self, value: Any) -> Array:
        """Divide the part by ``value``.

        Raises:
            TypeError: the array does not have a floating dtype.
        """
        if self._x.dtype not in dtypes.INEXACT:
            raise TypeError(f"at.divide: expected a floating array, got {dtypes.info(self._x.dtype).name}")
        return self._apply(
            value, "divide", divide, lambda x, indices, values: divide(x, indices.products(values))
        )

    def min(self, value: Any) -> Array:
        """The minimum of the part and ``value``; an equal element and value share the derivative."""
        return self._extreme(value, "min", minimum)

    def max(self, value: Any) -> Array:
        """The maximum of the part and ``value``; an equal element and value share the derivative."""
        return self._extreme(value, "max", maximum)

    def _extreme(
        self, value: Any, name: Literal["min", "max"], row: Callable[[Array, Array], Array]
    ) -> Array:
        def change(x: Array, targets: _Targets, values: Array) -> Array:
            return _chosen(x, values, targets.best(values, name), 0, row)

        return self._apply(value, name, row, change)


def _chosen(
    x: Array, values: Array, winners: Array, axis: int, row: Callable[[Array, Array], Array]
) -> Array:
    """Apply ``row`` to each element and its remaining value along an axis; elements without a value are kept."""
    with tape.stop_recording():
        untouched = reshape(less(winners, 0), (-1,) + (1,) * (x.ndim - 1 - axis))
        indices = maximum(winners, 0)
    return where(untouched, x, row(x, take(values, indices, axis=axis)))


@public
def at(x: Array, /) -> At:
    """``x.at[key].set(value)`` and similar updates, which return a new array. See :class:`Change`."""
    return At(require_written(x, "at"))
