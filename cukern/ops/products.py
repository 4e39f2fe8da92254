"""Products of ndarrays, by the library of their device: cuBLAS as it is, or NumPy's and CuPy's ``matmul``."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .. import dtypes
from ..array import Array
from ..device import Device, cublas
from ..layout import Layout, fresh_layout
from .launch import Axes, Strides, broadcast_shapes, collapse, contiguous_steps, raw, remember

#: The sizes that the libraries take: C's int.
_LIMIT = 2**31 - 1


def multiply(device: Device, a: Any, b: Any, out: Any = None) -> Any:
    """``a @ b`` for ndarrays of one dtype on ``device``, which is the current one.

    Args:
        a: shape (..., m, k).
        b: shape (..., k, n).
        out: an ndarray (..., m, n) in C order to write to, of float32 where it is not of their dtype;
            none of its sizes exceeds what C's int holds.

    Returns:
        The product, of shape (..., m, n).
    """
    xp = device.xp
    if device.kind == "host":
        with np.errstate(all="ignore"):
            return xp.matmul(a, b, out=out)
    if a.dtype not in dtypes.FLOATS:
        return xp.matmul(a, b) if out is None else xp.matmul(a, b, out=out)
    return in_pieces(xp, a, b, _LIMIT) if out is None else _blas(xp, a, b, out)


class Plan:
    """A product of GPU arrays of given layouts that needs no copy of either.

    Attributes:
        layout: of the result.
    """

    __slots__ = ("_calls", "_current", "_device", "_size", "layout")

    def __init__(self, a: Layout, b: Layout) -> None:
        self._device, self._size = a.device, a.dtype.itemsize
        self._current = a.device.xp.cuda.runtime.getDevice
        batch = broadcast_shapes("matmul", [a.shape[:-2], b.shape[:-2]])
        self.layout = fresh_layout(a.device, a.dtype, (*batch, a.shape[-2], b.shape[-1]))
        self._calls = _calls(a.device.xp, a, b, self.layout)

    def __call__(self, a: Array, b: Array) -> Array:
        """The product, a new array."""
        if self._current() != self._device.index:
            with self._device.activate():
                return self(a, b)
        made = Array._made(self.layout)
        size = self._size
        for call, (i, j, k) in self._calls:
            call(a._operand + size * i, b._operand + size * j, made._operand + size * k)
        return made


_plans: dict[tuple[Layout, Layout], Plan | None] = {}


def planned(a: Array, b: Array) -> Plan | None:
    """The plan for two GPU arrays of one floating dtype whose shapes fit; None where there is none for such.

    Raises:
        ValueError: the batches do not broadcast.
    """
    key = (a._layout or a._planned(), b._layout or b._planned())
    if key not in _plans:
        made = Plan(*key) if _plain(*key) else None
        remember(_plans, key, made)
        return made
    return _plans[key]


def known(a: object, b: object) -> Plan | None:
    """The plan that there is for two arguments, where they are arrays like those of an earlier product."""
    if isinstance(a, Array) and isinstance(b, Array):
        return _plans.get((a._layout or a._planned(), b._layout or b._planned()))
    return None


def _plain(a: Layout, b: Layout) -> bool:
    sizes = (*a.shape, *b.shape, a.size // max(1, a.shape[-1]), b.size // max(1, b.shape[-1]))
    flat = b.ndim == 2 and a.ndim > 2 and a.contiguous  # one product of all rows is quicker
    return min(sizes) > 0 and max(sizes) <= _LIMIT and not flat and bool(cublas.read(a) and cublas.read(b))


class Part(NamedTuple):
    """A matrix in the memory of an array: the array's layout, and what makes the matrix of an ndarray."""

    whole: Layout
    view: Callable[[Any], Any] = lambda whole: whole


class Product:
    """``out = a @ b`` for matrices in arrays of given layouts, worked out once.

    Args:
        a: a matrix of a floating dtype that the device's library reads as it is (:func:`readable`).
        b: likewise.
        out: its rows contiguous; of the dtype of ``a`` and ``b``, or of their accumulator's.
    """

    __slots__ = ("_call", "_convert", "_device", "_offsets", "_views")

    def __init__(self, a: Part, b: Part, out: Part) -> None:
        parts = (a, b, out)
        self._device = a.whole.device
        self._views = [part.view for part in parts]
        self._call: Callable[[int, int, int], None] | None = None
        # NumPy has no product of half types.
        self._convert = out.whole.dtype if a.whole.on_host and out.whole.dtype != a.whole.dtype else None
        matrices = [_stand_in(part) for part in parts]
        if not a.whole.on_host and all(one.size for one, _ in matrices):
            self._offsets = tuple(offset for _, offset in matrices)
            self._call = cublas.prepare(self._device.xp, *(one for one, _ in matrices))

    def __call__(self, a: Array, b: Array, out: Array) -> None:
        """Write the product; the current device is that of the arrays."""
        if self._call is not None:
            i, j, k = self._offsets
            self._call(a._operand + i, b._operand + j, out._operand + k)
            return
        left, right, made = (view(one._data) for view, one in zip(self._views, (a, b, out), strict=True))
        if self._convert is not None:
            left, right = left.astype(self._convert), right.astype(self._convert)
        multiply(self._device, left, right, made)


