"""``x[key]`` and ``x[key] = value``: basic indices make views, integer arrays and masks gather."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import tape
from ..array import Array
from ..creation import asarray
from ..errors import GradientError
from ..expr import convert_scalar, is_scalar
from ..kernel import Kernel
from .axes import on_device, public, recorded, view
from .elementwise import astype
from .index import gather, integers, places_in
from .launch import divide_up, raw, repeated, zeros
from .manipulate import moveaxis, reshape

_PUT = Kernel("put.cu", block=256)
#: Values that one host thread writes.
_HOST_PIECE = 4096


class _Places(NamedTuple):
    """Integer places along an axis.

    Attributes:
        data: the integers, an ndarray.
        size: the size that a mask had along the axis; None for integers that were given.
        new: whether the axis is a new one of size 1, which a 0-d mask indexes.
    """

    data: Any
    size: int | None = None
    new: bool = False


def _parts(key: Any, x: Array) -> list[Any]:
    """The parts of an index: None, integer, slice or places, the ellipsis spelled out.

    Raises:
        IndexError: more parts than axes, two ellipses, or a part that is no index.
    """
    parts: list[Any] = []
    for part in key if isinstance(key, tuple) else (key,):
        parts += _part(part, x)
    used = sum(
        part is not None and part is not Ellipsis and not (_advanced(part) and part.new) for part in parts
    )
    if used > x.ndim:
        raise IndexError(f"too many indices: the array has {x.ndim} axes, and {used} were indexed")
    ellipses = [i for i, part in enumerate(parts) if part is Ellipsis]
    if len(ellipses) > 1:
        raise IndexError("an index can only have one ellipsis ('...')")
    at = ellipses[0] if ellipses else len(parts)
    return parts[:at] + [slice(None)] * (x.ndim - used) + parts[at + 1 :]


def _part(part: Any, x: Array) -> list[Any]:
    if part is None or part is Ellipsis or isinstance(part, slice):
        return [part]
    if isinstance(part, (list, np.ndarray, Array, bool, np.bool_)):
        data = part._data if isinstance(part, Array) else x.device.xp.asarray(part)
        if data.dtype == np.bool_:
            return _mask(data, x)
        if data.ndim == 0 and data.dtype.kind in "iu":
            return [int(data)]
        return [_Places(integers(part, x, "index"))]
    try:
        return [operator.index(part)]
    except TypeError:
        raise IndexError(
            f"expected integers, slices, '...', None, and integer or boolean arrays as indices, got {part!r}"
        ) from None


def _mask(data: Any, x: Array) -> list[Any]:
    if data.ndim == 0:
        return [_Places(x.device.xp.zeros(int(bool(data)), np.int64), 1, True)]
    return [_Places(places, size) for places, size in zip(data.nonzero(), data.shape, strict=True)]


def _advanced(part: Any) -> bool:
    return isinstance(part, _Places)


@public
@on_device
def getitem(x: Array, key: Any, /) -> Array:
    """The part of ``x`` that an index names.

    Integers, slices, ``None`` and ``...`` give a view; integer arrays and boolean masks a copy.

    Raises:
        IndexError: the index does not fit the shape.
    """
    parts = _parts(key, x)
    if not any(map(_advanced, parts)):
        return _basic(x, tuple(parts))
    integers_too = [_Places(np.int64(part)) if isinstance(part, int) else part for part in parts]
    return _gathered(x, integers_too)


def _basic(x: Array, key: tuple[Any, ...]) -> Array:
    made = view(x, x._data[(*key, ...)])
    shape = x.shape
    return recorded("getitem", x, made, lambda g: _embedded(g, shape, key))


@on_device
def _embedded(g: Array, shape: tuple[int, ...], key: tuple[Any, ...]) -> Array:
    """Zeros of a shape, but for ``g`` at an index: what the derivative of a view is."""
    data = zeros(g.device, shape, g.dtype)
    raw(data)[(*key, ...)] = raw(g._data)
    return recorded("embed", g, Array._wrap(data, g.device), lambda gg: _basic(gg, key))


def _gathered(x: Array, parts: Sequence[Any]) -> Array:
    basic: list[Any] = []
    axes: list[int] = []
    arrays: list[Any] = []
    at = [i for i, part in enumerate(parts) if _advanced(part)]
    sizes = iter(x.shape)
    for i, part in enumerate(parts):
        size = 1 if part is None or (_advanced(part) and part.new) else next(sizes)
        if not _advanced(part):
            basic.append(part)
            continue
        if part.size is not None and part.size != size:
            raise IndexError(f"a boolean index of size {part.size} does not match an axis of size {size}")
        basic.append(None if part.new else slice(None))
        axes.append(i)
        arrays.append(places_in(x.device.xp.asarray(part.data), size, x, "index"))
    try:
        arrays = x.device.xp.broadcast_arrays(*arrays)
    except ValueError:
        shapes = ", ".join(str(tuple(a.shape)) for a in arrays)
        raise IndexError(f"index arrays of shapes {shapes} do not broadcast") from None
    # The places stand where the indexed axes stood if those were neighbours, else in front.
    start = at[0] if at[-1] - at[0] == len(at) - 1 else 0
    moved = moveaxis(_basic(x, tuple(basic)), tuple(axes), tuple(range(start, start + len(axes))))
    return _gather_axes(moved, arrays, start)


def _gather_axes(x: Array, arrays: Sequence[Any], start: int) -> Array:
    """``x`` at joint places along as many axes from ``start`` on as there are arrays."""
    before, picked = x.shape[:start], x.shape[start : start + len(arrays)]
    after = x.shape[start + len(arrays) :]
    places = arrays[0]
    for size, array in zip(picked[1:], arrays[1:], strict=True):
        places = places * size + array
    outer, inner, size = math.prod(before), math.prod(after), math.prod(picked)
    flat = x.device.xp.ascontiguousarray(places.reshape(-1))
    made = gather(reshape(x, (outer, size, inner)), flat, outer, size, inner)
    return reshape(made, (*before, *places.shape, *after))


def _writable(x: Array, value: Any, name: str) -> None:
    """Refuse to write where that would be lost, or missed by a tape."""
    arrays = [x, value] if isinstance(value, Array) else [x]
    if tape.recording(arrays):
        raise GradientError(
            f"{name} on an array that a tape tracks: use x.at[key].set(value), which is a new array"
        )
    if repeated(x._data):
        raise ValueError(f"{name} on a repeated view, such as broadcast_to's: write to a copy")


def _source(x: Array, value: Any) -> Array:
    """``value`` as an array of the dtype and device of ``x``."""
    if is_scalar(value):
        return asarray(convert_scalar(value, x.dtype), dtype=x.dtype, device=x.device)
    return astype(asarray(value, device=x.device), x.dtype, copy=False)


@public
@on_device
def setitem(x: Array, key: Any, value: Any, /) -> None:
    """Write ``value``, broadcast, to the part of ``x`` that an index names; the last of several for one place stays.

    Raises:
        GradientError: a tape tracks ``x`` or ``value``.
        IndexError: the index does not fit the shape.
        ValueError: ``value`` does not broadcast to the part, or ``x`` is a repeated view.
    """
    _writable(x, value, "x[key] = value")
    parts = _parts(key, x)
    if not any(map(_advanced, parts)):
        source = _source(x, value)
        data = raw(source._data)
        raw(x._data)[(*parts, ...)] = data.copy() if source._storage is x._storage else data
        x._bump("setitem")
        return
    with tape.stop_recording():
        numbers = Array._wrap(x.device.xp.arange(x.size, dtype=np.int64).reshape(x.shape), x.device)
        put(x, getitem(numbers, key), value, "x[key] = value")


def put(x: Array, places: Array, value: Any, name: str) -> None:
    """Write ``value``, broadcast to ``places``, to these places of the flattened ``x``."""
    _writable(x, value, name)
    source = _source(x, value)
    try:
        data = x.device.xp.broadcast_to(source._data, places.shape)
    except ValueError:
        # NumPy lets values have more axes of size 1 than the part has.
        extra = source.ndim - places.ndim
        if extra <= 0 or any(n != 1 for n in source.shape[:extra]):
            raise ValueError(
                f"{name}: a value of shape {source.shape} does not broadcast to shape {places.shape}"
            ) from None
        put(x, places, reshape(source, source.shape[extra:]), name)
        return
    if not places.size:
        return
    # Places of the memory, in its order: a view is written through the array that it is dense in, or by a copy.
    target = x._data if x.is_contiguous else x.device.xp.ascontiguousarray(raw(x._data)).view(x.dtype)
    flat = places._data.reshape(-1)
    order = _stable_order(Array._wrap(x.device.xp.ascontiguousarray(flat), x.device))
    block = 1 if x.device.kind == "host" else 256
    piece = _HOST_PIECE if block == 1 else 1
    kernel = _PUT.bind(x.device, name="put", elem=x.dtype, block=block)
    values = x.device.xp.ascontiguousarray(raw(data)).view(x.dtype).reshape(-1)
    kernel.function(
        (divide_up(flat.size, block * piece), 1, 1),
        (block, 1, 1),
        0,
        (values, x.device.xp.ascontiguousarray(flat), order._data, target, flat.size, piece),
    )
    if target is not x._data:
        raw(x._data)[...] = raw(target)
    x._bump(name)


def _stable_order(places: Array) -> Array:
    from .sort import argsort

    return argsort(places)
