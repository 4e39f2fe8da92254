"""Arrays that are zero but at basic indices: the derivatives of views."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..array import Array
from ..array.batched import Level
from ..array.layout import Layout, fresh_layout
from ..array.mapping import mapped
from ..autodiff import tape
from ..elementwise.operands import recorded
from ..kernel.plan import zeroed
from ..shape.copy import write
from ..shape.joins import put_together
from ..shape.views import expand_dims

#: Where a view is in an array: its basic index, and the array's layout.
Place = tuple[tuple[Any, ...], Layout]


def _of_all(level: Level, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Array:
    """The rule of :func:`assembled`."""
    parts, places = args
    wholes = [level.front(part) for part in parts]
    like = places[0][1]
    whole = fresh_layout(like.device, like.dtype, (level.size, *like.shape))
    return assembled(wholes, [((slice(None), *key), whole) for key, _ in places])


@mapped(_of_all)
def assembled(parts: Sequence[Array], places: Sequence[Place]) -> Array:
    """Zeros to which ``parts`` are added at basic indices: the derivative of views of one array.

    Args:
        parts: the cotangents of the views.
        places: where they are in the array, in whose memory order the result is.
    """
    if len(parts) == 1:
        return _embedded(parts[0], places[0])
    keys, like = [key for key, _ in places], places[0][1]
    shape = like.shape
    spans = [_span(key, shape) for key in keys]
    order = sorted(range(len(parts)), key=lambda i: spans[i])
    axis, starts = spans[0][0], [spans[i][1] for i in order]
    ends, alike = [spans[i][2] for i in order], all(span[0] == axis for span in spans)
    if axis >= 0 and alike and [*starts, shape[axis]] == [0, *ends]:
        pieces = [parts[i] for i in order]
        items = all(one.ndim < len(shape) for one in pieces)
        if not items:
            pieces = [one if one.ndim == len(shape) else expand_dims(one, axis) for one in pieces]
        spots: Sequence[Any] = starts if items else [slice(*one) for one in zip(starts, ends, strict=True)]
        placed = [(*(slice(None),) * axis, place) for place in spots]
        return put_together("concat", pieces, placed, like, axis)
    result = _embedded(parts[0], places[0])
    for part, place in zip(parts[1:], places[1:], strict=True):
        if tape.recording(parts):
            result = result + _embedded(part, place)
        else:
            view = result[place[0]]
            view += part
    return result


def covers(key: tuple[Any, ...], shape: tuple[int, ...]) -> bool:
    """Whether the view at a basic index has all elements of an array in their order."""
    sizes = iter(shape)
    whole = (
        part is None
        or (part.indices(n := next(sizes)) == (0, n, 1) if isinstance(part, slice) else next(sizes) == 1)
        for part in key
    )
    return all(whole)


def _span(key: tuple[Any, ...], shape: tuple[int, ...]) -> tuple[int, int, int]:
    """The axis along which a basic index is less than the whole, and where it starts and ends there; (-1, -1, -1) if it
    has steps or new axes, or there is not one such axis."""
    found, nothing = [], (-1, -1, -1)
    for axis, (part, size) in enumerate(zip(key, shape, strict=False)):
        if part is None:
            return nothing
        start, end, step = (
            part.indices(size) if isinstance(part, slice) else (part % size, part % size + 1, 1)
        )
        if step != 1:
            return nothing
        if (start, end) != (0, size) or not isinstance(part, slice):
            found.append((axis, start, end))
    return found[0] if len(found) == 1 and None not in key else nothing


def _embedded(g: Array, place: Place) -> Array:
    """Zeros with ``g`` at an index: the derivative of a view."""
    key, like = place
    with g.device.activate():
        result = zeroed(fresh_layout(g.device, g.dtype, like.shape, like.order))
        write(g.device, result._data[(*key, ...)], g._data)
    return recorded("embed", g, result, lambda gg: gg[key])
