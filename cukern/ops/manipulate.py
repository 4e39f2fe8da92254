"""Shapes: views, which share memory, and arrays joined and taken apart. Everything here is linear."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import SupportsIndex

from .. import dtypes
from ..arguments import address
from ..array import Array
from ..errors import DeviceError
from ..table import where
from .axes import (
    normalize_axes,
    normalize_axis,
    on_device,
    public,
    recorded,
    recorded_many,
    require_array,
    view,
)
from .elementwise import astype
from .launch import broadcast_shapes, raw

Shape = SupportsIndex | Sequence[SupportsIndex]

__all__ = [
    "broadcast_arrays",
    "broadcast_to",
    "concat",
    "expand_dims",
    "flip",
    "matrix_transpose",
    "moveaxis",
    "permute_dims",
    "ravel",
    "reshape",
    "roll",
    "split",
    "squeeze",
    "stack",
    "swapaxes",
    "transpose",
    "tril",
    "triu",
    "unstack",
]


def _sizes(shape: Shape, name: str) -> tuple[int, ...]:
    if isinstance(shape, (tuple, list)):
        return tuple(operator.index(n) for n in shape)
    try:
        return (operator.index(shape),)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{name}: shape: expected integers, got {shape!r}") from None


@public
@on_device
def reshape(x: Array, /, shape: Shape, *, copy: bool | None = None) -> Array:
    """The elements of ``x`` in C order in another shape; a view where that needs no copy.

    Args:
        x: any array.
        shape: the sizes of the axes; one may be -1, which follows from the others.
        copy: True copies always; False raises where a copy is needed.

    Raises:
        ValueError: the shape has another number of elements, or needs a copy that ``copy`` forbids.
    """
    require_array(x, "reshape")
    sizes = _sizes(shape, "reshape")
    try:
        data = x._data.reshape(sizes)
    except ValueError:
        raise ValueError(f"reshape: an array of shape {x.shape} has no shape {sizes}") from None
    shared = x.is_contiguous or address(data) == address(x._data)
    if copy is False and not shared:
        raise ValueError(f"reshape: shape {sizes} of these strides needs a copy, and copy is False")
    if copy and shared:
        data, shared = data.copy(), False
    made = view(x, data) if shared else Array._wrap(data, x.device)
    before = x.shape
    return recorded("reshape", x, made, lambda g: reshape(g, before))


@public
def ravel(x: Array, /) -> Array:
    """The elements of ``x`` in C order along one axis."""
    return reshape(x, (-1,))


@public
def permute_dims(x: Array, /, axes: Sequence[int]) -> Array:
    """A view with the axes in another order: axis ``i`` is axis ``axes[i]`` of ``x``.

    Raises:
        ValueError: ``axes`` is not a permutation of the axes.
    """
    require_array(x, "permute_dims")
    order = normalize_axes(tuple(axes), x.ndim, "permute_dims")
    if len(order) != x.ndim:
        raise ValueError(f"permute_dims: axes: expected a permutation of {x.ndim} axes, got {tuple(axes)}")
    back = tuple(sorted(range(x.ndim), key=order.__getitem__))
    return recorded("permute_dims", x, view(x, x._data.transpose(order)), lambda g: permute_dims(g, back))


@public
def transpose(x: Array, /, axes: Sequence[int] | None = None) -> Array:
    """A view with the axes reversed, or in the order ``axes``."""
    require_array(x, "transpose")
    return permute_dims(x, tuple(range(x.ndim))[::-1] if axes is None else axes)


@public
def matrix_transpose(x: Array, /) -> Array:
    """A view with the last two axes exchanged.

    Raises:
        ValueError: ``x`` has fewer than two axes.
    """
    if require_array(x, "matrix_transpose").ndim < 2:
        raise ValueError(f"matrix_transpose: expected at least two axes, got shape {x.shape}")
    return swapaxes(x, -2, -1)


@public
def swapaxes(x: Array, /, axis1: int, axis2: int) -> Array:
    """A view with two axes exchanged."""
    require_array(x, "swapaxes")
    order = list(range(x.ndim))
    i, j = normalize_axis(axis1, x.ndim, "swapaxes"), normalize_axis(axis2, x.ndim, "swapaxes")
    order[i], order[j] = j, i
    return permute_dims(x, order)


@public
def moveaxis(x: Array, source: int | tuple[int, ...], destination: int | tuple[int, ...], /) -> Array:
    """A view with axes moved to other places, the others in their order.

    Raises:
        ValueError: as many sources as destinations are needed.
    """
    require_array(x, "moveaxis")
    sources = normalize_axes(source, x.ndim, "moveaxis")
    targets = normalize_axes(destination, x.ndim, "moveaxis")
    if len(sources) != len(targets):
        raise ValueError(
            f"moveaxis: expected as many destinations as sources, got {destination} and {source}"
        )
    order = [i for i in range(x.ndim) if i not in sources]
    for target, axis in sorted(zip(targets, sources, strict=True)):
        order.insert(target, axis)
    return permute_dims(x, order)


@public
def expand_dims(x: Array, /, axis: int | tuple[int, ...] = 0) -> Array:
    """A view with axes of size 1 inserted, where they will stand in the result.

    Raises:
        AxisError: an axis is out of range.
    """
    require_array(x, "expand_dims")
    axes = axis if isinstance(axis, tuple) else (axis,)
    places = normalize_axes(axes, x.ndim + len(axes), "expand_dims")
    sizes = list(x.shape)
    for place in sorted(places):
        sizes.insert(place, 1)
    return reshape(x, tuple(sizes)) if x.is_contiguous else _expanded(x, places)


def _expanded(x: Array, places: tuple[int, ...]) -> Array:
    key = tuple(None if i in places else slice(None) for i in range(x.ndim + len(places)))
    return recorded("expand_dims", x, view(x, x._data[(*key, ...)]), lambda g: squeeze(g, places))


@public
def squeeze(x: Array, /, axis: int | tuple[int, ...] | None = None) -> Array:
    """A view without axes of size 1: those named, or all.

    Raises:
        ValueError: a named axis has another size.
    """
    require_array(x, "squeeze")
    if axis is None:
        axes = tuple(i for i, n in enumerate(x.shape) if n == 1)
    else:
        axes = normalize_axes(axis, x.ndim, "squeeze")
    if any(x.shape[i] != 1 for i in axes):
        raise ValueError(f"squeeze: axis {axis} of shape {x.shape} has a size other than 1")
    data = x._data.squeeze(axes) if axes else x._data.view()
    return recorded("squeeze", x, view(x, data), lambda g: expand_dims(g, axes))


@public
def broadcast_to(x: Array, /, shape: Shape) -> Array:
    """A view of ``x`` repeated to a shape, with steps of 0 along the repeated axes.

    Raises:
        ValueError: ``x`` does not broadcast to the shape.
    """
    require_array(x, "broadcast_to")
    sizes = _sizes(shape, "broadcast_to")
    try:
        data = x.device.xp.broadcast_to(x._data, sizes)
    except ValueError:
        raise ValueError(f"broadcast_to: shape {x.shape} does not broadcast to {sizes}") from None
    # The tape sums a gradient to the shape of its input.
    return recorded("broadcast_to", x, view(x, data), lambda g: g)


@public
def broadcast_arrays(*arrays: Array) -> tuple[Array, ...]:
    """Views of the arrays in the shape that all broadcast to.

    Raises:
        ValueError: the shapes do not broadcast.
    """
    if not arrays:
        return ()
    shape = broadcast_shapes("broadcast_arrays", [require_array(x, "broadcast_arrays").shape for x in arrays])
    return tuple(broadcast_to(x, shape) for x in arrays)


@public
def flip(x: Array, /, axis: int | tuple[int, ...] | None = None) -> Array:
    """A view with the elements in reverse order along axes, all by default."""
    require_array(x, "flip")
    axes = normalize_axes(axis, x.ndim, "flip")
    key = tuple(slice(None, None, -1) if i in axes else slice(None) for i in range(x.ndim))
    return recorded("flip", x, view(x, x._data[(*key, ...)]), lambda g: flip(g, axes))


@public
@on_device
def roll(x: Array, /, shift: int | tuple[int, ...], axis: int | tuple[int, ...] | None = None) -> Array:
    """The elements moved along axes, in a circle; along the flattened array by default."""
    require_array(x, "roll")
    back = tuple(-s for s in shift) if isinstance(shift, tuple) else -shift
    made = Array._wrap(x.device.xp.roll(raw(x._data), shift, axis).view(x.dtype), x.device)
    return recorded("roll", x, made, lambda g: roll(g, back, axis))


def _joinable(arrays: Sequence[Array], name: str) -> list[Array]:
    """The arrays in their common dtype, on one device.

    Raises:
        ValueError: there is none.
        DeviceError: they are on different devices.
    """
    if not arrays:
        raise ValueError(f"{name}: expected at least one array")
    for x in arrays:
        if require_array(x, name).device is not arrays[0].device:
            raise DeviceError(f"{name}: expected arrays on one device, got {arrays[0].device} and {x.device}")
    dtype = dtypes.result_type(*(x.dtype for x in arrays))
    return [astype(x, dtype, copy=False) for x in arrays]


@public
def concat(arrays: Sequence[Array], /, *, axis: int | None = 0) -> Array:
    """The arrays joined along an axis that they have; flattened first if ``axis`` is None.

    Raises:
        ValueError: no array, or sizes that differ along another axis.
    """
    joined = _joinable(arrays, "concat")
    if axis is None:
        joined, axis = [ravel(x) for x in joined], 0
    place = normalize_axis(axis, joined[0].ndim, "concat")
    shapes = [x.shape for x in joined]
    if any(len(s) != len(shapes[0]) or _without(s, place) != _without(shapes[0], place) for s in shapes):
        raise ValueError(
            f"concat: shapes {', '.join(map(str, shapes))} differ along an axis other than {place}"
        )
    xp = joined[0].device.xp
    with joined[0].device.activate():
        data = xp.concatenate([raw(x._data) for x in joined], axis=place).view(joined[0].dtype)
    made = Array._wrap(data, joined[0].device)
    ends = [0]
    for shape in shapes:
        ends.append(ends[-1] + shape[place])

    def vjp(g: Array, needs: tuple[bool, ...]) -> list[Array | None]:
        return [_part(g, place, ends[i], ends[i + 1]) if need else None for i, need in enumerate(needs)]

    return recorded_many("concat", joined, made, vjp)


def _without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return shape[:axis] + shape[axis + 1 :]


def _part(x: Array, axis: int, start: int, end: int) -> Array:
    """The elements from ``start`` to ``end`` along an axis, a view."""
    part: Array = x[(slice(None),) * axis + (slice(start, end),)]
    return part


@public
def stack(arrays: Sequence[Array], /, *, axis: int = 0) -> Array:
    """Arrays of one shape joined along a new axis.

    Raises:
        ValueError: no array, or different shapes.
    """
    joined = _joinable(arrays, "stack")
    if any(x.shape != joined[0].shape for x in joined):
        raise ValueError(f"stack: expected one shape, got {', '.join(str(x.shape) for x in joined)}")
    place = normalize_axis(axis, joined[0].ndim + 1, "stack")
    return concat([expand_dims(x, place) for x in joined], axis=place)


@public
def unstack(x: Array, /, *, axis: int = 0) -> tuple[Array, ...]:
    """The views of ``x`` at each place along an axis."""
    place = normalize_axis(axis, require_array(x, "unstack").ndim, "unstack")
    return tuple(squeeze(_part(x, place, i, i + 1), place) for i in range(x.shape[place]))


@public
def split(x: Array, /, indices_or_sections: int | Sequence[int], axis: int = 0) -> list[Array]:
    """Views of ``x`` cut along an axis: into equal parts, or before each of the given places.

    Raises:
        ValueError: the axis has no such number of equal parts.
    """
    place = normalize_axis(axis, require_array(x, "split").ndim, "split")
    size = x.shape[place]
    if isinstance(indices_or_sections, int):
        sections = indices_or_sections
        if sections < 1 or size % sections:
            raise ValueError(f"split: an axis of size {size} has no {sections} equal parts")
        ends = [size // sections * i for i in range(1, sections)]
    else:
        ends = [min(max(e + size if e < 0 else e, 0), size) for e in map(operator.index, indices_or_sections)]
    starts = [0, *ends]
    return [_part(x, place, a, max(a, b)) for a, b in zip(starts, [*ends, size], strict=True)]


def _triangle(x: Array, k: int, name: str, lower: bool) -> Array:
    if require_array(x, name).ndim < 2:
        raise ValueError(f"{name}: expected at least two axes, got shape {x.shape}")
    xp = x.device.xp
    with x.device.activate():
        below = xp.tri(*x.shape[-2:], k if lower else k - 1, dtype=bool)
    zero = False if x.dtype == dtypes.bool_ else 0
    mask = Array._wrap(below, x.device)
    return where(mask, x, zero) if lower else where(mask, zero, x)


@public
def tril(x: Array, /, *, k: int = 0) -> Array:
    """The elements on and below the ``k``-th diagonal of each matrix, zeros elsewhere."""
    return _triangle(x, k, "tril", True)


@public
def triu(x: Array, /, *, k: int = 0) -> Array:
    """The elements on and above the ``k``-th diagonal of each matrix, zeros elsewhere."""
    return _triangle(x, k, "triu", False)
