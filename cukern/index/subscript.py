"""``x[key]`` and ``x[key] = value``: basic indices make views, integer arrays and masks gather."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .. import dtypes, pytree
from ..array import Array
from ..array.batched import Batched, Level, level_of, levels
from ..array.creation import arange, asarray, warn_of_constant
from ..array.deferred import about_to_write, trace, traced_threads
from ..array.host_data import holds_array
from ..array.layout import Layout
from ..array.mapping import called, looped
from ..autodiff import tape, writes
from ..autodiff.cotangents import Parts
from ..autodiff.state import opened
from ..device import kernels_only
from ..device.host.checked.mode import modes
from ..device.kernels_only import allows_numpy, asked
from ..elementwise.function import astype
from ..elementwise.operands import (
    normalize_axis,
    on_device,
    public,
    recorded_many,
    require_written,
    view,
)
from ..elementwise.row import convert_scalar, is_scalar
from ..errors import GradientError
from ..kernel.by_numpy import LARGE, by_numpy, watchers
from ..kernel.plan import apart, on, raw, serial, zeros
from ..kernel.strides import repeated
from ..shape.copy import write
from ..shape.known_views import known, viewed
from ..shape.views import moveaxis, reshape
from .embed import assembled, covers
from .gather_scatter import picked_along, put_number, put_rows
from .plain_numbers import takes_number
from .search import indices_of_true
from .take import along_axis, checked_indices, elements, gather, integers, kernel_indices, on_device_of, take

__all__ = ["put_along_axis"]


class _Indices(NamedTuple):
    """Integer indices along an axis: a part of an advanced index.

    Attributes:
        data: the integers, an ndarray.
        size: the size of a mask along the axis; None if integers were given.
        new: whether the axis is a new one of size 1, for a 0-d mask.
        argument: the integers as they were given.
    """

    data: Any
    size: int | None = None
    new: bool = False
    argument: Any = None


def _parts(key: Any, x: Array) -> list[Any]:
    """The parts of an index: None, integer, slice or indices, with the ellipsis replaced by slices.

    An ellipsis for zero axes is kept between indices, which it separates.

    Raises:
        IndexError: there are more parts than axes, two ellipses, or an invalid part.
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
    middle: list[Any] = [slice(None)] * (x.ndim - used)
    if ellipses and not middle and any(map(_advanced, parts)):
        middle = [Ellipsis]
    return parts[:at] + middle + parts[at + 1 :]


def _part(part: Any, x: Array) -> list[Any]:
    if part is None or part is Ellipsis or isinstance(part, slice):
        return [part]
    if isinstance(part, Array):
        part = part.to_device(x.device)
    if isinstance(part, (list, tuple, range, np.ndarray, Array, bool, np.bool_)):
        if not x.device.addressable:
            warn_of_constant(part)
        data = part._data if isinstance(part, Array) else on_device_of(x, part)
        if data.dtype == np.bool_:
            return _mask(data, x)
        if data.ndim == 0 and data.dtype.kind in "iu":
            return [int(data)]
        return [_Indices(integers(part, x, "index"), argument=part)]
    try:
        return [operator.index(part)]
    except TypeError:
        raise IndexError(
            f"expected integers, slices, '...', None, and integer or boolean arrays as indices, got {part!r}"
        ) from None


def _mask(data: Any, x: Array) -> list[Any]:
    if data.ndim == 0:
        return [_Indices(x.device.xp.zeros(int(bool(data)), np.int64), 1, True)]
    indices_by_axis = indices_of_true(Array._wrap(data, x.device))
    return [_Indices(indices._data, size) for indices, size in zip(indices_by_axis, data.shape, strict=True)]


def _advanced(part: Any) -> bool:
    return isinstance(part, _Indices)


