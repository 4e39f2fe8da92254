"""Functions that write to a part of an array, in place, under NumPy's names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np

from .. import dtypes
from ..array import Array
from ..array.creation import asarray
from ..array.deferred import about_to_write
from ..array.layout import address
from ..autodiff import tape
from ..elementwise.function import astype
from ..elementwise.operands import (
    on_device,
    public,
    recorded,
    require_array,
    require_constant,
    require_written,
    view,
)
from ..elementwise.row import is_scalar
from ..elementwise.table import not_equal
from ..elementwise.table import where as choose
from ..elementwise.ufunc import Casting, can_cast, checked_casting
from ..shape.views import broadcast_to, reshape
from .search import flatnonzero
from .subscript import getitem, setitem
from .subscript import put as put_flat
from .take import expect_mode, in_mode, integers, kernel_indices, take

__all__ = ["copyto", "place", "put", "putmask"]


def _castable(name: str, value: Any, x: Array, casting: Casting = "same_kind") -> Any:
    """``value`` as an array or a Python number, if ``casting`` allows to assign it to ``x``."""
    if is_scalar(value):
        dtype = dtypes.result_type(value)
        fits = (
            dtype == x.dtype if casting in ("no", "equiv") else dtypes.result_type(x.dtype, value) == x.dtype
        )
        held = checked_casting(name, casting) == "unsafe" or fits
    else:
        listed = isinstance(value, (list, tuple))
        value = require_array(value, name, "values", x)
        held = listed or can_cast(value.dtype, x.dtype, casting)
    if not held:
        what = value if is_scalar(value) else value.dtype
        raise TypeError(f"{name}: cannot cast {what} to {x.dtype}, casting={casting!r}")
    return value


@public
def copyto(dst: Array, src: Any, casting: Casting = "same_kind", where: Any = True) -> None:
    """Assign ``src``, broadcast, to the elements of ``dst``, in place.

    Args:
        dst: the array to write to, which no tape tracks.
        src: an array, a number or nested lists; more axes of size 1 in front are allowed.
        casting: which casts to the dtype of ``dst`` are allowed, as of ``numpy.can_cast``.
        where: a mask that broadcasts to ``dst``, taken as bool, or a number; where it is false, elements stay.

    Raises:
        GradientError: a tape tracks an array.
        TypeError: the cast is not allowed.
        ValueError: the shapes do not broadcast.

    >>> import cukern as ck
    >>> x = ck.zeros(3)
    >>> ck.copyto(x, [1, 2, 3], where=ck.asarray([True, False, True]))
    >>> x.tolist()
    [1.0, 0.0, 3.0]
    """
    dst = require_written(dst, "copyto", "dst")
    about_to_write(dst)
    value = _castable("copyto", src, dst, casting)
    if is_scalar(where):
        where = None if where else np.zeros((), bool)
    if where is None:
        setitem(dst, ..., value)
        return
    mask = broadcast_to(not_equal(require_array(where, "copyto", "where", dst), 0), dst.shape)
    if isinstance(value, Array):
        extra = value.ndim - dst.ndim
        if extra > 0 and value.shape[:extra] == (1,) * extra:
            value = reshape(value, value.shape[extra:])
        value = broadcast_to(astype(value, dst.dtype, copy=False), dst.shape)
    setitem(dst, ..., choose(mask, value, dst))


def _cycled(values: Array, count: int) -> Array:
    """``count`` of the flattened values, which are repeated from the first on."""
    flat = reshape(values, (-1,))
    if flat.size >= count or flat.size == 1:
        return broadcast_to(flat, (count,)) if flat.size == 1 else flat[:count]
    with tape.stop_recording():
        return take(flat, asarray(np.arange(count) % max(flat.size, 1), device=values.device))


@public
def put(x: Array, /, ind: Any, v: Any, mode: Literal["raise", "wrap", "clip"] = "raise") -> None:
    """Assign values to indices of the flattened ``x``, in place; if an index is repeated, the last value wins.

    Args:
        x: the array to write to, which no tape tracks; ``x.at[key].set`` returns a new array instead.
        ind: integers; negative ones count from the end.
        v: values, which are cast to the dtype of ``x``; fewer than the indices are repeated.
        mode: for indices out of range: ``"raise"`` an error, ``"wrap"`` around, or ``"clip"`` to the range.

    Raises:
        GradientError: a tape tracks an array.
        IndexError: an index is out of range (on the host; on a GPU it is clipped).
        TypeError: ``x`` is not a cukern array.

    >>> import cukern as ck
    >>> x = ck.arange(4)
    >>> ck.put(x, [0, -1], [10, 20])
    >>> x.tolist()
    [10, 1, 2, 20]
    """
    x = require_written(x, "put")
    about_to_write(x)
    expect_mode(mode, "put")
    number = is_scalar(v) and dtypes.result_type(x.dtype, v) == x.dtype
    _put(x, ind, v if number else require_array(v, "put", "v", x), mode)


@on_device
def _put(x: Array, ind: Any, values: Any, mode: str) -> None:
    data = integers(ind, x, "put").reshape(-1)
    number = is_scalar(values)
    if data.size and not (number or values.size):
        return
    indices = kernel_indices(in_mode(data, x.size, x, mode), x.size, x, "put")
    put_flat(x, indices, values if number else _cycled(values, indices.size), "put")


@public
def putmask(x: Array, /, mask: Any, values: Any) -> None:
    """Assign to each element of ``x`` where ``mask`` is true the element of ``values`` at the same position, in place.

    Args:
        x: the array to write to, which no tape tracks.
        mask: any array of as many elements, taken as bool.
        values: an array; if it has fewer elements than ``x``, they are repeated from the first on.

    Raises:
        GradientError: a tape tracks an array.
        TypeError: the values cannot be cast to the dtype of ``x``.
        ValueError: the mask has another size.

    >>> import cukern as ck
    >>> x = ck.arange(5)
    >>> ck.putmask(x, x > 1, [10, 20])
    >>> x.tolist()
    [0, 1, 10, 20, 10]
    """
    x = require_written(x, "putmask")
    chosen = require_array(mask, "putmask", "mask", x)
    if chosen.size != x.size:
        raise ValueError(f"putmask: mask: expected {x.size} elements, got {chosen.size}")
    source = require_array(_castable("putmask", values, x), "putmask", "values", x)
    if not source.size or not x.size:
        return
    spread = reshape(_cycled(astype(source, x.dtype, copy=False), x.size), x.shape)
    setitem(x, ..., choose(reshape(not_equal(chosen, 0), x.shape), spread, x))


@public
def place(x: Array, /, mask: Any, vals: Any) -> None:
    """Assign values, in turn, to the elements of ``x`` where ``mask`` is true, in place; waits for the device.

    Args:
        x: the array to write to, which no tape tracks.
        mask: any array of as many elements, taken as bool.
        vals: the first value goes to the first true element, and so on; fewer values are repeated.

    Raises:
        GradientError: a tape tracks an array.
        TypeError: the values cannot be cast to the dtype of ``x``.
        ValueError: the mask has another size, or an element is true and there is no value.

    >>> import cukern as ck
    >>> x = ck.arange(5)
    >>> ck.place(x, x > 1, [10, 20])
    >>> x.tolist()
    [0, 1, 10, 20, 10]
    """
    x = require_written(x, "place")
    chosen = require_array(mask, "place", "mask", x)
    if chosen.size != x.size:
        raise ValueError(f"place: mask: expected {x.size} elements, got {chosen.size}")
    source = require_array(_castable("place", vals, x), "place", "vals", x)
    indices = flatnonzero(not_equal(chosen, 0))
    if indices.size and not source.size:
        raise ValueError("place: vals: expected at least one value, got none")
    if indices.size:
        put_flat(x, indices._data, _cycled(source, indices.size), "place")


class Flat:
    """The elements of an array in C order: ``x.flat``. It iterates over 0-d arrays, and is indexed like a vector.

    Attributes:
        base: the array.
    """

    def __init__(self, base: Array) -> None:
        self.base = base
        self._next = 0

    def __len__(self) -> int:
        return self.base.size

    def __iter__(self) -> Iterator[Array]:
        return self

    def __next__(self) -> Array:
        if self._next >= len(self):
            raise StopIteration
        self._next += 1
        return reshape(self.base, (-1,))[self._next - 1]

    def copy(self) -> Array:
        """A copy of all elements as a vector."""
        return reshape(self.base, (-1,), copy=True)

    def __getitem__(self, key: Any) -> Array:
        return getitem(reshape(self.base, (-1,)), self._key(key)).copy()

    def __setitem__(self, key: Any, value: Any) -> None:
        x = self.base
        with tape.stop_recording():
            indices = getitem(asarray(np.arange(x.size), device=x.device), self._key(key))
        values = require_array(value, "flat", "value", x)
        if indices.size and values.size:
            put_flat(
                x, indices.contiguous()._data, reshape(_cycled(values, indices.size), indices.shape), "flat"
            )

    def _key(self, key: Any) -> Any:
        if key is None or isinstance(key, (tuple, bool, np.bool_)):
            raise IndexError(
                f"flat: expected an integer, a slice, '...' or an array of integers, got {key!r}"
            )
        return key


@public
def flat(x: Array, /) -> Flat:
    """``x.flat``."""
    return Flat(x)


@public
def viewed(x: Array, /, dtype: Any = None) -> Array:
    """``x.view(dtype)``."""
    wanted = x.dtype if dtype is None else dtypes.as_dtype(dtype)
    if wanted == x.dtype:
        with x.device.activate():
            return recorded("view", x, view(x, x._data[...]), lambda g: g, lambda t: t)
    require_constant("view", x=x)
    with x.device.activate():
        try:
            data = x._data.view(wanted)
        except (ValueError, TypeError) as error:
            raise ValueError(f"view: {x.dtype} of shape {x.shape} as {wanted}: {error}") from error
        multiple = wanted.alignment if x.device.addressable else wanted.itemsize
        if address(data) % multiple:
            raise ValueError(
                f"view: {x.dtype} of shape {x.shape} as {wanted}: these are read at multiples of {multiple} bytes, and "
                "the array begins elsewhere; view a copy"
            )
        return view(x, data)
