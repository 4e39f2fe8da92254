"""``x.at[key]``: a part of an array changed in a new array, differentiable by the array and by what it is changed to.

The places that a key names are those that it picks of an array of numbers 0, 1, ...: every kind of key is
handled by indexing itself. What shares a place is taken in its order, so that every run gives the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

from .. import dtypes, tape
from ..array import Array
from ..creation import asarray
from ..device import Device
from ..device.base import CompiledFunction
from ..dtypes import DType
from ..errors import DeviceError
from ..expr import is_scalar
from ..kernel import Kernel
from ..table import add, divide, equal, less, maximum, minimum, multiply, negative, not_equal, where
from .axes import public, require_array
from .elementwise import astype
from .getitem import getitem
from .index import scatter, take
from .launch import allocate, divide_up, on
from .manipulate import broadcast_to, concat, reshape
from .scan import recurrence, shifted
from .search import searchsorted
from .sort import argsort

__all__: list[str] = []

_PICK = Kernel("pick.cu", block=256)
#: Places of a host thread.
_HOST_PIECE = 4096


def numbers(x: Array) -> Array:
    """0, 1, ... in the shape of ``x``, on its device."""
    with on(x.device):
        return Array._wrap(x.device.xp.arange(x.size, dtype=dtypes.int64).reshape(x.shape), x.device)


@cache
def _picking(device: Device, dtype: DType, mode: str) -> tuple[CompiledFunction, int]:
    block = 1 if device.kind == "host" else 256
    name = f"pick_{mode}_{dtypes.info(dtype).name}_{block}"
    return _PICK.bind(device, name=name, elem=dtype, block=block, mode=mode).function, block


class _Places:
    """Where the values of a change go.

    Attributes:
        flat: the place of each value in the flattened array.
        order: what puts the places in order, stably.
        starts: where the values of each place start in that order, and where the last end.
    """

    def __init__(self, flat: Array, size: int) -> None:
        with tape.stop_recording():
            self.flat = reshape(flat, (-1,)).contiguous()
            self.order = argsort(self.flat)
            self.ordered = take(self.flat, self.order)
            with on(flat.device):
                bounds = Array._wrap(flat.device.xp.arange(size + 1, dtype=dtypes.int64), flat.device)
            self.starts = searchsorted(self.ordered, bounds)
        self.size = size

    def winners(self, values: Array, mode: str) -> Array:
        """For each place the number of the value that stays, -1 where there is none."""
        device = values.device
        made = allocate(device, (self.size,), dtypes.int64)
        if self.size:
            function, block = _picking(device, values.dtype, mode)
            piece = _HOST_PIECE if block == 1 else 1
            with on(device):
                function(
                    (divide_up(self.size, block * piece), 1, 1),
                    (block, 1, 1),
                    0,
                    (values.contiguous()._data, self.order._data, self.starts._data, made, self.size, piece),
                )
        return Array._wrap(made, device)

    def products(self, values: Array) -> Array:
        """For each place the product of its values, 1 where there is none; differentiable to any order."""
        ordered = take(values, self.order)
        with tape.stop_recording():
            apart = not_equal(self.ordered[1:], self.ordered[:-1])
            end = asarray([True], device=values.device)
            fresh, final = concat([end, apart]), concat([apart, end])
        # p[j] = ordered[j - 1] * p[j - 1], and 1 where a place begins, is the product of what comes before.
        before = recurrence(
            where(fresh, 0, shifted(ordered, 0, False)), astype(fresh, values.dtype), 0, False
        )
        last = take(where(final, before * ordered, 0), argsort(self.order))
        found = scatter(reshape(last, (1, -1, 1)), self.flat._data, 1, self.size, 1)
        return where(equal(self.starts[1:], self.starts[:-1]), 1, reshape(found, (-1,)))


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
    """``x.at[key]``: the methods return a new array like ``x``, changed at ``key``.

    Values are broadcast to the part, and cast to the dtype of ``x``. Where the key names a place several
    times, ``set`` takes the last of its values, and the others take all.
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
            made = astype(value, x.dtype, copy=False)
        else:
            dtype = x.dtype if is_scalar(value) else None
            made = astype(asarray(value, dtype, x.device), x.dtype, copy=False)
        try:
            return broadcast_to(made, shape)
        except ValueError:
            raise ValueError(
                f"at.{name}: values of shape {made.shape} do not broadcast to the part's shape {shape}"
            ) from None

    def _apply(self, value: Any, name: str, change: Callable[[Array, _Places, Array], Array]) -> Array:
        """``change`` of the flattened array, the places and the flattened values, in the shape of the array."""
        x = self._x
        with tape.stop_recording():
            part = getitem(numbers(x), self._key)
        values = reshape(self._values(value, part.shape, name), (-1,))
        if not math.prod(part.shape):
            return astype(x, x.dtype)
        return reshape(change(reshape(x, (-1,)), _Places(part, x.size), values), x.shape)

    def get(self) -> Array:
        """The part: ``x[key]``."""
        return getitem(self._x, self._key)

    def set(self, value: Any) -> Array:
        """The part as ``value``; of several values for one place the last stays."""

        def change(x: Array, places: _Places, values: Array) -> Array:
            return _chosen(x, values, places.winners(values, "last"), lambda x, value: value)

        return self._apply(value, "set", change)

    def add(self, value: Any) -> Array:
        """The part with ``value`` added.

        >>> import cukern as ck
        >>> ck.zeros(3).at[ck.asarray([0, 2, 2])].add(1.0).tolist()
        [1.0, 0.0, 2.0]
        """

        def change(x: Array, places: _Places, values: Array) -> Array:
            sums = scatter(reshape(values, (1, -1, 1)), places.flat._data, 1, places.size, 1)
            return add(x, reshape(sums, (-1,)))

        return self._apply(value, "add", change)

    def subtract(self, value: Any) -> Array:
        """The part with ``value`` taken from it."""
        return self.add(
            negative(value) if isinstance(value, Array) else -asarray(value, device=self._x.device)
        )

    def multiply(self, value: Any) -> Array:
        """The part times ``value``."""
        return self._apply(value, "multiply", lambda x, places, values: multiply(x, places.products(values)))

    def divide(self, value: Any) -> Array:
        """The part divided by ``value``; of floating dtypes.

        Raises:
            TypeError: the array is of another dtype.
        """
        if self._x.dtype not in dtypes.FLOATS:
            raise TypeError(f"at.divide: expected a floating array, got {dtypes.info(self._x.dtype).name}")
        return self._apply(value, "divide", lambda x, places, values: divide(x, places.products(values)))

    def min(self, value: Any) -> Array:
        """The part, but at most ``value``; an element and a value that are equal share the derivative."""
        return self._extreme(value, "min", minimum)

    def max(self, value: Any) -> Array:
        """The part, but at least ``value``; an element and a value that are equal share the derivative."""
        return self._extreme(value, "max", maximum)

    def _extreme(self, value: Any, name: str, row: Callable[[Array, Array], Array]) -> Array:
        def change(x: Array, places: _Places, values: Array) -> Array:
            return _chosen(x, values, places.winners(values, name), row)

        return self._apply(value, name, change)


def _chosen(x: Array, values: Array, winners: Array, row: Callable[[Array, Array], Array]) -> Array:
    """``row`` of each element and the value that stays for its place, the element where there is none."""
    with tape.stop_recording():
        untouched = less(winners, 0)
        places = maximum(winners, 0)
    return where(untouched, x, row(x, take(values, places)))


@public
def at(x: Array, /) -> At:
    """``x.at[key].set(value)`` and its like: the array changed at a part, as a new array. See :class:`Change`."""
    return At(require_array(x, "at"))