@public
def getitem(x: Array, key: Any, /) -> Array:
    """``x[key]``.

    Integers, slices, ``None`` and ``...`` give a view; integer arrays and boolean masks give a copy.

    Raises:
        IndexError: the index does not fit the shape.
    """
    kind, device = type(key), x.device
    if type(x) is Batched:
        return _getitem(x, key)
    if traced_threads and (active := trace()) is not None:
        given = key if kind is tuple else (key,)
        if _PLAIN.issuperset(map(type, given)) or (levels and level_of(pytree.leaves(key)) is not None):
            return _getitem(x, key)
        if x.ndim > 1 and isinstance(key, Array) and key.dtype.kind in "iu" and key.ndim == 1:
            return take(x, key, 0)
        made = elements(active, x, _of_axes(given, x.ndim), "index")
        return active.call(getitem, (x, key), {}) if made is None else made
    if not opened and device.addressable:
        at: Any = None
        if kind is int or kind is slice:
            at = key, ...  # not a scalar
        elif kind is tuple:
            for part in key:
                if type(part) is not int and type(part) is not slice:
                    break
            else:
                at = key + _REST
        elif kind is Array and key.device is device and not (watchers or modes or asked()):
            # What _host_key says, sooner; a view may have no layout yet, and working it out takes longer.
            data, form, of_key = x._ndarray, x._layout or x._ndarray, key._layout or key._ndarray
            if (
                of_key.ndim
                and of_key.dtype.kind in _INDICES
                and of_key.size < LARGE > form.size
                and (form.ndim == 1 or data.flags.c_contiguous)
            ):
                try:
                    return Array._wrap(data[key._ndarray], device)
                except IndexError:
                    pass  # the general path below raises the error
        if at is not None:
            try:
                return view(x, x._ndarray[at])
            except IndexError:
                pass  # the general path below raises the error
    parts = key if isinstance(key, tuple) else (key,)
    if _PLAIN.issuperset(map(type, parts)):
        if not x.device.addressable or (tape.opened and tape.tracked((x,)) is not None):
            result = known(x, _named(parts))
            if result is not None:
                return result
        else:
            try:
                data = x._data[parts]
                return view(x, data if type(data) is np.ndarray else x._data[(*parts, ...)])  # not a scalar
            except IndexError:
                pass  # the general path below raises the error
    elif (at := _host_key(x, parts)) is not None and (not opened or tape.tracked((x,)) is None):
        try:
            return _copy_of(x, at)
        except IndexError:
            pass  # the general path below raises the error
    if not device.addressable and kind is Array and key.dtype.kind in "iu" and x.ndim:
        return take(x, key, 0)
    return _getitem(x, key)


def _of_axes(parts: Sequence[Any], ndim: int) -> list[Array | None]:
    """The arrays in a key, by axis, and None for an axis of which all is taken; none of a key with other parts."""
    used = [part for part in parts if part is not ...]
    at = next((i for i, part in enumerate(parts) if part is ...), len(parts))
    whole = [slice(None)] * (ndim - len(used))
    found = [*parts[:at], *whole, *parts[at + 1 :]]
    if not all(isinstance(part, Array) or (type(part) is slice and part == slice(None)) for part in found):
        return []
    return [part if isinstance(part, Array) else None for part in found]


def _is_for_numpy(x: Array) -> bool:
    """Whether NumPy selects of an array, as this module does: of a host's where it is not large and nobody asks."""
    layout = x._layout or x._planned()
    return layout.on_host and not watchers and layout.size < LARGE and allows_numpy(layout.device)


def _host_indices(x: Array, part: Any) -> Any:
    """Indices or a mask of a key as an ndarray that is no part of ``x``; None where NumPy is not to take them."""
    kind = type(part)
    if kind is Array and part.device is x.device and part._storage is not x._storage:
        part = part._ndarray
    elif kind is list and _INTEGERS.issuperset(map(type, part)):
        part = np.array(part, np.int64)
    elif kind is not np.ndarray:
        return None
    return part if part.dtype.kind in _INDICES and part.ndim and part.size < LARGE else None


def _host_key(x: Array, parts: Sequence[Any]) -> tuple[Any, ...] | None:
    """The parts of a key for NumPy; None where it is not to take them."""
    if not _is_for_numpy(x):
        return None
    made: list[Any] = []
    for part in parts:
        if type(part) not in _PLAIN and (part := _host_indices(x, part)) is None:
            return None
        made.append(part)
    return tuple(made)


