"""Views, which share memory, and other linear functions that permute elements."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from functools import lru_cache, partial
from itertools import accumulate
from operator import itemgetter, methodcaller
from typing import Any, SupportsIndex

import numpy as np

from ..array import Array
from ..array.batched import Level
from ..array.creation import arange
from ..array.deferred import traced_threads
from ..array.layout import Layout
from ..array.mapping import mapped
from ..autodiff.state import opened
from ..elementwise.fuse import fuse
from ..elementwise.graph import Expr, NotFused
from ..elementwise.operands import (
    array_or_symbol,
    normalize_axes,
    normalize_axis,
    public,
    recorded,
    require_array,
    require_each,
    view,
)
from ..elementwise.table import where
from ..kernel.by_numpy import by_numpy
from ..kernel.strides import broadcast_shapes, collapse
from .copy import reshaped
from .known_views import Examples, known, recorded_by, viewed
from .remap import remap

Shape = SupportsIndex | Sequence[SupportsIndex]

__all__ = [
    "broadcast_arrays",
    "broadcast_to",
    "expand_dims",
    "flip",
    "matrix_transpose",
    "moveaxis",
    "permute_dims",
    "ravel",
    "reshape",
    "roll",
    "squeeze",
    "swapaxes",
    "transpose",
    "tril",
    "triu",
]

_INT = frozenset((int,))
_ROLL = by_numpy("roll")(np.roll)


def _sizes(shape: Shape | np.ndarray[Any, Any], name: str, argument: str = "shape") -> tuple[int, ...]:
    """An integer or several as a tuple.

    Raises:
        TypeError: they are not integers.
    """
    if type(shape) is tuple and _INT.issuperset(map(type, shape)):
        return shape
    try:
        several = isinstance(shape, (tuple, list)) or getattr(shape, "ndim", False)
        return tuple(map(operator.index, shape if several else (shape,)))  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{name}: {argument}: expected integers, got {shape!r}") from None


@public
def reshape(x: Array, /, shape: Shape, order: str = "C", *, copy: bool | None = None) -> Array:
    """The elements of ``x`` in another shape; a view if possible.

    Args:
        x: any array.
        shape: the sizes of the axes; one may be -1 and is then computed from the others.
        order: "F" reads and writes the elements with the first axis fastest instead of the last; "A" does so if the
            elements lie so in memory.
        copy: True always copies; False raises if a copy is needed.

    Raises:
        ValueError: the shape has another number of elements, or a copy is needed and ``copy`` is False.
    """
    if not isinstance(x, Array):
        x = array_or_symbol(x, "reshape")
    plain = type(shape) is tuple and _INT.issuperset(map(type, shape))
    given: Any = shape if plain else _sizes(shape, "reshape")
    key = ("reshape", *given)
    if order == "C" and not copy and (result := known(x, key)) is not None:
        return result
    sizes = _resolved(given, x.shape)
    if isinstance(x, Expr):
        if [n for n in x.shape if n != 1] != [n for n in sizes if n != 1]:
            raise NotFused(f"reshape of shape {x.shape} to {sizes}")
        return expand_dims(squeeze(x), tuple(i for i, n in enumerate(sizes) if n == 1))
    if order != "C" and _first_fastest(x, order):
        return transpose(reshape(transpose(x), sizes[::-1], copy=copy))
    shared = _is_view(x._layout or x._planned(), sizes)
    if copy is False and not shared:
        raise ValueError(f"reshape: shape {sizes} of these strides needs a copy, and copy is False")
    before = x.shape

    def again(t: Array) -> Array:
        return reshape(t, sizes)

    if not copy and shared:
        return viewed(x, methodcaller("reshape", sizes), lambda g: reshape(g, before), key, again)
    return recorded_by(
        x, reshaped(x, sizes), lambda g: reshape(g, before), ("reshape", "copied", *sizes), again
    )


def _first_fastest(x: Array, order: str) -> bool:
    """Whether an order other than "C" reads the first axis fastest."""
    if order not in ("c", "F", "f", "A", "a"):
        raise ValueError(f"reshape: order: expected 'C', 'F' or 'A', got {order!r}")
    return order in "Ff" or (order in "Aa" and x.flags.fnc)


def _resolved(sizes: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    """The target shape ``sizes`` for the elements of ``shape``, with -1 computed.

    Raises:
        ValueError: the numbers of elements differ.
    """
    count, known = math.prod(shape), math.prod(sizes)
    if known == count and min(sizes, default=0) >= 0:
        return sizes
    unknown = -known
    if sizes.count(-1) != 1 or min(sizes) < -1 or unknown == 0 or count % unknown:
        raise ValueError(f"reshape: an array of shape {shape} has no shape {sizes}")
    return tuple(count // unknown if n == -1 else n for n in sizes)


@lru_cache(maxsize=4096)
def _is_view(x: Layout, sizes: tuple[int, ...]) -> bool:
    """Whether the other shape is a view: each boundary between axes that are not contiguous must remain one."""
    if x.contiguous:
        return True
    steps = tuple(stride // x.dtype.itemsize for stride in x.strides)
    ends = set(accumulate(sizes, operator.mul, initial=1))
    return ends.issuperset(accumulate(collapse(x.shape, [steps]).shape, operator.mul, initial=1))


@public
def ravel(x: Array, /, order: str = "C") -> Array:
    """The elements of ``x`` as a contiguous vector, a view if possible.

    Args:
        x: any array.
        order: that of :func:`reshape`, or "K": the order of the elements in memory.
    """
    if order not in ("K", "k"):
        return reshape(x, (-1,), order).contiguous()
    x = require_array(x, "ravel")
    axes = sorted(range(x.ndim), key=lambda i: -abs(x.strides[i]))
    return reshape(permute_dims(x, tuple(axes)), (-1,)).contiguous()


@public
def permute_dims(x: Array, /, axes: Sequence[int]) -> Array:
    """A view with permuted axes: axis ``i`` is axis ``axes[i]`` of ``x``.

    Raises:
        ValueError: ``axes`` is not a permutation of the axes.
    """
    x = array_or_symbol(x, "permute_dims")
    key = ("permute_dims", *axes)
    if (result := known(x, key)) is not None:
        return result
    order = normalize_axes(tuple(axes), x.ndim, "permute_dims")
    if len(order) != x.ndim:
        raise ValueError(f"permute_dims: axes: expected a permutation of {x.ndim} axes, got {tuple(axes)}")
    if isinstance(x, Expr):
        return x.permuted(order)

    def inverse(g: Array) -> Array:
        return permute_dims(g, sorted(range(len(order)), key=order.__getitem__))

    return viewed(x, methodcaller("transpose", order), inverse, key, lambda t: permute_dims(t, order))


#: What names the view with the axes reversed.
_REVERSED = ("transpose",)


@public
def transpose(x: Array, /, axes: Sequence[int] | None = None) -> Array:
    """A view with the axes reversed, or in the order ``axes``.

    Raises:
        ValueError: ``axes`` is not a permutation of the axes.
    """
    if axes is None and type(x) is Array and not opened and not traced_threads and x.device.addressable:
        return view(x, x._data.T)
    x = array_or_symbol(x, "transpose")
    if axes is None and isinstance(x, Array):
        result = known(x, _REVERSED)
        if result is None:
            result = viewed(x, methodcaller("transpose"), transpose, _REVERSED, transpose)
        return result
    if axes is None:
        return permute_dims(x, tuple(range(x.ndim))[::-1])
    return permute_dims(x, (int(axes),) if isinstance(axes, (int, np.integer)) else axes)


@public
def matrix_transpose(x: Array, /) -> Array:
    """A view with the last two axes swapped.

    Raises:
        ValueError: ``x`` has fewer than two axes.
    """
    x = array_or_symbol(x, "matrix_transpose")
    if x.ndim < 2:
        raise ValueError(f"matrix_transpose: expected at least two axes, got shape {x.shape}")
    return swapaxes(x, -2, -1)


@public
def swapaxes(x: Array, /, axis1: int, axis2: int) -> Array:
    """A view with two axes swapped."""
    key = ("swapaxes", axis1, axis2)
    x = array_or_symbol(x, "swapaxes")
    if (result := known(x, key)) is not None:
        return result
    order = list(range(x.ndim))
    i, j = normalize_axis(axis1, x.ndim, "swapaxes"), normalize_axis(axis2, x.ndim, "swapaxes")
    order[i], order[j] = j, i

    def swapped(g: Array) -> Array:
        return swapaxes(g, i, j)

    return viewed(x, methodcaller("transpose", order), swapped, key, swapped)


@public
def moveaxis(x: Array, /, source: int | tuple[int, ...], destination: int | tuple[int, ...]) -> Array:
    """A view with axes moved to other positions; the others keep their order.

    Raises:
        ValueError: the numbers of sources and destinations differ.
    """
    x = array_or_symbol(x, "moveaxis")
    order = _moved if type(source) is type(destination) is int else _moved.__wrapped__
    return permute_dims(x, order(x.ndim, source, destination))


@lru_cache(maxsize=8192)
def _moved(ndim: int, source: Any, destination: Any) -> tuple[int, ...]:
    """The order of so many axes of which some are moved."""
    sources, targets = (normalize_axes(one, ndim, "moveaxis") for one in (source, destination))
    if len(sources) != len(targets):
        raise ValueError(
            f"moveaxis: expected as many destinations as sources, got {destination} and {source}"
        )
    order = [i for i in range(ndim) if i not in sources]
    for target, axis in sorted(zip(targets, sources, strict=True)):
        order.insert(target, axis)
    return tuple(order)


@public
def expand_dims(x: Array, /, axis: int | tuple[int, ...] = 0) -> Array:
    """A view with axes of size 1 inserted; ``axis`` has their positions in the result.

    Raises:
        AxisError: an axis is out of range.
    """
    x = array_or_symbol(x, "expand_dims")
    axes = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    key = ("expand_dims", *axes)
    if (result := known(x, key)) is not None:
        return result
    added = normalize_axes(axes, x.ndim + len(axes), "expand_dims")
    index = (*(None if i in added else slice(None) for i in range(x.ndim + len(added))), ...)
    return viewed(x, itemgetter(index), lambda g: squeeze(g, added), key, lambda t: expand_dims(t, added))


@public
def squeeze(x: Array, /, axis: int | tuple[int, ...] | None = None) -> Array:
    """A view without axes of size 1, either all or those in ``axis``.

    Raises:
        ValueError: a named axis has another size.
    """
    x = array_or_symbol(x, "squeeze")
    key = ("squeeze", *axis) if isinstance(axis, tuple) else ("squeeze", axis)
    if (result := known(x, key)) is not None:
        return result
    if axis is None:
        axes = tuple(i for i, n in enumerate(x.shape) if n == 1)
    else:
        axes = () if not x.ndim and axis in (0, -1) else normalize_axes(axis, x.ndim, "squeeze")
    if any(x.shape[i] != 1 for i in axes):
        raise ValueError(f"squeeze: axis {axis} of shape {x.shape} has a size other than 1")
    if isinstance(x, Expr):
        return x[tuple([0 if i in axes else slice(None) for i in range(x.ndim)])]
    take = methodcaller("squeeze", axes) if axes else methodcaller("view")
    return viewed(x, take, lambda g: expand_dims(g, axes), key, lambda t: squeeze(t, axes))


@public
def broadcast_to(x: Array, /, shape: Shape) -> Array:
    """A view of ``x`` broadcast to ``shape``, with stride 0 along the broadcast axes.

    Raises:
        ValueError: ``x`` does not broadcast to the shape.
    """
    x = array_or_symbol(x, "broadcast_to")
    sizes = _sizes(shape, "broadcast_to")
    key = ("broadcast_to", *sizes)
    if (result := known(x, key)) is not None:
        return result
    try:
        # The tape itself sums a gradient to the shape of its input.
        take = partial(_broadcast, sizes, getattr(x, "device", None))
        return viewed(x, take, lambda g: g, key, lambda t: broadcast_to(t, sizes))
    except ValueError:
        raise ValueError(f"broadcast_to: shape {x.shape} does not broadcast to {sizes}") from None


def _broadcast(shape: tuple[int, ...], device: Any, data: Any) -> Any:
    """The view of an ndarray or a symbol that is broadcast to a shape."""
    if isinstance(data, (Expr, Examples)):
        return data.broadcast(shape)
    return (np if isinstance(data, np.ndarray) else device.xp).broadcast_to(data, shape)


@public
def broadcast_arrays(*arrays: Array) -> tuple[Array, ...]:
    """Views of the arrays, broadcast to their common shape.

    Raises:
        ValueError: the shapes do not broadcast.
    """
    if not arrays:
        return ()
    result = require_each(arrays, "broadcast_arrays")
    shape = broadcast_shapes("broadcast_arrays", [x.shape for x in result])
    return tuple(broadcast_to(x, shape) for x in result)


@public
def flip(x: Array, /, axis: int | tuple[int, ...] | None = None) -> Array:
    """A view with the elements reversed along axes, by default along all."""
    x = array_or_symbol(x, "flip")
    axes = normalize_axes(axis, x.ndim, "flip")
    key = ("flip", *axes)
    if (result := known(x, key)) is not None:
        return result
    index = (*(slice(None, None, -1) if i in axes else slice(None) for i in range(x.ndim)), ...)

    def flipped(g: Array) -> Array:
        return flip(g, axes)

    return viewed(x, itemgetter(index), flipped, key, flipped)


@public
def roll(x: Array, /, shift: int | Sequence[int] | Array, axis: int | Sequence[int] | None = None) -> Array:
    """Shift elements cyclically along axes, or in the flattened array by default.

    Args:
        x: any array.
        shift: the number of positions, one for each axis or one for all; an array is read on the host.
        axis: the axis or axes; the shifts of a repeated axis add up.

    Raises:
        AxisError: an axis is out of range.
        ValueError: the numbers of shifts and axes differ.
    """
    x = require_array(x, "roll")
    shifts = _sizes(shift.numpy() if isinstance(shift, Array) else shift, "roll", "shift")
    one = axis is None or (type(axis) is int and len(shifts) == 1)
    if one and not traced_threads and (rolled := _ROLL(x, sum(shifts), axis)) is not None:
        return rolled
    if axis is None:
        flat = reshape(x, (-1,))
        total = sum(shifts)
        return reshape(_rolled(flat, (total,)), x.shape)
    axes = _sizes(axis, "roll", "axis")
    if len(axes) != len(shifts) and 1 not in (len(axes), len(shifts)):
        raise ValueError(f"roll: expected as many shifts as axes, got {shift} and {axis}")
    count = max(len(axes), len(shifts)) if axes and shifts else 0
    indices = [0] * x.ndim
    for i in range(count):
        dim = normalize_axis(axes[i % len(axes)], x.ndim, "roll")
        indices[dim] += shifts[i % len(shifts)]
    return _rolled(x, tuple(indices))


def _rolled_of_all(level: Level, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Array:
    x, shifts = args
    return _rolled(level.front(x), (0, *shifts))


@mapped(_rolled_of_all)
def _rolled(x: Array, shifts: tuple[int, ...]) -> Array:
    """``x`` shifted cyclically by a number of positions along each axis."""
    before = [shift % max(1, n) for shift, n in zip(shifts, x.shape, strict=True)]
    result = remap(x, x.shape, before, "wrap")
    back = tuple(-shift for shift in shifts)
    return recorded("roll", x, result, lambda g: _rolled(g, back), lambda t: _rolled(t, shifts))


@fuse(static=("lower",))
def _chosen(x: Any, rows: Any, columns: Any, k: int, lower: bool) -> Any:
    return where(rows + k >= columns, x, False) if lower else where(rows + k <= columns, x, False)


def _triangle(x: Array, k: int, name: str, lower: bool) -> Array:
    x = require_array(x, name)
    if not x.ndim:
        raise ValueError(f"{name}: expected at least one axis, got shape {x.shape}")
    if x.ndim == 1:  # as in NumPy, a vector is every row
        x = broadcast_to(x, (x.size, x.size))
    n, m = x.shape[-2:]
    rows, columns = arange(n, device=x.device), arange(m, device=x.device)
    return _chosen(x, expand_dims(rows, 1), columns, operator.index(k), lower)


@public
def tril(x: Array, /, k: int = 0) -> Array:
    """The elements on and below the ``k``-th diagonal of each matrix, zeros elsewhere; a vector is every row of one."""
    return _triangle(x, k, "tril", True)


@public
def triu(x: Array, /, k: int = 0) -> Array:
    """The elements on and above the ``k``-th diagonal of each matrix, zeros elsewhere; a vector is every row of one."""
    return _triangle(x, k, "triu", False)