def _stand_in(part: Part) -> tuple[Any, int]:
    """The matrix as a NumPy array of no memory of its own, and how many bytes into the array it begins."""
    whole = np.lib.stride_tricks.as_strided(
        np.empty(1, part.whole.dtype), part.whole.shape, part.whole.strides
    )
    matrix = part.view(whole)
    begin, start = (one.__array_interface__["data"][0] for one in (whole, matrix))
    return matrix, start - begin


def readable(x: Array) -> Array:
    """A matrix that the library of its device reads as it is: itself, or a copy in C order."""
    layout = x._layout or x._planned()
    return x if layout.on_host or cublas.read(layout) else x.contiguous()


def in_pieces(xp: Any, a: Any, b: Any, limit: int) -> Any:
    """The product of two ndarrays in as many products as it takes for no size, and no batch, to exceed ``limit``."""
    (m, k), n = a.shape[-2:], b.shape[-1]
    batch = broadcast_shapes("matmul", [a.shape[:-2], b.shape[:-2]]) if a.ndim > 2 or b.ndim > 2 else ()
    if max(m, k, n, math.prod(batch)) <= limit:
        return np.matmul(a, b) if xp is np else _blas(xp, a, b, xp.empty((*batch, m, n), a.dtype))
    if k > limit:
        half = k // 2
        return in_pieces(xp, a[..., :half], b[..., :half, :], limit) + in_pieces(
            xp, a[..., half:], b[..., half:, :], limit
        )
    # Places are counted from the last axis, as batches broadcast.
    at = (
        -2
        if m > limit
        else -1
        if n > limit
        else max(range(len(batch)), key=batch.__getitem__) - len(batch) - 2
    )
    size = (*batch, m, n)[at]
    parts = []
    for start, end in ((0, size // 2), (size // 2, size)):
        left = a if at == -1 else _cut(a, at, start, end)
        right = b if at == -2 else _cut(b, at, start, end)
        parts.append(raw(in_pieces(xp, left, right, limit)))
    return xp.concatenate(parts, axis=at).view(a.dtype)


def _cut(data: Any, axis: int, start: int, end: int) -> Any:
    """Part of an axis, counted from the last; all of one that broadcasts."""
    if -axis > data.ndim or data.shape[axis] == 1:
        return data
    return data[(..., slice(start, end)) + (slice(None),) * (-axis - 1)]


def _blas(xp: Any, a: Any, b: Any, out: Any) -> Any:
    """``a @ b`` in ``out`` by cuBLAS: one call where the batches are steps of one length, else several."""
    if not out.size:
        return out
    if not a.shape[-1]:
        raw(out)[...] = 0
        return out
    left, right, made = cublas.readable(xp, a), cublas.readable(xp, b), out
    if b.ndim == 2 and a.ndim > 2 and a.flags.c_contiguous:
        left, made = a.reshape(-1, a.shape[-1]), out.reshape(-1, out.shape[-1])
    at, of, to = (one.data.ptr for one in (left, right, made))
    size = a.itemsize
    for call, (i, j, k) in _calls(xp, left, right, made):
        call(at + size * i, of + size * j, to + made.itemsize * k)
    return out


_prepared: dict[tuple[Any, ...], Callable[[int, int, int], None]] = {}
Calls = list[tuple[Callable[[int, int, int], None], tuple[int, int, int]]]


def _calls(xp: Any, a: Any, b: Any, out: Any) -> Calls:
    """cuBLAS's calls for ``out = a @ b``, and where each begins in the three of them, in elements."""
    if out.ndim == 2:
        key = (a.dtype, out.dtype, a.shape, a.strides, b.shape, b.strides, out.strides)
        call = _prepared.get(key)
        if call is None:
            call = remember(_prepared, key, cublas.prepare(xp, a, b, out))
        return [(call, (0, 0, 0))]
    batch = out.shape[:-2]
    steps = [_batch_steps(one, len(batch)) for one in (a, b)] + [contiguous_steps(out.shape)[:-2]]
    axes = collapse(batch, steps)
    inner = [one[-1] if one else 0 for one in axes.steps]
    call = cublas.prepare(xp, a, b, out, axes.shape[-1] if axes.shape else 1, inner)
    places = np.ndindex(axes.shape[:-1])
    return [(call, _offsets(axes, place)) for place in places]


def _offsets(axes: Axes, place: tuple[int, ...]) -> tuple[int, int, int]:
    i, j, k = (sum(n * step for n, step in zip(place, one, strict=False)) for one in axes.steps)
    return i, j, k


def _batch_steps(data: Any, axes: int) -> Strides:
    """The steps in elements from matrix to matrix along each of the batch axes that it broadcasts to."""
    sizes, strides = data.shape[:-2], data.strides[:-2]
    own = [0 if n == 1 else stride // data.dtype.itemsize for n, stride in zip(sizes, strides, strict=True)]
    return (0,) * (axes - len(own)) + tuple(own)