def _copy_of(x: Array, at: Any) -> Array:
    """What NumPy takes from an array of the host by indices or masks, in C order."""
    found = x._data[at]
    return Array._wrap(found if found.flags.c_contiguous else found.copy(), x.device)


#: The kinds of dtypes of indices and masks.
_INDICES = frozenset("iub")
_INTEGERS = frozenset((int,))
#: The types of the parts of basic indices.
_PLAIN = frozenset((int, slice, type(None), type(...)))
#: Behind the parts of a basic index: NumPy's result is a view then, not a scalar.
_REST = (...,)


def _named(parts: Sequence[Any]) -> tuple[Any, ...]:
    """What names the view of a basic index among the views of an array."""
    name: list[Any] = ["getitem"]
    for part in parts:
        if isinstance(part, slice):
            name += (":", part.start, part.stop, part.step)
        else:
            name.append("..." if part is Ellipsis else part)
    return tuple(name)


@on_device
def _getitem(x: Array, key: Any) -> Array:
    """:func:`getitem` without what is known of the array's memory."""
    if levels and (level := level_of(pytree.leaves((x, key)))) is not None:
        basic = _PLAIN.issuperset(map(type, key if isinstance(key, tuple) else (key,)))
        return _basic(x, tuple(_parts(key, x))) if basic else called(level, _of_all, getitem, (x, key), {})
    parts = _parts(key, x)
    if not any(map(_advanced, parts)):
        key_parts = key if isinstance(key, tuple) else (key,)
        result = _basic(x, tuple(parts), key_parts)
        return result.copy() if any(isinstance(part, (Array, np.ndarray)) for part in key_parts) else result
    return _gathered(x, _picked(parts))


