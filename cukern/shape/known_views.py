"""Views of GPU arrays by their layouts alone: what an earlier call found for the same layout and arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..array import Array
from ..array.layout import ALIGNMENT, Layout, layout
from ..autodiff import tape
from ..elementwise.operands import recorded, view
from ..kernel.plan import remember


class _View(NamedTuple):
    """A view of arrays of one layout: its layout, the bytes before it, and what a tape records."""

    layout: Layout
    offset: int
    operation: tape.Operation


_views: dict[tuple[Any, ...], _View] = {}
#: Of arguments that are equal only if they mean the same; True equals 1, and is none.
_PLAIN = frozenset((str, int, type(None)))


def known(x: Array, key: tuple[Any, ...]) -> Array | None:
    """The view of ``x`` for which :func:`viewed` got ``key`` for an array of this layout; else None."""
    if x.device.addressable or not _PLAIN.issuperset(map(type, key)):
        return None
    cached = _views.get((x._layout or x._planned(), *key))
    return None if cached is None else _seen(x, cached)


def _seen(x: Array, cached: _View) -> Array:
    result = x._seen(cached.layout, cached.offset)
    tracking = tape.tracked((x,))
    if tracking is not None:
        _, keys, tapes = tracking
        tape.record_tracked(cached.operation, keys, (result,), (), tapes)
    return result


_items: dict[tuple[Layout, int], list[Layout]] = {}


def items(x: Array, axis: int = 0) -> list[Array]:
    """The items of ``x`` along an axis: views, which tapes do not record."""
    own = x._layout or x._planned()
    if own.on_host or min(own.strides) < 0:
        whole = (slice(None),) * axis
        return [view(x, x._data[(*whole, i, ...)]) for i in range(own.shape[axis])]
    step = own.strides[axis]
    layouts = _items.get((own, axis))
    if layouts is None:
        shape, strides = ((*one[:axis], *one[axis + 1 :]) for one in (own.shape, own.strides))
        aligned = [own.aligned and i * step % ALIGNMENT == 0 for i in range(own.shape[axis])]
        result = [layout(x.device, own.dtype, shape, strides, each) for each in aligned]
        layouts = remember(_items, (own, axis), result)
    return [x._seen(one, i * step) for i, one in enumerate(layouts)]


def viewed(x: Array, data: Any, vjp: Callable[[Array], Array | None], key: tuple[Any, ...]) -> Array:
    """The view ``data`` of ``x``, recorded as a linear function of it.

    Args:
        x: any array.
        data: a view of its ndarray.
        vjp: the cotangent of ``x`` from that of the view.
        key: the function's name and arguments, strings, integers and None, from which both follow for the layout of
            ``x``.
    """
    backwards = min(data.strides, default=0) < 0
    if x.device.addressable or backwards or not _PLAIN.issuperset(map(type, key)):
        return recorded(key[0], x, view(x, data), vjp)
    own = x._layout or x._planned()
    offset = x.device.backend.operand(data) - x._operand
    aligned = own.aligned and offset % ALIGNMENT == 0
    result = layout(x.device, data.dtype, data.shape, data.strides, aligned)

    def pull(cotangents: Any, saved: object, needs: object) -> tuple[Array | None]:
        return (vjp(cotangents[0]),)

    cached = _View(result, offset, tape.Operation(key[0], (own,), (result,), pull))
    return _seen(x, remember(_views, (own, *key), cached))