def _of_all(level: Level, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Array:
    """The rule of an index with arrays: that of the example is one more, or a slice of all."""
    x, key = args
    parts = [
        asarray(part, device=x.device) if isinstance(part, (list, range, tuple, np.ndarray)) else part
        for part in (key if isinstance(key, tuple) else (key,))
    ]
    masks = [part for part in parts if isinstance(part, Array) and part.dtype == dtypes.bool_]
    if any(map(level.holds, masks)):
        raise TypeError(
            "vmap: an index is a mask of which examples have different ones, and so numbers of elements: use ck.where"
        )
    used = sum([_axes_of(part) for part in parts])
    if ... not in [part for part in parts if not isinstance(part, Array)]:
        parts.append(...)
    at = next(i for i, part in enumerate(parts) if part is ...)
    parts[at : at + 1] = [slice(None)] * (x.ndim - used)
    picks = [i for i, part in enumerate(parts) if isinstance(part, (int, np.integer, Array, bool))]
    together = picks[-1] - picks[0] == len(picks) - 1
    start = picks[0] if together else 0
    if not any(map(level.holds, parts)):
        count = max(
            [
                1 if one.dtype == dtypes.bool_ else one.ndim
                for one in map(parts.__getitem__, picks)
                if isinstance(one, Array)
            ]
        )
        made = level.front(x)[(slice(None), *parts)]
        return made if together else moveaxis(made, count, 0)
    if masks:
        result: Array = looped(level, function, args, kwargs)
        return result
    count = max([np.ndim(parts[i]) for i in picks])
    wholes = [level.value(part, count) if isinstance(part, Array) else part for part in parts]
    if not level.holds(x):
        return moveaxis(x[tuple(wholes)], start, 0)
    each = reshape(arange(level.size, device=x.device), (-1,) + (1,) * count)
    made = level.front(x)[(each, *wholes)]
    axes = range(1, 1 + count)
    return moveaxis(made, tuple(axes), tuple([start + axis for axis in axes]))


def _axes_of(part: Any) -> int:
    """The axes of an array that a part of an index takes."""
    if part is None or part is ... or isinstance(part, bool):
        return 0
    return part.ndim if isinstance(part, Array) and part.dtype == dtypes.bool_ else 1


def _picked(parts: Sequence[Any]) -> list[Any]:
    """The parts of an advanced index, in which integers become arrays too."""
    return [_Indices(np.int64(part)) if isinstance(part, int) else part for part in parts]


def _basic(x: Array, key: tuple[Any, ...], written: tuple[Any, ...] | None = None) -> Array:
    """The view at ``key``, which may have been ``written`` in another way."""
    shape, name = x.shape, _named(key if written is None else written)
    take = operator.itemgetter((*key, ...))

    def again(t: Array) -> Array:
        return getitem(t, (*key, ...))

    if covers(key, shape):
        return viewed(x, take, lambda g: reshape(g, shape), name, again)
    place = key, x._layout or x._planned()
    return viewed(x, take, lambda g: Parts(assembled, place, g), name, again)


class _Joint(NamedTuple):
    """An advanced index: a view, from which the index arrays gather.

    Attributes:
        basic: the index of the view.
        axes: the axes of the view along which the index arrays gather.
        start: the first axis of the result that belongs to the index arrays.
        arrays: the indices along each of the axes, broadcast to one shape, as from :func:`.take.kernel_indices`.
    """

    basic: tuple[Any, ...]
    axes: tuple[int, ...]
    start: int
    arrays: tuple[Any, ...]


def _joint(x: Array, parts: Sequence[Any]) -> _Joint:
    basic: list[Any] = []
    axes: list[int] = []
    arrays: list[Any] = []
    at = [i for i, part in enumerate(parts) if _advanced(part)]
    sizes = iter(x.shape)
    for part in parts:
        if part is Ellipsis:
            continue
        size = 1 if part is None or (_advanced(part) and part.new) else next(sizes)
        if not _advanced(part):
            basic.append(part)
            continue
        if part.size not in (None, 0, size):  # a mask of size 0 selects nothing, as in NumPy
            raise IndexError(f"a boolean index of size {part.size} does not match an axis of size {size}")
        basic.append(None if part.new else slice(None))
        axes.append(len(basic) - 1)
        data = on_device_of(x, part.data)
        single = len(at) == 1
        arrays.append(
            kernel_indices(data, size, x, "index", part.argument)
            if single
            else checked_indices(data, size, x, "index")
        )
    try:
        arrays = x.device.xp.broadcast_arrays(*arrays) if len(arrays) > 1 else arrays
    except ValueError:
        shapes = ", ".join(str(tuple(a.shape)) for a in arrays)
        raise IndexError(f"index arrays of shapes {shapes} do not broadcast") from None
    # The axes of the index arrays replace the indexed axes if those are adjacent, else they come first.
    start = axes[0] if at[-1] - at[0] == len(at) - 1 else 0
    return _Joint(tuple(basic), tuple(axes), start, tuple(arrays))


def _gathered(x: Array, parts: Sequence[Any]) -> Array:
    joint = _joint(x, parts)
    start, count = joint.start, len(joint.axes)
    whole = all(isinstance(part, slice) and part == slice(None) for part in joint.basic)
    part = x if whole else _basic(x, joint.basic)
    moved = moveaxis(part, joint.axes, tuple(range(start, start + count)))
    rows = _rows(moved.shape, joint)
    result = gather(reshape(moved, rows.sizes), rows.indices, *rows.sizes)
    return reshape(result, rows.shape)


@dataclass(frozen=True)
class Rows:
    """A part of an array that consists of complete rows.

    Attributes:
        indices: the index of each row along the indexed axes, which are flattened.
        sizes: the products of the sizes before, of, and after the indexed axes.
        shape: the shape of the part.
    """

    indices: Any
    sizes: tuple[int, int, int]
    shape: tuple[int, ...]


def _rows(shape: tuple[int, ...], joint: _Joint) -> Rows:
    """The rows of an array of ``shape`` whose indexed axes start at ``joint.start``."""
    start, end = joint.start, joint.start + len(joint.arrays)
    indices = joint.arrays[0]
    for size, array in zip(shape[start + 1 : end], joint.arrays[1:], strict=True):
        indices = indices * size + array
    sizes = (math.prod(shape[:start]), math.prod(shape[start:end]), math.prod(shape[end:]))
    # Kernels read contiguous indices.
    flat = indices if indices.ndim == 1 else indices.reshape(-1)
    flat = flat if flat.flags.c_contiguous else flat.copy()
    return Rows(flat, sizes, (*shape[:start], *indices.shape, *shape[end:]))


@on_device
def named(x: Array, key: Any) -> tuple[Any, ...] | Rows | None:
    """The key of a view, the rows of a gather, or None for a mixture of both."""
    parts = _parts(key, x)
    if not any(map(_advanced, parts)):
        return tuple(parts)
    parts = _picked(parts)
    # Indexing is a view followed by a gather; the gather takes rows if the view is all of the array.
    basic = [part for part in parts if not _advanced(part) and part is not Ellipsis]
    at = [i for i, part in enumerate(parts) if _advanced(part)]
    together = at[-1] - at[0] == len(at) - 1 and not any(parts[i].new for i in at)
    if not together or any(part != slice(None) for part in basic):
        return None
    return _rows(x.shape, _joint(x, parts))


def _writable(x: Array, value: Any, name: str) -> None:
    """Refuse a write that would be lost, or that a tape could not record."""
    arrays = [x, value] if isinstance(value, Array) else [x]
    if tape.recording(arrays) and not (writes.overwritable(x) and not tape.recording(arrays[1:])):
        what = "on an array" if tape.recording((x,)) else "of a value"
        raise GradientError(
            f"{name} {what} that a tape tracks: use x.at[key].set(value), which is a new array"
        )
    if repeated(x._data) or x._storage.constant:
        raise ValueError(f"{name} on a repeated view, such as broadcast_to's, or a constant: write to a copy")


def refuse_of_batch(name: str, *arguments: Any) -> None:
    """Refuse to write to, or by, arrays of a batch, of which the memory of one example is no part."""
    if levels and (level := level_of(pytree.leaves(arguments))) is not None:
        raise next(one for one in pytree.leaves(arguments) if level.holds(one))._written(name)


def _stacked(x: Array, value: Any) -> Any:
    """``value``; a list that contains arrays is stacked to one array, which a tape may track."""
    if isinstance(value, (list, tuple)) and holds_array(value):
        return asarray(value, device=x.device)
    return value


def _source(x: Array, value: Any) -> Array:
    """``value`` as an array of the dtype and device of ``x``."""
    if is_scalar(value):
        return asarray(convert_scalar(value, x.dtype), dtype=x.dtype, device=x.device)
    # As in NumPy, the items of a list are converted to the array's dtype, whose range must include them.
    listed = x.dtype if isinstance(value, (list, tuple)) else None
    return astype(asarray(value, listed, x.device), x.dtype, copy=False)


@public
def setitem(x: Array, key: Any, value: Any, /) -> None:
    """``x[key] = value``, with ``value`` broadcast; if an index is repeated, the last value wins.

    Raises:
        GradientError: a tape tracks ``x`` or ``value``.
        IndexError: the index does not fit the shape.
        OverflowError: a Python integer is out of the range of the dtype of ``x``.
        ValueError: ``value`` does not broadcast to the part, or ``x`` is a repeated view.
    """
    # On the host NumPy writes what needs no conversion, where nobody asks what is chosen.
    if traced_threads:
        if (active := trace()) is not None and active.assign(x, key, value):
            return
        about_to_write(x)
    layout, kind = x._layout or x._planned(), type(key)
    limits = layout.numbers.get(type(value))
    data: Any = None
    if not layout.on_host or watchers or modes or asked():
        pass
    elif limits is None:
        data = _data_beside(x, layout, value)
    elif limits[0] <= value <= limits[1] and not x._storage.constant:  # what takes_number says, sooner
        data = None if opened and tape.recording((x,)) else value
    if data is not None:
        at: Any = key
        if kind is int or kind is slice:
            # An array of one element is no number to NumPy.
            at = key if limits is not None else (key, ...)
        elif kind is Array or kind is np.ndarray:
            at = _host_indices(x, key) if layout.size < LARGE else None
        else:
            parts = key if kind is tuple else (key,)
            for part in parts:
                if type(part) is not int and type(part) not in _PLAIN:
                    at = _host_key(x, parts)
                    break
            else:
                at = parts if limits is not None or ... in parts else (*parts, ...)
        if at is not None:
            try:
                x._ndarray[at] = data
            except (IndexError, ValueError):
                pass  # the general path raises the error
            else:
                x._bump("setitem")
                return
    if limits is None or not _written_number(x, key, value):
        _setitem(x, key, value)


def _data_beside(x: Array, layout: Layout, value: Any) -> Any:
    """The ndarray of an array of the dtype of ``x`` that NumPy may write to a part of ``x``; None of other values."""
    kind = type(value)
    if kind is Array and value.device is layout.device and value._storage is not x._storage:
        data = value._ndarray
    elif kind is np.ndarray:
        data = value
    else:
        return None
    if data.dtype != layout.dtype or layout.repeated or x._storage.constant or layout.size >= LARGE:
        return None
    return None if opened and tape.recording((x, value) if kind is Array else (x,)) else data


#: Without the call of the method that finds them by name.
Array.__getitem__, Array.__setitem__ = getitem, setitem  # type: ignore[assignment, method-assign]


def _written_number(x: Array, key: Any, value: Any) -> bool:
    """Write a number that needs no conversion to a GPU's view of a basic index; return False in other cases."""
    layout, plain = x._planned(), _PLAIN.issuperset(map(type, key if type(key) is tuple else (key,)))
    if layout.on_host or not plain or not takes_number(x, value):
        return False
    try:
        with on(layout.device):
            x._data[key] = value
    except IndexError:
        return False  # the general path raises the error
    x._bump("setitem")
    return True


@on_device
def _setitem(x: Array, key: Any, value: Any) -> None:
    refuse_of_batch("x[key] = value", x, key, value)
    value = _stacked(x, value)
    _writable(x, value, "x[key] = value")
    part = named(x, key)
    if isinstance(part, Rows):
        _put(x, part.indices, part.sizes, part.shape, value, "x[key] = value")
    elif part is not None:
        source = _source(x, value)
        target = x._data[(*part, ...)]
        data = apart(x.device, source._data, target)
        if kernels_only.active() and data.ndim <= target.ndim:
            data = x.device.xp.broadcast_to(data, target.shape)
        if data.shape == target.shape:
            write(x.device, target, data)
        else:
            raw(x._data)[(*part, ...)] = raw(data)
        x._bump("setitem")
    else:
        with tape.stop_recording():
            numbers = Array._wrap(x.device.xp.arange(x.size, dtype=np.int64).reshape(x.shape), x.device)
            flat = getitem(numbers, key)._data
        put(x, flat, value, "x[key] = value")


def _few(shape: tuple[int, ...]) -> bool:
    """Whether the host writes so little that starting a kernel takes longer."""
    return math.prod(shape) <= 1 << 13


@by_numpy("x[few indices] = number", why="it starts sooner", refusals=())
def _written(data: Any, sizes: tuple[int, ...], indices: Any, number: Any) -> None:
    raw(data).reshape(sizes)[:, indices] = raw(np.array(number, data.dtype))


@on_device
def put(x: Array, indices: Any, value: Any, name: str) -> None:
    """Write ``value``, broadcast to the shape of ``indices``, to these indices of the flattened ``x``."""
    refuse_of_batch(name, x, indices, value)
    about_to_write(x)
    value = _stacked(x, value)
    _writable(x, value, name)
    _put(x, x.device.xp.ascontiguousarray(indices).reshape(-1), (1, x.size, 1), indices.shape, value, name)


def _put(
    x: Array, indices: Any, sizes: tuple[int, int, int], shape: tuple[int, ...], value: Any, name: str
) -> None:
    """Write ``value``, broadcast to ``shape``, to rows of ``x``, which has ``sizes``."""
    if is_scalar(value) and x.is_contiguous:
        number = convert_scalar(value, x.dtype)
        at, on_host = apart(x.device, indices, x._data), serial(x.device)
        done = on_host and _few(shape) and _written(x.device, x._data, sizes, at, number)
        if not done and x.itemsize <= 8 and not (on_host and allows_numpy(x.device)):
            put_number(x, at, number, *sizes)
            done = True
        if done:
            x._bump(name)
            return None
    source = _source(x, value)
    try:
        data = x.device.xp.broadcast_to(raw(source._data), shape)
    except ValueError:
        # As in NumPy, values may have additional axes of size 1.
        extra = source.ndim - len(shape)
        if extra <= 0 or any(n != 1 for n in source.shape[:extra]):
            raise ValueError(
                f"{name}: a value of shape {source.shape} does not broadcast to shape {shape}"
            ) from None
        return _put(x, indices, sizes, shape, reshape(source, source.shape[extra:]), name)
    if not data.size:
        return None
    # Kernels write rows of contiguous memory: a strided view is written through a copy.
    target = x._data if x.is_contiguous else x.device.xp.ascontiguousarray(raw(x._data)).view(x.dtype)
    values = apart(x.device, x.device.xp.ascontiguousarray(data).view(x.dtype), target)
    put_rows(Array._wrap(values, x.device), apart(x.device, indices, target), target, *sizes)
    if target is not x._data:
        raw(x._data)[...] = raw(target)
    x._bump(name)
    return None


@on_device
def replaced(x: Array, key: tuple[Any, ...], value: Array) -> Array:
    """A copy of ``x`` in which the view of a basic key is replaced by ``value`` of the same dtype."""
    with tape.stop_recording():
        result = astype(x, x.dtype)
        result = Array._wrap(result._data, x.device)
    write(x.device, result._data[(*key, ...)], value._data)

    def vjp(g: Array, needs: tuple[bool, ...]) -> tuple[Array | None, Array | None]:
        nothing = Array._wrap(zeros(x.device, value.shape, x.dtype), x.device)
        return replaced(g, key, nothing) if needs[0] else None, _basic(g, key) if needs[1] else None

    def again(tx: Array, tvalue: Array) -> Array:
        return replaced(tx, key, tvalue)

    return recorded_many("replace", (x, value), result, vjp, again)


@public
def put_along_axis(x: Array, /, indices: Array, values: Any, axis: int | None = -1) -> None:
    """Write ``values`` to indices along an axis, in place; if an index is repeated, the last value wins.

    Args:
        x: any array that no tape tracks; ``x.at`` returns a new array instead.
        indices: integers, as in :func:`take_along_axis`.
        values: broadcast with ``indices``.
        axis: the axis; None writes to the flattened array.

    Raises:
        GradientError: a tape tracks ``x``.
        IndexError: an index is out of range (on the host; on a GPU it is clipped).
        ValueError: the shapes do not fit.
    """
    about_to_write(require_written(x, "put_along_axis"))
    _put_along(x, indices, values, axis)


@on_device
def _put_along(x: Array, indices: Any, values: Any, axis: int | None) -> None:
    if axis is None:
        data = integers(indices, x, "put_along_axis")
        if data.ndim != 1:
            raise ValueError(
                f"put_along_axis: indices: expected one axis where axis is None, got {data.shape}"
            )
        put(x, kernel_indices(data, x.size, x, "put_along_axis"), values, "put_along_axis")
        return
    axis = normalize_axis(axis, x.ndim, "put_along_axis")
    wide, data = along_axis(x, indices, axis, "put_along_axis")
    if wide is not x:  # several indices write to one element
        key = [np.arange(n).reshape(-1, *(1,) * (x.ndim - i - 1)) for i, n in enumerate(x.shape)]
        setitem(x, (*key[:axis], Array._wrap(data, x.device), *key[axis + 1 :]), values)
        return
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    flat = picked_along(None, data, x.device, math.prod(before), x.shape[axis], math.prod(after))._data
    put(x, flat, values, "put_along_axis")
